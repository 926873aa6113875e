/* SPDX-License-Identifier: BSD-2-Clause */
/* Strata: windows that are near to each other stand for the time around them. Private to profile/.
 * BIRTHS in windowed.h has the theory. Seconds are seconds of the process's net time. */
#ifndef MEMTRACE_PROFILE_WINDOWED_STRATA_H
#define MEMTRACE_PROFILE_WINDOWED_STRATA_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/windowed.h"

#define NOBODY (-1) /* no group is left out */

struct stratum {
	double from_s, to_s;
	size_t first, n; /* windows */
	bool continuous;
};

struct windowed_strata {
	struct stratum *at;
	size_t n;
	bool *left_out;	    /* by window: it is not used, because it samples too coarsely */
	size_t *stratum_of; /* by window */
	double *seconds;    /* net, by window */
	double clock_error; /* of all windows' net time together, relative */
	double per_alloc_s; /* net time per call that allocates, in windows */
	double ends_slowed; /* per net second, the clock by which blocks end runs this many times
			     * as fast in windows as in the whole run; at least 1 */
	int n_groups;	    /* number of groups with a window that is not continuous */
	bool has_group[WINDOWED_GROUPS];
	/* Four numbers for each stratum: scratch memory for one estimate at a time. Thus an
	 * estimate allocates no memory and cannot fail. */
	double *rates;
};

/* Makes the strata of a run's windows. Free with windowed_strata__free(). NULL: out of memory. */
struct windowed_strata *windowed_strata__new(const struct windowed_run *run);
void windowed_strata__free(struct windowed_strata *strata);

/* The net time that the process has, on average, in wall_s seconds of the wall clock. */
double windowed_strata__net_of_wall(const struct windowed_run *run, double wall_s);

/* Is the window used for its stratum when `group` is left out? */
bool windowed_strata__counts(const struct windowed_run *run, const struct windowed_strata *strata,
			     size_t window, int group);

/* The sum of the net seconds of a stratum's windows for which windowed_strata__counts() is true. */
double windowed_strata__seconds_of(const struct windowed_run *run,
				   const struct windowed_strata *strata, size_t stratum, int group);

/* Turns sums by stratum into rates per second. If no window of a stratum counts, the stratum gets
 * the mean rate of all strata that are not continuous. If none of these has a rate either, it gets
 * the mean rate of the continuous strata. */
void windowed_strata__to_rates(const struct windowed_run *run, const struct windowed_strata *strata,
			       int group, double *sums);

/* --- the error of a figure: value[0] is the figure from all windows, value[g + 1] the figure
 * without the windows of group g --- */

/* The variance, by the jackknife. NaN: there are too few groups. */
double windowed_strata__jackknife(const struct windowed_strata *strata,
				  const double value[WINDOWED_GROUPS + 1]);
/* The variance. If groups are few, it is made larger, so that callers can use the normal quantile.
 * NaN: there are too few groups. */
double windowed_strata__variance(const struct windowed_strata *strata,
				 const double value[WINDOWED_GROUPS + 1]);
/* Returns half of the width of a 95 % interval. variance: by windowed_strata__jackknife().
 * Infinite: there are too few groups. */
double windowed_strata__half_width(const struct windowed_strata *strata, double variance);
/* Returns one end of an interval, moved outwards by the error of the clock. This error is a factor,
 * so the end keeps its sign. */
double windowed_strata__at_worst(const struct windowed_strata *strata, double end, bool high);

#endif
