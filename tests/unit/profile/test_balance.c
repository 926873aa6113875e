// SPDX-License-Identifier: BSD-2-Clause
/* The estimates of a windowed run's stacks are adjusted to the memory of the process. The simulated
 * blocks have lives whose survival is known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "profile/balance.h"
#include "tests/unit/profile/windowed_sim.h"

/* Estimates n copies of the run's stack, in a process whose anonymous memory grows by `anon`
 * (low..high is the interval of this growth). */
static struct windowed_result balanced(struct sim *s, size_t n, struct growth anon, double *ret_sum,
				       double *ret_common)
{
	struct windowed_stack *stacks[4] = {};
	struct windowed_result results[4];
	struct windowed_process process;

	*ret_sum = *ret_common = 0;
	for (size_t i = 0; i < n; i++)
		stacks[i] = &s->stack;
	assert_int_equal(balance__estimate(&s->run, stacks, n, &anon, &process, results), 0);
	for (size_t i = 0; i < n; i++) {
		*ret_sum += results[i].live_bytes;
		*ret_common += results[i].live_common;
	}
	return results[0];
}

static const struct growth unknown = {NAN, NAN, NAN};

/* The error of the clock is common to all stacks. It affects blocks that stay. For blocks that are
 * replaced all the time, it changes births and frees equally. */
static void test_common_error(void **state)
{
	const struct life forever = {0, 1}, brief = {0.3, 0};
	struct windowed_result r;
	double sum, common;
	struct sim s;

	(void)state;
	begin(&s);
	s.net_blocks = RATE / SIZE;
	show(&s, &forever, 0);
	s.run.clock_error = 0.3;
	r = balanced(&s, 2, unknown, &sum, &common);
	assert_near(sum, 2 * RATE * RUN_S, 0.05 * RATE * RUN_S);
	assert_near(common, windowed__reach(0.3) * sum, 0.05 * sum);
	assert_true(r.growth.low > 0 && r.growth.low < 0.8 * RATE && r.growth.high > 1.3 * RATE);
	begin(&s);
	show(&s, &brief, 1);
	s.run.clock_error = 0.3;
	balanced(&s, 2, unknown, &sum, &common);
	assert_true(common < 0.1 * sum);
}

/* The net clock of the windows is too slow or too fast. The growth of the process's memory corrects
 * it. */
static void test_growth_of_memory_sets_the_clock(void **state)
{
	const struct life forever = {0, 1};
	const double rate = RATE * balance__footprint(SIZE, 0) / SIZE;

	(void)state;
	for (double k = 0.6; k < 1.5; k += 0.2) {
		struct windowed_result r;
		double sum, common;
		struct sim s;

		begin(&s);
		s.net_blocks = RATE / SIZE;
		show(&s, &forever, 0);
		s.run.clock_error = 0.8;
		r = balanced(&s, 1, (struct growth){k * rate, 0.9 * k * rate, 1.1 * k * rate}, &sum,
			     &common);
		assert_near(log(r.growth.bytes_per_s / RATE), 0.9 * log(k), 0.08);
		assert_near(common, windowed__reach(0.2) * sum, 0.06 * sum);
		assert_true(r.growth.low > 0 && r.growth.low < k * RATE &&
			    r.growth.high > k * RATE);
		/* a factor of ten is too much for an error of the clock, so the clock is not
		 * changed */
		begin(&s);
		s.net_blocks = RATE / SIZE;
		show(&s, &forever, 0);
		s.run.clock_error = 0.1;
		r = balanced(&s, 1, (struct growth){10 * rate, 9 * rate, 11 * rate}, &sum, &common);
		assert_near(r.growth.bytes_per_s, RATE, 0.1 * RATE);
	}
}

/* Blocks die in the window of their birth. One clock measures births and deaths, so its scale does
 * not matter. */
