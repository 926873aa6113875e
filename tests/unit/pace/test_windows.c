// SPDX-License-Identifier: BSD-2-Clause
/* The budget is kept. The tests drive simulated processes, which count their own cost. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "pace/windows.h"

#define S 1e9

/* A process that only computes and calls. Each call takes own_ns. Under continuous tracing it takes
 * cost_ns more, and in windows `felt` times cost_ns. The calibrated cost, which is computed from
 * the count of calls, does not contain this factor. */
struct program {
	double own_ns, cost_ns;
	double busy; /* share of wall time for which it wants a CPU */
};

struct run {
	double told, cost, cpu; /* totals, ns: calibrated cost, true cost, CPU time */
	double calls;
	double felt;	   /* 0: WINDOWS_FELT */
	double window_cpu; /* CPU time in windows, without the placing and removing of probes */
	uint64_t open_ns, now;
	unsigned opened;
	double most;			  /* highest cost per CPU time since the first window */
	double lengths[4096], gaps[4096]; /* ms; [i], from i = 1 on: the length of the i-th window,
					   * and of the gap behind it */
};

static void pass(struct run *run, const struct program *p, const struct windows *w, bool open,
		 uint64_t ns)
{
	double felt = run->felt > 0 ? run->felt : WINDOWS_FELT;
	double cost_ns = open ? p->cost_ns * (w->continuous ? 1 : felt) : 0;
	/* While its calls are probed, the program wants a CPU for a larger share of the time, at
	 * most for all of it. */
	double want = p->busy * (p->own_ns + cost_ns) / p->own_ns;
	double cpu = (want < 1 ? want : 1) * (double)ns;
	double calls = cpu / (p->own_ns + cost_ns);

	run->cpu += cpu;
	run->calls += calls;
	run->cost += calls * cost_ns;
	run->told += open ? calls * p->cost_ns : 0;
	run->open_ns += open ? ns : 0;
	run->now += ns;
}

static void drive(struct windows *w, struct run *run, const struct program *p, double seconds,
		  uint64_t overhead_ns)
{
	uint64_t end = run->now + (uint64_t)(seconds * S), changed = 0;

	while (run->now < end) {
		uint64_t step = 2000000;
		enum windows_action action;
		double cpu = run->cpu;

		pass(run, p, w, w->open, step);
		run->window_cpu += w->open ? run->cpu - cpu : 0;
		if (run->opened && run->cost > run->most * run->cpu)
			run->most = run->cost / run->cpu;
		action = windows__step(w, run->now, run->told, run->cpu);
		if (!action)
			continue;
		if (changed && run->opened < 4096)
			(action == WINDOWS_OPEN ? run->gaps : run->lengths)[run->opened] =
				(double)(run->now - changed) / 1e6;
		/* during the opening, calls already meet probes */
		pass(run, p, w, true, overhead_ns);
		windows__done(w, action, run->now, run->told, run->cpu);
		changed = run->now;
		run->opened += action == WINDOWS_OPEN;
	}
}

static double loss(const struct run *run, const struct program *p)
{
	/* share of the calls that were lost: untraced, the program would have made them in the same
	 * CPU time */
	return 1 - run->calls * p->own_ns / run->cpu;
}

static void budget_is_kept(void **state)
{
	static const double budgets[] = {0.01, 0.05, 0.2};
	static const double own[] = {5, 100, 1000};

	(void)state;
	for (int b = 0; b < 3; b++)
		for (int o = 0; o < 3; o++)
			for (int busy = 0; busy < 2; busy++) {
				struct program p = {own[o], 500, busy ? 1 : 0.6};
				struct windows w;
				struct run run = {.now = 1};
				double paid;

				windows__begin(&w, budgets[b], budgets[b], (uint64_t)(b * 10 + o),
					       1, 0, 0);
				drive(&w, &run, &p, 120, 3000000);
				assert_false(w.continuous);
				/* The limit also counts time in which the process leaves its core
				 * idle. */
				paid = fmax(run.cpu, (double)run.now);
				assert_true(run.window_cpu / paid > 0.6 * budgets[b]);
				assert_true(run.window_cpu / paid < 1.02 * budgets[b]);
				assert_true(run.most < 1.05 * budgets[b] * paid / run.cpu);
				assert_true(loss(&run, &p) < 1.02 * budgets[b] * paid / run.cpu);
				assert_true(fabs(run.told + w.felt_ns - run.cost) <
					    0.05 * run.cost);
				assert_true(run.opened > (budgets[b] < 0.02 ? 10 : 40));
			}
}

