// SPDX-License-Identifier: BSD-2-Clause
#include "proc/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/far.h"
#include "proc/process.h"

#define BATCH 256 /* pieces in one system call; the kernel takes 1,024 */
#define PARTS 512 /* pieces in one question to mt-files */

/* The question to mt-files, and its reply. */
struct question {
	pid_t pid;
	uint32_t n;
	struct {
		uint64_t addr;
		uint32_t len, at; /* at: where the piece begins in the reply's bytes */
	} parts[PARTS];
};

struct reply {
	bool ok[PARTS];
	char bytes[FAR_MAX_BYTES - PARTS];
};

static uint64_t given_up;

/* Runs in mt-files, and reads the pieces of a question. If a piece of a batch is not mapped, the
 * kernel reads only the pieces before it. */
static int read_there(int none, const void *in, void *out)
{
	struct iovec local[BATCH], remote[BATCH];
	const struct question *q = in;
	struct reply *reply = out;
	size_t done = 0;

	(void)none;
	memset(reply->ok, 0, sizeof(reply->ok));
	while (done < q->n) {
		size_t batch = q->n - done < BATCH ? q->n - done : BATCH, whole = 0;
		ssize_t got;

		for (size_t i = 0; i < batch; i++) {
			size_t len = q->parts[done + i].len;

			local[i] = (struct iovec){reply->bytes + q->parts[done + i].at, len};
			remote[i] = (struct iovec){(void *)(uintptr_t)q->parts[done + i].addr, len};
		}
		got = process_vm_readv(q->pid, local, batch, remote, batch, 0);
		if (got < 0 && errno != EFAULT)
			return -errno;
		while (whole < batch && got >= (ssize_t)local[whole].iov_len) {
			got -= (ssize_t)local[whole].iov_len;
			reply->ok[done + whole++] = true;
		}
		done += whole < batch ? whole + 1 : whole;
	}
	return FAR_NO_FD;
}

/* Reads as many pieces as fit into one question. Returns how many, or negative errno. */
static long read_some(pid_t pid, struct memory_read *reads, size_t n)
{
	static struct question question;
	static struct reply reply;
	struct far_work work = {.fn = read_there,
				.key = 3ULL << 62 | (uint32_t)pid,
				.fd = -1,
				.in = &question,
				.out = &reply,
				.never_late = true,
				.patience_ms = MEMORY_PATIENCE_MS,
				.given_up = &given_up};
	size_t bytes = 0, i;
	int rc;

	for (i = 0; i < n && i < PARTS && reads[i].len <= sizeof(reply.bytes) - bytes; i++) {
		question.parts[i].addr = reads[i].addr;
		question.parts[i].len = (uint32_t)reads[i].len;
		question.parts[i].at = (uint32_t)bytes;
		bytes += reads[i].len;
	}
	if (!i)
		return -E2BIG;
	question.pid = pid;
	question.n = (uint32_t)i;
	work.in_bytes = offsetof(struct question, parts) + i * sizeof(question.parts[0]);
	work.out_bytes = offsetof(struct reply, bytes) + bytes;
	rc = far__do(&work);
	/* A main thread that has ended has no memory any more, so the read fails. Only after this
	 * failure another thread is searched for, because the search takes time. */
	if (rc == -ESRCH) {
		question.pid = process__living_thread(pid);
		if (question.pid != pid)
			rc = far__do(&work);
	}
	if (rc < 0)
		return rc;
	for (size_t k = 0; k < i; k++) {
		reads[k].ok = reply.ok[k];
		if (reads[k].ok)
			memcpy(reads[k].to, reply.bytes + question.parts[k].at, reads[k].len);
	}
	return (long)i;
}

int memory__read_all(pid_t pid, struct memory_read *reads, size_t n)
{
	for (size_t i = 0; i < n; i++)
		reads[i].ok = false;
	for (size_t done = 0; done < n;) {
		long some = read_some(pid, reads + done, n - done);

		if (some < 0) {
			for (size_t i = 0; i < done; i++)
				reads[i].ok = false;
			return (int)some;
		}
		done += (size_t)some;
	}
	return 0;
}

int memory__read(pid_t pid, uint64_t addr, void *to, size_t len)
{
	struct memory_read read = {addr, to, len, false};
	int rc = memory__read_all(pid, &read, 1);

	return rc ? rc : read.ok ? 0 : -EFAULT;
}

uint64_t memory__given_up(void)
{
	return given_up;
}
