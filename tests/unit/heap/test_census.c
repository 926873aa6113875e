// SPDX-License-Identifier: BSD-2-Clause
#include "fake.h"

#include <math.h>

#include "heap/census.h"

#define BASE 0x7f0000000000ULL
#define PAGE 0x1000ULL

static struct fake fake;

/* An allocator's memory right behind a file's data counts as memory of the file. So it is not
 * subtracted from the other anonymous memory. */
static void test_span_behind_a_file(void **state)
{
	const struct span model = {.kind = SPAN_FREE,
				   .allocator = HEAP_JEMALLOC,
				   .start = BASE + 0x101000,
				   .end = BASE + 0x105000};
	struct scan_view view = {};
	struct heap_found found = {};
	struct census census;
	struct span *span;
	size_t dropped[HEAP_ALLOCATORS];

	(void)state;
	fake__add(&fake, BASE, 2 * PAGE, FAKE_ANON);
	fake__add(&fake, BASE + 0x100000, PAGE, FAKE_DATA);
	fake__add(&fake, BASE + 0x101000, 4 * PAGE, FAKE_ANON);
	view.image = fake__image(&fake);
	view.found = &found;
	assert_int_equal(blocks__new(&view.blocks), 0);
	assert_int_equal(blocks__add(view.blocks, &model, &span), 0);
	assert_int_equal(blocks__finish(view.blocks, dropped), 0);
	assert_int_equal(census__count(&view, &(struct census_options){}, &census), 0);
	assert_int_equal(census.pages[HEAP_JEMALLOC].pages, 4 * PAGE);
	assert_int_equal(census.unknown_anon, 2 * PAGE);
	census__clear(&census);
	blocks__free(view.blocks);
	fake__free(&fake, view.image);
}

/* Eight pages, the last of which is not resident. A small block is alone on page 0. A block covers
 * pages 1 and 2 and half of 3. Free memory follows up to page 7. */
static void test_pages(void **state)
{
	const struct span model = {.kind = SPAN_WALKED, .start = BASE, .end = BASE + 8 * PAGE};
	struct scan_view view = {};
	struct heap_found found = {};
	struct census census;
	struct span *span;
	const struct census_pages *pages = &census.pages[HEAP_GLIBC];
	size_t dropped[HEAP_ALLOCATORS];
	uint64_t free_start = BASE + 3 * PAGE + 2048;

	(void)state;
	fake__add(&fake, BASE, 8 * PAGE, FAKE_ANON);
	fake__add(&fake, BASE + 0x100000, 2 * PAGE, FAKE_ANON);
	fake__set_page(&fake, BASE + 7 * PAGE, 0);
	fake__set_page(&fake, BASE + 0x100000, 2);
	view.image = fake__image(&fake);
	view.found = &found;
	assert_int_equal(blocks__new(&view.blocks), 0);
	assert_int_equal(blocks__add(view.blocks, &model, &span), 0);
	span__add_block(span, BASE + 16, true);
	span__add_block(span, BASE + 64, false);
	span__add_block(span, BASE + PAGE, true);
	span__add_block(span, free_start, false);
	assert_int_equal(blocks__finish(view.blocks, dropped), 0);
	assert_int_equal(census__count(&view, &(struct census_options){}, &census), 0);

	assert_int_equal(pages->mapped, 8 * PAGE);
	assert_int_equal(pages->pages, 7 * PAGE);
	assert_int_equal(pages->live, 40 + 2 * PAGE + 2040);
	assert_int_equal(pages->whole_free, 3 * PAGE);
	assert_int_equal(pages->trimmable, 3 * PAGE);
	assert_int_equal(pages->between, pages->pages - pages->live - pages->whole_free);
	/* page 0, and page 3: its 2040 bytes in use are less than half a page */
	assert_int_equal(pages->sparse, 2 * PAGE);
	assert_int_equal(pages->pinned, PAGE - 40 + PAGE - 2040);
	assert_int_equal(census.sizes[HEAP_GLIBC][heap__size_group(40)].holders, 1);
	assert_int_equal(census.sizes[HEAP_GLIBC][heap__size_group(40)].pinned, PAGE - 40);
	assert_int_equal(census.sizes[HEAP_GLIBC][heap__size_group(2 * PAGE + 2040)].pinned,
			 PAGE - 2040);
	assert_int_equal(census.memory[IMAGE_ANON].resident, 8 * PAGE);
	assert_int_equal(census.memory[IMAGE_ANON].swapped, PAGE);
	assert_int_equal(census.unknown_anon, PAGE);
	census__clear(&census);
	blocks__free(view.blocks);
	fake__free(&fake, view.image);
}

