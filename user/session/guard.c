// SPDX-License-Identifier: BSD-2-Clause
/* For a run that was held up so long that its probes were taken out of all processes
 * (capture/keeper.h). What the probes would have seen is lost. The run reports this loss, and puts
 * the probes back. */
#include <errno.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/far.h"
#include "session/budget.h"
#include "session/internal.h"

#define WAIT_LOOK_NS 50000000

bool guard__note(struct session *s)
{
	uint64_t when = capture__withdrawn_ns(s->capture);

	if (!when)
		return false;
	capture__accept_withdrawal(s->capture);
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		/* Reports of changed code may have been lost, so the code of each target is checked
		 * again. Before this check, no probe may be placed in the target. */
		t->code_changed = true;
		t->heap_out = t->allocators && !s->everywhere && s->what & WHAT_HEAP &&
			      !s->scheduler.begun;
	}
	if (!s->started) /* nothing counts yet */
		return true;
	s->n_withdrawals++;
	s->withdrawn_ns += clock__now_ns(CLOCK_MONOTONIC) - when;
	scheduler__withdraw(&s->scheduler, when);
	return true;
}

/* While a command is held, memtrace may be silent for any length of time: only the command's loader
 * runs, and the loader may have to wait for the disk. */
void guard__expect(struct session *s, bool long_work)
{
	bool limited = s->max_overhead > 0;
	unsigned patience_ms = !limited	   ? GUARD_UNLIMITED_MS
			       : long_work ? GUARD_WRITING_MS
					   : GUARD_LIMITED_MS;

	capture__set_patience(s->capture, s->launch.held ? 0 : patience_ms);
	far__hurry(!s->launch.held && limited && !long_work);
}

int guard__await_beat(struct session *s)
{
	struct itimerspec at = {.it_value.tv_nsec = GUARD_BEAT_MS * 1000000L};

	return timerfd_settime(s->beat_fd, 0, &at, NULL);
}

void guard__restore_late(struct session *s)
{
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		int rc;

		if (!t->heap_out || t->ended || t->exit_ns)
			continue;
		rc = targets__resume_own(s, t);
		t->heap_out = rc == -EAGAIN; /* its code could not be read */
		if (!rc)
			targets__attach_own(s, t); /* allocators that were loaded meanwhile */
		else if (rc != -EAGAIN && rc != -ESRCH)
			t->allocators->n_refused++;
	}
}

static void restore_heap(struct session *s)
{
	rewritten__check_copies(s);
	for (size_t i = 0; i < s->n_attached; i++)
		s->attached[i]->n_refused +=
			capture__resume(s->capture, s->attached[i], 0, NULL) != 0;
	guard__restore_late(s);
}

void guard__restore(struct session *s)
{
	if (s->what & WHAT_HEAP && !s->scheduler.begun)
		restore_heap(s);
	if (s->what & WHAT_REGIONS)
		region_calls__restore(s);
	if (s->what & WHAT_FAULTS)
		capture__attach_faults(s->capture, NULL);
}

void guard__wait(void *ctx)
{
	struct session *s = ctx;
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);

	if (now < s->wait_look_ns)
		return;
	s->wait_look_ns = now + WAIT_LOOK_NS;
	if (budget__holds(s))
		capture__beat(s->capture);
}
