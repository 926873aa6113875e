// SPDX-License-Identifier: BSD-2-Clause
#include "base/io.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/vector.h"

#define AT_FIRST (64u << 10)

static ssize_t read_much(int fd, char *buf, size_t len, bool positioned, uint64_t off)
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
	return read_much(fd, buf, len, false, 0);
}

ssize_t io__pread(int fd, void *buf, size_t len, uint64_t off)
{
	return read_much(fd, buf, len, true, off);
}

int io__read_all(int fd, size_t max, char **ret_bytes, size_t *ret_len)
{
	_cleanup_free_ char *bytes = NULL;
	size_t room = 0, len = 0;

	do {
		ssize_t n;

		if (VECTOR_RESERVE(bytes, room, len ? 2 * len : AT_FIRST))
			return -ENOMEM;
		n = io__read(fd, bytes + len, room - 1 - len);
		if (n < 0)
			return (int)n;
		len += (size_t)n;
		if (len > max)
			return -EFBIG;
	} while (len == room - 1);
	bytes[len] = '\0';
	*ret_bytes = bytes;
	*ret_len = len;
	bytes = NULL;
	return 0;
}

uint64_t io__file_bytes(int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) ? (uint64_t)st.st_size : 0;
}
