// SPDX-License-Identifier: BSD-2-Clause
/* The output of the child that makes a scan. */
#include "heap/why.h"

#include "heap/scan.h"
#include "heap/why_internal.h"
#include "made_heap.h"

static struct made_heap heap;

struct answer {
	struct why_sums sums;
	struct why_counts counts;
	struct lost_block lost[64];
	uint64_t late[8];
	struct stale_word stale[8];
	struct leak_group groups[8];
	struct why_path paths[WHY_MAX_PATHS];
	struct why_block blocks[8];
};

static struct answer answer;

static void read_some(FILE *from, void *to, size_t size, size_t n)
{
	assert_int_equal(n ? fread(to, size, n, from) : 0, n);
}

static void run(const struct why_choice *choice, const struct lost *before, bool last, bool recheck)
{
	struct heap_arena arena = {
		.allocator = HEAP_GLIBC, .addr = DATA + 0x1000, .own_bytes = 2200};
	struct heap_arena *arenas = &arena;
	struct root_range record = {ANON + 0x80, ANON + 0x100};
	const struct heap_found found = {
		.arenas = &arenas, .n_arenas = 1, .records = &record, .n_records = 1};
	const struct scan_view view = {heap.image, heap.blocks, &found};
	const struct root_threads threads = {};
	const struct why_work work = {.choice = choice,
				      .maps = &heap.fake.maps,
				      .threads = &threads,
				      .before = before,
				      .recheck = recheck,
				      .paths = last,
				      .leaks = last};
	FILE *out = tmpfile();
	uint64_t n_asked = 0;

	assert_non_null(out);
	assert_int_equal(why__scan(&view, &work, out), 0);
	rewind(out);
	memset(&answer, 0, sizeof(answer));
	read_some(out, &answer.sums, sizeof(answer.sums), 1);
	read_some(out, &answer.counts, sizeof(answer.counts), 1);
	assert_true(answer.counts.lost <= 64 && answer.counts.groups <= 8 &&
		    answer.counts.blocks <= 8 && answer.counts.late <= 8 &&
		    answer.counts.stale <= 8);
	read_some(out, answer.lost, sizeof(answer.lost[0]), answer.counts.lost);
	read_some(out, answer.late, sizeof(answer.late[0]), answer.counts.late);
	read_some(out, answer.stale, sizeof(answer.stale[0]), answer.counts.stale);
	read_some(out, answer.groups, sizeof(answer.groups[0]), answer.counts.groups);
	read_some(out, answer.paths, sizeof(answer.paths[0]), answer.counts.paths);
	read_some(out, answer.blocks, sizeof(answer.blocks[0]), answer.counts.blocks);
	assert_int_equal(fgetc(out), EOF);
	fclose(out);
	if (!last || recheck)
		return;
	for (uint64_t i = 0; i < answer.counts.lost; i++) /* why.c checks the same in each answer */
		n_asked += answer.lost[i].asked;
	assert_int_equal(n_asked, answer.sums.chosen[WHY_LOST]);
}

static void scan(const struct why_choice *choice, const struct lost *before, bool last)
{
	run(choice, before, last, false);
}

