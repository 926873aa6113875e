/* SPDX-License-Identifier: BSD-2-Clause */
/* Estimates how long a stack's blocks live, from windows (profile/windowed.h): short stretches of
 * time in which the process was watched.
 *
 * S(a) is the share of a stack's bytes that reach the age a (in seconds), and F = 1 - S. Two kinds
 * of evidence are counted by age (struct survival_ages).
 *
 *  Ends. In the window of its birth, every block is watched until it ends. So the hazard (the rate
 *  at which blocks of an age end, F' / S) is known for young ages. Later, each window watches the
 *  block's address: M(a) is the mean number of frees at the address up to age a. The first of these
 *  frees ends the block itself. If no window saw the first one, the first free that a window sees
 *  ends a successor (a later block at this address). The frees at one address form a renewal
 *  process (Feller, An Introduction to Probability Theory, vol. 2, chapter XI):
 *
 *	M(a) = F(a) + integral of M(a - u) dF(u),
 *
 *  if the lives of successors are distributed like the block's, and successors come at once. The
 *  equation is solved for F from young to old ages, with F between 0 and 1 and never falling. F is
 *  computed for the blocks that were alive at the end of the window of their birth, because later
 *  windows show only these. In any case F <= M, because each block that ends causes a free at its
 *  address.
 *
 *  Contents. The first bytes at a block's address are compared with the bytes that were there in
 *  the window of the block's birth. U(a) is the share of blocks of age a for which these bytes are
 *  the same. They are the same if the block lives and was not written to. If the block has ended,
 *  they are the same only if its successor has equal contents. Let q be the chance of equal
 *  contents. Then U = S + (1 - S) q. Where q is small, contents are the more precise evidence. But
 *  even where blocks differ much, a successor may have the contents of the block before it for a
 *  while. An example is a header that points to a buffer, where both are freed and allocated
 *  together. So q is the larger of two members of struct windowed_stack: `alike`, the chance for
 *  any two blocks, and `missed`, which depends on the age. Contents that change while the block
 *  lives make U too small. But S is at least 1 - M: contents that contradict this are not used. */
#ifndef MEMTRACE_PROFILE_SURVIVAL_H
#define MEMTRACE_PROFILE_SURVIVAL_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/parts.h"

/* Classes of ages. The first is of ages up to 10 us. Then six per decade follow, up to 10^5 s. */
#define SURVIVAL_CLASSES 61

/* The class of an age in seconds (>= 0), and the end of a class. */
int survival__age_class(double age_s);
double survival__class_end(int class);

/* What was seen of blocks, by their age, in bytes (of sampled blocks, weighted by 1/p). Times are
 * counted in calls that allocate, which are a window's clock (profile/windowed.h). Windows add to
 * these sums for days, so the sums are doubles: a float would stop growing at 2^24 times what each
 * window adds. */
struct survival_ages {
	/* In the window of a block's birth. watched: bytes, times the number of calls while these
	 * bytes lived. ended: bytes that ended. */
	double watched[SURVIVAL_CLASSES], ended[SURVIVAL_CLASSES];
	/* In later windows. pairs: pairs of a block and a window. exposed: these pairs, times the
	 * window's calls that allocate. frees: pairs with a free at the block's address. */
	double pairs[SURVIVAL_CLASSES], exposed[SURVIVAL_CLASSES], frees[SURVIVAL_CLASSES];
	/* Contents. looked: bytes of all blocks that were due to be compared. same: bytes of the
	 * blocks that were found unchanged. */
	double looked[SURVIVAL_CLASSES], same[SURVIVAL_CLASSES];
	double looked_at[SURVIVAL_CLASSES]; /* sum of age times bytes, of compared blocks */
};

enum survival_evidence {
	SURVIVAL_UNKNOWN,  /* nothing was watched long enough */
	SURVIVAL_CONTENTS, /* from contents */
	SURVIVAL_ENDS,	   /* from frees at addresses */
	SURVIVAL_LEAST,	   /* the least S that the number of events allows; only if asked for */
};

/* S at the upper bounds of the classes of age. */
struct survival {
	double s[SURVIVAL_CLASSES];
	double area[SURVIVAL_CLASSES]; /* integral of S from 0 to the class's upper bound,
				        * seconds */
	bool seen[SURVIVAL_CLASSES];   /* something of that age was watched, or compared */
	double area_error; /* seconds: the integral's largest error that comes from ages at which no
			    * block was watched */
	double known_s;	   /* the oldest age for which S is known */
	enum survival_evidence by;
	/* Contents show shorter lives than frees do, and too few frees were seen to tell which of
	 * the two is right. */
	bool doubtful;
};

/* The age that half of a stack's bytes reach. 0: not known; infinite: older than any age that was
 * watched. */
struct half_life {
	double s, low_s, high_s; /* seconds; low_s, high_s: the interval of s */
};

/* What else survival__solve() needs to know about a stack. */
struct survival_terms {
	double per_alloc_s; /* net seconds per call that allocates, in windows */
	/* 1: blocks end by the process's own clock. Above 1: they end by the wall clock. A net
	 * second in windows takes this many times as much wall time as a net second of the whole
	 * run. */
	double slowed;
	double left;   /* share of the stack's bytes that were alive at the end of the window of
			* their birth */
	double sample; /* bytes that one sampled block stands for, on average */
	double alike;  /* chance that two of the stack's blocks have equal contents */
	/* see struct windowed_stack */
	const float *missed;
	double length_s;  /* length of the run; older ages are not needed */
	unsigned without; /* parts of the model that are left out: parts.h */
	/* SURVIVAL_CONTENTS, SURVIVAL_ENDS: only this evidence is used, if there is any.
	 * SURVIVAL_LEAST: S is the lower bound of survival__lowest(). Contents count in this bound
	 * only if they contradict frees, but not surely (`doubtful`) */
	enum survival_evidence only;
};

/* Computes S of a stack, or of a cohort (struct windowed_stack), from n groups of windows. In a
 * group that is NULL nothing was seen. The group numbered `without` is left out (-1: none). */
void survival__solve(struct survival_ages *const *groups, size_t n, int without,
		     const struct survival_terms *terms, struct survival *ret);

/* Finds a lower bound of S at the upper end of each class, from all groups. The bound follows from
 * the number of events, not from the spread between windows: windows without events do not differ,
 * so their spread says nothing. The bound is also at most S by contents, even if frees contradict
 * contents. It is at most S by frees, too, except where contents are used in place of frees. */
void survival__lowest(struct survival_ages *const *groups, size_t n,
		      const struct survival_terms *terms, double ret[SURVIVAL_CLASSES]);

/* S at an age, and the integral of S from 0 to that age, seconds. */
double survival__at(const struct survival *survival, double age_s);
double survival__area(const struct survival *survival, double age_s);

/* The age at which S falls to one half; infinite: S stays above one half. */
double survival__half_life(const struct survival *survival);

#endif
