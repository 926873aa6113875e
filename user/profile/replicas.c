// SPDX-License-Identifier: BSD-2-Clause
/* replicas.h says what is computed, and why. */
#include "profile/replicas.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/match.h"

#define MAD_TO_DEVIATION 1.4826
#define OTHER_LENGTH	 0.05 /* runs that differ by at most this share count as equally long */

/* One stack in one replica. */
struct part {
	struct estimate live;
	/* value: growth, or live bytes. down, up: squared distances from value to its interval's
	 * ends */
	double value, down, up;
	bool any;
	double weight;	   /* bytes that a sample stands for in this replica */
	size_t i_interval; /* index of its sampling interval in replicas.intervals */
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Values in ascending order, from which one can be left out. */
struct sorted {
	double *values;
	size_t n;
};

static void sort_values(struct sorted *sorted, const double *values)
{
	memcpy(sorted->values, values, sorted->n * sizeof(*values));
	qsort(sorted->values, sorted->n, sizeof(*values), by_value);
}

/* The i-th value when the value at index `but` is left out. */
static double other(const struct sorted *sorted, size_t but, size_t i)
{
	return sorted->values[i + (i >= but)];
}

/* Returns the median of all values except one that equals but_value. *ret_mad: the median distance
 * of these values from their median. */
static double others(const struct sorted *sorted, double but_value, double *ret_mad)
{
	size_t n = sorted->n - 1, below, above, but = 0, left = n;
	double median, distance[2] = {};

	while (sorted->values[but] < but_value)
		but++;
	median = (other(sorted, but, (n - 1) / 2) + other(sorted, but, n / 2)) / 2;
	/* take the values by their distance from the median, the farthest first, until the middle
	 * distances are reached. The next value is always at one of the two ends */
	for (below = 0, above = n - 1; left > (n - 1) / 2; left--) {
		double down = median - other(sorted, but, below),
		       up = other(sorted, but, above) - median;

		distance[1] = distance[0];
		distance[0] = fmax(down, up);
		if (down > up)
			below++;
		else
			above--;
	}
	*ret_mad = n % 2 ? distance[0] : (distance[0] + distance[1]) / 2;
	return median;
}

/* Returns how many bytes a value of 1 stands for. (Divided by the weight of a sample, these bytes
 * give a number of samples.) */
static double exposure(const struct replicas *r, size_t replica)
{
	return r->per_second ? r->profiles[replica]->duration_s : 1;
}

static size_t index_of(const struct replicas *r, uint64_t interval)
{
	size_t i = 0;

	while (i < r->n_intervals && r->intervals[i] != interval)
		i++;
	return i;
}

/* Sets `weight` of all parts: the bytes that a sample of the stack stands for at the replica's
 * sampling interval. It is the mean over the samples of all replicas, converted to that
 * interval. */
static void add_weights(const struct replicas *r, struct part *parts)
{
	double bytes[REPLICAS_MAX_INTERVALS] = {}, squares[REPLICAS_MAX_INTERVALS] = {};
	double weight[REPLICAS_MAX_INTERVALS], all = 0;

	for (size_t i = 0; i < r->n; i++) {
		parts[i].i_interval = index_of(r, r->profiles[i]->interval_bytes);
		bytes[parts[i].i_interval] += parts[i].live.bytes;
		squares[parts[i].i_interval] += estimate__squares(&parts[i].live);
		all += parts[i].live.bytes;
	}
	for (size_t at = 0; at < r->n_intervals; at++) {
		double sum = 0;

		for (size_t i = 0; i < r->n_intervals; i++)
			if (bytes[i] > 0)
				sum += bytes[i] * estimate__weight_at(squares[i] / bytes[i],
								      r->intervals[i],
								      r->intervals[at]);
		weight[at] = all > 0 ? sum / all : 1;
	}
	for (size_t i = 0; i < r->n; i++)
		parts[i].weight = weight[parts[i].i_interval];
}

/* Tests live bytes against both reasons for ordinary differences: sampling and different work
 * (replicas.h). */
static void judge_live(const struct replicas *r, const struct part *parts, double spread,
		       struct replica_excess *excess, struct claim *claim)
{
	double from = 0, from_room = 0, to, to_room, rate, bytes = 0, time = 0, share, z;
	double variance;

