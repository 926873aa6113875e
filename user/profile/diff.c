// SPDX-License-Identifier: BSD-2-Clause
/* diff.h says what is computed, and why. */
#include "profile/diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "profile/match.h"

#define OTHER_LENGTH  0.05 /* no warning if run lengths differ by at most this share */
#define SAME_START_NS 1000000
/* Files hold totals as integers. So the gain of a total between two snapshots may be too low by up
 * to this many bytes. */
#define ROUNDING_BYTES 64

/* The change of live bytes should equal the change that follows from the totals. If the two differ
 * by more than this share of live bytes, the totals do not explain the change. (Both changes round
 * a block in the same way.) */
#define OTHER_TOTALS 0.01

/* What is known of one stack in one profile. */
struct held {
	struct estimate live;
	double alloc_objects, alloc_bytes, freed_objects, freed_bytes;
	struct growth_sum growth;
};

/* The distances from a change of growth to the ends of its interval. Errors from chance are
 * combined as the root of the sum of squares. Errors from facts (growth_sum__add()) are plainly
 * added. */
struct reach {
	double chance_down, chance_up, facts_down, facts_up;
};

/* The two sides of a difference, and the number of samples behind it. */
struct sides {
	struct estimate from, to;
	double traffic;	    /* samples */
	struct reach reach; /* if growth is compared */
};

const char *diff_warning__text(enum diff_warning warning)
{
	static const char *const texts[] = {
#define X(id, text) [DIFF_WARN_##id] = text,
		DIFF_WARNINGS(X)
#undef X
	};

	return texts[warning];
}

double profile__end_s(const struct profile *profile)
{
	if (!profile->start_unix_ns)
		return NAN;
	return (double)profile->start_unix_ns * 1e-9 + profile->duration_s;
}

bool profile__same_run(const struct profile *a, const struct profile *b)
{
	uint64_t x = a->start_unix_ns, y = b->start_unix_ns;

	return x && y && (x > y ? x - y : y - x) <= SAME_START_NS && a->pid == b->pid &&
	       profile__asked_interval(a) == profile__asked_interval(b) && a->what == b->what &&
	       profile__same_program(a, b);
}

bool profile__same_program(const struct profile *a, const struct profile *b)
{
	if (a->exe && *a->exe && b->exe && *b->exe)
		return !strcmp(base_name(a->exe), base_name(b->exe));
	return !*a->comm || !*b->comm || !strcmp(a->comm, b->comm);
}

/* --- two sides --- */

/* Returns how many bytes a sample of this side stands for, as a mean weighted by bytes. 0: the side
 * has no samples. */
static double mean_weight(const struct estimate *side)
{
	return side->bytes > 0 ? estimate__squares(side) / side->bytes : 0;
}

/* Returns how many bytes a sample at `interval` stands for, if blocks are like the blocks of the
 * other side. The other side was sampled at the interval `others`. If the other side has no
 * samples, returns `interval`. */
static double weight_like(const struct estimate *other, uint64_t others, uint64_t interval)
{
	return other->bytes > 0 ? estimate__weight_at(mean_weight(other), others, interval)
				: (double)interval;
}

/* Makes an estimate from totals, as if all their blocks had the same size. */
static struct estimate of_totals(double objects, double bytes, uint64_t interval)
{
	struct estimate e = {};
	double p, weight;

	if (!(bytes > 0) || !(objects > 0))
		return e;
	p = interval <= 1 ? 1 : -expm1(-fmax(bytes / objects, 1) / (double)interval);
	weight = bytes / objects / p;
	e.objects = objects;
	e.bytes = bytes;
	e.sampled_bytes = (uint64_t)(bytes * p);
	e.squares = bytes * weight;
	e.variance = e.squares * (1 - p);
	e.variance_max = fmin(weight * weight * (1 - p), e.variance);
	return e;
}

/* The number of samples of equal weight that are worth as much as this estimate. */
static double count_of(const struct estimate *e)
{
	double q = estimate__squares(e);

	return q > 0 ? e->bytes * e->bytes / q : 0;
}

