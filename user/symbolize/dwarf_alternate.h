/* SPDX-License-Identifier: BSD-2-Clause */
/* dwz moves what several debug files have in common to a file of its own, which each of them names.
 * Private to this room, and for the child that reads DWARF. */
#ifndef MEMTRACE_SYMBOLIZE_DWARF_ALTERNATE_H
#define MEMTRACE_SYMBOLIZE_DWARF_ALTERNATE_H

#include <elfutils/libdw.h>

/* Opens what .gnu_debugaltlink of the file names, by build-id or by name, below debug_root only,
 * which is /usr/lib/debug when NULL. The caller is nobody by now, and not sealed yet. Whether it is
 * the right file is not known. A descriptor, or -1. */
int dwarf_alternate__open(int file_fd, const char *debug_root);

/* The DWARF in fd if it is what dwarf wants, or NULL. It reads the file: call it in the sandbox. */
Dwarf *dwarf_alternate__check(Dwarf *dwarf, int fd);

#endif
