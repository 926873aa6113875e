/* SPDX-License-Identifier: BSD-2-Clause */
/* Which stacks of several profiles are the same one for people. Profiles of other processes, other
 * hosts, of files that were built or loaded elsewhere:
 *
 * - A place in a file, by build-id and offset, is the same in all profiles that know both,
 *   whatever it is called there: the name of the one that knows it best goes for all (a profile
 *   without debug information beside one with it, a stripped file that goes by two names).
 * - Frames are the same when their functions are: by name, and by the shared library that they are
 *   in. That is the file's name up to ".so", or to a version number before that. All programs count
 *   as one library, whatever they are called, so that two versions of one are comparable. Where a
 *   profile has no mappings at all (.collapsed), libraries are left out of account.
 * - Stacks are the same when all their frames are, the allocator's left out, as in the table of
 *   one profile: they may differ in return addresses within the same functions. */
#ifndef MEMTRACE_PROFILE_MATCH_H
#define MEMTRACE_PROFILE_MATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "profile/profile.h"

/* What the profiles may make of us, hostile as files are: frames of all stacks, written out with
 * the functions that some other profile knows to be inlined in them; and figures that a comparison
 * has, one for each stack in each profile. */
struct match_limits {
	uint64_t frames, figures;
};

extern const struct match_limits match_limits;

struct match_site {
	uint32_t profile, site; /* indices */
};

struct match {
	struct match_site *sites; /* of all profiles, by stack, then by profile; owned */
	size_t *first;		  /* n_stacks + 1: where the sites of each stack begin; owned */
	size_t *best;	 /* of each stack the index of the site that tells its frames best; owned */
	size_t n_stacks; /* in an order that equal input makes equal */
};

/* Of n sorted, symbolized profiles. 0, -ENOMEM, or -EFBIG with the reason in err, in which profiles
 * are called by their numbers, from 1. match__clear() frees what *ret_match owns. */
int match__stacks(const struct profile *const *profiles, size_t n,
		  const struct match_limits *limits, struct match *ret_match, struct error *err);
void match__clear(struct match *match);

#endif