/* Returns (the estimate's sum of squares) / (this sum if all its blocks had their mean size), at
 * least 1. */
static double mix_of(const struct estimate *live, uint64_t interval)
{
	struct estimate same = of_totals(live->objects, live->bytes, interval);

	return same.squares > 0 ? fmax(1, estimate__squares(live) / same.squares) : 1;
}

static void mix(struct estimate *e, double by)
{
	e->squares *= by;
	e->variance *= by;
	e->variance_max = fmin(e->variance_max * by, e->variance);
}

/* Returns the coarser of the sampling intervals of a run's first and last snapshot. The interval
 * may have become coarser between the two. */
static uint64_t coarser_interval(const struct diff *d)
{
	uint64_t from = d->profiles[0]->interval_bytes,
		 to = d->profiles[d->n_profiles - 1]->interval_bytes;

	return from > to ? from : to;
}

/* For two snapshots of one run: bounds the blocks that are live in only one of them. Takes the pair
 * of bounds with the smaller variance (diff.h). */
static void narrow(const struct held *from, const struct held *to, uint64_t interval,
		   struct sides *sides)
{
	double born = to->alloc_bytes - from->alloc_bytes;
	double died = to->freed_bytes - from->freed_bytes;
	double rounding = fmin((double)interval / 2, ROUNDING_BYTES), by;
	double gained = to->live.bytes - from->live.bytes;
	struct estimate a, b;

	/* totals below the live bytes mean that the profile has no totals */
	if (to->alloc_bytes + rounding < to->live.bytes ||
	    from->alloc_bytes + rounding < from->live.bytes || born < -rounding || died < -rounding)
		return;
	/* The bytes born minus the bytes that died are the change, unless memory disappeared
	 * without being freed, as at an exec. In that case the totals give no bounds for the blocks
	 * that are live in only one snapshot. */
	if (fabs(born - died - gained) >
	    OTHER_TOTALS * fmax(from->live.bytes, to->live.bytes) + rounding)
		return;
	a = of_totals(to->freed_objects - from->freed_objects, died > rounding ? died : 0,
		      interval);
	b = of_totals(to->alloc_objects - from->alloc_objects, born > rounding ? born : 0,
		      interval);
	if ((died > rounding && !(a.bytes > 0)) || (born > rounding && !(b.bytes > 0)))
		return;
	by = fmax(mix_of(&from->live, interval), mix_of(&to->live, interval));
	mix(&a, by);
	mix(&b, by);
	sides->traffic = count_of(&a) + count_of(&b);
	if (estimate__squares(&a) + estimate__squares(&b) <
	    estimate__squares(&sides->from) + estimate__squares(&sides->to)) {
		sides->from = a;
		sides->to = b;
	}
}

/* The ends of a side's interval. */
static struct interval ends_of(const struct estimate *side, uint64_t interval,
			       const struct estimate *other, uint64_t others)
{
	if (side->bytes > 0)
		return estimate__interval(side);
	/* the high end of estimate.h at Y = V = 0 */
	return (struct interval){
		0, interval <= 1 ? 0 : -log(0.025) * weight_like(other, others, interval)};
}

/* Tests the difference by its interval alone, with Student's distribution. */
static void judge_by_interval(struct change *change, struct claim *growing, struct claim *shrinking)
{
	double quantile = student_quantile(GROWTH_DF, false), down = change->bytes - change->low,
	       up = change->high - change->bytes;

	change->p_grows = change->p_shrinks = 0.5;
	if (!isfinite(up) || !isfinite(down))
		return;
	if (change->bytes != 0) {
		change->p_grows = chance__of_student(change->bytes / (down / quantile), GROWTH_DF);
		change->p_shrinks = chance__of_student(-change->bytes / (up / quantile), GROWTH_DF);
	}
	*growing = (struct claim){.p = change->p_grows, .traffic = 1};
	*shrinking = (struct claim){.p = change->p_shrinks, .traffic = 1};
}

