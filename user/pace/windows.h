/* SPDX-License-Identifier: BSD-2-Clause */
/* Decides when a process is traced, so that tracing costs the process no more than a share of its
 * CPU time. If tracing the process all the time costs no more than that, it is traced all the time.
 * Otherwise it is traced in short windows. This file is arithmetic alone; the caller places and
 * removes the probes.
 *
 * Cost is the number of hits of probes times the calibrated cost of a hit. While probes are in
 * place, cost grows at a rate that depends on the program: c ns per ns of its CPU time. If c is
 * no more than the share allowed for continuous tracing (`steady`), tracing is continuous.
 * Otherwise there are windows, and gaps in which the process's CPU time pays for the windows.
 * Windows may cost the share b. The debt is D = (cost so far) - b * (CPU time so far). The debt is
 * checked several times a second, and decides when the next window comes. This moment cannot be
 * predicted, because a process may be busy, idle or stopped at any time.
 *
 * The length of windows is chosen so that a window comes about every second, but this length has
 * limits. With very short windows, most of the time would go into opening and closing, while few
 * probes are in place. So the mean length of windows is at least a fifth of the time that opening
 * and closing take. A very long window would hold the process up noticeably. The precision of a run
 * depends more on the number of windows than on their length. When the least length was lowered
 * from 12 ms to 6, loops of malloc had 9 to 11 windows in 20 s instead of 3 to 8, at the same cost.
 * The length is drawn uniformly between 0.5 and 1.5 of its mean.
 *
 * A process may be busier in a window than before it. So a long window is checked several times,
 * and ends once it has cost OVERSPENT times its expected cost. This makes windows in busy times
 * shorter than other windows, so busy times count for less than they should. Because of that,
 * OVERSPENT is large. So a window ends early if the process begins to work in it, but not if the
 * process works somewhat more than before.
 *
 * Felt cost. In windows a process loses more time than its calls cost by calibration. The kernel's
 * code is in no CPU cache when a call needs it, and placing and removing probes holds the process
 * up. A program ran traced, and beside it the same program untraced (docs/overhead.md). This gave a
 * ratio: lost throughput divided by calibrated cost, both as shares of CPU time. For loops of
 * malloc and free, the ratio is 1.0 to 1.3 in windows (mean 1.2), and 1.03 to 1.09 while tracing is
 * continuous. So the calibrated cost of windows is multiplied by WINDOWS_FELT, in the debt and in
 * printed figures (felt_ns). If the process itself has shown another ratio, that ratio is used
 * (windows__feel()). For nginx it was 1.4 to 1.7.
 *
 * Touched requests. A request to a server takes longer while a window is open: with redis-server
 * three times as long. When windows took 1.4 % of the time, they cost redis-server only 1 %, but
 * the requests in windows determined the 99th percentile of its request times. So a window in which
 * probes take more than a quarter of the CPU time is charged more. CPU time pays for windows, and
 * so may idle time ("Light work" below). Let T be the time that pays in a gap as long as this
 * window. The window is charged at least T. (The gap itself pays only b times T.) Then at a limit
 * of 1 % windows take one hundredth of the time, and one request in a hundred is touched. (Where
 * probes take less, requests hardly take longer, and windows may be longer.)
 *
 * Light work. A process that uses a tenth of a core, and is slowed by a factor of twenty in a
 * window, uses all of a core in the window. Suppose that only its own CPU time paid for windows.
 * Then there would be one window in fifteen seconds at a limit of 1 %, and one request in a
 * thousand would be touched. So if the machine left a core idle for longer than the CPU time of the
 * process, this idle time pays instead of the CPU time. Then windows take one hundredth of the time
 * and cost no more than one hundredth of a core. They touch one request in a hundred, as with a
 * process that always works. But idle time counts only up to LIGHT times the process's CPU time. So
 * a process cannot save up budget in a long idle time for windows in the work that follows. On a
 * machine without idle time, windows cost one hundredth of the process's own CPU time, and touch
 * fewer requests.
 *
 * Gaps. Let C be what a window is expected to add to the debt. The gap behind window k ends when
 * the process has worked off
 *
 * 	x_k = m_k e_k,	m_k = C + (D_k + C) / 2,
 *
 * where D_k is the debt when the window has closed. e_k is exponential with mean 1, truncated at 4
 * and scaled to have mean 1 again. So gaps of every length occur. Then, for every age, some blocks
 * have this age while a later window is open, and that window shows which of them end. (If gaps
 * were uniform in 0.5 to 1.5 of their mean, no window would be open when a block has an age between
 * a window's length and half the mean gap. So frees at these ages would never be seen.)
 *
 * Why the cost stays within the limit. E[D_k+1 + C] = E[D_k + C - m_k + C] = E[D_k + C] / 2. So the
 * difference between the debt and -C is halved from window to window, whatever its cause (chance, a
 * wrong C, a process that has changed). The variance of the debt obeys V = V/4 + (C^2 + V/4)
 * var(e), var(e) < 1, so V < 2 C^2. (V is smallest with the factor 1/2 in m_k. With 1, each gap
 * would work off the whole debt: then E[(1 - e)^2] = 1, and V has no bound.) The debt is bounded
 * and the cost grows with the CPU time, so cost / CPU time goes to b.
 *
 * Paid in advance. A window is opened only when D + C <= 0. Here C is the expected cost of this
 * very window, whose length is drawn when the gap begins. So the limit holds whenever the run ends,
 * even right after a window. That is why the debt stays near -C and not near 0: after most windows
 * the budget would pay for another window at once. In simulations, the quantiles of gaps differ
 * from those of exponential gaps by at most a tenth of the mean, up to the 90 % quantile. Only the
 * first window is not paid for in advance: it shows what windows cost.
 *
 * Idle processes. Continuous tracing of a process that is mostly idle may cost the share `steady`
 * of one core, if the machine has idle time for that. Such a process costs little, and windows
 * would see little of it. (A process that waits for a CPU is not idle. `spare` and `sleeps` show
 * the difference.) For idle processes there is a second account, in which wall time pays, too
 * (idle_debt_ns). The debt of this account is the cost minus `steady` times U. U is the CPU time
 * or, if that is longer, the wall time in which the process slept or the machine had a core idle.
 *
 * A gap ends at once and continuous tracing begins, even if windows are not paid for yet, under two
 * conditions. First, for a while the process has used so little CPU time that continuous tracing
 * would have kept its limit. (Windows have shown what tracing costs for each ns of the process's
 * own CPU time. A Python service that uses a twentieth of a core would use a whole core while it is
 * traced.) Second, the debt of the second account is not above 0. A process with two cheap windows
 * in a row is traced continuously, too. If continuous tracing proves too expensive within
 * LASTING_NS, the delay to the next attempt doubles. So in a program that works in bursts,
 * continuous tracing ends soon after a burst begins.
 *
 * Favour. A process may get a larger budget for some time (windows__favour()). Its windows then
 * keep their length and come more often, because the precision depends on their number.
 *
 * Samples. If continuous tracing is too expensive because of its samples, they are first put
 * farther apart (thinning.h). */
