// SPDX-License-Identifier: BSD-2-Clause
/* Compares the growth of stacks with the growth of the process, which is known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "session/trend.h"

#define S	 1000000000ULL
#define PROCESS	 7
#define RUN_S	 64
#define WINDOW	 (S / 20)
#define ADDED	 4096 /* bytes that each realloc adds; REALLOCS: reallocs in each window */
#define REALLOCS 100
#define RATE	 (ADDED * REALLOCS * 20.0) /* bytes per second that the reallocs add */

static struct abi_site_key key = {.stack = {.lo = 1, .hi = 2}, .process = PROCESS};
static struct abi_site site;

/* Returns the growth of one stack. Its vectors only become larger, there is one window a second,
 * and the process grows by process_rate bytes per second. */
static struct growth growth_in(uint64_t process_rate)
{
	const struct snapshot_sites table = {&key, &site, 1};
	struct target target = {.process = PROCESS};
	struct survivors *survivors = &target.budget.survivors;
	struct net_clock *clock = &target.budget.clock;
	size_t site_of = 0;
	const struct process_sites sites = {
		.keys = &key, .sites = &site, .n = 1, .site_of = &site_of};
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
	survivors__init(survivors, (const uint64_t[2]){1, 2});
	net_clock__add(clock, S, 0, 0, NAN, NET_CLOCK_ENDS);
	net_clock__add(clock, (1 + RUN_S) * S, RUN_S * 1e9, 0, NAN, NET_CLOCK_ENDS);
	assert_non_null(profile);
	assert_int_equal(profile__add_site(profile, (const uint64_t[]){0x1000}, 1, false, &site_of),
			 0);
	for (uint64_t i = 0; i < RUN_S; i++) {
		uint64_t start = (1 + i) * S;

		site.alloc_samples += REALLOCS;
		site.alloc_objects_q16 += REALLOCS << 16;
		site.alloc_bytes += REALLOCS * (i + 1) * ADDED;
		site.grown_samples += REALLOCS;
		site.grown_bytes += REALLOCS * ADDED;
		site.moved_samples += 10;
		assert_int_equal(
			survivors__meet(survivors,
					&(struct survivors_window){.start_ns = start,
								   .end_ns = start + WINDOW,
								   .allocs = REALLOCS},
					start + WINDOW, NULL, NULL, 0, NULL, NULL),
			0);
		assert_int_equal(survivors__harvest(survivors, clock), 0);
		assert_int_equal(
			reallocs__harvest(&target.budget.reallocs, start, start + WINDOW, &table),
			0);
		sizes__add(&target.anon, start, (10 << 20) + i * process_rate);
	}
	sizes__add(&target.anon, (1 + RUN_S) * S, (10 << 20) + RUN_S * process_rate);
	assert_int_equal(trend__add_windowed(&build, profile, &sites), 0);
	assert_true(profile->growth.stacks_known);
	growth = profile->sites[0].growth;
	profile__free(profile);
	survivors__free(survivors);
	net_clock__free(clock);
	reallocs__free(&target.budget.reallocs);
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

/* The process grows by less than the vectors seem to. So vectors were freed, and the sizes may have
 * risen by chance. */
static void vectors_that_the_process_does_not_hold(void **state)
{
	(void)state;
	assert_true(growth_in(0).low <= 0);
	assert_true(growth_in((uint64_t)(RATE / 10)).low <= 1.01 * RATE / 10);
}

#define OLD_RATE 1000000 /* bytes per second that the program before the exec leaked */
#define NEW_RATE 30000	 /* the same for the program after it */
#define EXEC_S	 44	 /* seconds from the start of the run to the exec */

/* What the two programs' sites have allocated i seconds after the start of the run. */
static void allocate(struct abi_site of[2], uint64_t i)
{
	uint64_t bytes[] = {OLD_RATE * (i < EXEC_S ? i : EXEC_S),
			    i > EXEC_S ? NEW_RATE * (i - EXEC_S) : 0};

	for (int j = 0; j < 2; j++)
		of[j] = (struct abi_site){.alloc_samples = bytes[j] / 1000,
					  .alloc_objects_q16 = bytes[j] / 1000 << 16,
					  .alloc_bytes = bytes[j]};
}

/* Adds to the profile how the two sites grew in a run that is traced continuously, at interval 1.
 * In the table of live blocks, one block stands for all bytes of a second. series_s: seconds
 * between two snapshots of the series; 0: there is no series. life_s: how long the new program's
 * blocks live, in seconds. */
static void grow_across_exec(struct profile *profile, uint64_t series_s, uint64_t life_s)
{
	struct abi_site_key keys[] = {{.stack = {.lo = 1, .hi = 2}, .process = PROCESS},
				      {.stack = {.lo = 3, .hi = 4}, .process = PROCESS}};
	struct target target = {.process = PROCESS, .exec_ns = (1 + EXEC_S) * S};
	static struct abi_live live[1000];
	static struct abi_live_key live_keys[1000];
	struct capture_drain drain = {.live = {live_keys, live, 0}};
	size_t site_of[2];
	struct abi_site sites[2];
	const struct capture_table table = {keys, sites, 2};
	const struct process_sites all = {.keys = keys, .sites = sites, .n = 2, .site_of = site_of};
	struct series series = {};
	const struct build build = {.target = &target,
				    .drain = &drain,
				    .series = series_s ? &series : NULL,
				    .present_interval = 1,
				    .begin_ns = S,
				    .end_ns = (1 + RUN_S) * S};

	for (size_t i = 0; i < 2; i++)
		assert_int_equal(profile__add_site(profile, (const uint64_t[]){0x1000 * (i + 1)}, 1,
						   false, &site_of[i]),
				 0);
	for (uint64_t i = 1; i <= RUN_S; i++) {
		allocate(sites, i);
		if (series_s && i % series_s == 0)
			assert_int_equal(series__add(&series, (1 + i) * S, &table), 0);
		if (i > EXEC_S && i + life_s <= RUN_S)
			continue;
		live_keys[drain.live.n] = (struct abi_live_key){.process = PROCESS, .addr = i};
		live[drain.live.n++] = (struct abi_live){.stack = keys[i > EXEC_S].stack,
							 .size = (i > EXEC_S ? NEW_RATE : OLD_RATE),
							 .interval = 1,
							 .birth_ns = i * S + S / 2};
	}
	assert_int_equal(trend__add_growth(&build, profile, &all), 0);
	series__free(&series);
}

/* A program that leaks is replaced by a program that leaks less. What is known from before the
 * exec, by a series or by live blocks, says nothing about the new program. */
static void growth_begins_at_the_exec(void **state)
{
	(void)state;
	for (uint64_t series_s = 0; series_s <= 16; series_s = 2 * series_s ?: 2) {
		struct profile *profile = profile__new();
		const struct growth *growth;

		assert_non_null(profile);
		grow_across_exec(profile, series_s, RUN_S); /* 16: one snapshot since the exec */
		assert_true(profile->growth.stacks_known);
		growth = &profile->sites[0].growth;
		assert_true(growth->bytes_per_s == 0);
		growth = &profile->sites[1].growth;
		assert_true(fabs(growth->bytes_per_s - NEW_RATE) < 0.01 * NEW_RATE);
		assert_true(growth->low > 0);
		growth = &profile->growth.attributed;
		assert_true(fabs(growth->bytes_per_s - NEW_RATE) < 0.01 * NEW_RATE);
		/* the program has leaked all that it allocated; no older block counts */
		for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
			assert_true(profile->sites[1].survival[i] > 0.9);
		profile__free(profile);
	}
}

/* The new program frees each block after three seconds. All that it allocated counts as allocated
 * since the exec, not as spread over the whole run. */
static void survival_begins_at_the_exec(void **state)
{
	enum { LIFE_S = 3, SINCE_S = RUN_S - EXEC_S };
	struct profile *profile = profile__new();

	(void)state;
	assert_non_null(profile);
	grow_across_exec(profile, 0, LIFE_S);
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++) {
		double age = profile->survival_age_s[i];
		/* whole seconds have one block each, in the middle */
		double held = age < LIFE_S ? floor(LIFE_S - age + 0.5) : 0;

		assert_true(fabs(profile->sites[1].survival[i] - held / (SINCE_S - age)) < 0.02);
	}
	profile__free(profile);
}

