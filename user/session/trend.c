// SPDX-License-Identifier: BSD-2-Clause
#include "session/trend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define NS 1e-9
#define DEAREST 0.7 /* share of CPU time in windows that is cost, from which the rest is not known */
/* Survival to twice the age, from which no block seems to die any more. (Allocation is known from time to time only.) */
#define FLAT 0.92
#define CHANCE 2 /* standard deviations by which two counts differ, if not by chance */

/* When the windows began, and the last one ended. */
static uint64_t first_ns(const struct evidence *e)
{
	return e->windows[0].start_ns;
}

static uint64_t last_ns(const struct evidence *e)
{
	return e->windows[e->n_windows - 1].end_ns;
}

/* Seconds of [from, to] that lie in the window. */
static double seconds_in(const struct evidence_window *window, uint64_t from, uint64_t to)
{
	uint64_t start = window->start_ns > from ? window->start_ns : from;
	uint64_t end = window->end_ns < to ? window->end_ns : to;

	return end > start ? (double)(end - start) * NS : 0;
}

/* The same of all windows. */
static double exposure(const struct evidence *e, uint64_t from, uint64_t to)
{
	double sum = 0;

	for (size_t i = 0; i < e->n_windows; i++)
		sum += seconds_in(&e->windows[i], from, to);
	return sum;
}

/* Of the time that windows stand for, the share that lies in them. Tracing pauses where it is dear, and nowhere else:
 * what pauses hide is taken to be like the windows between them. A stretch of continuous tracing stands for itself
 * alone: what a program sets up in it has not come again while nobody looked; and it is sampled more coarsely than
 * windows are, so that a single sample of it, multiplied as these are, would outweigh all that they have seen. So do
 * the first windows, which have still to find out how closely to sample, and one that was over only just now: it shows
 * all that is young, of what soon dies as well. */
struct shares {
	double windows, apart;
	const struct evidence_window *recent; /* NULL: the last one is not */
};

static double share(double part, double whole)
{
	return part > 0 && part < whole ? part / whole : 1;
}

static bool is_apart(const struct shares *shares, const struct evidence_window *window)
{
	return window->apart || window == shares->recent;
}

static struct shares shares_of(const struct build *b)
{
	const struct evidence *e = &b->target->budget.evidence;
	const struct evidence_window *last = &e->windows[e->n_windows - 1];
	uint64_t end = last->end_ns > b->end_ns ? last->end_ns : b->end_ns;
	double run = (double)(end - first_ns(e)) * NS, length = (double)(last->end_ns - last->start_ns) * NS;
	struct shares ret = {};
	double seen[2] = {};

	for (const struct evidence_window *w = e->windows; w <= last; w++)
		seen[w->apart] += (double)(w->end_ns - w->start_ns) * NS;
	/* if the others suffice to tell of all else */
	if (!last->apart && (double)(end - last->end_ns) * NS <= length && length <= seen[false] - length) {
		ret.recent = last;
		seen[false] -= length;
		seen[true] += length;
	}
	if (seen[false] > 0) {
		ret.windows = share(seen[false], run - seen[true]);
		ret.apart = 1;
	} else { /* there is nothing else that the rest could be like */
		ret.windows = ret.apart = share(seen[true], run);
	}
	return ret;
}

static double share_of(const struct shares *shares, const struct evidence_window *window)
{
	return is_apart(shares, window) ? shares->apart : shares->windows;
}

/* The window that holds the moment, one in which there is one. */
static const struct evidence_window *window_at(const struct evidence *e, uint64_t ns)
{
	size_t low = 0, high = e->n_windows;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (e->windows[middle].start_ns <= ns)
			low = middle;
		else
			high = middle;
	}
	return &e->windows[low];
}

/* One row of segments per site. */
struct rows {
	struct growth_segment (*at)[SERIES_SEGMENTS];
	double *quantum;
	double *held; /* of what vectors have added, the share that is held; negative: there are none */
	size_t n_segments;
	uint64_t start_ns, end_ns; /* what the segments cover */
	double bytes, footprint;   /* what was counted, and with what the allocator adds to it */
};

