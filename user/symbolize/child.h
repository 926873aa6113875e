/* SPDX-License-Identifier: BSD-2-Clause */
/* A child that is alone with a library and a hostile file, in the sandbox (sandbox.h), and what its
 * parent hears of it: bytes, none of which is believed, and how it ended. Private to this room. */
#ifndef MEMTRACE_SYMBOLIZE_CHILD_H
#define MEMTRACE_SYMBOLIZE_CHILD_H

#include <stdio.h>

#include "symbolize/sandbox.h"
#include "symbolize/stream.h"

/* The descriptors of a child, but for /dev/null. */
enum { CHILD_FILE_FD = SANDBOX_FIRST_FD, CHILD_OUT_FD, CHILD_OTHER_FD };

/* How a child ends, unless it is killed. */
enum child_exit { CHILD_DONE, CHILD_FAILED, CHILD_NO_DATA, CHILD_NO_SANDBOX };

struct child_task {
	int file_fd;  /* becomes CHILD_FILE_FD */
	int other_fd; /* becomes CHILD_OTHER_FD; -1: none */

	/* Run in the child. open_other: it is nobody by now and not sealed yet; opens the other
	 * file that file_fd names: a descriptor or -1. NULL: there is none but other_fd. read: it
	 * is sealed; reads the files and writes to out what the parent is to hear. other_fd is -1
	 * where there is none. */
	int (*open_other)(int file_fd, void *ctx);
	enum child_exit (*read)(FILE *out, int file_fd, int other_fd, void *ctx);
	void *ctx;

	double patience_s;		      /* how long the whole may take */
	const struct stream_waiting *waiting; /* NULL: nobody */
	size_t max_bytes;		      /* that the child may write */
	void (*in_child)(void);		      /* for tests, before read; NULL: nothing */
};

struct child; /* opaque */

/* Forks a child for the task. It may take as much CPU as patience_s, and 4 GiB of memory more than
 * the files. 0, -ENOMEM, or what fork and pipe say. */
int child__start(const struct child_task *task, struct child **ret);

/* What the child writes; the child's own. */
struct stream *child__stream(struct child *child);

/* Ends the child, if it has not ended by itself, and frees it. 0: it says that it has done all;
 * -ENODATA: that the file has nothing for it; -EPERM: there is no sandbox here, and nothing was
 * read without one; -ECHILD: it failed, or was killed. */
int child__end(struct child *child);

#endif