static void test_short_lives_need_no_clock(void **state)
{
	const struct life brief = {0.002, 0};
	double live[2];
	struct sim s;

	(void)state;
	for (int i = 0; i < 2; i++) {
		begin(&s);
		s.run.scale = i ? 0.6 : 1;
		show(&s, &brief, 1);
		live[i] = estimate(&s).live_bytes;
		assert_near(live[i], RATE * 0.002, 0.15 * RATE * 0.002);
	}
	assert_near(live[1], live[0], 0.05 * live[0]);
}

/* Live bytes never exceed the mapped bytes, even if windows agree that more is live. */
static void test_live_is_mapped(void **state)
{
	const struct life forever = {0, 1};
	double sum, common;
	struct sim s;

	(void)state;
	for (double error = 0; error < 1; error += 0.4) {
		begin(&s);
		s.net_blocks = RATE / SIZE;
		show(&s, &forever, 0);
		s.run.clock_error = error;
		s.run.bound_bytes = RATE * RUN_S;
		balanced(&s, 3, unknown, &sum, &common);
		assert_true(sum <= 1.0001 * RATE * RUN_S && sum > 0.5 * RATE * RUN_S);
	}
}

/* Live bytes in small blocks never exceed the resident bytes, even if more is mapped. Large blocks
 * may be in memory to which nothing has been written yet. */
static void test_small_blocks_are_resident(void **state)
{
	const struct life forever = {0, 1};
	const double mapped = 10 * RATE * RUN_S;
	struct sim small, large;
	struct windowed_stack *stacks[] = {&small.stack, &large.stack};
	struct windowed_process process;
	struct windowed_result r[2];

	(void)state;
	for (double error = 0; error < 1; error += 0.4)
		for (double share = 0.5; share <= 1; share += 0.5) {
			begin(&small);
			begin(&large);
			small.net_blocks = 2 * RATE / SIZE;
			show(&small, &forever, 0);
			show(&large, &forever, 0);
			small.stack.small = share;
			small.run.clock_error = error;
			small.run.bound_bytes = mapped;
			small.run.resident_bytes = 0.25 * RATE * RUN_S;
			assert_int_equal(
				balance__estimate(&small.run, stacks, 2, &unknown, &process, r), 0);
			assert_in_range(1e4 * share * r[0].live_bytes / small.run.resident_bytes,
					8000, 10001);
			assert_true(r[0].growth.bytes_per_s * 0.75 * RUN_S <=
				    1.01 * r[0].live_bytes);
			if (!(error > 0)) /* a clock error makes both estimates too high */
				assert_near(r[1].live_bytes, RATE * RUN_S, 0.1 * RATE * RUN_S);
			assert_near(windowed__most(&small.run, &small.stack),
				    small.run.resident_bytes / share, 1);
			assert_near(windowed__most(&small.run, &large.stack), mapped, 1);
		}
}

/* Makes two stacks whose blocks stay. Windows agree on the first, and differ widely on the
 * second. */
static void show_sure_and_unsure(struct sim *sure, struct sim *unsure)
{
	const struct life forever = {0, 1};

	begin(sure);
	begin(unsure);
	sure->net_blocks = 2 * RATE / SIZE;
	show(sure, &forever, 0);
	show(unsure, &forever, 0);
	for (size_t i = 0; i < WINDOWS; i++) {
		double times = i % 4 ? 0.1 : 3.7;

		unsure->born[i].bytes *= times;
		unsure->born[i].objects *= times;
		unsure->born[i].left_bytes *= times;
	}
}

/* The two stacks hold more bytes than are mapped. The sure stack keeps its live bytes, and the
 * unsure one is reduced. */
