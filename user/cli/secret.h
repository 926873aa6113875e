/* SPDX-License-Identifier: BSD-2-Clause */
/* Files with secrets: tokens and keys. */
#ifndef MEMTRACE_CLI_SECRET_H
#define MEMTRACE_CLI_SECRET_H

#include <stdbool.h>
#include <stddef.h>

/* Reads a file of up to max bytes. guarded: a file that everybody may read or write is refused. 0,
 * or an exit status after a complaint. The caller frees *ret. */
int secret__read(const char *command, const char *path, bool guarded, size_t max, char **ret);

/* Like secret__read(), for a file with one line: a bearer token (RFC 6750, 2.1) of at least `least`
 * characters. */
int secret__read_token(const char *command, const char *path, bool guarded, size_t least,
		       size_t max, char **ret);

#endif
