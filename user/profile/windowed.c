// SPDX-License-Identifier: BSD-2-Clause
#include "profile/windowed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "profile/windowed_strata.h"

#define MOSTLY	  0.5  /* more than this share of the run is most of the run */
#define MOST_LOST 0.99 /* largest share that a stretch may lose: 1 makes the rate infinite */

double windowed_born__trust(const struct windowed_born *born)
{
	double square = born->bytes * born->bytes;

	return square > 0 ? square / (square + WINDOWED_FEW * born->squares) : 0;
}

/* For how many windows does the window of the births stand? */
static double stands_of(const struct windowed_run *run, const struct windowed_born *born)
{
	return windowed_window__stands(&run->windows[born->window]);
}

/* --- figures --- */

/* The figures of a stack from one choice of windows. */
struct figures {
	double alloc, live, quarter; /* bytes: allocated in the run; live at its end; live after a
				      * quarter of its wall time */
	double recent;		     /* bytes allocated after that quarter */
	/* S at 1/3, 2/3 and 3/3 of the oldest age for which it is known */
	double thirds[3];
	struct survival survival;
	double older[WINDOWED_OLDER];
};

struct context {
	const struct windowed_run *run;
	const struct windowed_strata *strata;
	const struct windowed_stack *stack;
	/* By stratum. rates: bytes allocated per second. The others are for continuous strata, as
	 * in struct windowed_born. left: bytes of the stratum that were alive at its end. held:
	 * bytes of this and all earlier continuous strata that were held at its end. lost: bytes
	 * lost since the end of the continuous stratum before this one */
	double *rates, *left, *held, *lost;
	/* hazard: the rate, per second, at which bytes that live at a stretch's end are lost later,
	 * as later stretches show. hazard_high: the upper limit of this rate */
	double hazard, hazard_high;
	/* weight of S, 0..1, in the live bytes that were born outside of stretches (LIVE in
	 * windowed.h) */
	double by_windows;
	double kept; /* of the bytes born in stretches, the share that lives at the end of the
		      * run */
	struct survival_terms terms; /* of `survival` */
	struct survival survival, cohort;
};

/* 0: no window watched blocks of the stack. */
static size_t n_groups(const struct windowed_stack *stack)
{
	for (int g = 0; stack->groups && g < WINDOWED_GROUPS; g++)
		if (stack->groups[g])
			return WINDOWED_GROUPS;
	return 0;
}

static struct context context_of(const struct windowed_run *run,
				 const struct windowed_strata *strata,
				 const struct windowed_stack *stack)
{
	return (struct context){
		.run = run,
		.strata = strata,
		.stack = stack,
		.rates = strata->rates,
		.left = strata->rates + strata->n + 1,
		.held = strata->rates + 2 * (strata->n + 1),
		.lost = strata->rates + 3 * (strata->n + 1),
	};
}

/* Returns the length of all continuous strata together, or of all others, in seconds. With rates,
 * returns the bytes allocated in these strata. */
static double sum_strata(const struct context *c, bool continuous, const double *rates)
{
	double sum = 0;

	for (size_t h = 0; h < c->strata->n; h++)
		if (c->strata->at[h].continuous == continuous)
			sum += (rates ? rates[h] : 1) *
			       (c->strata->at[h].to_s - c->strata->at[h].from_s);
	return sum;
}

/* Returns the share of the run that lies outside of continuous stretches. */
static double unseen_share(const struct context *c)
{
	return c->run->end_s > 0 ? fmin(sum_strata(c, false, NULL) / c->run->end_s, 1) : 1;
}

/* Returns the last continuous stratum that was over at time t; strata->n: there was none. */
static size_t last_stretch(const struct context *c, double t)
{
	size_t last = c->strata->n;

	for (size_t i = 0; i < c->strata->n; i++)
		if (c->strata->at[i].continuous && c->strata->at[i].to_s <= t)
			last = i;
	return last;
}

/* Of the bytes that a continuous stratum held at its end, returns those that were born before the
 * stratum's last stretch. */
static double held_from_before(const struct context *c, size_t i)
{
	size_t window = c->strata->at[i].first;
	const struct windowed_stack *stack = c->stack;
	size_t at = SEARCH_FIRST(k, stack->n_born, stack->born[k].window >= window);
	double earlier = at < stack->n_born && stack->born[at].window == window
				 ? stack->born[at].earlier_bytes
				 : 0;

	return c->held[i] - (c->left[i] - earlier);
}

