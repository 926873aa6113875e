/* SPDX-License-Identifier: BSD-2-Clause */
/* The book of regions. The tests check the effect of each call. Calls must count in the order in
 * which they took effect, even if they are reported in another order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "ledger/regions.h"

#define PAGE 4096ULL
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static struct abi_region_call call_of(enum abi_region_kind kind, uint64_t entry, uint64_t exit,
				      uint64_t addr, uint64_t len, uint64_t stack)
{
	return (struct abi_region_call){
		.kind = kind,
		.tid = 7,
		.addr = addr * PAGE,
		.len = len * PAGE,
		.flags = kind == REGION_MMAP ? ANON : 0,
		.entry_ns = entry,
		.exit_ns = exit,
		.stack = {stack, stack},
	};
}

static void map(struct region_book *b, uint64_t entry, uint64_t exit, uint64_t addr, uint64_t len,
		uint64_t stack)
{
	struct abi_region_call call = call_of(REGION_MMAP, entry, exit, addr, len, stack);

	region_book__call(b, &call);
}

static void unmap(struct region_book *b, uint64_t entry, uint64_t exit, uint64_t addr, uint64_t len)
{
	struct abi_region_call call = call_of(REGION_MUNMAP, entry, exit, addr, len, 0);

	region_book__call(b, &call);
}

static void remap(struct region_book *b, uint64_t entry, uint64_t exit, uint64_t old,
		  uint64_t old_len, uint64_t addr, uint64_t len, uint64_t stack)
{
	struct abi_region_call call = call_of(REGION_MREMAP, entry, exit, addr, len, stack);

	call.old_addr = old * PAGE;
	call.old_len = old_len * PAGE;
	call.flags = addr == old ? 0 : MREMAP_MAYMOVE;
	region_book__call(b, &call);
}

/* Returns the number of pages that a stack holds. */
static uint64_t held(const struct region_book *b, uint64_t stack)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < b->map.n; i++) {
		const struct region *r = &b->map.at[i];

		if (r->site != EARLIER_SITE && b->sites[r->site].stack.lo == stack)
			bytes += r->end - r->start;
	}
	return bytes / PAGE;
}

/* One thread's munmap returns after another thread's mmap of the same address has returned. */
static void told_out_of_order(void **state)
{
	struct region_book b = {};

	(void)state;
	map(&b, 1, 2, 100, 10, 1);
	map(&b, 11, 12, 100, 10, 2); /* reported first */
	unmap(&b, 10, 13, 100, 10);  /* reported second, but took effect first */
	region_book__settle(&b, UINT64_MAX);
	assert_int_equal(held(&b, 1), 0);
	assert_int_equal(held(&b, 2), 10);
	region_book__free(&b);

	/* The same with mremap instead of munmap: it moves the mapping away. */
	map(&b, 1, 2, 100, 10, 1);
	map(&b, 11, 12, 100, 10, 2);
	remap(&b, 10, 13, 100, 10, 500, 12, 3);
	region_book__settle(&b, UINT64_MAX);
	assert_int_equal(held(&b, 1), 10);
	assert_int_equal(held(&b, 2), 10);
	assert_int_equal(held(&b, 3), 2);
	assert_non_null(regions__find(&b.map, 500 * PAGE));
	assert_int_equal(b.sites[regions__find(&b.map, 100 * PAGE)->site].stack.lo, 2);
	region_book__free(&b);
}

static void settles_up_to_a_time(void **state)
{
	struct region_book b = {};

	(void)state;
	map(&b, 1, 20, 100, 10, 1);
	map(&b, 1, 40, 200, 10, 1);
	region_book__settle(&b, 30);
	assert_int_equal(region_book__live(&b, NULL), 10 * PAGE);
	region_book__settle(&b, UINT64_MAX);
	assert_int_equal(region_book__live(&b, NULL), 20 * PAGE);
	assert_int_equal(b.n_ops, 0);
	region_book__free(&b);
}

static void remaps(void **state)
{
	struct abi_region_call twice = call_of(REGION_MREMAP, 30, 31, 900, 3, 5);
	struct region_book b = {};

	(void)state;
	map(&b, 1, 2, 100, 10, 1);
	remap(&b, 3, 4, 100, 10, 100, 14, 2); /* grows in place */
	assert_int_equal(b.map.n, 0);
	remap(&b, 5, 6, 100, 14, 100, 12, 3); /* shrinks */
	remap(&b, 7, 8, 102, 4, 300, 2, 3);   /* a part moves and shrinks */
	region_book__settle(&b, UINT64_MAX);
	assert_int_equal(held(&b, 1), 8);
	assert_int_equal(held(&b, 2), 2);
	assert_int_equal(held(&b, 3), 0);
	assert_null(regions__find(&b.map, 103 * PAGE));
	twice.old_addr = 300 * PAGE; /* mremap of a shared mapping can map it twice */
	region_book__call(&b, &twice);
	region_book__settle(&b, UINT64_MAX);
	assert_int_equal(held(&b, 5), 3);
	assert_non_null(regions__find(&b.map, 300 * PAGE));
	region_book__free(&b);
}

