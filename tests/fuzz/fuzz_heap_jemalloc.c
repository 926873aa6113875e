// SPDX-License-Identifier: BSD-2-Clause
/* Reads a heap of jemalloc that changes while it is read: slabs and large extents in a radix tree.
 * heap.h says which changes the input makes. The extents come first. */
#include "heap.h"

#define HEAP  0x7f0000000000ULL /* a multiple of 1 GiB: one entry of the root covers it */
#define META  0x555500000000ULL
#define EDATA META
#define LEAF  (META + 0x1040)
#define LIB   0x7f1000000000ULL
#define TLS   0x7f2000000000ULL
#define SLOTS (HEAP + 6 * 0x8000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_heap heap = {.in = {data, data + size}};

	fuzz_heap__add(&heap, META, 0x202000, "rw-p 00000000 00:00 0 [heap]");
	fuzz_heap__add(&heap, HEAP, 0x40000, "rw-p 00000000 00:00 0");
	fuzz_heap__add(&heap, LIB, 0x201000, "rw-p 00001000 08:01 77 /lib/libjemalloc.so.2");
	fuzz_heap__put(&heap, LIB + 8 + 8 * (HEAP >> 30 & 0x3ffff), LEAF);
	for (uint64_t i = 0; i < 8; i++) {
		uint64_t edata = EDATA + 128 * i, slab = i % 2, szind = slab ? 2 + i : 36;
		uint64_t start = HEAP + 0x8000 * i, pages = slab ? 3 : 5;

		fuzz_heap__put(&heap, edata, slab << 12 | szind << 20 | i << 28);
		fuzz_heap__put(&heap, edata + 8, start);
		fuzz_heap__put(&heap, edata + 16, pages << 12);
		for (uint64_t page = start >> 12; page < (start >> 12) + pages; page++)
			fuzz_heap__put(&heap, LEAF + 8 * (page & 0x3ffff),
				       szind << 48 | edata | slab);
	}
	/* a thread cache, whose slots are in the extent of number 6 */
	fuzz_heap__add(&heap, TLS, 0x1000, "rw-p 00000000 00:00 0");
	fuzz_heap__put(&heap, SLOTS, 0x7a7a7a7a7a7a7a7aULL);
	for (uint64_t i = 0; i < 40; i++) {
		uint64_t bin = SLOTS + 8 + 16 * i, at = TLS + 24 * i;

		fuzz_heap__put(&heap, at, bin + 8);
		fuzz_heap__put(&heap, at + 16, (bin & 0xffff) << 16 | ((bin + 16) & 0xffff) << 32);
		fuzz_heap__put(&heap, bin + 8, HEAP + 0x8000 * (i % 8));
	}
	fuzz_heap__put(&heap, SLOTS + 8 + 16 * 40, 0xa7a7a7a7a7a7a7a7ULL);
	fuzz_heap__run(&heap);
	return 0;
}
