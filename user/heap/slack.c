// SPDX-License-Identifier: BSD-2-Clause
#include "heap/slack.h"

#include "base/search.h"

struct adding {
	const struct slack *slack;
	const struct span *span;
	const uint16_t *live;
};

/* Finds the first run of resident pages in [start, end) that lies in one of the ranges. */
static bool next_run(const struct slack *s, uint64_t start, uint64_t end, uint64_t *ret_start,
		     uint64_t *ret_end)
{
	size_t i = SEARCH_FIRST(k, s->n_ranges, s->ranges[k].end > start);

	for (; i < s->n_ranges && s->ranges[i].start < end; i++) {
		uint64_t from = s->ranges[i].start > start ? s->ranges[i].start : start;
		uint64_t to = s->ranges[i].end < end ? s->ranges[i].end : end;

		if (image__run(s->image, from, to, ret_start, ret_end))
			return true;
	}
	return false;
}

static uint64_t live_on(const struct adding *a, uint64_t page)
{
	return a->live[(page - a->span->start) / HEAP_PAGE];
}

static int add_free(const struct block *block, void *ctx)
{
	const struct adding *a = ctx;
	struct heap_slack *sum = a->slack->sum;
	uint64_t end = block->start + block->size, page = block->start & ~(HEAP_PAGE - 1);
	uint64_t past = (end + HEAP_PAGE - 1) & ~(HEAP_PAGE - 1), stop;

	if (block->in_use)
		return 0;
	for (; next_run(a->slack, page, past, &page, &stop); page = stop)
		for (; page < stop; page += HEAP_PAGE) {
			uint64_t from = page > block->start ? page : block->start;
			uint64_t to = page + HEAP_PAGE < end ? page + HEAP_PAGE : end;

			if (live_on(a, page))
				sum->free += to - from;
			else if (block->span->allocator == HEAP_GLIBC && to - page == HEAP_PAGE &&
				 page >= block->start + BLOCK_LINKS)
				sum->trimmable += HEAP_PAGE;
		}
	return 0;
}

void slack__add_span(const struct slack *slack, const struct span *span, const uint16_t *live)
{
	struct adding a = {slack, span, live};
	uint64_t page = span->start, stop;

	for (; next_run(slack, page, span->end, &page, &stop); page = stop)
		for (; page < stop; page += HEAP_PAGE) {
			uint64_t bytes = live_on(&a, page);

			slack->sum->pages += HEAP_PAGE;
			slack->sum->live += bytes;
			if (!bytes && span->kind != SPAN_OWN)
				slack->sum->whole_free += HEAP_PAGE;
		}
	span__each(span, add_free, &a);
}
