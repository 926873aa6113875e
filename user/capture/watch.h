/* SPDX-License-Identifier: BSD-2-Clause */
/* News of processes: the files that they map as code, and their execs. The kernel reports such news
 * at once. perf makes its maps from the same records (PERF_RECORD_MMAP2, PERF_RECORD_COMM). With
 * these records, memtrace can name a process's code even if the process ends a moment after it has
 * mapped the code. */
#ifndef MEMTRACE_CAPTURE_WATCH_H
#define MEMTRACE_CAPTURE_WATCH_H

#include <stdint.h>
#include <sys/types.h>

#include "proc/maps.h"

struct watch;

struct watch_handlers {
	/* Is news of pid wanted? Called each time before news is delivered. */
	bool (*wanted)(void *ctx, pid_t pid);
	/* pid mapped a file, or anonymous memory (inode 0), with PROT_EXEC. entry and its path are
	 * valid for the call only. */
	void (*mapped)(void *ctx, pid_t pid, const struct map_entry *entry);
	/* pid replaced its program at time_ns (CLOCK_MONOTONIC): its old mappings are gone. This
	 * call comes before the calls for its new mappings. */
	void (*exec)(void *ctx, pid_t pid, uint64_t time_ns);
	/* n records were lost. It is not known which processes they were about, so the maps may be
	 * out of date. */
	void (*lost)(void *ctx, uint64_t n);
	void *ctx;
};

/* Opens one buffer per CPU, for the whole machine. Executable mappings are rare, and buffers per
 * process would need a descriptor for each thread on each CPU. 0 or negative errno. */
int watch__new(const struct watch_handlers *handlers, struct watch **ret);
void watch__free(struct watch *watch);

/* Becomes readable when there is news. Owned by the watch. */
int watch__fd(const struct watch *watch);

/* Memory of the buffers in the kernel, bytes. */
uint64_t watch__bytes(const struct watch *watch);
/* Memory that the buffers will take on a machine of `cpus` CPUs. The more CPUs, the smaller each
 * buffer. */
uint64_t watch__bytes_for(int cpus);

/* Takes all records out of the kernel's buffers. */
void watch__read(struct watch *watch);
/* Calls the handlers for the records that have been read. The kernel may report the first mappings
 * of a new process before memtrace learns of the process. So news that is not wanted yet is kept
 * for later calls, for 20 ms. */
void watch__deliver(struct watch *watch);

#endif
