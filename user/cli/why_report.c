// SPDX-License-Identifier: BSD-2-Clause
#include "cli/why.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/heap_types.h"
#include "encode/encode.h"
#include "proc/process.h"
#include "symbolize/thread_names.h"
#include "symbolize/variables.h"

/* Each scan may take blocks off the list of lost blocks. If the last scan took off more than this
 * share, the report calls no block lost. Suppose that a scan finds half of the held blocks on the
 * list, and takes them off. Then the other half of the held blocks remains on the list. So at this
 * limit, one in twenty of the blocks that are called lost is in fact held. */
#define MOST_UNSETTLED 0.05

DEFINE_CLEANUP(struct variables *, cleanup_variables, variables__free)
DEFINE_CLEANUP(struct thread_names *, cleanup_thread_names, thread_names__free)

/* --- how far the report can be trusted --- */

static void take_losses(const struct why_sums *sums, uint64_t *losses)
{
	for (int i = 0; i < HEAP_ALLOCATORS; i++) {
		const struct heap_quality *q = &sums->quality[i];

		losses[WHY_LOSS_RESYNCS] += q->resyncs;
		losses[WHY_LOSS_UNKNOWN] += q->unknown_bytes;
		losses[WHY_LOSS_ABSENT] += q->absent_bytes;
		losses[WHY_LOSS_DOUBTFUL] += q->doubtful;
		losses[WHY_LOSS_BROKEN_SLABS] += q->broken_slabs;
		losses[WHY_LOSS_DROPPED_SPANS] += q->dropped_spans;
	}
	losses[WHY_LOSS_SWAPPED] = sums->swapped_bytes;
	losses[WHY_LOSS_UNREAD] = sums->unread_bytes;
	losses[WHY_LOSS_ONCE] = sums->unreached > sums->lost ? sums->unreached - sums->lost : 0;
	losses[WHY_LOSS_UNSETTLED] = sums->unsettled;
	losses[WHY_LOSS_LATE] = sums->late_beyond;
	losses[WHY_LOSS_BEYOND] = sums->lost_beyond;
	losses[WHY_LOSS_EPOLLS] = sums->unread_epolls;
	losses[WHY_LOSS_NO_PATH] = sums->no_path;
}

static void judge_quality(const struct why_sums *sums, struct why_report *report)
{
	const uint64_t *losses = report->losses;
	double unfollowed = (double)why_sums__unfollowed(sums);
	char text[20];

	if (sums->stopped)
		snprintf(report->doubt, sizeof(report->doubt),
			 "the heap is too large to be read in time");
	else if (losses[WHY_LOSS_SWAPPED])
		snprintf(report->doubt, sizeof(report->doubt),
			 "%s are swapped out, and pointers in them are not seen",
			 format_bytes((double)losses[WHY_LOSS_SWAPPED], text));
	else if (unfollowed > WHY_MAX_UNFOLLOWED * (double)sums->bytes)
		snprintf(report->doubt, sizeof(report->doubt),
			 "%s of the heap could not be followed", format_bytes(unfollowed, text));
	else if ((double)losses[WHY_LOSS_UNSETTLED] > MOST_UNSETTLED * (double)sums->lost)
		snprintf(report->doubt, sizeof(report->doubt),
			 "%" PRIu64 " blocks seem lost, but this list was not final when the "
			 "search ended: the last scan that changed it took %" PRIu64 " blocks off",
			 sums->lost, losses[WHY_LOSS_UNSETTLED]);
	else if (losses[WHY_LOSS_BEYOND] && !sums->lost)
		snprintf(report->doubt, sizeof(report->doubt),
			 "%" PRIu64 " blocks that seem lost were not judged, because the list of "
			 "such blocks was full",
			 losses[WHY_LOSS_BEYOND]);
}

/* --- roots --- */