#ifndef MEMTRACE_PACE_WINDOWS_H
#define MEMTRACE_PACE_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "pace/thinning.h"

#define WINDOWS_FELT	  1.2
#define WINDOWS_FELT_MOST 3
/* Placing probes holds the process up. For this time afterwards, the process makes up for the
 * delay. Only then does the window begin. Calls in this time are not counted, but their cost is
 * part of the window's cost. */
#define WINDOWS_SETTLE_NS 3000000

enum windows_action {
	WINDOWS_NONE,
	WINDOWS_OPEN,  /* put the probes in place */
	WINDOWS_CLOSE, /* remove the probes */
};

struct windows {
	double budget; /* share of CPU time for windows, 0..1; 0: no limit */
	double steady; /* share of CPU time for continuous tracing; no less than `budget` */
	double spare;  /* the share of one core that is idle on the machine, 0..1; the caller sets
		        * it */
	bool sleeps;   /* no thread of the process runs or waits for a CPU now; the caller sets it
			* in gaps */
	/* part of the total cost that samples took; the caller sets it before each call to which it
	 * passes totals */
	double samples_ns;
	struct thinning thinning; /* how far apart samples are to be while tracing is continuous */
	uint64_t random;	  /* state of the generator */
	bool open, continuous;
	uint64_t next_ns; /* when to call windows__step() again */
	uint64_t end_ns;  /* when the open window ends, unless it costs too much before */
	double scale;	  /* factor of lengths and gaps, 1 except in tests */
	double often;	  /* windows come this many times as often as usual: windows__favour() */
	/* Time and totals at the last change. */
	uint64_t since_ns;
	double cost_ns, cpu_ns, since_samples_ns;
	/* Learnt. */
	double debt_ns; /* (cost so far) - (budget so far); negative: budget is left */
	/* in continuous tracing: the debt from before the sampling interval became coarser. It does
	 * not count against the new interval */
	double borne_ns;
	double open_at_ns;   /* the debt at which the next window comes */
	double idle_debt_ns; /* the second account: "Idle processes" above */
	double felt;	     /* felt cost of windows / their calibrated cost */
	double cost_rate;    /* felt cost per wall ns in a window, smoothed; 0: not known */
	double used_rate;    /* CPU time per wall ns in a window, smoothed */
	double edge_cost_ns; /* what opening and closing add to a window's cost, smoothed: some
			      * probes are in place meanwhile */
	double edge_ns;	     /* time that opening and closing take, smoothed */
	double opening_cost_ns, opening_ns;
	double cpu_rate;  /* CPU time per wall ns between windows, smoothed */
	double length_ns; /* mean length of windows at present */
	double stretch;	  /* length of the next window / length_ns: drawn in advance */
	/* Attempts at continuous tracing. */
	bool attempt;			  /* this continuous tracing began as an attempt */
	uint64_t idle_since_ns;		  /* in a gap: since then the process has used almost no CPU
					   * time */
	uint64_t attempt_ns, back_off_ns; /* last attempt; delay to the next one */
	unsigned n_cheap; /* windows in a row so cheap that tracing could be continuous */
	/* For reports. */
	uint64_t n_windows, windows_ns, continuous_ns;
	double windows_cost_ns; /* calibrated cost of windows and their edges */
	double felt_ns;		/* felt cost of windows minus windows_cost_ns */
};

