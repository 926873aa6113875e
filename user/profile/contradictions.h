/* SPDX-License-Identifier: BSD-2-Clause */
/* Does a profile agree with itself, and with what is known of its process? Each output that shows a
 * profile's figures asks here, and says what it is told: a table that contradicts itself is worse
 * than none.
 *
 * Only profiles of memtrace's own are checked: other tools' files state no facts. A finding is sure
 * when nothing but an error in the figures explains it (memtrace's, or of files that were merged).
 * Of the others encode/contradictions.c says what else may explain them.
 *
 * Facts are not read at one moment: counters, tables and /proc are up to a second apart. So a
 * figure may differ from a fact by the part that it changes in a second of the run, at its mean
 * rate. Below, "clearly" is by more than that, and by more than one per cent, which rounding may
 * come to.
 *
 *  frees_unseen: figure live objects, fact "freed_unobserved". A new block stood where an old
 *	one was not freed: there is a way to free that no probe sees (heaps that are destroyed at
 *	once, as mi_heap_destroy does). What has no new block at its address yet still counts as
 *	live. Not of windows, which are known to miss frees, nor of pages.
 *  blocks_unseen: figure live objects, fact "result_unknown", "allocators_refused" and
 *	"functions_refused" together: so many allocations, allocators, or functions are missing
 *	from every figure. None of these is of regions.
 *  probes_silent: figure live objects, fact 1 ("main_thread_ended"). Neither what was
 *	allocated nor what was freed since the main thread ended is in any figure.
 *  probes_withdrawn: figure live objects, fact "probes_withdrawn". The same of the times in which
 *	the probes were out because memtrace hung. Not of windows, which tell of all times.
 *  live_above_allocated: figure live bytes, fact bytes allocated less those freed. Clearly;
 *	sure where more is live than was ever allocated. Of windows, where both are estimates,
 *	only when the interval's low end is above, and never sure.
 *  live_above_mapped: figure live bytes, fact heap_mapped_bytes. By more than one per cent;
 *	sure when the interval's low end is above, too, for what is live is mapped, touched or
 *	not.
 *  live_above_resident: figure live bytes, fact what is resident and swapped of the heap's
 *	mappings, where that was measured (struct resident); else the whole resident set, clearly,
 *	by the interval's low end, of what has not ended. Never sure: blocks need not be touched.
 *  growth_above_process: figure bytes per second that all stacks together grow by, the
 *	interval's low end; fact that of the process's anonymous memory less its regions'.
 *	Clearly, and by more than 128 KiB for each thread over the run, which an allocator may
 *	have had in reserve. Never sure: blocks take the place of freed ones, or are not touched.
 *  growth_of_rows: figure bytes per second that the stacks' growth adds up to, fact what is
 *	said of all together. By more than one per cent of their absolute values. Not where
 *	samples were dropped.
 *  kinds_of_regions: figure bytes that live regions of all kinds add up to, fact live bytes.
 *	By more than one per cent.
 *  peak_below_live: figure bytes held when the process held most, fact live bytes at the end.
 *	By more than five per cent: what CPUs do at the same moment is not in order
 *	(bpf/peak.bpf.h). Sure of a process of one thread.
 *  threads_above_stack: figure bytes that threads hold of the stack for which it is most,
 *	fact that stack's live bytes. By more than one per cent and a block.
 *
 * Of a profile that was filtered (LOST_FILTERED) what is said of the whole is not held against what
 * is left. */
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
	double figure, fact; /* what the profile says, and what that is held against: see above */
};

/* At most one of each rule, in their order. */
struct contradictions {
	struct contradiction at[CONTRADICTION_MAX];
	size_t n;
};

/* Of a sorted profile. */
struct contradictions profile__contradictions(const struct profile *profile);

#endif
