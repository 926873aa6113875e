/* SPDX-License-Identifier: BSD-2-Clause */
/* Many processes share one budget: the machine's. This file decides when all of them are traced at
 * once and when in turn. It also decides whose turn is next, and when there is budget left to
 * spend. Arithmetic alone; the caller places and takes out the probes.
 *
 * There are two limits. Tracing may cost all processes together no more than a share of the CPU
 * time that the machine has (number of cores times elapsed time). And it may cost each process no
 * more than a share of the CPU time that the process itself uses. As long as both limits hold,
 * probes stand in everybody's code ("everywhere"), which is as exact as tracing gets. The first
 * limit is a leaky bucket: budget that was not spent in the last CREDIT_NS may still be spent. So a
 * program's start, which allocates in a burst, does not exceed the limit. The second is judged over
 * stretches of half a second. A process that is idle for most of a stretch may cost that share of a
 * core instead.
 *
 * When a limit is exceeded, probes are taken out of everybody's code. From then on they are in a
 * few processes at a time, for a window each (windows.h, which keeps the process's own limit). The
 * host's debt is what tracing has cost so far, less the share of the machine's time that it may
 * cost. No window is opened while this debt, together with what open windows are still expected to
 * cost, is above zero. So the windows together keep the limit on average.
 *
 * Whose turn it is: a process that has used no CPU since its last turn has allocated nothing, and
 * gets none. Of the others, the one is next whose age (the time since its last turn) times weight
 * is largest. A process of weight w gets w times as many turns as one of weight 1, and each gets
 * its turn. The weight is 1, up to 8 more for growth (resident set and page faults, read from
 * outside) and up to 2 more for CPU time.
 *
 * A favoured process (scheduler__favour()) has FAVOUR times that weight. So it gets more of the
 * turns that the limit allows, and the others still get theirs.
 *
 * Processes that are traced cheaply keep their probes when their window ends. But such a turn is
 * limited to HOST_LONGEST_TURN_NS when other processes wait for a turn, and there is no free slot
 * for them or the limit is reached. A nearly idle process may cost a few per cent of a core, and
 * some such processes together can use up the whole budget.
 *
 * The return to tracing everywhere is tried when a forecast fits half of the budget, and no process
 * would exceed its own limit. The forecast is what is known of all processes: their cost per CPU
 * time, learnt in their windows, times the CPU time that they use now. The forecast leaves out
 * processes that are not traced but run code that has probes. What these cost shows only when the
 * return is tried. So each attempt that fails doubles the time to the next. */
#ifndef MEMTRACE_PACE_HOST_H
#define MEMTRACE_PACE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pace/thinning.h"

struct host {
	double budget; /* share of the machine's CPU time, 0..1; 0: no limit */
	double own;    /* share of its own CPU time that tracing may cost a process */
	double cpus;
	bool everywhere;
	uint64_t since_ns; /* when last booked */
	double cost_ns;	   /* the machine's total then */
	/* what samples took of the machine's total; the caller sets it before each booking */
	double samples_ns;
	double debt_ns; /* cost beyond the budget so far; negative: what is left of it */
	double rate;	/* cost per wall ns between the last two bookings */
	struct thinning_costs last; /* parts of that cost; samples_ns when last booked */
	double last_samples_ns;
	/* while probes are everywhere: the factor for the samples of all processes (a process with
	 * a larger factor of its own keeps its own) */
	struct thinning thinning;
	/* changed_ns: when probes were last placed or removed everywhere. return_ns: they must not
	 * come back before this time. back_off_ns: return_ns less the time of the removal */
	uint64_t changed_ns, return_ns, back_off_ns;
	uint64_t returned_ns; /* the last return; 0: none so far */
	/* For reports. */
	uint64_t everywhere_ns, windowed_ns;
	unsigned n_returns;
};

