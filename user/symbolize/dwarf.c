// SPDX-License-Identifier: BSD-2-Clause
/* Two processes. The child is alone with libdw (dwarf_child.h). The parent, here, looks at the
 * names of sections and reads the stream of the child, both with bounds. */
#include "symbolize/dwarf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "elf/headers.h"
#include "symbolize/clean.h"
#include "symbolize/dwarf_child.h"

#define MAX_ADDRESSES	 (1u << 24) /* per call */
#define MAX_PATIENCE_S	 86400.0
#define WAITING_MS	 100
#define MAX_STREAM_BYTES (256u << 20) /* from the child, */
#define ADDRESS_BYTES	 (16u << 10)  /* and per address, on average; clang's take 1 KiB */

struct dwarf_test_hooks dwarf__test_hooks;

bool dwarf__present(int fd)
{
	struct elf_headers headers;
	Elf64_Shdr section;

	return !elf_headers__read(fd, "", &headers, NULL) &&
	       (elf_headers__find_section(&headers, ".debug_info", 0, &section) ||
		elf_headers__find_section(&headers, ".zdebug_info", 0, &section));
}

struct stream {
	int fd;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	const struct dwarf_waiting *waiting;
	size_t left;	/* bytes that may still come */
	size_t at, end; /* what buf holds that was not taken yet */
	unsigned char buf[65536];
};

/* Waits for some bytes. Their number, 0 at the end, or negative errno. */
static ssize_t stream__fill(struct stream *stream)
{
	struct pollfd poll_fd = {.fd = stream->fd, .events = POLLIN};
	ssize_t len;

	for (;;) {
		uint64_t now_ns = clock__now_ns(CLOCK_MONOTONIC), left_ms;
		int ready;

		if (now_ns >= stream->deadline_ns)
			return -ETIMEDOUT;
		left_ms = (stream->deadline_ns - now_ns) / 1000000 + 1;
		if (stream->waiting)
			stream->waiting->fn(stream->waiting->ctx);
		ready = poll(&poll_fd, 1, left_ms < WAITING_MS ? (int)left_ms : WAITING_MS);
		if (ready < 0 && errno != EINTR)
			return -errno;
		if (ready <= 0)
			continue;
		len = read(stream->fd, stream->buf, sizeof(stream->buf));
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return -errno;
		stream->at = 0;
		stream->end = (size_t)len;
		if ((size_t)len > stream->left)
			return -ECHILD;
		stream->left -= (size_t)len;
		return len;
	}
}

/* Exactly len bytes: 1; none, at the end: 0; else negative errno. */
static int stream__read(struct stream *stream, void *to, size_t len)
{
	for (size_t got = 0, n; got < len; got += n) {
		if (stream->at == stream->end) {
			ssize_t more = stream__fill(stream);

			if (more < 0)
				return (int)more;
			if (!more)
				return got ? -ECHILD : 0;
		}
		n = stream->end - stream->at;
		if (n > len - got)
			n = len - got;
		memcpy((char *)to + got, stream->buf + stream->at, n);
		stream->at += n;
	}
	return 1;
}

/* The same where the end may not come. 0 or negative errno. */
static int stream__read_all(struct stream *stream, void *to, size_t len)
{
	int got = stream__read(stream, to, len);

	return got > 0 || !len ? 0 : got < 0 ? got : -ECHILD;
}

static int read_string(struct stream *stream, uint32_t len, char **ret_string)
{
	_cleanup_free_ char *string = NULL;
	int err;

	if (len == DWARF_NO_STRING)
		return 0;
	if (len > NAME_MAX_BYTES)
		return -ECHILD;
	string = malloc(len + 1);
	if (!string)
		return -ENOMEM;
	err = stream__read_all(stream, string, len);
	if (err)
		return err;
	string[len] = '\0';
	clean_name(string);
	*ret_string = string;
	string = NULL;
	return 0;
}