/* --- vectors that realloc has grown (chains.h) --- */

/* What is known of them by site; NULL: out of memory. */
static struct chain_slices *slices_of(const struct build *b, const struct process_sites *sites,
				      uint64_t from_ns, uint64_t step_ns)
{
	const struct chains *c = &b->target->budget.chains;
	struct chain_slices *slices = calloc(sites->n + 1, sizeof(*slices));

	for (size_t i = 0; slices && i < c->n_records; i++) {
		long site = process_sites__find(sites, &c->records[i].stack);

		if (site >= 0)
			chain_slices__add(&slices[site], &c->records[i], from_ns, step_ns);
	}
	return slices;
}

/* Of the run: for how long a block must have lived to be counted. */
static uint64_t quarter(const struct evidence *e)
{
	return (last_ns(e) - first_ns(e)) / 4;
}

/* The middle half of the run, in slices. */
static uint64_t middle(const struct evidence *e, uint64_t *ret_step)
{
	uint64_t run = last_ns(e) - first_ns(e);

	*ret_step = run / 2 / SERIES_SEGMENTS;
	return first_ns(e) + run / 4;
}

/* The share of what it has grown by that is held, of each site; NULL: out of memory. */
static double *held_shares(const struct build *b, const struct process_sites *sites,
			   const struct chain_slices *slices)
{
	const struct evidence *e = &b->target->budget.evidence;
	double *shares = calloc(sites->n + 1, sizeof(*shares));
	uint64_t step, from = middle(e, &step);

	if (!shares)
		return NULL;
	for (size_t i = 0; i < e->n_blocks; i++) { /* those that stay */
		const struct abi_live *live = &e->blocks[i].live;
		long site = process_sites__find(sites, &live->stack);

		if (site >= 0 && live->birth == BIRTH_GROWN && live->birth_ns >= from &&
		    live->birth_ns < from + step * SERIES_SEGMENTS &&
		    evidence__is_forgotten(e, &e->blocks[i], quarter(e)))
			shares[site]++;
	}
	for (size_t site = 0; site < sites->n; site++)
		shares[site] = chain_slices__held(&slices[site], shares[site]);
	return shares;
}

/* What they have added is live as far as it is held, in at least one vector. */
static int add_live_chains(const struct build *b, struct profile *p,
			   const struct process_sites *sites, const struct shares *shares)
{
	const struct evidence *e = &b->target->budget.evidence;
	const struct chains *c = &b->target->budget.chains;
	uint64_t step, from = middle(e, &step);
	_cleanup_free_ struct chain_slices *slices = slices_of(b, sites, from, step);
	_cleanup_free_ double *held = slices ? held_shares(b, sites, slices) : NULL;
	_cleanup_free_ struct estimate *live = calloc(sites->n + 1, sizeof(*live));
	size_t thread;
	int rc;

	if (!held || !live)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_records; i++) {
		const struct chain_record *r = &c->records[i];
		long site = process_sites__find(sites, &r->stack);
		double bytes, one;

		if (site < 0 || !(r->grown > 0) || !(r->samples > 0) || !(held[site] > 0))
			continue;
		bytes = r->grown / share_of(shares, window_at(e, r->start_ns)) * held[site];
		one = bytes / r->samples;
		live[site].samples += (uint64_t)r->samples;
		live[site].objects = 1;
		live[site].bytes += bytes;
		live[site].variance += r->samples * one * one;
		live[site].variance_max = fmax(live[site].variance_max, one * one);
	}
	rc = profile__add_thread(p, (uint32_t)b->target->info.pid, "", &thread);
	for (size_t i = 0; i < sites->n && !rc; i++)
		if (live[i].bytes > 0)
			rc = profile__add_live_estimate(p, sites->site_of[i], thread, &live[i]);
	return rc;
}

