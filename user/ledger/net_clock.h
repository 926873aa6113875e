/* SPDX-License-Identifier: BSD-2-Clause */
/* A process's net CPU time by wall time: its CPU time less what its probes cost of it. It is the clock by which windows
 * are a sample of a run (profile/windowed.h): who does not run does not allocate, and who is slowed by probes
 * allocates less. */
#ifndef MEMTRACE_LEDGER_NET_CLOCK_H
#define MEMTRACE_LEDGER_NET_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_CLOCK_MAX 4096

/* In a window a process feels its probes so many times as much as calls are calibrated to cost, give or take one standard
 * error: loops of malloc and free 1.05 to 1.1 times, redis-server up to 1.5 times (docs/windows.md). */
#define NET_CLOCK_FELT	     1.25
#define NET_CLOCK_FELT_ERROR 0.15

struct net_clock {
	struct net_clock_point {
		uint64_t wall_ns;	/* monotonic */
		double net_s, cpu_s, cost_s;	/* since the first point */
		bool keep;		/* as given */
	} *at; /* ascending in each field */
	size_t n, room;
	double cpu_ns, cost_ns; /* totals of the first point */
	uint64_t apart_ns; /* points that are closer than that are one, but for those that must be kept */
};

void net_clock__free(struct net_clock *clock);

/* The totals at a moment: CPU time and cost, nanoseconds. keep: it is the beginning or end of a window, of which
 * what comes next must not take the place. A total that steps back counts as if it stood still. When there are
 * NET_CLOCK_MAX points every second one goes. 0 or -ENOMEM. */
int net_clock__add(struct net_clock *clock, uint64_t wall_ns, double cpu_ns, double cost_ns, bool keep);

/* Net seconds then, linear between points, constant beyond them; of cost likewise. */
double net_clock__at(const struct net_clock *clock, uint64_t wall_ns);
double net_clock__cost_at(const struct net_clock *clock, uint64_t wall_ns);

#endif
