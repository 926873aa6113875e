// SPDX-License-Identifier: BSD-2-Clause
#include "session/rota.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/process.h"
#include "session/budget.h"

#define MS 1000000ULL

#define OTHERS_COST 0.07 /* of a call's cost, for each other process's probes (measured) */

#define TICK_NS	       (100 * MS) /* between looks at costs, and at whose turn it is */
#define BUSY_TICK_NS   (50 * MS)  /* the same while much is being spent, */
#define FIRST_TICK_NS  (20 * MS)  /* and in the first second: who does nothing but allocate does so from the start */
#define FIRST_NS       (1000 * MS)
#define TICK_TARGET_NS 200000ULL  /* longer by that for each target: no more than 5,000 are looked at a second */
#define MAX_TICK_NS    (500 * MS)
#define CLOCKS_A_TICK  256 /* CPU times that are read of processes in turn, */
#define SIZES_A_TICK   64  /* and sizes of those that have used some */
#define OFFERS_A_TICK  4   /* processes that are asked, before nobody is taken */
#define ATTACH_NS      (40 * MS) /* what it may take to open a window or to close some */
#define REST	       4	 /* times as long as that took nothing is opened: the kernel keeps all forks waiting meanwhile,
				  * and asks every process that maps the file */
#define MAX_PAUSING    16 /* links of a process that are still to go when its next window opens */
#define RETURN_LOOK_NS (500 * MS)
#define LOOK_TIME_NS   (10 * MS) /* for the contents of blocks, each time */
#define LOOK_EVERY_NS  (100 * MS)
#define PIECE_NS       (2000 * MS) /* of a long window */
#define NICE	       -10 /* ours: a window that is closed late costs what the budget does not allow */
#define MANY_PIECE_NS  (10000 * MS) /* of everybody's */
#define HARVEST_NS     (250 * MS) /* of processes that have ended, not more often */

static uint64_t now_ns(void)
{
	return clock__now_ns(CLOCK_MONOTONIC);
}

static bool is_kept(const struct session *s, const struct target *t)
{
	return s->rota.begun && t->budget.begun && !t->ended;
}

static double machine_cost_ns(struct session *s)
{
	return budget__machine_cost_ns(s) + s->rota.extra_ns;
}

static void book(struct session *s)
{
	host__book(&s->rota.host, now_ns(), machine_cost_ns(s));
}

/* A call in one process with a window costs more for each other that has one on the same file: the kernel asks all
 * their probes, and of some awaits the return. Before that number changes, what it was is added. */
static void note_others(struct session *s)
{
	struct rota *r = &s->rota;

	for (size_t i = 0; i < r->n_open; i++) {
		struct budget *b = &r->open[i]->budget;
		double cost, cpu, extra;

		budget__read_totals(s, r->open[i], &cost, &cpu);
		cost -= b->extra_ns;
		extra = OTHERS_COST * (double)(r->n_open - 1) * (cost - b->noted_cost_ns);
		b->noted_cost_ns = cost;
		b->extra_ns += extra;
		r->extra_ns += extra;
	}
}

/* What the target's windows cost beyond what is calibrated, so far, is the machine's cost, too. */
static void note_felt(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;

	s->rota.extra_ns += b->windows.felt_ns - b->noted_felt_ns;
	b->noted_felt_ns = b->windows.felt_ns;
}

/* --- what windows have brought --- */

static int compare_targets(const void *a, const void *b)
{
	const struct target *x = *(struct target *const *)a, *y = *(struct target *const *)b;

	return (x->process > y->process) - (x->process < y->process);
}

/* The one among n ascending targets that has that number, or n. */
static size_t position(struct target *const *targets, size_t n, uint32_t process)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (targets[mid]->process < process)
			low = mid + 1;
		else
			high = mid;
	}
	return low < n && targets[low]->process == process ? low : n;
}

/* A table whose entries belong to processes, sorted into those of n ascending targets. at[i]: where the i-th one's
 * begin; at[n]: their end. at is all zero and has room for one more. */
