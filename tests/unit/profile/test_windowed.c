// SPDX-License-Identifier: BSD-2-Clause
/* Compares estimates from windows with lives whose survival is known. The test computes the mean of
 * what windows show, and adds a little noise between windows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "profile/windowed.h"
#include "tests/unit/profile/windowed_sim.h"

static void test_classes_of_age(void **state)
{
	(void)state;
	assert_int_equal(survival__age_class(0), 0);
	assert_int_equal(survival__age_class(1e-5), 0);
	assert_int_equal(survival__age_class(1.0001e-5), 1);
	assert_int_equal(survival__age_class(1e9), SURVIVAL_CLASSES - 1);
	assert_near(survival__class_end(6), 1e-4, 1e-12);
	for (int k = 0; k < SURVIVAL_CLASSES; k++)
		assert_int_equal(survival__age_class(survival__class_end(k)), k);
}

/* The weight ("trust") of an estimate is n / (n + 8). Here n is the number of equal samples that
 * would have the same variance. */
static void test_trust(void **state)
{
	const struct windowed_born eight = {.samples = 8,
					    .bytes = 8 * 65536.0,
					    .squares = 8 * 65536.0 * 65536},
				   certain = {.samples = 3, .bytes = 3000}, nothing = {};

	(void)state;
	assert_near(windowed_born__trust(&eight), 0.5, 1e-9);
	assert_near(windowed_born__trust(&certain), 1, 1e-9);
	assert_near(windowed_born__trust(&nothing), 0, 1e-9);
}

/* All blocks stay. So all blocks that are born in the run are live, and memory grows as fast as
 * blocks are born. */
static void leaks(double alike)
{
	const struct life forever = {0, 1};
	struct windowed_result r;
	struct sim s;

	begin(&s);
	s.net_blocks = RATE / SIZE;
	show(&s, &forever, alike);
	r = estimate(&s);
	assert_near(r.alloc_bytes, RATE * RUN_S, 0.02 * RATE * RUN_S);
	assert_near(r.live_bytes, RATE * RUN_S, 0.02 * RATE * RUN_S);
	assert_true(fabs(r.live_bytes - RATE * RUN_S) < error_of(&r));
	assert_near(r.growth.bytes_per_s, RATE, 0.03 * RATE);
	assert_true(r.growth.low > 0.9 * RATE && r.growth.low < RATE && r.growth.high > RATE);
	assert_false(r.replaces);
}

static void test_leak_distinct(void **state)
{
	(void)state;
	leaks(0);
}

static void test_leak_with_equal_contents(void **state)
{
	(void)state;
	leaks(1);
}

/* In caches that are in balance, live bytes are the bytes born per second times the mean life, and
 * nothing grows. The estimate must show this, both with contents and from frees alone. */
static void test_caches(void **state)
{
	const double means[] = {0.02, 0.3, 2.5};

	(void)state;
	for (int i = 0; i < 3; i++)
		for (int equal = 0; equal < 2; equal++) {
			const struct life cache = {means[i], 0};
			struct windowed_result r;
			struct sim s;

			begin(&s);
			show(&s, &cache, equal);
			r = estimate(&s);
			/* frees alone are less exact: an address may not be used again at once */
			assert_near(r.live_bytes, RATE * means[i],
				    (equal ? 0.25 : 0.15) * RATE * means[i]);
			assert_true(r.growth.low <= 0);
			assert_near(r.growth.bytes_per_s, 0, 0.02 * RATE);
			assert_int_equal(r.by, equal ? SURVIVAL_ENDS : SURVIVAL_CONTENTS);
		}
}

/* A cache has run for RUN_S, and one byte per second is born in it. Returns the bytes that have
 * ended at this age or younger. */
static double ended_by(double mean, double age)
{
	age = fmin(age, RUN_S);
	return (RUN_S - age) * -expm1(-age / mean) + age - mean * -expm1(-age / mean);
}

/* Checks the ages at which blocks were freed, and the ages of live blocks. With contents, the ages
 * of freed blocks must be right within 5 % of all blocks. From frees alone, they must be right
 * within 12 %. The ages of live blocks must be right within twice as much. */
