// SPDX-License-Identifier: BSD-2-Clause
/* Which blocks large__choose() takes, and what large__end() makes of its child's stream. The scan
 * is a fake: each test says what the child writes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_scan.h"

#include "heap/large.h"

#define MIB (1ULL << 20)

static struct {
	int pipe[2];
	int end; /* result of scan__end() */
} fake;

int __wrap_scan__start(pid_t pid, const struct maps *maps, const struct scan_task *task,
		       struct scan **ret, struct error *err)
{
	(void)pid, (void)maps, (void)err;
	assert_true(task->alone);
	assert_int_equal(pipe(fake.pipe), 0);
	assert_int_equal(stream__new(fake.pipe[0], 5, NULL, task->max_out_bytes, &scan_stream), 0);
	*ret = (struct scan *)&fake;
	return 0;
}

int __wrap_scan__end(struct scan *scan)
{
	(void)scan;
	stream__free(scan_stream);
	close(fake.pipe[0]);
	return fake.end;
}

/* Returns what large__end() does if the child writes these words, and then these bytes. */
static int receive(const uint64_t *words, size_t n, size_t more, struct large_blocks *ret)
{
	static const char zeros[16];
	struct error err = {};
	struct maps maps = {};
	struct scan *scan;

	assert_int_equal(large__start(1, &maps, &scan, &err), 0);
	assert_false(large__ready(scan));
	assert_int_equal(write(fake.pipe[1], words, n * 8), n * 8);
	assert_int_equal(write(fake.pipe[1], zeros, more), more);
	close(fake.pipe[1]);
	assert_true(large__ready(scan));
	return large__end(scan, ret);
}

