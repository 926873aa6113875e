/* SPDX-License-Identifier: BSD-2-Clause */
/* Who owns memory, and who frees it: a profile's transfers and live memory, by thread. */
#ifndef MEMTRACE_PROFILE_THREADS_H
#define MEMTRACE_PROFILE_THREADS_H

#include <stddef.h>

#include "profile/profile.h"

#define POOL_NAME    20
#define POOLS_PAIRED 12

/* A pool: all threads whose names differ only in their numbers ("worker-#"), or a single thread. A
 * pool owns the blocks that its threads allocated, even if other threads use them. Figures are
 * estimates, in bytes. */
struct pool {
	char name[POOL_NAME];
	size_t n_threads;
	uint32_t tid;		 /* of its first thread */
	double allocated, owned; /* owned: live at the end */
	/* `owned` as an estimate. The error has two parts: the error of each stack's live bytes,
	 * and the error of dividing these bytes among threads */
	struct estimate live;
	double freed_self;	/* allocated and freed by the same thread of the pool */
	double freed_by_others; /* allocated by the pool's threads, freed by any other thread, also
				 * by another thread of the same pool */
	double freed_of_others; /* allocated by any other thread, freed by a thread of the pool */
};

/* Writes the name of a thread's pool (the thread's name has at most 15 bytes) to `to`, which has
 * POOL_NAME bytes. Each number becomes a '#', except within a word ("worker-12" and "worker-3"
 * become "worker-#", "h2o" stays "h2o"). */
void pool__name(const char *thread, char *to);

struct pools {
	/* descending by what they own, then by what they allocated, then by tid */
	struct pool *list;
	size_t n;
	/* [owner][freer]: bytes that pool number `owner` allocated and pool number `freer` freed,
	 * for the first POOLS_PAIRED pools. The last row and column are all other pools together */
	double freed[POOLS_PAIRED + 1][POOLS_PAIRED + 1];
};

/* Makes the pools of a profile's threads. 0 or -ENOMEM. Clear the pools in both cases. */
int pools__make(const struct profile *profile, struct pools *ret);
void pools__clear(struct pools *pools);

#endif
