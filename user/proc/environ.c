// SPDX-License-Identifier: BSD-2-Clause
#include "proc/environ.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "proc/memory.h"

#define MOST_BYTES	 (48u << 10)
#define ENV_START	 50
#define FIRST_AFTER_COMM 3

/* Finds the addresses at which the environment begins and ends. 0 or -1. */
static int find(pid_t pid, uint64_t *ret_start, uint64_t *ret_end)
{
	_cleanup_close_ int fd = -1;
	char path[32], text[1024];
	const char *pos;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : io__read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	pos = strrchr(text, ')');
	for (int field = FIRST_AFTER_COMM; pos && field <= ENV_START; field++) {
		pos = strchr(pos, ' ');
		pos = pos ? pos + 1 : NULL;
	}
	return pos && sscanf(pos, "%lu %lu", ret_start, ret_end) == 2 ? 0 : -1;
}

bool environ__text_has(const char *text, size_t len, const char *beginning)
{
	const char *end = text + len;
	size_t n = strlen(beginning);

	while (text < end) {
		size_t left = (size_t)(end - text), size = strnlen(text, left);

		if (size >= n && !memcmp(text, beginning, n))
			return true;
		text += size == left ? left : size + 1;
	}
	return false;
}

bool environ__has(pid_t pid, const char *beginning)
{
	_cleanup_free_ char *text = NULL;
	uint64_t start, end, size;

	if (find(pid, &start, &end) || !start || end <= start)
		return false;
	size = end - start < MOST_BYTES ? end - start : MOST_BYTES;
	text = malloc(size);
	if (!text || memory__read(pid, start, text, size))
		return false;
	return environ__text_has(text, size, beginning);
}
