// SPDX-License-Identifier: BSD-2-Clause
/* How targets end, and whether they leave anything to report. */
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "proc/own.h"
#include "proc/process.h"
#include "session/budget.h"
#include "session/internal.h"

void targets__note_end(struct session *s, struct target *t)
{
	struct rusage usage;

	if (t->ended)
		return;
	/* Takes in the last news of the process now: later news of the pid may be about another
	 * process. */
	if (s->watch) {
		watch__read(s->watch);
		watch__deliver(s->watch);
	}
	targets__read(s, t);
	scheduler__end(&s->scheduler, &t->budget.pace);
	budget__end_window(s, t);
	t->ended = true;
	t->end_ns = clock__now_ns(CLOCK_MONOTONIC);
	if (t->pidfd >= 0)
		epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, t->pidfd, NULL);
	capture__forget_mappings(s->capture, t->process);
	if (s->launch.pid && s->launch.pid == t->info.pid) {
		/* wait4 fails only when the kernel was told to reap memtrace's children itself
		 * (SIGCHLD ignored). */
		if (wait4(t->info.pid, &s->command_status, 0, &usage) < 0)
			s->command_status = 0;
		else
			s->command_cpu_ns = own__usage_ns(&usage);
		/* command_cpu_ns includes the CPU time of those children for which the command has
		 * waited */
		if (!s->selection && s->command_cpu_ns > t->cpu_now_ns)
			t->children_cpu_ns = s->command_cpu_ns - t->cpu_now_ns;
		s->command_ended = true;
		s->launch.pid = 0;
	}
}

/* Is the signal SIGKILL, or a signal that dumps core (signal(7))? */
static bool is_violent(int sig)
{
	switch (sig) {
	case SIGKILL:
	case SIGABRT:
	case SIGBUS:
	case SIGFPE:
	case SIGILL:
	case SIGQUIT:
	case SIGSEGV:
	case SIGSYS:
	case SIGTRAP:
	case SIGXCPU:
	case SIGXFSZ:
		return true;
	default:
		return false;
	}
}

bool targets__ended_as_victim(const struct session *s, const struct target *t)
{
	if (!t->ended || !s->victims)
		return false;
	return t->death & ABI_DEATH_OOM ||
	       (s->victims == VICTIMS_ALL && is_violent(t->death & ABI_DEATH_SIGNAL));
}

/* Was anything of the target lost in the kernel's tables? If they are full, all of its samples may
 * have been dropped. */
static bool lost_something(const struct target *t)
{
	for (int i = 0; i < LOST_MAX; i++)
		if (t->counters.lost[i])
			return true;
	return false;
}

bool targets__leaves_nothing(const struct session *s, const struct target *t)
{
	return t->ended && t->uninvited && !t->counters.samples && !t->book.calls &&
	       !lost_something(t) && !(s->victims && t->death & ABI_DEATH_OOM);
}