/* Some blocks end unseen before a continuous stratum ends, and still count as held at its end (LIVE
 * in windowed.h). Returns an upper limit of the bytes of these blocks. After a block has ended
 * unseen, other blocks get its address. The address is then freed as often as the address of a live
 * block. From the first such free on, the block's end is known. */
static double ended_unseen(const struct context *c, size_t last)
{
	double held = 0, allocated = 0, lost = 0;

	for (size_t i = 0; i <= last; i++) {
		const struct stratum *h = &c->strata->at[i];
		double seconds = h->to_s - h->from_s;

		if (h->continuous) {
			held = c->held[i];
			lost *= exp(-c->hazard * seconds);
		} else if (held > 0) {
			allocated += c->rates[i] * seconds;
			lost += held * -expm1(-c->hazard_high * seconds);
		}
	}
	return fmin(fmin(held_from_before(c, last), allocated), lost);
}

/* Of the bytes alive at a stretch's end, returns the share that is left `age` seconds later. The
 * share is more than 0. */
static double left_after(const struct context *c, double age)
{
	const struct survival *s = &c->cohort;
	bool known = s->by == SURVIVAL_ENDS || (s->by == SURVIVAL_CONTENTS && !s->doubtful);

	return fmax(known ? survival__at(s, age) : exp(-c->hazard * age), 1e-9);
}

/* Each continuous stratum has left some bytes behind. left_after() estimates how many of these are
 * still live at the end of the last continuous stratum before time t. The number of bytes really
 * held at that moment is known. Half of ended_unseen() is subtracted from that number. Returns the
 * factor that turns the sum of the estimates into this difference. */
static double held_share(const struct context *c, double t)
{
	size_t last = last_stretch(c, t);
	double sum = 0;

	if (last == c->strata->n)
		return 1;
	for (size_t i = 0; i <= last; i++)
		if (c->strata->at[i].continuous && c->left[i] > 0)
			sum += c->left[i] *
			       left_after(c, c->strata->at[last].to_s - c->strata->at[i].to_s);
	return sum > 0 ? (c->held[last] - ended_unseen(c, last) / 2) / sum : 1;
}

/* Returns the integral of S over the ages that blocks born between from_s and to_s have at time
 * t. */
static double area_of(const struct context *c, double t, double from_s, double to_s)
{
	return survival__area(&c->survival, t - from_s) - survival__area(&c->survival, t - to_s);
}

/* Of a stratum's bytes that live at time t, returns the share that was born before to_s. */
static double older_part(const struct context *c, const struct stratum *h, double t, double to_s)
{
	double all = area_of(c, t, h->from_s, h->to_s);

	if (to_s >= h->to_s)
		return 1;
	return all > 0 ? fmin(area_of(c, t, h->from_s, to_s) / all, 1)
		       : (to_s - h->from_s) / (h->to_s - h->from_s);
}

/* Returns how many bytes born in continuous stratum i were held at its end. If the stratum consists
 * of several merged stretches, left[i] also counts bytes that ended before the stratum's end.
 * Otherwise the result is left[i]. */
static double own_at_end(const struct context *c, size_t i)
{
	size_t last = last_stretch(c, c->strata->at[i].from_s);
	double before = last < c->strata->n ? fmax(c->held[last] - c->lost[i], 0) : 0;

	return fmin(c->left[i], c->held[i] - fmin(before, held_from_before(c, i)));
}

/* Returns how many bytes of a continuous stratum were born before to_s and live at time t. share:
 * held_share() at t. If t lies within the stratum, S tells the number. If S is not known, the
 * number at the stratum's end is taken. In both cases the result is at most the number of bytes
 * born. */
static double live_of_stretch(const struct context *c, size_t i, double t, double to_s,
			      double share)
{
	const struct stratum *h = &c->strata->at[i];
	double part = 1, all;

	if (t >= h->to_s)
		return share * c->left[i] * left_after(c, t - h->to_s) * older_part(c, h, t, to_s);
	all = area_of(c, h->to_s, h->from_s, h->to_s);
	if (c->survival.by != SURVIVAL_UNKNOWN && all > 0)
		part = fmin(area_of(c, t, h->from_s, to_s) / all, 1);
	return fmin(own_at_end(c, i) * part, c->rates[i] * (to_s - h->from_s));
}

