// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/far.h"
#include "capture/snapshot.h"
#include "proc/own.h"
#include "session/books.h"
#include "session/budget.h"
#include "session/internal.h"

#define MIN_SETTLED	16	   /* all tables are read when this many processes have ended */
#define SETTLE_EVERY_NS 2000000000 /* the tables are read at most this often */
/* The tables are also read if a process ended this long ago, even if no other process has ended:
 * the files of the process are held until its profile is made. */
#define SETTLE_LATE_NS 10000000000
/* session__await_gap() waits at most this long for a gap between windows */
#define GAP_WITHIN_NS 1000000000
#define GAP_LOOK_MS   5 /* how often session__await_gap() checks */
/* With session_options.victims: how often the blocks of processes in windows are checked. These
 * checks take at most 1/FORESEE_SHARE of memtrace's time. */
#define FORESEE_EVERY_NS  500000000
#define FORESEE_SHARE	  10
#define FORESEE_SHARE_ALL 50 /* the same, where all processes are traced */
/* Profiles of ended processes that are kept: at most this many, of at most this many bytes
 * together. The profiles of those processes that held most are kept. */
#define MAX_ENDED	4096
#define MAX_ENDED_BYTES (64U << 20)

void profile_list__clear(struct profile_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		profile__free(list->at[i]);
	free(list->at);
	*list = (struct profile_list){};
}

/* Notes what the whole run has lost so far. 0 or -ENOMEM. */
static int note_lost(struct session *s)
{
	const struct {
		const char *name;
		uint64_t n;
	} lost[] = {
		{"probes_withdrawn", s->n_withdrawals},
		{"program_runs_missed", capture__missed_runs(s->capture)},
		{"map_records_lost", s->watch_lost},
		{"process_events_lost", s->events_lost},
		{"block_ends_lost", s->ends_lost},
		{"processes_refused",
		 capture__processes_refused(s->capture) + s->processes_refused},
		{"borrowers_missed", capture__borrowers_lost(s->capture)},
		{"processes_unseen", s->unseen},
		{"profiles_forgotten", s->forgotten},
		{"files_refused", s->files_refused},
		{"probes_refused", s->probes_refused},
		{"memory_unanswered", memory__given_up()},
		{"files_unanswered", far__given_up()},
		{"unwind_tables_refused", capture__tables_refused(s->capture)},
		{"unwinding_refused", capture__unwinding_refused(s->capture)},
		{"victims_unannounced", s->victims && capture__victims_unseen(s->capture)},
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof(lost) / sizeof(*lost) && !rc; i++)
		rc = profile_run__note_lost(s->run, lost[i].name, lost[i].n);
	return rc;
}

/* Reads the kernel's tables, and what the whole run has lost so far, for all profiles that are made
 * now. 0 or negative errno with err. */
static int read_tables(struct session *s, struct capture_drain *drain, struct error *err)
{
	int rc = capture__drain(s->capture, drain, err);

	if (rc)
		return rc;
	rc = snapshot__sort_drain(drain) ?: note_lost(s);
	return rc ? error__set(err, rc, "out of memory") : 0;
}

/* Returns the wall clock at the start of a target's profile. For a target that came during the run,
 * this time was noted when the target came. (Since the run's start the clock may have been set, or
 * the machine may have slept.) */
static uint64_t start_unix_ns(const struct session *s, const struct target *t, uint64_t start_ns)
{
	return t->start_unix_ns && start_ns == t->start_ns
		       ? t->start_unix_ns
		       : s->start_unix_ns + (start_ns - s->start_ns);
}

/* Adds the target's profiles to the list. If the target has not ended, its profiles end at
 * now_ns. */