struct windows_rates {
	double cost, cpu; /* calibrated cost, and CPU time, per wall ns */
};

/* Begins the first window, which decides if tracing is continuous. Its probes are in place.
 * cost_ns, cpu_ns: the process's totals so far, of calibrated cost and of CPU time. */
void windows__begin(struct windows *windows, double budget, double steady, uint64_t seed,
		    uint64_t now_ns, double cost_ns, double cpu_ns);

/* For tests: a window comes about every period_ns, and windows are shorter in proportion. Call it
 * right after windows__begin(). */
void windows__set_period(struct windows *windows, uint64_t period_ns);

/* From now on windows may cost the share `budget`, and continuous tracing the share `steady`. A
 * `steady` below `budget` counts as `budget`. Windows are as long as before, and come more often,
 * or less often, by the ratio of the new budget to the old one. The debt stays the same. Nothing
 * changes where there is no limit. budget: more than 0. */
void windows__favour(struct windows *windows, double budget, double steady);

/* Call it at next_ns or later, with the totals at now_ns. Returns what is to be done; after it is
 * done, call windows__done(). */
enum windows_action windows__step(struct windows *windows, uint64_t now_ns, double cost_ns,
				  double cpu_ns);

/* Returns the upper limit of the next window's length, ns, by the costs known so far. */
double windows__longest_ns(const struct windows *windows);

/* Notes that the open window begins `ns` later than was planned. The window keeps its length. */
void windows__delay(struct windows *windows, uint64_t ns);

/* Notes that the action is done, at now_ns. cost_ns, cpu_ns: the totals then. */
void windows__done(struct windows *windows, enum windows_action action, uint64_t now_ns,
		   double cost_ns, double cpu_ns);

/* Notes that the process's probes are removed. What was planned here does not count, because
 * another file (host.h) decides when this process is traced. now_ns: may be in the past, if the
 * probes were removed earlier. cost_ns, cpu_ns: the totals at now_ns, or later ones. recent: recent
 * cost and CPU time per wall ns. They replace the rates that were learnt before. NULL: the rates
 * are learnt from the time since the last change. In this case cost_ns and cpu_ns should be the
 * totals at now_ns. If the probes were out already, no rates are learnt. windows__step() opens the
 * next window when it can be paid for. */
void windows__cut(struct windows *windows, uint64_t now_ns, double cost_ns, double cpu_ns,
		  const struct windows_rates *recent);
/* Notes that the process's probes are in place now, until windows__cut(). cost_ns, cpu_ns: the
 * totals now. */
void windows__hold(struct windows *windows, uint64_t now_ns, double cost_ns, double cpu_ns);

/* Notes that the window that was opened last does not count, for example because the process has
 * ended before its probes had settled. */
void windows__withdraw(struct windows *windows);

/* Notes that the felt cost of the process's windows is `felt` times their calibrated cost. felt_ns
 * is corrected for all windows, past ones included. The debt changes by the difference, but by at
 * most the cost of one window. A factor below WINDOWS_FELT counts as WINDOWS_FELT, and a factor
 * above WINDOWS_FELT_MOST as WINDOWS_FELT_MOST. */
void windows__feel(struct windows *windows, double felt);

/* Ends the last window or continuous tracing, if there is one, at the end of the run. Were the
 * probes in place? */
bool windows__end(struct windows *windows, uint64_t now_ns);

#endif
