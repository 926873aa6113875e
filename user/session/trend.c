// SPDX-License-Identifier: BSD-2-Clause
#include "session/trend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "capture/snapshot.h"
#include "profile/balance.h"

#define NS 1e-9
_Static_assert(PROFILE_AGES == WINDOWED_AGES, "the same classes");
/* Survival to twice the age, from which no block seems to die any more. (Allocation is known from time to time only.) */
#define FLAT 0.92
#define MOST_HIDDEN 20 /* docs/windows.md: programs slowed 1 to 20 times */
#define MOST_UNSEEN 0.2 /* share of a run, by the wall and by its own clock, that continuous tracing may have missed and still tells
			  * its growth better than windows do */

/* When the windows began, and the last one ended. */
static uint64_t first_ns(const struct survivors *s)
{
	return s->windows[0].start_ns;
}

static uint64_t last_ns(const struct survivors *s)
{
	return s->windows[s->n_windows - 1].end_ns;
}

/* Seconds of [from, to] that lie in the window. */
static double seconds_in(const struct survivors_window *window, uint64_t from, uint64_t to)
{
	uint64_t start = window->start_ns > from ? window->start_ns : from;
	uint64_t end = window->end_ns < to ? window->end_ns : to;

	return end > start ? (double)(end - start) * NS : 0;
}

/* The same of all windows that stand for others. */
static double exposure(const struct survivors *s, uint64_t from, uint64_t to)
{
	double sum = 0;

	for (size_t i = 0; i < s->n_windows; i++)
		if (!s->windows[i].continuous)
			sum += seconds_in(&s->windows[i], from, to);
	return sum;
}

/* The window that holds the moment, one in which there is one. */
static const struct survivors_window *window_at(const struct survivors *s, uint64_t ns)
{
	size_t low = 0, high = s->n_windows;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (s->windows[middle].start_ns <= ns)
			low = middle;
		else
			high = middle;
	}
	return &s->windows[low];
}

/* --- windows --- */

/* An exec begins anew: what came before it is no more, and took no time. */
static uint64_t program_begin_ns(const struct build *b)
{
	return b->target->exec_ns > b->begin_ns ? b->target->exec_ns : b->begin_ns;
}

/* Net seconds from begin_ns to ns. What a process did between the last reading of the clock and its end is not known: it is
 * taken to have gone on as before. As if it had done nothing, what was traced until then would be all there is. */
static double net_until(const struct net_clock *clock, uint64_t begin_ns, uint64_t ns)
{
	uint64_t last_ns = clock->n ? clock->at[clock->n - 1].wall_ns : ns;
	double net = net_clock__at(clock, ns) - net_clock__at(clock, begin_ns);

	if (ns > last_ns && last_ns > begin_ns)
		net *= (double)(ns - begin_ns) / (double)(last_ns - begin_ns);
	return net;
}