/* Returns the name of a thread, which is read into buf, or "?". */
static const char *thread_name(pid_t pid, pid_t tid, char *buf, size_t size)
{
	char path[64];
	_cleanup_fclose_ FILE *file = NULL;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
	file = fopen(path, "re");
	if (!file || !fgets(buf, (int)size, file))
		return "?";
	buf[strcspn(buf, "\n")] = '\0';
	return buf;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Names a variable, or else the data of a file. NULL: no memory. */
static char *name_data(struct variables *variables, uint64_t addr, uint64_t *ret_off)
{
	struct variable v;
	char *name = NULL;
	int err = variables__name(variables, addr, &v);

	if (err == -ENOMEM)
		return NULL;
	if (err)
		return strdup("data");
	*ret_off = v.off;
	if ((v.name ? asprintf(&name, "%s (%s)", v.name, base_name(v.path))
		    : asprintf(&name, "data of %s", base_name(v.path))) < 0)
		return NULL;
	return name;
}

/* The data from which the roots of a process get their names. */
struct root_names {
	pid_t pid;
	const struct maps *maps;
	struct variables *variables;
	struct thread_names *threads;
};

/* Names a word in thread-local memory. 0; -ENOENT: addr is elsewhere; -ENOMEM. */
static int name_thread_local(const struct root_names *names, uint64_t addr, struct why_row *row)
{
	struct variable v;
	char comm[32];
	pid_t tid;
	int err = thread_names__variable(names->threads, addr, &v, &tid);
	const char *comm_of;

	if (err)
		return err;
	comm_of = thread_name(names->pid, tid, comm, sizeof(comm));
	row->root_kind = "thread-local";
	row->root_off = v.off;
	if (asprintf(&row->root, "%s (%s) of thread %s (%d)", v.name ? v.name : "memory",
		     base_name(v.path), comm_of, (int)tid) < 0)
		row->root = NULL;
	return row->root ? 0 : -ENOMEM;
}

/* Names a thread's stack, with the function in whose frame the word is. NULL: no memory. */
static char *name_stack(const struct root_names *names, const struct path *path)
{
	const struct root_word *root = &path->root;
	const struct path_step *first = &path->steps[0];
	_cleanup_free_ char *function = NULL;
	char *name, comm[32];
	int err =
		root->kind == ROOT_STACK
			? thread_names__function(names->threads, root->tid, root->addr, first->addr,
						 first->addr + first->size, &function)
			: -ENOENT;

	if (err == -ENOMEM ||
	    asprintf(&name, "of thread %s (%d)%s%s",
		     thread_name(names->pid, root->tid, comm, sizeof(comm)), (int)root->tid,
		     function ? ", in " : "", function ? function : "") < 0)
		return NULL;
	return name;
}

/* Fills in the root of a row. 0 or -ENOMEM. */
static int name_root(const struct root_names *names, const struct path *path, struct why_row *row)
{
	static const char *const kinds[ROOT_KINDS] = {"global", "memory", "stack", "register"};
	const struct root_word *root = &path->root;
	const struct map_entry *entry = maps__find(names->maps, root->addr);
	/* Thread-local memory may begin right behind a file's data, and then seems to belong to the
	 * file. */
	int err = root->kind == ROOT_REGISTER ? -ENOENT : name_thread_local(names, root->addr, row);

	if (err != -ENOENT)
		return err;
	row->root_kind = kinds[root->kind];
	row->root_off = WHY_UNKNOWN;
	if (root->kind == ROOT_DATA) {
		row->root = name_data(names->variables, root->addr, &row->root_off);
	} else if (root->kind == ROOT_ANONYMOUS && entry) {
		row->root_off = root->addr - entry->start;
		if (asprintf(&row->root, "at 0x%" PRIx64 " (%s)", entry->start,
			     *entry->path ? entry->path : "anonymous") < 0)
			row->root = NULL;
	} else if (root->kind == ROOT_REGISTER && !root->tid) {
		row->root_kind = "kernel";
		row->root = strdup("epoll");
	} else if (root->tid) {
		row->root = name_stack(names, path);
	} else {
		row->root = strdup(root->kind == ROOT_STACK ? "of the main thread" : "?");
	}
	return row->root ? 0 : -ENOMEM;
}

/* --- rows --- */

static const char *type_of(const struct why_report *report, uint64_t vtable)
{
	for (size_t i = 0; vtable && i < report->n_types; i++)
		if (report->types[i].vtable == vtable)
			return report->types[i].name;
	return NULL;
}

static int take_steps(const struct why_report *report, const struct why_makers *makers,
		      const struct path *path, struct why_row *row)
{
	row->steps = calloc(path->n_steps, sizeof(*row->steps));
	if (!row->steps)
		return -ENOMEM;
	for (; row->n_steps < path->n_steps; row->n_steps++) {
		const struct path_step *step = &path->steps[row->n_steps];
		const char *maker =
			makers ? why_makers__find(makers, step->addr, step->size) : NULL;

		row->steps[row->n_steps] = (struct why_step){.size = step->size,
							     .off = step->off,
							     .chain = step->blocks > 1,
							     .type = type_of(report, step->word),
							     .maker = maker,
							     .made = maker ? 1 : 0};
	}
	row->cut = path->cut;
	return 0;
}

/* Names the classes of objects. An object whose class has no name is shown as a block. */
static int take_types(pid_t pid, const struct why *why, struct why_report *report)
{
	const struct census found = {.types = why->types, .n_types = why->n_types};

	return heap_types__name(pid, &why->maps, &found, &report->types, &report->n_types);
}

static int take_rows(pid_t pid, const struct why *why, const struct why_makers *makers,
		     struct why_report *report)
{
	_cleanup_(cleanup_variables) struct variables *variables = NULL;
	_cleanup_(cleanup_thread_names) struct thread_names *threads = NULL;
	struct root_names names = {.pid = pid, .maps = &why->maps};
	int err;

	if (!why->n_paths)
		return 0;
	err = variables__new(pid, &why->maps, NULL, &variables);
	if (!err)
		err = thread_names__new(pid, &why->maps, why->threads, why->n_threads, variables,
					&threads);
	names.variables = variables;
	names.threads = threads;
	if (!err)
		err = take_types(pid, why, report);
	if (err)
		return err;
	report->rows = calloc(why->n_paths, sizeof(*report->rows));
	if (!report->rows)
		return -ENOMEM;
	for (size_t i = 0; i < why->n_paths; i++) {
		const struct why_path *path = &why->paths[i];
		struct why_row *row = &report->rows[report->n_rows++];

		row->blocks = 1;
		row->bytes = path->size;
		row->example = path->addr;
		err = name_root(&names, &path->path, row);
		if (!err)
			err = take_steps(report, makers, &path->path, row);
		if (err)
			return err;
	}
	report->followed = why->n_paths;
	report->losses[WHY_LOSS_SYMBOLS] = variables__unread(variables);
	return 0;
}

static int take_leaks(const struct why *why, struct why_report *report)
{
	report->lost_blocks = why->sums.lost;
	report->lost_bytes = why->sums.lost_bytes;
	report->leaks = calloc(why->n_groups + 1, sizeof(*report->leaks));
	if (!report->leaks)
		return -ENOMEM;
	for (size_t i = 0; i < why->n_groups; i++) {
		const struct leak_group *g = &why->groups[i];

		report->leaks[report->n_leaks++] = (struct why_leak){
			.size = g->head_size,
			.leaks = g->leaks,
			.circles = g->cycles,
			.blocks = g->blocks,
			.bytes = g->bytes,
			.example = g->example,
		};
	}
	return 0;
}

static void take_head(pid_t pid, const struct why *why, struct why_report *report)
{
	const struct why_sums *sums = &why->sums;
	struct process_info info;
	size_t len = 0;

	report->pid = (int)pid;
	if (!process__read_stat(pid, &info))
		memcpy(report->comm, info.comm, sizeof(report->comm));
	for (int i = 0; i < HEAP_ALLOCATORS; i++)
		if (sums->arenas[i] && len < sizeof(report->allocators))
			len += (size_t)snprintf(report->allocators + len,
						sizeof(report->allocators) - len,
						"%s%s, %" PRIu64 " arena%s", len ? "; " : "",
						heap_allocator__name(i), sums->arenas[i],
						sums->arenas[i] == 1 ? "" : "s");
	report->blocks = sums->blocks;
	report->bytes = sums->bytes;
	report->scans = why->scans;
	report->seconds = why->seconds;
	report->scan_s = why->scan_s;
	report->pause_s = why->pause_s > 0 ? why->pause_s : NAN;
	report->registers = why->registers;
	report->running_threads = why->threads_running;
	report->table_bytes = sums->table_bytes;
	take_losses(sums, report->losses);
	judge_quality(sums, report);
}

int why_report__make(pid_t pid, const struct why *why, bool asked, const struct why_makers *makers,
		     struct why_report *ret)
{
	const struct why_sums *sums = &why->sums;
	struct why_report report = {.asked = asked};
	int err;

	take_head(pid, why, &report);
	report.asked_size = sums->chosen_size;
	report.missing = sums->chosen[WHY_MISSING];
	report.held_blocks = sums->chosen[WHY_HELD];
	report.held_bytes = sums->chosen_bytes[WHY_HELD];
	report.asked_lost_blocks = sums->chosen[WHY_LOST];
	report.asked_lost_bytes = sums->chosen_bytes[WHY_LOST];
	report.in_doubt_blocks = sums->chosen[WHY_IN_DOUBT];
	report.in_doubt_bytes = sums->chosen_bytes[WHY_IN_DOUBT];
	if (report.doubt[0]) { /* in doubt, no block is called lost: each may be held */
		report.in_doubt_blocks += report.asked_lost_blocks;
		report.in_doubt_bytes += report.asked_lost_bytes;
		report.asked_lost_blocks = report.asked_lost_bytes = 0;
		err = 0;
	} else {
		err = take_leaks(why, &report);
	}
	if (!err)
		err = take_rows(pid, why, makers, &report);
	if (err) {
		why_report__clear(&report);
		return err;
	}
	*ret = report;
	return 0;
}
