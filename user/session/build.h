/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes a profile from what the kernel recorded. */
#ifndef MEMTRACE_SESSION_BUILD_H
#define MEMTRACE_SESSION_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/capture.h"
#include "pace/others.h"
#include "pace/scheduler.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/run_time.h"
#include "profile/large.h"
#include "profile/profile.h"
#include "ledger/reallocs.h"
#include "ledger/net_clock.h"
#include "ledger/survivors.h"
#include "ledger/regions.h"
#include "ledger/series.h"
#include "session/python.h"
#include "symbolize/symbolize.h"

/* State for keeping the cost of tracing one process within its budget (budget.h). */
struct budget {
	struct paced pace; /* when the process is traced; pace.windows.budget 0: continuously */
	/* blocks born in windows; n_windows 0: no window was recorded */
	struct survivors survivors;
	struct reallocs reallocs; /* blocks that realloc has enlarged in windows */
	struct net_clock clock;
	struct run_time run;	    /* CPU time in the present window */
	struct process_waits waits; /* as last read, at an edge of a window */
	/* totals when this window began: CPU time, and the part of it that borrowers used
	 * (lent_ns) */
	double begin_cpu_ns;
	uint64_t begin_lent_ns;
	uint64_t open_allocs;	 /* total when the window began: calls that allocated */
	int64_t open_net_blocks; /* total when the window began: blocks allocated minus freed */
	/* The present window is, or became, continuous tracing. What it saw is then not used as a
	 * sample of other times. */
	bool stretch;
	/* coarsest interval at which the program was sampled; 0: there is no limit, so the run's
	 * interval was always used */
	uint64_t coarsest;
	uint64_t finest; /* the finest interval; means nothing if there were windows */
	/* interval: of the present window, or of the last one. samples: the number of samples when
	 * this window, or its present part, began. */
	uint64_t interval, samples;
	struct region_budget {
		double left_ns; /* budget that is left for seeing the process's regions, at at_ns */
		uint64_t at_ns; /* the last check; cpu_ns, cost_ns: the totals at that time */
		double cpu_ns, cost_ns;
		uint64_t next_ns; /* the next check; 0: there is no limit, or no regions are seen */
	} regions;
	struct held { /* totals at the last call of budget__holds() */
		double cost_ns, cpu_ns;
	} held;
	struct capture *capture; /* the capture that follows the process's blocks */
	uint32_t process;	 /* the process's number in that capture */
	/* extra cost because the process's calls came rarely; rare_calls, rare_at_ns, rare_cpu_ns:
	 * the totals and the time when rare_ns was last computed */
	double rare_ns;
	uint64_t rare_calls, rare_at_ns;
	double rare_cpu_ns;
	struct others others; /* extra cost because other tracers trace the same functions */
};

/* Was the process traced in windows? Also true if its turn for a window never came. */
bool budget__is_windowed(const struct budget *budget);

/* Tells since when a process rests; targets__rests() uses it. All zero: not known. */
struct rest {
	uint64_t cpu_ns;   /* the CPU time that it had used at the last check */
	uint64_t since_ns; /* monotonic: the first check with that value */
};

