// SPDX-License-Identifier: BSD-2-Clause
#include "profile/survival.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "profile/estimate.h"

#define FIRST_AGE_S 1e-5
#define PER_DECADE  6

#define MOST_ALIKE  0.5	 /* contents are not used if the chance of equal contents is this or more */
#define CONTRADICTS 0.15 /* share of blocks that contents may wrongly show as ended */
#define KNOWN_LEAST 0.1	 /* is_mutated() judges only ages at which frees prove S > this */
#define NEAR_AGE    2.5	 /* an age is near to another if it is less than this many times as old */

/* --- ages --- */

int survival__age_class(double age_s)
{
	double k;

	if (!(age_s > FIRST_AGE_S))
		return 0;
	k = ceil(PER_DECADE * log10(age_s / FIRST_AGE_S) - 1e-9);
	return k < SURVIVAL_CLASSES - 1 ? (int)k : SURVIVAL_CLASSES - 1;
}

double survival__class_end(int class)
{
	static double ends[SURVIVAL_CLASSES];

	if (!(ends[0] > 0))
		for (int k = SURVIVAL_CLASSES - 1; k >= 0; k--)
			ends[k] = FIRST_AGE_S * pow(10, (double)k / PER_DECADE);
	return ends[class];
}

static double class_begin(int class)
{
	return class ? survival__class_end(class - 1) : 0;
}

/* --- curves --- */

/* Returns a curve's value at an age. The curve has the value ends[k] at the end of class k, and
 * `zero` at age 0. It is linear between these ages. */
static double at_age(const double ends[SURVIVAL_CLASSES], double zero, double age)
{
	int k = survival__age_class(age);
	double begin = class_begin(k), end = survival__class_end(k),
	       before = k ? ends[k - 1] : zero;

	if (age >= end)
		return ends[k];
	return before + (ends[k] - before) * (age - begin) / (end - begin);
}

double survival__at(const struct survival *s, double age_s)
{
	return at_age(s->s, 1, age_s);
}

static void integrate(struct survival *s)
{
	double area = 0, before = 1;

	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		area += (before + s->s[k]) / 2 * (survival__class_end(k) - class_begin(k));
		s->area[k] = area;
		before = s->s[k];
	}
}

/* At some ages no block is watched: when a window ends, its blocks have not reached such an age
 * yet, and when the next window begins, they are past it. At these ages, S is only known to lie
 * between its values at the nearest watched ages. Returns the largest error, in seconds, that the
 * integral of S can have for this reason. */
static double error_of_area(const struct survival *s)
{
	double error = 0;

	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		int next = k;
		double from, to, before, between, long_lived;

		while (next < SURVIVAL_CLASSES && !s->seen[next])
			next++;
		if (next == k || next == SURVIVAL_CLASSES)
			continue; /* this age was watched, or no older age was */
		from = class_begin(k);
		to = survival__class_end(next - 1);
		before = k ? s->s[k - 1] : 1;
		between = s->area[next - 1] - (k ? s->area[k - 1] : 0);
		long_lived = before * (to - from);
		error += fmax(between - s->s[next] * (to - from), long_lived - between);
		k = next;
	}
	return error;
}

double survival__area(const struct survival *s, double age)
{
	int k = survival__age_class(age);
	double begin = class_begin(k), mid = fmin(age, survival__class_end(k));

	if (age <= 0)
		return 0;
	return (k ? s->area[k - 1] : 0) +
	       ((k ? s->s[k - 1] : 1) + survival__at(s, age)) / 2 * (mid - begin) +
	       (age > mid ? s->s[k] * (age - mid) : 0);
}

double survival__half_life(const struct survival *s)
{
	double before = 1;

	for (int k = 0; k < SURVIVAL_CLASSES; before = s->s[k++])
		if (s->s[k] <= 0.5)
			return class_begin(k) + (before - 0.5) / (before - s->s[k]) *
							(survival__class_end(k) - class_begin(k));
	return INFINITY;
}

