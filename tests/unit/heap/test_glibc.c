// SPDX-License-Identifier: BSD-2-Clause
/* Heaps laid out by hand like those of malloc/malloc.c of glibc 2.36, and of 2.31 and 2.43 where
 * these differ. */
#include "found.h"

#define LIB    0x7f1000000000ULL
#define MAIN   (LIB + 0xc60) /* main_arena */
#define PARAMS (LIB + 0x174) /* mp_.n_mmaps */
#define BRK    0x555500000000ULL
#define HEAP   0x7f2004000000ULL /* heap of another arena, 64 MiB-aligned */
#define ARENA  (HEAP + 0x30)
#define MMAPS  0x7f3000000000ULL
#define KEY    0x1234567890abcdefULL

#define USED  1 /* the low bits of a size: PREV_INUSE */
#define OTHER 4 /* NON_MAIN_ARENA */

static uint64_t top_off = 96; /* offset of `top` in an arena; 8 in glibc 2.43 */

static void put_arena(uint64_t addr, uint64_t top, uint64_t next, uint64_t bytes)
{
	addr += top_off;
	for (uint64_t i = 0; i < 127; i++) {
		fake__put(&fake, addr + 16 + 16 * i, addr + 16 * i);
		fake__put(&fake, addr + 24 + 16 * i, addr + 16 * i);
	}
	fake__put(&fake, addr, top);
	fake__put(&fake, addr + 2064, next);
	fake__put(&fake, addr + 2088, bytes);
}

static void put_params(uint64_t n_mmaps, uint64_t mmapped)
{
	fake__put(&fake, PARAMS, n_mmaps | 65536ULL << 32);
	fake__put(&fake, PARAMS + 8, 9);
	fake__put(&fake, PARAMS + 20, mmapped);
	fake__put(&fake, PARAMS + 28, mmapped);
	fake__put(&fake, PARAMS + 36, BRK);
	fake__put(&fake, PARAMS + 44, 64);
	fake__put(&fake, PARAMS + 52, 1032);
}

/* Writes chunks from addr on. sizes: ended by 0; a chunk with a positive size is in use, one with a
 * negative size is free. */
static uint64_t put_chunks(uint64_t addr, uint64_t flags, const long *sizes)
{
	uint64_t used = USED;

	for (; *sizes; sizes++) {
		uint64_t size = (uint64_t)labs(*sizes);

		fake__put(&fake, addr + 8, size | used | (*sizes > 0 ? flags : 0));
		used = *sizes > 0 ? USED : 0;
		if (!used) {
			fake__put(&fake, addr + size, size);
			/* a bin that has only this chunk, in data that nothing else uses */
			fake__put(&fake, addr + 16, LIB + 0x1800);
			fake__put(&fake, addr + 24, LIB + 0x1800);
			fake__put(&fake, LIB + 0x1810, addr);
			fake__put(&fake, LIB + 0x1818, addr);
		}
		addr += size;
	}
	return addr;
}

static void put_top(uint64_t arena, uint64_t addr, uint64_t end)
{
	fake__put(&fake, addr + 8, (end - addr) | USED);
	fake__put(&fake, arena + top_off, addr);
}

static void start(uint64_t brk_len)
{
	found = (struct heap_found){};
	fake__add(&fake, BRK, brk_len, FAKE_BRK);
	fake__add(&fake, LIB, 0x3000, FAKE_DATA);
}

/* Makes a valid main arena whose first chunks have these sizes. Returns the address of its top. */
static uint64_t put_heap(const long *sizes)
{
	uint64_t top;

	start(0x40000);
	put_arena(MAIN, 0, MAIN, 0x40000);
	put_params(0, 0);
	top = put_chunks(BRK, 0, sizes);
	put_top(MAIN, top, BRK + 0x40000);
	return top;
}

static uint64_t place(size_t arena, enum heap_place which, uint64_t *ret_bytes)
{
	uint64_t n = 0;

	*ret_bytes = 0;
	for (size_t i = 0; i < HEAP_SIZES; i++) {
		n += found.arenas[arena]->count[which][i].blocks;
		*ret_bytes += found.arenas[arena]->count[which][i].bytes;
	}
	return n;
}

static void assert_place(size_t arena, enum heap_place which, uint64_t n, uint64_t bytes)
{
	uint64_t got_bytes, got = place(arena, which, &got_bytes);

	assert_int_equal(got, n);
	assert_int_equal(got_bytes, bytes);
}

