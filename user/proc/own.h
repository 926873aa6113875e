/* SPDX-License-Identifier: BSD-2-Clause */
/* What this process itself costs the machine. */
#ifndef MEMTRACE_PROC_OWN_H
#define MEMTRACE_PROC_OWN_H

#include <stdint.h>
#include <sys/resource.h>

/* CPU time in nanoseconds of this process and of its children that have ended and were waited
 * for. */
uint64_t own__cpu_ns(void);

/* CPU time of a child in nanoseconds. `usage`: as wait4(2) has filled it in. */
uint64_t own__usage_ns(const struct rusage *usage);

/* Reads the largest resident set of this process since its exec, in bytes. getrusage(2) does not
 * tell this, because its result also covers the time before the exec. 0 or negative errno. */
int own__peak_bytes(uint64_t *ret_bytes);

/* Reads how much memory of the kernel a BPF map or program takes, in bytes (`memlock` in
 * /proc/self/fdinfo). 0; -ENODATA: fd is no descriptor of a map or program; other negative
 * errno. */
int own__fd_bytes(int fd, uint64_t *ret_bytes);

/* Reads the number in the line "KEY: NUMBER" of a file of /proc. 0; -ENODATA: no line begins with
 * "KEY:"; -EINVAL: no number follows; other negative errno. */
int own__number(const char *path, const char *key, uint64_t *ret);

/* Reads the idle time of the machine since its start, all CPUs together, in nanoseconds. 0 or
 * negative errno. Source: `idle` and `iowait` of the line "cpu" in /proc/stat. */
int own__machine_idle_ns(uint64_t *ret_ns);

#endif