/* Sums of the fields of struct survival_ages. */
enum sum {
	WATCHED,
	ENDED,
	PAIRS,
	EXPOSED,
	FREES,
	LOOKED,
	SAME,
	LOOKED_AT,
	SUMS,
};

/* Spreads what was seen in the youngest class over the classes 0 to `last`. Each class gets a part
 * in proportion to the width of its ages. */
static void add_young(const struct survival_ages *a, int last, double per_alloc_s,
		      double (*sum)[SURVIVAL_CLASSES])
{
	for (int k = 0; k <= last; k++) {
		double share =
			(survival__class_end(k) - class_begin(k)) / survival__class_end(last);

		sum[WATCHED][k] += share * a->watched[0] * per_alloc_s;
		sum[ENDED][k] += share * a->ended[0];
	}
}

/* Adds up all groups except number `without`. Times are counted in calls that allocate. Here they
 * become seconds of the clock by which blocks end. In the window of its birth, a block is `slowed`
 * times as old by the wall clock as by the process's own clock. */
static void add_ages(struct survival_ages *const *groups, size_t n, int without, double per_alloc_s,
		     double slowed, double (*sum)[SURVIVAL_CLASSES])
{
	int older = (int)fmin(fmax(lround(PER_DECADE * log10(slowed)), 0), SURVIVAL_CLASSES - 1);

	per_alloc_s *= slowed;
	memset(sum, 0, SUMS * sizeof(*sum));
	for (size_t g = 0; g < n; g++) {
		const struct survival_ages *a = groups[g];

		if (!a || (int)g == without)
			continue;
		for (int k = 0; k < SURVIVAL_CLASSES; k++) {
			int age = k + older < SURVIVAL_CLASSES ? k + older : SURVIVAL_CLASSES - 1;

			if (!k) { /* by the wall clock, class 0 reaches up to class `older` */
				add_young(a, older, per_alloc_s, sum);
			} else {
				sum[WATCHED][age] += a->watched[k] * per_alloc_s;
				sum[ENDED][age] += a->ended[k];
			}
			sum[PAIRS][k] += a->pairs[k];
			sum[EXPOSED][k] += a->exposed[k] * per_alloc_s;
			sum[FREES][k] += a->frees[k];
			sum[LOOKED][k] += a->looked[k];
			sum[SAME][k] += a->same[k];
			sum[LOOKED_AT][k] += a->looked_at[k];
		}
	}
}

/* Returns the rate m of frees at an address, per second. pairs: pairs of an address and a window.
 * frees: pairs with at least one free. If frees come at random, the chance that a window of t
 * seconds has no free is exp(-m t). If all pairs had a free, m would be infinite. So the share of
 * pairs with a free is limited to 0.99. */
static double free_rate(double pairs, double exposed, double frees)
{
	double share = fmin(frees / pairs, 0.99);

	return -log1p(-share) / (exposed / pairs);
}

/* Survival by frees, at the upper bounds of the classes. */
struct ends {
	double s[SURVIVAL_CLASSES];	/* S by the renewal equation */
	double least[SURVIVAL_CLASSES]; /* S cannot be less */
	bool known;			/* frees tell of ages beyond the windows of birth */
	double known_s;			/* the oldest of these ages */
};

/* How often something ends, by class of age, per second. */
struct hazards {
	double rate[SURVIVAL_CLASSES];
	/* The rates of the first n_young classes are known from windows of birth: they are the
	 * rates at which blocks end. The rates of later classes are the rates of frees at an
	 * address. */
	int n_young;
	bool known;	/* frees tell of ages beyond the windows of birth */
	double known_s; /* the oldest of these ages */
};