/* Finds the live bytes at time t that are older than `age` at that time. Bytes born in continuous
 * strata (stretches) and in all others are counted apart. */
static void live_parts(const struct context *c, double t, double age, double *ret_stretches,
		       double *ret_others)
{
	double share = held_share(c, t), born = 0, live = 0, allocated = 0;

	*ret_stretches = *ret_others = 0;
	for (size_t i = 0; i < c->strata->n; i++) {
		const struct stratum *h = &c->strata->at[i];
		double to = fmin(h->to_s, t - age), until = fmin(h->to_s, t), whole;

		if (!(c->rates[i] > 0) && !(c->left[i] > 0))
			continue;
		if (until < h->from_s || (until == h->from_s && h->to_s > until))
			continue; /* it begins later */
		if (h->continuous) {
			whole = live_of_stretch(c, i, t, until, share);
			born += c->rates[i] * (until - h->from_s);
			live += whole;
			if (to >= until)
				*ret_stretches += whole;
			else if (to > h->from_s)
				*ret_stretches += live_of_stretch(c, i, t, to, share);
		} else if (to > h->from_s) {
			allocated += c->rates[i] * (to - h->from_s);
			*ret_others += c->rates[i] * area_of(c, t, h->from_s, to);
		}
	}
	*ret_others *= c->by_windows;
	*ret_others +=
		(1 - c->by_windows) * allocated * (born > 0 ? fmin(live / born, 1) : c->kept);
}

static double live_at(const struct context *c, double t, double age)
{
	double stretches, others;

	live_parts(c, t, age, &stretches, &others);
	return stretches + others;
}

static double allocated_since(const struct context *c, double from_s)
{
	double sum = 0;

	for (size_t i = 0; i < c->strata->n; i++) {
		const struct stratum *h = &c->strata->at[i];
		double from = fmax(h->from_s, from_s);

		if (h->to_s > from)
			sum += c->rates[i] * (h->to_s - from);
	}
	return sum;
}

/* Returns the bytes that had ended by time t, and were not older than `age` when they ended. */
static double ended_by(const struct context *c, double t, double age)
{
	double young = fmin(age, t), all = allocated_since(c, 0),
	       late = allocated_since(c, t - young);

	return fmax((all - late) * (1 - survival__at(&c->survival, young)) + late -
			    (live_at(c, t, 0) - live_at(c, t, young)),
		    0);
}

/* Is it known how long the blocks live? If survival is unknown, the answer is yes only if each
 * block ended in the window of its birth. */
static bool lives_are_known(const struct context *c)
{
	double left = 0;

	for (size_t i = 0; i < c->stack->n_born; i++)
		left += c->stack->born[i].left_bytes;
	return c->survival.by != SURVIVAL_UNKNOWN ||
	       (n_groups(c->stack) && c->stack->n_born && !(left > 0));
}

/* Sets r->ended and r->living. objects: number of objects per byte. */
static void tell_ages(const struct context *c, double objects, struct windowed_result *r)
{
	double end = c->run->end_s, net = c->run->wall_s > 0 ? end / c->run->wall_s : 1;
	double live = live_at(c, end, 0), ended = 0, younger = 0;

	if (!lives_are_known(c))
		return;
	for (int i = 0; i < WINDOWED_AGES; i++) {
		double age = i + 1 < WINDOWED_AGES ? 1e-5 * pow(10, i) * net : end;
		double ended_here = ended_by(c, end, age),
		       living_here = live - live_at(c, end, age);

		r->ended[i] = fmax(ended_here - ended, 0) * objects;
		r->living[i] = fmax(living_here - younger, 0) * objects;
		ended = fmax(ended, ended_here);
		younger = fmax(younger, living_here);
	}
}

/* Sets r->half_life. Its interval covers the ages at which S may be a half (Brookmeyer and Crowley,
 * Biometrics 38, 1982). Only ages at which anything was seen are used. S never rises. So between
 * two such ages, S lies between its values at these ages. other: as in judge_growth(). */
