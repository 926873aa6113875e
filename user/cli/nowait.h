/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes text to a terminal or a pipe that perhaps nobody reads. Text that does not fit at once is
 * dropped, so that code with a time limit never waits for a reader. */
#ifndef MEMTRACE_CLI_NOWAIT_H
#define MEMTRACE_CLI_NOWAIT_H

#include <stddef.h>
#include <sys/types.h>

/* Returns a descriptor for nowait__write(), for the file to which fd refers. The open file behind
 * fd, which other processes may share, is not changed. A terminal or a pipe is opened anew, and the
 * caller owns the new descriptor. For other files, and if the user may not open the terminal or
 * pipe, fd itself is returned. */
int nowait__open(int fd);

/* Writes as many of the bytes as fit. Returns their number, 0 for none, or negative errno. to: from
 * nowait__open(). The call may block if nowait__open() could not open a terminal anew, and the
 * terminal has room for only some of the bytes. */
ssize_t nowait__write(int to, const char *text, size_t len);

/* Opens stderr anew (nowait__open()). Call it before capabilities are given up, because the
 * terminal or pipe may belong to another user (sudo's). Without this call the first nowait__put()
 * opens it. */
void nowait__begin(void);

/* Writes to stderr. Text that is not read within 100 ms is dropped. Later text is then dropped at
 * once, until there is room again. */
void nowait__put(const char *text, size_t len);
/* Calls nowait__put() with one line, which is "memtrace: " and the text. For complain_to(). */
void nowait__complain(const char *text);

#endif
