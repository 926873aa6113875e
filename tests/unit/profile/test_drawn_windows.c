// SPDX-License-Identifier: BSD-2-Clause
/* Do intervals hold the truth as often as they say, when windows are few and have few samples? Each
 * run draws windows, blocks, and what later windows see of the blocks' addresses. Nothing is drawn
 * from the model under test: each block has a fate of its own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "profile/growth.h"
#include "profile/windowed.h"
#include "profile/windowed_strata.h"

#include "random.h"

#define RUNS	60
#define LEAST	53 /* of RUNS: 95 %, less two standard deviations */
#define RUN_S	30.0
#define RATE	13e6 /* bytes per second that the stack allocates */
#define SIZE	4096.0
#define CALLS	1000 /* that allocate, in each window */
#define WINDOWS 40   /* at most */

struct life {
	int windows;
	double window_s;
	double samples;	  /* in each window, on average */
	double s;	  /* each block lives so long; infinite: it stays */
	double reused;	  /* share of addresses that the next block takes at once */
	double written_s; /* its contents change at that age, whether it lives or not */
};

struct drawn {
	struct windowed_window windows[WINDOWS];
	struct windowed_born born[WINDOWS];
	struct survival_ages groups[WINDOWED_GROUPS];
	size_t n_born;
};

/* A number of samples with that mean (Knuth, The Art of Computer Programming 2, 3.4.1). */
static int draw_poisson(double mean)
{
	double product = random_unit();
	int n = 0;

	for (; product > exp(-mean); n++)
		product *= random_unit();
	return n;
}

/* The window of its birth watches a block until it ends, or the window does. */
static void watch(struct survival_ages *ages, const struct life *l, double weight, double for_s,
		  bool ends)
{
	for (int k = 0; k <= survival__age_class(for_s); k++) {
		double from = k ? survival__class_end(k - 1) : 0,
		       to = fmin(survival__class_end(k), for_s);

		ages->watched[k] += (float)(weight * fmax(to - from, 0) * CALLS / l->window_s);
	}
	if (ends)
		ages->ended[survival__age_class(for_s)] += (float)weight;
}

/* Is the address of a block that ended at end_s freed in the window? late: by how much later than
 * its predecessor a block takes the address, as a share of its life. */
static bool frees_address(const struct life *l, const struct windowed_window *w, double end_s,
			  bool reused, double late)
{
	double next_s = end_s;

	if (reused && w->begin_s > end_s)
		next_s += l->s * fmax(ceil((w->begin_s - end_s) / l->s - late) + late, 0);
	return next_s >= w->begin_s && next_s < w->end_s;
}

static void look_later(struct drawn *d, const struct life *l, int born, double weight, double at_s)
{
	struct survival_ages *ages = &d->groups[born % WINDOWED_GROUPS];
	bool reused = random_unit() < l->reused;
	double late = random_unit() / 2;

	for (int i = born + 1; i < l->windows; i++) {
		double age = d->windows[i].begin_s - at_s;
		int k = survival__age_class(age);

		ages->pairs[k] += (float)weight;
		ages->exposed[k] += (float)weight * CALLS;
		if (isfinite(l->s) && frees_address(l, &d->windows[i], at_s + l->s, reused, late))
			ages->frees[k] += (float)weight;
		ages->looked[k] += (float)weight;
		ages->looked_at[k] += (float)(weight * age);
		if (age < fmin(l->s, l->written_s))
			ages->same[k] += (float)weight;
	}
}

static void draw(struct drawn *d, const struct life *l)
{
	double weight = RATE * l->window_s / l->samples;

	memset(d, 0, sizeof(*d));
	for (int i = 0; i < l->windows; i++) {
		double at = RUN_S * (i + 0.9 * random_unit()) / l->windows;

		d->windows[i] = (struct windowed_window){
			.begin_s = at,
			.end_s = at + l->window_s,
			.wall_s = l->window_s,
			.interval_bytes = SIZE,
			.allocs = CALLS,
			.net_blocks = isfinite(l->s) ? 0 : RATE * l->window_s / SIZE,
		};
	}
	for (int i = 0; i < l->windows; i++) {
		int n = draw_poisson(l->samples);
		double left = 0;

		for (int s = 0; s < n; s++) {
			double at = d->windows[i].begin_s + random_unit() * l->window_s;
			double for_s = fmin(l->s, d->windows[i].end_s - at);

			watch(&d->groups[i % WINDOWED_GROUPS], l, weight, for_s, for_s == l->s);
			if (for_s == l->s)
				continue;
			left += weight;
			look_later(d, l, i, weight, at);
		}
		if (n)
			d->born[d->n_born++] = (struct windowed_born){
				.window = (uint32_t)i,
				.samples = (uint64_t)n,
				.bytes = n * weight,
				.objects = n * weight / SIZE,
				.squares = n * weight * weight,
				.left_bytes = left,
			};
	}
}