/* Finds the rates of struct hazards: one for each class of age. last: the class of the run's
 * length.
 *
 * Few frees say little about one age. But neighbouring classes of age have similar rates. So each
 * rate is estimated with a Gamma prior, whose mean is the rate of the class before (Nieto-Barajas
 * and Walker, Scandinavian Journal of Statistics 29, 2002). The prior weighs as much as an
 * observation of a certain length: so long that one event is expected, at the mean rate of all
 * ages. Two other priors were worse. The first had the mean rate of all ages as its mean. But most
 * addresses that are watched at old ages are never used again. So with the first prior, buffers
 * that live for some milliseconds seemed to live for seconds. The second was Jeffreys' prior, which
 * adds half an event to the first rate. With the second prior, blocks that leaked (half a per cent
 * of their stack's blocks) seemed to be freed.
 *
 * An age between the window of birth and the next window may never have been watched. The rate at
 * this age is the mean of the rates at the nearest watched ages, the younger and the older one. If
 * the younger age was watched in the window of birth, its rate is taken as the mean over the oldest
 * ages that this window watched. These ages begin at a tenth of the oldest age. */
static void find_hazards(double (*sum)[SURVIVAL_CLASSES], const struct survival_terms *t, int last,
			 struct hazards *ret)
{
	double ended = 0, watched = 0, before, frees = 0, exposed = 0, mean, prior, worth;
	bool seen[SURVIVAL_CLASSES] = {};

	*ret = (struct hazards){};
	/* the window of birth is the better evidence, up to the age at which it watched too
	 * little */
	while (ret->n_young <= last && sum[WATCHED][ret->n_young] > 0 &&
	       sum[WATCHED][ret->n_young] >= 0.2 * sum[EXPOSED][ret->n_young]) {
		int k = ret->n_young++;

		ret->rate[k] = sum[ENDED][k] / sum[WATCHED][k];
		seen[k] = true;
	}
	for (int k = ret->n_young > PER_DECADE ? ret->n_young - PER_DECADE : 0; k < ret->n_young;
	     k++) {
		ended += sum[ENDED][k];
		watched += sum[WATCHED][k];
	}
	before = watched > 0 ? ended / watched : 0;
	for (int k = ret->n_young; k <= last; k++) {
		frees += sum[FREES][k];
		exposed += sum[EXPOSED][k];
	}
	mean = exposed > 0 ? frees / exposed : 0;
	worth = mean > 0 ? t->sample / mean : 0;
	prior = watched > 0 ? before : mean;
	for (int k = ret->n_young; k <= last; k++) {
		double weight = sum[EXPOSED][k];

		if (!(sum[PAIRS][k] > 0) || !(weight > 0))
			continue;
		ret->rate[k] = free_rate(sum[PAIRS][k], weight, sum[FREES][k]);
		if (mean > 0 && windowed_has(t->without, PART_PRIOR))
			ret->rate[k] = (ret->rate[k] * weight + prior * worth) / (weight + worth);
		prior = ret->rate[k];
		ret->known = seen[k] = true;
		ret->known_s = survival__class_end(k);
	}
	for (int k = ret->n_young; k <= last; k++) {
		int next = k;

		if (seen[k]) {
			before = ret->rate[k];
			continue;
		}
		while (next <= last && !seen[next])
			next++;
		for (int j = k; j < next; j++)
			ret->rate[j] = next > last ? before
				       : k > 0	   ? (before + ret->rate[next]) / 2
						   : ret->rate[next];
		k = next - 1;
	}
}

/* --- ends --- */

/* The renewal equation is solved in PARTS steps per class. A class spans ages from a to 1.5 a. With
 * steps as wide as classes, lives would seem a tenth too short. */
#define PARTS 4
#define STEPS (PARTS * SURVIVAL_CLASSES)

static double step_end(int step)
{
	int class = step / PARTS;
	double begin = class_begin(class);

	return begin + (survival__class_end(class) - begin) * (step % PARTS + 1) / PARTS;
}

static double step_width(int step)
{
	return (survival__class_end(step / PARTS) - class_begin(step / PARTS)) / PARTS;
}

/* The step in which an age lies, and where in the step. */
struct place {
	int step;
	double part; /* 0 at the step's beginning, 1 at its end */
};