static void tell_half_life(const struct context *c, const struct figures *all,
			   const struct figures *other, struct windowed_result *r)
{
	const struct survival *s = &all[0].survival;
	double end = c->run->end_s, wall = c->run->wall_s > 0 ? c->run->wall_s / end : 1;
	double clock = 1 + 2 * windowed__reach(c->strata->clock_error),
	       half = survival__half_life(s);
	double lowest[SURVIVAL_CLASSES];
	bool more = true; /* at every age so far, the lower bound of S is surely above a half */

	if (!lives_are_known(c))
		return;
	survival__lowest(c->stack->groups, n_groups(c->stack), &c->terms, lowest);
	r->half_life = (struct half_life){half < end ? half * wall : INFINITY, 0, INFINITY};
	for (int k = 0; k < SURVIVAL_CLASSES && survival__class_end(k) < end; k++) {
		double value[WINDOWED_GROUPS + 1], error;
		double highest = fmax(s->s[k], other ? other->survival.s[k] : 0);

		if (!s->seen[k])
			continue;
		for (int g = 0; g <= WINDOWED_GROUPS; g++)
			value[g] = all[g].survival.s[k];
		error = windowed_strata__half_width(c->strata,
						    windowed_strata__jackknife(c->strata, value));
		more = more && lowest[k] - error > 0.5;
		if (more)
			r->half_life.low_s = survival__class_end(k) * wall / clock;
		if (highest + error < 0.5) {
			r->half_life.high_s = survival__class_end(k) * wall * clock;
			break;
		}
	}
}

/* Fills gaps in what was counted by stratum. If nothing was counted for a stretch (NaN), the
 * stretch is assumed to hold as much as the stretch before it. What was lost in windows is added to
 * the loss of the next stretch. */
static void fill_in(struct context *c)
{
	double held = 0, lost = 0;

	for (size_t i = 0; i < c->strata->n; i++) {
		lost += c->lost[i];
		c->lost[i] = 0;
		if (!c->strata->at[i].continuous)
			continue;
		c->lost[i] = lost;
		lost = 0;
		held = isnan(c->held[i]) ? held : c->held[i];
		c->held[i] = held;
	}
}

/* Sets hazard and hazard_high by the rate of a life table. Let p be the share of the bytes held at
 * a stretch's end that is lost by the next stretch's end. The rate is -log(1 - p) / (the time
 * between the two ends). The mean over all stretches is taken. sample: bytes that one sampled block
 * stands for. hazard_high allows for 3 samples more, because if 3 events are expected, none is seen
 * in 5 of 100 cases. */
static void set_hazard(struct context *c, double sample)
{
	double exposed = 0, since = 0, held = 0, events = 0, lost = 0;

	for (size_t i = 0; i < c->strata->n; i++) {
		const struct stratum *h = &c->strata->at[i];

		if (!h->continuous)
			continue;
		if (held > 0) {
			exposed += held * (h->to_s - since);
			events += held * -log1p(-fmin(c->lost[i] / held, MOST_LOST));
			lost += c->lost[i];
		}
		since = h->to_s;
		held = c->held[i];
	}
	c->hazard = exposed > 0 ? events / exposed : 0;
	c->hazard_high = !(exposed > 0) ? INFINITY
			 : lost > 0	? c->hazard * (lost + 3 * sample) / lost
					: 3 * sample / exposed;
}

/* Of the bytes born in stretches, returns the share that lives at the end of the run. */
static double kept_of_stretches(const struct context *c)
{
	double stretches, others, born = sum_strata(c, true, c->rates);
	live_parts(c, c->run->end_s, 0, &stretches, &others);
	return born > 0 ? fmin(stretches / born, 1) : 1;
}

/* Finds the figures without the windows of group number `without`. only: the evidence that is used;
 * SURVIVAL_UNKNOWN: the better evidence */
