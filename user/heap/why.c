// SPDX-License-Identifier: BSD-2-Clause
#include "heap/why.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "heap/scan.h"
#include "heap/why_internal.h"
#include "proc/freeze.h"
#include "proc/process.h"

#define TRIES	     5
#define TRY_AGAIN_US 20000

/* What is carried from scan to scan. */
struct looking {
	pid_t pid;
	const struct why_options *options;
	unsigned int scan; /* number of this scan, from 0 on */
	unsigned int calm; /* earlier scans, in a row, that took no block off the list */
	bool last;	   /* this scan may be the last one */
	struct lost lost;
	uint64_t *late; /* values that the last scan has seen, ascending (late.h) */
	size_t n_late;
	struct why why;
};

static enum child_exit work_in_child(const struct scan_view *view, FILE *out, void *ctx)
{
	if (!view->found->n_arenas)
		return CHILD_NO_DATA;
	return why__scan(view, ctx, out) ? CHILD_FAILED : CHILD_DONE;
}

/* --- what the child says, which is not trusted --- */

/* Reads n elements, at most max. */
static int read_array(struct stream *stream, uint64_t n, uint64_t max, size_t size, void **ret)
{
	void *array;
	int err;

	if (n > max)
		return -ECHILD;
	array = calloc((size_t)n + 1, size);
	if (!array)
		return -ENOMEM;
	err = n ? stream__read_all(stream, array, (size_t)n * size) : 0;
	if (err) {
		free(array);
		return err;
	}
	*ret = array;
	return 0;
}

static bool is_sound(const struct why_path *p)
{
	return p->path.n_steps && p->path.n_steps <= PATH_STEPS &&
	       (unsigned int)p->path.root.kind < ROOT_KINDS;
}

static bool values_ascend(const uint64_t *values, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (values[i] <= values[i - 1])
			return false;
	return true;
}

static bool are_ascending(const struct lost *lost)
{
	for (size_t i = 1; i < lost->n; i++)
		if (lost->list[i].addr <= lost->list[i - 1].addr)
			return false;
	return true;
}

/* After an error, what the scan before has listed stays. */
static int receive(struct looking *l, struct stream *stream)
{
	struct why *why = &l->why;
	struct why_counts counts = {};
	char more;
	void *list = NULL, *late = NULL, *groups = NULL, *paths = NULL, *blocks = NULL,
	     *types = NULL;
	struct lost lost;
	int err = stream__read_all(stream, &why->sums, sizeof(why->sums));

	if (!err)
		err = stream__read_all(stream, &counts, sizeof(counts));
	if (!err)
		err = read_array(stream, counts.lost, WHY_MAX_LOST, sizeof(struct lost_block),
				 &list);
	if (!err)
		err = read_array(stream, counts.late, LATE_VALUES, sizeof(*l->late), &late);
	if (!err)
		err = read_array(stream, counts.groups, WHY_MAX_LOST, sizeof(*why->groups),
				 &groups);
	why->groups = groups;
	why->n_groups = groups ? counts.groups : 0;
	if (!err)
		err = read_array(stream, counts.paths, WHY_MAX_PATHS, sizeof(*why->paths), &paths);
	why->paths = paths;
	why->n_paths = paths ? counts.paths : 0;
	for (size_t i = 0; !err && i < why->n_paths; i++)
		err = is_sound(&why->paths[i]) ? 0 : -ECHILD;
	if (!err)
		err = read_array(stream, counts.types, WHY_MAX_TYPES, sizeof(*why->types), &types);
	why->types = types;
	why->n_types = types ? counts.types : 0;
	for (size_t i = 0; !err && i < why->n_types; i++)
		err = memchr(why->types[i].name, '\0', CENSUS_TYPE_NAME) ? 0 : -ECHILD;
	if (!err && counts.blocks != (l->last ? l->options->choice.n_addrs : 0))
		err = -ECHILD;
	if (!err)
		err = read_array(stream, counts.blocks, WHY_MAX_ADDRS, sizeof(*why->blocks),
				 &blocks);
	why->blocks = blocks;
	why->n_blocks = blocks ? counts.blocks : 0;
	for (size_t i = 0; !err && i < why->n_blocks; i++)
		err = (unsigned int)why->blocks[i].verdict < WHY_VERDICTS ? 0 : -ECHILD;
	lost = (struct lost){
		.list = list, .n = list ? counts.lost : 0, .beyond = why->sums.lost_beyond};
	if (!err && (!are_ascending(&lost) || !values_ascend(late, counts.late)))
		err = -ECHILD;
	if (!err) /* the end, after which the child's exit status counts */
		err = stream__read(stream, &more, 1);
	if (err) {
		free(list);
		free(late);
		return err > 0 ? -ECHILD : err;
	}
	free(l->late);
	l->late = late;
	l->n_late = counts.late;
	l->calm = l->scan && l->lost.n == lost.n ? l->calm + 1 : 0;
	free(l->lost.list);
	l->lost = lost;
	return 0;
}

