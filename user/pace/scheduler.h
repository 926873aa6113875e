/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts probes in place and removes them, as windows.h and host.h decide, so that tracing keeps its
 * limits. One scheduler serves two cases.
 *
 *   own     each process has probes of its own, which are in place in its windows, or all the time
 *	     if it is traced continuously.
 *   shared  probes are in the code of all processes ("everywhere") while this exceeds no limit.
 *	     Otherwise these probes are removed, and processes get turns under the host's limit:
 *	     a few processes at a time have probes of their own, for a window each.
 *
 * The scheduler sees processes, probes and the clock only through its ops, so that tests can run it
 * over a simulated machine. */
#ifndef MEMTRACE_PACE_SCHEDULER_H
#define MEMTRACE_PACE_SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pace/host.h"
#include "pace/windows.h"

#define PACE_SLOTS 8 /* shared: at most this many windows at a time */

/* Favoured processes: their largest number at a time, the length of a favour, and the time after a
 * favour in which the process cannot be favoured again. */
#define PACE_FAVOURED	    4
#define PACE_FAVOUR_NS	    600000000000ull
#define PACE_FAVOUR_REST_NS 3600000000000ull

/* One process. All zero before scheduler__add(). */
struct paced {
	void *owner; /* the owner's object, for the ops */
	struct windows windows;
	struct host_process turn; /* shared */
	bool begun, ended;
	/* when the present or last window begins and ends; all probes are in place in between */
	uint64_t start_ns, end_ns;
	bool settling; /* its probes are in place, and its window begins at start_ns */
	bool closing;  /* the window is over, and its probes are being removed */
	bool cut;      /* its window is to end now, because of an exec; the owner may set it */
	/* number of windows that could not be opened or harvested; the ops may add to it, too */
	uint64_t failed;
	/* shared: extra cost so far, because of other processes' windows on the same file */
	double extra_ns;
	/* when it was favoured last, and when that favour ends; 0: never */
	uint64_t favoured_ns, favoured_until_ns;
	/* Only the scheduler uses these. */
	bool over; /* its window ends as planned */
	bool due;  /* its window is over, but not harvested yet */
	uint64_t open_ns, calls, closed_look_ns;
	double open_cost_ns, open_cpu_ns;   /* totals when its window was opened, */
	double piece_cost_ns, piece_cpu_ns; /* and when a piece of it was last harvested */
	double noted_cost_ns, noted_felt_ns;
	/* shared: when watch_calm() last read the process's totals, and the totals then.
	 * calm_since_ns 0: watch_calm() has not read them since tracing last cost much */
	uint64_t calm_since_ns;
	double calm_cost_ns, calm_samples_ns, calm_cpu_ns;
};

/* All functions get the ctx of scheduler__begin(). Times are monotonic. */
struct pace_ops {
	/* ns */
	uint64_t (*now_ns)(void *ctx);
	/* Totals of a process so far: calibrated cost of its probes; the part of this cost that
	 * samples took; and CPU time. */
	void (*read_totals)(void *ctx, struct paced *process, double *ret_cost_ns,
			    double *ret_samples_ns, double *ret_cpu_ns);
	/* Called with all totals that are read: when windows open and close, and in between. May be
	 * NULL. */
	void (*note_totals)(void *ctx, struct paced *process, uint64_t now_ns, double cpu_ns,
			    double cost_ns);
	/* Number of calls that the process's probes have seen, as of the last read_totals(). */
	uint64_t (*calls)(void *ctx, struct paced *process);
	/* true: no thread of the process runs, and none waits for a CPU */
	bool (*sleeps)(void *ctx, struct paced *process);
	/* Idle time of the machine so far, added up over all CPUs. 0 or negative errno. */
	int (*machine_idle_ns)(void *ctx, uint64_t *ret_ns);

	/* May the process's probes be put in place now? false: too many old probes are still being
	 * removed. */
	bool (*can_open)(void *ctx, struct paced *process);
	/* Puts the process's own probes in place. The function may set process->cut: the probes are
	 * then taken out again at once. 0, or negative errno: there is nothing to place them on. */
	int (*open)(void *ctx, struct paced *process);
	/* CPU time that memtrace has used so far, including that of its helpers that have ended.
	 * Helpers that placed probes have ended when open() returns. */
	uint64_t (*own_cpu_ns)(void *ctx);
	/* Begins to remove the process's own probes. */
	void (*begin_close)(void *ctx, struct paced *process);
	/* Have all the process's own probes gone? */
	bool (*is_gone)(void *ctx, struct paced *process);
	/* Tells when the process's window begins and when it is over. start_ns: the window begins
	 * now, and the process's clock is to be read. (For the first window, start_ns is when
	 * tracing began.) UINT64_MAX: the window is over, or probes are being placed before a
	 * window begins. Calls from then on belong to no window. */
	void (*set_window)(void *ctx, struct paced *process, uint64_t start_ns);

