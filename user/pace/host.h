/* SPDX-License-Identifier: BSD-2-Clause */
/* Many processes share one budget, a part of the machine's CPU time. This file decides if all
 * processes are traced at once or in turn. If in turn, it decides whose turn is next, and whether
 * budget is left for it. It is arithmetic alone; the caller places and removes the probes.
 *
 * There are two limits. For all processes together, tracing may cost no more than a share of the
 * machine's CPU time (number of cores times elapsed time). For each process, it may cost no more
 * than a share of the CPU time that the process itself uses. As long as both limits hold, probes
 * are in the code of all processes ("everywhere"), which gives the most exact figures. The first
 * limit is a leaky bucket: budget that was not spent in the last CREDIT_NS may still be spent. So
 * the start of a program, which allocates in a burst, does not exceed the limit. The second limit
 * is judged over stretches of half a second. If the process used less CPU time than the machine
 * left idle on one core, the limit is the same share of that idle time.
 *
 * When a limit is exceeded, probes are removed from the code of all processes. From then on, a few
 * processes at a time have probes, for a window each. (windows.h keeps the limit of each process.)
 * The host's debt is the cost of tracing so far, minus the allowed share of the machine's CPU time
 * so far. No window is opened while the sum of this debt and the further cost expected of open
 * windows is above zero. So the windows together keep the limit on average.
 *
 * Whose turn it is: a process that has used almost no CPU time since its last turn (less than
 * MIN_CPU_NS in host.c) has allocated next to nothing, and gets no turn. Of the other processes,
 * the next is the one with the largest product of weight and time since its last turn. A process of
 * weight w gets w times as many turns as one of weight 1, and every process gets turns. The weight
 * is 1, plus up to 8 for growth (the kernel's counts of resident memory and page faults), plus up
 * to 2 for CPU time.
 *
 * A favoured process (scheduler__favour()) has FAVOUR times that weight. So it gets more of the
 * turns that the limit allows, and the others still get some.
 *
 * If tracing a process is cheap, its probes stay when its window ends. But its turn is limited to
 * HOST_LONGEST_TURN_NS while the host's limit is exceeded. While other processes wait for a turn,
 * this turn is also limited in two cases: PACE_SLOTS windows are open (no slot is free), or the
 * budget has allowed no window for some time. The reason: a nearly idle process may cost a few per
 * cent of a core, and some nearly idle processes together can use up the whole budget.
 *
 * The return to tracing everywhere is tried when a forecast of the cost is at most half of the
 * budget, and no process would exceed its own limit. The forecast is a sum over processes: the cost
 * per CPU time of each process, learnt in its windows, times the CPU time that it uses now. The
 * forecast leaves out processes that are not traced but run code that has probes. The cost of these
 * processes shows only when the return is tried. So each attempt that fails doubles the time to the
 * next attempt. */
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
	double spare; /* the share of one core that the machine leaves idle, 0..1; the caller sets
		       * it, also before host__begin() */
	bool everywhere;
	uint64_t since_ns; /* when last booked */
	double cost_ns;	   /* the machine's total cost then */
	/* the part of the machine's total cost that samples took; the caller sets it before each
	 * booking */
	double samples_ns;
	double debt_ns;		    /* (cost so far) - (budget so far); negative: budget is left */
	double rate;		    /* cost per wall ns between the last two bookings */
	struct thinning_costs last; /* parts of the cost between the last two bookings;
				     * last_samples_ns: `samples_ns` at the last booking */
	double last_samples_ns;
	/* while probes are everywhere: how far apart samples are. A factor above 1 holds for the
	 * sampling intervals of all processes, except for a process whose own factor is larger */
	struct thinning thinning;
	/* changed_ns: when probes were last placed or removed everywhere. return_ns: before this
	 * time, probes must not be placed everywhere again. back_off_ns: the time from the call of
	 * host__left() or host__not_returned() to return_ns */
	uint64_t changed_ns, return_ns, back_off_ns;
	uint64_t returned_ns; /* the last return; 0: none so far */
	/* For reports. */
	uint64_t everywhere_ns, windowed_ns;
};

/* One process of the host. All zero: nothing is known. */
struct host_process {
	/* The beginning of the stretch over which the process is judged, and the process's totals
	 * then. */
	uint64_t since_ns;
	double cost_ns, samples_ns, cpu_ns;
	/* Learnt. */
	bool known;
	double share;	    /* cost / CPU time while the process is traced, if `known` is set */
	double cpu_rate;    /* CPU time per wall time, smoothed */
	double growth_rate; /* bytes per s that became resident, smoothed */
	/* The last readings of the process's CPU time (watched_*) and of its size (the others). */
	uint64_t watched_ns, read_ns; /* times of the readings; 0: none yet */
	double watched_cpu_ns;
	bool is_idle; /* almost no CPU time between the last two readings */
	uint64_t rss_bytes, faults;
	bool favoured;
	/* When the process's last turn ended, or when it was added, and its CPU time then. */
	uint64_t turn_ns;
	double turn_cpu_ns;
};