static int make_profile(struct session *s, const struct capture_drain *drain, struct target *t,
			uint64_t now_ns, struct profile_list *list)
{
	uint64_t start_ns = session__begin_ns(s, t);
	uint64_t end_ns = t->ended ? t->end_ns : now_ns;
	uint64_t coarsest = t->budget.coarsest > s->interval ? t->budget.coarsest : s->interval;
	/* the interval of samples that the target takes itself may be larger */
	uint64_t marked = t->counters.marked_interval > coarsest ? t->counters.marked_interval : 0;
	struct build build = {
		.capture = s->capture,
		.run = s->run,
		.calibration = s->calibrated ? &s->calibration : NULL,
		.drain = drain,
		.target = t,
		.pieces = &t->resident,
		.series = s->series.n ? &s->series : NULL,
		.begin_ns = start_ns,
		.end_ns = end_ns,
		.symbolizer = s->symbolizer,
		.faults = s->what & WHAT_FAULTS,
		.blocks = s->blocks && s->stopped,
		.interval = marked ?: coarsest,
		.asked_interval = marked ?: s->interval,
		.finest_interval = t->counters.marked_interval ? 0 : t->budget.finest,
		.present_interval = marked ?: t->budget.interval ?: s->interval,
		.start_unix_ns = start_unix_ns(s, t, start_ns),
		.duration_s = end_ns > start_ns ? (double)(end_ns - start_ns) / 1e9 : 0,
		.planned_s = t->uninvited ? 0 : s->planned_s,
		.overhead_pct = session__share_pct(t->probe_ns, target__cpu_used_ns(t)),
		.others_pct = others__pct(&t->budget.others),
		.cpu_time_ns = target__cpu_used_ns(t),
		.withdrawals = s->n_withdrawals - t->withdrawals_before,
		.not_traced = files__not_traced(s, t),
		.without = s->without,
	};
	struct profile **profiles, *regions = NULL;
	size_t first = list->n;
	int rc;

	profiles = reallocarray(list->at, list->n + 2, sizeof(struct profile *));
	if (!profiles)
		return -ENOMEM;
	list->at = profiles;
	/* Regions that the program maps by itself are not growth of its heap. */
	if (s->what & WHAT_REGIONS) {
		struct build of_regions = build;

		of_regions.calibration = NULL;
		of_regions.not_traced = NULL;
		if (!s->regions_calibrated)
			of_regions.overhead_pct = (struct optional){};
		rc = build__regions(&of_regions, &regions);
		if (rc)
			return rc;
		build.regions_growth = profile__own_growth(regions);
	}
	if (s->what & (WHAT_HEAP | WHAT_FAULTS)) {
		rc = build__profile(&build, &list->at[list->n]);
		if (rc) {
			profile__free(regions);
			return rc;
		}
		list->n++;
	}
	if (regions)
		list->at[list->n++] = regions;
	/* the resident set goes into the process's first profile, of the heap or of regions */
	return build__resident(&build, s->what & WHAT_HEAP ? list->at[first] : NULL, regions,
			       &list->at[first]->resident);
}

/* One of the kept profiles. */
struct kept {
	size_t index;
	double live_bytes;
};

static int compare_kept(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	if (x->live_bytes != y->live_bytes)
		return x->live_bytes < y->live_bytes ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/* If there are more profiles of ended processes than can be kept, forgets the profiles of the
 * processes that held least. */
static void forget_least(struct session *s)
{
	_cleanup_free_ struct kept *kept = NULL;
	size_t bytes = 0, left = s->profiles.n, n = 0;

	for (size_t i = 0; i < s->profiles.n; i++)
		bytes += profile__bytes(s->profiles.at[i]);
	if (left <= MAX_ENDED && bytes <= MAX_ENDED_BYTES)
		return;
	kept = calloc(s->profiles.n, sizeof(*kept));
	if (!kept)
		return;
	for (size_t i = 0; i < s->profiles.n; i++)
		kept[i] = (struct kept){i, profile__live(s->profiles.at[i]).bytes};
	qsort(kept, s->profiles.n, sizeof(*kept), compare_kept);
	for (size_t i = 0; left > MAX_ENDED || (left > 1 && bytes > MAX_ENDED_BYTES); i++, left--) {
		struct profile **least = &s->profiles.at[kept[i].index];

		bytes -= profile__bytes(*least);
		profile__free(*least);
		*least = NULL;
		s->forgotten++;
	}
	for (size_t i = 0; i < s->profiles.n; i++)
		if (s->profiles.at[i])
			s->profiles.at[n++] = s->profiles.at[i];
	s->profiles.n = n;
}

/* Is the target a victim whose profile is still to be reported? */
static bool is_untold(const struct session *s, const struct target *t)
{
	return targets__ended_as_victim(s, t) && !t->victim_told;
}

/* Can the target's last profile be made, and the target be forgotten? */
static bool is_settled(const struct session *s, const struct target *t)
{
	return t->ended && t->uninvited && !is_untold(s, t);
}

void profiles__settle_ended(struct session *s)
{
	_cleanup_(capture_drain__free) struct capture_drain drain = {};
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);
	size_t n = 0;
	bool late = s->records_left;

	for (size_t i = 0; i < s->n_targets; i++) {
		const struct target *t = s->targets[i];

		n += is_settled(s, t);
		late = late ||
		       (is_settled(s, t) && (t->released || now > t->end_ns + SETTLE_LATE_NS));
	}
	if ((n < MIN_SETTLED && !late) || now < s->settle_next_ns)
		return;
	s->settle_next_ns = now + SETTLE_EVERY_NS;
	scheduler__harvest(&s->scheduler);
	if (read_tables(s, &drain, NULL))
		return;
	for (size_t i = 0; i < s->n_targets;) {
		struct target *t = s->targets[i];

		if (!is_settled(s, t)) {
			i++;
			continue;
		}
		if (!s->forget_ended && make_profile(s, &drain, t, now, &s->profiles))
			break; /* out of memory: the target waits */
		targets__remove(s, t);
	}
	forget_least(s);
	s->records_left = false;
	capture__drop_records(s->capture, &drain, !(s->what & WHAT_REGIONS));
}

