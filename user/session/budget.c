// SPDX-License-Identifier: BSD-2-Clause
#include "session/budget.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/priority.h"
#include "proc/own.h"
#include "proc/process.h"
#include "session/books.h"

#define SAMPLES_WANTED 1000 /* per window */
/* sampling this many calls in a window costs less than opening the window */
#define CALLS_PAID 2000
/* where tracing costs less than its budget, this share of the budget may be spent on samples */
#define SAMPLES_SHARE 0.25
#define MIN_INTERVAL  64
/* while the kernel is still closing at least this many probes (BPF links) of a process, the
 * process's next window does not open */
#define MAX_PAUSING 16
/* at most this many threads of a process are asked whether they sleep; if the process has more
 * threads, it is not known whether it sleeps */
#define MAX_THREADS 64
/* How often the cost of regions is checked. REGIONS_OFTEN_NS: if the cost may pass its limit at any
 * moment. */
#define REGIONS_OFTEN_NS  20000000ULL
#define REGIONS_SELDOM_NS 200000000ULL
/* By how much the cost of seeing regions may exceed its share during a burst, ns. The second value
 * holds in continuous tracing. It is larger because a program may map much when it starts to
 * work. */
#define REGIONS_CREDIT_NS	 50000000
#define REGIONS_STEADY_CREDIT_NS 1000000000
/* The interval becomes at most this many times coarser: 4 MiB instead of 64 KiB, 32 MiB instead of
 * 512 KiB. A still coarser interval says little about most heaps. */
#define MOST_THINNED 64
/* The interval becomes at most 16 times finer, and no finer than FINEST: 32 KiB instead of 512 KiB.
 * The interval becomes finer only if the process's live bytes would give at most ENOUGH samples at
 * the finer interval. With so many samples, the error of its live bytes is about one in a hundred.
 * All processes together may have no more than TABLE_SHARE of the room for live samples. Samples
 * from a time when the interval was finer stay, so a process may in fact hold three times as many
 * samples as ENOUGH. (Each time its memory doubles, the interval doubles, too. Then ENOUGH / 2
 * further samples are added.) */
#define LEAST_THINNED (1.0 / 16)
#define FINEST	      32768.0
#define ENOUGH	      8192
#define TABLE_SHARE   0.1
#define HELD_NS	      500000000 /* budget__holds() ignores figures older than this */
/* memtrace's own nice value when it traces many processes. Where memtrace cannot have a real-time
 * priority, it also has this nice value while a window is open. If a window is closed late, it
 * costs more than the budget allows: on a busy machine, windows of 15 ms were closed 5 to 22 ms
 * late. */
#define NICE -10

/* --- cost --- */

/* Returns the cost of seeing the process's regions, with their stacks. */
static double regions_cost_of(const struct session *s, const struct abi_process_cpu *counters)
{
	if (!s->regions_calibrated)
		return 0;
	return region_calibration__total_ns(&s->region_calibration, counters,
					    s->region_place == REGIONS_SYSCALLS) +
	       (double)counters->region_stack_ns;
}

static double samples_cost_of(const struct session *s, const struct abi_process_cpu *counters)
{
	return s->calibrated ? calibration__samples_ns(&s->calibration, counters) : 0;
}

static double cost_of(const struct session *s, const struct abi_process_cpu *counters)
{
	double calls = s->calibrated ? calibration__total_ns(&s->calibration, counters) : 0;

	return calls + regions_cost_of(s, counters);
}

bool budget__cost_known(const struct session *s)
{
	return (s->calibrated || !(s->what & WHAT_HEAP)) &&
	       (s->regions_calibrated || !(s->what & WHAT_REGIONS) ||
		(s->calibrated && !(s->max_overhead > 0)));
}

/* Notes what other tracers have added to the cost of the program's calls since note_others() was
 * last called. Returns the sum so far, ns. */
static double note_others(const struct session *s, struct others *others,
			  const struct abi_process_cpu *counters)
{
	const struct others_counts counts = {counters->other_looks, counters->others_trapped,
					     counters->others_visited, counters->others_run};

	return s->calibrated ? others__note(others, &counts,
					    calibration__total_ns(&s->calibration, counters) -
						    samples_cost_of(s, counters))
			     : 0;
}

