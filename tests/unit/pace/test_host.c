// SPDX-License-Identifier: BSD-2-Clause
/* The host's budget is kept, and is spent on the right processes. The processes of the simulated
 * machine count their own cost. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pace/host.h"
#include "pace/windows.h"

#define S	1e9
#define STEP_NS 10000000ULL
#define TICK	10 /* steps */
#define SLOTS	8
#define MAX	200
#define CPUS	4

/* A process that computes and calls. Each call takes own_ns, and cost_ns more while probes see
 * it. */
struct program {
	double own_ns, cost_ns;
	double busy;  /* share of a CPU that it wants */
	double grows; /* bytes per s */
	/* not traced, but also traps where probes are in the code of all processes */
	bool stranger;
};

struct process {
	struct program program;
	struct windows windows;
	struct host_process turn;
	double cost, cpu, rss;
	double open_cost, open_cpu;
	uint64_t open_ns, began_ns;
	unsigned turns;
};

struct machine {
	struct host host;
	struct process processes[MAX];
	size_t n;
	uint64_t now;
	double cost; /* of all processes */
	unsigned left, came_back, most_open;
	uint64_t attempts[16];
	bool was_busy;
};

static struct machine *machine(double budget, double own)
{
	struct machine *m = test_calloc(1, sizeof(*m));

	m->now = 1;
	m->host.spare = 1;
	host__begin(&m->host, budget, own, CPUS, m->now, 0);
	return m;
}

static struct process *add(struct machine *m, struct program program)
{
	struct process *p = &m->processes[m->n++];

	p->program = program;
	windows__begin(&p->windows, m->host.own, m->host.own, m->n, m->now, 0, 0);
	p->windows.n_windows = 0;
	windows__hold(&p->windows, m->now, 0, 0);
	return p;
}

static void pass(struct machine *m, struct process *p)
{
	bool seen = p->program.stranger ? m->host.everywhere : p->windows.open;
	double each = p->program.own_ns + (seen ? p->program.cost_ns : 0);
	double want = p->program.busy * each / p->program.own_ns;
	double cpu = (want < 1 ? want : 1) * (double)STEP_NS,
	       cost = seen ? cpu / each * p->program.cost_ns : 0;

	p->cpu += cpu;
	p->cost += cost;
	m->cost += cost;
	p->rss += p->program.grows * (double)STEP_NS / S;
	p->open_ns += seen ? STEP_NS : 0;
}

static void close_turn(struct machine *m, struct process *p, bool planned)
{
	if (planned)
		windows__done(&p->windows, WINDOWS_CLOSE, m->now, p->cost, p->cpu);
	else
		windows__cut(&p->windows, m->now, p->cost, p->cpu, NULL);
	host_process__learn(&p->turn, p->cost - p->open_cost, p->cpu - p->open_cpu);
	host_process__end_turn(&p->turn, m->now, p->cpu);
}

static void tick_everywhere(struct machine *m)
{
	bool over = false;

	host__book(&m->host, m->now, m->cost);
	for (size_t i = 0; i < m->n && host__is_busy(&m->host); i++) {
		struct process *p = &m->processes[i];

		if (!p->program.stranger)
			over |= host_process__judge(&p->turn, &m->host, &p->windows.thinning,
						    m->now, p->cost, 0, p->cpu);
	}
	if (over || (m->was_busy && host__is_over(&m->host))) {
		for (size_t i = 0; i < m->n; i++) {
			struct process *p = &m->processes[i];

			host_process__end_stretch(&p->turn, m->now, p->cost, p->cpu);
			windows__cut(
				&p->windows, m->now, p->cost, p->cpu,
				p->turn.known
					? &(struct windows_rates){p->turn.share * p->turn.cpu_rate,
								  p->turn.cpu_rate}
					: NULL);
			host_process__end_turn(&p->turn, m->now, p->cpu);
		}
		host__left(&m->host, m->now, m->now);
		m->left++;
	}
	m->was_busy = host__is_busy(&m->host);
}

static size_t close_due(struct machine *m, uint64_t turn_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		struct process *p = &m->processes[i];

		if (!p->windows.open)
			continue;
		if (windows__step(&p->windows, m->now, p->cost, p->cpu) == WINDOWS_CLOSE)
			close_turn(m, p, true);
		else if (p->windows.continuous && m->now - p->began_ns > turn_ns)
			close_turn(m, p, false);
		n += p->windows.open;
	}
	return n;
}

