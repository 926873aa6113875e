/* SPDX-License-Identifier: BSD-2-Clause */
/* Forks children. */
#ifndef MEMTRACE_BASE_FORK_H
#define MEMTRACE_BASE_FORK_H

#include <sys/types.h>

/* Like fork(), but all signals are blocked in the child: the child runs none of memtrace's signal
 * handlers, and the terminal's ^C does not end it. The child must unblock the signals before it
 * executes another program. If memtrace's priority is raised (priority__raise()), the child gets
 * the priority that memtrace had before. */
pid_t fork__blocked(void);

#endif
