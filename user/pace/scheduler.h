/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts probes in and takes them out, so that tracing keeps its limits: does what windows.h and
 * host.h decide. One scheduler for two cases.
 *
 *   own     each process has probes of its own, which come and go by its windows alone.
 *   shared  probes stand in everybody's code. While that exceeds no limit, they stay
 *	     ("everywhere").
 *	     Else they go, and
 *	     processes get turns: probes of their own for a window, in a few at a time, under the
 *	     host's limit.
 *
 * It sees no process, no probe and no clock but through its ops, so that it runs over a simulated
 * machine in tests. */
#ifndef MEMTRACE_PACE_SCHEDULER_H
#define MEMTRACE_PACE_SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pace/host.h"
#include "pace/windows.h"

#define PACE_SLOTS 8 /* shared: windows at a time */

/* One process. All zero before scheduler__add(). */
struct paced {
	void *owner; /* whose it is: for the ops */
	struct windows windows;
	struct host_process turn; /* shared */
	bool begun, ended;
	uint64_t start_ns, end_ns; /* of the present or last window: all probes were in place */
	bool settling;		   /* its probes have come, its window begins at start_ns */
	bool closing;		   /* the window is over, its probes are on their way out */
	bool cut;		   /* its window is to end now (an exec); the owner may set it */
	uint64_t failed;	   /* windows that could not be opened or taken in; the ops may
				    * count them as well */
	/* shared: what other windows on the same file have made it cost more so far */
	double extra_ns;
	/* The scheduler's. */
	bool over; /* its window ends as planned */
	bool due;  /* it has ended and was not taken in yet */
	uint64_t open_ns, calls, closed_look_ns;
	double open_cost_ns, open_cpu_ns;   /* totals when its window was opened, */
	double piece_cost_ns, piece_cpu_ns; /* and when a piece of it was last taken in */
	double noted_cost_ns, noted_felt_ns;
};

/* All get ctx as scheduler__begin() was given it. Times are monotonic. */
struct pace_ops {
	/* ns */
	uint64_t (*now_ns)(void *ctx);
	/* Totals of a process so far: cost of its probes, as calibrated; what of it samples
	 * took; and CPU time. */
	void (*read_totals)(void *ctx, struct paced *process, double *ret_cost_ns,
			    double *ret_samples_ns, double *ret_cpu_ns);
	/* Told of all totals that are read, at windows' opening and closing and in between. NULL:
	 * nobody. */
	void (*note_totals)(void *ctx, struct paced *process, uint64_t now_ns, double cpu_ns,
			    double cost_ns);
	/* Calls that its probes have seen, as of the last totals. */
	uint64_t (*calls)(void *ctx, struct paced *process);
	/* Does no thread of it run or wait for a CPU? */
	bool (*sleeps)(void *ctx, struct paced *process);
	/* CPU time that the machine was idle so far, all CPUs. 0 or negative errno. */
	int (*machine_idle_ns)(void *ctx, uint64_t *ret_ns);

	/* May its probes be put in place now, or are too many still on their way out? */
	bool (*can_open)(void *ctx, struct paced *process);
	/* Puts probes of its own in place. It may set cut: they are to go again. 0, or negative
	 * errno: there is nothing that they could stand on. */
	int (*open)(void *ctx, struct paced *process);
	/* Begins to take them out. */
	void (*begin_close)(void *ctx, struct paced *process);
	/* Have all gone? */
	bool (*is_gone)(void *ctx, struct paced *process);
	/* The clock is to be read: its window begins, now. (start_ns of the first is when tracing
	 * began.) UINT64_MAX: its window is over, or the gap is, and probes come. What comes
	 * outside of windows is no window's. */
	void (*set_window)(void *ctx, struct paced *process, uint64_t start_ns);

	/* Takes in windows that are over, or pieces of them, from start_ns to end_ns. The processes
	 * are in no order, and it may sort them. */
	void (*harvest)(void *ctx, struct paced **processes, size_t n);
	/* What its probes have counted since is no window's. */
	void (*pass_over)(void *ctx, struct paced *process);
	/* Is there a window of it that was taken in? */
	bool (*has_windows)(void *ctx, const struct paced *process);
	/* Sets its sampling by what its window, or a piece, has cost and used. The interval as
	 * it is then, of that asked for. */
	double (*adapt_interval)(void *ctx, struct paced *process, double cost_ns, double cpu_ns);
	/* Sets it to so many times what was asked for, as its window is, or became, continuous
	 * tracing, which stands for itself. */
	void (*restore_interval)(void *ctx, struct paced *process, unsigned factor);
	/* Looks at all its blocks once more, at the end. */
	void (*look_at_all)(void *ctx, struct paced *process);

