// SPDX-License-Identifier: BSD-2-Clause
#include "session/budget.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/own.h"
#include "proc/process.h"

#define SAMPLES_WANTED	 1000 /* of a window */
#define SAMPLES_SHARE	 0.25 /* of a budget that is not exceeded, that may be spent for more of them */
#define COARSE		 8 /* times the interval that is right: too coarse to stand for more than itself */
#define MIN_INTERVAL	 64
#define FIRST_LOOK_NS	 10000000ULL /* old enough to be filled in, young enough not to be another's already */
#define LOOKS_AT_ONCE	 4096
#define LOOKS_EVERY_NS	 100000000ULL
#define MAX_PAUSING	 16	     /* links of a process that are still to go when the next window opens */
#define MAX_THREADS	 64 /* that are asked whether they sleep; of a process with more it is not known */
#define REGIONS_OFTEN_NS  20000000ULL  /* looked at that often when it may become too dear any moment, */
#define REGIONS_SELDOM_NS 200000000ULL /* or that seldom */
#define REGIONS_CREDIT_NS 50000000     /* what seeing regions may cost beyond its share: a burst */
#define SAMPLE_NS	 900 /* what a sample costs beyond an unsampled call and its stack: a return, three tables */
#define NICE		 -10 /* ours where many are traced: a window that is closed late costs what the budget does not allow */

/* --- cost --- */

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

double budget__cost_ns(const struct session *s, const struct target *t)
{
	const struct paced *p = &t->budget.pace;

	if (!budget__cost_known(s))
		return -1;
	return cost_of(s, &t->counters) + t->budget.rare_ns + p->extra_ns + p->windows.felt_ns;
}

void budget__note_rarity(const struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t calls = t->alloc_calls + t->free_calls, now = clock__now_ns(CLOCK_MONOTONIC);
	double wall = (double)(now - b->rare_at_ns), cpu = (double)t->cpu_now_ns - b->rare_cpu_ns;

	if (s->calibrated && b->rare_at_ns && paced__wants_probes(&b->pace) && calls > b->rare_calls)
		b->rare_ns += calibration__rarity_ns(&s->calibration, calls - b->rare_calls, wall > cpu ? wall : cpu);
	b->rare_calls = calls;
	b->rare_at_ns = now;
	b->rare_cpu_ns = (double)t->cpu_now_ns;
}

/* --- intervals --- */

/* Sees to it that the next one brings neither too few samples for an estimate nor more than it can pay
 * for. */
static void set_interval(struct session *s, struct target *t, uint64_t samples)
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

/* The same where windows are their own: with a few first ones whose samples would outweigh all others'. */
static void adapt_own(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t interval = b->interval;

	set_interval(s, t, t->counters.samples - b->samples);
	if (b->interval > interval / COARSE)
		b->adapted = true;
	else if (b->taken && !b->adapted)
		b->evidence.windows[b->evidence.n_windows - 1].apart = true;
}

/* Where tracing fits all the time samples must not change that. */
static void adapt_shared(struct session *s, struct target *t, double cost_ns, double cpu_ns)
{
	double samples = (double)(t->counters.samples - t->budget.samples), wanted = SAMPLES_WANTED;

	if (cost_ns < s->max_overhead * cpu_ns)
		wanted = SAMPLES_SHARE * s->max_overhead * cpu_ns / SAMPLE_NS;
	if (wanted > 1 && wanted < SAMPLES_WANTED)
		samples *= SAMPLES_WANTED / wanted;
	if (wanted > 1)
		set_interval(s, t, (uint64_t)samples);
	t->budget.samples = t->counters.samples;
}

static void adapt_interval(void *ctx, struct paced *p, double cost_ns, double cpu_ns)
{
	struct session *s = ctx;

	if (s->everywhere)
		adapt_shared(s, p->owner, cost_ns, cpu_ns);
	else
		adapt_own(s, p->owner);
}

static void restore_interval(void *ctx, struct paced *p)
{
	struct target *t = p->owner;
	struct session *s = ctx;

	if (t->budget.interval != s->interval &&
	    !capture__set_interval(s->capture, t->info.pid, s->interval))
		t->budget.interval = s->interval;
	t->budget.adapted = false;
}

