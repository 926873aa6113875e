// SPDX-License-Identifier: BSD-2-Clause
/* A process of a few blocks whose fate the test decides. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>

#include "session/evidence.h"

#define N      1000
#define S      1000000000ULL
#define LOOK   (S / 10)
#define BASE   0x7f0000000000ULL
#define STRIDE 256

/* Its memory: a page of each block, and whether it is mapped. */
static unsigned char memory[N][STRIDE];
static bool mapped[N];
static size_t n_read, n_settled;

static int read_memory(void *ctx, struct evidence_read *reads, size_t n)
{
	assert_ptr_equal(ctx, memory);
	for (size_t i = 0; i < n; i++) {
		size_t block = (reads[i].addr - BASE) / STRIDE;

		assert_true(block < N && reads[i].len <= EVIDENCE_MAX_READ);
		reads[i].ok = mapped[block];
		if (mapped[block])
			memcpy(reads[i].to, memory[block], reads[i].len);
	}
	n_read += n;
	return 0;
}

static void count_settled(void *ctx, uint64_t addr)
{
	assert_ptr_equal(ctx, memory);
	assert_true(addr >= BASE && addr < BASE + N * STRIDE);
	n_settled++;
}

static struct evidence begin(unsigned kinds)
{
	static const uint64_t seed[2] = {0x123456789abcdefULL, 0xfedcba987654321ULL};
	struct evidence e;

	evidence__init(&e, kinds, seed);
	for (size_t i = 0; i < N; i++) {
		memset(memory[i], (int)i, STRIDE);
		mapped[i] = true;
	}
	n_read = n_settled = 0;
	e.settled = count_settled;
	e.ctx = memory;
	return e;
}

/* A window in which blocks [first, first + n) are born, of which those before it are still tracked for which
 * alive says so. */
static void window(struct evidence *e, uint64_t start, size_t first, size_t n,
		   const bool alive[N], uint64_t size)
{
	static struct abi_live live[N];
	static uint64_t addrs[N];
	size_t tracked = 0;

	for (size_t i = 0; i < first + n; i++) {
		const struct evidence_block *known = NULL;

		if (i < first && !alive[i])
			continue;
		addrs[tracked] = BASE + i * STRIDE;
		for (size_t k = 0; i < first && k < e->n_blocks; k++)
			if (e->blocks[k].addr == addrs[tracked])
				known = &e->blocks[k];
		live[tracked++] = known ? known->live
					: (struct abi_live){.size = size,
							    .interval = 1,
							    .birth_ns = start + 1 + i};
	}
	assert_int_equal(evidence__harvest(e, start, start + S / 20, addrs, live, tracked, LOOK), 0);
}

static const struct evidence_block *find(const struct evidence *e, size_t block)
{
	for (size_t i = 0; i < e->n_blocks; i++)
		if (e->blocks[i].addr == BASE + block * STRIDE)
			return &e->blocks[i];
	return NULL;
}

/* Neither in the book, nor followed by the kernel side for ever. */
static void blocks_born_outside_are_let_go(void **state)
{
	struct evidence e = begin(EVIDENCE_ALL);
	uint64_t addrs[3] = {BASE, BASE + STRIDE, BASE + 2 * STRIDE};
	struct abi_live live[3] = {{.size = 100, .interval = 1, .birth_ns = S - 1},
				   {.size = 100, .interval = 1, .birth_ns = S + 1},
				   {.size = 100, .interval = 1, .birth_ns = 2 * S + 1}};

	(void)state;
	assert_int_equal(evidence__harvest(&e, S, 2 * S, addrs, live, 3, LOOK), 0);
	assert_int_equal(e.n_blocks, 1);
	assert_non_null(find(&e, 1));
	assert_int_equal(n_settled, 2);
	/* known ones are not */
	assert_int_equal(evidence__harvest(&e, 3 * S, 4 * S, addrs, live, 2, LOOK), 0);
	assert_int_equal(e.n_blocks, 1);
	assert_int_equal(n_settled, 3);
	evidence__free(&e);
}

static void seen_frees_are_deaths(void **state)
{
	struct evidence e = begin(EVIDENCE_ALL);
	bool alive[N] = {};

	(void)state;
	window(&e, S, 0, 300, alive, 100);
	assert_int_equal(e.n_blocks, 300);
	for (int i = 0; i < 300; i++)
		alive[i] = i % 3 == 0;
	window(&e, 2 * S, 300, 50, alive, 100);
	assert_int_equal(e.n_blocks, 150);
	assert_int_equal(e.counts.freed, 200);
	assert_int_equal(e.counts.born, 350);
	assert_non_null(find(&e, 3));
	assert_null(find(&e, 4));
	assert_int_equal(find(&e, 3)->window, 0);
	assert_int_equal(find(&e, 349)->window, 1);
	evidence__free(&e);
}

