// SPDX-License-Identifier: BSD-2-Clause
#include "ledger/net_clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/search.h"
#include "base/vector.h"
#include "profile/parts.h"

#define NS	    1e-9
#define APART_NS    200000000ULL
#define LEAST_NET   0.02 /* least_net() if a call's cost is not known */
#define LEAST_MAX   0.5
#define GRID	    400
#define REACH	    3	 /* F is considered up to this many standard errors from its mean */
#define MUCH	    10	 /* if net time is more than this many times the cost, F keeps its prior */
#define IN_GAPS	    0.2	 /* largest share of cost in the CPU time of a gap */
#define IN_WINDOWS  0.02 /* a window is used if the cost is more than this share of its CPU time */
#define BESIDE	    4	 /* gaps that are up to this many windows away are used */
#define LEAST_N	    4	 /* least number of windows for a spread */
#define DOUBT	    3	 /* standard errors: estimates that differ by more are not combined */
#define DOUBT_WAITS 1.5	 /* the same, between bytes and limits by waits (these may be wrong) */
#define LEAST_RATE  262144 /* bytes per net second: fewer are a log or a timer, not work */
#define MOSTLY	    0.5
#define LEAST_WAITS 20	/* in windows: with fewer, nothing is known from waits */
#define CONFIRMS    0.7 /* waits are used if the lower limit is this much of the upper one */
#define LONGEST	    1	/* s; a longer window is a stretch, whose moment was not chosen at random */
#define LEARN_EVERY 64	/* F is estimated again when there are 1/64 more points */

void net_clock__init(struct net_clock *c, double call_ns, double spread)
{
	*c = (struct net_clock){
		.call_ns = call_ns,
		.least = call_ns > 0 ? fmin(NET_CLOCK_CALL_NS / call_ns, LEAST_MAX) : 0,
		.spread = spread,
	};
}

/* Returns the least ratio of net time to cost. This ratio matters only where nearly all of the CPU
 * time is cost. So it also serves as the least ratio of net time to CPU time. */
static double least_net(const struct net_clock *c)
{
	return c->least > 0 ? c->least : LEAST_NET;
}

void net_clock__free(struct net_clock *c)
{
	free(c->at);
	*c = (struct net_clock){};
}

static int reserve(struct net_clock *c)
{
	size_t kept = 0, seen = 0;

	if (c->n_free >= NET_CLOCK_MAX) { /* removes every second free point, but not the last */
		for (size_t i = 0; i < c->n; i++)
			if (c->at[i].keep || seen++ % 2 || i + 1 == c->n)
				c->at[kept++] = c->at[i];
		c->n = kept;
		c->n_free = 0;
		for (size_t i = 0; i < c->n; i++)
			c->n_free += !c->at[i].keep;
		c->learnt = 0;
		c->apart_ns *= 2;
	}
	return VECTOR_RESERVE(c->at, c->room, c->n + 1);
}

/* Returns the net time from one point to a later one. The cost has an error of about a tenth. Even
 * if the cost seems to be all of the CPU time, a little of that time is the process's own. */
static double net_between(const struct net_clock *c, const struct net_clock_point *from,
			  const struct net_clock_point *to)
{
	double cpu = to->cpu_s - from->cpu_s, felt = c->felt > 0 ? c->felt : NET_CLOCK_FELT;

	return fmax(cpu - felt * (to->cost_s - from->cost_s), least_net(c) * cpu);
}