static void assert_block(uint64_t addr, uint64_t size, bool in_use)
{
	struct block block;

	assert_true(blocks__find(blocks, addr + size / 2, &block));
	assert_int_equal(block.start, addr);
	assert_int_equal(block.size, size);
	assert_int_equal(block.in_use, in_use);
}

static const struct heap_quality *quality(void)
{
	return &found.quality[HEAP_GLIBC];
}

static void assert_good(void)
{
	assert_int_equal(quality()->resyncs, 0);
	assert_int_equal(quality()->unknown_bytes, 0);
	assert_int_equal(quality()->absent_bytes, 0);
	assert_int_equal(quality()->doubtful, 0);
	assert_int_equal(quality()->own_bytes, quality()->found_bytes);
	assert_int_equal(quality()->own_large, quality()->found_large);
}

static void test_main_arena(void **state)
{
	static const long sizes[] = {32, 48, -96, 2000, -70000, 80000, 32, 0};
	uint64_t top;

	(void)state;
	top = put_heap(sizes);
	find();
	assert_good();
	assert_int_equal(found.n_arenas, 1);
	assert_place(0, PLACE_IN_USE, 5, 24 + 40 + 1992 + 79992 + 24);
	assert_place(0, PLACE_BIN, 2, 88 + 69992);
	assert_place(0, PLACE_TOP, 1, BRK + 0x40000 - top - 8);
	assert_block(BRK + 0x10, 24, true);
	assert_block(BRK + 0x10 + 80, 88, false);
	assert_block(BRK + 0x10 + 80 + 96 + 2000 + 70000, 79992, true);
	end();
}

/* A heap without struct malloc_par, as in static programs. Before the heap lies memory that the
 * program itself took by sbrk(). */
static void test_foreign_sbrk(void **state)
{
	static const long sizes[] = {32, 48, 32, 32, 64, 96, 112, 32, 32, 640, 0};
	uint64_t top;

	(void)state;
	start(0x40000);
	put_arena(MAIN, 0, MAIN, 0x40000 - 0x1230);
	top = put_chunks(BRK + 0x1230, 0, sizes);
	put_top(MAIN, top, BRK + 0x40000);
	find();
	assert_good();
	assert_place(0, PLACE_IN_USE, 10, 1120 - 80);
	end();
}

/* A thread cache and two fast bins, with links as of glibc 2.32. */
static void test_caches(void **state)
{
	static const long sizes[] = {0x290, 32, 32, 32, 48, 48, 48, 0};
	uint64_t first = BRK + 0x290 + 16, fast = first + 3 * 32;

	(void)state;
	put_heap(sizes);
	/* the cache has the third chunk, then the first one */
	fake__put(&fake, BRK + 16, 2);
	fake__put(&fake, BRK + 16 + 128, first + 64);
	fake__put(&fake, first + 64, first ^ (first + 64) >> 12);
	fake__put(&fake, first + 72, KEY);
	fake__put(&fake, first, first >> 12);
	fake__put(&fake, first + 8, KEY);
	/* the fast bin of 48 has the last chunk, then the first one; its links lead to chunks */
	fake__put(&fake, MAIN + 16 + 8, fast + 96 - 16);
	fake__put(&fake, fast + 96, (fast - 16) ^ (fast + 96) >> 12);
	fake__put(&fake, fast, fast >> 12);
	find();
	assert_good();
	assert_place(0, PLACE_IN_USE, 3, 0x288 + 24 + 40);
	assert_place(0, PLACE_THREAD_CACHE, 2, 48);
	assert_place(0, PLACE_FAST_BIN, 2, 80);
	assert_block(first, 24, false);
	assert_block(first + 32, 24, true);
	assert_block(first + 64, 24, false);
	assert_block(fast, 40, false);
	assert_block(fast + 48, 40, true);
	assert_block(fast + 96, 40, false);
	end();
}

/* Writes a block of a thread cache's list: a link to the block `next`, and the key. */
static void put_cached(uint64_t addr, uint64_t next)
{
	fake__put(&fake, addr, next ^ addr >> 12);
	fake__put(&fake, addr + 8, KEY);
}

