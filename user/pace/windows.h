/* SPDX-License-Identifier: BSD-2-Clause */
/* When a process is traced, so that tracing costs it no more than a share of its CPU time: always,
 * when that fits; else in short windows. Arithmetic alone; the caller opens and closes the probes.
 *
 * Cost is what the probes hit have cost, by calibration. While probes are in place it accrues at a
 * rate that depends on the program: c ns per ns of its CPU time. The share allowed is b. If c is no
 * more than the share for continuous tracing (steady), tracing is continuous. Else there are
 * windows, and gaps in which the process works off what the windows cost. The debt D, cost so far
 * less b times CPU time so far, decides. No prediction does, for a process may be busy, idle or
 * stopped at any time. The debt is looked at several times a second.
 *
 * Windows are so long that one comes about every second, within limits. Shorter ones would be
 * mostly opening and closing, during most of which few probes are in place: a window is no shorter
 * than a fifth of the time that these take. Longer ones would be a stall of their own. What a run
 * tells depends on the number of windows more than on their length: with 6 ms at least instead of
 * 12, loops of malloc had 9 to 11 windows in 20 s for the same price, instead of 3 to 8. The length
 * is uniform within half of its mean to either side.
 *
 * Felt cost. In windows a process feels more than its calls are calibrated to cost: they find the
 * kernel's code in no cache, and probes that come and go hold the process up. Lost throughput
 * divided by calibrated cost, both as shares of CPU time, was measured beside an untraced twin
 * (docs/overhead.md). It is 1.0 to 1.3, mean 1.2, for loops of malloc and free; 1.03 to 1.09 while
 * tracing is continuous. So what windows cost counts WINDOWS_FELT times, in the debt and in what is
 * printed (felt_ns), or as many times as the process itself has shown (windows__feel(): nginx 1.4
 * to 1.7).
 *
 * Touched requests. A request to a server takes longer while a window is open: with redis-server
 * three times as long. Windows of 1.4 % of the time cost it 1 %, and the requests in them are its
 * p99. So where probes take more than a quarter of a process's CPU time in windows, the limit holds
 * for all of its CPU time in windows, not only for what probes take. Then at a limit of 1 one
 * request in a hundred is touched. (Where probes take less, requests hardly take longer, and
 * windows may be longer.)
 *
 * Light work. A process that uses a tenth of a core and is slowed twenty times in a window uses all
 * of a core there. If its own CPU time alone paid for that, there would be one window in fifteen
 * seconds at a limit of 1, and one request in a thousand would be touched. So the part of a core
 * that the process did not want pays as well, as far as the machine has that idle. Then windows
 * take one hundredth of the time, no more of a core, and touch one request in a hundred, as with a
 * process that always works. But no more than LIGHT times its CPU time pays: a silent process earns
 * nothing for windows in the work that comes afterwards.
 *
 * Gaps. Let C be what a window is expected to add to the debt. The gap behind window k ends when
 * the process has worked off
 *
 *	x_k = m_k e_k,	m_k = C + (D_k + C) / 2,
 *
 * D_k being the debt when the window has closed, and e_k exponential with mean 1, truncated at 4
 * and scaled to have mean 1 again. So gaps of every length occur: whatever the age at which blocks
 * die, some of them die just in front of a window's opening. (Gaps uniform in 0.5 to 1.5 of their
 * mean leave a hole: no death at an age between one window's length and half a gap was ever seen.)
 *
 * Why the limit is kept. E[D_k+1 + C] = E[D_k + C - m_k + C] = E[D_k + C] / 2: the difference
 * between the debt and -C is halved from window to window, whatever its cause - chance, a wrong C,
 * a process that has changed. The variance of the debt obeys V = V/4 + (C^2 + V/4) var(e), var(e) <
 * 1, so V < 2 C^2. (A factor 1/2 makes it smallest: with 1, the whole debt drawn anew each time,
 * E[(1 - e)^2] = 1 and it has no bound.) The debt is bounded and the cost grows with the CPU time,
 * so cost / CPU time goes to b.
 *
 * Paid in advance. A window is opened only when D + C <= 0, C being that of this very window: its
 * length is drawn when the gap begins. So the limit holds whenever the run ends, also just behind a
 * window. That is why the debt hovers about -C and not 0: after most windows there is enough left
 * for another one at once. By simulation: up to the 90 % quantile gaps differ from exponential ones
 * by at most a tenth of the mean. Only the first window is not paid for: it shows what windows
 * cost.
 *
 * Idle processes. While tracing is continuous, a process that is idle for most of the time is
 * allowed the share of one core, as far as the machine has a core idle. Such a process costs
 * little, and windows would see little of it. A process that gets no CPU because others have it is
 * not idle: it is ready to run (see `spare`, `sleeps`). So wall time pays as well, in an account of
 * its own (idle_debt_ns): cost less steady times CPU time, or times wall time that the process has
 * slept, or that the machine was idle, where that is more. A process in a gap is traced
 * continuously at once, whatever its CPU time has still to pay, if it has used less of a core for a
 * while than tracing may cost, and owes nothing in that account. So is a process with two cheap
 * windows in a row. If it is too dear within LASTING_NS after all, the next attempt comes twice as
 * late. So of a program that works in bursts, continuous tracing meets the beginnings only.
 *
 * Samples. Where continuous tracing is too dear because of its samples, they are put farther apart
 * first (thinning.h). */
