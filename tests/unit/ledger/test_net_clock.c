// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ledger/net_clock.h"
#include "profile/parts.h"

#define S 1000000000ULL

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static void test_cost_is_taken_off(void **state)
{
	struct net_clock c = {};

	(void)state;
	assert_near(net_clock__at(&c, 5), 0);
	assert_int_equal(net_clock__add(&c, 10 * S, 7e9, 1e9, NAN, NET_CLOCK_ENDS), 0);
	/* a gap: two seconds of CPU time */
	assert_int_equal(net_clock__add(&c, 12 * S, 9e9, 1e9, NAN, NET_CLOCK_ENDS), 0);
	/* a window, most of whose CPU time is cost */
	assert_int_equal(net_clock__add(&c, 13 * S, 10e9, 1.6e9, NAN, NET_CLOCK_ENDS), 0);
	assert_near(net_clock__at(&c, 10 * S), 0);
	assert_near(net_clock__at(&c, 11 * S), 1);
	assert_near(net_clock__at(&c, 13 * S), 3 - 0.6 * NET_CLOCK_FELT);
	assert_near(net_clock__at(&c, 99 * S), 3 - 0.6 * NET_CLOCK_FELT);
	assert_near(net_clock__cost_at(&c, 12 * S + S / 2), 0.3);
	net_clock__free(&c);
}

/* Net time advances even if the cost exceeds the CPU time. */
static void test_never_stands_still(void **state)
{
	struct net_clock c = {};

	(void)state;
	net_clock__add(&c, 1 * S, 0, 0, NAN, NET_CLOCK_ENDS);
	net_clock__add(&c, 2 * S, 1e9, 3e9, NAN, NET_CLOCK_ENDS);
	assert_true(net_clock__at(&c, 2 * S) > 0.01);
	net_clock__add(&c, 3 * S, 0.5e9, 2e9, NAN, NET_CLOCK_ENDS); /* totals that decrease */
	assert_true(net_clock__at(&c, 3 * S) >= net_clock__at(&c, 2 * S));
	net_clock__free(&c);
}

/* While the process rests, net_clock__rest() adds a point. Without this point, the rest would look
 * like low use. */
static void test_rest(void **state)
{
	struct net_clock c = {};

	(void)state;
	/* there is no earlier point, so nothing is added */
	assert_int_equal(net_clock__rest(&c, 1 * S), 0);
	assert_int_equal(c.n, 0);
	net_clock__add(&c, 10 * S, 7e9, 1e9, 500, NET_CLOCK_ENDS);
	net_clock__add(&c, 12 * S, 9e9, 1e9, 700, NET_CLOCK_NONE);
	assert_int_equal(net_clock__rest(&c, 20 * S), 0);
	assert_near(c.at[c.n - 1].work, 700);
	net_clock__add(&c, 21 * S, 10e9, 1e9, 900, NET_CLOCK_NONE);
	assert_near(net_clock__at(&c, 12 * S), 2);
	assert_near(net_clock__at(&c, 20 * S), 2);
	assert_near(net_clock__at(&c, 21 * S), 3);
	net_clock__free(&c);
}

/* The clock keeps few of the points in a gap, but it keeps the point at the end of each window. */
static void test_room(void **state)
{
	struct net_clock c = {};

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		assert_int_equal(net_clock__add(&c, (i + 1) * S / 100, (double)i * 1e7, 0, NAN,
						i % 100 ? NET_CLOCK_NONE : NET_CLOCK_ENDS),
				 0);
	assert_true(c.n <= NET_CLOCK_MAX);
	for (uint64_t i = 0; i < 1000; i++)
		assert_true(fabs(net_clock__at(&c, (i * 100 + 1) * S / 100) - (double)i) < 1e-6);
	net_clock__free(&c);
}

/* Windows of 30 ms, with gaps of half a second between them. Probes take the share `taken` of a
 * window's CPU time. This share is `felt` times their calibrated cost. share: the share of the work
 * that goes by the wall clock. */
static struct net_clock run_at(double taken, double felt, double share, int n)
{
	struct net_clock c = {};
	double cpu = 0, cost = 0, work = 0;
	uint64_t now = S;

