// SPDX-License-Identifier: BSD-2-Clause
#include "profile/balance.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/windowed_strata.h"

#define WIDEST	      2.5   /* the grid reaches this many standard deviations either way */
#define FINER	      20    /* factors that are weighed between two neighbours of the grid */
#define ANON_ERROR    0.2   /* relative spread of the memory that allocators keep for themselves */
#define OTHER_THINGS  0.05  /* chance that the growing memory is in no stack */
#define OTHER_RANGE   7.0   /* width of log(A / G) if A is in no stack: a factor of 30 either way */
#define BY_CLOCK      0.2   /* chance that the growing stacks follow the wall clock */
#define LOST_ERROR    0.1   /* relative error of the lost blocks that W (balance.h) explains */
#define STEADY_ERROR  0.02  /* plus this share of the loss if all blocks ended by the wall clock */
#define ONE_BY_ONE    8	    /* at most this many stacks are judged one by one (DOUBTS, ENDS) */
#define SETTLED	      0.975 /* a doubt is settled if one answer has at least this chance */
#define HALF_STAY     0.5   /* a stack's blocks stay if more than this share of them does */
#define MUCH_MORE     3	    /* no error explains more than this many times the process's growth */
#define GROWTH_PASSES 8	    /* passes at most: each corrects what the passes before left over */
/* A stack may or may not follow the wall clock. The standard error from this doubt is at most this
 * many times the stack's live bytes. */
#define MOST_ABOVE 2

double balance__footprint(double size, double header)
{
	double chunk = ceil((fmax(size, 0) + header) / 16) * 16;

	return fmax(chunk, header > 0 ? 32 : 16);
}

/* Returns the memory that a stack's blocks take, divided by the size that was asked for. */
static double overhead(const struct windowed_result *r)
{
	double size = r->alloc_objects > 0 ? r->alloc_bytes / r->alloc_objects : 0;

	return size >= 1 ? balance__footprint(size, r->header) / size : 1;
}

/* Estimates by how many bytes of memory per second all stacks together grow if the clock's factor
 * is `scale`. The errors are not estimated. ret_live, if not NULL, gets each stack's live bytes.
 * shown: results that give each stack's overhead. */
static int grows_at(struct windowed_run run, double scale, struct windowed_stack *const *stacks,
		    size_t n, const struct windowed_result *shown, double *ret_grows,
		    double *ret_live)
{
	struct windowed_strata *strata;

	run.scale = scale;
	strata = windowed_strata__new(&run);
	if (!strata)
		return -ENOMEM;
	*ret_grows = 0;
	for (size_t i = 0; i < n; i++) {
		double live = 0, grows = 0;

		if (stacks[i])
			windowed__point(&run, strata, stacks[i], &live, &grows);
		*ret_grows += grows * overhead(&shown[i]);
		if (ret_live)
			ret_live[i] = live;
	}
	windowed_strata__free(strata);
	return 0;
}

/* Adds to each element of `sum` the growth that a stack causes in the process's memory, times
 * `factor`. Element 0: growth by all windows. Element g + 1: growth by all windows except those of
 * group g. */
static void add_growth(double sum[WINDOWED_GROUPS + 1], const struct windowed_result *r,
		       double factor)
{
	for (int g = 0; g <= WINDOWED_GROUPS; g++)
		sum[g] += factor * r->grows_without[g] * overhead(r);
}

/* Returns the relative error of the growth of all stacks together, from the spread between
 * windows. */
static double error_of_growth(const struct windowed_result *results, size_t n,
			      const struct windowed_strata *strata)
{
	double grows[WINDOWED_GROUPS + 1] = {};

	for (size_t i = 0; i < n; i++)
		add_growth(grows, &results[i], 1);
	return grows[0] > 0 ? sqrt(windowed_strata__variance(strata, grows)) / grows[0] : INFINITY;
}

