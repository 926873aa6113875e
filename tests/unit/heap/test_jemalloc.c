// SPDX-License-Identifier: BSD-2-Clause
/* A radix tree, extents and slabs laid out by hand like those of jemalloc 5.3 and 5.2. */
#include "found.h"

#define LIB   0x7f1000000000ULL
#define ROOT  (LIB + 0x7b18)
#define META  0x7f2000000000ULL /* leaf and extents */
#define LEAF  (META + 0xc0)
#define EDATA (META + 0x300000)
#define HEAP  0x7f3000000000ULL

#define DEEP_LEAF (META + 0x100040) /* a leaf of a tree of three levels; LEAF is its parent */

#define PLUGIN	      0x7f0f00000000ULL /* a library with memory of the heap right behind it */
#define FAKE_FILE     "rw-p 00001000 08:01 78 /usr/lib/plugin.so"
#define FAKE_JEMALLOC "rw-p 00001000 08:01 79 /usr/lib/libjemalloc.so.2"

#define NO_SIZE 232 /* the number of the size class of a free extent */

static uint64_t next_edata;
static enum { V5_3, V5_2, V5_3_DEEP } version;
static bool eight;	  /* jemalloc was built with --with-lg-quantum=3 */
static bool behind_files; /* jemalloc's mappings lie right behind those of files */

/* Returns the number of a size class. The tests use the numbers of the usual classes, which begin
 * with 8, 16, 32, 48 and 64 bytes. With --with-lg-quantum=3, classes of 24, 40 and 56 bytes are
 * between these. */
static uint64_t number(uint64_t usual)
{
	static const uint64_t first[] = {0, 1, 3, 5};

	if (!eight)
		return usual;
	return usual < 4 ? first[usual] : usual + 3;
}

struct model {
	uint64_t addr, size, slab, state, szind, n_free, arena;
	uint64_t bitmap[8];
};

/* Writes the leaf's entry for a page. */
static void put_entry(uint64_t page, uint64_t edata, const struct model *m)
{
	uint64_t state = version == V5_2 ? 0 : m->state;

	if (version == V5_3_DEEP) {
		fake__put(&fake, DEEP_LEAF + 16 * (page >> 12 & 0x7fff), edata);
		fake__put(&fake, DEEP_LEAF + 16 * (page >> 12 & 0x7fff) + 8,
			  number(m->szind) << 5 | state << 2 | m->slab);
	} else {
		fake__put(&fake, LEAF + 8 * (page >> 12 & 0x3ffff),
			  number(m->szind) << 48 | edata | state << 2 | m->slab);
	}
}

/* Adds an extent to the tree: all pages of a slab, or the first and the last page of any other
 * extent. */
static void put_extent(const struct model *m)
{
	uint64_t edata = next_edata, start = m->addr & ~0xfffULL;
	int older = version == V5_2;

	next_edata += 128;
	fake__put(&fake, edata,
		  m->arena | m->slab << 12 | m->state << (17 - older) |
			  number(m->szind) << (20 - 2 * older) | m->n_free << (28 - 2 * older));
	fake__put(&fake, edata + 8, m->addr);
	fake__put(&fake, edata + 16, m->size | 2);
	for (size_t i = 0; i < 8; i++)
		fake__put(&fake, edata + 64 + 8 * i, m->bitmap[i]);
	for (uint64_t page = start; page < start + m->size; page += 4096)
		if (m->slab || page == start || page + 4096 == start + m->size)
			put_entry(page, edata, m);
}

static void start(void)
{
	found = (struct heap_found){};
	next_edata = EDATA;
	if (behind_files) {
		fake__add(&fake, PLUGIN, 0x1000, FAKE_FILE);
		fake__add(&fake, PLUGIN + 0x1000, 0x300000, FAKE_ANON);
		for (uint64_t i = 0; i < 0x50000; i++)
			fake__put(&fake, PLUGIN + 0x1000 + 8 * i, META + 0x1000);
	}
	fake__add(&fake, LIB, 0x1000, behind_files ? FAKE_JEMALLOC : FAKE_DATA);
	fake__add(&fake, LIB + 0x1000, 0x210000, FAKE_ANON);
	if (behind_files)
		fake__add(&fake, META - 0x1000, 0x1000, FAKE_FILE);
	fake__add(&fake, META, 0x400000, FAKE_ANON);
	if (behind_files)
		fake__add(&fake, HEAP - 0x1000, 0x1000, FAKE_FILE);
	fake__add(&fake, HEAP, 0x40000, FAKE_ANON);
	if (version == V5_3_DEEP) {
		fake__put(&fake, ROOT + 8 * (HEAP >> 42 & 0x7fff), LEAF);
		fake__put(&fake, LEAF + 8 * (HEAP >> 27 & 0x7fff), DEEP_LEAF);
	} else {
		fake__put(&fake, ROOT + 8 * (HEAP >> 30 & 0x3ffff), LEAF);
	}
}

