// SPDX-License-Identifier: BSD-2-Clause
#include "pace/scheduler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ULL

#define SETTLE_NS      (3 * MS)	  /* after probes came: what their coming has held up is made up for, and not counted */
#define CLOSED_LOOK_NS (10 * MS)  /* how often to ask whether a window's probes are out */
#define SPARE_EVERY_NS (200 * MS)

#define OTHERS_COST    0.07	  /* of a call's cost, for each other process's probes (measured) */
#define TICK_NS	       (100 * MS) /* between looks at costs, and at whose turn it is */
#define BUSY_TICK_NS   (50 * MS)  /* the same while much is being spent, */
#define FIRST_TICK_NS  (20 * MS)  /* and in the first second: who does nothing but allocate does so from the start */
#define FIRST_NS       (1000 * MS)
#define TICK_EACH_NS   200000ULL  /* longer by that for each process: no more than 5,000 are looked at a second */
#define MAX_TICK_NS    (500 * MS)
#define CLOCKS_A_TICK  256	  /* CPU times that are read of processes in turn, */
#define SIZES_A_TICK   64	  /* and sizes of those that have used some */
#define OFFERS_A_TICK  4	  /* processes that are asked, before nobody is taken */
#define ATTACH_NS      (40 * MS)  /* what it may take to open a window or to close some */
#define REST	       4	  /* times as long as that took nothing is opened: the kernel keeps all forks waiting
				   * meanwhile, and asks every process that maps the file */
#define QUIET_NS       (200 * MS) /* nothing is opened for so long after that was asked for */
#define RETURN_LOOK_NS (500 * MS)
#define PIECE_NS       (2000 * MS)  /* of a long window */
#define MANY_PIECE_NS  (10000 * MS) /* of everybody's */
#define HARVEST_NS     (250 * MS)   /* of processes that have ended, not more often */

static uint64_t now_ns(struct scheduler *sc)
{
	return sc->ops->now_ns(sc->ctx);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool is_kept(const struct paced *p)
{
	return p->begun && !p->ended;
}

/* --- totals --- */

/* The one place where they are read. */
static void read_totals(struct scheduler *sc, struct paced *p, double *ret_cost, double *ret_cpu)
{
	sc->ops->read_totals(sc->ctx, p, ret_cost, ret_cpu);
	*ret_cost += p->extra_ns;
	if (sc->ops->note_totals)
		sc->ops->note_totals(sc->ctx, p, now_ns(sc), *ret_cpu, *ret_cost);
}

static double machine_cost_ns(struct scheduler *sc)
{
	return sc->ops->machine_cost_ns(sc->ctx) + sc->extra_ns;
}

double scheduler__machine_cost_ns(struct scheduler *sc)
{
	return machine_cost_ns(sc) - sc->begin_cost_ns;
}

static void book(struct scheduler *sc)
{
	host__book(&sc->host, now_ns(sc), machine_cost_ns(sc));
}

/* A call in one process with a window costs more for each other that has one on the same file: the kernel asks all
 * their probes, and of some awaits the return. Before that number changes, what it was is added. */
static void note_others(struct scheduler *sc)
{
	for (size_t i = 0; i < sc->n_open; i++) {
		struct paced *p = sc->open[i];
		double cost, cpu, extra;

		read_totals(sc, p, &cost, &cpu);
		cost -= p->extra_ns;
		extra = OTHERS_COST * (double)(sc->n_open - 1) * (cost - p->noted_cost_ns);
		p->noted_cost_ns = cost;
		p->extra_ns += extra;
		sc->extra_ns += extra;
	}
}

/* What its windows cost beyond what is calibrated is the machine's cost, too. */
static void note_felt(struct scheduler *sc, struct paced *p)
{
	sc->extra_ns += p->windows.felt_ns - p->noted_felt_ns;
	p->noted_felt_ns = p->windows.felt_ns;
}

/* --- what windows have brought --- */

static int add_due(struct paced ***due, size_t *n, size_t *room, struct paced *p)
{
	if (*n == *room) {
		size_t more = *room ? 2 * *room : 16;
		struct paced **grown = reallocarray(*due, more, sizeof(struct paced *));

		if (!grown)
			return -ENOMEM;
		*due = grown;
		*room = more;
	}
	(*due)[(*n)++] = p;
	return 0;
}

/* One harvest for all windows that are over. */
static void harvest(struct scheduler *sc)
{
	struct paced **due = NULL;
	size_t n = 0, room = 0;

	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];

		if (!p->due)
			continue;
		p->due = false;
		p->failed += add_due(&due, &n, &room, p) != 0;
	}
	if (n)
		sc->ops->harvest(sc->ctx, due, n);
	free(due);
	sc->n_due = 0;
	sc->harvest_ns = now_ns(sc) + HARVEST_NS;
}

