// SPDX-License-Identifier: BSD-2-Clause
/* A process maps memory at known times. Checks the growth in its region book. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "session/region_trend.h"

#define S	1000000000ULL
#define PAGE	4096ULL
#define RUN_S	30
#define LEAK	1 /* numbers of stacks */
#define BALANCE 2

static void call(struct target *t, enum abi_region_kind kind, uint64_t at_ns, uint64_t page,
		 uint64_t pages, uint64_t stack)
{
	const struct abi_region_call c = {
		.kind = kind,
		.addr = page * PAGE,
		.len = pages * PAGE,
		.flags = kind == REGION_MMAP ? MAP_PRIVATE | MAP_ANONYMOUS : 0,
		.entry_ns = at_ns,
		.exit_ns = at_ns + 1,
		.stack = {stack, stack},
	};

	region_book__call(&t->book, &c);
}

/* Each second, 10 pages are leaked, and 100 pages are mapped that are unmapped a second later. */
static void live_for(struct target *t, uint64_t seconds)
{
	for (uint64_t s = 0; s < seconds; s++) {
		call(t, REGION_MMAP, s * S + 5, 1000 + 100 * s, 10, LEAK);
		if (s)
			call(t, REGION_MUNMAP, s * S + 6, 100000 + 1000 * (s - 1), 100, 0);
		call(t, REGION_MMAP, s * S + 7, 100000 + 1000 * s, 100, BALANCE);
		region_book__settle(&t->book, (s + 1) * S);
		assert_int_equal(region_trend__note(t, (s + 1) * S), 0);
	}
}

static struct growth growth_of(const struct target *t, const struct profile *p, uint64_t stack)
{
	for (size_t i = 0; i < t->book.n_sites; i++)
		if (t->book.sites[i].stack.lo == stack)
			return p->sites[i].growth;
	fail();
	return (struct growth){};
}

static void a_leak_of_maps_grows(void **state)
{
	struct target t = {.pidfd = -1, .perf_map.root_fd = -1, .process = 3};
	struct build build = {.target = &t, .end_ns = RUN_S * S};
	struct profile_site sites[2] = {};
	struct profile p = {.sites = sites, .n_sites = 2};
	const size_t site_of[2] = {0, 1};
	struct growth leak, balance;

	(void)state;
	live_for(&t, RUN_S);
	assert_int_equal(region_trend__add_growth(&build, &p, site_of), 0);
	assert_true(p.growth.stacks_known);
	leak = growth_of(&t, &p, LEAK);
	balance = growth_of(&t, &p, BALANCE);
	assert_true(leak.low > 0 && fabs(leak.bytes_per_s - 10 * PAGE) < PAGE);
	assert_true(leak.low <= 10 * PAGE && leak.high >= 10 * PAGE);
	assert_true(balance.bytes_per_s == 0 && balance.low <= 0 && balance.high >= 0);
	target__clear(&t);
}

/* After 20 s, regions cost too much to be followed further. At the end, everything is unmapped. The
 * growth must be that of the first 20 s. */
static void what_was_not_followed_to_the_end(void **state)
{
	struct target t = {.pidfd = -1, .perf_map.root_fd = -1, .process = 3};
	struct build build = {.target = &t, .end_ns = 60 * S};
	struct profile_site sites[2] = {};
	struct profile p = {.sites = sites, .n_sites = 2};
	const size_t site_of[2] = {0, 1};
	struct growth leak;

	(void)state;
	live_for(&t, 20);
	t.regions_stopped_ns = 20 * S + S / 2;
	regions__remove(&t.book.map, 0, UINT64_MAX, NULL);
	assert_int_equal(region_trend__add_growth(&build, &p, site_of), 0);
	assert_true(p.growth.stacks_known);
	leak = growth_of(&t, &p, LEAK);
	assert_true(leak.low > 0 && fabs(leak.bytes_per_s - 10 * PAGE) < PAGE);
	assert_true(leak.low <= 10 * PAGE && leak.high >= 10 * PAGE);
	target__clear(&t);
}

/* There are 15.26 regions a second, and three seconds in a row may have 15 each. Although the
 * counts are equal, the error of the rate is at least one region. */
static void few_regions_say_no_exact_rate(void **state)
{
	const double rate = 10 * PAGE / 0.065536;

	(void)state;
	for (uint64_t begin_ns = 0; begin_ns < S; begin_ns += S / 50) {
		struct target t = {.pidfd = -1, .perf_map.root_fd = -1, .process = 3};
		struct build build = {.target = &t, .end_ns = 60 * S};
		struct profile_site sites[1] = {};
		struct profile p = {.sites = sites, .n_sites = 1};
		const size_t site_of[1] = {0};
		uint64_t at_ns = begin_ns, n = 0;
		struct growth leak;

		for (uint64_t s = 1; s <= 5; s++) {
			for (; at_ns < s * S; at_ns += 65536 * S / 1000000)
				call(&t, REGION_MMAP, at_ns, 1000 + 100 * n++, 10, LEAK);
			region_book__settle(&t.book, s * S);
			assert_int_equal(region_trend__note(&t, s * S), 0);
		}
		t.regions_stopped_ns = 5 * S + S / 2;
		assert_int_equal(region_trend__add_growth(&build, &p, site_of), 0);
		leak = growth_of(&t, &p, LEAK);
		assert_true(leak.low <= rate && leak.high >= rate);
		target__clear(&t);
	}
}

static void a_short_run_says_nothing(void **state)
{
	struct target t = {.pidfd = -1, .perf_map.root_fd = -1, .process = 3};
	struct build build = {.target = &t, .end_ns = 3 * S};
	struct profile_site sites[2] = {};
	struct profile p = {.sites = sites, .n_sites = 2};
	const size_t site_of[2] = {0, NO_SITE};

	(void)state;
	live_for(&t, 3);
	assert_int_equal(region_trend__add_growth(&build, &p, site_of), 0);
	assert_false(p.growth.stacks_known);
	target__clear(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leak_of_maps_grows),
		cmocka_unit_test(what_was_not_followed_to_the_end),
		cmocka_unit_test(few_regions_say_no_exact_rate),
		cmocka_unit_test(a_short_run_says_nothing),
	};

	return cmocka_run_group_tests_name("region_trend", tests, NULL, NULL);
}