/* The run, as profile/windowed.h has it; *ret_windows is the caller's to free. 0 or -ENOMEM. */
static int describe_run(const struct build *b, struct windowed_window **ret_windows, struct windowed_run *ret)
{
	const struct survivors *s = &b->target->budget.survivors;
	const struct net_clock *clock = &b->target->budget.clock;
	struct windowed_window *windows = calloc(s->n_windows + 1, sizeof(*windows));
	uint64_t begin_ns = program_begin_ns(b);
	size_t n_before = 0;
	double net = 0, cost = 0, origin = net_clock__at(clock, begin_ns);

	if (!windows)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_windows; i++) {
		const struct survivors_window *w = &s->windows[i];

		windows[i] = (struct windowed_window){
			.begin_s = fmax(net_clock__at(clock, w->start_ns) - origin, 0),
			.end_s = fmax(net_clock__at(clock, w->end_ns) - origin, 0),
			.wall_s = seconds_in(w, begin_ns, b->end_ns),
			.interval_bytes = (double)w->interval,
			.continuous = w->continuous,
		};
		if (w->end_ns <= begin_ns) {
			n_before++;
			continue;
		}
		windows[i].allocs = (double)w->allocs;
		windows[i].net_blocks = (double)w->net_blocks;
		if (w->continuous)
			continue;
		net += windows[i].end_s - windows[i].begin_s;
		cost += net_clock__cost_at(clock, w->end_ns) - net_clock__cost_at(clock, w->start_ns);
	}
	*ret_windows = windows;
	*ret = (struct windowed_run){
		.windows = windows,
		.n_windows = s->n_windows,
		.n_before = n_before,
		.quarter_s = net_until(clock, begin_ns, begin_ns + (b->end_ns - begin_ns) / 4),
		.end_s = net_until(clock, begin_ns, b->end_ns),
		.wall_s = (double)(b->end_ns - begin_ns) * NS,
		.clock_error = net_clock__error(clock, net, cost),
		.bound_bytes = (double)b->target->heap_bound_bytes,
	};
	ret->rough = ret->clock_error > CLOCK_ROUGH;
	/* what a second of net time in windows stands for, and a second of the wall */
	if (net > 0 && ret->wall_s > 0)
		ret->hidden = ret->end_s / net / (ret->wall_s / exposure(s, begin_ns, UINT64_MAX));
	return 0;
}

static double weight_of(const struct abi_live *block)
{
	return (double)block->size / estimate__probability(block->size, block->interval);
}

static bool may_live(const struct survivors_block *block)
{
	return !block->ended && !block->changed;
}

/* Shares a stack's live memory out to the threads by which what may live of it was allocated; where none of those that were seen
 * does, by which it was. */
static int add_live_estimate(const struct build *b, struct profile *p,
			     const struct process_sites *sites, long site,
			     const struct estimate *live,
			     const struct survivors_block *const *blocks, size_t n)
{
	bool some_live = false;
	double sum = 0;
	size_t thread;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		some_live = some_live || may_live(blocks[i]);
	for (size_t i = 0; i < n; i++)
		sum += !some_live || may_live(blocks[i]) ? weight_of(&blocks[i]->live) : 0;
	if (!(sum > 0)) {
		rc = profile__add_thread(p, (uint32_t)b->target->info.pid, "", &thread);
		return rc ? rc : profile__add_live_estimate(p, sites->site_of[site], thread, live);
	}
	for (size_t i = 0; i < n && !rc;) {
		uint32_t tid = blocks[i]->live.tid;
		struct estimate part;
		double weight = 0;

		for (; i < n && blocks[i]->live.tid == tid; i++)
			weight +=
				!some_live || may_live(blocks[i]) ? weight_of(&blocks[i]->live) : 0;
		if (!(weight > 0))
			continue;
		part = estimate__part(live, live->objects * weight / sum, live->bytes * weight / sum);
		rc = profile__add_thread(p, tid, "", &thread);
		if (!rc)
			rc = profile__add_live_estimate(p, sites->site_of[site], thread, &part);
	}
	return rc;
}

/* By stack and thread. */
static int compare_by_stack(const void *x, const void *y)
{
	const struct survivors_block *a = *(const struct survivors_block *const *)x;
	const struct survivors_block *b = *(const struct survivors_block *const *)y;

	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	return (a->live.tid > b->live.tid) - (a->live.tid < b->live.tid);
}

static const struct survivors_block **blocks_by_stack(const struct survivors *s)
{
	const struct survivors_block **blocks = calloc(s->n_blocks + 1, sizeof(*blocks));

	for (size_t i = 0; blocks && i < s->n_blocks; i++)
		blocks[i] = &s->blocks[i];
	if (blocks)
		qsort(blocks, s->n_blocks, sizeof(*blocks), compare_by_stack);
	return blocks;
}

/* One row of segments per site. */
struct rows {
	struct growth_segment (*at)[SERIES_SEGMENTS];
	double *quantum;
	size_t n_segments;
	uint64_t start_ns, end_ns; /* what the segments cover */
	double bytes, footprint;   /* what was counted, and with what the allocator adds to it */
};

