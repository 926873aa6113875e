/* SPDX-License-Identifier: BSD-2-Clause */
/* A process's net CPU time as a function of wall time: its CPU time minus the cost of its probes.
 * In net time, windows are a sample of a run (profile/windowed.h). (A process that does not run
 * does not allocate, and a process that is slowed down by probes allocates less.) */
#ifndef MEMTRACE_LEDGER_NET_CLOCK_H
#define MEMTRACE_LEDGER_NET_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_CLOCK_MAX 4096 /* at most this many points that are not edges of windows */

/* Calibration tells what a process's calls and samples should cost. In a window, the probes really
 * cost the process F times as much. These constants are the mean and standard deviation of the
 * prior of F. Loops of malloc and free, and caches that do little else, had an F of 1.00 to 1.16 in
 * four runs of 5 to 7 windows. After system calls, the probes' code is in no CPU cache, so F may be
 * larger for a process that reads and writes. Its work (WORK below) shows which F it has. F was 0.9
 * to 1.3 for redis-server, 1.4 to 1.7 for nginx, and 2.4 to 2.7 for memcached (docs/windows.md).
 * Net time is CPU time minus the cost of probes. If this cost is most of the CPU time, net time
 * remains uncertain even if F is known this exactly. */
#define NET_CLOCK_FELT		1.1
#define NET_CLOCK_FELT_ERROR	0.08
#define NET_CLOCK_FELT_IO	1.5
#define NET_CLOCK_FELT_IO_ERROR 0.5
/* When a thread comes back from a wait, the probes' code and data are in no CPU cache, either. So
 * each wait adds this much to the cost of probes, in nanoseconds, with this standard deviation. In
 * a measurement with 1 to 64 pairs of calls after each wait, the cost of probes per wait was
 * between 1,600 ns below and 6,800 ns above the calibrated cost (docs/windows.md). */
#define NET_CLOCK_WAIT_NS	3000
#define NET_CLOCK_WAIT_ERROR_NS 3000
/* The probability that F has a further error, and the standard deviation of this error. One virtual
 * machine has traps of 6 us (page table isolation), and two CPUs that slow each other. There, the
 * calibrated cost of a call was 6 to 10 us, and F was 0.59 to 1.29 for the same loops and caches in
 * 26 runs. */
#define NET_CLOCK_FELT_OFF	 0.2
#define NET_CLOCK_FELT_OFF_ERROR 0.25

/* The least time in nanoseconds of an allocator call, together with what its caller does with the
 * block. A loop of malloc and free that does nothing else takes 3 to 5 ns for each call
 * (docs/overhead.md). A loop that does something with the block takes three times as long. Net time
 * is at least this much for each call, even if the estimated cost leaves less of a window's CPU
 * time. */
#define NET_CLOCK_CALL_NS 15

/* WORK. The bytes that go through a process's system calls (rchar + wchar of /proc/PID/io) show how
 * much work it does, with or without probes. The ratio r of these bytes to net time is the same in
 * a window as in the gaps around it. So for windows with CPU time c_i, cost p_i and w_i bytes,
 *
 *	net = sum of w_i / r_i,		F = (sum of c_i - net) / sum of p_i,
 *
 * which is a ratio estimator. Its error comes from the spread of F between windows, and from the
 * spread of r between gaps (Cochran, Sampling Techniques, 3rd ed., chapter 6). The estimate is
 * combined with the prior of F, weighted by inverse variances. If the estimate differs from the
 * prior by more than three standard errors, it is not used. For example, a process may read and
 * write by a timer. Then its bytes give F = 0, which is impossible for a process that is slowed
 * down by probes. If the estimate is used, net time is divided among windows by their bytes. */
#define NET_CLOCK_WORK_ERROR 0.05 /* the least relative error of bytes as a measure of work */

/* WAITS. How often a process's threads wait (voluntary context switches) limits the net time of a
 * window from below, and the wall clock limits it from above. Let r be the waits per net second in
 * the gaps around the window, and u the net seconds per wall second there. A window of d wall
 * seconds with s waits then has a net time
 *
 *	s / r <= net <= u * d.
 *
 * The lower limit: if probes slow a process down, more work has come in when the process comes back
 * from a wait. So it waits less often for the same work. If it always has work, it does not wait at
 * all, and the limit is 0. The upper limit: the amount of work that comes in per second does not
 * grow when probes slow a process down. The probability that a window begins is proportional to CPU
 * time. So u is a mean weighted by net time, not by wall time. Both limits are sums over windows,
 * with errors as for WORK.
 *
 * A process that waits for locks breaks the lower limit, because slower calls hold locks for
 * longer. A process with short bursts breaks the upper limit, because all windows are in its
 * bursts. So each limit may be wrong, with the probability NET_CLOCK_WAITS_OFF. A wrong limit may
 * be anywhere. Two limits are rarely close together by chance. If they are far apart, bursts may
 * have made the upper limit wrong, so neither limit is used. If threads wait by a timer, the lower
 * limit equals the upper limit by construction. NET_CLOCK_WAITS_TIMED is the probability that such
 * waits outnumber those for work. If the process uses as much CPU time per second in gaps as in
 * windows, it always has work, and the limits say nothing. */
#define NET_CLOCK_WAITS_ERROR 0.15 /* the least relative error of either limit */
#define NET_CLOCK_WAITS_OFF   0.05
#define NET_CLOCK_WAITS_TIMED 0.005

