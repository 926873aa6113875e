/* SPDX-License-Identifier: BSD-2-Clause */
/* What tracing costs, and the ops of the scheduler that keeps this cost within limits
 * (pace/scheduler.h). The ops act on real processes and probes. Private to user/session. */
#ifndef MEMTRACE_SESSION_BUDGET_H
#define MEMTRACE_SESSION_BUDGET_H

#include "session/internal.h"

/* Windows aim at this share of the limit. The limit counts cost as programs feel it (windows.h).
 * This cost differs from the calculated cost by some hundredths, so windows aim at a little less
 * than the limit. */
#define BUDGET_AIM 0.92
/* Continuous tracing may cost this share of the limit. The share is nearer to 1 than BUDGET_AIM,
 * because continuous tracing costs what was calculated. */
#define BUDGET_STEADY 0.95

/* Begins a run that has a limit. Call it when the run's probes are in place. 0 or negative
 * errno. */
int budget__begin(struct session *session);

/* Puts a target under the limit: it is traced at once, or when its turn comes. Does nothing where
 * there is no limit. 0 or negative errno. */
int budget__welcome(struct session *session, struct target *target);

/* Does what is due. Returns the time at which something is due again: monotonic ns, UINT64_MAX for
 * never. */
uint64_t budget__keep(struct session *session);

/* Raises or restores memtrace's priority. waits: memtrace is about to wait for what is due next.
 * Under a limit it then has a raised priority. false: memtrace is about to do longer work, with its
 * normal priority. Does nothing where probes are for all processes. */
void budget__hurry(struct session *session, bool waits);

/* Call it when the run is over: stops the scheduler, and restores memtrace's priority. */
void budget__end(struct session *session);

/* Has tracing kept its limit since the last call of budget__holds()? Call it during long work, when
 * budget__keep() is not called. The first call after a long while returns true. */
bool budget__holds(struct session *session);

/* Has the cost of probes been measured? For the heap, the cost of the allocator's calls must be
 * known. For regions, the cost of mmap and its like must be known. (If the heap is traced, too, and
 * there is no limit, the cost of mmap is not needed.) */
bool budget__cost_known(const struct session *session);

/* Call it when the target's process has ended. If it has ended in a window, reads the clock of this
 * window for the last time. */
void budget__end_window(struct session *session, struct target *target);

/* Returns the cost of tracing the target so far, as the target feels it, ns; negative: unknown. */
double budget__cost_ns(const struct session *session, const struct target *target);

/* Returns the share of the machine's CPU time that probes took during the run, 0..100; negative:
 * unknown. Call it after session__stop(). */
double budget__host_pct(struct session *session);

/* A call costs more if calls come rarely, or if other tracers have probes on its function. Adds to
 * the target's cost what both effects have cost since this function was last called. Call it when
 * the target's counters have just been read. */
void budget__note_surcharges(const struct session *session, struct target *target);

#endif
