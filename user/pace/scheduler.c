// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pace/internal.h"

#define SPARE_EVERY_NS (200 * MS)
#define QUIET_NS       (200 * MS) /* no window opens in this time after scheduler__is_quiet() */

double scheduler__spare(uint64_t idle_before_ns, uint64_t idle_ns, double wall_ns)
{
	double spare = idle_ns > idle_before_ns ? (double)(idle_ns - idle_before_ns) / wall_ns : 0;

	return spare < 1 ? spare : 1;
}

void pace__watch_spare(struct scheduler *sc)
{
	uint64_t now = pace__now_ns(sc), idle;

	if (now < sc->spare_next_ns || sc->ops->machine_idle_ns(sc->ctx, &idle))
		return;
	if (sc->spare_next_ns)
		sc->spare = 0.5 * sc->spare +
			    0.5 * scheduler__spare(sc->spare_idle_ns, idle,
						   (double)(now - sc->spare_since_ns));
	sc->spare_idle_ns = idle;
	sc->spare_since_ns = now;
	sc->spare_next_ns = now + SPARE_EVERY_NS;
}

/* --- own: each process by its windows alone --- */

static void step_own(struct scheduler *sc, struct paced *p, uint64_t now)
{
	switch (pace__step(sc, p, now)) {
	case WINDOWS_OPEN:
		if (pace__open_window(sc, p)) { /* opening is tried again */
			p->failed++;
			p->windows.next_ns = pace__now_ns(sc) + IN_VAIN_NS;
		}
		break;
	case WINDOWS_CLOSE:
		p->over = true;
		pace__begin_close(sc, p, pace__now_ns(sc));
		break;
	case WINDOWS_NONE:
		break;
	}
}

/* Does what is due for one process. Returns the time at which something is due again. */
static uint64_t keep_own(struct scheduler *sc, struct paced *p)
{
	uint64_t now = pace__now_ns(sc), due;

	if (p->settling && now >= p->start_ns)
		pace__begin_window(sc, p);
	if (!p->closing && now >= p->windows.next_ns &&
	    (p->windows.open || (now >= sc->rest_ns && sc->ops->can_open(sc->ctx, p))))
		step_own(sc, p, now);
	due = pace__due_ns(p);
	/* If a window is due here, it cannot be opened yet: too many links of old probes are still
	 * being closed, or scheduler__is_quiet() was called just now. */
	return due > now ? due : now + CLOSED_LOOK_NS;
}

/* --- the run --- */

void scheduler__begin(struct scheduler *sc, const struct pace_ops *ops, void *ctx,
		      const struct pace_limits *limits)
{
	sc->ops = ops;
	sc->ctx = ctx;
	sc->limits = *limits;
	sc->begun = true;
	sc->spare = sc->host.spare = limits->spare;
	sc->turn_ns = UINT64_MAX;
	sc->begin_ns = pace__now_ns(sc);
	if (!limits->shared)
		return;
	sc->begin_cost_ns = pace__machine_cost_ns(sc);
	host__begin(&sc->host, limits->host, limits->own, limits->cpus, sc->begin_ns,
		    sc->begin_cost_ns);
	thinning__init(&sc->host.thinning, 1, limits->most_thinned);
}

void scheduler__free(struct scheduler *sc)
{
	free(sc->processes);
	sc->processes = NULL;
	sc->n = sc->room = 0;
}

int scheduler__add(struct scheduler *sc, struct paced *p, void *owner, uint64_t seed,
		   uint64_t start_ns)
{
	bool everywhere = !sc->limits.shared || sc->host.everywhere;
	double cost, cpu;

	if (pace__add_due(&sc->processes, &sc->n, &sc->room, p))
		return -ENOMEM;
	p->owner = owner;
	p->begun = true;
	p->start_ns = start_ns;
	sc->ops->set_window(sc->ctx, p, everywhere ? start_ns : UINT64_MAX);
	pace__read_totals(sc, p, &cost, &cpu);
	windows__begin(&p->windows, sc->limits.aim, sc->limits.steady, seed, pace__now_ns(sc), cost,
		       cpu);
	thinning__init(&p->windows.thinning, sc->limits.least_thinned, sc->limits.most_thinned);
	if (sc->limits.period_ns)
		windows__set_period(&p->windows, sc->limits.period_ns);
	if (!sc->limits.shared)
		return 0;
	thinning__begin(&p->windows.thinning, 1, pace__now_ns(sc));
	if (everywhere)
		windows__hold(&p->windows, pace__now_ns(sc), cost, cpu);
	else
		windows__cut(&p->windows, pace__now_ns(sc), cost, cpu, NULL);
	/* windows__begin() has counted a first window, but this process has had none */
	p->windows.n_windows = 0;
	p->windows.windows_ns = 0;
	host_process__end_turn(&p->turn, pace__now_ns(sc), cpu);
	return 0;
}

uint64_t scheduler__keep(struct scheduler *sc)
{
	uint64_t next = UINT64_MAX;

	if (!sc->begun || sc->stopped)
		return next;
	next = pace__end_favours(sc);
	if (sc->limits.shared)
		return pace__earlier(next, shared__keep(sc));
	pace__watch_spare(sc);
	pace__end_closes(sc);
	for (size_t i = 0; i < sc->n; i++)
		if (paced__is_kept(sc->processes[i]))
			next = pace__earlier(next, keep_own(sc, sc->processes[i]));
	return next;
}

