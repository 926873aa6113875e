/* SPDX-License-Identifier: BSD-2-Clause */
/* Turns addresses into names. A missing name does not make a profile fail: the frame says why it
 * has no name. */
#ifndef MEMTRACE_SYMBOLIZE_SYMBOLIZE_H
#define MEMTRACE_SYMBOLIZE_SYMBOLIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "elf/binary.h"
#include "profile/profile.h"
#include "sandbox/stream.h"
#include "symbolize/perf_map.h"

#define SYMBOLS_DEFAULT_BYTES (256ULL << 20)
#define LINES_DEFAULT_S	      120
#define SYMBOLIZE_SHARE	      0.05

struct symbolize_options {
	bool raw_names; /* names stay as the linker has them: names of C++ and Rust are not
			 * demangled */
	bool no_lines;	/* leave inlined functions, files and lines out */
	/* seconds that may be used at once for reading inlined functions, files and lines, for all
	 * ELF files together; 0: LINES_DEFAULT_S */
	double lines_s;
	/* seconds that may be used at once for ELF files whose symbols cannot be read; after that,
	 * each further file gets 1 s; 0: 120 */
	double failing_s;
	/* lines_s and failing_s limit the seconds that are used at once. In the long run, each of
	 * these two kinds of reading may use this share of the time; 0: SYMBOLIZE_SHARE. */
	double share;
	/* called while symbols are read; fn NULL: nothing is called */
	struct stream_waiting waiting;
	uint64_t max_bytes; /* most bytes of symbol tables in memory; 0: SYMBOLS_DEFAULT_BYTES.
			     * The table in use stays, however large */
};

/* Names frames that are not addresses of code. fn returns 0 (ret->name NULL: the name is not
 * known); -ENOENT: addr is an address of code; -ENOMEM. The caller frees the strings in *ret. */
struct frame_namer {
	int (*fn)(void *ctx, uint64_t addr, struct profile_frame *ret);
	void *ctx;
};

/* A cache of symbol tables, one per binary, shared by all profiles that are symbolized with it. A
 * table is read when an address first needs it. When the tables take too much memory, the least
 * recently used ones are dropped. */
struct symbolizer;

/* The caller keeps binaries, which must outlive the symbolizer. 0 or -ENOMEM. */
int symbolizer__new(const struct symbolize_options *options, const struct binaries *binaries,
		    struct symbolizer **ret_symbolizer);
void symbolizer__free(struct symbolizer *symbolizer);

/* Forgets all names of the binary that has, or had, this index. */
void symbolizer__forget(struct symbolizer *symbolizer, size_t index);

/* Fills in the frames and the reason of every location, and the build_id of the locations'
 * mappings. Reads only files that are in binaries and that a location needs. jit: the process's own
 * names for code outside files, or NULL. namer: names the frames of an interpreter, or NULL. Adds
 * two counts to the profile's losses. "debug_info_failed" is the number of files whose debug
 * information could not be read, for example because it was broken or took too long. Inlined
 * functions of these files may be missing. A later profile may have these functions.
 * "names_left_mangled" is the number of frames whose names were not demangled, because this would
 * have taken too long. 0 or -ENOMEM. */
int symbolizer__symbolize(struct symbolizer *symbolizer, struct profile *profile,
			  const struct perf_map *jit, const struct frame_namer *namer);

#endif
