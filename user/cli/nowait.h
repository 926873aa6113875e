/* SPDX-License-Identifier: BSD-2-Clause */
/* Text for a terminal or a pipe that perhaps nobody reads: what does not fit at once is dropped, so
 * that who keeps a limit never waits for a reader. */
#ifndef MEMTRACE_CLI_NOWAIT_H
#define MEMTRACE_CLI_NOWAIT_H

#include <stddef.h>
#include <sys/types.h>

/* A way to what fd leads to that never blocks, for fd itself and whoever shares it stay as they
 * are. A terminal or a pipe is opened anew, with a descriptor that is the caller's; anything else
 * is fd. */
int nowait__open(int fd);

/* How many of the bytes fit, 0 for none, or negative errno. to: of nowait__open(). */
ssize_t nowait__write(int to, const char *text, size_t len);

/* Before capabilities are given up: a terminal or a pipe may be another user's, sudo's. Else the
 * first nowait__put() does it. */
void nowait__begin(void);

/* To stderr. What a reader does not take within 100 ms is dropped; so is at once what comes then,
 * until there is room again. */
void nowait__put(const char *text, size_t len);
/* The same as a line of memtrace's: for complain_to(). */
void nowait__complain(const char *text);

#endif
