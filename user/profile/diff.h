/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds what has grown from one profile to another, stack by stack. Tells how precisely the growth
 * is known, and whether it may be chance.
 *
 * In 95 of 100 samplings, the interval holds the true difference between the live bytes at the two
 * moments. For each of the two samplings estimate.h gives an interval, which is right with few
 * samples, too. With totals Y1, Y2 and intervals (l1, u1), (l2, u2) the interval of the difference
 * is (Zou and Donner, Statistics in Medicine 27, 2008: the method of variance estimates recovery)
 *
 *	low  = Y2 - Y1 - sqrt((Y2 - l2)^2 + (u1 - Y1)^2)
 *	high = Y2 - Y1 + sqrt((u2 - Y2)^2 + (Y1 - l1)^2).
 *
 * The variances add, because the samplings are independent. If a stack has no samples in one
 * profile, memtrace assumes that its blocks there are like those in the other profile. The interval
 * of the profile without samples then begins at 0. It ends at -ln(0.025) times the bytes that a
 * sample of such a block stands for. If so much had been live, a sample of it would have been seen
 * in 97.5 % of all cases.
 *
 * Two snapshots of one run are not independent. A block that is live in both was sampled once. It
 * has the same weight in both, so it adds nothing to the error of the difference. To treat the
 * snapshots as independent is safe, but misses growth. For example, a leak of eleven samples in a
 * stack that had eleven before would be missed. Let B be the blocks that were born between the
 * snapshots and are still live at the second. Let D be the blocks that were live at the first and
 * are dead at the second. Then the difference is exactly B - D. Profiles do not have B and D, but
 * they have two pairs of bounds for B and D. The first pair is the bytes that the stack allocated
 * and freed between the snapshots (its totals have risen by these bytes). B is at most the
 * allocated bytes, D at most the freed bytes. The second pair is the live bytes of the two
 * snapshots. B is at most the live bytes of the second snapshot, D at most the live bytes of the
 * first. Both pairs of bounds have the same difference, so the pair with the smaller variance is
 * taken. For a stack through which memory passes quickly, this is the pair of live bytes. The
 * snapshots are then treated as independent, which they nearly are. For a stack where memory stays,
 * the pair of allocated and freed bytes is taken.
 *
 * Significance is another question. Blocks come and go. A program that does not grow at all has a
 * few more blocks at one moment than at another, even if every byte is known exactly. So the test
 * asks: would a stack differ by so much if its blocks came and went at random, each by itself, with
 * the same mean number? The samples are then Poisson counts. Each has a weight z/p, and Q is the
 * sum of the squares of these weights (estimate.h). Together the samples carry as much information
 * as n = Y^2 / Q samples that have the weight Q / Y each. (Where both profiles' sampling intervals
 * are equal, the weight is taken from both together: if nothing differs, both sample the same kind
 * of blocks.) Two Poisson counts are compared by the binomial test of chance.h, which keeps its
 * level however small the counts are. All stacks together are tested by Holm's procedure
 * (chance.h), once for growth and once for shrinking, each time at CHANCE_LEVEL. If the blocks of a
 * program come and go in crowds (a thousand at once for each request), its profiles can differ by
 * more. Two profiles cannot show that blocks come and go in crowds, but four can.
 *
 * Growth rates (struct growth) are in bytes per second of each profile's own run. Their errors have
 * Student's distribution. The rates get an interval in the same way as live bytes, and are tested
 * by the t test. But if a rate's low end is exactly 0 (growth_sum__add()), the distance to this end
 * is added without squaring it. Live bytes of windows are tested by the t test, too, because their
 * samples cannot be counted. Their error comes from the intervals that the profiles give. Two
 * snapshots of one windowed run share what was seen before the first snapshot, and the error of the
 * clock. They are treated as independent, which makes the interval too wide, never too narrow.
 *
 * If there are more than two profiles, the first and the last are compared as above. The steps from
 * each profile to the next give a trend, by the ratio estimator of growth.h with the steps as its
 * segments. The trend's interval is exact for the random steps of one run. For independent
 * samplings it is wider than necessary, because the error of each sampling counts in two steps.
 * From four profiles on, a stack is said to grow only if its trend surely grows, too.
 *
 * tests/unit/profile/test_diff.c simulates how well this works, with a sampling interval of 512
 * KiB. One program holds 50 MB in 30 stacks, in blocks of 16 bytes to 3 MiB, and does not grow.
 * Growth is reported in 8 of 400 pairs of its runs. Another program leaks 200 kB/s beside 50 MB of
 * churn. Two snapshots 30 s apart show this leak in 199 of 200 runs. (The leak leaves 11 samples on
 * average; 6 are enough, and fewer than 6 come in 3 of 100 runs.) In 6 of these 200 runs growth is
 * reported for another stack. */
#ifndef MEMTRACE_PROFILE_DIFF_H
#define MEMTRACE_PROFILE_DIFF_H

#include "base/error.h"
#include "profile/chance.h"
#include "profile/profile.h"

/* Chance of a false finding of growth, and of a false finding of shrinking (one-sided). */
#define CHANCE_LEVEL 0.025

/* Growth has an error with this many degrees of freedom, because it is estimated from GROWTH_DF + 1
 * slices of a profile's run. */
#define GROWTH_DF 7

enum diff_measure {
	DIFF_AUTO,  /* growth if the runs are different, at least one was in windows, and all
		     * profiles have growth; else live bytes */
	DIFF_LIVE,  /* bytes */
	DIFF_GROWTH /* growth within each profile's run, bytes per second */
};