void scheduler__harvest(struct scheduler *sc)
{
	if (sc->n_due)
		harvest(sc);
}

static void adapt_interval(struct scheduler *sc, struct paced *p, double cost, double cpu)
{
	sc->ops->adapt_interval(sc->ctx, p, cost - p->piece_cost_ns, cpu - p->piece_cpu_ns);
	p->piece_cost_ns = cost;
	p->piece_cpu_ns = cpu;
}

/* Is it traced continuously? A turn that has to make room for another process's is a window, however little it costs: who has
 * nothing but such turns is known by what windows tell. (The limit of turns comes and goes with the last free slot.) */
static bool is_stretch(const struct scheduler *sc, const struct paced *p, uint64_t now)
{
	return p->windows.continuous && (!sc->limits.shared || now > p->open_ns + 2 * HOST_LONGEST_TURN_NS);
}

/* Windows that go on for long are taken in piece by piece: blocks must be looked at to be known. Where all has been
 * continuous so far there is nothing to be pieced together. */
static void take_pieces(struct scheduler *sc)
{
	uint64_t now = now_ns(sc);

	sc->piece_ns = now + (sc->host.everywhere ? MANY_PIECE_NS : PIECE_NS);
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];

		if (!is_kept(p) || !p->windows.open || p->closing || !p->windows.continuous ||
		    now <= p->start_ns + PIECE_NS / 2 ||
		    (sc->host.everywhere && !sc->ops->has_windows(sc->ctx, p)))
			continue;
		p->due = true;
		p->end_ns = now;
	}
	harvest(sc);
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];
		double cost, cpu;

		if (!is_kept(p) || !p->windows.continuous || p->end_ns != now)
			continue;
		p->start_ns = now;
		if (sc->host.everywhere)
			continue;
		read_totals(sc, p, &cost, &cpu);
		if (!is_stretch(sc, p, now))
			adapt_interval(sc, p, cost, cpu);
		p->piece_cost_ns = cost;
		p->piece_cpu_ns = cpu;
	}
}

/* --- opening and closing a process's own probes --- */

static void forget_turn(struct scheduler *sc, const struct paced *p)
{
	for (size_t i = 0; i < sc->n_open; i++)
		if (sc->open[i] == p)
			sc->open[i--] = sc->open[--sc->n_open];
}

/* What the coming of its probes has held up is made up for. Its window begins now, and the clock is read: what those
 * milliseconds took is no part of it. */
static void begin_window(struct scheduler *sc, struct paced *p)
{
	p->settling = false;
	p->start_ns = now_ns(sc);
	sc->ops->set_window(sc->ctx, p, p->start_ns);
	if (is_stretch(sc, p, p->start_ns)) /* it has been idle: however soon that is over, the moment was not chosen by chance */
		sc->ops->restore_interval(sc->ctx, p);
}