/* What one more sample of the site would make of a difference, at its mean size. Where the
 * interval became coarser, most samples may have come before, and are worth less than the next
 * one. */
static double quantum_of(const struct build *b, const struct abi_site *site)
{
	double objects = (double)site->alloc_objects_q16 / 65536, size, seen;

	if (!(objects > 0))
		return 0;
	size = (double)site->alloc_bytes / objects;
	seen = fmin((double)site->alloc_samples / objects,
		    estimate__probability((uint64_t)ceil(size), b->interval));
	return seen > 0 && seen < 1 ? size / seen * sqrt(1 - seen) : 0;
}

/* --- vectors that realloc has grown (reallocs.h) --- */

/* What is known of them by site; NULL: out of memory. */
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

/* The middle half of the run, in slices. */
static uint64_t middle(const struct survivors *e, uint64_t *ret_step)
{
	uint64_t run = last_ns(e) - first_ns(e);

	*ret_step = run / 2 / SERIES_SEGMENTS;
	return first_ns(e) + run / 4;
}

/* The share of what it has grown by that is held, of each site; NULL: out of memory. */
static double *held_shares(const struct build *b, const struct process_sites *sites,
			   const struct realloc_slices *slices)
{
	const struct survivors *e = &b->target->budget.survivors;
	double *shares = calloc(sites->n + 1, sizeof(*shares));
	uint64_t step, from = middle(e, &step);

	if (!shares)
		return NULL;
	for (size_t i = 0; i < e->n_blocks; i++) { /* those that stay */
		const struct abi_live *live = &e->blocks[i].live;
		long site = process_sites__find(sites, &live->stack);

		if (site >= 0 && live->birth == BIRTH_GROWN && live->birth_ns >= from &&
		    live->birth_ns < from + step * SERIES_SEGMENTS && e->blocks[i].hashed && !e->blocks[i].changed &&
		    !e->blocks[i].ended)
			shares[site]++;
	}
	for (size_t site = 0; site < sites->n; site++)
		shares[site] = realloc_slices__held(&slices[site], shares[site]);
	return shares;
}

/* By how much what reallocs have added in windows is to be multiplied for all of the time that these stand for. */
static double reallocs_scale(const struct windowed_run *run)
{
	double seen = 0, stretches = 0;

	for (size_t i = 0; i < run->n_windows; i++)
		*(run->windows[i].continuous ? &stretches : &seen) += run->windows[i].end_s - run->windows[i].begin_s;
	return seen > 0 ? fmax((run->end_s - stretches) / seen * (run->scale > 0 ? run->scale : 1), 1) : 1;
}