static int deal(struct target *const *targets, size_t n, const struct capture_table *table, size_t key_size,
		size_t value_size, size_t process_at, struct capture_table *ret, size_t *at)
{
	char *keys = calloc(table->n + 1, key_size), *values = calloc(table->n + 1, value_size);
	_cleanup_free_ size_t *whose = calloc(table->n + 1, sizeof(*whose));

	*ret = (struct capture_table){keys, values, table->n};
	if (!keys || !values || !whose)
		return -ENOMEM;
	for (size_t i = 0; i < table->n; i++) {
		uint32_t process;

		memcpy(&process, (char *)table->keys + i * key_size + process_at, sizeof(process));
		whose[i] = position(targets, n, process);
		if (whose[i] < n)
			at[whose[i] + 2]++;
	}
	for (size_t i = 2; i < n + 2; i++)
		at[i] += at[i - 1];
	for (size_t i = 0; i < table->n; i++) {
		size_t to;

		if (whose[i] == n)
			continue;
		to = at[whose[i] + 1]++;
		memcpy(keys + to * key_size, (char *)table->keys + i * key_size, key_size);
		memcpy(values + to * value_size, (char *)table->values + i * value_size, value_size);
	}
	return 0;
}

/* What the i-th target has of it. */
static struct capture_table part(const struct capture_table *table, const size_t *at, size_t i, size_t key_size,
				 size_t value_size)
{
	return (struct capture_table){(char *)table->keys + at[i] * key_size,
				      (char *)table->values + at[i] * value_size, at[i + 1] - at[i]};
}

/* Takes the kernel's tables into the books of n targets. */
static int take(struct session *s, struct target **targets, size_t n)
{
	const size_t key = sizeof(struct abi_live_key), value = sizeof(struct abi_live);
	const size_t site_key = sizeof(struct abi_site_key), site = sizeof(struct abi_site);
	_cleanup_(capture_table__free) struct capture_table all_live = {}, all_sites = {}, live = {}, sites = {};
	_cleanup_free_ size_t *at = calloc(n + 2, sizeof(*at)), *site_at = calloc(n + 2, sizeof(*site_at));
	int rc = at && site_at ? 0 : -ENOMEM;

	qsort(targets, n, sizeof(struct target *), compare_targets);
	if (!rc)
		rc = capture__read_sites(s->capture, &all_sites);
	if (!rc)
		rc = capture__read_live(s->capture, &all_live);
	if (!rc)
		rc = deal(targets, n, &all_live, key, value, offsetof(struct abi_live_key, process), &live, at);
	if (!rc)
		rc = deal(targets, n, &all_sites, site_key, site, offsetof(struct abi_site_key, process), &sites,
			  site_at);
	for (size_t i = 0; i < n && !rc; i++) {
		struct capture_table his = part(&live, at, i, key, value);
		struct capture_table his_sites = part(&sites, site_at, i, site_key, site);

		targets[i]->budget.failed += budget__take(targets[i], &his, &his_sites) != 0;
	}
	return rc;
}

/* One reading of the tables for all windows that are over. */
void rota__harvest(struct session *s)
{
	_cleanup_free_ struct target **due = calloc(s->n_targets + 1, sizeof(*due));
	bool failed = !due;
	size_t n = 0;

	for (size_t i = 0; i < s->n_targets && due; i++)
		if (s->targets[i]->budget.due_ns)
			due[n++] = s->targets[i];
	failed = failed || (n && take(s, due, n));
	for (size_t i = 0; i < s->n_targets; i++) {
		struct budget *b = &s->targets[i]->budget;

		if (!b->due_ns)
			continue;
		b->failed += failed;
		b->taken_ns = b->due_ns;
		b->due_ns = 0;
	}
	s->rota.n_due = 0;
	s->rota.harvest_ns = now_ns() + HARVEST_NS;
}

/* Windows that go on for long are taken in piece by piece: blocks must be looked at to be known. Where all has been
 * continuous so far there is nothing to be pieced together. */