struct net_clock {
	struct net_clock_point {
		uint64_t wall_ns;	     /* monotonic */
		double net_s, cpu_s, cost_s; /* since the first point */
		double work;		     /* bytes, total; NaN: not known */
		double waits; /* total, at edges; NaN: not known, or threads began or ended */
		/* net time squared / wall time, summed over the intervals from point to point since
		 * the first point. Points that are removed later stay in this sum */
		double busy_s;
		bool keep;   /* the point is an edge of a window (its beginning or end): never
			      * removed */
		bool window; /* a window lasts from this point to the next */
	} * at;		     /* ascending in time, CPU time and cost */
	size_t n, room;
	double cpu_ns, cost_ns; /* totals of the first point */
	/* points closer together than this are merged, except for points with `keep` */
	uint64_t apart_ns;
	size_t n_free;		 /* points without `keep` */
	size_t learnt;		 /* number of points when F was last estimated */
	double felt, felt_error; /* F (0: NET_CLOCK_FELT), and the error of F if work is not used */
	double net_error;	 /* relative standard error of the net time of windows, from work;
				  * 0: work is not used, only F's error */
	unsigned without;	 /* parts of the model that are left out: profile/parts.h */
	double call_ns;		 /* calibrated cost of a call; 0: not known */
	/* least ratio of net time to cost; 0: not known, so a fiftieth is used */
	double least;
	double spread; /* relative spread of the calibrated cost of calls */
};

/* call_ns: the calibrated cost of a call; 0: not known. spread: the relative standard deviation of
 * that cost on this machine. In an all-zero clock, neither is known. */
void net_clock__init(struct net_clock *clock, double call_ns, double spread);

void net_clock__free(struct net_clock *clock);

enum net_clock_edge {
	NET_CLOCK_NONE,
	NET_CLOCK_BEGINS, /* a window begins */
	NET_CLOCK_ENDS,	  /* a window ends */
};

/* Adds the totals at a moment. work: in bytes; NaN if not known. A later point never replaces an
 * edge. A point that is not later than the last one is ignored. If a total of time decreases, it
 * counts as unchanged. If the total of work decreases, the work since the last point is not known.
 * When there are NET_CLOCK_MAX points that are not edges, every second one of them is removed. 0 or
 * -ENOMEM. */
int net_clock__add(struct net_clock *clock, uint64_t wall_ns, double cpu_ns, double cost_ns,
		   double work, enum net_clock_edge edge);

/* Notes how often the process has waited up to the last point, which is an edge. NaN: not known. */
void net_clock__note_waits(struct net_clock *clock, double waits);

/* Adds a point with the totals of the last one, because the process has used no CPU time since.
 * 0 or -ENOMEM. */
int net_clock__rest(struct net_clock *clock, uint64_t wall_ns);

/* Returns the time of the first edge in [from_ns, until_ns); 0: there is none. kind:
 * NET_CLOCK_ENDS, or NET_CLOCK_NONE for any edge. */
uint64_t net_clock__edge_ns(const struct net_clock *clock, enum net_clock_edge kind,
			    uint64_t from_ns, uint64_t until_ns);

/* Removes the points between from_ns and to_ns of each range, except the clock's first and last
 * point. The ranges are ascending. A window whose points are removed counts as a part of the gap
 * around it. */
struct net_clock_range {
	uint64_t from_ns, to_ns;
};

void net_clock__forget(struct net_clock *clock, const struct net_clock_range *ranges, size_t n);

/* Exchanges a stretch of continuous tracing, [from_ns, to_ns], and the gap after it, [to_ns,
 * until_ns]. The gap then comes first. The totals that the process used in the stretch and in the
 * gap stay the same. After the swap, the stretch ends where the next stretch begins, so the two
 * stretches can be counted as one. Removes the points from open_ns (<= from_ns) up to the edge
 * where the next stretch begins, except the clock's first point. Adds one point, an edge, where the
 * gap ends now.
 *
 * The swaps are ascending. A swap may move a stretch that the swap before it has already moved.
 * Then its from_ns is net_clock_swap__begin_ns() of the swap before it. 0, or -ENOMEM; after
 * -ENOMEM, nothing has changed. */
struct net_clock_swap {
	uint64_t open_ns, from_ns, to_ns, until_ns;
};

static inline uint64_t net_clock_swap__begin_ns(const struct net_clock_swap *swap)
{
	return swap->until_ns - (swap->to_ns - swap->from_ns);
}

int net_clock__swap(struct net_clock *clock, const struct net_clock_swap *swaps, size_t n);

/* Estimates F from all points so far. From then on, all net time is computed with this F. In a long
 * run, only some calls make a new estimate. */
void net_clock__learn(struct net_clock *clock);
/* Leaves out these parts of the model (profile/parts.h) and estimates F anew, at once. */
void net_clock__leave_out(struct net_clock *clock, unsigned without);

/* Returns the net time, or the cost, at that moment, in seconds: linear between points, constant
 * beyond them. */
double net_clock__at(const struct net_clock *clock, uint64_t wall_ns);
double net_clock__cost_at(const struct net_clock *clock, uint64_t wall_ns);

/* Returns how many of the net seconds between two moments lie outside of windows. */
double net_clock__outside(const struct net_clock *clock, uint64_t from_ns, uint64_t to_ns);

/* Returns the relative standard error of net_s net seconds of windows, at most
 * NET_CLOCK_MOST_ERROR. Where this error is large, it is the error of the logarithm. cost_s: what
 * probes cost in these windows. */
#define NET_CLOCK_MOST_ERROR 2

double net_clock__error(const struct net_clock *clock, double net_s, double cost_s);

#endif
