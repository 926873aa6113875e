// SPDX-License-Identifier: BSD-2-Clause
#include "base/in_root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define MAX_TRIES 16

/* A handle on whatever has that name. The kernel answers EAGAIN when anything at all on the machine
 * was renamed while it walked over a "..": nobody's fault, but one can also provoke it for ever. */
static int find(int root_fd, const char *path, bool follow)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	long fd = -1;

	for (int i = 0; i < MAX_TRIES; i++) {
		fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd < 0 ? -errno : (int)fd;
}

/* O_PATH runs no open method of a FIFO or device, and going on through the descriptor leaves no
 * moment in which the name could come to mean something else. O_NONBLOCK because a lease would
 * delay even a regular file's open. */
int in_root__open_file(int root_fd, const char *path, bool follow, struct stat *ret_stat)
{
	_cleanup_close_ int handle = find(root_fd, path, follow);
	char reopen[64];
	struct stat st;
	int fd;

	if (handle < 0)
		return handle;
	if (fstat(handle, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	snprintf(reopen, sizeof(reopen), "/proc/self/fd/%d", handle);
	fd = open(reopen, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (ret_stat)
		*ret_stat = st;
	return fd;
}
