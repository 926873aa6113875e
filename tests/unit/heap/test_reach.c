// SPDX-License-Identifier: BSD-2-Clause
#include "heap/reach.h"

#include "heap/window.h"
#include "made_heap.h"

#define SP (STACK_END - 0x1000)

static struct made_heap heap;

static void scan(bool parents, struct reach *reach)
{
	assert_int_equal(reach__scan(heap.image, heap.blocks, &heap.roots, NULL, parents, reach),
			 0);
}

/* Returns which of the first 64 blocks are reachable, as a mask. */
static uint64_t reached(bool parents)
{
	struct reach reach;
	uint64_t mask = 0;

	scan(parents, &reach);
	for (uint32_t i = 0; i < reach.numbers.n && i < 64; i++)
		mask |= (uint64_t)reach__has(&reach, i) << i;
	reach__clear(&reach);
	return mask;
}

static void assert_reached(uint64_t mask)
{
	assert_int_equal(reached(false), mask);
	assert_int_equal(reached(true), mask);
}

static void test_roots_lists_and_circles(void **state)
{
	(void)state;
	made_heap__begin(&heap, 20);
	fake__put(&heap.fake, DATA + 0x1ff8, BLOCK(3));
	fake__put(&heap.fake, BLOCK(3), BLOCK(1));  /* to a lower address */
	fake__put(&heap.fake, BLOCK(1), BLOCK(10)); /* to a higher address */
	fake__put(&heap.fake, BLOCK(10) + 8, BLOCK(3));
	fake__put(&heap.fake, ANON, BLOCK(4));
	fake__put(&heap.fake, SP + 8, BLOCK(5));
	fake__put(&heap.fake, SHARED + 16, BLOCK(11));
	fake__put(&heap.fake, CONST + 8, BLOCK(12));
	fake__put(&heap.fake, BLOCK(6), BLOCK(7)); /* lost: a circle */
	fake__put(&heap.fake, BLOCK(7), BLOCK(6));
	fake__put(&heap.fake, BLOCK(8), BLOCK(8)); /* points to itself */
	fake__put(&heap.fake, BLOCK(9), BLOCK(1)); /* lost, and points to a held block */
	made_heap__finish(&heap, SP);
	assert_reached(1 << 3 | 1 << 1 | 1 << 10 | 1 << 4 | 1 << 5 | 1 << 11 | 1 << 12);
	made_heap__free(&heap);
}

static void test_what_counts_as_a_pointer(void **state)
{
	(void)state;
	made_heap__begin(&heap, 20);
	fake__put(&heap.fake, DATA, BLOCK(0) + BLOCK_SIZE - 1); /* the last byte */
	fake__put(&heap.fake, DATA + 8, BLOCK(1) + BLOCK_SIZE); /* the byte behind the block */
	fake__put(&heap.fake, DATA + 16, BLOCK(2) | 7);		/* a tag in the low bits */
	fake__put(&heap.fake, DATA + 24, ~BLOCK(3));		/* hidden */
	fake__put(&heap.fake, DATA + 33, BLOCK(4));		/* not aligned */
	fake__put(&heap.fake, DATA + 48, BLOCK(25));		/* a pointer to free memory */
	fake__put(&heap.fake, BLOCK(25), BLOCK(5));		/* is not followed further */
	fake__put(&heap.fake, SP - 128, BLOCK(6));		/* in the red zone */
	fake__put(&heap.fake, SP - 136, BLOCK(7));		/* below the red zone */
	made_heap__finish(&heap, SP);
	assert_reached(1 << 0 | 1 << 2 | 1 << 6);
	made_heap__free(&heap);
}

static void test_the_stack_of_a_running_thread_counts_whole(void **state)
{
	(void)state;
	made_heap__begin(&heap, 4);
	fake__put(&heap.fake, STACK, BLOCK(2));
	made_heap__finish(&heap, 0);
	assert_reached(1 << 2);
	made_heap__free(&heap);
}

