/* SPDX-License-Identifier: BSD-2-Clause */
/* Decides which stacks of several profiles people would call the same. The profiles may be of
 * different processes, hosts or builds, with files loaded at different addresses:
 *
 * - A place in a file is known by build-id and offset. If two profiles have the same build-id and
 *   offset, they mean the same place, whatever they call it. All profiles take the frames of the
 *   profile that knows most about the place. This helps if only one profile was made with debug
 *   information. It also helps if a stripped file has two names, because its functions are then
 *   called after the file (file+0xoffset).
 * - Frames are the same if their functions have the same name and are in the same shared library.
 *   The name of a library is its file's name up to ".so", or up to a version number before ".so".
 *   All programs count as one library, whatever they are called, so that two versions of a program
 *   can be compared. Where a profile has no mappings at all (.collapsed), libraries are not
 *   compared.
 * - Stacks are the same when all their frames are the same. The allocator's frames do not count, as
 *   in the table of one profile. The stacks may differ in return addresses within the same
 *   functions. */
#ifndef MEMTRACE_PROFILE_MATCH_H
#define MEMTRACE_PROFILE_MATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "profile/profile.h"

/* Limits on memory, because the profiles may come from hostile files. frames: number of frames in
 * all stacks of all profiles. Inlined functions count, too, even if only another profile knows
 * them. figures: (number of different stacks) * (number of profiles). */
struct match_limits {
	uint64_t frames, figures;
};

extern const struct match_limits match_limits;

struct match_site {
	uint32_t profile, site; /* indices */
};

struct match {
	struct match_site *sites; /* sites of all profiles, by stack, then by profile; owned */
	size_t *first;		  /* n_stacks + 1: where the sites of each stack begin; owned */
	size_t *best;	 /* by stack: index in sites of the site with the fewest unnamed frames;
			  * owned */
	size_t n_stacks; /* the stacks' order depends only on the input */
};

/* Matches the stacks of n sorted, symbolized profiles. 0, -ENOMEM, or -EFBIG with the reason in
 * err, which names profiles by number, from 1. match__clear() frees what *ret_match owns. */
int match__stacks(const struct profile *const *profiles, size_t n,
		  const struct match_limits *limits, struct match *ret_match, struct error *err);
void match__clear(struct match *match);

#endif