/* --- what windows have brought --- */

static void forget_block(void *ctx, uint64_t addr)
{
	const struct budget *b = ctx;

	capture__forget_block(b->capture, b->process, addr);
}

/* Of the last window, or of what was added to it. */
static void note_interval(struct budget *b)
{
	struct evidence_window *window = &b->evidence.windows[b->evidence.n_windows - 1];
	double added = (double)(b->pace.end_ns - b->pace.start_ns) / (double)(window->end_ns - window->start_ns);

	window->interval += (double)b->interval * added - window->interval * added;
}

/* Takes in what the last window of t has brought. */
static int take(struct target *t, const struct capture_table *tracked, const struct capture_table *sites)
{
	_cleanup_free_ struct abi_live *live = NULL;
	_cleanup_free_ uint64_t *addrs = NULL;
	const struct abi_live_key *keys = tracked->keys;
	const struct abi_live *values = tracked->values;
	size_t n = 0, found = 0;
	struct paced *p = &t->budget.pace;
	int rc;

	if (p->end_ns <= p->start_ns) /* the run ended as it was opened */
		p->end_ns = p->start_ns + 1;
	rc = chains__harvest(&t->budget.chains, t->process, p->start_ns, p->end_ns,
			     sites);
	if (rc)
		return rc;

	for (size_t i = 0; i < tracked->n; i++)
		n += keys[i].process == t->process;
	addrs = calloc(n + 1, sizeof(*addrs));
	live = calloc(n + 1, sizeof(*live));
	if (!addrs || !live)
		return -ENOMEM;
	for (size_t i = 0; i < tracked->n; i++) {
		if (keys[i].process != t->process)
			continue;
		if (values[i].birth_ns < t->exec_ns) { /* of the program before: nobody's */
			forget_block(&t->budget, keys[i].addr);
			continue;
		}
		addrs[found] = keys[i].addr;
		live[found++] = values[i];
	}
	p->looks_next_ns = 0; /* there may be new ones */
	rc = evidence__harvest(&t->budget.evidence, p->start_ns, p->end_ns, addrs, live, found,
			       FIRST_LOOK_NS);
	if (!rc)
		note_interval(&t->budget);
	return rc;
}

/* Where a process's windows are its own, those that went on for longer than planned stand for themselves alone. */
static void note_apart(struct budget *b)
{
	const struct windows *w = &b->pace.windows;

	b->evidence.windows[b->evidence.n_windows - 1].apart = w->continuous || w->continuous_ns > b->continuous_ns;
	b->continuous_ns = w->continuous_ns;
}

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
static int take_all(struct session *s, struct target **targets, size_t n)
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
		struct budget *b = &targets[i]->budget;

		b->taken = !take(targets[i], &his, &his_sites);
		b->pace.failed += !b->taken;
		if (b->taken && !s->everywhere)
			note_apart(b);
	}
	return rc;
}

/* One reading of the tables for all windows that are over. */
static void harvest(void *ctx, struct paced **processes, size_t n)
{
	_cleanup_free_ struct target **targets = calloc(n + 1, sizeof(*targets));
	bool failed = !targets;

	for (size_t i = 0; i < n; i++) {
		struct target *t = processes[i]->owner;

		t->budget.taken = false;
		if (targets)
			targets[i] = t;
	}
	failed = failed || take_all(ctx, targets, n);
	for (size_t i = 0; i < n && failed; i++)
		processes[i]->failed++;
}