/* The heap of test_pages(). The census is for two ranges. One has pages 0 and 1. The other has
 * pages 3 to 5 and memory behind the heap. Pages 2, 6 and 7 are in no range. */
static void test_slack(void **state)
{
	const struct span model = {.kind = SPAN_WALKED, .start = BASE, .end = BASE + 8 * PAGE};
	const struct heap_range ranges[] = {{BASE, BASE + 2 * PAGE},
					    {BASE + 3 * PAGE, BASE + 6 * PAGE},
					    {BASE + 8 * PAGE, BASE + 9 * PAGE}};
	const struct census_options options = {.ranges = ranges, .n_ranges = 3};
	struct scan_view view = {};
	struct heap_found found = {};
	struct census census;
	struct span *span;
	size_t dropped[HEAP_ALLOCATORS];
	uint64_t free_start = BASE + 3 * PAGE + 2048;
	struct heap_arena *arena = heap_found__add_arena(&found, HEAP_GLIBC, BASE);

	(void)state;
	fake__add(&fake, BASE, 9 * PAGE, FAKE_ANON);
	fake__set_page(&fake, BASE + 4 * PAGE, 0);
	view.image = fake__image(&fake);
	view.found = &found;
	heap_arena__count(arena, PLACE_THREAD_CACHE, 40);
	heap_arena__count(arena, PLACE_FAST_BIN, 24);
	heap_arena__count(arena, PLACE_BIN, 1000);
	assert_int_equal(blocks__new(&view.blocks), 0);
	assert_int_equal(blocks__add(view.blocks, &model, &span), 0);
	span__add_block(span, BASE + 16, true);
	span__add_block(span, BASE + 64, false);
	span__add_block(span, BASE + PAGE, true);
	span__add_block(span, free_start, false);
	assert_int_equal(blocks__finish(view.blocks, dropped), 0);
	assert_int_equal(census__count(&view, &options, &census), 0);

	assert_int_equal(census.slack.pages, 4 * PAGE); /* 0, 1, 3, 5 */
	assert_int_equal(census.slack.live, 40 + PAGE + 2040);
	assert_int_equal(census.slack.whole_free, PAGE);
	assert_int_equal(census.slack.trimmable, PAGE);
	/* free bytes begin after a header of 8 bytes: at 64 + 8 on page 0, at 2048 on page 3 */
	assert_int_equal(census.slack.free, PAGE - 64 - 8 + PAGE - 2048);
	assert_int_equal(census.slack.cached, 64);
	assert_true(heap_slack__adds_up(&census.slack));
	census__clear(&census);
	heap_found__clear(&found);
	blocks__free(view.blocks);
	fake__free(&fake, view.image);
}

static void test_slack_that_cannot_be(void **state)
{
	const struct heap_slack good = {10, 5, 3, 2, 2, 0};
	struct heap_slack slack = good;

	(void)state;
	assert_true(heap_slack__adds_up(&good));
	slack.trimmable = 4;
	assert_false(heap_slack__adds_up(&slack));
	slack = good;
	slack.free = 3;
	assert_false(heap_slack__adds_up(&slack));
	slack = good;
	slack.live = 11;
	assert_false(heap_slack__adds_up(&slack));
	slack = good;
	slack.whole_free = UINT64_MAX - 4; /* the sum overflows */
	assert_false(heap_slack__adds_up(&slack));
}

/* If several blocks pin the free bytes of a page, each block's share is by its bytes on the
 * page. */
