// SPDX-License-Identifier: BSD-2-Clause
#include "session/realloc_trend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "session/trend.h"

/* windows slow only bare loops of malloc by a larger factor than this */
#define MOST_HIDDEN 20

/* Returns what is known of reallocs, by site; NULL: out of memory. */
static struct realloc_slices *slices_of(const struct build *b, const struct process_sites *sites,
					uint64_t from_ns, uint64_t step_ns)
{
	const struct reallocs *c = &b->target->budget.reallocs;
	struct realloc_slices *slices = calloc(sites->n + 1, sizeof(*slices));

	for (size_t i = 0; slices && i < c->n_records; i++) {
		long site = process_sites__find(sites, &c->records[i].stack);

		if (site >= 0)
			realloc_slices__add(&slices[site], &c->records[i], from_ns, step_ns);
	}
	return slices;
}

/* Returns when the present program's first window began. */
static uint64_t first_start(const struct survivors *e, const struct windowed_run *run)
{
	return e->windows[run->n_before].start_ns;
}

/* Returns the beginning of the middle half of the time from the present program's first window to
 * its last. *ret_step: length of one of the SERIES_SEGMENTS slices of this half. */
static uint64_t middle(const struct survivors *e, const struct windowed_run *windows,
		       uint64_t *ret_step)
{
	uint64_t first_ns = first_start(e, windows);
	uint64_t run = e->windows[e->n_windows - 1].end_ns - first_ns;

	*ret_step = run / 2 / SERIES_SEGMENTS;
	return first_ns + run / 4;
}

/* Finds the last window that began at the time ns or before; if there is none, takes the first
 * window. Returns for how many windows this window stands. */
static double stands_at(const struct survivors *s, uint64_t ns)
{
	size_t later = SEARCH_FIRST(i, s->n_windows, s->windows[i].start_ns > ns);

	return s->windows[later ? later - 1 : 0].stands;
}

/* Returns, for each site, the share of its vectors' growth that is still held; NULL: out of
 * memory. */
static double *held_shares(const struct build *b, const struct process_sites *sites,
			   const struct windowed_run *run, const struct realloc_slices *slices)
{
	const struct survivors *e = &b->target->budget.survivors;
	double *shares = calloc(sites->n + 1, sizeof(*shares));
	uint64_t step, from = middle(e, run, &step);

	if (!shares)
		return NULL;
	for (size_t i = 0; i < e->n_blocks; i++) { /* counts blocks that may still live */
		const struct abi_live *live = &e->blocks[i].live;
		long site = process_sites__find(sites, &live->stack);

		if (site >= 0 && live->birth == BIRTH_GROWN &&
		    !e->windows[e->blocks[i].window].continuous && live->birth_ns >= from &&
		    live->birth_ns < from + step * SERIES_SEGMENTS && e->blocks[i].hashed &&
		    survivors_block__may_live(&e->blocks[i]))
			shares[site]++;
	}
	for (size_t site = 0; site < sites->n; site++)
		shares[site] = realloc_slices__held(&slices[site], shares[site]);
	return shares;
}

/* Returns what reallocs added in all the time that windows stand for, divided by what they added in
 * the windows themselves. all: the divisor includes windows that were dropped. */
static double scale_of(const struct windowed_run *run, bool all)
{
	double seen = 0, stretches = 0;

	for (size_t i = 0; i < run->n_windows; i++) {
		const struct windowed_window *w = &run->windows[i];

		*(w->continuous ? &stretches : &seen) +=
			(all ? windowed_window__stands(w) : 1) * (w->end_s - w->begin_s);
	}
	return seen > 0 ? fmax((run->end_s - stretches) / seen * (run->scale > 0 ? run->scale : 1),
			       1)
			: 1;
}

/* Estimates the growth of one site's vectors, from slices of the middle half of the run.
 * ask_process() corrects it later. k: the factor that turns bytes per second of windows into bytes
 * per second of the run. false: too little was seen. */
static bool estimate_growth(const struct survivors *e, const struct windowed_run *run,
			    const struct realloc_slices *slices, double held, double k,
			    struct growth *ret)
{
	struct growth_segment segments[SERIES_SEGMENTS];
	uint64_t step, from = middle(e, run, &step);
	double samples = 0, grown = 0;
	size_t n = 0;

	for (size_t i = 0; i < SERIES_SEGMENTS; i++) {
		double seconds = survivors__exposure(e, from + i * step, from + (i + 1) * step);
		double bytes = slices->at[i].grown * held * k;

		samples += slices->at[i].samples;
		grown += fabs(bytes);
		if (seconds > 0)
			segments[n++] = (struct growth_segment){seconds, bytes};
	}
	if (n < GROWTH_MIN_SEGMENTS)
		return false;
	*ret = growth__estimate(segments, n, samples > 0 ? grown / samples : 0, false);
	return true;
}

/* Corrects a site's growth by the growth of the process's anonymous memory. */
static void ask_process(const struct windowed_run *run, const struct growth *anon,
			struct growth *growth, double *ret_by_clock)
{
	double process = anon->bytes_per_s, slowed = fmax(run->hidden, 1);