/* Mean size of the blocks of both sides together. */
static double block_size(const struct estimate *from, const struct estimate *to)
{
	double objects = from->objects + to->objects;

	return objects > 0 ? (from->bytes + to->bytes) / objects : 0;
}

/* Fills in all members of `change` except `from`, `to` and `bytes`. *growing and *shrinking become
 * the claims for claims__decide(). */
static void judge(const struct diff *d, struct change *change, const struct sides *sides,
		  struct claim *growing, struct claim *shrinking)
{
	const struct estimate *from = &sides->from, *to = &sides->to;
	uint64_t from_interval = d->profiles[0]->interval_bytes;
	uint64_t to_interval = d->profiles[d->n_profiles - 1]->interval_bytes;
	struct interval f = ends_of(from, from_interval, to, to_interval);
	struct interval t = ends_of(to, to_interval, from, from_interval);
	double from_weight, to_weight, share, a, b;

	change->p_grows = change->p_shrinks = 0.5;
	change->low = change->high = NAN;
	if (d->warnings & DIFF_UNSURE)
		return;
	change->low = change->bytes - hypot(to->bytes - t.low, f.high - from->bytes);
	change->high = change->bytes + hypot(t.high - to->bytes, from->bytes - f.low);
	if (!(from->bytes + to->bytes > 0)) {
		/* nothing was live, or (between snapshots of one run) no block came or went */
		if (from_interval <= 1 && to_interval <= 1)
			change->low = change->high = change->bytes;
		return;
	}
	if (d->windowed) {
		if (fabs(change->bytes) >= block_size(from, to)) /* less than a block is no
								  * change */
			judge_by_interval(change, growing, shrinking);
		return;
	}
	if (from_interval == to_interval) {
		from_weight = to_weight = (estimate__squares(from) + estimate__squares(to)) /
					  (from->bytes + to->bytes);
	} else {
		/* if nothing differs, both sides have the large blocks that one side shows */
		from_weight = fmax(mean_weight(from),
				   to->bytes > 0 ? weight_like(to, to_interval, from_interval) : 0);
		to_weight =
			fmax(mean_weight(to),
			     from->bytes > 0 ? weight_like(from, from_interval, to_interval) : 0);
	}
	a = from->bytes / from_weight;
	b = to->bytes / to_weight;
	share = from_weight / (from_weight + to_weight);
	change->p_grows = chance__of_counts(a, b, share);
	change->p_shrinks = chance__of_counts(b, a, 1 - share);
	*growing = (struct claim){.p = change->p_grows,
				  .least = pow(share, a + b) / 2,
				  .traffic = fmax(sides->traffic, a + b)};
	*shrinking = *growing;
	shrinking->p = change->p_shrinks;
	shrinking->least = pow(1 - share, a + b) / 2;
}

static struct reach reach_of(const struct held *from, const struct held *to)
{
	const struct growth *before = &from->growth.total, *after = &to->growth.total;

	return (struct reach){
		.chance_down = hypot(to->growth.chance, before->high - before->bytes_per_s),
		.chance_up = hypot(after->high - after->bytes_per_s, from->growth.chance),
		.facts_down = to->growth.facts,
		.facts_up = from->growth.facts,
	};
}

static void reach__merge(struct reach *reach, const struct reach *other)
{
	reach->chance_down = hypot(reach->chance_down, other->chance_down);
	reach->chance_up = hypot(reach->chance_up, other->chance_up);
	reach->facts_down += other->facts_down;
	reach->facts_up += other->facts_up;
}

/* Like judge(), for growth rates. */
static void judge_growth(struct change *change, const struct reach *reach, struct claim *growing,
			 struct claim *shrinking)
{
	change->low = change->bytes - reach->chance_down - reach->facts_down;
	change->high = change->bytes + reach->chance_up + reach->facts_up;
	judge_by_interval(change, growing, shrinking);
}

/* --- which profiles are comparable --- */

