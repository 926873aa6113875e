/* SPDX-License-Identifier: BSD-2-Clause */
/* Many processes share one budget: the machine's. When all of them are traced at once, and when in
 * turn, who is next, and when there is something left to spend. Arithmetic alone; who calls places
 * and takes out the probes.
 *
 * Two limits hold: tracing costs all processes together no more than a share of the CPU time that
 * the machine has (cores by time), and each no more than a share of what it uses itself. As long as
 * both do, probes stand in everybody's code ("everywhere"), which is as exact as tracing gets. The
 * first limit is a leaky bucket: what was not spent in the last CREDIT is still there, so that the
 * burst of a program's start does not exceed it. The second is judged over stretches of half a
 * second; a process that is idle for most of the time is given that share of a core.
 *
 * When one does not hold, probes go out of everybody's code and stand in a few processes at a time,
 * for a window each (windows.h, which keeps the process's own limit). None is opened while the
 * host's debt (cost so far less share of time, and what open windows are still expected to cost) is
 * above zero: together they keep the limit on average.
 *
 * Whose turn it is: of the processes that have used CPU since their last turn (others have
 * allocated nothing) the one whose age, the time since then, times weight is largest. A process of
 * weight w gets w times as many turns as one of weight 1, and each gets its turn. The weight is 1,
 * up to 8 more for growth (resident set and page faults, read from outside) and up to 2 more for
 * CPU time.
 *
 * Processes that are traced cheaply stay when their window ends, up to HOST_LONGEST_TURN_NS while
 * others wait whom the slots or the limit have no room for: each may cost a few per cent of a core,
 * idle as it is, and some together can use up what all may cost.
 *
 * The way back is tried when what is known of all processes (their cost per CPU time, learnt in
 * their windows, times the CPU time that they use now) fits half of the budget, and no one would
 * exceed its own. What such a forecast does not know, processes that are not traced but meet the
 * probes everywhere, shows at the attempt: each that fails doubles the time to the next. */
#ifndef MEMTRACE_PACE_HOST_H
#define MEMTRACE_PACE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pace/thinning.h"

struct host {
	double budget; /* share of the machine's CPU time, 0..1; 0: no limit */
	double own;    /* share of its own that tracing may cost a process */
	double cpus;
	bool everywhere;
	uint64_t since_ns; /* when last booked */
	double cost_ns;	   /* then */
	/* of the machine's total: what samples took; the caller's to say, before each booking */
	double samples_ns;
	double debt_ns; /* cost beyond the budget so far; negative: what is left of it */
	double rate;	/* cost per wall ns between the last two bookings */
	struct thinning_costs last; /* what it was made of; samples_ns when last booked */
	double last_samples_ns;
	/* everywhere: of all processes' samples; of one that has a larger factor of its
	 * own, that counts */
	struct thinning thinning;
	/* the last change; not back before; and by how much later */
	uint64_t changed_ns, return_ns, back_off_ns;
	/* Told. */
	uint64_t everywhere_ns, windowed_ns;
	unsigned n_returns;
};

/* One process of the host's. All zero: nothing is known. */
struct host_process {
	/* The stretch by which it is judged. */
	uint64_t since_ns;
	double cost_ns, samples_ns, cpu_ns;
	/* Learnt. */
	bool known;
	double share;	    /* cost per CPU time while it is traced, when known */
	double cpu_rate;    /* CPU time per wall time, smoothed */
	double growth_rate; /* bytes per s that became resident, smoothed */
	/* When last watched. */
	uint64_t watched_ns, read_ns; /* its CPU time; its size, too (0: not yet) */
	double watched_cpu_ns;
	uint64_t rss_bytes, faults;
	/* When its last turn ended, or it came. */
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
/* It is exceeded. Does tracing everywhere go on, if need be with all samples farther apart?
 * After a booking. */
bool host__coarsen(struct host *host, uint64_t now_ns);
/* Is the process's own? Everywhere, with its totals at now, samples_ns of the cost being that of
 * samples; every half a second or more often. thinning: of its samples, which may have to be put
 * farther apart instead. */
bool host_process__judge(struct host_process *process, const struct host *host,
			 struct thinning *thinning, uint64_t now_ns, double cost_ns,
			 double samples_ns, double cpu_ns);

/* The probes have gone, or are everywhere again. */
void host__left(struct host *host, uint64_t now_ns);
void host__returned(struct host *host, uint64_t now_ns);

/* What a window has shown of a process: cost in it, and CPU time. */
void host_process__learn(struct host_process *process, double cost_ns, double cpu_ns);
/* Its turn is over, or it comes only now. */
void host_process__end_turn(struct host_process *process, uint64_t now_ns, double cpu_ns);

/* It is watched from outside: its CPU time. Has it used any, so that a look at its size is worth
 * it? */
bool host_process__watch(struct host_process *process, uint64_t now_ns, double cpu_ns);
/* That look. */
void host_process__watch_size(struct host_process *process, uint64_t now_ns, uint64_t rss_bytes,
			      uint64_t faults);

/* How much it deserves the next turn; 0: it needs none. */
double host_process__urgency(const struct host_process *process, uint64_t now_ns);

#define HOST_LONGEST_TURN_NS 2000000000ull

/* How long a turn may be while so many others wait, for slots at a time, HOST_LONGEST_TURN_NS at
 * most; UINT64_MAX: nobody waits. */
uint64_t host__turn_ns(size_t n_waiting, size_t n_slots);

/* May a window be opened now? pending_ns: what the open ones are still expected to cost. */
bool host__may_open(const struct host *host, double pending_ns);

/* Adds what tracing it all the time would cost, per wall ns, to *sum. Would it exceed its own
 * limit? */
bool host_process__forecast(const struct host_process *process, const struct host *host,
			    double *sum);
/* Is it time to trace everywhere again? over: one process would exceed its own limit. */
bool host__may_return(const struct host *host, uint64_t now_ns, double forecast, bool over);

#endif
