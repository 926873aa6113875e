/* SPDX-License-Identifier: BSD-2-Clause */
/* A stand-in for a CPython without inlined copies of its pool's code (-flto makes such copies).
 * Like CPython, it has functions that call other functions through a table. Blocks of 1 to 512
 * bytes come from a pool in mapped memory, others from malloc. With --malloc the table names
 * malloc, as with PYTHONMALLOC=malloc. Built with -DNAMED, the pool's functions have CPython's
 * names. With --replace, the program replaces each block by one of the same size. */
#include <sys/mman.h>

#define TRUTH_BLOCKS_LOG2 16
#include "truth.h"

#ifdef NAMED
#define pool_malloc  _PyObject_Malloc
#define pool_calloc  _PyObject_Calloc
#define pool_realloc _PyObject_Realloc
#define pool_free    _PyObject_Free
#endif

#define MOST	   512
#define ARENA	   (8u << 20)
#define EXPORT(fn) __attribute__((noipa)) fn

struct domain {
	void *ctx;
	void *(*malloc)(void *ctx, size_t size);
	void *(*calloc)(void *ctx, size_t n, size_t size);
	void *(*realloc)(void *ctx, void *p, size_t size);
	void (*free)(void *ctx, void *p);
};

static char *arena, *pos;
static void *freed[MOST / 16 + 1]; /* lists of blocks, by size in units of 16 bytes */

static void *raw_malloc(void *ctx, size_t size)
{
	(void)ctx;
	return malloc(size ? size : 1);
}

static void *raw_calloc(void *ctx, size_t n, size_t size)
{
	(void)ctx;
	return n && size ? calloc(n, size) : calloc(1, 1);
}

static void *raw_realloc(void *ctx, void *p, size_t size)
{
	(void)ctx;
	return realloc(p, size ? size : 1);
}

static void raw_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

/* The 16 bytes before each block contain the number of its list. */
NOINLINE static void *pool_malloc(void *ctx, size_t size)
{
	size_t list = (size + 15) / 16;
	void *block;

	if (!size || size > MOST)
		return raw_malloc(ctx, size);
	block = freed[list];
	if (block) {
		freed[list] = *(void **)block;
		return block;
	}
	block = pos + 16;
	*(size_t *)pos = list;
	pos += 16 + list * 16;
	if (pos > arena + ARENA)
		_exit(3);
	return block;
}

NOINLINE static void *pool_calloc(void *ctx, size_t n, size_t size)
{
	void *block = pool_malloc(ctx, n * size);

	return block ? memset(block, 0, n * size) : NULL;
}

NOINLINE static void pool_free(void *ctx, void *p)
{
	size_t list;

	if ((char *)p < arena || (char *)p >= arena + ARENA) {
		raw_free(ctx, p);
		return;
	}
	list = *(size_t *)((char *)p - 16);
	*(void **)p = freed[list];
	freed[list] = p;
}

NOINLINE static void *pool_realloc(void *ctx, void *p, size_t size)
{
	size_t room;
	void *block;

	if (!p)
		return pool_malloc(ctx, size);
	if ((char *)p < arena || (char *)p >= arena + ARENA)
		return raw_realloc(ctx, p, size);
	room = *(size_t *)((char *)p - 16) * 16;
	if (size <= room && 4 * size > 3 * room)
		return p;
	block = pool_malloc(ctx, size);
	if (!block)
		return NULL;
	memcpy(block, p, size < room ? size : room);
	pool_free(ctx, p);
	return block;
}

static const struct domain raw = {NULL, raw_malloc, raw_calloc, raw_realloc, raw_free};
struct domain object = {NULL, pool_malloc, pool_calloc, pool_realloc, pool_free};
struct domain mem = {NULL, pool_malloc, pool_calloc, pool_realloc, pool_free};