double budget__cost_ns(const struct session *s, const struct target *t)
{
	const struct paced *p = &t->budget.pace;

	if (!budget__cost_known(s))
		return -1;
	return cost_of(s, &t->counters) + t->budget.rare_ns + t->budget.others.ns + p->extra_ns +
	       p->windows.felt_ns;
}

void budget__note_surcharges(const struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t calls = t->alloc_calls + t->free_calls, now = clock__now_ns(CLOCK_MONOTONIC);
	double wall = (double)(now - b->rare_at_ns), cpu = (double)t->cpu_now_ns - b->rare_cpu_ns;

	if (s->calibrated && b->rare_at_ns && paced__wants_probes(&b->pace) &&
	    calls > b->rare_calls)
		b->rare_ns += calibration__rarity_ns(&s->calibration, calls - b->rare_calls,
						     wall > cpu ? wall : cpu);
	note_others(s, &b->others, &t->counters);
	b->rare_calls = calls;
	b->rare_at_ns = now;
	b->rare_cpu_ns = (double)t->cpu_now_ns;
}

/* --- intervals --- */

static void put_interval(struct session *s, struct target *t, uint64_t interval)
{
	struct budget *b = &t->budget;

	if (b->interval == interval || capture__set_interval(s->capture, t->info.pid, interval))
		return;
	b->interval = interval;
	b->coarsest = interval > b->coarsest ? interval : b->coarsest;
	b->finest = interval < b->finest ? interval : b->finest;
}

/* Chooses the interval so that the next window brings enough samples for an estimate, but no more
 * samples than the window can pay for. samples: how many came in the last window; SAMPLES_WANTED
 * are wanted. few: the next window is expected to have so few calls that it can pay for sampling
 * nearly all of them. Then the interval becomes the finest one at once. Perhaps there are only two
 * more windows, and at a coarser interval most of their samples would be large blocks, which are
 * always sampled. With many calls the interval changes step by step, because the next window may
 * meet a burst. */
static void set_interval(struct session *s, struct target *t, uint64_t samples, bool few)
{
	double factor = samples ? (double)samples / SAMPLES_WANTED : 1.0 / 16;
	double interval;

	factor = factor < 1.0 / 16 ? 1.0 / 16 : factor > 16 ? 16 : factor;
	if (few)
		factor = 0;
	interval = (double)t->budget.interval * factor;
	interval = interval < MIN_INTERVAL ? MIN_INTERVAL : interval;
	if (s->interval == 1 || interval > (double)s->interval)
		interval = (double)s->interval;
	if (interval > 0.7 * (double)t->budget.interval &&
	    interval < 1.4 * (double)t->budget.interval)
		return;
	put_interval(s, t, (uint64_t)interval);
}

static void adapt_own(struct session *s, struct target *t)
{
	const struct survivors *v = &t->budget.survivors;
	const struct survivors_window *last = v->n_windows ? &v->windows[v->n_windows - 1] : NULL;
	double longest = windows__longest_ns(&t->budget.pace.windows);

	set_interval(s, t, t->counters.samples - t->budget.samples,
		     last && last->allocs && last->end_ns > last->start_ns &&
			     (double)last->allocs * longest <=
				     CALLS_PAID * (double)(last->end_ns - last->start_ns));
}

/* Adapts the interval to the number of samples that came. If continuous tracing keeps its limit,
 * samples may cost at most SAMPLES_SHARE of the limit. More samples could make tracing exceed
 * the limit. */
static void adapt_shared(struct session *s, struct target *t, double cost_ns, double cpu_ns)
{
	double samples = (double)(t->counters.samples - t->budget.samples), wanted = SAMPLES_WANTED;

	if (cost_ns < s->max_steady_overhead * cpu_ns)
		wanted = SAMPLES_SHARE * s->max_steady_overhead * cpu_ns /
			 fmax(s->calibration.sample_ns, 1);
	if (wanted > 1 && wanted < SAMPLES_WANTED)
		samples *= SAMPLES_WANTED / wanted;
	if (wanted > 1)
		set_interval(s, t, (uint64_t)samples, false);
	t->budget.samples = t->counters.samples;
}

