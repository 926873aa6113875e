// SPDX-License-Identifier: BSD-2-Clause
/* Thinning: the sampling interval is made coarser before windows are used. Tests first the
 * arithmetic alone, then the scheduler with thinning, on a simulated machine. */
#include "machine.h"
#include "pace/thinning.h"

/* --- by itself --- */

static void the_least_factor_that_fits(void **state)
{
	static const struct {
		double calls, samples;
		double factor;
	} cases[] = {
		{3, 5, 1},   {3, 12, 2},  {3, 13.2, 4}, {8.7, 1, 4}, {0, 500, 64},
		{0, 700, 0}, {8.9, 1, 0}, {20, 0, 0},	{0, 0, 1},
	};
	struct thinning t;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct thinning_costs costs = {cases[i].calls, cases[i].samples, 100, 0.1};
		struct thinning_costs closer = costs;

		thinning__init(&t, 1, 64);
		assert_true(thinning__fit(&t, &costs) == cases[i].factor);
		/* the result is the same if the cost is measured at an eighth of the interval */
		t.now = 0.125;
		closer.samples_ns *= 8;
		assert_true(thinning__fit(&t, &closer) == cases[i].factor);
	}
	thinning__init(&t, 0, 0); /* the interval must not be changed */
	assert_true(thinning__fit(&t, &(struct thinning_costs){3, 5, 100, 0.1}) == 1);
	assert_true(thinning__fit(&t, &(struct thinning_costs){3, 12, 100, 0.1}) == 0);
}

/* At a coarser interval, large blocks are still sampled nearly as often. So ever coarser intervals
 * are tried until the cost fits or no interval is left. */
static void it_is_tried_again(void **state)
{
	const struct thinning_costs dear = {3, 12, 100, 0.1};
	struct thinning t;
	unsigned tries = 0;

	(void)state;
	thinning__init(&t, 1, 64);
	for (uint64_t now = 1; thinning__coarsen(&t, &dear, now * 50 * MS); now++) {
		assert_true(t.factor > t.now);
		t.now = t.factor;
		tries++;
	}
	assert_in_range(tries, 2, 6);
	assert_true(t.factor >= 2 && t.factor <= 64);
}

/* --- on the simulated machine --- */

/* Calls cost this process 3 % of its time. Samples cost 9 % more at the requested interval. */
static const struct program SAMPLED = {16000, 500, 1, 1600};
static const struct program MODEST = {500000, 500, 0.2, 1};

static void check_thinned(struct machine *m, struct process *p)
{
	double cost, cpu;

	drive(m, 2);
	cost = p->cost;
	cpu = p->cpu;
	drive(m, 60);
	assert_true(p->pace.windows.continuous && p->inside);
	assert_int_equal(p->opened + p->closed + m->left, 0);
	assert_true(p->interval == 8); /* the first factor that fits: 3 + 10 / 8 % */
	assert_int_equal(p->coarser, 1);
	assert_true(p->cost - cost < LIMIT * (p->cpu - cpu));
}

static void samples_are_put_apart_before_there_are_windows(void **state)
{
	struct machine *m = machine(false);

	(void)state;
	check_thinned(m, add(m, SAMPLED));
	end(m);
	/* the same with probes in the code of all processes */
	m = machine(true);
	check_thinned(m, add(m, SAMPLED));
	end(m);
}

static void they_come_closer_when_they_can(void **state)
{
	for (int shared = 0; shared < 2; shared++) {
		struct machine *m = machine(shared);
		struct process *p = add(m, SAMPLED);

		drive(m, 10);
		assert_true(p->interval > 1);
		p->program.samples_ns = 20;
		drive(m, 12);
		assert_true(p->interval == 1);
		assert_true(p->pace.windows.continuous);
		/* the interval is made coarser again at once */
		p->program.samples_ns = 1600;
		drive(m, 2);
		assert_true(p->interval > 1);
		assert_true(p->pace.windows.continuous);
		assert_int_equal(p->closed + m->left, 0);
		end(m);
	}
	(void)state;
}

