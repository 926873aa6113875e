// SPDX-License-Identifier: BSD-2-Clause
#include "heap/lost.h"

#include "made_heap.h"

static struct made_heap heap;

/* Scans, and lists the lost blocks. */
static void look(struct reach *reach, const struct lost *before, size_t max, struct lost *lost)
{
	assert_int_equal(reach__scan(heap.image, heap.blocks, &heap.roots, NULL, false, reach), 0);
	assert_int_equal(lost__list(reach, heap.image, before, max, lost), 0);
}

static void test_lost_in_all_scans(void **state)
{
	struct reach reach;
	struct lost first, second;

	(void)state;
	made_heap__begin(&heap, 10);
	for (uint64_t i = 4; i < 10; i++)
		fake__put(&heap.fake, DATA + i * 8, BLOCK(i));
	fake__put(&heap.fake, DATA, BLOCK(2));
	made_heap__finish(&heap, 0);
	look(&reach, NULL, 100, &first);
	reach__clear(&reach);
	assert_int_equal(first.n, 3);
	assert_int_equal(first.list[0].addr, BLOCK(0));
	assert_int_equal(first.list[2].addr, BLOCK(3));
	assert_int_equal(first.list[2].size, BLOCK_SIZE);

	/* Now block 2 is lost, too, but it was not in the first list. Block 0 had another size in
	 * the first list. */
	fake__put(&heap.fake, DATA, 0);
	first.list[0].size++;
	look(&reach, &first, 100, &second);
	reach__clear(&reach);
	assert_int_equal(second.n, 2);
	assert_int_equal(second.list[0].addr, BLOCK(1));
	assert_int_equal(second.list[1].addr, BLOCK(3));
	free(second.list);

	/* block 3 has been written to */
	fake__put(&heap.fake, BLOCK(3) + 16, 1);
	image__forget(heap.image);
	look(&reach, &first, 100, &second);
	reach__clear(&reach);
	assert_int_equal(second.n, 1);
	assert_int_equal(second.list[0].addr, BLOCK(1));
	free(second.list);
	fake__put(&heap.fake, BLOCK(3) + 16, 0);
	image__forget(heap.image);

	first.beyond = 5;
	look(&reach, &first, 1, &second);
	reach__clear(&reach);
	assert_int_equal(second.n, 1);
	assert_int_equal(second.beyond, 5 + 1);
	free(first.list);
	free(second.list);
	made_heap__free(&heap);
}

/* Scans the heap and returns the number of leaks. */
static size_t leaks_of(struct leak **ret)
{
	struct reach reach;
	struct lost lost;
	size_t n;

	made_heap__finish(&heap, 0);
	look(&reach, NULL, 1000, &lost);
	assert_int_equal(lost__leaks(&reach.numbers, &reach.edges, &lost, ret, &n), 0);
	reach__clear(&reach);
	free(lost.list);
	return n;
}

static void test_a_list_is_one_leak(void **state)
{
	struct leak *leaks;

	(void)state;
	made_heap__begin(&heap, 10);
	fake__put(&heap.fake, BLOCK(5), BLOCK(2));
	fake__put(&heap.fake, BLOCK(2), BLOCK(8));
	fake__put(&heap.fake, BLOCK(8), BLOCK(8));
	fake__put(&heap.fake, DATA, BLOCK(0));
	fake__put(&heap.fake, BLOCK(5) + 8, BLOCK(0)); /* held */
	for (uint64_t i = 0; i < 10; i++)
		if (i != 5 && i != 2 && i != 8)
			fake__put(&heap.fake, DATA + 8 + i * 8, BLOCK(i));
	assert_int_equal(leaks_of(&leaks), 1);
	assert_int_equal(leaks[0].head.addr, BLOCK(5));
	assert_int_equal(leaks[0].blocks, 3);
	assert_int_equal(leaks[0].bytes, 3 * BLOCK_SIZE);
	assert_false(leaks[0].cycle);
	free(leaks);
	made_heap__free(&heap);
}

/* The second of two circles leads to the first. The first circle is found earlier. Until the second
 * one is found, the first circle and the blocks below it count as a leak of their own. */