static double adapt_interval(void *ctx, struct paced *p, double cost_ns, double cpu_ns)
{
	struct target *t = p->owner;
	struct session *s = ctx;

	if (s->everywhere)
		adapt_shared(s, t, cost_ns, cpu_ns);
	else
		adapt_own(s, t);
	return (double)t->budget.interval / (double)s->interval;
}

/* Returns the least factor by which the interval may be multiplied: with it, the process holds no
 * more samples than allowed. The factor is a power of two. Returns 1 if the kernel's tables were
 * full. */
static double least_factor(const struct session *s, const struct target *t)
{
	const __u64 *lost = t->counters.lost;
	double room = TABLE_SHARE * capture__max_live(s->capture) / (double)(s->n_targets + 1);
	double held = (double)t->counters.alloc_bytes - (double)t->counters.freed_bytes;
	double factor = LEAST_THINNED;

	if (lost[LOST_LIVE_FULL] || lost[LOST_NO_MEMORY] || lost[LOST_STACKS_FULL] ||
	    lost[LOST_SITES_FULL])
		return 1;
	while (factor < 1 && held > factor * (double)s->interval * fmin(room, ENOUGH))
		factor *= 2;
	return factor;
}

static double restore_interval(void *ctx, struct paced *p, double factor)
{
	struct target *t = p->owner;
	struct session *s = ctx;

	if (factor < 1)
		factor = fmax(factor, least_factor(s, t));
	put_interval(s, t, (uint64_t)((double)s->interval * factor));
	if (!t->budget.stretch) {
		/* tracing is continuous from now on: what it sees must not be used as a sample of
		 * other times */
		t->budget.stretch = true;
		run_time__close(&t->budget.run);
		books__rest(s, t);
	}
	return factor;
}

/* --- what windows have brought --- */

static void pass_over(void *ctx, struct paced *p)
{
	p->failed += books__pass_over(ctx, p->owner) != 0;
}

static bool has_windows(void *ctx, const struct paced *p)
{
	const struct target *t = p->owner;

	(void)ctx;
	return t->budget.survivors.n_windows;
}

static void look_at_all(void *ctx, struct paced *p)
{
	(void)ctx;
	books__look(p->owner, clock__now_ns(CLOCK_MONOTONIC));
}

/* --- the other ops --- */

static uint64_t session_now_ns(void *ctx)
{
	const struct session *s = ctx;

	return s->stop_ns ? s->stop_ns : clock__now_ns(CLOCK_MONOTONIC);
}

static void read_totals(void *ctx, struct paced *p, double *ret_cost, double *ret_samples,
			double *ret_cpu)
{
	struct target *t = p->owner;

	targets__read(ctx, t);
	*ret_cost = cost_of(ctx, &t->counters) + t->budget.rare_ns + t->budget.others.ns;
	*ret_samples = samples_cost_of(ctx, &t->counters);
	*ret_cpu = (double)t->cpu_now_ns;
}

static void note_totals(void *ctx, struct paced *p, uint64_t now_ns, double cpu_ns, double cost_ns)
{
	(void)ctx;
	/* notes no totals during a window: they may contain CPU time that was used before the
	 * window */
	if (!run_time__runs(&((struct target *)p->owner)->budget.run))
		books__note_totals(p->owner, now_ns, cpu_ns, cost_ns, NET_CLOCK_NONE);
}

/* Notes the totals where a window begins or ends, or where a part of it ends (NET_CLOCK_NONE). The
 * kernel updates totals of CPU time only at ticks. So the CPU time that threads use from the
 * window's beginning on is measured separately. */
static void note_edge(struct session *s, struct paced *p, enum net_clock_edge edge)
{
	struct target *t = p->owner;
	double cost, samples, cpu;
	uint64_t ran_ns;

	borrowers__look(s);
	read_totals(s, p, &cost, &samples, &cpu);
	if (edge == NET_CLOCK_BEGINS) {
		t->budget.begin_cpu_ns = cpu;
		t->budget.begin_lent_ns = t->lent_ns;
		run_time__begin(&t->budget.run);
	} else if (!(edge == NET_CLOCK_ENDS ? run_time__end(&t->budget.run, &ran_ns)
					    : run_time__read(&t->budget.run, &ran_ns))) {
		cpu = t->budget.begin_cpu_ns + (double)ran_ns +
		      (double)(t->lent_ns - t->budget.begin_lent_ns);
	}
	books__note_totals(p->owner, clock__now_ns(CLOCK_MONOTONIC), cpu, cost + p->extra_ns, edge);
	/* not if processes are traced in turn: memtrace would have to read the threads of too many
	 * processes */
	if (edge && !s->scheduler.limits.shared)
		books__note_waits(t);
}

