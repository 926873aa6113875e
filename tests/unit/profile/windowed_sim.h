/* SPDX-License-Identifier: BSD-2-Clause */
/* Simulates windows on blocks whose survival is known. Include after cmocka.h. */
#ifndef MEMTRACE_TESTS_PROFILE_WINDOWED_SIM_H
#define MEMTRACE_TESTS_PROFILE_WINDOWED_SIM_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "profile/windowed.h"
#include "profile/windowed_strata.h"

#define WINDOWS 40
#define RUN_S	40.0
#define LENGTH	0.035
#define RATE	1e6 /* bytes per second that the stack allocates */
#define SIZE	100.0

/* A run with about one window a second, at uneven distances. */
struct sim {
	struct windowed_window windows[WINDOWS];
	struct windowed_born born[WINDOWS];
	struct survival_ages groups[WINDOWED_GROUPS], *of_group[WINDOWED_GROUPS];
	struct windowed_run run;
	struct windowed_stack stack;
	double net_blocks; /* per second */
	/* 0: blocks end by net time. Otherwise blocks end by the wall clock, and `slowed` is the
	 * ratio of wall time to net time in windows. */
	double slowed;
};

/* Determines S(a), the share of blocks that live longer than a. */
struct life {
	double mean_s; /* exponential; 0: none die */
	double stays;  /* share that never dies */
};

static inline double survives(const struct life *l, double age)
{
	return l->stays + (1 - l->stays) * (l->mean_s > 0 ? exp(-age / l->mean_s) : 1);
}

/* Noise of a few per cent, positive and negative, the same in each run. */
static inline double noise(size_t i)
{
	return 1 + 0.03 * sin((double)i * 12.9898);
}

static inline void begin(struct sim *s)
{
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < WINDOWS; i++) {
		double at = RUN_S * ((double)i + 0.5 + 0.45 * sin((double)i * 78.233)) / WINDOWS;

		s->windows[i] = (struct windowed_window){.number = i,
							 .begin_s = at,
							 .end_s = at + LENGTH,
							 .interval_bytes = 64,
							 .allocs = 1000};
	}
	s->run = (struct windowed_run){.windows = s->windows,
				       .n_windows = WINDOWS,
				       .quarter_s = RUN_S / 4,
				       .end_s = RUN_S,
				       .wall_s = RUN_S};
}

/* Fills in the figures that windows show of a stack. alike: the probability that a new block at an
 * address has the contents of the old one. When a block ends, its address is used again at once. */
static inline void show(struct sim *s, const struct life *l, double alike)
{
	double slowed = s->slowed > 0 ? s->slowed : 1;
	/* the rate of frees at an address in later windows */
	double rate = l->mean_s > 0 ? slowed / l->mean_s : 0;

	for (size_t i = 0; i < WINDOWS; i++) {
		struct windowed_window *w = &s->windows[i];
		struct survival_ages *a = &s->groups[i % WINDOWED_GROUPS];
		double bytes = RATE * LENGTH * noise(i), left = 0;
		int steps = 200;

		for (int k = 0; k < steps; k++) { /* blocks are born evenly over the window */
			double age = LENGTH * (k + 0.5) / steps, part = bytes / steps, before = 1;

			left += part * survives(l, age * slowed);
			for (int c = 0; c < SURVIVAL_CLASSES; c++) {
				double from = c ? survival__class_end(c - 1) : 0,
				       to = fmin(survival__class_end(c), age);

				if (from >= age)
					break;
				a->watched[c] += part * survives(l, (from + to) / 2 * slowed) *
						 (to - from) * w->allocs / LENGTH;
				a->ended[c] += part * (before - survives(l, to * slowed));
				before = survives(l, to * slowed);
			}
		}
		s->born[i] = (struct windowed_born){.window = (uint32_t)i,
						    .samples = 500,
						    .bytes = bytes,
						    .objects = bytes / SIZE,
						    .squares = bytes * bytes / 500,
						    .left_bytes = left};
		for (size_t j = i + 1; j < WINDOWS; j++) { /* later windows */
			double age = s->windows[j].begin_s - w->begin_s,
			       share = -expm1(-rate * LENGTH) * noise(i + j);
			int c = survival__age_class(age);

			a->pairs[c] += left;
			a->exposed[c] += left * w->allocs;
			/* no frees at the addresses of blocks that stay */
			a->frees[c] += (left - bytes * l->stays) * share;
			a->looked[c] += bytes;
			a->looked_at[c] += bytes * age;
			a->same[c] += bytes * (survives(l, age) + (1 - survives(l, age)) * alike);
		}
		w->net_blocks = s->net_blocks * LENGTH * noise(i);
	}
	for (int g = 0; g < WINDOWED_GROUPS; g++)
		s->of_group[g] = &s->groups[g];
	s->stack = (struct windowed_stack){
		.born = s->born, .n_born = WINDOWS, .groups = s->of_group, .alike = alike};
}

static inline struct windowed_result estimate_stack(const struct windowed_run *run,
						    const struct windowed_stack *stack)
{
	struct windowed_strata *strata = windowed_strata__new(run);
	struct windowed_process process;
	struct windowed_result r;

	assert_non_null(strata);
	process = windowed__process(run, strata);
	windowed__estimate(run, strata, &process, stack, &r);
	windowed_strata__free(strata);
	return r;
}

static inline struct windowed_result estimate(struct sim *s)
{
	return estimate_stack(&s->run, &s->stack);
}

static inline double error_of(const struct windowed_result *r)
{
	return 1.96 * sqrt(r->live_variance);
}

#define assert_near(value, truth, tolerance)                                                       \
	do {                                                                                       \
		if (!(fabs((value) - (truth)) <= (tolerance)))                                     \
			fail_msg("%s is %g, not %g +- %g", #value, (double)(value),                \
				 (double)(truth), (double)(tolerance));                            \
	} while (0)

#endif
