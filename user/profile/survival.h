/* SPDX-License-Identifier: BSD-2-Clause */
/* For how long a stack's blocks live, from windows (profile/windowed.h): short stretches of time in
 * which its program was watched.
 *
 * S(a): share of a stack's bytes that live for a seconds or longer, F = 1 - S. Two kinds of
 * evidence are counted by age (struct survival_ages).
 *
 *  Ends. In the window of its birth every block is watched until it ends: f' / S, the hazard, is
 *  known for young ages. Later, the address of each block is watched in each window: M(a) is the
 *  mean number of frees that happen there up to age a. The first of them is the block's own; after
 *  one that no window saw it is a successor's. An address is a renewal process (Feller, An
 *  Introduction to Probability Theory, vol. 2, chapter XI):
 *
 *	M(a) = F(a) + integral of M(a - u) dF(u),
 *
 *  if successors live as the block did and come at once. It is solved for F from young to old, F
 *  between 0 and 1 and never falling; for blocks that were alive when the window of their birth
 *  ended, of which alone something is known later. Whatever successors do, F <= M: a block cannot
 *  end without a free at its address.
 *
 *  Contents. U(a) is the share of blocks whose first bytes are as they were when the block was new.
 *  A block that lives and is not written to is the same. One that ended is the same when its
 *  successor has equal contents, with the chance q that two blocks of its size are equal: U = S +
 *  (1 - S) q. Where q is small this is the sharper evidence. At the same address the next one may
 *  have the same contents for a while, however much blocks differ: q is by age, the larger of both
 *  (struct windowed_stack). Contents that change while the block lives make U too small. But S is
 *  no less than 1 - M: where contents contradict that, they are no evidence. */
#ifndef MEMTRACE_PROFILE_SURVIVAL_H
#define MEMTRACE_PROFILE_SURVIVAL_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/parts.h"

#define SURVIVAL_CLASSES 61 /* of ages: up to 10 us, then six a decade, the last up to 10^5 s */

/* The class of an age in seconds (>= 0), and the end of a class. */
int survival__age_class(double age_s);
double survival__class_end(int class);

/* What was seen by age, in bytes (of sampled blocks, weighted by 1/p), and for how long: times the
 * calls that allocate, which are a window's clock (profile/windowed.h). */
struct survival_ages {
	/* In the window of birth: bytes times calls while they lived; what ended. */
	float watched[SURVIVAL_CLASSES], ended[SURVIVAL_CLASSES];
	/* In later windows: pairs of a block and a window; the same times the window's calls that
	 * allocate; pairs with a free at the address. */
	float pairs[SURVIVAL_CLASSES], exposed[SURVIVAL_CLASSES], frees[SURVIVAL_CLASSES];
	/* Contents: bytes of all blocks that were due to be looked at, and of those that were found
	 * unchanged. */
	float looked[SURVIVAL_CLASSES], same[SURVIVAL_CLASSES];
	float looked_at[SURVIVAL_CLASSES]; /* sum of the ages of what was looked at, times bytes */
};

enum survival_evidence {
	SURVIVAL_UNKNOWN,  /* nothing was watched long enough */
	SURVIVAL_CONTENTS, /* contents told */
	SURVIVAL_ENDS,	   /* frees at addresses told */
};

/* At the upper bounds of the classes of age. */
struct survival {
	double s[SURVIVAL_CLASSES];
	double area[SURVIVAL_CLASSES]; /* its integral from 0 on, seconds */
	bool seen[SURVIVAL_CLASSES];   /* something of that age was watched, or looked at */
	double known_s;		       /* the oldest age that it is known of */
	enum survival_evidence by;
};

/* How long half of a stack's bytes live, at least. 0: not known; infinite: longer than anybody
 * watched. */
struct half_life {
	double s, low_s, high_s; /* seconds; the ends of its interval */
};

/* What else decides how long a stack's blocks live. */
struct survival_terms {
	double per_alloc_s; /* net seconds for a call that allocates, in windows */
	/* 1: blocks end by the process's own clock. More: they end by the wall clock, of which
	 * a net second in windows has so many times as much as elsewhere. */
	double slowed;
	double left;   /* share of its bytes that was alive when the windows of their birth ended */
	double sample; /* bytes that one block counts, on the average */
	double alike;  /* chance that two of its blocks have equal contents */
	/* struct windowed_stack */
	const float *missed;
	double length_s;  /* of the run; nobody asks for older ages */
	unsigned without; /* parts of the model that are left out: parts.h */
};

/* S of a stack, or of a cohort, from n groups of windows but the one numbered `without` (-1:
 * all). */
void survival__solve(const struct survival_ages *groups, size_t n, int without,
		     const struct survival_terms *terms, struct survival *ret);

/* S at an age, and its integral from 0 to it, seconds. */
double survival__at(const struct survival *survival, double age_s);
double survival__area(const struct survival *survival, double age_s);

/* The age at which S comes down to a half; infinite: at none. */
double survival__half_life(const struct survival *survival);

#endif
