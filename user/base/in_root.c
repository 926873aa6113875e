// SPDX-License-Identifier: BSD-2-Clause
#include "base/in_root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/far.h"

#define MAX_TRIES 16
#ifndef RESOLVE_CACHED /* Linux 5.12 */
#define RESOLVE_CACHED 0x20
#endif

/* The request to mt-files. */
struct sought {
	bool follow;
	char path[8192];
};

/* Opens an O_PATH descriptor of the file `path`, of whatever kind. The kernel returns EAGAIN if
 * anything on the machine was renamed while it walked over a "..". Usually this happens by chance,
 * but an attacker can make it happen again and again. So there are at most MAX_TRIES tries. */
static int find(int root_fd, const char *path, bool follow, uint64_t resolve)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd = -1;

	for (int i = 0; i < MAX_TRIES; i++) {
		fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
		if (fd >= 0 || resolve || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd < 0 ? -errno : (int)fd;
}

/* Opens the file first with O_PATH, which does not call the open method of a FIFO or device. If the
 * file is a regular one, opens it for reading through the O_PATH descriptor. So nobody can put
 * another file in its place between the two opens. O_NONBLOCK is set because a lease would delay
 * even the opening of a regular file. */
static int open_there(int root_fd, const struct sought *sought, struct stat *ret_stat)
{
	_cleanup_close_ int handle = find(root_fd, sought->path, sought->follow, 0);
	char reopen[64];
	int fd;

	if (handle < 0)
		return handle;
	if (fstat(handle, ret_stat) < 0)
		return -errno;
	if (S_ISLNK(ret_stat->st_mode))
		return -ELOOP;
	if (!S_ISREG(ret_stat->st_mode))
		return -EINVAL;
	snprintf(reopen, sizeof(reopen), "/proc/self/fd/%d", handle);
	fd = open(reopen, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

/* Runs in mt-files. */
static int open_and_keep(int root_fd, const void *in, void *out)
{
	int fd = open_there(root_fd, in, out);

	return fd < 0 ? fd : far__keep(fd);
}

int in_root__open_file(int root_fd, const char *path, bool follow, struct stat *ret_stat)
{
	size_t len = strlen(path);
	struct sought sought = {.follow = follow};
	struct stat st;
	struct statx root;
	struct far_work work = {.fn = open_and_keep,
				.fd = root_fd,
				.in = &sought,
				.in_bytes = offsetof(struct sought, path) + len + 1,
				.out = &st,
				.out_bytes = sizeof(st)};
	int fd;

	if (len >= sizeof(sought.path))
		return -ENAMETOOLONG;
	/* Most of the files that are searched for do not exist. The kernel's cache often knows
	 * this, so the file system need not be asked. */
	fd = find(root_fd, path, follow, RESOLVE_CACHED);
	if (fd == -ENOENT)
		return fd;
	if (fd >= 0)
		close(fd);
	if (statx(root_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &root))
		return -errno;
	/* the key stands for the root. Its highest bit is set, because the key of a device never
	 * has this bit */
	work.key = 1ULL << 63 | ((uint64_t)root.stx_dev_minor << 40 ^ root.stx_ino);
	memcpy(sought.path, path, len + 1);
	fd = far__do(&work);
	if (fd >= 0 && ret_stat)
		*ret_stat = st;
	return fd;
}
