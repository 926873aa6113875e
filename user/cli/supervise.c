// SPDX-License-Identifier: BSD-2-Clause
#include "cli/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/notify.h"
#include "cli/nowait.h"

#define CHECK_S 5.0  /* time limit for the check of a configuration */
#define WAIT_S	1.0  /* longest wait before deadlines are checked again */
#define START_S 90.0 /* a child that takes longer to start counts as hanging */
#define END_S	20.0 /* a child that takes longer to end is killed */

/* how long to wait before a child that failed is started again */
static const struct backoff patience = {.first_s = 1, .most_s = 60, .lasting_s = 60};

struct supervisor {
	const struct service *service;
	int signal_fd, alive; /* alive: the pipe that the child writes to; -1: no child */
	pid_t child, checker; /* 0: no such process */
	double child_since_s, checker_since_s, start_at_s;
	double alive_at_s; /* time at which the child last said that it is alive */
	double kill_at_s;  /* time at which a child that should end is killed */
	struct backoff backoff;
	double watchdog_s, watchdog_at_s;
	bool started; /* the child has said that it has started */
	bool ending, renewing;
	bool on_trial;	  /* no child with the configuration in force has started yet */
	bool check_again; /* a check was asked for during a check */
	bool ever_started;
};

static const int signals[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGCHLD};

static void signal_set(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaddset(set, signals[i]);
}

/* In the child: unblocks the supervisor's signals, ignores SIGHUP, and makes the child end when its
 * parent ends. Returns false if the parent has ended already. */
static bool be_child(struct supervisor *s, pid_t parent)
{
	sigset_t set;

	signal_set(&set);
	close(s->signal_fd);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	signal(SIGHUP, SIG_IGN); /* the supervisor handles it, also when a terminal is closed */
	return !prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) && getppid() == parent;
}

static void start_child(struct supervisor *s)
{
	pid_t parent = getpid(), pid;
	int pair[2];

	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK)) {
		complain("cannot make a pipe: %s", strerror(errno));
		s->start_at_s = clock__monotonic_s() + backoff__next(&s->backoff, 0);
		return;
	}
	pid = fork();
	if (!pid) {
		close(pair[0]);
		exit(be_child(s, parent) ? s->service->work(s->service->ctx, pair[1])
					 : EXIT_FAILED);
	}
	close(pair[1]);
	if (pid < 0) {
		complain("cannot fork: %s", strerror(errno));
		close(pair[0]);
		s->start_at_s = clock__monotonic_s() + backoff__next(&s->backoff, 0);
		return;
	}
	s->child = pid;
	s->alive = pair[0];
	s->child_since_s = clock__monotonic_s();
	s->started = false;
	s->kill_at_s = INFINITY;
}

static void start_check(struct supervisor *s)
{
	pid_t parent = getpid(), pid;

	if (s->ending)
		return;
	if (s->checker) { /* the running check may have read the file before the last change of the
			   * file */
		s->check_again = true;
		return;
	}
	notify__say_reloading();
	pid = fork();
	if (!pid)
		_exit(be_child(s, parent) ? s->service->check(s->service->ctx) : EXIT_FAILED);
	if (pid < 0) {
		complain("cannot fork: %s", strerror(errno));
		notify__say("READY=1");
		return;
	}
	s->checker = pid;
	s->checker_since_s = clock__monotonic_s();
}

static void end_child(struct supervisor *s)
{
	if (!s->child)
		return;
	kill(s->child, SIGTERM);
	s->kill_at_s = fmin(s->kill_at_s, clock__monotonic_s() + END_S);
}

static void on_checked(struct supervisor *s, int status)
{
	s->checker = 0;
	if (s->check_again) {
		s->check_again = false;
		start_check(s);
		return;
	}
	if (WIFEXITED(status) && !WEXITSTATUS(status)) {
		if (s->service->adopt)
			s->service->adopt(s->service->ctx, !s->on_trial);
		s->on_trial = true;
		s->renewing = s->child;
		backoff__reset(&s->backoff);
		s->start_at_s = clock__monotonic_s(); /* ends the wait after a failed child */
		end_child(s);
		return;
	}
	complain("the new configuration is refused; the earlier one stays in force");
	notify__say("READY=1");
}

