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

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/notify.h"

#define CHECK_S	     5.0  /* in which a configuration must have been checked */
#define FIRST_WAIT_S 1.0  /* before a child that failed is started again; doubled each time, */
#define MOST_WAIT_S  60.0 /* up to this */
#define LASTING_S    60.0 /* a child that lived so long had not failed at once */
#define WAIT_S	     1.0

struct supervisor {
	const struct service *service;
	int signal_fd, alive; /* alive: the child's bytes; -1: there is no child */
	pid_t child, checker; /* 0: there is none */
	double child_since_s, checker_since_s, start_at_s, wait_s;
	double watchdog_s, watchdog_at_s;
	bool started; /* the child has said so */
	bool ending, renewing;
	bool ever_started;
};

static const int signals[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGCHLD};

static void signal_set(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaddset(set, signals[i]);
}

/* In the child: as if it had been started alone, but that it ends with its parent. false: that is
 * gone already. */
static bool be_child(struct supervisor *s, pid_t parent)
{
	sigset_t set;

	signal_set(&set);
	close(s->signal_fd);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	signal(SIGHUP, SIG_IGN); /* the parent's, and a terminal's that goes */
	return !prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) && getppid() == parent;
}

static void start_child(struct supervisor *s)
{
	pid_t parent = getpid(), pid;
	int pair[2];

	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK)) {
		complain("cannot make a pipe: %s", strerror(errno));
		s->start_at_s = clock__monotonic_s() + FIRST_WAIT_S;
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
		s->start_at_s = clock__monotonic_s() + FIRST_WAIT_S;
		return;
	}
	s->child = pid;
	s->alive = pair[0];
	s->child_since_s = clock__monotonic_s();
	s->started = false;
}

static void start_check(struct supervisor *s)
{
	pid_t parent = getpid(), pid;

	if (s->checker) /* one is under way, and another will be asked for if it is wanted */
		return;
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
	if (s->child)
		kill(s->child, SIGTERM);
}

static void on_checked(struct supervisor *s, int status)
{
	s->checker = 0;
	if (WIFEXITED(status) && !WEXITSTATUS(status)) {
		s->renewing = true;
		s->wait_s = FIRST_WAIT_S;
		end_child(s);
		return;
	}
	complain("the configuration is refused; what was configured before stays");
	notify__say("READY=1");
}

/* The child has ended. -1: go on; else the exit status. */
static int on_ended(struct supervisor *s, int status)
{
	double now = clock__monotonic_s();
	int exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;

	close(s->alive);
	s->alive = -1;
	s->child = 0;
	if (s->ending)
		return exit_status;
	if (s->renewing) {
		s->renewing = false;
		s->start_at_s = now;
		return -1;
	}
	if (!exit_status || (!s->started && !s->ever_started)) /* done, or it never worked */
		return exit_status;
	if (WIFSIGNALED(status))
		complain("the tracer was ended by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	s->wait_s = now - s->child_since_s > LASTING_S ? FIRST_WAIT_S
						       : fmin(2 * s->wait_s, MOST_WAIT_S);
	complain("the tracer has ended, and is started again in %.0f s", s->wait_s);
	s->start_at_s = now + s->wait_s;
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
	if (s->watchdog_s > 0 && clock__monotonic_s() >= s->watchdog_at_s) {
		notify__say("WATCHDOG=1");
		s->watchdog_at_s = clock__monotonic_s() + s->watchdog_s;
	}
}

int supervise(const struct service *service)
{
	struct supervisor s = {.service = service,
			       .alive = -1,
			       .wait_s = FIRST_WAIT_S,
			       .watchdog_s = notify__watchdog_s()};
	sigset_t set;
	int status;

	signal_set(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s.signal_fd < 0) {
		complain("cannot take signals: %s", strerror(errno));
		return EXIT_FAILED;
	}
	for (;;) {
		/* a child that is gone leaves its pipe readable */
		struct pollfd fds[2] = {{.fd = s.signal_fd, .events = POLLIN},
					{.fd = s.alive, .events = POLLIN}};
		double now = clock__monotonic_s();

		if (!s.child && !s.ending && now >= s.start_at_s) {
			start_child(&s);
			continue;
		}
		if (!s.child && s.ending)
			return 0;
		poll(fds, 2, (int)(1000 * WAIT_S));
		read_signals(&s);
		read_alive(&s);
		status = reap(&s);
		if (status >= 0)
			return status;
		if (s.checker && clock__monotonic_s() - s.checker_since_s > CHECK_S) {
			complain("the configuration could not be read in %.0f s", CHECK_S);
			kill(s.checker, SIGKILL);
			s.checker_since_s = INFINITY;
		}
		if (s.alive >= 0 && fds[1].revents & POLLHUP && !(fds[1].revents & POLLIN))
			usleep(10000); /* until it can be waited for */
	}
}