static void blocks_born_outside_are_passed_over(void **state)
{
	static const uint64_t addrs[3] = {BASE, BASE + STRIDE, BASE + 2 * STRIDE};
	const struct abi_live live[3] = {{.size = 8, .birth_ns = S - 1},
					 {.size = 8, .birth_ns = S + 1},
					 {.size = 8, .birth_ns = 2 * S + 1}};
	struct evidence e = begin(EVIDENCE_ALL);

	(void)state;
	assert_int_equal(evidence__harvest(&e, S, 2 * S, addrs, live, 3, LOOK), 0);
	assert_int_equal(e.n_blocks, 1);
	assert_int_equal(e.blocks[0].addr, BASE + STRIDE);
	evidence__free(&e);
}

static void another_block_at_the_address_is_a_death(void **state)
{
	static const uint64_t addr = BASE;
	struct abi_live first = {.size = 8, .birth_ns = S + 1}, second = {.size = 9, .birth_ns = 2 * S + 1};
	struct evidence e = begin(EVIDENCE_ALL);

	(void)state;
	assert_int_equal(evidence__harvest(&e, S, S + 9, &addr, &first, 1, LOOK), 0);
	assert_int_equal(evidence__harvest(&e, 2 * S, 2 * S + 9, &addr, &second, 1, LOOK), 0);
	assert_int_equal(e.n_blocks, 1);
	assert_int_equal(e.blocks[0].live.size, 9);
	assert_int_equal(e.blocks[0].window, 1);
	assert_int_equal(e.counts.replaced, 1);
	evidence__free(&e);
}

static void pieces_are_one_window(void **state)
{
	struct evidence e = begin(EVIDENCE_ALL);
	const struct abi_live early = {.size = 8, .birth_ns = S / 2}, late = {.size = 8, .birth_ns = 3 * S / 2};
	const uint64_t addrs[] = {BASE, BASE + STRIDE};
	const struct abi_live both[] = {early, late};

	(void)state;
	assert_int_equal(evidence__harvest(&e, 1, S, addrs, both, 1, LOOK), 0);
	assert_int_equal(evidence__harvest(&e, S, 2 * S, addrs, both, 2, LOOK), 0);
	assert_int_equal(e.n_windows, 1);
	assert_int_equal(e.windows[0].start_ns, 1);
	assert_int_equal(e.windows[0].end_ns, 2 * S);
	assert_int_equal(e.n_blocks, 2);
	assert_int_equal(e.blocks[1].window, 0);
	assert_int_equal(evidence__harvest(&e, 2 * S + 1, 3 * S, addrs, both, 0, LOOK), 0);
	assert_int_equal(e.n_windows, 2);
	assert_int_equal(e.counts.freed, 2);
	evidence__free(&e);
}

static void content_tells_the_forgotten(void **state)
{
	struct evidence e = begin(EVIDENCE_ALL);
	bool alive[N] = {};
	uint64_t now = S + S / 20;

	(void)state;
	window(&e, S, 0, N, alive, 100);
	assert_int_equal(evidence__next_look(&e), S + 1 + LOOK);
	assert_int_equal(evidence__look(&e, now, N, read_memory, memory), 0); /* too early */
	for (int i = 0; i < N; i++)
		memory[i][5] ^= 1; /* filled in by its owner: no change yet */
	assert_int_equal(evidence__look_early(&e, now, read_memory, memory), N);
	for (int i = 0; i < N; i++)
		memory[i][5] ^= 1; /* nor then: it is too young to be taken down */
	assert_int_equal(evidence__look(&e, now + LOOK, N, read_memory, memory), N);
	assert_false(evidence__is_forgotten(&e, find(&e, 7), UINT64_MAX));
	for (int i = 0; i < N; i += 2)
		memory[i][63] ^= 1;
	memory[1][64] ^= 1; /* beyond what is looked at */
	mapped[9] = false;
	/* before their time: what has ended is told, and nothing is surer for it */
	assert_int_equal(evidence__look_early(&e, now + LOOK + 1, read_memory, memory), N);
	assert_int_equal(e.n_blocks, N / 2 - 1);
	for (size_t i = 0; i < e.n_blocks; i++)
		assert_int_equal(e.blocks[i].n_same, 0);
	assert_int_equal(evidence__look(&e, now + 3 * S, N, read_memory, memory), N / 2 - 1);
	for (int i = 0; i < N; i++) {
		const struct evidence_block *block = find(&e, (size_t)i);

		if (i == 9 || i % 2 == 0) {
			assert_null(block);
			continue;
		}
		assert_true(evidence__is_forgotten(&e, block, UINT64_MAX));
	}
	assert_int_equal(n_settled, N / 2 + 1);
	assert_int_equal(e.counts.changed, N / 2);
	assert_int_equal(e.counts.unmapped, 1);
	/* the others are looked at again, after longer and longer */
	n_read = 0;
	assert_true(evidence__next_look(&e) > now + 5 * S);
	assert_int_equal(evidence__look(&e, now + 100 * S, N, read_memory, memory), N / 2 - 1);
	assert_int_equal(n_read, N / 2 - 1);
	evidence__free(&e);
}