#define DOMAIN(prefix, table)                                                                      \
	EXPORT(void *prefix##Malloc(size_t size))                                                  \
	{                                                                                          \
		return size > SIZE_MAX / 2 ? NULL : (table).malloc((table).ctx, size);             \
	}                                                                                          \
	EXPORT(void *prefix##Calloc(size_t n, size_t size))                                        \
	{                                                                                          \
		return size && n > SIZE_MAX / 2 / size ? NULL                                      \
						       : (table).calloc((table).ctx, n, size);     \
	}                                                                                          \
	EXPORT(void *prefix##Realloc(void *p, size_t size))                                        \
	{                                                                                          \
		return size > SIZE_MAX / 2 ? NULL : (table).realloc((table).ctx, p, size);         \
	}                                                                                          \
	EXPORT(void prefix##Free(void *p))                                                         \
	{                                                                                          \
		(table).free((table).ctx, p);                                                      \
	}
DOMAIN(PyObject_, object)
DOMAIN(PyMem_, mem)

static void *blocks[2000];

NOINLINE static void keep_objects(void)
{
	for (size_t i = 0; i < 1000; i++)
		blocks[i] = T_NOTE(PyObject_Malloc(i), i);
}

NOINLINE static void keep_mem(void)
{
	for (size_t i = 0; i < 1000; i++)
		blocks[1000 + i] = T_NOTE(PyMem_Malloc(1 + i % 600), 1 + i % 600);
}

NOINLINE static void keep_calloc(void)
{
	for (size_t i = 0; i < 300; i++) {
		T_NOTE(PyObject_Calloc(i, 4), 4 * i);
		T_NOTE(PyMem_Calloc(3, i), 3 * i);
	}
}

NOINLINE static void free_some(void)
{
	for (size_t i = 0; i < 1000; i += 3) {
		PyObject_Free(truth_freeing(blocks[i]));
		PyMem_Free(truth_freeing(blocks[1000 + i]));
		blocks[i] = blocks[1000 + i] = NULL;
	}
}

/* Resizes blocks in several ways: in place; by moving them inside the pool, out of the pool, and
 * inside malloc's memory; and from NULL. */
NOINLINE static void keep_realloc(void)
{
	for (size_t i = 0; i < 1000; i++) {
		size_t size = (i * 37) % 1100 + 1;
		struct truth_block old = truth_take(blocks[i]);

		blocks[i] = PyObject_Realloc(blocks[i], size);
		truth_reallocated(__func__, &old, blocks[i], size);
		old = truth_take(blocks[1000 + i]);
		blocks[1000 + i] = PyMem_Realloc(blocks[1000 + i], size);
		truth_reallocated(__func__, &old, blocks[1000 + i], size);
	}
}

NOINLINE static void keep_malloc(void)
{
	for (size_t i = 0; i < 100; i++)
		T_MALLOC(10 + i);
}

#define REPLACED_BYTES(i) (((i)*37) % 1100 + 1)

NOINLINE static size_t replace(void)
{
	static size_t next;

	for (size_t n = 0; n < 200; n++, next = (next + 1) % 2000) {
		PyObject_Free(blocks[next]);
		blocks[next] = PyObject_Malloc(REPLACED_BYTES(next) / 3);
		blocks[next] = PyObject_Realloc(blocks[next], REPLACED_BYTES(next));
	}
	return 200;
}

int main(int argc, char **argv)
{
	truth_init(argc, argv);
	arena = pos = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		return 3;
	if (truth_flag(argc, argv, "--malloc"))
		object = mem = raw;
	truth_ready();
	if (truth_flag(argc, argv, "--replace")) {
		for (size_t i = 0; i < 2000; i++)
			blocks[i] = PyObject_Malloc(REPLACED_BYTES(i));
		return truth_replace(replace);
	}
	keep_objects();
	keep_mem();
	keep_calloc();
	free_some();
	keep_realloc();
	keep_malloc();
	truth_print();
	return truth_finish();
}