/* What they have added is live as far as it is held, in at least one vector. */
static int add_live_reallocs(const struct build *b, struct profile *p, const struct process_sites *sites, double scale)
{
	const struct survivors *e = &b->target->budget.survivors;
	const struct reallocs *c = &b->target->budget.reallocs;
	uint64_t step, from = middle(e, &step);
	_cleanup_free_ struct realloc_slices *slices = slices_of(b, sites, from, step);
	_cleanup_free_ double *held = slices ? held_shares(b, sites, slices) : NULL;
	_cleanup_free_ struct estimate *live = calloc(sites->n + 1, sizeof(*live));
	size_t thread;
	int rc;

	if (!held || !live)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_records; i++) {
		const struct realloc_record *r = &c->records[i];
		long site = process_sites__find(sites, &r->stack);
		double bytes, one;

		if (site < 0 || !(r->grown > 0) || !(r->samples > 0) || !(held[site] > 0) ||
		    window_at(e, r->start_ns)->continuous)
			continue;
		bytes = r->grown * scale * held[site];
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

/* Their growth, by slices of the middle half of the run: into each site's. scale: as above. */
static int add_reallocs_growth(const struct build *b, struct profile *p, const struct process_sites *sites,
			     const struct windowed_run *run, const struct growth *anon, double scale)
{
	const struct survivors *e = &b->target->budget.survivors;
	uint64_t step, from = middle(e, &step);
	_cleanup_free_ struct realloc_slices *slices = slices_of(b, sites, from, step);
	_cleanup_free_ double *held = slices ? held_shares(b, sites, slices) : NULL;
	double seen = exposure(e, 0, UINT64_MAX), wall = (double)(b->end_ns - b->begin_ns) * NS;
	double k = seen > 0 && wall > 0 ? scale * seen / wall : 1;
	double process = anon->bytes_per_s;

	if (!held)
		return -ENOMEM;
	for (size_t site = 0; site < sites->n; site++) {
		struct growth_segment segments[SERIES_SEGMENTS];
		double samples = 0, grown = 0;
		struct profile_site *to;
		struct growth growth;
		size_t n = 0;

		if (!slices[site].known || sites->site_of[site] == NO_SITE)
			continue;
		for (size_t i = 0; i < SERIES_SEGMENTS; i++) {
			double seconds = exposure(e, from + i * step, from + (i + 1) * step);
			double bytes = slices[site].at[i].grown * held[site] * k;

			samples += slices[site].at[i].samples;
			grown += fabs(bytes);
			if (seconds > 0)
				segments[n++] = (struct growth_segment){seconds, bytes};
		}
		if (n < GROWTH_MIN_SEGMENTS)
			continue;
		growth = growth__estimate(segments, n, samples > 0 ? grown / samples : 0, false);
		/* That vectors are never freed is concluded from a trend, which may be chance: then the process grows less. */
		if (!isnan(process))
			growth.low = fmin(growth.low, fmax(isnan(anon->low) ? process : anon->low, 0));
		/* by either clock it would be larger by more: no clock that was measured differs by more than MOST_HIDDEN */
		if (process < growth.bytes_per_s / fmin(fmax(run->hidden, 1), MOST_HIDDEN) / 2)
			growth.low = fmin(growth.low, 0);
		if (process > 0 && growth.bytes_per_s > process) /* the wall clock drives it */
			growth.bytes_per_s *= fmax(process / growth.bytes_per_s, 1 / fmax(run->hidden, 1));
		growth.low = fmin(growth.low, growth.bytes_per_s);
		to = &p->sites[sites->site_of[site]];
		growth__merge(&to->growth, &growth);
		/* that their blocks have moved is no death */
		for (int age = 0; age < PROFILE_SURVIVAL_AGES; age++) {
			to->survival[age] = held[site];
			to->older[age] = NAN;
		}
	}
	return 0;
}

/* What is known of one stack, into its site. */
static int add_stack(const struct build *b, struct profile *p, const struct process_sites *sites,
		     long site, const struct windowed_result *r,
		     const struct survivors_block *const *blocks, size_t n_blocks)
{
	struct profile_site *to = &p->sites[sites->site_of[site]];
	struct estimate live = {
		.samples = r->samples,
		.objects = r->live_objects,
		.bytes = r->live_bytes,
		.variance = r->live_variance,
		.squares = r->live_variance,
		.common = r->live_common,
		.most = b->target->heap_bound_bytes ? (double)b->target->heap_bound_bytes : 0,
	};

	to->alloc_bytes = r->alloc_bytes;
	to->alloc_objects = r->alloc_objects;
	to->alloc_variance = r->alloc_variance;
	to->alloc_common = r->alloc_common;
	to->growth = r->growth;
	to->replaces = r->replaces;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++) {
		to->survival[i] = r->survival[i];
		to->older[i] = r->older[i];
	}
	memcpy(to->life.ended, r->ended, sizeof(to->life.ended));
	memcpy(to->life.living, r->living, sizeof(to->life.living));
	to->life.half_life = r->half_life;
	return r->live_objects >= 0.5
		       ? add_live_estimate(b, p, sites, site, &live, blocks, n_blocks)
		       : 0;
}

