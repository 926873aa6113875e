/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts into a process's profile what could not be probed in its allocators. Private to
 * user/session. */
#ifndef MEMTRACE_SESSION_REFUSALS_H
#define MEMTRACE_SESSION_REFUSALS_H

#include "session/build.h"

/* Adds the counters and the reasons. 0 or -ENOMEM. */
int refusals__add(const struct build *build, struct profile *profile);

#endif
