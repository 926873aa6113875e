// SPDX-License-Identifier: BSD-2-Clause
#include "profile/regions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/vector.h"

const char *region_memory__name(enum region_memory kind)
{
	static const char *const names[REGION_MEMORY_KINDS] = {
#define X(id, name) [REGION_OF_##id] = name,
		REGION_KINDS(X)
#undef X
	};

	return kind < REGION_MEMORY_KINDS ? names[kind] : "";
}

void regions__free(struct regions *r)
{
	free(r->at);
	memset(r, 0, sizeof(*r));
}

/* Makes room for n more regions. */
static int reserve(struct regions *r, size_t n)
{
	return VECTOR_RESERVE(r->at, r->room, r->n + n);
}

size_t regions__first_above(const struct regions *r, uint64_t addr)
{
	return SEARCH_FIRST(i, r->n, r->at[i].end > addr);
}

/* Replaces the n_old regions from index i on by n_new others, for which there is room. */
static void splice(struct regions *r, size_t i, size_t n_old, const struct region *new_ones,
		   size_t n_new)
{
	memmove(r->at + i + n_new, r->at + i + n_old, (r->n - i - n_old) * sizeof(*r->at));
	if (n_new)
		memcpy(r->at + i, new_ones, n_new * sizeof(*r->at));
	r->n += n_new - n_old;
}

int regions__remove(struct regions *r, uint64_t start, uint64_t end, struct regions *cut)
{
	size_t first = regions__first_above(r, start), last = first, n_rest = 0;
	struct region rest[2];

	if (start >= end)
		return 0;
	while (last < r->n && r->at[last].start < end)
		last++;
	if (first == last)
		return 0;
	if (reserve(r, 1) || (cut && reserve(cut, last - first)))
		return -ENOMEM;
	for (size_t i = first; i < last; i++) {
		struct region within = r->at[i];

		if (within.start < start) {
			rest[n_rest] = within;
			rest[n_rest++].end = start;
			within.start = start;
		}
		if (within.end > end) {
			rest[n_rest] = within;
			rest[n_rest++].start = end;
			within.end = end;
		}
		if (cut)
			cut->at[cut->n++] = within;
	}
	splice(r, first, last - first, rest, n_rest);
	return 0;
}

int regions__insert(struct regions *r, const struct region *region)
{
	int rc;

	if (region->start >= region->end)
		return -EINVAL;
	rc = regions__remove(r, region->start, region->end, NULL);
	if (!rc)
		rc = reserve(r, 1);
	if (rc)
		return rc;
	splice(r, regions__first_above(r, region->start), 0, region, 1);
	return 0;
}

const struct region *regions__find(const struct regions *r, uint64_t addr)
{
	size_t i = regions__first_above(r, addr);

	return i < r->n && r->at[i].start <= addr ? &r->at[i] : NULL;
}
