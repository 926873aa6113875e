/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process holds, allocates and grows by, from windows: short stretches of time in which its
 * probes were in place. One model, of which all that is printed of windowed runs follows.
 *
 * CLOCK. Time is the process's net CPU time: its CPU time less what the probes took of it. Who does
 * not run does not allocate, and who is slowed by probes allocates less. All seconds here are of
 * that clock, from the run's start on, unless a name says wall.
 *
 * In a window that slows its process much, net time is a small difference of two large numbers. So
 * where its error is above CLOCK_ROUGH all windows share one mean net time per call that allocates,
 * and each has as much as its calls say: that mean is known best, and what depends on it in births
 * and in frees alike is free of its error.
 *
 * BIRTHS. Windows are clusters of a stratified sample of that time (Cochran, Sampling Techniques,
 * 3rd ed., chapters 5A and 9). Windows that follow each other make a stratum h of T_h seconds, of
 * which t_h lie in its windows. A stack that allocated b_h bytes in them allocates at the rate
 *
 *	r_h = b_h / t_h,				allocated = sum over h of r_h T_h.
 *
 * A stretch of continuous tracing is a stratum of its own and stands for itself.
 *
 * SURVIVAL. S(a), the share of a stack's bytes that live for a seconds or longer:
 * profile/survival.h.
 *
 * ENDS. Most blocks end because of what the process does: by its clock. What waits for a timer, a
 * disk or another host ends by the wall clock, which windows do not slow, so that they show more of
 * its ends: as if the wall time of windows, at the run's mean net time for it, had passed in them.
 * Which of both it is profile/balance.h finds out, by the blocks that a window of that kind loses:
 * of those from before it, born at the rate r and in balance, r * integral of S(a) - S(infinity)
 * over its length a, less what it gains.
 *
 * LIVE. What is live at time t is what was allocated and survived (Little's law, by strata):
 *
 *	L(t) = sum over h of r_h * integral over u in h, u <= t, of S(t - u) du.
 *
 *  What lives at the end of a continuous stretch is known; of it S says how much is left since.
 *
 * GROWTH. (L(T) - L(T/4)) by wall time. A population that was there before the run loses blocks
 * that the run does not know: as much as is gained, when it is in balance. What surely grows is
 * therefore what never ends: the lower limit is r S(infinity), where S falls with age by Aitken's
 * extrapolation of S at A/3, 2A/3 and A, the oldest age that is known. And the process's own count
 * of blocks, which needs no stack, must allow it (struct windowed_process).
 *
 * AGES. Of what was born at u, S(T - u) is there at T, and 1 - S(min(A, T - u)) ended at the age A
 * or younger: what was allocated until T - A, times 1 - S(A), and all later births but those that
 * live. Ages are net; by the wall clock they are taken to be longer, or shorter, as the whole run
 * is.
 *
 * ERRORS. Windows are few and differ: the error of every figure is that of a jackknife that leaves
 * out one group of windows in turn (Cochran, section 6.17; Wolter, Introduction to Variance
 * Estimation, chapter 4), with Student's quantile for the number of groups. How many blocks live at
 * one moment is chance as well, with the variance of their mean number (Poisson): of z bytes each,
 * L(t) z. What all figures share is the error of the clock (profile/balance.h). */
#ifndef MEMTRACE_PROFILE_WINDOWED_H
#define MEMTRACE_PROFILE_WINDOWED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/estimate.h"
#include "profile/growth.h"
#include "profile/survival.h"

#define CLOCK_ROUGH 0.1
/* of windows, that are left out in turn; window i is of group i modulo that */
#define WINDOWED_GROUPS 16

struct windowed_window {
	double begin_s, end_s; /* of the net clock; ascending, apart from each other. */
	double interval_bytes; /* mean, at which it sampled */
	double wall_s;	       /* its length by the wall clock; 0: not known */
	double allocs;	       /* calls that allocated */
	double net_blocks;     /* blocks that came less blocks that went */
	bool continuous;       /* it stands for itself */
};

/* What one stack allocated in one window. Bytes and objects are weighted by 1/p. */
struct windowed_born {
	uint32_t window; /* index */
	uint64_t samples;
	double bytes, objects;
	double squares;	   /* sum of the samples' (z/p)^2 (1-p): variance of sampling */
	double left_bytes; /* of these: what was alive at the window's end */
};

/* How much a window's births count for what becomes of blocks, of 1: what few samples stand for is
 * more chance than window. S differs between windows, and by sampling; where a window is known by n
 * samples, and n_0 = WINDOWED_FEW have as much of the latter as there is of the former, the best
 * weights of windows are as n / (n + n_0) (DerSimonian and Laird, Controlled Clinical Trials 7,
 * 1986). n: that many samples of the same size have its variance. */
#define WINDOWED_FEW 8 /* S(1 - S) / n_0 at S = 1/2 is 0.18^2 */
double windowed_born__trust(const struct windowed_born *born);

struct windowed_stack {
	const struct windowed_born *born; /* ascending by window */
	size_t n_born;
	const struct survival_ages *groups; /* WINDOWED_GROUPS: of blocks born in windows of each
					     * group; NULL: none */
	/* Of blocks that lived when a continuous stretch ended; the age is the time since. NULL:
	 * none. */
	const struct survival_ages *cohort;
	/* chance that two blocks of its size have equal contents; 1 where too few are known */
	double alike;
	/* SURVIVAL_CLASSES: share of the ends that contents at that age do not show, because the
	 * address has the same contents again. NULL: none */
	const float *missed;
	/* share of its bytes that is in blocks of no more than a page: RESIDENT in balance.h */
	double small;
};

/* The error of a figure that is as wrong as the clock is, relative: such that two of it reach as
 * far as two of the clock's own, which are factors (e^2s). */
double windowed__reach(double clock_error);

/* What is known of the process without any stack. Per wall second; NaN: not known. */
struct windowed_process {
	double blocks_per_s, blocks_low, blocks_high; /* more than before, 95 % */
	double clock_error; /* of the run, and of how windows' net times differ from what their
			     * calls say; relative */
};

struct windowed_run {
	const struct windowed_window *windows;
	size_t n_windows;
	size_t n_before; /* the first of them, that are of the program before an exec: nobody's */
	double quarter_s, end_s; /* the net clock when a quarter of the run's wall time was over,
				  * and at its end */
	double wall_s;		 /* the run's length by the wall clock */
	double clock_error;	 /* standard error of the net time of windows, relative */
	bool rough;		 /* it was above CLOCK_ROUGH, before anything else was known */
	double scale;		 /* what windows saw stands for so many times as much as their clock
			     * says; 0: 1 */
	double hidden;	   /* by how much net time shows more of what goes by the wall clock, which
			     * windows do not slow; 0: 1 */
	bool ends_by_wall; /* blocks are taken to end by the wall clock (ENDS) */
	unsigned without;  /* parts of the model that are left out: parts.h */
	/* more than all live bytes together cannot be: the heap's mappings; 0: not known */
	double bound_bytes;
	/* more than those in small blocks cannot be: anonymous memory that is resident, or swapped
	 * out; 0: not known */
	double resident_bytes;
};

/* What a stack's live bytes cannot be more than; 0: not known. */
double windowed__most(const struct windowed_run *run, const struct windowed_stack *stack);

#define WINDOWED_GROWTH_PART 0.75 /* of the run's wall time, its last: what grows is told of that */

#define WINDOWED_OLDER 5
/* classes: 10 us times 10^i of the wall clock and less, the last one any more */
#define WINDOWED_AGES 10

struct windowed_result {
	/* bytes^2: of its own windows and samples */
	double live_bytes, live_objects, live_variance;
	double live_common; /* standard error that all stacks share, bytes: of what nobody looked
			     * at, where there are too few windows to know how they differ; and the
			     * clock's (profile/balance.h) */
	double alloc_bytes, alloc_objects, alloc_variance; /* likewise, of what was allocated */
	double alloc_common;
	struct growth growth;
	/* share of its bytes that do not end: S(infinity), as far as the run can tell */
	double stays;
	enum survival_evidence by;
	bool replaces; /* it would grow, but the process does not: struct profile_site */
	double survival[WINDOWED_OLDER]; /* S at 1/32, 1/16 ... 1/2 of the run */
	/* share of live bytes that are older than that; NaN: nothing lives */
	double older[WINDOWED_OLDER];
	/* blocks that windows of each group would lose by it; of ends_by_wall */
	double deficit[WINDOWED_GROUPS];
	/* Objects by age: of those that were freed, and of those that live at the end. What nobody
	 * saw die or stay has none. */
	double ended[WINDOWED_AGES], living[WINDOWED_AGES];
	struct half_life half_life; /* by the wall clock */
	uint64_t samples;
	/* Live bytes and growth of all windows, and without those of each group: for sums of stacks
	 * (windowed__variance()). */
	double live_without[WINDOWED_GROUPS + 1], grows_without[WINDOWED_GROUPS + 1];
};

/* How the windows' strata lie: made once for all stacks of a run. */
struct windowed_strata;
/* NULL: out of memory. */
struct windowed_strata *windowed_strata__new(const struct windowed_run *run);
void windowed_strata__free(struct windowed_strata *strata);

struct windowed_process windowed__process(const struct windowed_run *run,
					  const struct windowed_strata *strata);

/* run and strata as above. process: of windowed__process(). */
void windowed__estimate(const struct windowed_run *run, const struct windowed_strata *strata,
			const struct windowed_process *process, const struct windowed_stack *stack,
			struct windowed_result *ret);

/* Live bytes and growth (bytes per wall second) alone, without their errors. */
void windowed__point(const struct windowed_run *run, const struct windowed_strata *strata,
		     const struct windowed_stack *stack, double *ret_live, double *ret_grows);

/* The variance of what is value[0] for all windows and value[g + 1] without those of group g, by
 * the jackknife: for who takes the normal quantile of it, so that of few groups it is larger. NaN:
 * there are too few. */
double windowed__variance(const struct windowed_strata *strata,
			  const double value[WINDOWED_GROUPS + 1]);

#endif
