// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>

#include "base/vector.h"
#include "pace/internal.h"
#include "pace/others.h"

#define HARVEST_NS (250 * MS) /* least time between harvests of ended processes */

/* --- totals --- */

void pace__read_totals(struct scheduler *sc, struct paced *p, double *ret_cost, double *ret_cpu)
{
	sc->ops->read_totals(sc->ctx, p, ret_cost, &p->windows.samples_ns, ret_cpu);
	*ret_cost += p->extra_ns;
	if (sc->ops->note_totals)
		sc->ops->note_totals(sc->ctx, p, pace__now_ns(sc), *ret_cpu, *ret_cost);
}

double pace__machine_cost_ns(struct scheduler *sc)
{
	return sc->ops->machine_cost_ns(sc->ctx, &sc->host.samples_ns) + sc->extra_ns;
}

void pace__book(struct scheduler *sc)
{
	host__book(&sc->host, pace__now_ns(sc), pace__machine_cost_ns(sc));
}

/* If several processes have windows on the same file at the same time, each of these processes
 * makes the calls of the others more expensive. The kernel visits the probes of all these
 * processes, and some of these probes also trap the return of the call. Adds this extra cost. Call
 * it before the number of open windows changes. */
void pace__note_others(struct scheduler *sc)
{
	for (size_t i = 0; i < sc->n_open; i++) {
		struct paced *p = sc->open[i];
		double cost, cpu, extra;

		pace__read_totals(sc, p, &cost, &cpu);
		cost -= p->extra_ns;
		extra = others__share(sc->n_open > 1 && sc->limits.arms_returns,
				      (double)(sc->n_open - 1), 0) *
			(cost - p->noted_cost_ns);
		p->noted_cost_ns = cost;
		p->extra_ns += extra;
		sc->extra_ns += extra;
	}
}

/* Adds to the machine's cost the felt cost of the process's windows minus their calibrated cost. */
void pace__note_felt(struct scheduler *sc, struct paced *p)
{
	sc->extra_ns += p->windows.felt_ns - p->noted_felt_ns;
	p->noted_felt_ns = p->windows.felt_ns;
}

/* --- what windows have brought --- */

int pace__add_due(struct paced ***due, size_t *n, size_t *room, struct paced *p)
{
	if (VECTOR_RESERVE(*due, *room, *n + 1))
		return -ENOMEM;
	(*due)[(*n)++] = p;
	return 0;
}

/* Harvests all windows that are over, in one go. */
void pace__harvest(struct scheduler *sc)
{
	struct paced **due = NULL;
	size_t n = 0, room = 0;

	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];

		if (!p->due)
			continue;
		p->due = false;
		p->failed += pace__add_due(&due, &n, &room, p) != 0;
	}
	if (n)
		sc->ops->harvest(sc->ctx, due, n);
	for (size_t i = 0; i < n; i++) /* the harvest may have changed felt_ns */
		pace__note_felt(sc, due[i]);
	free(due);
	sc->n_due = 0;
	sc->harvest_ns = pace__now_ns(sc) + HARVEST_NS;
}

void pace__adapt_interval(struct scheduler *sc, struct paced *p, double cost, double cpu)
{
	double now =
		sc->ops->adapt_interval(sc->ctx, p, cost - p->piece_cost_ns, cpu - p->piece_cpu_ns);

	/* If the interval of a turn is shorter than the interval asked for, it stays shorter while
	 * the turn lasts. So the turn is judged by what tracing costs at the present interval. */
	p->windows.thinning.now = sc->limits.shared && now < 1 ? 1 : now;
	p->piece_cost_ns = cost;
	p->piece_cpu_ns = cpu;
}

double pace__factor(const struct scheduler *sc, const struct paced *p)
{
	double own = p->windows.thinning.factor, all = sc->host.thinning.factor;

	return sc->limits.shared && sc->host.everywhere && all > 1 && all > own ? all : own;
}

void pace__restore_interval(struct scheduler *sc, struct paced *p)
{
	p->windows.thinning.now = sc->ops->restore_interval(sc->ctx, p, pace__factor(sc, p));
}

/* Is the process traced continuously, not in a window? A turn that may have to make room for
 * another process's turn counts as a window, however little it costs. (A process may have only such
 * turns. If they did not count as windows, nothing would be known of the process. Turns are limited
 * while no slot is free, and this changes often. So a turn counts as continuous tracing only when
 * it has lasted twice as long as a limited turn may last.) */
bool pace__is_stretch(const struct scheduler *sc, const struct paced *p, uint64_t now)
{
	return p->windows.continuous &&
	       (!sc->limits.shared || now > p->open_ns + 2 * HOST_LONGEST_TURN_NS);
}

/* --- opening and closing a process's own probes --- */

void pace__forget_turn(struct scheduler *sc, const struct paced *p)
{
	for (size_t i = 0; i < sc->n_open; i++)
		if (sc->open[i] == p)
			sc->open[i--] = sc->open[--sc->n_open];
}

/* Begins the process's window. The process was held up while its probes were placed, and has made
 * up for the delay in the WINDOWS_SETTLE_NS since then. The time until now is no part of the
 * window, so set_window() reads the process's clock only now. */
void pace__begin_window(struct scheduler *sc, struct paced *p)
{
	uint64_t planned = p->start_ns;

	p->settling = false;
	p->start_ns = pace__now_ns(sc);
	/* the window begins late because of other processes, but keeps its length */
	if (!p->windows.continuous && p->start_ns > planned)
		windows__delay(&p->windows, p->start_ns - planned);
	sc->ops->set_window(sc->ctx, p, p->start_ns);
	/* Continuous tracing that began because the process was idle is not a window, even if it
	 * ends soon: its moment was not chosen at random. */
	if (pace__is_stretch(sc, p, p->start_ns))
		pace__restore_interval(sc, p);
}

