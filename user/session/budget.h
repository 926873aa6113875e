/* SPDX-License-Identifier: BSD-2-Clause */
/* What tracing costs, and the hands of the scheduler that keeps it within limits
 * (pace/scheduler.h): its ops, on real processes and probes. Private to the room. */
#ifndef MEMTRACE_SESSION_BUDGET_H
#define MEMTRACE_SESSION_BUDGET_H

#include "session/internal.h"

/* Of the limit that windows aim at, as it is felt (windows.h): what programs feel differs by some
 * hundredths. */
#define BUDGET_AIM 0.92
/* Continuous tracing costs what is said, and may cost so much of it. */
#define BUDGET_STEADY 0.95

/* The run begins, with its probes in place and a limit. 0 or negative errno. */
int budget__begin(struct session *session);

/* A target comes under the limit: traced at once, or when it is its turn. Nothing happens where
 * there is none. 0 or negative errno. */
int budget__welcome(struct session *session, struct target *target);

/* Does what is due. When there is something again: monotonic ns, UINT64_MAX for never. */
uint64_t budget__keep(struct session *session);

/* While nothing is kept, for somebody works for long: has tracing cost no more than it may since
 * this was last called, or since it began to be called? */
bool budget__holds(struct session *session);

/* Has what tracing costs been measured: calls of the allocator and, where there is a limit, of mmap
 * and its like? */
bool budget__cost_known(const struct session *session);

/* Cost of tracing the target so far, as it is felt, ns; negative: unknown. */
double budget__cost_ns(const struct session *session, const struct target *target);

/* What probes took of the machine's CPU time during the run, 0..100; negative: unknown. After
 * stop. */
double budget__host_pct(struct session *session);

/* Adds to its cost what came of it that its calls were few since this was last called. With its
 * counters. */
void budget__note_rarity(const struct session *session, struct target *target);

#endif