static struct heap_count sum(size_t arena, enum heap_place place)
{
	struct heap_count sum = {};

	for (size_t i = 0; i < HEAP_SIZES; i++) {
		sum.blocks += found.arenas[arena]->count[place][i].blocks;
		sum.bytes += found.arenas[arena]->count[place][i].bytes;
	}
	return sum;
}

static void put_slabs_and_extents(void)
{
	/* sizes by number: 3 is 48 bytes, 10 is 192, 36 is 16384 */
	const struct model slab = {.addr = HEAP + 0x1000,
				   .size = 0x3000,
				   .slab = 1,
				   .szind = 10,
				   .n_free = 62,
				   .bitmap = {~5ULL, 77, 78}};
	const struct model other_arena = {.addr = HEAP + 0x4000,
					  .size = 0x3000,
					  .slab = 1,
					  .szind = 3,
					  .arena = 9,
					  .n_free = 192,
					  .bitmap = {~0ULL, ~0ULL, ~0ULL, 0}};
	const struct model large = {.addr = HEAP + 0x8040, .size = 0x5000, .szind = 36, .arena = 9};
	const struct model dirty = {
		.addr = HEAP + 0x10000, .size = 0x8000, .state = 1, .szind = NO_SIZE};

	start();
	put_extent(&slab);
	put_extent(&other_arena);
	put_extent(&large);
	put_extent(&dirty);
}

static void check_slabs_and_extents(void)
{
	struct block block;

	put_slabs_and_extents();
	find();
	assert_int_equal(found.n_arenas, 2);
	/* 12288 / 48 = 256 blocks; by the bitmap the last 64 are in use */
	assert_int_equal(sum(1, PLACE_IN_USE).blocks, 64);
	assert_int_equal(sum(1, PLACE_BIN).blocks, 192);
	assert_int_equal(sum(0, PLACE_IN_USE).blocks, 2);
	assert_int_equal(sum(0, PLACE_IN_USE).bytes, 2 * 192);
	assert_int_equal(sum(0, PLACE_BIN).blocks, 62);
	assert_int_equal(sum(1, PLACE_LARGE).bytes, 16384);
	assert_int_equal(sum(0, PLACE_TOP).bytes, 0x8000);
	assert_int_equal(found.quality[HEAP_JEMALLOC].broken_slabs, 0);
	assert_true(blocks__find(blocks, HEAP + 0x1000 + 2 * 192 + 100, &block));
	assert_int_equal(block.start, HEAP + 0x1000 + 2 * 192);
	assert_true(block.in_use);
	assert_true(blocks__find(blocks, HEAP + 0x1000 + 192, &block));
	assert_false(block.in_use);
	assert_true(blocks__find(blocks, HEAP + 0x8040 + 16383, &block));
	assert_int_equal(block.start, HEAP + 0x8040);
	assert_false(blocks__find(blocks, HEAP + 0x8040 + 16384, &block));
	assert_false(blocks__find(blocks, HEAP + 0x10000, &block));
	end();
}

static void test_slabs_and_extents(void **state)
{
	(void)state;
	for (version = V5_3; version <= V5_3_DEEP; version++)
		check_slabs_and_extents();
	version = V5_3;
}

/* Only large blocks are wanted. */
static void test_extents_alone(void **state)
{
	struct block block;

	(void)state;
	for (version = V5_3; version <= V5_3_DEEP; version++) {
		put_slabs_and_extents();
		find_some(true);
		assert_int_equal(found.n_arenas, 2);
		assert_int_equal(blocks__n_spans(blocks), 2);
		assert_true(blocks__find(blocks, HEAP + 0x8040 + 16383, &block));
		assert_int_equal(block.start, HEAP + 0x8040);
		assert_true(block.in_use);
		assert_false(blocks__find(blocks, HEAP + 0x1000, &block));
		end();
	}
	version = V5_3;
}

