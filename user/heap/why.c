// SPDX-License-Identifier: BSD-2-Clause
#include "heap/why.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "heap/rounds.h"
#include "heap/scan.h"
#include "heap/why_internal.h"
#include "proc/freeze.h"
#include "proc/process.h"

#define TRIES	     5
#define TRY_AGAIN_US 20000

/* The state that is carried from scan to scan. */
struct looking {
	pid_t pid;
	const struct why_options *options;
	bool first;    /* this scan is the first one */
	bool recheck;  /* this scan is a recheck */
	bool leaks;    /* this scan may be the last one */
	bool paths;    /* this scan must make verdicts and paths */
	bool followed; /* the last scan could follow the heap */
	struct lost lost;
	uint64_t *late; /* values that the last full scan has seen, in ascending order (late.h) */
	size_t n_late;
	struct stale_words stale; /* stale words that the last recheck has seen */
	bool rechecked;		  /* there was a recheck */
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

/* What a scan writes. Free with received__clear(). Arrays that were taken over are NULL. */
struct received {
	struct why_sums sums;
	struct why_counts counts;
	struct lost_block *lost;
	uint64_t *late;
	struct stale_word *stale;
	struct leak_group *groups;
	struct why_path *paths;
	struct census_type *types;
	struct why_block *blocks;
};

static void received__clear(struct received *r)
{
	free(r->lost);
	free(r->late);
	free(r->stale);
	free(r->groups);
	free(r->paths);
	free(r->types);
	free(r->blocks);
}

static bool values_ascend(const uint64_t *values, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (values[i] <= values[i - 1])
			return false;
	return true;
}

static bool stale_ascend(const struct stale_word *list, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (list[i].at <= list[i - 1].at)
			return false;
	return true;
}

static bool is_same_block(const struct lost_block *a, const struct lost_block *b)
{
	return a->addr == b->addr && a->size == b->size && a->content == b->content;
}

/* Is the list of lost blocks sound? It must ascend, and agree with the sums. After the first scan,
 * each of its blocks must have been on the list before. If the scan made no verdicts, the flag
 * `asked` of each block must be the same as before. */
static bool is_lost_sound(const struct looking *l, const struct received *r)
{
	const struct why_sums *sums = &r->sums;
	uint64_t bytes = 0, asked = 0, asked_bytes = 0;
	size_t k = 0;

	for (size_t i = 0; i < r->counts.lost; i++) {
		const struct lost_block *block = &r->lost[i];

		if (i && block->addr <= block[-1].addr)
			return false;
		bytes += block->size;
		asked += block->asked;
		asked_bytes += block->asked ? block->size : 0;
		if (l->first)
			continue;
		while (k < l->lost.n && l->lost.list[k].addr < block->addr)
			k++;
		if (k == l->lost.n || !is_same_block(&l->lost.list[k], block) ||
		    (!l->paths && l->lost.list[k].asked != block->asked))
			return false;
	}
	return sums->lost == r->counts.lost && sums->lost_bytes == bytes &&
	       (!l->paths ||
		(sums->chosen[WHY_LOST] == asked && sums->chosen_bytes[WHY_LOST] == asked_bytes));
}

static bool is_sound(const struct looking *l, const struct received *r)
{
	const struct why_counts *counts = &r->counts;

	if (counts->blocks != (l->paths ? l->options->choice.n_addrs : 0) || !is_lost_sound(l, r) ||
	    !values_ascend(r->late, counts->late) || !stale_ascend(r->stale, counts->stale))
		return false;
	for (size_t i = 0; i < counts->paths; i++)
		if (!r->paths[i].path.n_steps || r->paths[i].path.n_steps > PATH_STEPS ||
		    (unsigned int)r->paths[i].path.root.kind >= ROOT_KINDS)
			return false;
	for (size_t i = 0; i < counts->types; i++)
		if (!memchr(r->types[i].name, '\0', CENSUS_TYPE_NAME))
			return false;
	for (size_t i = 0; i < counts->blocks; i++)
		if ((unsigned int)r->blocks[i].verdict >= WHY_VERDICTS)
			return false;
	return true;
}

#define READ(stream, r, what, max)                                                                 \
	read_array(stream, (r)->counts.what, max, sizeof(*(r)->what), (void **)&(r)->what)

static int read_all(struct stream *stream, struct received *r)
{
	int err = stream__read_all(stream, &r->sums, sizeof(r->sums));

	if (!err)
		err = stream__read_all(stream, &r->counts, sizeof(r->counts));
	if (!err)
		err = READ(stream, r, lost, WHY_MAX_LOST);
	if (!err)
		err = READ(stream, r, late, LATE_VALUES);
	if (!err)
		err = READ(stream, r, stale, RECHECK_STALE);
	if (!err)
		err = READ(stream, r, groups, WHY_MAX_LOST);
	if (!err)
		err = READ(stream, r, paths, WHY_MAX_PATHS);
	if (!err)
		err = READ(stream, r, types, WHY_MAX_TYPES);
	return err ? err : READ(stream, r, blocks, WHY_MAX_ADDRS);
}

uint64_t why_sums__unfollowed(const struct why_sums *sums)
{
	uint64_t bytes = sums->unread_bytes;

	for (int i = 0; i < HEAP_ALLOCATORS; i++) {
		const struct heap_quality *q = &sums->quality[i];

		bytes += q->unknown_bytes + q->absent_bytes;
		if (q->own_bytes > q->found_bytes)
			bytes += q->own_bytes - q->found_bytes;
		if (!heap_quality__slabs_agree(q))
			bytes += q->found_bytes;
	}
	return bytes;
}

/* Takes over the results that every scan has. */
static void take_lost(struct looking *l, struct received *r)
{
	struct why *why = &l->why;

	free(l->lost.list);
	l->lost =
		(struct lost){.list = r->lost, .n = r->counts.lost, .beyond = r->sums.lost_beyond};
	free(why->groups);
	why->groups = r->groups;
	why->n_groups = r->counts.groups;
	r->lost = NULL;
	r->groups = NULL;
}

/* Takes over the sums of this scan. Sums that this scan did not make stay as they were. */
static void take_sums(struct looking *l, const struct why_sums *from)
{
	struct why_sums *to = &l->why.sums, old = *to;

	*to = *from;
	if (old.stopped)
		to->stopped = old.stopped;
	if (old.table_bytes > to->table_bytes)
		to->table_bytes = old.table_bytes;
	to->late_beyond += old.late_beyond;
	if (l->recheck) {
		to->unreached = old.unreached;
		to->pointers = old.pointers;
	}
	if (l->paths)
		return;
	memcpy(to->chosen, old.chosen, sizeof(to->chosen));
	memcpy(to->chosen_bytes, old.chosen_bytes, sizeof(to->chosen_bytes));
	to->chosen_size = old.chosen_size;
	to->no_path = old.no_path;
}

static void take_paths(struct why *why, struct received *r)
{
	free(why->paths);
	why->paths = r->paths;
	why->n_paths = r->counts.paths;
	free(why->types);
	why->types = r->types;
	why->n_types = r->counts.types;
	free(why->blocks);
	why->blocks = r->blocks;
	why->n_blocks = r->counts.blocks;
	r->paths = NULL;
	r->types = NULL;
	r->blocks = NULL;
}

/* Takes over what the next scan has to know of this one. */
static void take_seen(struct looking *l, struct received *r)
{
	if (l->recheck) {
		free(l->stale.list);
		l->stale = (struct stale_words){r->stale, r->counts.stale};
		l->rechecked = true;
		r->stale = NULL;
	} else {
		free(l->late);
		l->late = r->late;
		l->n_late = r->counts.late;
		r->late = NULL;
	}
}

/* Takes over what a scan writes. After an error, the results of the previous scan stay. */
static int receive(struct looking *l, struct stream *stream)
{
	_cleanup_(received__clear) struct received r = {};
	char more;
	int err = read_all(stream, &r);

	if (!err && !is_sound(l, &r))
		err = -ECHILD;
	if (!err) /* the child must not write more; its exit status then tells whether the scan
		   * succeeded */
		err = stream__read(stream, &more, 1);
	if (err)
		return err > 0 ? -ECHILD : err;
	l->followed =
		(double)why_sums__unfollowed(&r.sums) <= WHY_MAX_UNFOLLOWED * (double)r.sums.bytes;
	take_lost(l, &r);
	take_sums(l, &r.sums);
	take_seen(l, &r);
	if (l->paths)
		take_paths(&l->why, &r);
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
				  "process %d: its memory is read only in a sandbox, and there is "
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

static int run_scan(struct looking *l, const struct maps *maps, const struct root_threads *threads,
		    struct error *err)
{
	struct why_work work = {
		.choice = &l->options->choice,
		.maps = maps,
		.threads = threads,
		.before = l->first ? NULL : &l->lost,
		.late = l->late,
		.n_late = l->n_late,
		.recheck = l->recheck,
		.stale = l->rechecked ? &l->stale : NULL,
		.stopped = l->options->freeze_ms,
		.paths = l->paths,
		.leaks = l->leaks,
	};
	struct scan_task task = {
		.fn = work_in_child,
		.ctx = &work,
		.patience_s = l->options->patience_s,
		.pace = l->options->pace,
		.max_memory = l->options->max_memory,
		.waiting = l->options->waiting,
	};
	struct scan *scan;
	int rc, end;

	task.pace.hurry |= l->options->freeze_ms > 0;
	rc = scan__start(l->pid, maps, &task, &scan, err);
	if (rc)
		return rc;
	rc = receive(l, scan__stream(scan));
	end = scan__end(scan);
	return end && rc != -ETIMEDOUT ? end : rc;
}

/* Scans. If no allocator is found, tries again, because one try may miss structures that change all
 * the time. */
static int try_scan(struct looking *l, const struct maps *maps, const struct root_threads *threads,
		    struct error *err)
{
	int rc;

	for (int i = 1; (rc = run_scan(l, maps, threads, err)) == -ENODATA && i < TRIES; i++)
		usleep(TRY_AGAIN_US);
	return rc ? explain(l, rc, err) : 0;
}

static void take_threads(struct why *why, struct root_threads *threads)
{
	free(why->threads);
	why->threads = threads->list;
	why->n_threads = threads->n;
	threads->list = NULL;
	threads->n = 0;
}

/* --- a process that is stopped --- */

static int take_frozen(const struct freeze *freeze, struct root_threads *threads)
{
	int err = 0;

	for (size_t i = 0; !err && i < freeze->n; i++) {
		const struct frozen_thread *t = &freeze->threads[i];

		err = root_threads__add_thread(threads, &t->state);
		for (size_t k = 0; !err && k < FREEZE_REGISTERS; k++)
			err = root_threads__add(threads, t->state.tid, t->values[k]);
	}
	return err;
}

static int scan_frozen(struct looking *l, const struct freeze *freeze, struct error *err)
{
	_cleanup_(root_threads__clear) struct root_threads threads = {};
	int rc = maps__read(l->pid, &l->why.maps);

	if (!rc)
		rc = take_frozen(freeze, &threads);
	if (!rc)
		rc = root_threads__add_epoll(&threads, l->pid);
	if (rc)
		return error__set(err, rc, "cannot read /proc/%d: %s", l->pid, process__why(rc));
	l->why.registers = true;
	rc = run_scan(l, &l->why.maps, &threads, err);
	if (rc)
		return explain(l, rc, err);
	l->why.sums.unread_epolls = threads.unread_epolls;
	take_threads(&l->why, &threads);
	return 0;
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

/* Scans the process while it runs. After an error, the results of the previous scan stay. */
static int look_once(struct looking *l, struct error *err)
{
	_cleanup_(root_threads__clear) struct root_threads threads = {};
	_cleanup_(maps__free) struct maps maps = {};
	const struct why_options *o = l->options;
	double start_s = clock__monotonic_s();
	bool registers;
	int rc = maps__read(l->pid, &maps);

	if (!rc)
		rc = root_threads__read(l->pid, &threads);
	if (!rc)
		rc = root_threads__add_epoll(&threads, l->pid);
	if (rc)
		return error__set(err, rc, "cannot read /proc/%d: %s", l->pid, process__why(rc));
	registers = o->registers && !o->registers(l->pid, &threads, o->ctx);
	rc = try_scan(l, &maps, &threads, err);
	if (rc)
		return rc;
	l->why.registers = registers;
	l->why.threads_running = threads.running;
	l->why.sums.unread_epolls = threads.unread_epolls;
	if (l->paths) { /* the maps and threads are needed to name the roots */
		maps__free(&l->why.maps);
		l->why.maps = maps;
		maps = (struct maps){};
		take_threads(&l->why, &threads);
	}
	if (clock__monotonic_s() - start_s > l->why.scan_s)
		l->why.scan_s = clock__monotonic_s() - start_s;
	return 0;
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

static int scan_next(struct looking *l, struct error *err)
{
	const struct why_options *o = l->options;

	if (o->cancelled && o->cancelled(o->ctx))
		return error__set(err, -ECANCELED, "the search of process %d was ended", l->pid);
	return o->freeze_ms ? look_frozen(l, err) : look_once(l, err);
}

/* Corrects the last full scan's verdicts on blocks that were asked for. If a block was called lost,
 * but a later scan found it held or changed, it is in doubt. Returns whether any block is in
 * doubt. */
static bool settle_asked(struct looking *l)
{
	struct why_sums *sums = &l->why.sums;
	uint64_t n = 0, bytes = 0, moved;

	for (size_t i = 0; i < l->lost.n; i++) {
		n += l->lost.list[i].asked;
		bytes += l->lost.list[i].asked ? l->lost.list[i].size : 0;
	}
	moved = sums->chosen[WHY_LOST] - n;
	sums->chosen[WHY_IN_DOUBT] += moved;
	sums->chosen_bytes[WHY_IN_DOUBT] += sums->chosen_bytes[WHY_LOST] - bytes;
	sums->chosen[WHY_LOST] = n;
	sums->chosen_bytes[WHY_LOST] = bytes;
	for (size_t i = 0; i < l->why.n_blocks; i++)
		if (l->why.blocks[i].verdict == WHY_LOST &&
		    !lost__has(&l->lost, l->why.blocks[i].addr))
			l->why.blocks[i].verdict = WHY_IN_DOUBT;
	return moved;
}

/* Is there enough time for another scan? */
static bool has_time(const struct looking *l, double start_s)
{
	return !(l->options->within_s > 0 &&
		 clock__monotonic_s() + l->why.scan_s - start_s > l->options->within_s);
}

static int search(struct looking *l, double start_s, struct error *err)
{
	const struct why_options *o = l->options;
	double apart_s = o->apart_s > 0 ? o->apart_s : WHY_APART_S, due_s;
	unsigned int least = o->freeze_ms ? 1 : o->scans ? o->scans : ROUNDS_LEAST;
	struct rounds rounds = rounds__begin(least);
	/* unexplained: blocks that were asked for had seemed lost, but there are pointers to them.
	 * No full scan has found out yet who holds these blocks */
	bool unexplained = false, explain_now = false, done;

	for (;; pause_until(due_s)) {
		struct error why_not = {};
		int rc;

		due_s = clock__monotonic_s() + apart_s;
		if (!has_time(l, start_s))
			rounds__hurry(&rounds);
		l->first = !rounds.n;
		l->recheck = !rounds__is_full(&rounds) && !explain_now;
		l->leaks = rounds__may_end(&rounds) || explain_now;
		l->paths = !l->recheck && (l->first || l->leaks);
		rc = scan_next(l, &why_not);
		if (rc && (rc == -ECANCELED || rounds.n < least))
			return error__set(err, rc, "%s", why_not.text);
		if (rc) /* the list stays, although it may not be final */
			break;
		done = rounds__add(&rounds, l->lost.n, l->lost.beyond, l->followed);
		unexplained = settle_asked(l) || (unexplained && !l->paths);
		explain_now = done && unexplained && least >= ROUNDS_LEAST && has_time(l, start_s);
		if (done && !explain_now)
			break;
	}
	l->why.scans = rounds.n;
	l->why.sums.unsettled = rounds__unsettled(&rounds);
	return 0;
}

int why__run(pid_t pid, const struct why_options *options, struct why *ret, struct error *err)
{
	struct looking l = {.pid = pid, .options = options};
	double start_s = clock__monotonic_s();
	int rc;

	/* Makes the key for the hashes of contents (lost.h) now, so that the children of all scans
	 * inherit the same key. */
	hash__keyed("", 0);
	rc = search(&l, start_s, err);
	free(l.lost.list);
	free(l.late);
	free(l.stale.list);
	if (rc) {
		why__clear(&l.why);
		return rc;
	}
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
	free(why->threads);
	*why = (struct why){};
}
