/* SPDX-License-Identifier: BSD-2-Clause */
/* Keeps a child that computes for seconds from slowing other processes on a busy machine.
 *
 * If a child computes on a CPU that another process needs, the scheduler gives half of the CPU to
 * each of them. Each then waits for the other for up to several ms at a time. Low priorities (nice,
 * SCHED_IDLE) count only within one cgroup or session. A service and the shell from which memtrace
 * runs are mostly in different cgroups and sessions. If the kernel preempts lazily, a process that
 * wakes up waits for the next tick of the clock, or for the child's next system call. Priorities do
 * not change this.
 *
 * So the child leaves the CPU by itself. After each GENTLE_BURST_NS it offers the CPU to processes
 * that wait (sched_yield()). An offer does not reach other cgroups, so now and then the child
 * sleeps for a moment. If the child has to wait for the CPU, other processes need this CPU. From
 * then on the child sleeps after each burst, so that it takes at most 1/GENTLE_SHARE of a CPU.
 * These sleeps end when the child has not had to wait in GENTLE_CALM bursts in a row. So another
 * process never waits for much longer than a burst. On idle CPUs the child runs at nearly full
 * speed. If the user limits the child's share of a CPU, the child also sleeps as long as this share
 * requires, on idle CPUs, too.
 *
 * The child's waiting time is its run delay, which the kernel counts: the time for which the child
 * was ready to run and did not run. The difference between wall clock and CPU time is larger than
 * the run delay. For example, a child that reads the memory of a process may wait for a lock, which
 * the process holds while its mappings change. During this wait the child is not ready to run. */
#ifndef MEMTRACE_SANDBOX_GENTLE_H
#define MEMTRACE_SANDBOX_GENTLE_H

#include <stdint.h>

#define GENTLE_BURST_NS 200000	/* a burst: the longest work without a break */
#define GENTLE_REST_NS	1000000 /* the most CPU time without a sleep */
#define GENTLE_NAP_NS	10000	/* the shortest sleep; a shorter one could be over at once */
#define GENTLE_SHARE	5
#define GENTLE_CALM	20
/* If the child waits longer than this during a burst and the break before it, other processes need
 * the CPU. The kernel's own threads may cause shorter waits. */
#define GENTLE_WAIT_NS 50000

/* The clocks of a child, ns. */
struct gentle_times {
	uint64_t wall_ns; /* CLOCK_MONOTONIC */
	uint64_t cpu_ns;  /* CPU time of the child */
	/* Run delay of the child: the second figure of its schedstat in /proc (Linux,
	 * Documentation/scheduler/sched-stats.rst). */
	uint64_t waited_ns;
};

/* Decides about breaks. Reads no clock. */
struct gentle {
	/* until this time (CLOCK_MONOTONIC), the child holds back if others need the CPU */
	uint64_t until_ns;
	double max_share;	  /* most CPU time of the child, as a share of a CPU; 0: no limit */
	struct gentle_times last; /* the clocks when the last break began */
	uint64_t awake_ns;	  /* CPU time that the child has used since its last sleep */
	unsigned int calm;	  /* how many bursts in a row, up to the last one, had no wait */
};

/* Begins the first burst. The arguments are those of struct gentle. */
void gentle__init(struct gentle *gentle, uint64_t until_ns, double max_share,
		  const struct gentle_times *now);
/* Ends a burst. Returns how long to sleep, ns; 0: only offer the CPU. */
uint64_t gentle__pause(struct gentle *gentle, const struct gentle_times *now);

/* Makes gentle__step() take breaks in this process from now on. To be called before the sandbox is
 * sealed. for_s: how long the child holds back if others need the CPU. If the run delay cannot be
 * read (the kernel lacks CONFIG_SCHED_INFO, or there is no /proc), the child holds back for the
 * whole of for_s. max_share: as in struct gentle. */
void gentle__begin(double for_s, double max_share);
/* Takes a break if one is due. Does nothing if this process has not called gentle__begin(). To be
 * called after about 20 us of work each time. Takes less than 100 ns if no break is due. */
void gentle__step(void);

#endif
