/* SPDX-License-Identifier: BSD-2-Clause */
/* A simulated machine for the scheduler. The processes of this machine count the cost of their
 * probes. Probes take time to be placed and removed. The clock advances only when the test says
 * so. */
#ifndef TESTS_UNIT_PACE_MACHINE_H
#define TESTS_UNIT_PACE_MACHINE_H

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pace/scheduler.h"

#define S		 1e9
#define MS		 1000000ULL
#define STEP_NS		 (2 * MS)
#define MAX		 64
#define CPUS		 4
#define LIMIT		 0.05
#define HOST		 0.02
#define FAVOUR		 0.15
#define THINNED		 64
#define FINEST		 (1.0 / 16)
#define WINDOWS_INTERVAL 0.125

/* Each call takes own_ns. With probes it takes cost_ns more; in windows, it takes WINDOWS_FELT
 * times cost_ns more. */
struct program {
	double own_ns, cost_ns;
	double busy; /* the share of a CPU that the program would use */
	/* the mean cost of samples per probed call, at the requested sampling interval */
	double samples_ns;
};

struct process {
	struct paced pace;
	struct program program;
	double told, told_samples, cost, cpu, calls, seen, noted_cpu, noted_cost;
	/* sampling interval, as a multiple of the requested one */
	double interval;
	/* lower limit of `interval`: even closer samples are refused */
	double least;
	unsigned coarser;		       /* how often the interval was made coarser */
	bool in, gone, fails, starved, inside; /* inside: a window has begun */
	uint64_t out_ns, window_ns;	       /* out_ns: when its own probes are removed */
	/* taken_until_ns: the end of the time that was harvested last. shortest_ns: the length of
	 * the shortest window; 0: there was none. */
	uint64_t taken_until_ns, shortest_ns;
	unsigned opened, closed, harvests, passed_over, last_looks, notes, adapted, restored;
};

struct machine {
	struct scheduler scheduler;
	struct process processes[MAX];
	size_t n;
	uint64_t now, open_takes_ns, close_takes_ns, harvest_takes_ns, all_out_ns;
	/* open_waits_ns: time for which an opening waits without using CPU time. own_cpu_ns: the
	 * scheduler's own CPU time so far. */
	uint64_t open_waits_ns, own_cpu_ns;
	bool is_full; /* other programs use all cores */
	bool shared, everywhere;
	bool withdrawn; /* the keeper has removed all probes */
	bool sealed;	/* probes cannot be placed everywhere */
	/* times of vain attempts to place probes everywhere */
	uint64_t tried_ns[16];
	size_t n_tried;
	double cost;
	unsigned most_open, left, came_back;
};

/* --- time passes --- */

static bool is_in(const struct machine *m, const struct process *p)
{
	if (m->withdrawn)
		return false;
	return p->in || m->now < p->out_ns || m->everywhere || m->now < m->all_out_ns;
}

static void pass_one(struct machine *m, struct process *p, uint64_t ns)
{
	bool continuous = p->pace.windows.continuous || m->everywhere;
	double samples_ns = p->program.samples_ns / p->interval,
	       told_ns = p->program.cost_ns + samples_ns;
	double cost_ns = is_in(m, p) ? told_ns * (continuous ? 1 : WINDOWS_FELT) : 0;
	double want = p->program.busy * (p->program.own_ns + cost_ns) / p->program.own_ns;
	double cpu = (want < 1 ? want : 1) * (double)ns,
	       calls = cpu / (p->program.own_ns + cost_ns);

	p->cpu += cpu;
	p->calls += calls;
	p->cost += calls * cost_ns;
	m->cost += calls * cost_ns;
	if (is_in(m, p)) {
		p->told += calls * told_ns;
		p->told_samples += calls * samples_ns;
		p->seen += calls;
	}
}

static void pass(struct machine *m, uint64_t ns)
{
	for (size_t i = 0; i < m->n; i++)
		if (!m->processes[i].gone)
			pass_one(m, &m->processes[i], ns);
	m->now += ns;
}

static void drive(struct machine *m, double seconds)
{
	uint64_t end = m->now + (uint64_t)(seconds * S), next = 0;

	while (m->now < end) {
		if (m->now >= next) {
			uint64_t called = m->now;

			next = scheduler__keep(&m->scheduler);
			/* the scheduler must not ask to be called again at once */
			assert_true(next > called);
		}
		pass(m, STEP_NS);
		m->most_open = m->scheduler.n_open > m->most_open ? (unsigned)m->scheduler.n_open
								  : m->most_open;
	}
}