/* Returns the place of an age for each step j <= i: the age that blocks born in the middle of step
 * j have at the end of step i. */
static const struct place *places_of(int i)
{
	static struct place places[STEPS][STEPS];
	static bool made;

	for (int k = 0; !made && k < STEPS; k++) {
		for (int j = 0; j <= k; j++) {
			double age = step_end(k) - step_end(j) + step_width(j) / 2;
			int class = survival__age_class(age), step;
			double begin = class_begin(class), at;

			at = PARTS * (age - begin) / (survival__class_end(class) - begin);
			step = (int)at < PARTS ? (int)at : PARTS - 1;
			places[k][j] = (struct place){PARTS * class + step, at - step};
		}
	}
	made = true;
	return places[i];
}

/* M at a place. m[] has M at the beginnings of steps; between them M is linear. */
static double at_place(const double m[STEPS + 1], const struct place *place)
{
	return m[place->step] + (m[place->step + 1] - m[place->step]) * place->part;
}

/* Solves the renewal equation (survival.h). Later windows tell only of blocks that were alive at
 * the end of the window of their birth. So beyond young ages, the equation is solved for the
 * remaining lives of these blocks. In the equation, their successors have whole lives. last: the
 * class of the run's length. */
static void solve_ends(double (*sum)[SURVIVAL_CLASSES], const struct survival_terms *t, int last,
		       struct ends *ret)
{
	/* ended: by step, the share of all blocks that ends in the step. rest_ended: the same for
	 * the blocks that outlive the window of their birth */
	double ended[STEPS], rest_ended[STEPS] = {};
	double m[STEPS + 1] = {}; /* M at the beginnings of steps */
	double f = 0, rest = 0, frees = 0, left = t->left;
	struct hazards hazards;

	find_hazards(sum, t, last, &hazards);
	ret->known = hazards.known;
	ret->known_s = hazards.known_s;
	for (int i = 0; i < PARTS * (last + 1); i++) {
		int class = i / PARTS;
		double width = step_width(i), successors = 0, of_rest = 0, self, before = f;
		const struct place *places = places_of(i);

		m[i + 1] = m[i]; /* until M is known there */
		for (int j = 0; j < i; j++) {
			double since = at_place(m, &places[j]);

			successors += ended[j] * since;
			of_rest += rest_ended[j] * since;
		}
		self = at_place(m, &places[i]);
		if (class < hazards.n_young) {
			f += (1 - f) * -expm1(-hazards.rate[class] * width);
			ret->least[class] = 1 - f;
		} else {
			if (i == PARTS * hazards.n_young)
				left = fmin(left, 1 - f);
			frees += hazards.rate[class] * width;
			rest_ended[i] =
				fmin(fmax((frees - rest - of_rest) / (1 + self), 0), 1 - rest);
			/* without PART_RENEWAL, each free at the address counts as the end of the
			 * watched block */
			if (!windowed_has(t->without, PART_RENEWAL))
				rest_ended[i] = (1 - rest) * -expm1(-hazards.rate[class] * width);
			rest += rest_ended[i];
			f = fmax(f, 1 - left * (1 - rest));
			ret->least[class] = left * (1 - frees);
		}
		ended[i] = f - before;
		m[i + 1] = fmax(m[i], f + successors + ended[i] * self);
		ret->s[class] = 1 - f;
	}
	for (int k = last; k + 1 < SURVIVAL_CLASSES; k++) { /* ages older than the run are not
							     * used */
		ret->s[k + 1] = ret->s[k];
		ret->least[k + 1] = ret->least[k];
	}
}

/* Replaces the values by the nearest sequence that never rises: neighbours that rise get their
 * common mean (Ayer and others, Annals of Mathematical Statistics 26, 1955). */