int pace__open_window(struct scheduler *sc, struct paced *p)
{
	uint64_t now;
	int rc;

	pace__note_others(sc);
	p->cut = p->over = false;
	rc = sc->ops->open(sc->ctx, p);
	if (rc)
		return rc;
	sc->ops->set_window(sc->ctx, p, UINT64_MAX);
	now = pace__now_ns(sc);
	p->start_ns = p->open_ns = now + WINDOWS_SETTLE_NS;
	p->settling = true;
	pace__read_totals(sc, p, &p->open_cost_ns, &p->open_cpu_ns);
	p->piece_cost_ns = p->open_cost_ns;
	p->piece_cpu_ns = p->open_cpu_ns;
	p->noted_cost_ns = p->open_cost_ns - p->extra_ns;
	windows__done(&p->windows, WINDOWS_OPEN, now, p->open_cost_ns, p->open_cpu_ns);
	if (sc->limits.shared)
		sc->open[sc->n_open++] = p;
	return 0;
}

/* Begins to remove the process's probes. After some 10 ms no probe is hit any more. The kernel
 * needs several times as long to finish the removal, but other processes' windows do not wait for
 * that. */
void pace__begin_close(struct scheduler *sc, struct paced *p, uint64_t end_ns)
{
	if (p->settling) /* the window has not begun; it begins and ends now, and is empty */
		pace__begin_window(sc, p);
	p->end_ns = end_ns > p->start_ns ? end_ns : p->start_ns;
	p->closing = true;
	p->calls = UINT64_MAX;
	p->closed_look_ns = pace__now_ns(sc) + CLOSED_LOOK_NS;
	sc->ops->set_window(sc->ctx, p, UINT64_MAX);
	sc->ops->begin_close(sc->ctx, p);
}

/* Are the process's probes out? They count as out if no probe was hit since the last check. (A
 * process that made no call since then may still have probes, which does no harm.) */
static bool is_closed(struct scheduler *sc, struct paced *p, uint64_t now)
{
	uint64_t before = p->calls;
	double cost, cpu;

	if (now < p->closed_look_ns)
		return false;
	p->closed_look_ns = now + CLOSED_LOOK_NS;
	pace__read_totals(sc, p, &cost, &cpu);
	p->calls = sc->ops->calls(sc->ctx, p);
	return p->calls == before || sc->ops->is_gone(sc->ctx, p);
}

void pace__end_close(struct scheduler *sc, struct paced *p)
{
	uint64_t now = pace__now_ns(sc);
	double cost, cpu;

	p->closing = false;
	p->due = true;
	if (sc->limits.shared)
		pace__note_others(sc);
	pace__read_totals(sc, p, &cost, &cpu);
	if (p->over)
		windows__done(&p->windows, WINDOWS_CLOSE, now, cost, cpu);
	else
		windows__cut(&p->windows, now, cost, cpu, NULL);
	p->over = p->cut = false;
	if (!sc->limits.shared)
		return;
	host_process__learn(&p->turn, cost - p->open_cost_ns, cpu - p->open_cpu_ns);
	host_process__end_turn(&p->turn, now, cpu);
	pace__note_felt(sc, p);
	pace__forget_turn(sc, p);
}

/* Ends all windows whose probes are out by now, and harvests them together. The harvest needs the
 * interval at which the windows sampled, so intervals change only afterwards. */
void pace__end_closes(struct scheduler *sc)
{
	struct paced **closed = NULL;
	uint64_t now = pace__now_ns(sc);
	size_t n = 0, room = 0;

	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];

		if (!paced__is_kept(p) || !p->closing || !is_closed(sc, p, now))
			continue;
		pace__end_close(sc, p);
		pace__add_due(&closed, &n, &room, p);
	}
	if (n)
		pace__harvest(sc);
	for (size_t i = 0; i < n; i++) {
		double cost, cpu;

		pace__read_totals(sc, closed[i], &cost, &cpu);
		pace__adapt_interval(sc, closed[i], cost, cpu);
	}
	free(closed);
}

uint64_t pace__due_ns(const struct paced *p)
{
	if (p->closing)
		return p->closed_look_ns;
	return p->settling ? pace__earlier(p->start_ns, p->windows.next_ns) : p->windows.next_ns;
}

double pace__least(struct scheduler *sc)
{
	bool rests = pace__now_ns(sc) < sc->fine_after_ns;

	return rests || !(sc->limits.least_thinned > 0) ? 1 : sc->limits.least_thinned;
}

enum windows_action pace__step(struct scheduler *sc, struct paced *p, uint64_t now)
{
	enum windows_action action;
	double cost, cpu;

	p->windows.spare = sc->spare;
	p->windows.sleeps = !p->windows.open && sc->ops->sleeps(sc->ctx, p);
	pace__read_totals(sc, p, &cost, &cpu);
	/* while a turn may have to make room for another turn, its interval stays */
	p->windows.thinning.most =
		!sc->limits.shared || pace__is_stretch(sc, p, now) ? sc->limits.most_thinned : 1;
	p->windows.thinning.least = pace__least(sc);
	action = windows__step(&p->windows, now, cost, cpu);
	/* in continuous tracing, samples may be farther apart than in a window */
	if (action == WINDOWS_NONE && pace__is_stretch(sc, p, now))
		pace__restore_interval(sc, p);
	return action;
}
