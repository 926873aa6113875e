/* SPDX-License-Identifier: BSD-2-Clause */
/* dwz moves the common parts of several debug files to another file, the alternate file. Each debug
 * file names the alternate file. Private to user/symbolize, for the child that reads DWARF. */
#ifndef MEMTRACE_SYMBOLIZE_DWARF_ALTERNATE_H
#define MEMTRACE_SYMBOLIZE_DWARF_ALTERNATE_H

#include <elfutils/libdw.h>

/* Opens the alternate file that .gnu_debugaltlink in file_fd names. Searches for it by build-id and
 * by name, only below debug_root (NULL: /usr/lib/debug). Call it when the process already runs as
 * the user nobody, but is not sealed yet. Does not check that the file is the right one. Returns a
 * descriptor, or -1. */
int dwarf_alternate__open(int file_fd, const char *debug_root);

/* Returns the DWARF of the file fd if this file is the alternate file that `dwarf` names, else
 * NULL. Reads the file, so it must be called in the sandbox. */
Dwarf *dwarf_alternate__check(Dwarf *dwarf, int fd);

#endif