static void what_fits_is_continuous(void **state)
{
	struct program p = {50000, 500, 1}; /* 20,000 calls a second */
	struct windows w;
	struct run run = {.now = 1};

	(void)state;
	windows__begin(&w, 0.05, 0.05, 1, 1, 0, 0);
	drive(&w, &run, &p, 20, 3000000);
	assert_true(w.continuous);
	assert_int_equal(run.opened, 0);
	assert_int_equal(run.open_ns, run.now - 1);
}

/* Windows aim at a lower cost than continuous tracing may have. */
static void continuous_tracing_may_cost_more(void **state)
{
	struct program p = {12500, 500, 1}; /* 4 % */
	struct windows w;
	struct run run = {.now = 1};
	double cost, cpu;

	(void)state;
	windows__begin(&w, 0.03, 0.05, 1, 1, 0, 0);
	drive(&w, &run, &p, 20, 3000000);
	assert_true(w.continuous);
	assert_int_equal(run.opened, 0);
	p.own_ns = 8000; /* 5.9 % */
	drive(&w, &run, &p, 20, 3000000);
	assert_false(w.continuous);
	cost = run.cost;
	cpu = run.cpu;
	drive(&w, &run, &p, 60, 3000000);
	assert_true((run.cost - cost) / (run.cpu - cpu) < 0.035);
	p.own_ns = 10300; /* 4.6 %: windows stay, so that the mode does not change often */
	drive(&w, &run, &p, 20, 3000000);
	assert_false(w.continuous);
	p.own_ns = 12500;
	drive(&w, &run, &p, 20, 3000000);
	assert_true(w.continuous);
}

static void a_little_of_a_core_is_continuous(void **state)
{
	struct program p = {1000, 500, 0.08}; /* 80,000 calls a second, otherwise idle */
	struct windows w;
	struct run run = {.now = 1};

	(void)state;
	windows__begin(&w, 0.05, 0.05, 1, 1, 0, 0);
	drive(&w, &run, &p, 20, 3000000);
	assert_true(w.continuous);
	p.busy = 0.12;
	drive(&w, &run, &p, 20, 3000000);
	assert_false(w.continuous);
}

static void no_limit_is_continuous(void **state)
{
	struct program p = {5, 500, 1};
	struct windows w;
	struct run run = {.now = 1};

	(void)state;
	windows__begin(&w, 0, 0, 1, 1, 0, 0);
	drive(&w, &run, &p, 20, 3000000);
	assert_int_equal(run.open_ns, run.now - 1);
}

static void bursts_end_continuous_tracing_at_once(void **state)
{
	struct program quiet = {100000, 500, 1}, wild = {5, 500, 1};
	struct windows w;
	struct run run = {.now = 1};
	double cost;
	uint64_t open;

	(void)state;
	windows__begin(&w, 0.05, 0.05, 1, 1, 0, 0);
	drive(&w, &run, &quiet, 10, 3000000);
	assert_true(w.continuous);
	open = run.open_ns;
	cost = run.cost;
	drive(&w, &run, &wild, 0.5, 3000000);
	assert_false(w.continuous);
	assert_true(run.open_ns - open < 0.25 * S);
	assert_true(run.cost - cost < 0.25 * S);
	/* the excess cost is made up for later */
	drive(&w, &run, &wild, 20, 3000000);
	assert_true(run.cost / run.cpu < 0.055);
	drive(&w, &run, &quiet, 20, 3000000);
	assert_true(w.continuous);
}

