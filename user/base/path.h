/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef MEMTRACE_BASE_PATH_H
#define MEMTRACE_BASE_PATH_H

#include <string.h>

/* What is behind the last '/' of a path, or all of it: a part of path. */
static inline const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

#endif