	net_clock__add(&c, now, cpu, cost, work, NET_CLOCK_ENDS);
	for (int i = 0; i < n; i++) {
		double price = 0.03 * taken / felt, net;

		now += S / 2;
		cpu += 0.5e9;
		work += 0.5 * 1e6;
		net_clock__add(&c, now, cpu, cost, work, NET_CLOCK_NONE);
		/* The process is stopped while probes are placed. This time is not part of the
		 * window. */
		now += 3 * S / 1000;
		cpu += 0.003e9;
		cost += 0.001e9;
		net_clock__add(&c, now, cpu, cost, work, NET_CLOCK_BEGINS);
		price *= i % 2 ? 1.02 : 0.98;
		net = 0.03 - felt * price;
		now += 30 * S / 1000;
		cpu += 0.03e9;
		cost += price * 1e9;
		work += 1e6 * (share * 0.03 + (1 - share) * net);
		net_clock__add(&c, now, cpu, cost, work, NET_CLOCK_ENDS);
		net_clock__learn(&c);
	}
	return c;
}

static struct net_clock run_of(double felt, double share, int n)
{
	return run_at(0.9, felt, share, n);
}

/* Asserts that F (ledger/net_clock.h) is still `felt`, its initial value, within the error. F may
 * have changed a little, because a window must have some net time. */
static void assert_as_before(const struct net_clock *c, double felt, double error)
{
	error = hypot(error, NET_CLOCK_FELT_OFF_ERROR);
	assert_true(fabs(c->felt - felt) < error);
	assert_true(c->felt_error > error / 8 && c->felt_error <= error);
	assert_near(net_clock__error(c, 1, 0.5), c->felt_error / 2);
}

/* The CPU time of windows is r times their cost. For each r some net time is left. If much is left,
 * it is the CPU time less F times the cost. */
static void test_something_is_left(void **state)
{
	static const double ratios[] = {0.7, 0.9, 1, 1.15, 1.3, 2, 5, 50};

	(void)state;
	for (size_t k = 0; k < sizeof(ratios) / sizeof(*ratios); k++) {
		struct net_clock c = {};
		double left = ratios[k] - NET_CLOCK_FELT, net = 0;

		net_clock__add(&c, S, 0, 0, NAN, NET_CLOCK_ENDS);
		for (uint64_t i = 1; i < 10; i++) {
			double n = (double)i, cpu = n * 1e9;

			net_clock__add(&c, 2 * i * S, cpu, (n - 1) * 1e9 / ratios[k], NAN,
				       NET_CLOCK_BEGINS);
			net_clock__add(&c, (2 * i + 1) * S, cpu + 0.9e9, n * 1e9 / ratios[k], NAN,
				       NET_CLOCK_ENDS);
		}
		net_clock__learn(&c);
		for (uint64_t i = 1; i < 10; i++)
			net += net_clock__at(&c, (2 * i + 1) * S) - net_clock__at(&c, 2 * i * S);
		net /= 9 / ratios[k]; /* now a share of the cost */
		left -= 0.1 * ratios[k];
		assert_true(net > 0.01);
		if (left > 4 * NET_CLOCK_FELT_ERROR)
			assert_true(fabs(net / left - 1) < 0.12);
		else if (left < 0) /* the usual F would leave no net time */
			assert_true(net < 0.1);
		net_clock__free(&c);
	}
}

/* The bytes that a process reads and writes show how much CPU time its probes take. */
static void test_work_tells_what_is_felt(void **state)
{
	struct net_clock c;

	(void)state;
	for (double felt = 1.05; felt < 2.4; felt += 0.1) { /* nginx: up to 2.1 */
		c = run_of(felt, 0, 20);
		assert_true(fabs(c.felt / felt - 1) < 0.01);
		assert_true(c.net_error > 0 && c.net_error < 0.1);
		assert_true(net_clock__error(&c, 0.003, 0.03) == c.net_error);
		net_clock__free(&c);
	}
}

/* Probes take a quarter of a window's CPU time, but their calibrated cost is only a tenth of it.
 * The bytes that the process reads and writes show F in this case, too. memcached is such a
 * process. */