/* The distance from a stack's growth to the upper end of its 95 % interval. The stack was sampled
 * at 64 KiB for most of a run. present: its sampling interval now. */
static double doubt_at(uint64_t present)
{
	struct target target = {.process = PROCESS};
	struct capture_drain drain = {};
	size_t site_of = 0;
	const struct process_sites sites = {
		.keys = &key, .sites = &site, .n = 1, .site_of = &site_of};
	const struct build build = {.target = &target,
				    .drain = &drain,
				    .present_interval = present,
				    .begin_ns = S,
				    .end_ns = (1 + RUN_S) * S};
	struct profile *profile = profile__new();
	double doubt;

	assert_non_null(profile);
	assert_int_equal(profile__add_site(profile, (const uint64_t[]){0x1000}, 1, false, &site_of),
			 0);
	/* blocks of 1000 bytes each */
	site = (struct abi_site){.alloc_samples = 1000,
				 .alloc_objects_q16 = 66000ULL << 16,
				 .alloc_bytes = 66000000};
	assert_int_equal(trend__add_growth(&build, profile, &sites), 0);
	assert_true(profile->growth.stacks_known);
	doubt = profile->sites[0].growth.high - profile->sites[0].growth.bytes_per_s;
	profile__free(profile);
	return doubt;
}