/* Lets time pass until the condition holds, for half a minute at most. */
#define until(m, condition)                                                                        \
	do {                                                                                       \
		for (int steps = 0; steps < 15000 && !(condition); steps++)                        \
			drive(m, 0.002);                                                           \
		assert_true(condition);                                                            \
	} while (0)

/* --- ops --- */

static struct process *of(struct paced *paced)
{
	struct process *p = paced->owner;

	assert_ptr_equal(&p->pace, paced);
	return p;
}

static uint64_t fake_now_ns(void *ctx)
{
	return ((struct machine *)ctx)->now;
}

static void fake_read_totals(void *ctx, struct paced *paced, double *ret_cost, double *ret_samples,
			     double *ret_cpu)
{
	(void)ctx;
	*ret_cost = of(paced)->told;
	*ret_samples = of(paced)->told_samples;
	*ret_cpu = of(paced)->cpu;
}

static void fake_note_totals(void *ctx, struct paced *paced, uint64_t now_ns, double cpu_ns,
			     double cost_ns)
{
	struct process *p = of(paced);

	assert_int_equal(now_ns, ((struct machine *)ctx)->now);
	assert_true(cpu_ns >= p->noted_cpu && cost_ns >= p->noted_cost);
	p->noted_cpu = cpu_ns;
	p->noted_cost = cost_ns;
	p->notes++;
}

static uint64_t fake_calls(void *ctx, struct paced *paced)
{
	(void)ctx;
	return (uint64_t)of(paced)->seen;
}

static bool fake_sleeps(void *ctx, struct paced *paced)
{
	const struct process *p = of(paced);

	(void)ctx;
	assert_false(p->gone);
	return !p->starved && p->program.busy < 0.01;
}

static int fake_idle_ns(void *ctx, uint64_t *ret)
{
	const struct machine *m = ctx;

	*ret = m->is_full ? 0 : m->now; /* either one core is idle, or none */
	return 0;
}

static bool fake_can_open(void *ctx, struct paced *paced)
{
	return ((struct machine *)ctx)->now >= of(paced)->out_ns;
}

static int fake_open(void *ctx, struct paced *paced)
{
	struct process *p = of(paced);
	struct machine *m = ctx;

	assert_false(p->gone || p->in || m->everywhere);
	assert_true(m->now >= m->all_out_ns);
	if (p->fails)
		return -ENOENT;
	p->in = true;
	p->opened++;
	pass(m, m->open_takes_ns + m->open_waits_ns);
	m->own_cpu_ns += m->open_takes_ns;
	return 0;
}

static uint64_t fake_own_cpu_ns(void *ctx)
{
	return ((struct machine *)ctx)->own_cpu_ns;
}

static void fake_begin_close(void *ctx, struct paced *paced)
{
	struct process *p = of(paced);
	struct machine *m = ctx;

	assert_true(p->in);
	p->in = false;
	p->closed++;
	p->out_ns = m->now + m->close_takes_ns;
}

static bool fake_is_gone(void *ctx, struct paced *paced)
{
	return ((struct machine *)ctx)->now >= of(paced)->out_ns;
}

static void fake_set_window(void *ctx, struct paced *paced, uint64_t start_ns)
{
	struct process *p = of(paced);

	/* a window can only begin at the time of this call */
	assert_true(start_ns == UINT64_MAX || start_ns == ((struct machine *)ctx)->now);
	p->inside = start_ns != UINT64_MAX;
	p->window_ns = start_ns;
}

static void fake_harvest(void *ctx, struct paced **processes, size_t n)
{
	struct machine *m = ctx;

	assert_true(n > 0);
	for (size_t i = 0; i < n; i++) {
		struct process *p = of(processes[i]);

		/* no time may be harvested twice, and no future time may be harvested */
		assert_true(p->pace.start_ns >= p->taken_until_ns);
		assert_true(p->pace.end_ns <= m->now);
		p->taken_until_ns = p->pace.end_ns;
		if (!p->shortest_ns || p->pace.end_ns - p->pace.start_ns < p->shortest_ns)
			p->shortest_ns = p->pace.end_ns - p->pace.start_ns;
		p->harvests++;
	}
	pass(m, m->harvest_takes_ns);
}

static void fake_pass_over(void *ctx, struct paced *paced)
{
	(void)ctx;
	of(paced)->passed_over++;
}

static bool fake_has_windows(void *ctx, const struct paced *paced)
{
	(void)ctx;
	return ((const struct process *)paced->owner)->harvests;
}

