// SPDX-License-Identifier: BSD-2-Clause
/* The rows of the resident set add up, for all kinds of memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profile/profile.h"

#define KIB 1024ULL

static void add(struct resident_pieces *pieces, enum resident_kind kind, uint64_t start,
		uint64_t rss, uint64_t swap, const char *name)
{
	const struct resident_piece piece = {
		.start = start,
		.end = start + rss + swap + KIB,
		.bytes = {rss, kind == RESIDENT_FILE ? 0 : rss, swap, 1},
		.kind = kind,
		.site = kind == RESIDENT_MAPPED ? 0 : RESIDENT_NO_SITE,
	};

	resident_pieces__add(pieces, &piece, name);
}

static void check_sums(const struct resident *r, int64_t want_smaps)
{
	int64_t sum = 0, heap = 0;
	uint64_t swap = 0;

	for (size_t i = 0; i < r->n; i++) {
		const struct resident_row *row = &r->rows[i];

		sum += row->bytes;
		swap += row->swap;
		heap += row->kind <= RESIDENT_HEAP ? row->bytes : 0;
		assert_true(!i || row[-1].kind < row->kind ||
			    (row[-1].kind == row->kind && row[-1].bytes >= row->bytes));
	}
	assert_int_equal(sum, want_smaps);
	assert_int_equal(r->smaps_bytes, want_smaps);
	assert_int_equal(r->heap_bytes, heap);
	assert_int_equal(r->swap_bytes, swap);
}

static const struct resident_row *row_of(const struct resident *r, enum resident_kind kind,
					 const char *name)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->rows[i].kind == kind && (!name || !strcmp(r->rows[i].name, name)))
			return &r->rows[i];
	fail_msg("no row of kind %s named %s", resident_kind__name(kind), name ? name : "(any)");
	return NULL;
}

/* A heap of `n` blocks of `size` bytes each, sampled at this interval. */
static struct profile *heap_of(uint64_t interval, uint64_t size, int n)
{
	struct profile *p = profile__new();
	size_t site, thread;

	p->interval_bytes = interval;
	p->mode = MODE_CONTINUOUS;
	assert_int_equal(profile__add_site(p, (uint64_t[]){100, 200}, 2, false, &site), 0);
	assert_int_equal(profile__add_thread(p, 1, NULL, &thread), 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(profile__add_live(p, site, thread, size), 0);
	assert_int_equal(profile__sort(p), 0);
	return p;
}

/* The ranges for the census are the heap's pieces, pieces in which a block lies, and pieces that an
 * allocator mapped during the run. Neighbouring pieces are one range. */
static void ranges_of_the_heap(void **state)
{
	const struct resident_piece mapped = {.start = 9 << 20,
					      .end = 10 << 20,
					      .bytes = {KIB, KIB, 0, 1},
					      .kind = RESIDENT_MAPPED,
					      .of_heap = true};
	struct resident_piece other = mapped;
	struct resident_pieces pieces = {};
	struct resident *r;

	(void)state;
	add(&pieces, RESIDENT_HEAP, 1 << 20, 7 * KIB, 0, NULL);		    /* ends after 8 KiB */
	add(&pieces, RESIDENT_HEAP, (1 << 20) + 8 * KIB, 2 * KIB, 0, NULL); /* ends in a page */
	add(&pieces, RESIDENT_EARLIER, 3 << 20, 3 * KIB, 0, NULL);
	add(&pieces, RESIDENT_EARLIER, 4 << 20, 3 * KIB, 0, NULL);
	resident_pieces__add(&pieces, &mapped, NULL);
	other.start = 11 << 20;
	other.end = 12 << 20;
	other.of_heap = false;
	resident_pieces__add(&pieces, &other, NULL);
	assert_int_equal(
		resident__make(&pieces, NULL, NULL, (uint64_t[]){(4 << 20) + 1}, 1, false, &r), 0);
	assert_int_equal(r->n_ranges, 3);
	assert_int_equal(r->ranges[0].start, 1 << 20);
	assert_int_equal(r->ranges[0].end, (1 << 20) + 12 * KIB);
	assert_int_equal(r->ranges[1].start, 4 << 20);
	assert_int_equal(r->ranges[1].end, (4 << 20) + 4 * KIB);
	assert_int_equal(r->ranges[2].start, 9 << 20);
	assert_int_equal(r->ranges[2].end, 10 << 20);
	resident__free(r);
	resident_pieces__free(&pieces);
}

/* Whatever a census finds, the parts add up to the row HEAP. */
static void parts_add_up(void **state)
{
	static const struct heap_slack found[] = {{1000, 500, 200, 100, 150, 10},
						  {0, 0, 0, 0, 0, 0},
						  {5000 * KIB, 4000 * KIB, 0, 0, 1000 * KIB, 0}};
	struct profile *heaps[] = {heap_of(1, 300, 1024), NULL};
	struct resident_pieces pieces = {};

	(void)state;
	add(&pieces, RESIDENT_HEAP, 1 << 20, 1000 * KIB, 0, NULL);
	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < 3; i++) {
			int64_t parts[RESIDENT_PARTS], sum = 0;
			struct resident *r;

			assert_int_equal(
				resident__make(&pieces, heaps[k], NULL, NULL, 0, false, &r), 0);
			assert_null(r->census);
			assert_int_equal(resident__fail_census(r, "early"), 0);
			assert_int_equal(resident__fail_census(r, "late"), 0);
			assert_string_equal(r->census_failed, "late");
			assert_int_equal(resident__take_census(r, &found[i]), 0);
			resident__parts(r, parts);
			for (int part = 0; part < RESIDENT_PARTS; part++)
				sum += parts[part];
			assert_int_equal(sum, row_of(r, RESIDENT_HEAP, "")->bytes);
			assert_int_equal(parts[RESIDENT_PART_IN_USE],
					 (int64_t)found[i].live - (k ? 0 : 300 * 1024));
			assert_int_equal(parts[RESIDENT_PART_OTHER],
					 1000 * 1024 - (int64_t)found[i].pages);
			resident__free(r);
		}
	resident_pieces__free(&pieces);
	profile__free(heaps[0]);
}