static void test_ages(void **state)
{
	const double means[] = {0.02, 0.3, 2.5};

	(void)state;
	for (int i = 0; i < 3; i++)
		for (int equal = 0; equal < 2; equal++) {
			const struct life cache = {means[i], 0};
			double objects = RATE / SIZE, before = 0, tolerance = equal ? 0.12 : 0.05;
			struct windowed_result r;
			struct sim s;

			begin(&s);
			show(&s, &cache, equal);
			r = estimate(&s);
			for (int k = 0; k < WINDOWED_AGES; k++) {
				double age = 1e-5 * pow(10, k),
				       older = k ? exp(-age / 10 / means[i]) : 1;
				double upto = ended_by(means[i], age);

				assert_near(r.ended[k], objects * (upto - before),
					    tolerance * objects * RUN_S);
				assert_near(r.living[k],
					    objects * means[i] * (older - exp(-age / means[i])),
					    2 * tolerance * objects * means[i]);
				before = upto;
			}
			assert_near(r.half_life.s, log(2) * means[i], 0.2 * log(2) * means[i]);
			assert_true(r.half_life.low_s <= log(2) * means[i]);
			assert_true(r.half_life.high_s >= log(2) * means[i]);
		}
}

/* No window sees ages near the half-life. So the half-life is only known to be between the ages
 * that were seen. */
static void test_half_life_where_nobody_looked(void **state)
{
	const struct life cache = {1, 0};
	struct windowed_result r;
	struct sim s;

	(void)state;
	begin(&s);
	show(&s, &cache, 0);
	r = estimate(&s);
	assert_true(r.half_life.low_s > 0.4 && r.half_life.high_s < 1.2);
	for (int g = 0; g < WINDOWED_GROUPS; g++)
		for (int k = 0; k < SURVIVAL_CLASSES; k++)
			if (survival__class_end(k) > 0.1 && survival__class_end(k) < 4)
				s.groups[g].looked[k] = s.groups[g].same[k] =
					s.groups[g].looked_at[k] = 0;
	r = estimate(&s);
	assert_true(r.half_life.low_s < 0.2 && r.half_life.high_s > 4);
}

/* Ages are by the wall clock. The process has worked for half of the time. */
static void test_ages_of_an_idle_process(void **state)
{
	const struct life cache = {0.3, 0};
	struct windowed_result r;
	struct sim s;

	(void)state;
	begin(&s);
	s.run.wall_s = 2 * RUN_S;
	show(&s, &cache, 0);
	r = estimate(&s);
	/* 0.1 s of the wall clock are 0.05 s of work */
	assert_near(r.ended[4], RATE / SIZE * (ended_by(0.3, 0.05) - ended_by(0.3, 0.005)),
		    0.05 * RATE / SIZE * RUN_S);
	assert_near(r.half_life.s, 2 * log(2) * 0.3, 0.1 * 2 * log(2) * 0.3);
}

/* No window shows whether blocks stay or end. */
static void test_ages_unknown(void **state)
{
	const struct life cache = {0.3, 0};
	struct windowed_result r;
	struct sim s;

	(void)state;
	begin(&s);
	show(&s, &cache, 0);
	s.stack.groups = NULL;
	r = estimate(&s);
	for (int k = 0; k < WINDOWED_AGES; k++)
		assert_true(r.ended[k] == 0 && r.living[k] == 0);
	assert_true(r.half_life.s == 0);
}

/* Every block ends in the window of its birth. So it does not matter that later windows show no
 * blocks. */
static void test_ages_of_what_never_outlives_its_window(void **state)
{
	const struct life brief = {20e-6, 0};
	struct windowed_result r;
	struct sim s;

	(void)state;
	begin(&s);
	show(&s, &brief, 0);
	for (size_t i = 0; i < WINDOWS; i++)
		s.born[i].left_bytes = 0;
	for (int g = 0; g < WINDOWED_GROUPS; g++)
		for (int k = 0; k < SURVIVAL_CLASSES; k++)
			s.groups[g].pairs[k] = s.groups[g].looked[k] = 0;
	r = estimate(&s);
	assert_int_equal(r.by, SURVIVAL_UNKNOWN);
	assert_near(r.ended[0] + r.ended[1], RATE / SIZE * RUN_S, 0.05 * RATE / SIZE * RUN_S);
	assert_near(r.half_life.s, log(2) * 20e-6, 0.3 * log(2) * 20e-6);
}

