// SPDX-License-Identifier: BSD-2-Clause
#include "pace/internal.h"

#include <math.h>

#define BUSY_TICK_NS (50 * MS) /* instead of TICK_NS while tracing costs much */
/* The tick in the first second of the run, and in the first second in which tracing costs much. The
 * reason: a process may begin to allocate at its start, or at the moment when work comes. */
#define FIRST_TICK_NS (20 * MS)
#define FIRST_NS      (1000 * MS)
/* For each process, a tick becomes longer by this time, so that no more than 5,000 processes are
 * checked per second. */
#define TICK_EACH_NS  200000ULL
#define MAX_TICK_NS   (500 * MS)
#define CLOCKS_A_TICK 256	  /* processes whose CPU time is read in a tick, in turn */
#define WATCH_IDLE_NS (1000 * MS) /* between two readings of the CPU time of an idle process */
#define SIZES_A_TICK  64	  /* most sizes read in a tick, of processes that used CPU time */
#define OFFERS_A_TICK 4		  /* at most this many processes are offered a turn in a tick */
#define FULL_TICKS    5		  /* after this many full ticks in a row, turns are limited */
#define ATTACH_NS     (40 * MS)	  /* longest time to open a window, or to close some */
/* While a window is opened, the kernel delays all forks, and visits every process that maps the
 * file. So afterwards no window is opened for REST times the CPU time that this took. REST times
 * the elapsed time would be too long: before the kernel delays anything, it waits for a grace
 * period of RCU, which takes more than a second if RCU's own threads wait for a CPU. */
#define REST	       4
#define RETURN_LOOK_NS (500 * MS)
#define CALM_LOOK_NS   (2000 * MS) /* how often processes that cost little are looked at */
/* If samples closer than asked for cost the host too much, they are not tried again for this
 * time. */
#define FINE_REST_NS  (60000 * MS)
#define LATE_NS	      (10 * MS)	   /* if probes are out for longer, other code removed them */
#define PIECE_NS      (2000 * MS)  /* length of the pieces of a long window */
#define MANY_PIECE_NS (10000 * MS) /* the same length, if probes are in the code of all processes */

/* Harvests the last piece of each long window, because the ledger knows a block only after a
 * harvest. Leaves out processes that were traced continuously from their beginning: the kernel's
 * tables have everything. */
static void take_pieces(struct scheduler *sc)
{
	uint64_t now = pace__now_ns(sc);

	sc->piece_ns = now + (sc->host.everywhere ? MANY_PIECE_NS : PIECE_NS);
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];

		if (!paced__is_kept(p) || !p->windows.open || p->closing ||
		    !p->windows.continuous || now <= p->start_ns + PIECE_NS / 2 ||
		    (sc->host.everywhere && !sc->ops->has_windows(sc->ctx, p)))
			continue;
		p->due = true;
		p->end_ns = now;
	}
	pace__harvest(sc);
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];
		double cost, cpu;

		if (!paced__is_kept(p) || !p->windows.continuous || p->end_ns != now)
			continue;
		p->start_ns = now;
		if (sc->host.everywhere)
			continue;
		pace__read_totals(sc, p, &cost, &cpu);
		if (!pace__is_stretch(sc, p, now))
			pace__adapt_interval(sc, p, cost, cpu);
		p->piece_cost_ns = cost;
		p->piece_cpu_ns = cpu;
	}
}

/* --- shared: probes out of the code of all processes, and back --- */

/* Returns the process's CPU time at `end`. cpu: the CPU time now. Since the last change, the CPU
 * time is assumed to have been used evenly. */
static double cpu_at(const struct windows *w, uint64_t end, uint64_t now, double cpu)
{
	if (end >= now || now <= w->since_ns)
		return cpu;
	if (end <= w->since_ns)
		return w->cpu_ns;
	return w->cpu_ns +
	       (cpu - w->cpu_ns) * (double)(end - w->since_ns) / (double)(now - w->since_ns);
}