int net_clock__add(struct net_clock *c, uint64_t wall_ns, double cpu_ns, double cost_ns,
		   double work, enum net_clock_edge edge)
{
	struct net_clock_point *last = c->n ? &c->at[c->n - 1] : NULL;
	struct net_clock_point point = {
		.wall_ns = wall_ns,
		.work = work,
		.waits = NAN,
		.keep = edge != NET_CLOCK_NONE,
		.window = edge == NET_CLOCK_BEGINS ||
			  (edge == NET_CLOCK_NONE && last && last->window),
	};
	int rc;

	if (!last) {
		c->cpu_ns = cpu_ns;
		c->cost_ns = cost_ns;
		c->apart_ns = APART_NS;
	}
	if (last && wall_ns <= last->wall_ns)
		return 0;
	point.cpu_s = fmax((cpu_ns - c->cpu_ns) * NS, last ? last->cpu_s : 0);
	point.cost_s = fmax((cost_ns - c->cost_ns) * NS, last ? last->cost_s : 0);
	/* the last point can be removed, because the clock is linear between its neighbours */
	if (c->n > 1 && wall_ns - c->at[c->n - 2].wall_ns < c->apart_ns && !last->keep) {
		c->n--;
		c->n_free--;
	}
	rc = reserve(c);
	if (rc)
		return rc;
	if (c->n) {
		const struct net_clock_point *from = &c->at[c->n - 1];
		double net = net_between(c, from, &point);

		point.net_s = from->net_s + net;
		point.busy_s = from->busy_s + net * net / ((double)(wall_ns - from->wall_ns) * NS);
	}
	c->at[c->n++] = point;
	c->n_free += !point.keep;
	return 0;
}

void net_clock__note_waits(struct net_clock *c, double waits)
{
	if (c->n && c->at[c->n - 1].keep)
		c->at[c->n - 1].waits = waits;
}

int net_clock__rest(struct net_clock *c, uint64_t wall_ns)
{
	const struct net_clock_point *last = c->n ? &c->at[c->n - 1] : NULL;

	if (!last)
		return 0;
	return net_clock__add(c, wall_ns, c->cpu_ns + last->cpu_s / NS,
			      c->cost_ns + last->cost_s / NS, last->work, NET_CLOCK_NONE);
}

uint64_t net_clock__edge_ns(const struct net_clock *c, enum net_clock_edge kind, uint64_t from_ns,
			    uint64_t until_ns)
{
	size_t i = SEARCH_FIRST(k, c->n, c->at[k].wall_ns >= from_ns);

	for (; i < c->n && c->at[i].wall_ns < until_ns; i++)
		if (c->at[i].keep && (kind == NET_CLOCK_NONE || !c->at[i].window))
			return c->at[i].wall_ns;
	return 0;
}

void net_clock__forget(struct net_clock *c, const struct net_clock_range *ranges, size_t n)
{
	size_t kept = 0, range = 0;
	bool unknown = false; /* the waits at a removed edge were not known */

	for (size_t i = 0; i < c->n; i++) {
		struct net_clock_point *p = &c->at[i];

		while (range < n && p->wall_ns > ranges[range].to_ns)
			range++;
		if (i && i + 1 < c->n && range < n && p->wall_ns >= ranges[range].from_ns) {
			c->n_free -= !p->keep;
			unknown = unknown || (p->keep && isnan(p->waits));
			continue;
		}
		if (p->keep && unknown) {
			p->waits = NAN;
			unknown = false;
		}
		c->at[kept++] = *p;
	}
	c->n = kept;
	c->learnt = 0;
}

/* Returns what the totals were at that moment: linear between points, constant beyond them. */
static struct net_clock_point totals_at(const struct net_clock *c, uint64_t wall_ns)
{
	size_t later = SEARCH_FIRST(i, c->n, c->at[i].wall_ns > wall_ns);
	struct net_clock_point ret = {}, b;
	double share;

	if (c->n)
		ret = c->at[later ? later - 1 : 0];
	if (later && later < c->n) {
		b = c->at[later];
		share = (double)(wall_ns - ret.wall_ns) / (double)(b.wall_ns - ret.wall_ns);
		ret.net_s += (b.net_s - ret.net_s) * share;
		ret.cpu_s += (b.cpu_s - ret.cpu_s) * share;
		ret.cost_s += (b.cost_s - ret.cost_s) * share;
		ret.work += (b.work - ret.work) * share;
	}
	ret.wall_ns = wall_ns;
	ret.waits = NAN;
	return ret;
}

