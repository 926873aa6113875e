// SPDX-License-Identifier: BSD-2-Clause
#include "base/io.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t read_all(int fd, char *buf, size_t len, bool positioned, uint64_t off)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = positioned ? pread(fd, buf + done, len - done, (off_t)(off + done))
				       : read(fd, buf + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

ssize_t io__read(int fd, void *buf, size_t len)
{
	return read_all(fd, buf, len, false, 0);
}

ssize_t io__pread(int fd, void *buf, size_t len, uint64_t off)
{
	return read_all(fd, buf, len, true, off);
}

uint64_t io__file_bytes(int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) ? (uint64_t)st.st_size : 0;
}