static int choose_measure(struct diff *d, struct error *err)
{
	size_t windowed = 0, growing = 0, without = 0;

	for (size_t i = 0; i < d->n_profiles; i++) {
		windowed += profile__is_windowed(d->profiles[i]);
		if (d->profiles[i]->growth.stacks_known)
			growing++;
		else
			without = i + 1;
	}
	if (d->measure == DIFF_GROWTH && growing < d->n_profiles)
		return error__set(
			err, -EINVAL,
			"profile %zu has no growth rates (its run was too short for them, or "
			"its file keeps none): compare live bytes",
			without);
	d->windowed = windowed;
	/* live bytes of different runs depend more on the lengths of the runs than on growth */
	if (d->measure == DIFF_AUTO)
		d->measure = windowed && !d->one_run && growing == d->n_profiles ? DIFF_GROWTH
										 : DIFF_LIVE;
	if (d->measure == DIFF_GROWTH)
		d->warnings &= ~(1u << DIFF_WARN_OTHER_LENGTH);
	return 0;
}

/* Are the profiles in the order of their times? The caller makes sure that all profiles have a
 * time. */
static bool are_in_order(const struct diff *d)
{
	for (size_t i = 1; i < d->n_profiles; i++)
		if (!(d->one_run ? d->profiles[i]->duration_s >= d->profiles[i - 1]->duration_s
				 : profile__end_s(d->profiles[i]) >=
					   profile__end_s(d->profiles[i - 1])))
			return false;
	return true;
}

static bool has_totals(const struct diff *d)
{
	return !d->profiles[0]->no_allocated && !d->profiles[d->n_profiles - 1]->no_allocated;
}

/* Names the kind of a profile's stacks. */
static const char *kind_of(const struct profile *profile)
{
	return profile->drawn ? profile_drawn__name(profile->drawn) : "stacks of a run";
}

int diff__check_kinds(const struct profile *first, const struct profile *p, size_t number,
		      struct error *err)
{
	bool same = first->what == p->what;
	const char *why = profile__unknown_why(p);

	if (!same || first->drawn != p->drawn)
		return error__set(
			err, -EINVAL,
			"profile 1 is of %s, profile %zu of %s: they do not count the same thing",
			same ? kind_of(first) : profile_what__name(first->what), number,
			same ? kind_of(p) : profile_what__name(p->what));
	if (p->part)
		return error__set(err, -EINVAL, "profile %zu " DIFF_OF_PART, number);
	if (why)
		return error__set(
			err, -EINVAL,
			"profile %zu knows nothing of its process's memory, which was not "
			"traced: %s",
			number, why);
	return 0;
}

static int check(struct diff *d, struct error *err)
{
	const struct profile *first, *last;
	bool untimed = false;

	if (d->n_profiles < 2)
		return error__set(err, -EINVAL, "a difference needs two profiles");
	first = d->profiles[0];
	last = d->profiles[d->n_profiles - 1];
	d->one_run = true;
	d->exact = true;
	for (size_t i = 0; i < d->n_profiles; i++) {
		const struct profile *p = d->profiles[i];

		int rc = diff__check_kinds(first, p, i + 1, err);

		if (rc)
			return rc;
		if (!profile__same_program(first, p))
			d->warnings |= 1u << DIFF_WARN_OTHER_PROGRAM;
		if (profile__misses_calls(p))
			d->warnings |= 1u << DIFF_WARN_INCOMPLETE;
		if (profile__is_filtered(p))
			d->warnings |= 1u << DIFF_WARN_FILTERED;
		if (!p->interval_bytes)
			d->warnings |= 1u << DIFF_WARN_UNSAMPLED;
		if (p->duration_s > 0 && first->duration_s > 0 &&
		    fabs(p->duration_s - first->duration_s) > OTHER_LENGTH * first->duration_s)
			d->warnings |= 1u << DIFF_WARN_OTHER_LENGTH;
		d->one_run &= profile__same_run(first, p);
		d->exact &= profile__is_surely_exact(p);
		untimed |= !isfinite(profile__end_s(p));
	}
	if (d->one_run)
		d->warnings &= ~(1u << DIFF_WARN_OTHER_LENGTH);
	else if (!untimed)
		d->warnings |= 1u << DIFF_WARN_OTHER_RUNS;
	d->seconds = last->duration_s - first->duration_s;
	if (untimed)
		d->warnings |= 1u << DIFF_WARN_UNTIMED;
	else if (first->pid == last->pid && !are_in_order(d))
		d->warnings |= 1u << DIFF_WARN_BACKWARDS;
	/* memory does not grow from one run to another: each run has only what was allocated in
	 * it */
	if (untimed || !d->one_run || !(d->seconds > 0))
		d->seconds = NAN;
	return choose_measure(d, err);
}