/* Their growth, in the rows' slices. */
static int rows_of_chains(const struct build *b, const struct process_sites *sites,
			  struct rows *rows, const int number[SERIES_SEGMENTS])
{
	uint64_t step, from = middle(&b->target->budget.evidence, &step);
	_cleanup_free_ struct chain_slices *slices = slices_of(b, sites, from, step);
	_cleanup_free_ double *held = slices ? held_shares(b, sites, slices) : NULL;

	if (!held)
		return -ENOMEM;
	for (size_t site = 0; site < sites->n; site++) {
		double samples = 0, grown = 0;

		rows->held[site] = slices[site].known ? held[site] : -1;
		for (size_t i = 0; i < SERIES_SEGMENTS; i++) {
			double bytes = slices[site].at[i].grown * held[site];

			samples += slices[site].at[i].samples;
			grown += fabs(bytes);
			if (number[i] < 0)
				continue;
			rows->at[site][number[i]].bytes += bytes;
			rows->bytes += bytes;
			rows->footprint += bytes;
		}
		if (samples > 0)
			rows->quantum[site] = fmax(rows->quantum[site], grown / samples);
	}
	return 0;
}

static const struct series no_series;

/* Of each stretch between the series' snapshots, the share that lies in windows that stand for themselves. */
static void find_apart(const struct build *b, const struct shares *shares, const struct series *series,
		       double ret[SERIES_MAX + 1])
{
	const struct evidence *e = &b->target->budget.evidence;

	for (size_t k = 0; k <= series->n; k++) {
		uint64_t from = k ? series->snapshots[k - 1].time_ns : b->begin_ns;
		uint64_t to = k < series->n ? series->snapshots[k].time_ns : b->end_ns;
		double sum = 0;

		for (size_t i = 0; i < e->n_windows; i++)
			if (is_apart(shares, &e->windows[i]))
				sum += seconds_in(&e->windows[i], from, to);
		ret[k] = to > from ? sum / ((double)(to - from) * NS) : 0;
	}
}

/* What the site has allocated in them, of a total: evenly between snapshots. */
static double allocated_apart(const struct series *series, const double of[SERIES_MAX + 1],
			      const struct abi_site_key *site, double total)
{
	double sum = 0, before = 0;

	for (size_t k = 0; k <= series->n; k++) {
		const struct series_point *point = k < series->n ? series__find(&series->snapshots[k], site) : NULL;
		double now = k == series->n ? total : point ? point->alloc_bytes : before;

		sum += of[k] * fmax(now - before, 0);
		before = now;
	}
	return fmin(sum, total);
}

/* From what was counted while probes were in place to all of the time. */
static int extend_allocated(const struct build *b, struct profile *p, const struct process_sites *sites,
			    const struct shares *shares)
{
	_cleanup_free_ double *apart = calloc(p->n_sites + 1, sizeof(*apart));
	const struct series *series = b->series ? b->series : &no_series;
	double of[SERIES_MAX + 1];

	if (!apart)
		return -ENOMEM;
	find_apart(b, shares, series, of);
	for (size_t i = 0; i < sites->n; i++)
		if (sites->site_of[i] != NO_SITE)
			apart[sites->site_of[i]] += allocated_apart(series, of, &sites->keys[i],
								    (double)sites->sites[i].alloc_bytes);
	for (size_t i = 0; i < p->n_sites; i++) {
		struct profile_site *site = &p->sites[i];
		double part = site->alloc_bytes > 0 ? fmin(apart[i] / site->alloc_bytes, 1) : 0;
		double factor = part / shares->apart + (1 - part) / shares->windows;

		site->alloc_objects *= factor;
		site->alloc_bytes *= factor;
		site->freed_objects = fmax(site->alloc_objects - site->live.objects, 0);
		site->freed_bytes = fmax(site->alloc_bytes - site->live.bytes, 0);
	}
	return 0;
}

