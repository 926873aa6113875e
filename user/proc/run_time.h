/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures how long a process's threads run between two moments, to the microsecond. For a running
 * thread of another process, /proc and the CPU clocks tell the CPU time at the last tick. This
 * value may be 4 ms old, which is as long as a whole window. So perf events are used instead: the
 * kernel reads a perf event on the CPU where its thread runs, and the value is never old. */
#ifndef MEMTRACE_PROC_RUN_TIME_H
#define MEMTRACE_PROC_RUN_TIME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_TIME_THREADS 64

struct run_time {
	/* perf events: each counts the CPU time of a thread and of the threads that it starts */
	int fds[RUN_TIME_THREADS];
	int n;
	uint64_t begin_ns; /* sum of the events when the measurement began; 0: it has not begun */
};

/* Opens a perf event for each thread of a process. The first call in memtrace's life takes some
 * hundredths of a second, or tenths of a second if many threads wait for a CPU. 0; -E2BIG: more
 * threads than RUN_TIME_THREADS; other negative errno. `run` must be all zero before its first use.
 * After a call that failed, no event is open. */
int run_time__open(struct run_time *run, pid_t pid);
/* Begins to measure. But if no thread has run since the events were opened, or if the events cannot
 * be read, closes the events and does not measure. */
void run_time__begin(struct run_time *run);
/* Is a measurement under way? */
bool run_time__runs(const struct run_time *run);
/* Sets *ret_ns to the CPU time of all threads together since the measurement began. The measurement
 * goes on. 0; -ENODATA: it has not begun; other negative errno. */
int run_time__read(const struct run_time *run, uint64_t *ret_ns);
/* Ends the measurement, and closes the events. *ret_ns: CPU time of all threads together since the
 * measurement began. Returns 0; -ENODATA when it has not begun (then nothing changes); other
 * negative errno. */
int run_time__end(struct run_time *run, uint64_t *ret_ns);
/* Closes the events without a result. Afterwards `run` can be opened again. */
void run_time__close(struct run_time *run);

#endif
