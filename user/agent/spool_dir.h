/* SPDX-License-Identifier: BSD-2-Clause */
/* The directory of the spool: a file for each profile, whose name begins with its time. Files of
 * other names are left alone. */
#ifndef MEMTRACE_AGENT_SPOOL_DIR_H
#define MEMTRACE_AGENT_SPOOL_DIR_H

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

#define SPOOL_FILES 200		   /* profiles, at most */
#define SPOOL_BYTES (256ull << 20) /* of all profiles, at most: the oldest ones are deleted first */
#define SPOOL_NAME  64

/* Opens the directory, and waits as long as its file system does. The caller's descriptor, or
 * negative errno. */
int spool_dir__open(const char *path);

/* "20261126T103814Z.redis-server.1234.pb.gz": when the process ended (UTC), its name with '_' in
 * place of all bytes but letters, digits, '-', '_' and '.', and its pid. */
void spool_dir__name(const struct profile *profile, char ret[SPOOL_NAME]);

/* Deletes the oldest profiles until there is room for one more of this size. Also deletes
 * half-written files. *ret_n: how many profiles were deleted. 0 or negative errno. */
int spool_dir__make_room(int dir_fd, uint64_t bytes, size_t *ret_n);

/* Writes the content of a file in memory into a file of that name, which appears whole or not at
 * all. 0 or negative errno. */
int spool_dir__write(int dir_fd, const char *name, int memory);

#endif
