/* SPDX-License-Identifier: BSD-2-Clause */
/* Reduces a profile to what the user asked for. What it says of the whole run stays as it is. */
#ifndef MEMTRACE_PROFILE_FILTER_H
#define MEMTRACE_PROFILE_FILTER_H

#include <stdbool.h>

#include "profile/profile.h"

/* Removes the sites of a sorted profile for which keep() is false, and the locations that no other
 * site uses. 0 or -ENOMEM. */
int profile__keep_sites(struct profile *profile,
			bool (*keep)(void *ctx, const struct profile *profile,
				     const struct profile_site *site),
			void *ctx);

/* Leaves of a sorted profile what the threads hold for which keep, by thread, is true. Which
 * thread's memory was freed is not known, nor is growth by thread, so both are removed. The error
 * is shared out by bytes. 0 or -ENOMEM. */
int profile__keep_threads(struct profile *profile, const bool *keep);

/* Index of the age in survival_age_s that is within a tenth of age_s. -1: there is none, or no
 * stack says how much of its memory is older than that. */
int profile__find_age(const struct profile *profile, double age_s);

/* Leaves of a sorted profile what is live and older than the age of that index, or younger. Freed
 * memory and growth have no age, and which thread holds what is left is not known. So all three are
 * removed. The error is shared out by bytes. *ret_unknown: bytes of stacks whose ages are not
 * known, which are left out. 0 or -ENOMEM. */
int profile__keep_age(struct profile *profile, int age, bool younger, double *ret_unknown);

#endif
