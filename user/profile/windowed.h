/* SPDX-License-Identifier: BSD-2-Clause */
/* Estimates what a process holds, allocates and grows by, from windows: short stretches of time in
 * which its probes were in place. All printed figures of windowed runs follow from this one model.
 *
 * CLOCK. Time is the process's net CPU time: its CPU time minus the CPU time that the probes took.
 * A process that does not run does not allocate. A process that is slowed down by probes allocates
 * less. All seconds here are seconds of net CPU time since the run's start, unless a name says
 * wall.
 *
 * If the probes slow the process much, net time is a small difference of two large numbers. So if
 * the relative error of net time is above CLOCK_ROUGH, all windows share one mean net time per call
 * that allocates. Each window then has net time in proportion to its calls. This mean is known
 * better than the net time of a single window. Where a figure depends on births and on frees, the
 * error of the mean cancels out. If the relative error of net time is not above CLOCK_ROUGH, only
 * the windows of a stratum (BIRTHS) share a mean net time per call.
 *
 * BIRTHS. Windows are clusters of a stratified sample of net time (Cochran, Sampling Techniques,
 * 3rd ed., chapters 5A and 9). Eight to fifteen consecutive windows (fewer if there are fewer)
 * make a stratum h. It has T_h seconds, and t_h of these lie in its windows. A stack that allocated
 * b_h bytes in these windows allocates at the rate
 *
 *	r_h = b_h / t_h,				allocated = sum over h of r_h T_h.
 *
 * A stretch of continuous tracing is a stratum of its own, and stands only for itself.
 *
 * SURVIVAL. S(a) is the share of a stack's bytes that reach the age a (in seconds).
 * profile/survival.h describes how S is computed.
 *
 * ENDS. Most blocks end because of the process's own work. They end by the process's own clock.
 * Blocks that wait for a timer, a disk or another host end by the wall clock, which windows do not
 * slow. So a window has more of these ends than its net time accounts for. Let w be the net time
 * that the run has, on average, in the wall time of one window. Then the window has as many of
 * these ends as a stretch with the net time w. profile/balance.h decides how the blocks of a stack
 * end, from the number of blocks that windows lose. The model assumes that the blocks that live
 * when a window opens are a population in steady state, born at the rate r. Of these blocks the
 * window loses r times the integral of (S(a) - S(infinity)) da, for a from 0 to w. Blocks that are
 * born in the window and end after it make the loss smaller.
 *
 * LIVE. The live bytes at time t are those that were allocated before and survived until t
 * (Little's law, by strata):
 *
 *	L(t) = sum over h of r_h * integral over u in h, u <= t, of S(t - u) du.
 *
 * At the end of a continuous stretch it is known how many of the bytes born in this stretch and in
 * earlier stretches still live. S tells how many of these bytes are left later.
 *
 * How many of the bytes born between stretches live? Two shares tell this, and their weighted mean
 * is used. One is S. Its weight is the number of samples born in windows. The other is the live
 * share of the bytes born in stretches. Its weight is the number of samples born in stretches. More
 * samples get more weight, because their variance is smaller. If no window watched the blocks of
 * stretches, the model assumes that these blocks go on being lost as before: at the mean rate at
 * which they were lost from the end of one stretch to the end of the next.
 *
 * If a block ends between two stretches, memtrace notices only when its address is freed again, or
 * given to a sampled block. So some of the bytes that a stretch counts as held have already ended.
 * Their number is not known, but it has three upper limits. The first is the bytes from earlier
 * stretches that are still held at the end of the last stretch. The second is the bytes that were
 * allocated between the stretches, because a population in steady state loses no more. The third is
 * the bytes that end between the stretches and whose end no later stretch notices. This limit
 * follows from the rate at which stretches find that blocks of earlier stretches have ended. Half
 * of the lowest limit is subtracted from the live bytes. The interval holds both extremes: nothing
 * subtracted, and the whole limit subtracted.
 *
 * GROWTH is (L(T) - L(q)) / (wall time between q and T). T is the end of the run, and q the time
 * when a quarter of its wall time was over. Blocks from before the start also end, but the run does
 * not know these blocks. A population in steady state loses as many of the old blocks as it gains
 * new ones. So only blocks that never end are sure growth: the lower limit is r S(infinity). Where
 * S falls with age, S(infinity) is Aitken's extrapolation from S at the ages B/3, 2B/3 and B, where
 * B is the oldest age for which S is known. The process's number of blocks must allow this growth,
 * too (struct windowed_process).
 *
 * AGES. T is the end of the run. Of the bytes born at time u, the share S(T - u) lives at T, and
 * the share 1 - S(min(A, T - u)) ended at the age A or younger. So the bytes that ended at the age
 * A or younger have two parts. The first part is the share 1 - S(A) of what was allocated until the
 * time T - A. The second part is all bytes allocated later that do not live at T. These ages are in
 * net time. To get an age by the wall clock, the age in net time is multiplied by the run's wall
 * time and divided by the run's net time.
 *
 * ERRORS. Windows are few and differ from each other. So the error of every figure is estimated by
 * a jackknife, which leaves out one group of windows at a time (Cochran, section 6.17; Wolter,
 * Introduction to Variance Estimation, chapter 4). Intervals use Student's quantile for the number
 * of groups. The number of blocks that live at one moment is random, too, and its variance is its
 * mean (Poisson). For blocks of z bytes, this randomness adds L(t) z to the variance of live bytes.
 * All figures share the error of the clock (profile/balance.h). */