static void test_circles(void **state)
{
	struct leak *leaks;

	(void)state;
	made_heap__begin(&heap, 10);
	fake__put(&heap.fake, BLOCK(1), BLOCK(2)); /* the first circle */
	fake__put(&heap.fake, BLOCK(2), BLOCK(1));
	fake__put(&heap.fake, BLOCK(2) + 8, BLOCK(0));
	fake__put(&heap.fake, BLOCK(0), BLOCK(9));
	fake__put(&heap.fake, BLOCK(9), BLOCK(0));
	fake__put(&heap.fake, BLOCK(6), BLOCK(7)); /* the second */
	fake__put(&heap.fake, BLOCK(7), BLOCK(6));
	fake__put(&heap.fake, BLOCK(7) + 8, BLOCK(2));
	fake__put(&heap.fake, BLOCK(3), BLOCK(4)); /* a third, alone */
	fake__put(&heap.fake, BLOCK(4), BLOCK(3));
	fake__put(&heap.fake, DATA, BLOCK(5));
	fake__put(&heap.fake, DATA + 8, BLOCK(8));
	assert_int_equal(leaks_of(&leaks), 2);
	assert_int_equal(leaks[0].head.addr, BLOCK(3));
	assert_int_equal(leaks[0].blocks, 2);
	assert_true(leaks[0].cycle);
	assert_int_equal(leaks[1].head.addr, BLOCK(6));
	assert_int_equal(leaks[1].blocks, 6);
	assert_true(leaks[1].cycle);
	free(leaks);
	made_heap__free(&heap);
}

/* Each lost block belongs to one leak, and each leak's head leads to its blocks. */
static void test_random_graphs(void **state)
{
	enum { N = 40 };

	(void)state;
	srand(3);
	for (int round = 0; round < 200; round++) {
		uint64_t leads[N], blocks = 0, from_heads = 0;
		struct leak *leaks;
		size_t n;

		made_heap__begin(&heap, N);
		for (unsigned int i = 0; i < N; i++) {
			leads[i] = 1ULL << i;
			for (unsigned int k = (unsigned int)rand() % 3; k--;) {
				unsigned int to = (unsigned int)rand() % N;

				fake__put(&heap.fake, BLOCK(i) + k * 8, BLOCK(to));
				leads[i] |= 1ULL << to;
			}
		}
		for (int step = 0; step < N; step++)
			for (unsigned int i = 0; i < N; i++)
				for (unsigned int k = 0; k < N; k++)
					if (leads[i] >> k & 1)
						leads[i] |= leads[k];
		n = leaks_of(&leaks);
		for (size_t i = 0; i < n; i++) {
			unsigned int head =
				(unsigned int)((leaks[i].head.addr - HEAP) / BLOCK_STEP);

			blocks += leaks[i].blocks;
			from_heads |= leads[head];
			assert_true(leaks[i].blocks <= (uint64_t)__builtin_popcountll(leads[head]));
			/* no head leads to another one */
			for (size_t k = 0; k < n; k++)
				if (k != i)
					assert_false(
						leads[(leaks[k].head.addr - HEAP) / BLOCK_STEP] >>
							head &
						1);
		}
		assert_int_equal(blocks, N);
		assert_int_equal(from_heads, (1ULL << N) - 1);
		free(leaks);
		made_heap__free(&heap);
	}
}

static void test_groups(void **state)
{
	struct leak leaks[] = {
		{.head = {.addr = 100, .size = 24}, .blocks = 1, .bytes = 24},
		{.head = {.addr = 200, .size = 56}, .blocks = 3, .bytes = 3000, .cycle = true},
		{.head = {.addr = 50, .size = 24}, .blocks = 2, .bytes = 80},
	};
	struct leak_group *groups;
	size_t n;

	(void)state;
	assert_int_equal(leaks__group(leaks, 3, &groups, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(groups[0].head_size, 56);
	assert_int_equal(groups[0].cycles, 1);
	assert_int_equal(groups[1].head_size, 24);
	assert_int_equal(groups[1].leaks, 2);
	assert_int_equal(groups[1].blocks, 3);
	assert_int_equal(groups[1].bytes, 104);
	assert_int_equal(groups[1].example, 50);
	free(groups);
	assert_int_equal(leaks__group(NULL, 0, &groups, &n), 0);
	assert_int_equal(n, 0);
	free(groups);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost_in_all_scans),
		cmocka_unit_test(test_a_list_is_one_leak),
		cmocka_unit_test(test_circles),
		cmocka_unit_test(test_random_graphs),
		cmocka_unit_test(test_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
