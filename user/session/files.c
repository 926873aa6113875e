// SPDX-License-Identifier: BSD-2-Clause
/* The files of a run whose processes come and go. While a file has an open descriptor or a probe,
 * its blocks stay on the disk, and its file system stays mounted. The kernel's tables have room for
 * a limited number of probed functions. So memtrace closes a file, and takes its probes out, when
 * no process that memtrace still has to report maps the file. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/vector.h"
#include "proc/maps.h"
#include "session/internal.h"

#define LOOK_EVERY_NS 1000000000
/* An unused file is kept for this long: programs that are started again and again find their probes
 * in place. */
#define IDLE_NS	       10000000000
#define UNKNOWN_MALLOC "its malloc is of no known allocator"

unsigned char *files__mark(struct session *s, const struct map_entry *e)
{
	const struct file_id *real = binaries__real(s->binaries, &e->file);

	/* a copy has replaced the file that is mapped here */
	if (!e->executable || !e->file.inode ||
	    (real && e->real.inode && !file_id__equal(real, &e->real)))
		return NULL;
	return binaries__mark(s->binaries, &e->file);
}

const char *files__not_traced(struct session *s, const struct target *t)
{
	bool probed = false, new = !t->maps.n, refused = false, unknown = false;

	/* allocations of the process's earlier programs say nothing about the present program */
	if (!(s->what & WHAT_HEAP) || t->alloc_calls > t->exec_calls ||
	    t->counters.samples > t->exec_samples)
		return NULL;
	if (!s->everywhere)
		return t->malloc_unknown ? UNKNOWN_MALLOC : NULL;
	for (size_t i = 0; i < t->maps.n; i++) {
		const struct map_entry *e = &t->maps.entries[i];
		const unsigned char *mark;

		if (!e->executable || !e->file.inode)
			continue;
		mark = files__mark(s, e);
		/* a file with an unknown malloc may have probes by --alloc */
		unknown = unknown || (mark && *mark == FILE_UNKNOWN &&
				      !capture__probes_file(s->capture, map_entry__real(e), NULL));
		new = new || !mark || *mark == FILE_NEW;
		refused = refused || (mark && *mark == FILE_REFUSED);
		probed = probed || capture__probes_file(s->capture, map_entry__real(e), NULL);
	}
	if (unknown)
		return UNKNOWN_MALLOC;
	if (probed)
		return NULL;
	if (new)
		return s->probes_refused ? "there is no room for more probes"
					 : "its files could not be opened";
	return refused ? "its allocator cannot be probed" : "no allocator in its files";
}

static void use_all(struct session *s, const struct maps *maps)
{
	for (size_t i = 0; i < maps->n; i++)
		if (maps->entries[i].executable && maps->entries[i].file.inode)
			binaries__use(s->binaries, &maps->entries[i].file);
}

const struct allocator *files__find_attached(const struct session *s,
					     bool (*is_it)(const void *ctx,
							   const struct allocator *allocator),
					     const void *ctx)
{
	for (size_t i = 0; i < s->n_attached; i++)
		for (size_t j = 0; j < s->attached[i]->n; j++)
			if (is_it(ctx, s->attached[i]->list[j]))
				return s->attached[i]->list[j];
	return NULL;
}

static bool is_in(const void *file, const struct allocator *a)
{
	return file_id__equal(&a->file, file);
}

static bool is_through(const void *file, const struct allocator *a)
{
	return file_id__equal(&a->through, file);
}

void files__release(struct session *s, const struct file_id *file)
{
	size_t n = 0;

	s->files_releasing = true;
	rewritten__forget(s, file);
	capture__release(s->capture, file);
	for (size_t i = 0; i < s->n_attached; i++)
		if (allocators__drop(s->attached[i], is_in, file))
			s->attached[n++] = s->attached[i];
		else
			allocators__free(s->attached[i]);
	s->n_attached = n;
}

void files__refuse(struct session *s, const struct file_id *file)
{
	files__release(s, file);
	binaries__mark_all(s->binaries, file, FILE_REFUSED);
}

void files__name_real(struct session *s, struct maps *maps)
{
	for (size_t i = 0; i < maps->n; i++) {
		struct map_entry *e = &maps->entries[i];
		const struct file_id *real = e->executable && e->file.inode && !e->real.inode
						     ? binaries__real(s->binaries, &e->file)
						     : NULL;

		if (real)
			e->real = *real;
	}
}

/* As files__reopen(), but mark_reopened() is still to be called. */
static void release_to_reopen(struct session *s, const struct allocator *a)
{
	const struct reopened_file file = {a->file, a->family};

	if (!VECTOR_ADD_ROOM(s->reopened, s->n_reopened))
		s->reopened[s->n_reopened++] = file;
	files__release(s, &file.real); /* frees a */
}

/* Lets the targets get probes again in the files of release_to_reopen(). */
static void mark_reopened(struct session *s)
{
	bool any = s->n_marked < s->n_reopened;

	for (; s->n_marked < s->n_reopened; s->n_marked++)
		binaries__mark_all(s->binaries, &s->reopened[s->n_marked].real, FILE_NEW);
	for (size_t i = 0; i < s->n_targets && any; i++)
		s->targets[i]->probes_due = true;
}

void files__reopen(struct session *s, const struct allocator *a)
{
	release_to_reopen(s, a);
	mark_reopened(s);
}

