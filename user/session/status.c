// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "session/budget.h"
#include "session/internal.h"

#define RECENT_WINDOWS 8 /* the rate of calls is taken from the last RECENT_WINDOWS windows */

static bool is_continuous(const struct target *t)
{
	return t->budget.stretch && t->budget.pace.windows.open && !t->budget.pace.closing;
}

/* Estimates how many bytes a target has allocated in all. In windows only a part of these bytes is
 * counted: those that the target allocated while probes were in place. So this part is scaled
 * up. */
static double allocated(const struct target *t)
{
	const struct survivors *s = &t->budget.survivors;
	const struct net_clock *clock = &t->budget.clock;
	double seen = s->dropped_s;

	for (size_t i = 0; i < s->n_windows; i++)
		seen += net_clock__at(clock, s->windows[i].end_ns) -
			net_clock__at(clock, s->windows[i].start_ns);
	if (is_continuous(t) || !(seen > 0))
		return (double)t->counters.alloc_bytes;
	return (double)t->counters.alloc_bytes * fmax(net_clock__at(clock, UINT64_MAX) / seen, 1);
}

/* Finds the rates of calls that allocate and of calls that free, per net second, over the last
 * windows. false: there were no windows. */
static bool call_rates(const struct target *t, double *ret_allocs, double *ret_frees)
{
	const struct survivors *s = &t->budget.survivors;
	double seconds = 0, allocs = 0, frees = 0;

	for (size_t i = s->n_windows > RECENT_WINDOWS ? s->n_windows - RECENT_WINDOWS : 0;
	     i < s->n_windows; i++) {
		const struct survivors_window *w = &s->windows[i];

		seconds += net_clock__at(&t->budget.clock, w->end_ns) -
			   net_clock__at(&t->budget.clock, w->start_ns);
		allocs += (double)w->allocs;
		frees += (double)w->allocs - (double)w->net_blocks;
	}
	if (!(seconds > 0))
		return false;
	*ret_allocs = allocs / seconds;
	*ret_frees = fmax(frees / seconds, 0);
	return true;
}

/* Brings the estimate of a target's calls up to date. Where probes were in place, the calls were
 * counted. For the time outside of windows, uses the rates of the last windows. */
static void estimate_calls(struct target *t)
{
	const struct net_clock *clock = &t->budget.clock;
	uint64_t last_ns = clock->n ? clock->at[clock->n - 1].wall_ns : 0;
	double outside = net_clock__outside(clock, t->calls.clock_ns, last_ns), allocs, frees;

	t->calls.allocs += (double)t->alloc_calls - (double)t->calls.seen_allocs;
	t->calls.frees += (double)t->free_calls - (double)t->calls.seen_frees;
	if (t->budget.pace.windows.budget > 0 && call_rates(t, &allocs, &frees)) {
		t->calls.allocs += allocs * outside;
		t->calls.frees += frees * outside;
	}
	t->calls.clock_ns = last_ns;
	t->calls.seen_allocs = t->alloc_calls;
	t->calls.seen_frees = t->free_calls;
}

/* Adds what a target holds. Windows do not see all frees. An estimate of live memory would have to
 * read all tables, which takes too long to do each second. So for a process in windows, the growth
 * of its anonymous memory is shown instead, in separate fields (grown_bytes, n_grown). */
static void add_held(const struct target *t, struct session_status *ret)
{
	const struct sizes *anon = &t->anon;

	if (!t->ended && !t->exec_ns && t->budget.pace.windows.n_windows > 1 && anon->n) {
		ret->grown_bytes += (double)anon->at[anon->n - 1].bytes - (double)anon->at[0].bytes;
		ret->n_grown++;
		return;
	}
	ret->live_bytes +=
		(double)t->counters.alloc_bytes - (double)t->counters.freed_bytes - t->gone_bytes;
	ret->n_live++;
}

/* Brings a target's totals and its clock up to date. */
static void note_totals(struct session *s, struct target *t)
{
	if (!s->stopped && targets__rests(t, &t->rest.totals)) {
		if (!run_time__runs(&t->budget.run))
			net_clock__rest(&t->budget.clock, clock__now_ns(CLOCK_MONOTONIC));
		return;
	}
	if (!s->stopped)
		targets__read(s, t);
	scheduler__note(&s->scheduler, &t->budget.pace);
}

static bool is_in_windows(const struct target *t)
{
	return t->budget.pace.windows.budget > 0 && !t->budget.pace.windows.continuous;
}

/* Adds what a target has done so far. */
static void add_done(const struct session *s, struct target *t, struct past *ret)
{
	estimate_calls(t);
	ret->alloc_calls += (uint64_t)fmax(t->calls.allocs, 0);
	ret->free_calls += (uint64_t)fmax(t->calls.frees, 0);
	ret->samples += t->counters.samples;
	ret->alloc_bytes += allocated(t);
	if (s->what == WHAT_REGIONS) {
		ret->alloc_calls += t->book.calls;
		for (size_t j = 0; j < t->book.n_sites; j++)
			ret->alloc_bytes += (double)t->book.sites[j].bytes;
	}
	ret->cpu_ns += target__cpu_used_ns(t);
	ret->probe_ns += t->probe_ns;
}

void status__keep(struct session *s, struct target *t)
{
	add_done(s, t, &s->past);
}

void session__status(struct session *s, struct session_status *ret)
{
	struct past done = s->past;
	size_t ended_windowed = 0;

	memset(ret, 0, sizeof(*ret));
	ret->elapsed_s =
		(double)((s->stopped ? s->stop_ns : clock__now_ns(CLOCK_MONOTONIC)) - s->start_ns) /
		1e9;
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		note_totals(s, t);
		add_done(s, t, &done);
		add_held(t, ret);
		ret->running += !t->ended;
		if (s->what == WHAT_REGIONS)
			ret->live_bytes += (double)region_book__live(&t->book, NULL);
		*(t->ended ? &ended_windowed : &ret->windowed) += is_in_windows(t);
	}
	if (!ret->running)
		ret->windowed = ended_windowed;
	if (ret->live_bytes < 0)
		ret->live_bytes = 0;
	ret->alloc_calls = done.alloc_calls;
	ret->free_calls = done.free_calls;
	ret->samples = done.samples;
	ret->alloc_bytes = done.alloc_bytes;
	ret->cpu_cores = ret->elapsed_s > 0 ? (double)done.cpu_ns / 1e9 / ret->elapsed_s : 0;
	ret->overhead_pct =
		session__share_pct(budget__cost_known(s) ? done.probe_ns : -1, done.cpu_ns);
}

bool session_status__rates(const struct session_status *before, const struct session_status *now,
			   struct session_rates *ret)
{
	double seconds = now->elapsed_s - before->elapsed_s;

	if (seconds <= 0)
		return false;
	*ret = (struct session_rates){
		.live_bytes = now->n_live == before->n_live
				      ? (now->live_bytes - before->live_bytes) / seconds
				      : NAN,
		.grown_bytes = now->n_grown == before->n_grown
				       ? (now->grown_bytes - before->grown_bytes) / seconds
				       : NAN,
		.alloc_calls = now->alloc_calls > before->alloc_calls
				       ? (double)(now->alloc_calls - before->alloc_calls) / seconds
				       : 0,
		.free_calls = now->free_calls > before->free_calls
				      ? (double)(now->free_calls - before->free_calls) / seconds
				      : 0,
	};
	return true;
}