static void test_work_tells_what_little_cost_is_felt(void **state)
{
	struct net_clock c = run_at(0.25, 2.5, 0, 20);

	(void)state;
	assert_true(fabs(c.felt - 2.5) < NET_CLOCK_FELT_IO_ERROR);
	net_clock__free(&c);
}

/* A timer makes this process read and write as much per second in windows as between them. So the
 * bytes do not show how much CPU time the probes take. */
static void test_work_by_the_clock_is_not_believed(void **state)
{
	struct net_clock c = run_of(NET_CLOCK_FELT_IO, 1, 20);

	(void)state;
	assert_as_before(&c, NET_CLOCK_FELT_IO, NET_CLOCK_FELT_IO_ERROR);
	assert_near(c.net_error, 0);
	assert_near(net_clock__error(&c, 0.003, 0.3), NET_CLOCK_MOST_ERROR);
	net_clock__free(&c);
}

/* With too few windows, F cannot be estimated. For a process that reads and writes, F is assumed to
 * be larger than for a loop of malloc, and less certain. */
static void test_few_windows_teach_nothing(void **state)
{
	struct net_clock c = run_of(1.5, 0, 3);

	(void)state;
	assert_as_before(&c, NET_CLOCK_FELT_IO, NET_CLOCK_FELT_IO_ERROR);
	net_clock__free(&c);
}

/* A rare line in a log is too little work to show F. F keeps its value for a loop of malloc. */
static void test_little_work_is_none(void **state)
{
	struct net_clock c = {};

	(void)state;
	net_clock__add(&c, S, 0, 0, 0, NET_CLOCK_ENDS);
	for (uint64_t i = 1; i < 10; i++) {
		double n = (double)i;

		net_clock__add(&c, 2 * i * S, n * 1e9, (n - 1) * 5e8, n * 1e5, NET_CLOCK_BEGINS);
		net_clock__add(&c, (2 * i + 1) * S, n * 1e9 + 1e9, n * 5e8, n * 1e5,
			       NET_CLOCK_ENDS);
		net_clock__learn(&c);
	}
	assert_as_before(&c, NET_CLOCK_FELT, NET_CLOCK_FELT_ERROR);
	net_clock__free(&c);
}

/* A large file that is read once does not show F either. F keeps its value for a loop of malloc. */
static void test_a_lump_is_no_work(void **state)
{
	struct net_clock c = {};

	(void)state;
	net_clock__add(&c, S, 0, 0, 0, NET_CLOCK_ENDS);
	for (uint64_t i = 1; i < 20; i++) {
		double n = (double)i, work = i > 3 ? 1e8 : 0;

		net_clock__add(&c, 2 * i * S, n * 1e9, (n - 1) * 5e7, work, NET_CLOCK_BEGINS);
		net_clock__add(&c, (2 * i + 1) * S, n * 1e9 + 1e8, n * 5e7, work, NET_CLOCK_ENDS);
		net_clock__learn(&c);
	}
	assert_as_before(&c, NET_CLOCK_FELT, NET_CLOCK_FELT_ERROR);
	net_clock__free(&c);
}

/* A process that uses a quarter of a core, and waits 200,000 times per net second. Windows last 10
 * ms. Probes add `felt` times their calibrated cost of 6 ms to each window. In windows the process
 * waits `waits` times as often per net second as in gaps, and uses `rate` times as much net time
 * per second. */
static struct net_clock waiting_run(double felt, double waits, double rate, int n)
{
	struct net_clock c = {};
	double cpu = 0, cost = 0, waited = 0;
	uint64_t now = S;

	net_clock__init(&c, 600, 0);
	net_clock__add(&c, now, cpu, cost, NAN, NET_CLOCK_ENDS);
	net_clock__note_waits(&c, waited);
	for (int i = 0; i < n; i++) {
		double net = 0.0025 * rate * (i % 2 ? 1.05 : 0.95);

		now += S;
		cpu += 0.25e9;
		waited += 50000;
		net_clock__add(&c, now, cpu, cost, NAN, NET_CLOCK_BEGINS);
		net_clock__note_waits(&c, waited);
		now += S / 100;
		cpu += (net + felt * 0.006) * 1e9;
		cost += 0.006e9;
		waited += 200000 * net * waits;
		net_clock__add(&c, now, cpu, cost, NAN, NET_CLOCK_ENDS);
		net_clock__note_waits(&c, waited);
		net_clock__learn(&c);
	}
	return c;
}

