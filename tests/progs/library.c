/* SPDX-License-Identifier: BSD-2-Clause */
/* A library for chains.c to load while it is traced. Built as library.so. */
#include <stddef.h>

#define NOINLINE __attribute__((noinline))

void lib_middle(void (*call)(size_t), size_t size);
void lib_leaf(void (*call)(size_t), size_t size);

NOINLINE void lib_middle(void (*call)(size_t), size_t size)
{
	call(size);
	__asm__ volatile("" : : : "memory");
}

NOINLINE void lib_leaf(void (*call)(size_t), size_t size)
{
	lib_middle(call, size);
	__asm__ volatile("" : : : "memory");
}