static void test_lost_and_held(void **state)
{
	const uint64_t addrs[] = {BLOCK(1) + 3, BLOCK(2), BLOCK(5), BLOCK(40), 0x1234, BLOCK(1)};
	const struct why_choice none = {}, some = {.addrs = addrs, .n_addrs = 6};
	struct lost before;

	(void)state;
	made_heap__begin(&heap, 8);
	fake__put(&heap.fake, DATA + 8, BLOCK(1));
	fake__put(&heap.fake, BLOCK(1) + 24, BLOCK(2));
	fake__put(&heap.fake, BLOCK(3), BLOCK(4)); /* lost */
	fake__put(&heap.fake, BLOCK(5), BLOCK(6)); /* lost in this scan only */
	fake__put(&heap.fake, DATA, BLOCK(7));
	fake__put(&heap.fake, DATA + 16, BLOCK(0));
	fake__put(&heap.fake, DATA + 0x1010, BLOCK(4)); /* in the arena's own structure */
	fake__put(&heap.fake, ANON + 0x88, BLOCK(4));	/* in an allocator's record */
	made_heap__finish(&heap, 0);
	scan(&none, NULL, false);
	assert_int_equal(answer.counts.lost, 4);
	assert_int_equal(answer.counts.groups, 0);
	assert_int_equal(answer.sums.blocks, 8);
	before = (struct lost){.list = answer.lost, .n = 2};
	before.list =
		memcpy(malloc(2 * sizeof(*before.list)), before.list, 2 * sizeof(*before.list));
	before.list[1].asked = 1;
	scan(&some, &before, false);
	assert_int_equal(answer.counts.lost, 2);
	assert_true(!answer.lost[0].asked && answer.lost[1].asked);
	assert_int_equal(answer.counts.paths, 0);
	scan(&some, &before, true);
	assert_int_equal(answer.sums.lost, 2);
	assert_false(answer.lost[1].asked);
	assert_int_equal(answer.sums.lost_bytes, 2 * BLOCK_SIZE);
	assert_int_equal(answer.sums.unreached, 4);
	assert_int_equal(answer.sums.arenas[HEAP_GLIBC], 1);
	assert_int_equal(answer.counts.groups, 1);
	assert_int_equal(answer.groups[0].leaks, 1);
	assert_int_equal(answer.groups[0].blocks, 2);
	assert_int_equal(answer.groups[0].example, BLOCK(3));
	assert_int_equal(answer.sums.chosen[WHY_HELD], 2);
	assert_int_equal(answer.sums.chosen[WHY_LOST], 0);
	assert_int_equal(answer.sums.chosen[WHY_IN_DOUBT], 1);
	assert_int_equal(answer.sums.chosen[WHY_MISSING], 2);
	assert_int_equal(answer.counts.paths, 2);
	assert_int_equal(answer.paths[0].addr, BLOCK(1));
	assert_int_equal(answer.paths[0].path.root.addr, DATA + 8);
	assert_int_equal(answer.paths[1].addr, BLOCK(2));
	assert_int_equal(answer.paths[1].path.n_steps, 1);
	assert_int_equal(answer.paths[1].path.steps[0].blocks, 2);
	assert_int_equal(answer.counts.blocks, 6);
	assert_int_equal(answer.blocks[0].verdict, WHY_HELD);
	assert_int_equal(answer.blocks[0].addr, BLOCK(1));
	assert_int_equal(answer.blocks[0].size, BLOCK_SIZE);
	assert_int_equal(answer.blocks[1].addr, BLOCK(2));
	assert_int_equal(answer.blocks[2].verdict, WHY_IN_DOUBT);
	assert_int_equal(answer.blocks[3].verdict, WHY_MISSING);
	assert_int_equal(answer.blocks[4].verdict, WHY_MISSING);
	assert_int_equal(answer.blocks[5].addr, BLOCK(1));
	free(before.list);
	made_heap__free(&heap);
}

/* In the list of lost blocks, those that the user asked for have the flag `asked`. So a recheck
 * does not need the user's choice. */
static void test_recheck(void **state)
{
	const uint64_t addrs[] = {BLOCK(1), BLOCK(3), BLOCK(4)};
	const struct why_choice some = {.addrs = addrs, .n_addrs = 3};
	struct lost before;

	(void)state;
	made_heap__begin(&heap, 8);
	for (uint64_t i = 0; i < 3; i++)
		fake__put(&heap.fake, DATA + 8 * i, BLOCK(i));
	fake__put(&heap.fake, BLOCK(4), BLOCK(5));
	fake__put(&heap.fake, BLOCK(20), BLOCK(6)); /* free memory */
	made_heap__finish(&heap, 0);
	scan(&some, NULL, true);
	assert_int_equal(answer.counts.lost, 5);
	assert_int_equal(answer.sums.chosen[WHY_HELD], 1);
	assert_int_equal(answer.sums.chosen[WHY_LOST], 2);
	assert_int_equal(answer.counts.groups, 1);
	assert_int_equal(answer.groups[0].leaks, 4);
	before = (struct lost){.n = 5, .list = malloc(sizeof(answer.lost))};
	memcpy(before.list, answer.lost, sizeof(answer.lost));
	fake__put(&heap.fake, DATA + 64, BLOCK(3));
	run(&some, &before, true, true);
	assert_int_equal(answer.counts.lost, 4);
	assert_true(answer.lost[0].addr == BLOCK(4) && answer.lost[0].asked);
	assert_true(answer.lost[1].addr == BLOCK(5) && !answer.lost[1].asked);
	assert_int_equal(answer.sums.lost_bytes, 4 * BLOCK_SIZE);
	assert_int_equal(answer.counts.stale, 1);
	assert_int_equal(answer.stale[0].value, BLOCK(6));
	assert_int_equal(answer.groups[0].leaks, 3);
	assert_int_equal(answer.counts.blocks, 0);
	free(before.list);
	made_heap__free(&heap);
}

