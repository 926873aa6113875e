// SPDX-License-Identifier: BSD-2-Clause
/* The test knows how a vector grows, in a process that is fifty times slower in windows. Checks the
 * growth and the live bytes of the vector in the profile. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "session/realloc_trend.h"

#define S	   1000000000ULL
#define PROCESS	   7
#define RUN_S	   64
#define WINDOW_NS  (S / 20)
#define WINDOW_NET 0.001   /* seconds of the process's own time in a window */
#define PER_WINDOW 15000.0 /* bytes by which the vector grows in one window */
#define BY_WALL	   300e3   /* bytes per second, if the vector grows with the wall clock */
#define BY_WORK	   15e6	   /* bytes per second, if it grows with the process's work */

static const struct abi_site_key key = {.stack = {.lo = 1, .hi = 2}, .process = PROCESS};

struct fixture {
	struct target target;
	struct windowed_window windows[RUN_S];
	struct windowed_run run;
	struct abi_site site;
	struct build build;
	size_t site_of;
	struct process_sites sites;
	struct profile *profile;
};

static int read_nothing(void *ctx, struct memory_read *reads, size_t n)
{
	(void)ctx, (void)reads, (void)n;
	return 0;
}

/* n_before: number of windows of an earlier program, before an exec */
static void begin_after(struct fixture *f, uint64_t n_before)
{
	const struct snapshot_sites table = {&key, &f->site, 1};
	struct budget *budget = &f->target.budget;

	memset(f, 0, sizeof(*f));
	survivors__init(&budget->survivors, (const uint64_t[2]){1, 2});
	net_clock__add(&budget->clock, S, 0, 0, NAN, NET_CLOCK_ENDS);
	for (uint64_t i = 0; i < RUN_S; i++) {
		const struct survivors_window window = {.start_ns = (1 + i) * S,
							.end_ns = (1 + i) * S + WINDOW_NS,
							.allocs = 100,
							.interval = 1024};

		if (i == n_before)
			reallocs__exec(&budget->reallocs);
		/* each realloc is sampled, with its size and the bytes that it adds */
		for (int k = 0; k < 10; k++) {
			f->site.alloc_samples++;
			f->site.alloc_objects_q16 += 65536;
			f->site.alloc_bytes += (uint64_t)(1e6 + (double)i * BY_WALL);
			f->site.grown_samples++;
			f->site.grown_bytes += (uint64_t)(PER_WINDOW / 10);
		}
		assert_int_equal(survivors__meet(&budget->survivors, &window, window.end_ns, NULL,
						 NULL, 0, read_nothing, NULL),
				 0);
		assert_int_equal(reallocs__harvest(&budget->reallocs, window.start_ns,
						   window.end_ns, &table),
				 0);
		f->windows[i] = (struct windowed_window){.interval_bytes = 1024};
		if (i < n_before)
			continue;
		f->windows[i].begin_s = (double)(i - n_before);
		f->windows[i].end_s = f->windows[i].begin_s + WINDOW_NET;
		f->windows[i].wall_s = WINDOW_NS * 1e-9;
		f->windows[i].allocs = 100;
	}
	f->run = (struct windowed_run){.windows = f->windows,
				       .n_windows = RUN_S,
				       .n_before = n_before,
				       .quarter_s = (double)(RUN_S - n_before) / 4.0,
				       .end_s = (double)(RUN_S - n_before),
				       .wall_s = (double)(RUN_S - n_before),
				       .hidden = WINDOW_NS * 1e-9 / WINDOW_NET};
	f->build = (struct build){.target = &f->target, .begin_ns = S, .end_ns = (1 + RUN_S) * S};
	f->profile = profile__new();
	assert_non_null(f->profile);
	assert_int_equal(
		profile__add_site(f->profile, (const uint64_t[]){0x1000}, 1, false, &f->site_of),
		0);
	f->sites = (struct process_sites){
		.keys = &key, .sites = &f->site, .n = 1, .site_of = &f->site_of};
}

static void begin(struct fixture *f)
{
	begin_after(f, 0);
}

static void end(struct fixture *f)
{
	survivors__free(&f->target.budget.survivors);
	net_clock__free(&f->target.budget.clock);
	reallocs__free(&f->target.budget.reallocs);
	profile__free(f->profile);
}

/* The site in the profile, if the process's memory grows by `rate` bytes a second. */
static const struct profile_site *told(struct fixture *f, double rate, struct growth *ret_all)
{
	const struct growth anon = {rate, 0.97 * rate, 1.03 * rate};
	struct realloc_trend trend;

	assert_int_equal(realloc_trend__new(&f->build, &f->sites, &f->run, &anon, &trend), 0);
	assert_int_equal(realloc_trend__add_live(&f->build, f->profile, &f->sites, &trend), 0);
	realloc_trend__add_growth(f->profile, &f->sites, &trend);
	*ret_all = trend.all.total;
	realloc_trend__clear(&trend);
	return &f->profile->sites[f->site_of];
}

static void near(double value, double expected)
{
	if (!(fabs(value - expected) <= 0.1 * expected))
		fail_msg("%g for %g", value, expected);
}

/* The vector's growth and its live bytes must follow from the same clock. Once the growth was
 * right, but 960 MB were printed as live instead of 19 MB. */
static void what_the_wall_clock_makes_grow(void **state)
{
	const struct profile_site *site;
	struct growth all;
	struct fixture f;

	(void)state;
	begin(&f);
	site = told(&f, BY_WALL, &all);
	near(site->growth.bytes_per_s, BY_WALL);
	near(site->live.bytes, RUN_S * BY_WALL);
	near(all.bytes_per_s, BY_WALL);
	end(&f);
}

static void what_work_makes_grow(void **state)
{
	const struct profile_site *site;
	struct growth all;
	struct fixture f;

	(void)state;
	begin(&f);
	site = told(&f, BY_WORK, &all);
	near(site->growth.bytes_per_s, BY_WORK);
	near(site->live.bytes, RUN_S * BY_WORK);
	assert_true(site->growth.low > 0);
	end(&f);
}

/* The live bytes must not exceed the heap's size. */
static void it_is_within_the_heap(void **state)
{
	const struct profile_site *site;
	struct growth all;
	struct fixture f;

	(void)state;
	begin(&f);
	f.target.heap_bound_bytes = 100000000;
	site = told(&f, BY_WORK, &all);
	assert_true(site->live.bytes <= 100e6);
	assert_true(estimate__interval(&site->live).high <= 100e6);
	end(&f);
}

/* The time before an exec does not count: it has no records of the present program's reallocs. */
static void what_grows_after_an_exec(void **state)
{
	const struct profile_site *site;
	struct growth all;
	struct fixture f;

	(void)state;
	begin_after(&f, RUN_S / 2);
	site = told(&f, BY_WORK, &all);
	near(site->growth.bytes_per_s, BY_WORK);
	near(site->live.bytes, RUN_S / 2 * BY_WORK);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_wall_clock_makes_grow),
		cmocka_unit_test(what_work_makes_grow),
		cmocka_unit_test(it_is_within_the_heap),
		cmocka_unit_test(what_grows_after_an_exec),
	};

	return cmocka_run_group_tests_name("realloc_trend", tests, NULL, NULL);
}