/* 0, or negative errno: there is nothing to open. */
static int open_window(struct scheduler *sc, struct paced *p)
{
	uint64_t now;
	int rc;

	note_others(sc);
	p->cut = p->over = false;
	sc->ops->set_window(sc->ctx, p, UINT64_MAX);
	rc = sc->ops->open(sc->ctx, p);
	if (rc)
		return rc;
	now = now_ns(sc);
	p->start_ns = p->open_ns = now + SETTLE_NS;
	p->settling = true;
	read_totals(sc, p, &p->open_cost_ns, &p->open_cpu_ns);
	p->piece_cost_ns = p->open_cost_ns;
	p->piece_cpu_ns = p->open_cpu_ns;
	p->noted_cost_ns = p->open_cost_ns - p->extra_ns;
	windows__done(&p->windows, WINDOWS_OPEN, now, p->open_cost_ns, p->open_cpu_ns);
	if (sc->limits.shared)
		sc->open[sc->n_open++] = p;
	return 0;
}

/* From here on it takes some 10 ms until the probes are out, and several times as long until the kernel
 * has done: others' windows do not wait for that. */
static void begin_close(struct scheduler *sc, struct paced *p)
{
	if (p->settling) /* it is an empty one */
		begin_window(sc, p);
	p->end_ns = now_ns(sc);
	p->closing = true;
	p->calls = UINT64_MAX;
	p->closed_look_ns = p->end_ns + CLOSED_LOOK_NS;
	sc->ops->set_window(sc->ctx, p, UINT64_MAX);
	sc->ops->begin_close(sc->ctx, p);
}

/* Are its probes out? Nothing tells but that none is hit any more. (A process that calls nothing all the
 * time may still have them, and it does not matter.) */
static bool is_closed(struct scheduler *sc, struct paced *p, uint64_t now)
{
	uint64_t before = p->calls;
	double cost, cpu;

	if (now < p->closed_look_ns)
		return false;
	p->closed_look_ns = now + CLOSED_LOOK_NS;
	read_totals(sc, p, &cost, &cpu);
	p->calls = sc->ops->calls(sc->ctx, p);
	return p->calls == before || sc->ops->is_gone(sc->ctx, p);
}

static void end_close(struct scheduler *sc, struct paced *p)
{
	uint64_t now = now_ns(sc);
	double cost, cpu;

	p->closing = false;
	p->due = true;
	if (sc->limits.shared)
		note_others(sc);
	read_totals(sc, p, &cost, &cpu);
	if (p->over)
		windows__done(&p->windows, WINDOWS_CLOSE, now, cost, cpu);
	else
		windows__cut(&p->windows, now, cost, cpu, -1);
	p->over = p->cut = false;
	if (!sc->limits.shared)
		return;
	host_process__learn(&p->turn, cost - p->open_cost_ns, cpu - p->open_cpu_ns);
	host_process__end_turn(&p->turn, now, cpu);
	note_felt(sc, p);
	forget_turn(sc, p);
}

/* All that are closed by now, for one harvest. The interval of a window is the one at which it sampled: it changes only
 * behind the harvest. */
static void end_closes(struct scheduler *sc)
{
	struct paced **closed = NULL;
	uint64_t now = now_ns(sc);
	size_t n = 0, room = 0;

	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];

		if (!is_kept(p) || !p->closing || !is_closed(sc, p, now))
			continue;
		end_close(sc, p);
		add_due(&closed, &n, &room, p);
	}
	if (n)
		harvest(sc);
	for (size_t i = 0; i < n; i++) {
		double cost, cpu;

		read_totals(sc, closed[i], &cost, &cpu);
		adapt_interval(sc, closed[i], cost, cpu);
	}
	free(closed);
}

/* When something is to be done about its window. */
static uint64_t due_ns(const struct paced *p)
{
	if (p->closing)
		return p->closed_look_ns;
	return p->settling ? earlier(p->start_ns, p->windows.next_ns) : p->windows.next_ns;
}

/* --- own: each by its windows alone --- */

/* How much of a core the machine has left idle of late. */
static void watch_spare(struct scheduler *sc)
{
	uint64_t now = now_ns(sc), idle;
	double spare;

	if (now < sc->spare_next_ns || sc->ops->machine_idle_ns(sc->ctx, &idle))
		return;
	if (sc->spare_next_ns) {
		spare = (double)(idle - sc->spare_idle_ns) / (double)(now - sc->spare_since_ns);
		sc->spare = 0.5 * sc->spare + 0.5 * (spare < 1 ? spare : 1);
	}
	sc->spare_idle_ns = idle;
	sc->spare_since_ns = now;
	sc->spare_next_ns = now + SPARE_EVERY_NS;
}

