// SPDX-License-Identifier: BSD-2-Clause
#include "session/large_blocks.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "heap/large.h"
#include "session/internal.h"

/* Can memtrace read all blocks of the target's allocators? Not if it probes a pool: the blocks that
 * a pool takes from malloc then belong to no stack, and would count as blocks that no window
 * saw. */
static bool is_readable(const struct target *t)
{
	for (size_t i = 0; t->allocators && i < t->allocators->n; i++)
		if (strcmp(t->allocators->list[i]->family, "glibc") &&
		    strcmp(t->allocators->list[i]->family, "jemalloc"))
			return false;
	return t->allocators && t->allocators->n;
}

static void start(struct target *t)
{
	struct error none = {};
	struct maps maps;

	if (maps__read(t->info.pid, &maps))
		return;
	if (large__start(t->info.pid, &maps, &t->large.scan, &none))
		t->large.scan = NULL;
	maps__free(&maps);
}

/* Takes in the list that was asked for. False: there is none. */
static bool take(struct target *t, struct large_blocks *ret)
{
	int rc = t->large.scan ? large__end(t->large.scan, ret) : -ENODATA;

	t->large.scan = NULL;
	if (!rc &&
	    (!is_readable(t) || (allocators__have(t->allocators, "jemalloc") && !ret->jemalloc))) {
		large_blocks__clear(ret);
		rc = -ENODATA;
	}
	return !rc;
}

/* Ends a scan without waiting for its list. */
static void drop_scan(struct target *t)
{
	if (t->large.scan)
		scan__end(t->large.scan);
	t->large.scan = NULL;
}

/* An exec has ended all older blocks, and all blocks of the new program are born during this run.
 * So the new program's first list is empty, and need not be read. */
static void begin_program(struct target *t)
{
	drop_scan(t);
	large_blocks__clear(&t->large.before);
	t->large.since_ns = t->exec_ns;
	t->large.known = t->large.whole = true;
}

/* Perf uprobes stay in place after the stop, unless `blocks` is set. They would slow a target while
 * memtrace waits for the second list. */
static bool can_list(const struct session *s)
{
	return s->large && !s->scheduler.limits.shared &&
	       (capture__kind(s->capture) != PROBE_PERF || s->blocks);
}

static bool needs_list(const struct target *t)
{
	return !t->ended && !t->large.since_ns && t->budget.survivors.n_windows &&
	       !t->budget.pace.windows.open && is_readable(t);
}

void large_blocks__tend(struct session *s)
{
	for (size_t i = 0; can_list(s) && !s->stop_ns && i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (t->exec_ns > t->large.since_ns)
			begin_program(t);
		else if (t->large.scan && large__ready(t->large.scan))
			t->large.known = take(t, &t->large.before);
		/* a fork takes milliseconds, and would keep an open window open for too long */
		if (!needs_list(t) || scheduler__has_window(&s->scheduler))
			continue;
		t->large.since_ns = clock__now_ns(CLOCK_MONOTONIC);
		start(t);
		guard__wait(s);
	}
}

void large_blocks__look(struct session *s)
{
	for (size_t i = 0; can_list(s) && i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (t->exec_ns > t->large.since_ns)
			begin_program(t);
		else if (t->large.scan && large__ready(t->large.scan))
			t->large.known = take(t, &t->large.before);
		if (t->large.known && !t->large.scan && !t->ended && is_readable(t) &&
		    budget__is_windowed(&t->budget))
			start(t);
	}
}

void large_blocks__finish(struct session *s)
{
	for (size_t i = 0; s->large && i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (!t->large.scan || !t->large.known)
			continue;
		t->large.complete =
			take(t, &t->large.after) &&
			(t->large.whole || (t->large.after.glibc == t->large.before.glibc &&
					    t->large.after.jemalloc == t->large.before.jemalloc));
	}
}

void large_blocks__free(struct target *t)
{
	drop_scan(t);
	large_blocks__clear(&t->large.before);
	large_blocks__clear(&t->large.after);
}