/* Refuses profiles of different programs without a common stack: each line of their difference
 * would be true, but of no use. */
static int check_common(struct diff *d, const struct match *match, struct error *err)
{
	bool any[2] = {};

	for (size_t i = 0; i < match->n_stacks; i++) {
		uint32_t profile = match->sites[match->first[i]].profile;

		if (match->sites[match->first[i + 1] - 1].profile != profile)
			return 0;
		any[profile != 0] = true;
	}
	if (!any[0] || !any[1])
		return 0;
	if (d->warnings & 1u << DIFF_WARN_OTHER_PROGRAM)
		return error__set(err, -EINVAL,
				  "the profiles are of different programs and have no stack in "
				  "common: there is "
				  "nothing to compare");
	d->warnings |= 1u << DIFF_WARN_NOTHING_COMMON;
	return 0;
}

/* --- the stacks --- */

static void add_site(struct held *held, const struct profile *profile,
		     const struct profile_site *site)
{
	estimate__merge(&held->live, &site->live);
	held->alloc_objects += site->alloc_objects;
	held->alloc_bytes += site->alloc_bytes;
	held->freed_objects += site->freed_objects;
	held->freed_bytes += site->freed_bytes;
	if (profile->growth.stacks_known)
		growth_sum__add(&held->growth, &site->growth);
}

/* If a profile does not have the stack, its growth there is 0, with the error of the other
 * profile's growth. */
static void fill_in_growth(struct held *held, const struct held *other)
{
	const struct growth *seen = &other->growth.total;

	if (held->growth.n)
		return;
	held->growth.total =
		(struct growth){0, seen->low - seen->bytes_per_s, seen->high - seen->bytes_per_s};
	held->growth.chance = seen->bytes_per_s - seen->low;
}

static void add_trend(const struct diff *d, struct diff_stack *stack, double quantum)
{
	_cleanup_free_ struct growth_segment *segments = calloc(d->n_profiles, sizeof(*segments));
	bool timed = isfinite(d->seconds), ordered = true;
	double seconds;

	stack->trend = (struct growth){NAN, NAN, NAN};
	for (size_t i = 1; i < d->n_profiles; i++) {
		double step = stack->values[i] - stack->values[i - 1];

		stack->rises += step > 0;
		stack->falls += step < 0;
		if (!segments)
			continue;
		seconds = timed ? d->profiles[i]->duration_s - d->profiles[i - 1]->duration_s : 1;
		segments[i - 1] = (struct growth_segment){seconds, step};
		ordered &= seconds > 0;
	}
	if (segments && ordered && d->measure == DIFF_LIVE && d->n_profiles > 2 &&
	    !(d->warnings & DIFF_UNSURE))
		stack->trend = growth__estimate(segments, d->n_profiles - 1, quantum, false);
}

/* Adds one stack: all of its sites in all profiles. */
static void add_stack(struct diff *d, const struct match *match, size_t index,
		      struct sides *ret_sides, struct claim *growing, struct claim *shrinking)
{
	struct diff_stack *stack = &d->stacks[d->n_stacks];
	bool any = false;
	const struct match_site *best = &match->sites[match->best[index]];
	struct held from = {}, to = {};
	double quantum = 0;

