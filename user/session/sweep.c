// SPDX-License-Identifier: BSD-2-Clause
/* Deletes entries of the kernel's tables that nobody needs, and makes up for lost news of
 * processes. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/process.h"
#include "session/internal.h"

/* How often the kernel's tables are swept. A sweep takes about a millisecond. */
#define SWEEP_NS 10000000000ULL
/* When memtrace has searched for what lost news would have told, it waits REST times as long as the
 * search has taken. Only then may it search again, because more news may be lost during a
 * search. */
#define REST 20
/* The longest such wait before another search for lost news of mappings. Until this search, probes
 * may be missing in new code. */
#define MAX_REST_NS 2000000000ULL

static bool lives(void *ctx, uint32_t process, pid_t *ret_pid)
{
	const struct target *t = targets__find_process(ctx, process);

	if (!t || t->ended)
		return false;
	*ret_pid = t->info.pid;
	return true;
}

void sweep__tables(struct session *s)
{
	uint64_t now = clock__now_ns(CLOCK_MONOTONIC);

	/* A sweep during a window would make the window close late. But where probes are for all
	 * processes, a window is nearly always open, so there a sweep does not wait. */
	if (now < s->sweep_next_ns || (!s->everywhere && scheduler__has_window(&s->scheduler)))
		return;
	s->sweep_next_ns = now + SWEEP_NS;
	capture__sweep(s->capture, lives, s);
}

/* --- lost news of processes --- */

/* Notes execs of targets, ends of targets, and ends of their main threads, if the news of them was
 * lost. The end of a named target is not noted here, because it is known from its pidfd. A selected
 * target may have ended although its process still lives: the process then runs a program that does
 * not fit the selection. */
static void seek_changed(struct session *s)
{
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];
		struct process_info now;
		uint32_t process = 0;
		uint64_t exec_ns = 0;
		int rc;

		if (t->ended || t->exit_ns)
			continue;
		rc = capture__process_of(s->capture, t->info.pid, &process, &exec_ns);
		if (!rc && process == t->process && exec_ns > t->exec_ns)
			targets__note_exec(s, t, exec_ns);
		if (process__living_thread(t->info.pid) != t->info.pid)
			t->headless = true;
		if (!t->uninvited)
			continue;
		if (rc == -ENOENT || rc == -ESRCH || (!rc && process != t->process) ||
		    process__read_stat(t->info.pid, &now) ||
		    now.start_ticks != t->info.start_ticks || !process__lives(&now))
			t->exit_ns = clock__now_ns(CLOCK_MONOTONIC);
	}
}

/* Makes a target of the process if the kernel side traces it, but the news of its beginning was
 * lost. Its time begins now, because its true beginning is not known. */
static int adopt(pid_t pid, void *ctx)
{
	struct abi_event event = {.kind = EVENT_FORK,
				  .tgid = (uint32_t)pid,
				  .time_ns = clock__now_ns(CLOCK_MONOTONIC)};
	struct session *s = ctx;
	struct target *t = targets__find(s, pid);
	uint64_t cpu, exec_ns;
	int rc;

	if (t && !t->exit_ns)
		return 0;
	rc = capture__process_of(s->capture, pid, &event.process, &exec_ns);
	if (rc) /* after any other error the process may be traced, and must not lose its row */
		return rc == -ENOENT || rc == -ESRCH ? 0 : rc;
	if (targets__find_process(s, event.process))
		return 0;
	if (!process__cpu_time_ns(pid, &cpu))
		event.cpu_ns = cpu;
	targets__begin(s, &event);
	t = exec_ns ? targets__find_process(s, event.process) : NULL;
	if (t) /* what the kernel side has recorded of the program before the exec does not count
		* for this program */
		targets__note_exec(s, t, exec_ns);
	return 0;
}

/* Finds the processes whose first news was lost. If such a process has ended meanwhile, frees its
 * row in the kernel's tables. The order of the steps matters: the rows are read before the search,
 * and news is taken after it. If a process had a row, and is still unknown after both, the search
 * did not find the process, so it has ended. 0; on a negative errno the caller searches again. */
static int seek_strangers(struct session *s)
{
	_cleanup_free_ uint32_t *processes = NULL;
	size_t n;
	int rc = capture__processes(s->capture, &processes, &n) ?: process__each(adopt, s);

	if (rc)
		return rc;
	targets__take_events(s);
	for (size_t i = 0; i < n; i++)
		if (!targets__find_process(s, processes[i])) {
			capture__drop_process(s->capture, processes[i]);
			s->records_left = true;
		}
	return 0;
}

void sweep__lost_news(struct session *s)
{
	uint64_t begin = clock__now_ns(CLOCK_MONOTONIC), end, lost = s->events_lost;

	if (s->events_lost == s->events_lost_seen || begin < s->lost_next_ns)
		return;
	seek_changed(s);
	if (!s->selection || !seek_strangers(s))
		s->events_lost_seen = lost;
	end = clock__now_ns(CLOCK_MONOTONIC);
	s->lost_next_ns = end + REST * (end - begin);
}

void sweep__lost_mappings(struct session *s)
{
	uint64_t begin = clock__now_ns(CLOCK_MONOTONIC), end, lost = s->watch_lost;

	if (s->watch_lost == s->watch_lost_seen || begin < s->watch_next_ns)
		return;
	for (size_t i = 0; i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (t->exit_ns || t->ended)
			continue;
		targets__refresh_maps(s, t);
		t->code_changed = true; /* the news may have been of this */
		guard__wait(s);
	}
	s->watch_lost_seen = lost;
	end = clock__now_ns(CLOCK_MONOTONIC);
	s->watch_next_ns =
		end + (REST * (end - begin) < MAX_REST_NS ? REST * (end - begin) : MAX_REST_NS);
}