/* Asserts that the interval of net time in the windows of waiting_run() holds the truth.
 * net_clock__error() gives the error of the logarithm of net time. */
static void assert_covers(const struct net_clock *c, double felt, double rate)
{
	double truth = 0.0025 * rate / 0.006, found = truth + felt - c->felt;

	assert_true(found > 0);
	assert_true(fabs(log(found / truth)) < 2 * net_clock__error(c, found, 1));
}

/* Waits show F. Without waits, F would keep its value for a loop of malloc. */
static void test_waits_tell_what_is_felt(void **state)
{
	(void)state;
	for (double felt = 1; felt < 2.1; felt += 0.1) {
		struct net_clock c = waiting_run(felt, 1, 1, 20);

		assert_true(fabs(c.felt - felt) < 0.2);
		assert_true(c.felt_error < 0.27);
		assert_covers(&c, felt, 1);
		net_clock__leave_out(&c, 1U << PART_WAITS);
		if (felt > 1.5)
			assert_true(fabs(c.felt - felt) > 0.2);
		net_clock__free(&c);
	}
}

/* If probes slow a process down so much that it waits only a tenth as often for the same work, the
 * lower limit of net time is far below the upper limit. Then bursts may have made the upper limit
 * wrong, so neither limit is used. */
static void test_a_busy_process_waits_less(void **state)
{
	struct net_clock c = waiting_run(1.1, 0.1, 1, 20);
	double felt = c.felt;

	(void)state;
	assert_covers(&c, 1.1, 1);
	net_clock__leave_out(&c, 1U << PART_WAITS);
	assert_near(c.felt, felt);
	net_clock__free(&c);
}

/* A batch job works for one second in ten, and waits often meanwhile. Windows are in its bursts,
 * where it always has work. The clock still knows of the bursts after hours, when most points have
 * been removed. */
static void test_bursts_tell_nothing(void **state)
{
	struct net_clock c = {};
	double cpu = 0, cost = 0, waits = 0, felt;
	uint64_t now = S;

	(void)state;
	net_clock__init(&c, 600, 0);
	net_clock__add(&c, now, cpu, cost, NAN, NET_CLOCK_ENDS);
	net_clock__note_waits(&c, waits);
	for (int i = 0; i < 5000; i++) {
		net_clock__add(&c, now += 9 * S, cpu, cost, NAN, NET_CLOCK_NONE);
		net_clock__add(&c, now += S, cpu += 1e9, cost, NAN, NET_CLOCK_BEGINS);
		net_clock__note_waits(&c, waits += 1000);
		cpu += 0.01e9;
		cost += 0.005e9;
		net_clock__add(&c, now += S / 100, cpu, cost, NAN, NET_CLOCK_ENDS);
		net_clock__note_waits(&c, waits += 2); /* fewer than in gaps: probes slow it down */
	}
	assert_true(c.n < 15000);
	net_clock__learn(&c);
	felt = c.felt;
	net_clock__leave_out(&c, 1U << PART_WAITS);
	assert_near(c.felt, felt);
	net_clock__free(&c);
}

/* If a process has most of its CPU time in windows, and waits for locks there, both limits are
 * wrong. Then F does not follow from them. */
static void test_waits_that_mislead_are_not_believed(void **state)
{
	struct net_clock c = waiting_run(1.1, 3, 1, 20);

	(void)state;
	assert_covers(&c, 1.1, 1);
	net_clock__free(&c);
	c = waiting_run(1.1, 3, 0.4, 20);
	assert_covers(&c, 1.1, 0.4);
	net_clock__free(&c);
}

