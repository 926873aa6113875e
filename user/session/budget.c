// SPDX-License-Identifier: BSD-2-Clause
#include "session/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/own.h"
#include "session/rota.h"

#define SAMPLES_WANTED	 1000 /* of a window */
#define SAMPLES_SHARE	 0.25 /* of a budget that is not exceeded, that may be spent for more of them */
#define COARSE		 8 /* times the interval that is right: too coarse to stand for more than itself */
#define MIN_INTERVAL	 64
#define FIRST_LOOK_NS	 10000000ULL /* old enough to be filled in, young enough not to be another's already */
#define SETTLE_NS	 3000000ULL /* after probes came: what their coming has held up is made up for, and not counted */
#define LOOKS_AT_ONCE	 4096
#define LOOKS_EVERY_NS	 100000000ULL
#define CLOSED_LOOK_NS	 10000000ULL /* how often to ask whether a window's probes are out */
#define MAX_PAUSING	 16	     /* links of a process that are still to go when the next window opens */
#define MAX_THREADS	 64 /* that are asked whether they sleep; of a process with more it is not known */
#define SPARE_EVERY_NS	 200000000ULL
#define REGIONS_OFTEN_NS  20000000ULL  /* looked at that often when it may become too dear any moment, */
#define REGIONS_SELDOM_NS 200000000ULL /* or that seldom */
#define REGIONS_CREDIT_NS 50000000     /* what seeing regions may cost beyond its share: a burst */
#define SAMPLE_NS	 900 /* what a sample costs beyond an unsampled call and its stack: a return, three tables */

/* What seeing its regions has cost, its stacks included. */
static double regions_cost_of(const struct session *s, const struct abi_process_cpu *counters)
{
	if (!s->regions_calibrated)
		return 0;
	return region_calibration__total_ns(&s->region_calibration, counters,
					    s->region_place == REGIONS_SYSCALLS) +
	       (double)counters->region_stack_ns;
}

static double cost_of(const struct session *s, const struct abi_process_cpu *counters)
{
	double heap = 0;

	if (s->calibrated)
		heap = calibration__total_ns(&s->calibration, counters) +
		       (s->interval > 1 ? SAMPLE_NS * (double)counters->samples : 0);
	return heap + regions_cost_of(s, counters);
}

bool budget__cost_known(const struct session *s)
{
	return (s->calibrated || !(s->what & WHAT_HEAP)) &&
	       (s->regions_calibrated || !(s->what & WHAT_REGIONS) ||
		(s->calibrated && !(s->max_overhead > 0)));
}

static double total_of(const struct session *s, const struct target *t)
{
	return cost_of(s, &t->counters) + t->budget.extra_ns + t->budget.rare_ns;
}

double budget__cost_ns(const struct session *s, const struct target *t)
{
	return budget__cost_known(s) ? total_of(s, t) + t->budget.windows.felt_ns : -1;
}

void budget__note_rarity(const struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t calls = t->alloc_calls + t->free_calls, now = clock__now_ns(CLOCK_MONOTONIC);
	double wall = (double)(now - b->rare_at_ns), cpu = (double)t->cpu_now_ns - b->rare_cpu_ns;

	if (s->calibrated && b->rare_at_ns && budget__wants_probes(t) && calls > b->rare_calls)
		b->rare_ns += calibration__rarity_ns(&s->calibration, calls - b->rare_calls, wall > cpu ? wall : cpu);
	b->rare_calls = calls;
	b->rare_at_ns = now;
	b->rare_cpu_ns = (double)t->cpu_now_ns;
}

void budget__read_totals(struct session *s, struct target *t, double *ret_cost, double *ret_cpu)
{
	targets__read(s, t);
	*ret_cost = total_of(s, t);
	*ret_cpu = (double)t->cpu_now_ns;
}

static void forget_block(void *ctx, uint64_t addr)
{
	const struct budget *b = ctx;

	capture__forget_block(b->capture, b->process, addr);
}