static void take_pieces(struct session *s)
{
	uint64_t now = now_ns();
	struct rota *r = &s->rota;

	r->piece_ns = now + (r->host.everywhere ? MANY_PIECE_NS : PIECE_NS);
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		struct budget *b = &t->budget;

		if (is_kept(s, t) && b->windows.open && b->windows.continuous &&
		    (b->evidence.n_windows || !r->host.everywhere) && now - b->start_ns > PIECE_NS / 2)
			b->due_ns = now;
	}
	rota__harvest(s);
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		struct budget *b = &t->budget;
		double cost, cpu;

		if (!is_kept(s, t) || b->taken_ns != now)
			continue;
		b->start_ns = now;
		if (r->host.everywhere)
			continue;
		budget__read_totals(s, t, &cost, &cpu);
		budget__adapt_interval(s, t, cost - b->piece_cost_ns, cpu - b->piece_cpu_ns);
		b->piece_cost_ns = cost;
		b->piece_cpu_ns = cpu;
	}
}

/* --- out of everybody's code, and back --- */

static void leave(struct session *s)
{
	uint64_t end = now_ns();

	capture__pause(s->capture, 0);
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		struct host_process *p = &t->budget.turn;
		double cost, cpu;

		if (!is_kept(s, t))
			continue;
		budget__read_totals(s, t, &cost, &cpu);
		/* what it was over minutes says little of now */
		windows__cut(&t->budget.windows, now_ns(), cost, cpu,
			     p->known ? p->share * p->cpu_rate : -1);
		host_process__end_turn(p, now_ns(), cpu);
		t->budget.due_ns = end;
	}
	rota__harvest(s);
	book(s);
	host__left(&s->rota.host, now_ns());
	s->rota.return_look_ns = now_ns() + RETURN_LOOK_NS;
}

static void close_turns(struct session *s, struct target *const *targets, size_t n);

static void come_back(struct session *s)
{
	struct rota *r = &s->rota;
	struct error none = {};
	int rc = 0;

	close_turns(s, r->open, r->n_open);
	for (size_t i = 0; i < s->n_attached && !rc; i++)
		rc = capture__resume(s->capture, s->attached[i], 0, &none);
	book(s);
	if (rc) { /* all or none */
		capture__pause(s->capture, 0);
		r->host.n_returns++;
		host__left(&r->host, now_ns());
		return;
	}
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		double cost, cpu;

		if (!is_kept(s, t))
			continue;
		budget__restore_interval(s, t);
		budget__read_totals(s, t, &cost, &cpu);
		t->budget.start_ns = now_ns();
		capture__set_window(s->capture, t->info.pid, t->budget.start_ns);
		windows__hold(&t->budget.windows, t->budget.start_ns, cost, cpu);
	}
	host__returned(&r->host, now_ns());
}

/* While probes are everywhere: does it fit still? */
static void watch_costs(struct session *s)
{
	struct rota *r = &s->rota;
	uint64_t tick = TICK_TARGET_NS * s->n_targets;
	bool over = false, was_busy = r->was_busy;

	book(s);
	r->was_busy = host__is_busy(&r->host);
	for (size_t i = 0; i < s->n_targets && r->was_busy; i++) {
		struct target *t = s->targets[i];
		double cost, cpu;

		if (!is_kept(s, t))
			continue;
		budget__read_totals(s, t, &cost, &cpu);
		over |= host_process__judge(&t->budget.turn, &r->host, now_ns(), cost, cpu);
	}
	tick += now_ns() - s->start_ns < FIRST_NS ? FIRST_TICK_NS : r->was_busy ? BUSY_TICK_NS : TICK_NS;
	r->tick_ns = now_ns() + (tick < MAX_TICK_NS ? tick : MAX_TICK_NS);
	/* Not at once: of whom it is there is nothing known yet. */
	if (over || (was_busy && host__is_over(&r->host))) {
		leave(s);
		r->tick_ns = now_ns();
	}
}

/* --- turns --- */

static void forget_turn(struct rota *r, const struct target *t)
{
	for (size_t i = 0; i < r->n_open; i++)
		if (r->open[i] == t)
			r->open[i--] = r->open[--r->n_open];
}

