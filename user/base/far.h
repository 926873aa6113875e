/* SPDX-License-Identifier: BSD-2-Clause */
/* Work on files that may never answer: those of a FUSE file system, whose server may be anybody's,
 * or of a dead network file system. A process that uses such a file hangs in the kernel, even in
 * close(). On FUSE, not even SIGKILL ends that. So another process, mt-files, does this work, and
 * memtrace waits for it only for a while. Then memtrace leaves that mt-files behind and has the
 * next one forked. Each mt-files is forked by a process that began before memtrace had any probes,
 * tables or files. So no mt-files holds any of them. An mt-files that is left behind ends when it
 * gets its answer. */
#ifndef MEMTRACE_BASE_FAR_H
#define MEMTRACE_BASE_FAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FAR_MAX_LEFT	16    /* left-behind processes: with these, no more is asked */
#define FAR_MAX_BYTES	65536 /* most that goes to mt-files at once, and that comes back */
#define FAR_PATIENCE_MS 2000
#define FAR_HURRIED_MS	150 /* while probes are in place; less than the keeper's patience */

#define FAR_NO_FD 0x7fffffff

/* One piece of work. fn runs in mt-files with copies of in and fd; what it writes to out is copied
 * back. fn returns a descriptor, which then belongs to the caller; FAR_NO_FD for success without a
 * descriptor; or negative errno. */
struct far_work {
	int (*fn)(int fd, const void *in, void *out);
	/* a device, root or process: nothing more is asked of it while one of its answers is
	 * missing */
	uint64_t key;
	int fd; /* -1: none; then a late answer serves the next equal request */
	const void *in;
	size_t in_bytes;
	void *out; /* written only when fn succeeds; out_bytes may be 0 */
	size_t out_bytes;
	bool never_late;      /* a late answer is of no use to anybody */
	unsigned patience_ms; /* 0: as far__hurry() says */
	uint64_t *given_up;   /* counter of files given up; NULL: far__given_up()'s */
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

/* How many times a file was given up, since memtrace began. */
uint64_t far__given_up(void);

/* For fn: makes a descriptor that can be kept open. close() of a FUSE file asks the server as well.
 * So such a file is copied and fd is closed here; the descriptor returned is of the copy, a file in
 * memory that nobody can write to. Any other fd comes back as it is. -EFBIG: more than 256 MiB;
 * other negative errno. */
int far__keep(int fd);
/* Is fd such a copy, or a file just like one? */
bool far__is_copy(int fd);

#endif