static void estimate(struct drawn *d, const struct life *l, struct windowed_result *ret)
{
	struct windowed_run run = {
		.windows = d->windows,
		.n_windows = (size_t)l->windows,
		.quarter_s = RUN_S / 4,
		.end_s = RUN_S,
		.wall_s = RUN_S,
		.scale = 1,
	};
	struct windowed_stack stack = {.born = d->born, .n_born = d->n_born, .groups = d->groups};
	struct windowed_strata *strata = windowed_strata__new(&run);
	struct windowed_process process;

	assert_non_null(strata);
	process = windowed__process(&run, strata);
	windowed__estimate(&run, strata, &process, &stack, ret);
	windowed_strata__free(strata);
}

/* In how many of the runs an interval holds the truth, and the stack surely grows. */
struct held {
	int live, growth, half_life, sure;
};

static struct held count(const struct life *l)
{
	double live = RATE * fmin(l->s, RUN_S), growth = isfinite(l->s) ? 0 : RATE;
	struct held held = {};

	random_state = 1;
	for (int i = 0; i < RUNS; i++) {
		static struct drawn d;
		struct windowed_result r;
		double half;

		draw(&d, l);
		estimate(&d, l, &r);
		half = NORMAL_QUANTILE * sqrt(r.live_variance + r.live_common * r.live_common);
		held.live += fabs(r.live_bytes - live) <= half;
		held.growth += r.growth.low <= growth && growth <= r.growth.high;
		/* all blocks live equally long; 0: it is not known */
		held.half_life += !(r.half_life.s > 0) ||
				  (r.half_life.low_s <= l->s && l->s <= r.half_life.high_s);
		held.sure += r.growth.low > 0;
	}
	print_message("lives of %g s, %d windows: of %d runs, %d hold live bytes, %d growth, "
		      "%d the half-life; %d surely grow\n",
		      l->s, l->windows, RUNS, held.live, held.growth, held.half_life, held.sure);
	return held;
}

/* least_sure, most_sure: in so many of the runs the stack surely grows. */
static void hold_the_truth(const struct life *l, int least_sure, int most_sure)
{
	struct held held = count(l);

	assert_true(held.live >= LEAST && held.growth >= LEAST && held.half_life >= LEAST);
	assert_true(held.sure >= least_sure && held.sure <= most_sure);
}

/* Blocks with contents of their own end between two windows, and few frees are seen. */
static void blocks_that_end_between_windows(void **state)
{
	static const struct life lives[] = {
		{13, 0.011, 20, 0.13, 1, INFINITY},  {13, 0.011, 5, 0.13, 1, INFINITY},
		{13, 0.011, 5, 0.13, 0.3, INFINITY}, {13, 0.011, 5, 0.02, 0.8, INFINITY},
		{13, 0.011, 5, 2, 1, INFINITY},	     {13, 0.011, 20, 9, 0.5, INFINITY},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lives) / sizeof(*lives); i++)
		hold_the_truth(&lives[i], 0, 0);
}

/* Blocks that live five seconds are written to after one second, and their contents are believed:
 * most frees that these predict are there. The half-life reaches to what frees say. (Live bytes are
 * too low in half of the runs: where frees do not contradict contents, there is no doubt.) */
static void blocks_that_are_written_to(void **state)
{
	struct held held = count(&(struct life){13, 0.011, 5, 5, 1, 1});

	(void)state;
	assert_int_equal(held.half_life, RUNS);
	assert_int_equal(held.sure, 0);
}

static void leaks(void **state)
{
	static const struct life lives[] = {
		{13, 0.011, 5, INFINITY, 1, INFINITY},
		{13, 0.011, 20, INFINITY, 1, 0.5},
		{40, 0.035, 20, INFINITY, 1, 5},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lives) / sizeof(*lives); i++)
		hold_the_truth(&lives[i], LEAST, RUNS);
}

/* Its blocks are written to when they are five seconds old, and windows watch too little to know
 * that nobody frees them. It may be a leak, and cannot be said to be one. */
static void a_leak_that_nobody_can_tell(void **state)
{
	(void)state;
	hold_the_truth(&(struct life){13, 0.011, 20, INFINITY, 1, 5}, 0, RUNS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_that_end_between_windows),
		cmocka_unit_test(blocks_that_are_written_to),
		cmocka_unit_test(leaks),
		cmocka_unit_test(a_leak_that_nobody_can_tell),
	};

	return cmocka_run_group_tests_name("drawn windows", tests, NULL, NULL);
}
