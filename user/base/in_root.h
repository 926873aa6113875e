/* SPDX-License-Identifier: BSD-2-Clause */
/* Files by their name below a directory that is somebody else's root: a container's, or "/" for one
 * who may not be trusted with names. */
#ifndef MEMTRACE_BASE_IN_ROOT_H
#define MEMTRACE_BASE_IN_ROOT_H

#include <stdbool.h>
#include <sys/stat.h>

/* Opens the regular file called path (absolute or not) for reading, as a process whose root is
 * root_fd (an O_PATH descriptor will do) would find it: symbolic links, absolute ones and "..",
 * stay below it, and links of /proc, which would not, are refused. follow: may the last component
 * be a symbolic link? A descriptor (close-on-exec, non-blocking) with what fstat says of it in
 * *ret_stat (may be NULL), or negative errno: -ENOENT there is none; -ELOOP a symbolic link that
 * may not be followed; -EINVAL not a regular file; -ETIMEDOUT, -EBUSY a file system that does not
 * answer (base/far.h: of a file of FUSE it is a copy). No FIFO blocks it and no device notices it.
 */
int in_root__open_file(int root_fd, const char *path, bool follow, struct stat *ret_stat);

#endif