static void pool_rising(double *value, const double *weight, int n)
{
	double mean[SURVIVAL_CLASSES], sum[SURVIVAL_CLASSES];
	int length[SURVIVAL_CLASSES], top = 0, at = 0;

	for (int i = 0; i < n; i++) {
		mean[top] = value[i];
		sum[top] = weight[i];
		length[top++] = 1;
		while (top > 1 && mean[top - 1] > mean[top - 2]) {
			double both = sum[top - 2] + sum[top - 1];

			mean[top - 2] =
				(mean[top - 2] * sum[top - 2] + mean[top - 1] * sum[top - 1]) /
				both;
			sum[top - 2] = both;
			length[top - 2] += length[top - 1];
			top--;
		}
	}
	for (int b = 0; b < top; b++)
		for (int i = 0; i < length[b]; i++)
			value[at++] = mean[b];
}

/* Returns S at the end of the class that holds the last known age: extends the line that leads to
 * this age. */
static double end_of_last(int class, double age, double value, const double s[SURVIVAL_CLASSES])
{
	double begin = class_begin(class), before = class ? s[class - 1] : 1;

	if (begin >= age)
		return before;
	return fmin(fmax(before + (value - before) * (survival__class_end(class) - begin) /
					  (age - begin),
			 0),
		    before);
}

/* Finds S by contents, at the ends of classes. by_ends[]: S by ends, for ages at which no contents
 * were compared. false: contents can be used at no age. */
static bool solve_contents(double (*sum)[SURVIVAL_CLASSES], const double alike[SURVIVAL_CLASSES],
			   const double by_ends[SURVIVAL_CLASSES], double s[SURVIVAL_CLASSES],
			   double *ret_known_s)
{
	double value[SURVIVAL_CLASSES], weight[SURVIVAL_CLASSES], age[SURVIVAL_CLASSES];
	int n = 0;

	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		if (!(sum[LOOKED][k] > 0) || alike[k] >= MOST_ALIKE)
			continue;
		value[n] = (sum[SAME][k] / sum[LOOKED][k] - alike[k]) / (1 - alike[k]);
		value[n] = fmin(fmax(value[n], 0), 1);
		weight[n] = sum[LOOKED][k];
		age[n++] = sum[LOOKED_AT][k] / sum[LOOKED][k];
	}
	if (!n)
		return false;
	*ret_known_s = age[n - 1];
	pool_rising(value, weight, n);
	/* The value of a class belongs to the mean age of its blocks. Between two such ages, S is
	 * (S by ends) + (the difference between the values by contents and by ends). This
	 * difference is linear in the age or, if the two ages are far apart, in the logarithm of
	 * the age. */
	for (int k = 0, i = 0; k < SURVIVAL_CLASSES; k++) {
		double end = survival__class_end(k), part, before, after;

		while (i < n && age[i] <= end)
			i++; /* age[i - 1] <= end < age[i] */
		if (!i) {
			s[k] = fmax(by_ends[k], value[0]);
			continue;
		}
		if (i == n) {
			s[k] = end_of_last(k, age[n - 1], value[n - 1], s);
			continue;
		}
		part = age[i] < NEAR_AGE * age[i - 1]
			       ? (end - age[i - 1]) / (age[i] - age[i - 1])
			       : log(end / age[i - 1]) / log(age[i] / age[i - 1]);
		before = value[i - 1] - at_age(by_ends, 1, age[i - 1]);
		after = value[i] - at_age(by_ends, 1, age[i]);
		s[k] = fmin(fmax(by_ends[k] + before + part * (after - before), value[i]),
			    value[i - 1]);
	}
	return true;
}

/* Do contents change while blocks live? If they do, the number of changed contents is higher than
 * the number of blocks that can have ended. least[]: lower bound of S, as far as frees tell. */
static bool is_mutated(double (*sum)[SURVIVAL_CLASSES], const double least[SURVIVAL_CLASSES],
		       const double alike[SURVIVAL_CLASSES])
{
	double more = 0, all = 0;

	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		if (!(sum[LOOKED][k] > 0) || !(least[k] > KNOWN_LEAST) || alike[k] >= MOST_ALIKE)
			continue;
		more += sum[LOOKED][k] * least[k] -
			(sum[SAME][k] - alike[k] * sum[LOOKED][k]) / (1 - alike[k]);
		all += sum[LOOKED][k];
	}
	return more > CONTRADICTS * all;
}