/* What windows say of the process and of each stack of sites, into the profile. anon: by how much its anonymous memory grows, per second. */
static int add_stacks(const struct build *b, struct profile *p, const struct process_sites *sites,
		      struct windowed_run *run, const struct growth *anon)
{
	const struct survivors *s = &b->target->budget.survivors;
	_cleanup_free_ struct windowed_result *results = calloc(sites->n + 1, sizeof(*results));
	_cleanup_free_ const struct survivors_block **blocks = blocks_by_stack(s);
	_cleanup_free_ const struct windowed_stack **stacks = calloc(sites->n + 1, sizeof(*stacks));
	_cleanup_free_ struct windowed_stack *room = calloc(sites->n + 1, sizeof(*room));
	struct windowed_process process;
	int rc;

	if (!blocks || !results || !stacks || !room)
		return -ENOMEM;
	for (size_t i = 0; i < sites->n; i++) {
		const struct survivors_stack *stack = survivors__find(s, &sites->keys[i].stack);

		if (!stack || sites->site_of[i] == NO_SITE)
			continue;
		room[i] = (struct windowed_stack){stack->born, stack->n_born, stack->groups, stack->cohort, stack->alike};
		stacks[i] = &room[i];
	}
	rc = balance__estimate(run, stacks, sites->n, anon, &process, results);
	if (rc)
		return rc;
	p->growth.blocks_per_s = process.blocks_per_s;
	p->growth.blocks_low = process.blocks_low;
	p->growth.blocks_high = process.blocks_high;
	for (size_t i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		p->survival_age_s[i] = (double)((b->end_ns - b->begin_ns) >> (PROFILE_SURVIVAL_AGES - i)) * NS;
	for (size_t i = 0; i < sites->n && !rc; i++) {
		const struct survivors_stack *stack = survivors__find(s, &sites->keys[i].stack);
		size_t first = 0, n = 0;

		if (!stack || sites->site_of[i] == NO_SITE)
			continue;
		while (first < s->n_blocks && blocks[first]->stack < (size_t)(stack - s->stacks))
			first++;
		while (first + n < s->n_blocks &&
		       blocks[first + n]->stack == (size_t)(stack - s->stacks))
			n++;
		rc = add_stack(b, p, sites, (long)i, &results[i], blocks + first, n);
	}
	return rc;
}

/* What all sites grow by together. */
static struct growth all_growth(const struct profile *p)
{
	struct growth all = {};

