/* SPDX-License-Identifier: BSD-2-Clause */
/* Debug files that are neither on this machine nor in a container: those of the servers that the
 * user names in DEBUGINFOD_URLS. */
#ifndef MEMTRACE_ELF_DEBUGINFOD_H
#define MEMTRACE_ELF_DEBUGINFOD_H

/* Asks the servers for the debug file of the ELF file behind fd, by its build-id. Without
 * DEBUGINFOD_URLS nobody is asked, nor when the file has a .symtab of its own, for it was not
 * stripped then, nor on a machine without libdebuginfod. It may take as long as the variables of
 * libdebuginfod allow, 10 s if they do not say; after a server has not answered nobody is asked any
 * more (-ETIMEDOUT). What comes is an ELF file with the same build-id; beyond that it is as
 * hostile as any. A descriptor (read-only, close-on-exec), or negative errno: -ENOENT there is
 * none. */
int debuginfod__open(int fd);

#endif
