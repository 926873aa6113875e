// SPDX-License-Identifier: BSD-2-Clause
/* The lines that a profile's tables begin with: which run, how it was sampled, the total of live
 * memory and how sure this total is. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/encode.h"
#include "encode/table.h"
#include "encode/text.h"
#include "profile/windowed.h"

/* if more than this share of the run was traced, no line warns of few windows */
#define MOSTLY 0.5
/* a line warns if other tracers make a call more expensive by more than this (per cent) */
#define OTHERS_TOLD_PCT 10
/* a line warns if the share of complete stacks is smaller than this (per cent) */
#define MOST_BROKEN_PCT 50

double cpu_cores(const struct profile *profile)
{
	return profile->duration_s > 0 ? (double)profile->cpu_time_ns / 1e9 / profile->duration_s
				       : 0;
}

void format_cost_cell(const struct profile *profile, char buf[32])
{
	char cost[32];

	*buf = '\0';
	if (!profile->overhead_pct.known)
		return;
	if (format_cost(profile->overhead_pct.value, cpu_cores(profile), cost))
		snprintf(buf, 32, "%.*s%% core", (int)strcspn(cost, " "), cost);
	else
		snprintf(buf, 32, "%.1f%%", profile->overhead_pct.value);
}

/* Puts the cost of tracing. For a process that is mostly idle, a share of its own CPU time does not
 * show how much the cost matters. So the cost is also put as a share of a core. */
static void put_cost(const struct profile *profile, struct sink *sink)
{
	char cost[32];

	if (format_cost(profile->overhead_pct.value, cpu_cores(profile), cost))
		sink__printf(
			sink,
			"cost to the target: %s, which is %.1f %% of the CPU time that it uses",
			cost, profile->overhead_pct.value);
	else
		sink__printf(sink, "cost to the target: %.1f %% of its CPU time",
			     profile->overhead_pct.value);
}

/* Puts a line with the cost and the share of complete stacks, where known. */
static void put_quality(const struct profile *profile, struct sink *sink)
{
	bool cost = profile->overhead_pct.known;

	if (cost)
		put_cost(profile, sink);
	if (profile->stacks_walked)
		sink__printf(sink, "%s%.1f %% of stacks complete", cost ? "; " : "",
			     profile__stacks_complete_pct(profile));
	if (cost || profile->stacks_walked)
		sink__puts(sink, "\n");
}

/* Says that calls cost more because of other tracers' probes. The user can end the other
 * tracers. */
static void put_others(const struct profile *profile, struct sink *sink)
{
	if (profile->others_pct >= OTHERS_TOLD_PCT)
		sink__printf(sink,
			     "OTHER TRACERS have probes on the same functions: a call cost %.1f "
			     "times as much as without them\n",
			     1 + profile->others_pct / 100);
}

/* Returns the most frequent reason why stacks end early, by the counters stacks_end_... of the
 * profile. */
static const char *why_they_end(const struct profile *profile)
{
	static const struct {
		const char *name, *words;
	} reasons[] = {
		{"stacks_end_no_mapping", "in code of no known file, such as that of a JIT"},
		{"stacks_end_no_table", "in a file whose unwind table is not loaded"},
		{"stacks_end_no_rule", "in code without unwind information (.eh_frame)"},
		{"stacks_end_bad_rule", "in code whose unwind information is not understood"},
		{"stacks_end_unreadable", "where the stack could not be read"},
		{"stacks_end_no_progress", "where unwinding found no caller"},
		{"stacks_end_frame_pointers", "where the frame pointers end"},
		{"stacks_truncated", "at the limit of frames"},
	};
	const char *words = NULL;
	uint64_t most = 0;

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
		uint64_t n = profile__lost_count(profile, reasons[i].name);

		if (n > most) {
			most = n;
			words = reasons[i].words;
		}
	}
	return words;
}

/* Warns if most stacks are incomplete. The table then shows little more than leaves, but looks like
 * any other table. */
static void put_broken(const struct profile *profile, struct sink *sink)
{
	const char *why;

	if (!profile->stacks_walked || profile__stacks_complete_pct(profile) >= MOST_BROKEN_PCT)
		return;
	sink__printf(sink,
		     "CALLERS ARE MISSING: only %.1f %% of the stacks are complete, and rows of "
		     "different callers may be one",
		     profile__stacks_complete_pct(profile));
	why = why_they_end(profile);
	if (why)
		sink__printf(sink, "; most end %s", why);
	sink__puts(sink, "\n");
}

