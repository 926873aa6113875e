// SPDX-License-Identifier: BSD-2-Clause
#include "profile/contradictions.h"

#include <math.h>

#define SECOND_S   1.0 /* figures and facts are read up to this many seconds apart */
#define ROUNDING   0.01
#define PEAK_ERROR 0.05
#define RESERVE	   (128 << 10) /* bytes that an allocator takes ahead, for each thread */

const char *contradiction_rule__name(enum contradiction_rule rule)
{
	static const char *const names[CONTRADICTION_MAX] = {
#define X(id, name) [CONTRADICTION_##id] = name,
		CONTRADICTION_RULES(X)
#undef X
	};

	return names[rule];
}

static void add(struct contradictions *all, enum contradiction_rule rule, bool sure, double figure,
		double fact)
{
	all->at[all->n++] = (struct contradiction){rule, sure, figure, fact};
}

/* Returns how much a figure may change between two readings, if it changes at its mean rate over
 * the run. The result is at least the share ROUNDING of the figure. */
static double apart(const struct profile *profile, double figure)
{
	return fabs(figure) * fmax(SECOND_S / fmax(profile->duration_s, SECOND_S), ROUNDING);
}

static void check_counters(const struct profile *profile, const struct estimate *live,
			   struct contradictions *all)
{
	uint64_t frees = profile__lost_count(profile, "freed_unobserved");
	uint64_t blocks = profile__lost_count(profile, "result_unknown") +
			  profile__lost_count(profile, "allocators_refused") +
			  profile__lost_count(profile, "functions_refused");
	bool regions = profile__is_regions(profile); /* the counters above concern only the heap */

	if (frees && !regions && !profile__is_windowed(profile) && !profile__is_faults(profile))
		add(all, CONTRADICTION_FREES_UNSEEN, false, live->objects, (double)frees);
	if (blocks && !regions)
		add(all, CONTRADICTION_BLOCKS_UNSEEN, false, live->objects, (double)blocks);
	if (profile__lost_count(profile, "main_thread_ended"))
		add(all, CONTRADICTION_PROBES_SILENT, false, live->objects, 1);
	if (profile->withdrawals && !profile__is_windowed(profile))
		add(all, CONTRADICTION_PROBES_WITHDRAWN, false, live->objects,
		    (double)profile->withdrawals);
}

static void check_allocated(const struct profile *profile, const struct estimate *live,
			    struct contradictions *all)
{
	bool windowed = profile__is_windowed(profile);
	double figure = windowed ? estimate__interval(live).low : live->bytes;
	double allocated = 0, freed = 0;

	if (profile->no_allocated)
		return;
	for (size_t i = 0; i < profile->n_sites; i++) {
		allocated += profile->sites[i].alloc_bytes;
		freed += profile->sites[i].freed_bytes;
	}
	if (figure > allocated - freed + ROUNDING * allocated + apart(profile, freed))
		add(all, CONTRADICTION_LIVE_ABOVE_ALLOCATED,
		    !windowed && figure > (1 + ROUNDING) * allocated, live->bytes,
		    allocated - freed);
}

/* Returns the profile's resident set if it has both rows of the heap, else NULL. */
static const struct resident *split_heap(const struct profile *profile)
{
	const struct resident *r = profile->resident;

	return r && r->heap_split ? r : NULL;
}

static void check_memory(const struct profile *profile, const struct estimate *live,
			 struct contradictions *all)
{
	const struct resident *r = split_heap(profile);
	double low = estimate__interval(live).low, mapped = profile->windows.heap_mapped_bytes;
	double rss = (double)profile->rss_end_bytes;