/* A process that always has work, in gaps as in windows. Its other threads wait by a timer. */
static void test_waits_beside_work_tell_nothing(void **state)
{
	struct net_clock c = {};

	(void)state;
	net_clock__add(&c, S, 0, 0, NAN, NET_CLOCK_ENDS);
	net_clock__note_waits(&c, 0);
	for (uint64_t i = 1; i < 20; i++) {
		double n = (double)i;

		net_clock__add(&c, (2 * i) * S, (2 * n - 1) * 1e9, (n - 1) * 4e8, NAN,
			       NET_CLOCK_BEGINS);
		net_clock__note_waits(&c, (2 * n - 1) * 1000);
		net_clock__add(&c, (2 * i + 1) * S, 2 * n * 1e9, n * 4e8, NAN, NET_CLOCK_ENDS);
		net_clock__note_waits(&c, 2 * n * 1000);
		net_clock__learn(&c);
	}
	assert_as_before(&c, NET_CLOCK_FELT, NET_CLOCK_FELT_ERROR);
	net_clock__free(&c);
}

/* Few waits, and few windows, tell nothing. */
static void test_few_waits_tell_nothing(void **state)
{
	struct net_clock c = waiting_run(1.8, 1, 1, 3);

	(void)state;
	assert_as_before(&c, NET_CLOCK_FELT, NET_CLOCK_FELT_ERROR);
	net_clock__free(&c);
	c = waiting_run(1.8, 0.001, 1, 20);
	assert_as_before(&c, NET_CLOCK_FELT, NET_CLOCK_FELT_ERROR);
	net_clock__free(&c);
}

/* Net time between two times, without the time in windows. */
static void test_outside(void **state)
{
	struct net_clock c = {};

	(void)state;
	assert_near(net_clock__outside(&c, 0, S), 0);
	/* The process uses half of a core. In the window from 10 to 11 s it uses a whole core. Of
	 * this CPU time, F times half a second is cost. */
	net_clock__add(&c, 0, 0, 0, NAN, NET_CLOCK_NONE);
	net_clock__add(&c, 10 * S, 5e9, 0, NAN, NET_CLOCK_BEGINS);
	net_clock__add(&c, 11 * S, 6e9, 5e8, NAN, NET_CLOCK_ENDS);
	net_clock__add(&c, 21 * S, 11e9, 5e8, NAN, NET_CLOCK_NONE);
	assert_near(net_clock__outside(&c, 0, 21 * S), 10);
	assert_near(net_clock__outside(&c, 0, 30 * S), 10);
	assert_near(net_clock__outside(&c, 8 * S, 13 * S), 2);
	assert_near(net_clock__outside(&c, 10 * S, 11 * S), 0);
	assert_near(net_clock__outside(&c, 12 * S, 14 * S), 1);
	net_clock__free(&c);
}

/* Three stretches of 10 s, with gaps of 20 and 30 s. In stretches the process uses a whole core, of
 * which a tenth is cost, and in gaps half a core. It works only in gaps: 100 bytes a second. */
static struct net_clock stretches(void)
{
	struct net_clock c = {};

	net_clock__add(&c, 100 * S, 0, 0, 0, NET_CLOCK_NONE);
	net_clock__add(&c, 109 * S, 4.5e9, 0, 900, NET_CLOCK_ENDS); /* probes are placed */
	net_clock__add(&c, 110 * S, 5e9, 0, 1000, NET_CLOCK_BEGINS);
	net_clock__add(&c, 120 * S, 15e9, 1e9, 1000, NET_CLOCK_ENDS);
	net_clock__add(&c, 130 * S, 20e9, 1e9, 2000, NET_CLOCK_NONE);
	net_clock__add(&c, 139 * S, 24.5e9, 1e9, 2900, NET_CLOCK_ENDS);
	net_clock__add(&c, 140 * S, 25e9, 1e9, 3000, NET_CLOCK_BEGINS);
	net_clock__add(&c, 150 * S, 35e9, 2e9, 3000, NET_CLOCK_ENDS);
	net_clock__add(&c, 180 * S, 50e9, 2e9, 6000, NET_CLOCK_BEGINS);
	net_clock__add(&c, 190 * S, 60e9, 3e9, 6000, NET_CLOCK_ENDS);
	net_clock__add(&c, 200 * S, 65e9, 3e9, 7000, NET_CLOCK_NONE);
	return c;
}

