// SPDX-License-Identifier: BSD-2-Clause
/* OpenMetrics 1.0 (openmetrics.io). Each series belongs to a group: the processes of one name. One
 * series for each process would be too many series, and none of them would last. The number of
 * groups is bounded: the groups of the processes that hold most have series of their own, the rest
 * is "other". */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "encode/text.h"
#include "encode/where.h"
#include "proc/own.h"
#include "profile/estimate.h"
#include "web/reply.h"

#define MOST_GROUPS 100
#define MOST_STACKS 5 /* for each group: this many stacks of the process that holds most */
#define MOST_POOLS  8 /* thread pools of each group */

struct pool_sum {
	char name[64];
	double live_bytes;
	struct growth_sum growth; /* NaN: not known */
};

struct group {
	char name[64];
	size_t n, windowed, inactive, untraced;
	double windows; /* number of windows of its processes so far */
	struct estimate live;
	/* of the processes that seem to hold nothing: the largest high end of an interval; NaN: one
	 * of these ends is not known */
	double unseen;
	/* the figure of at least one process is a bound, whose interval lacks this end */
	bool no_low, no_high;
	size_t n_known; /* number of processes of whose live memory something is known */
	bool cost_unknown;
	struct growth_sum growth; /* NaN: not known */
	double alloc_bytes, freed_bytes, cost_cores;
	struct pool_sum pools[MOST_POOLS + 1]; /* the last pool has the sum of all others */
	size_t n_pools;
	const struct process *largest; /* NULL: none is traced */
};

static void add_growth(struct growth_sum *sum, const struct growth *one)
{
	if (isfinite(one->low))
		growth_sum__add(sum, one);
}

/* Finds or adds the pool of that name. If there are too many pools, or the name is "", returns the
 * pool "other". */
static struct pool_sum *pool_of(struct group *g, const char *name)
{
	size_t i = 0;

	if (!strcmp(name, "other"))
		name = "";
	while (*name && i < g->n_pools && strcmp(g->pools[i].name, name))
		i++;
	if (!*name || i == MOST_POOLS) {
		i = MOST_POOLS;
		name = "other";
	}
	if (!*g->pools[i].name) {
		snprintf(g->pools[i].name, sizeof(g->pools[i].name), "%s", name);
		g->pools[i].growth.total = (struct growth){NAN, NAN, NAN};
		g->n_pools += i < MOST_POOLS;
	}
	return &g->pools[i];
}

/* Adds the process's pools to the group's. 0 or -ENOMEM. */
static int add_pools(struct group *g, const struct process *p)
{
	for (size_t i = 0; i < p->n_pools; i++) {
		_cleanup_free_ char *name = text_printable(p->pools[i].name);
		struct pool_sum *sum;

		if (!name)
			return -ENOMEM;
		sum = pool_of(g, name);
		sum->live_bytes += p->pools[i].live_bytes;
		add_growth(&sum->growth, &p->pools[i].growth);
	}
	return 0;
}

static int add(struct group *g, const struct process *p)
{
	const struct profile *profile = p->latest;
	struct interval live = profile__live_interval(profile, &p->live);

	if (p->inactive) { /* the figures are outdated, so they are left out */
		g->inactive++;
		return 0;
	}
	if (profile->not_traced) { /* nothing is known of its memory */
		g->untraced++;
		return 0;
	}
	g->n++;
	g->windowed += profile__is_windowed(profile);
	g->windows += (double)profile->windows.n;
	g->cost_unknown |= !profile->overhead_pct.known && profile->cpu_time_ns;
	if (profile->overhead_pct.known && profile->duration_s > 0)
		g->cost_cores += profile->overhead_pct.value / 100 * (double)profile->cpu_time_ns /
				 1e9 / profile->duration_s;
	if (profile__unknown_why(profile)) {
		g->no_high |= profile__is_lower_bound(profile);
		return 0;
	}
	g->n_known++;
	estimate__merge_process(&g->live, &p->live);
	g->no_low |= profile__is_upper_bound(profile);
	g->no_high |= profile__is_lower_bound(profile);
	if (!(p->live.bytes > 0) && (live.high > g->unseen || isnan(live.high)))
		g->unseen = live.high;
	for (size_t i = 0; i < profile->n_sites; i++) {
		g->alloc_bytes += profile->sites[i].alloc_bytes;
		g->freed_bytes += profile->sites[i].freed_bytes;
	}
	add_growth(&g->growth, &p->growth);
	if (!g->largest || p->live.bytes > g->largest->live.bytes)
		g->largest = p;
	return add_pools(g, p);
}

