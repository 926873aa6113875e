// SPDX-License-Identifier: BSD-2-Clause
#include "proc/own.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

/* bytes; the line "Groups:" of a status file may have 65,536 numbers */
#define TEXT_MAX (1 << 20)

static uint64_t to_ns(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_usec * 1000;
}

uint64_t own__usage_ns(const struct rusage *usage)
{
	return to_ns(&usage->ru_utime) + to_ns(&usage->ru_stime);
}

uint64_t own__cpu_ns(void)
{
	struct rusage self = {}, children = {};

	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &children);
	return own__usage_ns(&self) + own__usage_ns(&children);
}

/* Reads the beginning of a file of /proc, and ends `text` with NUL. 0 or negative errno. */
static int read_beginning(const char *path, char *text, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = io__read(fd, text, size - 1);
	if (n < 0)
		return (int)n;
	text[n] = '\0';
	return 0;
}

int own__number(const char *path, const char *key, uint64_t *ret)
{
	size_t len = strlen(key);
	_cleanup_free_ char *text = malloc(TEXT_MAX);
	const char *line;
	int rc = text ? read_beginning(path, text, TEXT_MAX) : -ENOMEM;

	if (rc)
		return rc;
	for (line = text; strncmp(line, key, len) || line[len] != ':'; line++) {
		line = strchr(line, '\n');
		if (!line)
			return -ENODATA;
	}
	line += len + 1;
	line += strspn(line, " \t");
	if (!isdigit((unsigned char)*line))
		return -EINVAL;
	*ret = strtoull(line, NULL, 10);
	return 0;
}

int own__peak_bytes(uint64_t *ret_bytes)
{
	uint64_t kib;
	int rc = own__number("/proc/self/status", "VmHWM", &kib);

	if (!rc)
		*ret_bytes = kib * 1024;
	return rc;
}

int own__fd_bytes(int fd, uint64_t *ret_bytes)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	return own__number(path, "memlock", ret_bytes);
}

int own__machine_idle_ns(uint64_t *ret_ns)
{
	unsigned long long idle, waiting;
	char text[256];
	int rc = read_beginning("/proc/stat", text, sizeof(text));

	if (rc)
		return rc;
	if (sscanf(text, "cpu %*u %*u %*u %llu %llu", &idle, &waiting) != 2)
		return -EINVAL;
	*ret_ns = (idle + waiting) * (1000000000ULL / (uint64_t)sysconf(_SC_CLK_TCK));
	return 0;
}