static void what_changes_all_the_time_stays_coarse(void **state)
{
	for (int shared = 0; shared < 2; shared++) {
		struct machine *m = machine(shared);
		struct process *p = add(m, SAMPLED);

		for (int i = 0; i < 30; i++) { /* ten minutes */
			p->program.samples_ns = 1600;
			drive(m, 2);
			p->program.samples_ns = 20;
			drive(m, 18);
		}
		assert_int_equal(p->closed + m->left, 0);
		assert_in_range(p->coarser, 2, 20);
		assert_true(p->cost < LIMIT * p->cpu);
		end(m);
	}
	(void)state;
}

/* Each process is within its own limit, but both together exceed the host's budget. */
static void all_of_them_are_put_apart_for_the_host(void **state)
{
	struct machine *m = machine(true);
	struct process *p = add(m, SAMPLED), *q = add(m, SAMPLED), *late;
	double cost;

	(void)state;
	drive(m, 90);
	assert_int_equal(m->left, 0);
	assert_true(p->interval > 8 && q->interval == p->interval);
	assert_in_range(p->coarser, 2, 5);
	cost = m->cost;
	drive(m, 30);
	assert_true(m->cost - cost < HOST * CPUS * 30 * S);
	assert_int_equal(m->left, 0);
	late = add(m, MODEST);
	drive(m, 0.2);
	assert_true(late->interval == p->interval);
	/* one process has ended, so the other one may again cost as much as its own limit */
	scheduler__end(&m->scheduler, &q->pace);
	q->gone = true;
	drive(m, 30);
	assert_true(p->interval == 8 && late->interval == 1);
	assert_int_equal(m->left, 0);
	end(m);
}

/* While processes take turns, the interval is not made coarser. When probes are in the code of all
 * processes again, the interval is as coarse as before the turns. */
static void turns_leave_the_way_everywhere_as_it_was(void **state)
{
	static const struct program wild = {5, 500, 1, 0};
	struct machine *m = machine(true);
	struct process *p = add(m, SAMPLED), *storm;
	unsigned left;

	(void)state;
	drive(m, 5);
	storm = add(m, wild);
	until(m, !m->everywhere && p->opened);
	drive(m, 20);
	storm->gone = true;
	scheduler__end(&m->scheduler, &storm->pace);
	p->program.samples_ns = 20;
	until(m, m->everywhere);
	drive(m, 60);
	assert_true(m->everywhere && p->interval == 1);
	left = m->left;
	p->program.samples_ns = 1600;
	drive(m, 20);
	assert_int_equal(m->left, left);
	assert_true(m->everywhere && p->interval == 8);
	end(m);
}

static void windows_are_for_calls_that_are_too_dear(void **state)
{
	static const struct program dear = {9000, 500, 1, 100};
	struct machine *m = machine(false);
	struct process *p = add(m, dear);

	(void)state;
	drive(m, 30);
	assert_false(p->pace.windows.continuous);
	assert_true(p->closed > 5);
	assert_true(p->interval == WINDOWS_INTERVAL);
	/* The finer interval of windows must not remain in continuous tracing. */
	p->program = SAMPLED;
	until(m, p->pace.windows.continuous && p->inside);
	drive(m, 30);
	assert_true(p->pace.windows.continuous && p->inside);
	assert_true(p->interval == 8);
	assert_int_equal(p->coarser, 1);
	end(m);
}

static void an_interval_that_was_asked_for_stays(void **state)
{
	struct machine *m = machine(false);
	struct process *p;

	(void)state;
	m->scheduler.limits.most_thinned = 1;
	p = add(m, SAMPLED);
	drive(m, 20);
	assert_false(p->pace.windows.continuous);
	assert_true(p->closed > 5);
	assert_int_equal(p->coarser, 0);
	end(m);
}

/* Calls cost this process 0.05 % of its time. Samples cost 0.001 % more at the requested
 * interval. */
static const struct program LIGHT = {1000000, 500, 0.3, 10};

static struct process *light(struct machine **ret, bool shared)
{
	struct machine *m = machine(shared);

	m->scheduler.limits.least_thinned = FINEST;
	*ret = m;
	return add(m, LIGHT);
}

static void light_work_is_sampled_closer(void **state)
{
	(void)state;
	for (int shared = 0; shared < 2; shared++) {
		struct machine *m;
		struct process *p = light(&m, shared), *q = add(m, SAMPLED);

		drive(m, 14);
		assert_true(p->interval == FINEST);
		assert_true(q->interval == 8);
		drive(m, 300);
		assert_true(p->interval == FINEST);
		assert_true(p->pace.windows.continuous && !m->left);
		assert_true(q->interval == 8);
		end(m);
	}
}

