/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that appears whole or not at all: written beside its final name, synced, then renamed. */
#ifndef MEMTRACE_BASE_OUTFILE_H
#define MEMTRACE_BASE_OUTFILE_H

#include <stdio.h>

#include "base/error.h"

struct outfile {
	FILE *stream; /* write here; NULL when not open */
	char *path;   /* the final name, owned */
	char *temp;   /* the name until then, owned */
};

/* 0, or negative errno with err naming path and what to do. The zeroed *out is filled on success.
 */
int outfile__open(struct outfile *out, const char *path, struct error *err);

/* Flushes, syncs and renames; on failure the temporary file is gone and whatever stood at path
 * before still stands there. Closes in both cases. */
int outfile__commit(struct outfile *out, struct error *err);

/* Writing has failed with code, negative errno: outfile__discard(), and err says so. Returns
 * code. */
int outfile__fail(struct outfile *out, int code, struct error *err);

/* Closes and removes what was written; nothing to do on one that is not open. */
void outfile__discard(struct outfile *out);

/* Can files be created beside path? Tries with an empty one, which it removes. */
int outfile__check(const char *path, struct error *err);

#endif