int budget__begin(struct session *s, struct target *t, double share)
{
	struct budget *b = &t->budget;
	uint64_t seed[3] = {};
	double cost, cpu;

	if (getrandom(seed, sizeof(seed), 0) != sizeof(seed))
		return -EIO;
	b->capture = s->capture;
	b->process = t->process;
	b->interval = s->interval;
	b->start_ns = clock__now_ns(CLOCK_MONOTONIC);
	evidence__init(&b->evidence, s->evidence ? s->evidence : EVIDENCE_ALL, seed);
	b->evidence.settled = forget_block;
	b->evidence.ctx = b;
	/* Where there is a heap to be seen as well, regions leave half to it. */
	if (s->what & WHAT_REGIONS)
		b->regions_share = BUDGET_AIM * share * (s->what & WHAT_HEAP ? 0.5 : 1);
	b->regions_next_ns = b->start_ns + REGIONS_OFTEN_NS;
	if (!(s->what & WHAT_HEAP))
		return 0;
	capture__set_window(s->capture, t->info.pid, b->start_ns);
	budget__read_totals(s, t, &cost, &cpu);
	windows__begin(&b->windows, BUDGET_AIM * share, BUDGET_STEADY * share, seed[2], b->start_ns, cost, cpu);
	if (s->window_period_ns)
		windows__set_period(&b->windows, s->window_period_ns);
	return 0;
}

/* --- what a window has brought --- */

/* Sees to it that the next one brings neither too few samples for an estimate nor more than it can pay
 * for. */
static void adapt_interval(struct session *s, struct target *t, uint64_t samples)
{
	double factor = samples ? (double)samples / SAMPLES_WANTED : 1.0 / 16;
	double interval;

	factor = factor < 1.0 / 16 ? 1.0 / 16 : factor > 16 ? 16 : factor;
	interval = (double)t->budget.interval * factor;
	interval = interval < MIN_INTERVAL ? MIN_INTERVAL : interval;
	if (s->interval == 1 || interval > (double)s->interval)
		interval = (double)s->interval;
	if (interval > 0.7 * (double)t->budget.interval && interval < 1.4 * (double)t->budget.interval)
		return;
	if (!capture__set_interval(s->capture, t->info.pid, (uint64_t)interval))
		t->budget.interval = (uint64_t)interval;
}

/* The kernel's tables, of all processes, read when a window is over. */
struct window_tables {
	struct capture_table live, sites;
};

static void window_tables__clear(struct window_tables *tables)
{
	capture_table__free(&tables->live);
	capture_table__free(&tables->sites);
}

static int window_tables__read(struct session *s, struct window_tables *ret)
{
	int rc = capture__read_sites(s->capture, &ret->sites);

	return rc ? rc : capture__read_live(s->capture, &ret->live);
}

/* Of the last window, or of what was added to it. */
static void note_interval(struct budget *b)
{
	struct evidence_window *window = &b->evidence.windows[b->evidence.n_windows - 1];
	double added = (double)(b->end_ns - b->start_ns) / (double)(window->end_ns - window->start_ns);

	window->interval += (double)b->interval * added - window->interval * added;
}

/* Takes in what the last window of t has brought. */
static int harvest(struct target *t, const struct window_tables *tables)
{
	_cleanup_free_ struct abi_live *live = NULL;
	_cleanup_free_ uint64_t *addrs = NULL;
	const struct abi_live_key *keys = tables->live.keys;
	const struct abi_live *values = tables->live.values;
	size_t n = 0, found = 0;
	int rc;

	if (t->budget.end_ns <= t->budget.start_ns) /* the run ended as it was opened */
		t->budget.end_ns = t->budget.start_ns + 1;
	rc = chains__harvest(&t->budget.chains, t->process, t->budget.start_ns, t->budget.end_ns,
			     &tables->sites);
	if (rc)
		return rc;

	for (size_t i = 0; i < tables->live.n; i++)
		n += keys[i].process == t->process;
	addrs = calloc(n + 1, sizeof(*addrs));
	live = calloc(n + 1, sizeof(*live));
	if (!addrs || !live)
		return -ENOMEM;
	for (size_t i = 0; i < tables->live.n; i++) {
		if (keys[i].process != t->process)
			continue;
		if (values[i].birth_ns < t->exec_ns) { /* of the program before: nobody's */
			forget_block(&t->budget, keys[i].addr);
			continue;
		}
		addrs[found] = keys[i].addr;
		live[found++] = values[i];
	}
	t->budget.looks_next_ns = 0; /* there may be new ones */
	rc = evidence__harvest(&t->budget.evidence, t->budget.start_ns, t->budget.end_ns, addrs, live, found,
			       FIRST_LOOK_NS);
	if (!rc)
		note_interval(&t->budget);
	return rc;
}

