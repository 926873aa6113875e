/* SPDX-License-Identifier: BSD-2-Clause */
/* A child process that works on a hostile file in the sandbox (sandbox.h). It calls a library that
 * reads ELF files, or it scans another process's memory (heap/scan.h). The parent gets only bytes
 * and the exit status from the child, and trusts none of the bytes. */
#ifndef MEMTRACE_SANDBOX_CHILD_H
#define MEMTRACE_SANDBOX_CHILD_H

#include <stdint.h>
#include <stdio.h>

#include "sandbox/sandbox.h"
#include "sandbox/stream.h"

/* The descriptors of a child, besides /dev/null. */
enum { CHILD_FILE_FD = SANDBOX_FIRST_FD, CHILD_OUT_FD, CHILD_OTHER_FD };

/* How a child ends, unless it is killed. */
enum child_exit { CHILD_DONE, CHILD_FAILED, CHILD_NO_DATA, CHILD_NO_SANDBOX };

struct child_task {
	int file_fd;  /* becomes CHILD_FILE_FD */
	int other_fd; /* becomes CHILD_OTHER_FD; -1: there is no other file */

	/* open_other and read run in the child. open_other runs before the child is sealed, as user
	 * nobody if memtrace is root. It opens another file that the file behind file_fd names, and
	 * returns a descriptor or -1. If open_other is NULL, the other file is the one behind
	 * other_fd. read runs after sealing: it reads the files and writes data for the parent to
	 * out. read's argument other_fd is -1 when there is no other file. */
	int (*open_other)(int file_fd, void *ctx);
	enum child_exit (*read)(FILE *out, int file_fd, int other_fd, void *ctx);
	void *ctx;

	double patience_s;		      /* time limit for the whole task */
	const struct stream_waiting *waiting; /* called while the parent waits; NULL: nothing is
					       * called */
	/* how long the child holds back if others need the CPU, and the largest share of a CPU that
	 * it may take (gentle.h). Both 0: the child does not hold back */
	double gentle_s, max_share;
	size_t max_bytes; /* the child may write at most this many bytes */
	/* bytes of address space that the child may have, in addition to the address space that
	 * fork copies and to the size of the files; 0: 4 GiB */
	uint64_t max_memory;
	void (*in_child)(void); /* for tests: called in the child before `read`; NULL: nothing is
				 * called */
};

struct child; /* opaque */

/* Forks a child for the task. The child may use patience_s of CPU time, or the share of it that
 * max_share allows. 0, -ENOMEM, or the error of pipe or sandbox__fork(). */
int child__start(const struct child_task *task, struct child **ret);

/* Returns the stream of what the child writes. `child` owns the stream. */
struct stream *child__stream(struct child *child);

/* Kills the child, if it has not ended by itself, and frees it. 0: the child reports success;
 * -ENODATA: the file has no data for the task; -EPERM: no sandbox is available here, so nothing was
 * read; -ECHILD: the child failed or was killed; -ETIMEDOUT: the kernel does not end the child,
 * because the child waits for data of a file. The child is then left behind, and ends when the data
 * come. */
int child__end(struct child *child);

#endif
