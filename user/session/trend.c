// SPDX-License-Identifier: BSD-2-Clause
#include "session/trend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "capture/snapshot.h"
#include "profile/balance.h"
#include "session/allocators_own.h"

/* A limit for this quotient: survival to twice an age, divided by survival to that age. If the
 * quotient is at least FLAT, blocks are assumed not to die any more. (FLAT is below 1 because the
 * allocated bytes are known at snapshots only, so the quotient has an error.) */
#define FLAT 0.92

/* In a run with a series: growth since an exec is found from the blocks' times of birth only if at
 * least this much time has passed since the exec. */
#define LEAST_SINCE_EXEC_NS 5000000000ULL

uint64_t trend__begin_ns(const struct build *b)
{
	return b->target->exec_ns > b->begin_ns ? b->target->exec_ns : b->begin_ns;
}

double trend__weight(const struct abi_live *block)
{
	return (double)block->size / estimate__probability(block->size, block->interval);
}

/* The segments of all sites: one row for each site. */
struct rows {
	struct growth_segment (*at)[SERIES_SEGMENTS];
	double *quantum;
	double *header; /* bytes in front of each block of the site */
	size_t n_segments;
	uint64_t start_ns, end_ns; /* what the segments cover */
	/* bytes: sizes of the counted blocks, added up. footprint: the same, with the memory that
	 * the allocator adds to each block */
	double bytes, footprint;
};

/* Returns how many bytes one more sample of the site would add, at the site's mean size. Where the
 * interval became coarser during the run, the next sample stands for more than most samples so far.
 * Where the interval became finer, the next sample stands for less, but some samples so far stand
 * for more. So the function uses the larger of two figures: what the samples so far stand for on
 * average, and what the next sample stands for. */
static double quantum_of(const struct build *b, const struct abi_site *site)
{
	double objects = (double)site->alloc_objects_q16 / 65536, size, seen;

	if (!(objects > 0))
		return 0;
	size = (double)site->alloc_bytes / objects;
	seen = fmin((double)site->alloc_samples / objects,
		    estimate__probability((uint64_t)ceil(size), b->present_interval));
	return seen > 0 && seen < 1 ? size / seen * sqrt(1 - seen) : 0;
}

static const struct series no_series;

/* Walks over those blocks of the kernel's table that are still held. next_held() returns NULL when
 * there are no more. */
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

/* For a run without a series: segments of growth are made from the blocks that are still held, by
 * their time of birth. A leak adds blocks at the same rate all the time, and all of them stay.
 * Blocks born in the last quarter of the run are not counted, because even in a steady state they
 * may not have died yet. Blocks born in the first quarter are not counted either, because what is
 * set up at the start does not grow later. Segments are in descending order of time, because some
 * blocks live long, but not for ever: the older a segment is, the fewer of these blocks are left.
 * In this order a population that fills up seems to grow less and less, as growth__estimate()
 * requires. */
static void rows_of_births(const struct build *b, const struct process_sites *sites,
			   struct rows *rows)
{
	uint64_t begin_ns = trend__begin_ns(b), run = b->end_ns - begin_ns,
		 from = begin_ns + run / 4, step = run / 2 / SERIES_SEGMENTS;
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
	for (size_t i = 0; i < sites->n; i++) /* also for sites that hold nothing */
		rows->quantum[i] = quantum_of(b, &sites->sites[i]);
	while ((held = next_held(&walk))) {
		long site = process_sites__find(sites, &held->stack);
		uint64_t slice =
			held->birth_ns < from ? SERIES_SEGMENTS : (held->birth_ns - from) / step;
		double bytes;

		if (site < 0)
			continue;
		bytes = trend__weight(held);
		rows->quantum[site] =
			fmax(rows->quantum[site],
			     bytes * sqrt(1 - estimate__probability(held->size, held->interval)));
		if (slice >= SERIES_SEGMENTS)
			continue;
		rows->at[site][SERIES_SEGMENTS - 1 - slice].bytes += bytes;
		rows->bytes += bytes;
		rows->footprint += bytes / (double)(held->size ? held->size : 1) *
				   balance__footprint((double)held->size, rows->header[site]);
	}
}