static void test_registers(void **state)
{
	struct root_value values[] = {{BLOCK(2) + 5, 9}, {0, 9}};
	struct reach reach;

	(void)state;
	made_heap__begin(&heap, 4);
	fake__put(&heap.fake, BLOCK(2), BLOCK(1));
	made_heap__finish(&heap, SP);
	heap.roots.values = values;
	heap.roots.n_values = 2;
	assert_reached(1 << 2 | 1 << 1);
	scan(true, &reach);
	assert_int_equal(reach.parents[1], 2 + 1);
	assert_int_equal(reach.parents[2], PARENT_ROOT);
	assert_int_equal(reach.root_words[0].kind, ROOT_REGISTER);
	assert_int_equal(reach.root_words[0].tid, 9);
	reach__clear(&reach);
	heap.roots.values = NULL;
	made_heap__free(&heap);
}

/* A block's path begins at the best kind of root. Of the paths from this kind, it is the
 * shortest. */
static void test_parents(void **state)
{
	struct reach reach;

	(void)state;
	made_heap__begin(&heap, 20);
	fake__put(&heap.fake, SP, BLOCK(5));
	fake__put(&heap.fake, DATA + 8, BLOCK(1));
	fake__put(&heap.fake, BLOCK(1), BLOCK(2));
	fake__put(&heap.fake, BLOCK(2), BLOCK(5));
	fake__put(&heap.fake, BLOCK(1) + 8, BLOCK(3));
	fake__put(&heap.fake, BLOCK(3), BLOCK(4));
	fake__put(&heap.fake, BLOCK(2) + 8, BLOCK(9));
	fake__put(&heap.fake, BLOCK(4), BLOCK(9));
	made_heap__finish(&heap, SP);
	scan(true, &reach);
	assert_int_equal(reach.parents[1], PARENT_ROOT);
	assert_int_equal(reach.root_words[0].addr, DATA + 8);
	assert_int_equal(reach.root_words[0].kind, ROOT_DATA);
	assert_int_equal(reach.parents[2], 1 + 1);
	assert_int_equal(reach.parents[5], 2 + 1);
	assert_int_equal(reach.parents[9], 2 + 1);
	assert_int_equal(reach.parents[0], PARENT_NONE);
	assert_int_equal(reach.n_root_words, 1);
	reach__clear(&reach);
	made_heap__free(&heap);
}

static void test_pages_that_are_not_there(void **state)
{
	(void)state;
	made_heap__begin(&heap, N_BLOCKS);
	fake__put(&heap.fake, DATA, BLOCK(63));
	fake__put(&heap.fake, BLOCK(63) + 8, BLOCK(1));
	fake__put(&heap.fake, BLOCK(1), BLOCK(200)); /* on a page that is not resident */
	fake__put(&heap.fake, BLOCK(200), BLOCK(2));
	fake__put(&heap.fake, DATA + 0x1008, BLOCK(3)); /* on a page that is not resident, too */
	for (uint64_t page = 2; page < 10; page++)
		fake__set_page(&heap.fake, HEAP + page * 4096, 2);
	fake__set_page(&heap.fake, DATA + 0x1000, 0);
	made_heap__finish(&heap, SP);
	assert_reached(1ULL << 63 | 1 << 1);
	made_heap__free(&heap);
}

/* Compares random graphs with marking by brute force. */
static void test_random_graphs(void **state)
{
	enum { N = 64, POINTERS = 80 };

	(void)state;
	srand(2);
	for (int round = 0; round < 200; round++) {
		uint64_t leads[N] = {}, mask = 0, before;

		made_heap__begin(&heap, N);
		for (int i = 0; i < POINTERS; i++) {
			unsigned int from = (unsigned int)rand() % N, to = (unsigned int)rand() % N;
			unsigned int word = (unsigned int)rand() % (BLOCK_SIZE / 8);
			uint64_t old;

			memcpy(&old, fake__at(&heap.fake, BLOCK(from) + word * 8), 8);
			if (old)
				continue;
			fake__put(&heap.fake, BLOCK(from) + word * 8,
				  BLOCK(to) + (unsigned int)rand() % BLOCK_SIZE);
			leads[from] |= 1ULL << to;
		}
		for (unsigned int i = 0; i < 4; i++) {
			unsigned int to = (unsigned int)rand() % N;

			fake__put(&heap.fake, (i % 2 ? DATA : ANON) + i * 8, BLOCK(to));
			mask |= 1ULL << to;
		}
		do {
			before = mask;
			for (unsigned int i = 0; i < N; i++)
				if (mask >> i & 1)
					mask |= leads[i];
		} while (mask != before);
		made_heap__finish(&heap, SP);
		assert_reached(mask);
		made_heap__free(&heap);
	}
}

