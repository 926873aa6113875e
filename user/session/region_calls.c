// SPDX-License-Identifier: BSD-2-Clause
/* Chooses where calls of mmap and its like are seen, and gives each call to its target's book. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/vector.h"
#include "proc/maps.h"
#include "session/internal.h"
#include "session/region_trend.h"

/* A call of mmap, munmap, mremap or brk is assumed to return within this time. If it takes longer,
 * it is applied out of order. */
#define SETTLE_AFTER_NS 1000000000ULL

#define MAX_ORPHANS 65536

static bool give(struct session *s, const struct abi_region_call *call)
{
	struct target *t = targets__find_process(s, call->process);

	if (t)
		region_book__call(&t->book, call);
	return t != NULL;
}

static void on_call(void *ctx, const struct abi_region_call *call)
{
	struct session *s = ctx;

	if (give(s, call) || s->n_orphans == MAX_ORPHANS)
		return;
	if (VECTOR_ADD_ROOM(s->orphans, s->n_orphans))
		return;
	s->orphans[s->n_orphans++] = *call;
}

void region_calls__find_parents(struct session *s)
{
	for (size_t i = 0; i < s->n_orphans; i++)
		/* if there is no target, the process ended with nothing to report */
		give(s, &s->orphans[i]);
	s->n_orphans = 0;
}

void region_calls__settle(struct session *s, bool all)
{
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);

	if (!(s->what & WHAT_REGIONS))
		return;
	for (size_t i = 0; i < s->n_targets; i++)
		region_book__settle(&s->targets[i]->book, all || s->targets[i]->ended
								  ? UINT64_MAX
								  : now - SETTLE_AFTER_NS);
}

/* Does nothing where probes are for all processes, because so many processes would need too many
 * snapshots. */
void region_calls__note(struct session *s)
{
	uint64_t at = clock__now_ns(CLOCK_MONOTONIC) - SETTLE_AFTER_NS;

	if (!(s->what & WHAT_REGIONS) || s->everywhere || !s->started || s->stopped ||
	    at < s->start_ns)
		return;
	for (size_t i = 0; i < s->n_targets; i++)
		if (!s->targets[i]->ended && !s->targets[i]->regions_stopped_ns)
			region_trend__note(s->targets[i], at);
}

static void stop(struct target *t)
{
	t->regions_stopped_ns = clock__now_ns(CLOCK_MONOTONIC);
}

void region_calls__stop(struct session *s, struct target *t)
{
	if (s->region_place == REGIONS_LIBC) {
		capture__detach_regions(s->capture, t->info.pid);
		stop(t);
		return;
	}
	capture__detach_region_syscalls(s->capture);
	s->region_syscalls_stopped = true;
	for (size_t i = 0; i < s->n_targets; i++)
		if (!s->targets[i]->ended && !s->targets[i]->regions_stopped_ns)
			stop(s->targets[i]);
}

/* Removes from the target's book what is no longer mapped. */
static void forget_unmapped(struct target *t)
{
	struct maps maps;
	uint64_t end = 0;

	if (t->ended || maps__read(t->info.pid, &maps))
		return;
	for (size_t i = 0; i < maps.n; i++) {
		regions__remove(&t->book.map, end, maps.entries[i].start, NULL);
		end = maps.entries[i].end > end ? maps.entries[i].end : end;
	}
	regions__remove(&t->book.map, end, UINT64_MAX, NULL);
	maps__free(&maps);
}

void region_calls__compare(struct target *t)
{
	if (t->regions_stopped_ns)
		forget_unmapped(t);
}

/* If probes cannot be put back, regions are not followed from now on. The profile then reports the
 * same as when regions become too costly to follow. */
void region_calls__restore(struct session *s)
{
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);
	bool wanted = s->selection != NULL;
	int rc = 0;

	for (size_t i = 0; i < s->n_targets; i++)
		wanted = wanted || (!s->targets[i]->ended && !s->targets[i]->regions_stopped_ns);
	if (s->region_place == REGIONS_SYSCALLS && wanted)
		rc = capture__attach_region_syscalls(s->capture, NULL);
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		const char *name;

		if (t->ended || t->regions_stopped_ns)
			continue;
		/* Code that cannot be read counts as patched here: a probe would overwrite a
		 * patch. */
		if (s->region_place == REGIONS_LIBC && t->code_changed &&
		    region_source__patched_in(t->regions, t->info.pid, &t->maps, &name))
			rc = -EAGAIN;
		else if (s->region_place == REGIONS_LIBC)
			rc = capture__attach_regions(s->capture, t->regions, t->info.pid, NULL);
		if (s->started)
			forget_unmapped(t);
		if (rc && rc != -ESRCH)
			t->regions_stopped_ns = now;
	}
}

static int attach_syscalls(struct session *s, const char *why, struct error *err)
{
	s->region_place = REGIONS_SYSCALLS;
	snprintf(s->region_text, sizeof(s->region_text),
		 "at the system calls of all processes (%s)", why);
	return capture__attach_region_syscalls(s->capture, err);
}

int region_calls__attach(struct session *s, bool loading, struct error *err)
{
	const struct elf_meanwhile meanwhile = {guard__wait, s};
	int rc;

	capture__on_region_call(s->capture, on_call, s);
	if (s->region_place == REGIONS_SYSCALLS)
		return attach_syscalls(s, "as asked for", err);
	if (s->no_returns[0] && s->region_place == REGIONS_LIBC)
		return error__set(
			err, -ENOTSUP,
			"regions are seen at libc's functions by return probes, and there "
			"are none: %s",
			s->no_returns);
	if (s->no_returns[0])
		return attach_syscalls(s, "there are no return probes", err);
	if (s->everywhere && s->region_place == REGIONS_LIBC)
		return error__set(
			err, -EINVAL,
			"--debug-regions-at libc is for a command, or for a few processes given by "
			"-p: regions of other processes are seen at the system calls");
	if (s->everywhere)
		return attach_syscalls(s, "also those of future processes", err);
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		rc = region_source__find(t->info.pid, &t->maps, loading, &meanwhile, &t->regions,
					 err);
		if (rc)
			return rc;
		if (!t->regions->syscalls)
			continue;
		if (s->region_place == REGIONS_LIBC)
			return error__set(err, -ENOTSUP,
					  "the regions of pid %d (%s) cannot be seen at libc's "
					  "functions: %s",
					  t->info.pid, t->info.comm, t->regions->why);
		return attach_syscalls(s, t->regions->why, err);
	}
	s->region_place = REGIONS_LIBC;
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		rc = capture__attach_regions(s->capture, t->regions, t->info.pid, err);
		if (rc)
			return rc;
		snprintf(s->region_text, sizeof(s->region_text),
			 "at mmap, munmap, mremap and brk of %s", t->regions->path);
	}
	return 0;
}

int region_calls__attach_again(struct session *s, struct target *t, struct error *err)
{
	int rc;

	if (!(s->what & WHAT_REGIONS))
		return 0;
	if (s->region_syscalls_stopped)
		return error__set(err, -ENOTSUP,
				  "its regions cannot be seen: the probes on system calls cost too "
				  "much");
	if (s->region_place != REGIONS_LIBC)
		return 0;
	rc = region_source__find(t->info.pid, &t->maps, false,
				 &(struct elf_meanwhile){guard__wait, s}, &t->regions, err);
	if (!rc && t->regions->syscalls)
		rc = error__set(err, -ENOTSUP, "its regions cannot be seen at libc's functions: %s",
				t->regions->why);
	return rc ?: capture__attach_regions(s->capture, t->regions, t->info.pid, err);
}
