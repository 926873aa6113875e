/* SPDX-License-Identifier: BSD-2-Clause */
/* A target's stack, for the kernel side's code when it runs on the host. The stack has STACK_WORDS
 * words from STACK_ADDR up. No other memory can be read. */
#ifndef MEMTRACE_TESTS_HOST_STACK_H
#define MEMTRACE_TESTS_HOST_STACK_H

#include <stdint.h>
#include <string.h>

#include "compat.bpf.h"

#define STACK_ADDR  0x7ffc00000000ULL
#define STACK_WORDS 8192

static uint64_t memory[STACK_WORDS];

/* The address of a word of this stack. */
static inline uint64_t at(size_t word)
{
	return STACK_ADDR + 8 * word;
}

long read_user(void *dst, __u32 size, __u64 addr)
{
	if (addr < STACK_ADDR || addr + size > STACK_ADDR + sizeof(memory) || addr + size < addr)
		return -14;
	memcpy(dst, (char *)memory + (addr - STACK_ADDR), size);
	return 0;
}

long read_user_u64(__u64 *dst, __u64 addr)
{
	return read_user(dst, sizeof(*dst), addr);
}

#endif