	/* A trend suggests that vectors are never freed, but the trend may be chance. If it is
	 * chance, the process grows less than its vectors seem to. So the low end is at most the
	 * process's growth. */
	if (!isnan(process))
		growth->low = fmin(growth->low, fmax(isnan(anon->low) ? process : anon->low, 0));
	/* If the vectors grow, the process grows by more than the right side of this condition,
	 * even if the growth follows the wall clock. (Windows make the wall clock and net time
	 * differ by the factor `slowed`, which was never above MOST_HIDDEN in measurements.) If the
	 * process grows by less, it is not certain that the vectors grow. */
	if (process < growth->bytes_per_s / fmin(slowed, MOST_HIDDEN) / 2)
		growth->low = fmin(growth->low, 0);
	/* if the process grows by less than its vectors seem to, their growth follows the wall
	 * clock */
	if (process > 0 && growth->bytes_per_s > process)
		*ret_by_clock = fmax(process / growth->bytes_per_s, 1 / slowed);
	growth->bytes_per_s *= *ret_by_clock;
	growth->low = fmin(growth->low, growth->bytes_per_s);
}

int realloc_trend__new(const struct build *b, const struct process_sites *sites,
		       const struct windowed_run *run, const struct growth *anon,
		       struct realloc_trend *ret)
{
	const struct survivors *e = &b->target->budget.survivors;
	uint64_t step, from;
	_cleanup_free_ struct realloc_slices *slices = NULL;
	double seen, k;

	*ret = (struct realloc_trend){.scale = scale_of(run, true)};
	if (run->n_before == e->n_windows) /* no window of the present program */
		return 0;
	from = middle(e, run, &step);
	slices = slices_of(b, sites, from, step);
	ret->held = slices ? held_shares(b, sites, run, slices) : NULL;
	ret->of = calloc(sites->n + 1, sizeof(*ret->of));
	if (!ret->held || !ret->of) {
		realloc_trend__clear(ret);
		return -ENOMEM;
	}
	seen = survivors__exposure(e, first_start(e, run), UINT64_MAX);
	k = seen > 0 && run->wall_s > 0 ? scale_of(run, false) * seen / run->wall_s : 1;
	for (size_t i = 0; i < sites->n; i++) {
		struct realloc_growth *of = &ret->of[i];

		of->by_clock = 1;
		of->known = slices[i].known && sites->site_of[i] != NO_SITE &&
			    estimate_growth(e, run, &slices[i], ret->held[i], k, &of->growth);
		if (!of->known)
			continue;
		ask_process(run, anon, &of->growth, &of->by_clock);
		if (of->growth.bytes_per_s > 0)
			growth_sum__add(&ret->all, &of->growth);
	}
	return 0;
}

void realloc_trend__clear(struct realloc_trend *trend)
{
	free(trend->held);
	free(trend->of);
	*trend = (struct realloc_trend){};
}

/* The growth of memory may follow the wall clock. Windows slow the program, but not such growth. So
 * a net second in a window shows more of this growth than a net second outside of windows. To
 * correct this, multiplies live by the factor by_clock. This factor has the same relative error as
 * the growth. most: upper limit of live bytes; 0: not known. */
static void allow_for_clock(const struct realloc_growth *of, double most, struct estimate *live)
{
	double by = of->by_clock, error = 0;

	if (of->known && of->growth.bytes_per_s > 0)
		error = fmin((of->growth.bytes_per_s - of->growth.low) / of->growth.bytes_per_s, 1);
	live->bytes *= by;
	live->variance *= by * by;
	live->variance_max *= by * by;
	live->common = live->bytes * error / 2; /* two standard errors */
	live->most = most;
	if (most > 0 && live->bytes > most) {
		live->common = hypot(live->common, live->bytes - most);
		live->bytes = most;
	}
}

int realloc_trend__add_live(const struct build *b, struct profile *p,
			    const struct process_sites *sites, const struct realloc_trend *trend)
{
	const struct survivors *e = &b->target->budget.survivors;
	const struct reallocs *c = &b->target->budget.reallocs;
	_cleanup_free_ struct estimate *live = calloc(sites->n + 1, sizeof(*live));
	size_t thread;
	int rc;

	if (!live)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_records && trend->held; i++) {
		const struct realloc_record *r = &c->records[i];
		long site = process_sites__find(sites, &r->stack);
		double bytes, one;

		if (site < 0 || !(r->grown > 0) || !(r->samples > 0) || !(trend->held[site] > 0))
			continue;
		bytes = r->grown * stands_at(e, r->start_ns) * trend->scale * trend->held[site];
		one = bytes / r->samples;
		live[site].samples += (uint64_t)r->samples;
		live[site].objects = 1; /* at least */
		live[site].bytes += bytes;
		live[site].variance += r->samples * one * one;
		live[site].variance_max = fmax(live[site].variance_max, one * one);
	}
	rc = profile__add_thread(p, (uint32_t)b->target->info.pid, "", &thread);
	for (size_t i = 0; i < sites->n && !rc; i++) {
		if (!(live[i].bytes > 0))
			continue;
		allow_for_clock(&trend->of[i], (double)b->target->heap_bound_bytes, &live[i]);
		rc = profile__add_live_estimate(p, sites->site_of[i], thread, &live[i]);
	}
	return rc;
}

void realloc_trend__add_growth(struct profile *p, const struct process_sites *sites,
			       const struct realloc_trend *trend)
{
	for (size_t i = 0; i < sites->n && trend->of; i++) {
		struct growth_sum both = {};
		struct profile_site *to;

		if (!trend->of[i].known)
			continue;
		to = &p->sites[sites->site_of[i]];
		growth_sum__add(&both, &to->growth);
		growth_sum__add(&both, &trend->of[i].growth);
		to->growth = both.total;
		/* blocks that realloc has moved did not die */
		for (int age = 0; age < PROFILE_SURVIVAL_AGES; age++) {
			to->survival[age] = trend->held[i];
			to->older[age] = NAN;
		}
	}
}
