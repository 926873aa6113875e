// SPDX-License-Identifier: BSD-2-Clause
/* Heaps are read while each allocation fails in turn. */
#include "made_heap.h"

#include "heap/census.h"
#include "heap/why_internal.h"
#include "tests/unit/failing.h"

#define LIB    0x7f1000000000ULL
#define ARENA  (LIB + 0xc60)
#define BRK    0x555500000000ULL
#define CHUNKS 40
#define KEY    0x1234567890abcdefULL
#define VTABLE (LIB + 0x2010)

/* image__stopped() returns the error if the search for resident pages failed. */
static int end_image(struct image *image, int err)
{
	if (!err && image__stopped(image) == -ENOMEM)
		err = -ENOMEM;
	image__free(image);
	return err;
}

static int new_image(struct fake *fake, struct image **ret)
{
	const struct image_source source = {fake__read, fake__pagemap, fake};

	return image__new(&fake->maps, &source, &(struct image_limits){}, ret);
}

static int find_and_count(struct image *image, struct blocks *blocks, FILE *told)
{
	static const struct shape_label labels[] = {{BRK + 0x290 + 16 + 48 * 2, 40},
						    {BRK + 0x290 + 16 + 48 * 5, 40}};
	struct heap_found found = {};
	const struct scan_view view = {image, blocks, &found};
	const struct census_options options = {.labels = labels, .n_labels = 2};
	struct census census = {};
	int err = heap__find_blocks(image, blocks, false, &found);

	if (!err)
		err = census__count(&view, &options, &census);
	for (size_t i = 0; !err && i < census.n_arenas; i++)
		fwrite(census.arenas[i].places, sizeof(census.arenas[i].places), 1, told);
	for (size_t i = 0; !err && i < census.n_types; i++)
		fprintf(told, "%s %lu\n", census.types[i].name,
			(unsigned long)census.types[i].count.blocks);
	for (size_t i = 0; !err && i < census.n_shapes; i++)
		fprintf(told, "alike %lu\n", (unsigned long)census.shapes[i].count.blocks);
	if (!err)
		fwrite(census.pages, sizeof(census.pages), 1, told);
	census__clear(&census);
	heap_found__clear(&found);
	return err;
}

static int take_census(void *ctx, FILE *told)
{
	struct blocks *blocks = NULL;
	struct image *image;
	int err = new_image(ctx, &image);

	if (err)
		return err;
	err = blocks__new(&blocks);
	if (!err)
		err = find_and_count(image, blocks, told);
	blocks__free(blocks);
	return end_image(image, err);
}

/* glibc: an arena whose first chunk is a thread cache with one block. The second chunk, and all
 * chunks after the third, are objects of one class. */
static void put_glibc(struct fake *fake)
{
	uint64_t block = BRK + 0x290 + 16, top = BRK + 0x290 + 48 * CHUNKS;

	fake__add(fake, BRK, 0x4000, FAKE_BRK);
	fake__add(fake, LIB, 0x3000, FAKE_DATA);
	fake__add(fake, LIB + 0x3000, 0x1000, "r-xp 00004000 08:01 77 /lib/libc.so.6");
	for (uint64_t i = 0; i < 127; i++) {
		fake__put(fake, ARENA + 112 + 16 * i, ARENA + 96 + 16 * i);
		fake__put(fake, ARENA + 120 + 16 * i, ARENA + 96 + 16 * i);
	}
	fake__put(fake, ARENA + 96, top);
	fake__put(fake, ARENA + 2160, ARENA);
	fake__put(fake, ARENA + 2184, 0x4000);
	fake__put(fake, BRK + 8, 0x290 | 1);
	for (uint64_t i = 0; i < CHUNKS; i++) {
		fake__put(fake, block + 48 * i - 8, 48 | 1);
		fake__put(fake, block + 48 * i, VTABLE);
	}
	fake__put(fake, top + 8, (BRK + 0x4000 - top) | 1);
	fake__put(fake, BRK + 16 + 2, 1);
	fake__put(fake, BRK + 16 + 128 + 8, block + 48);
	fake__put(fake, block + 48, (block + 48) >> 12);
	fake__put(fake, block + 48 + 8, KEY);
	fake__put(fake, VTABLE - 8, LIB + 0x2100);
	fake__put(fake, VTABLE, LIB + 0x3000);
	fake__put(fake, LIB + 0x2100, LIB + 0x2200);
	fake__put(fake, LIB + 0x2108, LIB + 0x2300);
	memcpy(fake__at(fake, LIB + 0x2300), "4Item", 6);
}

