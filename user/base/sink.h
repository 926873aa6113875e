/* SPDX-License-Identifier: BSD-2-Clause */
/* A sink takes the bytes that an encoder makes: a file, a reply, a test's buffer. */
#ifndef MEMTRACE_BASE_SINK_H
#define MEMTRACE_BASE_SINK_H

#include <stddef.h>
#include <stdio.h>

struct sink {
	/* Takes all len bytes; 0 or negative errno. */
	int (*write)(void *ctx, const void *data, size_t len);
	void *ctx;
	int error; /* the first failure, or 0. After a failure, writes do nothing and return this
		    * error */
};

/* Write len bytes, a string, or a formatted text. 0, or the sink's error: what write() returned, or
 * -ENOMEM. */
int sink__write(struct sink *sink, const void *data, size_t len);
int sink__puts(struct sink *sink, const char *text);
int sink__printf(struct sink *sink, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A sink that writes to a stdio stream. The caller still owns the stream. If the stream still
 * buffers data, an error shows only at the caller's fflush(). */
struct sink sink__to_stream(FILE *stream);

#endif
