/* SPDX-License-Identifier: BSD-2-Clause */
/* What of a process's allocators could not be probed, into its profile. Private to the room. */
#ifndef MEMTRACE_SESSION_REFUSALS_H
#define MEMTRACE_SESSION_REFUSALS_H

#include "session/build.h"

/* Counters, and the reasons. 0 or -ENOMEM. */
int refusals__add(const struct build *build, struct profile *profile);

#endif