void budget__end_window(struct session *s, struct target *t)
{
	if (run_time__runs(&t->budget.run))
		note_edge(s, &t->budget.pace, NET_CLOCK_ENDS);
	run_time__close(&t->budget.run);
}

/* Reads the tables once for all windows that are over, and for parts of windows. */
static void harvest(void *ctx, struct paced **processes, size_t n)
{
	_cleanup_free_ struct target **targets = calloc(n + 1, sizeof(*targets));
	bool failed = !targets;

	priority__calm(); /* the harvest may take long */

	for (size_t i = 0; i < n && targets; i++) {
		targets[i] = processes[i]->owner;
		/* its clock must reach to the end of this part */
		if (run_time__runs(&targets[i]->budget.run) ||
		    (processes[i]->windows.open && !processes[i]->closing &&
		     !processes[i]->settling))
			note_edge(ctx, processes[i], NET_CLOCK_NONE);
	}
	failed = failed || books__harvest(ctx, targets, n);
	for (size_t i = 0; i < n && failed; i++)
		processes[i]->failed++;
}

static uint64_t calls(void *ctx, struct paced *p)
{
	const struct target *t = p->owner;

	(void)ctx;
	return t->alloc_calls + t->free_calls;
}

static bool sleeps(void *ctx, struct paced *p)
{
	const struct target *t = p->owner;

	(void)ctx;
	/* a child of vfork may run while its parent waits for it */
	return !t->n_borrowers && process__sleeps(t->info.pid, MAX_THREADS);
}

static int machine_idle_ns(void *ctx, uint64_t *ret)
{
	(void)ctx;
	return own__machine_idle_ns(ret);
}

static uint64_t own_cpu_ns(void *ctx)
{
	(void)ctx;
	return own__cpu_ns();
}

static bool can_open(void *ctx, struct paced *p)
{
	struct session *s = ctx;

	if (capture__kind(s->capture) == PROBE_PERF)
		/* opening a window would wait until the old probes are closed */
		return !capture__pausing(s->capture, -1);
	return capture__pausing(s->capture, ((struct target *)p->owner)->info.pid) < MAX_PAUSING;
}

/* Is the process still the one that became a target? The kernel is given only the target's pid,
 * which may be another process's by now. */
static bool is_same(const struct target *t)
{
	struct process_info now;

	return !process__read_stat(t->info.pid, &now) && now.start_ticks == t->info.start_ticks;
}

/* Opens a window of one process where `everywhere` is set. The target's allocators are searched for
 * only now. */
static int open_shared(struct session *s, struct target *t)
{
	struct allocators *allocators = NULL;
	struct error none = {};
	int rc;

	if (t->headless) { /* the kernel would place no probe */
		t->silent = true;
		return -ESRCH;
	}
	rc = allocators__find(s->alloc_files, t->info.pid, &t->maps, ALLOC_OWN, s->extra,
			      s->n_extra, &allocators, &none);
	if (rc)
		return rc;
	allocators->n_attached = allocators->n;
	rc = capture__resume(s->capture, allocators, t->info.pid, &none);
	t->budget.pace.failed += rc != 0;
	t->budget.pace.cut = !rc && !is_same(t);
	allocators__free(allocators);
	return rc;
}

static int open_window(void *ctx, struct paced *p)
{
	struct target *t = p->owner;
	struct session *s = ctx;
	int rc = 0;

	t->budget.stretch = false;
	run_time__open(&t->budget.run, t->info.pid);
	if (s->everywhere) {
		rc = open_shared(s, t);
	} else {
		rc = targets__resume_own(s, t);
		t->heap_out = false; /* if this failed, the next window tries again */
		if (!rc)
			targets__attach_own(s, t); /* allocators that were loaded meanwhile */
	}
	if (rc)
		run_time__close(&t->budget.run);
	return rc;
}