int trend__add_windowed(const struct build *b, struct profile *p, const struct process_sites *sites)
{
	const struct evidence *e = &b->target->budget.evidence;
	const struct evidence_counts *c = &e->counts;
	const struct shares shares = shares_of(b);
	int rc = 0;

	p->mode = "windowed";
	p->n_windows = b->target->budget.pace.windows.n_windows;
	p->windows_s = (double)b->target->budget.pace.windows.windows_ns * NS;
	p->continuous_s = (double)b->target->budget.pace.windows.continuous_ns * NS;
	p->evidence = (struct profile_evidence){
		.born = c->born,
		.freed = c->freed,
		.replaced = c->replaced,
		.unmapped = c->unmapped,
		.changed = c->changed,
		.marked = c->marked,
		.forgotten = evidence__n_forgotten(e, quarter(e)),
	};
	for (size_t i = 0; i < e->n_blocks && !rc; i++) {
		const struct evidence_block *block = &e->blocks[i];
		double seen = estimate__probability(block->live.size, block->live.interval) *
			      share_of(&shares, &e->windows[block->window]);
		long site = process_sites__find(sites, &block->live.stack);
		size_t thread;

		if (site < 0 || block->live.birth == BIRTH_GROWN)
			continue;
		rc = profile__add_thread(p, block->live.tid, "", &thread);
		if (!rc)
			rc = profile__add_live_seen(p, sites->site_of[site], thread, block->live.size, seen);
	}
	if (!rc)
		rc = add_live_chains(b, p, sites, &shares);
	if (!rc)
		rc = extend_allocated(b, p, sites, &shares);
	if (!rc)
		rc = profile__add_lost(p, "windows_failed", b->target->budget.pace.failed);
	if (!rc)
		rc = profile__add_lost(p, "blocks_changed", c->changed);
	if (!rc)
		rc = profile__add_lost(p, "realloc_old_size_unknown", c->grown_unknown);
	if (!rc)
		rc = profile__add_lost(p, "realloc_records_left_out",
				       b->target->budget.chains.left_out);
	return rc;
}

/* --- blocks that are held --- */

struct held {
	const struct abi_live *live;
	double share;	/* of the time that its window stands for, in the window */
	bool forgotten; /* as far as is known */
	bool late;	/* born in the second half of its window */
};

/* The i-th of those that are known, of windows or of the kernel's table. False: there are no more. */
struct held_walk {
	const struct build *build;
	const struct abi_live *blocks; /* the kernel's */
	struct shares shares;
	size_t n, i;
};

static struct held_walk walk_held(const struct build *b)
{
	struct held_walk walk = {.build = b};
	const struct abi_live_key *keys;

	if (!b->target->budget.evidence.n_windows) {
		walk.n = build__live_blocks(b, &keys, &walk.blocks);
		return walk;
	}
	walk.n = b->target->budget.evidence.n_blocks;
	walk.shares = shares_of(b);
	return walk;
}

static bool next_held(struct held_walk *walk, struct held *ret)
{
	const struct evidence *e = &walk->build->target->budget.evidence;

	for (; walk->i < walk->n; walk->i++) {
		if (walk->blocks) {
			*ret = (struct held){.live = &walk->blocks[walk->i], .share = 1, .forgotten = true};
		} else {
			const struct evidence_block *block = &e->blocks[walk->i];

			const struct evidence_window *window = &e->windows[block->window];

			*ret = (struct held){
				.live = &block->live,
				.share = share_of(&walk->shares, window),
				.forgotten = evidence__is_forgotten(e, block, quarter(e)),
				.late = block->live.birth_ns - window->start_ns >
					(window->end_ns - window->start_ns) / 2,
			};
		}
		if (ret->live->birth_ns >= walk->build->target->exec_ns) {
			walk->i++;
			return true;
		}
	}
	return false;
}

static double weight_of(const struct abi_live *block)
{
	return (double)block->size / estimate__probability(block->size, block->interval);
}

/* --- growth --- */

