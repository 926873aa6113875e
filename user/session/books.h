/* SPDX-License-Identifier: BSD-2-Clause */
/* What windows bring, from the kernel's tables into a target's ledger. Private to the room. */
#ifndef MEMTRACE_SESSION_BOOKS_H
#define MEMTRACE_SESSION_BOOKS_H

#include "session/internal.h"

/* The target is to be traced under a limit, and its probes are in place. 0 or negative errno. */
int books__begin(struct session *session, struct target *target);
void books__free(struct target *target);

/* The totals of the target at a moment, as they were read: the ledger's clock goes by them. */
void books__note_totals(struct target *target, uint64_t now_ns, double cpu_ns, double cost_ns,
			enum net_clock_edge edge);

/* A window has been opened: budget.pace.start_ns is set, the target's counters are read. */
void books__opened(struct session *session, struct target *target);

/* The target is traced continuously from now on: ends need not be told. */
void books__rest(struct session *session, struct target *target);

/* The windows of n targets are about to end, at their budget.pace.end_ns, which was now a moment
 * ago: the probes are still in place, and their counters are read. 0 or negative errno. */
int books__meet(struct session *session, struct target *const *targets, size_t n);

/* These windows, or pieces of them, are over. Meets those that were not met. 0 or negative
 * errno. */
int books__harvest(struct session *session, struct target *const *targets, size_t n);

/* What the target's probes have counted since they were harvested last belongs to no window. 0 or
 * negative errno. */
int books__pass_over(struct session *session, struct target *target);

/* Looks at the contents of all blocks now. */
void books__look(struct target *target, uint64_t now_ns);

/* Reads how much the target has mapped that its heap may be in. */
void books__read_bound(struct target *target);

#endif
