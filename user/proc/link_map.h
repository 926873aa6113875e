/* SPDX-License-Identifier: BSD-2-Clause */
/* The dynamic linker's list of the objects of a process, in link order: the order in which the
 * dynamic linker searches the objects for a symbol. The list is read from the target's memory,
 * which may hold anything, so the reading is bounded. */
#ifndef MEMTRACE_PROC_LINK_MAP_H
#define MEMTRACE_PROC_LINK_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads the addresses of the objects' dynamic sections (l_ld of struct link_map), in link order: at
 * most `max` into ret_dynamics. Returns how many; 0 for a static program; -ENODATA when the list
 * does not exist (yet) or makes no sense; other negative errno. Source: <link.h>, r_debug through
 * DT_DEBUG. */
long link_map__read(pid_t pid, uint64_t *ret_dynamics, size_t max);

#endif