/* The kernel maps a file where there is room: often right below memory that jemalloc has mapped
 * before. The words of jemalloc's own data are tried before the words of that memory. */
static void test_behind_files(void **state)
{
	(void)state;
	behind_files = true;
	for (version = V5_3; version <= V5_3_DEEP; version++)
		check_slabs_and_extents();
	version = V5_3;
	behind_files = false;
}

/* A reader for 5.3 would mistake a record of 5.2 with the size class 5 for the record of a free
 * extent. */
static void test_old_slabs(void **state)
{
	struct model slab = {.addr = HEAP + 0x1000,
			     .size = 0x5000,
			     .slab = 1,
			     .szind = 5,
			     .n_free = 255,
			     .bitmap = {~1ULL, ~0ULL, ~0ULL, ~0ULL}};

	(void)state;
	version = V5_2;
	start();
	put_extent(&slab);
	slab.addr += 2 * slab.size;
	put_extent(&slab);
	find();
	assert_int_equal(sum(0, PLACE_IN_USE).blocks, 2);
	assert_int_equal(sum(0, PLACE_TOP).blocks, 0);
	assert_int_equal(found.quality[HEAP_JEMALLOC].broken_slabs, 0);
	end();
	version = V5_3;
}

/* There are only slabs, and the number of a slab's class alone leaves two sizes possible. In steps
 * of 8 bytes, the classes with the numbers 2 and 6 have 24 and 56 bytes. The usual classes with
 * these numbers have 32 and 96 bytes. */
static void test_slabs_tell_classes(void **state)
{
	const uint64_t sizes[] = {eight ? 24 : 32, eight ? 56 : 96};
	const uint64_t pages[] = {eight ? 3 : 1, eight ? 7 : 3};
	const uint64_t numbers[] = {2, 6};

	(void)state;
	start();
	for (size_t i = 0; i < 2; i++) {
		const uint64_t addr = HEAP + 0x1000 + 0x8000 * i, n = pages[i] * 4096 / sizes[i];
		const uint64_t edata = next_edata;
		struct model slab = {
			.addr = addr, .size = pages[i] * 4096, .slab = 1, .n_free = n - 3};

		for (size_t k = 3; k < n; k++)
			slab.bitmap[k / 64] |= 1ULL << k % 64;
		put_extent(&slab);
		/* the number itself, not that of a usual class */
		fake__put(&fake, edata, 1ULL << 12 | numbers[i] << 20 | slab.n_free << 28);
		for (uint64_t page = addr; page < addr + slab.size; page += 4096)
			fake__put(&fake, LEAF + 8 * (page >> 12 & 0x3ffff),
				  numbers[i] << 48 | edata | 1);
	}
	find();
	assert_int_equal(sum(0, PLACE_IN_USE).blocks, 6);
	assert_int_equal(sum(0, PLACE_IN_USE).bytes, 3 * (sizes[0] + sizes[1]));
	assert_int_equal(found.quality[HEAP_JEMALLOC].slabs, 2);
	assert_int_equal(found.quality[HEAP_JEMALLOC].broken_slabs, 0);
	end();
}

/* The option slab_sizes makes slabs of five pages for blocks of 64 bytes (number 4 of the usual
 * classes). By themselves they look like slabs for blocks of 40 bytes (number 4 in steps of 8
 * bytes). A large extent shows which of the two sizes is right. */
static void test_other_slab_sizes(void **state)
{
	const struct model large = {.addr = HEAP + 0x20000, .size = 0xa000, .szind = 41};

	(void)state;
	if (eight)
		return;
	start();
	put_extent(&large);
	for (size_t i = 0; i < 3; i++) {
		const uint64_t addr = HEAP + 0x1000 + 0x8000 * i, edata = next_edata;
		struct model slab = {.addr = addr, .size = 0x5000, .slab = 1, .n_free = 317};

		for (size_t k = 3; k < 320; k++)
			slab.bitmap[k / 64] |= 1ULL << k % 64;
		put_extent(&slab);
		fake__put(&fake, edata, 1ULL << 12 | 4ULL << 20 | slab.n_free << 28);
		for (uint64_t page = addr; page < addr + slab.size; page += 4096)
			fake__put(&fake, LEAF + 8 * (page >> 12 & 0x3ffff), 4ULL << 48 | edata | 1);
	}
	find();
	assert_int_equal(sum(0, PLACE_IN_USE).blocks, 9);
	assert_int_equal(sum(0, PLACE_IN_USE).bytes, 9 * 64);
	end();
}

