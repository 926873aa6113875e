/* SPDX-License-Identifier: BSD-2-Clause */
/* Work on files that may never answer: those of a FUSE file system, whose server is anybody, or of
 * a dead network one. Who asks there hangs in the kernel, also in close(), and of FUSE not even
 * SIGKILL ends that. So another process asks, mt-files: memtrace waits for it for a while, leaves
 * it behind, and has the next one forked by a process that was forked before there was anything to
 * hold, neither probes, nor tables, nor files. One that is left behind ends when it gets its
 * answer. */
#ifndef MEMTRACE_BASE_FAR_H
#define MEMTRACE_BASE_FAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FAR_MAX_LEFT	16    /* processes left behind: with so many nothing more is asked */
#define FAR_MAX_BYTES	65536 /* what goes there, and what comes back */
#define FAR_PATIENCE_MS 2000
#define FAR_HURRIED_MS	150 /* while probes are in place; less than the keeper's */

#define FAR_NO_FD 0x7fffffff

/* One piece of work. fn runs there with copies of what in, out and fd are; it gives a descriptor,
 * which becomes the caller's, FAR_NO_FD for success without one, or negative errno. */
struct far_work {
	int (*fn)(int fd, const void *in, void *out);
	uint64_t key; /* what is not asked while an answer is missing: a device, a root */
	int fd;	      /* -1: none; then a late answer is for who asks the same next */
	const void *in;
	size_t in_bytes;
	void *out; /* written only when fn succeeds; out_bytes may be 0 */
	size_t out_bytes;
	bool never_late;      /* a late answer is good for nobody */
	unsigned patience_ms; /* 0: as below */
	uint64_t *given_up;   /* who counts it; NULL: far__given_up() */
};

/* Forks, before there is anything to hold. caps: what the process keeps of our capabilities. It
 * ends when we do. 0 or negative errno. */
int far__begin(uint64_t caps);

/* What fn gave; -ETIMEDOUT: no answer in time, or an earlier one for key is still missing; -EBUSY:
 * too many are, or slow answers have taken a quarter of the time; other negative errno. Before
 * far__begin() fn runs here. One caller at a time. */
int far__do(const struct far_work *work);

/* Probes are in place: nobody waits for long. Else for longer: a disk may be slow. */
void far__hurry(bool hurried);

/* How often somebody gave up a file, since memtrace began. */
uint64_t far__given_up(void);

/* A file of FUSE is not kept open, for close() asks there as well: fd is closed, and what the file
 * holds comes back as a file in memory that nobody can write to. Any other fd comes back as it is.
 * For fn. -EFBIG: more than 256 MiB; other negative errno. */
int far__keep(int fd);
/* Is it such a copy, or a file that is just like one? */
bool far__is_copy(int fd);

#endif