static int by_live(const void *a, const void *b)
{
	const struct process *x = *(struct process *const *)a, *y = *(struct process *const *)b;

	return x->live.bytes < y->live.bytes ? 1 : x->live.bytes > y->live.bytes ? -1 : 0;
}

static struct group *group_of(struct group *groups, size_t *n, const char *name)
{
	for (size_t i = 0; i < *n; i++)
		if (!strcmp(groups[i].name, name))
			return &groups[i];
	if (*n == MOST_GROUPS)
		name = "other";
	for (size_t i = 0; *n == MOST_GROUPS && i < *n; i++)
		if (!strcmp(groups[i].name, name))
			return &groups[i];
	if (*n > MOST_GROUPS)
		return &groups[MOST_GROUPS];
	snprintf(groups[*n].name, sizeof(groups[*n].name), "%s", name);
	groups[*n].growth.total = (struct growth){NAN, NAN, NAN};
	return &groups[(*n)++];
}

/* Writes the text of a label's value. */
static void put_label(FILE *to, const char *text)
{
	_cleanup_free_ char *printable = text_printable(text);

	for (const char *c = printable ?: "?"; *c; c++) {
		if (*c == '"' || *c == '\\')
			fputc('\\', to);
		fputc(*c, to);
	}
}

/* Where metrics go, and in which of the two formats. */
struct form {
	FILE *to;
	bool open;
};

/* Writes the head of a family of metrics. The name of a counter's family ends with _total only in
 * the older format. */
static void family(const struct form *form, const char *name, const char *type, const char *unit,
		   const char *help)
{
	const char *end = !form->open && !strcmp(type, "counter") ? "_total" : "";

	fprintf(form->to, "# TYPE memtrace_%s%s %s\n", name, end, type);
	if (*unit && form->open)
		fprintf(form->to, "# UNIT memtrace_%s %s\n", name, unit);
	fprintf(form->to, "# HELP memtrace_%s%s %s\n", name, end, help);
}

static void sample(FILE *to, const char *name, const struct group *g, double value)
{
	fprintf(to, "memtrace_%s{group=\"", name);
	put_label(to, g->name);
	fprintf(to, "\"} %.17g\n", value);
}

static double of_n(const struct group *g)
{
	return (double)g->n;
}

static double of_windowed(const struct group *g)
{
	return (double)g->windowed;
}

static double of_windows(const struct group *g)
{
	return g->windows;
}

static double of_inactive(const struct group *g)
{
	return (double)g->inactive;
}

static double of_untraced(const struct group *g)
{
	return (double)g->untraced;
}

static double of_live(const struct group *g)
{
	return g->n_known ? g->live.bytes : NAN;
}

static double of_live_low(const struct group *g)
{
	return g->n_known && !g->no_low ? estimate__interval(&g->live).low : NAN;
}

static double of_live_high(const struct group *g)
{
	if (!g->n_known || g->no_high)
		return NAN;
	return g->live.bytes > 0 ? estimate__interval(&g->live).high : g->unseen;
}

static double of_growth(const struct group *g)
{
	return g->growth.total.bytes_per_s;
}

static double of_growth_low(const struct group *g)
{
	return g->growth.total.low;
}

static double of_growth_high(const struct group *g)
{
	return g->growth.total.high;
}

static double of_cost(const struct group *g)
{
	return g->n && !g->cost_unknown ? g->cost_cores : NAN;
}

