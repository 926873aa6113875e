// SPDX-License-Identifier: BSD-2-Clause
/* Searches for pointers to the blocks that seemed lost in a scan (the candidates). */
#include "heap/recheck.h"

#include "heap/lost.h"
#include "heap/window.h"
#include "made_heap.h"

static struct made_heap heap;
static struct lost before;
static struct recheck found;

/* 20 blocks are in use. In the scan, blocks 4 to 9 seem lost. The tests fill the memory
 * afterwards. */
static void begin(void)
{
	made_heap__begin(&heap, 20);
	for (uint64_t i = 0; i < 20; i++)
		if (i < 4 || i > 9)
			fake__put(&heap.fake, DATA + i * 8, BLOCK(i));
}

static void take_before(void)
{
	struct reach reach;

	made_heap__finish(&heap, 0);
	assert_int_equal(reach__scan(heap.image, heap.blocks, &heap.roots, NULL, false, &reach), 0);
	assert_int_equal(lost__list(&reach, heap.image, NULL, 100, &before), 0);
	reach__clear(&reach);
	assert_int_equal(before.n, 6);
}

static void look(const struct stale_words *stale)
{
	recheck__clear(&found);
	assert_int_equal(
		recheck__scan(heap.image, heap.blocks, &heap.roots, &before, stale, true, &found),
		0);
}

static bool is_left(uint64_t number)
{
	for (size_t i = 0; i < found.lost.n; i++)
		if (found.lost.list[i].addr == BLOCK(number))
			return true;
	return false;
}

static void end(void)
{
	recheck__clear(&found);
	free(before.list);
	made_heap__free(&heap);
}

static void test_pointers_from_candidates_do_not_count(void **state)
{
	struct leak *leaks;
	size_t n;

	(void)state;
	begin();
	fake__put(&heap.fake, BLOCK(4), BLOCK(5));
	/* a pointer into the block, with a tag */
	fake__put(&heap.fake, BLOCK(5) + 8, BLOCK(6) + 17);
	fake__put(&heap.fake, BLOCK(7), BLOCK(7));
	take_before();
	look(NULL);
	assert_int_equal(found.lost.n, 6);
	assert_true(found.table_bytes > WINDOW_BYTES + 2 * 6 * sizeof(before.list[0]));
	assert_int_equal(found.stale.n, 0);
	assert_int_equal(lost__leaks(&found.numbers, &found.edges, &found.lost, &leaks, &n), 0);
	assert_int_equal(n, 4);
	assert_int_equal(leaks[0].blocks, 3);
	assert_true(leaks[1].head.addr == BLOCK(7) && leaks[1].blocks == 1);
	free(leaks);
	end();
}

/* A candidate is taken off the list if a root, a block in use or a register points to it. Then all
 * candidates that can be reached from it are taken off, too. */
static void test_pointers_to_candidates(void **state)
{
	struct root_value value = {.value = BLOCK(8) + 1, .tid = 7};
	struct leak *leaks;
	size_t n;

	(void)state;
	begin();
	fake__put(&heap.fake, BLOCK(6), BLOCK(4)); /* to a lower address */
	fake__put(&heap.fake, BLOCK(4), BLOCK(7));
	fake__put(&heap.fake, BLOCK(7), BLOCK(6));
	take_before();
	fake__put(&heap.fake, BLOCK(12) + 24, BLOCK(6) + 8);
	image__forget(heap.image);
	look(NULL);
	assert_int_equal(found.lost.n, 3);
	assert_true(is_left(5) && is_left(8) && is_left(9));

	fake__put(&heap.fake, ANON + 0x1000, BLOCK(9));
	free(heap.roots.values);
	heap.roots.values = malloc(sizeof(value));
	assert_non_null(heap.roots.values);
	heap.roots.values[0] = value;
	heap.roots.n_values = 1;
	look(NULL);
	assert_int_equal(found.lost.n, 1);
	assert_true(is_left(5));
	assert_int_equal(lost__leaks(&found.numbers, &found.edges, &found.lost, &leaks, &n), 0);
	assert_int_equal(n, 1);
	free(leaks);
	end();
}

/* If a block was changed or freed since the scan, somebody held it. */
static void test_changed_blocks(void **state)
{
	(void)state;
	begin();
	fake__put(&heap.fake, BLOCK(4), BLOCK(5));
	fake__put(&heap.fake, BLOCK(6), BLOCK(7));
	take_before();
	fake__put(&heap.fake, BLOCK(4) + 8, 1); /* block 4 still points to block 5 */
	before.list[4].size -= 16;
	image__forget(heap.image);
	look(NULL);
	assert_int_equal(found.lost.n, 3);
	assert_true(is_left(6) && is_left(7) && is_left(9));
	end();
}