/* The n targets' windows, and those of targets that have ended. */
static void close_turns(struct session *s, struct target *const *targets, size_t n)
{
	struct target *closing[ROTA_SLOTS];
	struct rota *r = &s->rota;
	uint64_t end = now_ns();

	if (!n && !r->n_gone)
		return;
	note_others(s);
	memcpy(closing, targets, n * sizeof(*closing)); /* they may be r->open itself */
	for (size_t i = 0; i < n; i++)
		budget__close(s, closing[i]);
	for (size_t i = 0; i < r->n_gone; i++)
		capture__pause(s->capture, r->gone[i]);
	r->n_gone = 0;
	for (size_t i = 0; i < n; i++) {
		struct target *t = closing[i];
		struct budget *b = &t->budget;
		double cost, cpu;

		budget__read_totals(s, t, &cost, &cpu);
		if (b->over)
			windows__done(&b->windows, WINDOWS_CLOSE, now_ns(), cost, cpu);
		else
			windows__cut(&b->windows, now_ns(), cost, cpu, -1);
		host_process__learn(&b->turn, cost - b->open_cost_ns, cpu - b->open_cpu_ns);
		host_process__end_turn(&b->turn, now_ns(), cpu);
		budget__adapt_interval(s, t, cost - b->piece_cost_ns, cpu - b->piece_cpu_ns);
		note_felt(s, t);
		b->over = b->cut = false;
		b->due_ns = end;
		forget_turn(r, t);
	}
	if (n)
		rota__harvest(s);
}

/* Is the window of this one over? */
static bool is_over(struct session *s, struct target *t, uint64_t now)
{
	struct budget *b = &t->budget;
	double cost, cpu;

	if (now >= b->windows.next_ns) {
		budget__read_totals(s, t, &cost, &cpu);
		b->over = windows__step(&b->windows, now, cost, cpu) == WINDOWS_CLOSE;
	}
	return b->over || b->cut ||
	       (b->windows.continuous && s->rota.turn_ns < now - b->open_ns);
}

static void close_due(struct session *s)
{
	struct target *due[ROTA_SLOTS];
	struct rota *r = &s->rota;
	uint64_t now = now_ns();
	size_t n = 0;

	for (size_t i = 0; i < r->n_open; i++)
		if (is_over(s, r->open[i], now))
			due[n++] = r->open[i];
	close_turns(s, due, n);
}

/* What the open windows are still expected to cost. */
static double pending_ns(const struct session *s, uint64_t now)
{
	double sum = 0;

	for (size_t i = 0; i < s->rota.n_open; i++) {
		const struct windows *w = &s->rota.open[i]->budget.windows;
		double left = w->next_ns > now ? (double)(w->next_ns - now) : 0;

		/* what is traced all the time has shown that it costs no more than its share */
		if (w->continuous)
			sum += w->budget * (left + (double)ATTACH_NS);
		else
			sum += (w->cost_rate > 0 ? w->cost_rate : 1) * (left + (double)ATTACH_NS);
	}
	return sum;
}

/* Is the process still the one that became a target? Its pid is all that the kernel takes. */
static bool is_same(const struct target *t)
{
	struct process_info now;

	return !process__read_stat(t->info.pid, &now) && now.start_ticks == t->info.start_ticks;
}

static void open_turn(struct session *s, struct target *t)
{
	struct allocators *allocators = NULL;
	struct budget *b = &t->budget;
	struct rota *r = &s->rota;
	struct error none = {};
	uint64_t begin = now_ns();
	double cost, cpu;

	if (allocators__find(s->alloc_files, t->info.pid, &t->maps, false, s->extra, s->n_extra,
			     &allocators, &none)) {
		budget__read_totals(s, t, &cost, &cpu); /* nothing that could be seen */
		host_process__end_turn(&b->turn, now_ns(), cpu);
		return;
	}
	allocators->n_attached = allocators->n;
	note_others(s);
	b->cut = b->over = false;
	budget__open(s, t, allocators);
	if (!is_same(t))
		b->cut = true;
	budget__read_totals(s, t, &b->open_cost_ns, &b->open_cpu_ns);
	b->piece_cost_ns = b->open_cost_ns;
	b->piece_cpu_ns = b->open_cpu_ns;
	b->noted_cost_ns = b->open_cost_ns - b->extra_ns;
	b->open_ns = b->start_ns;
	r->rest_ns = now_ns() + REST * (now_ns() - begin);
	r->open[r->n_open++] = t;
	allocators__free(allocators);
}