/* One process of the run. */
struct target {
	struct process_info info;  /* as it was when tracing began, or at its last exec */
	uint32_t process;	   /* its number in the kernel's tables */
	size_t entry;		   /* its place in the session's index, + 1; 0: it has none
				    * (find.c) */
	uint64_t begun_by_exec_ns; /* monotonic: when an exec made it a target; 0: no exec */
	uint64_t exec_ns;	   /* last exec during the run, monotonic; 0: none */
	/* allocating calls and samples of the programs before that exec */
	uint64_t exec_calls, exec_samples;
	/* a thread other than the main thread called exec, and the probes did not follow it */
	bool exec_by_thread;
	bool headless; /* its main thread has ended, other threads go on */
	/* its own probes are in no code: they were placed again after its main thread had ended, or
	 * the kernel took them out together with another tracer's */
	bool silent;
	/* like `silent`, for the probes that see its regions */
	bool regions_silent;
	uint64_t silence_look_ns; /* when memtrace last looked for the probes, monotonic */
	uint32_t death;	  /* cause of death, ABI_DEATH_...; 0: it ended by itself, or has not
			   * ended */
	bool is_victim;	  /* the kernel has chosen it to be killed because memory is short */
	bool victim_told; /* session__victims() has reported its profile */
	int pidfd;
	bool maps_changed; /* the kernel side does not know the new mappings yet */
	bool maps_stale;   /* news of a mapping did not fit /proc/PID/maps: read it again */
	/* a file's code was made executable again, and has not been checked yet */
	bool code_changed;
	/* its own probes were taken out, and are still to be put back: guard__restore_late() */
	bool heap_out;
	/* `maps` have changed, and have not been searched for allocators since */
	bool probes_due;
	/* all mappings that its program ever had; of several at one address, only the newest. If
	 * too many are gone (MAX_GONE in targets.c), only the present ones */
	struct maps maps;
	/* CPU time so far of processes that ran in its memory (borrowers.c); n_borrowers: the
	 * number of those that run there now */
	uint64_t lent_ns;
	size_t n_borrowers;
	/* number of borrowers that have worked, and in which the probes perhaps do not act */
	uint64_t borrowers_unseen;
	size_t n_mapped; /* number of mappings when /proc was last read */
	/* How many mappings took the place of other code. Frames in the old code get names of the
	 * new code. */
	uint64_t code_replaced;
	/* where its perf map may be (this map names code that lies in no file); root_fd -1: not
	 * known */
	struct perf_map_place perf_map;
	struct python_names *python; /* NULL: it runs no Python, as far as is known */
	/* how often Python was looked for while the process's loader was not ready */
	unsigned int python_looks;
	uint64_t python_due_ns; /* when to look for Python again; 0: not again */
	/* the largest number of code mappings that the kernel side did not know at one time */
	uint64_t mappings_left_out;
	struct allocators *allocators;
	/* an exec during the run has replaced its program; the news of its new mappings, which says
	 * so, may come before the news that sets exec_ns */
	bool program_replaced;
	/* allocators that got their probes when the program could already call them */
	uint64_t allocators_late;
	/* Since the last exec: is the program's malloc of no known allocator, how often was this
	 * looked at, and when is it to be looked at again (0: not again)? */
	bool malloc_unknown;
	unsigned int malloc_looks;
	uint64_t malloc_due_ns;
	/* resident set at the run's start (0: the target was not there, or not readable) and when
	 * last read */
	uint64_t rss_start_bytes, rss_bytes;
	/* the same figures, for its mapped files and shared memory alone */
	uint64_t file_start_bytes, file_bytes;
	uint32_t threads;   /* when last read */
	bool heap_attached; /* its probes for the heap are in place */
	/* the functions of its C library that show its regions, or the reason why none do; NULL:
	 * not looked for */
	struct region_source *regions;
	struct region_book book;
	struct {		   /* large_blocks.h */
		struct scan *scan; /* a list that was asked for; NULL: none */
		uint64_t since_ns; /* when the first list was asked for, monotonic; 0: never */
		bool known;	   /* `before` was read */
		bool whole;	   /* the program began during the run: `before` is empty */
		bool complete;	   /* `after` was read, too */
		struct large_blocks before, after;
	} large;
	/* size of its writable anonymous mappings, when last read; 0: not known */
	uint64_t heap_bound_bytes;
	struct resident_pieces resident; /* measured at the end of the run, if that was asked for */
	struct series region_series;	 /* snapshots of what its stacks hold in regions */
	/* when regions became too costly to follow, monotonic; 0: never */
	uint64_t regions_stopped_ns;
	uint64_t withdrawals_before; /* how often all probes were withdrawn before it became a
				      * target */
	bool uninvited;		     /* it was not named, but selected */
	bool released;		     /* it is alive, and is not traced any more: active.c */
	/* one of its files could not be opened in time, or another file had got the inode number of
	 * that file by then */
	bool missed_file;
	bool ended;
	uint64_t start_ns;	/* monotonic: when its tracing began; 0: when the run began */
	uint64_t start_unix_ns; /* the wall clock at start_ns; 0: not noted */
	uint64_t exit_ns;	/* when it ended, if its end is known but not handled yet */
	uint64_t end_ns;	/* monotonic, when ended */
	uint64_t cpu_start_ns, cpu_now_ns; /* CPU time of the process */
	/* CPU time of a command's children, if they are not traced; it is known when the command
	 * has ended */
	uint64_t children_cpu_ns;
	uint32_t n_strays;		 /* children at the end of the run that are not traced */
	struct abi_process_cpu counters; /* as last read */
	/* from counters, without the allocator's calls to itself */
	uint64_t alloc_calls, free_calls;
	double probe_ns;   /* cost of the probes so far, negative when unknown */
	double gone_bytes; /* what its former programs held when exec replaced them */
	struct sizes anon; /* its anonymous memory */
	/* Some work is repeated, but is skipped while the process rests, because the result depends
	 * only on what the process does. For each kind of such work, `rest` tells since when the
	 * process rests: */
	struct {
		struct rest totals, size, look, news;
	} rest;
	/* monotonic: when its last profile for session__news() was made; 0: none */
	uint64_t told_ns;
	bool is_due;  /* its next profile for session__news() is due */
	bool is_lost; /* the profile that was just made was lost */
	struct budget budget;
	/* For the display during the run, which shows processes in windows, too. */
	struct {
		double allocs, frees;		  /* estimate of its calls so far */
		uint64_t clock_ns;		  /* the estimate covers time up to here */
		uint64_t seen_allocs, seen_frees; /* counts of calls at the last update */
	} calls;
};