/* Even if most of the run was sampled finely, the last part may have been sampled at the coarsest
 * interval. */
static void growth_is_as_sure_as_the_coarsest_interval(void **state)
{
	double fine = doubt_at(65536);

	(void)state;
	assert_true(fine > 0);
	assert_true(doubt_at(1 << 20) > 10 * fine);
}

/* A child lived for a second and was traced for the first tenth. Its CPU time was not read again
 * before it ended. Its allocations in the rest of its life are unknown, and must not count as 0. */
static void what_an_ended_process_did_last_is_not_known(void **state)
{
	const struct snapshot_sites table = {&key, &site, 1};
	struct target target = {.process = PROCESS, .ended = true};
	struct survivors *survivors = &target.budget.survivors;
	struct net_clock *clock = &target.budget.clock;
	size_t site_of = 0;
	const struct process_sites sites = {
		.keys = &key, .sites = &site, .n = 1, .site_of = &site_of};
	const struct build build = {
		.target = &target, .begin_ns = S, .end_ns = 2 * S, .duration_s = 1};
	struct profile *profile = profile__new();
	struct estimate allocated;

	(void)state;
	survivors__init(survivors, (const uint64_t[2]){1, 2});
	net_clock__add(clock, S, 0, 0, NAN, NET_CLOCK_ENDS);
	net_clock__add(clock, S + S / 10, 5e7, 0, NAN, NET_CLOCK_ENDS);
	assert_non_null(profile);
	assert_int_equal(profile__add_site(profile, (const uint64_t[]){0x1000}, 1, false, &site_of),
			 0);
	assert_int_equal(survivors__meet(survivors,
					 &(struct survivors_window){.start_ns = S,
								    .end_ns = S + S / 10,
								    .allocs = 1000,
								    .interval = 1024,
								    .continuous = true},
					 S + S / 10, NULL, NULL, 0, NULL, NULL),
			 0);
	site = (struct abi_site){.alloc_samples = 1000,
				 .alloc_objects_q16 = 1000ULL << 16,
				 .alloc_bytes = 1000 * 1024};
	assert_int_equal(survivors__take_sites(survivors, &table), 0);
	assert_int_equal(survivors__harvest(survivors, clock), 0);
	assert_int_equal(trend__add_windowed(&build, profile, &sites), 0);
	allocated = (struct estimate){.bytes = profile->sites[0].alloc_bytes,
				      .variance = profile->sites[0].alloc_variance,
				      .common = profile->sites[0].alloc_common};
	/* The estimate is ten times the bytes that were seen, as if the child had gone on at this
	 * rate. The interval also contains the case that it allocated nothing more. */
	assert_true(fabs(allocated.bytes - 10240000) < 1000);
	assert_true(estimate__interval(&allocated).low <= 1024000 &&
		    estimate__interval(&allocated).high > 12e6);
	profile__free(profile);
	survivors__free(survivors);
	net_clock__free(clock);
}

/* A cache of KEYS blocks of 1000 bytes. Twenty times a second, a key's block is replaced: the new
 * one takes the address of the block that was freed last. */
#define KEYS	 500
#define STRETCH	 (20 * S) /* time of continuous tracing */
#define REPLACED (S / 20) /* time from one replacement to the next */

struct cache {
	uint64_t addr[KEYS], spare, now_ns;
	size_t next;
	/* the kernel's table: by address, the time when the block was born; 0: no block */
	uint64_t known[KEYS + 1];
};

static uint64_t *entry(struct cache *c, uint64_t addr)
{
	return &c->known[(addr - 0x10000) / 0x1000];
}

/* Replaces blocks until end_ns. traced: the kernel side sees the replacements. Returns their
 * number. */
static uint64_t replace(struct cache *c, uint64_t end_ns, bool traced)
{
	uint64_t n = 0;

	for (; c->now_ns < end_ns; c->now_ns += REPLACED, n++) {
		uint64_t old = c->addr[c->next];

		c->addr[c->next] = c->spare;
		c->spare = old;
		if (traced) {
			*entry(c, c->addr[c->next]) = c->now_ns;
			*entry(c, old) = 0;
		}
		c->next = (c->next + 1) % KEYS;
	}
	return n;
}

static int read_nothing(void *ctx, struct memory_read *reads, size_t n)
{
	(void)ctx;
	(void)reads;
	(void)n;
	return -1;
}

