/* SPDX-License-Identifier: BSD-2-Clause */
/* A cache of what one binary's DWARF says, so that DWARF is read only once for each address. A
 * program may be run a thousand times with the same addresses, and each reading of DWARF needs a
 * child process. */
#ifndef MEMTRACE_SYMBOLIZE_LINES_H
#define MEMTRACE_SYMBOLIZE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolize/dwarf.h"

/* All zeros: DWARF was not asked yet. */
struct lines {
	uint64_t *vaddrs;	     /* ascending */
	struct dwarf_frames *frames; /* one per address; owned */
	size_t n;
	size_t bytes; /* bytes of memory of all answers */
};

/* Returns the answer for an address. It may be empty: then its `n` is 0. NULL: DWARF was not asked
 * about the address yet. */
const struct dwarf_frames *lines__find(const struct lines *lines, uint64_t vaddr);

/* Adds the answers frames[i] for the addresses vaddrs[i], which are ascending and not in `lines`
 * yet. Takes ownership of the answers, and leaves each frames[i] empty. only_found: empty answers
 * are dropped, not added. 0; -ENOMEM: the answers still belong to the caller. */
int lines__add(struct lines *lines, const uint64_t *vaddrs, struct dwarf_frames *frames, size_t n,
	       bool only_found);

void lines__clear(struct lines *lines);

#endif
