/* SPDX-License-Identifier: BSD-2-Clause */
/* Text for a terminal or a pipe that perhaps nobody reads. What does not fit at once is dropped, so
 * that code that must keep a time limit never waits for a reader. */
#ifndef MEMTRACE_CLI_NOWAIT_H
#define MEMTRACE_CLI_NOWAIT_H

#include <stddef.h>
#include <sys/types.h>

/* Makes a descriptor for the target of fd that never blocks. fd itself, and those who share it,
 * stay as they are. A terminal or a pipe is opened anew, and the caller owns the descriptor. Of
 * anything else fd itself is returned. */
int nowait__open(int fd);

/* Returns how many of the bytes fit, 0 for none, or negative errno. to: from nowait__open(). */
ssize_t nowait__write(int to, const char *text, size_t len);

/* To be called before capabilities are given up: a terminal or a pipe may belong to another user
 * (sudo's). Otherwise the first nowait__put() does it. */
void nowait__begin(void);

/* To stderr. What a reader does not take within 100 ms is dropped. Later text is then dropped at
 * once, until there is room again. */
void nowait__put(const char *text, size_t len);
/* nowait__put() of text as a line of memtrace's: for complain_to(). */
void nowait__complain(const char *text);

#endif