static void test_shared_page(void **state)
{
	const struct span model = {.kind = SPAN_SLAB,
				   .allocator = HEAP_JEMALLOC,
				   .start = BASE,
				   .end = BASE + PAGE,
				   .first = BASE,
				   .block_size = 64,
				   .n_slots = 64};
	const struct span extent = {.kind = SPAN_FREE,
				    .allocator = HEAP_JEMALLOC,
				    .start = BASE + PAGE,
				    .end = BASE + 3 * PAGE};
	struct scan_view view = {};
	struct heap_found found = {};
	struct census census;
	struct span *span;
	size_t dropped[HEAP_ALLOCATORS];

	(void)state;
	fake__add(&fake, BASE, 3 * PAGE, FAKE_ANON);
	view.image = fake__image(&fake);
	view.found = &found;
	assert_int_equal(blocks__new(&view.blocks), 0);
	assert_int_equal(blocks__add(view.blocks, &model, &span), 0);
	span->in_use[0] = 0xf;
	assert_int_equal(blocks__add(view.blocks, &extent, &span), 0);
	heap_arena__count(heap_found__add_arena(&found, HEAP_JEMALLOC, 5), PLACE_IN_USE, 64);
	assert_int_equal(blocks__finish(view.blocks, dropped), 0);
	assert_int_equal(census__count(&view, &(struct census_options){}, &census), 0);
	assert_int_equal(census.pages[HEAP_JEMALLOC].pinned, PAGE - 256);
	assert_int_equal(census.pages[HEAP_JEMALLOC].whole_free, 2 * PAGE);
	assert_int_equal(census.sizes[HEAP_JEMALLOC][4].holders, 4);
	assert_int_equal(census.sizes[HEAP_JEMALLOC][4].pinned, PAGE - 256);
	assert_int_equal(census.n_arenas, 1);
	assert_int_equal(census.arenas[0].addr, 5);
	assert_int_equal(census.arenas[0].places[PLACE_IN_USE].bytes, 64);
	census__clear(&census);
	heap_found__clear(&found);
	blocks__free(view.blocks);
	fake__free(&fake, view.image);
}

static void test_doubt(void **state)
{
	struct census census = {};
	struct heap_quality *quality = &census.quality[HEAP_GLIBC];

	(void)state;
	assert_true(census__doubt(&census, HEAP_GLIBC) == 0);
	quality->found_bytes = 900;
	quality->own_bytes = 1000;
	assert_true(fabs(census__doubt(&census, HEAP_GLIBC) - 0.1) < 1e-9);
	quality->unknown_bytes = 50;
	quality->absent_bytes = 50;
	assert_true(fabs(census__doubt(&census, HEAP_GLIBC) - 0.2) < 1e-9);
	quality->absent_bytes = 1 << 20;
	assert_true(census__doubt(&census, HEAP_GLIBC) == 1);
	/* one slab may change while it is read; many do not */
	quality = &census.quality[HEAP_JEMALLOC];
	quality->found_bytes = 1000;
	quality->slabs = 100;
	quality->broken_slabs = 3;
	assert_true(census__doubt(&census, HEAP_JEMALLOC) == 0);
	quality->broken_slabs = 4;
	assert_true(census__doubt(&census, HEAP_JEMALLOC) == 1);
}

static void test_unread(void **state)
{
	static const char text[] = "1000-2000 r-xp 0 08:01 7 /usr/lib/x86_64-linux-musl/libc.so\n";
	struct maps maps;

	(void)state;
	assert_int_equal(maps__parse(text, sizeof(text) - 1, &maps, NULL), 0);
	assert_string_equal(heap__unread_allocator(&maps), "musl");
	maps.n = 0;
	assert_null(heap__unread_allocator(&maps));
	maps.n = 1;
	maps__free(&maps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages),	    cmocka_unit_test(test_span_behind_a_file),
		cmocka_unit_test(test_slack),	    cmocka_unit_test(test_slack_that_cannot_be),
		cmocka_unit_test(test_shared_page), cmocka_unit_test(test_doubt),
		cmocka_unit_test(test_unread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