static void test_who_is_unsure_gives(void **state)
{
	struct sim sure, unsure;
	struct windowed_stack *stacks[] = {&sure.stack, &unsure.stack};
	struct windowed_process process;
	struct windowed_result r[2];

	(void)state;
	show_sure_and_unsure(&sure, &unsure);
	sure.run.bound_bytes = 1.3 * RATE * RUN_S;
	assert_int_equal(balance__estimate(&sure.run, stacks, 2, &unknown, &process, r), 0);
	assert_near(r[0].live_bytes, RATE * RUN_S, 0.1 * RATE * RUN_S);
	assert_near(r[0].live_bytes + r[1].live_bytes, sure.run.bound_bytes,
		    0.0001 * sure.run.bound_bytes);
	sure.run.without = 1U << PART_LIMITS;
	assert_int_equal(0, balance__estimate(&sure.run, stacks, 2, &unknown, &process, r));
	assert_true(r[0].live_bytes + r[1].live_bytes > 1.3 * sure.run.bound_bytes);
}

/* The two stacks grow by more than the process does. The unsure one is reduced. The high ends of
 * both intervals do not change. */
static void test_growth_is_of_the_process(void **state)
{
	const double memory = balance__footprint(SIZE, 0) / SIZE, anon = RATE * memory;
	const struct growth grows = {anon, 0.98 * anon, 1.02 * anon};
	struct sim sure, unsure;
	struct windowed_stack *stacks[] = {&sure.stack, &unsure.stack};
	struct windowed_process process;
	struct windowed_result free[2], r[2];

	(void)state;
	show_sure_and_unsure(&sure, &unsure);
	assert_int_equal(balance__estimate(&sure.run, stacks, 2, &unknown, &process, free), 0);
	assert_int_equal(balance__estimate(&sure.run, stacks, 2, &grows, &process, r), 0);
	assert_near(free[1].growth.bytes_per_s, RATE, 0.5 * RATE);
	assert_near(r[0].growth.bytes_per_s, RATE, 0.15 * RATE);
	assert_true((r[0].growth.bytes_per_s + r[1].growth.bytes_per_s) * memory <= 1.25 * anon);
	assert_true(r[1].growth.bytes_per_s >= fmax(r[1].growth.low, 0));
	for (int i = 0; i < 2; i++)
		assert_near(r[i].growth.high, free[i].growth.high, 1e-6 * RATE);
}

/* Growth cannot exceed the bytes that the process has mapped. */
static void test_more_than_is_mapped(void **state)
{
	const struct life forever = {0, 1};
	struct windowed_result r;
	double sum, common, most;
	struct sim s;

	(void)state;
	begin(&s);
	s.net_blocks = RATE / SIZE;
	show(&s, &forever, 0);
	s.run.bound_bytes = RATE;
	r = balanced(&s, 1, unknown, &sum, &common);
	most = s.run.bound_bytes / (0.75 * s.run.wall_s);
	assert_true(r.growth.low <= 0 && r.replaces);
	assert_true(r.growth.bytes_per_s <= most && r.growth.high <= most);
}

/* Two leaks allocate by the wall clock, in a program that windows make slower. By net time, they
 * seem to leak many times the heap's size. Their ratio and both rates must be right. */
static void test_leaks_by_the_wall_clock(void **state)
{
	const struct life forever = {0, 1};
	const double ratio = 8, hidden = 20, fast_rate = RATE / hidden,
		     memory = balance__footprint(SIZE, 0) / SIZE;
	const double anon = fast_rate * (1 + 1 / ratio) * memory;
	const struct growth grows = {anon, 0.98 * anon, 1.02 * anon};
	struct sim fast, slow;
	struct windowed_stack *stacks[] = {&fast.stack, &slow.stack};
	struct windowed_process process;
	struct windowed_result r[2];

	(void)state;
	begin(&fast);
	begin(&slow);
	fast.net_blocks = RATE / SIZE * (1 + 1 / ratio);
	show(&fast, &forever, 0);
	show(&slow, &forever, 0);
	for (size_t i = 0; i < WINDOWS; i++) {
		slow.born[i].bytes /= ratio;
		slow.born[i].objects /= ratio;
		slow.born[i].left_bytes /= ratio;
	}
	fast.run.hidden = hidden;
	fast.run.clock_error = 0.1;
	fast.run.bound_bytes = anon * RUN_S;
	assert_int_equal(balance__estimate(&fast.run, stacks, 2, &grows, &process, r), 0);
	for (int i = 0; i < 2; i++) {
		double truth = fast_rate / (i ? ratio : 1);

		assert_near(r[i].growth.bytes_per_s, truth, 0.2 * truth);
		assert_true(r[i].growth.low > 0 && r[i].growth.low < truth &&
			    r[i].growth.high > truth);
	}
}