/* The tunable glibc.malloc.tcache_count allows lists of up to 65535 blocks. */
static void test_long_list(void **state)
{
	enum { N = 5000 };
	static long sizes[N + 2] = {0x290};
	uint64_t first = BRK + 0x290 + 16;

	(void)state;
	for (size_t i = 1; i <= N; i++)
		sizes[i] = 32;
	put_heap(sizes);
	fake__put(&fake, BRK + 16, N);
	fake__put(&fake, BRK + 16 + 128, first);
	for (uint64_t i = 0; i < N; i++)
		put_cached(first + 32 * i, i + 1 < N ? first + 32 * (i + 1) : 0);
	find();
	assert_good();
	assert_place(0, PLACE_THREAD_CACHE, N, N * 24);
	assert_place(0, PLACE_IN_USE, 1, 0x288);
	end();
}

/* When a thread ends, blocks of its cache are freed with the key in them. The next owner of such a
 * block may never write to this word. */
static void test_stale_key(void **state)
{
	static const long sizes[] = {0x290, 32, 32, 32, 48, 0};
	uint64_t first = BRK + 0x290 + 16;

	(void)state;
	put_heap(sizes);
	fake__put(&fake, BRK + 16, 1);
	fake__put(&fake, BRK + 16 + 128, first + 64);
	put_cached(first + 64, 0);
	fake__put(&fake, first + 8, KEY);
	fake__put(&fake, first + 96 + 8, KEY);
	find();
	assert_good();
	assert_block(first, 24, true);
	assert_block(first + 32, 24, true);
	assert_block(first + 64, 24, false);
	assert_block(first + 96, 40, true);
	assert_place(0, PLACE_THREAD_CACHE, 1, 24);
	end();
}

/* The list for 32 bytes changes while it is read. So a block is taken for a block of this list only
 * if it has the key and a valid link. The list for 48 bytes does not change. */
static void test_list_that_changes(void **state)
{
	static const long sizes[] = {0x290, 32, 32, 32, 32, 32, 48, 48, 0};
	uint64_t first = BRK + 0x290 + 16, other = first + 160;

	(void)state;
	put_heap(sizes);
	fake__put(&fake, BRK + 16, 2 | 1 << 16);
	fake__put(&fake, BRK + 16 + 128, first + 64);
	fake__put(&fake, BRK + 16 + 128 + 8, other);
	put_cached(first + 64, 0x123450);
	put_cached(first + 32, 0);
	put_cached(first + 96, first + 32);
	put_cached(first + 128, 0x5a5a5a5a5a5a);
	put_cached(other, 0);
	fake__put(&fake, other + 48 + 8, KEY);
	find();
	assert_block(first, 24, true);
	assert_block(first + 32, 24, false);
	assert_block(first + 64, 24, false);
	assert_block(first + 96, 24, false);
	assert_block(first + 128, 24, true);
	assert_block(other, 40, false);
	assert_block(other + 48, 40, true);
	assert_place(0, PLACE_THREAD_CACHE, 4, 3 * 24 + 40);
	end();
}

#define FAST_HEAD (MAIN + 16 + 8) /* of the fast bin for 48 bytes */

/* At each look, the fast bin begins with another chunk. */
static void change_head(struct fake *f, uint64_t addr)
{
	static bool second;

	if (addr != FAST_HEAD)
		return;
	fake__put(f, FAST_HEAD, BRK + 0x290 + (second ? 48 : 0));
	second = !second;
}

/* At the head of a fast bin, chunks come and go. The chunks behind them stay free. */
static void test_fast_bin_that_changes(void **state)
{
	static const long sizes[] = {0x290, 48, 48, 48, 48, 48, 0};
	uint64_t first = BRK + 0x290 + 16;

	(void)state;
	put_heap(sizes);
	for (int i = 0; i < 4; i++) { /* the first two lead to the third */
		uint64_t at = first + 48 * (uint64_t)i, next = first - 16 + (i < 2 ? 96 : 144);

		fake__put(&fake, at, (i < 3 ? next : 0) ^ at >> 12);
	}
	fake.before_read = change_head;
	find();
	assert_block(first, 40, true);
	assert_block(first + 48, 40, true);
	assert_block(first + 96, 40, false);
	assert_block(first + 144, 40, false);
	assert_block(first + 192, 40, true);
	assert_place(0, PLACE_FAST_BIN, 2, 80);
	end();
}

/* The reader first tries eight times to see the whole list, and each try looks at the head twice.
 * Then the reader walks the list several times, to find the blocks that stay on it. The first two
 * of these later walks have no common end. */
static void change_all(struct fake *f, uint64_t addr)
{
	static int looks;
	uint64_t first = BRK + 0x290 + 16;

	change_head(f, addr);
	if (addr != FAST_HEAD || ++looks != 2 * 8 + 3)
		return;
	for (uint64_t at = first; at <= first + 48; at += 48)
		fake__put(f, at, (first - 16 + 96) ^ at >> 12);
}

