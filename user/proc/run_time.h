/* SPDX-License-Identifier: BSD-2-Clause */
/* For how long a process's threads have run between two moments, to the microsecond. What /proc and
 * the CPU clocks tell of another process's thread that runs is as of the last tick: up to 4 ms ago,
 * which is as long as a window. A thread's perf event is read where the thread runs. */
#ifndef MEMTRACE_PROC_RUN_TIME_H
#define MEMTRACE_PROC_RUN_TIME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_TIME_THREADS 64

struct run_time {
	int fds[RUN_TIME_THREADS]; /* perf events; of threads, and of those that they begin */
	int n;
	uint64_t begin_ns; /* what they had at the beginning; 0: there was none */
};

/* All of a process's threads get a perf event. The first time that takes some hundredths of a
 * second. 0; -E2BIG: more threads than RUN_TIME_THREADS; other negative errno. Without success, and
 * before, all is zero. */
int run_time__open(struct run_time *run, pid_t pid);
/* Begins to measure. Where no thread has run since they were opened, they are closed. */
void run_time__begin(struct run_time *run);
/* Has it begun, and not ended? */
bool run_time__runs(const struct run_time *run);
/* Ends it, and closes all. *ret_ns: CPU time of all threads together since it began. 0; -ENODATA:
 * it has not begun, and stays as it is; other negative errno. */
int run_time__end(struct run_time *run, uint64_t *ret_ns);
/* Nobody wants to know any more: run is all zero again. */
void run_time__close(struct run_time *run);

#endif