/* What the process's windows want at a moment that they asked for. */
static enum windows_action step(struct scheduler *sc, struct paced *p, uint64_t now)
{
	enum windows_action action;
	double cost, cpu;

	read_totals(sc, p, &cost, &cpu);
	action = windows__step(&p->windows, now, cost, cpu);
	if (action == WINDOWS_NONE && is_stretch(sc, p, now)) /* samples need not come by the window */
		sc->ops->restore_interval(sc->ctx, p);
	return action;
}

static void step_own(struct scheduler *sc, struct paced *p, uint64_t now)
{
	p->windows.spare = sc->spare;
	p->windows.sleeps = !p->windows.open && sc->ops->sleeps(sc->ctx, p);
	switch (step(sc, p, now)) {
	case WINDOWS_OPEN:
		if (open_window(sc, p)) { /* it is tried again */
			p->failed++;
			p->windows.next_ns = now + TICK_NS;
		}
		break;
	case WINDOWS_CLOSE:
		p->over = true;
		begin_close(sc, p);
		break;
	case WINDOWS_NONE:
		break;
	}
}

/* What is due of one process; when there is something again. */
static uint64_t keep_own(struct scheduler *sc, struct paced *p)
{
	uint64_t now = now_ns(sc), due;

	if (p->settling && now >= p->start_ns)
		begin_window(sc, p);
	if (!p->closing && now >= p->windows.next_ns &&
	    (p->windows.open || (now >= sc->rest_ns && sc->ops->can_open(sc->ctx, p))))
		step_own(sc, p, now);
	due = due_ns(p);
	return due > now ? due : now + CLOSED_LOOK_NS; /* too many links still to go */
}

/* --- shared: out of everybody's code, and back --- */

static void leave(struct scheduler *sc)
{
	uint64_t end = now_ns(sc);

	sc->ops->pause_all(sc->ctx);
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];
		struct host_process *turn = &p->turn;
		double cost, cpu;

		if (!is_kept(p))
			continue;
		read_totals(sc, p, &cost, &cpu);
		/* what it was over minutes says little of now */
		windows__cut(&p->windows, now_ns(sc), cost, cpu, turn->known ? turn->share * turn->cpu_rate : -1);
		host_process__end_turn(turn, now_ns(sc), cpu);
		note_felt(sc, p);
		p->due = true;
		p->end_ns = end;
	}
	harvest(sc);
	book(sc);
	host__left(&sc->host, now_ns(sc));
	sc->return_look_ns = now_ns(sc) + RETURN_LOOK_NS;
}

/* No process has a window of its own any more. */
static void come_back(struct scheduler *sc)
{
	int rc = sc->ops->resume_all(sc->ctx);

	sc->returning = false;
	book(sc);
	if (rc) {
		sc->host.n_returns++;
		host__left(&sc->host, now_ns(sc));
		return;
	}
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];
		double cost, cpu;

		if (!is_kept(p))
			continue;
		read_totals(sc, p, &cost, &cpu);
		p->start_ns = now_ns(sc);
		sc->ops->set_window(sc->ctx, p, p->start_ns);
		sc->ops->restore_interval(sc->ctx, p); /* it is none: a stretch begins */
		windows__hold(&p->windows, p->start_ns, cost, cpu);
	}
	host__returned(&sc->host, now_ns(sc));
}

