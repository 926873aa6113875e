// SPDX-License-Identifier: BSD-2-Clause
/* Processes that are treated differently because the user asks for it. The first part is about
 * paused processes: targets that the user does not want traced for a while. The run treats a paused
 * process as one that has ended. Nothing is known of the time in which the process was paused, and
 * windows must not count as a sample of that time. So the process becomes a new target when it is
 * traced again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/vector.h"
#include "proc/process.h"
#include "session/budget.h"
#include "session/internal.h"

#define LOOK_NS 1000000000 /* how often memtrace checks if paused processes are alive */

struct paused {
	pid_t pid;
	uint64_t start_ticks; /* differs for a later process with this pid */
	bool selected;	      /* it was selected, not named */
	bool wanted;	      /* it is to be traced again */
	bool full;	      /* there was no room for it; memtrace tries again */
	char why[96];	      /* why tracing it again failed; "": nothing failed */
};

static void forget(struct session *s, const struct paused *p)
{
	s->paused[p - s->paused] = s->paused[--s->n_paused];
}

static bool lives(const struct paused *p)
{
	struct process_info now;

	return !process__read_stat(p->pid, &now) && now.start_ticks == p->start_ticks &&
	       process__lives(&now);
}

static struct paused *find(struct session *s, pid_t pid)
{
	for (struct paused *p = s->paused; p < s->paused + s->n_paused; p++) {
		if (p->pid != pid)
			continue;
		if (lives(p))
			return p;
		forget(s, p);
		break;
	}
	return NULL;
}

bool active__is_paused(struct session *s, pid_t pid)
{
	return s->n_paused && find(s, pid);
}

int session__deactivate(struct session *s, pid_t pid)
{
	struct target *t = targets__find(s, pid);

	if (!t || s->stop_ns)
		return -ESRCH;
	if (s->launch.pid == pid)
		return -EINVAL;
	if (VECTOR_ADD_ROOM(s->paused, s->n_paused))
		return -ENOMEM;
	s->paused[s->n_paused++] = (struct paused){
		.pid = pid, .start_ticks = t->info.start_ticks, .selected = t->uninvited};
	capture__release_process(s->capture, pid);
	targets__note_end(s, t);
	/* so that this target is removed, as selected targets are when they have ended */
	t->uninvited = t->released = true;
	capture__leave(s->capture, pid);
	return 0;
}

int session__activate(struct session *s, pid_t pid)
{
	struct paused *p = find(s, pid);

	if (!p)
		return -ESRCH;
	p->wanted = true;
	return 0;
}

static int begin_selected(struct session *s, pid_t pid, struct error *err)
{
	struct abi_event event = {.kind = EVENT_NEW,
				  .tgid = (uint32_t)pid,
				  .time_ns = clock__now_ns(CLOCK_MONOTONIC)};
	int rc = capture__add_process(s->capture, pid, &event.process, err);
	uint64_t cpu;

	if (rc)
		return rc;
	/* CPU time from before this moment does not belong to this tracing */
	if (!process__cpu_time_ns(pid, &cpu))
		event.cpu_ns = cpu;
	targets__welcome(s, &event);
	return 0;
}

/* Begins to trace a named process again, as session__open() and session__start() do. */
static int begin_named(struct session *s, pid_t pid, struct error *err)
{
	struct target *t = targets__add(s);
	int rc;

	if (!t)
		return error__set(err, -ENOMEM, "out of memory");
	rc = open__target(s, t, pid, err);
	if (!rc) {
		t->start_ns = clock__now_ns(CLOCK_MONOTONIC);
		targets__tell_mappings(s);
		rc = open__attach(s, t, false, err) ?: region_calls__attach_again(s, t, err);
	}
	if (!rc) {
		process__cpu_time_ns(pid, &t->cpu_start_ns);
		targets__read_size(t);
		targets__note_sizes(t);
		t->start_ns = clock__now_ns(CLOCK_MONOTONIC);
		t->start_unix_ns = clock__now_ns(CLOCK_REALTIME);
		rc = budget__welcome(s, t);
		if (rc)
			error__set(err, rc, "no limit of overhead can be kept: %s", strerror(-rc));
	}
	if (rc) {
		capture__release_process(s->capture, pid);
		capture__leave(s->capture, pid);
		targets__remove(s, t);
	}
	return rc;
}

bool active__keep(struct session *s)
{
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);
	bool look = now >= s->paused_look_ns;

	if (s->stop_ns)
		return false;
	if (look)
		s->paused_look_ns = now + LOOK_NS;
	for (size_t i = s->n_paused; i-- > 0;) {
		struct paused *p = &s->paused[i];
		struct error err = {};
		int rc = 0;

		if (!look && !p->wanted)
			continue;
		if (lives(p)) {
			/* waits until the old probes are out: a call that met an old probe and a
			 * new one would count twice */
			if (!p->wanted || (p->full && !look) ||
			    capture__pausing(s->capture, p->pid))
				continue;
			rc = p->selected ? begin_selected(s, p->pid, &err)
					 : begin_named(s, p->pid, &err);
		}
		if (!rc) {
			forget(s, p);
			continue;
		}
		/* -E2BIG: there will soon be room, because the struct target that this process had
		 * before the pause is about to be removed */
		p->wanted = p->full = rc == -E2BIG;
		snprintf(p->why, sizeof(p->why), "%.*s", (int)sizeof(p->why) - 1, err.text);
	}
	return s->n_paused;
}

int session__each_inactive(struct session *s, int (*fn)(void *ctx, pid_t pid, const char *why),
			   void *ctx)
{
	int rc = 0;

	for (size_t i = 0; i < s->n_paused && !rc; i++)
		rc = fn(ctx, s->paused[i].pid,
			s->paused[i].wanted && !s->paused[i].full ? NULL : s->paused[i].why);
	return rc;
}

/* --- processes that get more windows for a while --- */

_Static_assert(SESSION_FAVOURED == PACE_FAVOURED, "what the scheduler favours is reported");

bool session__may_favour(const struct session *s)
{
	return scheduler__may_favour(&s->scheduler);
}

int session__favour(struct session *s, pid_t pid)
{
	struct target *t = targets__find(s, pid);

	return t && !s->stop_ns ? scheduler__favour(&s->scheduler, &t->budget.pace) : -ESRCH;
}

size_t session__favoured(const struct session *s, struct session_favoured ret[SESSION_FAVOURED])
{
	for (size_t i = 0; i < s->scheduler.n_favoured; i++) {
		const struct paced *p = s->scheduler.favoured[i];
		const struct target *t = p->owner;

		ret[i] = (struct session_favoured){t->info.pid, p->favoured_ns,
						   p->favoured_until_ns};
	}
	return s->scheduler.n_favoured;
}