static void begin_close(void *ctx, struct paced *p)
{
	struct target *t = p->owner, *const only[] = {t};
	struct session *s = ctx;

	/* reads the live blocks while probes still tell which blocks live */
	if (!t->ended && !p->ended)
		p->failed += books__meet(s, only, 1) != 0;
	capture__pause(s->capture, t->info.pid);
	t->heap_out = false;
}

static bool is_gone(void *ctx, struct paced *p)
{
	return !capture__pausing(((struct session *)ctx)->capture,
				 ((struct target *)p->owner)->info.pid);
}

static void set_window(void *ctx, struct paced *p, uint64_t start_ns)
{
	struct target *t = p->owner;
	struct session *s = ctx;

	if (start_ns == UINT64_MAX) {
		capture__set_window(s->capture, t->info.pid, ABI_NO_WINDOW);
		if (!t->ended)
			note_edge(s, p, NET_CLOCK_ENDS);
		return;
	}
	capture__set_window(s->capture, t->info.pid, start_ns);
	note_edge(s, p, NET_CLOCK_BEGINS);
	t->budget.samples = t->counters.samples;
	t->budget.stretch = false;
	books__opened(s, t);
}

static double machine_cost_ns(void *ctx, double *ret_samples)
{
	struct abi_process_cpu counters = {};
	struct session *s = ctx;

	if (capture__machine_counters(s->capture, &counters))
		counters = (struct abi_process_cpu){};
	*ret_samples = samples_cost_of(s, &counters);
	return cost_of(s, &counters) + note_others(s, &s->others, &counters);
}

static void pause_all(void *ctx)
{
	capture__pause(((struct session *)ctx)->capture, 0);
}

static bool all_gone(void *ctx)
{
	return !capture__pausing(((struct session *)ctx)->capture, 0);
}

static int resume_all(void *ctx)
{
	struct session *s = ctx;
	struct error none = {};
	int rc = 0;

	rewritten__check_copies(s);
	for (size_t i = 0; i < s->n_attached && !rc; i++)
		rc = capture__resume(s->capture, s->attached[i], 0, &none);
	if (rc) /* all or none */
		capture__pause(s->capture, 0);
	return rc;
}

static int watch(void *ctx, struct paced *p, double *ret_cpu_ns)
{
	uint64_t cpu;
	int rc = targets__cpu_ns(p->owner, &cpu);

	(void)ctx;
	if (!rc)
		*ret_cpu_ns = (double)cpu;
	return rc;
}

static int watch_size(void *ctx, struct paced *p, uint64_t *ret_rss_bytes, uint64_t *ret_faults)
{
	struct process_info info;
	int rc = process__read_stat(((struct target *)p->owner)->info.pid, &info);

	(void)ctx;
	if (rc)
		return rc;
	*ret_rss_bytes = info.rss_bytes;
	*ret_faults = info.minor_faults;
	return 0;
}

static const struct pace_ops ops = {
	.now_ns = session_now_ns,
	.read_totals = read_totals,
	.note_totals = note_totals,
	.calls = calls,
	.sleeps = sleeps,
	.machine_idle_ns = machine_idle_ns,
	.can_open = can_open,
	.open = open_window,
	.own_cpu_ns = own_cpu_ns,
	.begin_close = begin_close,
	.is_gone = is_gone,
	.set_window = set_window,
	.harvest = harvest,
	.pass_over = pass_over,
	.has_windows = has_windows,
	.adapt_interval = adapt_interval,
	.restore_interval = restore_interval,
	.look_at_all = look_at_all,
	.machine_cost_ns = machine_cost_ns,
	.pause_all = pause_all,
	.all_gone = all_gone,
	.resume_all = resume_all,
	.watch = watch,
	.watch_size = watch_size,
};

/* --- regions --- */

