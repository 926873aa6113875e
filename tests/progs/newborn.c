/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocates at once after its start, in deep chains through libc, and ends after some milliseconds.
 *
 * usage: newborn MS [LIBRARY]
 *
 * Keeps blocks of 10001, 10003 and 10005 bytes. With LIBRARY (the path of library.so), it also
 * allocates 20051 bytes through this library, as soon as it is loaded. With -DFRAME=BYTES its own
 * functions have larger frames. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noipa))
#define KEEP(p)	 __asm__ volatile("" : : "r"(p) : "memory") /* uses p; prevents a tail call */

#ifdef FRAME
#define LARGE_FRAME                                                                                \
	char frame[FRAME] = {};                                                                    \
	KEEP(frame)
#else
#define LARGE_FRAME
#endif

NOINLINE static void allocate(size_t size)
{
	LARGE_FRAME;
	KEEP(malloc(size));
}

NOINLINE static void descend(int depth, size_t size)
{
	LARGE_FRAME;
	if (depth > 1)
		descend(depth - 1, size);
	else
		allocate(size);
	KEEP(&depth);
}

NOINLINE static int compare(const void *a, const void *b)
{
	static int calls;

	LARGE_FRAME;
	if (!calls++)
		descend(20, 10003);
	return *(const int *)a - *(const int *)b;
}

NOINLINE static int find_compare(const void *key, const void *member)
{
	static int calls;
	int numbers[] = {3, 1, 2};

	LARGE_FRAME;
	if (!calls++) {
		qsort(numbers, 3, sizeof(numbers[0]), compare);
		allocate(10005);
	}
	return *(const int *)key - *(const int *)member;
}

NOINLINE static void call_back(size_t size)
{
	allocate(size);
	KEEP(&size);
}

NOINLINE static void use_library(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	void (*leaf)(void (*)(size_t), size_t) =
		library ? (void (*)(void (*)(size_t), size_t))dlsym(library, "lib_leaf") : NULL;

	if (!leaf)
		_exit(3);
	leaf(call_back, 20051);
	KEEP(library);
}

int main(int argc, char **argv)
{
	static const int numbers[] = {1, 2, 3};
	int key = 2;

	LARGE_FRAME;
	allocate(10001);
	KEEP(bsearch(&key, numbers, 3, sizeof(int), find_compare));
	if (argc > 2)
		use_library(argv[2]);
	usleep(argc > 1 ? (useconds_t)atoi(argv[1]) * 1000 : 0);
	_exit(0);
}