static void small_blocks_are_read_no_further(void **state)
{
	struct evidence e = begin(EVIDENCE_ALL);
	bool alive[N] = {};

	(void)state;
	window(&e, S, 0, 10, alive, 3);
	evidence__look(&e, 2 * S, N, read_memory, memory);
	for (int i = 0; i < 10; i++)
		memory[i][3] ^= 1; /* another's */
	memory[4][2] ^= 1;
	evidence__look(&e, 9 * S, N, read_memory, memory);
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(!find(&e, i), i == 4);
	evidence__free(&e);
}

static void each_kind_can_be_left_out(void **state)
{
	bool alive[N] = {};
	struct evidence e = begin(EVIDENCE_EVENTS);

	(void)state;
	window(&e, S, 0, 10, alive, 100);
	assert_int_equal(evidence__next_look(&e), UINT64_MAX);
	assert_int_equal(evidence__look(&e, 9 * S, N, read_memory, memory), 0);
	assert_true(evidence__is_forgotten(&e, find(&e, 1), UINT64_MAX));
	evidence__free(&e);

	e = begin(EVIDENCE_CONTENT);
	window(&e, S, 0, 10, alive, 100);
	window(&e, 2 * S, 10, 1, alive, 100); /* all were freed */
	assert_int_equal(e.n_blocks, 11);
	mapped[3] = false;
	evidence__look(&e, 9 * S, N, read_memory, memory);
	assert_non_null(find(&e, 3));
	evidence__free(&e);
}

static void exec_voids_all(void **state)
{
	struct evidence e = begin(EVIDENCE_ALL);
	bool alive[N] = {};

	(void)state;
	window(&e, S, 0, 600, alive, 100);
	evidence__exec(&e, S + 1 + 500);
	assert_int_equal(e.n_blocks, 100);
	assert_null(find(&e, 499));
	assert_non_null(find(&e, 500));
	evidence__exec(&e, 9 * S);
	assert_int_equal(e.n_blocks, 0);
	window(&e, 10 * S, 0, 5, alive, 100);
	assert_int_equal(e.n_blocks, 5);
	evidence__free(&e);
}

static int gone(void *ctx, struct evidence_read *reads, size_t n)
{
	(void)ctx;
	(void)reads;
	(void)n;
	return -ESRCH;
}

static void a_process_that_cannot_be_read(void **state)
{
	struct evidence e = begin(EVIDENCE_ALL);
	bool alive[N] = {};

	(void)state;
	window(&e, S, 0, 10, alive, 100);
	assert_int_equal(evidence__look(&e, 9 * S, N, gone, memory), -ESRCH);
	assert_int_equal(e.n_blocks, 10);
	evidence__free(&e);
}

/* --- marks: memory[] as glibc would lay it out, chunks of CHUNK bytes --- */

#define HEAP	(BASE + STRIDE / 2) /* chunks begin in the middle, so that words before the first are there */
#define CHUNK	112		    /* what malloc(100) gets */
#define PREV	1
#define MMAPPED 2
#define ARENA	4

static uint64_t block_addr(size_t i)
{
	return HEAP + i * CHUNK + 16;
}

/* The word before the block at addr. */
static void set_word(uint64_t addr, uint64_t word)
{
	memcpy((unsigned char *)memory + (addr - 8 - BASE), &word, sizeof(word));
}