/* One in twenty of a stack's blocks is never freed. Contents show this. */
static void test_share_that_leaks(void **state)
{
	const struct life some = {0.1, 0.05};
	struct windowed_result r;
	struct sim s;

	(void)state;
	begin(&s);
	s.net_blocks = 0.05 * RATE / SIZE;
	show(&s, &some, 0);
	r = estimate(&s);
	assert_near(r.growth.bytes_per_s, 0.05 * RATE, 0.005 * RATE);
	assert_true(r.growth.low > 0.04 * RATE && r.growth.low < 0.05 * RATE &&
		    r.growth.high > 0.05 * RATE);
	assert_near(r.stays, 0.05, 0.005);
}

/* Blocks seem to stay, but the process has no more blocks than before, because they replace older
 * ones. */
static void test_process_does_not_grow(void **state)
{
	const struct life forever = {0, 1};
	struct windowed_result r;
	struct sim s;

	(void)state;
	begin(&s);
	s.net_blocks = 0;
	show(&s, &forever, 0);
	r = estimate(&s);
	assert_true(r.growth.low <= 0);
	assert_true(r.replaces);
}

/* A cache whose blocks live for 60 s on average, in a run of 40 s. Half of the blocks outlive the
 * run. Windows still show that blocks end, so hardly any growth is sure. */
static void test_slow_cache(void **state)
{
	const struct life slow = {60, 0};
	struct windowed_result r;
	struct sim s;

	(void)state;
	begin(&s);
	s.net_blocks = RATE / SIZE; /* other stacks make the process's number of blocks grow */
	show(&s, &slow, 0);
	r = estimate(&s);
	assert_near(r.live_bytes, RATE * 60 * -expm1(-RUN_S / 60), 0.05 * RATE * RUN_S);
	assert_true(r.growth.low <= 0.05 * RATE);
}

/* Blocks that were seen in a stretch of continuous tracing are not multiplied. */
static void test_stretch_stands_for_itself(void **state)
{
	struct windowed_window windows[] = {
		{.begin_s = 0,
		 .end_s = 1,
		 .interval_bytes = 64,
		 .continuous = true,
		 .allocs = 1000},
		{.number = 1, .begin_s = 10, .end_s = 10.1, .interval_bytes = 64, .allocs = 10},
		{.number = 2, .begin_s = 12, .end_s = 12.1, .interval_bytes = 64, .allocs = 10},
	};
	struct windowed_born born[] = {
		{.window = 0,
		 .samples = 100,
		 .bytes = 25e6,
		 .objects = 25e4,
		 .left_bytes = 25e6,
		 .held_bytes = 25e6},
		{.window = 1, .samples = 1, .bytes = 100, .objects = 1},
		{.window = 2, .samples = 1, .bytes = 100, .objects = 1},
	};
	const struct windowed_run run = {
		.windows = windows, .n_windows = 3, .quarter_s = 5, .end_s = 20, .wall_s = 20};
	const struct windowed_stack stack = {.born = born, .n_born = 3, .alike = 1};
	struct windowed_result r = estimate_stack(&run, &stack);

	(void)state;
	assert_near(r.alloc_bytes, 25e6 + 1000.0 * 19, 1);
	assert_true(r.live_bytes >= 25e6 && r.live_bytes < 25.1e6);
}

/* A process that was traced only at its beginning may later have freed all blocks of all stacks at
 * the same time. So the sum of many stacks is no more certain than one stack. */
static void test_one_stretch_says_little_of_any_stack(void **state)
{
	struct windowed_window windows[] = {
		{.begin_s = 0,
		 .end_s = 1,
		 .wall_s = 1,
		 .interval_bytes = 64,
		 .continuous = true,
		 .allocs = 1000},
	};
	struct windowed_born born[] = {{.window = 0,
					.samples = 100,
					.bytes = 1e6,
					.objects = 1e4,
					.left_bytes = 1e6,
					.held_bytes = 1e6}};
	const struct windowed_run run = {
		.windows = windows, .n_windows = 1, .quarter_s = 3, .end_s = 12, .wall_s = 12};
	const struct windowed_stack stack = {.born = born, .n_born = 1, .alike = 1};
	const struct windowed_result r = estimate_stack(&run, &stack);
	struct estimate live = {}, allocated = {};

	(void)state;
	for (int i = 0; i < 16; i++) {
		estimate__merge(&live, &(struct estimate){.bytes = r.live_bytes,
							  .variance = r.live_variance,
							  .common = r.live_common});
		estimate__merge(&allocated, &(struct estimate){.bytes = r.alloc_bytes,
							       .variance = r.alloc_variance,
							       .common = r.alloc_common});
	}
	assert_near(live.bytes, 16 * 12e6, 16 * 1e6);
	assert_true(estimate__interval(&live).low < 16 * 1e6);
	assert_true(estimate__interval(&allocated).low <= 16 * 1e6 * 1.1);
}