/* For a run with a series: its snapshots tell what each site held from time to time, because
 * continuous tracing sees every free. These sums still include blocks that an exec removed. This
 * part of the sums does not change after the exec, and only snapshots since the exec are used. */
static void rows_of_series(const struct build *b, const struct profile *p,
			   const struct process_sites *sites, struct rows *rows)
{
	const struct series_snapshot *bounds[SERIES_SEGMENTS];
	size_t n = series__boundaries(b->series, trend__begin_ns(b), b->end_ns, bounds);

	rows->n_segments = n;
	rows->start_ns = n ? bounds[0]->time_ns : b->end_ns;
	rows->end_ns = b->end_ns;
	for (size_t i = 0; i < sites->n; i++) {
		const struct abi_site *site = &sites->sites[i];
		double objects;

		for (size_t j = 0; j < n; j++) {
			bool end_of_run = j + 1 == n;
			uint64_t end = end_of_run ? b->end_ns : bounds[j + 1]->time_ns;
			double after =
				end_of_run ? (double)site->alloc_bytes - (double)site->freed_bytes
					   : series__bytes(bounds[j + 1], &sites->keys[i]);

			rows->at[i][j].seconds = (double)(end - bounds[j]->time_ns) * NS;
			rows->at[i][j].bytes = after - series__bytes(bounds[j], &sites->keys[i]);
		}
		objects = (double)site->alloc_objects_q16 / 65536;
		if (objects > 0 && sites->site_of[i] != NO_SITE) { /* at the site's mean size */
			double held = p->sites[sites->site_of[i]].live.bytes;
			double size = (double)site->alloc_bytes / objects;

			rows->bytes += held;
			rows->footprint += held / size * balance__footprint(size, rows->header[i]);
		}
		rows->quantum[i] = quantum_of(b, site);
	}
}

/* Returns the bytes that a site had allocated by time_ns. */
static double allocated_by(const struct build *b, const struct process_sites *sites, size_t site,
			   uint64_t time_ns)
{
	return series__allocated(b->series ? b->series : &no_series, &sites->keys[site], time_ns,
				 trend__begin_ns(b), b->end_ns,
				 (double)sites->sites[site].alloc_bytes);
}

/* For several ages, sets two shares of each site. `survival`: of the memory that the site allocated
 * at least that long ago, the share that is still held. `older`: of the site's live memory, the
 * share that is at least that old. Allocation over time is known from the series; without a
 * series it is assumed to be even. What was allocated before an exec does not count. 0 or
 * -ENOMEM. */
static int add_survival(const struct build *b, struct profile *p, const struct process_sites *sites)
{
	uint64_t begin_ns = trend__begin_ns(b), run = b->end_ns - begin_ns,
		 age_ns[PROFILE_SURVIVAL_AGES];
	_cleanup_free_ double(*held_bytes)[PROFILE_SURVIVAL_AGES] =
		calloc(sites->n + 1, sizeof(*held_bytes));
	struct held_walk walk = walk_held(b);
	const struct abi_live *held;

	if (!held_bytes)
		return -ENOMEM;
	if (b->end_ns <= begin_ns)
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
				held_bytes[site][i] += trend__weight(held);
	}
	for (size_t s = 0; s < sites->n; s++)
		for (int i = 0; i < PROFILE_SURVIVAL_AGES && sites->site_of[s] != NO_SITE; i++) {
			double born = allocated_by(b, sites, s, b->end_ns - age_ns[i]) -
				      allocated_by(b, sites, s, begin_ns);
			struct profile_site *site = &p->sites[sites->site_of[s]];

			site->survival[i] = born > 0 ? fmin(held_bytes[s][i] / born, 1) : NAN;
			if (site->live.bytes > 0)
				site->older[i] = fmin(held_bytes[s][i] / site->live.bytes, 1);
		}
	return 0;
}

