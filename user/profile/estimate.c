// SPDX-License-Identifier: BSD-2-Clause
/* The weights (Horvitz-Thompson) and the interval (Fay and Feuer) are derived in estimate.h. This
 * file computes them without losing digits at the ends of the range.
 *
 * Let t = z/R. The probability p = 1 - exp(-t) is computed as -expm1(-t): at t = 1e-6 the
 * subtraction would lose six digits. estimate__add() computes 1 - p as exp(-t), not by subtraction.
 * For large blocks exp(-t) underflows to 0. This is right: a block that is always sampled has the
 * variance 0.
 *
 * The chi-squared quantile is computed in two ways:
 *
 * - below CHI2_EXPANSION_DF degrees of freedom, the regularized incomplete gamma function P(a, x)
 *   is inverted, with a = df/2 and x = chi2/2. P is summed from its power series where x < a + 1,
 *   and from Legendre's continued fraction (modified Lentz) elsewhere (Abramowitz and Stegun
 *   6.5.29, 6.5.31). Both need O(sqrt(a)) terms, some hundred here. The inversion is Newton's
 *   method on the logarithm of the smaller tail, as a function of ln x. As functions of ln x, the
 *   logarithms of both tails are nearly straight lines. The solution is kept in a bracket. If a
 *   step leaves the bracket, the bracket's middle is taken instead.
 *
 * - from there on, the Cornish-Fisher expansion of chi2 in 1/sqrt(df) is used (Abramowitz and
 *   Stegun 26.2.49 with the cumulants of chi2; Goldberg and Levine 1946). Its first omitted term,
 *   relative to df, is of order df^-3. At the switch this is below 1e-8 for any q in [1e-9, 1 -
 *   1e-9]. For such large df, P(a, x) would be worse. Its prefactor is exp(a ln x - x - lgamma(a)).
 *   The exponent is a difference of numbers of size a ln a, and P needs more terms. The expansion
 *   becomes exact as df grows, so no third way is needed. */
#include "profile/estimate.h"

#include <math.h>
#include <stdbool.h>

#include "profile/growth.h"

#define CHI2_EXPANSION_DF 2000.0
#define MAX_TERMS	  5000
#define MAX_STEPS	  200

double estimate__probability(uint64_t size, uint64_t interval)
{
	if (interval <= 1)
		return 1;
	return -expm1(-(double)(size ? size : 1) / (double)interval);
}

static void add(struct estimate *estimate, uint64_t size, double p, double missed)
{
	double z = (double)size, term = z / p * (z / p) * missed;

	estimate->samples++;
	estimate->sampled_bytes += size;
	estimate->objects += 1 / p;
	estimate->bytes += z / p;
	estimate->variance += term;
	estimate->squares += z / p * (z / p);
	if (term > estimate->variance_max)
		estimate->variance_max = term;
}

void estimate__add(struct estimate *estimate, uint64_t size, uint64_t interval)
{
	double t = (double)(size ? size : 1) / (double)interval;

	add(estimate, size, estimate__probability(size, interval), interval <= 1 ? 0 : exp(-t));
}

void estimate__add_seen(struct estimate *estimate, uint64_t size, double p)
{
	add(estimate, size, p, 1 - p);
}

static bool has_no_limit(const struct estimate *estimate)
{
	return estimate->bytes > 0 && !(estimate->most > 0);
}

static void merge(struct estimate *estimate, const struct estimate *other, double most)
{
	estimate->most = has_no_limit(estimate) || has_no_limit(other) ? 0 : most;
	estimate->samples += other->samples;
	estimate->sampled_bytes += other->sampled_bytes;
	estimate->objects += other->objects;
	estimate->bytes += other->bytes;
	estimate->variance += other->variance;
	estimate->squares += other->squares;
	estimate->common += other->common;
	if (other->variance_max > estimate->variance_max)
		estimate->variance_max = other->variance_max;
	estimate->least = fmax(estimate->least, other->least);
}