/* What a block takes of the process's memory: glibc's header and rounding, which others come near to. */
static double footprint(uint64_t size)
{
	uint64_t chunk = (size + 8 + 15) & ~15ULL;

	return (double)(chunk < 32 ? 32 : chunk);
}

/* The slice of time in which a block was born that counts; negative: it does not. */
static int slice_of(const struct evidence *e, const struct held *held, uint64_t from, uint64_t step)
{
	uint64_t slice = (held->live->birth_ns - from) / step;

	if (held->live->birth_ns < from || slice >= SERIES_SEGMENTS || !held->forgotten ||
	    (e->n_windows && held->live->birth != BIRTH_NEW))
		return -1;
	return (int)slice;
}

/* What dies young is seen to die, if it was born early in a window. If it was born late, its free comes when the probes are
 * out, and the place may be a leak's before it is looked at first (evidence.h, 5). A leak's blocks are born in both
 * halves alike, so of sites with more (beyond chance) in the second, those born in the first tell, for both. What each
 * block of a site counts, of either half; NULL: out of memory. */
static double (*weigh_halves(const struct build *b, const struct process_sites *sites, uint64_t from,
			     uint64_t step))[2]
{
	double(*counts)[2] = calloc(sites->n + 1, sizeof(*counts));
	struct held_walk walk = walk_held(b);
	struct held held;

	while (counts && next_held(&walk, &held)) {
		long site = process_sites__find(sites, &held.live->stack);

		if (site >= 0 && slice_of(&b->target->budget.evidence, &held, from, step) >= 0)
			counts[site][held.late]++;
	}
	for (size_t i = 0; counts && i < sites->n; i++) {
		double early = counts[i][0], late = counts[i][1];
		bool more = late - early > CHANCE * sqrt(late + early);

		counts[i][0] = more ? 2 : 1;
		counts[i][1] = more ? 0 : 1;
	}
	return counts;
}

/* What a small block that was sampled between two moments stands for, in the mean over windows; 0: there are none. The samples
 * that there are may all be of those that sampled more closely than most. */
static double mean_interval(const struct evidence *e, uint64_t from, uint64_t to)
{
	double seconds = 0, sum = 0;

	for (size_t i = 0; i < e->n_windows; i++) {
		double length = seconds_in(&e->windows[i], from, to);

		seconds += length;
		sum += length * e->windows[i].interval;
	}
	return seconds > 0 ? sum / seconds : 0;
}

/* A leak adds blocks at the same rate all the time, and all of them stay: counted are those that have stayed for a
 * quarter of the run at least (what is in balance has died by then), and were not born in its first quarter (what
 * is set up at the start is not added to). Segments are in descending order of time: what lives for long, but
 * not for ever, is ever fewer by age. */
static int rows_of_births(const struct build *b, const struct process_sites *sites,
			  struct rows *rows, uint64_t first, uint64_t last)
{
	const struct evidence *e = &b->target->budget.evidence;
	uint64_t run = last - first, from = first + run / 4, step = run / 2 / SERIES_SEGMENTS;
	struct held_walk walk = walk_held(b);
	int number[SERIES_SEGMENTS]; /* of each slice of time; -1: no window lies in it */
	_cleanup_free_ double(*halves)[2] = NULL;
	struct held held;
	double interval;

