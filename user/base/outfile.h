/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that appears whole or not at all: it is written in the directory of its final name,
 * synced, then renamed. */
#ifndef MEMTRACE_BASE_OUTFILE_H
#define MEMTRACE_BASE_OUTFILE_H

#include <stdio.h>

#include "base/error.h"

struct outfile {
	FILE *stream; /* write here; NULL when not open */
	char *path;   /* the final name, owned */
	char *temp;   /* the temporary name, owned */
};

/* Opens a file that will get the name path. Fills *out, which must be zeroed. 0, or negative errno;
 * err then names path and says what to do. */
int outfile__open(struct outfile *out, const char *path, struct error *err);

/* Flushes, syncs and renames. On failure the temporary file is removed, and path is as it was
 * before. Closes in both cases. */
int outfile__commit(struct outfile *out, struct error *err);

/* For a write that failed with code, a negative errno: calls outfile__discard() and describes the
 * failure in err. Returns code. */
int outfile__fail(struct outfile *out, int code, struct error *err);

/* Closes and removes what was written; does nothing if `out` is not open. */
void outfile__discard(struct outfile *out);

/* Can files be created in the directory of path? Tries it with a temporary file, which it
 * removes. */
int outfile__check(const char *path, struct error *err);

#endif