void shared__leave(struct scheduler *sc, uint64_t end)
{
	bool late = pace__now_ns(sc) >= end + LATE_NS;

	for (size_t i = 0; i < sc->n; i++)
		if (paced__is_kept(sc->processes[i]))
			sc->ops->set_window(sc->ctx, sc->processes[i], UINT64_MAX);
	sc->ops->pause_all(sc->ctx);
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];
		struct host_process *turn = &p->turn;
		double cost, cpu;

		if (!paced__is_kept(p))
			continue;
		p->calm_since_ns = 0;
		pace__read_totals(sc, p, &cost, &cpu);
		/* Continuous tracing may have lasted minutes, so its mean cost says little about
		 * the present. The present totals say little, too, if the probes were removed some
		 * time ago. */
		if (!late)
			host_process__end_stretch(turn, pace__now_ns(sc), cost, cpu);
		windows__cut(&p->windows, end, cost,
			     cpu_at(&p->windows, end, pace__now_ns(sc), cpu),
			     turn->known ? &(struct windows_rates){turn->share * turn->cpu_rate,
								   turn->cpu_rate}
					 : NULL);
		host_process__end_turn(turn, pace__now_ns(sc), cpu);
		pace__note_felt(sc, p);
		p->due = true;
		p->end_ns = end;
	}
	pace__harvest(sc);
	pace__book(sc);
	host__left(&sc->host, end, pace__now_ns(sc));
	sc->return_look_ns = pace__now_ns(sc) + RETURN_LOOK_NS;
}

/* Have all processes' own probes gone? A window counts as closed when no probe is hit any more. But
 * an idle process hits no probe even while its probes are still there. */
static bool own_are_gone(struct scheduler *sc)
{
	for (size_t i = 0; i < sc->n; i++)
		if (paced__is_kept(sc->processes[i]) &&
		    !sc->ops->is_gone(sc->ctx, sc->processes[i]))
			return false;
	return true;
}

/* Puts the probes back into the code of all processes. Call it when no process has probes of its
 * own any more, because a call that hits two probes counts twice. */
static void come_back(struct scheduler *sc)
{
	int rc = sc->ops->resume_all(sc->ctx);

	sc->returning = false;
	pace__book(sc);
	if (rc) {
		host__not_returned(&sc->host, pace__now_ns(sc));
		return;
	}
	/* This call comes before pace__restore_interval(), which uses the host's factor from now
	 * on. */
	host__returned(&sc->host, pace__now_ns(sc));
	sc->calm_ns = pace__now_ns(sc);
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];
		double cost, cpu;

		if (!paced__is_kept(p))
			continue;
		pace__read_totals(sc, p, &cost, &cpu);
		p->start_ns = pace__now_ns(sc);
		sc->ops->set_window(sc->ctx, p, p->start_ns);
		p->windows.thinning.most = sc->limits.most_thinned; /* a turn may have changed it */
		pace__restore_interval(sc, p); /* continuous tracing begins: it is not a window */
		windows__hold(&p->windows, p->start_ns, cost, cpu);
	}
}

/* While probes are in the code of all processes: does tracing one process cost too much? If samples
 * farther apart can still help, puts them farther apart and returns false. */
static bool is_too_dear(struct scheduler *sc, struct paced *p)
{
	struct thinning *thinning = &p->windows.thinning;
	double cost, cpu;

	pace__read_totals(sc, p, &cost, &cpu);
	return host_process__judge(&p->turn, &sc->host, thinning, pace__now_ns(sc), cost,
				   p->windows.samples_ns, cpu);
}

/* While probes are in the code of all processes and cost little: samples a process at a shorter
 * interval than asked for, if its samples still cost little then. Looks at a process seldom: a
 * machine has hundreds of processes that cost little, and none of them can exceed a limit
 * meanwhile. */