/* One window cannot show how windows differ, so the interval of growth has infinite ends. The
 * process loses blocks, so its figures are a mixture of the results by two clocks. */
static void test_one_window_has_an_interval(void **state)
{
	const struct life forever = {0, 1};
	struct windowed_result r;
	double sum, common;
	struct sim s;

	(void)state;
	begin(&s);
	show(&s, &forever, 0);
	s.run.n_windows = s.stack.n_born = 1;
	s.run.hidden = 2;
	s.run.bound_bytes = 1e9;
	s.windows[0].wall_s = 2 * LENGTH;
	s.windows[0].net_blocks = -10;
	r = balanced(&s, 1, unknown, &sum, &common);
	assert_false(isnan(r.growth.low) || isnan(r.growth.high));
}

/* A table needs longer than the run to replace its blocks. New blocks stay, and each replaces a
 * block from before the run. The growth of memory is noise, and must not change the clock. */
static void test_noise_is_no_clock(void **state)
{
	const struct life forever = {0, 1};
	const struct growth noises[] = {{0.05 * RATE, -0.1 * RATE, 0.2 * RATE},
					{0.05 * RATE, 0.01 * RATE, 0.09 * RATE}};
	struct windowed_result r;
	double sum, common;
	struct sim s;

	(void)state;
	for (int i = 0; i < 2; i++) { /* the second noise looks like sure growth */
		begin(&s);
		s.run.hidden = 20;
		s.run.bound_bytes = 2 * RATE * RUN_S;
		show(&s, &forever, 0);
		r = balanced(&s, 1, noises[i], &sum, &common);
		assert_near(sum, RATE * RUN_S, 0.05 * RATE * RUN_S);
		assert_true(r.growth.low <= 0);
	}
}

/* The heap is a fifth larger than the live bytes, as it usually is. This must not count as evidence
 * that an uncertain clock is slow. */
static void test_bound_is_no_estimate(void **state)
{
	const struct life cache = {2.5, 0};
	double sum, common;
	struct sim s;

	(void)state;
	begin(&s);
	s.run.clock_error = 0.8;
	s.run.bound_bytes = 1.2 * 2 * RATE * 2.5;
	show(&s, &cache, 0);
	balanced(&s, 2, (struct growth){0, -0.05 * RATE, 0.05 * RATE}, &sum, &common);
	assert_near(sum, 2 * RATE * 2.5, 0.1 * 2 * RATE * 2.5);
}

/* How long blocks live depends on the wall clock, but windows make their births ten times slower.
 * The process's count of blocks shows this. */
static void test_ends_by_the_wall_clock(void **state)
{
	const double means[] = {0.025, 0.3, 2.5}, slowed = 10;

	(void)state;
	for (int i = 0; i < 3; i++)
		for (int equal = 0; equal < 2; equal++) {
			const struct life timed = {means[i], 0};
			double truth = RATE * means[i], sum, common;
			struct windowed_result r;
			struct sim s;

			begin(&s);
			s.slowed = s.run.hidden = slowed;
			show(&s, &timed, equal);
			for (size_t w = 0; w < WINDOWS;
			     w++) { /* older blocks end, and few new ones are born */
				s.windows[w].wall_s = LENGTH * slowed;
				s.windows[w].net_blocks =
					(s.born[w].left_bytes -
					 truth * -expm1(-LENGTH * slowed / means[i])) /
					SIZE;
			}
			r = balanced(&s, 1, (struct growth){0, -0.05 * RATE, 0.05 * RATE}, &sum,
				     &common);
			/* if all contents are equal, only frees show that blocks end, and estimates
			 * for lives far shorter than a window are less exact */
			assert_near(r.live_bytes, truth, (equal ? 0.4 : 0.2) * truth);
			assert_true(equal || fabs(r.live_bytes - truth) < error_of(&r));
		}
}

