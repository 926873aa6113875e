/* SPDX-License-Identifier: BSD-2-Clause */
/* The dynamic linker's list of a process: its objects in link order, the order in which a symbol's
 * definition is searched. Read from the target's memory, which may hold anything: bounded. */
#ifndef MEMTRACE_PROC_LINK_MAP_H
#define MEMTRACE_PROC_LINK_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Addresses of the objects' dynamic sections (l_ld of struct link_map), in link order, up to max in
 * ret_dynamics. Returns how many; 0 for a static program; -ENODATA when the list is not there (yet)
 * or makes no sense; other negative errno. Source: <link.h>, r_debug through DT_DEBUG. */
long link_map__read(pid_t pid, uint64_t *ret_dynamics, size_t max);

/* The value of type (AT_PHDR, AT_BASE, ...) in the auxiliary vector that the kernel gave the
 * process at its exec; 0 when it has none or cannot be read. */
uint64_t process_auxv__get(pid_t pid, uint64_t type);

/* Reads len bytes of pid's memory at addr. 0, or negative errno (-EFAULT: not all of it is there).
 */
int process_memory__read(pid_t pid, uint64_t addr, void *buf, size_t len);

#endif
