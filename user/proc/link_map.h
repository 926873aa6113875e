/* SPDX-License-Identifier: BSD-2-Clause */
/* The dynamic linker's list of the objects of a process, in link order: the order in which the
 * definition of a symbol is searched. The list is read from the target's memory, which may hold
 * anything, so the reading is bounded. */
#ifndef MEMTRACE_PROC_LINK_MAP_H
#define MEMTRACE_PROC_LINK_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Addresses of the objects' dynamic sections (l_ld of struct link_map), in link order, up to max in
 * ret_dynamics. Returns how many; 0 for a static program; -ENODATA when the list is not there (yet)
 * or makes no sense; other negative errno. Source: <link.h>, r_debug through DT_DEBUG. */
long link_map__read(pid_t pid, uint64_t *ret_dynamics, size_t max);

#endif
