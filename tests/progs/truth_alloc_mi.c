/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls mimalloc's own functions, for the thread's heap and for another heap. (mimalloc defines
 * glibc's names, such as malloc, too.) --dlopen: loads mimalloc while the program runs, says
 * "loaded ADDRESS" (of mi_malloc), and waits for a second "go". --destroy: uses only heaps that are
 * destroyed with all their blocks, without calls of free. --default: the same, but each heap is the
 * thread's heap while blocks are allocated in it. */
#define TRUTH_BLOCKS_LOG2 16
#include <dlfcn.h>

#include "truth.h"

static void *(*mi_malloc)(size_t);
static void *(*mi_calloc)(size_t, size_t);
static void *(*mi_zalloc)(size_t);
static void *(*mi_mallocn)(size_t, size_t);
static void *(*mi_realloc)(void *, size_t);
static void *(*mi_reallocn)(void *, size_t, size_t);
static void *(*mi_rezalloc)(void *, size_t);
static void *(*mi_expand)(void *, size_t);
static void *(*mi_malloc_aligned)(size_t, size_t);
static void *(*mi_zalloc_aligned)(size_t, size_t);
static void *(*mi_calloc_aligned)(size_t, size_t, size_t);
static void *(*mi_realloc_aligned)(void *, size_t, size_t);
static int (*mi_posix_memalign)(void **, size_t, size_t);
static void *(*mi_memalign)(size_t, size_t);
static void *(*mi_valloc)(size_t);
static void *(*mi_pvalloc)(size_t);
static void *(*mi_new)(size_t);
static void *(*mi_new_n)(size_t, size_t);
static void *(*mi_heap_new)(void);
static void (*mi_heap_destroy)(void *);
static void (*mi_heap_delete)(void *);
static void *(*mi_heap_set_default)(void *);
static void *(*mi_heap_malloc)(void *, size_t);
static void *(*mi_heap_calloc)(void *, size_t, size_t);
static void *(*mi_heap_realloc)(void *, void *, size_t);
static void (*mi_free)(void *);
static void (*mi_free_size)(void *, size_t);

static void *library, *heap, *blocks[400];

static void *function(const char *name)
{
	void *p = dlsym(library, name);

	if (!p)
		truth_die(name);
	return p;
}

#define GET(name) name = __extension__(__typeof__(name)) function(#name)

static void load(void)
{
	library = dlopen("libmimalloc.so.2.0", RTLD_NOW);
	if (!library)
		truth_die(dlerror());
	GET(mi_malloc);
	GET(mi_calloc);
	GET(mi_zalloc);
	GET(mi_mallocn);
	GET(mi_realloc);
	GET(mi_reallocn);
	GET(mi_rezalloc);
	GET(mi_expand);
	GET(mi_malloc_aligned);
	GET(mi_zalloc_aligned);
	GET(mi_calloc_aligned);
	GET(mi_realloc_aligned);
	GET(mi_posix_memalign);
	GET(mi_memalign);
	GET(mi_valloc);
	GET(mi_pvalloc);
	GET(mi_new);
	GET(mi_new_n);
	GET(mi_heap_new);
	GET(mi_heap_destroy);
	GET(mi_heap_delete);
	GET(mi_heap_set_default);
	GET(mi_heap_malloc);
	GET(mi_heap_calloc);
	GET(mi_heap_realloc);
	GET(mi_free);
	GET(mi_free_size);
	heap = mi_heap_new();
}

NOINLINE static void keep_mi_malloc(void)
{
	for (size_t i = 0; i < 400; i++)
		blocks[i] = T_NOTE(mi_malloc(1 + i * i), 1 + i * i);
}

NOINLINE static void keep_mi_calloc(void)
{
	T_NOTE(mi_calloc(10, 100), 1000);
	T_NOTE(mi_calloc(1, 100000), 100000);
	T_NOTE(mi_zalloc(77), 77);
	T_NOTE(mi_mallocn(7, 99), 693);
}

NOINLINE static void keep_mi_aligned(void)
{
	void *p;

	T_NOTE(mi_malloc_aligned(500, 64), 500);
	T_NOTE(mi_malloc_aligned(8192, 4096), 8192);
	T_NOTE(mi_zalloc_aligned(501, 64), 501);
	T_NOTE(mi_calloc_aligned(5, 100, 64), 500);
	T_NOTE(mi_memalign(256, 777), 777);
	T_NOTE(mi_valloc(5000), 5000);
	T_NOTE(mi_pvalloc(5001), 5001);
	for (int i = 0; i < 20; i++)
		if (!mi_posix_memalign(&p, 128, 1000))
			T_NOTE(p, 1000);
}

#define MOVE(p, call, size)                                                                        \
	__extension__({                                                                            \
		struct truth_block old_ = truth_take(p);                                           \
		truth_reallocated(__func__, &old_, call, size);                                    \
	})

NOINLINE static void grow(void)
{
	void *p = NULL;

	for (size_t size = 16; size < 1 << 20; size *= 2)
		p = MOVE(p, mi_realloc(p, size), size);
	p = MOVE(p, mi_reallocn(p, 3, 100), 300);
	p = MOVE(p, mi_rezalloc(p, 3000), 3000);
	p = MOVE(p, mi_realloc_aligned(p, 6000, 256), 6000);
	MOVE(p, mi_expand(p, 5999), 5999);
	MOVE(p, mi_expand(p, 1ul << 30), 1ul << 30); /* fails: the block stays */
}

NOINLINE static void keep_mi_new(void)
{
	for (size_t i = 0; i < 100; i++)
		T_NOTE(mi_new(50 + i), 50 + i);
	T_NOTE(mi_new_n(10, 10), 100);
}

NOINLINE static void keep_mi_heap(void)
{
	T_NOTE(mi_heap_malloc(heap, 3000), 3000);
	T_NOTE(mi_heap_calloc(heap, 3, 3000), 9000);
	T_NOTE(mi_heap_realloc(heap, NULL, 100), 100);
}

/* Like a server that has a heap for each request. */
NOINLINE static void keep_until_destroyed(void)
{
	for (int round = 0; round < 40; round++) {
		void *own = mi_heap_new();

		for (size_t i = 0; i < 400; i++)
			blocks[i] = T_NOTE(mi_heap_malloc(own, 2400), 2400);
		for (size_t i = 0; i < 400; i++)
			truth_freeing(blocks[i]);
		mi_heap_destroy(own);
	}
}

NOINLINE static void keep_of_the_thread(void)
{
	for (int round = 0; round < 40; round++) {
		void *own = mi_heap_new(), *usual = mi_heap_set_default(own);

		for (size_t i = 0; i < 400; i++)
			blocks[i] = T_NOTE(mi_malloc(2400), 2400);
		mi_heap_set_default(usual);
		for (size_t i = 0; i < 400; i++)
			truth_freeing(blocks[i]);
		mi_heap_destroy(own);
	}
}

/* Before a heap is destroyed, some of its blocks are freed, reallocated, or replaced by blocks of
 * another heap. Blocks of a deleted heap stay, whichever heap gets the heap's address later. */
NOINLINE static void keep_of_many_heaps(void)
{
	for (int round = 0; round < 40; round++) {
		void *own = mi_heap_new(), *other = mi_heap_new();

		for (size_t i = 0; i < 300; i++)
			blocks[i] = T_NOTE(mi_heap_malloc(own, 1000), 1000);
		for (size_t i = 0; i < 300; i++) {
			if (i % 3 == 0) {
				mi_free(truth_freeing(blocks[i]));
				blocks[i] = T_NOTE(mi_heap_malloc(i % 2 ? own : other, 990), 990);
			} else if (i % 3 == 1) {
				blocks[i] = MOVE(blocks[i], mi_heap_realloc(own, blocks[i], 5000),
						 5000);
			}
		}
		for (size_t i = 0; i < 300; i++)
			if (i % 6)
				truth_freeing(blocks[i]);
		mi_heap_destroy(own);
		if (round % 2) {
			for (size_t i = 0; i < 300; i += 6)
				truth_freeing(blocks[i]);
			mi_heap_destroy(other);
		} else {
			mi_heap_delete(other);
		}
	}
}

NOINLINE static void drop(void)
{
	for (size_t i = 0; i < 400; i += 4) {
		mi_free(truth_freeing(blocks[i]));
		mi_free_size(truth_freeing(blocks[i + 1]), 1 + (i + 1) * (i + 1));
	}
}

NOINLINE static void keep_malloc(void)
{
	for (size_t i = 0; i < 100; i++)
		T_MALLOC(1000 + i);
}

int main(int argc, char **argv)
{
	bool late = truth_flag(argc, argv, "--dlopen");

	truth_init(argc, argv);
	if (!late)
		load();
	truth_ready();
	if (late) {
		load();
		printf("loaded %#" PRIxPTR "\n", (uintptr_t)mi_malloc);
		fflush(stdout);
		truth_await("go");
	}
	if (truth_flag(argc, argv, "--destroy")) {
		keep_until_destroyed();
		keep_of_many_heaps();
		truth_print();
		return truth_finish();
	}
	if (truth_flag(argc, argv, "--default")) {
		keep_of_the_thread();
		truth_print();
		return truth_finish();
	}
	keep_mi_malloc();
	keep_mi_calloc();
	keep_mi_aligned();
	grow();
	keep_mi_new();
	keep_mi_heap();
	drop();
	keep_malloc();
	truth_print();
	return truth_finish();
}