	excess->p = 0.5;
	if (r->warnings & DIFF_UNSURE)
		return;
	for (size_t i = 0; i < r->n; i++) {
		bytes += parts[i].live.bytes;
		time += exposure(r, i);
		if (i == excess->replica)
			continue;
		from += parts[i].live.bytes / parts[i].weight;
		from_room += exposure(r, i) / parts[i].weight;
	}
	to = parts[excess->replica].live.bytes / parts[excess->replica].weight;
	to_room = exposure(r, excess->replica) / parts[excess->replica].weight;
	share = to_room / (from_room + to_room);
	/* the variance that both sides together have if nothing differs: then each replica has the
	 * rate of all replicas together */
	rate = bytes / time;
	variance = rate / to_room + rate / from_room;
	z = (excess->value - excess->median) / sqrt(variance + spread * spread);
	excess->p = fmax(chance__of_counts(from, to, share), chance__of_normal(z));
	*claim = (struct claim){
		.p = excess->p, .least = pow(share, from + to) / 2, .traffic = from + to};
}

/* Tests a value that has an interval of its own. */
static void judge_intervals(const struct replicas *r, const struct part *parts, double spread,
			    struct replica_excess *excess, struct claim *claim)
{
	double quantile = student_quantile(GROWTH_DF, false), above = 0, below, error;

	for (size_t i = 0; i < r->n; i++)
		if (i != excess->replica)
			above += parts[i].any ? parts[i].up : parts[excess->replica].up;
	above /= (double)(r->n - 1) * (double)(r->n - 1);
	below = parts[excess->replica].down;
	error = sqrt((above + below) / (quantile * quantile) + spread * spread);
	excess->p = 0.5;
	if (r->warnings & DIFF_UNSURE || !isfinite(error))
		return;
	if (excess->value > excess->median)
		excess->p = chance__of_student((excess->value - excess->median) / error, GROWTH_DF);
	*claim = (struct claim){.p = excess->p, .traffic = 1};
}

static void add_interval(struct part *part, double value, double low, double high)
{
	part->value += value;
	part->down += pow(value - low, 2);
	part->up += pow(high - value, 2);
}

/* Adds up the sites of a stack by replica. */
static void get_parts(const struct replicas *r, const struct match *match, size_t stack,
		      struct part *parts)
{
	memset(parts, 0, r->n * sizeof(*parts));
	for (size_t i = match->first[stack]; i < match->first[stack + 1]; i++) {
		uint32_t p = match->sites[i].profile;
		const struct profile_site *site = &r->profiles[p]->sites[match->sites[i].site];
		const struct growth *growth = &site->growth;

		estimate__merge(&parts[p].live, &site->live);
		parts[p].any = true;
		if (r->measure == DIFF_GROWTH)
			add_interval(&parts[p], growth->bytes_per_s, growth->low, growth->high);
	}
	for (size_t i = 0; i < r->n && r->measure == DIFF_LIVE; i++) {
		double per = exposure(r, i);
		struct interval live;

		parts[i].value = parts[i].live.bytes / per;
		if (!r->by_intervals)
			continue; /* computing intervals would take most of the comparison's time */
		live = estimate__interval(&parts[i].live);
		parts[i].down = pow(parts[i].value - live.low / per, 2);
		parts[i].up = pow(live.high / per - parts[i].value, 2);
	}
	add_weights(r, parts);
}

static void add_stack(struct replicas *r, const struct match *match, size_t stack,
		      struct part *parts)
{
	const struct match_site *best = &match->sites[match->best[stack]];
	double *values = r->values + stack * r->n;