static void idle_processes_cost_nothing(void **state)
{
	struct program idle = {1000, 500, 0}, wild = {5, 500, 1};
	struct windows w;
	struct run run = {.now = 1};

	(void)state;
	windows__begin(&w, 0.05, 0.05, 1, 1, 0, 0);
	drive(&w, &run, &wild, 5, 3000000);
	drive(&w, &run, &idle, 60, 3000000); /* the process is nearly stopped */
	drive(&w, &run, &wild, 20, 3000000);
	assert_true(run.cost / run.cpu < 0.06);
	assert_true(run.cost / run.cpu > 0.03);
}

/* The CPU that the process used before says nothing about what it uses now. */
static void gaps_follow_the_process(void **state)
{
	struct program idle = {100000, 500, 0.001}, wild = {5, 500, 1};
	struct windows w;
	struct run run = {.now = 1};

	(void)state;
	windows__begin(&w, 0.05, 0.05, 1, 1, 0, 0);
	drive(&w, &run, &idle, 5, 3000000);
	assert_true(w.continuous);
	drive(&w, &run, &wild, 10, 3000000);
	assert_true(run.opened >= 5);
	assert_true(run.cost / run.cpu < 0.06);
}

static void windows_of_tests_are_short(void **state)
{
	struct program p = {5, 500, 1};
	struct windows w;
	struct run run = {.now = 1};

	(void)state;
	windows__begin(&w, 0.2, 0.2, 1, 1, 0, 0);
	windows__set_period(&w, 50000000);
	drive(&w, &run, &p, 20, 1000000);
	assert_true(run.opened > 200);
	assert_true(run.cost / run.cpu < 0.23);
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void lengths_and_gaps_are_random(void **state)
{
	static const double at[] = {0.05, 0.1, 0.25, 0.5, 0.75, 0.9};
	struct program p = {5, 500, 1};
	struct run *run = test_calloc(1, sizeof(*run));
	struct windows w;
	double sum = 0;

	(void)state;
	run->now = 1;
	windows__begin(&w, 0.05, 0.05, 1, 1, 0, 0);
	drive(&w, run, &p, 4000, 3000000);
	assert_in_range(run->opened, 3000, 4095);
	for (size_t i = 2; i < 3002; i++)
		sum += run->gaps[i];
	qsort(run->gaps + 2, 3000, sizeof(double), compare);
	qsort(run->lengths + 2, 3000, sizeof(double), compare);
	/* gaps are exponential, except for the time between two steps */
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		assert_true(fabs(run->gaps[2 + (size_t)(3000 * at[i])] +
				 log1p(-at[i]) * sum / 3000) < 0.12 * sum / 3000);
	assert_true(run->gaps[2 + 30] < 25);
	assert_true(run->gaps[2 + 2999] > 3.5 * sum / 3000);
	/* lengths are uniform */
	assert_true(run->lengths[2 + 1500] > 40 && run->lengths[2 + 1500] < 52);
	assert_true(run->lengths[2 + 30] < 30 && run->lengths[2 + 2970] > 60);
	test_free(run);
}

/* A process works at its start, then sleeps. It is traced continuously again when so much time has
 * passed that the cost of the start is within the limit. */
static void idle_processes_are_traced_continuously_again(void **state)
{
	struct program wild = {5, 500, 1}, asleep = {1000, 500, 1e-4};
	struct windows w;
	struct run run = {.now = 1};

	(void)state;
	windows__begin(&w, 0.05, 0.05, 1, 1, 0, 0);
	drive(&w, &run, &wild, 0.2, 3000000);
	assert_false(w.continuous);
	drive(&w, &run, &asleep, 1.2, 3000000);
	assert_true(w.continuous);
	drive(&w, &run, &asleep, 60, 3000000);
	assert_true(w.continuous);
	assert_int_equal(run.opened, 1);
	/* The process wakes up and is traced in windows. It goes to sleep again, and is traced
	 * continuously again. */
	drive(&w, &run, &wild, 20, 3000000);
	assert_false(w.continuous);
	drive(&w, &run, &asleep, 10, 3000000);
	assert_true(w.continuous);
}

/* A process that waits for a CPU which others use is not idle. */
static void starved_processes_are_not_idle(void **state)
{
	struct program wild = {5, 500, 1}, starved = {5, 500, 1e-4};
	struct windows w;
	struct run run = {.now = 1};

	(void)state;
	windows__begin(&w, 0.05, 0.05, 1, 1, 0, 0);
	drive(&w, &run, &wild, 2, 3000000);
	w.spare = 0;
	drive(&w, &run, &starved, 20, 3000000);
	assert_false(w.continuous);
	starved.busy = 0; /* it gets no CPU, and the machine's idle time is a rounding error */
	w.spare = 1e-4;
	drive(&w, &run, &starved, 5, 3000000);
	assert_false(w.continuous);
	assert_true(run.cost / run.cpu < 0.06);
	w.sleeps = true; /* the process sleeps, so a busy machine does not matter */
	drive(&w, &run, &starved, 2, 3000000);
	assert_true(w.continuous);
}

/* A process is idle and runs at full speed in turn. Continuous tracing would be too costly at the
 * start of each burst. So continuous tracing ends, and the limit is kept. */
static void bursts_are_met_in_windows(void **state)
{
	struct program wild = {5, 500, 1}, asleep = {1000, 500, 0};
	struct windows w;
	struct run run = {.now = 1};
	uint64_t continuous_ns;

	(void)state;
	windows__begin(&w, 0.05, 0.05, 1, 1, 0, 0);
	for (int i = 0; i < 60; i++) {
		drive(&w, &run, &wild, 1, 3000000);
		drive(&w, &run, &asleep, 1, 3000000);
	}
	assert_true(run.cost / run.cpu < 0.055);
	assert_true(run.opened > 20);
	continuous_ns = w.continuous_ns;
	for (int i = 0; i < 30; i++) {
		drive(&w, &run, &wild, 1, 3000000);
		drive(&w, &run, &asleep, 1, 3000000);
	}
	assert_true(w.continuous_ns - continuous_ns < 3 * S);
}

/* Windows of a program that calls seldom last for a third of a second. When the program gets much
 * work in such a window, the window ends soon. */
static void a_window_ends_when_work_sets_in(void **state)
{
	struct program seldom = {20000, 500, 1}, wild = {5, 500, 1};

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct windows w;
		struct run run = {.now = 1};
		double cost;

		windows__begin(&w, 0.01, 0.01, seed, 1, 0, 0);
		drive(&w, &run, &seldom, 20, 3000000);
		assert_true(windows__longest_ns(&w) > 0.3 * S);
		for (int i = 0; i < 10000 && !w.open; i++)
			drive(&w, &run, &seldom, 0.002, 3000000);
		assert_true(w.open && !w.continuous);
		cost = run.cost;
		for (int i = 0; i < 1000 && w.open; i++)
			drive(&w, &run, &wild, 0.002, 3000000);
		assert_true(run.cost - cost < 0.13 * S);
	}
}