static void break_moves(void **state)
{
	struct abi_region_call up = {.kind = REGION_BRK,
				     .addr = 100 * PAGE + 5,
				     .old_addr = 90 * PAGE + 1,
				     .entry_ns = 1,
				     .exit_ns = 2,
				     .stack = {1, 1}};
	struct abi_region_call down = {.kind = REGION_BRK,
				       .addr = 95 * PAGE,
				       .old_addr = 100 * PAGE + 5,
				       .entry_ns = 3,
				       .exit_ns = 4};
	struct region_book b = {};

	(void)state;
	region_book__call(&b, &up);
	region_book__call(&b, &down);
	region_book__settle(&b, UINT64_MAX);
	assert_int_equal(held(&b, 1), 4); /* pages 91 to 94 */
	assert_int_equal(b.map.at[0].kind, REGION_OF_BRK);
	assert_int_equal(b.calls, 2);
	assert_int_equal(b.taken, 1);
	region_book__free(&b);
}

static void kinds(void **state)
{
	static const struct {
		uint64_t flags, bytes, mapped;
		enum region_memory kind;
	} cases[] = {
		{ANON, 1, PAGE, REGION_OF_ANONYMOUS},
		{MAP_PRIVATE, PAGE + 1, 2 * PAGE, REGION_OF_FILE},
		{ANON | MAP_STACK, PAGE, PAGE, REGION_OF_STACK},
		{ANON | MAP_HUGETLB, 1, 2 << 20, REGION_OF_HUGETLB},
		{ANON | MAP_HUGETLB | 30ULL << 26, 1, 1 << 30, REGION_OF_HUGETLB},
		{ANON | MAP_HUGETLB | 63ULL << 26, 1, 1ULL << 63, REGION_OF_HUGETLB},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct abi_region_call call = call_of(REGION_MMAP, 1, 2, 0, 0, 1);
		struct region_book b = {};

		call.len = cases[i].bytes;
		call.flags = cases[i].flags;
		region_book__call(&b, &call);
		region_book__settle(&b, UINT64_MAX);
		assert_int_equal(b.map.n, 1);
		assert_int_equal(b.map.at[0].end, cases[i].mapped);
		assert_int_equal(b.map.at[0].kind, cases[i].kind);
		region_book__free(&b);
	}
}

static void earlier_and_exec(void **state)
{
	struct map_entry entries[] = {{.start = 50 * PAGE, .end = 60 * PAGE}};
	struct maps maps = {entries, 1};
	struct region_book b = {};
	uint64_t gone;

	(void)state;
	assert_int_equal(region_book__begin(&b, &maps), 0);
	map(&b, 1, 2, 55, 10, 1);	   /* over its upper half */
	remap(&b, 3, 4, 50, 5, 200, 6, 2); /* the other half moves and grows */
	region_book__settle(&b, UINT64_MAX);
	assert_int_equal(region_book__live(&b, &gone), 11 * PAGE);
	assert_int_equal(gone, 5 * PAGE);
	region_book__exec(&b, 10);
	map(&b, 11, 12, 70, 1, 9);
	region_book__settle(&b, UINT64_MAX);
	assert_int_equal(region_book__live(&b, &gone), PAGE);
	assert_int_equal(gone, 0);
	assert_int_equal(b.n_sites, 1);
	assert_int_equal(b.dropped_by_exec, 2);
	assert_false(b.earlier_known);
	region_book__free(&b);
}

/* A target may pass any arguments. */
static void nonsense(void **state)
{
	struct region_book b = {};
	uint64_t seed = 1;

	(void)state;
	region_book__exec(&b, 1);
	for (int i = 0; i < 200000; i++) {
		struct abi_region_call call = {};
		uint64_t *words = (uint64_t *)&call;

		for (size_t j = 0; j < sizeof(call) / 8; j++) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			words[j] = seed >> (seed >> 58);
		}
		call.kind = 1 + (uint32_t)(seed >> 40) % 4;
		call.stack.lo %= 100;
		call.stack.hi = 1;
		region_book__call(&b, &call);
		if (i % 1000 == 0)
			region_book__settle(&b, call.exit_ns);
	}
	region_book__settle(&b, UINT64_MAX);
	for (size_t i = 0; i < b.map.n; i++)
		assert_true(b.map.at[i].start < b.map.at[i].end);
	region_book__free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(told_out_of_order),
		cmocka_unit_test(settles_up_to_a_time),
		cmocka_unit_test(remaps),
		cmocka_unit_test(break_moves),
		cmocka_unit_test(kinds),
		cmocka_unit_test(earlier_and_exec),
		cmocka_unit_test(nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