/* The closed one that deserves a window most, or NULL. *ret_n: how many would like one. */
static struct target *choose(struct session *s, uint64_t now, size_t *ret_n)
{
	struct target *best = NULL;
	double most = 0;

	*ret_n = 0;
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		double urgency;

		if (!is_kept(s, t) || t->budget.windows.open || now < t->budget.windows.next_ns)
			continue;
		urgency = host_process__urgency(&t->budget.turn, now);
		*ret_n += urgency > 0;
		if (urgency > most) {
			most = urgency;
			best = t;
		}
	}
	return best;
}

/* Does a window end so soon that it would have to wait for the opening of another? */
static bool is_near_end(const struct session *s, uint64_t now)
{
	for (size_t i = 0; i < s->rota.n_open; i++) {
		const struct windows *w = &s->rota.open[i]->budget.windows;

		if (!w->continuous && w->next_ns < now + ATTACH_NS)
			return true;
	}
	return false;
}

static void open_next(struct session *s)
{
	struct rota *r = &s->rota;
	uint64_t now = now_ns();
	struct target *t;
	size_t n = 0;
	double cost, cpu;

	for (int offers = 0; offers < OFFERS_A_TICK && (t = choose(s, now, &n)); offers++) {
		/* those everywhere must be out: a call that meets two probes counts twice */
		if (r->n_open == ROTA_SLOTS || now < r->rest_ns || capture__pausing(s->capture, 0) || !host__may_open(&r->host, pending_ns(s, now)) ||
		    is_near_end(s, now))
			break;
		if (now - t->budget.turn.turn_ns < TICK_NS ||
		    capture__pausing(s->capture, t->info.pid) > MAX_PAUSING) {
			t->budget.windows.next_ns = now + TICK_NS; /* its last one's may not be, either */
			continue;
		}
		budget__read_totals(s, t, &cost, &cpu);
		if (windows__step(&t->budget.windows, now, cost, cpu) == WINDOWS_OPEN) {
			open_turn(s, t);
			break;
		}
	}
	r->turn_ns = r->n_open == ROTA_SLOTS ? host__turn_ns(n, ROTA_SLOTS) : UINT64_MAX;
}

/* --- watching --- */

static void watch_some(struct session *s)
{
	struct rota *r = &s->rota;
	size_t sizes = 0;

	for (size_t i = 0; i < CLOCKS_A_TICK && i < s->n_targets && sizes < SIZES_A_TICK; i++) {
		struct target *t = s->targets[r->watch_next++ % s->n_targets];
		struct host_process *p = &t->budget.turn;
		struct process_info info;
		uint64_t cpu;

		if (!is_kept(s, t) || process__cpu_time_ns(t->info.pid, &cpu))
			continue;
		if (!host_process__watch(p, now_ns(), (double)cpu))
			continue;
		sizes++;
		if (!process__read_stat(t->info.pid, &info))
			host_process__watch_size(p, now_ns(), info.rss_bytes, info.minor_faults);
	}
}

static bool fits_everywhere(struct session *s)
{
	double sum = 0;
	bool over = false;

	for (size_t i = 0; i < s->n_targets; i++)
		if (is_kept(s, s->targets[i]))
			over |= host_process__forecast(&s->targets[i]->budget.turn, &s->rota.host, &sum);
	return host__may_return(&s->rota.host, now_ns(), sum, over);
}