static bool has_windows(void *ctx, const struct paced *p)
{
	const struct target *t = p->owner;

	(void)ctx;
	return t->budget.evidence.n_windows;
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

static uint64_t look(void *ctx, struct paced *p, uint64_t now_ns)
{
	struct target *t = p->owner;
	uint64_t due = evidence__next_look(&t->budget.evidence);

	(void)ctx;
	if (due > now_ns)
		return due;
	if (look_at_blocks(t, now_ns, LOOKS_AT_ONCE) < 0)
		return now_ns + 10 * LOOKS_EVERY_NS; /* on its way out, perhaps */
	due = evidence__next_look(&t->budget.evidence);
	return due < now_ns + LOOKS_EVERY_NS ? now_ns + LOOKS_EVERY_NS : due;
}

static void look_at_all(void *ctx, struct paced *p)
{
	(void)ctx;
	look_at_blocks(p->owner, UINT64_MAX - 1, SIZE_MAX);
}

void budget__look_early(struct target *t, uint64_t now_ns)
{
	t->budget.evidence.glibc = is_glibc_alone(t);
	evidence__look_early(&t->budget.evidence, now_ns, read_memory, t);
}

/* --- the other ops --- */

static uint64_t session_now_ns(void *ctx)
{
	const struct session *s = ctx;

	return s->stop_ns ? s->stop_ns : clock__now_ns(CLOCK_MONOTONIC);
}

static void read_totals(void *ctx, struct paced *p, double *ret_cost, double *ret_cpu)
{
	struct target *t = p->owner;

	targets__read(ctx, t);
	*ret_cost = cost_of(ctx, &t->counters) + t->budget.rare_ns;
	*ret_cpu = (double)t->cpu_now_ns;
}

static uint64_t calls(void *ctx, struct paced *p)
{
	const struct target *t = p->owner;

	(void)ctx;
	return t->alloc_calls + t->free_calls;
}

static bool sleeps(void *ctx, struct paced *p)
{
	(void)ctx;
	return process__sleeps(((struct target *)p->owner)->info.pid, MAX_THREADS);
}

static int machine_idle_ns(void *ctx, uint64_t *ret)
{
	(void)ctx;
	return own__machine_idle_ns(ret);
}

static bool can_open(void *ctx, struct paced *p)
{
	struct session *s = ctx;

	if (capture__kind(s->capture) == PROBE_PERF)
		return !capture__pausing(s->capture, -1); /* we would wait as long as that takes */
	return capture__pausing(s->capture, ((struct target *)p->owner)->info.pid) < MAX_PAUSING;
}

/* Is the process still the one that became a target? Its pid is all that the kernel takes. */
static bool is_same(const struct target *t)
{
	struct process_info now;

	return !process__read_stat(t->info.pid, &now) && now.start_ticks == t->info.start_ticks;
}

/* Where probes are in everybody's code, what the target has for an allocator is known only now. */
static int open_shared(struct session *s, struct target *t)
{
	struct allocators *allocators = NULL;
	struct error none = {};
	int rc;

	rc = allocators__find(s->alloc_files, t->info.pid, &t->maps, false, s->extra, s->n_extra, &allocators, &none);
	if (rc)
		return rc;
	allocators->n_attached = allocators->n;
	t->budget.pace.failed += capture__resume(s->capture, allocators, t->info.pid, &none) != 0;
	t->budget.pace.cut = !is_same(t);
	allocators__free(allocators);
	return 0;
}

static int open_window(void *ctx, struct paced *p)
{
	struct target *t = p->owner;
	struct session *s = ctx;
	struct error none = {};
	int rc = 0;

	if (s->everywhere) {
		rc = open_shared(s, t);
	} else {
		p->failed += capture__resume(s->capture, t->allocators, t->info.pid, &none) != 0;
		targets__attach_own(s, t); /* to what was loaded meanwhile */
	}
	targets__read(s, t);
	t->budget.samples = t->counters.samples;
	return rc;
}

static void begin_close(void *ctx, struct paced *p)
{
	capture__pause(((struct session *)ctx)->capture, ((struct target *)p->owner)->info.pid);
}

static bool is_gone(void *ctx, struct paced *p)
{
	return !capture__pausing(((struct session *)ctx)->capture, ((struct target *)p->owner)->info.pid);
}

static void set_window(void *ctx, struct paced *p, uint64_t start_ns)
{
	capture__set_window(((struct session *)ctx)->capture, ((struct target *)p->owner)->info.pid,
			    start_ns == UINT64_MAX ? ABI_NO_WINDOW : start_ns);
}

static double machine_cost_ns(void *ctx)
{
	struct abi_process_cpu counters;
	struct session *s = ctx;

	return capture__machine_counters(s->capture, &counters) ? 0 : cost_of(s, &counters);
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

	for (size_t i = 0; i < s->n_attached && !rc; i++)
		rc = capture__resume(s->capture, s->attached[i], 0, &none);
	if (rc) /* all or none */
		capture__pause(s->capture, 0);
	return rc;
}

static int watch(void *ctx, struct paced *p, double *ret_cpu_ns)
{
	uint64_t cpu;
	int rc = process__cpu_time_ns(((struct target *)p->owner)->info.pid, &cpu);

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
	.calls = calls,
	.sleeps = sleeps,
	.machine_idle_ns = machine_idle_ns,
	.can_open = can_open,
	.open = open_window,
	.begin_close = begin_close,
	.is_gone = is_gone,
	.set_window = set_window,
	.harvest = harvest,
	.has_windows = has_windows,
	.adapt_interval = adapt_interval,
	.restore_interval = restore_interval,
	.look = look,
	.look_at_all = look_at_all,
	.machine_cost_ns = machine_cost_ns,
	.pause_all = pause_all,
	.all_gone = all_gone,
	.resume_all = resume_all,
	.watch = watch,
	.watch_size = watch_size,
};

/* --- regions --- */

/* Calls of mmap and its like are few, as a rule, and seen all the time, beside whatever windows. A program that
 * makes so many of them that this alone is too dear is told from a burst by what has come together. */
static uint64_t keep_regions(struct session *s, struct target *t, uint64_t now_ns)
{
	double since = (double)(now_ns - s->start_ns), used, left;

	targets__read(s, t);
	used = (double)(t->cpu_now_ns - t->cpu_start_ns);
	used = used > s->scheduler.spare * since ? used : s->scheduler.spare * since; /* as in windows.h */
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
	uint64_t next = scheduler__keep(&s->scheduler);

	for (size_t i = 0; i < s->n_targets && !s->everywhere; i++) {
		struct budget *b = &s->targets[i]->budget;
		uint64_t now = clock__now_ns(CLOCK_MONOTONIC);

		if (s->targets[i]->ended || !(b->regions_share > 0) || s->targets[i]->regions_stopped_ns)
			continue;
		if (now >= b->regions_next_ns)
			b->regions_next_ns = keep_regions(s, s->targets[i], now);
		next = b->regions_next_ns < next ? b->regions_next_ns : next;
	}
	return next;
}

/* --- the run --- */

int budget__welcome(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t seed[3] = {}, now = clock__now_ns(CLOCK_MONOTONIC);

	if (!s->scheduler.begun || b->pace.begun)
		return 0;
	if (getrandom(seed, sizeof(seed), 0) != sizeof(seed))
		return -EIO;
	b->capture = s->capture;
	b->process = t->process;
	b->interval = s->interval;
	evidence__init(&b->evidence, s->evidence ? s->evidence : EVIDENCE_ALL, seed);
	b->evidence.settled = forget_block;
	b->evidence.ctx = b;
	/* Where there is a heap to be seen as well, regions leave half to it. */
	if (s->what & WHAT_REGIONS)
		b->regions_share = BUDGET_AIM * s->max_overhead * (s->what & WHAT_HEAP ? 0.5 : 1);
	b->regions_next_ns = now + REGIONS_OFTEN_NS;
	if (!(s->what & WHAT_HEAP))
		return 0;
	return scheduler__add(&s->scheduler, &b->pace, t, seed[2], s->everywhere && t->start_ns ? t->start_ns : now);
}

int budget__begin(struct session *s)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct pace_limits limits = {
		.aim = BUDGET_AIM * s->max_overhead,
		.steady = BUDGET_STEADY * s->max_overhead,
		.shared = s->everywhere,
		.own = s->max_overhead,
		.host = BUDGET_AIM * s->max_host_overhead,
		.cpus = cpus > 0 ? (unsigned)cpus : 1,
		.period_ns = s->window_period_ns,
	};
	int rc = 0;

	if (s->everywhere)
		setpriority(PRIO_PROCESS, 0, NICE); /* a command runs in a process of its own already */
	scheduler__begin(&s->scheduler, &ops, s, &limits);
	for (size_t i = 0; i < s->n_targets && !rc; i++) {
		rc = budget__welcome(s, s->targets[i]);
		if (s->everywhere)
			rc = 0; /* it goes without */
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