	if (!step)
		return 0;
	halves = weigh_halves(b, sites, from, step);
	if (!halves)
		return -ENOMEM;
	rows->start_ns = from;
	rows->end_ns = from + step * SERIES_SEGMENTS;
	for (int i = SERIES_SEGMENTS - 1; i >= 0; i--) {
		double seconds = e->n_windows
					 ? exposure(e, from + i * step, from + (i + 1) * step)
					 : (double)step * NS;

		number[i] = -1;
		if (!(seconds > 0))
			continue;
		number[i] = (int)rows->n_segments++;
		for (size_t site = 0; site < sites->n; site++)
			rows->at[site][number[i]].seconds = seconds;
	}
	while (next_held(&walk, &held)) {
		long site = process_sites__find(sites, &held.live->stack);
		int slice = slice_of(e, &held, from, step);
		double bytes, one;

		if (site < 0 || (e->n_windows && held.live->birth != BIRTH_NEW))
			continue;
		bytes = weight_of(held.live);
		one = bytes * sqrt(1 - held.share * estimate__probability(held.live->size, held.live->interval));
		rows->quantum[site] = fmax(rows->quantum[site], halves[site][0] * one);
		if (slice < 0 || number[slice] < 0)
			continue;
		bytes *= halves[site][held.late];
		rows->at[site][number[slice]].bytes += bytes;
		rows->bytes += bytes;
		rows->footprint += bytes / (double)(held.live->size ? held.live->size : 1) *
				   footprint(held.live->size);
	}
	interval = mean_interval(e, from, rows->end_ns);
	for (size_t site = 0; site < sites->n; site++)
		if (rows->quantum[site] > 0)
			rows->quantum[site] = fmax(rows->quantum[site], halves[site][0] * interval);
	return e->n_windows ? rows_of_chains(b, sites, rows, number) : 0;
}

/* Continuous tracing sees every free: what the site held, from time to time. */
static void rows_of_series(const struct build *b, const struct process_sites *sites,
			   struct rows *rows)
{
	const struct series_snapshot *bounds[SERIES_SEGMENTS];
	size_t n = series__boundaries(b->series, b->begin_ns, b->end_ns, bounds);

	rows->n_segments = n;
	rows->start_ns = n ? bounds[0]->time_ns : b->end_ns;
	rows->end_ns = b->end_ns;
	for (size_t i = 0; i < sites->n; i++) {
		const struct abi_site *site = &sites->sites[i];
		double objects, seen;

		for (size_t j = 0; j < n; j++) {
			bool end_of_run = j + 1 == n;
			uint64_t end = end_of_run ? b->end_ns : bounds[j + 1]->time_ns;
			double after = end_of_run
					       ? (double)site->alloc_bytes - (double)site->freed_bytes
					       : series__bytes(bounds[j + 1], &sites->keys[i]);

			rows->at[i][j].seconds = (double)(end - bounds[j]->time_ns) * NS;
			rows->at[i][j].bytes = after - series__bytes(bounds[j], &sites->keys[i]);
		}
		objects = (double)site->alloc_objects_q16 / 65536;
		if (objects > 0) { /* at the site's mean size */
			double held = (double)site->alloc_bytes - (double)site->freed_bytes;
			double size = (double)site->alloc_bytes / objects;

			rows->bytes += held;
			rows->footprint += held / size * footprint((uint64_t)size);
			seen = (double)site->alloc_samples / objects;
			rows->quantum[i] = seen > 0 && seen < 1 ? size / seen * sqrt(1 - seen) : 0;
		}
	}
}

/* What all sites grow by together. */
static struct growth total_growth(const struct rows *rows, size_t n_sites)
{
	struct growth_segment all[SERIES_SEGMENTS] = {};
	double quantum = 0;

	for (size_t site = 0; site < n_sites; site++) {
		for (size_t i = 0; i < rows->n_segments; i++) {
			all[i].seconds = rows->at[site][i].seconds;
			all[i].bytes += rows->at[site][i].bytes;
		}
		quantum = fmax(quantum, rows->quantum[site]);
	}
	return growth__estimate(all, n_sites ? rows->n_segments : 0, quantum, false);
}

/* In a window the program is slowed. A leak that the clock drives (a timer, clients that wait for no answer) goes
 * on as before, and what windows see of it per second is right. One that goes as fast as the program works is
 * slowed with it: in windows it gets on with only the share (u - c) / t, u being the CPU time used in them, c
 * what of it was our cost, t their length, instead of the u / t of the whole run, and what is seen per second is
 * too little by the ratio of the two, s >= 1. Which of both a leak is, windows cannot tell; the process's exact
 * growth G can: it is about A, the growth of all stacks as seen (with what the allocator adds to it), or up to
 * s A. So growth is multiplied by k = G / A, between 1 and s, if G is beyond A's interval; that may be too much,
 * should G have other reasons: the lower ends of intervals stay where they were. What the program maps by
 * itself is taken off G before, where it is known.
 *
 * The share c / u is known to some tenth only, and near to 1 says nothing of s: from DEAREST on any is possible. */
