// SPDX-License-Identifier: BSD-2-Clause
#include "ledger/net_clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define NS 1e-9
#define APART_NS 200000000ULL
#define LEAST_NET 0.02

void net_clock__free(struct net_clock *c)
{
	free(c->at);
	*c = (struct net_clock){};
}

static int reserve(struct net_clock *c)
{
	size_t room = c->room ? 2 * c->room : 64, kept = 0;
	struct net_clock_point *at;

	if (c->n == NET_CLOCK_MAX) {
		for (size_t i = 0; i < c->n; i += 2)
			c->at[kept++] = c->at[i];
		c->at[kept - 1] = c->at[c->n - 1];
		c->n = kept;
		c->apart_ns *= 2;
	}
	if (c->n < c->room)
		return 0;
	at = reallocarray(c->at, room, sizeof(*at));
	if (!at)
		return -ENOMEM;
	c->at = at;
	c->room = room;
	return 0;
}

/* From one moment to a later one. What probes cost is known to a tenth or so: where it is nearly all of the CPU time, a
 * little of that is the process's own in any case. */
static double net_between(const struct net_clock_point *from, const struct net_clock_point *to)
{
	double cpu = to->cpu_s - from->cpu_s;

	return fmax(cpu - NET_CLOCK_FELT * (to->cost_s - from->cost_s), LEAST_NET * cpu);
}

int net_clock__add(struct net_clock *c, uint64_t wall_ns, double cpu_ns, double cost_ns, bool keep)
{
	struct net_clock_point point = {.wall_ns = wall_ns, .keep = keep}, *last = c->n ? &c->at[c->n - 1] : NULL;
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
	/* between two that are near to each other the clock is a straight line anyway */
	if (!keep && c->n > 1 && wall_ns - c->at[c->n - 2].wall_ns < c->apart_ns && !last->keep)
		c->n--;
	rc = reserve(c);
	if (rc)
		return rc;
	point.net_s = c->n ? c->at[c->n - 1].net_s + net_between(&c->at[c->n - 1], &point) : 0;
	c->at[c->n++] = point;
	return 0;
}

static double between(const struct net_clock *c, uint64_t wall_ns, bool cost)
{
	size_t low = 0, high = c->n;
	const struct net_clock_point *a, *b;
	double share, from, to;

	if (!c->n)
		return 0;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (c->at[middle].wall_ns <= wall_ns)
			low = middle;
		else
			high = middle;
	}
	a = &c->at[low];
	b = low + 1 < c->n ? a + 1 : a;
	from = cost ? a->cost_s : a->net_s;
	to = cost ? b->cost_s : b->net_s;
	if (b == a || wall_ns <= a->wall_ns)
		return from;
	share = (double)(wall_ns - a->wall_ns) / (double)(b->wall_ns - a->wall_ns);
	return from + (to - from) * share;
}

double net_clock__at(const struct net_clock *c, uint64_t wall_ns)
{
	return between(c, wall_ns, false);
}

double net_clock__cost_at(const struct net_clock *c, uint64_t wall_ns)
{
	return between(c, wall_ns, true);
}
