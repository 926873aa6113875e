/* SPDX-License-Identifier: BSD-2-Clause */
/* Names for the C++ classes of a census. */
#ifndef MEMTRACE_CLI_HEAP_TYPES_H
#define MEMTRACE_CLI_HEAP_TYPES_H

#include <stddef.h>
#include <sys/types.h>

#include "proc/maps.h"
#include "profile/heap.h"

/* Collects the classes that have a name. The name is from the class's type_info, or else from the
 * symbol of its vtable. maps: the mappings that the census used. 0 or negative errno. The caller
 * releases *ret with heap_types__free(). */
int heap_types__name(pid_t pid, const struct maps *maps, const struct census *census,
		     struct heap_type **ret, size_t *ret_n);
void heap_types__free(struct heap_type *types, size_t n);

#endif