static void watch_calm(struct scheduler *sc)
{
	uint64_t now = pace__now_ns(sc);

	if (sc->was_busy || now < sc->calm_look_ns || now < sc->fine_after_ns)
		return;
	sc->calm_look_ns = now + CALM_LOOK_NS;
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];
		struct thinning *thinning = &p->windows.thinning;
		double cost, cpu, samples, idle;

		if (!paced__is_kept(p) || thinning->factor > 1)
			continue;
		idle = sc->spare * (double)(now - p->calm_since_ns);
		pace__read_totals(sc, p, &cost, &cpu);
		samples = p->windows.samples_ns - p->calm_samples_ns;
		/* counts the same time as host_process__judge() does */
		if (p->calm_since_ns)
			thinning__watch(
				thinning,
				&(struct thinning_costs){cost - p->calm_cost_ns - samples, samples,
							 fmax(cpu - p->calm_cpu_ns, idle) - samples,
							 sc->host.own},
				now);
		/* The process may hold too many samples by now, or the tables may be full. */
		if (thinning->factor < 1)
			pace__restore_interval(sc, p);
		p->calm_since_ns = now;
		p->calm_cost_ns = cost;
		p->calm_samples_ns = p->windows.samples_ns;
		p->calm_cpu_ns = cpu;
	}
}

/* Ends all sampling that is closer than asked for, before the host's limit puts the samples of all
 * processes farther apart. Returns false if there was no such sampling. */
static bool give_up_fine(struct scheduler *sc)
{
	bool any = false;

	for (size_t i = 0; i < sc->n; i++) {
		struct thinning *thinning = &sc->processes[i]->windows.thinning;

		any |= thinning->factor < 1;
		if (thinning->factor < 1)
			thinning__begin(thinning, 1, pace__now_ns(sc));
	}
	if (any)
		sc->fine_after_ns = pace__now_ns(sc) + FINE_REST_NS;
	return any;
}

static void forget_calm(struct scheduler *sc)
{
	for (size_t i = 0; i < sc->n; i++)
		sc->processes[i]->calm_since_ns = 0;
}

/* While probes are in the code of all processes: removes them if tracing one process, or all
 * processes together, costs too much. */
static void watch_costs(struct scheduler *sc)
{
	uint64_t tick = TICK_EACH_NS * sc->n;
	bool over = false, was_busy = sc->was_busy;

	pace__book(sc);
	sc->was_busy = host__is_busy(&sc->host);
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];

		p->windows.thinning.least = pace__least(sc);
		if (paced__is_kept(p) && (sc->was_busy || p->windows.thinning.factor > 1))
			over |= is_too_dear(sc, p);
	}
	if (!sc->was_busy)
		sc->calm_ns = pace__now_ns(sc);
	tick += pace__now_ns(sc) - sc->begin_ns < FIRST_NS ||
				(sc->was_busy && pace__now_ns(sc) - sc->calm_ns < FIRST_NS)
			? FIRST_TICK_NS
		: sc->was_busy ? BUSY_TICK_NS
			       : TICK_NS;
	sc->tick_ns = pace__now_ns(sc) + pace__earlier(tick, MAX_TICK_NS);
	/* If only the host's limit is exceeded, the probes stay in the code of all processes until
	 * the second busy tick. At the first busy tick, nothing is known yet about the processes
	 * that cost so much. */
	if (over || (was_busy && host__is_over(&sc->host) && !give_up_fine(sc) &&
		     !host__coarsen(&sc->host, pace__now_ns(sc)))) {
		shared__leave(sc, pace__now_ns(sc));
		sc->tick_ns = pace__now_ns(sc);
		return;
	}
	if (sc->was_busy && !was_busy)
		forget_calm(sc);
	watch_calm(sc);
	sc->host.thinning.now = sc->host.thinning.factor;
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];

		if (paced__is_kept(p) && p->windows.thinning.now != pace__factor(sc, p))
			pace__restore_interval(sc, p);
	}
}

/* --- shared: turns --- */