static void a_bit_of_everything(void **state)
{
	struct resident_pieces pieces = {.vmrss_bytes = 5000 * KIB};
	struct profile *heap = heap_of(1, 300, 1024);
	struct resident *r;

	(void)state;
	add(&pieces, RESIDENT_HEAP, 1 << 20, 1000 * KIB, 8 * KIB, NULL);
	add(&pieces, RESIDENT_FILE, 2 << 20, 12 * KIB, 0, "/lib/a");
	add(&pieces, RESIDENT_FILE, 3 << 20, 4 * KIB, 0, "/lib/b");
	add(&pieces, RESIDENT_FILE, 4 << 20, 20 * KIB, 0, "/lib/a");
	add(&pieces, RESIDENT_STACK, 5 << 20, 16 * KIB, 0, NULL);
	add(&pieces, RESIDENT_EARLIER, 6 << 20, 100 * KIB, 4 * KIB, NULL);
	add(&pieces, RESIDENT_EARLIER, 8 << 20, 50 * KIB, 0, NULL); /* a block lies in this piece */
	/* the block is behind the end of this piece */
	add(&pieces, RESIDENT_EARLIER, 10 << 20, 7 * KIB, 0, NULL);
	/* shared memory is not the heap's, even if blocks are in it */
	add(&pieces, RESIDENT_SHARED, 12 << 20, 9 * KIB, 0, "/memfd:x");
	assert_int_equal(
		resident__make(&pieces, heap, NULL,
			       (uint64_t[]){(8 << 20) + 5, (10 << 20) + 9 * KIB, (12 << 20) + 3}, 3,
			       false, &r),
		0);
	check_sums(r, (1000 + 12 + 4 + 20 + 16 + 100 + 50 + 7 + 9) * KIB);
	assert_int_equal(r->heap_bytes, 1050 * KIB);
	assert_int_equal(row_of(r, RESIDENT_HEAP_LIVE, "")->bytes, 300 * KIB);
	assert_int_equal(row_of(r, RESIDENT_HEAP, "")->bytes, 750 * KIB);
	assert_int_equal(row_of(r, RESIDENT_HEAP, "")->swap, 8 * KIB);
	assert_true(row_of(r, RESIDENT_HEAP, "")->interval.low == 750 * KIB &&
		    row_of(r, RESIDENT_HEAP, "")->interval.high == 750 * KIB);
	assert_int_equal(row_of(r, RESIDENT_FILE, "/lib/a")->bytes, 32 * KIB);
	assert_int_equal(row_of(r, RESIDENT_FILE, "/lib/a")->mappings, 2);
	assert_int_equal(row_of(r, RESIDENT_EARLIER, "")->bytes, 107 * KIB);
	assert_int_equal(r->vmrss_bytes, 5000 * KIB);
	assert_false(r->followed || r->from_start || r->heap_windowed);
	assert_true(r->heap_split);
	resident__free(r);
	/* without a heap profile the heap is one row, and exact */
	assert_int_equal(resident__make(&pieces, NULL, NULL, NULL, 0, true, &r), 0);
	check_sums(r, 1218 * KIB);
	assert_int_equal(row_of(r, RESIDENT_HEAP, "")->bytes, 1000 * KIB);
	assert_false(r->heap_split);
	assert_int_equal(r->rows[0].kind, RESIDENT_HEAP);
	resident__free(r);
	resident_pieces__free(&pieces);
	profile__free(heap);
}

