// SPDX-License-Identifier: BSD-2-Clause
/* Puts probes into the allocators of targets: for all processes, or for each target alone. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/vector.h"
#include "session/internal.h"

/* After an exec, which malloc the program calls is known when its dynamic linker has mapped all
 * files. When this is, is not known. So the program is looked at several times, later and later.
 * The last look counts. */
#define MALLOC_LOOKS	7
#define MALLOC_AGAIN_NS 50000000ULL

/* Has one of the target's files not been searched for allocators yet? */
static bool new_files(struct session *s, const struct target *t)
{
	for (size_t i = 0; i < t->maps.n; i++) {
		const unsigned char *mark = files__mark(s, &t->maps.entries[i]);

		if (mark && *mark == FILE_NEW)
			return true;
	}
	return false;
}

/* Marks all of the target's new files as searched. unknown: the path of the file whose malloc is
 * not known, or "". */
static void mark_files(struct session *s, const struct target *t, enum file_mark as,
		       const char *unknown)
{
	for (size_t i = 0; i < t->maps.n; i++) {
		unsigned char *mark = files__mark(s, &t->maps.entries[i]);

		if (mark && *unknown && !strcmp(t->maps.entries[i].path, unknown))
			*mark = FILE_UNKNOWN;
		else if (mark && *mark == FILE_NEW)
			*mark = (unsigned char)as;
	}
}

static bool has_no_probe(const void *capture, const struct allocator *a)
{
	size_t n;
	const struct capture_probe *probes = capture__probes(capture, &n);

	for (size_t i = 0; i < n; i++)
		if (probes[i].allocator == a)
			return false;
	return true;
}

int targets__attach_everywhere(struct session *s, struct target *t, struct error *err)
{
	size_t before, after;
	int one, rc = 0;

	if (VECTOR_ADD_ROOM(s->attached, s->n_attached))
		return error__set(err, -ENOMEM, "out of memory");
	allocators__drop(t->allocators, rewritten__is_copied, s);
	patched__look_everywhere(s, t->allocators);
	capture__probes(s->capture, &before);
	/* If an allocator cannot be probed, goes on with the others. */
	while ((one = capture__attach(s->capture, t->allocators, 0, rc ? NULL : err)))
		rc = rc && !alloc_error__passes(one) ? rc : one;
	capture__probes(s->capture, &after);
	/* Records of new probes point to the allocators, so these must be kept. But most programs
	 * bring a library that has its probes already, and then no probe was added. */
	allocators__drop(t->allocators, has_no_probe, s->capture);
	for (size_t i = 0; i < t->allocators->n; i++)
		files__note_late(s, &t->allocators->list[i]->file);
	if (after > before) {
		s->attached[s->n_attached++] = t->allocators;
		rewritten__watch(s, t->allocators);
	} else {
		allocators__free(t->allocators);
	}
	t->allocators = NULL;
	return rc;
}

void targets__probe_own_libc(struct session *s)
{
	struct target self = {.info.pid = getpid()};
	struct error none = {};

	if (maps__read(getpid(), &self.maps))
		return;
	for (size_t i = 0; i < self.maps.n; i++)
		if (self.maps.entries[i].executable)
			targets__hold_file(s, &self, &self.maps.entries[i]);
	if (!allocators__find(s->alloc_files, getpid(), &self.maps, ALLOC_ALL, NULL, 0,
			      &self.allocators, &none))
		targets__attach_everywhere(s, &self, &none);
	maps__free(&self.maps);
}

void targets__attach_own(struct session *s, struct target *t)
{
	int rc;

	while ((rc = capture__attach(s->capture, t->allocators, t->info.pid, NULL)))
		/* -EOPNOTSUPP: the capture has noted the refusal itself */
		t->allocators->n_refused += rc != -EOPNOTSUPP;
}

int targets__resume_own(struct session *s, struct target *t)
{
	if (t->code_changed) /* a probe over changed code could crash the target */
		return -EAGAIN;
	if (t->headless) { /* the kernel would place no probe */
		t->silent = true;
		return -ESRCH;
	}
	return capture__resume(s->capture, t->allocators, t->info.pid, NULL);
}

void targets__note_unseen(struct session *s, const struct target *t)
{
	const struct alloc_unseen *unseen = &t->allocators->unseen;
	const struct allocator pool = {.family = unseen->family, .file = unseen->file};

	if (unseen->family)
		capture__refuse(s->capture, &pool, s->everywhere ? 0 : t->info.pid, unseen->text);
}

/* Looks for allocators in the target's new files, and probes them. Then it marks the files as done.
 * If the search failed because the process was gone, or because there was no room, the files stay
 * unmarked: a search may succeed with the next process that maps them. A search can succeed even if
 * the target has ended meanwhile, as long as the target's files are held open. */
static void probe_new_files(struct session *s, struct target *t)
{
	struct error none = {};
	char unknown[sizeof(t->allocators->unknown)] = "";
	bool refused;
	int rc;

	if (!new_files(s, t))
		return;
	files__name_real(s, &t->maps);
	rc = allocators__find(s->alloc_files, t->info.pid, &t->maps, ALLOC_ALL, s->extra,
			      s->n_extra, &t->allocators, &none);
	refused = rc && rc != -ENOENT;
	if (!rc) {
		memcpy(unknown, t->allocators->unknown, sizeof(unknown));
		refused = t->allocators->n_refused;
		targets__note_unseen(s, t);
		rc = targets__attach_everywhere(s, t, &none);
		refused = refused || rc;
	}
	if (!alloc_error__passes(rc))
		mark_files(s, t, refused ? FILE_REFUSED : FILE_SEEN, unknown);
	rewritten__check_copies(s); /* copies that were made before the files were watched */
	if (rc == -ENOSPC) {
		s->probes_refused++;
		s->files_short = s->files_idle = true;
	}
}

void targets__judge_exec(struct session *s, struct target *t)
{
	struct allocators *of_program;
	struct error none = {};
	uint64_t now;
	int rc;

	if (!t->malloc_due_ns || t->ended || s->everywhere || !t->allocators)
		return;
	now = clock__now_ns(CLOCK_MONOTONIC);
	if (now < t->malloc_due_ns)
		return;
	t->malloc_due_ns =
		t->malloc_looks < MALLOC_LOOKS ? now + (MALLOC_AGAIN_NS << t->malloc_looks++) : 0;
	rc = allocators__find(s->alloc_files, t->info.pid, &t->maps, ALLOC_AFTER_EXEC, s->extra,
			      s->n_extra, &of_program, &none);
	guard__wait(s);
	if (!rc)
		allocators__free(of_program);
	if (!rc || rc == -ENOENT || rc == -ENOTSUP)
		t->malloc_unknown = rc == -ENOTSUP;
}

void targets__provide_probes(struct session *s, struct target *t)
{
	if (!s->everywhere) {
		size_t n;

		if (!t->allocators || (t->ended && !t->program_replaced))
			return;
		/* If an allocator cannot be probed, goes on with the others. If the program has
		 * ended already, its allocators only count as late. */
		n = allocators__find_more(t->allocators, s->alloc_files, t->info.pid, &t->maps,
					  s->extra, s->n_extra);
		t->allocators_late += t->program_replaced ? n : 0;
		targets__note_unseen(s, t);
		if (!t->ended && !t->heap_out && paced__wants_probes(&t->budget.pace))
			targets__attach_own(s, t);
		return;
	}
	probe_new_files(s, t);
}
