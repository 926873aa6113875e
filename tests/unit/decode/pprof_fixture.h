/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of another program's pprof profile, as bytes written by hand. An id is not the index of its
 * entry in the table. */
#ifndef MEMTRACE_TESTS_DECODE_PPROF_FIXTURE_H
#define MEMTRACE_TESTS_DECODE_PPROF_FIXTURE_H

#define TYPES                                                                                      \
	"\x0a\x04\x08\x01\x10\x02"                                                                 \
	"\x0a\x04\x08\x03\x10\x04" /* inuse_objects, inuse_space */
#define STRINGS                                                                                    \
	"\x32\x00"                                                                                 \
	"\x32\x0d"                                                                                 \
	"inuse_objects"                                                                            \
	"\x32\x05"                                                                                 \
	"count"                                                                                    \
	"\x32\x0b"                                                                                 \
	"inuse_space"                                                                              \
	"\x32\x05"                                                                                 \
	"bytes"                                                                                    \
	"\x32\x05"                                                                                 \
	"space"                                                                                    \
	"\x32\x06"                                                                                 \
	"main.f"                                                                                   \
	"\x32\x04"                                                                                 \
	"x.go"                                                                                     \
	"\x32\x09"                                                                                 \
	"/bin/prog"                                                                                \
	"\x32\x04"                                                                                 \
	"beef"                                                                                     \
	"\x32\x06"                                                                                 \
	"main.g"                                                                                   \
	"\x32\x06"                                                                                 \
	"thread"                                                                                   \
	"\x32\x03"                                                                                 \
	"one"
#define PERIOD                                                                                     \
	"\x5a\x04\x08\x05\x10\x04"                                                                 \
	"\x60\x80\x80\x20" /* space/bytes, 524288 */
#define TABLES                                                                                     \
	"\x1a\x0e\x08\x05\x10\x80\x20\x18\x80\x40\x28\x08\x30\x09\x38\x01"     /* mapping 5 */     \
	"\x22\x0f\x08\x2a\x10\x05\x18\x90\x20\x22\x06\x08\x64\x10\x90\x80\x01" /* 42: f */         \
	"\x22\x12\x08\x2b\x10\x05\x18\xa0\x20\x22\x04\x08\x64\x10"                                 \
	"\x02\x22\x03\x08\xc8\x01"	       /* 43 */                                            \
	"\x22\x07\x08\x2c\x10\x05\x18\xb0\x20" /* 44: 0x1030 */                                    \
	"\x2a\x06\x08\x64\x10\x06\x20\x07"     /* function 100: main.f */                          \
	"\x2a\x05\x08\xc8\x01\x10\x0a"	       /* function 200: main.g */

/* TYPES followed by these bytes is a valid profile. Samples may be added at its end. */
#define GOOD TABLES PERIOD STRINGS

#endif
