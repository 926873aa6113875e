/* SPDX-License-Identifier: BSD-2-Clause */
/* The facts of a run as a whole, which all profiles of the run share. Each profile has a run. A
 * profile that was read from a file, or made from other profiles, shares its run with no other. */
#ifndef MEMTRACE_PROFILE_RUN_H
#define MEMTRACE_PROFILE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/* A named count of something lost or left out. The name is not copied: it has to live as long as
 * the list. */
struct profile_counter {
	const char *name;
	uint64_t count;
};

/* Counters, each name once. Empty: all zero. */
struct profile_counters {
	struct profile_counter *at;
	size_t n;
};

/* Returns the counter of that name, and adds one with count 0 if there is none. NULL: out of
 * memory. */
struct profile_counter *profile_counters__get(struct profile_counters *counters, const char *name);
/* The count of that name; 0: there is no such counter. */
uint64_t profile_counters__count(const struct profile_counters *counters, const char *name);

/* What tracing has cost memtrace itself, for all processes of the run together. */
struct run_cost {
	bool known;
	double cpu_pct; /* of one core, over the run */
	bool host_known;
	double host_pct;       /* share of the machine's CPU time that probes took, per cent */
	uint64_t user_bytes;   /* memtrace's largest resident set */
	uint64_t kernel_bytes; /* tables in the kernel, at the end of the run */
	bool at_most;	       /* kernel_bytes is an upper limit: this kernel does not count what
				* the tables use (before Linux 6.4) */
};

struct profile_run {
	size_t users; /* private: how many share it */
	struct run_cost cost;
	struct profile_counters lost; /* losses that are of no single process; names are static, or
				       * kept by the only profile that has the run */
};

/* A run with one user; NULL: out of memory. */
struct profile_run *profile_run__new(void);
/* Adds a user. Returns run. */
struct profile_run *profile_run__share(struct profile_run *run);
/* Removes a user, and frees the run after the last one. NULL is allowed. */
void profile_run__free(struct profile_run *run);
DEFINE_CLEANUP(struct profile_run *, profile_run__cleanup, profile_run__free)

/* Raises a counter of losses to `count`, unless it is higher already. 0 or -ENOMEM. */
int profile_run__note_lost(struct profile_run *run, const char *static_name, uint64_t count);

#endif
