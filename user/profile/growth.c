// SPDX-License-Identifier: BSD-2-Clause
#include "profile/growth.h"

#include <math.h>

#define TABLE_DF  12
#define NONE_SEEN 3.69 /* -log 0.025: if this many are expected, the chance of none is 1 / 40 */
/* Limits of q (growth.h): the share of dying blocks that is left from one third of the segments to
 * the next. A slower fall (a larger q) cannot be seen in the segments. */
#define Q_LEAST 0.4
#define Q_MOST	0.85

double student_quantile(size_t df, bool one_sided)
{
	/* Abramowitz and Stegun, table 26.10 */
	static const double two[TABLE_DF] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469,
					     2.3646,  2.3060, 2.2622, 2.2281, 2.2010, 2.1788};
	static const double one[TABLE_DF] = {6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432,
					     1.8946, 1.8595, 1.8331, 1.8125, 1.7959, 1.7823};
	double z = one_sided ? 1.6448536 : NORMAL_QUANTILE, z3 = z * z * z, z5 = z3 * z * z, n;

	if (df <= TABLE_DF)
		return one_sided ? one[df - 1] : two[df - 1];
	/* formula 26.7.5 of that book; its error is below 1e-4 for these df */
	n = (double)df;
	return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
	       (3 * z5 * z * z + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

/* Returns the limit of the rates if they fall exponentially; +infinity if they do not fall, or if
 * there are too few segments. */
static double limit_of(const struct growth_segment *segments, size_t n)
{
	double y[3] = {}, q;

	if (n < 6)
		return INFINITY;
	for (size_t third = 0; third < 3; third++) {
		double seconds = 0;

		for (size_t i = third * n / 3; i < (third + 1) * n / 3; i++) {
			y[third] += segments[i].bytes;
			seconds += segments[i].seconds;
		}
		y[third] /= seconds;
	}
	if (!(y[0] > y[2]))
		return INFINITY;
	q = y[0] > y[1] ? (y[1] - y[2]) / (y[0] - y[1]) : Q_MOST;
	q = q < Q_LEAST ? Q_LEAST : q > Q_MOST ? Q_MOST : q;
	return y[2] - (y[0] - y[2]) * q / (1 + q) * q / (1 - q);
}

/* Returns the rate after the last segment, by the line fitted to the rates; +infinity if the rates
 * do not fall. */
static double outlook(const struct growth_segment *segments, size_t n, bool dying)
{
	double middle = (double)(n - 1) / 2, mean = 0, slope = 0, spread = 0, rest = 0, error;

	for (size_t i = 0; i < n; i++)
		mean += segments[i].bytes / segments[i].seconds / (double)n;
	for (size_t i = 0; i < n; i++) {
		double x = (double)i - middle;

		slope += x * (segments[i].bytes / segments[i].seconds - mean);
		spread += x * x;
	}
	slope /= spread;
	for (size_t i = 0; i < n; i++) {
		double x = (double)i - middle;
		double miss = segments[i].bytes / segments[i].seconds - mean - slope * x;

		rest += miss * miss;
	}
	error = sqrt(rest / (double)(n - 2) / spread);
	if (slope >= (dying ? 0 : -student_quantile(n - 2, true) * error))
		return INFINITY;
	return mean + slope * ((double)n - middle);
}

struct growth growth__estimate(const struct growth_segment *segments, size_t n, double quantum,
			       bool dying)
{
	struct growth growth = {.low = NAN, .high = NAN};
	double bytes = 0, moved = 0, seconds = 0, squares = 0, error, least;

	for (size_t i = 0; i < n; i++) {
		bytes += segments[i].bytes;
		moved += fabs(segments[i].bytes);
		seconds += segments[i].seconds;
	}
	if (!(seconds > 0))
		return growth;
	growth.bytes_per_s = bytes / seconds;
	if (n < GROWTH_MIN_SEGMENTS)
		return growth;
	for (size_t i = 0; i < n; i++) {
		double miss = segments[i].bytes - growth.bytes_per_s * segments[i].seconds;

		miss /= 1 - segments[i].seconds / seconds;
		squares += miss * miss;
	}
	error = student_quantile(n - 1, false) * sqrt((double)(n - 1) / (double)n * squares) /
		seconds;
	least = (moved < quantum / 2 ? NONE_SEEN : 1) * quantum / seconds;
	error = error > least ? error : least;
	growth.low = growth.bytes_per_s - error;
	growth.high = growth.bytes_per_s + error;
	if (dying)
		growth.low = fmin(growth.low,
				  fmin(outlook(segments, n, true), limit_of(segments, n)) - error);
	else
		growth.low = fmin(growth.low, outlook(segments, n, false));
	return growth;
}

void growth_sum__add(struct growth_sum *sum, const struct growth *growth)
{
	double down = growth->bytes_per_s - growth->low;
	double up = growth->high - growth->bytes_per_s;
	struct growth *total = &sum->total;

	if (growth->low == 0)
		sum->facts += down;
	else
		sum->chance = hypot(sum->chance, down);
	if (!sum->n++) {
		*total = *growth;
		return;
	}
	up = hypot(total->high - total->bytes_per_s, up);
	total->bytes_per_s += growth->bytes_per_s;
	total->low = total->bytes_per_s - sum->facts - sum->chance;
	total->high = total->bytes_per_s + up;
}

/* Returns how near the growth is to being sure: growth divided by the distance to its low end.
 * Infinity: it surely grows. 0: it does not grow, or its low end is not known. */
static double evidence(const struct growth *growth)
{
	double error = growth->bytes_per_s - growth->low;

	if (!(growth->bytes_per_s > 0) || isnan(error))
		return 0;
	return growth->low > 0 ? INFINITY : growth->bytes_per_s / error;
}

int growth__compare(const struct growth *a, const struct growth *b)
{
	double x = evidence(a), y = evidence(b);

	if (x == y) {
		x = isnan(a->bytes_per_s) ? 0 : a->bytes_per_s;
		y = isnan(b->bytes_per_s) ? 0 : b->bytes_per_s;
	}
	return (x < y) - (x > y);
}

bool growth__is_significant(const struct growth *growth)
{
	return growth->low > 0 || growth->high < 0;
}