/* A figure of each group. */
static const struct figure {
	const char *name, *unit, *help;
	double (*of)(const struct group *group); /* NaN: not known */
} figures[] = {
	{"processes", "", "Processes that are traced.", of_n},
	{"processes_windowed", "", "Processes that are traced in windows.", of_windowed},
	{"windows", "", "Windows so far, of the processes that are traced.", of_windows},
	{"processes_inactive", "", "Processes that are not traced, by POST /pid/N/deactivate.",
	 of_inactive},
	{"processes_untraced", "", "Processes that cannot be traced; /pid/N/ says why.",
	 of_untraced},
	{"live_bytes", "bytes", "Estimated bytes allocated since tracing began and not freed.",
	 of_live},
	{"live_low_bytes", "bytes", "Lower end of the 95 % interval of live bytes.", of_live_low},
	{"live_high_bytes", "bytes", "Upper end of the 95 % interval of live bytes.", of_live_high},
	{"growth_bytes_per_second", "", "Estimated growth of all stacks together.", of_growth},
	{"growth_low_bytes_per_second", "", "Lower end of the 95 % interval of growth.",
	 of_growth_low},
	{"growth_high_bytes_per_second", "", "Upper end of the 95 % interval of growth.",
	 of_growth_high},
	{"cost_cores", "", "CPU time that tracing takes from the processes, in cores.", of_cost},
};

static double pool_live(const struct pool_sum *pool)
{
	return pool->live_bytes;
}

static double pool_growth(const struct pool_sum *pool)
{
	return pool->growth.total.bytes_per_s;
}

static double pool_growth_low(const struct pool_sum *pool)
{
	return pool->growth.total.low;
}

static double pool_growth_high(const struct pool_sum *pool)
{
	return pool->growth.total.high;
}

static void put_pools(const struct form *form, const struct group *groups, size_t n)
{
	static const struct {
		const char *name, *unit, *help;
		double (*of)(const struct pool_sum *pool); /* NaN: not known */
	} parts[] = {
		{"pool_live_bytes", "bytes",
		 "Live bytes by the threads that allocated them, those of one name together.",
		 pool_live},
		{"pool_growth_bytes_per_second", "", "Recent growth of a pool's live bytes.",
		 pool_growth},
		{"pool_growth_low_bytes_per_second", "",
		 "Lower end of the interval of a pool's growth.", pool_growth_low},
		{"pool_growth_high_bytes_per_second", "",
		 "Upper end of the interval of a pool's growth.", pool_growth_high},
	};

	for (size_t f = 0; f < sizeof(parts) / sizeof(*parts); f++) {
		family(form, parts[f].name, "gauge", parts[f].unit, parts[f].help);
		for (size_t i = 0; i < n * (MOST_POOLS + 1); i++) {
			const struct group *g = &groups[i / (MOST_POOLS + 1)];
			const struct pool_sum *pool = &g->pools[i % (MOST_POOLS + 1)];
			double value = *pool->name ? parts[f].of(pool) : NAN;

			if (!isfinite(value))
				continue;
			fprintf(form->to, "memtrace_%s{group=\"", parts[f].name);
			put_label(form->to, g->name);
			fputs("\",pool=\"", form->to);
			put_label(form->to, pool->name);
			fprintf(form->to, "\"} %.17g\n", value);
		}
	}
}

static int by_growth(const void *a, const void *b)
{
	const struct stack *x = *(const struct stack *const *)a,
			   *y = *(const struct stack *const *)b;
	int order = growth__compare(&x->growth, &y->growth);

	return order ?: x < y ? -1 : x > y;
}

/* Writes MOST_STACKS stacks of each group's largest process. The first half of a process's stacks
 * is ordered by live bytes, except where stacks were merged. */
static void put_stacks(FILE *to, const struct group *groups, size_t n, bool growth)
{
	for (size_t i = 0; i < n; i++) {
		const struct process *p = groups[i].largest;
		const struct stack *stacks[STORE_STACKS];

		if (!p)
			continue;
		for (size_t k = 0; k < p->n_stacks; k++)
			stacks[k] = &p->stacks[k];
		if (growth)
			qsort(stacks, p->n_stacks, sizeof(*stacks), by_growth);
		for (size_t k = 0; k < p->n_stacks && k < MOST_STACKS; k++) {
			_cleanup_free_ char *holder = NULL;

			if (growth && !isfinite(stacks[k]->growth.low))
				continue;
			holder = where_holder(p->latest, &p->latest->sites[stacks[k]->site], 100,
					      false);
			fprintf(to, "memtrace_stack_%s{group=\"",
				growth ? "growth_low_bytes_per_second" : "live_bytes");
			put_label(to, groups[i].name);
			fprintf(to, "\",stack=\"%016" PRIx64 "\",function=\"", stacks[k]->id);
			put_label(to, holder ?: "?");
			fprintf(to, "\"} %.17g\n",
				growth ? stacks[k]->growth.low : stacks[k]->live_bytes);
		}
	}
}

