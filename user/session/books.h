/* SPDX-License-Identifier: BSD-2-Clause */
/* Moves the records of windows from the kernel's tables into a target's ledger. Private to
 * user/session. */
#ifndef MEMTRACE_SESSION_BOOKS_H
#define MEMTRACE_SESSION_BOOKS_H

#include "session/internal.h"

/* Begins the ledger of a target whose cost has a limit (--max-overhead). Call it when the target's
 * probes are in place. 0 or negative errno. */
int books__begin(struct session *session, struct target *target);
void books__free(struct target *target);

/* Notes the target's totals as they were read at now_ns. The ledger's clock is made of these
 * totals. */
void books__note_totals(struct target *target, uint64_t now_ns, double cpu_ns, double cost_ns,
			enum net_clock_edge edge);

/* Notes how often the target's threads have waited up to the edge that was noted last. The waits of
 * a thread that has ended are not known any more. So nothing is noted if the set of living
 * threads has changed since the last call. */
void books__note_waits(struct target *target);

/* Notes the target's counts at the beginning of a window. Call it after the window has been
 * opened, budget.pace.start_ns has been set, and the target's counters have been read. */
void books__opened(struct session *session, struct target *target);

/* Tells the kernel side that it need not report ends of the target's blocks, because the target is
 * traced continuously from now on. */
void books__rest(struct session *session, struct target *target);

/* Tells the ledgers of n targets which blocks live now. The windows of these targets have just
 * ended, each at its target's budget.pace.end_ns. Call it while the probes are still in place,
 * after the targets' counters were read. 0 or negative errno. */
int books__meet(struct session *session, struct target *const *targets, size_t n);

/* Records the present windows of n targets, or the parts of these windows that are over, in the
 * ledgers. First calls books__meet() for those targets for which it has not been called yet. 0 or
 * negative errno. */
int books__harvest(struct session *session, struct target *const *targets, size_t n);

/* Skips what the target's probes have counted since the last harvest, because these counts belong
 * to no window. 0 or negative errno. */
int books__pass_over(struct session *session, struct target *target);

/* Checks the contents of all followed blocks that may still live. */
void books__look(struct target *target, uint64_t now_ns);

/* Reads the size of the target's mappings that may hold its heap. */
void books__read_bound(struct target *target);

#endif
