/* SPDX-License-Identifier: BSD-2-Clause */
/* A memory pool on top of malloc. The truth has the pool's own blocks, not the memory that the pool
 * takes from malloc. With --replace, the program takes one block, gives it back, and so on. */
#define TRUTH_BLOCKS_LOG2 16
#include "truth.h"

#define CHUNK 65536

struct pool {
	char *pos, *end;
	void *free; /* blocks given back, each of 64 bytes at least */
};

static struct pool pool;
static void *blocks[3000];

static NOINLINE void refill(struct pool *p)
{
	p->pos = malloc(CHUNK);
	p->end = p->pos + CHUNK;
	free(malloc(100)); /* this memory is not in the truth, either */
}

/* A chunk has no header, so its first block has the address of malloc's block. For a tracer, two
 * blocks at one address are the hardest case. */
NOINLINE void *pool_alloc(struct pool *p, size_t size)
{
	void *block = p->free;

	size = size < 64 ? 64 : (size + 15) / 16 * 16;
	if (size > CHUNK)
		return NULL;
	if (size == 64 && block) {
		p->free = *(void **)block;
		return block;
	}
	if (!p->pos || (size_t)(p->end - p->pos) < size)
		refill(p);
	block = p->pos;
	p->pos += size;
	return block;
}

/* Allocates n * size bytes as one block, and stores the block's address in *ret. Returns 0, or
 * -1. */
NOINLINE int pool_get(void **ret, size_t n, size_t size)
{
	*ret = pool_alloc(&pool, n * size);
	return *ret ? 0 : -1;
}

NOINLINE void pool_free(struct pool *p, void *block)
{
	*(void **)block = p->free;
	p->free = block;
}

/* Ends all blocks of the pool. (The chunks are not freed.) */
NOINLINE void pool_end(struct pool *p)
{
	*p = (struct pool){};
}

NOINLINE static void keep_pool_alloc(void)
{
	for (size_t i = 0; i < 3000; i++)
		blocks[i] = T_NOTE(pool_alloc(&pool, 20 + i % 40), 20 + i % 40);
}

NOINLINE static void keep_pool_get(void)
{
	void *p;

	for (size_t i = 0; i < 500; i++)
		T_NOTE(pool_get(&p, 10, 10 + i) ? NULL : p, 10 * (10 + i));
	T_NOTE(pool_get(&p, 10, CHUNK) ? p : NULL, 0);
}

NOINLINE static void give_back(void)
{
	for (size_t i = 0; i < 3000; i += 3)
		pool_free(&pool, truth_freeing(blocks[i]));
}

NOINLINE static void keep_again(void)
{
	for (size_t i = 0; i < 500; i++)
		T_NOTE(pool_alloc(&pool, 33), 33);
}

/* Allocates from two pools in turn. Only the blocks of the pool `request` are ended. */
NOINLINE static void keep_until_end(void)
{
	static struct pool request, longer;

	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < 100; i++) {
			blocks[i] = T_NOTE(pool_alloc(&request, 70 + i), 70 + i);
			T_NOTE(pool_alloc(&longer, 80), 80);
		}
		for (size_t i = 0; i < 100; i++)
			truth_freeing(blocks[i]);
		pool_end(&request);
	}
}

NOINLINE static void keep_malloc(void)
{
	for (size_t i = 0; i < 100; i++)
		T_MALLOC(1000 + i);
}

NOINLINE static size_t replace(void)
{
	for (size_t i = 0; i < 200; i++)
		pool_free(&pool, pool_alloc(&pool, 64));
	return 200;
}

int main(int argc, char **argv)
{
	truth_init(argc, argv);
	truth_ready();
	if (truth_flag(argc, argv, "--replace"))
		return truth_replace(replace);
	keep_pool_alloc();
	keep_pool_get();
	give_back();
	keep_again();
	keep_until_end();
	keep_malloc();
	truth_print();
	return truth_finish();
}
