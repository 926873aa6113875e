/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes from somebody who is not believed: no more of them than were agreed upon, and none after a
 * deadline. */
#ifndef MEMTRACE_SYMBOLIZE_STREAM_H
#define MEMTRACE_SYMBOLIZE_STREAM_H

#include <stddef.h>

/* Called some ten times a second while somebody waits. */
struct stream_waiting {
	void (*fn)(void *ctx);
	void *ctx;
};

/* waiting: NULL for nobody. */
static inline void stream_waiting__call(const struct stream_waiting *waiting)
{
	if (waiting)
		waiting->fn(waiting->ctx);
}

struct stream; /* opaque */

/* Reads from fd, which stays the caller's. patience_s: how long the whole may take, from now on.
 * max_bytes: how much may come. waiting: NULL for none. 0 or -ENOMEM. */
int stream__new(int fd, double patience_s, const struct stream_waiting *waiting, size_t max_bytes,
		struct stream **ret);
void stream__free(struct stream *stream);

/* Exactly len bytes: 1; none, at the end: 0; -ETIMEDOUT; -ECHILD: it ends amid them, or there are
 * more than agreed; what reading gives. */
int stream__read(struct stream *stream, void *to, size_t len);

/* The same where the end may not come: 0, or negative errno as above. */
int stream__read_all(struct stream *stream, void *to, size_t len);

#endif
