/* SPDX-License-Identifier: BSD-2-Clause */
/* The dynamic linker's list of the objects of a process. The list is in link order: in this order
 * the dynamic linker searches the objects for a symbol. The list is read from the target's memory,
 * which may hold anything, so the reading is bounded. */
#ifndef MEMTRACE_PROC_LINK_MAP_H
#define MEMTRACE_PROC_LINK_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct link_object {
	uint64_t dynamic; /* address of the object's dynamic section (l_ld of struct link_map) */
	uint64_t addr;	  /* address of the object's struct link_map */
};

/* Reads the objects in link order, at most `max`. Returns how many; 0 for a static program;
 * -ENODATA when the list does not exist (yet) or makes no sense; other negative errno. Source:
 * <link.h>, r_debug through DT_DEBUG. */
long link_map__read(pid_t pid, struct link_object *ret, size_t max);

#endif
