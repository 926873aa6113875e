/* SPDX-License-Identifier: BSD-2-Clause */
/* What has grown from one profile to another, stack by stack, how much of it is known, and whether
 * it is growth at all or may be chance.
 *
 * The interval says where the difference of what was live at the two moments is, in 95 of 100
 * samplings. For each of two samplings estimate.h has an interval that is right with few samples,
 * too; with totals Y1, Y2 and intervals (l1, u1), (l2, u2) that of the difference is (Zou and
 * Donner, Statistics in Medicine 27, 2008: the method of variance estimates recovery)
 *
 *	low  = Y2 - Y1 - sqrt((Y2 - l2)^2 + (u1 - Y1)^2)
 *	high = Y2 - Y1 + sqrt((u2 - Y2)^2 + (Y1 - l1)^2).
 *
 * Their variances add, for the samplings are independent. Of a stack without samples in one of
 * them, that one's interval ends at -ln(0.025) times what a sample of a block like the other's
 * stands for: where so much more had been live, there would have been a sample with a probability
 * of 97.5 %.
 *
 * Two snapshots of one run are not independent: a block that is live in both was sampled once and
 * weighs the same in both, and so adds nothing to the error of the difference. Taking them for
 * independent is safe and dull: a leak of eleven samples that had eleven before would be lost.
 * With B the blocks that were born between the snapshots and are still live at the second, and D
 * those that were live at the first and are dead, the difference is B - D exactly. Profiles do not
 * tell B and D, but bounds of both: all that the stack's totals have gained between the snapshots,
 * allocated and freed. B is at most that and at most the second's live bytes, D at most the freed
 * and at most the first's; and the two pairs of bounds have the same difference. So the pair with
 * the smaller variance is taken: of a stack through which memory passes quickly, the snapshots, as
 * if they were independent (they nearly are); of a stack where it stays, what came and what went.
 *
 * Significance is another question. Blocks come and go, and a program that does not grow at all
 * has a few more of them at one moment than at another, of which every byte may be certain. So the
 * question is whether a stack whose blocks come and go at random, each by itself, as many in the
 * mean, would differ by so much. Its samples are then Poisson counts, of weights z/p with the sum
 * of squares Q (estimate.h): as good as n = Y^2 / Q samples of the weight Q / Y (both profiles'
 * together, where their intervals are equal, for if nothing differs they are drawn from the same).
 * Two Poisson counts are compared by the binomial test of chance.h, which keeps its level however
 * few they are; all stacks together by Holm's procedure there, growth and shrinking each with
 * CHANCE_LEVEL. A program whose blocks come and go in crowds - a request's thousand at once - can
 * differ by more; two profiles cannot tell, four can.
 *
 * Growth rates (struct growth: bytes per second of each profile's own run, known to Student's
 * distribution) are compared the same way, by the t test; and so are live bytes of windows, of
 * which no samples can be counted, by the intervals that the profiles give. Two snapshots of one
 * run in windows share what was seen before the first, and the error of its clock: taking them for
 * independent makes the interval too wide, never too narrow.
 *
 * More than two profiles: first and last are compared as above; the steps between them make a
 * trend, the ratio estimator of growth.h with the steps for its segments (exact for the random
 * steps of one run; wider than it need be for independent samplings, of which an error counts in
 * two steps). From four profiles on, what is called growth grows by the trend, too.
 *
 * How good that is, is simulated in tests/unit/profile/test_diff.c, with samples at 512 KiB. Of
 * 400 pairs of runs of a program that holds 50 MB in 30 stacks, sizes from 16 bytes to 3 MiB, and
 * does not grow, 8 are said to; a leak of 200 kB/s beside 50 MB of churn is found between two
 * snapshots 30 s apart in 199 of 200 runs (it leaves 11 samples in the mean; 6 are enough, and
 * fewer come in 3 of 100 runs), and something else is said to grow in 6 of them. */
#ifndef MEMTRACE_PROFILE_DIFF_H
#define MEMTRACE_PROFILE_DIFF_H

#include "base/error.h"
#include "profile/chance.h"
#include "profile/profile.h"

/* Chance of a false finding: one-sided, for growth and for shrinking each. */
#define CHANCE_LEVEL 0.025

/* The degrees of freedom of the error of a profile's growth: it is estimated from so many slices
 * of the run, and one. */
#define GROWTH_DF 7

enum diff_measure {
	DIFF_AUTO,  /* live bytes; growth of different runs in windows */
	DIFF_LIVE,  /* bytes */
	DIFF_GROWTH /* bytes per second of each profile by itself */
};

