// SPDX-License-Identifier: BSD-2-Clause
#include "session/series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_NS  1000000000ULL
#define MAX_POINTS 1000000 /* of all snapshots: 32 MB */

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
		snapshot->points[i].bytes =
			(double)values[i].alloc_bytes - (double)values[i].freed_bytes;
	}
	qsort(snapshot->points, snapshot->n, sizeof(*snapshot->points), compare_points);
	s->n++;
	return 0;
}

size_t series__boundaries(const struct series *s, uint64_t start_ns, uint64_t end_ns,
			  const struct series_snapshot *ret[SERIES_SEGMENTS])
{
	uint64_t from = start_ns + (end_ns - start_ns) / 3, step = (end_ns - from) / SERIES_SEGMENTS;
	size_t n = 0;

	for (size_t i = 0; i < s->n && n < SERIES_SEGMENTS; i++) {
		uint64_t time = s->snapshots[i].time_ns;

		/* half a step before the end is no segment of its own */
		if (time < from + n * step || time + step / 2 > end_ns)
			continue;
		ret[n++] = &s->snapshots[i];
	}
	return n;
}

double series__bytes(const struct series_snapshot *snapshot, const struct abi_site_key *site)
{
	struct series_point key = {.site = *site};
	const struct series_point *found = bsearch(&key, snapshot->points, snapshot->n,
						   sizeof(key), compare_points);

	return found ? found->bytes : 0;
}