static double normal_below(double z)
{
	return erfc(-z / M_SQRT2) / 2;
}

/* Returns the density of x = log(A / G). A is the growth of anonymous memory, and G the growth of
 * all stacks together (THE CLOCK'S FACTOR in balance.h). */
static double growth_density(double x, double error, double hidden)
{
	double range = log(fmax(hidden, 1)),
	       work = exp(-x * x / error / error / 2) / error / sqrt(2 * M_PI);
	double by_clock =
		range > error
			? (normal_below((x + range) / error) - normal_below(x / error)) / range
			: work;

	return (1 - BY_CLOCK - OTHER_THINGS) * work + BY_CLOCK * by_clock +
	       OTHER_THINGS / OTHER_RANGE;
}

/* Interpolates between a and b, the values at two neighbours of the grid. The logarithm of the
 * value is nearly linear there. part: 0 (at a) to 1 (at b). */
static double value_between(double a, double b, double part)
{
	return a > 0 && b > 0 ? a * pow(b / a, part) : a + part * (b - a);
}

/* Sets the run's scale to the most probable factor of the clock. anon: growth of the process's
 * anonymous memory. To be called only if the process's number of blocks surely grows. */
static int weigh_clock(struct windowed_run *run, const struct windowed_strata *strata,
		       double clock_error, struct windowed_stack *const *stacks, size_t n,
		       const struct windowed_result *shown, double anon)
{
	const double step = 2 * WIDEST / (BALANCE_GRID - 1);
	double sum = 0, first = 0, second = 0, base = run->scale, best = 0, mode = 0,
	       error = hypot(ANON_ERROR, error_of_growth(shown, n, strata)), at[BALANCE_GRID];

	for (int i = 0; i < BALANCE_GRID; i++) {
		int rc = grows_at(*run, base * exp((step * i - WIDEST) * clock_error), stacks, n,
				  shown, &at[i], NULL);

		if (rc)
			return rc;
	}
	for (int i = 0; i < (BALANCE_GRID - 1) * FINER; i++) {
		int k = i / FINER;
		double part = (i % FINER + 0.5) / FINER, z = step * (k + part) - WIDEST,
		       grows = value_between(at[k], at[k + 1], part),
		       weight = grows > 0 ? growth_density(log(anon / grows), error, run->hidden)
					  : OTHER_THINGS / OTHER_RANGE;

		weight *= exp(-z * z / 2);
		if (weight > best) {
			best = weight;
			mode = z * clock_error;
		}
		sum += weight;
		first += weight * z * clock_error;
		second += weight * z * clock_error * z * clock_error;
	}
	/* The weights are not known (NaN), because there are too few windows to show how windows
	 * differ. The scale stays as it was. */
	if (!(sum > 1e-9))
		return 0;
	run->scale = base * exp(mode);
	/* the root mean square of the deviations from the mode. The spread of windows is
	 * subtracted, because windowed_strata__new() adds it again */
	run->clock_error =
		sqrt(fmax(second / sum - 2 * mode * first / sum + mode * mode -
				  (clock_error * clock_error - run->clock_error * run->clock_error),
			  0));
	return 0;
}

static int estimate_each(const struct windowed_run *run, struct windowed_stack *const *stacks,
			 size_t n, struct windowed_strata **ret_strata,
			 struct windowed_process *ret_process, struct windowed_result *results)
{
	struct windowed_strata *strata = windowed_strata__new(run);

	if (!strata)
		return -ENOMEM;
	*ret_process = windowed__process(run, strata);
	for (size_t i = 0; i < n; i++) {
		memset(&results[i], 0, sizeof(results[i]));
		if (stacks[i])
			windowed__estimate(run, strata, ret_process, stacks[i], &results[i]);
	}
	*ret_strata = strata;
	return 0;
}

/* --- decisions on single stacks --- */