/* Pointers in free memory. A stale pointer does not change between two looks. A new pointer is in a
 * block that was allocated after blocks were listed. */
static void test_words_in_free_memory(void **state)
{
	struct stale_words seen;

	(void)state;
	begin();
	fake__put(&heap.fake, BLOCK(6), BLOCK(7));
	take_before();
	fake__put(&heap.fake, BLOCK(30) + 16, BLOCK(5)); /* a stale pointer in a freed block */
	fake__put(&heap.fake, BLOCK(40) + 16, BLOCK(4));
	look(NULL);
	assert_int_equal(found.lost.n, 6);
	assert_int_equal(found.stale.n, 2);
	assert_int_equal(found.stale.list[0].at, BLOCK(30) + 16);
	seen = found.stale;
	found.stale = (struct stale_words){};

	fake__put(&heap.fake, BLOCK(40) + 16, BLOCK(8)); /* another value */
	fake__put(&heap.fake, BLOCK(50) + 48, BLOCK(6)); /* another place */
	look(&seen);
	assert_int_equal(found.lost.n, 3);
	assert_true(is_left(4) && is_left(5) && is_left(9));
	assert_int_equal(found.stale.n, 3);
	free(seen.list);

	seen = found.stale;
	found.stale = (struct stale_words){};
	look(&seen);
	assert_int_equal(found.lost.n, 6);
	free(seen.list);
	end();
}

/* In glibc, a link between free chunks points to the last word of the block before the chunk. */
static void test_links_of_glibc(void **state)
{
	enum { LARGE = 64, LAST = 128 };
	const struct span model = {.kind = SPAN_WALKED, .start = HEAP, .end = HEAP + HEAP_BYTES};
	struct stale_words none = {};
	struct reach reach;
	struct span *span;

	(void)state;
	made_heap__begin_empty(&heap);
	assert_int_equal(blocks__add(heap.blocks, &model, &span), 0);
	/* odd blocks are lost; those before 8 precede free blocks */
	for (uint64_t i = 0; i <= 16; i++)
		span__add_block(span, BLOCK(i), i % 2 || (i >= 8 && i < 16));
	span__add_block(span, BLOCK(LARGE), false);
	span__add_block(span, BLOCK(LAST), false);
	for (uint64_t i = 8; i < 16; i += 2)
		fake__put(&heap.fake, DATA + i * 8, BLOCK(i));
	made_heap__finish(&heap, 0);
	assert_int_equal(reach__scan(heap.image, heap.blocks, &heap.roots, NULL, false, &reach), 0);
	assert_int_equal(lost__list(&reach, heap.image, NULL, 100, &before), 0);
	reach__clear(&reach);
	assert_int_equal(before.n, 8);

	fake__put(&heap.fake, BLOCK(0), BLOCK(2) - 16); /* links: the last words of 1, 3 and 5 */
	fake__put(&heap.fake, BLOCK(LARGE) + 24, BLOCK(4) - 16);
	fake__put(&heap.fake, BLOCK(0) + 16, BLOCK(6) - 16);
	/* this pointer leads to block 11, but not to its last word. So it is no link, and holds
	 * block 11. */
	fake__put(&heap.fake, BLOCK(2) + 8, BLOCK(12) - 24);
	look(&none);
	assert_false(is_left(11));
	assert_int_equal(found.lost.n, 7);
	end();
}

/* A new block may have old links of glibc in the part that its owner has not written to. The next
 * recheck finds such links in other places. A pointer of the program stays in its place. */
static void test_links_in_blocks_in_use(void **state)
{
	struct stale_words seen;

	(void)state;
	begin();
	take_before();
	fake__put(&heap.fake, BLOCK(12) + 8, BLOCK(10) - 16); /* the last word of block 9 */
	look(NULL);
	assert_int_equal(found.lost.n, 6);
	assert_int_equal(found.stale.n, 1);
	assert_int_equal(found.stale.list[0].at, (BLOCK(12) + 8) | STALE_LINK);
	seen = found.stale;
	found.stale = (struct stale_words){};

	fake__put(&heap.fake, BLOCK(12) + 8, 0);
	fake__put(&heap.fake, BLOCK(12) + 16, BLOCK(10) - 16); /* another place */
	look(&seen);
	assert_int_equal(found.lost.n, 6);
	free(seen.list);
	seen = found.stale;
	found.stale = (struct stale_words){};

	look(&seen);
	assert_int_equal(found.lost.n, 5);
	assert_false(is_left(9));
	free(seen.list);
	end();
}

/* The last word of each block of a list is a link to the last word of another block. The list's
 * first block is in use, or was allocated after blocks were listed. In both cases, the next chunk's
 * size is behind the block's last word. */
