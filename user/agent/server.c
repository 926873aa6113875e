// SPDX-License-Identifier: BSD-2-Clause
#include "agent/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/packet.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "proc/own.h"
#include "sandbox/sandbox.h"

#define HANG_S 60 /* a server that reads nothing for this time hangs */

/* The static memtrace comes without memtrace-web, because Debian lacks static versions of the
 * libraries that libmicrohttpd needs. */
#ifdef MEMTRACE_STATIC
#define WHENCE_WEB "; the static memtrace comes without it: install the package, or build memtrace"
#else
#define WHENCE_WEB ""
#endif

/* how long to wait before a server that has ended is started again */
static const struct backoff patience = {.first_s = 1, .most_s = 60, .lasting_s = 60};

/* --- the server's life --- */

int server__listen(struct server *s, const char *address, struct error *err)
{
	int rc;

	if (s->n_listening == AGENT_LISTEN)
		return error__set(err, -EINVAL, "at most %d addresses can be listened on",
				  AGENT_LISTEN);
	rc = listener__open(address, &s->listening[s->n_listening], err);
	s->n_listening += !rc;
	return rc;
}

int server__find(struct server *s, struct error *err)
{
	char self[PATH_MAX], path[PATH_MAX + 64];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	*s = (struct server){.program = -1, .guard = -1, .feed = -1, .backoff = patience};
	if (len < 0)
		return error__set(err, -errno, "cannot read /proc/self/exe: %s", strerror(errno));
	self[len] = '\0';
	snprintf(path, sizeof(path), "%s-web", self);
	s->program = open(path, O_RDONLY | O_CLOEXEC);
	if (s->program < 0) {
		snprintf(path, sizeof(path), "%.*s/../libexec/memtrace/memtrace-web",
			 (int)(strrchr(self, '/') - self), self);
		s->program = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (s->program < 0)
		return error__set(
			err, -ENOENT,
			"memtrace-web, which serves the pages, is neither beside %s nor at "
			"%s" WHENCE_WEB,
			self, path);
	return 0;
}

int server__guard(struct server *s, const struct guard *guard, struct error *err)
{
	int fd = guard__to_memory(guard);

	if (fd < 0)
		return error__set(err, fd, "cannot write to memory: %s", strerror(-fd));
	s->guard = fd;
	return 0;
}

/* In the child: executes the server's program, with `listening` as its argument and with these
 * descriptors. */
static void execute(const struct server *s, pid_t parent, size_t listening, const int *fds,
		    size_t n)
{
	int all[SANDBOX_MAX_FDS], program = SANDBOX_FIRST_FD + (int)n;
	char text[16], *argv[] = {(char *)"memtrace-web", text, NULL}, *env[] = {NULL};
	sigset_t none;

	snprintf(text, sizeof(text), "%zu", listening);
	memcpy(all, fds, n * sizeof(*fds));
	all[n] = s->program;
	/* the program keeps all of these descriptors except that of its own file */
	if (sandbox__leave(parent, all, n + 1) || fcntl(program, F_SETFD, FD_CLOEXEC))
		_exit(126);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	fexecve(program, argv, env);
	_exit(127);
}

int server__check_guard(struct server *s, struct error *err)
{
	/* The check needs no feed. The guard's descriptor is passed in its place, too. */
	const int fds[] = {s->guard, s->guard};
	pid_t parent = getpid(), pid = sandbox__fork();
	int status;

	if (!pid)
		execute(s, parent, 0, fds, 2);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return error__set(err, -errno, "cannot start memtrace-web: %s", strerror(errno));
	if (status)
		return error__set(err, -EINVAL,
				  "the files of --tls-cert and --tls-key do not hold a certificate "
				  "and its key in PEM without a password");
	return 0;
}

static void lose(struct server *s)
{
	if (s->feed >= 0)
		close(s->feed);
	s->feed = -1;
	outbox__clear(&s->outbox);
	if (s->pid > 0) {
		double now = clock__monotonic_s();
		struct rusage usage;

		kill(s->pid, SIGKILL);
		if (wait4(s->pid, NULL, 0, &usage) == s->pid)
			s->ended_ns += own__usage_ns(&usage);
		s->again_s = now + backoff__next(&s->backoff, now - s->begun_s);
	}
	s->pid = 0;
}

/* Sends the text of s->push in a file in memory. The text has tokens in it, which an argument would
 * show to everybody. */
static int send_push(struct server *s)
{
	struct feed_message message = {.kind = FEED_PUSH};
	_cleanup_close_ int memory = -1;
	size_t len = s->push ? strlen(s->push) : 0, done = 0;

	if (!len)
		return 0;
	memory = memfd_create("memtrace push", MFD_CLOEXEC);
	if (memory < 0)
		return -errno;
	while (done < len) {
		ssize_t n = write(memory, s->push + done, len - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return outbox__send(&s->outbox, s->feed, &message, memory);
}

int server__start(struct server *s, struct error *err)
{
	int fds[2 + AGENT_LISTEN], pair[2], rc;
	pid_t parent = getpid();

	if (s->feed >= 0 || clock__monotonic_s() < s->again_s)
		return 0;
	rc = feed__pair(pair);
	if (rc)
		return error__set(err, rc, "cannot make a pair of sockets: %s", strerror(-rc));
	fds[0] = pair[1];
	fds[1] = s->guard;
	for (size_t i = 0; i < s->n_listening; i++)
		fds[2 + i] = s->listening[i].fd;
	s->pid = sandbox__fork();
	if (!s->pid)
		execute(s, parent, s->n_listening, fds, 2 + s->n_listening);
	rc = -errno;
	close(pair[1]);
	if (s->pid < 0) {
		s->again_s = clock__monotonic_s() + backoff__next(&s->backoff, 0);
		close(pair[0]);
		s->pid = 0;
		return error__set(err, rc, "cannot start memtrace-web: %s", strerror(-rc));
	}
	s->feed = pair[0];
	s->begun_s = s->progress_s = clock__monotonic_s();
	s->unread = 0;
	s->n_started++;
	rc = send_push(s);
	if (rc && rc != -EPIPE) { /* -EPIPE: the server has ended already, which is noticed soon */
		lose(s);
		return error__set(err, rc, "cannot tell memtrace-web where to push: %s",
				  strerror(-rc));
	}
	return 0;
}

void server__end(struct server *s)
{
	lose(s);
	for (size_t i = 0; i < s->n_listening; i++)
		listener__close(&s->listening[i]);
	if (s->program >= 0)
		close(s->program);
	if (s->guard >= 0)
		close(s->guard);
	s->n_listening = 0;
	s->program = s->guard = -1;
}

/* --- what the server is told --- */

/* Sends waiting messages, and notes how much the server has read. */
static void look_at_unread(struct server *s)
{
	size_t waiting = s->outbox.n;

	if (outbox__flush(&s->outbox, s->feed)) {
		lose(s);
		return;
	}
	/* if there was room for a message that had waited, the server has read earlier ones */
	if (!s->outbox.unread || s->outbox.unread < s->unread || s->outbox.n < waiting)
		s->progress_s = clock__monotonic_s();
	s->unread = s->outbox.unread;
}

/* Sends a message without waiting. 0, or negative errno if the message is dropped. */
static int tell(struct server *s, const struct feed_message *message, int memory)
{
	uint64_t size = memory >= 0 ? io__file_bytes(memory) : 0;
	int rc;

	look_at_unread(s);
	if (s->feed < 0)
		return -EPIPE;
	if (s->outbox.bytes + size > SERVER_UNREAD)
		return -EAGAIN;
	rc = outbox__send(&s->outbox, s->feed, message, memory);
	if (rc == -EPIPE)
		lose(s);
	return rc;
}

/* Sends a message that says only that a process lives. */
static void say_alive(struct server *s, const struct feed_message *message)
{
	s->any_unnamed |= tell(s, message, -1) != 0;
}

int server__send_profile(struct server *s, const struct profile *profile, uint64_t taken_ns)
{
	struct feed_message message = {
		.kind = FEED_PROFILE, .pid = profile->pid, .taken_ns = taken_ns};
	_cleanup_close_ int memory = -1;
	int rc;

	if (s->feed < 0)
		return 0;
	container__of(profile->pid, &message.container);
	rc = packet__of_profile(profile, &memory);
	if (rc)
		return rc;
	if (!tell(s, &message, memory))
		return 0;
	s->n_dropped++;
	message.kind = FEED_LEFT_OUT;
	say_alive(s, &message);
	return 1;
}

int server__send_same(struct server *s, pid_t pid)
{
	struct feed_message message = {
		.kind = FEED_SAME, .pid = pid, .taken_ns = clock__now_ns(CLOCK_REALTIME)};

	if (s->feed >= 0)
		say_alive(s, &message);
	return 0;
}

int server__send_inactive(struct server *s, pid_t pid, const char *why)
{
	struct feed_message message = {
		.kind = FEED_INACTIVE, .pid = pid, .taken_ns = clock__now_ns(CLOCK_REALTIME)};

	snprintf(message.why, sizeof(message.why), "%s", why);
	if (s->feed >= 0)
		say_alive(s, &message);
	return 0;
}

void server__end_round(struct server *s, const struct feed_message *round)
{
	struct feed_message message = *round;
	struct rusage usage;

	if (s->feed < 0)
		return;
	message.kind = FEED_ROUND;
	message.taken_ns = clock__now_ns(CLOCK_REALTIME);
	message.n_dropped = s->n_dropped;
	message.complete &= !s->any_unnamed;
	s->any_unnamed = false;
	message.cpu_ns = own__cpu_ns() - s->ended_ns;
	if (!getrusage(RUSAGE_SELF, &usage))
		message.user_bytes = 1024ull * (uint64_t)usage.ru_maxrss;
	tell(s, &message, -1);
}

short server__events(const struct server *s, bool deaf)
{
	return (short)((deaf ? 0 : POLLIN) | (s->outbox.n ? POLLOUT : 0));
}

void server__listen_to(struct server *s, struct server_wishes *wishes)
{
	struct feed_message message;
	int memory, rc = 0;

	if (s->feed < 0)
		return;
	/* at most 64 messages are read in one call, so that other work is not held up */
	for (int i = 0; i < 64 && wishes->n < SERVER_WISHES; i++) {
		rc = feed__receive(s->feed, &message, &memory);
		if (memory >= 0)
			close(memory);
		if (rc <= 0)
			break;
		if (message.kind == FEED_ASK) {
			wishes->round = true;
		} else if (message.kind == FEED_ACTIVATE || message.kind == FEED_DEACTIVATE ||
			   message.kind == FEED_FAVOUR) {
			wishes->of[wishes->n].pid = message.pid;
			wishes->of[wishes->n++].kind = (enum feed_kind)message.kind;
		} else {
			rc = -EPROTO;
			break;
		}
	}
	look_at_unread(s);
	if (rc < 0 || clock__monotonic_s() - s->progress_s > HANG_S)
		lose(s); /* does nothing if there is no server */
}
