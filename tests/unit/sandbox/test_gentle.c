// SPDX-License-Identifier: BSD-2-Clause
/* Tests when a child takes breaks, on a machine that is made up: a fake clock, one CPU for the
 * child, and perhaps another process that needs the same CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sandbox/gentle.h"

#define US   1000ULL
#define MS   (1000 * US)
#define S    (1000 * MS)
#define STEP (20 * US)

#define TURN (3 * MS) /* of the scheduler */

/* The other process gets the CPU when the child sleeps, or after a turn of the child. If it takes
 * offers (sched_yield()), it also gets the CPU at an offer. It then keeps the CPU for a turn. */

struct machine {
	struct gentle gentle;
	struct gentle_times now;
	bool rival; /* is there another process? */
	bool takes_offers;
	uint64_t child_ns;   /* how long the child has had the CPU since the other process had it */
	uint64_t longest_ns; /* the largest child_ns so far */
	uint64_t slept_ns, sleeps;
};

static void begin(struct machine *m, uint64_t until_ns)
{
	*m = (struct machine){.now = {.wall_ns = 7 * S, .cpu_ns = 3 * MS}};
	gentle__init(&m->gentle, m->now.wall_ns + until_ns, 0, &m->now);
}

static void give_turn(struct machine *m)
{
	m->now.wall_ns += TURN;
	m->now.waited_ns += TURN;
	m->child_ns = 0;
}

static void work(struct machine *m, uint64_t ns)
{
	m->now.wall_ns += ns;
	m->now.cpu_ns += ns;
	m->child_ns += ns;
	if (m->child_ns > m->longest_ns)
		m->longest_ns = m->child_ns;
	if (m->rival && m->child_ns >= TURN)
		give_turn(m);
}

static void take_break(struct machine *m)
{
	uint64_t pause_ns = gentle__pause(&m->gentle, &m->now);

	m->now.wall_ns += pause_ns;
	m->slept_ns += pause_ns;
	m->sleeps += pause_ns != 0;
	if (pause_ns)
		m->child_ns = 0;
	if (m->rival && !pause_ns && m->takes_offers)
		give_turn(m);
	m->now.wall_ns += 2 * US;
}

/* Lets the child work for this much CPU time. Returns how long it took. */
static uint64_t run(struct machine *m, uint64_t cpu_ns)
{
	uint64_t start_ns = m->now.wall_ns, end_ns = m->now.cpu_ns + cpu_ns;

	while (m->now.cpu_ns < end_ns) {
		uint64_t due_ns = m->now.wall_ns + GENTLE_BURST_NS;

		while (m->now.wall_ns < due_ns)
			work(m, STEP);
		take_break(m);
	}
	return m->now.wall_ns - start_ns;
}

static void test_full_speed_on_an_idle_cpu(void **state)
{
	struct machine m;

	(void)state;
	begin(&m, 100 * S);
	assert_in_range(run(&m, S), S, 1050 * MS);
	/* The child sleeps now and then nevertheless: another process may wait in another
	 * cgroup. */
	assert_in_range(m.sleeps, 500, 1100);
	assert_int_equal(m.slept_ns, m.sleeps * GENTLE_NAP_NS);
}

static void assert_gentle(bool takes_offers)
{
	struct machine m;

	begin(&m, 100 * S);
	m.rival = true;
	m.takes_offers = takes_offers;
	run(&m, 10 * MS); /* until the child has noticed the other process */
	m.longest_ns = 0;
	/* the child runs for about one part in GENTLE_SHARE of the time, less what the other
	 * process takes */
	assert_in_range(run(&m, S), (GENTLE_SHARE - 1) * S, (GENTLE_SHARE + 1) * S);
	assert_in_range(m.longest_ns, GENTLE_BURST_NS, 2 * GENTLE_BURST_NS + STEP);

	m.rival = false; /* the other process ends */
	run(&m, GENTLE_CALM * GENTLE_BURST_NS);
	assert_in_range(run(&m, S), S, 1050 * MS);
}

static void test_gentle_beside_a_process_that_takes_offers(void **state)
{
	(void)state;
	assert_gentle(true);
}

/* Before the child has noticed the other process, the child's sleeps give the other process the
 * CPU. */
static void test_gentle_beside_a_process_in_another_cgroup(void **state)
{
	struct machine m;

	(void)state;
	begin(&m, 100 * S);
	m.rival = true;
	run(&m, 100 * MS);
	assert_in_range(m.longest_ns, 0, GENTLE_REST_NS + GENTLE_BURST_NS);
}

/* The child does not run, but is not ready to run either: it waits for a lock, or its CPU wakes up
 * late. */
static void test_time_away_is_no_wait(void **state)
{
	struct machine m;

	(void)state;
	begin(&m, 100 * S);
	for (int i = 0; i < 3; i++) {
		work(&m, GENTLE_BURST_NS);
		m.now.wall_ns += 2 * MS;
		assert_int_equal(gentle__pause(&m.gentle, &m.now), 0);
		m.now.wall_ns += 2 * MS;
	}
}

