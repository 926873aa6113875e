/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of several replicas of a service holds, or grows by, more than the others, and in which
 * stack.
 *
 * Replicas differ from each other: by sampling, and because they do not do the same work. So a
 * replica's stack is abnormal when neither explains it: p is the larger of two.
 *
 * - Of sampling: its samples against those of all others together, by the binomial test (chance.h),
 *   with shares as the runs are long and the intervals close; of growth rates, and of live bytes
 *   where windows are among them, which have intervals of their own, the t test.
 * - Of the spread among the others: by how many standard deviations it exceeds their median. The
 *   deviation is 1.4826 times the median distance from that median (MAD: right for a normal
 *   distribution, and whatever a single outlier does), wider by student_quantile(n - 2) / 1.96,
 *   for it is known from n - 1 values only, and the error of sampling that is there if nothing
 *   differs. Few values may be close together by chance: the distance is no smaller, in proportion
 *   to the median, than it is in those stacks that hold most (the median by bytes).
 *
 * All stacks of all replicas are claims that are tested at once (claims__decide()), at
 * CHANCE_LEVEL. Three replicas say little of what is ordinary: a stack that two of them hold 4 and
 * 6 MB of is not abnormal in the third up to some 40 MB, one that they do not have at all from a
 * dozen samples on. Two cannot say which of them is the odd one. */
#ifndef MEMTRACE_PROFILE_REPLICAS_H
#define MEMTRACE_PROFILE_REPLICAS_H

#include "base/error.h"
#include "profile/diff.h"

struct replica_stack {
	const struct profile *profile; /* where its frames are told best */
	const struct profile_site *site;
	const double *values; /* of each replica: bytes, or bytes per second */
};

/* What one replica has in one stack, and the others. */
struct replica_excess {
	uint32_t replica, stack; /* indices */
	double value, median;	 /* of the others */
	double p;
	bool abnormal;
};

struct replica {
	uint32_t index;	      /* of its profile */
	double total, median; /* of all stacks; of the others' totals */
	double excess;	      /* by how much its abnormal stacks exceed the others' medians */
	size_t n_abnormal;
};

#define REPLICAS_MAX_INTERVALS 16

struct replicas {
	const struct profile *const *profiles; /* the caller's, and longer there than this */
	size_t n;
	enum diff_measure measure;
	bool per_second;   /* live bytes are divided by the length of the run, for these differ and
			    * are known */
	bool by_intervals; /* what is compared has intervals of its own */
	unsigned warnings; /* 1 << enum diff_warning */
	struct replica *ranks; /* n, by excess, then by total above the median: descending */
	struct replica_stack *stacks;
	size_t n_stacks;
	struct replica_excess *list; /* those above the median: abnormal ones by value above it,
					* then the others: descending */
	size_t n_list, n_abnormal;
	double *values;				    /* private */
	uint64_t intervals[REPLICAS_MAX_INTERVALS]; /* private: the different ones */
	size_t n_intervals;
};

/* From one sorted, symbolized profile of each of n >= 3 replicas. DIFF_AUTO: growth rates, where
 * all have them, else live bytes. 0; -ENOMEM; -EINVAL or -EFBIG with the reason in err: as for
 * diff__new(), or too few, or two of one run, or sampled in more than REPLICAS_MAX_INTERVALS
 * ways. */
int replicas__new(const struct profile *const *profiles, size_t n, enum diff_measure measure,
		  struct replicas **ret_replicas, struct error *err);
void replicas__free(struct replicas *replicas);

#endif
