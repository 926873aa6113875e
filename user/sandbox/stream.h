/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads bytes from an untrusted sender, but no more than a limit, and none after a deadline. */
#ifndef MEMTRACE_SANDBOX_STREAM_H
#define MEMTRACE_SANDBOX_STREAM_H

#include <stdbool.h>
#include <stddef.h>

/* Called about ten times a second while a caller waits. */
struct stream_waiting {
	void (*fn)(void *ctx);
	void *ctx;
};

/* waiting: NULL for none. */
static inline void stream_waiting__call(const struct stream_waiting *waiting)
{
	if (waiting)
		waiting->fn(waiting->ctx);
}

struct stream; /* opaque */

/* Makes a stream that reads from fd, which the caller keeps. patience_s: time limit for the whole
 * stream, from now on. max_bytes: limit for the sum of all bytes. waiting: NULL for none. Returns 0
 * or -ENOMEM. */
int stream__new(int fd, double patience_s, const struct stream_waiting *waiting, size_t max_bytes,
		struct stream **ret);
void stream__free(struct stream *stream);

/* Has the sender closed the stream, or is the deadline over? If the sender has closed the stream,
 * and its last bytes fit into a pipe, they can be read without waiting. */
bool stream__closed(const struct stream *stream);

/* Reads exactly len bytes. Returns 1; 0 when the stream is at its end; -ETIMEDOUT; -ECHILD when the
 * stream ends within the len bytes or exceeds max_bytes; or a read error. */
int stream__read(struct stream *stream, void *to, size_t len);

/* Like stream__read(), but the end of the stream is an error: 0, or negative errno as above. */
int stream__read_all(struct stream *stream, void *to, size_t len);

#endif