/* Handles the end of the child. -1: go on; else the exit status. */
static int on_ended(struct supervisor *s, int status)
{
	double now = clock__monotonic_s();
	int exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;

	close(s->alive);
	s->alive = -1;
	s->child = 0;
	if (s->ending)
		return exit_status == SERVICE_TERMINATED ? 0 : exit_status;
	if (s->renewing) {
		s->renewing = false;
		s->start_at_s = now;
		return -1;
	}
	if (s->on_trial && exit_status && exit_status != SERVICE_TERMINATED && s->service->revert &&
	    s->service->revert(s->service->ctx)) {
		complain("no tracer starts with the new configuration: the earlier one is in force "
			 "again");
		s->on_trial = false;
		s->start_at_s = now;
		return -1;
	}
	/* the work is done, or no child has ever started */
	if (!exit_status || (!s->started && !s->ever_started))
		return exit_status;
	if (exit_status == SERVICE_TERMINATED)
		complain("somebody else has sent the tracer a signal to end");
	if (WIFSIGNALED(status))
		complain("the tracer was ended by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	s->start_at_s = now + backoff__next(&s->backoff, now - s->child_since_s);
	complain("the tracer has ended, and is started again in %.0f s", s->backoff.wait_s);
	return -1;
}

static int reap(struct supervisor *s)
{
	int status;

	if (s->checker && waitpid(s->checker, &status, WNOHANG) > 0)
		on_checked(s, status);
	if (s->child && waitpid(s->child, &status, WNOHANG) > 0)
		return on_ended(s, status);
	return -1;
}

static void read_signals(struct supervisor *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGHUP) {
			start_check(s);
		} else if (info.ssi_signo != SIGCHLD) {
			if (!s->ending)
				notify__say("STOPPING=1");
			s->ending = true;
			end_child(s);
		}
	}
}

static void read_alive(struct supervisor *s)
{
	char bytes[256];
	bool any = false;

	while (s->alive >= 0 && read(s->alive, bytes, sizeof(bytes)) > 0)
		any = true;
	if (!any)
		return;
	if (!s->started)
		notify__say("READY=1");
	s->started = s->ever_started = true;
	if (!s->renewing) /* while a child is replaced, bytes come from the old child */
		s->on_trial = false;
	s->alive_at_s = clock__monotonic_s();
}

/* Tells the service manager that the service works. Without a child, only the supervisor itself
 * could hang. A child that hangs at its end counts as working, because it is killed in time. */
static void feed_watchdog(struct supervisor *s)
{
	double now = clock__monotonic_s();
	bool well = !s->child || isfinite(s->kill_at_s) ||
		    now - (s->started ? s->alive_at_s : s->child_since_s) <
			    (s->started ? s->watchdog_s : START_S);

	if (s->watchdog_s > 0 && s->ever_started && well && now >= s->watchdog_at_s) {
		notify__say("WATCHDOG=1");
		s->watchdog_at_s = now + s->watchdog_s;
	}
}

/* Returns the longest time to wait for signals and for the child, seconds. */
static double wait_s(const struct supervisor *s, double now)
{
	double wait = s->watchdog_s > 0 ? fmin(WAIT_S, s->watchdog_s / 2) : WAIT_S;

	return !s->child ? fmin(wait, fmax(s->start_at_s - now, 0)) + 1e-3 : wait;
}

int supervise(const struct service *service)
{
	struct supervisor s = {.service = service,
			       .alive = -1,
			       .backoff = patience,
			       .watchdog_s = notify__watchdog_s()};
	sigset_t set;
	int status;

	signal_set(&set);
	s.signal_fd = take_signals(&set);
	if (s.signal_fd < 0)
		return EXIT_FAILED;
	/* A supervisor that waits for a reader of standard error would start no child, and would
	 * hear no signal. */
	nowait__begin();
	complain_to(nowait__complain);
	for (;;) {
		/* if the child has ended, its pipe stays readable */
		struct pollfd fds[2] = {{.fd = s.signal_fd, .events = POLLIN},
					{.fd = s.alive, .events = POLLIN}};
		double now = clock__monotonic_s();

		if (!s.child && !s.ending && now >= s.start_at_s) {
			start_child(&s);
			continue;
		}
		if (!s.child && s.ending)
			return 0;
		poll(fds, 2, (int)(1000 * wait_s(&s, now)));
		read_signals(&s);
		read_alive(&s);
		feed_watchdog(&s);
		status = reap(&s);
		if (status >= 0)
			return status;
		if (s.checker && clock__monotonic_s() - s.checker_since_s > CHECK_S) {
			complain("the configuration could not be read in %.0f s", CHECK_S);
			kill(s.checker, SIGKILL);
			s.checker_since_s = INFINITY;
		}
		if (s.child && clock__monotonic_s() > s.kill_at_s) {
			complain("the tracer did not end in %.0f s, and is killed", END_S);
			kill(s.child, SIGKILL);
			s.kill_at_s = clock__monotonic_s() + END_S;
		}
		if (s.alive >= 0 && fds[1].revents & POLLHUP && !(fds[1].revents & POLLIN))
			/* the child has closed its pipe, but cannot be waited for yet */
			usleep(10000);
	}
}