	stack->profile = d->profiles[best->profile];
	stack->site = &stack->profile->sites[best->site];
	stack->last = NULL; /* an earlier stack that was not kept may have set it */
	stack->values = d->values + d->n_stacks * d->n_profiles;
	for (size_t i = match->first[index]; i < match->first[index + 1]; i++) {
		uint32_t p = match->sites[i].profile;
		const struct profile *profile = d->profiles[p];
		const struct profile_site *site = &profile->sites[match->sites[i].site];

		stack->values[p] +=
			d->measure == DIFF_GROWTH ? site->growth.bytes_per_s : site->live.bytes;
		any |= stack->values[p] != 0;
		quantum = fmax(quantum, sqrt(site->live.variance_max));
		if (p == 0)
			add_site(&from, profile, site);
		if (p == d->n_profiles - 1) {
			add_site(&to, profile, site);
			if (!stack->last || site->live.bytes > stack->last->live.bytes)
				stack->last = site;
		}
	}
	if (!any)
		return;
	stack->now = to.growth.n ? to.growth.total : (struct growth){NAN, NAN, NAN};
	d->n_stacks++;
	stack->change.from = stack->values[0];
	stack->change.to = stack->values[d->n_profiles - 1];
	stack->change.bytes = stack->change.to - stack->change.from;
	if (d->measure == DIFF_GROWTH) {
		/* these values stay if only profiles between the first and the last have the
		 * stack */
		stack->change.low = stack->change.high = 0;
		stack->change.p_grows = stack->change.p_shrinks = 0.5;
		if (from.growth.n || to.growth.n) {
			fill_in_growth(&from, &to);
			fill_in_growth(&to, &from);
			ret_sides->reach = reach_of(&from, &to);
			judge_growth(&stack->change, &ret_sides->reach, growing, shrinking);
		}
	} else {
		*ret_sides = (struct sides){.from = from.live, .to = to.live};
		/* windows do not count totals, and a selection by thread or age has none */
		if (d->one_run && !d->windowed && has_totals(d))
			narrow(&from, &to, coarser_interval(d), ret_sides);
		judge(d, &stack->change, ret_sides, growing, shrinking);
	}
	add_trend(d, stack, quantum);
}

/* Fills in the sum of all stacks, which is tested by itself. */
static void add_total(struct diff *d, const struct sides *sum)
{
	struct diff_stack *total = &d->total;
	struct claim growing = {}, shrinking = {};
	double quantum = 0;

	total->now = (struct growth){NAN, NAN, NAN};
	total->values = d->values + d->n_stacks * d->n_profiles;
	for (size_t i = 0; i < d->n_stacks; i++)
		for (size_t p = 0; p < d->n_profiles; p++)
			total->values[p] += d->stacks[i].values[p];
	total->change.from = total->values[0];
	total->change.to = total->values[d->n_profiles - 1];
	total->change.bytes = total->change.to - total->change.from;
	if (d->measure == DIFF_LIVE) {
		judge(d, &total->change, sum, &growing, &shrinking);
		quantum = sqrt(fmax(sum->from.variance_max, sum->to.variance_max));
	} else {
		judge_growth(&total->change, &sum->reach, &growing, &shrinking);
	}
	total->grows = growing.traffic > 0 && growing.p <= CHANCE_LEVEL;
	total->shrinks = shrinking.traffic > 0 && shrinking.p <= CHANCE_LEVEL;
	add_trend(d, total, quantum);
}

static int rank(const struct diff_stack *stack)
{
	return stack->grows ? 0 : stack->shrinks ? 1 : 2;
}

/* Ties keep the order in which the stacks were added. This is the order of match__stacks(). */
static int by_evidence(const void *a, const void *b)
{
	const struct diff_stack *x = a, *y = b;
	double change_x = fabs(x->change.bytes), change_y = fabs(y->change.bytes);

	if (rank(x) != rank(y))
		return rank(x) - rank(y);
	if (change_x != change_y)
		return change_x > change_y ? -1 : 1;
	return (x->values > y->values) - (x->values < y->values);
}

