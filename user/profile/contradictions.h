/* SPDX-License-Identifier: BSD-2-Clause */
/* Does a profile agree with itself, and with what is known of its process? Each output that shows a
 * profile's figures calls profile__contradictions() and prints the result: a table that contradicts
 * itself is worse than none.
 *
 * Only memtrace's own profiles are checked: other tools' files state no facts. A finding is sure if
 * only an error in the figures explains it. The error is memtrace's, or came from merging files.
 * For the other findings encode/contradictions.c tells what else may explain them. Findings by the
 * first four rules are never sure. Findings by the other rules are always sure, except where the
 * rule's text says something else.
 *
 * Each rule below compares a figure of the profile with a fact. Where a rule says "the figure
 * must be above the fact", it states the condition for a finding. Facts are not read at one moment:
 * counters, tables and /proc are up to a second apart. So a figure may differ from a fact by as
 * much as the figure changes in one second of the run, at its mean rate. Below, "clearly" means: by
 * more than this difference, and by more than one per cent, because rounding may amount to as much.
 *
 *  frees_unseen. Figure: live objects. Fact: the counter "freed_unobserved". A new block got the
 *	address of a block that was not seen to be freed. So memory is also freed in a way that no
 *	probe sees (mi_heap_destroy() destroys a heap as a whole). The old block counts as live
 *	until a new one has its address. Not for windows, which are known to miss frees, nor for
 *	page faults.
 *  blocks_unseen. Figure: live objects. Fact: the sum of the counters "result_unknown",
 *	"allocators_refused" and "functions_refused". The sum is the number of allocations,
 *	allocators and functions that are missing from every figure. Not for regions: these counters
 *	are the heap's.
 *  probes_silent. Figure: live objects. Fact: 1, if the counter "main_thread_ended" is not 0. No
 *	figure has what was allocated or freed after the main thread ended.
 *  probes_withdrawn. Figure: live objects. Fact: the number of withdrawals. memtrace hung, so its
 *	probes were out for a time. No figure has what was allocated or freed in this time. Not for
 *	windows: their figures are estimates for all times.
 *  live_above_allocated. Figure: live bytes. Fact: allocated bytes minus freed bytes. The figure
 *	must be above the fact by more than the sum of two amounts. One is one per cent of the
 *	allocated bytes. The other is the change of the freed bytes in one second (or one per cent
 *	of the freed bytes, if this is more). Sure if the figure is above the allocated bytes by
 *	more than one per cent. In windows both are estimates, so the interval's low end takes the
 *	place of the figure, and the finding is never sure.
 *  live_above_mapped. Figure: live bytes. Fact: heap_mapped_bytes. The figure must be above the
 *	fact by more than one per cent. Sure if the interval's low end is also above the fact by so
 *	much: live memory is mapped, even if it was never touched.
 *  live_above_resident. Figure: live bytes. Fact: how much of the heap's mappings is resident or
 *	swapped out, if that was measured (struct resident). The figure must be above the fact. If
 *	this was not measured, the fact is the whole resident set. Then the interval's low end must
 *	clearly be above the fact, and the process must not have ended. Never sure: blocks need
 *	not be touched.
 *  growth_above_process. Figure: bytes per second by which all stacks together grow, at the
 *	interval's low end. Fact: the growth of the process's anonymous memory minus the growth
 *	of its regions. The figure must clearly be above the fact plus a reserve. The reserve is 128
 *	KiB times the number of threads plus one, divided by the length of the run. The reason
 *	is that an allocator may have had this much free memory at the start. Never sure: blocks
 *	may take the place of freed ones, or may not be touched.
 *  growth_of_rows. Figure: bytes per second, the sum of the stacks' growth. Fact: the growth that
 *	the profile states for all stacks together. It is a finding if they differ by more than one
 *	per cent of the sum of absolute values. Not if samples were dropped.
 *  kinds_of_regions. Figure: bytes, the sum of live regions of all kinds. Fact: live bytes. It
 *	is a finding if they differ by more than one per cent.
 *  peak_below_live. Figure: bytes held at the process's peak. Fact: live bytes at the end. The
 *	figure must be below the fact by more than five per cent, because the order of events on
 *	several CPUs at the same moment is not known (bpf/peak.bpf.h). Sure in a process of one
 *	thread.
 *  threads_above_stack. Figure: bytes of one stack that all threads together hold. Fact: that
 *	stack's live bytes. The figure must be above the fact by more than one per cent plus a
 *	block. Only the stack with the largest excess is reported.
 *
 * In a filtered profile (profile__is_filtered()), figures of the whole process are not compared
 * with the stacks that are left. */
#ifndef MEMTRACE_PROFILE_CONTRADICTIONS_H
#define MEMTRACE_PROFILE_CONTRADICTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"

/* Rules: X(enumerator, name). */
#define CONTRADICTION_RULES(X)                                                                     \
	X(FREES_UNSEEN, "frees_unseen")                                                            \
	X(BLOCKS_UNSEEN, "blocks_unseen")                                                          \
	X(PROBES_SILENT, "probes_silent")                                                          \
	X(PROBES_WITHDRAWN, "probes_withdrawn")                                                    \
	X(LIVE_ABOVE_ALLOCATED, "live_above_allocated")                                            \
	X(LIVE_ABOVE_MAPPED, "live_above_mapped")                                                  \
	X(LIVE_ABOVE_RESIDENT, "live_above_resident")                                              \
	X(GROWTH_ABOVE_PROCESS, "growth_above_process")                                            \
	X(GROWTH_OF_ROWS, "growth_of_rows")                                                        \
	X(KINDS_OF_REGIONS, "kinds_of_regions")                                                    \
	X(PEAK_BELOW_LIVE, "peak_below_live")                                                      \
	X(THREADS_ABOVE_STACK, "threads_above_stack")

enum contradiction_rule {
#define X(id, name) CONTRADICTION_##id,
	CONTRADICTION_RULES(X)
#undef X
		CONTRADICTION_MAX
};

/* "frees_unseen", ... */
const char *contradiction_rule__name(enum contradiction_rule rule);

struct contradiction {
	enum contradiction_rule rule;
	bool sure;
	double figure, fact; /* figure: what the profile says; fact: what it is compared with (see
			      * above) */
};

/* At most one of each rule, in the order of the rules. */
struct contradictions {
	struct contradiction at[CONTRADICTION_MAX];
	size_t n;
};

/* The contradictions in a sorted profile. */
struct contradictions profile__contradictions(const struct profile *profile);

#endif
