/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls functions that truth_basic and truth_alloc_cxx leave out, because not every allocator has
 * them. Calls only functions that malloc's own file defines. */
#define TRUTH_BLOCKS_LOG2 16
#include <dlfcn.h>
#include <new>

#include "truth.h"

#define COUNT 200
#define SIZE  (17 + i * 13)

struct sized {
	void *p;
	size_t n;
};

static void *blocks[16][COUNT];

/* Looked up before the script runs, because dlsym() allocates. */
static struct {
	const char *name;
	void *p;
} functions[] = {
	{"malloc", nullptr},
	{"pvalloc", nullptr},
	{"memalign", nullptr},
	{"aligned_alloc", nullptr},
	{"valloc", nullptr},
	{"cfree", nullptr},
	{"reallocarray", nullptr},
	{"free_sized", nullptr},
	{"free_aligned_sized", nullptr},
	{"sdallocx", nullptr},
	{"nallocx", nullptr},
	{"alloc_at_least", nullptr},
	{"aligned_alloc_at_least", nullptr},
	{"TCMallocInternalMalloc", nullptr},
	{"__size_returning_new", nullptr},
	{"__size_returning_new_aligned", nullptr},
	{"_Znwm12__hot_cold_t", nullptr},
	{"_ZnwmRKSt9nothrow_t12__hot_cold_t", nullptr},
};

/* Looks up the functions that malloc's file defines. */
static void look_up()
{
	const char *home;
	Dl_info info;

	if (!dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info))
		truth_die("whose is malloc?");
	home = info.dli_fname;
	for (auto &function : functions) {
		void *p = dlsym(RTLD_DEFAULT, function.name);

		if (p && dladdr(p, &info) && !strcmp(info.dli_fname, home))
			function.p = p;
	}
	dlerror();
}

static void *find(const char *name)
{
	for (auto &function : functions)
		if (!strcmp(function.name, name))
			return function.p;
	truth_die(name);
	return nullptr;
}

#define CALL(type, name) (reinterpret_cast<type *>(find(name)))

#define KEEP(name, row, type, symbol, call)                                                        \
	NOINLINE static void name()                                                                \
	{                                                                                          \
		auto *f = CALL(type, symbol);                                                      \
                                                                                                   \
		for (size_t i = 0; f && i < COUNT; i++)                                            \
			blocks[row][i] = T_NOTE(call, SIZE);                                       \
	}

typedef void *one(size_t);
typedef void *two(size_t, size_t);
typedef sized sized_one(size_t);
typedef sized sized_two(size_t, size_t);
typedef void *hinted(size_t, uint8_t);
typedef void *hinted_nothrow(size_t, const std::nothrow_t &, uint8_t);
typedef void *array(void *, size_t, size_t);
typedef size_t ask_size(size_t, int);
typedef void drop(void *);
typedef void drop_sized(void *, size_t);
typedef void drop_aligned(void *, size_t, size_t);
typedef void drop_flags(void *, size_t, int);

KEEP(keep_malloc, 0, one, "malloc", f(SIZE))
KEEP(keep_pvalloc, 1, one, "pvalloc", f(SIZE))
KEEP(keep_memalign, 2, two, "memalign", f(64, SIZE))
KEEP(keep_small_memalign, 3, two, "memalign", f(8, SIZE))
KEEP(keep_aligned_alloc, 4, two, "aligned_alloc", f(256, SIZE))
KEEP(keep_valloc, 5, one, "valloc", f(SIZE))
KEEP(keep_internal, 6, one, "TCMallocInternalMalloc", f(SIZE))
KEEP(keep_size_returning, 7, sized_one, "__size_returning_new", f(SIZE).p)
KEEP(keep_size_returning_aligned, 8, sized_two, "__size_returning_new_aligned", f(SIZE, 128).p)
KEEP(keep_hot_cold, 9, hinted, "_Znwm12__hot_cold_t", f(SIZE, 1))
KEEP(keep_hot_cold_nothrow, 10, hinted_nothrow, "_ZnwmRKSt9nothrow_t12__hot_cold_t",
     f(SIZE, std::nothrow, 1))
KEEP(keep_at_least, 11, sized_one, "alloc_at_least", f(SIZE).p)
KEEP(keep_aligned_at_least, 12, sized_two, "aligned_alloc_at_least", f(64, SIZE).p)

NOINLINE static void keep_posix_memalign()
{
	for (size_t i = 0; i < COUNT; i++) {
		void *p = nullptr;

		/* also a small alignment, for which some allocators call malloc */
		T_NOTE(posix_memalign(&p, i % 2 ? 8 : 512, SIZE) ? nullptr : p, SIZE);
	}
}

/* Grows blocks from NULL, in place and by moving. The last call for each block fails. */
NOINLINE static void grow_array()
{
	auto *f = CALL(array, "reallocarray");

	for (size_t i = 0; f && i < COUNT; i++) {
		struct truth_block block = {};
		void *p = truth_reallocated(__func__, &block, f(nullptr, 3, SIZE), 3 * SIZE);

		block = truth_take(p);
		p = truth_reallocated(__func__, &block, f(p, 5, SIZE * 7), 35 * SIZE);
		block = truth_take(p);
		truth_reallocated(__func__, &block, f(p, SIZE_MAX / 2, 3), SIZE_MAX);
	}
}

/* Calls a function that returns a block's size and allocates nothing. */
NOINLINE static void ask()
{
	auto *f = CALL(ask_size, "nallocx");

	for (size_t i = 0; f && i < COUNT; i++)
		if (f(SIZE, 0) < SIZE)
			truth_die("nallocx");
}

/* Frees half of each row. For some rows, calls other functions than free, if they exist. */
NOINLINE static void free_half()
{
	auto *by_size = CALL(drop_sized, "free_sized");
	auto *by_both = CALL(drop_aligned, "free_aligned_sized");
	auto *by_flags = CALL(drop_flags, "sdallocx");
	auto *by_c = CALL(drop, "cfree");

	for (size_t row = 0; row < 13; row++)
		for (size_t i = 0; i < COUNT; i += 2) {
			void *p = truth_freeing(blocks[row][i]);

			if (row == 2 && by_both)
				by_both(p, 64, SIZE);
			else if (row == 4 && by_both)
				by_both(p, 256, SIZE);
			else if (row == 0 && i % 4 && by_size)
				by_size(p, SIZE);
			else if (row == 0 && by_flags)
				by_flags(p, SIZE, 0);
			else if (row == 3 && by_c)
				by_c(p);
			else if (row == 7)
				operator delete(p, SIZE);
			else if (row == 8)
				operator delete(p, SIZE, static_cast<std::align_val_t>(128));
			else
				free(p);
		}
}

int main(int argc, char **argv)
{
	truth_init(argc, argv);
	look_up();
	truth_ready();
	keep_malloc();
	keep_pvalloc();
	keep_memalign();
	keep_small_memalign();
	keep_aligned_alloc();
	keep_valloc();
	keep_internal();
	keep_size_returning();
	keep_size_returning_aligned();
	keep_hot_cold();
	keep_hot_cold_nothrow();
	keep_at_least();
	keep_aligned_at_least();
	keep_posix_memalign();
	grow_array();
	ask();
	free_half();
	truth_print();
	return truth_finish();
}
