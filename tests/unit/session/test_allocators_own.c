// SPDX-License-Identifier: BSD-2-Clause
/* A process that is made up: a program, an allocator in a library, and a language's interpreter.
 * Which of the memory that they map is the heap's own? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/allocators_own.h"

#define PROGRAM	    0x400000ULL
#define LIBRARY	    0x7f0000000000ULL /* its mapping begins at the file's byte LIBRARY_OFF */
#define INTERPRETER 0x7f1000000000ULL
#define LIBRARY_OFF 0x1000ULL
#define LIBRARY_END (LIBRARY + 0x10000)
/* in the library's file: malloc, whose probe is four bytes behind its first byte */
#define MALLOC_OFF   0x4000ULL
#define MALLOC_BYTES 0x100ULL
#define PROBE_DELTA  4
/* the allocator's code that takes memory: its virtual address is 0x1000 above its file offset */
#define VADDR_OFF   0x1000ULL
#define TAKER	    0x9000ULL
#define TAKER_BYTES 0x40ULL

/* the return address of a call in the library's function at `off`, `at` bytes after its start */
#define IN_LIBRARY(off, at) (LIBRARY + (off)-LIBRARY_OFF + (at))

enum { FILE_PROGRAM = 1, FILE_LIBRARY, FILE_INTERPRETER };

static const struct file_id files[] = {[FILE_PROGRAM] = {8, 1, 100},
				       [FILE_LIBRARY] = {8, 1, 101},
				       [FILE_INTERPRETER] = {8, 2, 101}};

struct fixture {
	struct alloc_point point;
	struct allocator allocator, *list[1];
	struct allocators allocators;
	struct target target;
	struct profile_mapping mappings[3];
	struct profile_location locations[3];
	uint32_t of_site[3];
	struct profile_site site;
	struct profile profile;
	struct build build;
};

static void begin(struct fixture *f)
{
	*f = (struct fixture){
		.point = {.func.vaddr = MALLOC_OFF + VADDR_OFF,
			  .place.off = MALLOC_OFF + PROBE_DELTA,
			  .bytes = MALLOC_BYTES,
			  .site.delta = PROBE_DELTA},
		.allocator = {.family = "jemalloc",
			      .file = files[FILE_LIBRARY],
			      .n_points = 1,
			      .takers = {{TAKER, TAKER + TAKER_BYTES}},
			      .n_takers = 1},
		.mappings = {{.start = PROGRAM,
			      .end = PROGRAM + 0x100000,
			      .file = files[FILE_PROGRAM]},
			     {.start = LIBRARY,
			      .end = LIBRARY_END,
			      .off = LIBRARY_OFF,
			      .file = files[FILE_LIBRARY]},
			     {.start = INTERPRETER,
			      .end = INTERPRETER + 0x100000,
			      .file = files[FILE_INTERPRETER]}},
		.of_site = {0, 1, 2},
	};
	f->allocator.points = &f->point;
	f->list[0] = &f->allocator;
	f->allocators = (struct allocators){.list = f->list, .n = 1};
	f->target.allocators = &f->allocators;
	f->site = (struct profile_site){.locations = f->of_site,
					.n_locations = 3,
					.alloc_bytes = 3 << 20,
					.alloc_objects = 3};
	f->profile = (struct profile){.mappings = f->mappings,
				      .n_mappings = 3,
				      .locations = f->locations,
				      .n_locations = 3,
				      .sites = &f->site,
				      .n_sites = 1};
	f->build.target = &f->target;
}

static void put(struct fixture *f, size_t i, uint64_t addr)
{
	f->locations[i] = (struct profile_location){.addr = addr, .mapping = -1};
	for (int m = 0; m < 3; m++)
		if (addr > f->mappings[m].start && addr <= f->mappings[m].end)
			f->locations[i].mapping = m;
}

/* Is memory the heap's own if mmap in the program was called from `caller`? */
static bool is_own(struct fixture *f, uint64_t caller)
{
	put(f, 0, PROGRAM + 0x10);
	put(f, 1, caller);
	put(f, 2, PROGRAM + 0x90);
	allocators_own__mark_sites(&f->build, &f->profile);
	return f->site.allocators_own;
}