static bool is_reopened(const struct session *s, const struct file_id *real)
{
	for (size_t i = 0; i < s->n_reopened; i++)
		if (file_id__equal(&s->reopened[i].real, real))
			return true;
	return false;
}

bool files__is_late(const struct session *s, const struct map_entry *entry, uint64_t begin_ns)
{
	uint64_t since_ns;

	return capture__probes_file(s->capture, map_entry__real(entry), &since_ns) &&
	       since_ns > begin_ns;
}

void files__note_late(struct session *s, const struct file_id *real)
{
	bool again = is_reopened(s, real);

	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		bool begun = t->start_ns || t->begun_by_exec_ns || t->program_replaced;

		/* a command is held until it has its probes */
		if ((again ? !t->ended : begun) &&
		    !(s->launch.held && t->info.pid == s->launch.pid) && target__maps_code(t, real))
			t->allocators_late++;
	}
}

/* Does an earlier mapping have the same file? */
static bool is_repeated(const struct maps *maps, size_t which)
{
	const struct file_id *real = map_entry__real(&maps->entries[which]);

	for (size_t i = 0; i < which; i++)
		if (maps->entries[i].executable &&
		    file_id__equal(map_entry__real(&maps->entries[i]), real))
			return true;
	return false;
}

void files__note_late_begin(const struct session *s, struct target *t, uint64_t begin_ns)
{
	for (size_t i = 0; s->everywhere && begin_ns && i < t->maps.n; i++) {
		const struct map_entry *e = &t->maps.entries[i];

		if (e->executable && e->file.inode && !is_repeated(&t->maps, i) &&
		    files__is_late(s, e, begin_ns))
			t->allocators_late++;
	}
}

/* Says why a target's calls are not seen any more. */
static void refuse_in(struct session *s, const struct target *t, const struct reopened_file *file)
{
	const struct allocator of_file = {.family = file->family, .file = file->real};
	char text[640];

	for (size_t i = 0; i < t->maps.n; i++) {
		const struct map_entry *e = &t->maps.entries[i];

		if (!e->executable || !file_id__equal(map_entry__real(e), &file->real))
			continue;
		snprintf(text, sizeof(text),
			 "%.400s was changed in its container, which has a copy of its own since "
			 "then. The kernel takes no more probes for a process that runs the file "
			 "as it was: this allocator is not traced any more",
			 e->path);
		capture__refuse(s->capture, &of_file, t->info.pid, text);
		return;
	}
}

/* Gives up the reopened files that got no probes: no target maps them through a file that still has
 * their pages. Says of each target that maps such a file that its allocator is not traced. */
static void give_up_reopened(struct session *s)
{
	if (s->files_short) /* they are tried again */
		return;
	for (size_t i = 0; i < s->n_tried; i++) {
		if (capture__probes_file(s->capture, &s->reopened[i].real, NULL))
			continue;
		for (size_t j = 0; j < s->n_targets; j++)
			if (!s->targets[j]->ended)
				refuse_in(s, s->targets[j], &s->reopened[i]);
	}
	s->n_reopened -= s->n_tried;
	s->n_marked -= s->n_tried;
	for (size_t i = 0; i < s->n_reopened; i++)
		s->reopened[i] = s->reopened[s->n_tried + i];
	s->n_tried = s->n_marked;
}

/* Several files of overlayfs may have the pages of one file below them. The file below has one set
 * of probes. These probes hold the file through which they were placed. If only this file goes, the
 * probes are placed again through another file. */
static void release(void *ctx, const struct file_id *file, const struct file_id *real, bool last)
{
	const struct allocator *a;
	struct session *s = ctx;

	if (last)
		files__release(s, real);
	while ((a = files__find_attached(s, is_through, file)))
		release_to_reopen(s, a);
}

static bool forget_binary(void *ctx, size_t index)
{
	struct session *s = ctx;

	if (!s->capture || !capture__forget_binary(s->capture, index))
		return false;
	alloc_files__forget(s->alloc_files, index);
	python_files__forget(s->python_files, index);
	symbolizer__forget(s->symbolizer, index);
	return true;
}

void files__reuse(struct session *s)
{
	binaries__reuse(s->binaries, forget_binary, s);
}

/* Closes files that no target has mapped for a while. */
static void let_go_idle(struct session *s, uint64_t now)
{
	struct maps own = {};

	for (size_t i = 0; i < s->n_targets; i++)
		use_all(s, &s->targets[i]->maps);
	/* memtrace's own files count as used: the probes in its C library are for processes that
	 * are still to come (targets__probe_own_libc()) */
	if (!maps__read(getpid(), &own))
		use_all(s, &own);
	maps__free(&own);
	s->files_idle = binaries__evict(s->binaries, now, s->files_short ? 0 : IDLE_NS, release, s);
	mark_reopened(s);
}

void files__let_go(struct session *s)
{
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);
	bool retry;

	if (s->stopped)
		return;
	give_up_reopened(s);
	if (!((s->selection && s->files_idle) || s->files_releasing) || now < s->files_next_ns)
		return;
	s->files_next_ns = now + LOOK_EVERY_NS;
	if (s->selection && s->files_idle)
		let_go_idle(s, now);
	/* Targets that came when there was no room for probes are tried again, as long as released
	 * files may have made room since the last attempt. */
	retry = s->files_releasing;
	s->files_releasing = capture__is_releasing(s->capture);
	for (size_t i = 0; i < s->n_targets && s->files_short && retry; i++)
		s->targets[i]->probes_due = true;
	s->files_short = s->files_short && !retry;
}
