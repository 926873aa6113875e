/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls every operator new and delete, and every operator new from a caller of its own. Some calls
 * fail with an exception. With an allocator that has operators of its own (LD_PRELOAD), these
 * operators are counted. --no-throw leaves out the failing calls, for allocators that abort
 * there. */
#define TRUTH_BLOCKS_LOG2 16
#include <new>

#include "truth.h"

#define COUNT 500

static void *blocks[16][COUNT];
static volatile size_t huge = SIZE_MAX / 2;

#define KEEP(name, row, size, call)                                                                \
	NOINLINE static void name()                                                                \
	{                                                                                          \
		for (size_t i = 0; i < COUNT; i++)                                                 \
			blocks[row][i] = T_NOTE(call, size);                                       \
	}

#define SIZE  (17 + i * 13)
#define ALIGN (static_cast<std::align_val_t>(128))

KEEP(keep_new, 0, SIZE, operator new(SIZE))
KEEP(keep_array, 1, SIZE, operator new[](SIZE))
KEEP(keep_nothrow, 2, SIZE, operator new(SIZE, std::nothrow))
KEEP(keep_array_nothrow, 3, SIZE, operator new[](SIZE, std::nothrow))
KEEP(keep_aligned, 4, SIZE, operator new(SIZE, ALIGN))
KEEP(keep_array_aligned, 5, SIZE, operator new[](SIZE, ALIGN))
KEEP(keep_aligned_nothrow, 6, SIZE, operator new(SIZE, ALIGN, std::nothrow))
KEEP(keep_array_aligned_nothrow, 7, SIZE, operator new[](SIZE, ALIGN, std::nothrow))
KEEP(keep_malloc, 8, SIZE, malloc(SIZE))
KEEP(keep_large, 9, SIZE * 1000, operator new(SIZE * 1000))

/* Frees half of each row, by the matching operator. */
NOINLINE static void free_half()
{
	for (size_t i = 0; i < COUNT; i += 2) {
		operator delete(truth_freeing(blocks[0][i]));
		operator delete[](truth_freeing(blocks[1][i]));
		operator delete(truth_freeing(blocks[2][i]), std::nothrow);
		operator delete[](truth_freeing(blocks[3][i]), std::nothrow);
		operator delete(truth_freeing(blocks[4][i]), ALIGN);
		operator delete[](truth_freeing(blocks[5][i]), ALIGN);
		operator delete(truth_freeing(blocks[6][i]), SIZE, ALIGN);
		operator delete[](truth_freeing(blocks[7][i]), SIZE, ALIGN);
		T_FREE(blocks[8][i]);
		operator delete(truth_freeing(blocks[9][i]), SIZE * 1000);
	}
}

NOINLINE static void failing()
{
	for (int i = 0; i < 300; i++) {
		try {
			T_NOTE(i % 2 ? operator new(huge) : operator new[](huge), 0);
		} catch (const std::bad_alloc &) {
			T_NOTE(nullptr, 0);
			T_NOTE(nullptr, 0); /* the exception's own memory comes from malloc */
		}
		/* the tracer must not take the earlier call, which threw, for this call */
		operator delete(truth_freeing(T_NOTE(operator new(24), 24)));
	}
}

int main(int argc, char **argv)
{
	truth_init(argc, argv);
	/* the exception and the unwinder allocate memory here, before blocks are counted */
	try {
		if (!truth_flag(argc, argv, "--no-throw"))
			blocks[15][0] = operator new(huge);
	} catch (const std::bad_alloc &) {
	}
	truth_ready();
	keep_new();
	keep_array();
	keep_nothrow();
	keep_array_nothrow();
	keep_aligned();
	keep_array_aligned();
	keep_aligned_nothrow();
	keep_array_aligned_nothrow();
	keep_malloc();
	keep_large();
	if (!truth_flag(argc, argv, "--no-throw"))
		failing();
	free_half();
	truth_print();
	return truth_finish();
}