/* The same of a window that the process's own cost has ended, or the end of the run. */
static int harvest_own(struct target *t, const struct window_tables *tables)
{
	struct budget *b = &t->budget;
	int rc = harvest(t, tables);

	if (rc)
		return rc;
	b->evidence.windows[b->evidence.n_windows - 1].apart =
		b->windows.continuous || b->windows.continuous_ns > b->continuous_ns;
	b->continuous_ns = b->windows.continuous_ns;
	return 0;
}

/* --- opening and closing --- */

void budget__close(struct session *s, struct target *t)
{
	capture__set_window(s->capture, t->info.pid, ABI_NO_WINDOW);
	capture__pause(s->capture, t->info.pid);
}

/* From here on it takes some 10 ms until the probes are out, and several times as long until the kernel
 * has done: others' windows do not wait for that. */
static void begin_close(struct session *s, struct target *t)
{
	t->budget.end_ns = clock__now_ns(CLOCK_MONOTONIC);
	t->budget.closing = true;
	t->budget.calls = UINT64_MAX;
	t->budget.closed_look_ns = t->budget.end_ns + CLOSED_LOOK_NS;
	budget__close(s, t);
}

/* Are its probes out? Nothing tells but that none is hit any more. (A process that calls nothing all the
 * time may still have them, and it does not matter.) */
static bool is_closed(struct session *s, struct target *t, uint64_t now_ns)
{
	struct budget *b = &t->budget;
	uint64_t before = b->calls;

	if (now_ns < b->closed_look_ns)
		return false;
	b->closed_look_ns = now_ns + CLOSED_LOOK_NS;
	targets__read(s, t);
	b->calls = t->alloc_calls + t->free_calls;
	return b->calls == before || !capture__pausing(s->capture, t->info.pid);
}

static void end_close(struct session *s, struct target *t, const struct window_tables *tables)
{
	struct budget *b = &t->budget;
	uint64_t interval = b->interval;
	double cost, cpu;

	b->closing = false;
	budget__read_totals(s, t, &cost, &cpu);
	windows__done(&t->budget.windows, WINDOWS_CLOSE, clock__now_ns(CLOCK_MONOTONIC), cost, cpu);
	if (!tables || harvest_own(t, tables)) {
		b->failed++;
		tables = NULL;
	}
	adapt_interval(s, t, t->counters.samples - b->samples);
	/* the first ones, whose samples would outweigh all others' */
	if (b->interval > interval / COARSE)
		b->adapted = true;
	else if (tables && !b->adapted)
		b->evidence.windows[b->evidence.n_windows - 1].apart = true;
}

/* All that are closed by now, for one reading of the tables. */
static void end_closes(struct session *s)
{
	_cleanup_(window_tables__clear) struct window_tables tables = {};
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);
	bool have = false, tried = false;

	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (t->ended || !t->budget.closing || !is_closed(s, t, now))
			continue;
		if (!tried)
			have = !window_tables__read(s, &tables);
		tried = true;
		end_close(s, t, have ? &tables : NULL);
	}
}

void budget__open(struct session *s, struct target *t, struct allocators *allocators)
{
	struct error none = {};
	double cost, cpu;
	uint64_t now;

	if (capture__resume(s->capture, allocators, t->info.pid, &none))
		t->budget.failed++;
	if (!s->everywhere)
		targets__attach_own(s, t); /* to what was loaded meanwhile */
	now = clock__now_ns(CLOCK_MONOTONIC);
	t->budget.start_ns = now + SETTLE_NS;
	capture__set_window(s->capture, t->info.pid, t->budget.start_ns);
	budget__read_totals(s, t, &cost, &cpu);
	t->budget.samples = t->counters.samples;
	windows__done(&t->budget.windows, WINDOWS_OPEN, now, cost, cpu);
}

bool budget__wants_probes(const struct target *t)
{
	const struct budget *b = &t->budget;

	return !(b->windows.budget > 0) || (b->windows.open && !b->closing);
}

/* --- looking at blocks from outside --- */

