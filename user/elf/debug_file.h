/* SPDX-License-Identifier: BSD-2-Clause */
/* The separate debug file of a program or library: where distributions put the symbols and lines
 * that they strip off. */
#ifndef MEMTRACE_ELF_DEBUG_FILE_H
#define MEMTRACE_ELF_DEBUG_FILE_H

/* Finds the debug file of the ELF file behind fd, which is called path (absolute) in the tree below
 * root_fd: an O_PATH descriptor of "/", or of the root of a container, whose links cannot lead out
 * of it. The first of these that is there and belongs to the file is taken:
 *
 *   /usr/lib/debug/.build-id/xx/yyyy.debug    by the build-id
 *   DIR/LINK                                  by .gnu_debuglink, DIR being that of path
 *   DIR/.debug/LINK
 *   /usr/lib/debug/DIR/LINK                   also with /usr before DIR, or without it, where the
 *                                             one is a link to the other on most systems
 *
 * A file with a build-id is believed to belong to one that has the same, a file without to one
 * whose CRC32 is that in .gnu_debuglink (for which at most 1 GiB is read). The debug file is an ELF
 * file of the same kind; beyond that it is as hostile as the tree. Never fd's own file. Nothing is
 * asked of the network.
 *
 * A descriptor (read-only, close-on-exec), or negative errno: -ENOENT none found; -ENOEXEC fd is no
 * sound x86-64 program or library; -EINVAL path is not absolute; -EMFILE, -ENFILE, -ENOMEM; what
 * reading fd gives. */
int debug_file__open(int root_fd, int fd, const char *path);

#endif