/* Is the process's window over? */
static bool is_over(struct scheduler *sc, struct paced *p, uint64_t now)
{
	if (now >= p->windows.next_ns)
		p->over = pace__step(sc, p, now) == WINDOWS_CLOSE;
	return p->over || p->cut || sc->returning ||
	       (p->windows.continuous && now > p->open_ns && sc->turn_ns < now - p->open_ns);
}

static void close_turns(struct scheduler *sc)
{
	uint64_t now = pace__now_ns(sc);

	for (size_t i = 0; i < sc->n_open; i++) {
		struct paced *p = sc->open[i];

		if (p->settling && now >= p->start_ns)
			pace__begin_window(sc, p);
		if (!p->closing && is_over(sc, p, now))
			pace__begin_close(sc, p, now);
	}
}

/* Returns the further cost that is expected of open windows. */
static double pending_ns(const struct scheduler *sc, uint64_t now)
{
	double sum = 0;

	for (size_t i = 0; i < sc->n_open; i++) {
		const struct windows *w = &sc->open[i]->windows;
		double left =
			!sc->open[i]->closing && w->end_ns > now ? (double)(w->end_ns - now) : 0;

		/* a process that is traced continuously has shown that it keeps its limit */
		if (w->continuous)
			sum += w->budget * (left + (double)ATTACH_NS);
		else
			sum += (w->cost_rate > 0 ? w->cost_rate : 1) * (left + (double)ATTACH_NS);
	}
	return sum;
}

/* Returns the most urgent process without a window, or NULL. *ret_n: number of processes that wait
 * for a window. */
static struct paced *choose(struct scheduler *sc, uint64_t now, size_t *ret_n)
{
	struct paced *best = NULL;
	double most = 0;