static double slowed(const struct build *b, const struct growth *all, double process)
{
	const struct evidence *e = &b->target->budget.evidence;
	double k, share, used = (double)b->cpu_time_ns * exposure(e, 0, UINT64_MAX);

	if (!(all->low > 0) || !(process > all->high) || !(b->duration_s > 0) || !(used > 0))
		return 1;
	k = process / all->bytes_per_s;
	share = b->target->budget.pace.windows.windows_cost_ns * b->duration_s / used;
	return share < DEAREST ? fmax(1, fmin(k, 1 / (1 - share))) : k;
}

static struct growth multiplied(struct growth growth, double k)
{
	if (k > 1) {
		growth.bytes_per_s *= k;
		growth.high *= k;
	}
	return growth;
}

/* How much of what the site allocated until some age ago is still held, and of what is live how much is that old.
 * Allocation is known by time from the series, without one taken to be even. Of vectors that realloc has grown in
 * windows no age is known. */
static void add_survival(const struct build *b, struct profile *p, const struct process_sites *sites,
			 const struct rows *rows)
{
	uint64_t run = b->end_ns - b->begin_ns, age_ns[PROFILE_SURVIVAL_AGES];
	/* of what was sampled, and of what that stands for */
	_cleanup_free_ double (*held_bytes)[PROFILE_SURVIVAL_AGES] = NULL, (*older)[PROFILE_SURVIVAL_AGES] = NULL;
	struct held_walk walk = walk_held(b);
	struct held held;

	held_bytes = calloc(sites->n + 1, sizeof(*held_bytes));
	older = calloc(sites->n + 1, sizeof(*older));
	if (!held_bytes || !older || b->end_ns <= b->begin_ns)
		return;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++) {
		age_ns[i] = run >> (PROFILE_SURVIVAL_AGES - i);
		p->survival_age_s[i] = (double)age_ns[i] * NS;
		for (size_t s = 0; s < p->n_sites; s++)
			p->sites[s].older[i] = NAN;
	}
	while (next_held(&walk, &held)) {
		long site = process_sites__find(sites, &held.live->stack);

		for (int i = 0; site >= 0 && i < PROFILE_SURVIVAL_AGES; i++)
			if (held.live->birth_ns + age_ns[i] <= b->end_ns) {
				held_bytes[site][i] += weight_of(held.live);
				older[site][i] += weight_of(held.live) / held.share;
			}
	}
	for (size_t s = 0; s < sites->n; s++)
		for (int i = 0; i < PROFILE_SURVIVAL_AGES && sites->site_of[s] != NO_SITE; i++) {
			double born = series__allocated(b->series ? b->series : &no_series,
							&sites->keys[s], b->end_ns - age_ns[i],
							b->begin_ns, b->end_ns,
							(double)sites->sites[s].alloc_bytes);

			struct profile_site *site = &p->sites[sites->site_of[s]];

			site->survival[i] = born > 0 ? fmin(held_bytes[s][i] / born, 1) : NAN;
			if (rows->held[s] < 0 && site->live.bytes > 0)
				site->older[i] = fmin(older[s][i] / site->live.bytes, 1);
		}
}

/* Do its blocks go on dying when they are old? (A leak's do not, however many others of its stack die young.) */
static bool is_dying(const struct profile_site *site)
{
	const double *last = &site->survival[PROFILE_SURVIVAL_AGES - 1];

	return last[0] < FLAT * last[-1];
}