void estimate__merge(struct estimate *estimate, const struct estimate *other)
{
	merge(estimate, other, fmax(estimate->most, other->most));
}

void estimate__merge_process(struct estimate *estimate, const struct estimate *other)
{
	merge(estimate, other, estimate->most + other->most);
}

struct estimate estimate__part(const struct estimate *estimate, double objects, double bytes)
{
	double share = estimate->bytes > 0 ? fmin(bytes / estimate->bytes, 1) : 0;

	return (struct estimate){
		.samples = (uint64_t)llround((double)estimate->samples * share),
		.sampled_bytes = (uint64_t)((double)estimate->sampled_bytes * share),
		.objects = objects,
		.bytes = bytes,
		.variance = estimate->variance * share,
		.variance_max = share > 0 ? estimate->variance_max : 0,
		.squares = estimate->squares * share,
		.common = estimate->common * share,
		.most = estimate->most,
	};
}

double estimate__squares(const struct estimate *estimate)
{
	double y = estimate->bytes, n = estimate->samples ? (double)estimate->samples : 1;

	return estimate->squares > 0 ? estimate->squares : fmax(y / n * y, estimate->variance);
}

double estimate__weight_at(double weight, uint64_t from, uint64_t to)
{
	double c = weight / (double)from, t = fmin(c, 2 * (c - 1)), size = weight;

	if (from == to)
		return weight;
	/* The size is z = t R, where t solves t / (1 - exp(-t)) = c. The left side is convex, and
	 * above both t and 1 + t / 2. So Newton's method falls from this start to the root. */
	for (int i = 0; i < MAX_STEPS && from > 1 && t > 0; i++) {
		double p = -expm1(-t), step = (t / p - c) * p * p / (p - t * exp(-t));

		t -= step;
		if (!(step > 1e-12 * t))
			break;
	}
	if (from > 1)
		size = fmax(t * (double)from, 1);
	return to > 1 ? size / -expm1(-size / (double)to) : size;
}

/* Quantile q of the gamma distribution with this mean and variance. It is a scaled chi-squared
 * distribution. */
static double gamma_quantile(double q, double mean, double variance)
{
	double df = 2 * mean * (mean / variance);

	/* The variance is so small beside mean^2 that the quotient overflows: nearly the whole
	 * distribution lies at its mean. */
	if (!isfinite(df))
		return mean;
	return mean * (chi2_quantile(q, df) / df);
}

struct estimate estimate__of_bytes(double bytes, uint64_t interval)
{
	double R = interval > 1 ? (double)interval : 0;

	return (struct estimate){.bytes = bytes, .variance = R * bytes, .variance_max = R * R};
}

double estimate__unseen(uint64_t interval)
{
	return interval > 1 ? -log(0.025) * (double)interval : 0;
}

struct interval estimate__interval(const struct estimate *estimate)
{
	double y = estimate->bytes, v = estimate->variance + estimate->common * estimate->common,
	       w2 = estimate->variance_max;
	struct interval interval = {.low = y, .high = y};

	if (!(y > 0) || !(v > 0))
		return interval;
	interval.low = gamma_quantile(0.025, y, v);
	interval.high = gamma_quantile(0.975, y + sqrt(w2), v + w2);
	/* if the error exceeds the figure, most of the gamma distribution lies near 0, and so do
	 * its quantiles */
	if (v > y * y)
		interval.high = fmax(interval.high, y + NORMAL_QUANTILE * sqrt(v));
	if (interval.low < (double)estimate->sampled_bytes)
		interval.low = (double)estimate->sampled_bytes;
	interval.low = fmax(interval.low, estimate->least);
	/* Only rounding can put the ends on the wrong sides of y: sizes above 2^53, v near 0. */
	interval.low = fmin(interval.low, y);
	interval.high = fmax(interval.high, y);
	if (estimate->most > 0)
		interval.high = fmax(fmin(interval.high, estimate->most), y);
	return interval;
}