/* There are more blocks at once than fit in the queue. All have lower addresses than their
 * holder. */
static void test_a_queue_that_is_full(void **state)
{
	enum { CHILDREN = 600000, STEP = 32 };
	const uint64_t base = 0x10000000, table = base + 0x1400000, table_bytes = 0x500000;
	const struct span model = {.kind = SPAN_WALKED, .start = base, .end = table + table_bytes};
	struct fake *fake = &heap.fake;
	struct reach reach;
	struct span *span;

	(void)state;
	heap = (struct made_heap){};
	fake__add(fake, DATA, 0x1000, "rw-p 00001000 08:01 77 /bin/program");
	fake__add(fake, base, model.end - base, FAKE_BRK);
	heap.image = fake__image(fake);
	assert_int_equal(blocks__new(&heap.blocks), 0);
	assert_int_equal(blocks__add(heap.blocks, &model, &span), 0);
	for (uint64_t i = 0; i < CHILDREN; i++) {
		span__add_block(span, base + i * STEP, true);
		if (i % 2) /* every other block points to the previous block */
			fake__put(fake, base + i * STEP, base + (i - 1) * STEP);
	}
	span__add_block(span, table, true);
	fake__put(fake, DATA, table);
	for (uint64_t i = 0; i < CHILDREN / 2; i++)
		fake__put(fake, table + i * 8, base + (2 * i + 1) * STEP);
	made_heap__finish(&heap, 0);
	for (int parents = 0; parents < 2; parents++) {
		scan(parents, &reach);
		assert_int_equal(reach.numbers.n, CHILDREN + 1);
		assert_int_equal(reach.n_marked, CHILDREN + 1);
		reach__clear(&reach);
	}
	made_heap__free(&heap);
}

/* Returns which of the first 64 blocks are reachable. before: words that the previous scan saw. */
static uint64_t reached_late(bool parents, const uint64_t *before, size_t n, struct late *late)
{
	struct reach reach;
	uint64_t mask = 0;

	*late = (struct late){.before = before, .n_before = n};
	assert_int_equal(reach__scan(heap.image, heap.blocks, &heap.roots, late, parents, &reach),
			 0);
	for (uint32_t i = 0; i < reach.numbers.n && i < 64; i++)
		mask |= (uint64_t)reach__has(&reach, i) << i;
	if (parents && reach__has(&reach, 2)) /* the path leaves out the late blocks */
		assert_int_equal(reach.root_words[reach.parents[2] & ~PARENT_ROOT].addr, DATA + 8);
	if (parents && reach__has(&reach, 6))
		assert_int_equal(reach.parents[6], 4 + 1);
	reach__clear(&reach);
	late__sort(late);
	return mask;
}

