/* SPDX-License-Identifier: BSD-2-Clause */
/* Keeps what tracing costs each process within its budget: opens and closes its windows, reads what they
 * have brought, looks at the blocks in between. Private to the room. */
#ifndef MEMTRACE_SESSION_BUDGET_H
#define MEMTRACE_SESSION_BUDGET_H

#include "session/internal.h"

/* From now on the target's probes, which are in place, come and go. share: of its CPU time; 0: no limit. 0
 * or -ENOMEM. */
int budget__begin(struct session *session, struct target *target, double share);

/* Does what is due. When there is something again: monotonic ns, UINT64_MAX for never. */
uint64_t budget__keep(struct session *session);

/* The run is over, or the target: takes in the last window. Before the tables are read. */
void budget__end(struct session *session, struct target *target);

/* Are probes that the target lacks to be put in place now, or with its next window? */
bool budget__wants_probes(const struct target *target);

/* Has what tracing costs been measured: calls of the allocator and, where there is a limit, of mmap and its like? */
bool budget__cost_known(const struct session *session);

/* Cost of tracing the target so far, ns; negative: unknown. */
double budget__cost_ns(const struct session *session, const struct target *target);

#endif