/* Finds the stacks with the largest size_of() above 0, the largest first. Returns their number. */
static int choose_largest(const struct windowed_result *results, size_t n,
			  double (*size_of)(const struct windowed_result *), size_t ret[ONE_BY_ONE])
{
	int chosen = 0;

	for (size_t i = 0; i < n; i++) {
		double size = size_of(&results[i]);
		int at = chosen;

		while (at > 0 && size_of(&results[ret[at - 1]]) < size)
			at--;
		if (!(size > 0) || at == ONE_BY_ONE)
			continue;
		chosen += chosen < ONE_BY_ONE;
		memmove(&ret[at + 1], &ret[at], (size_t)(chosen - 1 - at) * sizeof(*ret));
		ret[at] = i;
	}
	return chosen;
}

/* Applies Bayes' rule to all ways to answer n questions with yes or no. weight: returns the weight
 * of one way to answer; bit k of `which` is set if answer k is yes. ret: for each question the
 * chance of yes; 0 if all weights are 0. */
static void find_chances(int n, double (*weight)(const void *ctx, unsigned which), const void *ctx,
			 double *ret)
{
	double all = 0;

	memset(ret, 0, (size_t)n * sizeof(*ret));
	for (unsigned which = 0; which < 1u << n; which++) {
		double one = weight(ctx, which);

		all += one;
		for (int k = 0; k < n; k++)
			ret[k] += which >> k & 1 ? one : 0;
	}
	for (int k = 0; k < n && all > 0; k++)
		ret[k] /= all;
}

/* --- doubts --- */

/* The stacks whose doubt matters most: those whose two answers differ most. */
struct doubts {
	size_t stack[ONE_BY_ONE];
	/* grows: growth of the process's memory in bytes per second: [0] by the evidence that was
	 * believed, [1] by the other evidence. error: the relative standard error of both */
	double grows[ONE_BY_ONE][2], error[ONE_BY_ONE];
	int n;
	double rest, variance; /* growth of all other stacks together, and its variance */
	double clock_error, hidden;
	double anon; /* growth of anonymous memory */
};

static double doubt_of(const struct windowed_result *r)
{
	return isnan(r->other_grows) ? 0
				     : fabs(r->other_grows - r->growth.bytes_per_s) * overhead(r);
}

static void choose_doubts(const struct windowed_result *results, size_t n,
			  const struct windowed_strata *strata, double clock_error, double hidden,
			  double anon, struct doubts *ret)
{
	double rest[WINDOWED_GROUPS + 1] = {};

	*ret = (struct doubts){.clock_error = clock_error, .hidden = hidden, .anon = anon};
	ret->n = choose_largest(results, n, doubt_of, ret->stack);
	for (size_t i = 0; i < n; i++)
		add_growth(rest, &results[i], 1);
	for (int k = 0; k < ret->n; k++) {
		const struct windowed_result *r = &results[ret->stack[k]];

		ret->grows[k][0] = r->grows_without[0] * overhead(r);
		ret->grows[k][1] = r->other_grows * overhead(r);
		ret->error[k] = sqrt(r->alloc_variance) / r->alloc_bytes;
		add_growth(rest, r, -1);
	}
	ret->rest = rest[0];
	ret->variance = windowed_strata__variance(strata, rest);
}

/* Assumes that for the stacks in `which` (one bit each) the other evidence is right, not the
 * believed evidence. Returns how well the growth of all stacks then explains the growth of
 * anonymous memory. */
static double weight_of_doubts(const void *ctx, unsigned which)
{
	const struct doubts *d = ctx;
	double grows = d->rest, variance = d->variance, error;

	for (int k = 0; k < d->n; k++) {
		double one = d->grows[k][which >> k & 1];

		grows += one;
		variance += pow(one * d->error[k], 2);
	}
	/* Growth that is smaller than its error may be as large as the error. */
	grows = fmax(grows, sqrt(variance));
	if (!(grows > 0))
		return OTHER_THINGS / OTHER_RANGE;
	error = sqrt(variance) / grows;
	return growth_density(
		log(d->anon / grows),
		sqrt(error * error + ANON_ERROR * ANON_ERROR + d->clock_error * d->clock_error),
		d->hidden);
}