static void figure(struct context *c, int without, enum survival_evidence only, struct figures *ret)
{
	const struct windowed_stack *stack = c->stack;
	double end = c->run->end_s, born = 0, alive = 0, samples = 0;
	double in_stretches = 0, stretch_samples = 0;
	struct survival_terms terms = {
		.per_alloc_s = c->strata->per_alloc_s,
		.slowed = c->strata->ends_slowed,
		.alike = stack->alike,
		.missed = stack->missed,
		.length_s = end,
		.without = c->run->without,
		.only = only,
	};

	memset(c->rates, 0, c->strata->n * sizeof(*c->rates));
	memset(c->left, 0, c->strata->n * sizeof(*c->left));
	memset(c->lost, 0, c->strata->n * sizeof(*c->lost));
	for (size_t i = 0; i < c->strata->n; i++)
		c->held[i] = NAN;
	for (size_t i = 0; i < stack->n_born; i++) {
		const struct windowed_born *b = &stack->born[i];
		size_t h = c->strata->stratum_of[b->window];

		c->lost[h] += b->lost_bytes;
		if (!windowed_strata__counts(c->run, c->strata, b->window, without))
			continue;
		c->rates[h] += b->bytes;
		c->left[h] += b->left_bytes;
		if (!c->run->windows[b->window].continuous) {
			born += b->bytes * windowed_born__trust(b);
			alive += b->left_bytes * windowed_born__trust(b);
			samples += (double)b->samples;
		} else {
			in_stretches += b->bytes;
			c->held[h] = b->held_bytes;
			stretch_samples += (double)b->samples;
		}
	}
	fill_in(c);
	set_hazard(c, stretch_samples > 0 ? in_stretches / stretch_samples : 0);
	windowed_strata__to_rates(c->run, c->strata, without, c->rates);
	terms.left = born > 0 ? alive / born : 1;
	terms.sample = samples > 0 ? born / samples : 1;
	c->terms = terms;
	survival__solve(stack->groups, n_groups(stack), without, &terms, &c->survival);
	terms.left = 1;
	survival__solve(&stack->cohort, 1, NOBODY, &terms, &c->cohort);
	c->by_windows = samples > 0 ? samples / (samples + stretch_samples) : 0;
	c->kept = c->by_windows < 1 ? kept_of_stretches(c) : 0;
	ret->alloc = allocated_since(c, 0);
	ret->recent = allocated_since(c, c->run->quarter_s);
	ret->live = live_at(c, end, 0);
	ret->quarter = live_at(c, c->run->quarter_s, 0);
	ret->survival = c->survival;
	for (int i = 0; i < 3; i++)
		ret->thirds[i] =
			survival__at(&c->survival, fmin(c->survival.known_s, end) * (i + 1) / 3);
	for (int i = 0; i < WINDOWED_OLDER; i++)
		ret->older[i] = live_at(c, end, end / (double)(1 << (WINDOWED_OLDER - i)));
}

/* Returns growth in bytes per second of the wall clock, over the last part of the run. */
static double growth_in(const struct windowed_run *run, const struct figures *f)
{
	double wall = WINDOWED_GROWTH_PART * run->wall_s;

	return wall > 0 ? (f->live - f->quarter) / wall : 0;
}

/* Returns the limit of a series by Aitken's extrapolation, from y[0] >= y[1] >= y[2] at equal
 * distances. It is exact for the series a + b q^i. */
static double limit_of(const double y[3])
{
	double first = y[0] - y[1], second = y[1] - y[2], q = first > 0 ? second / first : 1;

	if (!(second > 0))
		return y[2];
	return q < 1 ? fmax(y[2] - second * q / (1 - q), 0) : 0;
}

/* Returns the sampling variance of the bytes allocated in continuous strata, or in all others. */
static double sampling_variance(const struct context *c, bool continuous)
{
	const struct windowed_strata *s = c->strata;
	double sum = 0;

	for (size_t i = 0; i < c->stack->n_born; i++) {
		size_t h = s->stratum_of[c->stack->born[i].window];
		double t = windowed_strata__seconds_of(c->run, s, h, NOBODY),
		       scale = t > 0 ? (s->at[h].to_s - s->at[h].from_s) / t : 1;

		if (s->at[h].continuous == continuous)
			sum += c->stack->born[i].squares * scale * scale;
	}
	return sum;
}

/* Returns the last element of the stack's born[] that is of a continuous stretch. It has the last
 * count of what stretches held. NULL: there is none. */
static const struct windowed_born *last_held(const struct context *c)
{
	for (size_t i = c->stack->n_born; i-- > 0;)
		if (c->run->windows[c->stack->born[i].window].continuous)
			return &c->stack->born[i];
	return NULL;
}

/* Returns the sampling variance of the bytes that were born in stretches and live at the end of the
 * run. live: these bytes. */
