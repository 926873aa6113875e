// SPDX-License-Identifier: BSD-2-Clause
#include "proc/epoll.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/far.h"
#include "base/io.h"
#include "proc/process.h"

#define LOWEST	    65536 /* vm.mmap_min_addr: no block has a lower address */
#define PIECE	    4096  /* so many data are collected for one write() */
#define PATIENCE_MS 2000

/* --- in mt-files --- */

struct collected {
	int fd; /* the file in memory that gets the data */
	uint64_t piece[PIECE];
	size_t n, total, lines;
	double end_s; /* monotonic: nothing is read after this time */
};

static int flush(struct collected *c)
{
	ssize_t bytes = (ssize_t)(c->n * sizeof(*c->piece));

	if (bytes && write(c->fd, c->piece, (size_t)bytes) != bytes)
		return -ENOSPC;
	c->n = 0;
	return 0;
}

static int collect(struct collected *c, uint64_t data)
{
	if (data < LOWEST)
		return 0;
	if (c->total == EPOLL_MAX_DATA)
		return -EFBIG;
	c->total++;
	c->piece[c->n++] = data;
	return c->n == PIECE ? flush(c) : 0;
}

static bool is_epoll(int dir_fd, const char *name)
{
	static const char epoll[] = "anon_inode:[eventpoll]";
	char target[sizeof(epoll)];
	ssize_t len = readlinkat(dir_fd, name, target, sizeof(target));

	return len == sizeof(epoll) - 1 && !memcmp(target, epoll, sizeof(epoll) - 1);
}

/* Reads the lines "tfd: 5 events: 19 data: 55d0c3e8a010 pos:0 ..." of one descriptor. */
static int read_lines(pid_t pid, const char *name, struct collected *c)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[64], line[256];
	int err = 0;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.16s", pid, name);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (!err && fgets(line, sizeof(line), file)) {
		uint64_t data;

		/* A process can add one file under many numbers, so the list can have any
		 * length. */
		if (++c->lines > EPOLL_MAX_LINES || clock__monotonic_s() > c->end_s)
			return -EFBIG;
		if (sscanf(line, "tfd: %*d events: %*x data: %" SCNx64, &data) == 1)
			err = collect(c, data);
	}
	return err || !ferror(file) ? err : -EIO;
}

static bool has_many(DIR *dir)
{
	size_t n = 0;

	while (n <= EPOLL_MAX_FDS && readdir(dir))
		n++;
	rewinddir(dir);
	return n > EPOLL_MAX_FDS;
}

/* Returns a file in memory with the data. *out: how many descriptors were not read. */
static int read_all(int none, const void *in, void *out)
{
	static struct collected c;
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	uint64_t unread = 0;
	pid_t pid;
	char path[64];
	int err = 0;

	(void)none;
	memcpy(&pid, in, sizeof(pid));
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	if (has_many(dir))
		return -EFBIG;
	c = (struct collected){.fd = memfd_create("epoll", MFD_CLOEXEC),
			       .end_s = clock__monotonic_s() + PATIENCE_MS / 1e3};
	if (c.fd < 0)
		return -errno;
	while ((entry = readdir(dir))) {
		if (!is_epoll(dirfd(dir), entry->d_name))
			continue;
		if (err != -EFBIG && err != -ENOSPC)
			err = read_lines(pid, entry->d_name, &c);
		/* -ENOENT: the process has closed the descriptor meanwhile */
		unread += err && err != -ENOENT;
	}
	if (err == -ENOSPC || flush(&c)) {
		close(c.fd);
		return -ENOSPC;
	}
	memcpy(out, &unread, sizeof(unread));
	return c.fd;
}

/* --- in memtrace --- */

int epoll_kept__read(pid_t pid, struct epoll_kept *ret)
{
	pid_t living = process__living_thread(pid);
	struct far_work work = {
		.fn = read_all,
		.key = 1ULL << 62 | (uint32_t)pid, /* no key of a device has this bit */
		.fd = -1,
		.in = &living,
		.in_bytes = sizeof(living),
		.out = &ret->unread,
		.out_bytes = sizeof(ret->unread),
		.never_late = true,
		.patience_ms = PATIENCE_MS,
	};
	_cleanup_close_ int fd = -1;
	uint64_t bytes;
	ssize_t n;

	*ret = (struct epoll_kept){};
	fd = far__do(&work);
	if (fd < 0) {
		ret->unread = 1;
		return 0;
	}
	bytes = io__file_bytes(fd);
	if (!bytes)
		return 0;
	if (bytes > EPOLL_MAX_DATA * sizeof(*ret->list))
		bytes = EPOLL_MAX_DATA * sizeof(*ret->list);
	ret->list = malloc((size_t)bytes);
	if (!ret->list)
		return -ENOMEM;
	n = io__pread(fd, ret->list, (size_t)bytes, 0);
	ret->n = n > 0 ? (size_t)n / sizeof(*ret->list) : 0;
	return 0;
}