/* Does the target map code of the file? file: as in map_entry__real(). */
bool target__maps_code(const struct target *target, const struct file_id *file);
void target__clear(struct target *target);

/* What a profile is made from. */
struct build {
	struct profile_run *run; /* the profiles become part of it */
	struct capture *capture;
	const struct calibration *calibration; /* NULL: none */
	const struct capture_drain *drain;     /* sorted */
	const struct target *target;
	/* target's resident set: build__regions() marks the pieces that belong to the heap; NULL:
	 * none */
	struct resident_pieces *pieces;
	struct symbolizer *symbolizer;
	const struct series *series; /* NULL: none */
	/* of the run, or of the part of it in which the target was traced; monotonic */
	uint64_t begin_ns, end_ns;
	bool faults; /* the heap's tables hold pages, not blocks */
	bool blocks; /* the blocks of sites are asked for */
	/* in this order: the coarsest interval; the interval asked for; the finest interval of
	 * continuous tracing (0: there is none); the interval of the next sample */
	uint64_t interval, asked_interval, finest_interval, present_interval;
	uint64_t start_unix_ns;
	double duration_s, planned_s;
	struct optional overhead_pct;
	double others_pct;
	/* growth of regions that the program maps by itself, bytes per second; 0: not known */
	double regions_growth;
	uint64_t cpu_time_ns;
	const char *not_traced; /* as in the profile */
	unsigned without;     /* parts of the model of windows that are left out: profile/parts.h */
	uint64_t withdrawals; /* of all probes, while this process was a target */
};

/* The sites of one process, as drained from the kernel, and the number of each site in the
 * profile. */
struct process_sites {
	const struct abi_site_key *keys; /* ascending */
	const struct abi_site *sites;
	size_t n;
	size_t *site_of; /* numbers in the profile; NO_SITE: the profile lacks the site */
};

#define NO_SITE SIZE_MAX

/* Returns the index of the site with this stack; -1: there is none, or the profile lacks it. */
long process_sites__find(const struct process_sites *sites, const struct abi_stack_key *stack);

/* Make a sorted, symbolized profile: build__profile() of the heap (or of page faults),
 * build__regions() of the regions. 0 or -ENOMEM. */
int build__profile(const struct build *build, struct profile **ret);
int build__regions(const struct build *build, struct profile **ret);

/* Returns 1 if the process became another program by exec, and this program has no probes; else
 * 0. */
uint64_t build__exec_untraced(const struct build *build);

/* Finds what the target's resident set is made of. If this was not measured, sets *ret to NULL.
 * heap, regions: the target's profiles; NULL: there is none. 0 or -ENOMEM. */
int build__resident(const struct build *build, const struct profile *heap,
		    const struct profile *regions, struct resident **ret);

#endif