/* Returns what seeing the process's regions may cost while it uses cpu_ns of CPU time in wall_ns.
 * If the heap is not traced, this is the limit. Else it is half of the limit for the present way of
 * tracing, because the heap needs the other half. (Where the heap is traced in windows, the limit
 * for windows counts. Half of the limit for continuous tracing would be too much: the windows of a
 * growing Python process then had only a third of their limit, and only one window came in half a
 * minute.) */
static double regions_allowed_ns(const struct session *s, const struct target *t, double cpu_ns,
				 double wall_ns)
{
	/* the same formula as in windows.h */
	double steady = s->max_steady_overhead * fmax(cpu_ns, s->scheduler.spare * wall_ns);

	if (!(s->what & WHAT_HEAP))
		return BUDGET_AIM * steady;
	return 0.5 * BUDGET_AIM *
	       (t->budget.pace.windows.continuous ? steady : s->max_overhead * cpu_ns);
}

/* Calls of mmap and its like are few, as a rule, and are seen all the time, also between windows.
 * But a program may make so many of them that seeing them costs too much. left_ns is the allowed
 * cost of seeing these calls minus the actual cost, both summed over time. This sum distinguishes
 * such a program from one that only has a burst. Returns when to check again. */
static uint64_t keep_regions(struct session *s, struct target *t, uint64_t now_ns)
{
	struct region_budget *r = &t->budget.regions;
	bool in_windows;
	double cost;

	targets__read(s, t);
	cost = regions_cost_of(s, &t->counters);
	r->left_ns += regions_allowed_ns(s, t, (double)t->cpu_now_ns - r->cpu_ns,
					 (double)(now_ns - r->at_ns)) -
		      (cost - r->cost_ns);
	/* an idle process saves up unspent budget only up to a limit */
	in_windows = s->what & WHAT_HEAP && !t->budget.pace.windows.continuous;
	r->left_ns = fmin(r->left_ns, in_windows ? REGIONS_CREDIT_NS : REGIONS_STEADY_CREDIT_NS);
	r->at_ns = now_ns;
	r->cpu_ns = (double)t->cpu_now_ns;
	r->cost_ns = cost;
	if (r->left_ns < 0) {
		region_calls__stop(s, t);
		return UINT64_MAX;
	}
	/* until the next check, left_ns cannot be used up, even if seeing regions took a whole
	 * core */
	return now_ns + (r->left_ns < REGIONS_OFTEN_NS	  ? REGIONS_OFTEN_NS
			 : r->left_ns > REGIONS_SELDOM_NS ? REGIONS_SELDOM_NS
							  : (uint64_t)r->left_ns);
}

uint64_t budget__keep(struct session *s)
{
	uint64_t next = scheduler__keep(&s->scheduler);

	for (size_t i = 0; i < s->n_targets && !s->everywhere; i++) {
		struct region_budget *r = &s->targets[i]->budget.regions;
		uint64_t now = clock__now_ns(CLOCK_MONOTONIC);

		if (s->targets[i]->ended || !r->next_ns || s->targets[i]->regions_stopped_ns)
			continue;
		if (now >= r->next_ns)
			r->next_ns = keep_regions(s, s->targets[i], now);
		next = r->next_ns < next ? r->next_ns : next;
	}
	return next;
}

void budget__hurry(struct session *s, bool waits)
{
	/* Where probes are for all processes, a window is nearly always open. And looking after so
	 * many processes takes long: other programs must get the CPU meanwhile. So the priority is
	 * not raised. */
	if (s->everywhere)
		return;
	if (!waits || !s->scheduler.begun || s->stop_ns) {
		priority__calm();
		priority__restore();
		return;
	}
	/* The priority is raised in continuous tracing, too: if memtrace reports to the keeper too
	 * late, the keeper takes the probes out. */
	if (!priority__hurry() && scheduler__has_window(&s->scheduler))
		priority__raise(NICE);
}

void budget__end(struct session *s)
{
	scheduler__stop(&s->scheduler);
	priority__calm();
	priority__restore();
}

/* --- during long work --- */