/* Returns the point at which the gap ends, after a swap has put the gap first. */
static struct net_clock_point end_of_gap(const struct net_clock *c,
					 const struct net_clock_swap *swap)
{
	struct net_clock_point from = totals_at(c, swap->from_ns), to = totals_at(c, swap->to_ns),
			       until = totals_at(c, swap->until_ns);

	return (struct net_clock_point){
		.wall_ns = net_clock_swap__begin_ns(swap),
		.net_s = from.net_s + until.net_s - to.net_s,
		.cpu_s = from.cpu_s + until.cpu_s - to.cpu_s,
		.cost_s = from.cost_s + until.cost_s - to.cost_s,
		.work = from.work + until.work - to.work,
		.waits = NAN,
		.keep = true,
		.window = true,
	};
}

int net_clock__swap(struct net_clock *c, const struct net_clock_swap *swaps, size_t n)
{
	struct net_clock new = *c; /* the present points, as the swaps done so far have left them */
	size_t next = 0;

	if (!c->n || !n)
		return 0;
	new.at = calloc(c->n + n + 1, sizeof(*new.at));
	if (!new.at)
		return -ENOMEM;
	new.n = new.n_free = 0;
	new.room = c->n + n + 1;
	for (size_t i = 0; i < n; i++) {
		struct net_clock_point end;

		while (next < c->n && c->at[next].wall_ns < swaps[i].until_ns)
			new.at[new.n++] = c->at[next++];
		/* totals_at() needs the point after until_ns, too */
		if (next < c->n)
			new.at[new.n++] = c->at[next];
		end = end_of_gap(&new, &swaps[i]);
		while (new.n > 1 && new.at[new.n - 1].wall_ns >= swaps[i].open_ns)
			new.n--;
		if (new.at[new.n - 1].wall_ns < end.wall_ns)
			new.at[new.n++] = end;
		if (next < c->n && c->at[next].keep && c->at[next].window)
			next++; /* the next stretch's beginning is not an edge any more */
	}
	while (next < c->n)
		new.at[new.n++] = c->at[next++];
	for (size_t i = 0; i < new.n; i++)
		new.n_free += !new.at[i].keep;
	new.learnt = 0;
	free(c->at);
	*c = new;
	return 0;
}

double net_clock__at(const struct net_clock *c, uint64_t wall_ns)
{
	return totals_at(c, wall_ns).net_s;
}

double net_clock__cost_at(const struct net_clock *c, uint64_t wall_ns)
{
	return totals_at(c, wall_ns).cost_s;
}

double net_clock__outside(const struct net_clock *c, uint64_t from_ns, uint64_t to_ns)
{
	size_t i = SEARCH_FIRST(j, c->n, c->at[j].wall_ns > from_ns);
	double sum = 0;

	for (i -= i > 0; i + 1 < c->n && c->at[i].wall_ns < to_ns; i++) {
		const struct net_clock_point *a = &c->at[i], *b = a + 1;
		uint64_t begin = a->wall_ns > from_ns ? a->wall_ns : from_ns,
			 end = b->wall_ns < to_ns ? b->wall_ns : to_ns;

		if (!a->window && end > begin)
			sum += net_clock__at(c, end) - net_clock__at(c, begin);
	}
	return sum;
}

double net_clock__error(const struct net_clock *c, double net_s, double cost_s)
{
	if (c->net_error > 0)
		return fmin(c->net_error, NET_CLOCK_MOST_ERROR);
	return net_s > 0
		       ? fmin((c->felt > 0 ? c->felt_error : NET_CLOCK_FELT_ERROR) * cost_s / net_s,
			      NET_CLOCK_MOST_ERROR)
		       : 0;
}

/* --- work --- */

/* The time between a point and the next point. */
struct span {
	double cpu_s, cost_s, net_s, work;
	bool window, gap; /* both false: probes are being placed or removed */
};

/* Sets *ret to the i-th span. Returns false if its CPU time is 0 or its work is not known. */
static bool span_at(const struct net_clock *c, size_t i, struct span *ret)
{
	const struct net_clock_point *a = &c->at[i], *b = a + 1;

	*ret = (struct span){b->cpu_s - a->cpu_s,
			     b->cost_s - a->cost_s,
			     net_between(c, a, b),
			     b->work - a->work,
			     false,
			     false};
	ret->window = a->window && ret->cost_s > IN_WINDOWS * ret->cpu_s;
	ret->gap = !ret->window && ret->cost_s <= IN_GAPS * ret->cpu_s;
	return ret->cpu_s > 0 && ret->work >= 0; /* not NaN */
}

