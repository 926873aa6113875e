// SPDX-License-Identifier: BSD-2-Clause
/* The files of a run whose processes come and go. While a file has an open descriptor or a probe,
 * its blocks stay on the disk, and its file system stays mounted. The kernel's tables have room for
 * a limited number of probed functions. So memtrace closes a file, and takes its probes out, when
 * no process that memtrace still has to report maps the file. */
#include <unistd.h>

#include "base/clock.h"
#include "base/vector.h"
#include "proc/maps.h"
#include "session/internal.h"

#define LOOK_EVERY_NS 1000000000
/* An unused file is kept for this long: programs that are started again and again find their probes
 * in place. */
#define IDLE_NS 10000000000

const char *files__not_traced(struct session *s, const struct target *t)
{
	bool probed = false, new = !t->maps.n, refused = false, unknown = false;

	/* what earlier programs of the process allocated says nothing of the present one */
	if (!s->everywhere || !(s->what & WHAT_HEAP) || t->alloc_calls > t->exec_calls ||
	    t->counters.samples > t->exec_samples)
		return NULL;
	for (size_t i = 0; i < t->maps.n; i++) {
		const struct map_entry *e = &t->maps.entries[i];
		const unsigned char *mark;

		if (!e->executable || !e->file.inode)
			continue;
		mark = binaries__mark(s->binaries, &e->file);
		/* a file with an unknown malloc may have probes by --alloc */
		unknown = unknown || (mark && *mark == FILE_UNKNOWN &&
				      !capture__probes_file(s->capture, map_entry__real(e), NULL));
		new = new || !mark || *mark == FILE_NEW;
		refused = refused || (mark && *mark == FILE_REFUSED);
		probed = probed || capture__probes_file(s->capture, map_entry__real(e), NULL);
	}
	if (unknown)
		return "its malloc is of no known allocator";
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

static bool is_in(const void *file, const struct allocator *a)
{
	return file_id__equal(&a->file, file);
}

void files__release(struct session *s, const struct file_id *file)
{
	size_t n = 0;

	s->files_released = true;
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

/* Returns an allocator whose probes were placed through a descriptor of this file, or NULL. */
static const struct allocator *placed_through(const struct session *s, const struct file_id *file)
{
	for (size_t i = 0; i < s->n_attached; i++)
		for (size_t j = 0; j < s->attached[i]->n; j++)
			if (file_id__equal(&s->attached[i]->list[j]->through, file))
				return s->attached[i]->list[j];
	return NULL;
}

void files__reopen(struct session *s, const struct file_id *real)
{
	if (!VECTOR_ADD_ROOM(s->reopened, s->n_reopened))
		s->reopened[s->n_reopened++] = *real;
	files__release(s, real);
}

/* Several files of overlayfs may have the pages of one file below them, which has one set of
 * probes. The probes hold the file through which they were placed. If only this file goes, they are
 * placed again through another. */
static void release(void *ctx, const struct file_id *file, const struct file_id *real, bool last)
{
	const struct allocator *a;
	struct session *s = ctx;

	while ((a = placed_through(s, file))) {
		struct file_id below = a->file;

		files__reopen(s, &below); /* frees a */
	}
	if (last)
		files__release(s, real);
}

/* Lets the targets get probes again in the files of files__reopen(). */
static void reopen(struct session *s)
{
	for (size_t i = 0; i < s->n_reopened; i++)
		binaries__mark_all(s->binaries, &s->reopened[i], FILE_NEW);
	for (size_t i = 0; i < s->n_targets && s->n_reopened; i++)
		s->targets[i]->probes_due = true;
	s->n_reopened = 0;
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

void files__let_go(struct session *s)
{
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);
	struct maps own = {};
	bool retry;

	if (!s->stopped)
		reopen(s);
	if (!s->selection || !(s->files_idle || s->files_releasing) || now < s->files_next_ns ||
	    s->stopped)
		return;
	s->files_next_ns = now + LOOK_EVERY_NS;
	for (size_t i = 0; i < s->n_targets; i++)
		use_all(s, &s->targets[i]->maps);
	/* memtrace's own files count as used: the probes in its C library are for processes that
	 * are still to come (targets__probe_own_libc()) */
	if (!maps__read(getpid(), &own))
		use_all(s, &own);
	maps__free(&own);
	s->files_released = false;
	s->files_idle = binaries__evict(s->binaries, now, s->files_short ? 0 : IDLE_NS, release, s);
	reopen(s);
	/* Targets that came when there was no room for probes are tried again, as long as released
	 * files may have made room since the last attempt. */
	retry = s->files_released || s->files_releasing;
	s->files_releasing = capture__is_releasing(s->capture);
	for (size_t i = 0; i < s->n_targets && s->files_short && retry; i++)
		s->targets[i]->probes_due = true;
	s->files_short = s->files_short && !retry;
}
