// SPDX-License-Identifier: BSD-2-Clause
/* Growth and survival are added to a profile while each allocation fails in turn. Each failure must
 * be reported: an interval from incomplete data would look like any other. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "session/trend.h"
#include "tests/unit/failing.h"

#define S	1000000000ULL
#define PROCESS 7
#define RUN_S	64
#define BLOCKS	640

static const struct abi_site_key key = {.stack = {.lo = 1, .hi = 2}, .process = PROCESS};

struct run {
	struct target target;
	struct abi_site site;
	struct abi_live_key keys[BLOCKS];
	struct abi_live blocks[BLOCKS];
	int (*add)(const struct build *build, struct profile *profile,
		   const struct process_sites *sites);
};

static int add_over_time(void *ctx, FILE *told)
{
	struct run *run = ctx;
	size_t site_of = 0;
	const struct capture_drain drain = {.live = {run->keys, run->blocks, BLOCKS}};
	const struct process_sites sites = {
		.keys = &key, .sites = &run->site, .n = 1, .site_of = &site_of};
	const struct build build = {
		.target = &run->target,
		.drain = &drain,
		.begin_ns = S,
		.end_ns = (1 + RUN_S) * S,
		.duration_s = RUN_S,
		.cpu_time_ns = RUN_S * S,
	};
	long left = failing_in;
	struct profile *profile;
	size_t thread;
	int rc;

	failing_in = 0;
	profile = profile__new();
	assert_int_equal(profile__add_site(profile, (const uint64_t[]){0x1000}, 1, false, &site_of),
			 0);
	assert_int_equal(profile__add_thread(profile, 1, "main", &thread), 0);
	assert_int_equal(profile__add_live(profile, site_of, thread, 100 * BLOCKS), 0);
	failing_in = left;
	rc = run->add(&build, profile, &sites);
	failing_in = 0;
	if (!rc) {
		const struct profile_site *site = &profile->sites[0];

		fprintf(told, "%d %g %g %g %g", profile->growth.stacks_known,
			site->growth.bytes_per_s, site->growth.low, site->growth.high,
			site->live.bytes);
		for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
			fprintf(told, " %g %g", site->survival[i], site->older[i]);
	}
	profile__free(profile);
	return rc;
}

/* A stack allocates evenly, and half of its bytes stay live. The process's memory grows by less
 * than these bytes. */
static struct run *new_run(void)
{
	struct run *run = test_calloc(1, sizeof(*run));

	run->target.process = PROCESS;
	for (uint64_t i = 0; i < BLOCKS; i++) {
		run->keys[i] = (struct abi_live_key){.addr = 0x1000 * (1 + i), .process = PROCESS};
		run->blocks[i] = (struct abi_live){.size = 100,
						   .interval = 1024,
						   .birth_ns = S + i * RUN_S * S / BLOCKS,
						   .stack = key.stack,
						   .tid = 1};
	}
	run->site.alloc_samples = 2 * BLOCKS;
	run->site.alloc_objects_q16 = 20ULL * BLOCKS << 16;
	run->site.alloc_bytes = 2000 * BLOCKS;
	run->site.freed_bytes = 1000 * BLOCKS;
	for (uint64_t i = 0; i <= RUN_S; i++)
		sizes__add(&run->target.anon, (1 + i) * S, (10 << 20) + i * 500);
	return run;
}

static void growth_is_whole_or_not_told(void **state)
{
	struct run *run = new_run();

	(void)state;
	run->add = trend__add_growth;
	fail_each_allocation("continuous", add_over_time, run);
	test_free(run);
}

/* All memory can be read, and its contents never change. */
static int read_same(void *ctx, struct memory_read *reads, size_t n)
{
	(void)ctx;
	for (size_t i = 0; i < n; i++) {
		memset(reads[i].to, 7, reads[i].len);
		reads[i].ok = true;
	}
	return 0;
}

static void windows_are_told_whole_or_not(void **state)
{
	struct run *run = new_run();
	const struct snapshot_sites table = {&key, &run->site, 1};
	struct budget *budget = &run->target.budget;

	(void)state;
	run->add = trend__add_windowed;
	survivors__init(&budget->survivors, (const uint64_t[2]){1, 2});
	net_clock__add(&budget->clock, S, 0, 0, NAN, NET_CLOCK_ENDS);
	net_clock__add(&budget->clock, (1 + RUN_S) * S, RUN_S * 1e9, 0, NAN, NET_CLOCK_ENDS);
	for (uint64_t i = 0; i < RUN_S; i++) {
		const struct survivors_window window = {.start_ns = (1 + i) * S,
							.end_ns = (1 + i) * S + S / 20,
							.allocs = 100,
							.interval = 1024};
		uint64_t addrs[5];
		struct abi_live live[5];

		for (size_t k = 0; k < 5; k++) {
			addrs[k] = 0x1000 * (1 + 5 * i + k);
			live[k] = run->blocks[0];
			live[k].birth_ns = window.start_ns + 1 + k;
		}
		run->site.grown_samples += 10;
		run->site.grown_bytes += 10 * 4096;
		assert_int_equal(survivors__meet(&budget->survivors, &window, window.end_ns, addrs,
						 live, 5, read_same, NULL),
				 0);
		assert_int_equal(survivors__harvest(&budget->survivors, &budget->clock), 0);
		assert_int_equal(reallocs__harvest(&budget->reallocs, window.start_ns,
						   window.end_ns, &table),
				 0);
	}
	fail_each_allocation("windowed", add_over_time, run);
	survivors__free(&budget->survivors);
	net_clock__free(&budget->clock);
	reallocs__free(&budget->reallocs);
	test_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(growth_is_whole_or_not_told),
		cmocka_unit_test(windows_are_told_whole_or_not),
	};

	return cmocka_run_group_tests_name("no_memory", tests, NULL, NULL);
}
