// SPDX-License-Identifier: BSD-2-Clause
#include "sandbox/stream.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define MAX_PATIENCE_S 86400.0
#define WAITING_MS     100

struct stream {
	int fd;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	const struct stream_waiting *waiting;
	size_t left;	/* how many more bytes may come */
	size_t at, end; /* the part of buf that is not read yet */
	unsigned char buf[65536];
};

int stream__new(int fd, double patience_s, const struct stream_waiting *waiting, size_t max_bytes,
		struct stream **ret)
{
	struct stream *stream = malloc(sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	patience_s = patience_s > 0 ? fmin(patience_s, MAX_PATIENCE_S) : 0;
	stream->fd = fd;
	stream->deadline_ns = clock__now_ns(CLOCK_MONOTONIC) + (uint64_t)(patience_s * 1e9);
	stream->waiting = waiting;
	stream->left = max_bytes;
	stream->at = stream->end = 0;
	*ret = stream;
	return 0;
}

void stream__free(struct stream *stream)
{
	free(stream);
}

bool stream__closed(const struct stream *stream)
{
	struct pollfd poll_fd = {.fd = stream->fd};

	return poll(&poll_fd, 1, 0) > 0 || clock__now_ns(CLOCK_MONOTONIC) >= stream->deadline_ns;
}

/* Waits for some bytes. Returns their number, 0 at the end of the stream, or negative errno. */
static ssize_t wait_for(struct stream *stream, void *to, size_t room)
{
	struct pollfd poll_fd = {.fd = stream->fd, .events = POLLIN};
	ssize_t len;

	for (;;) {
		uint64_t now_ns = clock__now_ns(CLOCK_MONOTONIC), left_ms;
		int ready;

		if (now_ns >= stream->deadline_ns)
			return -ETIMEDOUT;
		left_ms = (stream->deadline_ns - now_ns) / 1000000 + 1;
		stream_waiting__call(stream->waiting);
		ready = poll(&poll_fd, 1, left_ms < WAITING_MS ? (int)left_ms : WAITING_MS);
		if (ready < 0 && errno != EINTR)
			return -errno;
		if (ready <= 0)
			continue;
		len = read(stream->fd, to, room);
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return -errno;
		if ((size_t)len > stream->left)
			return -ECHILD;
		stream->left -= (size_t)len;
		return len;
	}
}

/* Reads long data directly into its place, and short data through the buffer. */
int stream__read(struct stream *stream, void *to, size_t len)
{
	for (size_t got = 0, n; got < len; got += n) {
		bool direct = stream->at == stream->end && len - got >= sizeof(stream->buf);
		ssize_t more = 0;

		if (direct)
			more = wait_for(stream, (char *)to + got, len - got);
		else if (stream->at == stream->end)
			more = wait_for(stream, stream->buf, sizeof(stream->buf));
		if (more < 0)
			return (int)more;
		if (direct) {
			n = (size_t)more;
		} else {
			if (more) {
				stream->at = 0;
				stream->end = (size_t)more;
			}
			n = stream->end - stream->at;
			if (n > len - got)
				n = len - got;
			memcpy((char *)to + got, stream->buf + stream->at, n);
			stream->at += n;
		}
		if (!n)
			return got ? -ECHILD : 0;
	}
	return 1;
}

int stream__read_all(struct stream *stream, void *to, size_t len)
{
	int got = stream__read(stream, to, len);

	return got > 0 || !len ? 0 : got < 0 ? got : -ECHILD;
}