/* In jemalloc 5.3.1, the record of a block of 0x9000 bytes has the number of the size class
 * 0xa000. */
static void test_large_pages(void **state)
{
	const struct model large = {.addr = HEAP + 0x8040, .size = 0xa000, .szind = 41};
	const struct model absurd = {.addr = HEAP + 0x20000, .size = 0x6000, .szind = 44};
	struct block block;

	(void)state;
	start();
	put_extent(&large);
	put_extent(&absurd);
	find();
	assert_true(blocks__find(blocks, HEAP + 0x8040, &block));
	assert_int_equal(block.size, 0x9000);
	assert_false(blocks__find(blocks, HEAP + 0x20000, &block));
	end();
}

/* By the number of its size class, the first block is as large as its extent. This is right if
 * jemalloc adds no page to large blocks. But if another block does not begin at a page, jemalloc
 * adds a page to large blocks. Then it is 5.3.1, and the first block is one page smaller than its
 * extent. */
static void test_whole_extents(void **state)
{
	const struct model whole = {.addr = HEAP + 0x8000, .size = 0xa000, .szind = 41};
	const struct model shifted = {.addr = HEAP + 0x20040, .size = 0x5000, .szind = 36};
	struct block block;

	(void)state;
	for (int pads = 0; pads < 2; pads++) {
		start();
		put_extent(&whole);
		if (pads)
			put_extent(&shifted);
		find();
		assert_true(blocks__find(blocks, HEAP + 0x8000, &block));
		assert_int_equal(block.size, pads ? 0x9000 : 0xa000);
		assert_int_equal(sum(0, PLACE_LARGE).bytes, pads ? 0x9000 + 0x4000 : 0xa000);
		end();
	}
}

static void test_what_disagrees(void **state)
{
	const struct model slab = {.addr = HEAP + 0x1000,
				   .size = 0x3000,
				   .slab = 1,
				   .szind = 10,
				   .n_free = 61,
				   .bitmap = {~5ULL}};
	const struct model large = {.addr = HEAP + 0x8000, .size = 0x5000, .szind = 36};
	const struct model free_slab = {
		.addr = HEAP + 0x10000, .size = 0x3000, .slab = 1, .state = 1, .szind = NO_SIZE};
	const struct model free_large = {
		.addr = HEAP + 0x20000, .size = 0x5000, .state = 1, .szind = 36};

	(void)state;
	/* a free extent has no size, but in 5.3 it may still have the mark of a slab */
	start();
	put_extent(&slab);
	put_extent(&free_slab);
	put_extent(&free_large);
	find();
	assert_int_equal(blocks__n_spans(blocks), 2);
	end();
	/* the extent's own count is wrong */
	start();
	put_extent(&slab);
	find();
	assert_int_equal(found.quality[HEAP_JEMALLOC].broken_slabs, 1);
	end();
	/* the leaf's entry has another size, another kind, another extent */
	for (int i = 0; i < 3; i++) {
		start();
		put_extent(&slab);
		put_extent(&large);
		fake__put(&fake, LEAF + 8 * ((HEAP >> 12 & 0x3ffff) + 8),
			  i == 0   ? number(35) << 48 | (EDATA + 128)
			  : i == 1 ? number(36) << 48 | (EDATA + 128) | 1
				   : number(10) << 48 | EDATA | 1);
		find();
		assert_int_equal(blocks__n_spans(blocks), 1);
		end();
	}
	/* the tree leads to an address without memory */
	start();
	fake__put(&fake, LEAF + 8 * (HEAP >> 12 & 0x3ffff), 10ULL << 48 | 0x1000);
	find();
	assert_int_equal(found.n_arenas, 0);
	end();
}

/* --- the memory of records --- */