/* Writes a metric that has one sample. */
static void put_one(const struct form *form, const char *name, const char *type, const char *unit,
		    const char *help, double value)
{
	family(form, name, type, unit, help);
	fprintf(form->to, "memtrace_%s%s %.17g\n", name, !strcmp(type, "counter") ? "_total" : "",
		value);
}

/* Writes what memtrace-web itself uses. */
static void put_server(const struct form *form)
{
	struct rusage usage;
	uint64_t peak;

	if (getrusage(RUSAGE_SELF, &usage) || own__peak_bytes(&peak))
		return;
	put_one(form, "server_cpu_seconds", "counter", "seconds", "CPU time of memtrace-web.",
		(double)own__usage_ns(&usage) / 1e9);
	put_one(form, "server_resident_bytes", "gauge", "bytes",
		"Peak of memtrace-web's resident memory.", (double)peak);
}

/* Writes what the tracer has reported about itself. Writes nothing before the first report: after a
 * restart of memtrace-web, counters of 0 would look as if the tracer had been restarted, too. */
static void put_tracer(const struct feed_message *round, const struct form *form)
{
	if (round->kind != FEED_ROUND)
		return;
	put_one(form, "tracer_cpu_seconds", "counter", "seconds",
		"CPU time of the tracer and of its children that have ended.",
		(double)round->cpu_ns / 1e9);
	put_one(form, "tracer_resident_bytes", "gauge", "bytes",
		"Peak of the tracer's resident memory.", (double)round->user_bytes);
	put_one(form, "tracer_kernel_bytes", "gauge", "bytes",
		"Kernel memory of the tracer's tables and programs.", (double)round->kernel_bytes);
	put_one(form, "tracer_probes", "gauge", "",
		"Probes on functions; those of processes in windows are out between windows.",
		(double)round->n_probes);
	put_one(form, "round_seconds", "gauge", "seconds",
		"What reading and sending all profiles took.", round->round_s);
	put_one(form, "spool_written", "counter", "",
		"Profiles of processes that were killed or crashed, written to the spool.",
		(double)round->n_spooled);
	put_one(form, "spool_lost", "counter", "",
		"Profiles of killed processes that were lost: they could not be written.",
		(double)round->n_spool_lost);
	put_one(form, "spool_removed", "counter", "",
		"Profiles deleted from the spool to make room for newer ones.",
		(double)round->n_spool_removed);
	put_one(form, "spool_waiting", "gauge", "",
		"Profiles of killed processes that are not written yet.",
		(double)round->n_spool_waiting);
	put_one(form, "processes_with_more_windows", "gauge", "",
		"Processes that have more windows than others, because they surely grow.",
		(double)round->n_favoured);
	put_one(form, "more_windows", "counter", "", "How often a process got more windows.",
		(double)round->n_favours);
	put_one(form, "more_windows_refused", "counter", "",
		"How often a process that grows got no additional windows, because enough others "
		"had them.",
		(double)round->n_favours_refused);
}

static double n_outdated(const struct store *store)
{
	size_t n = 0;

	for (size_t i = 0; i < store->n; i++)
		n += store->processes[i]->outdated && !store->processes[i]->ended;
	return (double)n;
}

