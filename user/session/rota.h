/* SPDX-License-Identifier: BSD-2-Clause */
/* Sessions with probes everywhere keep the host's budget and each process's own: does what host.h decides. Takes the
 * probes out of everybody's code and puts them back, gives processes their turns, watches them, reads what
 * windows have brought. Private to the room. */
#ifndef MEMTRACE_SESSION_ROTA_H
#define MEMTRACE_SESSION_ROTA_H

#include "session/internal.h"

/* The run begins, with probes everywhere. 0 or negative errno. */
int rota__begin(struct session *session);

/* A process has come: traced at once, or when it is its turn. */
void rota__welcome(struct session *session, struct target *target);

/* Does what is due. When there is something again: monotonic ns. */
uint64_t rota__keep(struct session *session);

/* The target's last window, if it has one, ends with it. */
void rota__end_target(struct session *session, struct target *target);

/* Takes in the windows of targets that have ended since the last time: before their profiles are made. */
void rota__harvest(struct session *session);

/* The run is over, the probes are out: takes in the last windows, and looks at all blocks once more. */
void rota__stop(struct session *session);

/* What probes took of the machine's CPU time so far, 0..100; negative: unknown. */
double rota__overhead_pct(struct session *session);

#endif