/* Decides which evidence is believed for each stack in doubt, if the process's growth can tell.
 * Returns the number of stacks that were decided. */
static int settle_doubts(const struct windowed_run *run, const struct windowed_strata *strata,
			 double clock_error, const struct windowed_result *results, size_t n,
			 double anon, struct windowed_stack *const *stacks)
{
	double other[ONE_BY_ONE];
	struct doubts doubts;
	int settled = 0;

	choose_doubts(results, n, strata, clock_error, run->hidden, anon, &doubts);
	if (isnan(doubts.variance))
		return 0;
	find_chances(doubts.n, weight_of_doubts, &doubts, other);
	for (int k = 0; k < doubts.n; k++) {
		size_t i = doubts.stack[k];
		bool to_other = other[k] >= SETTLED;

		if (!to_other && !(1 - other[k] >= SETTLED))
			continue;
		if (to_other && !results[i].doubtful) /* the other figure is only a bound
						       * (SURVIVAL_LEAST), not evidence */
			continue;
		stacks[i]->believed = (results[i].by == SURVIVAL_CONTENTS) != to_other
					      ? SURVIVAL_CONTENTS
					      : SURVIVAL_ENDS;
		settled++;
	}
	return settled;
}

/* Adds the error of the clock to each stack's live_common. */
static int add_common(const struct windowed_run *run, double clock_error,
		      struct windowed_stack *const *stacks, size_t n,
		      struct windowed_result *results)
{
	double step = fmin(clock_error, 0.5), reach = windowed__reach(clock_error), *high, *low;
	double unused;
	int rc;

	if (!(step > 0) || !n)
		return 0;
	high = calloc(2 * n, sizeof(*high));
	if (!high)
		return -ENOMEM;
	low = high + n;
	rc = grows_at(*run, run->scale * exp(step), stacks, n, results, &unused, high);
	if (!rc)
		rc = grows_at(*run, run->scale * exp(-step), stacks, n, results, &unused, low);
	for (size_t i = 0; i < n && !rc; i++)
		results[i].live_common =
			hypot(results[i].live_common, fabs(high[i] - low[i]) / 2 * reach / step);
	free(high);
	return rc;
}

/* --- ends by the wall clock --- */

/* Finds how many blocks the windows of each group have lost. NaN: not known, because memory pools
 * ended in the windows. */
static void lost_blocks(const struct windowed_run *run, double ret[WINDOWED_GROUPS])
{
	memset(ret, 0, WINDOWED_GROUPS * sizeof(*ret));
	for (size_t i = run->n_before; i < run->n_windows; i++)
		if (!run->windows[i].continuous)
			ret[windowed_window__group(&run->windows[i])] -= run->windows[i].net_blocks;
}

static double sum_of(const double value[WINDOWED_GROUPS])
{
	double sum = 0;

	for (int g = 0; g < WINDOWED_GROUPS; g++)
		sum += value[g];
	return sum;
}

/* Blocks that windows would lose if all stacks' blocks ended by the wall clock. `expected` has an
 * entry for each of the stacks that would lose most. Its last entry is for all other stacks
 * together. */
struct enders {
	size_t stack[ONE_BY_ONE];
	double expected[ONE_BY_ONE + 1][WINDOWED_GROUPS];
	int n;
	const double *lost; /* -net_blocks of the windows, by group */
};

static double deficit_of(const struct windowed_result *r)
{
	return sum_of(r->deficit);
}