static void censuses_are_taken_whole_or_not(void **state)
{
	static struct fake fake;
	char *text;
	size_t len;

	(void)state;
	put_glibc(&fake);
	image__free(fake__image(&fake)); /* for the maps */
	assert_int_equal(fail_allocation(take_census, &fake, 0, &text, &len), 0);
	assert_non_null(memmem(text, len, "4Item 39\n", 9));
	assert_non_null(memmem(text, len, "alike 39\n", 9));
	free(text);
	fail_each_allocation("census", take_census, &fake);
	fake__free(&fake, NULL);
}

static int look_why(void *ctx, FILE *told)
{
	struct made_heap *h = ctx;
	const uint64_t addrs[] = {BLOCK(1), BLOCK(5)};
	const struct why_choice choice = {.addrs = addrs, .n_addrs = 2, .size = BLOCK_SIZE};
	const struct root_threads threads = {};
	const struct lost before = {};
	const struct why_work work = {.choice = &choice,
				      .maps = &h->fake.maps,
				      .threads = &threads,
				      .before = &before,
				      .paths = true,
				      .leaks = true};
	struct heap_found found = {};
	struct scan_view view = {.blocks = h->blocks, .found = &found};
	int err = new_image(&h->fake, &view.image);

	return err ? err : end_image(view.image, why__scan(&view, &work, told));
}

static int look_again(void *ctx, FILE *told)
{
	struct made_heap *h = ctx;
	const struct why_choice choice = {};
	const struct root_threads threads = {};
	struct lost_block list[20];
	const struct lost before = {.list = list, .n = 20};
	struct stale_words stale = {};
	const struct why_work work = {.choice = &choice,
				      .maps = &h->fake.maps,
				      .threads = &threads,
				      .before = &before,
				      .recheck = true,
				      .stale = &stale,
				      .leaks = true};
	struct heap_found found = {};
	struct scan_view view = {.blocks = h->blocks, .found = &found};
	int err = new_image(&h->fake, &view.image);

	for (uint64_t i = 0; !err && i < 20; i++) {
		const struct block block = {.start = BLOCK(i + 10), .size = BLOCK_SIZE};

		list[i] = (struct lost_block){.addr = block.start,
					      .size = block.size,
					      .content = lost__hash(view.image, &block)};
	}
	return err ? err : end_image(view.image, why__scan(&view, &work, told));
}

static void rechecks_are_told_whole_or_not(void **state)
{
	static struct made_heap h;

	(void)state;
	made_heap__begin(&h, 30);
	fake__put(&h.fake, BLOCK(3), BLOCK(12));
	fake__put(&h.fake, BLOCK(40), BLOCK(13));
	fake__put(&h.fake, BLOCK(50), HEAP + HEAP_BYTES + 64);
	fake__put(&h.fake, BLOCK(12), BLOCK(14));
	fake__put(&h.fake, BLOCK(25), BLOCK(26)); /* lost */
	made_heap__finish(&h, 0);
	fail_each_allocation("recheck", look_again, &h);
	made_heap__free(&h);
}

static void holders_are_told_whole_or_not(void **state)
{
	static struct made_heap h;

	(void)state;
	made_heap__begin(&h, 30);
	fake__put(&h.fake, DATA, BLOCK(0));
	for (uint64_t i = 0; i < 20; i++)
		fake__put(&h.fake, BLOCK(i), BLOCK(i + 1));
	fake__put(&h.fake, BLOCK(25), BLOCK(26)); /* lost */
	made_heap__finish(&h, 0);
	fail_each_allocation("why", look_why, &h);
	made_heap__free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(censuses_are_taken_whole_or_not),
		cmocka_unit_test(holders_are_told_whole_or_not),
		cmocka_unit_test(rechecks_are_told_whole_or_not),
	};

	return cmocka_run_group_tests_name("no_memory", tests, NULL, NULL);
}