/* What one should know: X(enumerator, sentence without its full stop). */
#define DIFF_WARNINGS(X)                                                                           \
	X(OTHER_PROGRAM, "they are of different programs: stacks are matched by function names")   \
	X(OTHER_RUNS, "they are of different runs: each has only what was allocated during its "   \
		      "own, so a leak that goes on at the same rate is no difference")             \
	X(OTHER_LENGTH, "their runs differ in length: the longer one had more time to allocate")   \
	X(INCOMPLETE, "samples were dropped: what is missing looks like memory that shrank or "    \
		      "never grew")                                                                \
	X(FILTERED, "filters have left something out: what is missing looks like memory that "     \
		    "shrank or never grew")                                                        \
	X(BACKWARDS,                                                                               \
	  "they are not in the order of time: growth is backwards from a later one to an "         \
	  "earlier one")                                                                           \
	X(UNTIMED, "they do not say when they were taken: there are no rates")                     \
	X(UNSAMPLED, "they do not say how they were sampled: how sure a difference is cannot be "  \
		     "told")                                                                       \
	X(DIVIDED,                                                                                 \
	  "their runs differ in length: live bytes are divided by it, which is too much of a "     \
	  "short run's for "                                                                       \
	  "what is set up once, and how sure a difference is cannot be told (growth rates, if "    \
	  "they have "                                                                             \
	  "them, can be compared)")                                                                \
	X(NOTHING_COMMON, "they have no stack in common: are they of different builds, or is one " \
			  "without names?")

enum diff_warning {
#define X(id, text) DIFF_WARN_##id,
	DIFF_WARNINGS(X)
#undef X
		DIFF_WARNINGS_MAX
};

const char *diff_warning__text(enum diff_warning warning);

/* With one of these nothing is claimed, and no interval given. */
#define DIFF_UNSURE                                                                                \
	(1u << DIFF_WARN_UNSAMPLED | 1u << DIFF_WARN_DIVIDED | 1u << DIFF_WARN_NOTHING_COMMON)

/* From the first profile to the last: bytes, or bytes per second of growth. */
struct change {
	double from, to;
	double bytes;		   /* to - from */
	double low, high;	   /* 95 %, of this one alone; equal: exact; NaN: not known */
	double p_grows, p_shrinks; /* how likely so much growth or more, or shrinking, is by chance;
				    * 0.5: not known */
};

struct diff_stack {
	const struct profile *profile; /* where its frames are told best; NULL in the total */
	const struct profile_site *site;
	/* the site of the last profile that holds most of it; NULL: none */
	const struct profile_site *last;
	double *values; /* of each profile; of all stacks one array */
	struct change change;
	bool grows, shrinks;   /* significantly, among all stacks; of the total: by itself */
	unsigned rises, falls; /* steps from profile to profile in which it became more, less */
	struct growth trend; /* of live bytes, per second, or, untimed, per step; NaN: not known */
};

struct diff {
	const struct profile *const *profiles; /* the caller's, and longer there than this */
	size_t n_profiles;
	enum diff_measure measure;
	bool one_run;	/* all are snapshots of one run */
	bool exact;	/* every allocation and free was recorded, all the time */
	bool windowed;	/* one of them at least was traced in windows */
	double seconds; /* from the first to the last, if they are of one run; NaN: not known, or no
			 * measure of growth */
	unsigned warnings;	   /* 1 << enum diff_warning */
	struct diff_stack *stacks; /* those with anything live, or growing: what grows by growth,
				    * what shrinks, and the rest by its change: all descending */
	size_t n_stacks;
	size_t n_grow, n_shrink; /* so many of each come first */
	struct diff_stack total;
	double *values; /* private */
	double weights; /* private: of the stacks that could be found to grow (claims__decide()) */
};

/* Compares n >= 2 sorted, symbolized profiles, oldest first. 0; -ENOMEM; -EFBIG with the reason in
 * err where they are too large together (profile/match.h); -EINVAL with the reason in err when they
 * cannot be compared: they are of different things (heap, regions, growth); no stack in common and
 * different programs; growth asked for that one does not have. Profiles are called by their numbers
 * in these texts, from 1. */
int diff__new(const struct profile *const *profiles, size_t n, enum diff_measure measure,
	      struct diff **ret_diff, struct error *err);
void diff__free(struct diff *diff);

/* The growth, bytes per second, that a stack without other traffic would have to have to be found
 * between the first and the last profile in 95 of 100 cases; NaN: not known. */
double diff__least_growth(const struct diff *diff);

/* Seconds since the epoch at a profile's end; NaN: not known. */
double profile__end_s(const struct profile *profile);
/* Are they snapshots of one run of memtrace on one process? */
bool profile__same_run(const struct profile *a, const struct profile *b);
/* May they be of the same program, as far as they say? */
bool profile__same_program(const struct profile *a, const struct profile *b);

#endif
