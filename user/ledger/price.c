// SPDX-License-Identifier: BSD-2-Clause
#include "ledger/price.h"

#include <math.h>
#include <string.h>

#define LEAST_GROUPS 4	   /* for a spread */
#define LEAST_CALLS  1000  /* in either part, for a mean */
#define LEAST_F	     0.5   /* beyond, something else is going on */
#define MOST_F	     3.0

void price__init(struct price *p, double prior)
{
	memset(p, 0, sizeof(*p));
	p->factor = p->prior = prior;
	p->error = PRICE_PRIOR;
}

static void add(struct price_totals *sum, const struct price_totals *from, const struct price_totals *to)
{
	sum->cpu_ns += to->cpu_ns - from->cpu_ns;
	sum->cost_ns += to->cost_ns - from->cost_ns;
	sum->allocs += to->allocs - from->allocs;
}

/* f of all groups but one (negative: of all); NaN: nothing can be said. */
static double factor_without(const struct price *p, int without)
{
	static const struct price_totals none;
	struct price_totals half = {}, whole = {};

	for (int g = 0; g < PRICE_GROUPS; g++) {
		if (g == without)
			continue;
		add(&half, &none, &p->half[g]);
		add(&whole, &none, &p->whole[g]);
	}
	if (half.allocs < LEAST_CALLS || whole.allocs < LEAST_CALLS)
		return NAN;
	return (whole.cpu_ns / whole.allocs - half.cpu_ns / half.allocs) /
	       (whole.cost_ns / whole.allocs - half.cost_ns / half.allocs);
}

static void judge(struct price *p)
{
	double all = factor_without(p, -1), mean = 0, sum = 0, variance, prior = PRICE_PRIOR * PRICE_PRIOR, n = 0;
	double left_out[PRICE_GROUPS];

	p->factor = p->prior;
	p->error = PRICE_PRIOR;
	for (int g = 0; g < PRICE_GROUPS; g++) {
		left_out[g] = p->half[g].allocs > 0 && p->whole[g].allocs > 0 ? factor_without(p, g) : NAN;
		if (isnan(left_out[g]))
			continue;
		mean += left_out[g];
		n++;
	}
	if (!(all > 0) || n < LEAST_GROUPS)
		return;
	mean /= n;
	for (int g = 0; g < PRICE_GROUPS; g++)
		if (!isnan(left_out[g]))
			sum += (left_out[g] - mean) * (left_out[g] - mean);
	variance = (n - 1) / n * sum + PRICE_UNEVEN * PRICE_UNEVEN;
	all = fmin(fmax(all, LEAST_F), MOST_F);
	p->factor = (all / variance + p->prior / prior) / (1 / variance + 1 / prior);
	p->error = sqrt(1 / (1 / variance + 1 / prior));
}

void price__note_half(struct price *p, const struct price_totals *from, const struct price_totals *to)
{
	if (to->allocs > from->allocs)
		add(&p->half[p->n % PRICE_GROUPS], from, to);
}

void price__note_whole(struct price *p, const struct price_totals *from, const struct price_totals *to)
{
	if (to->allocs > from->allocs)
		add(&p->whole[p->n % PRICE_GROUPS], from, to);
	p->n++;
	judge(p);
}