/* Blocks from before the run die unseen: a population in balance that turns over more slowly than the run lasts
 * (a large cache) seems to grow by as much as those earlier blocks die. And that vectors are never freed
 * (chains.h) is concluded from a trend, by chance in a few of a hundred runs. Then all stacks together seem to
 * grow by more than the process does, and any of those whose blocks go on dying, or are vectors', may owe the whole
 * excess: the lower end of its interval goes down by it.
 * process: growth of the process as stacks would show it, bytes per second. */
static void allow_for_excess(struct profile *p, const struct process_sites *sites, const struct rows *rows,
			     double process)
{
	const struct growth *all = &p->growth.attributed;
	double excess = all->bytes_per_s - process, error = all->bytes_per_s - all->low;

	if (!(excess + error > 0) || p->growth.slowed > 1) /* or not known */
		return;
	excess = fmax(excess, 0);
	for (size_t i = 0; i < sites->n; i++) {
		struct profile_site *site = sites->site_of[i] == NO_SITE ? NULL : &p->sites[sites->site_of[i]];
		struct growth *growth = &site->growth;

		if (site && (is_dying(site) || (rows->held[i] > 0 && excess > error)))
			growth->low = fmin(growth->low,
					   growth->bytes_per_s - excess -
						   hypot(growth->bytes_per_s - growth->low, error));
	}
}

/* Of vectors it is said of what they have added: that their blocks have moved is no death. */
static void add_chains_survival(struct profile *p, const struct process_sites *sites,
				const struct rows *rows)
{
	for (size_t i = 0; i < sites->n; i++)
		for (int age = 0; age < PROFILE_SURVIVAL_AGES; age++)
			if (rows->held[i] >= 0 && sites->site_of[i] != NO_SITE)
				p->sites[sites->site_of[i]].survival[age] = rows->held[i];
}

int trend__add_growth(const struct build *b, struct profile *p, const struct process_sites *sites)
{
	_cleanup_free_ struct growth_segment(*at)[SERIES_SEGMENTS] = NULL;
	const struct evidence *e = &b->target->budget.evidence;
	_cleanup_free_ double *quantum = NULL, *held = NULL;
	struct rows rows = {};
	double k, rounding, process;
	struct growth all;
	int rc = 0;

	at = rows.at = calloc(sites->n + 1, sizeof(*rows.at));
	quantum = rows.quantum = calloc(sites->n + 1, sizeof(*quantum));
	held = rows.held = calloc(sites->n + 1, sizeof(*held));
	if (!at || !quantum || !held)
		return -ENOMEM;
	for (size_t i = 0; i < sites->n; i++)
		held[i] = -1;
	if (e->n_windows)
		rc = rows_of_births(b, sites, &rows, first_ns(e), last_ns(e));
	else if (b->series)
		rows_of_series(b, sites, &rows);
	else if (b->end_ns > b->begin_ns)
		rc = rows_of_births(b, sites, &rows, b->begin_ns, b->end_ns);
	if (rc)
		return rc;
	p->has_growth = rows.n_segments >= GROWTH_MIN_SEGMENTS;
	if (!p->has_growth)
		return 0;
	all = total_growth(&rows, sites->n);
	p->growth.bytes_per_s = sizes__growth(&b->target->anon, rows.start_ns, rows.end_ns);
	p->growth.regions = b->regions_growth;
	rounding = rows.footprint > rows.bytes ? rows.footprint / rows.bytes : 1;
	process = (p->growth.bytes_per_s - b->regions_growth) / rounding;
	k = e->n_windows ? slowed(b, &all, process) : 1;
	p->growth.slowed = k;
	p->growth.attributed = multiplied(all, k);
	add_survival(b, p, sites, &rows);
	add_chains_survival(p, sites, &rows);
	for (size_t i = 0; i < sites->n; i++) {
		struct profile_site *site;

		if (sites->site_of[i] == NO_SITE)
			continue;
		site = &p->sites[sites->site_of[i]];
		site->growth = multiplied(
			growth__estimate(at[i], rows.n_segments, quantum[i], is_dying(site)), k);
	}
	allow_for_excess(p, sites, &rows, process);
	return 0;
}
