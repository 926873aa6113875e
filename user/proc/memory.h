/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of other processes, which decide what lies there: a page of userfaultfd or FUSE may never
 * come, and who reads it stays in the kernel, of FUSE beyond SIGKILL. So mt-files reads
 * (base/far.h), which memtrace leaves behind. */
#ifndef MEMTRACE_PROC_MEMORY_H
#define MEMTRACE_PROC_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MEMORY_PATIENCE_MS 50 /* from when it reads; less than the keeper's */

struct memory_read {
	uint64_t addr;
	void *to; /* len bytes, at most 48 KiB */
	size_t len;
	bool ok; /* told: all of it was there */
};

/* Reads n pieces of pid's memory, as many as are there. 0; -ETIMEDOUT: it did not come in time, or
 * an earlier read of pid's memory still has not; -EBUSY: too many have not, or late answers, of all
 * processes and files together, have taken a quarter of the time; other negative errno (-ESRCH,
 * -EPERM, -E2BIG). On an error no piece is ok. One caller at a time. */
int memory__read_all(pid_t pid, struct memory_read *reads, size_t n);

/* One piece. 0, -EFAULT: not all of it is there; or as above. */
int memory__read(pid_t pid, uint64_t addr, void *to, size_t len);

/* How often somebody gave up, since memtrace began. */
uint64_t memory__given_up(void);

#endif