/* Returns the upper limit of a Poisson mean if n events were seen, with a confidence of 97.5 %
 * (Garwood, Biometrika 28, 1936). */
static double most_events(double n)
{
	return chi2_quantile(0.975, 2 * (n + 1)) / 2;
}

/* What windows after the window of birth have seen: the number of frees at addresses, and the total
 * time for which addresses were watched. An address in use sees one free per block. */
struct address_frees {
	double n, seconds;
};

static struct address_frees frees_at_addresses(double (*sum)[SURVIVAL_CLASSES], double sample)
{
	struct address_frees f = {};

	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		f.n += sum[FREES][k] / sample;
		f.seconds += sum[EXPOSED][k] / sample;
	}
	return f;
}

/* Were addresses watched for long enough to be sure that contents change while blocks live? The
 * test assumes the highest rate of frees that the number of seen frees allows. Frees in windows of
 * birth do not count, because blocks may all end between two windows. */
static bool is_surely_mutated(double (*sum)[SURVIVAL_CLASSES], const struct address_frees *f,
			      const double alike[SURVIVAL_CLASSES])
{
	double least[SURVIVAL_CLASSES], rate = most_events(f->n) / f->seconds;

	for (int k = 0; k < SURVIVAL_CLASSES; k++)
		least[k] = f->seconds > 0 ? exp(-rate * survival__class_end(k)) : 0;
	return is_mutated(sum, least, alike);
}

/* Contents show how long blocks live on average. From this follows how often an address that is
 * always in use should be freed. Were most of these frees not seen? A few are always missing,
 * because some addresses are not used again. s[]: S by contents. */
static bool frees_are_missing(const struct address_frees *f, const double s[SURVIVAL_CLASSES],
			      double length_s)
{
	struct survival by_contents;

	memcpy(by_contents.s, s, sizeof(by_contents.s));
	integrate(&by_contents);
	return f->n < CONTRADICTS * f->seconds / survival__area(&by_contents, length_s);
}

/* Both kinds of evidence. */
struct evidence {
	double sum[SUMS][SURVIVAL_CLASSES];
	double alike[SURVIVAL_CLASSES]; /* share of ends that contents do not show */
	struct ends ends;
	double contents[SURVIVAL_CLASSES]; /* S by contents, if `compared` */
	double contents_known_s;	   /* the oldest age at which contents were compared */
	bool compared;			   /* contents could be compared at some age */
	bool by_contents;		   /* contents are used, not ends */
	bool doubtful;			   /* ends contradict contents, but not surely */
};

static void weigh(struct survival_ages *const *groups, size_t n, int without,
		  const struct survival_terms *t, struct evidence *e)
{
	struct address_frees frees;
	bool mutated;

	e->by_contents = e->doubtful = false;
	add_ages(groups, n, without, t->per_alloc_s, t->slowed, e->sum);
	solve_ends(e->sum, t, survival__age_class(t->length_s), &e->ends);
	for (int k = 0; k < SURVIVAL_CLASSES; k++)
		e->alike[k] = fmax(t->alike, t->missed && windowed_has(t->without, PART_MISSED)
						     ? (double)t->missed[k]
						     : 0);
	e->compared =
		windowed_has(t->without, PART_CONTENTS) &&
		solve_contents(e->sum, e->alike, e->ends.s, e->contents, &e->contents_known_s);
	if (!e->compared)
		return;
	frees = frees_at_addresses(e->sum, t->sample);
	mutated = is_mutated(e->sum, e->ends.least, e->alike);
	e->doubtful = mutated && !is_surely_mutated(e->sum, &frees, e->alike);
	if (t->only != SURVIVAL_UNKNOWN)
		e->by_contents = t->only == SURVIVAL_CONTENTS;
	else
		e->by_contents = !mutated || (e->doubtful &&
					      !frees_are_missing(&frees, e->contents, t->length_s));
}

