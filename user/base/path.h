/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef MEMTRACE_BASE_PATH_H
#define MEMTRACE_BASE_PATH_H

#include <string.h>

/* Returns the part of path behind its last '/', or all of path if there is no '/'. Points into
 * path. */
static inline const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

#endif
