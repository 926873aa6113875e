// SPDX-License-Identifier: BSD-2-Clause
/* Finds processes that have changed their own copy of code that is to get probes (capture/patch.h).
 * Probes for all processes appear in every process, so all processes are checked beforehand. A
 * later change is noticed in targets only. A program that changes its code calls mprotect to make
 * the code writable, and then executable again. memtrace gets news of such calls, but only for
 * targets. A change without mprotect (through /proc/PID/mem) is not noticed. When a process that
 * changed code has ended, the allocator may get probes again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vector.h"
#include "proc/process.h"
#include "session/internal.h"

#define LIFT_EVERY_NS 5000000000ull

struct look {
	struct session *s;
	struct allocators *allocators; /* the allocators that are not attached yet are checked */
};

/* Has the process changed code of the allocator? 1 with a text that says which code; 0; -ETIMEDOUT:
 * the code could not be read now. */
static int changed(const struct allocator *a, pid_t pid, const struct maps *maps, char *text,
		   size_t size)
{
	struct process_info info = {};
	const char *name;
	/* an allocator whose blocks the process reports itself has no probes */
	int rc = a->reported ? 0 : allocator__patched_in(a, pid, maps, &name);

	if (rc != 1)
		return rc;
	process__read_stat(pid, &info);
	snprintf(
		text, size,
		"%.120s of %.256s cannot be probed: pid %d (%s) has patched that code while "
		"running. "
		"A probe would undo that and the process would crash: this allocator is not traced",
		name, a->path, pid, info.comm);
	return 1;
}

/* Refuses the allocator, and notes the patcher. If there is no memory for this note, the refusal is
 * never lifted. */
static void refuse(struct session *s, const struct allocator *a, pid_t pid, const char *text)
{
	struct process_info info;

	capture__refuse(s->capture, a, 0, text);
	if (process__read_stat(pid, &info)) /* it has ended: the next check lifts the refusal */
		info.start_ticks = 0;
	for (size_t i = 0; i < s->n_patchers; i++) {
		const struct patcher *p = &s->patchers[i];

		if (p->pid == pid && p->start_ticks == info.start_ticks && p->family == a->family &&
		    file_id__equal(&p->file, &a->file))
			return;
	}
	if (!VECTOR_ADD_ROOM(s->patchers, s->n_patchers))
		s->patchers[s->n_patchers++] =
			(struct patcher){pid, info.start_ticks, a->file, a->family};
}

static void look_at(const struct look *look, pid_t pid, const struct maps *maps)
{
	char text[640];

	for (size_t i = look->allocators->n_attached; i < look->allocators->n; i++)
		if (changed(look->allocators->list[i], pid, maps, text, sizeof(text)) == 1)
			refuse(look->s, look->allocators->list[i], pid, text);
}

/* Has one of the allocators' files the same name? */
static bool is_name_of_any(const struct look *look, const struct map_entry *entry)
{
	const char *name = strrchr(entry->path, '/'), *of_file;

	for (size_t i = look->allocators->n_attached; name && i < look->allocators->n; i++) {
		of_file = strrchr(look->allocators->list[i]->path, '/');
		if (of_file && !strcmp(name, of_file))
			return true;
	}
	return false;
}

/* Sets `real` of the entries in maps of a process that is no target. For this, opens only files
 * that have the name of an allocator's file and lie on overlayfs (which has no device). */
static void name_real(const struct look *look, pid_t pid, struct maps *maps)
{
	files__name_real(look->s, maps);
	for (size_t i = 0; i < maps->n; i++) {
		struct map_entry *e = &maps->entries[i];
		_cleanup_close_ int fd = -1;

		if (!e->executable || !e->file.inode || e->file.dev_major || e->real.inode ||
		    !is_name_of_any(look, e))
			continue;
		fd = maps__open_file(pid, e);
		if (fd >= 0)
			e->real = capture__real_file(look->s->capture, fd, &e->file);
	}
}

static int look_at_other(pid_t pid, void *ctx)
{
	const struct look *look = ctx;
	struct maps maps;

	if (targets__find(look->s, pid) || maps__read(pid, &maps))
		return 0;
	name_real(look, pid, &maps);
	look_at(look, pid, &maps);
	maps__free(&maps);
	guard__wait(look->s);
	return 0;
}

/* Is it settled whether the allocator gets probes for all processes? It is settled if the allocator
 * has probes, or is refused. The allocator's file may have another allocator, for which the answer
 * differs. */
static bool is_settled(const struct session *s, const struct allocator *a)
{
	const struct capture_refusal *refusals;
	const struct capture_probe *probes;
	size_t n;

	probes = capture__probes(s->capture, &n);
	for (size_t i = 0; i < n; i++)
		if (!probes[i].pid && probes[i].allocator->family == a->family &&
		    file_id__equal(&probes[i].allocator->file, &a->file))
			return true;
	refusals = capture__refusals(s->capture, &n);
	for (size_t i = 0; i < n; i++)
		if (refusals[i].whole && !refusals[i].pid && !refusals[i].gone_ns &&
		    refusals[i].family == a->family && file_id__equal(&refusals[i].file, &a->file))
			return true;
	return false;
}

