/* SPDX-License-Identifier: BSD-2-Clause */
/* A made-up process. It has data of a program, a heap like glibc's with blocks of one size, and
 * memory of no allocator. */
#ifndef TEST_HEAP_MADE_HEAP_H
#define TEST_HEAP_MADE_HEAP_H

#include "fake.h"
#include "heap/blocks.h"
#include "heap/roots.h"

#define DATA	   0x400000ULL
#define HEAP	   0x500000ULL
#define HEAP_BYTES 0x100000ULL
#define ANON	   0x700000ULL
#define SHARED	   0x710000ULL
#define CONST	   0x720000ULL
#define STACK	   0x7ff000ULL
#define STACK_END  0x803000ULL

#define BLOCK_STEP 0x40
#define BLOCK_SIZE (BLOCK_STEP - 8) /* usable */
#define N_BLOCKS   (HEAP_BYTES / BLOCK_STEP)

/* The address of block i. */
#define BLOCK(i) (HEAP + (uint64_t)(i)*BLOCK_STEP)

struct made_heap {
	struct fake fake;
	struct image *image;
	struct blocks *blocks;
	struct roots roots;
};

/* Makes the process without blocks, as if no allocator was found. */
static inline void made_heap__begin_empty(struct made_heap *h)
{
	*h = (struct made_heap){};
	fake__add(&h->fake, DATA, 0x2000, "rw-p 00001000 08:01 77 /bin/program");
	fake__add(&h->fake, HEAP, HEAP_BYTES, FAKE_BRK);
	fake__add(&h->fake, ANON, 0x2000, FAKE_ANON);
	fake__add(&h->fake, SHARED, 0x1000, "rw-s 00000000 00:01 9 /dev/zero (deleted)");
	fake__add(&h->fake, CONST, 0x1000, "r--p 00000000 00:00 0");
	fake__add(&h->fake, STACK, STACK_END - STACK, "rw-p 00000000 00:00 0 [stack]");
	h->image = fake__image(&h->fake);
	assert_int_equal(blocks__new(&h->blocks), 0);
}

/* Makes the process. Blocks 0 to n - 1 are in use, later ones are free. */
static inline void made_heap__begin(struct made_heap *h, uint32_t n)
{
	const struct span model = {.kind = SPAN_WALKED, .start = HEAP, .end = HEAP + HEAP_BYTES};
	struct span *span;

	made_heap__begin_empty(h);
	assert_int_equal(blocks__add(h->blocks, &model, &span), 0);
	for (uint32_t i = 0; i < N_BLOCKS; i++)
		span__add_block(span, BLOCK(i), i < n);
}

/* Ends the setup. The process gets one thread with this stack pointer (0: the thread runs, so its
 * stack pointer is not known). */
static inline void made_heap__finish(struct made_heap *h, uint64_t sp)
{
	const struct root_range own = {HEAP, HEAP + HEAP_BYTES};
	struct thread_state thread = {.tid = 7, .sp = sp};
	const struct root_threads threads = {.list = &thread, .n = 1};
	size_t dropped[HEAP_ALLOCATORS];

	assert_int_equal(blocks__finish(h->blocks, dropped), 0);
	assert_int_equal(dropped[HEAP_GLIBC], 0);
	assert_int_equal(roots__find(&h->fake.maps, &threads, &own, 1, &h->roots), 0);
}

static inline void made_heap__free(struct made_heap *h)
{
	roots__clear(&h->roots);
	blocks__free(h->blocks);
	fake__free(&h->fake, h->image);
}

#endif