static int read_frames(struct stream *stream, struct dwarf_frames *frames)
{
	for (size_t i = 0; i < frames->n; i++) {
		struct dwarf_frame *frame = &frames->frames[i];
		struct dwarf_wire_frame wire;
		int err;

		err = stream__read_all(stream, &wire, sizeof(wire));
		if (!err)
			err = read_string(stream, wire.function_len, &frame->function);
		if (!err)
			err = read_string(stream, wire.file_len, &frame->file);
		if (err)
			return err;
		frame->line = wire.line;
	}
	return 0;
}

/* All that the child says. */
static int receive(struct stream *stream, size_t n, struct dwarf_frames *ret)
{
	struct dwarf_record record;
	int got;

	while ((got = stream__read(stream, &record, sizeof(record))) > 0) {
		struct dwarf_frames frames = {.n = record.n};
		int err;

		if (record.at >= n || ret[record.at].n || !record.n || record.n > DWARF_MAX_FRAMES)
			return -ECHILD;
		frames.frames = calloc(frames.n, sizeof(*frames.frames));
		if (!frames.frames)
			return -ENOMEM;
		err = read_frames(stream, &frames);
		if (err) {
			dwarf_frames__free(&frames, 1);
			return err;
		}
		ret[record.at] = frames;
	}
	return got;
}

/* Ends the child, if it has not ended by itself. What its end says. */
static int reap(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status))
		return -ECHILD;
	switch (WEXITSTATUS(status)) {
	case DWARF_EXIT_DONE:
		return 0;
	case DWARF_EXIT_NO_DWARF:
		return -ENODATA;
	case DWARF_EXIT_NO_SANDBOX:
		return -EPERM;
	default:
		return -ECHILD;
	}
}

int dwarf__resolve(int fd, const uint64_t *vaddrs, size_t n, double patience_s,
		   const struct dwarf_waiting *waiting, struct dwarf_frames *ret)
{
	_cleanup_close_ int read_fd = -1, write_fd = -1;
	_cleanup_free_ struct stream *stream = NULL;
	pid_t parent = getpid(), pid;
	sigset_t all, old;
	int fds[2], err, end;

	for (size_t i = 0; i < n; i++)
		ret[i] = (struct dwarf_frames){0};
	if (n > MAX_ADDRESSES)
		return -EINVAL;
	if (!dwarf__present(fd))
		return -ENODATA;
	if (!n)
		return 0;
	patience_s = patience_s > 0 ? fmin(patience_s, MAX_PATIENCE_S) : 0;
	stream = malloc(sizeof(*stream));
	if (!stream)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	read_fd = fds[0];
	write_fd = fds[1];
	stream->deadline_ns = clock__now_ns(CLOCK_MONOTONIC) + (uint64_t)(patience_s * 1e9);
	stream->fd = read_fd;
	stream->waiting = waiting;
	stream->left =
		n < MAX_STREAM_BYTES / ADDRESS_BYTES ? (n + 1) * ADDRESS_BYTES : MAX_STREAM_BYTES;
	stream->at = stream->end = 0;

	/* The child never unblocks them: our handlers are not for it, nor is the terminal's ^C. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (!pid)
		dwarf_child__run(&(struct dwarf_child){
			.parent = parent,
			.file_fd = fd,
			.out_fd = write_fd,
			.cpu_s = (unsigned int)patience_s + 1,
			.vaddrs = vaddrs,
			.n = n,
			.hooks = &dwarf__test_hooks,
		});
	err = pid < 0 ? -errno : 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return err;

	close(write_fd);
	write_fd = -1;
	err = receive(stream, n, ret);
	/* Its own closing of the pipe is part of its end, after which a signal changes no status.
	 */
	end = reap(pid);
	return err ? err : end;
}

void dwarf_frames__free(struct dwarf_frames *frames, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < frames[i].n; k++) {
			free(frames[i].frames[k].function);
			free(frames[i].frames[k].file);
		}
		free(frames[i].frames);
		frames[i] = (struct dwarf_frames){0};
	}
}