/* --- the lower bound --- */

/* Finds a lower bound of S at the upper bounds of the classes, from the number of events seen. It
 * is the larger of two bounds. The first assumes two rates of events: one in the window in which a
 * block was born, and one in later windows, up to the age of the bound. Both are the highest rates
 * that the numbers of events allow. The second bound comes from the contents of blocks of this age
 * or older. */
static void find_sure(const struct evidence *e, double sample, double ret[SURVIVAL_CLASSES])
{
	double ended = 0, watched = 0, frees = 0, exposed = 0, older = 0, young = 0;

	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		double late;

		ended += e->sum[ENDED][k] / sample;
		watched += e->sum[WATCHED][k] / sample;
		frees += e->sum[FREES][k] / sample;
		exposed += e->sum[EXPOSED][k] / sample;
		if (e->sum[WATCHED][k] > 0)
			young = most_events(ended) / watched * survival__class_end(k);
		late = exposed > 0 ? most_events(frees) / exposed * survival__class_end(k) : 0;
		ret[k] = exposed > 0 || e->sum[WATCHED][k] > 0 ? exp(-young - late) : 0;
	}
	for (int k = SURVIVAL_CLASSES - 1; k >= 0; k--) {
		double compared = e->sum[LOOKED][k] / sample, changed;

		if (e->by_contents && compared > 0 && e->alike[k] < MOST_ALIKE) {
			changed = most_events(compared - e->sum[SAME][k] / sample) / compared;
			older = fmax(older, 1 - changed / (1 - e->alike[k]));
		}
		ret[k] = older = fmax(ret[k], older);
	}
}

/* Finds a lower bound of S for each class: the lowest value that find_sure()'s bound has in this
 * class or a younger one. The bound is also at most S by ends, unless contents are used in place of
 * ends. contents: the bound is also at most S by contents, if contents were compared. */
static void find_lowest(const struct evidence *e, double sample, bool contents,
			double ret[SURVIVAL_CLASSES])
{
	double lowest = 1;

	find_sure(e, sample, ret);
	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		lowest = fmin(lowest, ret[k]);
		if (e->compared && contents)
			lowest = fmin(lowest, e->contents[k]);
		if (!e->by_contents)
			lowest = fmin(lowest, e->ends.s[k]);
		ret[k] = lowest;
	}
}

void survival__lowest(struct survival_ages *const *groups, size_t n, const struct survival_terms *t,
		      double ret[SURVIVAL_CLASSES])
{
	struct evidence e;

	weigh(groups, n, -1, t, &e);
	find_lowest(&e, t->sample, true, ret);
}

/* --- S --- */

void survival__solve(struct survival_ages *const *groups, size_t n, int without,
		     const struct survival_terms *t, struct survival *ret)
{
	struct evidence e;
	double before = 1;

	weigh(groups, n, without, t, &e);
	if (t->only == SURVIVAL_LEAST)
		find_lowest(&e, t->sample, e.doubtful, ret->s);
	for (int k = 0; k < SURVIVAL_CLASSES; k++) {
		if (t->only != SURVIVAL_LEAST)
			ret->s[k] = e.by_contents ? e.contents[k] : e.ends.s[k];
		ret->s[k] = before = fmin(ret->s[k], before);
		ret->seen[k] = e.sum[WATCHED][k] > 0 ||
			       (e.by_contents ? e.sum[LOOKED][k] > 0 : e.sum[PAIRS][k] > 0);
	}
	ret->doubtful = e.doubtful;
	ret->known_s = e.by_contents ? e.contents_known_s : e.ends.known_s;
	ret->by = e.by_contents	 ? SURVIVAL_CONTENTS
		  : e.ends.known ? SURVIVAL_ENDS
				 : SURVIVAL_UNKNOWN;
	integrate(ret);
	ret->area_error = error_of_area(ret);
}