/* The sampling interval in windows is always WINDOWS_INTERVAL times the requested one. */
static double fake_adapt(void *ctx, struct paced *paced, double cost_ns, double cpu_ns)
{
	(void)ctx;
	assert_true(cost_ns >= 0 && cpu_ns >= 0);
	/* A window must be harvested before the interval changes, because its samples belong to the
	 * old interval. */
	assert_true(of(paced)->harvests);
	of(paced)->adapted++;
	return of(paced)->interval = WINDOWS_INTERVAL;
}

static double fake_restore(void *ctx, struct paced *paced, double factor)
{
	struct process *p = of(paced);

	(void)ctx;
	assert_true(factor >= FINEST && factor <= THINNED);
	factor = factor < p->least ? p->least : factor;
	p->coarser += factor > p->interval && factor > 1;
	p->interval = factor;
	p->restored++;
	return factor;
}

static void fake_look_at_all(void *ctx, struct paced *paced)
{
	(void)ctx;
	assert_false(of(paced)->gone);
	of(paced)->last_looks++;
}

static double fake_machine_cost_ns(void *ctx, double *ret_samples)
{
	const struct machine *m = ctx;
	double sum = 0;

	*ret_samples = 0;
	for (size_t i = 0; i < m->n; i++) {
		sum += m->processes[i].told;
		*ret_samples += m->processes[i].told_samples;
	}
	return sum;
}

static void fake_pause_all(void *ctx)
{
	struct machine *m = ctx;

	m->everywhere = false;
	m->all_out_ns = m->now + m->close_takes_ns;
	m->left++;
}

static bool fake_all_gone(void *ctx)
{
	return ((struct machine *)ctx)->now >= ((struct machine *)ctx)->all_out_ns;
}

static int fake_resume_all(void *ctx)
{
	struct machine *m = ctx;

	if (m->sealed) {
		assert_true(m->n_tried < 16);
		m->tried_ns[m->n_tried++] = m->now;
		return -ENOMEM;
	}
	for (size_t i = 0; i < m->n; i++) /* a call that meets two probes counts twice */
		assert_false(m->processes[i].in ||
			     (!m->processes[i].gone && m->now < m->processes[i].out_ns));
	m->everywhere = true;
	m->came_back++;
	return 0;
}

static int fake_watch(void *ctx, struct paced *paced, double *ret_cpu_ns)
{
	(void)ctx;
	*ret_cpu_ns = of(paced)->cpu;
	return 0;
}

static int fake_watch_size(void *ctx, struct paced *paced, uint64_t *ret_rss_bytes,
			   uint64_t *ret_faults)
{
	(void)ctx;
	(void)paced;
	*ret_rss_bytes = *ret_faults = 0;
	return 0;
}

static const struct pace_ops ops = {
	fake_now_ns,   fake_read_totals, fake_note_totals, fake_calls,		 fake_sleeps,
	fake_idle_ns,  fake_can_open,	 fake_open,	   fake_own_cpu_ns,	 fake_begin_close,
	fake_is_gone,  fake_set_window,	 fake_harvest,	   fake_pass_over,	 fake_has_windows,
	fake_adapt,    fake_restore,	 fake_look_at_all, fake_machine_cost_ns, fake_pause_all,
	fake_all_gone, fake_resume_all,	 fake_watch,	   fake_watch_size,
};

static struct machine *machine(bool shared)
{
	const struct pace_limits limits = {.aim = LIMIT,
					   .steady = LIMIT,
					   .shared = shared,
					   .own = LIMIT,
					   .host = HOST,
					   .favour = FAVOUR,
					   .cpus = CPUS,
					   .spare = 1,
					   .most_thinned = THINNED};
	struct machine *m = test_calloc(1, sizeof(*m));

	m->now = 1000 * MS;
	m->open_takes_ns = 4 * MS;
	m->close_takes_ns = 12 * MS;
	m->is_full = !shared;
	m->shared = m->everywhere = shared;
	scheduler__begin(&m->scheduler, &ops, m, &limits);
	return m;
}

static struct process *add(struct machine *m, struct program program)
{
	struct process *p = &m->processes[m->n++];

	p->program = program;
	p->interval = 1;
	p->in = !m->shared;
	assert_int_equal(scheduler__add(&m->scheduler, &p->pace, p, m->n, m->now), 0);
	return p;
}

static void end(struct machine *m)
{
	scheduler__free(&m->scheduler);
	test_free(m);
}

#endif
