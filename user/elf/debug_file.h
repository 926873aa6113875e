/* SPDX-License-Identifier: BSD-2-Clause */
/* The separate debug file of a program or library: the symbols and line tables that
 * distributions strip off. */
#ifndef MEMTRACE_ELF_DEBUG_FILE_H
#define MEMTRACE_ELF_DEBUG_FILE_H

/* Finds the debug file of the ELF file behind fd. path: the file's absolute name in the tree below
 * root_fd. root_fd: an O_PATH descriptor of "/" or of a container's root, which links cannot leave.
 * Searches these places in order and takes the first file that belongs to the ELF file:
 *
 *   /usr/lib/debug/.build-id/xx/yyyy.debug    by the build-id
 *   DIR/LINK                                  by .gnu_debuglink; DIR is the directory of path
 *   DIR/.debug/LINK
 *   /usr/lib/debug/DIR/LINK                   also with /usr added before DIR or removed from
 *                                             it: on most systems /lib is a link to /usr/lib
 *
 * If the ELF file has a build-id, the debug file must have the same one. Otherwise the debug file's
 * CRC32 must be the one in .gnu_debuglink. To check this, at most 1 GiB is read in one call, and at
 * most 4 GiB in all calls together. The limit of 4 GiB grows by 1 MiB per second. The debug file is
 * an ELF file of the same kind; everything else in it may be hostile. It is never fd's own file.
 * The network is not used.
 *
 * Returns a descriptor (read-only, close-on-exec), or negative errno: -ENOENT if none is found;
 * -ENOEXEC if fd is no sound x86-64 program or library; -EINVAL if path is not absolute; -EMFILE,
 * -ENFILE, -ENOMEM; any error of reading fd. */
int debug_file__open(int root_fd, int fd, const char *path);

#endif