	for (size_t i = 0; i < p->n_sites; i++)
		if (!isnan(p->sites[i].growth.low))
			growth__merge(&all, &p->sites[i].growth);
	return all;
}

/* The share of the run in which it was not traced continuously: by the wall clock or by net time, the larger. */
static double unseen_share(const struct build *b, const struct windowed_run *run)
{
	const struct survivors *s = &b->target->budget.survivors;
	uint64_t begin_ns = program_begin_ns(b);
	double net = 0, wall = 0;

	for (size_t i = 0; i < s->n_windows; i++) {
		if (!s->windows[i].continuous)
			continue;
		net += run->windows[i].end_s - run->windows[i].begin_s;
		wall += seconds_in(&s->windows[i], begin_ns, b->end_ns);
	}
	return run->end_s > 0 && run->wall_s > 0 ? fmax(fmax(1 - net / run->end_s, 1 - wall / run->wall_s), 0) : 1;
}

/* Can growth be read as that of a continuous run? Not when blocks were let go, which the kernel's tables then lack. */
static bool is_nearly_continuous(const struct build *b, double unseen)
{
	return unseen <= MOST_UNSEEN && !b->target->budget.survivors.counts.let_go;
}

/* Growth of a run that was interrupted for so little that it is like a continuous one. What was allocated meanwhile is not in
 * it, nor what was freed: either may be as much as is allocated in that time. */
static int add_interrupted_growth(const struct build *b, struct profile *p, const struct process_sites *sites, double unseen)
{
	bool enough = p->has_growth;
	int rc = trend__add_growth(b, p, sites);

	if (rc || !p->has_growth) {
		p->has_growth = enough; /* by windows, then */
		return rc;
	}
	for (size_t i = 0; i < p->n_sites; i++) {
		struct profile_site *site = &p->sites[i];
		double error = b->end_ns > b->begin_ns
				       ? unseen * site->alloc_bytes / ((double)(b->end_ns - b->begin_ns) * NS)
				       : 0;

		site->growth.low -= error;
		site->growth.high += error;
		site->replaces = false;
	}
	return 0;
}

int trend__add_windowed(const struct build *b, struct profile *p, const struct process_sites *sites)
{
	const struct survivors *s = &b->target->budget.survivors;
	const struct survivors_counts *c = &s->counts;
	_cleanup_free_ struct windowed_window *windows = NULL;
	struct windowed_run run;
	struct growth anon;
	double scale, unseen;
	uint64_t begin_ns = program_begin_ns(b);
	bool nearly;
	int rc = describe_run(b, &windows, &run);

	if (rc)
		return rc;
	p->mode = "windowed";
	p->heap_mapped_bytes = (double)b->target->heap_bound_bytes;
	p->n_windows = b->target->budget.pace.windows.n_windows;
	p->windows_s = (double)b->target->budget.pace.windows.windows_ns * NS;
	p->continuous_s = (double)b->target->budget.pace.windows.continuous_ns * NS;
	p->evidence = (struct profile_evidence){
		.born = c->born,
		.freed = c->freed,
		.replaced = c->replaced,
		.unmapped = c->unmapped,
		.changed = c->changed,
	};
	for (size_t i = 0; i < s->n_blocks; i++)
		p->evidence.unchanged += s->blocks[i].hashed && !s->blocks[i].changed && !s->blocks[i].ended;
	anon = sizes__trend(&b->target->anon, begin_ns + (b->end_ns - begin_ns) / 4, b->end_ns);
	p->growth.bytes_per_s = anon.bytes_per_s;
	p->growth.regions = b->regions_growth;
	anon.bytes_per_s -= b->regions_growth;
	anon.low -= b->regions_growth;
	anon.high -= b->regions_growth;
	rc = add_stacks(b, p, sites, &run, &anon);
	scale = reallocs_scale(&run);
	p->has_growth = s->n_windows >= GROWTH_MIN_SEGMENTS;
	if (!rc)
		rc = add_live_reallocs(b, p, sites, scale);
	unseen = unseen_share(b, &run);
	nearly = is_nearly_continuous(b, unseen);
	if (!rc)
		rc = nearly ? add_interrupted_growth(b, p, sites, unseen)
			    : add_reallocs_growth(b, p, sites, &run, &anon, scale);
	for (size_t i = 0; i < p->n_sites; i++) {
		struct profile_site *site = &p->sites[i];

		site->freed_objects = fmax(site->alloc_objects - site->live.objects, 0);
		site->freed_bytes = fmax(site->alloc_bytes - site->live.bytes, 0);
		site->replaces = site->replaces && !(site->growth.low > 0); /* what its vectors grow by may be sure all the same */
	}
	if (!nearly || !p->has_growth)
		p->growth.attributed = all_growth(p);
	if (!rc)
		rc = profile__add_lost(p, "windows_failed", b->target->budget.pace.failed);
	if (!rc)
		rc = profile__add_lost(p, "blocks_changed", c->changed);
	if (!rc)
		rc = profile__add_lost(p, "realloc_old_size_unknown", c->grown_unknown);
	if (!rc)
		rc = profile__add_lost(p, "realloc_records_left_out",
				       b->target->budget.reallocs.left_out);
	return rc;
}

/* --- continuous tracing --- */

static const struct series no_series;

/* The i-th block that is held, in the kernel's table. NULL: there are no more. */
struct held_walk {
	struct snapshot_live live;
	uint64_t exec_ns;
	size_t i;
};

static struct held_walk walk_held(const struct build *b)
{
	return (struct held_walk){.live = snapshot__live_of(&b->drain->live, b->target->process),
				  .exec_ns = b->target->exec_ns};
}

static const struct abi_live *next_held(struct held_walk *walk)
{
	while (walk->i < walk->live.n) {
		const struct abi_live *block = &walk->live.blocks[walk->i++];

		if (block->birth_ns >= walk->exec_ns && block->birth != BIRTH_ENDED)
			return block;
	}
	return NULL;
}

/* --- growth --- */

/* Without a series: a leak adds blocks at the same rate all the time, and all of them stay. Counted are those that have
 * stayed for a quarter of the run at least (what is in balance has died by then), and were not born in its first
 * quarter (what is set up at the start is not added to). Segments are in descending order of time: what lives for
 * long, but not for ever, is ever fewer by age. */
static void rows_of_births(const struct build *b, const struct process_sites *sites, struct rows *rows)
{
	uint64_t run = b->end_ns - b->begin_ns, from = b->begin_ns + run / 4, step = run / 2 / SERIES_SEGMENTS;
	struct held_walk walk = walk_held(b);
	const struct abi_live *held;

	if (!step)
		return;
	rows->start_ns = from;
	rows->end_ns = from + step * SERIES_SEGMENTS;
	rows->n_segments = SERIES_SEGMENTS;
	for (size_t site = 0; site < sites->n; site++)
		for (size_t i = 0; i < SERIES_SEGMENTS; i++)
			rows->at[site][i].seconds = (double)step * NS;
	for (size_t i = 0; i < sites->n; i++) /* of which nothing may be held */
		rows->quantum[i] = quantum_of(b, &sites->sites[i]);
	while ((held = next_held(&walk))) {
		long site = process_sites__find(sites, &held->stack);
		uint64_t slice = held->birth_ns < from ? SERIES_SEGMENTS : (held->birth_ns - from) / step;
		double bytes;

		if (site < 0)
			continue;
		bytes = weight_of(held);
		rows->quantum[site] = fmax(rows->quantum[site],
					   bytes * sqrt(1 - estimate__probability(held->size, held->interval)));
		if (slice >= SERIES_SEGMENTS)
			continue;
		rows->at[site][SERIES_SEGMENTS - 1 - slice].bytes += bytes;
		rows->bytes += bytes;
		rows->footprint += bytes / (double)(held->size ? held->size : 1) * balance__footprint((double)held->size);
	}
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
		double objects;

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
			rows->footprint += held / size * balance__footprint(size);
		}
		rows->quantum[i] = quantum_of(b, site);
	}
}