/* Windows as in test_ends_by_the_wall_clock(), but how long blocks live depends on the work of the
 * process. Sometimes more blocks end than are born. */
static void test_ends_by_work(void **state)
{
	const struct life cache = {0.3, 0};
	double sum, common;
	struct sim s;

	(void)state;
	for (int batches = 0; batches < 2; batches++) {
		begin(&s);
		show(&s, &cache, 1);
		s.run.hidden = 10;
		for (size_t w = 0; w < WINDOWS; w++) {
			s.windows[w].wall_s = LENGTH * 10;
			s.windows[w].net_blocks = noise(w) - 1 - 0.01;
			s.windows[w].net_blocks *= RATE * LENGTH / SIZE;
		}
		if (batches) /* blocks of another stack end at once */
			s.windows[7].net_blocks -= 100 * RATE * LENGTH / SIZE;
		balanced(&s, 1, (struct growth){0, -0.05 * RATE, 0.05 * RATE}, &sum, &common);
		assert_near(sum, RATE * 0.3, 0.3 * RATE * 0.3);
	}
}

/* There are only two windows, and they differ, so their spread is hardly known. More bytes were
 * born than are mapped, so blocks were freed outside windows. This does not mean that the clock is
 * wrong. */
static void test_two_windows_set_no_clock(void **state)
{
	const struct life forever = {0, 1};
	struct windowed_result r;
	double sum, common;
	struct sim s;

	(void)state;
	begin(&s);
	show(&s, &forever, 1);
	s.run.n_windows = s.stack.n_born = 2;
	s.born[1].bytes *= 2;
	s.born[1].left_bytes *= 2;
	s.run.clock_error = 1;
	s.run.bound_bytes = 0.2 * RATE * RUN_S;
	r = balanced(&s, 1, (struct growth){0, -0.05 * RATE, 0.05 * RATE}, &sum, &common);
	assert_near(r.alloc_bytes, 1.5 * RATE * RUN_S, 0.5 * 1.5 * RATE * RUN_S);
}

/* Blocks that are freed all at once between windows seem to stay. The process's memory does not
 * grow. */
static void test_nothing_grows_in_a_process_that_does_not(void **state)
{
	const struct life forever = {0, 1};
	struct windowed_result r;
	double sum, common;
	struct sim s;

	(void)state;
	for (int equal = 0; equal < 2; equal++) {
		begin(&s);
		s.net_blocks = RATE / SIZE;
		show(&s, &forever, equal);
		r = balanced(&s, 1, (struct growth){0, -0.05 * RATE, 0.05 * RATE}, &sum, &common);
		assert_true(r.growth.low <= 0 && r.replaces);
		/* the stack's live bytes are not certain, either */
		assert_true(r.live_variance >= r.live_bytes * r.live_bytes);
		/* Now the memory may grow. If blocks have different contents, unchanged contents
		 * show that the stack grows. If all blocks have equal contents, contents show
		 * nothing, and an absence of frees proves nothing. */
		begin(&s);
		s.net_blocks = RATE / SIZE;
		show(&s, &forever, equal);
		r = balanced(&s, 1, (struct growth){RATE, -0.1 * RATE, 3 * RATE}, &sum, &common);
		assert_true((r.growth.low > 0) == !equal);
	}
}