/* Writes a record to which the tree does not lead. */
static void put_unused(uint64_t at, uint32_t arena, uint64_t size_number, uint64_t addr)
{
	int older = version == V5_2;

	fake__put(&fake, at,
		  arena | 1ULL << (17 - older) | number(size_number) << (20 - 2 * older));
	fake__put(&fake, at + 8, addr);
	fake__put(&fake, at + 16, 0x3000 | 2);
	for (int i = 0; i < 3; i++) /* as in a record that is linked */
		fake__put(&fake, at + 40 + 8 * i, i == 1 ? 0 : EDATA + 128 * i);
}

static void put_two(void)
{
	const struct model slab = {.addr = HEAP + 0x1000,
				   .size = 0x3000,
				   .slab = 1,
				   .szind = 10,
				   .n_free = 62,
				   .bitmap = {~5ULL}};
	const struct model large = {.addr = HEAP + 0x8040, .size = 0x5000, .szind = 36};

	start();
	put_extent(&slab);
	next_edata = EDATA + 6 * 128;
	put_extent(&large);
}

static void check_records(void)
{
	put_two();
	find();
	assert_int_equal(found.n_records, 2);
	assert_int_equal(found.records[0].start, EDATA);
	assert_int_equal(found.records[0].end, EDATA + 128);
	assert_int_equal(found.records[1].start, EDATA + 6 * 128);
	assert_int_equal(found.records[1].end, EDATA + 7 * 128);
	end();

	/* unused records between the two, one before and one behind them */
	put_two();
	put_unused(EDATA - 128, 0, NO_SIZE, HEAP + 0x2000);
	for (uint64_t i = 1; i < 8; i++)
		if (i != 6)
			put_unused(EDATA + 128 * i, 0, NO_SIZE, HEAP + 0x1000 * i);
	find();
	assert_int_equal(found.n_records, 1);
	assert_int_equal(found.records[0].start, EDATA - 128);
	assert_int_equal(found.records[0].end, EDATA + 8 * 128);
	end();

	/* only unused records right beside a record count, not those behind other memory */
	put_two();
	put_unused(EDATA + 128, 0, NO_SIZE, HEAP + 0x2000);
	put_unused(EDATA + 3 * 128, 0, NO_SIZE, HEAP + 0x2000);
	put_unused(EDATA + 5 * 128, 0, NO_SIZE, HEAP + 0x2000);
	find();
	assert_int_equal(found.n_records, 2);
	assert_int_equal(found.records[0].end, EDATA + 2 * 128);
	assert_int_equal(found.records[1].start, EDATA + 5 * 128);
	end();
}

static void test_records(void **state)
{
	(void)state;
	for (version = V5_3; version <= V5_3_DEEP; version++)
		check_records();
	version = V5_3;
}

/* Memory beside a record need not be a record. */
static void test_no_unused_record(void **state)
{
	(void)state;
	for (int i = 0; i < 7; i++) {
		const uint64_t at = EDATA + 128;

		put_two();
		put_unused(at, i == 0 ? 3 : 0, i == 1 ? 36 : NO_SIZE,
			   i == 2   ? 0
			   : i == 3 ? HEAP + 0x2040
				    : HEAP + 0x2000);
		if (i == 4) /* the record has no size */
			fake__put(&fake, at + 16, 2);
		if (i == 5) /* the links */
			fake__put(&fake, at + 40, 17);
		if (i == 6)
			fake__put(&fake, at + 56, HEAP + 8);
		find();
		assert_int_equal(found.records[0].start, EDATA);
		assert_int_equal(found.records[0].end, EDATA + 128);
		end();
	}
	/* the page behind the last record is not resident */
	put_two();
	for (uint64_t at = EDATA; at < EDATA + 0x2000; at += 128)
		if (at != EDATA && at != EDATA + 6 * 128)
			put_unused(at, 0, NO_SIZE, HEAP + 0x2000);
	fake__set_page(&fake, EDATA + 0x1000, 0);
	find();
	assert_int_equal(found.n_records, 1);
	assert_int_equal(found.records[0].end, EDATA + 0x1000);
	end();
}

/* --- bins of free extents --- */

#define BINS (META + 0x207008) /* before the first record; the search reads it in two windows */

static uint64_t bin(uint64_t i)
{
	return BINS + 32 * i;
}

static void put_free_bin(uint64_t i, uint64_t record, uint64_t addr)
{
	fake__put(&fake, bin(i), record);
	fake__put(&fake, bin(i) + 8, record ? 3 : 0);
	fake__put(&fake, bin(i) + 16, 5);
	fake__put(&fake, bin(i) + 24, addr);
}

