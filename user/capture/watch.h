/* SPDX-License-Identifier: BSD-2-Clause */
/* News of processes from the kernel, as it happens: which files they map as code, and their execs.
 * The same records that perf keeps its maps by (PERF_RECORD_MMAP2, PERF_RECORD_COMM), so that code
 * which a process loads and is gone with a moment later can still be named. */
#ifndef MEMTRACE_CAPTURE_WATCH_H
#define MEMTRACE_CAPTURE_WATCH_H

#include <stdint.h>
#include <sys/types.h>

#include "proc/maps.h"

struct watch;

struct watch_handlers {
	/* Is news of pid wanted? Asked when it would be delivered. */
	bool (*wanted)(void *ctx, pid_t pid);
	/* pid mapped a file, or memory of its own (inode 0), with PROT_EXEC; entry and its path
	 * live for the call only. */
	void (*mapped)(void *ctx, pid_t pid, const struct map_entry *entry);
	/* pid replaced its program at that time (monotonic): its old mappings are gone. Comes
	 * before the new ones. */
	void (*exec)(void *ctx, pid_t pid, uint64_t time_ns);
	/* n records of whichever process were lost; what is known of maps may be old. */
	void (*lost)(void *ctx, uint64_t n);
	void *ctx;
};

/* Opens one buffer per CPU, for the whole machine: executable mappings are rare everywhere, and the
 * per-process form would need a descriptor per thread and CPU. 0 or negative errno. */
int watch__new(const struct watch_handlers *handlers, struct watch **ret);
void watch__free(struct watch *watch);

/* Becomes readable when there is news. Owned by the watch. */
int watch__fd(const struct watch *watch);

/* Memory of its buffers, which is the kernel's, bytes. */
uint64_t watch__bytes(const struct watch *watch);
/* The same on a machine of so many CPUs, before there is one. The more CPUs, the less has each. */
uint64_t watch__bytes_for(int cpus);

/* Takes what there is from the kernel. */
void watch__read(struct watch *watch);
/* Calls the handlers for all that has been read. Others tell of new processes, perhaps after their
 * first mappings: news that is not wanted waits for the next times, for 20 ms. */
void watch__deliver(struct watch *watch);

#endif
