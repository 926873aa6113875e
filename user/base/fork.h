/* SPDX-License-Identifier: BSD-2-Clause */
/* Children of our own. */
#ifndef MEMTRACE_BASE_FORK_H
#define MEMTRACE_BASE_FORK_H

#include <sys/types.h>

/* As fork(), but the child has all signals blocked: neither our handlers nor the terminal's ^C are
 * for it. A child that becomes another program unblocks them first. */
pid_t fork__blocked(void);

#endif
