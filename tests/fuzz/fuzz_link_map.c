// SPDX-License-Identifier: BSD-2-Clause
/* Reads the dynamic linker's list from a target's memory. The input is the memory from MEMORY on.
 * Its first 4 bytes also stand for the auxiliary vector: the program headers' offset and number. */
#include "fuzz.h"

#include "proc/link_map.c"

#define MEMORY 0x10000
#define MAX    64

static const uint8_t *memory;
static size_t memory_size;
static size_t reads;

int memory__read_all(pid_t pid, struct memory_read *pieces, size_t n)
{
	(void)pid;
	for (size_t i = 0; i < n; i++) {
		uint64_t addr = pieces[i].addr, len = pieces[i].len;

		reads++;
		pieces[i].ok = addr >= MEMORY && addr - MEMORY <= memory_size &&
			       len <= memory_size - (addr - MEMORY);
		if (pieces[i].ok)
			memcpy(pieces[i].to, memory + (addr - MEMORY), len);
	}
	return 0;
}

int memory__read(pid_t pid, uint64_t addr, void *to, size_t len)
{
	struct memory_read piece = {addr, to, len, false};

	memory__read_all(pid, &piece, 1);
	return piece.ok ? 0 : -EFAULT;
}

uint64_t process__auxv(pid_t pid, uint64_t type)
{
	uint16_t words[2] = {0};

	(void)pid;
	memcpy(words, memory, memory_size < sizeof(words) ? memory_size : sizeof(words));
	return type == AT_PHDR ? MEMORY + words[0] : type == AT_PHNUM ? words[1] : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct link_object *objects = calloc(MAX, sizeof(*objects));
	long n;

	require(objects);
	memory = data;
	memory_size = size;
	reads = 0;
	n = link_map__read(1, objects, MAX);
	require(n <= MAX);
	require(reads <= 2 + MAX_DYNAMIC + MAX); /* 2: headers, r_debug; a list may be a ring */
	for (long i = 0; i < n; i++)
		require(memmem(data, size, &objects[i].dynamic, sizeof(objects[i].dynamic)));
	free(objects);
	return 0;
}
