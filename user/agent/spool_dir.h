/* SPDX-License-Identifier: BSD-2-Clause */
/* The directory of the spool: a file for each profile. The file's name begins with the time of the
 * profile. Files with other names are left alone. */
#ifndef MEMTRACE_AGENT_SPOOL_DIR_H
#define MEMTRACE_AGENT_SPOOL_DIR_H

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

#define SPOOL_FILES 200 /* at most this many profiles */
/* the most bytes of all profiles together; the oldest profiles are deleted first */
#define SPOOL_BYTES (256ull << 20)
#define SPOOL_NAME  64

/* Opens the directory, however long its file system takes. Returns a descriptor, which the caller
 * owns, or negative errno. */
int spool_dir__open(const char *path);

/* Makes the name of a profile's file, such as "20261126T103814Z.redis-server.1234.pb.gz". It
 * consists of the time when the process ended (UTC), the process's name, its pid, and "regions" or
 * "faults" if the profile shows these. In the process's name, '_' replaces all bytes but letters,
 * digits, '-', '_' and '.'. */
void spool_dir__name(const struct profile *profile, char ret[SPOOL_NAME]);

/* Changes the name if the directory already has a file of this name, because two processes with the
 * same pid and name may end in the same second. The name then ends with "-2.pb.gz", or a higher
 * number. */
void spool_dir__free_name(int dir_fd, char name[SPOOL_NAME]);

/* Deletes the oldest profiles until there is room for one more of this size. Also deletes
 * half-written files that nobody writes any more. *ret_n: how many profiles were deleted. 0 or
 * negative errno. */
int spool_dir__make_room(int dir_fd, uint64_t bytes, size_t *ret_n);

/* Writes the content of a file in memory into a file of this name, which appears whole or not at
 * all. Call spool_dir__make_room() before. 0 or negative errno. */
int spool_dir__write(int dir_fd, const char *name, int memory);

#endif
