// SPDX-License-Identifier: BSD-2-Clause
#include "cli/nowait.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

#define READER_MS 100 /* if there is a reader, it makes room within this time */

int nowait__open(int fd)
{
	struct stat st;
	char path[32];
	int twin = -1;

	/* O_NONBLOCK is a flag of the open file, which memtrace shares with the shell. So the
	 * terminal or pipe is opened anew, and only the new open file gets the flag. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!fstat(fd, &st) && (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode)))
		twin = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return twin < 0 ? fd : twin;
}

/* Writes to a file that is no socket. If the terminal or pipe could not be opened anew, a write may
 * block. So this function asks for room first, and writes no more than a pipe with room takes at
 * once. */
static ssize_t write_if_room(int to, const char *text, size_t len)
{
	struct pollfd room = {.fd = to, .events = POLLOUT};
	int flags = fcntl(to, F_GETFL);

	if (flags < 0 || flags & O_NONBLOCK)
		return write(to, text, len);
	if (poll(&room, 1, 0) <= 0)
		return 0;
	return write(to, text, len < PIPE_BUF ? len : PIPE_BUF);
}

ssize_t nowait__write(int to, const char *text, size_t len)
{
	ssize_t n = send(to, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno == ENOTSOCK)
		n = write_if_room(to, text, len);
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static int to_stderr = -1;

void nowait__begin(void)
{
	if (to_stderr < 0)
		to_stderr = nowait__open(STDERR_FILENO);
}

void nowait__put(const char *text, size_t len)
{
	static bool stuck; /* nobody read the last text, so do not wait again */
	struct pollfd room = {.events = POLLOUT};
	double end_s = clock__monotonic_s() + 1e-3 * READER_MS;

	nowait__begin();
	room.fd = to_stderr;
	while (len) {
		ssize_t n = nowait__write(to_stderr, text, len);

		if (n < 0)
			return;
		text += n;
		len -= (size_t)n;
		if (n)
			stuck = false;
		else if (stuck || clock__monotonic_s() >= end_s || poll(&room, 1, READER_MS) <= 0) {
			stuck = true;
			return;
		}
	}
}

void nowait__complain(const char *text)
{
	char line[1100];
	int n = snprintf(line, sizeof(line), "memtrace: %s\n", text);

	nowait__put(line, n < (int)sizeof(line) ? (size_t)n : sizeof(line) - 1);
}