static void put_own(const struct site *site, const struct form *form)
{
	static const char *const classes[] = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};
	const struct store *store = &site->store;
	const struct feed_message *round = &site->round;
	const struct {
		const char *cause;
		uint64_t n;
		bool known;
	} lost[] = {{"server_slow", round->n_dropped, round->kind == FEED_ROUND},
		    {"no_room", store->n_evicted, true},
		    {"unreadable", store->n_unreadable, true},
		    {"processes_full", store->n_refused, true}};

	put_tracer(round, form);
	put_server(form);
	put_one(form, "rounds", "counter", "", "Rounds of profiles that were received.",
		(double)store->rounds);
	put_one(form, "rounds_incomplete", "counter", "",
		"Rounds that failed, or in which not all processes were named.",
		(double)store->rounds_incomplete);
	put_one(form, "snapshots_bytes", "gauge", "bytes", "Snapshots that are kept.",
		(double)store->bytes);
	put_one(form, "processes_outdated", "gauge", "",
		"Processes whose figures are old, because newer profiles were lost.",
		n_outdated(store));
	family(form, "profiles_lost", "counter", "", "Profiles that were not kept, by cause.");
	for (size_t i = 0; i < sizeof(lost) / sizeof(*lost); i++)
		if (lost[i].known)
			fprintf(form->to,
				"memtrace_profiles_lost_total{cause=\"%s\"} %" PRIu64 "\n",
				lost[i].cause, lost[i].n);
	family(form, "requests", "counter", "", "Requests that were answered, by class of status.");
	for (int i = 1; i < 6; i++)
		fprintf(form->to, "memtrace_requests_total{class=\"%s\"} %" PRIu64 "\n", classes[i],
			site->n_requests[i]);
}

/* Writes a sample of a receiver's metric. The receivers are numbered, because several may have one
 * URL, with different tenants or tokens. cause: the value of the label "cause"; NULL: the sample
 * has no such label. */
static void put_receiver(FILE *to, const char *name, const struct push *push, size_t index,
			 const char *cause, uint64_t value)
{
	const struct push_receiver *receiver = &push->receivers[index];

	fprintf(to, "memtrace_push_%s{kind=\"%s\",receiver=\"", name,
		push_kind__name(receiver->kind));
	put_label(to, receiver->url);
	fprintf(to, "\",number=\"%zu", index + 1);
	if (cause)
		fprintf(to, "\",cause=\"%s", cause);
	fprintf(to, "\"} %" PRIu64 "\n", value);
}

static void put_push(const struct push *push, const struct form *form)
{
	FILE *to = form->to;
	size_t n = push ? push->n_receivers : 0;

	if (!n)
		return;
	family(form, "push_sent", "counter", "", "Profiles that the receiver has taken.");
	for (size_t i = 0; i < n; i++)
		put_receiver(to, "sent_total", push, i, NULL,
			     push->receivers[i].queue.results[PUSH_RESULT_SENT]);
	family(form, "push_failed", "counter", "", "Attempts to send that failed, by cause.");
	for (size_t i = 0; i < n; i++)
		for (int k = PUSH_RESULT_SENT + 1; k < PUSH_RESULTS_MAX; k++)
			put_receiver(to, "failed_total", push, i,
				     push_result__name((enum push_result)k),
				     push->receivers[i].queue.results[k]);
	family(form, "push_repeated", "counter", "",
	       "Attempts to send a profile again that the receiver may have taken before.");
	for (size_t i = 0; i < n; i++)
		put_receiver(to, "repeated_total", push, i, NULL,
			     push->receivers[i].queue.n_repeated);
	family(form, "push_dropped", "counter", "", "Profiles that were given up, by cause.");
	for (size_t i = 0; i < n; i++)
		for (int k = 0; k < PUSH_DROPS_MAX; k++)
			put_receiver(to, "dropped_total", push, i,
				     push_drop__name((enum push_drop)k),
				     push->receivers[i].queue.drops[k]);
	family(form, "push_queued", "gauge", "", "Profiles that wait to be sent.");
	for (size_t i = 0; i < n; i++)
		put_receiver(to, "queued", push, i, NULL, push->receivers[i].queue.n);
	family(form, "push_queued_bytes", "gauge", "bytes",
	       "Bytes of profiles that wait to be sent.");
	for (size_t i = 0; i < n; i++)
		put_receiver(to, "queued_bytes", push, i, NULL, push->receivers[i].queue.bytes);
	put_one(form, "push_stacks_left_out", "counter", "",
		"Stacks that were not sent: a profile had too many.",
		(double)push->n_stacks_left_out);
}

