// SPDX-License-Identifier: BSD-2-Clause
/* The growth of stacks against that of the process, which is known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "session/trend.h"

#define S	1000000000ULL
#define PROCESS 7
#define RUN_S	64
#define WINDOW  (S / 20)
#define ADDED   4096 /* bytes by each realloc, and reallocs in each window */
#define REALLOCS 100
#define RATE (ADDED * REALLOCS * 20.0) /* bytes per second that they add */

static struct abi_site_key key = {.stack = {.lo = 1, .hi = 2}, .process = PROCESS};
static struct abi_site site;

/* A run of one window a second in which the vectors of one stack only become larger, in a process that grows by so
 * many bytes per second: what is said of the stack. */
static struct growth growth_in(uint64_t process_rate)
{
	const struct capture_table table = {.keys = &key, .values = &site, .n = 1};
	struct target target = {.process = PROCESS};
	struct evidence *evidence = &target.budget.evidence;
	size_t site_of = 0;
	const struct process_sites sites = {.keys = &key, .sites = &site, .n = 1, .site_of = &site_of};
	const struct build build = {
		.target = &target,
		.begin_ns = S,
		.end_ns = (1 + RUN_S) * S,
		.duration_s = RUN_S,
		.cpu_time_ns = RUN_S * S,
	};
	struct profile *profile = profile__new();
	struct growth growth;

	site = (struct abi_site){};
	evidence__init(evidence, EVIDENCE_ALL, (const uint64_t[2]){1, 2});
	assert_non_null(profile);
	assert_int_equal(profile__add_site(profile, (const uint64_t[]){0x1000}, 1, false, &site_of), 0);
	for (uint64_t i = 0; i < RUN_S; i++) {
		uint64_t start = (1 + i) * S;

		site.alloc_samples += REALLOCS;
		site.alloc_objects_q16 += REALLOCS << 16;
		site.alloc_bytes += REALLOCS * (i + 1) * ADDED;
		site.grown_samples += REALLOCS;
		site.grown_bytes += REALLOCS * ADDED;
		site.moved_samples += 10;
		assert_int_equal(evidence__harvest(evidence, start, start + WINDOW, NULL, NULL, 0, 0), 0);
		assert_int_equal(chains__harvest(&target.budget.chains, PROCESS, start, start + WINDOW, &table), 0);
		sizes__add(&target.anon, start, (10 << 20) + i * process_rate);
	}
	sizes__add(&target.anon, (1 + RUN_S) * S, (10 << 20) + RUN_S * process_rate);
	assert_int_equal(trend__add_growth(&build, profile, &sites), 0);
	assert_true(profile->has_growth);
	growth = profile->sites[0].growth;
	profile__free(profile);
	evidence__free(evidence);
	chains__free(&target.budget.chains);
	return growth;
}

static void vectors_that_grow_with_the_process(void **state)
{
	struct growth growth = growth_in((uint64_t)RATE);

	(void)state;
	assert_true(growth.low > 0);
	assert_true(growth.low <= RATE && RATE <= growth.high);
	assert_true(growth.bytes_per_s > 0.9 * RATE && growth.bytes_per_s < 1.1 * RATE);
}

/* Their sizes may have risen by chance: the process would be larger if none had been freed. */
static void vectors_that_the_process_does_not_hold(void **state)
{
	(void)state;
	assert_true(growth_in(0).low <= 0);
	assert_true(growth_in((uint64_t)(RATE / 10)).low <= 1.01 * RATE / 10);
}

#define BORN 20 /* in each window */

/* Of blocks that are born evenly between two moments of each window and are never seen to go, in a process that grows
 * by as much. */
static struct growth growth_of_births(uint64_t from, uint64_t to)
{
	static struct abi_live live[RUN_S * BORN];
	static uint64_t addrs[RUN_S * BORN];
	struct target target = {.process = PROCESS};
	struct evidence *evidence = &target.budget.evidence;
	size_t site_of = 0, n = 0;
	const struct process_sites sites = {.keys = &key, .sites = &site, .n = 1, .site_of = &site_of};
	const struct build build = {
		.target = &target,
		.begin_ns = S,
		.end_ns = (1 + RUN_S) * S,
		.duration_s = RUN_S,
		.cpu_time_ns = RUN_S * S,
	};
	struct profile *profile = profile__new();
	struct growth growth;

	site = (struct abi_site){};
	evidence__init(evidence, EVIDENCE_EVENTS, (const uint64_t[2]){1, 2});
	assert_non_null(profile);
	assert_int_equal(profile__add_site(profile, (const uint64_t[]){0x1000}, 1, false, &site_of), 0);
	for (uint64_t i = 0; i < RUN_S; i++) {
		uint64_t start = (1 + i) * S;

		for (uint64_t k = 0; k < BORN; k++, n++) {
			addrs[n] = 0x10000 * (1 + n);
			live[n] = (struct abi_live){.size = ADDED,
						    .interval = 1,
						    .birth_ns = start + from + k * (to - from) / BORN,
						    .stack = key.stack};
		}
		assert_int_equal(evidence__harvest(evidence, start, start + WINDOW, addrs, live, n, 0), 0);
		sizes__add(&target.anon, start, (10 << 20) + i * ADDED * BORN * 20);
	}
	sizes__add(&target.anon, (1 + RUN_S) * S, (10 << 20) + RUN_S * ADDED * BORN * 20);
	assert_int_equal(trend__add_growth(&build, profile, &sites), 0);
	assert_true(profile->has_growth);
	growth = profile->sites[0].growth;
	profile__free(profile);
	evidence__free(evidence);
	return growth;
}