static void choose_enders(const struct windowed_result *wall, size_t n, const double *lost,
			  struct enders *ret)
{
	*ret = (struct enders){.lost = lost};
	ret->n = choose_largest(wall, n, deficit_of, ret->stack);
	for (int g = 0; g < WINDOWED_GROUPS; g++) {
		for (size_t i = 0; i < n; i++)
			ret->expected[ret->n][g] += wall[i].deficit[g];
		for (int k = 0; k < ret->n; k++) {
			ret->expected[k][g] = wall[ret->stack[k]].deficit[g];
			ret->expected[ret->n][g] -= ret->expected[k][g];
		}
	}
}

/* Tells how well the lost blocks are explained if the blocks of the stacks in `which` (one bit
 * each) end by the wall clock. The result is multiplied by the prior chance of this case. Many
 * blocks may be freed at once, so any number of a group's lost blocks may be left unexplained. The
 * model gives this number Cauchy's distribution. */
static double weight_of_enders(const void *ctx, unsigned which)
{
	const struct enders *e = ctx;
	double weight = 1;

	for (int g = 0; g < WINDOWED_GROUPS; g++) {
		double by_these = 0, all = 0, scale;

		for (int k = 0; k <= e->n; k++) {
			by_these += which >> k & 1 ? e->expected[k][g] : 0;
			all += e->expected[k][g];
		}
		scale = LOST_ERROR * fabs(by_these) + STEADY_ERROR * fabs(all) + 1;
		weight *= scale / (scale * scale + pow(e->lost[g] - by_these, 2));
	}
	for (int k = 0; k <= e->n; k++)
		weight *= which >> k & 1 ? BY_CLOCK : 1 - BY_CLOCK;
	return weight;
}

/* Finds, for each of n stacks, the chance that its blocks end by the wall clock. */
static void chances_by_wall(const struct enders *e, size_t n, double *ret)
{
	double chance[ONE_BY_ONE + 1];

	find_chances(e->n + 1, weight_of_enders, e, chance);
	for (size_t i = 0; i < n; i++)
		ret[i] = chance[e->n];
	for (int k = 0; k < e->n; k++)
		ret[e->stack[k]] = chance[k];
}

static void mix_value(double *to, double other, double share)
{
	if (isnan(*to) || isnan(other)) /* one of the two cases has no such figure */
		*to = isnan(*to) ? other : *to;
	else if (share > 0 && *to != other) /* both ends of an interval may be infinite */
		*to += share * (other - *to);
}

/* Mixes two half-lives. The interval reaches from the lower low end to the higher high end. */
static void mix_half_life(struct half_life *h, const struct half_life *wall, double share)
{
	if (!(h->s > 0) || !(wall->s > 0) || share <= 0)
		return;
	h->s = 1 / ((1 - share) / h->s + share / wall->s);
	h->low_s = fmin(h->low_s, wall->low_s);
	h->high_s = fmax(h->high_s, wall->high_s);
}

/* Mixes into r those figures of `wall` that depend on the clock by which blocks end. share: their
 * weight. */
static void mix(struct windowed_result *r, const struct windowed_result *wall, double share)
{
	double error = sqrt(share * (1 - share));
	double apart = fabs(wall->live_bytes - r->live_bytes) * error;

	r->live_variance =
		(1 - share) * r->live_variance + share * wall->live_variance + apart * apart;
	mix_value(&r->live_bytes, wall->live_bytes, share);
	mix_value(&r->live_objects, wall->live_objects, share);
	mix_value(&r->live_common, wall->live_common, share);
	for (int i = 0; i < WINDOWED_OLDER; i++) {
		mix_value(&r->survival[i], wall->survival[i], share);
		mix_value(&r->older[i], wall->older[i], share);
	}
	for (int i = 0; i < WINDOWED_AGES; i++) {
		mix_value(&r->ended[i], wall->ended[i], share);
		mix_value(&r->living[i], wall->living[i], share);
	}
	mix_half_life(&r->half_life, &wall->half_life, share);
	mix_value(&r->growth.low, fmin(r->growth.low, wall->growth.low),
		  fmin(share + 2 * error, 1));
	mix_value(&r->growth.high, fmax(r->growth.high, wall->growth.high),
		  fmin(share + 2 * error, 1));
	mix_value(&r->growth.bytes_per_s, wall->growth.bytes_per_s, share);
	mix_value(&r->stays, wall->stays, share);
}