/* The blocks of some, those whose time has come, for a bounded time. */
static void look_around(struct session *s)
{
	uint64_t begin = now_ns(), now = begin;
	struct rota *r = &s->rota;

	for (size_t i = 0; i < s->n_targets && now - begin < LOOK_TIME_NS; i++) {
		struct target *t = s->targets[r->look_next++ % s->n_targets];

		if (!is_kept(s, t) || !t->budget.evidence.n_blocks || now < t->budget.looks_next_ns)
			continue;
		budget__look(t, now);
		now = now_ns();
	}
	r->look_ns = now + LOOK_EVERY_NS;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t keep_turns(struct session *s)
{
	struct rota *r = &s->rota;
	uint64_t next;

	close_due(s);
	if (now_ns() >= r->tick_ns) {
		book(s);
		watch_some(s);
		if (now_ns() >= r->return_look_ns) {
			r->return_look_ns = now_ns() + RETURN_LOOK_NS;
			if (!capture__pausing(s->capture, 0) && fits_everywhere(s)) {
				come_back(s);
				r->tick_ns = now_ns() + TICK_NS;
				return r->tick_ns;
			}
		}
		open_next(s);
		r->tick_ns = now_ns() + TICK_NS;
	}
	next = r->tick_ns;
	for (size_t i = 0; i < r->n_open; i++)
		next = earlier(next, r->open[i]->budget.windows.next_ns);
	return next;
}

uint64_t rota__keep(struct session *s)
{
	struct rota *r = &s->rota;
	uint64_t next;

	if (!r->begun || s->stop_ns)
		return UINT64_MAX;
	if (r->host.everywhere && now_ns() >= r->tick_ns)
		watch_costs(s);
	next = r->host.everywhere ? r->tick_ns : keep_turns(s);
	if (r->n_due && now_ns() >= r->harvest_ns)
		rota__harvest(s);
	if (now_ns() >= r->piece_ns)
		take_pieces(s);
	if (now_ns() >= r->look_ns)
		look_around(s);
	return earlier(next, r->look_ns);
}

/* --- beginning and ending --- */

void rota__welcome(struct session *s, struct target *t)
{
	struct rota *r = &s->rota;
	struct budget *b = &t->budget;
	double cost, cpu;

	if (!r->begun || b->begun || budget__begin(s, t, s->max_overhead))
		return;
	b->begun = true;
	b->start_ns = t->start_ns ? t->start_ns : b->start_ns;
	b->windows.n_windows = 0;
	budget__read_totals(s, t, &cost, &cpu);
	if (r->host.everywhere)
		windows__hold(&b->windows, b->start_ns, cost, cpu);
	else
		windows__cut(&b->windows, now_ns(), cost, cpu, 0);
	host_process__end_turn(&b->turn, now_ns(), cpu);
}

int rota__begin(struct session *s)
{
	struct rota *r = &s->rota;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	setpriority(PRIO_PROCESS, 0, NICE); /* a command runs in a process of its own already */
	r->begun = true;
	r->begin_cost_ns = machine_cost_ns(s);
	r->turn_ns = UINT64_MAX;
	host__begin(&r->host, BUDGET_AIM * s->max_host_overhead, s->max_overhead, cpus > 0 ? (unsigned)cpus : 1,
		    now_ns(), r->begin_cost_ns);
	for (size_t i = 0; i < s->n_targets; i++)
		rota__welcome(s, s->targets[i]);
	return 0;
}

void rota__end_target(struct session *s, struct target *t)
{
	struct rota *r = &s->rota;
	struct budget *b = &t->budget;
	uint64_t now = s->stop_ns ? s->stop_ns : now_ns();
	size_t n = r->n_open;

	if (!b->begun || b->ended)
		return;
	b->ended = true;
	if (!s->stop_ns)
		note_others(s);
	note_felt(s, t);
	forget_turn(r, t);
	if (r->n_open < n)
		r->gone[r->n_gone++] = t->info.pid;
	/* everywhere from its beginning: there is nothing to piece together */
	if (windows__end(&b->windows, now) && (b->evidence.n_windows || !r->host.everywhere)) {
		b->due_ns = now;
		r->n_due++;
	}
}

void rota__stop(struct session *s)
{
	if (!s->rota.begun)
		return;
	for (size_t i = 0; i < s->n_targets; i++)
		rota__end_target(s, s->targets[i]);
	rota__harvest(s);
	for (size_t i = 0; i < s->n_targets; i++)
		if (is_kept(s, s->targets[i]))
			budget__look_at_all(s->targets[i]);
}

double rota__overhead_pct(struct session *s)
{
	const struct rota *r = &s->rota;
	double capacity = r->host.cpus * (double)(s->stop_ns - s->start_ns);

	if (!r->begun || !(capacity > 0))
		return -1;
	return 100 * (machine_cost_ns(s) - r->begin_cost_ns) / capacity;
}