/* A command allocated its data while it was traced, and freed them in the half of its time in which
 * it was not traced. */
static void test_what_was_held_may_have_ended(void **state)
{
	struct windowed_window windows[] = {
		{.begin_s = 0,
		 .end_s = 1,
		 .wall_s = 1,
		 .interval_bytes = 64,
		 .continuous = true,
		 .allocs = 1000},
	};
	struct windowed_born born[] = {{.window = 0,
					.samples = 1000,
					.bytes = 50e6,
					.objects = 5e4,
					.left_bytes = 50e6,
					.held_bytes = 50e6}};
	const struct windowed_stack stack = {.born = born, .n_born = 1, .alike = 1};
	const double ends[] = {2.2, 1.02};

	(void)state;
	for (int brief = 0; brief < 2; brief++) {
		const struct windowed_run run = {.windows = windows,
						 .n_windows = 1,
						 .quarter_s = 0.5,
						 .end_s = ends[brief],
						 .wall_s = ends[brief]};
		struct windowed_result r = estimate_stack(&run, &stack);
		struct interval interval;

		interval = estimate__interval(&(struct estimate){.bytes = r.live_bytes,
								 .variance = r.live_variance,
								 .common = r.live_common});
		/* If half of the time was not traced, nearly all blocks may have been freed: the
		 * low end is the 0.025 quantile of an exponential distribution. If little time was
		 * not traced, few blocks may have been freed. */
		if (brief)
			assert_true(interval.low > 40e6);
		else
			assert_true(interval.low < 0.03 * r.live_bytes);
	}
}

/* There are two stretches. At the end of each, 10 MB of its own blocks are live. During the second
 * stretch, 9 MB of the first stretch's blocks end. So 11 MB are live at the end, and not 20. A
 * third of the time is between the stretches. The estimate assumes that the live share of the bytes
 * allocated in this time equals the live share of the bytes that the stretches saw. */
static void test_later_stretches_see_ends(void **state)
{
	struct windowed_window windows[] = {
		{.begin_s = 0, .end_s = 10, .wall_s = 10, .interval_bytes = 64, .continuous = true},
		{.begin_s = 20,
		 .end_s = 30,
		 .wall_s = 10,
		 .interval_bytes = 64,
		 .continuous = true},
	};
	struct windowed_born born[] = {
		{.window = 0,
		 .samples = 1000,
		 .bytes = 50e6,
		 .objects = 5e4,
		 .left_bytes = 10e6,
		 .held_bytes = 10e6},
		{.window = 1,
		 .samples = 1000,
		 .bytes = 50e6,
		 .objects = 5e4,
		 .left_bytes = 10e6,
		 .held_bytes = 11e6,
		 .lost_bytes = 9e6},
	};
	const struct windowed_stack stack = {.born = born, .n_born = 2, .alike = 1};
	const struct windowed_run run = {
		.windows = windows, .n_windows = 2, .quarter_s = 15, .end_s = 30, .wall_s = 30};
	struct windowed_result r = estimate_stack(&run, &stack);
	struct interval interval = estimate__interval(&(struct estimate){
		.bytes = r.live_bytes, .variance = r.live_variance, .common = r.live_common});

	(void)state;
	assert_near(r.alloc_bytes, 150e6, 1);
	/* half of what is left of the first stretch may have ended between the two stretches */
	assert_near(r.live_bytes, 10.5e6 + 50e6 * 10.5 / 100, 1);
	/* from none to twice the estimate of the bytes allocated between the stretches may be
	 * live */
	assert_true(interval.low < 11e6 && interval.high > 21e6 && interval.high < 24e6);
}

/* The first stretch was merged from ten. Each of the ten left 1 MB, which ended in the next one. So
 * 1 MB was held at every moment. One such moment is the end of the run's first quarter, which lies
 * within the merged stretch. */