/* A line tells the size of the resident set if at least this share of the set, and at least
 * MUCH_ELSEWHERE bytes, are in no row. */
#define MOSTLY_ELSEWHERE 0.5
#define MUCH_ELSEWHERE	 (64 << 20)

/* Tells the size of the process if the table surely explains little of it. Without this line, a
 * process of 40 GB would look small, because the head says only "live heap: 12 MiB". */
static void put_size(const struct profile *profile, const struct estimate *live, struct sink *sink)
{
	double size = (double)profile->rss_end_bytes;
	/* NaN: any amount may be live */
	double elsewhere = size - profile__live_interval(profile, live).high;
	char bytes[16];

	if (profile->resident || profile__is_filtered(profile) ||
	    !(elsewhere >= MUCH_ELSEWHERE && elsewhere >= MOSTLY_ELSEWHERE * size))
		return;
	sink__printf(sink,
		     "resident set: %s; most of it is in no row: older, freed, not seen or not "
		     "the heap's (-p PID --rss)\n",
		     format_bytes(size, bytes));
}

/* Warns if children of the process do most of the work: those of compilers, make and shells, or the
 * workers that a server forks. The user then wants to know about the children's memory. */
static void put_children(const struct profile *profile, struct sink *sink)
{
	double children = (double)profile->children_cpu_ns,
	       all = children + (double)profile->cpu_time_ns;

	if (children > all / 2)
		sink__printf(
			sink,
			"NOT TRACED: its children, which used %.0f %% of the CPU time (-F traces "
			"them, too)\n",
			100 * children / all);
	else if (profile->n_strays)
		sink__printf(sink,
			     "NOT TRACED: %u child%s of this process (-F traces children, too)\n",
			     profile->n_strays, profile->n_strays == 1 ? "" : "ren");
}

static void put_death(const struct profile *profile, struct sink *sink)
{
	const char *name = sigabbrev_np((int)profile->killed_by_signal);

	if (profile->out_of_memory)
		sink__printf(sink, "KILLED: out of memory, after %.1f s\n", profile->duration_s);
	else if (profile->killed_by_signal)
		sink__printf(sink, "KILLED: by signal %u%s%s%s, after %.1f s\n",
			     profile->killed_by_signal, name ? " (SIG" : "", name ? name : "",
			     name ? ")" : "", profile->duration_s);
}

/* Says which functions were not probed. Their memory is not known, so no figure includes it. */
static int put_refused(const struct profile *profile, struct sink *sink)
{
	_cleanup_free_ char *refused = profile->refused ? text_printable(profile->refused) : NULL;

	if (profile->refused && !refused)
		return -ENOMEM;
	return refused ? sink__printf(sink, "NOT PROBED: %s\n", refused) : 0;
}

/* Puts the head of a profile of page faults, instead of allocations. */
static void put_faults_head(const struct profile *profile, const struct estimate *live,
			    struct sink *sink, const char *comm)
{
	bool exact = profile__is_exact(profile), lower = profile__is_lower_bound(profile);
	char a[32], b[32], bytes[16], interval[CELL_SIZE];

	sink__printf(sink,
		     "memtrace: pid %d (%s), %.1f s %s, faults: %s of %s page fault%s recorded\n",
		     (int)profile->pid, comm, profile->duration_s,
		     profile_mode__name(profile->mode), with_commas(profile->samples, a),
		     with_commas(profile->alloc_calls, b), plural(profile->alloc_calls));
	sink__printf(sink, "first touched and still there: %s%s", bound_words(lower, false),
		     format_bytes(live->bytes, bytes));
	if (!exact && live->objects > 0 && format_live_interval(profile, live, interval))
		sink__printf(sink, " (95 %%: %s)", interval);
	sink__puts(sink, " of anonymous memory");
	if (profile->resident_change_bytes.known)
		sink__printf(sink, "; resident set %c%s",
			     profile->resident_change_bytes.value < 0 ? '-' : '+',
			     format_bytes(fabs(profile->resident_change_bytes.value), bytes));
	sink__puts(sink, "\n");
	put_quality(profile, sink);
}

