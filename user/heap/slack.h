/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts what the resident pages of given ranges hold: blocks in use, free pages, free blocks
 * between blocks in use. The ranges are the mappings that count as the heap in the resident set. So
 * each count is a part of this heap: profile/resident.h has the formula. */
#ifndef MEMTRACE_HEAP_SLACK_H
#define MEMTRACE_HEAP_SLACK_H

#include <stddef.h>
#include <stdint.h>

#include "heap/blocks.h"
#include "heap/image.h"

struct slack {
	struct image *image;
	const struct heap_range *ranges; /* ascending; they do not overlap */
	size_t n_ranges;
	struct heap_slack *sum; /* slack__add_span() adds to all its members but `cached` */
};

/* Adds a span. live: for each page of the span, the bytes of blocks in use. */
void slack__add_span(const struct slack *slack, const struct span *span, const uint16_t *live);

#endif
