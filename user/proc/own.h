/* SPDX-License-Identifier: BSD-2-Clause */
/* What this process itself costs the machine. */
#ifndef MEMTRACE_PROC_OWN_H
#define MEMTRACE_PROC_OWN_H

#include <stdint.h>
#include <sys/resource.h>

/* CPU time of this process, and of those of its children that were waited for, nanoseconds. */
uint64_t own__cpu_ns(void);

/* CPU time of a child, nanoseconds. usage: as wait4(2) has filled it in. */
uint64_t own__usage_ns(const struct rusage *usage);

/* Largest resident set of this process since the exec, bytes. getrusage(2) does not tell this: it
 * also counts the set that the process had before the exec, if that was larger. 0 or negative
 * errno. */
int own__peak_bytes(uint64_t *ret_bytes);

/* Kernel memory behind a descriptor of a BPF map or program, bytes (memlock in /proc/self/fdinfo).
 * 0; -ENODATA: it is something else; other negative errno. */
int own__fd_bytes(int fd, uint64_t *ret_bytes);

/* The number that follows "KEY:" and blanks at the start of a line of a file of /proc. 0; -ENODATA:
 * there is no such line; -EINVAL: there is no number in it; other negative errno. */
int own__number(const char *path, const char *key, uint64_t *ret);

/* Idle time of the machine since its start, all CPUs together, nanoseconds. 0 or negative errno.
 * Source: "cpu" in /proc/stat, idle and iowait. */
int own__machine_idle_ns(uint64_t *ret_ns);

#endif
