/* SPDX-License-Identifier: BSD-2-Clause */
/* Does work on files that may never answer: files of FUSE, whose server may belong to anybody, or
 * of a dead network file system. A process that uses such a file hangs in the kernel, even in
 * close(). On FUSE, even SIGKILL may not end this process. So another process, mt-files, does the
 * work, and memtrace waits for its answer only for a while. If no answer comes, memtrace leaves
 * this mt-files behind, and another mt-files is forked. Each mt-files is forked by a process that
 * began before memtrace had any probes, tables or files. So no mt-files holds any of these. An
 * mt-files that was left behind ends when the file system answers it. */
#ifndef MEMTRACE_BASE_FAR_H
#define MEMTRACE_BASE_FAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FAR_MAX_LEFT 16 /* if this many processes are left behind, mt-files gets no more work */
/* bytes of the largest request to mt-files, and of the largest answer */
#define FAR_MAX_BYTES	65536
#define FAR_PATIENCE_MS 2000
/* replaces FAR_PATIENCE_MS while probes are in place; shorter than mt-keeper's patience */
#define FAR_HURRIED_MS 150

#define FAR_NO_FD 0x7fffffff

/* One piece of work. fn runs in mt-files with copies of `in` and `fd`. What fn writes to `out` is
 * copied back to memtrace. fn returns a descriptor, which then belongs to the caller; FAR_NO_FD for
 * success without a descriptor; or negative errno. */
struct far_work {
	int (*fn)(int fd, const void *in, void *out);
	/* stands for a device, a root or a process. While an answer to earlier work with this key
	 * is missing, mt-files gets no more work with the key */
	uint64_t key;
	/* descriptor for fn; -1: none. Then an answer that comes too late is kept for the first
	 * request after it, if that request equals the late one */
	int fd;
	const void *in;
	size_t in_bytes;
	void *out; /* written only when fn succeeds; out_bytes may be 0 */
	size_t out_bytes;
	bool never_late;      /* an answer that comes too late is not used for the next request */
	unsigned patience_ms; /* how long far__do() waits; 0: as far__hurry() has set it */
	uint64_t *given_up;   /* counts the files that are given up; NULL: far__given_up() counts
			       * them */
};

/* Forks the process that will fork each mt-files. Call it before there are probes, tables or files
 * that a child could hold. caps: the capabilities that the forked process keeps. It ends when
 * memtrace ends. 0 or negative errno. */
int far__begin(uint64_t caps);

/* Lets mt-files call fn, and returns what fn returned; -ETIMEDOUT: no answer came in time, or an
 * answer to earlier work with this key is still missing; -EBUSY: too many answers are missing, or
 * slow answers have used up the quarter of the time that they may take; other negative errno.
 * Before far__begin(), fn runs in memtrace itself. Only one thread may call this function at a
 * time. */
int far__do(const struct far_work *work);

/* Sets how long far__do() waits. hurried: probes are in place, so far__do() waits only briefly.
 * Otherwise it waits longer, because a disk may be slow. */
void far__hurry(bool hurried);

/* Returns how many times a file was given up since memtrace began. Work that has a counter of its
 * own (far_work.given_up) is not included. */
uint64_t far__given_up(void);

/* For fn: makes a descriptor that can be kept open. close() of a FUSE file asks the server, too. So
 * a FUSE file is copied to a file in memory that cannot be written to. Then fd is closed, and the
 * copy's descriptor is returned. The descriptor of any other file is returned unchanged. On failure
 * fd is closed, too. -EFBIG: the file has more than 256 MiB; other negative errno. */
int far__keep(int fd);
/* Is fd a copy that far__keep() made, or another file in memory that cannot be written to? */
bool far__is_copy(int fd);

#endif