static double held_variance(const struct context *c, double live)
{
	const struct windowed_born *held = last_held(c);
	double scale = held && held->held_bytes > 0 ? live / held->held_bytes : 0;

	return held ? held->held_squares * scale * scale : 0;
}

/* The error of one figure. */
struct error {
	double variance; /* from the stack's own samples, and from the spread between windows */
	/* standard error that all stacks share, because at some times none of them was watched */
	double common;
};

/* Finds the error of one figure: the spread between windows, and what sampling adds in continuous
 * stretches. lives: the figure is of live memory. Its error then also includes half of
 * ended_unseen(). The part of the estimate that rests on the share of live bytes in stretches (LIVE
 * in windowed.h) is added to the error, too. With too few windows no spread is known, and the rest
 * of the run may differ from the one window. The time outside of the window may then have twice as
 * many bytes as the window says, or none. For live memory there is one more error: blocks that
 * lived when tracing stopped may have ended since. If the time since then is as long as the traced
 * time, all of these blocks may have ended. If most of the run lies outside of the window, the time
 * outside may have as many bytes as the heap has room for. */
static struct error error_of(const struct context *c, const double *values, double share,
			     bool lives)
{
	bool few = c->strata->n_groups < 2;
	double end = c->run->end_s, unseen = unseen_share(c), error = 0, stretches, others;
	double variance = few ? share * share * sampling_variance(c, false)
			      : windowed_strata__variance(c->strata, values);
	size_t last = last_stretch(c, end);
	double since = last < c->strata->n ? end - c->strata->at[last].to_s : unseen * end;

	if (lives) {
		live_parts(c, end, 0, &stretches, &others);
		variance += held_variance(c, stretches);
		error = (1 - c->by_windows) * others;
		if (last < c->strata->n)
			error += ended_unseen(c, last) / 2;
		error /= NORMAL_QUANTILE;
	} else {
		variance += sampling_variance(c, true);
	}
	if (few) {
		error += lives ? c->by_windows * others +
					 values[0] * fmin(since / ((1 - unseen) * end), 1)
			       : sum_strata(c, false, c->rates);
		error = fmin(error, values[0]);
		if (unseen > MOSTLY)
			error = fmax(error, unseen * windowed__most(c->run, c->stack) / 2);
	}
	return (struct error){.variance = variance, .common = error};
}

/* Returns the bytes allocated in the run, if windows stand for the rest of the run in proportion to
 * wall time. NaN: the windows' lengths by the wall clock are not known. */
static double allocated_by_wall(const struct context *c)
{
	double bytes = 0, wall = 0;

	for (size_t i = c->run->n_before; i < c->run->n_windows; i++)
		if (windowed_strata__counts(c->run, c->strata, i, NOBODY))
			wall += windowed_window__stands(&c->run->windows[i]) *
				c->run->windows[i].wall_s;
	for (size_t i = 0; i < c->stack->n_born; i++)
		if (c->stack->born[i].window >= c->run->n_before &&
		    windowed_strata__counts(c->run, c->strata, c->stack->born[i].window, NOBODY))
			bytes += stands_of(c->run, &c->stack->born[i]) * c->stack->born[i].bytes;
	return wall > 0 ? bytes / wall * c->run->wall_s : NAN;
}

/* Returns the error of allocated bytes that comes from the clock. Where the net clock is uncertain,
 * the wall clock may be as good. So the difference between the figures by the two clocks adds to
 * the error. */
static double clock_error_of_allocated(const struct context *c, double allocated)
{
	double apart = allocated_by_wall(c) - allocated;

	return windowed__reach(c->strata->clock_error) *
	       hypot(allocated, isfinite(apart) ? apart : 0);
}

/* Returns by how much live bytes may be wrong because no window watches blocks of some ages. */
static double error_by_unseen_ages(const struct context *c, const struct figures *f)
{
	return c->run->end_s > 0 ? c->by_windows * f->alloc / c->run->end_s * f->survival.area_error
				 : 0;
}

/* A block whose content changes while it lives seems to have ended. So survival by contents may be
 * lower than survival by frees. If too few frees were seen, either survival may be right. If
 * survival is known from frees, but few frees were seen, blocks may end much sooner. In both cases
 * the intervals are widened to hold a second set of figures. In the first case, these are the
 * figures by frees; in the second, those by the lowest possible survival. other: gets the second
 * set.
 *
 * returns: other, or NULL if there is no doubt */