	/* Harvests windows that are over, or pieces of windows: records them, from each process's
	 * start_ns to its end_ns. The processes are in no order, and the function may sort them. */
	void (*harvest)(void *ctx, struct paced **processes, size_t n);
	/* Skips what the process's probes have counted since the last harvest: these counts belong
	 * to no window. */
	void (*pass_over)(void *ctx, struct paced *process);
	/* Was a window of the process harvested? */
	bool (*has_windows)(void *ctx, const struct paced *process);
	/* Sets the process's sampling interval by the cost and CPU time of its window, or of a
	 * piece of the window. Returns the new interval / the interval asked for. */
	double (*adapt_interval)(void *ctx, struct paced *process, double cost_ns, double cpu_ns);
	/* Sets the sampling interval to `factor` times the interval asked for. If `factor` is below
	 * 1 and the process holds too many samples for it, sets a longer interval. Returns the new
	 * interval / the interval asked for. Called when the process's window is continuous
	 * tracing, or turns into it. Continuous tracing stands only for its own time, not for a gap
	 * around it. */
	double (*restore_interval)(void *ctx, struct paced *process, double factor);
	/* Reads the contents of all the process's blocks once more, at the end. */
	void (*look_at_all)(void *ctx, struct paced *process);

	/* Shared only. What all probes have cost the machine so far, and the part of this cost that
	 * samples took. */
	double (*machine_cost_ns)(void *ctx, double *ret_samples_ns);
	/* For the probes in the code of all processes. pause_all begins to remove them. all_gone
	 * tells if all are removed. resume_all puts back all or none: 0 or negative errno. */
	void (*pause_all)(void *ctx);
	bool (*all_gone)(void *ctx);
	int (*resume_all)(void *ctx);
	/* As the kernel counts them: a process's CPU time; its resident set and page faults. 0 or
	 * negative errno. */
	int (*watch)(void *ctx, struct paced *process, double *ret_cpu_ns);
	int (*watch_size)(void *ctx, struct paced *process, uint64_t *ret_rss_bytes,
			  uint64_t *ret_faults);
};

struct pace_limits {
	/* share of a process's own CPU time that tracing may cost it, 0..1. aim: in windows;
	 * steady: in continuous tracing */
	double aim, steady;
	bool shared;
	double own;  /* shared: like `steady`, but while probes are everywhere */
	double host; /* shared: share of the machine's CPU time that tracing all processes may cost;
		      * 0: no limit */
	/* like `aim`, for a favoured process. If `favour` is no larger than `aim`, a favoured
	 * process gets more turns (shared), but no larger share. 0: no process is favoured */
	double favour;
	unsigned cpus;
	double spare; /* share of one core that the machine left idle before the run, 0..1 */
	/* the smallest and the largest factor by which the sampling interval asked for may be
	 * multiplied in continuous tracing. 0 counts as 1 */
	double least_thinned, most_thinned;
	/* only the returns of sampled calls are trapped, not those of all calls */
	bool arms_returns;
	uint64_t period_ns; /* for tests: about the time from one window to the next; 0: a second */
};

struct scheduler {
	const struct pace_ops *ops;
	void *ctx;
	struct pace_limits limits;
	bool begun, stopped;
	/* all processes from scheduler__add() to scheduler__forget(). The objects belong to their
	 * owners */
	struct paced **processes;
	size_t n, room;
	struct paced *favoured[PACE_FAVOURED]; /* the first n_favoured are set */
	size_t n_favoured;
	/* only if probes are shared. calm_look_ns: when watch_calm() next looks at processes that
	 * cost little. fine_after_ns: until this time, no sampling interval is shorter than the
	 * interval asked for */
	uint64_t calm_look_ns, fine_after_ns;
	/* own */
	double spare; /* share of one core that the machine leaves idle */
	/* when `spare` was last measured; idle time of the machine until then; when to measure it
	 * next */
	uint64_t spare_since_ns, spare_idle_ns, spare_next_ns;
	/* shared */
	struct host host;
	double begin_cost_ns, extra_ns;
	struct paced *open[PACE_SLOTS]; /* processes whose window is open or closing */
	size_t n_open;
	bool was_busy, returning;
	uint64_t calm_ns; /* when tracing everywhere last cost little */
	/* when the run began; when these are due: a tick, a check whether probes may be everywhere
	 * again, a harvest, and a harvest of pieces */
	uint64_t begin_ns, tick_ns, return_look_ns, harvest_ns, piece_ns;
	uint64_t rest_ns;    /* no window is opened before this time; also for own */
	uint64_t turn_ns;    /* how long a turn may be at present */
	unsigned full_ticks; /* ticks in a row in which a process waited for a window, and no slot
			      * was free or the host's budget allowed no window */
	size_t watch_next;   /* watch_some() goes on at this process */
	size_t n_due;	     /* windows of ended processes that are not harvested yet */
};

