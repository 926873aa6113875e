/* SPDX-License-Identifier: BSD-2-Clause */
/* What this process itself costs the machine. */
#ifndef MEMTRACE_PROC_OWN_H
#define MEMTRACE_PROC_OWN_H

#include <stdint.h>
#include <sys/resource.h>

/* CPU time that we have used, and those of our children that were waited for, nanoseconds. */
uint64_t own__cpu_ns(void);

/* What wait4(2) says that a child has used, likewise. */
uint64_t own__usage_ns(const struct rusage *usage);

/* Our largest resident set since the exec, bytes: what getrusage(2) says is the larger of that and
 * of the program's before the exec. 0 or negative errno. */
int own__peak_bytes(uint64_t *ret_bytes);

/* Kernel memory behind a descriptor of a BPF map or program, bytes (memlock in /proc/self/fdinfo).
 * 0; -ENODATA: it is something else; other negative errno. */
int own__fd_bytes(int fd, uint64_t *ret_bytes);

/* The number that follows "KEY:" and blanks at the start of a line of a file of /proc. 0; -ENODATA:
 * there is no such line; -EINVAL: or no number in it; other negative errno. */
int own__number(const char *path, const char *key, uint64_t *ret);

/* CPU time that the machine has been idle for since its start, of all CPUs together, nanoseconds. 0
 * or negative errno. Source: "cpu" in /proc/stat, idle and iowait. */
int own__machine_idle_ns(uint64_t *ret_ns);

#endif