static void test_blocks_younger_than_the_list(void **state)
{
	/* The heap has grown since the maps were read. The second page of this memory is not
	 * resident. */
	const uint64_t grown = HEAP + HEAP_BYTES;
	const uint64_t stale[] = {BLOCK(30), BLOCK(32)};
	struct late late;

	(void)state;
	made_heap__begin(&heap, 20);
	fake__put(&heap.fake, DATA + 8, BLOCK(25));	  /* a new head */
	fake__put(&heap.fake, BLOCK(25), BLOCK(26) + 8);  /* points to another late block */
	fake__put(&heap.fake, BLOCK(26) + 8, BLOCK(2));	  /* points to the list */
	fake__put(&heap.fake, BLOCK(26) + 16, BLOCK(25)); /* points back to the head */
	fake__put(&heap.fake, BLOCK(2), BLOCK(3));	  /* a known block */
	fake__put(&heap.fake, DATA, BLOCK(4));		  /* another head, in a block */
	fake__put(&heap.fake, BLOCK(4) + 8, grown + 4096 - 16);
	fake__put(&heap.fake, DATA + 24, BLOCK(30)); /* freed before the previous scan */
	fake__put(&heap.fake, BLOCK(30), BLOCK(7));
	fake__put(&heap.fake, DATA + 32, BLOCK(31)); /* has no pointer */
	fake__put(&heap.fake, BLOCK(8), BLOCK(32));  /* lost, so its pointers do not count */
	fake__put(&heap.fake, BLOCK(32), BLOCK(9));
	fake__put(&heap.fake, DATA + 40, BLOCK(18) + BLOCK_SIZE); /* points just behind block 18, */
	fake__put(&heap.fake, BLOCK(19), BLOCK(10));		  /* so it does not hold block 19 */
	fake__put(&heap.fake, DATA + 48, 0x40ULL << 32);	  /* far from all known memory */
	made_heap__finish(&heap, SP);
	fake__add(&heap.fake, grown, 0x2000, FAKE_ANON);
	fake__put(&heap.fake, grown + 4096 - 8, BLOCK(6));
	fake__set_page(&heap.fake, grown + 4096, 0);
	for (int parents = 0; parents < 2; parents++) {
		assert_int_equal(reached_late(parents, NULL, 0, &late), 1 << 4);
		assert_int_equal(late.visited.n, 0);
		assert_int_equal(late.seen.n, 6);
		for (size_t i = 1; i < late.seen.n; i++)
			assert_true(late.seen.list[i] > late.seen.list[i - 1]);
		late__clear(&late);
		assert_int_equal(reached_late(parents, stale, 2, &late),
				 1 << 4 | 1 << 2 | 1 << 3 | 1 << 6);
		assert_int_equal(late.beyond, 0);
		late__clear(&late);
	}
	made_heap__free(&heap);
}

/* Tables are at higher addresses than the blocks to which they point. The tables are read first,
 * even if only small blocks point to them, so that no pointers have to be stored. */
static void test_tables_are_read_first(void **state)
{
	enum { N = 1000, SMALL = 2000, TABLE = 2048, OTHER = 2048 + 2048 };
	const struct span model = {.kind = SPAN_WALKED, .start = HEAP, .end = HEAP + HEAP_BYTES};
	struct reach reach;
	struct span *span;

	(void)state;
	made_heap__begin_empty(&heap);
	assert_int_equal(blocks__add(heap.blocks, &model, &span), 0);
	for (uint64_t i = 0; i < N; i++) {
		span__add_block(span, BLOCK(i), true);
		if (i % 2)
			fake__put(&heap.fake, BLOCK(i) + 8, BLOCK(i - 1));
		fake__put(&heap.fake, BLOCK(i) + 16, BLOCK(SMALL)); /* a parent */
		if (i != 7 && i != 6)				    /* lost */
			fake__put(&heap.fake, BLOCK(i % 4 ? TABLE : OTHER) + i * 64, BLOCK(i));
	}
	span__add_block(span, BLOCK(N), false);
	for (uint64_t i = SMALL; i < SMALL + 3; i++) {
		span__add_block(span, BLOCK(i), true);
		fake__put(&heap.fake, BLOCK(i), BLOCK(i + 1 < SMALL + 3 ? i + 1 : TABLE));
	}
	span__add_block(span, BLOCK(SMALL + 3), false);
	span__add_block(span, BLOCK(TABLE), true);
	span__add_block(span, BLOCK(OTHER), true);
	span__add_block(span, BLOCK(OTHER + 2048), false);
	fake__put(&heap.fake, BLOCK(TABLE) + 0x10000, BLOCK(OTHER) + 8);
	fake__put(&heap.fake, DATA, BLOCK(SMALL));
	made_heap__finish(&heap, 0);
	for (int parents = 0; parents < 2; parents++) {
		scan(parents, &reach);
		assert_int_equal(reach.numbers.n, N + 3 + 2);
		assert_int_equal(reach.n_marked, reach.numbers.n - 2);
		assert_false(reach__has(&reach, 6) || reach__has(&reach, 7));
		if (!parents)
			assert_int_equal(reach.edges.n, 1); /* one edge, between lost blocks */
		reach__clear(&reach);
	}
	made_heap__free(&heap);
}