static int allow_for_ends_by_wall(struct windowed_run run, struct windowed_stack *const *stacks,
				  size_t n, struct windowed_result *results)
{
	double lost[WINDOWED_GROUPS], *chances = calloc(n + 1, sizeof(*chances));
	struct windowed_result *wall = calloc(n + 1, sizeof(*wall));
	int rc = wall && chances ? 0 : -ENOMEM;
	struct windowed_strata *strata = NULL;
	struct windowed_process process;
	struct enders enders;

	lost_blocks(&run, lost);
	if (!rc && sum_of(lost) > 0 && run.hidden > 1) {
		run.ends_by_wall = true;
		rc = estimate_each(&run, stacks, n, &strata, &process, wall);
		if (!rc)
			rc = add_common(&run, process.clock_error, stacks, n, wall);
		choose_enders(wall, n, lost, &enders);
		chances_by_wall(&enders, n, chances);
		for (size_t i = 0; i < n && !rc; i++)
			mix(&results[i], &wall[i], chances[i]);
	}
	windowed_strata__free(strata);
	free(wall);
	free(chances);
	return rc;
}

/* Returns the growth, in blocks per second, of all stacks whose blocks mostly stay, added up. */
static double staying_blocks(const struct windowed_result *results, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		if (results[i].stays > HALF_STAY && results[i].growth.bytes_per_s > 0 &&
		    results[i].alloc_bytes > 0)
			sum += results[i].growth.bytes_per_s * results[i].alloc_objects /
			       results[i].alloc_bytes;
	return sum;
}

static void allow_for_wall_clock(const struct windowed_run *run,
				 const struct windowed_process *process,
				 struct windowed_result *results, size_t n,
				 const struct growth *anon)
{
	double grows = 0, held = 0, k, rest;

	for (size_t i = 0; i < n; i++)
		*(results[i].held ? &held : &grows) += fmax(results[i].growth.bytes_per_s, 0);
	/* If the process gains too few blocks, its new blocks replace old ones, whatever clock they
	 * follow. */
	if (!(anon->low > 0) || !(grows > anon->bytes_per_s - held) ||
	    staying_blocks(results, n) > process->blocks_high)
		return;
	k = fmax((anon->bytes_per_s - held) / grows, 1 / fmax(run->hidden, 1));
	rest = fmin(1 / k - 1, MOST_ABOVE);
	for (size_t i = 0; i < n; i++) {
		struct windowed_result *r = &results[i];

		if (!(r->growth.bytes_per_s > 0) || r->held)
			continue;
		r->growth.bytes_per_s *= k;
		if (!(r->stays > HALF_STAY))
			continue;
		r->growth.low *= r->growth.low > 0 ? k : 1;
		r->live_bytes *= k;
		r->live_objects *= k;
		/* make the error so large that the interval still holds the old live bytes */
		r->live_variance = fmax(r->live_variance * k * k, pow(r->live_bytes * rest, 2));
		r->live_common *= k;
	}
}

static void demand_growth(const struct windowed_process *process, struct windowed_result *results,
			  size_t n, const struct growth *anon)
{
	bool known = !isnan(anon->low); /* NaN: the run was too short */
	double most = known ? MUCH_MORE * fmax(anon->high, 0) : INFINITY;

	for (size_t i = 0; i < n; i++) {
		struct windowed_result *r = &results[i];
		bool may = anon->low > 0 || (r->by == SURVIVAL_CONTENTS && process->blocks_low > 0);

		if (r->growth.low > 0 && !(may && r->growth.low <= most)) {
			r->growth.low = 0;
			r->replaces = known;
		}
		/* The blocks may be gone: freed outside of windows, or replaced. */
		if (!r->held && (r->growth.bytes_per_s > most || r->replaces))
			r->live_variance = fmax(r->live_variance, r->live_bytes * r->live_bytes);
	}
}

