// SPDX-License-Identifier: BSD-2-Clause
#include "session/region_trend.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

/* Returns the mean size of the regions that the site took, bytes. The memory that the site takes in
 * a span of time is uncertain by the same amount: a region may come just before the end of the
 * span, or just after it. */
static double mean_size(const struct region_site *site)
{
	return site->objects ? (double)site->bytes / (double)site->objects : 0;
}

/* Returns how many bytes each site of the book holds; NULL: out of memory. */
static double *held_by_site(const struct region_book *book)
{
	double *held = calloc(book->n_sites + 1, sizeof(*held));

	for (size_t i = 0; held && i < book->map.n; i++)
		if (book->map.at[i].site != EARLIER_SITE)
			held[book->map.at[i].site] +=
				(double)(book->map.at[i].end - book->map.at[i].start);
	return held;
}

static struct abi_site_key key_of(const struct target *t, size_t site)
{
	return (struct abi_site_key){.stack = t->book.sites[site].stack, .process = t->process};
}

int region_trend__note(struct target *t, uint64_t at_ns)
{
	_cleanup_(capture_table__free) struct capture_table table = {};
	_cleanup_free_ double *held = NULL;
	struct abi_site_key *keys;
	struct abi_site *sites;

	if (!series__is_due(&t->region_series, at_ns))
		return 0;
	held = held_by_site(&t->book);
	table.keys = keys = calloc(t->book.n_sites + 1, sizeof(*keys));
	table.values = sites = calloc(t->book.n_sites + 1, sizeof(*sites));
	if (!held || !keys || !sites)
		return -ENOMEM;
	for (; table.n < t->book.n_sites; table.n++) {
		keys[table.n] = key_of(t, table.n);
		sites[table.n].alloc_bytes = (uint64_t)held[table.n];
	}
	return series__add(&t->region_series, at_ns, &table);
}

int region_trend__add_growth(const struct build *b, struct profile *p, const size_t *site_of)
{
	const struct target *t = b->target;
	const struct series_snapshot *bounds[SERIES_SEGMENTS], *last_known = NULL;
	_cleanup_free_ double *held = held_by_site(&t->book);
	uint64_t over_ns = b->end_ns;
	size_t n;

	if (!held)
		return -ENOMEM;
	/* If regions were not followed to the end of the run, uses the last snapshot from before
	 * memtrace gave them up. The book is of no use then: regions that were unmapped since have
	 * been removed from it, but regions that were mapped since are missing. */
	if (t->regions_stopped_ns) {
		if (!t->region_series.n)
			return 0;
		last_known = &t->region_series.snapshots[t->region_series.n - 1];
		over_ns = last_known->time_ns;
	}
	n = series__boundaries(&t->region_series, b->begin_ns, over_ns, bounds);
	for (size_t i = 0; i < t->book.n_sites; i++) {
		struct growth_segment segments[SERIES_SEGMENTS];
		struct abi_site_key key = key_of(t, i);

		if (site_of[i] == NO_SITE)
			continue;
		for (size_t j = 0; j < n; j++) {
			bool last = j + 1 == n;
			uint64_t end_ns = last ? over_ns : bounds[j + 1]->time_ns;
			double after = !last	    ? series__bytes(bounds[j + 1], &key)
				       : last_known ? series__bytes(last_known, &key)
						    : held[i];

			segments[j].seconds = (double)(end_ns - bounds[j]->time_ns) * 1e-9;
			segments[j].bytes = after - series__bytes(bounds[j], &key);
		}
		p->sites[site_of[i]].growth =
			growth__estimate(segments, n, mean_size(&t->book.sites[i]), false);
	}
	p->growth.stacks_known = n >= GROWTH_MIN_SEGMENTS;
	return 0;
}
