/* SPDX-License-Identifier: BSD-2-Clause */
/* Debug files that are neither on this machine nor in a container: they come from the servers that
 * the user names in DEBUGINFOD_URLS. */
#ifndef MEMTRACE_ELF_DEBUGINFOD_H
#define MEMTRACE_ELF_DEBUGINFOD_H

/* Asks the servers for the debug file of the ELF file behind fd, by its build-id. No server is
 * asked without DEBUGINFOD_URLS or without libdebuginfod. Nor is a server asked if the file has its
 * own .symtab, because such a file was not stripped. The call may take as long as libdebuginfod's
 * variables allow. If DEBUGINFOD_TIMEOUT is not set, a server may send nothing for 10 s. After one
 * request without an answer, no server is asked any more (-ETIMEDOUT). The result is an ELF file
 * with the same build-id; everything else in it may be hostile. Returns a descriptor (read-only,
 * close-on-exec), or negative errno: -ENOENT if there is no debug file. */
int debuginfod__open(int fd);

#endif