/* Windows of a program that calls seldom are long. If its probes are removed because it has just
 * become busy, the next window is as short as for a program that was always busy. */
static void what_is_recent_replaces_what_was_learnt(void **state)
{
	struct program seldom = {20000, 500, 1};
	struct windows w;
	struct run run = {.now = 1};

	(void)state;
	windows__begin(&w, 0.01, 0.01, 1, 1, 0, 0);
	drive(&w, &run, &seldom, 20, 3000000);
	windows__hold(&w, run.now, run.told, run.cpu);
	windows__cut(&w, run.now + 60000000, run.told + 0.03 * S, run.cpu + 0.06 * S,
		     &(struct windows_rates){.cost = 0.5, .cpu = 1});
	assert_true(windows__longest_ns(&w) < 0.02 * S);
}

/* A program uses a tenth of a core, and probes make it twenty times slower. If the machine has an
 * idle core, the program has as many windows as a program that is always busy. They cost a
 * hundredth of a core, and are open for a hundredth of the time. If the machine has no idle core,
 * windows may cost only a hundredth of the program's own CPU time, so there are fewer. */
static void light_work_is_seen(void **state)
{
	struct program light = {50, 1000 / WINDOWS_FELT, 0.1};

	(void)state;
	for (int idle = 0; idle < 2; idle++) {
		struct windows w;
		struct run run = {.now = 1};

		windows__begin(&w, 0.01, 0.05, 7, 1, 0, 0);
		w.spare = idle;
		drive(&w, &run, &light, 60, 3000000);
		assert_false(w.continuous);
		assert_true(idle ? run.opened > 15 : run.opened < 6);
		assert_true(run.cost < 0.0105 * (idle ? (double)run.now : run.cpu));
		assert_true((double)run.open_ns < 0.011 * (double)run.now);
	}
}