/* budget__holds() for one process. */
static bool holds(struct session *s, struct target *t, uint64_t wall_ns)
{
	struct abi_process_cpu counters;
	struct held *h = &t->budget.held;
	struct held before = *h;
	uint64_t cpu;

	if (t->ended || capture__counters(s->capture, t->process, &counters) ||
	    targets__cpu_ns(t, &cpu))
		return true;
	*h = (struct held){cost_of(s, &counters), (double)cpu};
	return wall_ns > HELD_NS ||
	       h->cost_ns - before.cost_ns <=
		       s->max_steady_overhead * fmax(h->cpu_ns - before.cpu_ns, (double)wall_ns);
}

/* Checks each process by itself, or, where probes are for all processes, all of them together. */
bool budget__holds(struct session *s)
{
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC), wall = now - s->held_at_ns;
	double before = s->held_cost_ns, capacity = s->scheduler.host.cpus * (double)wall;
	bool all = true;

	if (!s->scheduler.begun || s->stop_ns)
		return true;
	s->held_at_ns = now;
	if (s->everywhere) {
		s->held_cost_ns = scheduler__machine_cost_ns(&s->scheduler);
		return wall > HELD_NS || !(s->max_host_overhead > 0) ||
		       s->held_cost_ns - before <= s->max_host_overhead * capacity;
	}
	for (size_t i = 0; i < s->n_targets; i++)
		all = holds(s, s->targets[i], wall) && all;
	return all;
}

/* --- the run --- */

int budget__welcome(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t seed, now = clock__now_ns(CLOCK_MONOTONIC);
	int rc;

	if (!s->scheduler.begun || b->pace.begun)
		return 0;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return -EIO;
	rc = books__begin(s, t);
	if (rc)
		return rc;
	b->interval = b->coarsest = b->finest = s->interval;
	if (s->what & WHAT_REGIONS)
		b->regions = (struct region_budget){
			.left_ns = REGIONS_CREDIT_NS,
			.at_ns = now,
			.cpu_ns = (double)t->cpu_start_ns,
			.next_ns = now + REGIONS_OFTEN_NS,
		};
	if (!(s->what & WHAT_HEAP))
		return 0;
	rc = scheduler__add(&s->scheduler, &b->pace, t, seed,
			    s->everywhere && t->start_ns ? t->start_ns : now);
	if (!rc && b->pace.windows.continuous)
		restore_interval(s, &b->pace, 1);
	return rc;
}

/* Returns the share of a core that the machine has left idle since the session was opened; 1 if not
 * known. */
static double spare_so_far(const struct session *s)
{
	double wall = (double)(clock__now_ns(CLOCK_MONOTONIC) - s->opened_ns);
	uint64_t idle;

	if (!s->opened_ns || own__machine_idle_ns(&idle))
		return 1;
	return scheduler__spare(s->opened_idle_ns, idle, wall);
}

int budget__begin(struct session *s)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct pace_limits limits = {
		.aim = BUDGET_AIM * s->max_overhead,
		.steady = BUDGET_STEADY * s->max_steady_overhead,
		.shared = s->everywhere,
		.arms_returns = capture__kind(s->capture) == PROBE_SESSION,
		.own = s->max_steady_overhead,
		.host = BUDGET_AIM * s->max_host_overhead,
		.favour = BUDGET_AIM * s->favoured_overhead,
		.cpus = cpus > 0 ? (unsigned)cpus : 1,
		.spare = spare_so_far(s),
		.least_thinned =
			s->interval_given
				? 1
				: fmin(fmax(LEAST_THINNED, FINEST / (double)s->interval), 1),
		.most_thinned = s->interval_given ? 1 : MOST_THINNED,
		.period_ns = s->window_period_ns,
	};
	int rc = 0;

	if (s->everywhere)
		/* a command's process exists already, so its priority does not change */
		priority__raise(NICE);
	scheduler__begin(&s->scheduler, &ops, s, &limits);
	for (size_t i = 0; i < s->n_targets && !rc; i++) {
		rc = budget__welcome(s, s->targets[i]);
		if (s->everywhere)
			rc = 0; /* the run goes on without this target */
	}
	return rc;
}

double budget__host_pct(struct session *s)
{
	double capacity = s->scheduler.host.cpus * (double)(s->stop_ns - s->start_ns);

	if (!s->scheduler.begun || !s->everywhere || !(capacity > 0))
		return -1;
	return 100 * scheduler__machine_cost_ns(&s->scheduler) / capacity;
}
