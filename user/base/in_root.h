/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens files by name below another root directory: a container's, or "/" if the names are not
 * trusted. */
#ifndef MEMTRACE_BASE_IN_ROOT_H
#define MEMTRACE_BASE_IN_ROOT_H

#include <stdbool.h>
#include <sys/stat.h>

/* Opens the regular file path (absolute or not) for reading, as a process whose root is root_fd
 * would find it (an O_PATH descriptor will do). Symbolic links, also absolute ones, and ".." stay
 * below the root. The links of /proc (such as /proc/PID/exe) would lead out of the root, so they
 * are refused. follow: the last component may be a symbolic link. A descriptor (close-on-exec,
 * non-blocking), with its fstat in *ret_stat (may be NULL), or negative errno: -ENOENT there is
 * none; -ELOOP a symbolic link that may not be followed; -EINVAL not a regular file; -ETIMEDOUT,
 * -EBUSY the file system does not answer. For a file of FUSE the descriptor is a copy (base/far.h).
 * The call does not block on a FIFO, and does not call a device's driver. */
int in_root__open_file(int root_fd, const char *path, bool follow, struct stat *ret_stat);

#endif