static void test_fast_bin_whose_end_changes(void **state)
{
	static const long sizes[] = {0x290, 48, 48, 48, 0};
	uint64_t first = BRK + 0x290 + 16;

	(void)state;
	put_heap(sizes);
	for (uint64_t at = first; at <= first + 96; at += 48)
		fake__put(&fake, at, at >> 12); /* a list of one chunk */
	fake.before_read = change_all;
	find();
	assert_block(first, 40, true);
	assert_block(first + 48, 40, true);
	assert_block(first + 96, 40, false);
	end();
}

/* glibc 2.43 has no fast bins. A thread cache says how much room its lists have, and has lists of
 * large blocks. There is room for a header after mapped blocks. */
static void test_2_43(void **state)
{
	static const long sizes[] = {48, 48, 0x310, 2000, 1504, 64, 0};
	uint64_t cache = BRK + 96 + 16, large = cache + 0x310;

	(void)state;
	top_off = 8;
	start(0x40000);
	fake__add(&fake, MMAPS, 0x8000, FAKE_ANON);
	put_arena(MAIN, 0, MAIN, 0x40000);
	put_params(2, 0x7000);
	fake__put(&fake, PARAMS + 52, 1041);
	put_top(MAIN, put_chunks(BRK, 0, sizes), BRK + 0x40000);
	for (uint64_t i = 0; i < 76; i += 4)
		fake__put(&fake, cache + 2 * i, 0x0010001000100010);
	fake__put(&fake, cache, 0x001000100000000f); /* no room in the second list */
	fake__put(&fake, cache + 152 + 8, BRK + 16);
	put_cached(BRK + 16, 0);
	/* the list of 1041 to 2047 bytes */
	fake__put(&fake, cache + 152 + 8 * 64, large + 2000);
	put_cached(large + 2000, large);
	put_cached(large, 0);
	fake__put(&fake, MMAPS + 8, (0x5000 - 16) | 2);
	/* a block of memalign(64), with the flag for huge pages */
	fake__put(&fake, MMAPS + 0x5000, 1);
	fake__put(&fake, MMAPS + 0x5008, (0x2000 - 16) | 2);
	fake__put(&fake, MMAPS + 0x5030, 0x30 | 1);
	fake__put(&fake, MMAPS + 0x5038, (0x2000 - 0x30 - 16) | 2);
	find();
	top_off = 96;
	assert_good();
	assert_place(0, PLACE_IN_USE, 3, 40 + 0x308 + 56);
	assert_place(0, PLACE_THREAD_CACHE, 3, 40 + 1992 + 1496);
	assert_place(0, PLACE_LARGE, 2, 0x5000 - 24 + 0x2000 - 0x30 - 24);
	assert_block(BRK + 16, 40, false);
	assert_block(large, 1992, false);
	assert_block(MMAPS + 0x5040, 0x2000 - 0x30 - 24, true);
	assert_int_equal(found.arenas[0]->own_bytes, 2112);
	end();
}

/* In glibc 2.31 links are plain addresses, and the key is the thread cache's own address. A list of
 * live blocks may look the same, but no cache leads to it. */
static void test_caches_of_2_31(void **state)
{
	static const long sizes[] = {32, 32, 32, 0x290, 48, 0};
	uint64_t first = BRK + 16, cache = BRK + 96 + 16;

	(void)state;
	put_heap(sizes);
	fake__put(&fake, cache, 2);
	fake__put(&fake, cache + 128, first + 32);
	fake__put(&fake, first + 32, first + 64);
	fake__put(&fake, first + 40, cache);
	fake__put(&fake, first + 72, cache);
	fake__put(&fake, first, first + 32);
	find();
	assert_good();
	assert_block(first, 24, true);
	assert_block(first + 32, 24, false);
	assert_block(first + 64, 24, false);
	assert_place(0, PLACE_THREAD_CACHE, 2, 48);
	end();
}