/* A program uses a twentieth of a core, and probes make it 25 times slower. Traced continuously it
 * would use all of a core. Windows show that, so continuous tracing is tried once at most. The
 * limit then remains for windows. */
static void light_work_that_is_dear_stays_in_windows(void **state)
{
	struct program light = {50, 1200 / WINDOWS_FELT, 0.046};

	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct windows w;
		struct run run = {.now = 1};

		windows__begin(&w, 0.01, 0.05, seed, 1, 0, 0);
		drive(&w, &run, &light, 60, 3000000);
		assert_true(w.continuous_ns < 0.06 * S);
		assert_true(run.opened > 10);
		assert_true(run.cost < 0.0105 * (double)run.now);
	}
}

/* memtrace was stopped for a minute, and its keeper removed the probes at the beginning of this
 * minute. So the window ended then, but the totals are read now. They do not tell how much CPU time
 * the process uses in windows. */
static void the_past_teaches_no_cpu_time(void **state)
{
	struct program busy = {1000, 500 / WINDOWS_FELT, 1};
	struct windows w;
	struct run run = {.now = 1};
	double used, cost;

	(void)state;
	windows__begin(&w, 0.01, 0.01, 1, 1, 0, 0);
	drive(&w, &run, &busy, 20, 3000000);
	while (!w.open)
		drive(&w, &run, &busy, 0.002, 3000000);
	used = w.used_rate;
	cost = w.cost_rate / w.felt;
	windows__cut(&w, w.since_ns + 1000000, w.cost_ns + cost * 1e6, w.cpu_ns + 60 * S,
		     &(struct windows_rates){cost, used});
	assert_float_equal(w.used_rate, used, 1e-9);
	assert_float_equal(w.cost_rate / w.felt, cost, 1e-9);
}

/* The machine has no idle core. A program uses a third of a core. In windows it uses most of a
 * core, because they make it slower. Windows affect few requests, so they may cost as much as the
 * limit allows. In half a minute there are enough windows for an estimate. */
static void light_work_uses_its_limit(void **state)
{
	struct program light = {20000, 30000 / WINDOWS_FELT, 0.33};
	struct windows w;
	struct run run = {.now = 1};

	(void)state;
	windows__begin(&w, 0.01, 0.05, 7, 1, 0, 0);
	w.spare = 0;
	drive(&w, &run, &light, 30, 3000000);
	assert_true(run.opened >= 6);
	assert_true(run.cost > 0.006 * run.cpu && run.cost < 0.0105 * run.cpu);
}

/* Requests that are served in a window take longer. If probes make them much slower, the share of
 * work in windows is limited, too, and not only the cost. */
