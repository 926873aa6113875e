// SPDX-License-Identifier: BSD-2-Clause
#include "heap/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "proc/process.h"
#include "sandbox/gentle.h"

#define MAX_READ  (32u << 10)  /* bytes to read between two calls of gentle__step() */
#define MAX_PAGES (1ULL << 25) /* most pages to look up in pagemap: 128 GiB of address space */

struct scan {
	struct child *child;
};

/* What the child needs. The child gets a copy by fork(). */
struct work {
	struct scan_task task;
	struct maps maps;
	uint64_t deadline_ns;
};

static long read_memory(void *ctx, uint64_t addr, void *to, size_t len)
{
	size_t done = 0;

	(void)ctx;
	while (done < len) {
		size_t part = len - done < MAX_READ ? len - done : MAX_READ;
		ssize_t got = pread(CHILD_FILE_FD, (char *)to + done, part, (off_t)(addr + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
		gentle__step();
	}
	return (long)done;
}

static int read_pagemap(void *ctx, uint64_t page, uint64_t *entries, size_t n)
{
	size_t bytes = n * sizeof(*entries);
	ssize_t got = io__pread(CHILD_OTHER_FD, entries, bytes, page * sizeof(*entries));

	(void)ctx;
	return got == (ssize_t)bytes ? 0 : got < 0 ? (int)got : -EIO;
}

static enum child_exit run(FILE *out, int mem_fd, int pagemap_fd, void *ctx)
{
	const struct image_source source = {read_memory, read_pagemap, NULL};
	const struct work *work = ctx;
	const struct image_limits limits = {.deadline_ns = work->deadline_ns, .pages = MAX_PAGES};
	struct scan_view view = {};
	struct heap_found found = {};
	enum child_exit status = CHILD_FAILED;

	(void)mem_fd, (void)pagemap_fd;
	if (!image__new(&work->maps, &source, &limits, &view.image) && !blocks__new(&view.blocks) &&
	    !heap__find_blocks(view.image, view.blocks, work->task.alone, &found)) {
		view.found = &found;
		status = work->task.fn(&view, out, work->task.ctx);
	}
	/* The child ends now, so nothing is freed: freeing memory takes time. */
	return status;
}

/* Opens a file of /proc/PID that gives access to memory. */
static int open_of(pid_t pid, const char *name, struct error *err)
{
	int fd = process__open(pid, name, O_RDONLY);

	if (fd >= 0)
		return fd;
	if (fd == -ESRCH)
		return error__set(err, -ESRCH, "no process %d", (int)pid);
	if (fd == -EACCES || fd == -EPERM)
		return error__set(
			err, -EPERM,
			"not permitted to read the memory of process %d: run as root or as its "
			"user (CAP_SYS_PTRACE)",
			(int)pid);
	return error__set(err, fd, "cannot open /proc/%d/%s: %s", (int)pid, name, strerror(-fd));
}

static void free_work(struct work *work)
{
	maps__free(&work->maps);
	free(work);
}

DEFINE_CLEANUP(struct work *, cleanup_work, free_work)

int scan__start(pid_t pid, const struct maps *maps, const struct scan_task *task, struct scan **ret,
		struct error *err)
{
	_cleanup_close_ int mem_fd = -1, pagemap_fd = -1;
	_cleanup_(cleanup_work) struct work *work = calloc(1, sizeof(*work));
	_cleanup_free_ struct scan *scan = calloc(1, sizeof(*scan));
	double max_share = task->pace.hurry ? 0 : task->pace.max_share;
	double patience_s = task->patience_s > 0 ? task->patience_s
			    : max_share > 0	 ? SCAN_PATIENCE_S / max_share
						 : SCAN_PATIENCE_S;
	struct child_task child_task = {
		.read = run,
		.patience_s = patience_s,
		.waiting = task->waiting,
		.max_bytes = task->max_out_bytes ? task->max_out_bytes : SCAN_MAX_OUT,
		.max_memory = task->max_memory ? task->max_memory : SCAN_MAX_MEMORY,
	};
	int rc;

	if (!work || !scan || maps__copy(maps, &work->maps))
		return error__set(err, -ENOMEM, "out of memory");
	mem_fd = open_of(pid, "mem", err);
	if (mem_fd < 0)
		return mem_fd;
	pagemap_fd = open_of(pid, "pagemap", err);
	if (pagemap_fd < 0)
		return pagemap_fd;
	work->task = *task;
	/* The child must end before the parent's time limit is over. */
	work->deadline_ns = clock__now_ns(CLOCK_MONOTONIC) + (uint64_t)(patience_s * 0.8 * 1e9);
	child_task.gentle_s = task->pace.hurry ? 0 : patience_s / 3;
	child_task.max_share = max_share;
	child_task.file_fd = mem_fd;
	child_task.other_fd = pagemap_fd;
	child_task.ctx = work;
	rc = child__start(&child_task, &scan->child);
	if (rc)
		return error__set(err, rc, "cannot start the scan of process %d: %s", (int)pid,
				  strerror(-rc));
	*ret = scan;
	scan = NULL;
	return 0;
}

struct stream *scan__stream(struct scan *scan)
{
	return child__stream(scan->child);
}

int scan__end(struct scan *scan)
{
	int end = child__end(scan->child);

	free(scan);
	return end;
}