#ifndef MEMTRACE_PROFILE_WINDOWED_H
#define MEMTRACE_PROFILE_WINDOWED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/estimate.h"
#include "profile/growth.h"
#include "profile/survival.h"

#define CLOCK_ROUGH 0.1

/* Growth is sure only if at least this many windows saw the stack allocate. With fewer windows, not
 * even the sign of growth is sure, however little the windows differ. The reason is the sign test.
 * If each of n independent windows shows growth or shrinking with the same chance, all n show
 * growth with the chance 2^-n. 2^-6 is the first of these chances below 2.5 %. */
#define WINDOWED_LEAST_BORN 6
/* number of groups of windows that are left out in turn */
#define WINDOWED_GROUPS 16

struct windowed_window {
	uint64_t number;       /* ascending; its group is `number` modulo WINDOWED_GROUPS */
	double begin_s, end_s; /* of the net clock; ascending, no two overlap */
	double interval_bytes; /* its mean sampling interval */
	double wall_s;	       /* its length by the wall clock; 0: not known */
	double allocs;	       /* calls that allocated */
	double net_blocks;     /* number of blocks allocated minus number freed; NaN: not known */
	double stands;	       /* the number of windows that it stands for, because others were
				* dropped; 0 means 1 */
	bool continuous;       /* a stretch of continuous tracing, which stands only for itself */
};

static inline size_t windowed_window__group(const struct windowed_window *window)
{
	return window->number % WINDOWED_GROUPS;
}

static inline double windowed_window__stands(const struct windowed_window *window)
{
	return window->stands > 0 ? window->stands : 1;
}

/* What one stack allocated in one window, and what became of the stack's older blocks in this
 * window. Bytes and objects are weighted by 1/p. */
struct windowed_born {
	uint32_t window; /* index */
	/* For a stretch that was merged from several (ledger/old_windows.h): the number of these
	 * stretches in which the stack allocated, minus 1. */
	uint32_t more;
	uint64_t samples;
	double bytes, objects;
	double squares;	   /* sum of the samples' (z/p)^2 (1-p): variance of sampling */
	double left_bytes; /* the part of `bytes` that was alive at the window's end */
	/* For a stretch that was merged from several: left_bytes adds up the bytes that were alive
	 * at the end of each of these stretches. earlier_bytes is the same sum without the last of
	 * these stretches. */
	double earlier_bytes;
	/* Only for a continuous stretch: bytes born in it and in all continuous stretches before
	 * it. Bytes that were known at its end to have ended are subtracted. If a stretch has no
	 * element in the stack's born[], it held as much as the stretch before it. */
	double held_bytes;
	double held_objects, held_squares; /* of the same blocks: their number, and the variance of
					    * sampling as above */
	/* bytes of earlier stretches that were seen to end in this window, or were found to have
	 * ended before it */
	double lost_bytes;
};