	get_parts(r, match, stack, parts);
	for (size_t i = 0; i < r->n; i++)
		values[i] = parts[i].value;
	r->stacks[stack] = (struct replica_stack){
		r->profiles[best->profile], &r->profiles[best->profile]->sites[best->site], values};
}

static int by_excess(const void *a, const void *b)
{
	const struct replica_excess *x = a, *y = b;
	double above_x = x->value - x->median, above_y = y->value - y->median;

	if (x->abnormal != y->abnormal)
		return x->abnormal ? -1 : 1;
	if (above_x != above_y)
		return above_x > above_y ? -1 : 1;
	if (x->replica != y->replica)
		return x->replica < y->replica ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

static int by_rank(const void *a, const void *b)
{
	const struct replica *x = a, *y = b;
	double above_x = x->total - x->median, above_y = y->total - y->median;

	if (x->excess != y->excess)
		return x->excess > y->excess ? -1 : 1;
	if (above_x != above_y)
		return above_x > above_y ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

static int rank(struct replicas *r)
{
	_cleanup_free_ double *totals = calloc(r->n, sizeof(*totals));
	_cleanup_free_ double *scratch = calloc(r->n, sizeof(*scratch));
	struct sorted sorted = {scratch, r->n};
	double mad;

	r->ranks = calloc(r->n, sizeof(*r->ranks));
	if (!totals || !scratch || !r->ranks)
		return -ENOMEM;
	for (size_t s = 0; s < r->n_stacks; s++)
		for (size_t i = 0; i < r->n; i++)
			totals[i] += r->stacks[s].values[i];
	sort_values(&sorted, totals);
	for (size_t i = 0; i < r->n; i++) {
		r->ranks[i].index = (uint32_t)i;
		r->ranks[i].total = totals[i];
		r->ranks[i].median = others(&sorted, totals[i], &mad);
	}
	for (size_t i = 0; i < r->n_abnormal; i++) {
		struct replica *replica = &r->ranks[r->list[i].replica];

		replica->excess += r->list[i].value - r->list[i].median;
		replica->n_abnormal++;
	}
	qsort(r->ranks, r->n, sizeof(*r->ranks), by_rank);
	return 0;
}

struct ratio {
	double ratio, weight;
};

static int by_ratio(const void *a, const void *b)
{
	const struct ratio *x = a, *y = b;

	return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

/* Returns how far the other replicas' values typically lie from their median, as a share of this
 * median. The result is the median of the shares of all stacks, each stack weighted by its median
 * value. */
static double typical_spread(const struct replicas *r, const double *mads, size_t replica,
			     struct ratio *ratios)
{
	double all = 0, sum = 0;
	size_t n = 0;

	for (size_t i = replica; i < r->n_stacks * r->n; i += r->n) {
		double median = r->list[i].median;

		if (!(median > 0))
			continue;
		ratios[n++] = (struct ratio){mads[i] / median, median};
		all += median;
	}
	qsort(ratios, n, sizeof(*ratios), by_ratio);
	for (size_t i = 0; i < n; i++) {
		sum += ratios[i].weight;
		if (sum >= all / 2)
			return ratios[i].ratio;
	}
	return 0;
}

static int compare(struct replicas *r, const struct match *match)
{
	size_t n_claims = match->n_stacks * r->n;
	_cleanup_free_ struct claim *claims = calloc(n_claims + 1, sizeof(*claims));
	_cleanup_free_ struct part *parts = calloc(r->n, sizeof(*parts));
	_cleanup_free_ double *scratch = calloc(r->n, sizeof(*scratch));
	_cleanup_free_ double *mads = calloc(n_claims + 1, sizeof(*mads));
	_cleanup_free_ double *typical = calloc(r->n, sizeof(*typical));
	_cleanup_free_ struct ratio *ratios = calloc(match->n_stacks + 1, sizeof(*ratios));
	double few = student_quantile(r->n - 2, false) / 1.96;
	struct sorted sorted = {scratch, r->n};
	int err;

	r->n_stacks = match->n_stacks;
	r->stacks = calloc(r->n_stacks + 1, sizeof(*r->stacks));
	r->values = calloc(n_claims + 1, sizeof(*r->values));
	r->list = calloc(n_claims + 1, sizeof(*r->list));
	if (!claims || !parts || !scratch || !mads || !typical || !ratios || !r->stacks ||
	    !r->values || !r->list)
		return -ENOMEM;
	for (size_t s = 0; s < r->n_stacks; s++) {
		const double *values = r->values + s * r->n;

		add_stack(r, match, s, parts);
		sort_values(&sorted, values);
		for (size_t i = 0; i < r->n; i++)
			r->list[s * r->n + i] = (struct replica_excess){
				.replica = (uint32_t)i,
				.stack = (uint32_t)s,
				.value = values[i],
				.median = others(&sorted, values[i], &mads[s * r->n + i])};
	}
	for (size_t i = 0; i < r->n; i++)
		typical[i] = typical_spread(r, mads, i, ratios);
	for (size_t s = 0; s < r->n_stacks; s++) {
		get_parts(r, match, s, parts);
		for (size_t i = 0; i < r->n; i++) {
			struct replica_excess *excess = &r->list[s * r->n + i];
			double spread = MAD_TO_DEVIATION * few *
					fmax(mads[s * r->n + i], typical[i] * excess->median);

			if (r->by_intervals)
				judge_intervals(r, parts, spread, excess, &claims[s * r->n + i]);
			else
				judge_live(r, parts, spread, excess, &claims[s * r->n + i]);
		}
	}
	err = claims__decide(claims, n_claims, CHANCE_LEVEL, NULL);
	if (err)
		return err;
	/* Values that are not above the median had to be tested, too, because chance decides which
	 * values are above. */
	for (size_t i = 0; i < n_claims; i++) {
		if (!(r->list[i].value > r->list[i].median))
			continue;
		r->list[r->n_list] = r->list[i];
		r->list[r->n_list++].abnormal = claims[i].holds;
		r->n_abnormal += claims[i].holds;
	}
	qsort(r->list, r->n_list, sizeof(*r->list), by_excess);
	return rank(r);
}

static int check(struct replicas *r, struct error *err)
{
	const struct profile *first;
	size_t windowed = 0, growing = 0;
	bool timed = true;

	if (r->n < 3)
		return error__set(
			err, -EINVAL,
			"two replicas cannot tell which of them is the odd one: give three or more "
			"(or compare the two without --per-process)");
	first = r->profiles[0];
	for (size_t i = 0; i < r->n; i++) {
		const struct profile *p = r->profiles[i];

		int rc = diff__check_kinds(first, p, i + 1, err);

		if (rc)
			return rc;
		for (size_t k = 0; k < i; k++)
			if (profile__same_run(r->profiles[k], p))
				return error__set(
					err, -EINVAL,
					"profiles %zu and %zu are snapshots of one run: give one "
					"of each replica",
					k + 1, i + 1);
		if (index_of(r, p->interval_bytes) == REPLICAS_MAX_INTERVALS)
			return error__set(err, -EINVAL,
					  "they are sampled at more than %d different intervals",
					  REPLICAS_MAX_INTERVALS);
		if (index_of(r, p->interval_bytes) == r->n_intervals)
			r->intervals[r->n_intervals++] = p->interval_bytes;
		windowed += profile__is_windowed(p);
		growing += p->growth.stacks_known;
		if (profile__is_lower_bound(p))
			r->warnings |= 1u << DIFF_WARN_INCOMPLETE;
		if (!profile__same_program(first, p))
			r->warnings |= 1u << DIFF_WARN_OTHER_PROGRAM;
		if (profile__is_filtered(p))
			r->warnings |= 1u << DIFF_WARN_FILTERED;
		if (!p->interval_bytes)
			r->warnings |= 1u << DIFF_WARN_UNSAMPLED;
		timed &= p->duration_s > 0;
		if (fabs(p->duration_s - first->duration_s) > OTHER_LENGTH * first->duration_s)
			r->per_second = true;
	}
	if (r->per_second && !timed) { /* the length of some runs is not known */
		r->warnings |= 1u << DIFF_WARN_OTHER_LENGTH;
		r->per_second = false;
	}
	if (r->measure == DIFF_GROWTH && growing < r->n)
		return error__set(err, -EINVAL,
				  "not all of the profiles have growth rates: compare live bytes");
	if (r->measure == DIFF_AUTO)
		r->measure = growing == r->n ? DIFF_GROWTH : DIFF_LIVE;
	if (r->measure == DIFF_LIVE && r->per_second)
		r->warnings |= 1u << DIFF_WARN_DIVIDED;
	if (r->measure == DIFF_GROWTH) {
		r->per_second = false;
		r->warnings &= ~(1u << DIFF_WARN_OTHER_LENGTH);
	}
	r->by_intervals = r->measure == DIFF_GROWTH || windowed;
	return 0;
}

/* Refuses a profile that shares no stack with the others, if the programs differ. Such a profile is
 * no replica of the others: each of its stacks would be abnormal. */
static int check_common(const struct replicas *r, const struct match *match, struct error *err)
{
	_cleanup_free_ bool *common = calloc(r->n, sizeof(*common));

	if (!common)
		return -ENOMEM;
	for (size_t i = 0; i < match->n_stacks; i++) {
		const struct match_site *first = &match->sites[match->first[i]];
		const struct match_site *last = &match->sites[match->first[i + 1] - 1];

		for (const struct match_site *site = first; site <= last; site++) /* by profile */
			common[site->profile] |= first->profile != last->profile;
	}
	for (size_t i = 0; i < r->n && r->warnings & 1u << DIFF_WARN_OTHER_PROGRAM; i++)
		if (!common[i] && r->profiles[i]->n_sites)
			return error__set(
				err, -EINVAL,
				"profile %zu has no stack in common with the others, and they are"
				" of different "
				"programs: it is not a replica of them",
				i + 1);
	return 0;
}

void replicas__free(struct replicas *replicas)
{
	if (!replicas)
		return;
	free(replicas->ranks);
	free(replicas->stacks);
	free(replicas->list);
	free(replicas->values);
	free(replicas);
}

DEFINE_CLEANUP(struct replicas *, cleanup_replicas, replicas__free)

int replicas__new(const struct profile *const *profiles, size_t n, enum diff_measure measure,
		  struct replicas **ret_replicas, struct error *err)
{
	_cleanup_(cleanup_replicas) struct replicas *r = calloc(1, sizeof(*r));
	_cleanup_(match__clear) struct match match = {};
	int rc;

	if (!r)
		return -ENOMEM;
	r->profiles = profiles;
	r->n = n;
	r->measure = measure;
	rc = check(r, err);
	if (!rc)
		rc = match__stacks(profiles, n, &match_limits, &match, err);
	if (!rc)
		rc = check_common(r, &match, err);
	if (!rc)
		rc = compare(r, &match);
	if (rc)
		return rc;
	*ret_replicas = r;
	r = NULL;
	return 0;
}
