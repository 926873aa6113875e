// SPDX-License-Identifier: BSD-2-Clause
#include "heap/paths.h"

#include "made_heap.h"

static struct made_heap heap;

static int path_to(uint32_t number, uint64_t hops, struct path *path)
{
	struct reach reach;
	int err;

	assert_int_equal(reach__scan(heap.image, heap.blocks, &heap.roots, NULL, true, &reach), 0);
	err = reach__path(&reach, heap.image, number, &hops, path);
	reach__clear(&reach);
	return err;
}

/* All blocks have one size, so the path shows them as one step. */
static void test_a_list(void **state)
{
	struct path path;

	(void)state;
	made_heap__begin(&heap, 1000);
	fake__put(&heap.fake, DATA + 0x18, BLOCK(0));
	for (uint64_t i = 0; i + 1 < 1000; i++)
		fake__put(&heap.fake, BLOCK(i) + 8, BLOCK(i + 1) + 4);
	fake__put(&heap.fake, BLOCK(0), 77);
	fake__put(&heap.fake, BLOCK(401), 77);
	fake__put(&heap.fake, BLOCK(501), 78);
	made_heap__finish(&heap, 0);
	assert_int_equal(path_to(501, 502, &path), 0);
	assert_int_equal(path.root.kind, ROOT_DATA);
	assert_int_equal(path.root.addr, DATA + 0x18);
	assert_int_equal(path.n_steps, 1);
	assert_false(path.cut);
	assert_int_equal(path.steps[0].addr, BLOCK(0));
	assert_int_equal(path.steps[0].blocks, 502);
	assert_int_equal(path.steps[0].size, BLOCK_SIZE);
	assert_int_equal(path.steps[0].off, PATH_NO_OFF);
	/* the first and the last block differ in their first word */
	assert_int_equal(path.steps[0].word, 0);
	assert_int_equal(path_to(401, 402, &path), 0);
	assert_int_equal(path.steps[0].word, 77);
	assert_int_equal(path_to(501, 501, &path), -E2BIG);
	assert_int_equal(path_to(0, 1, &path), 0);
	assert_int_equal(path.n_steps, 1);
	made_heap__free(&heap);
}

/* Blocks of two sizes follow each other in turn, so each block is a step of its own. */
static void test_a_long_path_loses_its_middle(void **state)
{
	enum { N = 40 };
	const struct span model = {.kind = SPAN_WALKED, .start = HEAP, .end = HEAP + HEAP_BYTES};
	struct span *span;
	uint64_t at = HEAP, addrs[N];
	struct path path;

	(void)state;
	made_heap__begin_empty(&heap);
	assert_int_equal(blocks__add(heap.blocks, &model, &span), 0);
	for (int i = 0; i < N; i++) {
		addrs[i] = at;
		span__add_block(span, at, true);
		at += i % 2 ? 32 : 48;
	}
	span__add_block(span, at, false);
	for (int i = 0; i + 1 < N; i++)
		fake__put(&heap.fake, addrs[i] + 16, addrs[i + 1]);
	fake__put(&heap.fake, DATA, addrs[0]);
	made_heap__finish(&heap, 0);
	assert_int_equal(path_to(N - 1, N, &path), 0);
	assert_true(path.cut);
	assert_int_equal(path.n_steps, PATH_STEPS);
	assert_int_equal(path.steps[0].addr, addrs[0]);
	assert_int_equal(path.steps[0].off, 16);
	assert_int_equal(path.steps[PATH_STEPS - 1].addr, addrs[N - 1]);
	assert_int_equal(path.steps[PATH_STEPS - 2].addr, addrs[N - 2]);
	assert_int_equal(path_to(PATH_STEPS - 1, N, &path), 0);
	assert_false(path.cut);
	assert_int_equal(path.n_steps, PATH_STEPS);
	made_heap__free(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_list),
		cmocka_unit_test(test_a_long_path_loses_its_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