bool scheduler__has_window(const struct scheduler *sc)
{
	bool found = false;

	for (size_t i = 0; i < sc->n && !found && sc->begun && !sc->stopped; i++) {
		const struct paced *p = sc->processes[i];

		found = paced__is_kept(p) &&
			(p->closing || p->settling || (p->windows.open && !p->windows.continuous));
	}
	return found;
}

bool scheduler__is_quiet(struct scheduler *sc)
{
	if (!sc->begun || sc->stopped)
		return true;
	if (sc->rest_ns < pace__now_ns(sc) + QUIET_NS)
		sc->rest_ns = pace__now_ns(sc) + QUIET_NS;
	return !scheduler__has_window(sc);
}

void scheduler__note(struct scheduler *sc, struct paced *p)
{
	double cost, cpu;

	if (sc->begun && !sc->stopped && paced__is_kept(p))
		pace__read_totals(sc, p, &cost, &cpu);
}

/* Ends the process's last window, if it has one. */
static void end_window(struct scheduler *sc, struct paced *p)
{
	uint64_t now = pace__now_ns(sc);
	bool pieced =
		(sc->limits.shared && !sc->host.everywhere) || sc->ops->has_windows(sc->ctx, p);

	if (p->settling) { /* its window has not begun */
		p->settling = false;
		windows__withdraw(&p->windows);
		pace__note_felt(sc, p);
		return;
	}
	if (p->closing) {
		pace__end_close(sc, p);
		return;
	}
	/* If the process was traced continuously from its beginning, no window is harvested: the
	 * kernel's tables have everything. */
	if (windows__end(&p->windows, now) && pieced) {
		p->due = true;
		p->end_ns = now;
	}
	pace__note_felt(sc, p);
}

void scheduler__end(struct scheduler *sc, struct paced *p)
{
	size_t n = sc->n_open;

	if (!p->begun || p->ended)
		return;
	if (!sc->stopped && sc->limits.shared)
		pace__note_others(sc);
	scheduler__note(sc, p);
	end_window(sc, p);
	p->ended = true;
	pace__forget_favour(sc, p);
	pace__forget_turn(sc, p);
	if (sc->n_open < n && !sc->stopped)
		sc->ops->begin_close(sc->ctx, p); /* its links must still be closed */
	sc->n_due += p->due;
	if (!sc->limits.shared)
		scheduler__harvest(sc);
}

void scheduler__forget(struct scheduler *sc, struct paced *p)
{
	if (!p->begun)
		return;
	scheduler__end(sc, p);
	for (size_t i = 0; i < sc->n; i++)
		if (sc->processes[i] == p) {
			memmove(sc->processes + i, sc->processes + i + 1,
				(--sc->n - i) * sizeof(struct paced *));
			break;
		}
	sc->n_due -= p->due && sc->n_due;
}

static void withdraw(struct scheduler *sc, struct paced *p, uint64_t when)
{
	bool stands = pace__is_stretch(sc, p, when) && !p->settling;
	double cost, cpu, wall = (double)when - (double)p->windows.since_ns;
	struct windows_rates recent;

	p->settling = p->over = p->cut = false;
	if (!stands)
		windows__withdraw(&p->windows);
	pace__read_totals(sc, p, &cost, &cpu);
	/* The CPU time is read only now: part of it may have been used after the probes were
	 * removed. So recent.cpu is the rate that was learnt before. */
	recent.cpu = p->windows.continuous ? p->windows.cpu_rate : p->windows.used_rate;
	recent.cost = wall > 0 ? (cost - p->windows.cost_ns) / wall : 0;
	windows__cut(&p->windows, when, cost, cpu, wall > 0 ? &recent : NULL);
	if (stands) {
		pace__begin_close(sc, p, when);
		return;
	}
	sc->ops->set_window(sc->ctx, p, UINT64_MAX);
	sc->ops->pass_over(sc->ctx, p);
	pace__note_felt(sc, p);
	if (sc->limits.shared)
		host_process__end_turn(&p->turn, pace__now_ns(sc), cpu);
	pace__forget_turn(sc, p);
}

void scheduler__withdraw(struct scheduler *sc, uint64_t when)
{
	if (!sc->begun || sc->stopped)
		return;
	if (sc->limits.shared && sc->host.everywhere) {
		shared__leave(sc, when);
		return;
	}
	if (sc->limits.shared)
		pace__note_others(sc);
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];

		if (paced__is_kept(p) && p->windows.open && !p->closing)
			withdraw(sc, p, when);
	}
}

void scheduler__stop(struct scheduler *sc)
{
	if (!sc->begun || sc->stopped)
		return;
	for (size_t i = 0; i < sc->n; i++)
		scheduler__note(sc, sc->processes[i]);
	sc->stopped = true;
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];

		if (paced__is_kept(p))
			end_window(sc, p);
	}
	pace__harvest(sc);
	for (size_t i = 0; i < sc->n; i++)
		if (paced__is_kept(sc->processes[i]))
			sc->ops->look_at_all(sc->ctx, sc->processes[i]);
	for (size_t i = 0; i < sc->n; i++)
		sc->processes[i]->ended = true;
}

bool paced__wants_probes(const struct paced *p)
{
	return !(p->windows.budget > 0) || (p->windows.open && !p->closing);
}

double scheduler__machine_cost_ns(struct scheduler *sc)
{
	return pace__machine_cost_ns(sc) - sc->begin_cost_ns;
}

void scheduler__harvest(struct scheduler *sc)
{
	if (sc->n_due)
		pace__harvest(sc);
}
