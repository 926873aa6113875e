// SPDX-License-Identifier: BSD-2-Clause
/* Figures of a process as a whole: how fast its number of blocks grows (by the calls counted in
 * windows), how much a stack can hold at most, and how an error of the clock changes a figure. */
#include "profile/windowed.h"

#include <math.h>
#include <string.h>

#include "profile/windowed_strata.h"

double windowed__reach(double clock_error)
{
	return expm1(2 * clock_error) / 2;
}

double windowed__most(const struct windowed_run *run, const struct windowed_stack *stack)
{
	double resident = run->resident_bytes > 0 && stack->small > 0
				  ? run->resident_bytes / stack->small
				  : INFINITY;
	double most = fmin(run->bound_bytes > 0 ? run->bound_bytes : INFINITY, resident);

	return isfinite(most) ? most : 0;
}

struct windowed_process windowed__process(const struct windowed_run *run,
					  const struct windowed_strata *s)
{
	struct windowed_process ret = {NAN, -INFINITY, INFINITY, s->clock_error};
	double *rates = s->rates;
	double value[WINDOWED_GROUPS + 1] = {}, wall = WINDOWED_GROWTH_PART * run->wall_s, error;

	for (int g = WINDOWED_GROUPS; wall > 0 && g >= 0; g--) {
		if (g && !s->has_group[g - 1])
			continue;
		memset(rates, 0, (s->n + 1) * sizeof(*rates));
		for (size_t i = 0; i < run->n_windows; i++) {
			if (!windowed_strata__counts(run, s, i, g - 1))
				continue;
			rates[s->stratum_of[i]] += run->windows[i].net_blocks;
		}
		windowed_strata__to_rates(run, s, g - 1, rates);
		for (size_t h = 0; h < s->n; h++) {
			double from = fmax(s->at[h].from_s, run->quarter_s);

			value[g] += fmax(s->at[h].to_s - from, 0) * rates[h] / wall;
		}
	}
	if (wall > 0 && !isnan(value[0])) {
		error = s->n_groups ? windowed_strata__half_width(
					      s, windowed_strata__jackknife(s, value))
				    : 0;
		ret.blocks_per_s = value[0];
		ret.blocks_low = windowed_strata__at_worst(s, value[0] - error, false);
		ret.blocks_high = windowed_strata__at_worst(s, value[0] + error, true);
	}
	return ret;
}