static const struct figures *allow_for_doubt(const struct context *all, struct figures *other,
					     struct windowed_result *r)
{
	struct context c = *all;
	double apart;

	r->other_grows = NAN;
	r->doubtful = all->survival.doubtful;
	if (all->stack->believed != SURVIVAL_UNKNOWN ||
	    (all->survival.by != SURVIVAL_ENDS && !all->survival.doubtful))
		return NULL;
	figure(&c, NOBODY, all->survival.by == SURVIVAL_ENDS ? SURVIVAL_LEAST : SURVIVAL_ENDS,
	       other);
	r->other_grows = growth_in(c.run, other);
	apart = fabs(r->live_bytes - other->live) + error_by_unseen_ages(&c, other);
	r->live_variance = pow(sqrt(r->live_variance) + apart / NORMAL_QUANTILE, 2);
	return other;
}

/* --- growth --- */

/* Returns how many windows and stretches saw the stack allocate. */
static size_t n_allocating(const struct windowed_stack *stack)
{
	size_t n = 0;

	for (size_t i = 0; i < stack->n_born; i++)
		n += stack->born[i].samples > 0 ? 1 + stack->born[i].more : 0;
	return n;
}

/* Sets r->growth. other: the result of allow_for_doubt(): the figures by the evidence that was not
 * used, or NULL */
static void judge_growth(const struct context *c, const struct windowed_process *process,
			 const struct figures *all, const struct figures *other,
			 struct windowed_result *r)
{
	const struct windowed_strata *s = c->strata;
	double grown[WINDOWED_GROUPS + 1], stay[WINDOWED_GROUPS + 1], fall[WINDOWED_GROUPS + 1];
	double wall = WINDOWED_GROWTH_PART * c->run->wall_s, size, error, one, least;
	bool falls;

	r->growth = (struct growth){.low = NAN, .high = NAN};
	if (!(wall > 0))
		return;
	for (int g = 0; g <= WINDOWED_GROUPS; g++) {
		grown[g] = r->grows_without[g] = growth_in(c->run, &all[g]);
		fall[g] = all[g].thirds[0] - all[g].thirds[2];
	}
	falls = fall[0] > windowed_strata__half_width(s, windowed_strata__jackknife(s, fall));
	for (int g = 0; g <= WINDOWED_GROUPS; g++)
		stay[g] =
			all[g].recent / wall * (falls ? limit_of(all[g].thirds) : all[g].thirds[2]);
	r->stays = falls ? limit_of(all[0].thirds) : all[0].thirds[2];
	r->growth.bytes_per_s = grown[0];
	/* by chance there may always be one sample too many or too few */
	one = r->samples ? r->alloc_bytes / (double)r->samples / wall : 0;
	error = fmax(windowed_strata__half_width(s, windowed_strata__jackknife(s, grown)), one);
	r->growth.high = windowed_strata__at_worst(s, grown[0] + error, true);
	error = fmax(windowed_strata__half_width(s, windowed_strata__jackknife(s, stay)), one);
	least = fmin(stay[0], grown[0]);
	if (other) {
		least = fmin(least, r->other_grows);
		least = fmin(least, other->recent / wall * other->thirds[2]);
		r->growth.high = fmax(r->growth.high, r->other_grows);
	}
	r->growth.low = windowed_strata__at_worst(s, least - error, false);
	if (r->by == SURVIVAL_UNKNOWN || n_allocating(c->stack) < WINDOWED_LEAST_BORN)
		r->growth.low = fmin(r->growth.low, 0);
	/* the process must gain enough blocks for the stack's growth */
	size = r->live_objects > 0 && r->live_bytes > 0
		       ? r->live_bytes / r->live_objects
		       : r->alloc_bytes / fmax(r->alloc_objects, 1);
	if (r->growth.low > 0 && size > 0 && r->growth.low / size > process->blocks_high) {
		r->growth.low = 0;
		r->replaces = true;
	}
}