/* Two extents, and an array of n bins. */
static void put_bins(uint64_t n)
{
	put_two();
	fake__put(&fake, bin(0) - 8, 0x123);
	put_free_bin(7, EDATA + 6 * 128, HEAP + 0x8000);
	put_free_bin(9, 0, HEAP + 0x1000);
	put_free_bin(n - 1, 0, HEAP + 0x2000);
	fake__put(&fake, bin(n) + 24, 0x123);
}

static void test_bins(void **state)
{
	const uint64_t full[] = {7, 9, 199};

	(void)state;
	put_bins(200);
	find();
	assert_int_equal(found.n_records, 5);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(found.records[i].start, bin(full[i]) + 24);
		assert_int_equal(found.records[i].end, bin(full[i]) + 32);
	}
	assert_int_equal(found.records[3].start, EDATA);
	assert_int_equal(found.records[4].start, EDATA + 6 * 128);
	end();
}

/* Memory that is no array of bins. */
static void test_no_bins(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		put_bins(i == 0 ? 150 : i == 1 ? 260 : 200);
		if (i == 1) /* too many addresses */
			for (uint64_t k = 0; k < 260; k++)
				put_free_bin(k, 0, HEAP + 0x1000);
		if (i == 2)
			put_free_bin(100, HEAP, HEAP + 0x1000);
		if (i == 3) /* not the beginning of a record */
			put_free_bin(100, EDATA + 8, HEAP + 0x1000);
		if (i == 4)
			put_free_bin(100, 0, HEAP + 0x1008);
		if (i == 5) /* the bin counts a waiting extent, but points to none */
			fake__put(&fake, bin(100) + 8, 1);
		if (i == 6)
			fake__put(&fake, bin(100) + 16, HEAP);
		if (i == 7) /* only a part of the array is resident */
			fake__set_page(&fake, bin(100), 0);
		find();
		assert_int_equal(found.n_records, 2);
		end();
	}
}

/* Hostile: all entries of the leaf lead to records that overlap, and all memory beside them looks
 * like unused records. */
static void test_records_that_overlap(void **state)
{
	(void)state;
	version = V5_2; /* here records may begin at each 64th byte */
	start();
	for (uint64_t at = EDATA - 0x10000; at < EDATA + 0x10000; at += 128)
		put_unused(at, 0, NO_SIZE, HEAP + 0x1000);
	for (uint64_t i = 0; i < 16; i++) {
		struct model large = {.addr = HEAP + 0x1000 * i, .size = 0x1000, .szind = 27};

		next_edata = EDATA + 64 * i;
		put_extent(&large);
	}
	find();
	assert_int_equal(found.n_records, 1);
	assert_true(found.records[0].start <= EDATA);
	assert_true(found.records[0].end <= META + 0x400000);
	end();
	version = V5_3;
}

/* --- thread caches --- */

#define TLS   0x7f4000000000ULL
#define CACHE (TLS + 0x1238)
#define SLOTS (HEAP + 0x20000) /* the block with the slots of all bins */
#define ROOM  8		       /* slots of each bin */

static uint64_t end_of_bin(size_t i)
{
	return SLOTS + 8 + 8 * ROOM * (i + 1);
}

/* In 5.3.1, bins store the number of their slots. */
static enum { CACHE_5_1, CACHE_5_2, CACHE_5_3, CACHE_5_3_1 } cache_form = CACHE_5_3;

/* How many classes have slabs, and thus bins in the first array of a cache of 5.1 or 5.2. */
static size_t n_slab(void)
{
	return eight ? 39 : 36;
}

static bool is_old_cache(void)
{
	return cache_form <= CACHE_5_2;
}

/* In a cache of 5.1 or 5.2: the offset of the two addresses. The second array is behind them. */
static uint64_t addresses(void)
{
	return (eight ? 936 : 864) + (cache_form == CACHE_5_2 ? 56 : 32);
}

static uint64_t second_array(void)
{
	return addresses() + (eight ? 72 : 64);
}

/* The address of a bin. */
static uint64_t bin_at(size_t i)
{
	return CACHE + 24 * i +
	       (is_old_cache() && i >= n_slab() ? second_array() - 24 * n_slab() : 0);
}