void patched__look_everywhere(struct session *s, struct allocators *allocators)
{
	struct look look = {s, allocators};
	bool new = false;

	for (size_t i = allocators->n_attached; i < allocators->n; i++)
		new = new || !is_settled(s, allocators->list[i]);
	if (!new)
		return;
	for (size_t i = 0; i < s->n_targets; i++)
		if (!s->targets[i]->ended) {
			files__name_real(s, &s->targets[i]->maps);
			look_at(&look, s->targets[i]->info.pid, &s->targets[i]->maps);
		}
	process__each(look_at_other, &look);
}

/* Takes the probes of an allocator out of the code of all processes, and refuses it. */
static void refuse_everywhere(struct session *s, const struct allocator *a, pid_t pid,
			      const char *text)
{
	struct allocator refused = {.family = a->family, .file = a->file};

	files__refuse(s, &refused.file); /* frees a */
	refuse(s, &refused, pid, text);
}

static bool lives(const struct patcher *p)
{
	struct process_info info;

	return !process__read_stat(p->pid, &info) && info.start_ticks == p->start_ticks;
}

/* Has one of n patchers patched the same allocator? */
static bool any_of(const struct patcher *patchers, size_t n, const struct patcher *p)
{
	for (size_t i = 0; i < n; i++)
		if (patchers[i].family == p->family && file_id__equal(&patchers[i].file, &p->file))
			return true;
	return false;
}

/* Lifts the refusal of one allocator. The next check of the targets' new files examines all
 * processes, and then places the probes. */
static void lift(struct session *s, const struct patcher *p)
{
	capture__allow(s->capture, &p->file, p->family);
	binaries__mark_all(s->binaries, &p->file, FILE_NEW);
	for (size_t i = 0; i < s->n_targets; i++)
		s->targets[i]->probes_due = true;
}

void patched__lift(struct session *s)
{
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);
	size_t n = 0; /* number of those that live; they come first */

	if (!s->n_patchers || now < s->patchers_next_ns || s->stopped)
		return;
	s->patchers_next_ns = now + LIFT_EVERY_NS;
	for (size_t i = 0; i < s->n_patchers; i++) {
		struct patcher p = s->patchers[i];

		if (!lives(&p))
			continue;
		s->patchers[i] = s->patchers[n];
		s->patchers[n++] = p;
	}
	for (size_t i = n; i < s->n_patchers; i++)
		if (!any_of(s->patchers, n, &s->patchers[i]))
			lift(s, &s->patchers[i]);
	s->n_patchers = n;
}

/* Checks the code of the functions that show the target's regions. If regions are seen at system
 * calls, does nothing, because the target's code then gets no probes. (t->regions may still be set:
 * the target's C library may have been found before another target showed that system calls must be
 * probed.) */
static void look_at_regions(struct session *s, struct target *t)
{
	const char *name;
	int rc;

	if (s->region_place != REGIONS_LIBC || !t->regions || t->regions_stopped_ns)
		return;
	rc = region_source__patched_in(t->regions, t->info.pid, &t->maps, &name);
	if (rc < 0)
		t->code_changed = true; /* is looked at again */
	else if (rc)
		region_calls__stop(s, t);
}

void patched__look_again(struct session *s, struct target *t)
{
	bool found = false;
	char text[640];
	int rc;

	look_at_regions(s, t);
	for (size_t i = 0; s->everywhere && i < s->n_attached; i++)
		for (size_t j = 0; j < s->attached[i]->n; j++) {
			const struct allocator *a = s->attached[i]->list[j];

			rc = changed(a, t->info.pid, &t->maps, text, sizeof(text));
			if (rc < 0)
				t->code_changed = true; /* is looked at again */
			if (rc != 1)
				continue;
			refuse_everywhere(s, a, t->info.pid, text);
			patched__look_again(s, t); /* checks the allocators that are left */
			return;
		}
	for (size_t j = 0; t->allocators && j < t->allocators->n; j++) {
		rc = changed(t->allocators->list[j], t->info.pid, &t->maps, text, sizeof(text));
		if (rc < 0)
			t->code_changed = true;
		if (rc != 1)
			continue;
		found = true;
		capture__refuse(s->capture, t->allocators->list[j], t->info.pid, text);
	}
	/* Takes all of the target's probes out. Then puts back the probes of those allocators that
	 * were not refused. */
	if (!found || t->heap_out || !paced__wants_probes(&t->budget.pace))
		return;
	capture__pause(s->capture, t->info.pid);
	t->heap_out = targets__resume_own(s, t) == -EAGAIN;
}
