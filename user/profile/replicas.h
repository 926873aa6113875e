/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds which of several replicas of a service holds more, or grows faster, than the others, and in
 * which stack.
 *
 * Replicas differ from each other for two reasons: sampling, and different work. A replica's stack
 * is abnormal when neither reason explains the difference. So the stack's p is the larger of two
 * probabilities, one for each reason.
 *
 * - Sampling: the replica's samples are compared with the samples of all others together, by the
 *   binomial test (chance.h). The expected shares of samples follow from the lengths of the runs
 *   and the sampling intervals. Growth rates, and live bytes if any profile has windows, have
 *   confidence intervals of their own, so the t test is used for them.
 * - Different work: the spread among the other replicas shows how much difference is usual. The
 *   probability follows from the number of standard deviations by which the replica exceeds the
 *   others' median. The standard deviation is 1.4826 times the median distance from that median
 *   (MAD: this estimates the deviation of a normal distribution, and a single outlier hardly
 *   changes it). It is multiplied by student_quantile(n - 2) / 1.96, because it is estimated from
 *   only n - 1 values. The sampling error that equal replicas would have is added, as a variance.
 *   Few values may be close together by chance. So the median distance, as a share of the
 *   median, has a lower limit: the median of these shares over all stacks, weighted by bytes.
 *
 * All stacks of all replicas are claims that are tested at once (claims__decide()), at
 * CHANCE_LEVEL. Three replicas tell little about usual differences. If two of them hold 4 and 6 MB
 * of a stack, up to some 40 MB in the third are not abnormal. If the first two do not have the
 * stack at all, a dozen samples in the third are abnormal. With two replicas, nothing tells which
 * of them is the abnormal one. */
#ifndef MEMTRACE_PROFILE_REPLICAS_H
#define MEMTRACE_PROFILE_REPLICAS_H

#include "base/error.h"
#include "profile/diff.h"

struct replica_stack {
	const struct profile *profile; /* the profile that names the frames best */
	const struct profile_site *site;
	const double *values; /* by replica: bytes, or bytes per second */
};

/* What one replica has in one stack, and what the others have. */
struct replica_excess {
	uint32_t replica, stack; /* indices */
	double value, median;	 /* median: of the other replicas' values */
	double p;
	bool abnormal;
};

struct replica {
	uint32_t index;	      /* of its profile */
	double total, median; /* total: over all stacks; median: of the other replicas' totals */
	double excess;	      /* sum over its abnormal stacks: how much more it has than the median
			       * of the other replicas */
	size_t n_abnormal;
};

#define REPLICAS_MAX_INTERVALS 16

struct replicas {
	const struct profile *const *profiles; /* the caller's; they must outlive the struct */
	size_t n;
	enum diff_measure measure;
	bool per_second;   /* live bytes are divided by the length of the run, because the lengths
			    * are known and differ */
	bool by_intervals; /* the compared figures have confidence intervals of their own */
	unsigned warnings; /* 1 << enum diff_warning */
	struct replica *ranks; /* n, by excess, then by total above the median: descending */
	struct replica_stack *stacks;
	size_t n_stacks;
	struct replica_excess *list; /* values above the median: first the abnormal ones, then the
				      * others, both by the distance to the median, descending */
	size_t n_list, n_abnormal;
	double *values;				    /* private */
	uint64_t intervals[REPLICAS_MAX_INTERVALS]; /* private: the different sampling intervals */
	size_t n_intervals;
};

/* Compares one sorted, symbolized profile of each of n >= 3 replicas. DIFF_AUTO: growth rates if
 * all profiles have them, else live bytes. 0; -ENOMEM; -EINVAL or -EFBIG with the reason in err, as
 * for diff__new(). It is also -EINVAL if there are too few profiles, if two are of one run, or if
 * there are more than REPLICAS_MAX_INTERVALS different sampling intervals. */
int replicas__new(const struct profile *const *profiles, size_t n, enum diff_measure measure,
		  struct replicas **ret_replicas, struct error *err);
void replicas__free(struct replicas *replicas);

#endif
