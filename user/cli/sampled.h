/* SPDX-License-Identifier: BSD-2-Clause */
/* Traces one process for a while, for commands that need live blocks whose stacks are known. The
 * limits on cost are record's defaults. The sampling interval is shorter than record's. */
#ifndef MEMTRACE_CLI_SAMPLED_H
#define MEMTRACE_CLI_SAMPLED_H

#include <sys/types.h>

#include "profile/profile.h"
#include "session/session.h"

/* Traces until duration_s is over, the process ends, or a signal comes. The probes are out when
 * this returns. The caller must first call nowait__begin(), and then privileges__limit() once.
 * command: for complaints. *ret: NULL before the call; the caller frees it with session__free() in
 * any case. *ret_profile: the heap's profile, with the sampled blocks; owned by *ret; NULL: nothing
 * was recorded. 0, or the exit status after a complaint. */
int sampled__trace(pid_t pid, double duration_s, const char *command, struct session **ret,
		   const struct profile **ret_profile);

#endif