static void test_other_arena(void **state)
{
	static const long first_heap[] = {64, -96, 32, 80, 0};
	static const long second_heap[] = {48, 48, 0};
	static const long main_heap[] = {32, 0};
	uint64_t second = HEAP + 0x4000000, addr;

	(void)state;
	start(0x2000);
	fake__add(&fake, HEAP, 0x2000, FAKE_ANON);
	fake__add(&fake, HEAP + 0x2000, 0x4000000 - 0x2000, "---p 00000000 00:00 0");
	fake__add(&fake, second, 0x3000, FAKE_ANON);
	put_arena(MAIN, 0, ARENA, 0x2000);
	put_params(0, 0);
	put_top(MAIN, put_chunks(BRK, 0, main_heap), BRK + 0x2000);
	put_arena(ARENA, 0, MAIN, 0x5000);
	fake__put(&fake, HEAP, ARENA);
	fake__put(&fake, HEAP + 16, 0x2000);
	fake__put(&fake, second, ARENA);
	fake__put(&fake, second + 8, HEAP);
	fake__put(&fake, second + 16, 0x3000);
	/* struct malloc_state ends at 0x30 + 2200; the fenceposts are at the end of the first
	 * heap */
	addr = put_chunks(HEAP + 0x8d0, OTHER, first_heap);
	fake__put(&fake, addr + 8, (HEAP + 0x2000 - addr - 32) | USED | OTHER);
	fake__put(&fake, HEAP + 0x2000 - 32 + 8, 16 | USED);
	addr = put_chunks(second + 0x30, OTHER, second_heap);
	put_top(ARENA, addr, second + 0x3000);
	find();
	assert_good();
	assert_int_equal(found.n_arenas, 2);
	assert_place(1, PLACE_IN_USE, 6, 56 + 24 + 72 + 2 * 40 + 0x2000 - 0x8d0 - 272 - 32 - 8);
	assert_place(1, PLACE_BIN, 1, 88);
	assert_block(second + 0x30 + 16 + 48, 40, true);
	end();
}

static void put_mmapped(void)
{
	static const long sizes[] = {32, 0};
	unsigned char *bytes;

	start(0x2000);
	bytes = fake__add(&fake, MMAPS, 0x40000, FAKE_ANON);
	memset(bytes, 1, 0x3000); /* a neighbour */
	put_arena(MAIN, 0, MAIN, 0x2000);
	put_params(3, 0x21000 + 0x10000 + 0x5000);
	put_top(MAIN, put_chunks(BRK, 0, sizes), BRK + 0x2000);
	fake__put(&fake, MMAPS + 0x3000 + 8, 0x21000 | 2);
	/* the program's data in the block before, not a header */
	fake__put(&fake, MMAPS + 0x6000 + 8, 0x1000 | 2);
	/* A block of memalign(0x8000): malloc() made a chunk at the mapping's start, and memalign()
	 * then put the block's chunk further inside. The old header is still at the start. */
	fake__put(&fake, MMAPS + 0x24000 + 8, 0x10000 | 2);
	fake__put(&fake, MMAPS + 0x28000 - 16, 0x4000 - 16);
	fake__put(&fake, MMAPS + 0x28000 - 8, (0x10000 - 0x4000 + 16) | 2);
	for (uint64_t page = 0x2a000; page < 0x34000; page += 0x1000)
		fake__set_page(&fake, MMAPS + page, 0);
	fake__put(&fake, MMAPS + 0x34000 + 8, 0x5000 | 2);
	fake__put(&fake, MMAPS + 0x39000 + 8, 0x9000 | 2); /* too long */
}

static void test_mmapped(void **state)
{
	(void)state;
	put_mmapped();
	find();
	assert_good();
	assert_place(0, PLACE_LARGE, 3, 0x21000 - 16 + 0xc000 + 0x5000 - 16);
	assert_block(MMAPS + 0x3010, 0x21000 - 16, true);
	assert_block(MMAPS + 0x28000, 0xc000, true);
	assert_block(MMAPS + 0x34010, 0x5000 - 16, true);
	end();
}

/* Only blocks with a mapping of their own are wanted. */
static void test_mmapped_alone(void **state)
{
	struct block block;

	(void)state;
	put_mmapped();
	find_some(true);
	assert_int_equal(found.quality[HEAP_GLIBC].found_large, 0x21000 + 0x10000 + 0x5000);
	assert_int_equal(found.quality[HEAP_GLIBC].own_large, 0x21000 + 0x10000 + 0x5000);
	assert_block(MMAPS + 0x3010, 0x21000 - 16, true);
	assert_block(MMAPS + 0x28000, 0xc000, true);
	assert_int_equal(blocks__n_spans(blocks), 3);
	assert_false(blocks__find(blocks, BRK + 0x10, &block));
	end();
}