static void tick_windowed(struct machine *m, size_t n_open, uint64_t *turn_ns)
{
	struct process *best = NULL;
	double most = 0, pending = 0, sum = 0;
	bool over = false;
	size_t waiting = 0;

	host__book(&m->host, m->now, m->cost);
	for (size_t i = 0; i < m->n; i++) {
		struct process *p = &m->processes[i];
		double urgency;

		if (p->program.stranger)
			continue;
		if (host_process__watch(&p->turn, m->now, p->cpu))
			host_process__watch_size(&p->turn, m->now, (uint64_t)p->rss, 0);
		over |= host_process__forecast(&p->turn, &m->host, &sum);
		if (p->windows.open) {
			pending += p->windows.cost_rate * (double)(p->windows.next_ns - m->now);
			continue;
		}
		urgency = host_process__urgency(&p->turn, m->now);
		if (m->now < p->windows.next_ns || !(urgency > 0))
			continue;
		waiting++;
		if (urgency > most) {
			most = urgency;
			best = p;
		}
	}
	if (host__may_return(&m->host, m->now, sum, over)) {
		for (size_t i = 0; i < m->n; i++) {
			struct process *p = &m->processes[i];

			if (p->windows.open)
				close_turn(m, p, false);
			windows__hold(&p->windows, m->now, p->cost, p->cpu);
		}
		host__returned(&m->host, m->now);
		if (m->came_back < 16)
			m->attempts[m->came_back] = m->now;
		m->came_back++;
		return;
	}
	*turn_ns = n_open == SLOTS ? host__turn_ns(waiting, SLOTS) : UINT64_MAX;
	if (!best || n_open == SLOTS || !host__may_open(&m->host, pending) ||
	    windows__step(&best->windows, m->now, best->cost, best->cpu) != WINDOWS_OPEN)
		return;
	windows__done(&best->windows, WINDOWS_OPEN, m->now, best->cost, best->cpu);
	best->open_cost = best->cost;
	best->open_cpu = best->cpu;
	best->began_ns = m->now;
	best->turns++;
}

static void drive(struct machine *m, double seconds)
{
	uint64_t end = m->now + (uint64_t)(seconds * S), turn_ns = UINT64_MAX;

	for (unsigned step = 0; m->now < end; step++) {
		size_t n_open = 0;

		for (size_t i = 0; i < m->n; i++)
			pass(m, &m->processes[i]);
		m->now += STEP_NS;
		if (!m->host.everywhere)
			n_open = close_due(m, turn_ns);
		m->most_open = n_open > m->most_open ? (unsigned)n_open : m->most_open;
		if (step % TICK)
			continue;
		if (m->host.everywhere)
			tick_everywhere(m);
		else
			tick_windowed(m, n_open, &turn_ns);
	}
}

static const struct program WILD = {5, 500, 1, 0, false};
/* probes cost this process 1 % of its time: 2 ms a second */
static const struct program MODEST = {50000, 500, 0.2, 0, false};
static const struct program SLEEPING = {50000, 500, 0, 0, false};

static double share_of_machine(const struct machine *m)
{
	return m->cost / (CPUS * (double)m->now);
}

static void quiet_machines_are_traced_everywhere(void **state)
{
	struct machine *m = machine(0.02, 0.05);

	(void)state;
	for (int i = 0; i < 20; i++)
		add(m, i % 2 ? MODEST : SLEEPING);
	/* probes would take half of this process's time, but it hardly runs */
	add(m, (struct program){500, 500, 0.002, 0, false});
	drive(m, 60);
	assert_true(m->host.everywhere);
	assert_int_equal(m->left, 0);
	assert_int_equal(m->processes[1].open_ns, m->now - 1);
	test_free(m);
}

static void a_wild_one_costs_no_more_than_allowed(void **state)
{
	struct machine *m = machine(0.02, 0.05);
	struct process *wild = add(m, WILD);

	(void)state;
	for (int i = 0; i < 25; i++)
		add(m, i % 5 ? SLEEPING : MODEST);
	drive(m, 0.5);
	assert_false(m->host.everywhere);
	assert_true(wild->open_ns < 0.35 * S);
	drive(m, 120);
	assert_int_equal(m->left, 1);
	assert_true(share_of_machine(m) < 0.02 * 1.05);
	assert_true(wild->cost / wild->cpu < 0.05 * 1.15);
	assert_true(wild->cost / wild->cpu > 0.05 * 0.7);
	assert_true(wild->turns > 40);
	for (size_t i = 1; i < m->n; i++) {
		struct process *p = &m->processes[i];

		if (p->program.busy > 0) /* the budget suffices for the process nearly always */
			assert_true(p->open_ns > 0.9 * (double)m->now);
		else
			assert_int_equal(p->turns, 0);
	}
	assert_true(m->most_open <= SLOTS);
	test_free(m);
}