static void test_moment_within_merged_stretches(void **state)
{
	struct windowed_window windows[] = {
		{.begin_s = 0,
		 .end_s = 100,
		 .wall_s = 100,
		 .interval_bytes = 64,
		 .continuous = true},
		{.begin_s = 100,
		 .end_s = 110,
		 .wall_s = 10,
		 .interval_bytes = 64,
		 .continuous = true},
	};
	struct windowed_born born[] = {
		{.window = 0,
		 .samples = 10000,
		 .bytes = 500e6,
		 .objects = 5e5,
		 .left_bytes = 10e6,
		 .earlier_bytes = 9e6,
		 .held_bytes = 1e6},
		{.window = 1,
		 .samples = 1000,
		 .bytes = 50e6,
		 .objects = 5e4,
		 .left_bytes = 1e6,
		 .held_bytes = 1e6,
		 .lost_bytes = 1e6},
	};
	const struct windowed_stack stack = {.born = born, .n_born = 2, .alike = 1};
	const struct windowed_run run = {
		.windows = windows, .n_windows = 2, .quarter_s = 27.5, .end_s = 110, .wall_s = 110};
	struct windowed_result r = estimate_stack(&run, &stack);

	(void)state;
	assert_near(r.live_bytes, 1e6, 1);
	assert_near(r.growth.bytes_per_s, 0, 1);
}

/* A stretch saw 5 GB allocated. Ten of the blocks that it sampled, of 100 bytes each, are held. So
 * the live bytes are as uncertain as ten samples are, and less certain than the allocated bytes. */
static void test_few_are_held_of_many(void **state)
{
	const double z = 524288;
	struct windowed_window windows[] = {
		{.begin_s = 0, .end_s = 98, .wall_s = 98, .interval_bytes = z, .continuous = true},
	};
	struct windowed_born born[] = {{.window = 0,
					.samples = 10000,
					.bytes = 10000 * z,
					.objects = 100 * z,
					.squares = 10000 * z * z,
					.left_bytes = 10 * z,
					.held_bytes = 10 * z,
					.held_objects = z / 10,
					.held_squares = 10 * z * z}};
	const struct windowed_stack stack = {.born = born, .n_born = 1, .alike = 1};
	const struct windowed_run run = {
		.windows = windows, .n_windows = 1, .quarter_s = 25, .end_s = 100, .wall_s = 100};
	struct windowed_result r = estimate_stack(&run, &stack);
	struct interval interval = estimate__interval(&(struct estimate){
		.bytes = r.live_bytes, .variance = r.live_variance, .common = r.live_common});

	(void)state;
	assert_near(r.live_bytes, 10 * z, 0.05 * 10 * z);
	assert_near(r.live_objects, z / 10, 0.05 * z / 10);
	assert_true(interval.low < 0.6 * 10 * z && interval.high > 1.6 * 10 * z);
	assert_true(interval.low > 0.2 * 10 * z && interval.high < 2.5 * 10 * z);
}

/* A process is calm for 60 s, and is traced continuously. Then it works, and is traced in windows.
 * They see that all blocks of a stack end at once. So none of these blocks is live, although no
 * stretch saw them end. */
static void test_work_outside_of_stretches(void **state)
{
	struct windowed_window windows[20] = {{.begin_s = 0,
					       .end_s = 60,
					       .wall_s = 60,
					       .interval_bytes = 64,
					       .continuous = true}};
	struct windowed_born born[20] = {{.window = 0,
					  .samples = 1,
					  .bytes = 1000,
					  .objects = 1,
					  .left_bytes = 1000,
					  .held_bytes = 1000}};
	struct survival_ages groups[WINDOWED_GROUPS] = {}, *of_group[WINDOWED_GROUPS] = {};
	const struct windowed_stack stack = {
		.born = born, .n_born = 20, .groups = of_group, .alike = 1};
	const struct windowed_run run = {
		.windows = windows, .n_windows = 20, .quarter_s = 25, .end_s = 100, .wall_s = 100};
	struct windowed_result r;

	(void)state;
	for (uint32_t i = 1; i < 20; i++) {
		struct survival_ages *ages = of_group[i % WINDOWED_GROUPS] =
			&groups[i % WINDOWED_GROUPS];

		windows[i] = (struct windowed_window){.number = i,
						      .begin_s = 60 + 2 * i,
						      .end_s = 60 + 2 * i + 0.1,
						      .wall_s = 0.1,
						      .interval_bytes = 64,
						      .allocs = 1e4};
		born[i] = (struct windowed_born){
			.window = i, .samples = 1000, .bytes = 10e6, .objects = 1e4};
		ages->watched[survival__age_class(1e-3)] += 10e6;
		ages->ended[survival__age_class(1e-3)] += 10e6;
	}
	r = estimate_stack(&run, &stack);
	assert_near(r.alloc_bytes, 100e6 * 40, 0.02 * 100e6 * 40);
	assert_true(r.live_bytes < 10e6);
}