/* One process of the host's. All zero: nothing is known. */
struct host_process {
	/* When the stretch by which it is judged began, and its totals then. */
	uint64_t since_ns;
	double cost_ns, samples_ns, cpu_ns;
	/* Learnt. */
	bool known;
	double share;	    /* cost per CPU time while it is traced, when known */
	double cpu_rate;    /* CPU time per wall time, smoothed */
	double growth_rate; /* bytes per s that became resident, smoothed */
	/* When last watched. */
	uint64_t watched_ns, read_ns; /* of its CPU time; of its size (0: not yet) */
	double watched_cpu_ns;
	bool is_idle; /* it had used next to none then */
	uint64_t rss_bytes, faults;
	bool favoured;
	/* When its last turn ended, or when it was added; its CPU time then. */
	uint64_t turn_ns;
	double turn_cpu_ns;
};

/* Begins at now, everywhere. budget and own as in the struct. */
void host__begin(struct host *host, double budget, double own, unsigned cpus, uint64_t now_ns,
		 double cost_ns);

/* Books the time since the last booking; cost_ns is the machine's total at now. */
void host__book(struct host *host, uint64_t now_ns, double cost_ns);

/* Is so much being spent that processes must be judged? */
bool host__is_busy(const struct host *host);
/* Is the host's limit exceeded? (Everywhere.) */
bool host__is_over(const struct host *host);
/* The host's limit is exceeded. Does tracing everywhere go on, if need be with all samples farther
 * apart? Call it after a booking. */
bool host__coarsen(struct host *host, uint64_t now_ns);
/* Is the process's own limit exceeded? Call it while probes are everywhere, every half a second or
 * more often, with its totals at now. samples_ns: the part of the cost that samples took. thinning:
 * how far apart the process's samples are. If the limit is exceeded, and samples farther apart can
 * still help, they are put farther apart, and the result is false. */
bool host_process__judge(struct host_process *process, const struct host *host,
			 struct thinning *thinning, uint64_t now_ns, double cost_ns,
			 double samples_ns, double cpu_ns);

/* The probes have gone from everywhere; they are everywhere again. */
void host__left(struct host *host, uint64_t now_ns);
void host__returned(struct host *host, uint64_t now_ns);

/* Were probes everywhere from from_ns to to_ns? false also where probes have gone and come back
 * since from_ns. */
bool host__was_everywhere(const struct host *host, uint64_t from_ns, uint64_t to_ns);

/* Learns from a window what tracing the process costs. cost_ns, cpu_ns: in the window. */
void host_process__learn(struct host_process *process, double cost_ns, double cpu_ns);
/* The process's turn is over, or the process is a new one. */
void host_process__end_turn(struct host_process *process, uint64_t now_ns, double cpu_ns);

/* Notes a process's CPU time, read from outside. Has it used any, so that a look at its size is
 * worth it? */
bool host_process__watch(struct host_process *process, uint64_t now_ns, double cpu_ns);
/* Notes its size, read from outside. */
void host_process__watch_size(struct host_process *process, uint64_t now_ns, uint64_t rss_bytes,
			      uint64_t faults);

/* How urgent its next turn is; 0: it needs none. */
double host_process__urgency(const struct host_process *process, uint64_t now_ns);

#define HOST_LONGEST_TURN_NS 2000000000ull

/* How long a turn may be while n_waiting others wait for n_slots slots: HOST_LONGEST_TURN_NS at
 * most; UINT64_MAX: nobody waits. */
uint64_t host__turn_ns(size_t n_waiting, size_t n_slots);

/* May a window be opened now? pending_ns: what the open ones are still expected to cost. */
bool host__may_open(const struct host *host, double pending_ns);

/* Adds to *sum what tracing the process all the time would cost, per wall ns. Would that exceed its
 * own limit? */
bool host_process__forecast(const struct host_process *process, const struct host *host,
			    double *sum);
/* Is it time to trace everywhere again? over: one process would exceed its own limit. */
bool host__may_return(const struct host *host, uint64_t now_ns, double forecast, bool over);

#endif
