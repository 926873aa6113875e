/* SPDX-License-Identifier: BSD-2-Clause */
/* Many processes share one budget of CPU time: the machine's. This file decides when all processes
 * are traced at once and when in turn, whose turn is next, and when there is budget left. It is
 * arithmetic alone; the caller places and removes the probes.
 *
 * There are two limits. For all processes together, tracing may cost no more than a share of the
 * machine's CPU time (number of cores times elapsed time). For each process, it may cost no more
 * than a share of the CPU time that the process itself uses. As long as both limits hold, probes
 * are in the code of all processes ("everywhere"), which gives the most exact figures. The first
 * limit is a leaky bucket: budget that was not spent in the last CREDIT_NS may still be spent. So
 * the start of a program, which allocates in a burst, does not exceed the limit. The second limit
 * is judged over stretches of half a second. A process that is idle for most of a stretch may cost
 * that share of a core instead.
 *
 * When a limit is exceeded, probes are removed from the code of all processes. From then on, a few
 * processes at a time have probes, for a window each (windows.h, which keeps the process's own
 * limit). The host's debt is the cost of tracing so far, less the allowed share of the machine's
 * CPU time so far. No window is opened while the sum of this debt and the further cost expected of
 * open windows is above zero. So the windows together keep the limit on average.
 *
 * Whose turn it is: a process that has used no CPU time since its last turn has allocated nothing,
 * and gets no turn. Of the others, the next is the one with the largest product of weight and time
 * since its last turn. A process of weight w gets w times as many turns as one of weight 1, and
 * every process gets turns. The weight is 1, up to 8 more for growth (resident set and page faults,
 * read from outside) and up to 2 more for CPU time.
 *
 * A favoured process (scheduler__favour()) has FAVOUR times that weight. So it gets more of the
 * turns that the limit allows, and the others still get some.
 *
 * If tracing a process is cheap, its probes stay when its window ends. But such a turn is limited
 * to HOST_LONGEST_TURN_NS if others wait for a turn and either no slot is free or the limit is
 * reached. A nearly idle process may cost a few per cent of a core, and some such processes
 * together can use up the whole budget.
 *
 * The return to tracing everywhere is tried when a forecast fits half of the budget, and no process
 * would exceed its own limit. The forecast is the sum over processes of their cost per CPU time,
 * learnt in their windows, times the CPU time that they use now. The forecast leaves out processes
 * that are not traced but run code that has probes. The cost of these processes shows only when the
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
	double cost_ns;	   /* the machine's total cost then */
	/* the part of the machine's total cost that samples took; the caller sets it before each
	 * booking */
	double samples_ns;
	double debt_ns; /* cost so far less the budget so far; negative: budget is left */
	double rate;	/* cost per wall ns between the last two bookings */
	struct thinning_costs last; /* parts of the cost between the last two bookings;
				     * last_samples_ns: samples_ns when last booked */
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
	/* When the stretch began by which the process is judged, and its totals then. */
	uint64_t since_ns;
	double cost_ns, samples_ns, cpu_ns;
	/* Learnt. */
	bool known;
	double share;	    /* cost / CPU time while it is traced, if known is set */
	double cpu_rate;    /* CPU time per wall time, smoothed */
	double growth_rate; /* bytes per s that became resident, smoothed */
	/* Times of the last readings, and what was read then. */
	uint64_t watched_ns, read_ns; /* of its CPU time; of its size (0: none yet) */
	double watched_cpu_ns;
	bool is_idle; /* it had used almost no CPU time then */
	uint64_t rss_bytes, faults;
	bool favoured;
	/* When its last turn ended, or when it was added, and its CPU time then. */
	uint64_t turn_ns;
	double turn_cpu_ns;
};

/* Begins with probes everywhere, at now_ns. budget and own are as in struct host. */
void host__begin(struct host *host, double budget, double own, unsigned cpus, uint64_t now_ns,
		 double cost_ns);

/* Books the time since the last booking; cost_ns is the machine's total at now. */
void host__book(struct host *host, uint64_t now_ns, double cost_ns);

/* Does tracing cost so much that processes must be judged? */
bool host__is_busy(const struct host *host);
/* Is the host's limit exceeded? Only while probes are everywhere. */
bool host__is_over(const struct host *host);
/* Call it after a booking if the host's limit is exceeded. Can tracing everywhere continue, if need
 * be with all samples farther apart? */
bool host__coarsen(struct host *host, uint64_t now_ns);
/* Is the process's own limit exceeded? Call it while probes are everywhere, every half a second or
 * more often, with its totals at now. samples_ns: the part of the cost that samples took. thinning:
 * how far apart the process's samples are. If the limit is exceeded, and samples farther apart can
 * still help, they are put farther apart, and the result is false. */
bool host_process__judge(struct host_process *process, const struct host *host,
			 struct thinning *thinning, uint64_t now_ns, double cost_ns,
			 double samples_ns, double cpu_ns);

/* The probes are being removed everywhere: learns from the stretch so far if it has lasted 20 ms,
 * because the process may have become busy just now. */
void host_process__end_stretch(struct host_process *process, uint64_t now_ns, double cost_ns,
			       double cpu_ns);

/* The probes have been removed everywhere; they are everywhere again. */
void host__left(struct host *host, uint64_t now_ns);
void host__returned(struct host *host, uint64_t now_ns);

/* Were probes everywhere from from_ns to to_ns? false, too, if probes were removed and put back
 * since from_ns. */
bool host__was_everywhere(const struct host *host, uint64_t from_ns, uint64_t to_ns);

/* Learns from a window what tracing the process costs. cost_ns, cpu_ns: in the window. */
void host_process__learn(struct host_process *process, double cost_ns, double cpu_ns);
/* The process's turn is over, or the process is a new one. */
void host_process__end_turn(struct host_process *process, uint64_t now_ns, double cpu_ns);

/* Notes a process's CPU time, read from outside. Has it used any, so that its size should be
 * read? */
bool host_process__watch(struct host_process *process, uint64_t now_ns, double cpu_ns);
/* Notes its size, read from outside. */
void host_process__watch_size(struct host_process *process, uint64_t now_ns, uint64_t rss_bytes,
			      uint64_t faults);

/* How urgent its next turn is; 0: it needs none. */
double host_process__urgency(const struct host_process *process, uint64_t now_ns);

#define HOST_LONGEST_TURN_NS 2000000000ull

/* How long a turn may be while n_waiting other processes wait for n_slots slots:
 * HOST_LONGEST_TURN_NS at most; UINT64_MAX: none waits. */
uint64_t host__turn_ns(size_t n_waiting, size_t n_slots);

/* May a window be opened now? pending_ns: the further cost that is expected of open windows. */
bool host__may_open(const struct host *host, double pending_ns);

/* Adds to *sum what tracing the process all the time would cost, per wall ns. Would this cost
 * exceed the process's own limit? */
bool host_process__forecast(const struct host_process *process, const struct host *host,
			    double *sum);
/* Is it time to trace everywhere again? over: one process would exceed its own limit. */
bool host__may_return(const struct host *host, uint64_t now_ns, double forecast, bool over);

#endif