/* Sets r->deficit, for blocks that end by the wall clock. objects: number of objects per byte. */
static void tell_deficit(const struct context *c, double objects, struct windowed_result *r)
{
	const struct windowed_run *run = c->run;

	for (size_t i = run->n_before, k = 0; i < run->n_windows; i++) {
		double length = windowed_strata__net_of_wall(run, run->windows[i].wall_s),
		       gains = 0;
		double rate = c->rates[c->strata->stratum_of[i]];

		for (; k < c->stack->n_born && c->stack->born[k].window <= i; k++)
			if (c->stack->born[k].window == i)
				gains = c->stack->born[k].left_bytes -
					r->stays * c->stack->born[k].bytes;
		if (!run->windows[i].continuous)
			r->deficit[windowed_window__group(&run->windows[i])] +=
				(rate * (survival__area(&c->survival, length) - r->stays * length) -
				 gains) *
				objects;
	}
}

/* Returns the number of live objects. objects: number of objects per byte that was allocated. */
static double live_objects(const struct context *c, double objects)
{
	const struct windowed_born *held = last_held(c);
	double stretches, others;

	live_parts(c, c->run->end_s, 0, &stretches, &others);
	return stretches * (held && held->held_bytes > 0 ? held->held_objects / held->held_bytes
							 : objects) +
	       others * objects;
}

void windowed__estimate(const struct windowed_run *run, const struct windowed_strata *strata,
			const struct windowed_process *process, const struct windowed_stack *stack,
			struct windowed_result *ret)
{
	struct context c = context_of(run, strata, stack);
	double *live = ret->live_without, alloc[WINDOWED_GROUPS + 1], objects = 0, bytes = 0;
	struct figures all[WINDOWED_GROUPS + 1], by_other;
	const struct figures *other;
	struct error error;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < stack->n_born; i++) {
		objects += stands_of(run, &stack->born[i]) * stack->born[i].objects;
		bytes += stands_of(run, &stack->born[i]) * stack->born[i].bytes;
		ret->samples += stack->born[i].samples;
	}
	/* The figures from all windows (g = 0) are made last, so that in the end c.survival is from
	 * all windows: tell_ages() and other functions report it. */
	for (int g = WINDOWED_GROUPS; g >= 0; g--) {
		if (!g || strata->has_group[g - 1])
			figure(&c, g - 1, stack->believed, &all[g]);
		else
			memset(&all[g], 0, sizeof(all[g]));
		live[g] = all[g].live;
		alloc[g] = all[g].alloc;
	}
	ret->by = c.survival.by;
	ret->header = stack->header;
	ret->live_bytes = all[0].live;
	ret->alloc_bytes = all[0].alloc;
	ret->live_objects = live_objects(&c, bytes > 0 ? objects / bytes : 0);
	ret->alloc_objects = bytes > 0 ? ret->alloc_bytes * objects / bytes : 0;
	error = error_of(&c, alloc, 1, false);
	ret->alloc_variance = error.variance;
	ret->alloc_common = hypot(error.common, clock_error_of_allocated(&c, ret->alloc_bytes));
	error = error_of(&c, live, all[0].alloc > 0 ? all[0].live / all[0].alloc : 0, true);
	ret->live_variance = error.variance + ret->live_bytes * (objects > 0 ? bytes / objects : 0);
	ret->live_variance += pow(error_by_unseen_ages(&c, &all[0]) / NORMAL_QUANTILE, 2);
	ret->live_common = error.common;
	ret->held = c.by_windows < 0.5 && unseen_share(&c) <= MOSTLY;
	other = allow_for_doubt(&c, &by_other, ret);
	for (int i = 0; i < WINDOWED_OLDER; i++) {
		ret->survival[i] =
			survival__at(&c.survival, run->end_s / (double)(1 << (WINDOWED_OLDER - i)));
		ret->older[i] = all[0].live > 0 ? fmin(all[0].older[i] / all[0].live, 1) : NAN;
	}
	tell_ages(&c, bytes > 0 ? objects / bytes : 0, ret);
	tell_half_life(&c, all, other, ret);
	judge_growth(&c, process, all, other, ret);
	if (run->ends_by_wall)
		tell_deficit(&c, bytes > 0 ? objects / bytes : 0, ret);
}

void windowed__point(const struct windowed_run *run, const struct windowed_strata *strata,
		     const struct windowed_stack *stack, double *ret_live, double *ret_grows)
{
	struct context c = context_of(run, strata, stack);
	struct figures all;

	figure(&c, NOBODY, stack->believed, &all);
	*ret_live = all.live;
	*ret_grows = growth_in(run, &all);
}
