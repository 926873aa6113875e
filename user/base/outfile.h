/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that appears under its final name only when it is complete. It is written under a
 * temporary name in the same directory, synced, then renamed. */
#ifndef MEMTRACE_BASE_OUTFILE_H
#define MEMTRACE_BASE_OUTFILE_H

#include <stdio.h>

#include "base/error.h"

struct outfile {
	FILE *stream; /* write here; NULL when not open */
	char *path;   /* the final name, owned */
	char *temp;   /* the temporary name, owned */
};

/* Opens a file that will get the name `path`. Fills *out, which must be zeroed. 0, or negative
 * errno; then err names `path` and says what to do. */
int outfile__open(struct outfile *out, const char *path, struct error *err);

/* Flushes, syncs, closes and renames the file. On failure removes the temporary file, and leaves
 * `path` as it was before. */
int outfile__commit(struct outfile *out, struct error *err);

/* Gives up after a write that failed with `code`, a negative errno: calls outfile__discard(), and
 * describes the failure in err. Returns `code`. */
int outfile__fail(struct outfile *out, int code, struct error *err);

/* Closes and removes what was written; does nothing if `out` is not open. */
void outfile__discard(struct outfile *out);

/* Checks whether files can be created in the directory of `path`: creates a temporary file there,
 * and removes it. 0, or negative errno as from outfile__open(). */
int outfile__check(const char *path, struct error *err);

#endif
