// SPDX-License-Identifier: BSD-2-Clause
#include "profile/pprof.h"

#include <math.h>
#include <string.h>

const struct pprof_value_name pprof_values[VALUES] = {
	[VALUE_ALLOC_OBJECTS] = {"alloc_objects", "count"},
	[VALUE_ALLOC_SPACE] = {"alloc_space", "bytes"},
	[VALUE_INUSE_OBJECTS] = {"inuse_objects", "count"},
	[VALUE_INUSE_SPACE] = {"inuse_space", "bytes"},
	[VALUE_INUSE_SAMPLES] = {"inuse_samples", "count"},
	[VALUE_INUSE_SAMPLED] = {"inuse_sampled", "bytes"},
	[VALUE_INUSE_VARIANCE] = {"inuse_variance", "bytes"},
	[VALUE_GROWTH] = {"growth_per_hour", "bytes"},
};

#define FACT_OF(of, key, type, member, absent)                                                     \
	{                                                                                          \
		key, FACT_##type, FACT_OF_##of, false, offsetof(struct profile, member), absent    \
	}
#define RUN_FACT_OF(of, key, type, member, absent)                                                 \
	{                                                                                          \
		key, FACT_##type, FACT_OF_##of, true, offsetof(struct profile_run, member), absent \
	}
#define FACT(key, type, member, absent)	    FACT_OF(ANY, key, type, member, absent)
#define RUN_FACT(key, type, member, absent) RUN_FACT_OF(ANY, key, type, member, absent)

const struct pprof_fact pprof_facts[] = {
	FACT("pid", INT, pid, 0),
	FACT("process_start_ticks", UINT64, process_start_ticks, 0),
	FACT("alloc_calls", UINT64, alloc_calls, 0),
	FACT("free_calls", UINT64, free_calls, 0),
	FACT("samples", UINT64, samples, 0),
	FACT("asked_interval_bytes", UINT64, asked_interval_bytes, 0),
	FACT("sampled_by_target", BOOL, sampled_by_target, 0),
	FACT("finest_interval_bytes", UINT64, finest_interval_bytes, 0),
	FACT("dropped", UINT64, dropped, 0),
	FACT("withdrawals", UINT64, withdrawals, 0),
	FACT("stacks_walked", UINT64, stacks_walked, 0),
	FACT("stacks_complete", UINT64, stacks_complete, 0),
	FACT("overhead_pct", OPTIONAL, overhead_pct, NAN),
	FACT("others_pct", REAL, others_pct, 0),
	FACT("windows", UINT64, windows.n, 0),
	FACT("windows_s", REAL, windows.seconds, 0),
	FACT("continuous_s", REAL, windows.continuous_s, 0),
	FACT("cpu_time_ns", UINT64, cpu_time_ns, 0),
	FACT("children_cpu_ns", UINT64, children_cpu_ns, 0),
	FACT("untraced_children", UINT32, n_strays, 0),
	FACT("rss_start_bytes", UINT64, rss_start_bytes, 0),
	FACT("rss_end_bytes", UINT64, rss_end_bytes, 0),
	FACT("file_growth_bytes", SIGNED, file_growth_bytes, 0),
	FACT("threads_at_end", UINT32, n_live_threads, 0),
	FACT("ended", BOOL, ended, 0),
	FACT("killed_by_signal", UINT32, killed_by_signal, 0),
	FACT("out_of_memory", BOOL, out_of_memory, 0),
	FACT("planned_s", REAL, planned_s, 0),
	FACT("leaf_holds", BOOL, leaf_holds, 0),
	FACT("no_objects", BOOL, no_objects, 0),
	FACT("ages_known", BOOL, life.ages_known, 0),
	FACT("peak_known", BOOL, peak.known, 0),
	FACT("peak_s", REAL, peak.s, 0),
	FACT("growth_known", BOOL, growth.stacks_known, 0),
	FACT_OF(PROCESS_GROWTH, "process_growth_bytes_per_s", OPTIONAL_SIGNED, growth.bytes_per_s,
		NAN),
	FACT_OF(GROWING, "process_growth_attributed", SIGNED, growth.attributed.bytes_per_s, 0),
	FACT_OF(GROWING, "process_growth_attributed_low", SIGNED, growth.attributed.low, NAN),
	FACT_OF(GROWING, "process_growth_attributed_high", SIGNED, growth.attributed.high, NAN),
	FACT_OF(GROWING, "process_growth_regions", SIGNED, growth.regions, 0),
	FACT_OF(WINDOWED, "process_blocks_per_s", OPTIONAL_SIGNED, growth.blocks_per_s, NAN),
	FACT_OF(WINDOWED, "process_blocks_low", OPTIONAL_SIGNED, growth.blocks_low, NAN),
	FACT_OF(WINDOWED, "process_blocks_high", OPTIONAL_SIGNED, growth.blocks_high, NAN),
	FACT_OF(WINDOWED, "heap_mapped_bytes", REAL, windows.heap_mapped_bytes, 0),
	FACT_OF(WINDOWED, "blocks_born", UINT64, windows.evidence.born, 0),
	FACT_OF(WINDOWED, "blocks_freed", UINT64, windows.evidence.freed, 0),
	FACT_OF(WINDOWED, "blocks_replaced", UINT64, windows.evidence.replaced, 0),
	FACT_OF(WINDOWED, "blocks_unmapped", UINT64, windows.evidence.unmapped, 0),
	FACT_OF(WINDOWED, "blocks_changed", UINT64, windows.evidence.changed, 0),
	FACT_OF(WINDOWED, "blocks_unchanged", UINT64, windows.evidence.unchanged, 0),
	FACT_OF(REGIONS, "earlier_gone_bytes", OPTIONAL, regions.earlier_gone_bytes, NAN),
	FACT_OF(REGIONS, "regions_followed_s", OPTIONAL, regions.stopped_s, NAN),
	FACT_OF(FAULTS, "resident_change_bytes", OPTIONAL_SIGNED, resident_change_bytes, NAN),
	RUN_FACT("memtrace_cost_known", BOOL, cost.known, 0),
	RUN_FACT("memtrace_cpu_pct", REAL, cost.cpu_pct, 0),
	RUN_FACT("memtrace_host_cost_known", BOOL, cost.host_known, 0),
	RUN_FACT_OF(HOST_COST, "memtrace_host_pct", REAL, cost.host_pct, 0),
	RUN_FACT("memtrace_user_bytes", UINT64, cost.user_bytes, 0),
	RUN_FACT("memtrace_kernel_bytes", UINT64, cost.kernel_bytes, 0),
	RUN_FACT("memtrace_kernel_bytes_at_most", BOOL, cost.at_most, 0),
};