/* Fills a bin with n blocks, the last of which was cached last. */
static void put_bin(size_t i, const uint64_t *cached, size_t n)
{
	uint64_t first = end_of_bin(i) - 8 * ROOM, head = end_of_bin(i) - 8 * n;

	fake__put(&fake, bin_at(i) + 8, 12345); /* statistics */
	fake__put(&fake, bin_at(i), is_old_cache() ? n << 32 | 0xffffffff : head);
	fake__put(&fake, bin_at(i) + 16,
		  is_old_cache() ? end_of_bin(i)
				 : (first & 0xffff) | (first & 0xffff) << 16 |
					   (end_of_bin(i) & 0xffff) << 32 |
					   (uint64_t)(cache_form == CACHE_5_3_1 ? ROOM : 0) << 48);
	for (size_t k = 0; k < n; k++)
		fake__put(&fake, end_of_bin(i) - 8 * (k + 1), cached[k]);
}

/* A slab of blocks of 192 bytes, of which the first four are in use; a block of 16 KiB; and a cache
 * of n bins, which holds the first and the third block, and the large one. */
static void put_cached(size_t n)
{
	const struct model slab = {.addr = HEAP + 0x1000,
				   .size = 0x3000,
				   .slab = 1,
				   .szind = 10,
				   .n_free = 60,
				   .bitmap = {~0xfULL}};
	const struct model large = {.addr = HEAP + 0x8000, .size = 0x5000, .szind = 36};
	const struct model slots = {.addr = SLOTS, .size = 0x6000, .szind = 37, .arena = 9};
	/* HEAP + 0x1000 + 4 * 192 is a free block; the next address is within a block; the last one
	 * is outside of the heap */
	const uint64_t cached[] = {HEAP + 0x1000, HEAP + 0x1000 + 2 * 192, HEAP + 0x1000 + 4 * 192,
				   HEAP + 0x1000 + 192 + 8, 0x123450};

	start();
	put_extent(&slab);
	put_extent(&large);
	put_extent(&slots);
	fake__add(&fake, TLS, 0x3000, FAKE_ANON);
	fake__put(&fake, SLOTS, 0x7a7a7a7a7a7a7a7aULL);
	for (size_t i = 0; i < n; i++)
		put_bin(i, NULL, 0);
	put_bin(number(10), cached, 5);
	/* the second block is in a slot that is not filled any more */
	fake__put(&fake, end_of_bin(number(10)) - 8 * 6, HEAP + 0x1000 + 192);
	/* this block has 192 bytes, but the bin is for blocks of 224 bytes */
	put_bin(number(11), (uint64_t[]){HEAP + 0x1000 + 3 * 192}, 1);
	if (n > n_slab())
		put_bin(n_slab(), (uint64_t[]){HEAP + 0x8000}, 1);
	if (cache_form == CACHE_5_3)
		fake__put(&fake, end_of_bin(n - 1), 0xa7a7a7a7a7a7a7a7ULL);
	if (is_old_cache()) {
		fake__put(&fake, CACHE + addresses(), CACHE);
		fake__put(&fake, CACHE + addresses() + 8, CACHE + second_array());
	}
}

static bool in_use(uint64_t addr)
{
	struct block block;

	return blocks__find(blocks, addr, &block) && block.in_use;
}

static void check_thread_cache(void)
{
	uint64_t bytes;

	put_cached(n_slab() + 1);
	find();
	assert_int_equal(found.quality[HEAP_JEMALLOC].thread_caches, 1);
	assert_false(in_use(HEAP + 0x1000));
	assert_true(in_use(HEAP + 0x1000 + 192));
	assert_false(in_use(HEAP + 0x1000 + 2 * 192));
	assert_true(in_use(HEAP + 0x1000 + 3 * 192));
	assert_false(in_use(HEAP + 0x8000));
	assert_int_equal(blocks__in_use(blocks, &bytes), 2);
	assert_int_equal(bytes, 2 * 192);
	assert_int_equal(sum(0, PLACE_THREAD_CACHE).blocks, 3);
	assert_int_equal(sum(0, PLACE_THREAD_CACHE).bytes, 2 * 192 + 16384);
	assert_int_equal(sum(0, PLACE_IN_USE).blocks, 2);
	assert_int_equal(sum(0, PLACE_IN_USE).bytes, 2 * 192);
	assert_int_equal(sum(0, PLACE_BIN).blocks, 60);
	assert_int_equal(sum(0, PLACE_LARGE).blocks, 0);
	/* jemalloc counts the block of the slots, but it is no block of the program */
	assert_int_equal(sum(1, PLACE_LARGE).bytes, 20480);
	assert_int_equal(blocks__find_span(blocks, HEAP + 0x8000)->kind, SPAN_FREE);
	assert_int_equal(blocks__find_span(blocks, SLOTS)->kind, SPAN_OWN);
	end();
}