/* Of a batch that meets memory which is not there the kernel reads what comes before it. */
static int read_memory(void *ctx, struct evidence_read *reads, size_t n)
{
	struct iovec local[256], remote[256];
	const struct target *t = ctx;
	size_t done = 0;

	while (done < n) {
		size_t batch = n - done < 256 ? n - done : 256, whole = 0;
		ssize_t got;

		for (size_t i = 0; i < batch; i++) {
			local[i] = (struct iovec){reads[done + i].to, reads[done + i].len};
			remote[i] = (struct iovec){(void *)(uintptr_t)reads[done + i].addr,
						   reads[done + i].len};
		}
		got = process_vm_readv(t->info.pid, local, batch, remote, batch, 0);
		if (got < 0 && errno != EFAULT)
			return -errno;
		while (whole < batch && got >= (ssize_t)reads[done + whole].len) {
			got -= (ssize_t)reads[done + whole].len;
			reads[done + whole++].ok = true;
		}
		done += whole < batch ? whole + 1 : whole;
	}
	return 0;
}

/* Are all its blocks of glibc's malloc? Not those of a pool that the user named, nor when it has another
 * allocator as well. */
static bool is_glibc_alone(const struct target *t)
{
	const struct allocators *all = t->allocators;

	for (size_t i = 0; all && i < all->n; i++)
		if (strcmp(all->list[i]->family, "glibc") != 0)
			return false;
	return all && all->n;
}

static int look_at_blocks(struct target *t, uint64_t now_ns, size_t max)
{
	t->budget.evidence.glibc = is_glibc_alone(t);
	return evidence__look(&t->budget.evidence, now_ns, max, read_memory, t);
}

static uint64_t look(struct target *t, uint64_t now_ns)
{
	uint64_t due = evidence__next_look(&t->budget.evidence);

	if (due > now_ns)
		return due;
	if (look_at_blocks(t, now_ns, LOOKS_AT_ONCE) < 0)
		return now_ns + 10 * LOOKS_EVERY_NS; /* on its way out, perhaps */
	due = evidence__next_look(&t->budget.evidence);
	return due < now_ns + LOOKS_EVERY_NS ? now_ns + LOOKS_EVERY_NS : due;
}

/* How much of a core the machine has left idle of late. */
static void watch_spare(struct session *s)
{
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC), idle;
	double spare;

	if (now < s->spare_next_ns || own__machine_idle_ns(&idle))
		return;
	if (s->spare_next_ns) {
		spare = (double)(idle - s->spare_idle_ns) / (double)(now - s->spare_since_ns);
		s->spare = 0.5 * s->spare + 0.5 * (spare < 1 ? spare : 1);
	}
	s->spare_idle_ns = idle;
	s->spare_since_ns = now;
	s->spare_next_ns = now + SPARE_EVERY_NS;
}

/* May its next window be opened, or are too many links still to go? */
static bool can_open(struct session *s, const struct target *t)
{
	if (capture__kind(s->capture) == PROBE_PERF)
		return !capture__pausing(s->capture, -1); /* we would wait as long as that takes */
	return capture__pausing(s->capture, t->info.pid) < MAX_PAUSING;
}

/* What is due of one target; when there is something again. */
static uint64_t keep(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC), due;
	double cost, cpu;

	b->windows.spare = s->spare;
	if (!b->closing && now >= b->windows.next_ns &&
	    (b->windows.open || can_open(s, t))) {
		budget__read_totals(s, t, &cost, &cpu);
		b->windows.sleeps = !b->windows.open && process__sleeps(t->info.pid, MAX_THREADS);
		switch (windows__step(&b->windows, now, cost, cpu)) {
		case WINDOWS_OPEN:
			budget__open(s, t, t->allocators);
			break;
		case WINDOWS_CLOSE:
			begin_close(s, t);
			break;
		case WINDOWS_NONE:
			if (b->windows.continuous) /* samples need not come by the window */
				budget__restore_interval(s, t);
			break;
		}
	}
	if (now >= b->looks_next_ns)
		b->looks_next_ns = look(t, now);
	due = b->closing ? b->closed_look_ns : b->windows.next_ns;
	due = due > now ? due : now + CLOSED_LOOK_NS; /* too many links still to go */
	return due < b->looks_next_ns ? due : b->looks_next_ns;
}

/* --- regions --- */

/* Calls of mmap and its like are few, as a rule, and seen all the time, beside whatever windows. A program that
 * makes so many of them that this alone is too dear is told from a burst by what has come together. */