static int read_heap(void *ctx, struct evidence_read *reads, size_t n)
{
	assert_ptr_equal(ctx, memory);
	for (size_t i = 0; i < n; i++) {
		reads[i].ok = reads[i].addr >= BASE && reads[i].len <= EVIDENCE_MAX_READ &&
			      reads[i].addr + reads[i].len <= BASE + sizeof(memory);
		if (reads[i].ok)
			memcpy(reads[i].to, (unsigned char *)memory + (reads[i].addr - BASE), reads[i].len);
	}
	n_read += n;
	return 0;
}

/* n blocks of size bytes in chunks of CHUNK are born, and all in use. */
static struct evidence begin_heap(unsigned kinds, size_t n, uint64_t size)
{
	static struct abi_live live[N];
	static uint64_t addrs[N];
	struct evidence e = begin(kinds);

	e.glibc = true;
	for (size_t i = 0; i <= n; i++) {
		addrs[i] = block_addr(i);
		live[i] = (struct abi_live){.size = size, .interval = 1, .birth_ns = S + 1 + i};
		set_word(addrs[i], CHUNK | PREV | (i % 2 ? ARENA : 0));
	}
	assert_int_equal(evidence__harvest(&e, S, 2 * S, addrs, live, n, LOOK), 0);
	return e;
}

static bool is_there(const struct evidence *e, size_t block)
{
	for (size_t i = 0; i < e->n_blocks; i++)
		if (e->blocks[i].addr == block_addr(block))
			return true;
	return false;
}

static void glibc_marks_what_is_free(void **state)
{
	struct evidence e = begin_heap(EVIDENCE_ALL, 100, 100);
	static unsigned char before[sizeof(memory)];

	(void)state;
	memcpy(before, memory, sizeof(memory));
	assert_int_equal(evidence__look(&e, 3 * S, N, read_heap, memory), 100);
	assert_in_range(n_read, 900, 1000); /* the block, the next chunk, the ends of eight; fewer at the end */
	assert_int_equal(e.n_blocks, 100);
	/* 10: into a bin. 20: with the one behind it. 30: its place is another's. None of their content changes. */
	set_word(block_addr(11), CHUNK | ARENA);
	set_word(block_addr(20), 2 * CHUNK | PREV);
	set_word(block_addr(22), CHUNK);
	set_word(block_addr(30), 0x6f77206f6c6c6569);
	/* 40's neighbour before it is free: nothing to 40 */
	set_word(block_addr(40), CHUNK);
	set_word(block_addr(39), CHUNK | PREV);
	assert_int_equal(evidence__look(&e, 9 * S, N, read_heap, memory), 100);
	assert_int_equal(e.counts.marked, 5);
	assert_int_equal(e.counts.changed, 0);
	assert_int_equal(n_settled, 5);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(is_there(&e, i),
				 i != 10 && i != 20 && i != 21 && i != 30 && i != 39);
	assert_int_equal(evidence__n_forgotten(&e, UINT64_MAX), 95);
	evidence__free(&e);

	/* the same is nothing without them, and elsewhere than in glibc */
	for (int i = 0; i < 2; i++) {
		e = begin_heap(i ? EVIDENCE_ALL : EVIDENCE_ALL & ~EVIDENCE_MARKS, 100, 100);
		e.glibc = !i;
		evidence__look(&e, 3 * S, N, read_heap, memory);
		assert_int_equal(n_read, 100);
		for (size_t k = 0; k <= 100; k++)
			set_word(block_addr(k), 0);
		evidence__look(&e, 9 * S, N, read_heap, memory);
		assert_int_equal(e.n_blocks, 100);
		assert_int_equal(e.counts.marked, 0);
		evidence__free(&e);
	}
}

/* A free chunk from one block's on, n chunks long: as free() writes it. */
static void set_free(size_t first, size_t n)
{
	uint64_t size = n * CHUNK;

	set_word(block_addr(first), size | PREV);
	set_word(block_addr(first + n) - 8, size);
	set_word(block_addr(first + n), CHUNK);
}

static void glibc_marks_what_was_joined_on_both_sides(void **state)
{
	struct evidence e = begin_heap(EVIDENCE_MARKS, 100, 100);

	(void)state;
	evidence__look(&e, 3 * S, N, read_heap, memory);
	/* 10 and 12 first, then 11 between them: its own word and the next one's stay as they are */
	set_free(10, 3);
	/* what a single free chunk behind a block looks like: nothing to 20 */
	set_free(21, 1);
	/* two ends that do not agree are nothing */
	set_free(30, 3);
	set_word(block_addr(30), 2 * CHUNK | PREV);
	set_word(block_addr(32), CHUNK | PREV);
	assert_int_equal(evidence__look(&e, 9 * S, N, read_heap, memory), 100);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(is_there(&e, i), i != 10 && i != 11 && i != 12 && i != 21 && i != 30 && i != 32);
	assert_int_equal(e.counts.changed, 1); /* 30, by its size */
	evidence__free(&e);
}