/* What the reader should know: X(enumerator, sentence without its full stop). */
#define DIFF_WARNINGS(X)                                                                           \
	X(OTHER_PROGRAM, "they are of different programs: stacks are matched by function names")   \
	X(OTHER_RUNS, "they are of different runs: each has only what was allocated during its "   \
		      "own, so a leak that goes on at the same rate is no difference")             \
	X(OTHER_LENGTH, "their runs differ in length: the longer one had more time to allocate")   \
	X(INCOMPLETE, "samples or calls were missed: memory that the earlier profile lacks looks " \
		      "like growth, and memory that the later one lacks like shrinking")           \
	X(FILTERED, "filters have left something out: what is missing looks like memory that "     \
		    "shrank or never grew")                                                        \
	X(BACKWARDS,                                                                               \
	  "they are not in the order of time: where a later one comes first, growth looks like "   \
	  "shrinking")                                                                             \
	X(UNTIMED, "they do not say when they were taken: there are no rates")                     \
	X(UNSAMPLED, "they do not say how they were sampled: whether a difference is chance is "   \
		     "not known")                                                                  \
	X(DIVIDED,                                                                                 \
	  "their runs differ in length, so live bytes are divided by the length: memory that is "  \
	  "allocated only once counts for more in a short run, and whether a difference is "       \
	  "chance is not known (growth rates, if they have them, can be compared)")                \
	X(NOTHING_COMMON, "they have no stack in common: are they of different builds, or is one " \
			  "without names?")

enum diff_warning {
#define X(id, text) DIFF_WARN_##id,
	DIFF_WARNINGS(X)
#undef X
		DIFF_WARNINGS_MAX
};

/* Do both profiles count the same thing, and does the second one cover its whole run? number: the
 * second profile's number, for the message. 0, or -EINVAL with err. */
int diff__check_kinds(const struct profile *first, const struct profile *profile, size_t number,
		      struct error *err);

/* why a profile with a `part` cannot be compared */
#define DIFF_OF_PART                                                                               \
	"is only of an interval: it has the changes within a part of a run, not its memory (the "  \
	"agent's profiles of a whole run can be compared)"

/* The warning as a sentence; static. */
const char *diff_warning__text(enum diff_warning warning);

/* With one of these warnings no growth or shrinking is claimed, and no interval is given. */
#define DIFF_UNSURE                                                                                \
	(1u << DIFF_WARN_UNSAMPLED | 1u << DIFF_WARN_DIVIDED | 1u << DIFF_WARN_NOTHING_COMMON)

/* The change from the first profile to the last: in bytes, or in bytes per second of growth. */
struct change {
	double from, to;
	double bytes;		   /* to - from */
	double low, high;	   /* 95 % interval, for this stack alone; equal ends: exact; NaN:
				    * not known */
	double p_grows, p_shrinks; /* probability that chance alone gives at least so much growth,
				    * or shrinking; 0.5: not known */
};

struct diff_stack {
	const struct profile *profile; /* the profile that names the frames best; NULL in the
					* total */
	const struct profile_site *site;
	/* the stack's site in the last profile; if it has several sites there, the one with most
	 * live bytes; NULL: none */
	const struct profile_site *last;
	/* how fast all of the stack's sites grow according to the last profile alone, bytes per
	 * second; NaN: not known */
	struct growth now;
	double *values; /* by profile; all stacks share one array */
	struct change change;
	bool grows, shrinks;   /* significantly. A stack is tested together with all others, the
			        * total by itself */
	unsigned rises, falls; /* numbers of steps between profiles in which the value rises, and in
			        * which it falls */
	struct growth trend;   /* of live bytes, per second, or per step if the profiles have no
				* times; NaN: not known */
};

struct diff {
	const struct profile *const *profiles; /* the caller's; they must outlive the diff */
	size_t n_profiles;
	enum diff_measure measure;
	bool one_run;	   /* all are snapshots of one run */
	bool exact;	   /* every allocation and free was recorded, all the time */
	bool windowed;	   /* at least one was traced in windows */
	double seconds;	   /* from the first to the last profile, if they are of one run; NaN: not
			    * known, or the runs differ */
	unsigned warnings; /* 1 << enum diff_warning */
	struct diff_stack *stacks; /* stacks that hold live memory or grow. First the stacks that
				    * surely grow, then those that surely shrink, then the rest;
				    * each group by the size of the change, descending */
	size_t n_stacks;
	size_t n_grow, n_shrink; /* how many stacks surely grow, and surely shrink */
	struct diff_stack total;
	double *values; /* private */
	double weights; /* private: *ret_weights of claims__decide() for growth */
};

/* Compares n >= 2 sorted, symbolized profiles, oldest first. 0; -ENOMEM; -EFBIG with the reason in
 * err if they are too large together (profile/match.h). -EINVAL with the reason in err when they
 * cannot be compared: they are of different things (heap, regions, faults); they are of different
 * programs and have no stack in common; or growth is asked for, and a profile has none. The reasons
 * name profiles by number, from 1. */
int diff__new(const struct profile *const *profiles, size_t n, enum diff_measure measure,
	      struct diff **ret_diff, struct error *err);
void diff__free(struct diff *diff);

/* How small a leak is found? The least growth, in bytes per second, that a comparison of the first
 * profile with the last finds in 95 of 100 cases. The stack is assumed to have no other allocations
 * or frees. NaN: not known. */
double diff__least_growth(const struct diff *diff);

/* Seconds since the epoch at a profile's end; NaN: not known. */
double profile__end_s(const struct profile *profile);
/* Are they snapshots of one run of memtrace on one process? */
bool profile__same_run(const struct profile *a, const struct profile *b);
/* May they be of the same program, as far as the profiles tell? */
bool profile__same_program(const struct profile *a, const struct profile *b);

#endif
