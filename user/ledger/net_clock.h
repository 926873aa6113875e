/* SPDX-License-Identifier: BSD-2-Clause */
/* A process's net CPU time by wall time: its CPU time less what its probes cost of it. It is the
 * clock by which windows are a sample of a run (profile/windowed.h): who does not run does not
 * allocate, and who is slowed by probes allocates less. */
#ifndef MEMTRACE_LEDGER_NET_CLOCK_H
#define MEMTRACE_LEDGER_NET_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_CLOCK_MAX 4096 /* points between windows */

/* In a window a process feels its probes F times as much as its calls and samples are calibrated to
 * cost. What is known of F before anything is seen of a process, mean and standard error: loops of
 * malloc and free, and caches that do little else, 1.00 to 1.16 in four runs of 5 to 7 windows. One
 * that reads and writes finds the probes' code in no cache after its system calls: by its work
 * redis-server 0.9 to 1.3, nginx 1.4 to 1.7, memcached 2.4 to 2.7 times (docs/windows.md). Where
 * probes take most of the CPU time, what is left of it is hardly known by that. */
#define NET_CLOCK_FELT		1.1
#define NET_CLOCK_FELT_ERROR	0.08
#define NET_CLOCK_FELT_IO	1.5
#define NET_CLOCK_FELT_IO_ERROR 0.5
/* With this chance F is as much as that off: on a virtual machine on which a trap takes 6 us (page
 * table isolation), and of whose two CPUs the one slows the other, calibration said 6 to 10 us, and
 * the same loops and caches had 0.59 to 1.29 in 26 runs. */
#define NET_CLOCK_FELT_OFF	 0.2
#define NET_CLOCK_FELT_OFF_ERROR 0.25

/* A call of an allocator, and what its caller does with the block, take at least so much,
 * nanoseconds: a loop of malloc and free that does nothing else takes 3 to 5 for each call
 * (docs/overhead.md), one that does anything three times that. So however little is left of a
 * window's CPU time by what is known of its cost, net time is so much for each call. */
#define NET_CLOCK_CALL_NS 15

/* WORK. A process that reads and writes tells what it gets done, probed or not: the bytes that go
 * through its system calls (rchar + wchar of /proc/PID/io) are to its net time in a window as they
 * are in the gaps around it, r. So of windows with CPU time c_i, cost p_i and w_i bytes
 *
 *	net = sum of w_i / r_i,		F = (sum of c_i - net) / sum of p_i,
 *
 * a ratio estimator with its spread between windows, and that of r between gaps, for its error
 * (Cochran, Sampling Techniques, 3rd ed., chapter 6). It is weighed against what was known before,
 * by inverse variances; further away than three standard errors it is not believed: bytes that go
 * by the wall clock say F = 0, which nothing that is slowed can be. Where it is believed, windows
 * have net time as they have bytes. */
#define NET_CLOCK_WORK_ERROR 0.05 /* how well bytes stand for work at best, relative */

struct net_clock {
	struct net_clock_point {
		uint64_t wall_ns;	     /* monotonic */
		double net_s, cpu_s, cost_s; /* since the first point */
		double work;		     /* bytes, total; NaN: not known */
		bool keep;		     /* it is an edge */
		bool window;		     /* a window goes on from here */
	} * at;				     /* ascending in each field but work */
	size_t n, room;
	double cpu_ns, cost_ns; /* totals of the first point */
	/* points that are closer than that are one, but for those that must be kept */
	uint64_t apart_ns;
	size_t n_free;		 /* points that need not be kept */
	size_t learnt;		 /* points when F was looked for last */
	double felt, felt_error; /* F, and its error before work tells; 0: NET_CLOCK_FELT */
	double net_error;	 /* standard error of the net time of windows, relative: by work; 0:
				  * by F's error alone */
	unsigned without;	 /* parts of the model that are left out: profile/parts.h */
	/* net time in units of the cost at least; 0: a fiftieth */
	double least;
	double spread; /* of what calls were calibrated to, relative */
};

/* call_ns: what a call is calibrated to cost, 0: not known; spread: how much that goes up and down
 * on this machine, relative, a standard deviation. All zero: as if both were not known. */
void net_clock__init(struct net_clock *clock, double call_ns, double spread);

void net_clock__free(struct net_clock *clock);

enum net_clock_edge {
	NET_CLOCK_NONE,
	NET_CLOCK_BEGINS, /* a window, */
	NET_CLOCK_ENDS,	  /* and its end */
};

/* The totals at a moment: CPU time and cost, nanoseconds; work, bytes, NaN where it is not known.
 * What comes next does not take the place of an edge. A total of time that steps back counts as if
 * it stood still, one of work as not known. Of NET_CLOCK_MAX points that are no edges every second
 * one goes. 0 or -ENOMEM. */
int net_clock__add(struct net_clock *clock, uint64_t wall_ns, double cpu_ns, double cost_ns,
		   double work, enum net_clock_edge edge);

/* Finds F from what is known so far, and reckons all net time by it from now on. Of a long run, not
 * each time. */
void net_clock__learn(struct net_clock *clock);
/* The same without these parts of the model (profile/parts.h), at once. */
void net_clock__leave_out(struct net_clock *clock, unsigned without);

/* Net seconds then, linear between points, constant beyond them; of cost likewise. */
double net_clock__at(const struct net_clock *clock, uint64_t wall_ns);
double net_clock__cost_at(const struct net_clock *clock, uint64_t wall_ns);

/* Net seconds between two moments that lie in no window. */
double net_clock__outside(const struct net_clock *clock, uint64_t from_ns, uint64_t to_ns);

/* Standard error of so many net seconds of windows, relative, of their logarithm where it is large,
 * NET_CLOCK_MOST_ERROR at most; cost_s: what probes cost in them. */
#define NET_CLOCK_MOST_ERROR 2

double net_clock__error(const struct net_clock *clock, double net_s, double cost_s);

#endif
