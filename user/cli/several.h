/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions of the commands that read several profiles. */
#ifndef MEMTRACE_CLI_SEVERAL_H
#define MEMTRACE_CLI_SEVERAL_H

#include <stddef.h>

#include "base/error.h"
#include "cli/fetch.h"
#include "profile/profile.h"

#define MAX_PROFILES 256

/* Profiles that were read; free with profiles__free(). All zero: none. */
struct profiles {
	struct profile *list[MAX_PROFILES];
	char *const *paths; /* the caller's */
	size_t n;
};

/* Reads n >= 0 files, one after the other. fetching: how to fetch files whose names are URLs; NULL:
 * a URL counts as the name of a file. 0, or an exit status after a complaint. */
int profiles__read(struct profiles *profiles, const char *command, char *const *paths, size_t n,
		   const struct fetch_options *fetching);

/* Complains of an error that concerns all profiles together, and names the first and the last file.
 * The text of err refers to files by their numbers, from 1. rc: the error, if err has no text.
 * Returns an exit status. */
int profiles__fail(const struct profiles *profiles, int rc, const struct error *err);
void profiles__free(struct profiles *profiles);

#endif
