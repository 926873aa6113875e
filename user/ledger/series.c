// SPDX-License-Identifier: BSD-2-Clause
#include "ledger/series.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_NS  1000000000ULL
#define PAGE_BYTES 4096	   /* a known size may be one page too large or too small */
#define MAX_POINTS 1000000 /* points of all snapshots together: 48 MB */

void series__free(struct series *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->snapshots[i].points);
	memset(s, 0, sizeof(*s));
}

static int compare_points(const void *a, const void *b)
{
	return memcmp(&((const struct series_point *)a)->site,
		      &((const struct series_point *)b)->site, sizeof(struct abi_site_key));
}

bool series__is_due(const struct series *s, uint64_t now_ns)
{
	return now_ns >= s->next_ns;
}

static void thin_out(struct series *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++)
		if (i & 1)
			s->snapshots[kept++] = s->snapshots[i];
		else
			free(s->snapshots[i].points);
	s->n = kept;
	s->period_ns *= 2;
}

int series__add(struct series *s, uint64_t now_ns, const struct capture_table *sites)
{
	const struct abi_site_key *keys = sites->keys;
	const struct abi_site *values = sites->values;
	struct series_snapshot *snapshot;
	size_t total = sites->n;

	if (!s->period_ns)
		s->period_ns = PERIOD_NS;
	for (size_t i = 0; i < s->n; i++)
		total += s->snapshots[i].n;
	if (s->n == SERIES_MAX || (total > MAX_POINTS && s->n > SERIES_SEGMENTS))
		thin_out(s);
	s->next_ns = now_ns + s->period_ns;
	snapshot = &s->snapshots[s->n];
	*snapshot = (struct series_snapshot){.time_ns = now_ns, .n = sites->n};
	snapshot->points = calloc(sites->n + 1, sizeof(*snapshot->points));
	if (!snapshot->points)
		return -ENOMEM;
	for (size_t i = 0; i < sites->n; i++) {
		snapshot->points[i].site = keys[i];
		snapshot->points[i].alloc_bytes = (double)values[i].alloc_bytes;
		snapshot->points[i].bytes =
			(double)values[i].alloc_bytes - (double)values[i].freed_bytes;
		snapshot->points[i].objects = ((double)values[i].alloc_objects_q16 -
					       (double)values[i].freed_objects_q16) /
					      65536;
	}
	qsort(snapshot->points, snapshot->n, sizeof(*snapshot->points), compare_points);
	s->n++;
	return 0;
}

size_t series__boundaries(const struct series *s, uint64_t start_ns, uint64_t end_ns,
			  const struct series_snapshot *ret[SERIES_SEGMENTS])
{
	uint64_t from = start_ns + (end_ns - start_ns) / 3,
		 step = (end_ns - from) / SERIES_SEGMENTS;
	size_t n = 0;

	for (size_t i = 0; i < s->n && n < SERIES_SEGMENTS; i++) {
		uint64_t time = s->snapshots[i].time_ns;

		/* a snapshot less than half a step before the end begins no segment of its own */
		if (time < from + n * step || time + step / 2 > end_ns)
			continue;
		ret[n++] = &s->snapshots[i];
	}
	return n;
}

const struct series_point *series__find(const struct series_snapshot *snapshot,
					const struct abi_site_key *site)
{
	struct series_point key = {.site = *site};

	return bsearch(&key, snapshot->points, snapshot->n, sizeof(key), compare_points);
}

double series__bytes(const struct series_snapshot *snapshot, const struct abi_site_key *site)
{
	const struct series_point *found = series__find(snapshot, site);

	return found ? found->bytes : 0;
}

/* Returns the value at `time`, on the line from (t0, y0) to (t1, y1), t0 <= time <= t1. */
static double between(uint64_t time, uint64_t t0, double y0, uint64_t t1, double y1)
{
	return t1 > t0 ? y0 + (y1 - y0) * (double)(time - t0) / (double)(t1 - t0) : y1;
}

double series__allocated(const struct series *s, const struct abi_site_key *site, uint64_t time_ns,
			 uint64_t start_ns, uint64_t end_ns, double total)
{
	uint64_t t0 = start_ns;
	double y0 = 0;

	if (time_ns >= end_ns)
		return total;
	for (size_t i = 0; i < s->n; i++) {
		const struct series_point *found = series__find(&s->snapshots[i], site);
		uint64_t t1 = s->snapshots[i].time_ns;
		double y1 = found ? found->alloc_bytes : 0;

		if (t1 <= start_ns) { /* from before an exec */
			y0 = y1;
			continue;
		}
		if (time_ns <= start_ns)
			return y0;
		if (t1 >= time_ns)
			return between(time_ns, t0, y0, t1, y1);
		if (t1 > t0) {
			t0 = t1;
			y0 = y1;
		}
	}
	return time_ns <= start_ns ? y0 : between(time_ns, t0, y0, end_ns, total);
}

/* --- sizes --- */

void sizes__add(struct sizes *s, uint64_t now_ns, uint64_t bytes)
{
	const size_t max = sizeof(s->at) / sizeof(s->at[0]);

	if (!s->period_ns)
		s->period_ns = PERIOD_NS;
	s->n -= s->early;
	s->early = s->n && now_ns < s->next_ns;
	if (s->n == max) { /* the first size stays */
		for (size_t i = 2; i < max; i += 2)
			s->at[i / 2] = s->at[i];
		s->n = max / 2;
		s->period_ns *= 2;
	}
	s->at[s->n].time_ns = now_ns;
	s->at[s->n++].bytes = bytes;
	if (!s->early)
		s->next_ns = now_ns + s->period_ns;
}

static double size_at(const struct sizes *s, uint64_t time_ns)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->at[i].time_ns >= time_ns)
			return i ? between(time_ns, s->at[i - 1].time_ns,
					   (double)s->at[i - 1].bytes, s->at[i].time_ns,
					   (double)s->at[i].bytes)
				 : (double)s->at[i].bytes;
	return (double)s->at[s->n - 1].bytes;
}

double sizes__growth(const struct sizes *s, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t slack = (to_ns - from_ns) / 10;

	if (to_ns <= from_ns || s->n < 2 || s->at[0].time_ns > from_ns + slack ||
	    s->at[s->n - 1].time_ns + slack < to_ns)
		return NAN;
	return (size_at(s, to_ns) - size_at(s, from_ns)) / ((double)(to_ns - from_ns) * 1e-9);
}

struct growth sizes__trend(const struct sizes *s, uint64_t from_ns, uint64_t to_ns)
{
	struct growth_segment segments[SIZES_SEGMENTS];
	struct growth ret = {NAN, NAN, NAN};
	uint64_t step = to_ns > from_ns ? (to_ns - from_ns) / SIZES_SEGMENTS : 0;
	size_t known = 0;
	double before;

	ret.bytes_per_s = sizes__growth(s, from_ns, to_ns);
	for (size_t i = 0; i < s->n; i++)
		known += s->at[i].time_ns >= from_ns && s->at[i].time_ns <= to_ns;
	/* with fewer sizes, several segments would lie on one straight line, and the growth would
	 * seem exact */
	if (isnan(ret.bytes_per_s) || step < s->period_ns || known < SIZES_SEGMENTS)
		return ret;
	before = size_at(s, from_ns);
	for (size_t i = 0; i < SIZES_SEGMENTS; i++) {
		double after = size_at(s, from_ns + (i + 1) * step);

		segments[i] = (struct growth_segment){(double)step * 1e-9, after - before};
		before = after;
	}
	return growth__estimate(segments, SIZES_SEGMENTS, PAGE_BYTES, false);
}
