/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses -> names. Never fails a profile: a frame without a name says why. */
#ifndef MEMTRACE_SYMBOLIZE_SYMBOLIZE_H
#define MEMTRACE_SYMBOLIZE_SYMBOLIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "elf/binary.h"
#include "profile/profile.h"
#include "symbolize/perf_map.h"
#include "symbolize/stream.h"

#define SYMBOLS_DEFAULT_BYTES (256ULL << 20)
#define LINES_DEFAULT_S	      120

struct symbolize_options {
	bool raw_names;		       /* linkers' names: C++ and Rust are not demangled */
	bool no_lines;		       /* leave inlined functions, files and lines out */
	double lines_s;		       /* what reading them may take in all; 0: LINES_DEFAULT_S */
	struct stream_waiting waiting; /* called meanwhile; fn NULL: nobody */
	uint64_t max_bytes; /* of symbol tables to hold at a time; 0: SYMBOLS_DEFAULT_BYTES. The one
			     * in use stays, however large */
};

/* A cache of symbol tables, one per binary, shared by all profiles that are symbolized with it. A
 * table is read when an address first needs it; the one that was not used for longest goes first.
 */
struct symbolizer;

/* binaries stays the caller's and must outlive it. 0 or -ENOMEM. */
int symbolizer__new(const struct symbolize_options *options, const struct binaries *binaries,
		    struct symbolizer **ret_symbolizer);
void symbolizer__free(struct symbolizer *symbolizer);

/* Fills in the frames and the reason of every location, and build_id of the mappings they lie in.
 * Only the files among the binaries are read, and only those that a location needs. jit: what the
 * process says of code that lies in no file, or NULL. The count "debug_info_failed" is added to the
 * profile's losses: files whose debug information broke or took too long, so that inlined functions
 * may be missing. 0 or -ENOMEM. */
int symbolizer__symbolize(struct symbolizer *symbolizer, struct profile *profile,
			  const struct perf_map *jit);

#endif
