/* SPDX-License-Identifier: BSD-2-Clause */
/* What one binary's DWARF has said, so that it is asked of each address once: the same program run
 * a thousand times has the same functions inlined, and to ask takes a child of its own each
 * time. */
#ifndef MEMTRACE_SYMBOLIZE_LINES_H
#define MEMTRACE_SYMBOLIZE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolize/dwarf.h"

/* All zero: nothing was asked. */
struct lines {
	uint64_t *vaddrs;	     /* ascending */
	struct dwarf_frames *frames; /* of each; owned */
	size_t n;
	size_t bytes; /* memory of all this */
};

/* What was said of an address, which may be nothing (n 0). NULL: it was not asked. */
const struct dwarf_frames *lines__find(const struct lines *lines, uint64_t vaddr);

/* Takes in answers (frames[i] on vaddrs[i], ascending, none of them known) and takes them over,
 * leaving frames empty. only_found: not those that say nothing, which are freed. 0 or -ENOMEM:
 * frames are the caller's still. */
int lines__add(struct lines *lines, const uint64_t *vaddrs, struct dwarf_frames *frames, size_t n,
	       bool only_found);

void lines__clear(struct lines *lines);

#endif
