/* SPDX-License-Identifier: BSD-2-Clause */
/* The large blocks of targets that are traced in windows (profile/large.h). Their heap is read from
 * outside twice: when the first gap begins, and when the run stops. Blocks of the second list that
 * are not in the first were allocated meanwhile. Private to user/session. */
#ifndef MEMTRACE_SESSION_LARGE_BLOCKS_H
#define MEMTRACE_SESSION_LARGE_BLOCKS_H

#include "session/build.h"

struct session;

/* Call it several times during the run. Starts to read the first list of each target that needs
 * one, and stores lists that have been read. Does not wait. */
void large_blocks__tend(struct session *session);

/* Call it when the run stops: begins to read the second list of each target that has a first one.
 * Does not wait. */
void large_blocks__look(struct session *session);

/* Call it after large_blocks__look(), when the probes are out: waits for the second lists,
 * LARGE_PATIENCE_S at most for all of them. */
void large_blocks__finish(struct session *session);

void large_blocks__free(struct target *target);

#endif