static void test_by_size(void **state)
{
	const struct why_choice size = {.size = BLOCK_SIZE - 10}, large = {.size = BLOCK_SIZE + 1};
	const uint64_t words[] = {8, BLOCK(10), BLOCK(1000)};
	const struct why_choice class = {.vtables = words, .n_vtables = 3};

	(void)state;
	made_heap__begin(&heap, 3000);
	fake__put(&heap.fake, DATA, BLOCK(0));
	for (uint64_t i = 0; i + 1 < 3000; i++)
		if (i != 2000)
			fake__put(&heap.fake, BLOCK(i), BLOCK(i + 1));
	fake__put(&heap.fake, DATA + 8, BLOCK(2001));
	made_heap__finish(&heap, 0);
	scan(&size, &(struct lost){}, true);
	assert_int_equal(answer.sums.chosen_size, BLOCK_SIZE);
	assert_int_equal(answer.sums.chosen[WHY_HELD], 3000);
	assert_int_equal(answer.sums.chosen_bytes[WHY_HELD], 3000 * BLOCK_SIZE);
	assert_int_equal(answer.counts.paths, WHY_MAX_PATHS);
	for (int i = 1; i < WHY_MAX_PATHS; i++) /* the blocks are chosen evenly */
		assert_int_equal(answer.paths[i].addr - answer.paths[i - 1].addr, 3 * BLOCK_STEP);
	scan(&large, &(struct lost){}, true);
	assert_int_equal(answer.sums.chosen_size, 0);
	assert_int_equal(answer.counts.paths, 0);
	/* asks for all blocks with a certain first word, here the address of the next block */
	scan(&class, &(struct lost){}, true);
	assert_int_equal(answer.sums.chosen[WHY_HELD], 2);
	assert_int_equal(answer.paths[0].addr, BLOCK(9));
	assert_int_equal(answer.paths[1].addr, BLOCK(999));
	made_heap__free(&heap);
}

/* If many slabs disagree with their own counts, the sizes of all their blocks may be wrong. */
static void test_broken_slabs(void **state)
{
	struct why_sums sums = {
		.quality[HEAP_JEMALLOC] = {.found_bytes = 1000, .slabs = 50, .broken_slabs = 2}};

	(void)state;
	assert_int_equal(why_sums__unfollowed(&sums), 0);
	sums.quality[HEAP_JEMALLOC].broken_slabs = 3;
	assert_int_equal(why_sums__unfollowed(&sums), 1000);
}

/* Memory of the heap's mapping that is in no block may contain anybody's pointers. */
static void test_memory_without_blocks(void **state)
{
	const struct why_choice none = {};
	const struct span model = {.kind = SPAN_WALKED, .start = HEAP, .end = HEAP + HEAP_BYTES};
	struct span *span;

	(void)state;
	made_heap__begin_empty(&heap);
	assert_int_equal(blocks__add(heap.blocks, &model, &span), 0);
	for (int i = 64; i < 68; i++)
		span__add_block(span, BLOCK(i), true);
	span__add_void(span, BLOCK(68));
	span__add_block(span, BLOCK(128), true);
	span__add_block(span, BLOCK(129), true);
	fake__put(&heap.fake, HEAP, BLOCK(64)); /* thread-local memory of a static program */
	fake__put(&heap.fake, BLOCK(80), BLOCK(128));
	fake__put(&heap.fake, BLOCK(64) - 16, BLOCK(65)); /* a header is no pointer */
	fake__put(&heap.fake, BLOCK(128) - 16, BLOCK(66));
	made_heap__finish(&heap, 0);
	scan(&none, NULL, false);
	assert_int_equal(answer.sums.blocks, 6);
	assert_int_equal(answer.counts.lost, 4);
	assert_int_equal(answer.lost[0].addr, BLOCK(65));
	assert_int_equal(answer.lost[3].addr, BLOCK(129));
	made_heap__free(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost_and_held), cmocka_unit_test(test_recheck),
		cmocka_unit_test(test_by_size),	      cmocka_unit_test(test_memory_without_blocks),
		cmocka_unit_test(test_broken_slabs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
