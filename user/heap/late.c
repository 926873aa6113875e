// SPDX-License-Identifier: BSD-2-Clause
#include "heap/late.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/search.h"
#include "base/vector.h"
#include "heap/image.h"

#define LOW_ADDRS (1ULL << 32)

/* --- sets of values --- */

static uint32_t *slot_of(const struct late_values *set, uint64_t value)
{
	return TABLE_SLOT(&set->by_value, hash__keyed(&value, sizeof(value)), i,
			  set->list[i] == value);
}

/* Adds a value. 1: the value is new; 0: the set already had it; -ENOMEM; -ENOSPC: the set has max
 * values. */
static int add_value(struct late_values *set, uint64_t value, size_t max)
{
	int rc = table__reserve(&set->by_value, set->n + 1);
	uint32_t *slot;

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < set->n && rc; i++)
		*slot_of(set, set->list[i]) = (uint32_t)i + 1;
	slot = slot_of(set, value);
	if (*slot)
		return 0;
	if (set->n == max)
		return -ENOSPC;
	if (VECTOR_RESERVE(set->list, set->room, set->n + 1))
		return -ENOMEM;
	set->list[set->n++] = value;
	*slot = (uint32_t)set->n;
	return 1;
}

static void clear_values(struct late_values *set)
{
	free(set->list);
	table__clear(&set->by_value);
}

/* --- pointers --- */

void late__range(const struct blocks *blocks, uint64_t *ret_lowest, uint64_t *ret_highest)
{
	size_t n = blocks__n_spans(blocks);

	*ret_lowest = *ret_highest = 0;
	if (!n)
		return;
	*ret_lowest = blocks__span(blocks, 0)->start;
	*ret_highest = blocks__span(blocks, n - 1)->end + LATE_NEAR;
	/* A heap at low addresses grows upwards. Values below the heap are mostly numbers, not
	 * pointers. */
	if (*ret_lowest >= LOW_ADDRS)
		*ret_lowest -= LATE_NEAR;
}

bool late__may_be(const struct image *image, const struct blocks *blocks, uint64_t value)
{
	size_t n = blocks__n_spans(blocks);
	size_t next = SEARCH_FIRST(i, n, blocks__span(blocks, i)->start > value);
	const struct span *below = next ? blocks__span(blocks, next - 1) : NULL;
	const struct span *above = next < n ? blocks__span(blocks, next) : NULL;
	const struct image_region *region;

	if (below && value < below->end)
		return true;
	if (!(below && value - below->end < LATE_NEAR) &&
	    !(above && above->start - value < LATE_NEAR))
		return false;
	region = image__find(image, value);
	/* such memory may have become accessible: glibc reserves an arena's memory as an
	 * inaccessible mapping, and enlarges the arena by mprotect() */
	return !region || (region->entry->perms[0] == '-' && !region->entry->file.inode);
}

static bool was_seen(const struct late *late, uint64_t value)
{
	size_t at = SEARCH_FIRST(i, late->n_before, late->before[i] >= value);

	return at < late->n_before && late->before[at] == value;
}

int late__note(struct late *late, uint64_t value)
{
	int rc = add_value(&late->seen, value, LATE_VALUES);

	if (rc < 0 && rc != -ENOSPC)
		return rc;
	return late->before && !was_seen(late, value);
}

int late__follow(struct late *late, uint64_t value, uint32_t from)
{
	if (late->n_pointers == LATE_VALUES) {
		late->beyond++;
		return 0;
	}
	if (VECTOR_RESERVE(late->pointers, late->pointers_room, late->n_pointers + 1))
		return -ENOMEM;
	late->pointers[late->n_pointers++] = (struct late_pointer){value, from};
	return 0;
}

int late__visit(struct late *late, struct image *image, uint64_t value, uint64_t *words)
{
	uint64_t at = value & ~(uint64_t)7, n = LATE_WORDS * sizeof(*words);
	uint64_t page_left = HEAP_PAGE - at % HEAP_PAGE;
	int rc = add_value(&late->visited, value, LATE_VISITS);

	if (rc == -ENOSPC)
		late->beyond++;
	if (rc != 1)
		return rc == -ENOMEM ? rc : 0;
	if (image__read_now(image, at, words, n)) {
		n = n < page_left ? n : page_left; /* the next page is not resident */
		if (image__read_now(image, at, words, n))
			return image__spent(image);
	}
	return (int)(n / sizeof(*words));
}

static int compare_values(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void late__sort(struct late *late)
{
	table__clear(&late->seen.by_value);
	if (late->seen.n)
		qsort(late->seen.list, late->seen.n, sizeof(*late->seen.list), compare_values);
}

void late__clear(struct late *late)
{
	clear_values(&late->seen);
	clear_values(&late->visited);
	free(late->pointers);
	*late = (struct late){};
}

static size_t values_bytes(const struct late_values *set)
{
	return set->room * sizeof(*set->list) + set->by_value.n_slots * sizeof(uint32_t);
}

size_t late__bytes(const struct late *late)
{
	return values_bytes(&late->seen) + values_bytes(&late->visited) +
	       late->pointers_room * sizeof(*late->pointers);
}
