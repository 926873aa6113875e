/* SPDX-License-Identifier: BSD-2-Clause */
/* dwz moves the common parts of several debug files to a file of its own, the alternate file. Each
 * debug file names the alternate file. Private to this room, for the child that reads DWARF. */
#ifndef MEMTRACE_SYMBOLIZE_DWARF_ALTERNATE_H
#define MEMTRACE_SYMBOLIZE_DWARF_ALTERNATE_H

#include <elfutils/libdw.h>

/* Opens the file that .gnu_debugaltlink names, by build-id or by name, only below debug_root (NULL:
 * /usr/lib/debug). The caller already runs as nobody and is not sealed yet. The call does not check
 * that the file is the right one. A descriptor, or -1. */
int dwarf_alternate__open(int file_fd, const char *debug_root);

/* The DWARF in fd if it is the alternate file that dwarf names, or NULL. Reads the file: call it in
 * the sandbox. */
Dwarf *dwarf_alternate__check(Dwarf *dwarf, int fd);

#endif