/* Ends a stretch that began at start_ns. */
static void end_stretch(struct survivors *survivors, struct net_clock *clock,
			const struct cache *cache, uint64_t start_ns, uint64_t allocs)
{
	const struct snapshot_sites table = {&key, &site, 1};
	const struct survivors_window window = {.start_ns = start_ns,
						.end_ns = cache->now_ns,
						.allocs = allocs,
						.interval = 1,
						.continuous = true};
	struct abi_live live[KEYS + 1];
	uint64_t addrs[KEYS + 1];
	size_t n = 0;

	for (size_t i = 0; i <= KEYS; i++) {
		if (!cache->known[i])
			continue;
		addrs[n] = 0x10000 + 0x1000 * i;
		live[n++] = (struct abi_live){.stack = key.stack,
					      .size = 1000,
					      .interval = 1,
					      .birth_ns = cache->known[i]};
	}
	site.alloc_samples += allocs;
	site.alloc_objects_q16 += allocs << 16;
	site.alloc_bytes += allocs * 1000;
	assert_int_equal(survivors__meet(survivors, &window, cache->now_ns, addrs, live, n,
					 read_nothing, NULL),
			 0);
	assert_int_equal(survivors__take_sites(survivors, &table), 0);
	assert_int_equal(survivors__harvest(survivors, clock), 0);
}

/* Continuous tracing is interrupted a hundred times, for gap_ns each. Each stretch ends with the
 * whole cache alive: the process has one cache, not a hundred. off: how far live memory may be from
 * the truth. most: how high its interval may reach. Both are shares of the truth. */
static void interrupt(uint64_t gap_ns, double off, double most)
{
	struct target target = {.process = PROCESS};
	struct survivors *survivors = &target.budget.survivors;
	struct net_clock *clock = &target.budget.clock;
	struct capture_drain drain = {};
	struct cache cache = {.spare = 0x10000 + 0x1000 * KEYS, .now_ns = S};
	size_t site_of = 0;
	const struct process_sites sites = {
		.keys = &key, .sites = &site, .n = 1, .site_of = &site_of};
	struct build build = {
		.target = &target, .drain = &drain, .present_interval = 1, .begin_ns = S};
	struct profile *profile = profile__new();
	struct estimate live;

	site = (struct abi_site){};
	for (size_t i = 0; i < KEYS; i++)
		cache.addr[i] = 0x10000 + 0x1000 * i;
	survivors__init(survivors, (const uint64_t[2]){1, 2});
	net_clock__add(clock, S, 0, 0, NAN, NET_CLOCK_ENDS);
	for (int i = 0; i < 100; i++) {
		uint64_t start_ns = cache.now_ns, n = replace(&cache, start_ns + STRETCH, true);

		net_clock__add(clock, cache.now_ns, (double)(cache.now_ns - S) / 10, 0, NAN,
			       NET_CLOCK_NONE);
		end_stretch(survivors, clock, &cache, start_ns, n);
		replace(&cache, cache.now_ns + gap_ns, false);
	}
	build.end_ns = cache.now_ns;
	net_clock__add(clock, build.end_ns, (double)(build.end_ns - S) / 10, 0, NAN,
		       NET_CLOCK_NONE);
	assert_non_null(profile);
	assert_int_equal(profile__add_site(profile, (const uint64_t[]){0x1000}, 1, false, &site_of),
			 0);
	assert_int_equal(trend__add_windowed(&build, profile, &sites), 0);
	live = profile__live(profile);
	assert_true(fabs(live.bytes - KEYS * 1000) < off * KEYS * 1000);
	assert_true(estimate__interval(&live).low <= KEYS * 1000 &&
		    estimate__interval(&live).high >= KEYS * 1000 &&
		    estimate__interval(&live).high < most * KEYS * 1000);
	profile__free(profile);
	survivors__free(survivors);
	net_clock__free(clock);
}

static void interruptions_do_not_add_up(void **state)
{
	(void)state;
	interrupt(S / 4, 0.03, 1.15);
	interrupt(10 * S, 0.25, 1.6);
	interrupt(40 * S, 0.25, 2); /* two thirds of the run are not traced, not even in windows */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_that_grow_with_the_process),
		cmocka_unit_test(vectors_that_the_process_does_not_hold),
		cmocka_unit_test(growth_begins_at_the_exec),
		cmocka_unit_test(survival_begins_at_the_exec),
		cmocka_unit_test(growth_is_as_sure_as_the_coarsest_interval),
		cmocka_unit_test(what_an_ended_process_did_last_is_not_known),
		cmocka_unit_test(interruptions_do_not_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
