// SPDX-License-Identifier: BSD-2-Clause
/* Finds processes that have changed their own copy of code that is to get probes (capture/patch.h).
 * Probes for all processes appear in every process, so all processes are checked beforehand. A
 * later change is noticed in targets only. A program that changes its code calls mprotect to make
 * the code writable, and then executable again. memtrace gets news of such calls, but only for
 * targets. A change without mprotect (through /proc/PID/mem) is not noticed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proc/process.h"
#include "session/internal.h"

struct look {
	struct session *s;
	struct allocators *allocators; /* the allocators that are not attached yet are checked */
};

/* Returns a text that says which code of the allocator the process has changed; NULL: none. */
static const char *changed(const struct allocator *a, pid_t pid, const struct maps *maps,
			   char *text, size_t size)
{
	/* an allocator whose blocks the process reports itself has no probes */
	const char *name = a->reported ? NULL : allocator__patched_in(a, pid, maps);
	struct process_info info = {};

	if (!name)
		return NULL;
	process__read_stat(pid, &info);
	snprintf(
		text, size,
		"%.120s of %.256s cannot be probed: pid %d (%s) has patched that code while "
		"running. "
		"A probe would undo that and the process would crash: this allocator is not traced",
		name, a->path, pid, info.comm);
	return text;
}

static void look_at(const struct look *look, pid_t pid, const struct maps *maps)
{
	char text[640];

	for (size_t i = look->allocators->n_attached; i < look->allocators->n; i++)
		if (changed(look->allocators->list[i], pid, maps, text, sizeof(text)))
			capture__refuse(look->s->capture, look->allocators->list[i], 0, text);
}

static int look_at_other(pid_t pid, void *ctx)
{
	const struct look *look = ctx;
	struct maps maps;

	if (targets__find(look->s, pid) || maps__read(pid, &maps))
		return 0;
	look_at(look, pid, &maps);
	maps__free(&maps);
	guard__wait(look->s);
	return 0;
}

void patched__look_everywhere(struct session *s, struct allocators *allocators)
{
	struct look look = {s, allocators};
	bool new = false;

	for (size_t i = allocators->n_attached; i < allocators->n; i++)
		new = new || !capture__probes_file(s->capture, &allocators->list[i]->file, NULL);
	if (!new)
		return;
	for (size_t i = 0; i < s->n_targets; i++)
		if (!s->targets[i]->ended)
			look_at(&look, s->targets[i]->info.pid, &s->targets[i]->maps);
	process__each(look_at_other, &look);
}

/* Takes the probes of an allocator out of the code of all processes, and refuses it. */
static void refuse_everywhere(struct session *s, const struct allocator *a, const char *text)
{
	struct allocator refused = {.family = a->family, .file = a->file};
	unsigned char *mark = binaries__mark(s->binaries, &a->file);

	files__release(s, &refused.file); /* frees a */
	if (mark)
		*mark = FILE_REFUSED;
	capture__refuse(s->capture, &refused, 0, text);
}

void patched__look_again(struct session *s, struct target *t)
{
	bool found = false;
	char text[640];

	if (t->regions && !t->regions_stopped_ns &&
	    region_source__patched_in(t->regions, t->info.pid, &t->maps))
		region_calls__stop(s, t);
	for (size_t i = 0; s->everywhere && i < s->n_attached; i++)
		for (size_t j = 0; j < s->attached[i]->n; j++) {
			const struct allocator *a = s->attached[i]->list[j];

			if (!changed(a, t->info.pid, &t->maps, text, sizeof(text)))
				continue;
			refuse_everywhere(s, a, text);
			patched__look_again(s, t); /* checks the allocators that are left */
			return;
		}
	for (size_t j = 0; t->allocators && j < t->allocators->n; j++)
		if (changed(t->allocators->list[j], t->info.pid, &t->maps, text, sizeof(text))) {
			found = true;
			capture__refuse(s->capture, t->allocators->list[j], t->info.pid, text);
		}
	/* Takes all of the target's probes out. Then puts back the probes of those allocators that
	 * were not refused. */
	if (!found || !paced__wants_probes(&t->budget.pace))
		return;
	capture__pause(s->capture, t->info.pid);
	targets__resume_own(s, t);
}