static void test_links_of_the_program(void **state)
{
	enum { LAST = BLOCK_STEP - 16 };
	struct stale_words none = {};

	(void)state;
	begin();
	take_before();
	fake__put(&heap.fake, BLOCK(12) + LAST, BLOCK(9) + LAST);
	look(NULL);
	assert_false(is_left(9));
	fake__put(&heap.fake, BLOCK(12) + LAST, 0);
	fake__put(&heap.fake, BLOCK(30) + 32, BLOCK(9) + LAST); /* block 30 is free */
	look(&none);
	assert_true(is_left(9)); /* a link */
	fake__put(&heap.fake, BLOCK(30) + 32 + 8, 48 | 1);
	look(&none);
	assert_false(is_left(9));
	end();
}

/* The only pointer may be in memory that was mapped after the maps were read. Such memory may point
 * to more such memory. */
static void test_memory_mapped_meanwhile(void **state)
{
	const uint64_t far = HEAP + HEAP_BYTES + 0x10000;

	(void)state;
	begin();
	take_before();
	fake__add(&heap.fake, far, 0x2000, FAKE_ANON);
	fake__put(&heap.fake, BLOCK(15), far + 0x100);
	fake__put(&heap.fake, far + 0x110, far + 0x1000);
	fake__put(&heap.fake, far + 0x1008, BLOCK(5));
	fake__put(&heap.fake, far + 0x1000 + 128 * 8, BLOCK(6)); /* beyond the part that is read */
	look(NULL);
	assert_int_equal(found.lost.n, 5);
	assert_false(is_left(5));
	end();
}

/* Pointers of a block to itself tell nothing. Equal pointers in a row count once. Different
 * pointers are all kept, even if they are many. */
static void test_a_block_that_is_full_of_pointers(void **state)
{
	enum { WORDS = 4096, TABLE = 64, LAST = TABLE + WORDS * 8 / BLOCK_STEP };
	const struct span model = {.kind = SPAN_WALKED, .start = HEAP, .end = HEAP + HEAP_BYTES};
	struct leak *leaks;
	struct reach reach;
	struct span *span;
	size_t n;

	(void)state;
	made_heap__begin_empty(&heap);
	assert_int_equal(blocks__add(heap.blocks, &model, &span), 0);
	for (uint64_t i = 0; i < TABLE; i++)
		span__add_block(span, BLOCK(i), true);
	span__add_block(span, BLOCK(TABLE), true);
	span__add_block(span, BLOCK(LAST), false);
	for (uint64_t i = 0; i < WORDS - 1; i++)
		fake__put(&heap.fake, BLOCK(TABLE) + i * 8, i % 2 ? BLOCK(TABLE) : BLOCK(5));
	made_heap__finish(&heap, 0);
	assert_int_equal(reach__scan(heap.image, heap.blocks, &heap.roots, NULL, false, &reach), 0);
	assert_int_equal(lost__list(&reach, heap.image, NULL, 100, &before), 0);
	reach__clear(&reach);
	look(NULL);
	assert_int_equal(found.lost.n, TABLE + 1);
	assert_int_equal(found.edges.n, 1);

	for (uint64_t i = WORDS / 2; i < WORDS - 1; i++) /* behind the part that is hashed */
		fake__put(&heap.fake, BLOCK(TABLE) + i * 8, BLOCK(i % TABLE));
	image__forget(heap.image);
	look(NULL);
	assert_int_equal(found.edges.n, 1 + WORDS / 2 - 1);
	assert_int_equal(lost__leaks(&found.numbers, &found.edges, &found.lost, &leaks, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(leaks[0].blocks, TABLE + 1);
	free(leaks);
	end();
}

static void test_no_candidates(void **state)
{
	(void)state;
	made_heap__begin(&heap, 5);
	made_heap__finish(&heap, 0);
	before = (struct lost){.list = calloc(1, sizeof(*before.list)), .beyond = 3};
	look(NULL);
	assert_int_equal(found.lost.n, 0);
	assert_int_equal(found.lost.beyond, 3);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pointers_from_candidates_do_not_count),
		cmocka_unit_test(test_pointers_to_candidates),
		cmocka_unit_test(test_changed_blocks),
		cmocka_unit_test(test_words_in_free_memory),
		cmocka_unit_test(test_links_of_glibc),
		cmocka_unit_test(test_links_in_blocks_in_use),
		cmocka_unit_test(test_links_of_the_program),
		cmocka_unit_test(test_memory_mapped_meanwhile),
		cmocka_unit_test(test_a_block_that_is_full_of_pointers),
		cmocka_unit_test(test_no_candidates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
