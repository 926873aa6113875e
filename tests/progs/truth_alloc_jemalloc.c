/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls jemalloc's own functions, whose names begin with PREFIX. One build has no prefix. Another
 * build has the prefix _rjem_. It contains a copy of jemalloc, as Rust's programs do, and calls
 * glibc's malloc, too. */
#define TRUTH_BLOCKS_LOG2 16
#include "truth.h"

#ifndef PREFIX
#define PREFIX
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define JE(name)    JOIN(PREFIX, name)

#define ALIGN(log2) (log2)
#define ZERO	    0x40

extern void *JE(malloc)(size_t size);
extern void *JE(calloc)(size_t n, size_t size);
extern void *JE(realloc)(void *p, size_t size);
extern void *JE(aligned_alloc)(size_t align, size_t size);
extern int JE(posix_memalign)(void **p, size_t align, size_t size);
extern void JE(free)(void *p);
extern void *JE(mallocx)(size_t size, int flags);
extern void *JE(rallocx)(void *p, size_t size, int flags);
extern size_t JE(xallocx)(void *p, size_t size, size_t extra, int flags);
extern size_t JE(sallocx)(const void *p, int flags);
extern size_t JE(nallocx)(size_t size, int flags);
extern void JE(dallocx)(void *p, int flags);
extern void JE(sdallocx)(void *p, size_t size, int flags);

static volatile size_t huge = SIZE_MAX / 2;
static void *blocks[1000];

NOINLINE static void keep_je_malloc(void)
{
	for (size_t size = 1; size < 3000000; size *= 3)
		T_NOTE(JE(malloc)(size), size);
	T_NOTE(JE(malloc)(huge), 0);
}

NOINLINE static void keep_je_calloc(void)
{
	T_NOTE(JE(calloc)(10, 100), 1000);
	T_NOTE(JE(calloc)(3, 100000), 300000);
}

NOINLINE static void keep_je_aligned(void)
{
	void *p = NULL;

	T_NOTE(JE(aligned_alloc)(4096, 40960), 40960);
	if (!JE(posix_memalign)(&p, 64, 640))
		T_NOTE(p, 640);
}

NOINLINE static void grow(void)
{
	void *p = NULL;

	for (size_t size = 16; size < 1 << 20; size *= 2) {
		struct truth_block old = truth_take(p);

		p = truth_reallocated(__func__, &old, JE(realloc)(p, size), size);
	}
}

NOINLINE static void keep_mallocx(void)
{
	for (size_t i = 0; i < 1000; i++)
		blocks[i] = T_NOTE(JE(mallocx)(100 + i, i % 2 ? ZERO : ALIGN(7)), 100 + i);
}

NOINLINE static void move(void)
{
	for (size_t i = 0; i < 1000; i += 4) {
		struct truth_block old = truth_take(blocks[i]);

		blocks[i] =
			truth_reallocated(__func__, &old, JE(rallocx)(blocks[i], 5000, 0), 5000);
	}
}

/* A block can always be resized within its size class, but never to 1 TiB. */
NOINLINE static void resize(void)
{
	for (size_t i = 1; i < 1000; i += 4) {
		size_t real = JE(sallocx)(blocks[i], 0), size = i % 8 == 1 ? real : 1ul << 40;
		struct truth_block old = truth_take(blocks[i]);
		bool done = JE(xallocx)(blocks[i], size, 0, 0) >= size;

		truth_reallocated(__func__, &old, done ? blocks[i] : NULL, size);
		if (JE(nallocx)(real, 0) != real)
			truth_die("a size class that is none");
	}
}

NOINLINE static void drop(void)
{
	for (size_t i = 0; i < 1000; i += 10) {
		JE(dallocx)(truth_freeing(blocks[i]), 0);
		if ((i + 2) % 4) /* not moved */
			JE(sdallocx)(truth_freeing(blocks[i + 2]), 102 + i, ALIGN(7));
		else
			JE(sdallocx)(truth_freeing(blocks[i + 2]), 5000, 0);
		JE(free)(truth_freeing(blocks[i + 3]));
	}
}

NOINLINE static void keep_malloc(void)
{
	for (size_t i = 0; i < 100; i++)
		T_MALLOC(1000 + i);
}

int main(int argc, char **argv)
{
	truth_init(argc, argv);
	truth_ready();
	keep_je_malloc();
	keep_je_calloc();
	keep_je_aligned();
	grow();
	keep_mallocx();
	resize();
	move();
	drop();
	keep_malloc();
	truth_print();
	return truth_finish();
}
