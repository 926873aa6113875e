/* SPDX-License-Identifier: BSD-2-Clause */
/* The environment that a process got at its exec. */
#ifndef MEMTRACE_PROC_ENVIRON_H
#define MEMTRACE_PROC_ENVIRON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Does a variable in the environment of the process begin with this text ("PATH=/usr")? Searches
 * only the first 48 KiB. The process may have changed this text since its exec. false also if
 * nothing can be read. Source: env_start and env_end, fields 50 and 51 of /proc/PID/stat. */
bool environ__has(pid_t pid, const char *beginning);

/* Does a variable in the text of an environment begin with `beginning`? The text has `len` bytes
 * and consists of variables, each ended by a NUL. */
bool environ__text_has(const char *text, size_t len, const char *beginning);

#endif