static double share_of(const struct windowed_stack *stack, bool small)
{
	return !stack ? 0 : small ? stack->small : 1;
}

/* Live bytes of all stacks together: in all blocks, or only in small ones. */
static double sum_live(const struct windowed_result *results, struct windowed_stack *const *stacks,
		       size_t n, bool small)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += results[i].live_bytes * share_of(stacks[i], small);
	return sum;
}

static void set_live(struct windowed_result *r, double bytes)
{
	if (r->live_bytes > 0)
		r->live_objects *= bytes / r->live_bytes;
	r->live_bytes = bytes;
}

/* Lowers live bytes until all stacks together have at most bound_bytes in all blocks, or in small
 * ones (LIMITS). The larger the errors of a stack, the more it is lowered. If this is not enough,
 * all stacks are lowered by the same factor. */
static void fit_into(struct windowed_result *results, struct windowed_stack *const *stacks,
		     size_t n, double bound_bytes, bool small)
{
	double sum = sum_live(results, stacks, n, small), excess = sum - bound_bytes, common = 0,
	       variance = 0;

	if (!(bound_bytes > 0) || excess <= 0)
		return;
	for (size_t i = 0; i < n; i++)
		common += results[i].live_common * share_of(stacks[i], small);
	for (size_t i = 0; i < n; i++)
		variance += results[i].live_variance * pow(share_of(stacks[i], small), 2);
	variance += common * common;
	for (size_t i = 0; i < n && variance > 0 && isfinite(variance); i++) {
		struct windowed_result *r = &results[i];
		double covariance =
			r->live_variance * share_of(stacks[i], small) + r->live_common * common;

		set_live(r, fmax(r->live_bytes - excess * covariance / variance, 0));
	}
	sum = sum_live(results, stacks, n, small);
	for (size_t i = 0; i < n && sum > bound_bytes; i++)
		if (share_of(stacks[i], small) > 0)
			set_live(&results[i], results[i].live_bytes * bound_bytes / sum);
}

/* Returns a stack's growth in memory of the process: the allocator's overhead is included. */
static double grows(const struct windowed_result *r)
{
	return isnan(r->growth.low) ? 0 : r->growth.bytes_per_s * overhead(r);
}

/* Half of the width of the interval of grows(). */
static double growth_error(const struct windowed_result *r)
{
	return (r->growth.high - r->growth.low) / 2 * overhead(r);
}

/* Returns by how much a stack's growth may be lowered when all stacks together grow by too much. */
static double growth_to_give(const struct windowed_result *r)
{
	return isnan(r->growth.low) ? 0 : fmax(grows(r) - fmax(r->growth.low, 0) * overhead(r), 0);
}

/* Lowers the growth of stacks until all together grow by no more than the process does (LIMITS). */
static void fit_growth_to_process(struct windowed_result *results, size_t n,
				  const struct growth *anon)
{
	double most = fmax(anon->high, 0) + ANON_ERROR * fmax(anon->bytes_per_s, 0);

	if (isnan(anon->low))
		return;
	/* no stack's lower limit of growth may be above the process's upper limit */
	for (size_t i = 0; i < n && anon->high > 0; i++)
		results[i].growth.low =
			fmin(results[i].growth.low, anon->high / overhead(&results[i]));
	for (int pass = 0; pass < GROWTH_PASSES; pass++) {
		double excess = -most, variance = 0;

		for (size_t i = 0; i < n; i++) {
			excess += grows(&results[i]);
			if (growth_to_give(&results[i]) > 0)
				variance += pow(growth_error(&results[i]), 2);
		}
		if (!(excess > 0) || !(variance > 0) || !isfinite(variance))
			return;
		for (size_t i = 0; i < n; i++) {
			struct windowed_result *r = &results[i];
			double give = excess * pow(growth_error(r), 2) / variance;

			r->growth.bytes_per_s -= fmin(give, growth_to_give(r)) / overhead(r);
		}
	}
}