const char *drawn_what(const struct profile *profile)
{
	static const char *const words[DRAWN_KINDS] = {
		[DRAWN_PATHS] = "the blocks asked for, by who holds them; some may be lost",
		[DRAWN_ORIGINS] = "blocks in use, by who probably made them",
		[DRAWN_CENSUS] = "blocks of the heap, by place, class and size",
	};

	return words[profile->drawn];
}

const char *drawn_how(const struct profile *profile)
{
	static const char *const words[DRAWN_KINDS] = {
		[DRAWN_PATHS] = "below a root: what it leads to",
		[DRAWN_ORIGINS] = "functions are those of sampled blocks that look alike",
		[DRAWN_CENSUS] = "usable bytes; sizes are groups",
	};

	return words[profile->drawn];
}

void put_foreign_sampling(const struct profile *profile, struct sink *sink)
{
	if (profile__is_exact(profile))
		sink__puts(sink, "every allocation recorded");
	else if (profile->interval_bytes)
		put_samples_per(0, 0, profile->interval_bytes, sink);
	else
		sink__puts(sink, "the file does not say how it was sampled");
}

/* Puts the head of a profile of a part of a run. */
static void put_part_head(const struct profile *profile, const struct estimate *live,
			  struct sink *sink, const char *comm)
{
	double allocated = 0;
	char bytes[20];

	for (size_t i = 0; i < profile->n_sites; i++)
		allocated += profile->sites[i].alloc_bytes;
	sink__puts(sink, "memtrace: ");
	if (*comm)
		sink__printf(sink, "%s, ", comm);
	sink__printf(sink, "change within %.1f s of a run, ", profile->duration_s);
	if (profile->interval_bytes)
		put_foreign_sampling(profile, sink);
	else
		sink__puts(sink, "from samples");
	if (profile->no_allocated)
		sink__puts(sink, "\nallocated in this time: not known");
	else
		sink__printf(sink, "\nallocated in this time: %s", format_bytes(allocated, bytes));
	if (profile->part == PART_CHANGE)
		sink__printf(sink, "; gained: %s\n", format_bytes(live->bytes, bytes));
	else
		sink__printf(sink, "; live at its end: %s\n", format_bytes(live->bytes, bytes));
}

/* Puts the head of a profile from another program's file, or of a drawn one (profile/drawing.h). */
static void put_foreign_head(const struct profile *profile, const struct estimate *live,
			     struct sink *sink, const char *comm)
{
	bool estimated = !profile__is_exact(profile) && profile->interval_bytes;
	char a[32], bytes[16], interval[48];

	sink__puts(sink, "memtrace: ");
	if (profile->pid)
		sink__printf(sink, "pid %d (%s), ", (int)profile->pid, comm);
	if (profile->duration_s > 0)
		sink__printf(sink, "%.1f s, ", profile->duration_s);
	if (profile->drawn)
		sink__puts(sink, drawn_how(profile));
	else
		put_foreign_sampling(profile, sink);
	sink__printf(sink, "\n%s: %s", profile->drawn ? drawn_what(profile) : "live heap",
		     format_bytes(live->bytes, bytes));
	if (estimated && live->bytes > 0) {
		format_interval(estimate__interval(live), interval, sizeof(interval));
		sink__printf(sink, " (95 %%: %s)", interval);
	}
	if (live->objects > 0)
		sink__printf(sink, " in %s %s", with_commas(to_integer(live->objects), a),
			     profile->drawn ? "blocks" : "objects");
	sink__puts(sink, estimated ? ", estimated\n" : "\n");
}

/* Returns "exact", or "not sampled" if a counter of the profile shows that something was missed. */
static const char *exact_word(const struct profile *profile)
{
	return profile__is_surely_exact(profile) ? "exact" : "not sampled";
}

/* Puts "windowed (20 windows of 25 ms, 1.2 s continuous)". */
static void put_mode(const struct profile *profile, struct sink *sink)
{
	sink__puts(sink, profile_mode__name(profile->mode));
	if (profile->windows.n)
		sink__printf(sink, " (%" PRIu64 " window%s of %.0f ms, %.1f s continuous)",
			     profile->windows.n, plural(profile->windows.n),
			     1000 * profile->windows.seconds / (double)profile->windows.n,
			     profile->windows.continuous_s);
	else if (profile__is_windowed(profile))
		sink__printf(sink, " (traced for %.2g s of it)", profile->windows.continuous_s);
}