/* While probes are everywhere: does it fit still? */
static void watch_costs(struct scheduler *sc)
{
	uint64_t tick = TICK_EACH_NS * sc->n;
	bool over = false, was_busy = sc->was_busy;

	book(sc);
	sc->was_busy = host__is_busy(&sc->host);
	for (size_t i = 0; i < sc->n && sc->was_busy; i++) {
		struct paced *p = sc->processes[i];
		double cost, cpu;

		if (!is_kept(p))
			continue;
		read_totals(sc, p, &cost, &cpu);
		over |= host_process__judge(&p->turn, &sc->host, now_ns(sc), cost, cpu);
	}
	tick += now_ns(sc) - sc->begin_ns < FIRST_NS ? FIRST_TICK_NS : sc->was_busy ? BUSY_TICK_NS : TICK_NS;
	sc->tick_ns = now_ns(sc) + earlier(tick, MAX_TICK_NS);
	/* Not at once: of whom it is there is nothing known yet. */
	if (over || (was_busy && host__is_over(&sc->host))) {
		leave(sc);
		sc->tick_ns = now_ns(sc);
	}
}

/* --- shared: turns --- */

/* Is the window of this one over? */
static bool is_over(struct scheduler *sc, struct paced *p, uint64_t now)
{
	if (now >= p->windows.next_ns)
		p->over = step(sc, p, now) == WINDOWS_CLOSE;
	return p->over || p->cut || sc->returning ||
	       (p->windows.continuous && now > p->open_ns && sc->turn_ns < now - p->open_ns);
}

static void close_turns(struct scheduler *sc)
{
	uint64_t now = now_ns(sc);

	for (size_t i = 0; i < sc->n_open; i++) {
		struct paced *p = sc->open[i];

		if (p->settling && now >= p->start_ns)
			begin_window(sc, p);
		if (!p->closing && is_over(sc, p, now))
			begin_close(sc, p);
	}
}

/* What the open windows are still expected to cost. */
static double pending_ns(const struct scheduler *sc, uint64_t now)
{
	double sum = 0;

	for (size_t i = 0; i < sc->n_open; i++) {
		const struct windows *w = &sc->open[i]->windows;
		double left = !sc->open[i]->closing && w->next_ns > now ? (double)(w->next_ns - now) : 0;

		/* what is traced all the time has shown that it costs no more than its share */
		if (w->continuous)
			sum += w->budget * (left + (double)ATTACH_NS);
		else
			sum += (w->cost_rate > 0 ? w->cost_rate : 1) * (left + (double)ATTACH_NS);
	}
	return sum;
}

/* The closed one that deserves a window most, or NULL. *ret_n: how many would like one. */
static struct paced *choose(struct scheduler *sc, uint64_t now, size_t *ret_n)
{
	struct paced *best = NULL;
	double most = 0;

	*ret_n = 0;
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];
		double urgency;

		if (!is_kept(p) || p->windows.open || p->closing || now < p->windows.next_ns)
			continue;
		urgency = host_process__urgency(&p->turn, now);
		*ret_n += urgency > 0;
		if (urgency > most) {
			most = urgency;
			best = p;
		}
	}
	return best;
}

/* Does a window end so soon that it would have to wait for the opening of another? */
static bool is_near_end(const struct scheduler *sc, uint64_t now)
{
	for (size_t i = 0; i < sc->n_open; i++) {
		const struct paced *p = sc->open[i];

		if (!p->closing && !p->windows.continuous && p->windows.next_ns < now + ATTACH_NS)
			return true;
	}
	return false;
}

static void open_turn(struct scheduler *sc, struct paced *p)
{
	uint64_t begin = now_ns(sc);
	double cost, cpu;

	if (open_window(sc, p)) { /* nothing that could be seen */
		read_totals(sc, p, &cost, &cpu);
		host_process__end_turn(&p->turn, now_ns(sc), cpu);
		return;
	}
	sc->rest_ns = now_ns(sc) + REST * (now_ns(sc) - begin);
}