/* Probes may take nearly all the CPU time of windows. Then the rest, the net time, is hardly known,
 * and the wall clock may be as right as the net clock. */
static void test_unknown_clock(void **state)
{
	struct windowed_window windows[8];
	struct windowed_born born[8];
	struct windowed_run run = {
		.windows = windows, .n_windows = 8, .quarter_s = 2, .end_s = 8, .wall_s = 80};
	const struct windowed_stack stack = {.born = born, .n_born = 8, .alike = 1};
	const double per_wall_s = 10e6, truth = per_wall_s * 80;

	(void)state;
	for (uint32_t i = 0; i < 8; i++) {
		/* By the wall clock the window lasts 10 ms, and the run 80 s. By the net clock the
		 * window lasts 30 ms, and the run only 8 s. */
		windows[i] = (struct windowed_window){.number = i,
						      .begin_s = i,
						      .end_s = i + 0.03,
						      .wall_s = 0.01,
						      .interval_bytes = 64,
						      .allocs = 1000};
		born[i] = (struct windowed_born){.window = i,
						 .samples = 100,
						 .bytes = per_wall_s * 0.01 * noise(i),
						 .objects = 1e3};
	}
	for (int known = 0; known < 2; known++) {
		struct windowed_result r;
		struct estimate allocated;

		run.clock_error = known ? 0.01 : 1;
		run.rough = !known;
		r = estimate_stack(&run, &stack);
		allocated = (struct estimate){.bytes = r.alloc_bytes,
					      .variance = r.alloc_variance,
					      .common = r.alloc_common};
		assert_near(r.alloc_bytes, truth / 30, truth / 300);
		assert_true((estimate__interval(&allocated).high >= truth) == !known);
	}
}

/* A sample of a coarse window is not multiplied like one of a fine window. Otherwise it would
 * outweigh all others. */
static void test_coarse_window_is_left_out(void **state)
{
	const struct life forever = {0, 1};
	struct windowed_result r;
	struct sim s;

	(void)state;
	begin(&s);
	s.net_blocks = RATE / SIZE;
	show(&s, &forever, 0);
	s.windows[0].interval_bytes = 512 << 10;
	s.born[0].bytes *= 100;
	r = estimate(&s);
	assert_near(r.alloc_bytes, RATE * RUN_S, 0.02 * RATE * RUN_S);
}

/* Windows of the program before an exec do not count for the program after it. */
static void test_windows_before_an_exec(void **state)
{
	const struct life cache = {2.5, 0};
	struct windowed_window windows[WINDOWED_GROUPS + 3] = {};
	struct windowed_result of_new, of_both;
	struct sim s;

	(void)state;
	begin(&s);
	show(&s, &cache, 0);
	s.run.n_windows = s.stack.n_born = 3;
	of_new = estimate(&s);
	/* windows of the three groups */
	memcpy(windows + WINDOWED_GROUPS, s.windows, 3 * sizeof(*windows));
	s.run.windows = windows;
	s.run.n_windows = WINDOWED_GROUPS + 3;
	s.run.n_before = WINDOWED_GROUPS;
	for (size_t i = 0; i < 3; i++)
		s.born[i].window += WINDOWED_GROUPS;
	of_both = estimate(&s);
	assert_near(of_both.live_bytes, of_new.live_bytes, 1e-6 * of_new.live_bytes);
	assert_near(of_both.live_variance, of_new.live_variance, 1e-6 * of_new.live_variance);
	assert_true(of_new.live_variance > 0);
}

/* Contents have changed in every later window, and no window sees a free. Either blocks live for a
 * short time, or they stay and are written to. If later windows watched addresses only for a short
 * time, the two cases cannot be distinguished: intervals contain both, and nothing surely grows. If
 * later windows watched for long, the estimate says that the blocks stay. */
