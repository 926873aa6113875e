// SPDX-License-Identifier: BSD-2-Clause
/* A process of a few blocks whose fate the test decides. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
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

		assert_true(block < N && reads[i].len <= EVIDENCE_BYTES);
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

static void content_tells_the_forgotten(void **state)
{
	struct evidence e = begin(EVIDENCE_ALL);
	bool alive[N] = {};
	uint64_t now = S + S / 20;

	(void)state;
	window(&e, S, 0, N, alive, 100);
	assert_int_equal(evidence__next_look(&e), now + LOOK);
	assert_int_equal(evidence__look(&e, now, N, read_memory, memory), 0); /* too early */
	for (int i = 0; i < N; i++)
		memory[i][5] ^= 1; /* filled in by its owner: no change yet */
	assert_int_equal(evidence__look(&e, now + LOOK, N, read_memory, memory), N);
	assert_false(evidence__is_forgotten(&e, find(&e, 7)));
	for (int i = 0; i < N; i += 2)
		memory[i][63] ^= 1;
	memory[1][64] ^= 1; /* beyond what is looked at */
	mapped[9] = false;
	assert_int_equal(evidence__look(&e, now + 3 * S, N, read_memory, memory), N);
	for (int i = 0; i < N; i++) {
		const struct evidence_block *block = find(&e, (size_t)i);

		if (i == 9 || i % 2 == 0) {
			assert_null(block);
			continue;
		}
		assert_true(evidence__is_forgotten(&e, block));
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
	assert_true(evidence__is_forgotten(&e, find(&e, 1)));
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seen_frees_are_deaths),
		cmocka_unit_test(blocks_born_outside_are_passed_over),
		cmocka_unit_test(another_block_at_the_address_is_a_death),
		cmocka_unit_test(content_tells_the_forgotten),
		cmocka_unit_test(small_blocks_are_read_no_further),
		cmocka_unit_test(each_kind_can_be_left_out),
		cmocka_unit_test(exec_voids_all),
		cmocka_unit_test(a_process_that_cannot_be_read),
	};

	return cmocka_run_group_tests_name("evidence", tests, NULL, NULL);
}
