/* SPDX-License-Identifier: BSD-2-Clause */
/* Keeps what tracing costs each process within its budget: opens and closes its windows, reads what they
 * have brought, looks at the blocks in between. Private to the room. */
#ifndef MEMTRACE_SESSION_BUDGET_H
#define MEMTRACE_SESSION_BUDGET_H

#include "session/internal.h"

/* Of the limit that windows aim at, as it is felt (windows.h): what programs feel differs by some hundredths. */
#define BUDGET_AIM 0.92
/* Continuous tracing costs what is said, and may cost so much of it. */
#define BUDGET_STEADY 0.95

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

/* --- the parts of it, for rota.c, which decides itself when --- */

/* Cost of all probes on the machine so far, ns, calls of processes that are not traced included. */
double budget__machine_cost_ns(struct session *session);

/* Adds to its cost what came of it that its calls were few since this was last called. With its counters. */
void budget__note_rarity(const struct session *session, struct target *target);

/* The target's totals now: cost and CPU time. */
void budget__read_totals(struct session *session, struct target *target, double *ret_cost, double *ret_cpu);

/* Opens a window, with probes on the functions of these allocators. */
void budget__open(struct session *session, struct target *target, struct allocators *allocators);

/* Begins to take its window's probes out. */
void budget__close(struct session *session, struct target *target);

/* Takes in its window from start_ns to due_ns: the blocks that the kernel side tracks of it, and its sites (others' are
 * passed over). 0 or -ENOMEM. */
int budget__take(struct target *target, const struct capture_table *live, const struct capture_table *sites);

/* Sets its sampling interval by what its last window, or a piece of it, has brought: its cost and CPU time. Back to what
 * was asked for. */
void budget__adapt_interval(struct session *session, struct target *target, double cost_ns, double cpu_ns);
void budget__restore_interval(struct session *session, struct target *target);

/* Looks at its blocks: those whose time has come; all, while the run goes on; all, at its end. */
void budget__look(struct target *target, uint64_t now_ns);
void budget__look_early(struct target *target, uint64_t now_ns);
void budget__look_at_all(struct target *target);

#endif