/* The last one first, then the one before it, and so on: the words of all of them stay as they were but for those
 * of the whole. */
static void glibc_marks_what_was_joined_backwards(void **state)
{
	struct evidence e = begin_heap(EVIDENCE_MARKS, 100, 100);

	(void)state;
	evidence__look(&e, 3 * S, N, read_heap, memory);
	set_free(10, 6);
	for (size_t i = 11; i < 16; i++)
		set_word(block_addr(i), CHUNK | PREV);
	/* of one that is in use, far in front of a free chunk, nothing is known */
	set_free(35, 1);
	assert_int_equal(evidence__look(&e, 9 * S, N, read_heap, memory), 100);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(is_there(&e, i), i < 10 || (i > 15 && i != 35));
	evidence__free(&e);
}

/* A block that is not as large as it was is another, or was in use: but one that realloc makes. */
static void glibc_tells_blocks_of_another_size(void **state)
{
	struct evidence e = begin_heap(EVIDENCE_MARKS, 100, 100);

	(void)state;
	for (size_t i = 20; i < 40; i++)
		e.blocks[i].live.birth = i % 2 ? BIRTH_GROWN : BIRTH_UNKNOWN;
	for (size_t i = 10; i < 50; i += 10) {
		set_word(block_addr(i), 160 | PREV);
		set_word(block_addr(i) + 160, 64 | PREV);
	}
	for (size_t i = 11; i < 60; i += 10) {
		set_word(block_addr(i), 80 | PREV);
		set_word(block_addr(i) + 80, 32 | PREV);
	}
	evidence__look(&e, 3 * S, N, read_heap, memory);
	evidence__look(&e, 9 * S, N, read_heap, memory);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(is_there(&e, i), i % 10 > 1 || i < 10 || i == 50 || i > 51 || (i >= 20 && i < 40));
	assert_int_equal(e.counts.changed, 5);
	evidence__free(&e);
}

/* Of small sizes there are many, and few blocks of each: those near to it speak for it. */
static void sizes_are_known_by_those_near(void **state)
{
	struct evidence e = begin_heap(EVIDENCE_MARKS, 100, 100);

	(void)state;
	e.blocks[5].live.size = 100 + 16 * EVIDENCE_NEAR;
	e.blocks[6].live.size = 100 + 16 * (EVIDENCE_NEAR + 1);
	evidence__look(&e, 3 * S, N, read_heap, memory);
	evidence__look(&e, 9 * S, N, read_heap, memory);
	assert_false(is_there(&e, 5));
	assert_true(is_there(&e, 6));
	assert_int_equal(e.n_blocks, 99);
	evidence__free(&e);
}

static void marks_alone_will_do(void **state)
{
	struct evidence e = begin_heap(EVIDENCE_MARKS, 20, 100);

	(void)state;
	assert_int_equal(evidence__next_look(&e), 2 * S);
	evidence__look(&e, 3 * S, N, read_heap, memory);
	set_word(block_addr(6), CHUNK);
	evidence__look(&e, 9 * S, N, read_heap, memory);
	assert_int_equal(e.counts.marked, 1);
	assert_int_equal(e.n_blocks, 19);
	evidence__free(&e);
}

/* What may stand before a living block of so many bytes. */
static void living_blocks_are_left_alone(void **state)
{
	static const struct {
		uint64_t size, word;
		bool lives;
	} cases[] = {
		{0, 32 | PREV, true},
		{24, 32 | PREV | ARENA, true},
		{25, 48 | PREV, true},
		{25, 32 | PREV, false},	       /* another, or resized */
		{100, 112, true},	       /* the one before it is free */
		{100, 128 | PREV, true},       /* a remainder too small to be split off */
		{100, 144 | PREV, true},
		{100, 160 | PREV, false},      /* more than it can have got */
		{100, 96 | PREV, false},
		{100, 112 | 8 | PREV, false},  /* no size */
		{0, 16 | PREV, false},
		{100, 4096 | MMAPPED, true},
		{100, 2097152 - 64 + MMAPPED, true},
		{100, 0, false},
		{100, UINT64_MAX, false},
		{100, 1ULL << 47 | PREV, false}, /* a pointer */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct evidence e = begin_heap(EVIDENCE_MARKS, 1, cases[i].size);

		memset(e.whole, EVIDENCE_WHOLE, sizeof(e.whole));
		for (size_t size = 32; size < 256; size += 16)
			set_word(block_addr(0) + size, 32 | PREV); /* whichever is the next */
		set_word(block_addr(0), cases[i].word);
		evidence__look(&e, 3 * S, N, read_heap, memory);
		assert_int_equal(e.n_blocks, cases[i].lives);
		evidence__free(&e);
	}
}

