// SPDX-License-Identifier: BSD-2-Clause
#include "profile/windowed_strata.h"

#include <math.h>
#include <stdlib.h>

/* The least number of windows in a stratum, if the run has as many. This many windows are enough to
 * show a spread, and few enough to follow a program's phases. */
#define STRATUM 8
/* A window is left out if its sampling interval is more than this many times the median of its
 * stratum. One of its samples would outweigh all others. */
#define COARSE 8

static int compare_doubles(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Leaves out windows that sample much more coarsely than most windows of their stratum. */
static void leave_coarse_out(const struct windowed_run *run, struct windowed_strata *s,
			     const struct stratum *stratum)
{
	double intervals[2 * STRATUM], median;
	size_t n = stratum->n < 2 * STRATUM ? stratum->n : 2 * STRATUM;

	if (n < 4)
		return;
	for (size_t i = 0; i < n; i++)
		intervals[i] = run->windows[stratum->first + i].interval_bytes;
	qsort(intervals, n, sizeof(*intervals), compare_doubles);
	median = intervals[n / 2];
	for (size_t i = 0; i < stratum->n; i++)
		s->left_out[stratum->first + i] =
			run->windows[stratum->first + i].interval_bytes > COARSE * median;
}

/* Adds the strata of the windows [first, first + n). On either side of them is a continuous stretch
 * or an end of the run. The strata divide the time from from_s to to_s. */
static void add_strata(const struct windowed_run *run, struct windowed_strata *s, size_t first,
		       size_t n, double from_s, double to_s)
{
	size_t parts =
		n < 2 * STRATUM || !windowed_has(run->without, PART_STRATA) ? 1 : n / STRATUM;

	for (size_t k = 0; k < parts; k++) {
		size_t begin = first + n * k / parts, end = first + n * (k + 1) / parts;
		struct stratum *h = &s->at[s->n++];

		*h = (struct stratum){
			.from_s = from_s, .to_s = to_s, .first = begin, .n = end - begin};
		if (k + 1 < parts)
			h->to_s = (run->windows[end - 1].end_s + run->windows[end].begin_s) / 2;
		from_s = h->to_s;
		leave_coarse_out(run, s, h);
	}
}

/* Returns the net seconds per call that allocates, in all windows of the run. */
static double seconds_per_alloc(const struct windowed_run *run)
{
	double scale = run->scale > 0 ? run->scale : 1, seconds = 0, allocs = 0;

	for (size_t i = 0; i < run->n_windows; i++) {
		const struct windowed_window *w = &run->windows[i];
		double stands = windowed_window__stands(w);

		if (w->continuous)
			continue;
		seconds += stands * (w->end_s - w->begin_s) / scale;
		allocs += stands * w->allocs;
	}
	return allocs > 0 ? seconds / allocs : 0;
}

/* Adds up the net seconds of n windows, and their calls that allocate. Continuous stretches are
 * left out, because they stand only for themselves. */
static void add_up(const struct windowed_run *run, size_t first, size_t n, double *ret_seconds,
		   double *ret_allocs)
{
	double scale = run->scale > 0 ? run->scale : 1;

	*ret_seconds = *ret_allocs = 0;
	for (size_t i = first; i < first + n; i++) {
		if (run->windows[i].continuous)
			continue;
		*ret_seconds += (run->windows[i].end_s - run->windows[i].begin_s) / scale;
		*ret_allocs += run->windows[i].allocs;
	}
}

double windowed_strata__net_of_wall(const struct windowed_run *run, double wall_s)
{
	return run->wall_s > 0 ? wall_s * run->end_s / run->wall_s : wall_s;
}

/* Sets the net time of a stratum's windows, in proportion to their calls that allocate. The time
 * per call is the mean of the stratum or, if the clock is rough, of all windows. In a stratum
 * without such calls, all windows get the same net time. */
static void share_seconds(const struct windowed_run *run, struct windowed_strata *s,
			  const struct stratum *h)
{
	double seconds, allocs, mean = s->per_alloc_s;

	add_up(run, h->first, h->n, &seconds, &allocs);
	if (!(allocs > 0)) /* a window without calls still takes net time */
		mean = 0;
	else if (!run->rough)
		mean = seconds / allocs;
	for (size_t i = h->first; i < h->first + h->n; i++) {
		const struct windowed_window *w = &run->windows[i];

		if (w->continuous)
			s->seconds[i] = w->end_s - w->begin_s;
		else
			s->seconds[i] = mean > 0 ? mean * w->allocs : seconds / (double)h->n;
	}
}

/* Returns the relative standard error of the sum of windows' net times. It follows from the
 * distance between each window's net time and the time that the window's calls predict. */
static double spread_of_seconds(const struct windowed_run *run, const struct windowed_strata *s)
{
	double squares = 0, seconds = 0;

	for (size_t i = 0; i < run->n_windows; i++) {
		double scale = run->scale > 0 ? run->scale : 1;
		double miss =
			(run->windows[i].end_s - run->windows[i].begin_s) / scale - s->seconds[i];

		if (run->windows[i].continuous)
			continue;
		squares += miss * miss;
		seconds += s->seconds[i];
	}
	return seconds > 0 ? sqrt(squares) / seconds : 0;
}

struct windowed_strata *windowed_strata__new(const struct windowed_run *run)
{
	struct windowed_strata *s = calloc(1, sizeof(*s));
	double from_s = 0;
	size_t first = run->n_before;

	if (!s)
		return NULL;
	s->at = calloc(2 * run->n_windows + 2, sizeof(*s->at));
	s->left_out = calloc(run->n_windows + 1, sizeof(*s->left_out));
	s->stratum_of = calloc(run->n_windows + 1, sizeof(*s->stratum_of));
	s->seconds = calloc(run->n_windows + 1, sizeof(*s->seconds));
	if (!s->at || !s->left_out || !s->stratum_of || !s->seconds) {
		windowed_strata__free(s);
		return NULL;
	}
	for (size_t i = first; i <= run->n_windows; i++) {
		const struct windowed_window *w = &run->windows[i];
		bool stretch = i < run->n_windows && w->continuous;

		if (i < run->n_windows && !stretch) {
			s->n_groups += !s->has_group[windowed_window__group(w)];
			s->has_group[windowed_window__group(w)] = true;
			continue;
		}
		/* A stratum is added even if there is no window in its time:
		 * windowed_strata__to_rates() gives it the rate of the other strata. */
		add_strata(run, s, first, i - first, from_s, stretch ? w->begin_s : run->end_s);
		if (!stretch)
			break;
		s->at[s->n++] = (struct stratum){w->begin_s, w->end_s, i, 1, true};
		from_s = w->end_s;
		first = i + 1;
	}
	s->per_alloc_s = seconds_per_alloc(run);
	s->ends_slowed =
		run->ends_by_wall ? fmax(run->hidden * (run->scale > 0 ? run->scale : 1), 1) : 1;
	for (size_t h = 0; h < s->n; h++) {
		for (size_t i = 0; i < s->at[h].n; i++)
			s->stratum_of[s->at[h].first + i] = h;
		share_seconds(run, s, &s->at[h]);
	}
	s->clock_error = hypot(run->clock_error, spread_of_seconds(run, s));
	s->rates = calloc(4 * (s->n + 1), sizeof(*s->rates));
	if (!s->rates) {
		windowed_strata__free(s);
		return NULL;
	}
	return s;
}

void windowed_strata__free(struct windowed_strata *s)
{
	if (!s)
		return;
	free(s->at);
	free(s->left_out);
	free(s->stratum_of);
	free(s->seconds);
	free(s->rates);
	free(s);
}

bool windowed_strata__counts(const struct windowed_run *run, const struct windowed_strata *s,
			     size_t window, int group)
{
	if (run->windows[window].continuous)
		return true;
	return !s->left_out[window] && (int)windowed_window__group(&run->windows[window]) != group;
}

double windowed_strata__seconds_of(const struct windowed_run *run, const struct windowed_strata *s,
				   size_t h, int group)
{
	double sum = 0;

	for (size_t i = s->at[h].first; i < s->at[h].first + s->at[h].n; i++)
		if (windowed_strata__counts(run, s, i, group))
			sum += s->seconds[i];
	return sum;
}

void windowed_strata__to_rates(const struct windowed_run *run, const struct windowed_strata *s,
			       int group, double *sums)
{
	double all[2] = {}, seconds[2] = {};

	for (size_t h = 0; h < s->n; h++) {
		all[s->at[h].continuous] += sums[h];
		seconds[s->at[h].continuous] += windowed_strata__seconds_of(run, s, h, group);
	}
	if (!(seconds[0] > 0)) {
		all[0] = all[1];
		seconds[0] = seconds[1];
	}
	for (size_t h = 0; h < s->n; h++) {
		double t = windowed_strata__seconds_of(run, s, h, group);

		sums[h] = t > 0 ? sums[h] / t : seconds[0] > 0 ? all[0] / seconds[0] : 0;
	}
}

/* --- the jackknife --- */

double windowed_strata__jackknife(const struct windowed_strata *s,
				  const double value[WINDOWED_GROUPS + 1])
{
	double n = s->n_groups, mean = 0, sum = 0;

	if (s->n_groups < 2)
		return NAN;
	for (int g = 0; g < WINDOWED_GROUPS; g++)
		mean += s->has_group[g] ? value[g + 1] / n : 0;
	for (int g = 0; g < WINDOWED_GROUPS; g++)
		if (s->has_group[g])
			sum += (value[g + 1] - mean) * (value[g + 1] - mean);
	return (n - 1) / n * sum;
}

double windowed_strata__variance(const struct windowed_strata *s,
				 const double value[WINDOWED_GROUPS + 1])
{
	if (s->n_groups < 2)
		return NAN;
	return windowed_strata__jackknife(s, value) *
	       pow(student_quantile((size_t)s->n_groups - 1, false) / NORMAL_QUANTILE, 2);
}

double windowed_strata__half_width(const struct windowed_strata *s, double variance)
{
	return s->n_groups < 2 ? INFINITY
			       : student_quantile((size_t)s->n_groups - 1, false) * sqrt(variance);
}

double windowed_strata__at_worst(const struct windowed_strata *s, double end, bool high)
{
	double factor = 1 + 2 * windowed__reach(s->clock_error);

	return (end > 0) == high ? end * factor : end / factor;
}