	/* Shared only. What all probes have cost the machine so far, and what of it samples
	 * took. */
	double (*machine_cost_ns)(void *ctx, double *ret_samples_ns);
	/* The probes in everybody's code: begins to take them out; are they gone; puts them back,
	 * all or none (0 or negative errno). */
	void (*pause_all)(void *ctx);
	bool (*all_gone)(void *ctx);
	int (*resume_all)(void *ctx);
	/* A process from outside: its CPU time; its resident set and page faults. 0 or negative
	 * errno. */
	int (*watch)(void *ctx, struct paced *process, double *ret_cpu_ns);
	int (*watch_size)(void *ctx, struct paced *process, uint64_t *ret_rss_bytes,
			  uint64_t *ret_faults);
};

struct pace_limits {
	double aim, steady; /* share of its own CPU time that windows, and continuous tracing, may
			     * cost a process, 0..1 */
	bool shared;
	double own;  /* shared: share of its own that a process is judged by everywhere, */
	double host; /* and share of the machine's CPU time for all together; 0: no limit */
	unsigned cpus;
	/* the sampling interval may become so many times what was asked for, before
	 * there are windows */
	unsigned most_thinned;
	uint64_t period_ns; /* for tests: how often windows come about; 0: about every second */
};

struct scheduler {
	const struct pace_ops *ops;
	void *ctx;
	struct pace_limits limits;
	bool begun, stopped;
	/* that have not ended, or have a window that is due; the owners' */
	struct paced **processes;
	size_t n, room;
	/* own */
	double spare; /* of one core, that the machine leaves idle; when that was looked at, and
		       * what had been idle then */
	uint64_t spare_since_ns, spare_idle_ns, spare_next_ns;
	/* shared */
	struct host host;
	double begin_cost_ns, extra_ns;
	struct paced *open[PACE_SLOTS]; /* that have a window now, or one that is closing */
	size_t n_open;
	bool was_busy, returning;
	/* when to do these again */
	uint64_t begin_ns, tick_ns, return_look_ns, harvest_ns, piece_ns;
	uint64_t rest_ns;    /* no window is opened before; own, too */
	uint64_t turn_ns;    /* how long a turn may be at present */
	unsigned full_ticks; /* in which others waited, and there was no room */
	size_t watch_next;   /* where the rounds have come to */
	size_t n_due;	     /* windows of ended processes that were not taken in yet */
};

/* The run begins; shared: with probes everywhere. scheduler is all zero. */
void scheduler__begin(struct scheduler *scheduler, const struct pace_ops *ops, void *ctx,
		      const struct pace_limits *limits);
/* Frees what it holds; the processes are their owners'. */
void scheduler__free(struct scheduler *scheduler);

/* A process comes under it. own: its probes are in place. start_ns: when tracing it began. 0 or
 * -ENOMEM. */
int scheduler__add(struct scheduler *scheduler, struct paced *process, void *owner, uint64_t seed,
		   uint64_t start_ns);

/* Does what is due. When there is something again; UINT64_MAX: never. */
uint64_t scheduler__keep(struct scheduler *scheduler);

/* Reads a process's totals, for who wants its clock as of now: of a process that waits for its turn
 * nothing is read for as long as that takes. */
void scheduler__note(struct scheduler *scheduler, struct paced *process);

/* Somebody is about to work for long, and calls nothing here meanwhile: is no window open that
 * would last as much longer? While that is asked no others begin. */
bool scheduler__is_quiet(struct scheduler *scheduler);

/* The process has ended: its last window ends with it. It stays known until it is forgotten: what
 * is due of it is taken in by then. */
void scheduler__end(struct scheduler *scheduler, struct paced *process);
void scheduler__forget(struct scheduler *scheduler, struct paced *process);

/* Takes in what is due of processes that have ended: before their profiles are made. */
void scheduler__harvest(struct scheduler *scheduler);

/* Somebody else has taken all probes out at when_ns. Windows that were open are void: what became
 * of their blocks was not seen. Continuous tracing ended then; what is left of it is known as far
 * as it can be seen now. All comes back as after a gap. */
void scheduler__withdraw(struct scheduler *scheduler, uint64_t when_ns);

/* The run is over: takes in the last windows of all, and looks at all blocks once more. */
void scheduler__stop(struct scheduler *scheduler);

/* What all processes' probes have cost since the beginning, ns, as it is felt. Shared. */
double scheduler__machine_cost_ns(struct scheduler *scheduler);

/* Are probes that the process lacks to be put in place now, or with its next window? */
bool paced__wants_probes(const struct paced *process);

#endif
