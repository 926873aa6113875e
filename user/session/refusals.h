/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts what could not be probed of a process's allocators into its profile. Private to
 * user/session. */
#ifndef MEMTRACE_SESSION_REFUSALS_H
#define MEMTRACE_SESSION_REFUSALS_H

#include "session/build.h"

/* Adds the counters and the reasons. 0 or -ENOMEM. */
int refusals__add(const struct build *build, struct profile *profile);

#endif
