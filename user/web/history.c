// SPDX-License-Identifier: BSD-2-Clause
#include "web/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "profile/chance.h"

#define MOST 32 /* at most this many of the latest moments count */
/* least number of moments that determine a level, a slope and a time, with their errors */
#define ONSET_LEAST 5
#define NS_PER_S    1e9

static int by_id(const void *a, const void *b)
{
	const struct held *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

void moment__sort(struct moment *m)
{
	if (m->n)
		qsort(m->held, m->n, sizeof(*m->held), by_id);
}

double moment__bytes(const struct moment *m, uint64_t id)
{
	size_t at = SEARCH_FIRST(i, m->n, m->held[i].id >= id);

	if (at < m->n && m->held[at].id == id)
		return m->held[at].bytes;
	return m->complete ? 0 : NAN;
}

/* Fills in the points of `id`: seconds since the first point, and the bytes that `id` held. A
 * moment is a point if these bytes are known at this moment and at all later ones. Returns the
 * number of points. */
static size_t points_of(const struct moment *const *moments, size_t n, uint64_t id,
			double seconds[MOST], double bytes[MOST], uint64_t *ret_begin_ns)
{
	size_t first = n, k = 0;

	while (first > 0 && n - first < MOST && !isnan(moment__bytes(moments[first - 1], id)))
		first--;
	if (first == n)
		return 0;
	*ret_begin_ns = moments[first]->taken_ns;
	for (size_t i = first; i < n; i++) {
		double at = (double)(int64_t)(moments[i]->taken_ns - *ret_begin_ns) / NS_PER_S;

		/* if the clock was set back, or two moments have the same time, the earlier points
		 * are dropped */
		while (k && at <= seconds[k - 1])
			k--;
		if (!k) {
			*ret_begin_ns = moments[i]->taken_ns;
			at = 0;
		}
		seconds[k] = at;
		bytes[k++] = moment__bytes(moments[i], id);
	}
	return k;
}

/* Finds by bisection the quantile of Student's distribution that is exceeded with probability
 * p. */
static double exceeded_with(double p, double df)
{
	double low = 0, high = 1000;

	for (int i = 0; i < 40; i++) {
		double t = (low + high) / 2;

		*(chance__of_student(t, df) > p ? &low : &high) = t;
	}
	return (low + high) / 2;
}

/* Estimates the growth between the points. The interval is so wide that its lower end is too high
 * only once in `one_in` times. */
static struct growth growth_between(const double *seconds, const double *bytes, size_t n,
				    double quantum, double one_in)
{
	struct growth growth = {NAN, NAN, NAN};
	struct growth_segment segments[MOST];
	double wider;

	if (n < GROWTH_MIN_SEGMENTS + 1)
		return growth;
	for (size_t i = 0; i + 1 < n; i++)
		segments[i] = (struct growth_segment){seconds[i + 1] - seconds[i],
						      bytes[i + 1] - bytes[i]};
	growth = growth__estimate(segments, n - 1, quantum, false);
	wider = exceeded_with(1 / one_in, (double)n - 2) / student_quantile(n - 2, false);
	growth.low = growth.bytes_per_s - wider * (growth.bytes_per_s - growth.low);
	growth.high = growth.bytes_per_s + wider * (growth.high - growth.bytes_per_s);
	return growth;
}

struct growth history__growth(const struct moment *const *moments, size_t n, uint64_t id,
			      double quantum, double *ret_seconds)
{
	static const size_t shorter[] = {HISTORY_SHORT, HISTORY_SHORTEST};
	double seconds[MOST], bytes[MOST], one_in = HISTORY_ONE_IN * 3;
	struct growth growth;
	uint64_t begin;
	size_t from = 0;

	n = points_of(moments, n, id, seconds, bytes, &begin);
	growth = growth_between(seconds, bytes, n, quantum, one_in);
	for (size_t i = 0; i < 2 && n > shorter[i]; i++) {
		size_t at = n - shorter[i];
		struct growth recent =
			growth_between(seconds + at, bytes + at, shorter[i], quantum, one_in);

		if (recent.low > 0 && recent.low > growth.low) {
			growth = recent;
			from = at;
		}
	}
	if (ret_seconds)
		*ret_seconds = n ? seconds[n - 1] - seconds[from] : 0;
	return growth;
}

/* Fits a line that is level up to the time `since` and has a slope from then on. Returns its sum of
 * squares, or infinity if the best line does not rise. */
static double misfit(const double *seconds, const double *bytes, size_t n, double since)
{
	double x_mean = 0, y_mean = 0, xx = 0, xy = 0, yy = 0;

	for (size_t i = 0; i < n; i++) {
		x_mean += fmax(seconds[i] - since, 0) / (double)n;
		y_mean += bytes[i] / (double)n;
	}
	for (size_t i = 0; i < n; i++) {
		double x = fmax(seconds[i] - since, 0) - x_mean, y = bytes[i] - y_mean;

		xx += x * x;
		xy += x * y;
		yy += y * y;
	}
	return xx > 0 && xy > 0 ? fmax(yy - xy * xy / xx, 0) : INFINITY;
}

bool history__onset(const struct moment *const *moments, size_t n, uint64_t id, struct onset *ret)
{
	double seconds[MOST], bytes[MOST], sums[MOST * HISTORY_STEPS], at[MOST * HISTORY_STEPS];
	double least = INFINITY, most, quantile;
	size_t n_times = 0, best = 0, low, high;
	uint64_t begin;

	n = points_of(moments, n, id, seconds, bytes, &begin);
	if (n < ONSET_LEAST)
		return false;
	for (size_t i = 0; i + 2 < n; i++) /* at least two moments come after `since` */
		for (int step = 0; step < HISTORY_STEPS; step++) {
			double since =
				seconds[i] + (seconds[i + 1] - seconds[i]) * step / HISTORY_STEPS;

			at[n_times] = since;
			sums[n_times] = misfit(seconds, bytes, n, since);
			if (sums[n_times] < least) {
				least = sums[n_times];
				best = n_times;
			}
			n_times++;
		}
	if (!isfinite(least))
		return false;
	quantile = student_quantile(n - 3, false); /* F(1, df) is the square of t(df) */
	most = least * (1 + quantile * quantile / (double)(n - 3));
	for (low = best; low > 0 && sums[low - 1] <= most;)
		low--;
	for (high = best; high + 1 < n_times && sums[high + 1] <= most;)
		high++;
	/* the true end may lie between two of the times that were tried */
	low -= low > 0;
	high += high + 1 < n_times;
	*ret = (struct onset){.ns = begin + (uint64_t)(at[best] * NS_PER_S),
			      .low_ns = begin + (uint64_t)(at[low] * NS_PER_S),
			      .high_ns = begin + (uint64_t)(at[high] * NS_PER_S),
			      .earlier = low == 0};
	return true;
}
