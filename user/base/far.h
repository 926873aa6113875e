/* SPDX-License-Identifier: BSD-2-Clause */
/* Does work on files that may never answer: files of FUSE, whose server may belong to anybody, or
 * of a dead network file system. A process that uses such a file hangs in the kernel, even in
 * close(). On FUSE, even SIGKILL may not end it. So another process, mt-files, does this work, and
 * memtrace waits for it only for a while. Then memtrace leaves this mt-files behind and lets
 * another one be forked. The process that forks them began before memtrace had any probes, tables
 * or files. So no mt-files holds any of these. An mt-files that is left behind ends when it gets
 * its answer. */
#ifndef MEMTRACE_BASE_FAR_H
#define MEMTRACE_BASE_FAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FAR_MAX_LEFT	16    /* most left-behind processes; then no more work is given out */
#define FAR_MAX_BYTES	65536 /* largest request to mt-files, and largest answer */
#define FAR_PATIENCE_MS 2000
#define FAR_HURRIED_MS	150 /* while probes are in place; less than the keeper's patience */

#define FAR_NO_FD 0x7fffffff

/* One piece of work. fn runs in mt-files with copies of in and fd; what it writes to out is copied
 * back. fn returns a descriptor, which then belongs to the caller; FAR_NO_FD for success without a
 * descriptor; or negative errno. */
struct far_work {
	int (*fn)(int fd, const void *in, void *out);
	/* a device, root or process: gets no more requests while one of its answers is missing */
	uint64_t key;
	int fd; /* -1: none; then a late answer serves the next equal request */
	const void *in;
	size_t in_bytes;
	void *out; /* written only when fn succeeds; out_bytes may be 0 */
	size_t out_bytes;
	bool never_late;      /* a late answer is of no use */
	unsigned patience_ms; /* 0: as far__hurry() says */
	uint64_t *given_up;   /* counter of files given up; NULL: that of far__given_up() */
};

/* Forks the process that will fork each mt-files. Call it before there are probes, tables or files
 * that a child could hold. caps: which of our capabilities the process keeps. The process ends when
 * we do. 0 or negative errno. */
int far__begin(uint64_t caps);

/* Returns what fn returned; -ETIMEDOUT: no answer in time, or an earlier answer for key is still
 * missing; -EBUSY: too many answers are missing, or slow answers have taken a quarter of the time;
 * other negative errno. Before far__begin() fn runs in memtrace. One caller at a time. */
int far__do(const struct far_work *work);

/* hurried: probes are in place, so waits are short. Else they are longer: a disk may be slow. */
void far__hurry(bool hurried);

/* Number of times that a file was given up, since memtrace began. */
uint64_t far__given_up(void);

/* For fn: makes a descriptor that can be kept open. close() of a FUSE file asks the server, too. So
 * such a file is copied, fd is closed, and the returned descriptor is that of the copy, a file in
 * memory that cannot be written to. Any other fd is returned unchanged. -EFBIG: more than 256 MiB;
 * other negative errno. */
int far__keep(int fd);
/* Is fd such a copy, or a file in memory like it? */
bool far__is_copy(int fd);

#endif