/* Returns the CPU time, cost and net time of all windows together. */
static struct span all_windows(const struct net_clock *c)
{
	struct span sum = {.window = true}, span;

	for (size_t i = 0; i + 1 < c->n; i++) {
		span_at(c, i, &span);
		if (!span.window)
			continue;
		sum.cpu_s += span.cpu_s;
		sum.cost_s += span.cost_s;
		sum.net_s += span.net_s;
	}
	return sum;
}

/* Returns the bytes per net second in the gaps around the i-th span, on either side up to the
 * BESIDE-th window; 0: not known. More than one gap on each side is used, because at the ends of a
 * gap, probes are placed or removed, which slows the process a little. */
static double rate_around(const struct net_clock *c, size_t i)
{
	double work = 0, net = 0;
	struct span span;
	int windows = 0;

	for (size_t j = i; j-- > 0 && windows < BESIDE;) {
		bool known = span_at(c, j, &span);

		windows += span.window;
		work += known && span.gap ? span.work : 0;
		net += known && span.gap ? span.net_s : 0;
	}
	windows = 0;
	for (size_t j = i + 1; j + 1 < c->n && windows < BESIDE; j++) {
		bool known = span_at(c, j, &span);

		windows += span.window;
		work += known && span.gap ? span.work : 0;
		net += known && span.gap ? span.net_s : 0;
	}
	return net > 0 ? work / net : 0;
}

/* A ratio estimate: the sum of y as a multiple of the sum of x. */
struct ratio {
	double x, y, xx, xy, yy;
	size_t n;
};

static void ratio_add(struct ratio *r, double x, double y)
{
	r->x += x;
	r->y += y;
	r->xx += x * x;
	r->xy += x * y;
	r->yy += y * y;
	r->n++;
}

/* Returns the variance of the sum of y, from the sum of (y - ratio * x)^2. */
static double ratio_variance(const struct ratio *r)
{
	double ratio = r->x > 0 ? r->y / r->x : 0;

	if (r->n < 2)
		return INFINITY;
	return fmax(r->yy - 2 * ratio * r->xy + ratio * ratio * r->xx, 0) * (double)r->n /
	       (double)(r->n - 1);
}

/* Returns the relative variance of the rate of bytes, from gap to gap. (The process may read in
 * bursts, for example.) It is assumed that the rate varies as much from window to window. */
static double rate_variance(const struct net_clock *c)
{
	struct ratio bytes = {};
	struct span span;

	for (size_t i = 0; i + 1 < c->n; i++)
		if (span_at(c, i, &span) && span.gap)
			ratio_add(&bytes, span.net_s, span.work);
	return bytes.y > 0 ? ratio_variance(&bytes) / (bytes.y * bytes.y) : INFINITY;
}

/* The net time of windows, computed from the work that was done in them. */
struct by_work {
	double cpu, cost, net; /* seconds */
	double variance;       /* of net */
	size_t n;	       /* windows whose work is known */
};

static struct by_work add_up_work(const struct net_clock *c)
{
	struct by_work ret = {};
	struct ratio net = {};

	for (size_t i = 0; i + 1 < c->n; i++) {
		struct span span;
		double rate;

		if (!span_at(c, i, &span) || !span.window)
			continue;
		rate = rate_around(c, i);
		if (!(rate > 0))
			continue;
		ret.cost += span.cost_s;
		ratio_add(&net, span.cpu_s, span.work / rate);
	}
	ret.cpu = net.x;
	ret.net = net.y;
	ret.n = net.n;
	ret.variance = ratio_variance(&net) +
		       ret.net * ret.net *
			       (rate_variance(c) + NET_CLOCK_WORK_ERROR * NET_CLOCK_WORK_ERROR);
	return ret;
}

/* Do the bytes that the process reads and writes measure its work? They do if, for most of the net
 * time of gaps, there are at least LEAST_RATE bytes per net second. */
