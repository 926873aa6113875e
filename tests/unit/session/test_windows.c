// SPDX-License-Identifier: BSD-2-Clause
/* The budget is kept, by simulated processes that count for themselves what they were cost. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "session/windows.h"

#define S 1e9

/* A process that does nothing but compute and call: each call takes own_ns of it, and cost_ns more where it
 * is seen. */
struct program {
	double own_ns, cost_ns;
	double busy; /* share of wall time for which it wants a CPU */
};

struct run {
	double cost, cpu;	 /* totals, ns */
	double calls;
	uint64_t open_ns, now;
	unsigned opened, longest_gap_ms;
};

static void pass(struct run *run, const struct program *p, bool open, uint64_t ns)
{
	/* Seen, it wants the CPU for longer, at most all of it. */
	double want = p->busy * (open ? (p->own_ns + p->cost_ns) / p->own_ns : 1);
	double cpu = (want < 1 ? want : 1) * (double)ns;
	double calls = cpu / (open ? p->own_ns + p->cost_ns : p->own_ns);

	run->cpu += cpu;
	run->calls += calls;
	run->cost += open ? calls * p->cost_ns : 0;
	run->open_ns += open ? ns : 0;
	run->now += ns;
}

static void drive(struct windows *w, struct run *run, const struct program *p, double seconds,
		  uint64_t overhead_ns)
{
	uint64_t end = run->now + (uint64_t)(seconds * S), closed = 0;

	while (run->now < end) {
		uint64_t step = 2000000;
		enum windows_action action;

		pass(run, p, w->open, step);
		action = windows__step(w, run->now, run->cost, run->cpu);
		if (!action)
			continue;
		pass(run, p, true, overhead_ns); /* some probes are in place meanwhile */
		windows__done(w, action, run->now, run->cost, run->cpu);
		if (action == WINDOWS_OPEN) {
			run->opened++;
			if (closed && (run->now - closed) / 1000000 > run->longest_gap_ms)
				run->longest_gap_ms = (unsigned)((run->now - closed) / 1000000);
		} else {
			closed = run->now;
		}
	}
}

static double loss(const struct run *run, const struct program *p)
{
	/* against what it would have done untraced in the same CPU time */
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

				windows__begin(&w, budgets[b], budgets[b], (uint64_t)(b * 10 + o), 1, 0, 0);
				drive(&w, &run, &p, 120, 3000000);
				assert_false(w.continuous);
				assert_true(run.cost / run.cpu < 1.15 * budgets[b]);
				assert_true(run.cost / run.cpu > 0.7 * budgets[b]);
				assert_true(loss(&run, &p) < 1.2 * budgets[b]);
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

/* Windows aim at less than what continuous tracing may cost. */
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
	p.own_ns = 10300; /* 4.6 %: not to come and go */
	drive(&w, &run, &p, 20, 3000000);
	assert_false(w.continuous);
	p.own_ns = 12500;
	drive(&w, &run, &p, 20, 3000000);
	assert_true(w.continuous);
}

static void a_little_of_a_core_is_continuous(void **state)
{
	struct program p = {1000, 500, 0.08}; /* 80,000 calls a second, and idle else */
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
	/* and it is made up for */
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
	drive(&w, &run, &idle, 60, 3000000); /* stopped, perhaps */
	drive(&w, &run, &wild, 20, 3000000);
	assert_true(run.cost / run.cpu < 0.06);
	assert_true(run.cost / run.cpu > 0.03);
}

/* What it used of the CPU before says nothing of what it uses now. */
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

static void lengths_and_gaps_are_random(void **state)
{
	struct program p = {5, 500, 1};
	uint64_t last = 0, shortest = UINT64_MAX, longest = 0;
	struct windows w;
	struct run run = {.now = 1};

	(void)state;
	windows__begin(&w, 0.05, 0.05, 1, 1, 0, 0);
	for (int i = 0; i < 50; i++) {
		drive(&w, &run, &p, 0.1, 3000000);
		if (w.n_windows != last && last) {
			uint64_t length = w.next_ns - w.since_ns;

			shortest = length < shortest ? length : shortest;
			longest = length > longest ? length : longest;
		}
		last = w.n_windows;
	}
	assert_true(longest > shortest + shortest / 4);
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
	};

	return cmocka_run_group_tests_name("windows", tests, NULL, NULL);
}