static uint64_t keep_regions(struct session *s, struct target *t, uint64_t now_ns)
{
	double since = (double)(now_ns - s->start_ns), used, left;

	targets__read(s, t);
	used = (double)(t->cpu_now_ns - t->cpu_start_ns);
	used = used > s->spare * since ? used : s->spare * since; /* as in windows.h */
	left = t->budget.regions_share * used + REGIONS_CREDIT_NS - regions_cost_of(s, &t->counters);
	if (left < 0) {
		region_calls__stop(s, t);
		return UINT64_MAX;
	}
	/* all of a core cannot have used up what is left before that */
	return now_ns + (left < REGIONS_OFTEN_NS    ? REGIONS_OFTEN_NS
			 : left > REGIONS_SELDOM_NS ? REGIONS_SELDOM_NS
						    : (uint64_t)left);
}

uint64_t budget__keep(struct session *s)
{
	uint64_t next = UINT64_MAX;

	watch_spare(s);
	end_closes(s);
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		uint64_t now = clock__now_ns(CLOCK_MONOTONIC), due;

		if (t->ended)
			continue;
		if (t->budget.regions_share > 0 && !t->regions_stopped_ns) {
			if (now >= t->budget.regions_next_ns)
				t->budget.regions_next_ns = keep_regions(s, t, now);
			next = t->budget.regions_next_ns < next ? t->budget.regions_next_ns : next;
		}
		if (!(t->budget.windows.budget > 0))
			continue;
		due = keep(s, t);
		next = due < next ? due : next;
	}
	return next;
}

void budget__end(struct session *s, struct target *t)
{
	_cleanup_(window_tables__clear) struct window_tables tables = {};
	struct budget *b = &t->budget;
	uint64_t now = s->stop_ns ? s->stop_ns : clock__now_ns(CLOCK_MONOTONIC);
	bool have;

	if (s->everywhere) {
		rota__end_target(s, t);
		return;
	}
	if (!(b->windows.budget > 0) || b->ended)
		return;
	b->ended = true;
	/* continuous from its beginning: there is nothing to piece together */
	if (b->closing || (b->windows.open && b->evidence.n_windows)) {
		have = !window_tables__read(s, &tables);
		if (b->closing) {
			end_close(s, t, have ? &tables : NULL);
		} else {
			b->end_ns = now;
			if (!have || harvest_own(t, &tables))
				b->failed++;
		}
	}
	windows__end(&b->windows, now);
	if (!t->ended)
		budget__look_at_all(t);
}

/* --- for those whose turn others decide --- */

double budget__machine_cost_ns(struct session *s)
{
	struct abi_process_cpu counters;

	return capture__machine_counters(s->capture, &counters) ? 0 : cost_of(s, &counters);
}

int budget__take(struct target *t, const struct capture_table *live, const struct capture_table *sites)
{
	const struct window_tables tables = {*live, *sites};

	t->budget.end_ns = t->budget.due_ns;
	return harvest(t, &tables);
}

/* Where tracing fits all the time samples must not change that. */
void budget__adapt_interval(struct session *s, struct target *t, double cost_ns, double cpu_ns)
{
	double samples = (double)(t->counters.samples - t->budget.samples), wanted = SAMPLES_WANTED;

	if (cost_ns < s->max_overhead * cpu_ns)
		wanted = SAMPLES_SHARE * s->max_overhead * cpu_ns / SAMPLE_NS;
	if (wanted > 1 && wanted < SAMPLES_WANTED)
		samples *= SAMPLES_WANTED / wanted;
	if (wanted > 1)
		adapt_interval(s, t, (uint64_t)samples);
	t->budget.samples = t->counters.samples;
}

void budget__restore_interval(struct session *s, struct target *t)
{
	if (t->budget.interval != s->interval &&
	    !capture__set_interval(s->capture, t->info.pid, s->interval))
		t->budget.interval = s->interval;
	t->budget.adapted = false;
}

void budget__look(struct target *t, uint64_t now_ns)
{
	t->budget.looks_next_ns = look(t, now_ns);
}

void budget__look_early(struct target *t, uint64_t now_ns)
{
	t->budget.evidence.glibc = is_glibc_alone(t);
	evidence__look_early(&t->budget.evidence, now_ns, read_memory, t);
}

void budget__look_at_all(struct target *t)
{
	look_at_blocks(t, UINT64_MAX - 1, SIZE_MAX);
}
