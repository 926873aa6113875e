/* SPDX-License-Identifier: BSD-2-Clause */
/* The library that leaking.c loads with dlopen. One function allocates and frees, one leaks. Built
 * as leaking_plugin.so. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

void plugin_handle(void);
size_t plugin_forget(size_t size);

static uint64_t serial;

static void *fill(void *p, size_t size)
{
	if (!p)
		abort();
	for (size_t i = 0; i < size / 8; i++)
		((uint64_t *)p)[i] = i % 2 ? (uintptr_t)p : ++serial;
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

NOINLINE void plugin_handle(void)
{
	void *p = fill(malloc(150 + (++serial & 63)), 64);

	__asm__ volatile("" : "+r"(p) : : "memory");
	free(p);
}

NOINLINE size_t plugin_forget(size_t size)
{
	fill(malloc(size), size);
	return size;
}