static bool works(const struct net_clock *c)
{
	double all = 0, working = 0;
	struct span span;

	for (size_t i = 0; i + 1 < c->n; i++) {
		if (!span_at(c, i, &span) || !span.gap)
			continue;
		all += span.net_s;
		working += span.work >= LEAST_RATE * span.net_s ? span.net_s : 0;
	}
	return working > MOSTLY * all;
}

/* --- waits --- */

/* The time from an edge to the next edge: a window or a gap. */
struct leg {
	double cpu_s, cost_s, net_s, wall_s;
	double busy_s; /* net_s times the mean of net time per wall time, weighted by net time */
	double waits;  /* NaN: not known */
	bool window, gap;
};

/* Sets *ret to all windows and gaps. The caller frees it. Returns their number, or 0 if there is no
 * memory. */
static size_t list_legs(const struct net_clock *c, struct leg **ret)
{
	struct leg *legs = calloc(c->n + 1, sizeof(*legs));
	const struct net_clock_point *from = NULL;
	size_t n = 0;

	for (size_t i = 0; legs && i < c->n; i++) {
		const struct net_clock_point *p = &c->at[i];
		struct leg *leg = &legs[n];

		if (!p->keep)
			continue;
		if (from) {
			*leg = (struct leg){
				.cpu_s = p->cpu_s - from->cpu_s,
				.cost_s = p->cost_s - from->cost_s,
				.net_s = net_between(c, from, p),
				.wall_s = (double)(p->wall_ns - from->wall_ns) * NS,
				.busy_s = p->busy_s - from->busy_s,
				.waits = p->waits >= from->waits ? p->waits - from->waits : NAN,
			};
			leg->window = from->window && leg->cost_s > IN_WINDOWS * leg->cpu_s;
			leg->gap = !from->window && leg->cost_s <= IN_GAPS * leg->cpu_s;
			n++;
		}
		from = p;
	}
	*ret = legs;
	return n;
}

/* Adds up the gaps whose waits are known, up to the BESIDE-th window on either side of a window. */
static struct leg gaps_around(const struct leg *legs, size_t n, size_t window)
{
	struct leg sum = {};

	for (int step = -1; step <= 1; step += 2) {
		int windows = 0;

		for (size_t i = window + step; i < n && windows < BESIDE; i += step) {
			windows += legs[i].window;
			if (!legs[i].gap || isnan(legs[i].waits))
				continue;
			sum.net_s += legs[i].net_s;
			sum.busy_s += legs[i].busy_s;
			sum.waits += legs[i].waits;
		}
	}
	return sum;
}

/* What waits tell about windows. */
struct by_waits {
	bool known;
	bool limits;	    /* are the limits used? */
	double waits, cost; /* in windows; cost in seconds */
	/* limits of F, and their standard errors */
	double least, most, least_error, most_error;
};

/* Returns the standard error of a limit of net time. gaps: the sums over gaps from which the
 * limit's rate is computed. */
static double limit_error(const struct ratio *limit, const struct ratio *gaps)
{
	double squares = NET_CLOCK_WAITS_ERROR * NET_CLOCK_WAITS_ERROR +
			 ratio_variance(gaps) / (gaps->y * gaps->y);

	return sqrt(ratio_variance(limit) + squares * limit->y * limit->y);
}

static struct by_waits add_up_waits(const struct net_clock *c)
{
	struct ratio low = {}, high = {}, waits = {}, busy = {};
	struct by_waits ret = {};
	struct leg *legs;
	size_t n = list_legs(c, &legs);