/* --- one scan --- */

static int explain(const struct looking *l, int rc, struct error *err)
{
	switch (rc) {
	case -ENODATA:
		return error__set(err, -ENOENT,
				  "process %d: no allocator that memtrace can read (glibc and "
				  "jemalloc 5)",
				  l->pid);
	case -EPERM:
		return error__set(err, rc,
				  "process %d: its memory is read in a sandbox only, and there is "
				  "none here (seccomp)",
				  l->pid);
	case -ETIMEDOUT:
		return error__set(err, rc, "process %d: its memory could not be read in time",
				  l->pid);
	case -ENOMEM:
		return error__set(err, rc, "out of memory");
	default:
		return error__set(err, rc, "the scan of process %d failed: %s", l->pid,
				  rc == -ECHILD ? "it needed too much time, or more memory than "
						  "--max-memory allows, or the heap is damaged"
						: strerror(-rc));
	}
}

static int run_scan(struct looking *l, const struct root_threads *threads, struct error *err)
{
	struct why_work work = {
		.choice = &l->options->choice,
		.maps = &l->why.maps,
		.threads = threads,
		.before = l->scan ? &l->lost : NULL,
		.late = l->late,
		.n_late = l->n_late,
		.stopped = l->options->freeze_ms,
		.last = l->last,
	};
	struct scan_task task = {
		.fn = work_in_child,
		.ctx = &work,
		.patience_s = l->options->patience_s,
		.max_memory = l->options->max_memory,
		.waiting = l->options->waiting,
	};
	struct scan *scan;
	int rc = scan__start(l->pid, &l->why.maps, &task, &scan, err), end;

	if (rc)
		return rc;
	rc = receive(l, scan__stream(scan));
	end = scan__end(scan);
	return end && rc != -ETIMEDOUT ? end : rc;
}

/* Where an allocator's structures change all the time, one try may miss them. */
static int try_scan(struct looking *l, const struct root_threads *threads, struct error *err)
{
	int rc;

	for (int i = 1; (rc = run_scan(l, threads, err)) == -ENODATA && i < TRIES; i++)
		usleep(TRY_AGAIN_US);
	return rc ? explain(l, rc, err) : 0;
}

/* --- a process that is stopped --- */

static int take_frozen(const struct freeze *freeze, struct root_threads *threads)
{
	int err = 0;

	for (size_t i = 0; !err && i < freeze->n; i++) {
		const struct frozen_thread *t = &freeze->threads[i];

		err = root_threads__add_stack(threads, t->tid, t->sp);
		for (size_t k = 0; !err && k < FREEZE_REGISTERS; k++)
			err = root_threads__add(threads, t->tid, t->values[k]);
	}
	return err;
}

static int scan_frozen(struct looking *l, const struct freeze *freeze, struct error *err)
{
	_cleanup_(root_threads__clear) struct root_threads threads = {};
	int rc = maps__read(l->pid, &l->why.maps);

	if (!rc)
		rc = take_frozen(freeze, &threads);
	if (rc)
		return error__set(err, rc, "cannot read /proc/%d: %s", l->pid, process__why(rc));
	l->why.registers = true;
	rc = run_scan(l, &threads, err);
	return rc ? explain(l, rc, err) : 0;
}