/* All processes together exceed the host's budget. So none of them gets a finer interval. */
static void closer_samples_give_way_to_the_host(void **state)
{
	struct machine *m;
	struct process *p = light(&m, true), *q, *r;

	(void)state;
	drive(m, 14);
	assert_true(p->interval == FINEST);
	q = add(m, SAMPLED);
	r = add(m, SAMPLED);
	drive(m, 50);
	assert_int_equal(m->left, 0);
	assert_true(q->interval > 8);
	assert_true(p->interval == q->interval && r->interval == q->interval);
	end(m);
}

/* The cost of samples rises, first to more than their part of the limit, and then above the
 * limit. */
static void closer_samples_give_way(void **state)
{
	struct machine *m;
	struct process *p = light(&m, false);
	double cost, cpu;

	(void)state;
	drive(m, 12);
	p->program.samples_ns = 0.4 * LIMIT * p->program.own_ns;
	drive(m, 30);
	assert_true(p->interval == 1);
	p->program.samples_ns = 10;
	drive(m, 30);
	assert_true(p->interval == FINEST);
	p->program.samples_ns = 2 * LIMIT * p->program.own_ns;
	drive(m, 10);
	assert_true(p->interval > 1);
	cost = p->cost;
	cpu = p->cpu;
	drive(m, 60);
	assert_true(p->cost - cost < LIMIT * (p->cpu - cpu));
	assert_true(p->pace.windows.continuous);
	assert_int_equal(p->closed, 0);
	end(m);
}

/* Samples take at most a twentieth of the limit. Here they take 0.02 of it at the requested
 * interval, so there may be twice as many samples. */
static void closer_samples_keep_their_part(void **state)
{
	struct machine *m;
	struct process *p = light(&m, false);

	(void)state;
	p->program.samples_ns = 0.02 * LIMIT * p->program.own_ns;
	drive(m, 30);
	assert_true(p->interval == 0.5);
	end(m);
}

static void enough_samples_are_enough(void **state)
{
	(void)state;
	for (int shared = 0; shared < 2; shared++) {
		struct machine *m;
		struct process *p = light(&m, shared);

		p->least = 0.25;
		drive(m, 12);
		assert_true(p->interval == 0.25);
		p->least = 1;
		drive(m, 12);
		assert_true(p->interval == 1);
		p->least = 0;
		drive(m, 12);
		assert_true(p->interval == FINEST);
		end(m);
	}
}

/* The cost of calls alone is nearly the limit. Without closer samples, the limit would be kept. */
static void closer_samples_do_not_lead_to_windows(void **state)
{
	struct machine *m;
	struct process *p = light(&m, false);

	(void)state;
	drive(m, 12);
	assert_true(p->interval == FINEST);
	p->program.samples_ns = 0.001 * LIMIT * p->program.own_ns;
	p->program.cost_ns = 0.96 * LIMIT * p->program.own_ns;
	drive(m, 60);
	assert_true(p->interval == 1);
	assert_true(p->pace.windows.continuous);
	assert_int_equal(p->closed, 0);
	end(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(light_work_is_sampled_closer),
		cmocka_unit_test(closer_samples_give_way_to_the_host),
		cmocka_unit_test(closer_samples_give_way),
		cmocka_unit_test(closer_samples_keep_their_part),
		cmocka_unit_test(enough_samples_are_enough),
		cmocka_unit_test(closer_samples_do_not_lead_to_windows),
		cmocka_unit_test(the_least_factor_that_fits),
		cmocka_unit_test(it_is_tried_again),
		cmocka_unit_test(samples_are_put_apart_before_there_are_windows),
		cmocka_unit_test(they_come_closer_when_they_can),
		cmocka_unit_test(what_changes_all_the_time_stays_coarse),
		cmocka_unit_test(all_of_them_are_put_apart_for_the_host),
		cmocka_unit_test(turns_leave_the_way_everywhere_as_it_was),
		cmocka_unit_test(windows_are_for_calls_that_are_too_dear),
		cmocka_unit_test(an_interval_that_was_asked_for_stays),
	};

	return cmocka_run_group_tests_name("thinning", tests, NULL, NULL);
}