int session__victims(struct session *s, int (*fn)(void *ctx, const struct profile *profile),
		     void *ctx)
{
	_cleanup_(capture_drain__free) struct capture_drain drain = {};
	struct profile_list list = {};
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < s->n_targets; i++)
		n += is_untold(s, s->targets[i]);
	if (!n)
		return 0;
	scheduler__harvest(&s->scheduler);
	rc = read_tables(s, &drain, NULL);
	if (rc)
		return rc;
	/* a profile that cannot be made now is tried again later, and must not keep others from
	 * being reported */
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		int one;

		if (!is_untold(s, t))
			continue;
		one = make_profile(s, &drain, t, t->end_ns, &list);
		t->victim_told = !one;
		rc = rc ?: one;
	}
	for (size_t i = 0; i < list.n; i++) {
		int one = fn(ctx, list.at[i]);

		rc = rc ?: one;
	}
	profile_list__clear(&list);
	return rc;
}

uint64_t session__kernel_bytes(const struct session *s, bool *ret_at_most)
{
	return capture__kernel_bytes(s->capture, ret_at_most) +
	       (s->watch ? watch__bytes(s->watch) : 0);
}

/* Notes what the run has cost memtrace itself. */
static void note_cost(struct session *s)
{
	struct run_cost cost = {.known = true, .host_pct = budget__host_pct(s)};

	cost.host_known = cost.host_pct >= 0;
	if (own__peak_bytes(&cost.user_bytes) || s->stop_ns <= s->start_ns)
		return;
	cost.cpu_pct = 100.0 * (double)s->own_cpu_ns / (double)(s->stop_ns - s->start_ns);
	cost.kernel_bytes = session__kernel_bytes(s, &cost.at_most);
	s->run->cost = cost;
}

int session__profiles(struct session *s, struct profile *const **ret, size_t *ret_n,
		      struct error *err)
{
	_cleanup_(capture_drain__free) struct capture_drain drain = {};
	int rc;

	rc = read_tables(s, &drain, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < s->n_targets; i++) {
		rc = make_profile(s, &drain, s->targets[i], s->stop_ns, &s->profiles);
		if (rc)
			return error__set(err, rc, "cannot put the profile of pid %d together: %s",
					  s->targets[i]->info.pid, strerror(-rc));
	}
	/* notes the losses again: more may have been lost since the last profile was made */
	if (note_lost(s))
		return error__set(err, -ENOMEM, "out of memory");
	note_cost(s);
	*ret = s->profiles.at;
	*ret_n = s->profiles.n;
	return 0;
}

/* Is the target in a stretch of continuous tracing now? (The stretch lasts as long as it keeps the
 * limit.) */
static bool in_stretch(const struct target *t)
{
	const struct paced *p = &t->budget.pace;

	return t->budget.stretch && !p->closing && p->windows.open;
}

/* Reads a target's counters, for its ledger. */
static void read_counters(struct session *s, struct target *t)
{
	targets__read(s, t);
	scheduler__note(&s->scheduler, &t->budget.pace);
}

/* Brings the ledger of a target that is not in a stretch up to date. */
static void look_now(struct session *s, struct target *t)
{
	read_counters(s, t);
	books__read_bound(t);
	books__look(t, clock__now_ns(CLOCK_MONOTONIC));
}

/* Brings the ledgers of n targets in stretches up to date: gives them what their continuous tracing
 * has seen so far. */
static void harvest_stretches(struct session *s, struct target *const *targets, size_t n)
{
	uint64_t now;
	bool failed;

	for (size_t i = 0; i < n; i++) {
		books__read_bound(targets[i]);
		guard__wait(s);
	}
	/* the counters come last, because the ledgers' clocks must reach to `now` */
	for (size_t i = 0; i < n; i++)
		read_counters(s, targets[i]);
	now = clock__now_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < n; i++)
		targets[i]->budget.pace.end_ns = now;
	failed = n && books__harvest(s, targets, n);
	for (size_t i = 0; i < n; i++) {
		targets[i]->budget.pace.failed += failed;
		targets[i]->budget.pace.start_ns = now;
	}
}

static bool in_window(const struct target *t)
{
	const struct paced *p = &t->budget.pace;

	return !t->ended &&
	       (p->closing || p->settling || (p->windows.open && !p->windows.continuous));
}

/* From time to time updates the ledgers of all targets that have had windows. Once a process is a
 * victim, nothing can be read from it any more, and only what was read before is known. */