/* The estimate of live bytes may exceed the heap. Then the rest of the heap is negative. This rest
 * has an interval, as the estimate has. The rows still add up. */
static void what_is_left_can_be_negative(void **state)
{
	struct resident_pieces pieces = {.vmrss_bytes = 1};
	struct profile *heap = heap_of(64 * KIB, 100, 7);
	struct interval live;
	struct estimate all;
	struct resident *r;

	(void)state;
	add(&pieces, RESIDENT_HEAP, 1 << 20, 12 * KIB, 0, NULL);
	assert_int_equal(resident__make(&pieces, heap, NULL, NULL, 0, false, &r), 0);
	check_sums(r, 12 * KIB);
	all = profile__live(heap);
	live = estimate__interval(&all);
	assert_true(row_of(r, RESIDENT_HEAP, "")->bytes < 0);
	assert_true(row_of(r, RESIDENT_HEAP, "")->interval.low == 12 * (double)KIB - live.high);
	assert_true(row_of(r, RESIDENT_HEAP, "")->interval.high == 12 * (double)KIB - live.low);
	assert_true(fabs((double)row_of(r, RESIDENT_HEAP_LIVE, "")->bytes - all.bytes) <= 0.5);
	resident__free(r);
	/* samples were dropped, so there may be any number of further live blocks */
	heap->dropped = 1;
	assert_int_equal(resident__make(&pieces, heap, NULL, NULL, 0, false, &r), 0);
	assert_true(isnan(row_of(r, RESIDENT_HEAP_LIVE, "")->interval.high));
	assert_true(isnan(row_of(r, RESIDENT_HEAP, "")->interval.low));
	check_sums(r, 12 * KIB);
	resident__free(r);
	profile__free(heap);
	/* without a sample there may still be blocks, unless all are sampled or nothing was
	 * allocated */
	heap = heap_of(64 * KIB, 100, 0);
	assert_int_equal(resident__make(&pieces, heap, NULL, NULL, 0, false, &r), 0);
	assert_true(row_of(r, RESIDENT_HEAP_LIVE, "")->interval.high == 0);
	resident__free(r);
	heap->alloc_calls = 5;
	assert_int_equal(resident__make(&pieces, heap, NULL, NULL, 0, false, &r), 0);
	assert_true(row_of(r, RESIDENT_HEAP_LIVE, "")->interval.high > 3.68 * 64 * KIB);
	resident__free(r);
	heap->interval_bytes = 1;
	assert_int_equal(resident__make(&pieces, heap, NULL, NULL, 0, false, &r), 0);
	assert_true(row_of(r, RESIDENT_HEAP_LIVE, "")->interval.high == 0);
	resident__free(r);
	profile__free(heap);
	resident_pieces__free(&pieces);
}

static size_t add_site(struct profile *p, const char *const *names, size_t n, uint64_t rss,
		       bool allocators_own)
{
	static uint64_t addr = 0x1000;
	uint64_t addrs[8] = {};
	size_t site;

	for (size_t i = 0; i < n; i++)
		addrs[i] = addr += 16;
	assert_int_equal(profile__add_site(p, addrs, n, false, &site), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(profile_location__set_name(
					 &p->locations[p->sites[site].locations[i]], names[i]),
				 0);
	p->sites[site].resident = (struct resident_bytes){rss, rss, 0, 1};
	p->sites[site].allocators_own = allocators_own;
	return site;
}

#define SITE(p, rss, own, ...)                                                                     \
	add_site(p, (const char *const[]){__VA_ARGS__},                                            \
		 sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), rss, own)