static void other_layouts_are_not_judged(void **state)
{
	struct evidence e = begin_heap(EVIDENCE_ALL, 100, 100);

	(void)state;
	/* of that class one less than it takes are found as they should be: the last one's next is not */
	for (size_t i = 0; i <= 100; i++)
		set_word(block_addr(i), i < EVIDENCE_WHOLE ? CHUNK | PREV : 0x1238);
	evidence__look(&e, 3 * S, N, read_heap, memory);
	assert_int_equal(e.n_blocks, 100);
	assert_int_equal(e.whole[7], EVIDENCE_WHOLE - 1);
	/* one more, and from then on they are known */
	set_word(block_addr(EVIDENCE_WHOLE), CHUNK | PREV);
	evidence__look(&e, 9 * S, N, read_heap, memory);
	evidence__look(&e, 99 * S, N, read_heap, memory);
	assert_int_equal(e.counts.marked, 100 - EVIDENCE_WHOLE);
	/* until another program runs */
	evidence__exec(&e, 9 * S);
	assert_int_equal(e.whole[7], 0);
	evidence__free(&e);
}

/* Whatever stands there: nothing is read but next to blocks, and nothing ends but blocks. */
static void hostile_marks(void **state)
{
	uint64_t random = 1;

	(void)state;
	for (int round = 0; round < 50; round++) {
		struct evidence e = begin_heap(EVIDENCE_ALL, 100, 100);

		memset(e.whole, EVIDENCE_WHOLE, sizeof(e.whole));
		for (uint64_t look = 3; look < 40; look *= 2) {
			for (size_t i = 0; i <= 100; i++) {
				random = random * 6364136223846793005ULL + 1442695040888963407ULL;
				if (random >> 62 != 0)
					set_word(block_addr(i), random >> 63 ? random : CHUNK | (random >> 40 & 7));
			}
			assert_true(evidence__look(&e, look * S, N, read_heap, memory) >= 0);
		}
		assert_int_equal(e.counts.marked + e.counts.changed + e.counts.unmapped + e.n_blocks, 100);
		evidence__free(&e);
	}
}

/* --- the C library itself: its malloc is still there beneath the sanitizer's --- */

static struct {
	void *(*malloc)(size_t size);
	void *(*realloc)(void *p, size_t size);
	void *(*memalign)(size_t alignment, size_t size);
	void *(*pvalloc)(size_t size);
	void (*free)(void *p);
} libc;

static int find_libc(void **state)
{
	void *handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	(void)state;
	assert_non_null(handle);
	*(void **)&libc.malloc = dlsym(handle, "malloc");
	*(void **)&libc.realloc = dlsym(handle, "realloc");
	*(void **)&libc.memalign = dlsym(handle, "memalign");
	*(void **)&libc.pvalloc = dlsym(handle, "pvalloc");
	*(void **)&libc.free = dlsym(handle, "free");
	assert_true(libc.malloc && libc.realloc && libc.memalign && libc.pvalloc && libc.free);
	return dlclose(handle);
}

#define BLOCKS 3000

struct owner {
	uint64_t random;
	void *blocks[BLOCKS]; /* NULL: none */
	size_t sizes[BLOCKS];
	atomic_bool *stop;
};

static uint64_t owner__random(struct owner *o)
{
	o->random = o->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return o->random >> 33;
}