static void few_requests_are_touched(void **state)
{
	/* in windows, probes take a third of server's CPU time, and a tenth of mild's */
	struct program server = {1000, 500 / WINDOWS_FELT, 1},
		       mild = {9000, 1000 / WINDOWS_FELT, 1};
	struct windows w;
	struct run run = {.now = 1};

	(void)state;
	windows__begin(&w, 0.01, 0.01, 1, 1, 0, 0);
	drive(&w, &run, &server, 120, 3000000);
	assert_in_range(run.window_cpu, 0.007 * 120 * S, 0.0102 * 120 * S);
	assert_true(run.opened > 50);
	run = (struct run){.now = 1};
	windows__begin(&w, 0.01, 0.01, 1, 1, 0, 0);
	drive(&w, &run, &mild, 120, 3000000);
	assert_true((double)run.open_ns > 0.08 * 120 * S);
	assert_true(run.cost / run.cpu < 0.0105);
}

/* Probes make this process slower than most. Some windows show this. Then the whole cost of later
 * windows counts for the limit and is reported. */
static void what_is_felt_is_paid_for(void **state)
{
	struct program mild = {9000, 500, 1};
	struct windows w;
	struct run run = {.now = 1, .felt = 2};
	double cost, cpu;
	unsigned opened;

	(void)state;
	windows__begin(&w, 0.05, 0.05, 1, 1, 0, 0);
	drive(&w, &run, &mild, 10, 3000000);
	assert_true(run.cost / run.cpu > 0.06);
	windows__feel(&w, 2);
	assert_float_equal(run.told + w.felt_ns, run.cost, 0.03 * run.cost);
	cost = run.cost;
	cpu = run.cpu;
	drive(&w, &run, &mild, 50, 3000000);
	assert_true((run.cost - cost) / (run.cpu - cpu) < 0.053);
	assert_true((run.cost - cost) / (run.cpu - cpu) > 0.04);
	assert_float_equal(run.told + w.felt_ns, run.cost, 0.03 * run.cost);
	/* after an hour of windows, a new value of `felt` does not stop them */
	w.windows_cost_ns = 60 * S;
	opened = run.opened;
	windows__feel(&w, 3);
	drive(&w, &run, &mild, 20, 3000000);
	assert_true(run.opened > opened + 3);
	windows__feel(&w, 100); /* more than any real process has */
	assert_true(w.felt <= WINDOWS_FELT_MOST);
	windows__feel(&w, 0);
	assert_true(w.felt >= WINDOWS_FELT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(budget_is_kept),
		cmocka_unit_test(what_fits_is_continuous),
		cmocka_unit_test(continuous_tracing_may_cost_more),
		cmocka_unit_test(a_little_of_a_core_is_continuous),
		cmocka_unit_test(no_limit_is_continuous),
		cmocka_unit_test(bursts_end_continuous_tracing_at_once),
		cmocka_unit_test(idle_processes_cost_nothing),
		cmocka_unit_test(gaps_follow_the_process),
		cmocka_unit_test(windows_of_tests_are_short),
		cmocka_unit_test(lengths_and_gaps_are_random),
		cmocka_unit_test(idle_processes_are_traced_continuously_again),
		cmocka_unit_test(starved_processes_are_not_idle),
		cmocka_unit_test(bursts_are_met_in_windows),
		cmocka_unit_test(a_window_ends_when_work_sets_in),
		cmocka_unit_test(what_is_recent_replaces_what_was_learnt),
		cmocka_unit_test(light_work_is_seen),
		cmocka_unit_test(light_work_that_is_dear_stays_in_windows),
		cmocka_unit_test(light_work_uses_its_limit),
		cmocka_unit_test(the_past_teaches_no_cpu_time),
		cmocka_unit_test(few_requests_are_touched),
		cmocka_unit_test(what_is_felt_is_paid_for),
	};

	return cmocka_run_group_tests_name("windows", tests, NULL, NULL);
}