static int decide(struct diff *d, struct claim *growing, struct claim *shrinking)
{
	int err = claims__decide(growing, d->n_stacks, CHANCE_LEVEL, &d->weights);

	if (!err)
		err = claims__decide(shrinking, d->n_stacks, CHANCE_LEVEL, NULL);
	for (size_t i = 0; !err && i < d->n_stacks; i++) {
		struct diff_stack *stack = &d->stacks[i];
		bool trend = isfinite(stack->trend.low);

		stack->grows = growing[i].holds && (!trend || stack->trend.low > 0);
		stack->shrinks = shrinking[i].holds && (!trend || stack->trend.high < 0);
		d->n_grow += stack->grows;
		d->n_shrink += stack->shrinks;
	}
	return err;
}

static int compare(struct diff *d, const struct match *match)
{
	_cleanup_free_ struct claim *growing = calloc(match->n_stacks + 1, sizeof(*growing));
	_cleanup_free_ struct claim *shrinking = calloc(match->n_stacks + 1, sizeof(*shrinking));
	struct sides sum = {};
	int err;

	d->stacks = calloc(match->n_stacks + 1, sizeof(*d->stacks));
	d->values = calloc((match->n_stacks + 1) * d->n_profiles, sizeof(*d->values));
	if (!growing || !shrinking || !d->stacks || !d->values)
		return -ENOMEM;
	for (size_t i = 0; i < match->n_stacks; i++) {
		struct sides sides = {};

		add_stack(d, match, i, &sides, &growing[d->n_stacks], &shrinking[d->n_stacks]);
		sides.from.squares = estimate__squares(&sides.from);
		sides.to.squares = estimate__squares(&sides.to);
		estimate__merge(&sum.from, &sides.from);
		estimate__merge(&sum.to, &sides.to);
		reach__merge(&sum.reach, &sides.reach);
	}
	err = decide(d, growing, shrinking);
	if (err)
		return err;
	add_total(d, &sum);
	qsort(d->stacks, d->n_stacks, sizeof(*d->stacks), by_evidence);
	return 0;
}

double diff__least_growth(const struct diff *d)
{
	double weight = 1;
	unsigned n = 1;

	for (size_t i = 0; i < d->n_profiles; i++) {
		if (!d->profiles[i]->interval_bytes)
			return NAN;
		weight = fmax(weight, (double)d->profiles[i]->interval_bytes);
	}
	if (!isfinite(d->seconds) || d->measure != DIFF_LIVE || d->windowed ||
	    d->warnings & (DIFF_UNSURE | 1u << DIFF_WARN_INCOMPLETE) || weight <= 1)
		return NAN;
	/* find the least n for which a claim of n samples holds among the other claims, if all n
	 * samples are new */
	while (exp2(-(double)n - 1) > CHANCE_LEVEL / n / (d->weights + 1.0 / n))
		n++;
	return chi2_quantile(0.95, 2.0 * n) / 2 * weight / d->seconds;
}

void diff__free(struct diff *diff)
{
	if (!diff)
		return;
	free(diff->stacks);
	free(diff->values);
	free(diff);
}

DEFINE_CLEANUP(struct diff *, cleanup_diff, diff__free)

int diff__new(const struct profile *const *profiles, size_t n, enum diff_measure measure,
	      struct diff **ret_diff, struct error *err)
{
	_cleanup_(cleanup_diff) struct diff *d = calloc(1, sizeof(*d));
	_cleanup_(match__clear) struct match match = {};
	int rc;

	if (!d)
		return -ENOMEM;
	d->profiles = profiles;
	d->n_profiles = n;
	d->measure = measure;
	rc = check(d, err);
	if (!rc)
		rc = match__stacks(profiles, n, &match_limits, &match, err);
	if (!rc)
		rc = check_common(d, &match, err);
	if (!rc)
		rc = compare(d, &match);
	if (rc)
		return rc;
	*ret_diff = d;
	d = NULL;
	return 0;
}