#ifndef MEMTRACE_PACE_WINDOWS_H
#define MEMTRACE_PACE_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "pace/thinning.h"

#define WINDOWS_FELT	  1.2
#define WINDOWS_FELT_MOST 3
/* after the probes have come, the process makes up for what their coming has held up. That is not
 * counted, but its cost is the window's, which begins then. */
#define WINDOWS_SETTLE_NS 3000000

enum windows_action {
	WINDOWS_NONE,
	WINDOWS_OPEN,  /* put the probes in place */
	WINDOWS_CLOSE, /* take them away */
};

struct windows {
	double budget; /* share of CPU time for windows, 0..1; 0: no limit */
	double steady; /* the same for continuous tracing; no less than budget */
	double spare;  /* idle share of one core on the machine, 0..1; the caller sets it */
	bool sleeps;   /* no thread of the process runs or waits for a CPU now; the caller sets it
			* in gaps */
	/* part of the total cost that samples took; the caller sets it with each total that it
	 * gives */
	double samples_ns;
	struct thinning thinning; /* how far apart samples are to be while tracing is continuous */
	uint64_t random;	  /* state of the generator */
	bool open, continuous;
	uint64_t next_ns; /* when to call windows__step() again */
	double scale;	  /* of lengths and gaps, 1 but in tests */
	/* Time and totals at the last change. */
	uint64_t since_ns;
	double cost_ns, cpu_ns, since_samples_ns;
	/* Learnt. */
	double debt_ns;	   /* cost beyond the budget so far; negative: what is left of it */
	double borne_ns;   /* continuous: the part of it that coarser samples are to make up for */
	double open_at_ns; /* the debt at which the next window comes */
	double idle_debt_ns; /* the debt where idle wall time pays as well */
	double felt;	     /* felt cost of windows / their calibrated cost */
	double cost_rate;    /* felt cost per wall ns in a window, smoothed; 0: not known */
	double used_rate;    /* CPU time per wall ns in a window, smoothed */
	double edge_cost_ns; /* what opening and closing add to a window's cost, smoothed: probes
			      * are in place meanwhile */
	double edge_ns;	     /* time that opening and closing take, smoothed */
	double opening_cost_ns, opening_ns;
	double cpu_rate;  /* CPU time per wall ns between windows, smoothed */
	double length_ns; /* mean length of windows at present */
	double stretch;	  /* length of the next window / length_ns: drawn in advance */
	/* The way back from idleness. */
	bool attempt;			  /* this continuous tracing began as an attempt */
	uint64_t idle_since_ns;		  /* in a gap: it has used next to no CPU since */
	uint64_t attempt_ns, back_off_ns; /* last attempt; delay to the next one */
	unsigned n_cheap; /* windows in a row so cheap that tracing could be continuous */
	/* For reports. */
	uint64_t n_windows, windows_ns, continuous_ns;
	double windows_cost_ns; /* calibrated cost of windows and their edges */
	double felt_ns;		/* what they cost beyond that, as felt */
};

/* Begins at now, with the probes in place: the first window, which decides if tracing is
 * continuous. Totals of the process so far: cost, as calibrated, and CPU time. */
void windows__begin(struct windows *windows, double budget, double steady, uint64_t seed,
		    uint64_t now_ns, double cost_ns, double cpu_ns);

/* For tests: a window comes about every period_ns, and windows are shorter in proportion. Call it
 * right after windows__begin(). */
void windows__set_period(struct windows *windows, uint64_t period_ns);

/* Call at next_ns or later, with the totals at now. Returns what is to be done; after it is done,
 * call windows__done(). */
enum windows_action windows__step(struct windows *windows, uint64_t now_ns, double cost_ns,
				  double cpu_ns);

/* The action is done. cost_ns, cpu_ns: the totals then. */
void windows__done(struct windows *windows, enum windows_action action, uint64_t now_ns,
		   double cost_ns, double cpu_ns);

/* Something else decides when this process is traced (host.h): its probes go out now, whatever was
 * planned. cost_ns, cpu_ns: the totals then. now_ns: in the past, if the probes went earlier.
 * cost_rate: recent cost per wall ns; negative: that since the last change, and not learnt when the
 * probes are out already. Its next window may begin, by windows__step(), when it can be paid for.
 */
void windows__cut(struct windows *windows, uint64_t now_ns, double cost_ns, double cpu_ns,
		  double cost_rate);
/* The process's probes are in place for as long as somebody else wants. The totals now. */
void windows__hold(struct windows *windows, uint64_t now_ns, double cost_ns, double cpu_ns);

/* The window that was opened last did not come about: the process has ended before its probes had
 * settled. */
void windows__withdraw(struct windows *windows);

/* The process feels what its windows cost felt times. felt_ns is changed for all windows, past ones
 * included. Of the difference, at most one window's worth is paid for. A factor below WINDOWS_FELT
 * counts as WINDOWS_FELT, one above WINDOWS_FELT_MOST as that. */
void windows__feel(struct windows *windows, double felt);

/* The run is over. Were the probes in place? */
bool windows__end(struct windows *windows, uint64_t now_ns);

#endif