/* A mapping belongs to the stack that asked for it. Mappings of an allocator belong to the heap. An
 * unknown stack owns nothing. */
static void mappings_by_owner(void **state)
{
	struct resident_pieces pieces = {};
	struct profile *regions = profile__new();
	struct resident *r;

	(void)state;
	regions->what = PROFILE_REGIONS;
	regions->interval_bytes = 1;
	SITE(regions, 40 * KIB, false, "mmap", "map_cache", "open", "main", "_start");
	SITE(regions, 60 * KIB, false, "mmap64", "map_cache", "open", "main");
	SITE(regions, 8 * KIB, false, "mmap", "other");
	SITE(regions, 4 * KIB, false, "mmap");
	SITE(regions, 500 * KIB, true, "mmap", "sysmalloc", "malloc", "main");
	assert_int_equal(profile__sort(regions), 0);
	add(&pieces, RESIDENT_MAPPED, 1 << 20, 612 * KIB, 0, NULL);
	add(&pieces, RESIDENT_MAPPED, 4 << 20, 10 * KIB, 0, NULL); /* no site has this mapping */
	assert_int_equal(resident__make(&pieces, NULL, regions, NULL, 0, true, &r), 0);
	check_sums(r, 622 * KIB);
	assert_int_equal(row_of(r, RESIDENT_HEAP, "")->bytes, 500 * KIB);
	assert_int_equal(row_of(r, RESIDENT_MAPPED, "map_cache < open < main")->bytes, 100 * KIB);
	assert_int_equal(row_of(r, RESIDENT_MAPPED, "other")->bytes, 8 * KIB);
	assert_int_equal(row_of(r, RESIDENT_MAPPED, "mmap")->bytes, 4 * KIB);
	assert_int_equal(row_of(r, RESIDENT_EARLIER, "")->bytes, 10 * KIB);
	assert_true(r->followed && r->from_start);
	resident__free(r);
	profile__free(regions);
	resident_pieces__free(&pieces);
}

/* There are more mappings and more names than are stored. All of them are still counted. */
static void too_many(void **state)
{
	struct resident_pieces pieces = {};
	struct resident *r;
	char name[4096];
	uint64_t at = 0;

	(void)state;
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	for (uint32_t i = 0; i < 2000; i++) {
		memcpy(name, &(uint32_t){i | 0x40404040}, 4);
		add(&pieces, RESIDENT_FILE, at += 1 << 20, KIB, 0, name);
	}
	/* the limit may be exceeded by one name */
	assert_true(pieces.names.used <= RESIDENT_MAX_NAMES + 64);
	for (uint32_t i = 2000; i < RESIDENT_MAX_PIECES + 50; i++)
		add(&pieces, RESIDENT_EARLIER, at += 1 << 20, KIB, 0, NULL);
	assert_int_equal(pieces.n, RESIDENT_MAX_PIECES);
	assert_int_equal(resident__make(&pieces, NULL, NULL, NULL, 0, false, &r), 0);
	check_sums(r, (int64_t)(RESIDENT_MAX_PIECES + 50) * (int64_t)KIB);
	assert_int_equal(row_of(r, RESIDENT_LEFT_OUT, NULL)->bytes, 50 * KIB);
	assert_int_equal(row_of(r, RESIDENT_LEFT_OUT, NULL)->mappings, 50);
	assert_true(row_of(r, RESIDENT_FILE, "")->bytes > 0);
	resident__free(r);
	resident_pieces__free(&pieces);
	assert_int_equal(resident__make(&pieces, NULL, NULL, NULL, 0, false, &r), 0);
	check_sums(r, 0);
	resident__free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bit_of_everything),
		cmocka_unit_test(ranges_of_the_heap),
		cmocka_unit_test(parts_add_up),
		cmocka_unit_test(what_is_left_can_be_negative),
		cmocka_unit_test(mappings_by_owner),
		cmocka_unit_test(too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