static void births_all_through_the_windows(void **state)
{
	double rate = ADDED * BORN * 20.0;
	struct growth growth = growth_of_births(0, WINDOW);

	(void)state;
	assert_true(growth.bytes_per_s > 0.99 * rate && growth.bytes_per_s < 1.01 * rate);
	growth = growth_of_births(0, WINDOW / 2); /* by whatever cause: these were seen to stay */
	assert_true(growth.bytes_per_s > 0.99 * rate && growth.bytes_per_s < 1.01 * rate);
}

/* Of blocks that are left at the end of windows alone, but of no older ones, the frees were not waited for. */
static void births_at_the_end_of_windows(void **state)
{
	struct growth growth = growth_of_births(WINDOW - WINDOW / 10, WINDOW);

	(void)state;
	assert_true(growth.bytes_per_s == 0);
	assert_true(growth.low <= 0);
}

/* Windows of a tenth of a second, one a second from the 11th to the 50th second of 60, and one block born in each; before
 * them a stretch of ten seconds with ten blocks, and another at the end of the run, with one. What is told of it:
 * objects live and allocated. */
static struct profile_site whole_of(bool with_windows)
{
	static struct abi_live live[100];
	static uint64_t addrs[100];
	struct target target = {.process = PROCESS};
	struct evidence *evidence = &target.budget.evidence;
	size_t site_of = 0, n = 0;
	struct series series = {};
	const struct process_sites sites = {.keys = &key, .sites = &site, .n = 1, .site_of = &site_of};
	const struct build build = {.target = &target, .begin_ns = S, .end_ns = 61 * S, .series = &series, .duration_s = 60};
	const struct capture_table table = {.keys = &key, .values = &site, .n = 1};
	struct profile *profile = profile__new();
	struct profile_site ret;

	site = (struct abi_site){};
	evidence__init(evidence, EVIDENCE_EVENTS, (const uint64_t[2]){1, 2});
	assert_non_null(profile);
	assert_int_equal(profile__add_site(profile, (const uint64_t[]){0x1000}, 1, false, &site_of), 0);
	for (int i = 0; i < 52; i++) {
		bool first = !i, last = i == 51;
		uint64_t start = first ? S : (uint64_t)(10 + i) * S - S / 2, end = first ? 11 * S : start + S / 10;

		if (!with_windows && !first && !last)
			continue;
		if (last)
			end = 61 * S, start = end - S / 10;
		for (int k = first ? 10 : 1; k; k--, n++) {
			addrs[n] = 0x10000 * (1 + n);
			live[n] = (struct abi_live){.size = ADDED, .interval = 1, .birth_ns = start + k, .stack = key.stack};
			site.alloc_bytes += ADDED;
		}
		assert_int_equal(evidence__harvest(evidence, start, end, addrs, live, n, 0), 0);
		evidence->windows[evidence->n_windows - 1].apart = first || !with_windows; /* the last one is recent as well */
		assert_int_equal(series__add(&series, end, &table), 0);
	}
	profile->sites[0].alloc_objects = (double)n;
	profile->sites[0].alloc_bytes = (double)n * ADDED;
	assert_int_equal(trend__add_windowed(&build, profile, &sites), 0);
	ret = profile->sites[0];
	profile__free(profile);
	evidence__free(evidence);
	series__free(&series);
	return ret;
}

/* What lies outside is like the windows: 50 blocks in 5 s, for 49.9 s; the stretches' 11 are no more than they are. Without windows
 * there is nothing else that it could be like: 11 blocks in 10.1 of 60 s. */
static void stretches_stand_for_themselves(void **state)
{
	struct profile_site site_with = whole_of(true), site_without = whole_of(false);

	(void)state;
	assert_true(fabs(site_with.live.objects - (11 + 10 * 49.9)) < 0.01);
	assert_true(fabs(site_with.alloc_objects - (11 + 10 * 49.9)) < 20); /* as far as the series tells */
	assert_true(fabs(site_without.live.objects - 11 * 60 / 10.1) < 0.01);
	assert_true(fabs(site_without.alloc_objects - 11 * 60 / 10.1) < 0.01);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_that_grow_with_the_process),
		cmocka_unit_test(vectors_that_the_process_does_not_hold),
		cmocka_unit_test(births_all_through_the_windows),
		cmocka_unit_test(births_at_the_end_of_windows),
		cmocka_unit_test(stretches_stand_for_themselves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