const size_t n_pprof_facts = sizeof(pprof_facts) / sizeof(pprof_facts[0]);
_Static_assert(sizeof(pprof_facts) / sizeof(pprof_facts[0]) <= 63,
	       "readers have a bit for each, and one for what");

void *pprof_fact__at(const struct pprof_fact *fact, const struct profile *profile)
{
	return (fact->of_run ? (char *)profile->run : (char *)profile) + fact->offset;
}

double pprof_fact__get(const struct pprof_fact *fact, const struct profile *profile)
{
	const void *at = pprof_fact__at(fact, profile);

	switch (fact->type) {
	case FACT_UINT64:
		return (double)*(const uint64_t *)at;
	case FACT_UINT32:
		return *(const uint32_t *)at;
	case FACT_INT:
		return *(const int *)at;
	case FACT_BOOL:
		return *(const bool *)at;
	case FACT_REAL:
	case FACT_SIGNED:
		return *(const double *)at;
	case FACT_OPTIONAL:
	case FACT_OPTIONAL_SIGNED:
		return optional__or_nan(*(const struct optional *)at);
	}
	return NAN;
}

bool pprof_fact__is_absent(const struct pprof_fact *fact, const struct profile *profile)
{
	double value = pprof_fact__get(fact, profile);

	if ((fact->of == FACT_OF_GROWING && !profile->growth.stacks_known) ||
	    (fact->of == FACT_OF_PROCESS_GROWTH && !profile->growth.stacks_known &&
	     !profile__knows_process_growth(profile)) ||
	    (fact->of == FACT_OF_WINDOWED && !profile__is_windowed(profile)) ||
	    (fact->of == FACT_OF_REGIONS && !profile__is_regions(profile)) ||
	    (fact->of == FACT_OF_FAULTS && !profile__is_faults(profile)) ||
	    (fact->of == FACT_OF_HOST_COST && !profile->run->cost.host_known))
		return true;
	return !isfinite(value) || value == fact->absent;
}

void pprof_facts__clear(struct profile *profile)
{
	for (size_t i = 0; i < n_pprof_facts; i++) {
		if (pprof_facts[i].type == FACT_REAL || pprof_facts[i].type == FACT_SIGNED)
			*(double *)pprof_fact__at(&pprof_facts[i], profile) = pprof_facts[i].absent;
	}
}