static void open_next(struct scheduler *sc)
{
	uint64_t now = now_ns(sc);
	struct paced *p;
	bool full = false;
	size_t n = 0;
	double cost, cpu;

	for (int offers = 0; offers < OFFERS_A_TICK && (p = choose(sc, now, &n)); offers++) {
		full = sc->n_open == PACE_SLOTS || !host__may_open(&sc->host, pending_ns(sc, now));
		/* those everywhere must be out: a call that meets two probes counts twice */
		if (full || sc->returning || now < sc->rest_ns || !sc->ops->all_gone(sc->ctx) || is_near_end(sc, now))
			break;
		if (now - p->turn.turn_ns < TICK_NS || !sc->ops->can_open(sc->ctx, p)) {
			p->windows.next_ns = now + TICK_NS; /* its last one's may not be gone, either */
			continue;
		}
		read_totals(sc, p, &cost, &cpu);
		if (windows__step(&p->windows, now, cost, cpu) == WINDOWS_OPEN) {
			open_turn(sc, p);
			break;
		}
	}
	/* Who is traced cheaply stays while there is room: for others, and of the host's limit, which a few such ones can use up. */
	sc->turn_ns = full ? host__turn_ns(n, sc->n_open) : host__is_over(&sc->host) ? HOST_LONGEST_TURN_NS : UINT64_MAX;
}

static void watch_some(struct scheduler *sc)
{
	size_t sizes = 0;

	for (size_t i = 0; i < CLOCKS_A_TICK && i < sc->n && sizes < SIZES_A_TICK; i++) {
		struct paced *p = sc->processes[sc->watch_next++ % sc->n];
		uint64_t rss, faults;
		double cpu;

		if (!is_kept(p) || sc->ops->watch(sc->ctx, p, &cpu) ||
		    !host_process__watch(&p->turn, now_ns(sc), cpu))
			continue;
		sizes++;
		if (!sc->ops->watch_size(sc->ctx, p, &rss, &faults))
			host_process__watch_size(&p->turn, now_ns(sc), rss, faults);
	}
}

static bool fits_everywhere(struct scheduler *sc)
{
	double sum = 0;
	bool over = false;

	for (size_t i = 0; i < sc->n; i++)
		if (is_kept(sc->processes[i]))
			over |= host_process__forecast(&sc->processes[i]->turn, &sc->host, &sum);
	return host__may_return(&sc->host, now_ns(sc), sum, over);
}

static uint64_t keep_turns(struct scheduler *sc)
{
	uint64_t next;

	close_turns(sc);
	end_closes(sc);
	if (sc->returning && !sc->n_open) {
		come_back(sc);
		sc->tick_ns = now_ns(sc) + TICK_NS;
		return sc->tick_ns;
	}
	if (now_ns(sc) >= sc->tick_ns) {
		book(sc);
		watch_some(sc);
		if (now_ns(sc) >= sc->return_look_ns) {
			sc->return_look_ns = now_ns(sc) + RETURN_LOOK_NS;
			sc->returning = sc->ops->all_gone(sc->ctx) && fits_everywhere(sc);
			close_turns(sc);
		}
		open_next(sc);
		sc->tick_ns = now_ns(sc) + (sc->returning ? CLOSED_LOOK_NS : TICK_NS);
	}
	next = sc->tick_ns;
	for (size_t i = 0; i < sc->n_open; i++)
		next = earlier(next, due_ns(sc->open[i]));
	return next;
}

static uint64_t keep_shared(struct scheduler *sc)
{
	uint64_t next;

	if (sc->host.everywhere && now_ns(sc) >= sc->tick_ns)
		watch_costs(sc);
	next = sc->host.everywhere ? sc->tick_ns : keep_turns(sc);
	if (sc->n_due && now_ns(sc) >= sc->harvest_ns)
		harvest(sc);
	if (now_ns(sc) >= sc->piece_ns)
		take_pieces(sc);
	return earlier(next, sc->piece_ns);
}

/* --- the run --- */

void scheduler__begin(struct scheduler *sc, const struct pace_ops *ops, void *ctx,
		      const struct pace_limits *limits)
{
	sc->ops = ops;
	sc->ctx = ctx;
	sc->limits = *limits;
	sc->begun = true;
	sc->spare = 1;
	sc->turn_ns = UINT64_MAX;
	sc->begin_ns = now_ns(sc);
	if (!limits->shared)
		return;
	sc->begin_cost_ns = machine_cost_ns(sc);
	host__begin(&sc->host, limits->host, limits->own, limits->cpus, sc->begin_ns, sc->begin_cost_ns);
}