void profiles__foresee(struct session *s)
{
	uint64_t start = clock__now_ns(CLOCK_MONOTONIC), wait;

	if (!s->victims || !s->started || s->stopped || start < s->foresee_next_ns)
		return;
	/* A window that is open would stay open during this work, so the work waits. */
	for (size_t i = 0; i < s->n_targets; i++)
		if (in_window(s->targets[i]))
			return;
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (!t->ended && !t->is_victim && t->budget.survivors.n_windows &&
		    !t->budget.stretch && !targets__rests(t, &t->rest.look)) {
			look_now(s, t);
			capture__beat(s->capture);
		}
	}
	wait = (clock__now_ns(CLOCK_MONOTONIC) - start) *
	       (s->everywhere ? FORESEE_SHARE_ALL : FORESEE_SHARE);
	s->foresee_next_ns = start + (wait > FORESEE_EVERY_NS ? wait : FORESEE_EVERY_NS);
}

void session__await_gap(struct session *s)
{
	uint64_t until = clock__now_ns(CLOCK_MONOTONIC) + GAP_WITHIN_NS;
	struct pollfd news = {.fd = s->epoll_fd, .events = POLLIN};
	bool all_ended = false;

	while (!all_ended && !scheduler__is_quiet(&s->scheduler) &&
	       clock__now_ns(CLOCK_MONOTONIC) < until) {
		session__hurry(s);
		poll(&news, 1, GAP_LOOK_MS);
		all_ended = session__dispatch(s);
	}
}

/* Adds the present profiles of all targets that are due. If one cannot be made, goes on with the
 * others. 0, or the first error. */
static int look(struct session *s, uint64_t now, struct profile_list *list)
{
	_cleanup_(capture_drain__free) struct capture_drain drain = {};
	_cleanup_free_ struct target **stretches = calloc(s->n_targets + 1, sizeof(*stretches));
	size_t n_stretches = 0;
	bool any = false;
	int rc;

	for (size_t i = 0; i < s->n_targets; i++)
		any = any || s->targets[i]->is_due;
	if (!any)
		return 0;
	rc = stretches ? read_tables(s, &drain, NULL) : -ENOMEM;
	if (rc)
		return rc;
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (!t->is_due || t->ended || s->stopped)
			continue;
		targets__read_size(t);
		if (!t->budget.survivors.n_windows)
			targets__read(s, t);
		else if (in_stretch(t))
			stretches[n_stretches++] = t;
		else
			look_now(s, t);
		guard__wait(s); /* there may be thousands */
	}
	harvest_stretches(s, stretches, n_stretches);
	for (size_t i = 0; i < s->n_targets; i++) {
		int one;

		if (!s->targets[i]->is_due)
			continue;
		one = make_profile(s, &drain, s->targets[i], now, list);
		rc = rc ?: one;
		guard__wait(s);
	}
	return rc;
}

static uint64_t time_ns(const struct session *s)
{
	return s->stopped ? s->stop_ns : clock__now_ns(CLOCK_MONOTONIC);
}

int session__peek(struct session *s, int (*fn)(void *ctx, const struct profile *profile), void *ctx)
{
	const struct session_news news = {.profile = fn, .ctx = ctx, .all = true};

	return session__news(s, &news);
}

int session__news(struct session *s, const struct session_news *news)
{
	struct profile_list list = {};
	uint64_t now = time_ns(s);
	int rc;

	news__choose(s, now, news->all);
	/* a failure for one process must not keep the others from being reported */
	rc = look(s, now, &list);
	for (size_t i = 0; i < list.n; i++) {
		int one = news->profile(news->ctx, list.at[i]);

		if (one > 0)
			news__lose(s, list.at[i]->pid);
		else
			rc = rc ?: one;
		guard__wait(s);
	}
	profile_list__clear(&list);
	if (!rc)
		news__note(s, now);
	for (size_t i = 0; i < s->n_targets; i++) {
		const struct target *t = s->targets[i];
		int one = t->is_due || t->ended ? 0 : news->same(news->ctx, t->info.pid);

		rc = rc ?: one;
	}
	return rc;
}

void session__leave_out(struct session *s, unsigned parts)
{
	s->without = parts;
	for (size_t i = 0; i < s->n_targets; i++)
		net_clock__leave_out(&s->targets[i]->budget.clock, parts);
}

int session__look(struct session *s, struct profile ***ret, size_t *ret_n)
{
	struct profile_list list = {};
	int rc;

	for (size_t i = 0; i < s->n_targets; i++)
		s->targets[i]->is_due = !s->targets[i]->ended || !s->targets[i]->uninvited;
	rc = look(s, time_ns(s), &list);
	if (rc) {
		profile_list__clear(&list);
		return rc;
	}
	*ret = list.at;
	*ret_n = list.n;
	return 0;
}
