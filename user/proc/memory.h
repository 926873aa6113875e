/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads memory of other processes. A process decides what its memory holds, and a read of a page of
 * userfaultfd or FUSE may never end. The reader then hangs in the kernel, and with FUSE not even
 * SIGKILL ends it. So mt-files (base/far.h), a process that memtrace can leave behind, reads the
 * memory. */
#ifndef MEMTRACE_PROC_MEMORY_H
#define MEMTRACE_PROC_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* how long memtrace waits for a read, counted from the read's start. This is shorter than the
 * patience of the keeper (capture/keeper.h) */
#define MEMORY_PATIENCE_MS 50

struct memory_read {
	uint64_t addr;
	void *to; /* len bytes, at most 48 KiB */
	size_t len;
	bool ok; /* the result; true: all bytes were read */
};

/* Reads n pieces of pid's memory, and sets `ok` of each piece that could be read. 0, or negative
 * errno: then no piece is ok. -ETIMEDOUT: the reads took too long, or an earlier read of pid's
 * memory is not answered yet. -EBUSY: too many reads are not answered, or memtrace has spent a
 * quarter of its time on late answers of all processes and files together. Others: -ESRCH, -EPERM,
 * -E2BIG. One caller at a time. */
int memory__read_all(pid_t pid, struct memory_read *reads, size_t n);

/* Reads one piece. 0; -EFAULT: not all bytes could be read; other errors as above. */
int memory__read(pid_t pid, uint64_t addr, void *to, size_t len);

/* Returns how many reads memtrace has given up since memtrace began. */
uint64_t memory__given_up(void);

#endif