/* Warns if there were too few windows to show how windows differ. */
static void put_few(const struct profile *profile, struct sink *sink)
{
	if (profile->windows.n && profile->windows.n < WINDOWED_LEAST_BORN &&
	    profile__watched_s(profile) < MOSTLY * profile->duration_s)
		sink__printf(sink, "only %" PRIu64 " window%s: the figures are rough%s\n",
			     profile->windows.n, plural(profile->windows.n),
			     profile->ended ? "" : "; a longer run has more windows");
}

static void put_heap_head(const struct profile *profile, const struct estimate *live,
			  struct sink *sink, const char *comm)
{
	bool exact = profile__is_exact(profile), lower = profile__is_lower_bound(profile);
	bool upper = profile__is_upper_bound(profile), room = profile__lacks_room(profile);
	/* memory that was not sampled, or whose allocation was missed, may be live */
	const char *seen = profile__is_surely_exact(profile) ? "" : "seen that is ";
	char a[32], b[32], bytes[16], interval[CELL_SIZE];

	sink__printf(sink, "memtrace: pid %d (%s), %.1f s ", (int)profile->pid, comm,
		     profile->duration_s);
	put_mode(profile, sink);
	sink__puts(sink, ", ");
	if (exact) {
		sink__printf(sink, "%s: %s of %s allocation%s recorded\n", exact_word(profile),
			     with_commas(profile->samples, a), with_commas(profile->alloc_calls, b),
			     plural(profile->alloc_calls));
	} else if (profile__is_windowed(profile)) {
		sink__printf(sink, "%s sample%s of the %s %s in %s\n",
			     with_commas(profile->samples, a), plural(profile->samples),
			     with_commas(profile->alloc_calls, b), sampled_word(profile),
			     profile->windows.n ? "them" : "that time");
	} else {
		put_samples_per(profile->finest_interval_bytes, profile->asked_interval_bytes,
				profile->interval_bytes, sink);
		sink__printf(sink, ": %s sample%s of %s %s\n", with_commas(profile->samples, a),
			     plural(profile->samples), with_commas(profile->alloc_calls, b),
			     sampled_word(profile));
	}

	if (live->objects > 0) {
		uint64_t objects = to_integer(live->objects);

		sink__printf(sink, "live heap%s%s: %s%s",
			     profile->ended && profile->peak.known ? " at its end" : "",
			     profile->windows.n		     ? ", from windows"
			     : profile__is_windowed(profile) ? ", from that time"
							     : "",
			     bound_words(lower, upper), format_bytes(live->bytes, bytes));
		if (!exact && format_live_interval(profile, live, interval))
			sink__printf(sink, " (95 %%: %s)", interval);
		sink__printf(sink, " in %s object%s", with_commas(objects, a),
			     objects == 1 ? "" : "s");
		if (!lower && !upper)
			sink__puts(sink, exact ? ", exact" : ", estimated");
	} else if (profile->not_traced) {
		sink__printf(sink, "live heap: not known, the process is not traced: %s",
			     profile->not_traced);
	} else if (profile__lost_count(profile, "not_traced")) {
		/* the profile's file does not say why the process was not traced */
		sink__puts(sink, "live heap: not known, the process was not traced");
	} else if (profile__is_filtered(profile)) {
		sink__puts(sink, "live heap: the filters leave nothing");
	} else if (profile__is_windowed(profile) && profile->duration_s > 0) {
		sink__printf(
			sink,
			"live heap: not known, nothing was seen that is live; the probes were in "
			"place for %.2g %% of "
			"the run (--max-overhead)",
			100 * fmin(profile__watched_s(profile) / profile->duration_s, 1));
	} else if (!profile->alloc_calls) {
		sink__puts(sink, lower ? "live heap: not known, calls were missed and none was seen"
				       : "live heap: the process allocated nothing during the run");
	} else if (profile->dropped) {
		sink__puts(sink, "live heap: UNKNOWN");
	} else if (!profile->samples) {
		sink__puts(sink, "live heap: none of the allocations was sampled; a smaller "
				 "interval samples more");
	} else if (profile__lost_count(profile, "dropped_by_exec")) {
		sink__printf(sink,
			     "live heap: after the exec, nothing is %slive; the memory of the "
			     "program before it is gone",
			     seen);
	} else {
		sink__printf(sink,
			     profile->samples == 1
				     ? "live heap: nothing is %slive, the %s allocation that was "
				       "recorded is freed again"
				     : "live heap: nothing is %slive, all of the %s allocations "
				       "that were recorded are freed again",
			     seen, with_commas(profile->samples, a));
	}
	if (profile->dropped)
		sink__printf(sink, "; INCOMPLETE: %s sample%s %s%s missing%s",
			     with_commas(profile->dropped, a), plural(profile->dropped),
			     room ? "had no room and " : "", profile->dropped == 1 ? "is" : "are",
			     room ? " (--max-live, --max-stacks)" : "");
	if (profile__lost_count(profile, "exec_untraced"))
		sink__puts(sink, "; it became another program by exec, WHICH IS NOT TRACED");
	else if (profile__lost_count(profile, "allocators_late") && !profile__is_windowed(profile))
		sink__puts(sink, "; for a moment the program ran without its probes, so some "
				 "allocations are missing");
	sink__puts(sink, "\n");
	put_quality(profile, sink);
	put_few(profile, sink);
	put_size(profile, live, sink);
}