static int look_frozen(struct looking *l, struct error *err)
{
	unsigned int max_ms = l->options->freeze_ms;
	struct freeze freeze;
	uint64_t pause_ns;
	int rc = freeze__begin(l->pid, max_ms, &freeze), end;

	if (rc)
		return error__set(err, rc, "cannot stop process %d: %s", l->pid,
				  rc == -ETIMEDOUT ? "not all of its threads stop in time"
				  : rc == -EPERM   ? "not permitted, or another debugger has it"
						   : strerror(-rc));
	rc = scan_frozen(l, &freeze, err);
	end = freeze__end(&freeze, &pause_ns);
	if (rc)
		return rc;
	if (end)
		return error__set(err, end,
				  "process %d went on after %u ms, before the scan was over: "
				  "--freeze=MS gives it longer",
				  l->pid, max_ms);
	l->why.pause_s = l->why.scan_s = (double)pause_ns / 1e9;
	return 0;
}

static int look_once(struct looking *l, struct error *err)
{
	_cleanup_(root_threads__clear) struct root_threads threads = {};
	const struct why_options *o = l->options;
	double start_s = clock__monotonic_s();
	int rc = maps__read(l->pid, &l->why.maps);

	if (!rc)
		rc = root_threads__read(l->pid, &threads);
	if (rc)
		return error__set(err, rc, "cannot read /proc/%d: %s", l->pid, process__why(rc));
	l->why.registers = o->registers && !o->registers(l->pid, &threads, o->ctx);
	l->why.threads_running = threads.running;
	rc = try_scan(l, &threads, err);
	if (clock__monotonic_s() - start_s > l->why.scan_s)
		l->why.scan_s = clock__monotonic_s() - start_s;
	return rc;
}

/* Waits until the next scan is due. */
static void pause_until(double due_s)
{
	double left_s = due_s - clock__monotonic_s();
	struct timespec rest;

	if (left_s <= 0)
		return;
	rest.tv_sec = (time_t)left_s;
	rest.tv_nsec = (long)((left_s - (double)rest.tv_sec) * 1e9);
	nanosleep(&rest, NULL);
}

int why__run(pid_t pid, const struct why_options *options, struct why *ret, struct error *err)
{
	struct looking l = {.pid = pid, .options = options};
	double apart_s = options->apart_s > 0 ? options->apart_s : WHY_APART_S;
	double start_s = clock__monotonic_s();
	unsigned int least = options->scans ? options->scans : WHY_SCANS;
	unsigned int most;
	int rc = 0;

	if (options->freeze_ms)
		least = 1;
	most = least < WHY_ENOUGH ? least : least + WHY_MORE_SCANS;
	/* The children of all scans inherit one key for the hashes of contents (lost.h). */
	hash__keyed("", 0);
	for (; !rc; l.scan++) {
		double due_s = clock__monotonic_s() + apart_s;
		struct why next = {.scan_s = l.why.scan_s};

		if (options->cancelled && options->cancelled(options->ctx)) {
			rc = error__set(err, -ECANCELED, "the search of process %d was ended", pid);
			break;
		}
		if (options->within_s > 0 && l.scan + 1 >= least &&
		    clock__monotonic_s() + l.why.scan_s - start_s > options->within_s)
			most = l.scan + 1;
		/* Leaks and paths are asked for in a scan that will be the last one, unless it
		 * takes blocks off the list. */
		l.last = l.scan + 1 >= least && (l.calm || l.scan + 1 == most);
		why__clear(&l.why);
		l.why = next;
		rc = options->freeze_ms ? look_frozen(&l, err) : look_once(&l, err);
		if (rc || l.scan + 1 == most || (l.last && l.calm > 1))
			break;
		pause_until(due_s);
	}
	free(l.lost.list);
	free(l.late);
	if (rc) {
		why__clear(&l.why);
		return rc;
	}
	l.why.scans = l.scan + 1;
	l.why.seconds = clock__monotonic_s() - start_s;
	*ret = l.why;
	return 0;
}

void why__clear(struct why *why)
{
	free(why->groups);
	free(why->paths);
	free(why->types);
	free(why->blocks);
	maps__free(&why->maps);
	*why = (struct why){};
}
