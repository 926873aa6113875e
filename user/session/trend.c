// SPDX-License-Identifier: BSD-2-Clause
#include "session/trend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define NS 1e-9

/* When the windows began, and the last one ended. */
static uint64_t first_ns(const struct evidence *e)
{
	return e->windows[0].start_ns;
}

static uint64_t last_ns(const struct evidence *e)
{
	return e->windows[e->n_windows - 1].end_ns;
}

/* Seconds of [from, to] that lie in windows. */
static double exposure(const struct evidence *e, uint64_t from, uint64_t to)
{
	double sum = 0;

	for (size_t i = 0; i < e->n_windows; i++) {
		uint64_t start = e->windows[i].start_ns, end = e->windows[i].end_ns;

		start = start > from ? start : from;
		end = end < to ? end : to;
		sum += end > start ? (double)(end - start) * NS : 0;
	}
	return sum;
}

/* Share of the time that lies in windows. */
static double duty(const struct evidence *e)
{
	double all = (double)(last_ns(e) - first_ns(e)) * NS;
	double share = all > 0 ? exposure(e, 0, UINT64_MAX) / all : 1;

	return share > 0 && share < 1 ? share : 1;
}

int trend__add_windowed(const struct build *b, struct profile *p, const struct process_sites *sites)
{
	const struct evidence *e = &b->target->budget.evidence;
	const struct evidence_counts *c = &e->counts;
	double share = duty(e);
	int rc = 0;

	p->mode = "windowed";
	p->n_windows = b->target->budget.windows.n_windows;
	p->windows_s = (double)b->target->budget.windows.windows_ns * NS;
	p->continuous_s = (double)b->target->budget.windows.continuous_ns * NS;
	for (size_t i = 0; i < e->n_blocks && !rc; i++) {
		const struct evidence_block *block = &e->blocks[i];
		double seen = estimate__probability(block->live.size, block->live.interval) * share;
		long site = process_sites__find(sites, &block->live.stack);
		size_t thread;

		if (site < 0)
			continue;
		rc = profile__add_thread(p, block->live.tid, "", &thread);
		if (!rc)
			rc = profile__add_live_seen(p, sites->site_of[site], thread, block->live.size, seen);
	}
	for (size_t i = 0; i < p->n_sites; i++) {
		struct profile_site *site = &p->sites[i];

		site->alloc_objects /= share;
		site->alloc_bytes /= share;
		site->freed_objects = fmax(site->alloc_objects - site->live.objects, 0);
		site->freed_bytes = fmax(site->alloc_bytes - site->live.bytes, 0);
	}
	if (!rc)
		rc = profile__add_lost(p, "windows_failed", b->target->budget.failed);
	if (!rc)
		rc = profile__add_lost(p, "blocks_changed", c->changed);
	return rc;
}

/* --- growth --- */

/* One row of segments per site. */
struct rows {
	struct growth_segment (*at)[SERIES_SEGMENTS];
	double *quantum;
	size_t n_segments;
};

/* A leak adds blocks at the same rate all the time, and all of them stay: counted are those that have stayed for a
 * quarter of the run at least (what is in balance has died by then), and were not born in its first quarter (what
 * is set up at the start is not added to). Segments are in descending order of time: what lives for long, but
 * not for ever, is ever fewer by age. */
static void rows_of_windows(const struct build *b, const struct process_sites *sites,
			    struct rows *rows)
{
	const struct evidence *e = &b->target->budget.evidence;
	uint64_t run = last_ns(e) - first_ns(e), from = first_ns(e) + run / 4, step = run / 2 / SERIES_SEGMENTS;
	int number[SERIES_SEGMENTS]; /* of each slice of time; -1: no window lies in it */

	if (!step)
		return;
	for (int i = SERIES_SEGMENTS - 1; i >= 0; i--) {
		double seconds = exposure(e, from + i * step, from + (i + 1) * step);

		number[i] = -1;
		if (!(seconds > 0))
			continue;
		number[i] = (int)rows->n_segments++;
		for (size_t site = 0; site < sites->n; site++)
			rows->at[site][number[i]].seconds = seconds;
	}
	for (size_t i = 0; i < e->n_blocks; i++) {
		const struct evidence_block *block = &e->blocks[i];
		uint64_t slice = (block->live.birth_ns - from) / step;
		long site = process_sites__find(sites, &block->live.stack);
		double bytes;

		if (site < 0)
			continue;
		bytes = (double)block->live.size /
			estimate__probability(block->live.size, block->live.interval);
		if (bytes > rows->quantum[site])
			rows->quantum[site] = bytes;
		if (block->live.birth_ns < from || slice >= SERIES_SEGMENTS || number[slice] < 0 ||
		    !evidence__is_forgotten(e, block))
			continue;
		rows->at[site][number[slice]].bytes += bytes;
	}
}

/* Continuous tracing sees every free: what the site held, from time to time. */
static void rows_of_series(const struct build *b, const struct process_sites *sites,
			   struct rows *rows)
{
	const struct series_snapshot *bounds[SERIES_SEGMENTS];
	size_t n = b->series ? series__boundaries(b->series, b->begin_ns, b->end_ns, bounds) : 0;

	rows->n_segments = n;
	for (size_t i = 0; i < sites->n; i++) {
		const struct abi_site *site = &sites->sites[i];

		/* of sampled blocks one more or less of the usual weight; exactly known ones make none */
		if (b->interval > 1 && site->alloc_samples)
			rows->quantum[i] = (double)site->alloc_bytes / (double)site->alloc_samples;
		for (size_t j = 0; j < n; j++) {
			bool last = j + 1 == n;
			uint64_t end = last ? b->end_ns : bounds[j + 1]->time_ns;
			double after = last ? (double)site->alloc_bytes - (double)site->freed_bytes
					    : series__bytes(bounds[j + 1], &sites->keys[i]);

			rows->at[i][j].seconds = (double)(end - bounds[j]->time_ns) * NS;
			rows->at[i][j].bytes = after - series__bytes(bounds[j], &sites->keys[i]);
		}
	}
}

int trend__add_growth(const struct build *b, struct profile *p, const struct process_sites *sites)
{
	_cleanup_free_ struct growth_segment(*at)[SERIES_SEGMENTS] = NULL;
	_cleanup_free_ double *quantum = NULL;
	struct rows rows = {};

	at = rows.at = calloc(sites->n + 1, sizeof(*rows.at));
	quantum = rows.quantum = calloc(sites->n + 1, sizeof(*quantum));
	if (!at || !quantum)
		return -ENOMEM;
	if (b->target->budget.evidence.n_windows)
		rows_of_windows(b, sites, &rows);
	else
		rows_of_series(b, sites, &rows);
	for (size_t i = 0; i < sites->n; i++)
		if (sites->site_of[i] != NO_SITE)
			p->sites[sites->site_of[i]].growth =
				growth__estimate(at[i], rows.n_segments, quantum[i]);
	p->has_growth = rows.n_segments >= GROWTH_MIN_SEGMENTS;
	return 0;
}