/* Limits each stack's growth: a stack cannot gain or lose more than the upper limit of its live
 * bytes. If even the lower end of its growth is above this limit, its blocks have replaced older
 * ones. */
static void fit_growth_into(struct windowed_result *results, struct windowed_stack *const *stacks,
			    size_t n, const struct windowed_run *run)
{
	double seconds = WINDOWED_GROWTH_PART * run->wall_s;

	for (size_t i = 0; i < n; i++) {
		struct growth *growth = &results[i].growth;
		double most =
			stacks[i] && seconds > 0 ? windowed__most(run, stacks[i]) / seconds : 0;

		if (isnan(growth->low) || !(most > 0))
			continue;
		if (growth->low > most) {
			growth->low = 0;
			results[i].replaces = true;
		}
		growth->bytes_per_s = fmin(fmax(growth->bytes_per_s, -most), most);
		/* the growth in these seconds is at most the live bytes */
		growth->bytes_per_s = fmin(growth->bytes_per_s, results[i].live_bytes / seconds);
		growth->low = fmin(fmax(growth->low, -most), fmax(growth->bytes_per_s, 0));
		growth->high = fmin(fmax(growth->high, -most), most);
	}
}

int balance__estimate(struct windowed_run *run, struct windowed_stack *const *stacks, size_t n,
		      const struct growth *anon, struct windowed_process *ret_process,
		      struct windowed_result *results)
{
	struct windowed_strata *strata = NULL;
	struct windowed_run before;
	int rc;

	run->scale = run->scale > 0 ? run->scale : 1;
	before = *run;
	rc = estimate_each(run, stacks, n, &strata, ret_process, results);
	if (!rc && anon->low > 0 && windowed_has(run->without, PART_DOUBTS) &&
	    settle_doubts(run, strata, ret_process->clock_error, results, n, anon->bytes_per_s,
			  stacks)) {
		windowed_strata__free(strata);
		strata = NULL;
		rc = estimate_each(run, stacks, n, &strata, ret_process, results);
	}
	if (!rc && ret_process->clock_error > 0) {
		if (anon->bytes_per_s > 0 && ret_process->blocks_low > 0 &&
		    windowed_has(run->without, PART_ANON))
			rc = weigh_clock(run, strata, ret_process->clock_error, stacks, n, results,
					 anon->bytes_per_s);
		if (!rc && (run->scale != before.scale || run->clock_error != before.clock_error)) {
			windowed_strata__free(strata);
			strata = NULL;
			rc = estimate_each(run, stacks, n, &strata, ret_process, results);
		}
		if (!rc)
			rc = add_common(run, ret_process->clock_error, stacks, n, results);
	}
	windowed_strata__free(strata);
	if (!rc && windowed_has(run->without, PART_WALL_ENDS))
		rc = allow_for_ends_by_wall(*run, stacks, n, results);
	if (rc)
		return rc;
	if (windowed_has(run->without, PART_WALL_GROWTH))
		allow_for_wall_clock(run, ret_process, results, n, anon);
	if (windowed_has(run->without, PART_SURE))
		demand_growth(ret_process, results, n, anon);
	if (windowed_has(run->without, PART_LIMITS)) {
		fit_into(results, stacks, n, run->resident_bytes, true);
		fit_into(results, stacks, n, run->bound_bytes, false);
	}
	if (windowed_has(run->without, PART_GROWTH_LIMITS)) {
		fit_growth_into(results, stacks, n, run);
		fit_growth_to_process(results, n, anon);
	}
	return 0;
}
