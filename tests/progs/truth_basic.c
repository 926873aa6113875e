/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls every function of the malloc family, each from a caller of its own. One thread.
 * --asprintf adds one block of asprintf, whose inner calls differ between versions of libc. Only
 *   the live bytes of this block are known; they are under "live_only".
 * --check compares the books with glibc's statistics at the end. Prints differences to stderr, and
 *   exits with status 1.
 * --portable leaves out functions that some allocators do not have. */
#define TRUTH_BLOCKS_LOG2 16
#include "truth.h"

#define MANY 25000

static void *many[MANY];
static void *kept[64];
static size_t n_kept;
static const char *asprintf_function;
static size_t asprintf_bytes;

/* Volatile: if the compiler knew these sizes, it would warn about the failing calls or remove
 * them. */
static volatile size_t huge = SIZE_MAX / 2, half = SIZE_MAX / 4 + 1, zero;

static void keep(void *p)
{
	kept[n_kept++ % 64] = p;
}

NOINLINE static void keep_malloc(void)
{
	static const size_t sizes[] = {1, 8, 24, 25, 100, 1000, 4096, 65536, 200000, 3000000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		keep(T_MALLOC(sizes[i]));
}

NOINLINE static void keep_calloc(void)
{
	keep(T_CALLOC((size_t)10, (size_t)100));
	keep(T_CALLOC((size_t)1, (size_t)1));
	keep(T_CALLOC((size_t)4096, (size_t)64));
}

NOINLINE static void keep_malloc_zero(void)
{
	keep(T_MALLOC(zero));
	keep(T_MALLOC(zero));
}

NOINLINE static void malloc_fails(void)
{
	keep(T_MALLOC(huge));
}

NOINLINE static void calloc_overflow(void)
{
	keep(T_NOTE(calloc(half, 8), 0));
}

NOINLINE static void realloc_in_place(void)
{
	keep(T_REALLOC(T_MALLOC(100), 104));
}

NOINLINE static void realloc_down(void)
{
	keep(T_REALLOC(T_MALLOC(100000), 10));
	keep(T_REALLOC(T_MALLOC(1000000), 200000));
}

NOINLINE static void realloc_moving(void)
{
	void *p = T_MALLOC(1000);

	keep(T_MALLOC(16)); /* p cannot grow in place */
	keep(T_REALLOC(p, 50000));
}

/* Grows like a vector, by doubling, from 16 bytes to 2 MiB: the last steps are mremap. */
NOINLINE static void vector_push(void)
{
	void *p = NULL;

	for (size_t size = 16; size <= 2 << 20; size *= 2)
		p = T_REALLOC(p, size);
	keep(p);
}

NOINLINE static void realloc_fails(void)
{
	void *p = T_MALLOC(777);

	keep(p);
	T_REALLOC(p, huge);
}

NOINLINE static void realloc_null(void)
{
	keep(T_REALLOC(NULL, 333));
}

NOINLINE static void realloc_zero(void)
{
	keep(T_REALLOC(T_MALLOC(444), zero));
}

NOINLINE static void keep_reallocarray(void)
{
	keep(T_REALLOCARRAY(T_MALLOC(30), 50, 40));
	keep(T_REALLOCARRAY(NULL, 7, 9));
}

NOINLINE static void reallocarray_overflow(void)
{
	void *p = T_MALLOC(55);

	keep(p);
	T_REALLOCARRAY(p, half, 8);
}

NOINLINE static void keep_posix_memalign(void)
{
	static const size_t aligns[] = {8, 16, 64, 4096};
	void *p;

	for (int i = 0; i < 4; i++) {
		p = NULL;
		if (posix_memalign(&p, aligns[i], 500))
			p = NULL;
		keep(T_NOTE(p, 500));
	}
}

NOINLINE static void posix_memalign_fails(void)
{
	void *p = NULL;

	if (posix_memalign(&p, 64, huge))
		p = NULL;
	keep(T_NOTE(p, 0));
}

NOINLINE static void keep_aligned_alloc(void)
{
	keep(T_NOTE(aligned_alloc(8, 80), 80));
	keep(T_NOTE(aligned_alloc(16, 160), 160));
	keep(T_NOTE(aligned_alloc(64, 640), 640));
	keep(T_NOTE(aligned_alloc(4096, 40960), 40960));
}

NOINLINE static void keep_memalign(void)
{
	keep(T_NOTE(memalign(8, 81), 81));
	keep(T_NOTE(memalign(16, 161), 161));
	keep(T_NOTE(memalign(64, 641), 641));
	keep(T_NOTE(memalign(4096, 40961), 40961));
}

NOINLINE static void keep_valloc(void)
{
	keep(T_NOTE(valloc(5000), 5000));
}

#ifdef __GLIBC__
NOINLINE static void keep_pvalloc(void)
{
	keep(T_NOTE(pvalloc(5001), 5001));
}
#endif

NOINLINE static void keep_strdup(void)
{
	static const char text[] = "nineteen characters";

	keep(T_NOTE(strdup(text), sizeof(text)));
	keep(T_NOTE(strndup(text, 8), 9));
}

NOINLINE static void keep_asprintf(void)
{
	char *p;

	if (asprintf(&p, "%d is a number", 1234567) < 0)
		return;
	keep(p);
	asprintf_function = __func__;
	asprintf_bytes = strlen(p) + 1;
}

NOINLINE static void many_blocks(void)
{
	for (size_t i = 0; i < MANY; i++)
		many[i] = T_MALLOC(1 + i % 2036);
}

/* Allocates nothing. The blocks that it frees are in the books of many_blocks. */
NOINLINE static void free_two_thirds(void)
{
	for (size_t i = 0; i < MANY; i++)
		if (i % 3)
			T_FREE(many[i]);
}

NOINLINE static void all_freed(void)
{
	void *p[100];

	for (size_t i = 0; i < 100; i++)
		p[i] = T_MALLOC(10 * i + 1);
	for (size_t i = 0; i < 100; i++)
		T_FREE(p[i]);
	T_FREE(NULL);
}

#ifdef __GLIBC__
/* Checks that glibc's statistics count as many live bytes as the books, or a few more. */
static int check(size_t in_use_before)
{
	struct mallinfo2 info = mallinfo2();
	uint64_t live = asprintf_bytes, usable = asprintf_bytes,
		 objects = asprintf_function != NULL;
	uint64_t sum = 0, grown = info.uordblks + info.hblkhd - in_use_before;

	for (size_t i = 0; i < TRUTH_BLOCKS; i++) {
		if (!truth_blocks[i].addr)
			continue;
		objects++;
		live += truth_blocks[i].size;
		usable += malloc_usable_size((void *)truth_blocks[i].addr);
		if (malloc_usable_size((void *)truth_blocks[i].addr) < truth_blocks[i].size) {
			fprintf(stderr, "a block of %" PRIu64 " bytes is too small\n",
				truth_blocks[i].size);
			return 1;
		}
	}
	for (size_t i = 0; i < truth_n_functions; i++) {
		const struct truth_function *f = &truth_functions[i];

		sum += f->live_bytes;
		if (f->alloc_bytes - f->freed_bytes != f->live_bytes ||
		    f->alloc_objects - f->freed_objects != f->live_objects) {
			fprintf(stderr, "the books of %s do not balance\n", f->name);
			return 1;
		}
	}
	fprintf(stderr,
		"live %" PRIu64 " in %" PRIu64 " blocks, usable %" PRIu64 ", glibc grew by %" PRIu64
		"\n",
		live, objects, usable, grown);
	/* Freed blocks in the thread's cache count as in use: at most 64 * 7 blocks of 1032 bytes.
	 * Each block also costs its header and rounding; a mapped or page-aligned block costs up to
	 * two pages. */
	return sum + asprintf_bytes != live || usable < live || grown < live ||
	       grown > usable + 16 * objects + 64 * 7 * 1032 + 32 * 4096;
}
#endif

int main(int argc, char **argv)
{
#ifdef __GLIBC__
	struct mallinfo2 info;
#endif
	int status = 0;

	truth_init(argc, argv);
	truth_ready();
#ifdef __GLIBC__
	info = mallinfo2();
#endif

	keep_malloc();
	keep_calloc();
	keep_malloc_zero();
	malloc_fails();
	calloc_overflow();
	many_blocks();
	realloc_in_place();
	realloc_down();
	realloc_moving();
	vector_push();
	realloc_fails();
	realloc_null();
	realloc_zero();
	keep_reallocarray();
	reallocarray_overflow();
	keep_posix_memalign();
	posix_memalign_fails();
	keep_aligned_alloc();
	keep_memalign();
	keep_valloc();
	if (!truth_flag(argc, argv, "--portable")) {
#ifdef __GLIBC__
		keep_pvalloc();
#endif
		keep_strdup();
	}
	if (truth_flag(argc, argv, "--asprintf"))
		keep_asprintf();
	free_two_thirds();
	all_freed();

	truth_print_open();
	if (asprintf_function)
		printf(", \"live_only\": {\"%s\": {\"live_bytes\": %zu, \"live_objects\": 1}}",
		       asprintf_function, asprintf_bytes);
	printf("}\n");
#ifdef __GLIBC__
	if (truth_flag(argc, argv, "--check"))
		status = check(info.uordblks + info.hblkhd);
#endif
	return truth_finish() | status;
}