/* The first of two stretches changes places with the gap after it. */
static void test_swap(void **state)
{
	const struct net_clock_swap swap = {109 * S, 110 * S, 120 * S, 140 * S};
	const double stretch_s = 10 - NET_CLOCK_FELT;
	struct net_clock c = stretches();
	double all = net_clock__at(&c, 200 * S);

	(void)state;
	assert_int_equal(net_clock_swap__begin_ns(&swap), 130 * S);
	assert_int_equal(net_clock__swap(&c, &swap, 1), 0);
	assert_near(net_clock__at(&c, 130 * S), 5 + 10);
	assert_near(net_clock__cost_at(&c, 130 * S), 0);
	assert_near(net_clock__at(&c, 115 * S), 15 / 2.0);
	assert_near(net_clock__at(&c, 150 * S), 15 + 2 * stretch_s);
	assert_near(net_clock__cost_at(&c, 150 * S), 2);
	assert_near(net_clock__at(&c, 200 * S), all);
	/* the start, the gap's end, the ends of the last two stretches, the beginning of the last
	 * stretch, and the end */
	assert_int_equal(c.n, 6);
	assert_int_equal(c.n_free, 2);
	assert_true(c.at[1].wall_ns == 130 * S && c.at[1].keep && c.at[1].window);
	assert_true(c.at[1].work == 3000 && c.at[2].work == 3000);
	net_clock__learn(&c); /* changes F */
	assert_near(net_clock__outside(&c, 100 * S, 150 * S), 15);
	net_clock__free(&c);
}

static void test_swap_what_was_swapped(void **state)
{
	const struct net_clock_swap swaps[] = {{109 * S, 110 * S, 120 * S, 140 * S},
					       {130 * S, 130 * S, 150 * S, 180 * S}};
	const double stretch_s = 10 - NET_CLOCK_FELT;
	struct net_clock c = stretches();

	(void)state;
	assert_int_equal(net_clock__swap(&c, swaps, 2), 0);
	assert_int_equal(c.n, 4);
	assert_near(net_clock__at(&c, 160 * S), 5 + 10 + 15);
	assert_near(net_clock__at(&c, 190 * S), 30 + 3 * stretch_s);
	assert_near(net_clock__at(&c, 200 * S), 35 + 3 * stretch_s);
	assert_true(c.at[1].wall_ns == 160 * S && c.at[1].work == 6000);
	net_clock__free(&c);
}

/* Finds the first edge of a kind in an interval of time. */
static void test_edges(void **state)
{
	struct net_clock c = stretches();

	(void)state;
	assert_int_equal(net_clock__edge_ns(&c, NET_CLOCK_ENDS, 110 * S, 140 * S), 120 * S);
	assert_int_equal(net_clock__edge_ns(&c, NET_CLOCK_ENDS, 120 * S + 1, 140 * S), 139 * S);
	assert_int_equal(net_clock__edge_ns(&c, NET_CLOCK_ENDS, 120 * S + 1, 139 * S), 0);
	assert_int_equal(net_clock__edge_ns(&c, NET_CLOCK_NONE, 0, 200 * S), 109 * S);
	assert_int_equal(net_clock__edge_ns(&c, NET_CLOCK_NONE, 109 * S + 1, 200 * S), 110 * S);
	net_clock__free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cost_is_taken_off),
		cmocka_unit_test(test_never_stands_still),
		cmocka_unit_test(test_rest),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_something_is_left),
		cmocka_unit_test(test_work_tells_what_is_felt),
		cmocka_unit_test(test_work_tells_what_little_cost_is_felt),
		cmocka_unit_test(test_work_by_the_clock_is_not_believed),
		cmocka_unit_test(test_few_windows_teach_nothing),
		cmocka_unit_test(test_little_work_is_none),
		cmocka_unit_test(test_a_lump_is_no_work),
		cmocka_unit_test(test_waits_tell_what_is_felt),
		cmocka_unit_test(test_a_busy_process_waits_less),
		cmocka_unit_test(test_bursts_tell_nothing),
		cmocka_unit_test(test_waits_that_mislead_are_not_believed),
		cmocka_unit_test(test_waits_beside_work_tell_nothing),
		cmocka_unit_test(test_few_waits_tell_nothing),
		cmocka_unit_test(test_outside),
		cmocka_unit_test(test_swap),
		cmocka_unit_test(test_swap_what_was_swapped),
		cmocka_unit_test(test_edges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
