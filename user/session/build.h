/* SPDX-License-Identifier: BSD-2-Clause */
/* From what the kernel recorded to a profile. */
#ifndef MEMTRACE_SESSION_BUILD_H
#define MEMTRACE_SESSION_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/capture.h"
#include "pace/scheduler.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/run_time.h"
#include "profile/profile.h"
#include "ledger/reallocs.h"
#include "ledger/net_clock.h"
#include "ledger/survivors.h"
#include "ledger/regions.h"
#include "ledger/series.h"
#include "symbolize/symbolize.h"

/* What holds the cost of tracing a process within its budget (budget.h). */
struct budget {
	struct paced pace;	    /* when it is traced; its windows' budget 0: continuously */
	struct survivors survivors; /* of blocks born in windows; without one: none were needed */
	struct reallocs reallocs;   /* and of those that realloc has grown */
	struct net_clock clock;
	struct run_time run;	 /* of the window at hand */
	double begin_cpu_ns;	 /* total when it began */
	uint64_t open_allocs;	 /* when the window began: calls that allocated, */
	int64_t open_net_blocks; /* and the balance of blocks */
	/* the window at hand is, or became, continuous tracing: it stands for itself */
	bool stretch;
	/* interval at which the program was ever sampled; 0: there is no limit, and it
	 * was none but the run's */
	uint64_t coarsest;
	/* of the present or last window; samples: when it or its last piece began */
	uint64_t interval, samples;
	struct region_budget {
		double left_ns; /* of what seeing its regions may cost, */
		uint64_t at_ns; /* as of that look, when totals were: */
		double cpu_ns, cost_ns;
		uint64_t next_ns; /* of the next look; 0: there is no limit, or none are seen */
	} regions;
	struct held { /* totals when budget__holds() looked last */
		double cost_ns, cpu_ns;
	} held;
	struct capture *capture; /* where its blocks are followed, */
	uint32_t process;	 /* as this process's */
	/* what it has cost more that its calls came rarely, up to when it was last read: */
	double rare_ns;
	uint64_t rare_calls, rare_at_ns;
	double rare_cpu_ns;
};

/* Has it been traced in windows, or was it never its turn? */
bool budget__is_windowed(const struct budget *budget);

/* One process of the run. */
struct target {
	struct process_info info;  /* as it was when tracing began, or at its last exec */
	uint32_t process;	   /* its number in the kernel's tables */
	uint64_t begun_by_exec_ns; /* when, monotonic, if it came by an exec; else 0 */
	uint64_t exec_ns;	   /* last exec during the run, monotonic; 0: none */
	bool exec_by_thread; /* it was made by another than the main thread, which the probes did
			      * not follow */
	bool headless;	     /* its main thread has ended, others go on */
	int pidfd;
	bool maps_changed; /* since the kernel side was told */
	bool code_changed; /* code of a file was made executable again: not looked at yet */
	bool probes_due;   /* ... and it was not looked through for allocators since */
	struct maps maps;  /* everything it has had mapped, newest over oldest */
	size_t n_mapped;   /* what it had of them at the last look at /proc */
	/* Mappings that took the place of other code: what has run there before is named as theirs.
	 */
	uint64_t code_replaced;
	/* where it may say what that code is; root_fd -1: not known */
	struct perf_map_place perf_map;
	uint64_t mappings_left_out; /* of its code, that the kernel side does not know; at worst */
	struct allocators *allocators;
	uint64_t rss_start_bytes, rss_bytes;  /* resident set at the run's start (0: it was not
					      * there, or not to be read) and when last read */
	uint32_t threads;		      /* when last read */
	bool heap_attached, regions_attached; /* its probes are in place */
	/* where its regions are seen, when by probes of its own */
	struct region_source *regions;
	struct region_book book;
	/* its writable anonymous mappings, when last read; 0: not known */
	uint64_t heap_bound_bytes;
	struct resident_pieces resident; /* measured at the end of the run, if that was asked for */
	struct series region_series;	 /* of what its stacks hold */
	uint64_t regions_stopped_ns; /* when following them became too dear, monotonic; 0: never */
	uint64_t withdrawals_before; /* how often all probes had been withdrawn when it came */
	bool uninvited;		     /* it was not named, but selected */
	bool ended;
	uint64_t start_ns; /* monotonic, when tracing it began; 0: with the run */
	uint64_t exit_ns;  /* when it ended, if that is known but not taken in yet */
	uint64_t end_ns;   /* monotonic, when ended */
	uint64_t cpu_start_ns, cpu_now_ns; /* CPU time of the process */
	/* of a command that has ended: of its children, where these are not traced */
	uint64_t children_cpu_ns;
	struct abi_process_cpu counters;  /* as last read */
	uint64_t alloc_calls, free_calls; /* by them, the allocator's calls to itself left out */
	double probe_ns;		  /* cost of the probes so far, negative when unknown */
	double gone_bytes;		  /* what programs held that exec replaced */
	struct sizes anon;		  /* its anonymous memory */
	struct budget budget;
	/* Estimates for the running display, of a process in windows too: what it has called so
	 * far; as known when it was brought up to date last: net seconds, and what was counted. */
	struct {
		double allocs, frees;
		uint64_t clock_ns; /* up to which the clock was taken */
		uint64_t seen_allocs, seen_frees;
	} calls;
};

void target__clear(struct target *target);

/* What a profile is made of. */
struct build {
	struct capture *capture;
	const struct calibration *calibration; /* NULL: none */
	const struct capture_drain *drain;     /* prepared */
	const struct target *target;
	struct symbolizer *symbolizer;
	const struct series *series; /* NULL: none */
	uint64_t begin_ns, end_ns;   /* of the run, or of the target's part of it; monotonic */
	bool faults;		     /* what stands in the heap's tables are pages */
	uint64_t interval, asked_interval; /* the coarsest, and what was asked for */
	uint64_t start_unix_ns;
	double duration_s, planned_s;
	double overhead_pct;   /* negative when unknown */
	double regions_growth; /* of what it maps by itself, bytes per second; 0: none is known */
	uint64_t cpu_time_ns;
	const char *not_traced; /* as in the profile */
	unsigned without;     /* parts of the model of windows that are left out: profile/parts.h */
	uint64_t missed_runs; /* of BPF programs, whosever calls these would have seen */
	uint64_t probes_withdrawn;
};

/* The sites of one process among the drained ones, and what number each has in its profile. */
struct process_sites {
	const struct abi_site_key *keys; /* ascending */
	const struct abi_site *sites;
	size_t n;
	size_t *site_of; /* NO_SITE: it has none */
};

#define NO_SITE SIZE_MAX

/* Which of the sites has that stack, or -1: none that is in the profile. */
long process_sites__find(const struct process_sites *sites, const struct abi_stack_key *stack);

/* A sorted, symbolized profile of the heap, and one of the regions. 0 or -ENOMEM. */
int build__profile(const struct build *build, struct profile **ret);
int build__regions(const struct build *build, struct profile **ret);

/* 1 when the process became another program by exec and that one has no probes; else 0. */
uint64_t build__exec_untraced(const struct build *build);

/* What the target's resident set is made of, if that was measured; else *ret is NULL. heap,
 * regions: its profiles, NULL: there is none. 0 or -ENOMEM. */
int build__resident(const struct build *build, const struct profile *heap,
		    const struct profile *regions, struct resident **ret);

#endif