	for (size_t i = 0; i < n; i++) {
		const struct leg *leg = &legs[i];
		struct leg gaps;

		if (isnan(leg->waits))
			continue;
		if (leg->gap) {
			ratio_add(&waits, leg->net_s, leg->waits);
			ratio_add(&busy, leg->net_s, leg->busy_s);
		}
		if (!leg->window || leg->wall_s > LONGEST)
			continue;
		gaps = gaps_around(legs, n, i);
		if (!(gaps.net_s > 0) || !(gaps.waits > 0))
			continue;
		ret.waits += leg->waits;
		ret.cost += leg->cost_s;
		ratio_add(&low, leg->cpu_s, leg->waits / gaps.waits * gaps.net_s);
		ratio_add(&high, leg->cpu_s, leg->wall_s * gaps.busy_s / gaps.net_s);
	}
	free(legs);
	if (low.n < LEAST_N || waits.n < LEAST_N || ret.waits < LEAST_WAITS ||
	    high.y >= (1 - NET_CLOCK_WAITS_ERROR) * high.x || /* it always has work */
	    low.y < CONFIRMS * high.y)
		return ret;
	ret.known = ret.limits = true;
	ret.least = (high.x - high.y) / ret.cost;
	ret.least_error = limit_error(&high, &busy) / ret.cost;
	ret.most = (low.x - low.y) / ret.cost;
	ret.most_error = limit_error(&low, &waits) / ret.cost;
	return ret;
}

static double normal_below(double z)
{
	return erfc(-z * M_SQRT1_2) / 2;
}

/* Returns the likelihood of F, given the limits that waits set, times a constant. If a limit
 * is wrong, it may be anywhere between 0 and `highest`. So if the limits are close together,
 * probably neither is wrong. */
static double agrees(const struct by_waits *waits, double felt, double highest)
{
	const double off = NET_CLOCK_WAITS_OFF;
	double least, most, by_chance;

	if (!waits->limits)
		return 1;
	least = normal_below((felt - waits->least) / waits->least_error);
	most = normal_below((waits->most - felt) / waits->most_error);
	by_chance = fmin(
		fmax(waits->most - waits->least, hypot(waits->least_error, waits->most_error)) /
			highest,
		1);
	return (1 - off) * (1 - off) * least * most + NET_CLOCK_WAITS_TIMED * least +
	       by_chance * (off * (1 - off) * (least + most) + off * off);
}

/* Returns the number of waits per second of cost, but at most the number of calls per second of
 * cost. (A wait adds to the cost only if a call follows it.) */
static double cold_calls(const struct net_clock *c, const struct by_waits *waits)
{
	return waits->known && c->call_ns > 0
		       ? fmin(waits->waits / waits->cost, 1 / (c->call_ns * NS))
		       : 0;
}

/* --- F --- */

/* Returns the density of F at the distance `miss` from the mean of its prior, up to a
 * constant factor. */
static double density_of_miss(double miss, double error)
{
	double wide = hypot(error, NET_CLOCK_FELT_OFF_ERROR);

	return (1 - NET_CLOCK_FELT_OFF) * exp(-miss * miss / error / error / 2) / error +
	       NET_CLOCK_FELT_OFF * exp(-miss * miss / wide / wide / 2) / wide;
}

/* Finds F and its error from three facts. The first is the prior of F: `before` +-
 * `error`. The second is that the net time of windows is above zero. (Net time = CPU time - F *
 * cost.) The third is what waits tell. Bayes' rule is applied over x = net time / cost. With r =
 * CPU time / cost, F is r - x. By the first fact, F is normal with mean `before` and error `error`
 * or, with the chance NET_CLOCK_FELT_OFF, with a wider error. By the second, x is at least
 * least_net(). Without the other facts, every order of magnitude of x above least_net() is equally
 * likely. */
static void weigh_net(struct net_clock *c, double before, double error,
		      const struct by_waits *waits)
{
	double sum = 0, first = 0, second = 0, least = least_net(c), most, ratio, x,
	       wide = hypot(error, NET_CLOCK_FELT_OFF_ERROR);
	struct span all = all_windows(c);

	c->felt = before;
	c->felt_error = error;
	ratio = all.cost_s > 0 ? all.cpu_s / all.cost_s : INFINITY;
	most = fmax(ratio - before + REACH * wide, wide);
	if (ratio - before > MUCH ||
	    !windowed_has(c->without, PART_LEFT)) /* much net time is left anyway */
		return;
	for (int i = 0; i <= GRID; i++) {
		double weight;

		x = least * pow(most / least, (double)i / GRID);
		weight = density_of_miss(ratio - x - before, error) *
			 agrees(waits, ratio - x, ratio);
		sum += weight;
		first += weight * log(x);
		second += weight * log(x) * log(x);
	}
	x = exp(first / sum);
	c->felt = ratio - x;
	/* the error of F is x times the error of log x, but at most `wide` */
	c->felt_error = fmin(x * sqrt(fmax(second / sum - log(x) * log(x), 0)), wide);
}