/* Allocates, frees or reallocates one of the blocks [first, BLOCKS), somehow, and fills it. */
static void owner__step(struct owner *o, size_t first)
{
	static const size_t scales[] = {40, 200, 1500, 1500, 6000, 200000};
	size_t i = first + owner__random(o) % (BLOCKS - first);
	size_t size = owner__random(o) % scales[owner__random(o) % 6];

	if (o->blocks[i] && owner__random(o) % 8) {
		libc.free(o->blocks[i]);
		o->blocks[i] = NULL;
		return;
	}
	o->sizes[i] = size;
	if (o->blocks[i])
		o->blocks[i] = libc.realloc(o->blocks[i], size ? size : (o->sizes[i] = 1));
	else if (owner__random(o) % 16 == 0)
		o->blocks[i] = libc.memalign((size_t)32 << owner__random(o) % 9, size);
	else if (owner__random(o) % 64 == 0)
		o->blocks[i] = libc.pvalloc(size);
	else
		o->blocks[i] = libc.malloc(size);
	assert_non_null(o->blocks[i]);
	memset(o->blocks[i], (int)owner__random(o), o->sizes[i]);
}

static void *allocate_busily(void *arg)
{
	struct owner *o = arg;

	while (!atomic_load(o->stop))
		owner__step(o, BLOCKS / 3); /* what comes before stays */
	return NULL;
}

static int read_own(void *ctx, struct evidence_read *reads, size_t n)
{
	(void)ctx;
	for (size_t i = 0; i < n; i++) {
		struct iovec local = {reads[i].to, reads[i].len};
		struct iovec remote = {(void *)(uintptr_t)reads[i].addr, reads[i].len};

		reads[i].ok = process_vm_readv(getpid(), &local, 1, &remote, 1, 0) ==
			      (ssize_t)reads[i].len;
	}
	return 0;
}

/* The blocks [0, n) that the owners have. */
static struct evidence begin_own(const struct owner *owners, size_t n_owners, size_t n)
{
	static const uint64_t seed[2] = {1, 2};
	static struct abi_live live[4 * BLOCKS];
	static uint64_t addrs[4 * BLOCKS];
	struct evidence e;
	size_t all = 0;

	evidence__init(&e, EVIDENCE_MARKS, seed);
	e.glibc = true;
	memset(e.whole, EVIDENCE_WHOLE, sizeof(e.whole));
	for (size_t i = 0; i < n_owners; i++)
		for (size_t k = 0; k < n; k++)
			if (owners[i].blocks[k]) {
				addrs[all] = (uintptr_t)owners[i].blocks[k];
				live[all++] = (struct abi_live){
					.size = owners[i].sizes[k], .interval = 1, .birth_ns = S + 1};
			}
	assert_int_equal(evidence__harvest(&e, S, 2 * S, addrs, live, all, LOOK), 0);
	return e;
}

/* Threads allocate and free beside blocks that live: none of these is ever taken for dead. */
static void the_living_are_never_marked(void **state)
{
	enum { THREADS = 4, LOOKS = 60 };
	static struct owner owners[THREADS];
	pthread_t threads[THREADS];
	atomic_bool stop = false;
	struct evidence e;

	(void)state;
	for (size_t i = 0; i < THREADS; i++) {
		memset(&owners[i], 0, sizeof(owners[i]));
		owners[i].random = i + 1;
		owners[i].stop = &stop;
		for (int k = 0; k < 20000; k++)
			owner__step(&owners[i], 0);
	}
	e = begin_own(owners, THREADS, BLOCKS / 3);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, allocate_busily, &owners[i]), 0);
	for (uint64_t i = 3; i < LOOKS && !e.counts.marked; i++)
		assert_true(evidence__look(&e, i * 2 * S, SIZE_MAX, read_own, NULL) > 0);
	atomic_store(&stop, true);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(e.counts.marked, 0);
	assert_true(e.n_blocks > THREADS * BLOCKS / 10);
	evidence__free(&e);
	for (size_t i = 0; i < THREADS; i++)
		for (size_t k = 0; k < BLOCKS; k++)
			libc.free(owners[i].blocks[k]);
}

/* Of blocks that are freed in a random order, too large for caches, and whose place nobody takes: most are
 * seen, and of those between them that live none. */
static void the_dead_are_marked(void **state)
{
	static struct owner o;
	struct evidence e;
	size_t dead = 0;

	(void)state;
	memset(&o, 0, sizeof(o));
	o.random = 9;
	for (size_t i = 0; i < BLOCKS; i++)
		assert_non_null(o.blocks[i] = libc.malloc(o.sizes[i] = 1100 + owner__random(&o) % 100));
	e = begin_own(&o, 1, BLOCKS);
	for (size_t k = 0; k < 2 * BLOCKS; k++) {
		size_t i = owner__random(&o) % BLOCKS;

		if (i % 10 == 0 || !o.blocks[i])
			continue;
		libc.free(o.blocks[i]);
		o.blocks[i] = NULL;
		dead++;
	}
	evidence__look(&e, 3 * S, SIZE_MAX, read_own, NULL);
	print_message("%zu of %zu are seen\n", (size_t)e.counts.marked, dead);
	assert_true(e.counts.marked > dead * 3 / 4);
	assert_true(e.counts.marked <= dead);
	evidence__free(&e);
	for (size_t i = 0; i < BLOCKS; i++)
		libc.free(o.blocks[i]);
}