static void test_changed_contents_leave_a_doubt(void **state)
{
	const struct life forever = {0, 1};

	(void)state;
	for (int little = 0; little < 2; little++) {
		struct windowed_result r;
		struct sim s;

		begin(&s);
		s.net_blocks = RATE / SIZE;
		show(&s, &forever, 0);
		for (int g = 0; g < WINDOWED_GROUPS; g++)
			for (int k = 0; k < SURVIVAL_CLASSES; k++) {
				s.groups[g].same[k] = 0;
				s.groups[g].pairs[k] *= little ? 1e-5 : 1;
				s.groups[g].exposed[k] *= little ? 1e-5 : 1;
			}
		r = estimate(&s);
		assert_true(r.live_bytes + error_of(&r) > RATE * RUN_S);
		if (little) {
			assert_true(r.live_bytes - error_of(&r) < 0.1 * RATE);
			assert_true(r.growth.low <= 0 && r.growth.high > RATE);
		} else {
			assert_true(r.live_bytes - error_of(&r) > 0.9 * RATE * RUN_S);
			assert_true(r.growth.low > 0.9 * RATE);
		}
	}
}

/* Judges the process as a whole. */
static struct windowed_process judge_process(struct sim *s)
{
	struct windowed_strata *strata = windowed_strata__new(&s->run);
	struct windowed_process process;

	assert_non_null(strata);
	process = windowed__process(&s->run, strata);
	windowed_strata__free(strata);
	return process;
}

/* The rate at which the process's number of blocks grows, from its births and ends. */
static void test_balance(void **state)
{
	const struct life forever = {0, 1};
	struct windowed_process process;
	struct sim s;

	(void)state;
	begin(&s);
	s.net_blocks = 1000;
	show(&s, &forever, 0);
	process = judge_process(&s);
	assert_near(process.blocks_per_s, 1000, 30);
	assert_true(process.blocks_low < 1000 && process.blocks_high > 1000 &&
		    process.blocks_low > 900);
}

/* Pools ended in one window, so the number of ends is not known. Then windows do not show whether
 * the process grows. */
static void test_no_balance_with_pools(void **state)
{
	const struct life forever = {0, 1};
	struct windowed_process process;
	struct sim s;

	(void)state;
	begin(&s);
	s.net_blocks = 1000;
	show(&s, &forever, 0);
	s.windows[3].net_blocks = NAN;
	process = judge_process(&s);
	assert_true(isnan(process.blocks_per_s));
	assert_true(isinf(process.blocks_low) && process.blocks_low < 0);
	assert_true(isinf(process.blocks_high) && process.blocks_high > 0);
}

/* The process allocates for the first 24 of 40 s, and only computes in the other 16 s. Windows in
 * these 16 s see no call, but they stand for time all the same. */
static void test_time_without_calls(void **state)
{
	const struct life forever = {0, 1};
	struct sim s;

	(void)state;
	begin(&s);
	show(&s, &forever, 0);
	for (size_t i = 24; i < WINDOWS; i++)
		s.windows[i].allocs = 0;
	s.stack.n_born = 24;
	assert_near(estimate(&s).alloc_bytes, 24 * RATE, 1.5 * RATE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trust),
		cmocka_unit_test(test_classes_of_age),
		cmocka_unit_test(test_leak_distinct),
		cmocka_unit_test(test_leak_with_equal_contents),
		cmocka_unit_test(test_caches),
		cmocka_unit_test(test_ages),
		cmocka_unit_test(test_ages_of_an_idle_process),
		cmocka_unit_test(test_ages_unknown),
		cmocka_unit_test(test_half_life_where_nobody_looked),
		cmocka_unit_test(test_ages_of_what_never_outlives_its_window),
		cmocka_unit_test(test_share_that_leaks),
		cmocka_unit_test(test_process_does_not_grow),
		cmocka_unit_test(test_slow_cache),
		cmocka_unit_test(test_stretch_stands_for_itself),
		cmocka_unit_test(test_one_stretch_says_little_of_any_stack),
		cmocka_unit_test(test_unknown_clock),
		cmocka_unit_test(test_what_was_held_may_have_ended),
		cmocka_unit_test(test_later_stretches_see_ends),
		cmocka_unit_test(test_work_outside_of_stretches),
		cmocka_unit_test(test_moment_within_merged_stretches),
		cmocka_unit_test(test_few_are_held_of_many),
		cmocka_unit_test(test_coarse_window_is_left_out),
		cmocka_unit_test(test_windows_before_an_exec),
		cmocka_unit_test(test_changed_contents_leave_a_doubt),
		cmocka_unit_test(test_balance),
		cmocka_unit_test(test_no_balance_with_pools),
		cmocka_unit_test(test_time_without_calls),
	};

	return cmocka_run_group_tests_name("windowed", tests, NULL, NULL);
}