static void cut_heap(struct fake *f, uint64_t addr)
{
	if (addr - HEAP < HEAP_BYTES)
		f->parts[1].len = 0x2000;
}

/* Small blocks that are read ahead, to find large ones, are read again later. They count once. */
static void test_blocks_that_are_read_twice(void **state)
{
	struct late late = {.before = &(uint64_t){0}};
	struct reach reach;

	(void)state;
	made_heap__begin(&heap, 256);
	fake__put(&heap.fake, DATA, BLOCK(4));
	fake__put(&heap.fake, BLOCK(4) + 8, BLOCK(600)); /* a late block */
	fake__put(&heap.fake, BLOCK(4) + 16, BLOCK(130));
	made_heap__finish(&heap, 0);
	heap.fake.before_read = cut_heap;
	assert_int_equal(reach__scan(heap.image, heap.blocks, &heap.roots, &late, false, &reach),
			 0);
	assert_int_equal(reach.n_marked, 2);
	assert_int_equal(late.n_pointers, 1);
	assert_int_equal(reach.unread_bytes, WINDOW_BYTES - 0x2000);
	reach__clear(&reach);
	late__clear(&late);
	made_heap__free(&heap);
}

/* The large blocks are a list, whose head is the last of these blocks. */
static void test_large_blocks_that_lead_backwards(void **state)
{
	enum { N = 14, STEP = 0x410 };
	const struct span model = {.kind = SPAN_WALKED, .start = HEAP, .end = HEAP + HEAP_BYTES};
	struct reach reach;
	struct span *span;

	(void)state;
	made_heap__begin_empty(&heap);
	assert_int_equal(blocks__add(heap.blocks, &model, &span), 0);
	for (uint64_t i = 0; i <= N; i++)
		span__add_block(span, BLOCK(i * STEP), i < N);
	for (uint64_t i = 1; i < N; i++)
		fake__put(&heap.fake, BLOCK(i * STEP) + 0x8000, BLOCK((i - 1) * STEP) + 5);
	fake__put(&heap.fake, DATA, BLOCK((N - 1) * STEP));
	made_heap__finish(&heap, 0);
	scan(false, &reach);
	assert_int_equal(reach.n_marked, N);
	assert_int_equal(reach.edges.n, 0); /* no pointer had to be stored */
	reach__clear(&reach);
	made_heap__free(&heap);
}

static void test_limits(void **state)
{
	struct reach reach;
	struct made_heap limited;
	const struct image_limits limits = {.read_bytes = 4096};
	const struct image_source source = {fake__read, fake__pagemap, &heap.fake};

	(void)state;
	made_heap__begin(&heap, 20);
	made_heap__finish(&heap, SP);
	assert_int_equal(image__new(&heap.fake.maps, &source, &limits, &limited.image), 0);
	for (int parents = 0; parents < 2; parents++)
		assert_int_equal(
			reach__scan(limited.image, heap.blocks, &heap.roots, NULL, parents, &reach),
			-EFBIG);
	image__free(limited.image);
	made_heap__free(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roots_lists_and_circles),
		cmocka_unit_test(test_what_counts_as_a_pointer),
		cmocka_unit_test(test_the_stack_of_a_running_thread_counts_whole),
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_parents),
		cmocka_unit_test(test_pages_that_are_not_there),
		cmocka_unit_test(test_random_graphs),
		cmocka_unit_test(test_blocks_younger_than_the_list),
		cmocka_unit_test(test_a_queue_that_is_full),
		cmocka_unit_test(test_tables_are_read_first),
		cmocka_unit_test(test_blocks_that_are_read_twice),
		cmocka_unit_test(test_large_blocks_that_lead_backwards),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
