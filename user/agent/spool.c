// SPDX-License-Identifier: BSD-2-Clause
#include "agent/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/packet.h"
#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/io.h"

#define OPEN_S	2.0 /* spool__open() waits at most this long for the child to open the directory */
#define TRY_US	10000
#define CLOSE_S 5.0 /* spool__close() waits at most this long for the child to write the rest */
/* Descriptors of mt-spool. */
#define SOCKET_FD 3
#define DIR_FD	  4

/* --- in mt-spool --- */

static void write_all(void)
{
	struct spool_report report;
	int memory, rc;

	for (;;) {
		struct pollfd news = {.fd = SOCKET_FD, .events = POLLIN};
		size_t n_removed = 0;

		poll(&news, 1, -1);
		rc = packet__receive(SOCKET_FD, &report, sizeof(report), &memory);
		if (rc < 0)
			return;
		if (!rc)
			continue;
		report.error = spool_dir__make_room(DIR_FD, io__file_bytes(memory), &n_removed);
		if (!report.error) {
			spool_dir__free_name(DIR_FD, report.name);
			report.error = spool_dir__write(DIR_FD, report.name, memory);
		}
		report.n_removed = (uint32_t)n_removed;
		close(memory);
		packet__send(SOCKET_FD, &report, sizeof(report), -1);
	}
}

/* Opens the directory, and gives up all capabilities. Opening may take for ever on a file system
 * that does not answer. 0 or negative errno. */
static int open_dir(const char *path)
{
	int dir = spool_dir__open(path);

	if (dir < 0)
		return dir;
	if (dir != DIR_FD && (dup2(dir, DIR_FD) < 0 || close(dir)))
		return -errno;
	if (capabilities__limit(0, 0) || faccessat(DIR_FD, ".", W_OK | X_OK, AT_EACCESS))
		return -errno;
	return 0;
}

static void run(int fd, const char *path)
{
	struct spool_report report = {};
	size_t n;

	prctl(PR_SET_NAME, "mt-spool");
	if ((fd != SOCKET_FD && dup2(fd, SOCKET_FD) < 0) ||
	    syscall(SYS_close_range, SOCKET_FD + 1, ~0u, 0))
		_exit(1);
	report.error = open_dir(path) ?: spool_dir__make_room(DIR_FD, 0, &n);
	packet__send(SOCKET_FD, &report, sizeof(report), -1);
	if (!report.error)
		write_all();
	_exit(0);
}

/* --- in the tracer --- */

static bool wait_for(int fd, double until_s)
{
	struct pollfd news = {.fd = fd, .events = POLLIN};
	double left = until_s - clock__monotonic_s();

	return left > 0 && poll(&news, 1, (int)(left * 1000) + 1) > 0;
}

static int refuse(const char *path, int rc, struct error *err)
{
	return error__set(err, rc,
			  "cannot use %s as spool: %s; it must be a directory of the user who runs "
			  "memtrace, and that user must be able to write to it",
			  path, strerror(-rc));
}

int spool__open(struct spool *s, const char *path, struct error *err)
{
	struct spool_report first = {};
	int pair[2], none, rc = packet__pair(pair);

	if (rc)
		return error__set(err, rc, "cannot make a pair of sockets: %s", strerror(-rc));
	s->pid = fork__blocked(); /* mt-spool ends by itself after the tracer */
	if (!s->pid)
		run(pair[1], path);
	rc = -errno;
	close(pair[1]);
	if (s->pid < 0) {
		close(pair[0]);
		return error__set(err, rc, "cannot start mt-spool: %s", strerror(-rc));
	}
	s->fd = pair[0];
	s->is_slow = !wait_for(s->fd, clock__monotonic_s() + OPEN_S);
	if (!s->is_slow) {
		rc = packet__receive(s->fd, &first, sizeof(first), &none);
		if (rc < 0)
			first.error = rc;
	}
	if (first.error) {
		kill(s->pid, SIGKILL);
		spool__close(s);
		return refuse(path, first.error, err);
	}
	return 0;
}

/* A child makes the check. It gives up all capabilities before it checks for the right to write,
 * because mt-spool writes without capabilities, too. */
int spool__try(const char *path, struct error *err)
{
	double until = clock__monotonic_s() + OPEN_S;
	pid_t pid = fork__blocked(), ended;
	int status = 0;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		_exit(-open_dir(path));
	}
	if (pid < 0)
		return error__set(err, -errno, "cannot fork: %s", strerror(errno));
	while (!(ended = waitpid(pid, &status, WNOHANG)) && clock__monotonic_s() < until)
		usleep(TRY_US);
	if (!ended) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, WNOHANG); /* the child may hang for ever */
	}
	return ended == pid && WIFEXITED(status) && WEXITSTATUS(status)
		       ? refuse(path, -WEXITSTATUS(status), err)
		       : 0;
}

int spool__keep(struct spool *s, const struct profile *profile)
{
	struct spool_report report = {};
	_cleanup_close_ int memory = -1;
	int rc = 0;

	if (s->fd >= 0 && s->n_waiting < SPOOL_WAITING) {
		rc = packet__of_profile(profile, &memory);
		spool_dir__name(profile, report.name);
		if (!rc && !packet__send(s->fd, &report, sizeof(report), memory)) {
			s->n_waiting++;
			return 0;
		}
	}
	s->n_lost++;
	return rc;
}

bool spool__report(struct spool *s, struct spool_report *ret)
{
	int none, rc;

	if (s->fd < 0)
		return false;
	rc = packet__receive(s->fd, ret, sizeof(*ret), &none);
	if (!rc)
		return false;
	if (s->is_slow && rc > 0) { /* mt-spool's first report */
		s->is_slow = false;
		if (!ret->error)
			return true;
		rc = ret->error; /* after this report mt-spool ends */
	}
	if (rc < 0) { /* mt-spool was killed, or cannot write to the directory */
		*ret = (struct spool_report){.error = rc};
		s->n_lost += s->n_waiting;
		s->n_waiting = 0;
		close(s->fd);
		s->fd = -1;
		waitpid(s->pid, NULL, WNOHANG);
		return true;
	}
	s->n_waiting -= s->n_waiting > 0;
	s->n_removed += ret->n_removed;
	*(ret->error ? &s->n_lost : &s->n_written) += 1;
	return true;
}

void spool__close(struct spool *s)
{
	double until = clock__monotonic_s() + CLOSE_S;
	struct spool_report ignored;

	if (s->fd < 0)
		return;
	while (s->n_waiting && wait_for(s->fd, until) && spool__report(s, &ignored))
		;
	close(s->fd);
	s->fd = -1;
	waitpid(s->pid, NULL, WNOHANG); /* does not wait for an mt-spool that still writes */
}