/* x^a exp(-x) / Gamma(a), the factor that both forms of P(a, x) share. It is also x times the
 * density, that is, the derivative of P with respect to ln x. */
static double gamma_front(double a, double x)
{
	int sign;

	return exp(a * log(x) - x - lgamma_r(a, &sign));
}

/* The lower tail P(a, x), or the upper tail 1 - P. A tail that is small is computed without a
 * subtraction, so it keeps all its digits. */
static double gamma_tail(double a, double x, bool upper)
{
	double front = gamma_front(a, x), tail;

	if (x < a + 1) {
		double term = 1 / a, sum = term;

		for (int i = 1; i < MAX_TERMS && term > sum * 1e-17; i++) {
			term *= x / (a + i);
			sum += term;
		}
		tail = front * sum;
		return upper ? 1 - tail : tail;
	}

	double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;

	for (int i = 1; i < MAX_TERMS; i++) {
		double an = -i * (i - a), step;

		b += 2;
		d = 1 / (an * d + b);
		c = b + an / c;
		step = d * c;
		h *= step;
		if (fabs(step - 1) < 1e-16)
			break;
	}
	tail = front * h;
	return upper ? tail : 1 - tail;
}

/* Finds the x with P(a, x) = q, for moderate a. */
static double gamma_quantile_exact(double q, double a)
{
	bool upper = q > 0.5;
	double goal = log(upper ? 1 - q : q);
	int sign;
	/* P(a, x) <= x^a / Gamma(a + 1). So the x at which the right side is q is a lower bound of
	 * the solution. It is nearly the solution when q is small. */
	double low = (log(q) + lgamma_r(a + 1, &sign)) / a;
	double high = log(a + 1), u;

	while ((log(gamma_tail(a, exp(high), upper)) > goal) == upper)
		high++;
	u = upper ? high : low;
	for (int i = 0; i < MAX_STEPS && high - low > 1e-15 * (1 + fabs(high)); i++) {
		double x = exp(u), tail = gamma_tail(a, x, upper), miss = log(tail) - goal, next;

		if ((miss > 0) == upper)
			low = u;
		else
			high = u;
		/* d ln P / d ln x = front / P; the upper tail falls. */
		next = u - miss * tail / gamma_front(a, x) * (upper ? -1 : 1);
		if (!(next > low && next < high))
			next = low + (high - low) / 2;
		if (fabs(next - u) < 1e-14)
			break;
		u = next;
	}
	return exp(u);
}

/* Standard normal quantile, by Newton's method on the logarithm of the tail. The logarithm is
 * concave, so from 0 outwards the method converges without a bracket. */
static double normal_quantile(double q)
{
	double tail = fmin(q, 1 - q), z = 0;

	for (int i = 0; i < MAX_STEPS; i++) {
		double cdf = erfc(-z * M_SQRT1_2) / 2;
		double density = exp(-z * z / 2) * M_2_SQRTPI * M_SQRT1_2 / 2;
		double step = log(cdf / tail) * cdf / density;

		z -= step;
		if (fabs(step) < 1e-15 * (1 + fabs(z)))
			break;
	}
	return q > 0.5 ? -z : z;
}

double chi2_quantile(double q, double df)
{
	if (!(df > 0) || !(q >= 0 && q <= 1))
		return NAN;
	if (q == 0)
		return 0;
	if (q == 1)
		return INFINITY;
	if (df < CHI2_EXPANSION_DF)
		return 2 * gamma_quantile_exact(q, df / 2);

	double z = normal_quantile(q), z2 = z * z, s = sqrt(2 * df);

	return df + s * z + 2 * (z2 - 1) / 3 + z * (z2 - 7) / (9 * s) -
	       (6 * z2 * z2 + 14 * z2 - 32) / (405 * df) +
	       z * (9 * z2 * z2 + 256 * z2 - 433) / (4860 * M_SQRT2 * df * sqrt(df));
}
