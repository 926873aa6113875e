// SPDX-License-Identifier: BSD-2-Clause
#include "profile/chance.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define MAX_TERMS 20000
#define TINY	  1e-300
/* With more than MANY events and a variance above EVEN, the binomial is practically normal, and the
 * continued fraction would be long. */
#define MANY 1e6
#define EVEN 1e5
/* If there are more than MOST events, and few of them on one side, only the mean of this side
 * matters (Poisson). */
#define MOST 1e8

/* The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method. For x <
 * (a + 1) / (a + b + 2) it converges fast, in O(sqrt(max(a, b))) terms. */
static double beta_fraction(double a, double b, double x)
{
	double c = 1, d = 1 - (a + b) * x / (a + 1), h;

	d = 1 / (fabs(d) < TINY ? TINY : d);
	h = d;
	for (int m = 1; m < MAX_TERMS; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), step;

		d = 1 + even * d;
		c = 1 + even / c;
		d = 1 / (fabs(d) < TINY ? TINY : d);
		c = fabs(c) < TINY ? TINY : c;
		h *= d * c;
		d = 1 + odd * d;
		c = 1 + odd / c;
		d = 1 / (fabs(d) < TINY ? TINY : d);
		c = fabs(c) < TINY ? TINY : c;
		step = d * c;
		h *= step;
		if (fabs(step - 1) < 1e-15)
			break;
	}
	return h;
}

/* The incomplete beta function I_x(a, b), regularized. If a = 0, the whole probability is at x = 0.
 * If b = 0, it is at x = 1. */
static double beta_share(double x, double a, double b)
{
	double front;
	int sign;

	if (a <= 0 || x >= 1)
		return 1;
	if (b <= 0 || x <= 0)
		return 0;
	front = exp(lgamma_r(a + b, &sign) - lgamma_r(a, &sign) - lgamma_r(b, &sign) + a * log(x) +
		    b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double chance__of_normal(double z)
{
	return erfc(z * M_SQRT1_2) / 2;
}

double chance__of_counts(double from, double to, double share)
{
	double n = from + to, variance = n * share * (1 - share);

	if (!(n > 0))
		return 0.5;
	if (n > MANY && variance > EVEN)
		return chance__of_normal((to - n * share) / sqrt(variance));
	if (n > MOST && share < 0.5) {
		share *= n / MOST;
		from = fmax(MOST - to, 0);
	} else if (n > MOST) {
		share = 1 - (1 - share) * n / MOST;
		to = fmax(MOST - from, 0);
	}
	return (beta_share(share, to, from + 1) + beta_share(share, to + 1, from)) / 2;
}

double chance__of_student(double t, double df)
{
	double both = beta_share(df / (df + t * t), df / 2, 0.5);

	return t > 0 ? both / 2 : 1 - both / 2;
}

/* A claim, and the figure by which it is sorted among the others. */
struct order {
	double figure;
	size_t index;
};

static int by_figure(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	if (x->figure != y->figure)
		return x->figure < y->figure ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

static double weight(const struct claim *claim)
{
	return 1 / claim->traffic;
}

int claims__decide(struct claim *claims, size_t n, double level, double *ret_weights)
{
	_cleanup_free_ struct order *orders = calloc(n + 1, sizeof(*orders));
	double weights = 0;
	size_t n_tested = 0;

	if (!orders)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		claims[i].holds = false;
	/* A claim takes part if it can hold: if least <= level * weight / W. W is the sum of the
	 * weights of the claims that take part, so W depends on which claims take part. A claim's
	 * figure here is least / (level * weight): it must be at most 1 / W. */
	for (size_t i = 0; i < n; i++)
		if (claims[i].traffic > 0 && claims[i].least <= level)
			orders[n_tested++] =
				(struct order){claims[i].least / (level * weight(&claims[i])), i};
	qsort(orders, n_tested, sizeof(*orders), by_figure);
	n = n_tested;
	for (n_tested = 0; n_tested < n; n_tested++) {
		if (n_tested && orders[n_tested].figure * weights > 1)
			break;
		weights += weight(&claims[orders[n_tested].index]);
	}
	if (ret_weights)
		*ret_weights = weights;
	for (size_t i = 0; i < n_tested; i++) {
		const struct claim *claim = &claims[orders[i].index];

		orders[i].figure = claim->p / weight(claim);
	}
	qsort(orders, n_tested, sizeof(*orders), by_figure);
	for (size_t i = 0; i < n_tested; i++) {
		struct claim *claim = &claims[orders[i].index];

		if (!(claim->p * weights <= level * weight(claim)))
			break;
		claim->holds = true;
		weights -= weight(claim);
		/* only rounding can make the sum smaller than this */
		weights = fmax(weights, weight(claim) * 1e-9);
	}
	return 0;
}