/* The child wakes up, and another process has its CPU. */
static void test_a_wait_after_a_sleep(void **state)
{
	struct machine m;

	(void)state;
	begin(&m, 100 * S);
	work(&m, GENTLE_REST_NS);
	assert_int_equal(gentle__pause(&m.gentle, &m.now), GENTLE_NAP_NS);
	m.now.wall_ns += GENTLE_NAP_NS;
	give_turn(&m);
	work(&m, GENTLE_BURST_NS);
	assert_int_equal(gentle__pause(&m.gentle, &m.now), (GENTLE_SHARE - 1) * GENTLE_BURST_NS);
}

/* The kernel's own threads take the CPU for a moment. */
static void test_short_waits(void **state)
{
	struct machine m;

	(void)state;
	begin(&m, 100 * S);
	work(&m, GENTLE_BURST_NS);
	m.now.waited_ns += GENTLE_WAIT_NS;
	assert_int_equal(gentle__pause(&m.gentle, &m.now), 0);
	work(&m, GENTLE_BURST_NS);
	m.now.waited_ns += GENTLE_WAIT_NS + 1;
	assert_int_equal(gentle__pause(&m.gentle, &m.now),
			 2 * GENTLE_BURST_NS * (GENTLE_SHARE - 1));
}

/* If the work before a pause took longer than a burst, the pause is longer in proportion. */
static void test_a_long_burst(void **state)
{
	struct machine m;

	(void)state;
	begin(&m, 100 * S);
	work(&m, 50 * MS);
	m.now.waited_ns += TURN;
	assert_int_equal(gentle__pause(&m.gentle, &m.now), 50 * MS * (GENTLE_SHARE - 1));
}

/* Even if others need the CPU all the time, the child's result is wanted, so its sleeps are
 * limited. */
static void test_not_for_ever(void **state)
{
	struct machine m;

	(void)state;
	begin(&m, 2 * S);
	m.rival = m.takes_offers = true;
	run(&m, 3 * S / GENTLE_SHARE);
	m.slept_ns = 0;
	run(&m, S);
	assert_int_equal(m.slept_ns, 0);

	begin(&m, MS); /* the last sleep ends in time */
	work(&m, 500 * US);
	m.now.wall_ns += 300 * US;
	m.now.waited_ns += 300 * US;
	assert_int_equal(gentle__pause(&m.gentle, &m.now), 200 * US);
}

/* The user's limit holds at all times: on an idle CPU, beside others, and when the child no longer
 * holds back for others. */
static void test_a_limit(void **state)
{
	static const double shares[] = {0.001, 0.05, 0.5, 0.99};

	(void)state;
	for (int i = 0; i < 8; i++) {
		double share = shares[i / 2];
		struct machine m;
		uint64_t took_ns;

		begin(&m, 100 * MS);
		m.gentle.max_share = share;
		m.rival = m.takes_offers = i % 2;
		took_ns = run(&m, S);
		assert_true((double)took_ns * share >= 0.999 * (double)S);
		if (!m.rival)
			assert_true((double)took_ns * share <= 1.06 * (double)S);
	}
}

static void test_no_break_before_it_begins(void **state)
{
	(void)state;
	gentle__step();
}

/* How often this process has slept. An offer of the CPU (sched_yield()) does not count. */
static long n_sleeps(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_nvcsw;
}

/* This process itself, by its real clocks. It is gentle from then on, so this is the last test. */
static void test_this_process_keeps_its_limit(void **state)
{
	const uint64_t start_cpu_ns = clock__now_ns(CLOCK_THREAD_CPUTIME_ID);
	const uint64_t start_ns = clock__now_ns(CLOCK_MONOTONIC);
	uint64_t cpu_ns = 0, paid_ns = 0;

	(void)state;
	gentle__begin(60, 0.1);
	while (cpu_ns < 20 * MS) {
		long slept = n_sleeps();

		cpu_ns = clock__now_ns(CLOCK_THREAD_CPUTIME_ID) - start_cpu_ns;
		gentle__step();
		if (n_sleeps() > slept)
			paid_ns = cpu_ns;
	}
	/* Work since the last break is not paid yet. It can be more than a burst: in a virtual
	 * machine, time that the host takes away may count as CPU time. */
	assert_true(paid_ns > 0);
	assert_true(clock__now_ns(CLOCK_MONOTONIC) - start_ns >= paid_ns * 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full_speed_on_an_idle_cpu),
		cmocka_unit_test(test_gentle_beside_a_process_that_takes_offers),
		cmocka_unit_test(test_gentle_beside_a_process_in_another_cgroup),
		cmocka_unit_test(test_time_away_is_no_wait),
		cmocka_unit_test(test_a_wait_after_a_sleep),
		cmocka_unit_test(test_short_waits),
		cmocka_unit_test(test_a_long_burst),
		cmocka_unit_test(test_not_for_ever),
		cmocka_unit_test(test_a_limit),
		cmocka_unit_test(test_no_break_before_it_begins),
		cmocka_unit_test(test_this_process_keeps_its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
