/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens files by name below a given root directory. This is the root of a container or, for names
 * that are not trusted, "/". */
#ifndef MEMTRACE_BASE_IN_ROOT_H
#define MEMTRACE_BASE_IN_ROOT_H

#include <stdbool.h>
#include <sys/stat.h>

/* Opens the regular file `path` (absolute or not) for reading. It is the file that a process with
 * the root directory root_fd would find. root_fd may be an O_PATH descriptor. Symbolic links, also
 * absolute ones, and ".." stay below the root. The links of /proc (such as /proc/PID/exe) would
 * lead out of the root, so they are refused. follow: the last component may be a symbolic link.
 * Returns a descriptor (close-on-exec, non-blocking), and sets *ret_stat (may be NULL) to the
 * file's fstat(). On failure returns negative errno. -ENOENT: there is no such file; -ELOOP: it is
 * a symbolic link that may not be followed; -EINVAL: it is not a regular file; -ETIMEDOUT, -EBUSY:
 * the file system does not answer. For a file of FUSE, the descriptor is that of a copy
 * (far__keep()). The call does not block on a FIFO, and does not call a device's driver. */
int in_root__open_file(int root_fd, const char *path, bool follow, struct stat *ret_stat);

#endif