/* Begins with probes everywhere, at now_ns. budget and own are as in struct host. */
void host__begin(struct host *host, double budget, double own, unsigned cpus, uint64_t now_ns,
		 double cost_ns);

/* Books the time and the cost since the last booking. cost_ns: the machine's total cost at now_ns.
 * While probes are everywhere and the limit is kept, may make the factor of host->thinning
 * smaller. */
void host__book(struct host *host, uint64_t now_ns, double cost_ns);

/* Does tracing cost so much that processes must be judged? */
bool host__is_busy(const struct host *host);
/* Is the host's limit exceeded? */
bool host__is_over(const struct host *host);
/* Can tracing everywhere continue, if need be with all samples farther apart? Call it after a
 * booking if the host's limit is exceeded. */
bool host__coarsen(struct host *host, uint64_t now_ns);
/* Is the process's own limit exceeded? Call it while probes are everywhere, at least every half
 * second, with the process's totals at now_ns. samples_ns: the part of the cost that samples took.
 * thinning: how far apart the process's samples are. If the limit is exceeded, but samples farther
 * apart can still help, puts them farther apart and returns false. If the limit is kept, may put
 * them closer together. */
bool host_process__judge(struct host_process *process, const struct host *host,
			 struct thinning *thinning, uint64_t now_ns, double cost_ns,
			 double samples_ns, double cpu_ns);

/* Learns from the unfinished stretch if it has lasted 20 ms: the process may have become busy only
 * in this stretch. Call it when the probes are removed everywhere. */
void host_process__end_stretch(struct host_process *process, uint64_t now_ns, double cost_ns,
			       double cpu_ns);

/* Notes that the probes have been out of the code of all processes since out_ns. Between out_ns and
 * now_ns the caller may have been busy, for example with the harvest. */
void host__left(struct host *host, uint64_t out_ns, uint64_t now_ns);
/* Notes that the probes are everywhere again (returned), or that they could not be placed
 * everywhere again and are still out (not_returned). */
void host__returned(struct host *host, uint64_t now_ns);
void host__not_returned(struct host *host, uint64_t now_ns);

/* Were probes everywhere from from_ns to to_ns? Also false if probes were removed and put back
 * since from_ns. */
bool host__was_everywhere(const struct host *host, uint64_t from_ns, uint64_t to_ns);

/* Learns from a window what tracing the process costs. cost_ns, cpu_ns: cost and CPU time of the
 * window. */
void host_process__learn(struct host_process *process, double cost_ns, double cpu_ns);
/* Notes that the process's turn is over, or that the process is new. */
void host_process__end_turn(struct host_process *process, uint64_t now_ns, double cpu_ns);

/* Notes the process's CPU time, as the kernel counts it. Should the process's size be read? true if
 * the process has used at least a thousandth of a core since the last reading, or if this is the
 * first reading. */
bool host_process__watch(struct host_process *process, uint64_t now_ns, double cpu_ns);
/* Notes the process's resident set and page faults, as the kernel counts them. */
void host_process__watch_size(struct host_process *process, uint64_t now_ns, uint64_t rss_bytes,
			      uint64_t faults);

/* Returns how urgent the process's next turn is; 0: it needs no turn. */
double host_process__urgency(const struct host_process *process, uint64_t now_ns);

#define HOST_LONGEST_TURN_NS 2000000000ull

/* Returns how long a turn may be while n_waiting other processes wait for n_slots slots: at most
 * HOST_LONGEST_TURN_NS. UINT64_MAX: no process waits. */
uint64_t host__turn_ns(size_t n_waiting, size_t n_slots);

/* May a window be opened now? pending_ns: the further cost that is expected of open windows. */
bool host__may_open(const struct host *host, double pending_ns);

/* Adds to *sum what tracing the process all the time would cost, per wall ns. Would this cost be
 * more than EASY (host.c) times the process's own limit? */
bool host_process__forecast(const struct host_process *process, const struct host *host,
			    double *sum);
/* Is it time to trace everywhere again? over: host_process__forecast() returned true for a
 * process. */
bool host__may_return(const struct host *host, uint64_t now_ns, double forecast, bool over);

#endif
