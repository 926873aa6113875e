// SPDX-License-Identifier: BSD-2-Clause
#include "cli/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "decode/decode.h"
#include "encode/text.h"
#include "sandbox/sandbox.h"

#define UNIX_PREFIX  "unix:/"
#define MOST_S	     "30"
#define MOST_PEM     (1 << 20)	       /* bytes of certificates */
#define MOST_SAID    4096	       /* bytes of an error message */
#define CERTIFICATES "/proc/self/fd/6" /* SANDBOX_FIRST_FD + 3 */
#define NO_CURL	     127	       /* exit status, like a shell's */

bool fetch__is_url(const char *name)
{
	return !strncmp(name, "http://", 7) || !strncmp(name, "https://", 8) ||
	       !strncmp(name, UNIX_PREFIX, strlen(UNIX_PREFIX));
}

/* Writes the settings to a file that curl reads as its standard input. (Everybody could see
 * settings that are given as arguments.) */
static int write_settings(const struct fetch_options *options)
{
	_cleanup_close_ int fd = memfd_create("memtrace fetch", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (options->token && dprintf(fd, "oauth2-bearer = \"%s\"\n", options->token) < 0)
		return -errno;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return take_fd(&fd);
}

/* Makes a copy of the certificates in memory, because curl runs as nobody and may not be able to
 * read the file. Without certificates, returns 0, and the descriptor is -1. */
static int copy_certificates(const char *path, int *ret, struct error *err)
{
	_cleanup_close_ int from = -1, to = -1;
	_cleanup_free_ char *text = NULL;
	size_t len;
	int rc;

	*ret = -1;
	if (!path)
		return 0;
	from = open(path, O_RDONLY | O_CLOEXEC);
	rc = from < 0 ? -errno : io__read_all(from, MOST_PEM, &text, &len);
	if (rc)
		return error__set(err, rc, "cannot read %s: %s", path, strerror(-rc));
	to = memfd_create("memtrace cacert", MFD_CLOEXEC);
	if (to < 0 || write(to, text, len) != (ssize_t)len)
		return error__set(err, -ENOMEM, "out of memory");
	*ret = take_fd(&to);
	return 0;
}

/* Runs curl, in the child. fds: the future standard input, output and error, and the certificates
 * or -1. */
static void run_curl(pid_t parent, const int fds[4], const char *socket, const char *url)
{
	size_t n_fds = fds[3] < 0 ? 3 : 4;

	char most[24];
	const char *argv[32] = {"curl",	      "--disable", "--silent",	     "--show-error",
				"--fail",     "--globoff", "--proto",	     "=http,https",
				"--max-time", MOST_S,	   "--max-filesize", most,
				"--noproxy",  "*",	   "--config",	     "-"};
	size_t n = 0;
	sigset_t none;

	snprintf(most, sizeof(most), "%u", DECODE_MAX_BYTES);
	while (argv[n])
		n++;
	if (socket) {
		argv[n++] = "--unix-socket";
		argv[n++] = socket;
	}
	if (n_fds == 4) {
		argv[n++] = "--cacert";
		argv[n++] = CERTIFICATES;
	}
	argv[n++] = "--url";
	argv[n++] = url;
	/* A unix socket is open to its owner and its group only. So for a socket, curl keeps
	 * memtrace's user. */
	if (socket ? sandbox__leave_as_user(parent, fds, n_fds)
		   : sandbox__leave(parent, fds, n_fds))
		_exit(126);
	for (int i = 0; i < 3; i++)
		if (dup2(SANDBOX_FIRST_FD + i, i) < 0 || close(SANDBOX_FIRST_FD + i))
			_exit(126);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(argv[0], (char *const *)argv);
	_exit(errno == ENOENT ? NO_CURL : 126);
}

/* Reads curl's output, and waits for curl's end. */
static int take_answer(pid_t pid, int out, int said, const char *url, char **ret_bytes,
		       size_t *ret_len, struct error *err)
{
	_cleanup_free_ char *bytes = NULL, *text = NULL, *printable = NULL;
	size_t len;
	int status, rc = io__read_all(out, DECODE_MAX_BYTES, &bytes, ret_len);

	if (rc)
		kill(pid, SIGKILL);
	if (!io__read_all(said, MOST_SAID, &text, &len)) {
		text[strcspn(text, "\r\n")] = '\0';
		printable = text_printable(text);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error__set(err, -errno, "%s: %s", url, strerror(errno));
	if (rc)
		return error__set(err, rc, "cannot fetch %s: %s", url, strerror(-rc));
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_CURL)
		return error__set(err, -ENOENT, "curl, which fetches %s, is missing: install it",
				  url);
	if (status)
		return error__set(err, -EIO, "cannot fetch %s: %s", url,
				  printable && *printable ? printable : "curl failed");
	*ret_bytes = bytes;
	bytes = NULL;
	return 0;
}

/* Fetches the profile's bytes. socket: the path of a unix socket; NULL: url names a host. */
static int fetch(const char *name, const char *socket, const char *url,
		 const struct fetch_options *options, char **ret_bytes, size_t *ret_len,
		 struct error *err)
{
	_cleanup_close_ int settings = write_settings(options), certificates = -1;
	_cleanup_close_ int out_end = -1, said_end = -1;
	int out[2], said[2];
	pid_t parent = getpid(), pid;

	if (settings < 0)
		return error__set(err, settings, "cannot fetch %s: %s", name, strerror(-settings));
	if (copy_certificates(options->cacert, &certificates, err))
		return err->code;
	if (pipe2(out, O_CLOEXEC))
		return error__set(err, -errno, "cannot fetch %s: %s", name, strerror(errno));
	out_end = out[0];
	if (pipe2(said, O_CLOEXEC)) {
		close(out[1]);
		return error__set(err, -errno, "cannot fetch %s: %s", name, strerror(errno));
	}
	said_end = said[0];
	pid = sandbox__fork();
	if (!pid)
		run_curl(parent, (const int[]){settings, out[1], said[1], certificates}, socket,
			 url);
	close(out[1]);
	close(said[1]);
	if (pid < 0)
		return error__set(err, -EAGAIN, "cannot fetch %s: no process can be made", name);
	return take_answer(pid, out_end, said_end, name, ret_bytes, ret_len, err);
}

int fetch__profile(const char *url, const struct fetch_options *options,
		   struct profile **ret_profile, struct error *err)
{
	_cleanup_free_ char *bytes = NULL, *socket = NULL, *local = NULL;
	struct profile *profile;
	size_t len;
	int rc;

	if (!strncmp(url, UNIX_PREFIX, strlen(UNIX_PREFIX))) {
		const char *path = strstr(url + strlen(UNIX_PREFIX), ":/");

		if (!path)
			return error__set(err, -EINVAL,
					  "%s is not of the form unix:SOCKET:PATH. An example is "
					  "unix:/run/memtrace/socket:/pid/1/debug/pprof/heap",
					  url);
		socket = strndup(url + strlen("unix:"), (size_t)(path - url) - strlen("unix:"));
		if (!socket || asprintf(&local, "http://localhost%s", path + 1) < 0) {
			local = NULL;
			return error__set(err, -ENOMEM, "out of memory");
		}
	}
	rc = fetch(url, socket, local ?: url, options, &bytes, &len, err);
	if (!rc)
		rc = decode_bytes(url, bytes, len, &profile, err);
	if (rc)
		return rc;
	/* the file's name is the URL, so that outputs name the host */
	profile->file = profile__keep(profile, url);
	if (!profile->file) {
		profile__free(profile);
		return error__set(err, -ENOMEM, "out of memory");
	}
	*ret_profile = profile;
	return 0;
}