static void test_thread_cache(void **state)
{
	(void)state;
	for (cache_form = CACHE_5_1; cache_form <= CACHE_5_3_1; cache_form++)
		check_thread_cache();
	cache_form = CACHE_5_3;
}

/* Memory that looks like a cache, but is no cache, or only a part of one. */
static void test_no_thread_cache(void **state)
{
	(void)state;
	for (int i = 0; i < 7; i++) {
		cache_form = i == 6 ? CACHE_5_3_1 : CACHE_5_3;
		/* a cache has a bin at least for each class with slabs */
		put_cached(i == 0 ? n_slab() - 1 : n_slab() + 1);
		if (i == 1)
			fake__put(&fake, SLOTS, 0);
		if (i == 2)
			fake__put(&fake, end_of_bin(n_slab()), 0);
		if (i == 3) /* a bin that does not adjoin the previous bin */
			fake__put(&fake, CACHE + 24 * 20 + 16, 0);
		if (i == 4) /* a bin whose head is behind its end */
			fake__put(&fake, CACHE + 24 * 20, end_of_bin(20) + 8);
		if (i == 5) /* the rest of the cache is not resident */
			fake__set_page(&fake, TLS + 0x1000, 0);
		if (i == 6) { /* a bin whose number of slots is not right */
			cache_form = CACHE_5_3;
			put_bin(20, NULL, 0);
		}
		find();
		assert_int_equal(found.quality[HEAP_JEMALLOC].thread_caches, 0);
		assert_true(in_use(HEAP + 0x1000));
		assert_true(in_use(HEAP + 0x8000));
		assert_true(in_use(SLOTS));
		end();
	}
}

/* Memory that looks like a cache of jemalloc 5.2, but is none, or only a part of one. */
static void test_no_old_thread_cache(void **state)
{
	(void)state;
	cache_form = CACHE_5_2;
	for (int i = 0; i < 5; i++) {
		put_cached(i == 0 ? n_slab() - 1 : n_slab() + 1);
		if (i == 1)
			fake__put(&fake, CACHE + addresses(), CACHE + 8);
		if (i == 2)
			fake__put(&fake, CACHE + addresses() + 8, CACHE + second_array() + 8);
		if (i == 3) /* a bin with more blocks than slots */
			fake__put(&fake, bin_at(20), (uint64_t)(ROOM + 1) << 32);
		if (i == 4) /* a bin with absurdly many blocks */
			fake__put(&fake, bin_at(0), 0x7fffffffULL << 32);
		find();
		assert_int_equal(found.quality[HEAP_JEMALLOC].thread_caches, 0);
		assert_true(in_use(HEAP + 0x1000));
		assert_true(in_use(SLOTS));
		end();
	}
	cache_form = CACHE_5_3;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slabs_and_extents),
		cmocka_unit_test(test_extents_alone),
		cmocka_unit_test(test_behind_files),
		cmocka_unit_test(test_old_slabs),
		cmocka_unit_test(test_slabs_tell_classes),
		cmocka_unit_test(test_other_slab_sizes),
		cmocka_unit_test(test_large_pages),
		cmocka_unit_test(test_whole_extents),
		cmocka_unit_test(test_what_disagrees),
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_no_unused_record),
		cmocka_unit_test(test_records_that_overlap),
		cmocka_unit_test(test_bins),
		cmocka_unit_test(test_no_bins),
		cmocka_unit_test(test_thread_cache),
		cmocka_unit_test(test_no_thread_cache),
		cmocka_unit_test(test_no_old_thread_cache),
	};

	int failed = cmocka_run_group_tests_name("usual classes", tests, NULL, NULL);

	eight = true;
	return failed + cmocka_run_group_tests_name("steps of 8", tests, NULL, NULL);
}