	*ret_n = 0;
	for (size_t i = 0; i < sc->n; i++) {
		struct paced *p = sc->processes[i];
		double urgency;

		if (!paced__is_kept(p) || p->windows.open || p->closing || now < p->windows.next_ns)
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

/* Opening a window takes up to ATTACH_NS. Would an open window end during that time, so that its
 * end would have to wait? */
static bool is_near_end(const struct scheduler *sc, uint64_t now)
{
	for (size_t i = 0; i < sc->n_open; i++) {
		const struct paced *p = sc->open[i];

		if (!p->closing && !p->windows.continuous && p->windows.end_ns < now + ATTACH_NS)
			return true;
	}
	return false;
}

/* Returns false if nothing could be opened. */
static bool open_turn(struct scheduler *sc, struct paced *p)
{
	uint64_t begin = sc->ops->own_cpu_ns(sc->ctx);
	double cost, cpu;

	if (pace__open_window(sc, p)) { /* there may be nothing to place probes on */
		pace__read_totals(sc, p, &cost, &cpu);
		host_process__end_turn(&p->turn, pace__now_ns(sc), cpu);
		p->windows.next_ns = pace__now_ns(sc) + IN_VAIN_NS;
		return false;
	}
	sc->rest_ns = pace__now_ns(sc) + REST * (sc->ops->own_cpu_ns(sc->ctx) - begin);
	return true;
}

/* Returns how long the turn of a process that is traced cheaply may be. The turn has no limit while
 * there is room for the turns of other processes and the host's limit is not exceeded. (A few cheap
 * processes together can exceed the host's limit. But after a single expensive window the host's
 * budget also allows no window for a moment, and this alone must not limit turns. So turns are
 * limited only after FULL_TICKS full ticks, or if no slot is free.) */
static uint64_t longest_turn_ns(const struct scheduler *sc, size_t n_waiting)
{
	if (n_waiting && (sc->full_ticks >= FULL_TICKS || sc->n_open == PACE_SLOTS))
		return host__turn_ns(n_waiting, sc->n_open);
	return host__is_over(&sc->host) ? HOST_LONGEST_TURN_NS : UINT64_MAX;
}

static void open_next(struct scheduler *sc)
{
	uint64_t now = pace__now_ns(sc);
	struct paced *p;
	bool full = false;
	size_t n = 0;

	for (int offers = 0; offers < OFFERS_A_TICK && (p = choose(sc, now, &n)); offers++) {
		full = sc->n_open == PACE_SLOTS || !host__may_open(&sc->host, pending_ns(sc, now));
		/* all_gone: the probes in the code of all processes must be out first, because a
		 * call that hits two probes counts twice */
		if (full || sc->returning || now < sc->rest_ns || !sc->ops->all_gone(sc->ctx) ||
		    is_near_end(sc, now))
			break;
		if (now - p->turn.turn_ns < TICK_NS || !sc->ops->can_open(sc->ctx, p)) {
			/* the probes of its last turn may not be gone yet */
			p->windows.next_ns = now + TICK_NS;
			continue;
		}
		if (pace__step(sc, p, now) == WINDOWS_OPEN && open_turn(sc, p))
			break;
	}
	sc->full_ticks = full ? sc->full_ticks + 1 : 0;
	sc->turn_ns = longest_turn_ns(sc, n);
}

static void watch_some(struct scheduler *sc)
{
	size_t sizes = 0;

	for (size_t i = 0; i < CLOCKS_A_TICK && i < sc->n && sizes < SIZES_A_TICK; i++) {
		struct paced *p = sc->processes[sc->watch_next++ % sc->n];
		uint64_t rss, faults;
		uint64_t now = pace__now_ns(sc);
		double cpu;

		if (!paced__is_kept(p) ||
		    (p->turn.is_idle && now < p->turn.watched_ns + WATCH_IDLE_NS) ||
		    sc->ops->watch(sc->ctx, p, &cpu) || !host_process__watch(&p->turn, now, cpu))
			continue;
		sizes++;
		if (!sc->ops->watch_size(sc->ctx, p, &rss, &faults))
			host_process__watch_size(&p->turn, pace__now_ns(sc), rss, faults);
	}
}

static bool fits_everywhere(struct scheduler *sc)
{
	double sum = 0;
	bool over = false;

	for (size_t i = 0; i < sc->n; i++)
		if (paced__is_kept(sc->processes[i]))
			over |= host_process__forecast(&sc->processes[i]->turn, &sc->host, &sum);
	return host__may_return(&sc->host, pace__now_ns(sc), sum, over);
}

static uint64_t keep_turns(struct scheduler *sc)
{
	uint64_t next;

	close_turns(sc);
	pace__end_closes(sc);
	if (sc->returning && !sc->n_open && own_are_gone(sc)) {
		come_back(sc);
		sc->tick_ns = pace__now_ns(sc) + TICK_NS;
		return sc->tick_ns;
	}
	if (pace__now_ns(sc) >= sc->tick_ns) {
		pace__book(sc);
		watch_some(sc);
		if (pace__now_ns(sc) >= sc->return_look_ns) {
			sc->return_look_ns = pace__now_ns(sc) + RETURN_LOOK_NS;
			sc->returning = sc->ops->all_gone(sc->ctx) && fits_everywhere(sc);
			close_turns(sc);
		}
		open_next(sc);
		sc->tick_ns = pace__now_ns(sc) + (sc->returning ? CLOSED_LOOK_NS : TICK_NS);
	}
	next = sc->tick_ns;
	for (size_t i = 0; i < sc->n_open; i++)
		next = pace__earlier(next, pace__due_ns(sc->open[i]));
	return next;
}

uint64_t shared__keep(struct scheduler *sc)
{
	uint64_t next;

	pace__watch_spare(sc);
	sc->host.spare = sc->spare;
	if (sc->host.everywhere && pace__now_ns(sc) >= sc->tick_ns)
		watch_costs(sc);
	next = sc->host.everywhere ? sc->tick_ns : keep_turns(sc);
	if (sc->n_due && pace__now_ns(sc) >= sc->harvest_ns)
		pace__harvest(sc);
	if (pace__now_ns(sc) >= sc->piece_ns)
		take_pieces(sc);
	return pace__earlier(next, sc->piece_ns);
}
