/* SPDX-License-Identifier: BSD-2-Clause */
/* When a process is traced, so that it costs it no more than a share of its CPU time: always, when that
 * fits; else in short windows. Arithmetic alone; who calls opens and closes the probes.
 *
 * Cost is what the probes hit have cost, by calibration. While probes are in place it accrues at a rate
 * that depends on the program, c ns per ns of its CPU time; the share allowed is b. If c is no more than a share of
 * its own for that, tracing is continuous. Else a window that cost C is followed by a gap in which the process uses (C - b u) / b
 * of CPU time, u being what it used in the window: over both, the cost is b of it. The length of windows
 * is such that one comes about every second, within limits: shorter ones would be mostly the opening
 * and closing, longer ones a stall of their own.
 *
 * Lengths and gaps are random, uniform within half of their mean to either side: whatever the program
 * does at regular times is met in proportion. What a gap falls short of, or exceeds, the next one makes up
 * for: the debt (cost so far less share of CPU time so far) decides, and not a prediction, for a process may be
 * busy, idle or stopped at any time. It is looked at several times a second.
 *
 * A process that is idle for most of the time is given, while tracing is continuous, that share of one
 * core, as far as the machine has one idle: it costs little, and windows would see little of the process. One that gets
 * no CPU because others have them is not idle. */
#ifndef MEMTRACE_SESSION_WINDOWS_H
#define MEMTRACE_SESSION_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

enum windows_action {
	WINDOWS_NONE,
	WINDOWS_OPEN,  /* put the probes in place */
	WINDOWS_CLOSE, /* take them away */
};

struct windows {
	double budget;	 /* share of CPU time for windows, 0..1; 0: no limit */
	double steady;	 /* and for continuous tracing: no less */
	double spare;	 /* of one core: what the machine leaves idle, 0..1; the caller's to say */
	uint64_t random; /* state of the generator */
	bool open, continuous;
	uint64_t next_ns; /* when to call windows__step() again */
	double scale;	  /* of lengths and gaps, 1 but in tests */
	/* At the last change. */
	uint64_t since_ns;
	double cost_ns, cpu_ns;
	/* Learnt. */
	double debt_ns;	   /* cost beyond the budget so far; negative: what is left of it */
	double open_at_ns; /* the debt at which the next window comes */
	double cost_rate;  /* cost per wall ns in a window, smoothed; 0: not known */
	double cpu_rate;   /* CPU time per wall ns between windows, smoothed */
	double length_ns;  /* mean length of windows at present */
	unsigned n_cheap;  /* windows in a row that continuous tracing could have been */
	/* Told. What windows have cost. */
	uint64_t n_windows, windows_ns, continuous_ns;
	double windows_cost_ns;
};

/* Begins at now, with the probes in place: the first window, which decides. Totals of the process so far:
 * cost and CPU time. */
void windows__begin(struct windows *windows, double budget, double steady, uint64_t seed, uint64_t now_ns,
		    double cost_ns, double cpu_ns);

/* For tests: windows come about so often, and are shorter in proportion. Right after the beginning. */
void windows__set_period(struct windows *windows, uint64_t period_ns);

/* Call at next_ns or later, with the totals at now. What is to be done: when it is done, windows__done(). */
enum windows_action windows__step(struct windows *windows, uint64_t now_ns, double cost_ns,
				  double cpu_ns);

/* The action is done: the totals then. */
void windows__done(struct windows *windows, enum windows_action action, uint64_t now_ns,
		   double cost_ns, double cpu_ns);

/* Something else decides when this process is traced (host.h): its probes go out now, whatever was planned. The
 * totals then; cost_rate: cost per wall ns of late, negative: as since the last change. Its next window may
 * begin, by windows__step(), when it can be paid for. */
void windows__cut(struct windows *windows, uint64_t now_ns, double cost_ns, double cpu_ns,
		  double cost_rate);
/* Its probes are in place for as long as somebody else wants. The totals now. */
void windows__hold(struct windows *windows, uint64_t now_ns, double cost_ns, double cpu_ns);

/* The run is over. Were the probes in place? */
bool windows__end(struct windows *windows, uint64_t now_ns);

#endif