/* One header is overwritten. Later blocks are found again, and the output says so. */
static void test_bad_header(void **state)
{
	static const long sizes[] = {32, 32, 64, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 0};

	(void)state;
	put_heap(sizes);
	fake__put(&fake, BRK + 64 + 8, 0x6161616161616161);
	find();
	assert_int_equal(quality()->resyncs, 1);
	assert_int_equal(quality()->unknown_bytes, 64);
	assert_place(0, PLACE_IN_USE, 12, 12 * 24);
	assert_block(BRK + 128 + 16, 24, true);
	end();
}

/* Headers that are swapped out are not read, because a read would swap them in. */
static void test_absent_pages(void **state)
{
	long sizes[1025] = {0};
	uint64_t n_bytes, n;

	(void)state;
	for (size_t i = 0; i < 1024; i++)
		sizes[i] = 64;
	put_heap(sizes);
	fake__set_page(&fake, BRK + 0x5000, 2);
	fake__set_page(&fake, BRK + 0x6000, 0);
	find();
	assert_int_equal(quality()->resyncs, 0);
	assert_int_equal(quality()->absent_bytes, 0x2000);
	n = place(0, PLACE_IN_USE, &n_bytes);
	assert_int_equal(n, 1024 - 128);
	end();
}

/* Two buffers of which only the first bytes were written. One is in use and one is free. */
static void test_blocks_with_holes(void **state)
{
	static const long sizes[] = {48, 0x4010, 32, -0x4010, 32, 0};

	(void)state;
	put_heap(sizes);
	for (uint64_t page = 1; page < 8; page++)
		if (page != 4)
			fake__set_page(&fake, BRK + page * 0x1000, 0);
	find();
	assert_good();
	assert_place(0, PLACE_IN_USE, 4, 40 + 0x4008 + 24 + 24);
	assert_place(0, PLACE_BIN, 1, 0x4008);
	assert_block(BRK + 0x10 + 48, 0x4008, true);
	assert_block(BRK + 0x10 + 48 + 0x4010 + 32, 0x4008, false);
	end();
}

/* A program's data may look like the header of a huge block. The rest of the heap is still
 * found. */
static void corrupt_once(struct fake *f, uint64_t addr)
{
	static int reads;

	if (addr < BRK || addr >= BRK + 0x1000)
		return;
	fake__put(f, BRK + 64 + 8, reads++ ? 32 | USED : 0x30000 | USED);
}

static void test_header_that_changes(void **state)
{
	long sizes[1025] = {0};
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < 1024; i++)
		sizes[i] = 32;
	put_heap(sizes);
	fake.before_read = corrupt_once;
	find();
	assert_good();
	assert_int_equal(place(0, PLACE_IN_USE, &bytes), 1024);
	end();
}

static void test_no_heap(void **state)
{
	(void)state;
	start(0x2000);
	find();
	assert_int_equal(found.n_arenas, 0);
	assert_int_equal(blocks__n_spans(blocks), 0);
	end();
	/* bins alone are no arena, because no chunk leads back to them */
	start(0x2000);
	put_arena(MAIN, BRK, MAIN + 8, 0x2000);
	find();
	assert_int_equal(found.n_arenas, 0);
	end();
}

static void test_size_groups(void **state)
{
	(void)state;
	assert_int_equal(heap__size_group(0), 0);
	assert_int_equal(heap__size_group(UINT64_MAX), HEAP_SIZES - 1);
	for (uint64_t size = 1; size < 1 << 20; size++) {
		size_t group = heap__size_group(size);

		assert_true(size <= heap__group_max(group));
		assert_true(size > heap__group_max(group - 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_main_arena),
		cmocka_unit_test(test_foreign_sbrk),
		cmocka_unit_test(test_caches),
		cmocka_unit_test(test_long_list),
		cmocka_unit_test(test_stale_key),
		cmocka_unit_test(test_list_that_changes),
		cmocka_unit_test(test_fast_bin_that_changes),
		cmocka_unit_test(test_fast_bin_whose_end_changes),
		cmocka_unit_test(test_caches_of_2_31),
		cmocka_unit_test(test_2_43),
		cmocka_unit_test(test_other_arena),
		cmocka_unit_test(test_mmapped),
		cmocka_unit_test(test_mmapped_alone),
		cmocka_unit_test(test_bad_header),
		cmocka_unit_test(test_absent_pages),
		cmocka_unit_test(test_blocks_with_holes),
		cmocka_unit_test(test_header_that_changes),
		cmocka_unit_test(test_no_heap),
		cmocka_unit_test(test_size_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
