// SPDX-License-Identifier: BSD-2-Clause
/* Values that may point to late blocks: blocks that were allocated after blocks were listed. */
#include "heap/late.h"

#include "made_heap.h"

/* More values come than there is room for. The first scan follows no values, so it counts no value
 * as left out. A later scan counts only values that it would have followed. */
static void test_more_values_than_there_is_room_for(void **state)
{
	const uint64_t none = 0;

	(void)state;
	for (int first = 1; first >= 0; first--) {
		struct late late = {.before = first ? NULL : &none};

		for (uint64_t i = 1; i <= LATE_VALUES + 5; i++) {
			int rc = late__note(&late, i * 16);

			assert_int_equal(rc, !first);
			if (rc)
				assert_int_equal(late__follow(&late, i * 16, 0), 0);
		}
		assert_int_equal(late.seen.n, LATE_VALUES);
		assert_int_equal(late.beyond, first ? 0 : 5);
		late__clear(&late);
	}
}

static void test_range(void **state)
{
	const struct span high[] = {
		{.kind = SPAN_FREE, .start = 1ULL << 40, .end = (1ULL << 40) + 4096},
		{.kind = SPAN_FREE, .start = 1ULL << 41, .end = (1ULL << 41) + 4096}};
	struct made_heap heap;
	uint64_t lowest = 1, highest = 1;
	struct blocks *blocks;
	struct span *span;
	size_t dropped[HEAP_ALLOCATORS];

	(void)state;
	assert_int_equal(blocks__new(&blocks), 0);
	late__range(blocks, &lowest, &highest);
	assert_true(!lowest && !highest);
	for (int i = 0; i < 2; i++)
		assert_int_equal(blocks__add(blocks, &high[i], &span), 0);
	assert_int_equal(blocks__finish(blocks, dropped), 0);
	late__range(blocks, &lowest, &highest);
	assert_int_equal(lowest, high[0].start - LATE_NEAR);
	assert_int_equal(highest, high[1].end + LATE_NEAR);
	blocks__free(blocks);

	made_heap__begin(&heap, 1);
	made_heap__finish(&heap, 0);
	late__range(heap.blocks, &lowest, &highest);
	assert_int_equal(lowest, HEAP);
	assert_int_equal(highest, HEAP + HEAP_BYTES + LATE_NEAR);
	made_heap__free(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_more_values_than_there_is_room_for),
		cmocka_unit_test(test_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