/* Estimates F without the net time by work. io: the bytes that the process reads and writes measure
 * its work. */
static void weigh_waits(struct net_clock *c, bool io, const struct by_waits *waits)
{
	double cold = cold_calls(c, waits) * NS,
	       error = fmax(io ? NET_CLOCK_FELT_IO_ERROR : NET_CLOCK_FELT_ERROR,
			    cold * NET_CLOCK_WAIT_ERROR_NS);

	weigh_net(c,
		  fmax(io ? NET_CLOCK_FELT_IO : NET_CLOCK_FELT,
		       NET_CLOCK_FELT + cold * NET_CLOCK_WAIT_NS),
		  hypot(error, c->spread), waits);
}

/* Do the net time by work, and the net time by F, differ by more than `doubt` standard errors? */
static bool differ(const struct net_clock *c, const struct by_work *w, double doubt)
{
	return fabs(w->net - (w->cpu - c->felt * w->cost)) >
	       doubt * hypot(c->felt_error * w->cost, sqrt(w->variance));
}

/* Combines the net time by work with the prior of F. Returns the ratio of the
 * combined net time to the net time that work alone gives; 0: work cannot be used here. */
static double weigh_work(struct net_clock *c)
{
	struct by_waits waits =
		windowed_has(c->without, PART_WAITS) ? add_up_waits(c) : (struct by_waits){};
	struct by_work w = add_up_work(c);
	double before, before_variance, weight, net;
	bool io = works(c);

	weigh_waits(c, io, &waits);
	c->net_error = 0;
	if (!windowed_has(c->without, PART_WORK) || !io || w.n < LEAST_N || !(w.net > 0) ||
	    !isfinite(w.variance))
		return 0;
	if (waits.limits && differ(c, &w, DOUBT_WAITS)) { /* bytes are the better evidence */
		waits.limits = false;
		weigh_waits(c, io, &waits);
	}
	if (differ(c, &w, DOUBT))
		return 0;
	before = w.cpu - c->felt * w.cost;
	before_variance = pow(c->felt_error * w.cost, 2);
	weight = before_variance / (before_variance + w.variance);
	net = weight * w.net + (1 - weight) * before;
	if (net < least_net(c) * w.cpu)
		return 0;
	c->felt = (w.cpu - net) / w.cost;
	c->net_error = sqrt(weight * w.variance) / net;
	return net / w.net;
}

/* Returns the factor that makes the net times of windows add up to the net time that F gives for
 * all windows together. F differs a little between windows. If windows have little net time, some
 * windows seem to have none. These are given the least net time, which makes the sum too large. */
static double excess(const struct net_clock *c)
{
	struct span all = all_windows(c);
	double net = fmax(all.cpu_s - c->felt * all.cost_s, least_net(c) * all.cpu_s);

	return all.net_s > 0 && c->felt > 0 ? net / all.net_s : 1;
}

void net_clock__learn(struct net_clock *c)
{
	double factor, total = 0, share;

	if (c->n < c->learnt + c->learnt / LEARN_EVERY)
		return;
	c->learnt = c->n;
	factor = weigh_work(c);
	share = factor > 0 ? 1 : excess(c);
	for (size_t i = 0; i + 1 < c->n; i++) {
		double rate = 0, net = net_between(c, &c->at[i], &c->at[i + 1]);
		struct span span;

		bool known = span_at(c, i, &span);

		net *= span.window ? share : 1;
		if (factor > 0 && known && span.window)
			rate = rate_around(c, i);
		if (rate > 0) /* avoids a small difference of large numbers */
			net = fmin(factor * span.work / rate, span.cpu_s);
		c->at[i].net_s = total;
		total += net;
	}
	if (c->n)
		c->at[c->n - 1].net_s = total;
}

void net_clock__leave_out(struct net_clock *c, unsigned without)
{
	c->without = without;
	c->learnt = 0;
	net_clock__learn(c);
}