#define RECEIVE(more, ret, ...)                                                                    \
	receive((const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8,      \
		more, ret)

static void test_lists(void **state)
{
	struct large_blocks list;

	(void)state;
	/* the number of blocks; was glibc found, was jemalloc, is the list known; then the
	 * address and the size of each block */
	assert_int_equal(RECEIVE(0, &list, 2, 0, 1, 1, 0x100000, MIB + 1, 0x300000, 3 * MIB), 0);
	assert_int_equal(list.n, 2);
	assert_true(list.jemalloc);
	assert_int_equal(list.at[1].addr, 0x300000);
	assert_int_equal(list.at[1].size, 3 * MIB);
	large_blocks__clear(&list);
	assert_int_equal(RECEIVE(0, &list, 0, 1, 0, 1), 0);
	assert_int_equal(list.n, 0);
	assert_false(list.jemalloc);
	large_blocks__clear(&list);
}

/* A hostile process may have taken over the child. */
static void test_what_no_child_sends(void **state)
{
	struct large_blocks list;

	(void)state;
	assert_int_equal(RECEIVE(0, &list, 0, 1, 0, 0), -ENODATA);
	assert_int_equal(RECEIVE(0, &list, 1, 0, 1), -ECHILD);
	assert_int_equal(RECEIVE(0, &list, 1, 0, 1, 1), -ECHILD);
	assert_int_equal(RECEIVE(8, &list, 1, 0, 1, 1), -ECHILD);
	assert_int_equal(RECEIVE(1, &list, 1, 0, 1, 1, 0x100000, 2 * MIB), -EPROTO);
	assert_int_equal(RECEIVE(0, &list, LARGE_MAX + 1, 0, 1, 1), -EPROTO);
	assert_int_equal(RECEIVE(0, &list, UINT64_MAX, 0, 1, 1), -EPROTO);
	/* not large; not ascending; one inside the other; behind the last address */
	assert_int_equal(RECEIVE(0, &list, 1, 0, 1, 1, 0x100000, MIB), -EPROTO);
	assert_int_equal(RECEIVE(0, &list, 1, 1, 1, 1, 0x100000, 32 * MIB), -EPROTO);
	assert_int_equal(RECEIVE(0, &list, 2, 0, 1, 1, 0x900000, 2 * MIB, 0x100000, 2 * MIB),
			 -EPROTO);
	assert_int_equal(RECEIVE(0, &list, 2, 0, 1, 1, 0x100000, 4 * MIB, 0x200000, 2 * MIB),
			 -EPROTO);
	assert_int_equal(RECEIVE(0, &list, 1, 0, 1, 1, UINT64_MAX - 9, 2 * MIB), -EPROTO);
	assert_null(list.at);
}

static void test_no_sandbox(void **state)
{
	struct large_blocks list;

	(void)state;
	fake.end = -EPERM;
	assert_int_equal(RECEIVE(0, &list, 0, 1, 0, 1), -EPERM);
	fake.end = -ECHILD;
	assert_int_equal(RECEIVE(0, &list, 0, 1, 0, 1), -ECHILD);
	fake.end = 0;
}

static void add(struct blocks *blocks, enum span_kind kind, uint64_t start, uint64_t bytes)
{
	const struct span model = {.kind = kind,
				   .start = start,
				   .end = start + bytes + HEAP_PAGE,
				   .first = start + 16,
				   .block_size = bytes};
	struct span *span;

	assert_int_equal(blocks__add(blocks, &model, &span), 0);
}

static void test_which_blocks(void **state)
{
	static struct large_block room[LARGE_MAX];
	struct heap_arena jemalloc = {.allocator = HEAP_JEMALLOC}, glibc = {};
	struct heap_arena *arenas[] = {&jemalloc, &glibc};
	struct heap_found found = {.arenas = arenas, .n_arenas = 1};
	struct large_blocks list = {.at = room};
	size_t dropped[HEAP_ALLOCATORS] = {};
	struct blocks *blocks;

	(void)state;
	assert_int_equal(blocks__new(&blocks), 0);
	add(blocks, SPAN_SINGLE, 0x10000000, MIB + 4096);
	add(blocks, SPAN_SINGLE, 0x20000000, MIB);
	add(blocks, SPAN_SINGLE, 0x30000000, 40 * MIB);
	add(blocks, SPAN_FREE, 0x40000000, 40 * MIB);
	assert_int_equal(blocks__finish(blocks, dropped), 0);
	assert_true(large__choose(blocks, &found, &list));
	assert_int_equal(list.n, 2);
	assert_int_equal(room[0].addr, 0x10000010);
	assert_int_equal(room[1].size, 40 * MIB);
	/* smaller blocks of glibc may lie where they are not found */
	found.n_arenas = 2;
	list = (struct large_blocks){.at = room};
	assert_true(large__choose(blocks, &found, &list));
	assert_int_equal(list.n, 1);
	assert_int_equal(room[0].addr, 0x30000010);
	/* data that look like a header; too little time; no allocator */
	found.quality[HEAP_GLIBC].found_large = 40 * MIB;
	assert_false(large__choose(blocks, &found, &list));
	found.quality[HEAP_GLIBC].own_large = 40 * MIB;
	assert_true(large__choose(blocks, &found, &list));
	found.stopped = -ETIMEDOUT;
	assert_false(large__choose(blocks, &found, &list));
	found.stopped = 0;
	found.n_arenas = 0;
	assert_false(large__choose(blocks, &found, &list));
	blocks__free(blocks);
}

static void test_too_many(void **state)
{
	static struct large_block room[LARGE_MAX];
	struct heap_arena jemalloc = {.allocator = HEAP_JEMALLOC};
	struct heap_arena *arenas[] = {&jemalloc};
	struct heap_found found = {.arenas = arenas, .n_arenas = 1};
	size_t dropped[HEAP_ALLOCATORS] = {};

	(void)state;
	for (size_t n = LARGE_MAX; n <= LARGE_MAX + 1; n++) {
		struct large_blocks list = {.at = room};
		struct blocks *blocks;

		assert_int_equal(blocks__new(&blocks), 0);
		for (size_t i = 0; i < n; i++)
			add(blocks, SPAN_SINGLE, 0x10000000 + i * 4 * MIB, 2 * MIB);
		assert_int_equal(blocks__finish(blocks, dropped), 0);
		assert_int_equal(large__choose(blocks, &found, &list), n == LARGE_MAX);
		blocks__free(blocks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),	   cmocka_unit_test(test_what_no_child_sends),
		cmocka_unit_test(test_no_sandbox), cmocka_unit_test(test_which_blocks),
		cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