/* The share of blocks that survive is averaged over windows. windowed_born__trust() returns the
 * weight of a window in this mean, from 0 to 1. The share differs from window to window for two
 * reasons: windows see different events, and few samples scatter. Let n be a window's number of
 * samples. With n_0 = WINDOWED_FEW samples, the variance from sampling is as large as the variance
 * between windows. Then the best weights of windows are in proportion to n / (n + n_0) (DerSimonian
 * and Laird, Controlled Clinical Trials 7, 1986). If samples differ in size, n is the number of
 * samples of equal size that would have the same relative variance. */
#define WINDOWED_FEW 8 /* S(1 - S) / n_0 at S = 1/2 is 0.18^2 */
double windowed_born__trust(const struct windowed_born *born);

struct windowed_stack {
	const struct windowed_born *born; /* ascending by window */
	size_t n_born;
	/* WINDOWED_GROUPS elements, each from the blocks born in the windows of one group, or NULL
	 * if there are none */
	struct survival_ages *const *groups;
	/* From blocks that lived when a continuous stretch ended. Their age is the time since the
	 * stretch's end. NULL: none. */
	struct survival_ages *cohort;
	/* chance that a block of the stack has the same contents as another block of its size; 1:
	 * not known, because no two such blocks have known contents */
	double alike;
	/* For each of SURVIVAL_CLASSES ages: the share of ended blocks whose address has the same
	 * contents again. For these blocks, contents do not show the end. NULL: none */
	const float *missed;
	/* share of the stack's bytes that is in blocks of no more than a page (RESIDENT in
	 * balance.h) */
	double small;
	double header; /* bytes in front of each block: balance__footprint() */
	/* SURVIVAL_CONTENTS or SURVIVAL_ENDS: only this evidence is used, because the other
	 * evidence is known to be wrong */
	enum survival_evidence believed;
};

/* Returns the relative standard error of a figure that is proportional to the clock. If the clock
 * is wrong by two standard errors, the figure is wrong by a factor e^(2s), with s = clock_error. So
 * two standard errors of the figure are e^(2s) - 1. */
double windowed__reach(double clock_error);

/* What is known of the process as a whole, not from its stacks. The figures are per wall second. If
 * they are not known, blocks_per_s is NaN, and the interval is infinite. */
struct windowed_process {
	double blocks_per_s, blocks_low, blocks_high; /* blocks gained, and the 95 % interval */
	/* Relative standard error of windows' net time. It has two parts: windowed_run.clock_error,
	 * and the differences between windows' net times and the net times that the windows'
	 * numbers of calls predict. */
	double clock_error;
};

struct windowed_run {
	const struct windowed_window *windows;
	size_t n_windows;
	size_t n_before; /* the first n_before windows are of the program before an exec: they
			  * belong to no stack */
	double quarter_s, end_s; /* the net clock: when a quarter of the run's wall time was over,
				  * and at the run's end */
	double wall_s;		 /* the run's length by the wall clock */
	double clock_error;	 /* standard error of the net time of windows, relative */
	bool rough;		 /* clock_error was above CLOCK_ROUGH at first */
	double scale;		 /* the clock's factor k (balance.h): the net time of windows is
				  * divided by it; 0 means 1 */
	/* Windows do not slow events that follow the wall clock. So per net second, windows show up
	 * to this many times as many of these events as the whole run has. 0 means 1 */
	double hidden;
	bool ends_by_wall; /* estimate as if all blocks ended by the wall clock (ENDS) */
	unsigned without;  /* parts of the model that are left out: parts.h */
	/* upper limit of all live bytes together: the heap's mappings; 0: not known */
	double bound_bytes;
	/* upper limit of live bytes in small blocks: anonymous memory that is resident, or swapped
	 * out; 0: not known */
	double resident_bytes;
};