/* Small ones stay in lists of the thread's cache and of fast bins. */
static void the_dead_in_lists_are_marked(void **state)
{
	static struct owner o;
	struct evidence e;
	size_t dead = 0;

	(void)state;
	memset(&o, 0, sizeof(o));
	o.random = 5;
	for (size_t i = 0; i < BLOCKS; i++) {
		assert_non_null(o.blocks[i] = libc.malloc(o.sizes[i] = 16 + owner__random(&o) % 88));
		memset(o.blocks[i], 1 + (int)(owner__random(&o) % 255), o.sizes[i]);
	}
	e = begin_own(&o, 1, BLOCKS);
	evidence__look(&e, 3 * S, SIZE_MAX, read_own, NULL);
	assert_int_equal(e.counts.marked, 0);
	for (size_t i = 0; i < BLOCKS; i++)
		if (i % 10 && ++dead)
			libc.free(o.blocks[i]);
	evidence__look(&e, 9 * S, SIZE_MAX, read_own, NULL);
	print_message("%zu of %zu are seen\n", (size_t)e.counts.marked, dead);
	assert_true(e.counts.marked > dead * 98 / 100);
	assert_true(e.counts.marked <= dead);
	evidence__free(&e);
	for (size_t i = 0; i < BLOCKS; i += 10)
		libc.free(o.blocks[i]);
}

/* What comes out of such lists and is never written to may still hold their links. */
static void the_living_that_nobody_has_written_to(void **state)
{
	static struct owner o;
	struct evidence e;

	(void)state;
	memset(&o, 0, sizeof(o));
	for (int again = 0; again < 2; again++) {
		for (size_t i = 0; i < BLOCKS; i++)
			assert_non_null(o.blocks[i] = libc.malloc(o.sizes[i] = 100));
		for (size_t i = 0; i < BLOCKS && !again; i++) {
			memset(o.blocks[i], 0x5a, 100);
			libc.free(o.blocks[i]);
		}
	}
	e = begin_own(&o, 1, BLOCKS);
	evidence__look(&e, 3 * S, SIZE_MAX, read_own, NULL);
	print_message("%zu of %d are taken for dead\n", (size_t)e.counts.marked, BLOCKS);
	assert_true(e.counts.marked <= BLOCKS / 6);
	evidence__free(&e);
	for (size_t i = 0; i < BLOCKS; i++)
		libc.free(o.blocks[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_born_outside_are_let_go),
		cmocka_unit_test(seen_frees_are_deaths),
		cmocka_unit_test(blocks_born_outside_are_passed_over),
		cmocka_unit_test(another_block_at_the_address_is_a_death),
		cmocka_unit_test(pieces_are_one_window),
		cmocka_unit_test(content_tells_the_forgotten),
		cmocka_unit_test(small_blocks_are_read_no_further),
		cmocka_unit_test(each_kind_can_be_left_out),
		cmocka_unit_test(exec_voids_all),
		cmocka_unit_test(a_process_that_cannot_be_read),
		cmocka_unit_test(glibc_marks_what_is_free),
		cmocka_unit_test(glibc_marks_what_was_joined_on_both_sides),
		cmocka_unit_test(glibc_marks_what_was_joined_backwards),
		cmocka_unit_test(glibc_tells_blocks_of_another_size),
		cmocka_unit_test(sizes_are_known_by_those_near),
		cmocka_unit_test(marks_alone_will_do),
		cmocka_unit_test(living_blocks_are_left_alone),
		cmocka_unit_test(other_layouts_are_not_judged),
		cmocka_unit_test(hostile_marks),
		cmocka_unit_test(the_living_are_never_marked),
		cmocka_unit_test(the_dead_are_marked),
		cmocka_unit_test(the_dead_in_lists_are_marked),
		cmocka_unit_test(the_living_that_nobody_has_written_to),
	};

	return cmocka_run_group_tests_name("evidence", tests, find_libc, NULL);
}
