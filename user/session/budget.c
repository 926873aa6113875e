// SPDX-License-Identifier: BSD-2-Clause
#include "session/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/own.h"
#include "session/books.h"
#include "session/rota.h"

#define SAMPLES_WANTED	 1000 /* of a window */
#define SAMPLES_SHARE	 0.25 /* of a budget that is not exceeded, that may be spent for more of them */
#define MIN_INTERVAL	 64
#define SETTLE_NS	 3000000ULL /* after probes came: what their coming has held up is made up for, and not counted */
#define HALF_SETTLE_NS	 2000000   /* until what the first probes' coming has held up is made up for, and */
#define HALF_NS		 5000000   /* of a window with half of its probes: long enough to tell what they cost */
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
	return budget__cost_known(s) ? total_of(s, t) : -1;
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
	books__note_totals(t, clock__now_ns(CLOCK_MONOTONIC), *ret_cpu, *ret_cost, false);
}

int budget__begin(struct session *s, struct target *t, double share)
{
	struct budget *b = &t->budget;
	double cost, cpu;
	uint64_t seed;
	int rc;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return -EIO;
	rc = books__begin(s, t);
	if (rc)
		return rc;
	b->interval = s->interval;
	b->start_ns = clock__now_ns(CLOCK_MONOTONIC);
	/* Where there is a heap to be seen as well, regions leave half to it. */
	if (s->what & WHAT_REGIONS)
		b->regions_share = BUDGET_AIM * share * (s->what & WHAT_HEAP ? 0.5 : 1);
	b->regions_next_ns = b->start_ns + REGIONS_OFTEN_NS;
	if (!(s->what & WHAT_HEAP))
		return 0;
	capture__set_window(s->capture, t->info.pid, b->start_ns);
	budget__read_totals(s, t, &cost, &cpu);
	b->whole = (struct price_totals){cpu, cost, (double)t->alloc_calls};
	windows__begin(&b->windows, BUDGET_AIM * share, BUDGET_STEADY * share, seed, b->start_ns, cost, cpu);
	books__opened(s, t);
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

/* --- opening and closing --- */

void budget__close(struct session *s, struct target *t)
{
	capture__set_window(s->capture, t->info.pid, ABI_NO_WINDOW);
	capture__pause(s->capture, t->info.pid);
}

/* The window is about to be closed: what calls have cost in it. */
static void read_price_totals(struct session *s, struct target *t, struct price_totals *ret)
{
	budget__read_totals(s, t, &ret->cost_ns, &ret->cpu_ns);
	ret->allocs = (double)t->alloc_calls;
}

void budget__note_whole(struct session *s, struct target *t)
{
	struct price_totals end;

	if (t->budget.stretch)
		return;
	read_price_totals(s, t, &end);
	price__note_whole(&t->budget.price, &t->budget.whole, &end);
	net_clock__set_price(&t->budget.clock, t->budget.price.factor);
}

/* From here on it takes some 10 ms until the probes are out, and several times as long until the kernel
 * has done: others' windows do not wait for that. */
static void begin_close(struct session *s, struct target *t)
{
	struct target *const only[] = {t};
	double cost, cpu;

	budget__read_totals(s, t, &cost, &cpu);
	t->budget.end_ns = clock__now_ns(CLOCK_MONOTONIC);
	books__note_totals(t, t->budget.end_ns, cpu, cost, true);
	budget__note_whole(s, t);
	if (books__meet(s, only, 1))
		t->budget.failed++;
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

static void end_close(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	double cost, cpu;

	b->closing = b->stretch = false;
	budget__read_totals(s, t, &cost, &cpu);
	windows__done(&b->windows, WINDOWS_CLOSE, clock__now_ns(CLOCK_MONOTONIC), cost, cpu);
	adapt_interval(s, t, t->counters.samples - b->samples);
}

/* All that are closed by now, for one reading of the tables. */
static void end_closes(struct session *s)
{
	_cleanup_free_ struct target **closed = calloc(s->n_targets + 1, sizeof(*closed));
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);
	size_t n = 0;
	int rc;

	for (size_t i = 0; closed && i < s->n_targets; i++)
		if (!s->targets[i]->ended && s->targets[i]->budget.closing && is_closed(s, s->targets[i], now))
			closed[n++] = s->targets[i];
	if (!n)
		return;
	rc = books__harvest(s, closed, n);
	for (size_t i = 0; i < n; i++) {
		closed[i]->budget.failed += rc != 0;
		end_close(s, closed[i]);
	}
}

struct opening {
	struct session *s;
	struct target *t;
};

/* Only calls that allocate are seen yet. */
static void note_half(void *ctx)
{
	const struct timespec settle = {.tv_nsec = HALF_SETTLE_NS}, part = {.tv_nsec = HALF_NS};
	struct opening *o = ctx;
	struct price_totals from, to;

	nanosleep(&settle, NULL);
	read_price_totals(o->s, o->t, &from);
	nanosleep(&part, NULL);
	read_price_totals(o->s, o->t, &to);
	price__note_half(&o->t->budget.price, &from, &to);
}

void budget__open(struct session *s, struct target *t, struct allocators *allocators)
{
	struct opening opening = {s, t};
	struct error none = {};
	double cost, cpu;
	uint64_t now;

	if (capture__resume(s->capture, allocators, t->info.pid, note_half, &opening, &none))
		t->budget.failed++;
	if (!s->everywhere)
		targets__attach_own(s, t); /* to what was loaded meanwhile */
	now = clock__now_ns(CLOCK_MONOTONIC);
	t->budget.start_ns = now + SETTLE_NS;
	capture__set_window(s->capture, t->info.pid, t->budget.start_ns);
	budget__read_totals(s, t, &cost, &cpu);
	books__note_totals(t, clock__now_ns(CLOCK_MONOTONIC), cpu, cost, true);
	books__opened(s, t);
	read_price_totals(s, t, &t->budget.whole);
	t->budget.samples = t->counters.samples;
	t->budget.stretch = false;
	windows__done(&t->budget.windows, WINDOWS_OPEN, now, cost, cpu);
}

bool budget__wants_probes(const struct target *t)
{
	const struct budget *b = &t->budget;

	return !(b->windows.budget > 0) || (b->windows.open && !b->closing);
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

/* The window becomes a stretch of continuous tracing: samples need not come by the window. */
static void begin_stretch(struct session *s, struct target *t)
{
	t->budget.stretch = true;
	books__rest(s, t);
	budget__restore_interval(s, t);
}

/* What is due of one target; when there is something again. */
static uint64_t keep(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC), due;
	double cost, cpu;

	b->windows.spare = s->spare;
	if (!b->closing && now >= b->windows.next_ns &&
	    (b->windows.open || capture__pausing(s->capture, t->info.pid) < MAX_PAUSING)) {
		budget__read_totals(s, t, &cost, &cpu);
		b->windows.sleeps = !b->windows.open && process__sleeps(t->info.pid, MAX_THREADS);
		switch (windows__step(&b->windows, now, cost, cpu)) {
		case WINDOWS_OPEN:
			budget__open(s, t, t->allocators);
			if (b->windows.continuous)
				begin_stretch(s, t);
			break;
		case WINDOWS_CLOSE:
			begin_close(s, t);
			break;
		case WINDOWS_NONE:
			if (b->windows.continuous && !b->stretch)
				begin_stretch(s, t);
			break;
		}
	}
	due = b->closing ? b->closed_look_ns : b->windows.next_ns;
	return due > now ? due : now + CLOSED_LOOK_NS; /* too many links still to go */
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
	struct target *const only[] = {t};
	struct budget *b = &t->budget;
	double cost, cpu;

	if (s->everywhere) {
		rota__end_target(s, t);
		return;
	}
	if (!(b->windows.budget > 0) || b->ended)
		return;
	b->ended = true;
	budget__read_totals(s, t, &cost, &cpu);
	/* continuous from its beginning: there is nothing to piece together */
	if (b->closing || (b->windows.open && (b->survivors.n_windows || !b->stretch))) {
		if (!b->closing)
			b->end_ns = s->stop_ns ? s->stop_ns : clock__now_ns(CLOCK_MONOTONIC);
		if (books__harvest(s, only, 1))
			b->failed++;
		if (b->closing)
			end_close(s, t);
	} else if (!t->ended) {
		books__look(t, clock__now_ns(CLOCK_MONOTONIC));
	}
	windows__end(&b->windows, s->stop_ns ? s->stop_ns : clock__now_ns(CLOCK_MONOTONIC));
}

/* --- for those whose turn others decide --- */

double budget__machine_cost_ns(struct session *s)
{
	struct abi_process_cpu counters;

	return capture__machine_counters(s->capture, &counters) ? 0 : cost_of(s, &counters);
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
}