static void many_wild_ones_share_the_budget(void **state)
{
	struct machine *m = machine(0.02, 0.05);
	unsigned fewest = UINT32_MAX;

	(void)state;
	for (int i = 0; i < 20; i++)
		add(m, WILD);
	drive(m, 120);
	assert_true(share_of_machine(m) < 0.02 * 1.1);
	assert_true(share_of_machine(m) > 0.02 * 0.6);
	for (size_t i = 0; i < m->n; i++)
		fewest = m->processes[i].turns < fewest ? m->processes[i].turns : fewest;
	assert_true(fewest >= 2);
	test_free(m);
}

static void everybody_has_a_turn(void **state)
{
	struct machine *m = machine(0.02, 0.05);

	(void)state;
	add(m, WILD);
	for (int i = 0; i < 150; i++)
		add(m, (struct program){50000, 500, 0.05, 0, false});
	drive(m, 120);
	assert_false(m->host.everywhere);
	for (size_t i = 0; i < m->n; i++)
		assert_true(m->processes[i].turns >= 1);
	assert_int_equal(m->most_open, SLOTS);
	test_free(m);
}

static void growth_comes_first(void **state)
{
	struct machine *m = machine(0.02, 0.05);
	struct process *leak;
	unsigned others = 0;

	(void)state;
	for (int i = 0; i < 20; i++)
		add(m, WILD);
	leak = add(m, WILD);
	leak->program.grows = 1 << 20;
	drive(m, 120);
	for (int i = 0; i < 20; i++)
		others += m->processes[i].turns;
	assert_true(leak->turns > 2.5 * others / 20);
	assert_true(others > leak->turns); /* the others have turns, too */
	test_free(m);
}

static void it_comes_back_when_the_storm_is_over(void **state)
{
	struct machine *m = machine(0.02, 0.05);
	struct process *wild = add(m, WILD);

	(void)state;
	add(m, MODEST);
	drive(m, 30);
	assert_false(m->host.everywhere);
	wild->program = SLEEPING;
	drive(m, 20);
	assert_true(m->host.everywhere);
	assert_int_equal(m->came_back, 1);
	wild->program = WILD;
	drive(m, 1);
	assert_false(m->host.everywhere);
	test_free(m);
}

/* The stranger's cost shows only while probes are in the code of all processes. */
static void attempts_become_rare(void **state)
{
	struct machine *m = machine(0.02, 0.05);
	struct program stranger = WILD;

	(void)state;
	stranger.stranger = true;
	add(m, stranger);
	add(m, MODEST);
	drive(m, 300);
	assert_true(m->came_back >= 3 && m->came_back <= 6);
	for (unsigned i = 2; i < m->came_back; i++)
		assert_true(m->attempts[i] - m->attempts[i - 1] >
			    1.5 * (double)(m->attempts[i - 1] - m->attempts[i - 2]));
	assert_true(share_of_machine(m) < 0.02);
	test_free(m);
}

/* Probes are removed everywhere 60 ms after a process has become busy. These 60 ms tell how busy
 * the process is. Its idle time before them does not. */
static void a_stretch_that_ends_early_tells_what_is_recent(void **state)
{
	struct host host;
	struct thinning thinning;
	struct host_process p = {};
	const uint64_t second = 1000000000;

	(void)state;
	host__begin(&host, 0.02, 0.05, 2, second, 0);
	thinning__init(&thinning, 1, 1);
	for (uint64_t t = 2; t < 20; t++)
		assert_false(host_process__judge(&p, &host, &thinning, t * second / 2, 0, 0,
						 (double)t * 5e6));
	assert_true(p.share < 0.01 && p.cpu_rate < 0.02);
	host_process__end_stretch(&p, 19 * second / 2 + 60000000, 3e7, 19 * 5e6 + 6e7);
	assert_float_equal(p.share, 0.5, 1e-6);
	assert_float_equal(p.cpu_rate, 1, 1e-6);
}

static void without_a_host_limit_each_has_its_own(void **state)
{
	struct machine *m = machine(0, 0.05);

	(void)state;
	for (int i = 0; i < 6; i++)
		add(m, WILD);
	drive(m, 60);
	assert_false(m->host.everywhere);
	for (size_t i = 0; i < m->n; i++) {
		struct process *p = &m->processes[i];

		assert_true(p->cost / p->cpu < 0.05 * 1.2);
		assert_true(p->cost / p->cpu > 0.05 * 0.6);
	}
	test_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quiet_machines_are_traced_everywhere),
		cmocka_unit_test(a_wild_one_costs_no_more_than_allowed),
		cmocka_unit_test(many_wild_ones_share_the_budget),
		cmocka_unit_test(everybody_has_a_turn),
		cmocka_unit_test(growth_comes_first),
		cmocka_unit_test(it_comes_back_when_the_storm_is_over),
		cmocka_unit_test(attempts_become_rare),
		cmocka_unit_test(a_stretch_that_ends_early_tells_what_is_recent),
		cmocka_unit_test(without_a_host_limit_each_has_its_own),
	};

	return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