void scheduler__free(struct scheduler *sc)
{
	free(sc->processes);
	sc->processes = NULL;
	sc->n = sc->room = 0;
}

int scheduler__add(struct scheduler *sc, struct paced *p, void *owner, uint64_t seed, uint64_t start_ns)
{
	double cost, cpu;

	if (add_due(&sc->processes, &sc->n, &sc->room, p))
		return -ENOMEM;
	p->owner = owner;
	p->begun = true;
	p->start_ns = start_ns;
	sc->ops->set_window(sc->ctx, p, start_ns);
	read_totals(sc, p, &cost, &cpu);
	windows__begin(&p->windows, sc->limits.aim, sc->limits.steady, seed, now_ns(sc), cost, cpu);
	if (sc->limits.period_ns)
		windows__set_period(&p->windows, sc->limits.period_ns);
	if (!sc->limits.shared)
		return 0;
	p->windows.n_windows = 0;
	if (sc->host.everywhere)
		windows__hold(&p->windows, now_ns(sc), cost, cpu);
	else
		windows__cut(&p->windows, now_ns(sc), cost, cpu, 0);
	host_process__end_turn(&p->turn, now_ns(sc), cpu);
	return 0;
}

uint64_t scheduler__keep(struct scheduler *sc)
{
	uint64_t next = UINT64_MAX;

	if (!sc->begun || sc->stopped)
		return next;
	if (sc->limits.shared)
		return keep_shared(sc);
	watch_spare(sc);
	end_closes(sc);
	for (size_t i = 0; i < sc->n; i++)
		if (is_kept(sc->processes[i]))
			next = earlier(next, keep_own(sc, sc->processes[i]));
	return next;
}

bool scheduler__is_quiet(struct scheduler *sc)
{
	bool quiet = true;

	if (!sc->begun || sc->stopped)
		return true;
	if (sc->rest_ns < now_ns(sc) + QUIET_NS)
		sc->rest_ns = now_ns(sc) + QUIET_NS;
	for (size_t i = 0; i < sc->n && quiet; i++) {
		const struct paced *p = sc->processes[i];

		quiet = !is_kept(p) || !(p->closing || (p->windows.open && !p->windows.continuous));
	}
	return quiet;
}

/* Its last window, if it has one, ends now. */
static void end_window(struct scheduler *sc, struct paced *p)
{
	uint64_t now = now_ns(sc);
	bool pieced = !p->settling && ((sc->limits.shared && !sc->host.everywhere) || sc->ops->has_windows(sc->ctx, p));

	p->settling = false;
	if (p->closing) {
		end_close(sc, p);
		return;
	}
	/* Continuous from its beginning: there is nothing to piece together. */
	if (windows__end(&p->windows, now) && pieced) {
		p->due = true;
		p->end_ns = now;
	}
	note_felt(sc, p);
}

void scheduler__end(struct scheduler *sc, struct paced *p)
{
	size_t n = sc->n_open;

	if (!p->begun || p->ended)
		return;
	if (!sc->stopped && sc->limits.shared)
		note_others(sc);
	end_window(sc, p);
	p->ended = true;
	forget_turn(sc, p);
	if (sc->n_open < n && !sc->stopped)
		sc->ops->begin_close(sc->ctx, p); /* its links are still to be closed */
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
			memmove(sc->processes + i, sc->processes + i + 1, (--sc->n - i) * sizeof(struct paced *));
			break;
		}
	sc->n_due -= p->due && sc->n_due;
}

void scheduler__stop(struct scheduler *sc)
{
	if (!sc->begun || sc->stopped)
		return;
	sc->stopped = true;
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];

		if (is_kept(p))
			end_window(sc, p);
	}
	harvest(sc);
	for (size_t i = 0; i < sc->n; i++)
		if (is_kept(sc->processes[i]))
			sc->ops->look_at_all(sc->ctx, sc->processes[i]);
	for (size_t i = 0; i < sc->n; i++)
		sc->processes[i]->ended = true;
}

bool paced__wants_probes(const struct paced *p)
{
	return !(p->windows.budget > 0) || (p->windows.open && !p->closing);
}