	if (mapped > 0 && live->bytes > (1 + ROUNDING) * mapped)
		add(all, CONTRADICTION_LIVE_ABOVE_MAPPED, low > (1 + ROUNDING) * mapped,
		    live->bytes, mapped);
	if (r) {
		double in_memory = (double)r->heap_bytes + (double)r->rows[1].swap;

		if ((double)r->rows[0].bytes > in_memory)
			add(all, CONTRADICTION_LIVE_ABOVE_RESIDENT, false, (double)r->rows[0].bytes,
			    in_memory);
	} else if (rss > 0 && !profile->ended && low > rss + apart(profile, low)) {
		add(all, CONTRADICTION_LIVE_ABOVE_RESIDENT, false, live->bytes, rss);
	}
}

static void check_growth(const struct profile *profile, struct contradictions *all)
{
	const struct process_growth *growth = &profile->growth;
	double figure = growth->attributed.low, fact = growth->bytes_per_s.value - growth->regions;
	double reserve = RESERVE * (1.0 + profile->n_live_threads) / fmax(profile->duration_s, 1);
	double sum = 0, absolute = 0;

	if (figure > 0 && growth->bytes_per_s.known &&
	    figure > fact + apart(profile, figure) + reserve)
		add(all, CONTRADICTION_GROWTH_ABOVE_PROCESS, false, figure, fact);
	/* what was filtered out or dropped is in no row */
	if (profile__is_filtered(profile) || profile->dropped)
		return;
	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct growth *of = &profile->sites[i].growth;

		if (isnan(of->low) || isnan(of->bytes_per_s))
			continue;
		sum += of->bytes_per_s;
		absolute += fabs(of->bytes_per_s);
	}
	absolute = fmax(absolute, fabs(growth->attributed.bytes_per_s));
	if (fabs(sum - growth->attributed.bytes_per_s) > ROUNDING * absolute + 1)
		add(all, CONTRADICTION_GROWTH_OF_ROWS, true, sum, growth->attributed.bytes_per_s);
}

static void check_kinds(const struct profile *profile, const struct estimate *live,
			struct contradictions *all)
{
	double sum = 0;

	for (int i = 0; i < REGION_MEMORY_KINDS; i++)
		sum += profile->regions.kind_bytes[i];
	if (sum > 0 && fabs(sum - live->bytes) > ROUNDING * live->bytes)
		add(all, CONTRADICTION_KINDS_OF_REGIONS, true, sum, live->bytes);
}

static void check_peak(const struct profile *profile, const struct estimate *live,
		       struct contradictions *all)
{
	double peak = profile__peak(profile).bytes;

	if (peak < (1 - PEAK_ERROR) * live->bytes)
		add(all, CONTRADICTION_PEAK_BELOW_LIVE, profile->n_threads <= 1, peak, live->bytes);
}

static void check_threads(const struct profile *profile, struct contradictions *all)
{
	double most = 0, held = 0, whole = 0;

	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];
		double block = site->live.objects > 0 ? site->live.bytes / site->live.objects : 0;
		double sum = 0, above;

		for (size_t k = 0; k < site->n_threads; k++)
			sum += site->threads[k].bytes;
		above = sum - site->live.bytes;
		if (above > ROUNDING * site->live.bytes + block && above > most) {
			most = above;
			held = sum;
			whole = site->live.bytes;
		}
	}
	if (most > 0)
		add(all, CONTRADICTION_THREADS_ABOVE_STACK, true, held, whole);
}

struct contradictions profile__contradictions(const struct profile *profile)
{
	bool heap = !profile__is_regions(profile) && !profile__is_faults(profile);
	bool whole = !profile__is_filtered(profile);
	struct estimate live = profile__live(profile);
	struct contradictions all = {};

	if (!profile->mode || profile->part)
		return all;
	check_counters(profile, &live, &all);
	if (heap) {
		check_allocated(profile, &live, &all);
		check_memory(profile, &live, &all);
	}
	if (heap && profile->growth.stacks_known)
		check_growth(profile, &all);
	if (profile__is_regions(profile) && whole)
		check_kinds(profile, &live, &all);
	if (profile->peak.known && whole)
		check_peak(profile, &live, &all);
	check_threads(profile, &all);
	return all;
}