/* Upper limit of a stack's live bytes; 0: not known. */
double windowed__most(const struct windowed_run *run, const struct windowed_stack *stack);

/* growth is measured over this last share of the run's wall time */
#define WINDOWED_GROWTH_PART 0.75

#define WINDOWED_OLDER 5
/* classes of age by the wall clock: class i has ages up to 10 us times 10^i, the last class all
 * older ones */
#define WINDOWED_AGES 10

struct windowed_result {
	/* live_variance: bytes^2, from the differences between the stack's windows, and from its
	 * samples */
	double live_bytes, live_objects, live_variance;
	double live_common; /* standard error that all stacks share, bytes. It includes the error of
			     * the clock (profile/balance.h), and the error of what continuous
			     * stretches do not show (LIVE). If windows are too few to show how they
			     * differ, it also includes the error of the time outside of windows */
	/* limits of live bytes, known from other facts than windows; 0: none. Set by the caller */
	double least, most;
	double alloc_bytes, alloc_objects, alloc_variance; /* as above, of what was allocated */
	double alloc_common;
	double header; /* the stack's */
	struct growth growth;
	bool doubtful; /* either contents or frees may be right: struct survival.doubtful */
	/* live memory is known from continuous stretches: they have most of the samples, and cover
	 * half of the run or more. So conclusions from windows do not change live_bytes */
	bool held;
	/* Another possible value of growth.bytes_per_s. If survival comes from contents, this is
	 * the growth computed with survival from frees. If survival comes from frees, this is the
	 * growth if blocks have the shortest lives that the few events seen allow (SURVIVAL_LEAST).
	 * NaN: there is no doubt. */
	double other_grows;
	/* share of the stack's bytes that never end: S(infinity), as far as the run can tell */
	double stays;
	enum survival_evidence by;
	bool replaces; /* the stack seems to grow, but the process does not: struct profile_site */
	double survival[WINDOWED_OLDER]; /* S at 1/32, 1/16 ... 1/2 of the run's length */
	/* share of live bytes that are older than each of these ages; NaN: nothing lives */
	double older[WINDOWED_OLDER];
	/* Set only if windowed_run.ends_by_wall: by how many blocks this stack shrinks in the
	 * windows of each group if its blocks end by the wall clock. */
	double deficit[WINDOWED_GROUPS];
	/* Numbers of objects by age. ended: objects that were freed, by their age then. living:
	 * objects that live at the end, by their age then. All 0 if windows did not show how long
	 * the blocks live. */
	double ended[WINDOWED_AGES], living[WINDOWED_AGES];
	struct half_life half_life; /* by the wall clock */
	uint64_t samples;
	/* Live bytes and growth: element 0 from all windows, element g + 1 without the windows of
	 * group g. For sums of stacks (windowed_strata__variance()). */
	double live_without[WINDOWED_GROUPS + 1], grows_without[WINDOWED_GROUPS + 1];
};

/* The strata of a run's windows, made once for all of its stacks: profile/windowed_strata.h. */
struct windowed_strata;

/* Estimates from windows how fast the process's number of blocks grows. */
struct windowed_process windowed__process(const struct windowed_run *run,
					  const struct windowed_strata *strata);

/* Estimates one stack. process: from windowed__process(). */
void windowed__estimate(const struct windowed_run *run, const struct windowed_strata *strata,
			const struct windowed_process *process, const struct windowed_stack *stack,
			struct windowed_result *ret);

/* Estimates only live bytes and growth (bytes per wall second) of a stack, without their errors. */
void windowed__point(const struct windowed_run *run, const struct windowed_strata *strata,
		     const struct windowed_stack *stack, double *ret_live, double *ret_grows);

#endif