/* Do the site's blocks go on dying when they are old? (Leaked blocks do not, even if many other
 * blocks of the same stack die young.) */
static bool is_dying(const struct profile_site *site)
{
	const double *last = &site->survival[PROFILE_SURVIVAL_AGES - 1];

	return last[0] < FLAT * last[-1];
}

/* Returns by how much all sites grow together. */
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

/* memtrace does not see the frees of blocks from before the run. A population in steady state whose
 * blocks live longer than the run (a large cache) seems to grow by as much memory as these frees
 * release. Then all stacks together seem to grow by more than the process does. Any stack whose
 * blocks go on dying may cause the whole excess. So the excess lowers the low end of each such
 * stack's interval. process: growth of the process in bytes per second, as stacks would show it. */
static void allow_for_excess(struct profile *p, const struct process_sites *sites, double process)
{
	const struct growth *all = &p->growth.attributed;
	double excess = all->bytes_per_s - process, error = all->bytes_per_s - all->low;

	if (!(excess + error > 0)) /* no excess, or not known */
		return;
	excess = fmax(excess, 0);
	for (size_t i = 0; i < sites->n; i++) {
		struct profile_site *site =
			sites->site_of[i] == NO_SITE ? NULL : &p->sites[sites->site_of[i]];

		if (site && is_dying(site))
			site->growth.low = fmin(
				site->growth.low,
				site->growth.bytes_per_s - excess -
					hypot(site->growth.bytes_per_s - site->growth.low, error));
	}
}

/* Must the rows be made from the blocks' times of birth? They must if there is no series, or if too
 * few of its snapshots are later than the exec. */
static bool needs_births(const struct build *b)
{
	const struct series_snapshot *bounds[SERIES_SEGMENTS];
	uint64_t begin_ns = trend__begin_ns(b);

	if (!b->series)
		return true;
	return begin_ns > b->begin_ns && b->end_ns >= begin_ns + LEAST_SINCE_EXEC_NS &&
	       series__boundaries(b->series, begin_ns, b->end_ns, bounds) < GROWTH_MIN_SEGMENTS;
}

int trend__add_growth(const struct build *b, struct profile *p, const struct process_sites *sites)
{
	_cleanup_free_ struct growth_segment(*at)[SERIES_SEGMENTS] = NULL;
	_cleanup_free_ double *quantum = NULL, *header = NULL;
	struct rows rows = {};
	double rounding;

	at = rows.at = calloc(sites->n + 1, sizeof(*rows.at));
	quantum = rows.quantum = calloc(sites->n + 1, sizeof(*quantum));
	header = rows.header = calloc(sites->n + 1, sizeof(*header));
	if (!at || !quantum || !header)
		return -ENOMEM;
	for (size_t i = 0; i < sites->n; i++)
		header[i] = allocators_own__header(b, p, &sites->keys[i].stack);
	if (!needs_births(b))
		rows_of_series(b, p, sites, &rows);
	else if (b->end_ns > trend__begin_ns(b))
		rows_of_births(b, sites, &rows);
	p->growth.stacks_known = rows.n_segments >= GROWTH_MIN_SEGMENTS;
	if (!p->growth.stacks_known)
		return 0;
	p->growth.bytes_per_s =
		optional__of(sizes__growth(&b->target->anon, rows.start_ns, rows.end_ns));
	p->growth.regions = b->regions_growth;
	p->growth.attributed = total_growth(&rows, sites->n);
	rounding = rows.footprint > rows.bytes ? rows.footprint / rows.bytes : 1;
	if (add_survival(b, p, sites))
		return -ENOMEM;
	for (size_t i = 0; i < sites->n; i++) {
		struct profile_site *site;

		if (sites->site_of[i] == NO_SITE)
			continue;
		site = &p->sites[sites->site_of[i]];
		site->growth = growth__estimate(at[i], rows.n_segments, quantum[i], is_dying(site));
	}
	if (p->growth.bytes_per_s.known)
		allow_for_excess(p, sites,
				 (p->growth.bytes_per_s.value - b->regions_growth) / rounding);
	return 0;
}