/* A cache fills while the process is traced continuously. The cache's memory was mapped before, so
 * the process does not grow. But the blocks in the kernel's table are live all the same. */
static void test_what_is_held_needs_no_growth(void **state)
{
	const struct growth flat = {0, -1, 1};
	const double z = 4096;
	struct windowed_window windows[] = {
		{.begin_s = 0, .end_s = 38, .wall_s = 38, .interval_bytes = z, .continuous = true},
	};
	struct windowed_born born[] = {{.window = 0,
					.samples = 10000,
					.bytes = 10000 * z,
					.objects = 10000,
					.left_bytes = 9000 * z,
					.held_bytes = 9000 * z,
					.held_objects = 9000}};
	struct sim s = {.stack = {.born = born, .n_born = 1, .alike = 1}};
	struct windowed_result r;
	double sum, common;

	(void)state;
	s.run = (struct windowed_run){
		.windows = windows, .n_windows = 1, .quarter_s = 10, .end_s = 40, .wall_s = 40};
	r = balanced(&s, 1, flat, &sum, &common);
	assert_true(r.held);
	assert_true(r.growth.low <= 0);
	assert_near(sum, 9500 * z, 700 * z);
	assert_true(sqrt(r.live_variance) < 0.05 * sum);
}

/* Expects the sizes of request2size() in glibc's malloc.c, and the size classes of CPython's
 * obmalloc.c. */
static void test_footprint(void **state)
{
	(void)state;
	assert_near(balance__footprint(1, 8), 32, 0);
	assert_near(balance__footprint(24, 8), 32, 0);
	assert_near(balance__footprint(25, 8), 48, 0);
	assert_near(balance__footprint(200, 8), 208, 0);
	assert_near(balance__footprint(1, 0), 16, 0);
	assert_near(balance__footprint(16, 0), 16, 0);
	assert_near(balance__footprint(17, 0), 32, 0);
	assert_near(balance__footprint(512, 0), 512, 0);
}

/* A process grows by as much as its stack's blocks take. Blocks with a header take more, so fewer
 * of these blocks are live. */
static void test_headers_take_memory(void **state)
{
	const struct life forever = {0, 1};
	double with, without, common, rate = RATE * balance__footprint(SIZE, 0) / SIZE;
	struct growth anon = {rate, 0.98 * rate, 1.02 * rate};
	struct sim s;

	(void)state;
	begin(&s);
	s.net_blocks = RATE / SIZE;
	show(&s, &forever, 0);
	s.run.clock_error = 0.8;
	balanced(&s, 1, anon, &without, &common);
	s.stack.header = SIZE;
	balanced(&s, 1, anon, &with, &common);
	assert_true(with < 0.8 * without);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_common_error),
		cmocka_unit_test(test_growth_of_memory_sets_the_clock),
		cmocka_unit_test(test_short_lives_need_no_clock),
		cmocka_unit_test(test_live_is_mapped),
		cmocka_unit_test(test_small_blocks_are_resident),
		cmocka_unit_test(test_who_is_unsure_gives),
		cmocka_unit_test(test_growth_is_of_the_process),
		cmocka_unit_test(test_more_than_is_mapped),
		cmocka_unit_test(test_leaks_by_the_wall_clock),
		cmocka_unit_test(test_one_window_has_an_interval),
		cmocka_unit_test(test_bound_is_no_estimate),
		cmocka_unit_test(test_noise_is_no_clock),
		cmocka_unit_test(test_two_windows_set_no_clock),
		cmocka_unit_test(test_ends_by_the_wall_clock),
		cmocka_unit_test(test_ends_by_work),
		cmocka_unit_test(test_nothing_grows_in_a_process_that_does_not),
		cmocka_unit_test(test_what_is_held_needs_no_growth),
		cmocka_unit_test(test_footprint),
		cmocka_unit_test(test_headers_take_memory),
	};

	return cmocka_run_group_tests_name("balance", tests, NULL, NULL);
}