static const char *format_signed(double bytes, char *buf)
{
	char size[16];

	snprintf(buf, 20, "%s%s", bytes < 0 ? "-" : "", format_bytes(fabs(bytes), size));
	return buf;
}

/* Puts the growth of the process, and how much of this growth the stacks explain. If they explain
 * little, the table says little. */
static void put_process_growth(const struct profile *profile, struct sink *sink)
{
	const struct process_growth *growth = &profile->growth;
	const struct growth *known = &growth->attributed;
	char bytes[20], interval[48] = "";

	if (!growth->stacks_known) { /* too few windows: only the process's growth is known */
		sink__printf(sink, "anonymous memory grows by %s/s; in which stacks is not known\n",
			     format_signed(growth->bytes_per_s.value, bytes));
		return;
	}
	if (growth->bytes_per_s.known)
		sink__printf(sink, "anonymous memory grows by %s/s: ",
			     format_signed(growth->bytes_per_s.value, bytes));
	else
		sink__puts(sink, "growth: ");
	sink__printf(sink, "%s/s", format_signed(known->bytes_per_s, bytes));
	if (known->low > 0 && known->high > known->low) {
		format_interval((struct interval){known->low, known->high}, interval,
				sizeof(interval));
		sink__printf(sink, " (95 %%: %s)", interval);
	} else if (known->high > known->low && known->low <= 0 && known->high >= 0) {
		sink__puts(sink, " (may be 0)");
	} else if (known->high > known->low) { /* it shrinks */
		format_range(known->low, known->high, interval, sizeof(interval));
		sink__printf(sink, " (95 %%: %s)", interval);
	}
	sink__puts(sink, profile__is_filtered(profile) ? " by the stacks of the run"
						       : " by the stacks below");
	if (growth->regions > 0)
		sink__printf(sink, ", %s/s by regions of its own",
			     format_signed(growth->regions, bytes));
	if (growth->bytes_per_s.known)
		sink__printf(sink, ", %s/s by none of them",
			     format_signed(growth->bytes_per_s.value - known->bytes_per_s -
						   growth->regions,
					   bytes));
	if (profile__is_windowed(profile) && growth->blocks_low.known)
		sink__printf(sink, "; by its calls, the process gains %.0f to %.0f blocks/s",
			     growth->blocks_low.value, growth->blocks_high.value);
	sink__puts(sink, "\n");
}

/* bytes per second: if a process grows more slowly, put_pool() puts nothing */
#define GROWS (16 << 10)

/* If a memory pool may have grown, says that pools are not probed. A pool may have grown if the
 * stacks do not explain the process's growth, or if no stack surely grows. A pool takes a few large
 * blocks from malloc. The pool's own functions are probed only in processes that are named by pid,
 * and only without a limit of the cost. */