/* How much of what the site allocated until some age ago is still held, and of what is live how much is that old.
 * Allocation is known by time from the series, without one taken to be even. 0 or -ENOMEM. */
static int add_survival(const struct build *b, struct profile *p, const struct process_sites *sites)
{
	uint64_t run = b->end_ns - b->begin_ns, age_ns[PROFILE_SURVIVAL_AGES];
	_cleanup_free_ double (*held_bytes)[PROFILE_SURVIVAL_AGES] = calloc(sites->n + 1, sizeof(*held_bytes));
	struct held_walk walk = walk_held(b);
	const struct abi_live *held;

	if (!held_bytes)
		return -ENOMEM;
	if (b->end_ns <= b->begin_ns)
		return 0;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++) {
		age_ns[i] = run >> (PROFILE_SURVIVAL_AGES - i);
		p->survival_age_s[i] = (double)age_ns[i] * NS;
		for (size_t s = 0; s < p->n_sites; s++)
			p->sites[s].older[i] = NAN;
	}
	while ((held = next_held(&walk))) {
		long site = process_sites__find(sites, &held->stack);

		for (int i = 0; site >= 0 && i < PROFILE_SURVIVAL_AGES; i++)
			if (held->birth_ns + age_ns[i] <= b->end_ns)
				held_bytes[site][i] += weight_of(held);
	}
	for (size_t s = 0; s < sites->n; s++)
		for (int i = 0; i < PROFILE_SURVIVAL_AGES && sites->site_of[s] != NO_SITE; i++) {
			double born = series__allocated(b->series ? b->series : &no_series,
							&sites->keys[s], b->end_ns - age_ns[i],
							b->begin_ns, b->end_ns,
							(double)sites->sites[s].alloc_bytes);

			struct profile_site *site = &p->sites[sites->site_of[s]];

			site->survival[i] = born > 0 ? fmin(held_bytes[s][i] / born, 1) : NAN;
			if (site->live.bytes > 0)
				site->older[i] = fmin(held_bytes[s][i] / site->live.bytes, 1);
		}
	return 0;
}