static void code_of_the_allocator(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	/* A return address is behind its call. So the address of malloc's first byte belongs to a
	 * call in the code before malloc, and the address behind malloc's last byte belongs to a
	 * call in malloc. */
	assert_false(is_own(&f, IN_LIBRARY(MALLOC_OFF, 0)));
	assert_true(is_own(&f, IN_LIBRARY(MALLOC_OFF, 1)));
	assert_true(is_own(&f, IN_LIBRARY(MALLOC_OFF, MALLOC_BYTES)));
	assert_false(is_own(&f, IN_LIBRARY(MALLOC_OFF, MALLOC_BYTES + 1)));
	/* the same in the allocator's code that takes memory from the kernel */
	assert_false(is_own(&f, IN_LIBRARY(TAKER - VADDR_OFF, 0)));
	assert_true(is_own(&f, IN_LIBRARY(TAKER - VADDR_OFF, 1)));
	assert_true(is_own(&f, IN_LIBRARY(TAKER - VADDR_OFF, TAKER_BYTES)));
	assert_false(is_own(&f, IN_LIBRARY(TAKER - VADDR_OFF, TAKER_BYTES + 1)));
	/* other code of the library, other files, and no file */
	assert_false(is_own(&f, IN_LIBRARY(0x6000, 1)));
	assert_false(is_own(&f, PROGRAM + MALLOC_OFF + 1));
	assert_false(is_own(&f, INTERPRETER + MALLOC_OFF + 1));
	assert_false(is_own(&f, 0x10));
	/* a library that is nothing but the allocator */
	f.allocator.object.text_start = 0x6000 + VADDR_OFF;
	f.allocator.object.text_end = 0x7000 + VADDR_OFF;
	assert_true(is_own(&f, IN_LIBRARY(0x6000, 1)));
	assert_false(is_own(&f, IN_LIBRARY(0x7000, 1)));
	/* nothing is traced */
	f.target.allocators = NULL;
	assert_false(is_own(&f, IN_LIBRARY(MALLOC_OFF, 1)));
}

static void arenas_of_a_language(void **state)
{
	const uint64_t caller = INTERPRETER + 0x500;
	struct fixture f;

	(void)state;
	begin(&f);
	assert_false(is_own(&f, caller)); /* no pool is known there */
	/* a pool without probes: CPython up to 3.9 maps 256 KiB at a time, later ones 1 MiB */
	f.allocators.unseen.family = "pymalloc";
	f.allocators.unseen.file = files[FILE_INTERPRETER];
	assert_true(is_own(&f, caller));
	assert_true(f.site.unseen_pools);
	f.site.alloc_bytes = 3 * (256 << 10);
	assert_true(is_own(&f, caller));
	f.site.alloc_bytes = 3 * (512 << 10); /* a mapping of the program's own */
	assert_false(is_own(&f, caller));
	f.site.alloc_bytes = 3 << 20;
	assert_false(is_own(&f, PROGRAM + 0x500));
	assert_false(is_own(&f, 0x10));
	f.allocators.unseen.family = "glibc"; /* no language */
	assert_false(is_own(&f, caller));
	/* a pool with probes */
	f.allocators.unseen.family = NULL;
	f.allocator.family = "pymalloc";
	f.allocator.file = files[FILE_INTERPRETER];
	assert_true(is_own(&f, caller));
	assert_false(f.site.unseen_pools);
	f.site.n_locations = 1; /* mmap's caller is not known */
	assert_false(is_own(&f, caller));
}

static void pieces_and_headers(void **state)
{
	static struct abi_stack stacks[] = {
		{.n = 2, .ip = {PROGRAM + 0x10, IN_LIBRARY(MALLOC_OFF, 0x20)}},
		{.n = 2, .ip = {PROGRAM + 0x10, PROGRAM + 0x90}},
		{.n = 1, .ip = {IN_LIBRARY(MALLOC_OFF, 1)}},
		{.n = 1, .ip = {0x10}},
	};
	struct abi_stack_key keys[] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}};
	const struct capture_drain drain = {.stacks = {keys, stacks, 4}};
	struct region_site sites[] = {{.stack = {1, 1}}, {.stack = {2, 2}}, {.stack = {9, 9}}};
	struct resident_piece at[] = {
		{.kind = RESIDENT_MAPPED, .site = 0}, {.kind = RESIDENT_MAPPED, .site = 0},
		{.kind = RESIDENT_FILE, .site = 0},   {.kind = RESIDENT_MAPPED, .site = 1},
		{.kind = RESIDENT_MAPPED, .site = 2},
	};
	struct resident_pieces pieces = {.at = at, .n = 5};
	struct fixture f;

	(void)state;
	begin(&f);
	f.build.drain = &drain;
	f.build.pieces = &pieces;
	f.target.book.sites = sites;
	allocators_own__mark_pieces(&f.build, &f.profile);
	assert_true(at[0].of_heap && at[1].of_heap);
	assert_false(at[2].of_heap || at[3].of_heap || at[4].of_heap);

	/* glibc and functions that the user named have a header of 8 bytes, jemalloc has none;
	 * the leaf tells which allocator it is */
	assert_true(allocators_own__header(&f.build, &f.profile, &keys[2]) == 0);
	assert_true(allocators_own__header(&f.build, &f.profile, &keys[1]) == 8);
	assert_true(allocators_own__header(&f.build, &f.profile, &keys[3]) == 8);
	assert_true(allocators_own__header(&f.build, &f.profile, &(struct abi_stack_key){9, 9}) ==
		    8);
	f.allocator.family = "named";
	assert_true(allocators_own__header(&f.build, &f.profile, &keys[2]) == 8);
	f.allocator.family = "glibc";
	f.allocator.object.header = 1;
	assert_true(allocators_own__header(&f.build, &f.profile, &keys[2]) == 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_of_the_allocator),
		cmocka_unit_test(arenas_of_a_language),
		cmocka_unit_test(pieces_and_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