static void put_pool(const struct profile *profile, struct sink *sink)
{
	const struct process_growth *growth = &profile->growth;
	double grows = growth->bytes_per_s.value, known = 0;
	const char *pool;

	if (growth->stacks_known)
		known = growth->attributed.bytes_per_s + growth->regions;
	if (profile__is_faults(profile) || profile->refused)
		return;
	if (!growth->bytes_per_s.known || grows < GROWS ||
	    (!(known < grows / 2) && profile__leaks(profile)))
		return;
	pool = profile__pool_above_malloc(profile);
	if (pool)
		sink__printf(sink,
			     "memory pools (%s) are not probed in this run, so only the large "
			     "blocks that they take from malloc are seen; with -p PID "
			     "--max-overhead off, each block of a pool is\n",
			     pool);
}

/* Puts the head of a profile of regions. */
static void put_regions_head(const struct profile *profile, const struct estimate *live,
			     struct sink *sink, const char *comm)
{
	char a[32], b[32], bytes[16];
	bool first = true;

	sink__printf(sink,
		     "memtrace: pid %d (%s), %.1f s %s, regions, %s: %s calls of mmap, mremap and "
		     "brk that took memory, %s others\n",
		     (int)profile->pid, comm, profile->duration_s,
		     profile_mode__name(profile->mode), exact_word(profile),
		     with_commas(profile->alloc_calls, a), with_commas(profile->free_calls, b));
	sink__printf(
		sink, "live regions: %s%s in %s piece%s",
		bound_words(profile__is_lower_bound(profile), profile__is_upper_bound(profile)),
		format_bytes(live->bytes, bytes), with_commas(to_integer(live->objects), a),
		live->objects == 1 ? "" : "s");
	/* the kinds are known for all stacks together only, not for what a filter has left */
	for (int i = 0; i < REGION_MEMORY_KINDS && !profile__is_filtered(profile); i++) {
		if (!(profile->regions.kind_bytes[i] > 0))
			continue;
		sink__printf(sink, "%s%s %s", first ? ": " : ", ",
			     region_memory__name((enum region_memory)i),
			     format_bytes(profile->regions.kind_bytes[i], bytes));
		first = false;
	}
	if (profile->dropped)
		sink__printf(sink, "; INCOMPLETE: %s calls found no room and are missing",
			     with_commas(profile->dropped, a));
	if (profile->regions.stopped_s.known)
		sink__printf(sink,
			     "; INCOMPLETE: followed for the first %.1f s only, because so many "
			     "calls cost too much (--max-overhead)",
			     profile->regions.stopped_s.value);
	if (optional__is_above(profile->regions.earlier_gone_bytes, 0))
		sink__printf(sink, "; %s of what was mapped before the run given back",
			     format_bytes(profile->regions.earlier_gone_bytes.value, bytes));
	if (profile__lost_count(profile, "exec_untraced"))
		sink__puts(sink, "; it became another program by exec, WHICH IS NOT TRACED");
	sink__puts(sink, "\n");
	put_quality(profile, sink);
}

int put_run_head(const struct profile *profile, bool growth, struct sink *sink)
{
	_cleanup_free_ char *comm = text_printable(profile->comm);
	struct estimate live = profile__live(profile);

	if (!comm)
		return -ENOMEM;
	put_broken(profile, sink);
	if (profile->part)
		put_part_head(profile, &live, sink, comm);
	else if (profile__is_regions(profile))
		put_regions_head(profile, &live, sink, comm);
	else if (profile__is_faults(profile))
		put_faults_head(profile, &live, sink, comm);
	else if (!profile->mode)
		put_foreign_head(profile, &live, sink, comm);
	else
		put_heap_head(profile, &live, sink, comm);
	if (profile->ended && profile->duration_s < profile->planned_s)
		sink__printf(sink, "pid %d ended after %.1f s of %.10g\n", (int)profile->pid,
			     profile->duration_s, profile->planned_s);
	put_death(profile, sink);
	put_children(profile, sink);
	put_others(profile, sink);
	if (put_refused(profile, sink))
		return -ENOMEM;
	if (growth && profile__knows_process_growth(profile))
		put_process_growth(profile, sink);
	if (profile__knows_process_growth(profile))
		put_pool(profile, sink);
	return put_contradictions(profile, "", sink);
}