/* Do its blocks go on dying when they are old? (A leak's do not, however many others of its stack die young.) */
static bool is_dying(const struct profile_site *site)
{
	const double *last = &site->survival[PROFILE_SURVIVAL_AGES - 1];

	return last[0] < FLAT * last[-1];
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

/* Blocks from before the run die unseen: a population in balance that turns over more slowly than the run lasts
 * (a large cache) seems to grow by as much as those earlier blocks die. Then all stacks together seem to grow by more
 * than the process does, and any of those whose blocks go on dying may owe the whole excess: the lower end of its
 * interval goes down by it.
 * process: growth of the process as stacks would show it, bytes per second. */
static void allow_for_excess(struct profile *p, const struct process_sites *sites, double process)
{
	const struct growth *all = &p->growth.attributed;
	double excess = all->bytes_per_s - process, error = all->bytes_per_s - all->low;

	if (!(excess + error > 0)) /* or not known */
		return;
	excess = fmax(excess, 0);
	for (size_t i = 0; i < sites->n; i++) {
		struct profile_site *site = sites->site_of[i] == NO_SITE ? NULL : &p->sites[sites->site_of[i]];

		if (site && is_dying(site))
			site->growth.low = fmin(site->growth.low,
						site->growth.bytes_per_s - excess -
							hypot(site->growth.bytes_per_s - site->growth.low, error));
	}
}

int trend__add_growth(const struct build *b, struct profile *p, const struct process_sites *sites)
{
	_cleanup_free_ struct growth_segment(*at)[SERIES_SEGMENTS] = NULL;
	_cleanup_free_ double *quantum = NULL;
	struct rows rows = {};
	double rounding, process;

	at = rows.at = calloc(sites->n + 1, sizeof(*rows.at));
	quantum = rows.quantum = calloc(sites->n + 1, sizeof(*quantum));
	if (!at || !quantum)
		return -ENOMEM;
	if (b->series)
		rows_of_series(b, sites, &rows);
	else if (b->end_ns > b->begin_ns)
		rows_of_births(b, sites, &rows);
	p->has_growth = rows.n_segments >= GROWTH_MIN_SEGMENTS;
	if (!p->has_growth)
		return 0;
	p->growth.bytes_per_s = sizes__growth(&b->target->anon, rows.start_ns, rows.end_ns);
	p->growth.regions = b->regions_growth;
	p->growth.attributed = total_growth(&rows, sites->n);
	rounding = rows.footprint > rows.bytes ? rows.footprint / rows.bytes : 1;
	process = (p->growth.bytes_per_s - b->regions_growth) / rounding;
	if (add_survival(b, p, sites))
		return -ENOMEM;
	for (size_t i = 0; i < sites->n; i++) {
		struct profile_site *site;

		if (sites->site_of[i] == NO_SITE)
			continue;
		site = &p->sites[sites->site_of[i]];
		site->growth = growth__estimate(at[i], rows.n_segments, quantum[i], is_dying(site));
	}
	allow_for_excess(p, sites, process);
	return 0;
}