/* Begins the run; shared: with probes everywhere. The scheduler must be all zero. */
void scheduler__begin(struct scheduler *scheduler, const struct pace_ops *ops, void *ctx,
		      const struct pace_limits *limits);
/* Frees what the scheduler holds; the processes themselves belong to their owners. */
void scheduler__free(struct scheduler *scheduler);

/* Adds a process. own: the process's probes must be in place. start_ns: when tracing the process
 * began. 0 or -ENOMEM. */
int scheduler__add(struct scheduler *scheduler, struct paced *process, void *owner, uint64_t seed,
		   uint64_t start_ns);

/* Does what is due. Returns the time at which something is due again; UINT64_MAX: never. */
uint64_t scheduler__keep(struct scheduler *scheduler);

/* Do the limits allow any process more windows than the others have? */
bool scheduler__may_favour(const struct scheduler *scheduler);

/* Gives the process more windows for PACE_FAVOUR_NS: tracing may cost it limits.favour, and with
 * shared probes it gets several times as many turns. The host's limit stays as it is. 0; -ENOTSUP:
 * limits.favour, or the limits as a whole, do not allow the process more windows; -EALREADY: it is
 * favoured, or its favour ended less than PACE_FAVOUR_REST_NS ago; -EBUSY: PACE_FAVOURED other
 * processes are favoured; -ESRCH: it has ended. */
int scheduler__favour(struct scheduler *scheduler, struct paced *process);

/* Reads a process's totals now. Call it when the process's clock must be up to date: while a
 * process waits for its turn, its totals are not read otherwise. */
void scheduler__note(struct scheduler *scheduler, struct paced *process);

/* Returns the share of one core, 0..1, that the machine left idle in wall_ns. idle_before_ns,
 * idle_ns: the machine's idle time before and after. The kernel includes the time of waiting for a
 * disk, so idle time can decrease: a decrease counts as 0. */
double scheduler__spare(uint64_t idle_before_ns, uint64_t idle_ns, double wall_ns);

/* Is a window open, or are its probes being placed or removed? */
bool scheduler__has_window(const struct scheduler *scheduler);

/* Is no window open? Call it before long work, during which the caller does not call
 * scheduler__keep(). A window that is open would last until that work is done. No window begins for
 * 200 ms after each call of this function. */
bool scheduler__is_quiet(struct scheduler *scheduler);

/* Notes that the process has ended, and ends its last window. The process stays known until
 * scheduler__forget(), so that its last window can still be harvested. */
void scheduler__end(struct scheduler *scheduler, struct paced *process);
void scheduler__forget(struct scheduler *scheduler, struct paced *process);

/* If a window of a process that has ended is not harvested yet, harvests all windows that are over.
 * Call it before the profiles of processes that have ended are made. */
void scheduler__harvest(struct scheduler *scheduler);

/* Call it after other code has removed all probes. when_ns: when they were removed. Windows that
 * were open are discarded, because the ends of their blocks were not seen. Continuous tracing
 * counts up to when_ns. Blocks of continuous tracing count as live if the kernel's tables still
 * have them. All probes are put back as after a gap. */
void scheduler__withdraw(struct scheduler *scheduler, uint64_t when_ns);

/* Ends the run: harvests the last window of each process, and reads the contents of all blocks once
 * more. */
void scheduler__stop(struct scheduler *scheduler);

/* Shared only. Returns the felt cost (windows.h) of the probes of all processes since the
 * beginning, ns. */
double scheduler__machine_cost_ns(struct scheduler *scheduler);

/* Must missing probes of the process be put in place now? false: they are placed for its next
 * window. */
bool paced__wants_probes(const struct paced *process);

#endif
