// SPDX-License-Identifier: BSD-2-Clause
/* Reads a heap of glibc that changes while it is read: a main arena, another arena with two heaps,
 * a thread cache, a fast bin, mmapped blocks. heap.h says which changes the input makes. */
#include "heap.h"

#define BRK   0x555500000000ULL
#define LIB   0x7f1000000000ULL
#define MAIN  (LIB + 0xc60)
#define ARENA (HEAP + 0x30)
#define HEAP  0x7f2004000000ULL
#define MORE  0x7f2008000000ULL
#define MMAPS 0x7f3000000000ULL

static void put_arena(struct fuzz_heap *heap, uint64_t addr, uint64_t next)
{
	for (uint64_t i = 0; i < 127; i++) {
		fuzz_heap__put(heap, addr + 112 + 16 * i, addr + 96 + 16 * i);
		fuzz_heap__put(heap, addr + 120 + 16 * i, addr + 96 + 16 * i);
	}
	fuzz_heap__put(heap, addr + 2160, next);
}

/* Blocks in use of all sizes up to 4 KiB, then the top. */
static void put_chunks(struct fuzz_heap *heap, uint64_t addr, uint64_t end, uint64_t arena,
		       uint64_t flags)
{
	for (uint64_t size = 0x290; addr + 0x2000 < end; size = (size * 13 + 16) % 4096 | 32) {
		size &= ~15ULL;
		fuzz_heap__put(heap, addr + 8, size | flags);
		addr += size;
	}
	fuzz_heap__put(heap, addr + 8, (end - addr) | 1);
	if (arena)
		fuzz_heap__put(heap, arena + 96, addr);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_heap heap = {.in = {data, data + size}};
	uint64_t block = BRK + 0x290 + 16;

	fuzz_heap__add(&heap, BRK, 0x30000, "rw-p 00000000 00:00 0 [heap]");
	fuzz_heap__add(&heap, LIB, 0x2000, "rw-p 00001000 08:01 77 /lib/libc.so.6");
	fuzz_heap__add(&heap, HEAP, 0x5000, "rw-p 00000000 00:00 0");
	fuzz_heap__add(&heap, MORE, 0x3000, "rw-p 00000000 00:00 0");
	fuzz_heap__add(&heap, MMAPS, 0x8000, "rw-p 00000000 00:00 0");
	put_arena(&heap, MAIN, ARENA);
	put_arena(&heap, ARENA, MAIN);
	fuzz_heap__put(&heap, HEAP, ARENA);
	fuzz_heap__put(&heap, HEAP + 16, 0x5000);
	fuzz_heap__put(&heap, MORE, ARENA);
	fuzz_heap__put(&heap, MORE + 8, HEAP);
	fuzz_heap__put(&heap, MORE + 16, 0x3000);
	put_chunks(&heap, BRK, BRK + 0x30000, MAIN, 1);
	put_chunks(&heap, HEAP + 0x8d0, HEAP + 0x5000, 0, 5);
	put_chunks(&heap, MORE + 0x30, MORE + 0x3000, ARENA, 5);
	fuzz_heap__put(&heap, MMAPS + 8, 0x3002);
	fuzz_heap__put(&heap, MMAPS + 0x3008, 0x2002);
	/* a fast bin and a thread cache that lead to the second block */
	fuzz_heap__put(&heap, MAIN + 16, block - 16);
	fuzz_heap__put(&heap, block, block >> 12);
	fuzz_heap__put(&heap, BRK + 16, 1);
	fuzz_heap__put(&heap, BRK + 16 + 128, block);
	fuzz_heap__run(&heap);
	return 0;
}