/* Adds the losses of the whole run, as they were when the profile was made. 0 or -ENOMEM. */
static int add_run_losses(struct profile *sum, const struct profile *profile)
{
	const struct profile_counters *lost = &profile->run->lost;
	int rc = 0;

	for (size_t i = 0; i < lost->n && !rc; i++)
		rc = profile_run__note_lost(sum->run, lost->at[i].name, lost->at[i].count);
	return rc;
}

/* Writes the losses, by their names. A process's own losses count while the process is traced. The
 * losses of the whole run count once, even if only profiles of processes that are not traced any
 * more have them. 0 or -ENOMEM. */
static int put_losses(const struct site *site, const struct form *form)
{
	_cleanup_(cleanup_profile) struct profile *sum = profile__new();
	const struct profile_counter *lost;
	int rc = sum ? 0 : -ENOMEM;

	for (size_t i = 0; i < site->store.n && !rc; i++) {
		const struct process *p = site->store.processes[i];

		rc = p->ended || p->inactive ? add_run_losses(sum, p->latest)
					     : profile__add_losses(sum, p->latest);
	}
	if (rc)
		return rc;
	family(form, "losses", "gauge", "",
	       "Events of this run that are missing from its figures, by cause.");
	for (size_t i = 0; (lost = profile__loss(sum, i)); i++) {
		fprintf(form->to, "memtrace_losses{cause=\"");
		put_label(form->to, lost->name);
		fprintf(form->to, "\"} %" PRIu64 "\n", lost->count);
	}
	return 0;
}

static bool is_shown(const struct process *p, const struct process *only)
{
	return !p->ended && (!only || p == only);
}

int put_metrics(const struct site *site, const struct process *only, bool open, FILE *to)
{
	const struct form of_all = {to, open}, *form = &of_all;
	_cleanup_free_ struct group *groups = calloc(MOST_GROUPS + 1, sizeof(*groups));
	_cleanup_free_ struct process **processes =
		malloc((site->store.n + 1) * sizeof(struct process *));
	size_t n_groups = 0, n = 0;
	int rc = 0;

	if (!groups || !processes)
		return -ENOMEM;
	for (size_t i = 0; i < site->store.n; i++)
		if (is_shown(site->store.processes[i], only))
			processes[n++] = site->store.processes[i];
	qsort(processes, n, sizeof(struct process *), by_live);
	for (size_t i = 0; i < n; i++) {
		/* names are compared as printed, because two names may differ only in characters
		 * that cannot be printed */
		_cleanup_free_ char *name = text_printable(processes[i]->latest->comm);

		if (!name || add(group_of(groups, &n_groups, name), processes[i]))
			return -ENOMEM;
	}
	for (size_t f = 0; f < sizeof(figures) / sizeof(*figures); f++) {
		family(form, figures[f].name, "gauge", figures[f].unit, figures[f].help);
		for (size_t i = 0; i < n_groups; i++) {
			double value = figures[f].of(&groups[i]);

			if (isfinite(value))
				sample(to, figures[f].name, &groups[i], value);
		}
	}
	family(form, "allocated_bytes", "gauge", "bytes",
	       "Estimated bytes allocated since tracing began.");
	for (size_t i = 0; i < n_groups; i++)
		if (groups[i].n_known)
			sample(to, "allocated_bytes", &groups[i], groups[i].alloc_bytes);
	family(form, "freed_bytes", "gauge", "bytes",
	       "Estimated bytes allocated since tracing began and freed.");
	for (size_t i = 0; i < n_groups; i++)
		if (groups[i].n_known)
			sample(to, "freed_bytes", &groups[i], groups[i].freed_bytes);
	put_pools(form, groups, n_groups);
	family(form, "stack_live_bytes", "gauge", "bytes",
	       "Live bytes of the largest stacks of the group's largest process; /stack/ID "
	       "names them.");
	put_stacks(to, groups, n_groups, false);
	family(form, "stack_growth_low_bytes_per_second", "gauge", "",
	       "Lower end of the 95 % interval of a stack's growth: above 0 it surely grows.");
	put_stacks(to, groups, n_groups, true);
	if (!only) {
		rc = put_losses(site, form);
		put_own(site, form);
		put_push(site->push, form);
	}
	if (open)
		fputs("# EOF\n", to);
	return rc;
}
