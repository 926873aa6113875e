/* SPDX-License-Identifier: BSD-2-Clause */
/* Less of a profile: what somebody asked for. What is said of the whole run stays as it is. */
#ifndef MEMTRACE_PROFILE_FILTER_H
#define MEMTRACE_PROFILE_FILTER_H

#include <stdbool.h>

#include "profile/profile.h"

/* Removes the sites of a sorted profile that keep() says false of, and the locations that no other
 * one has. 0 or -ENOMEM. */
int profile__keep_sites(struct profile *profile,
			bool (*keep)(void *ctx, const struct profile *profile,
				     const struct profile_site *site),
			void *ctx);

/* Leaves of a sorted profile what the threads hold for which keep, by thread, is true. Whose the
 * memory was that is freed again is not known, nor is growth by thread: both are gone. The error is
 * shared out by bytes. 0 or -ENOMEM. */
int profile__keep_threads(struct profile *profile, const bool *keep);

/* Which of the ages that the profile tells of (survival_age_s) is within a tenth of age_s; -1:
 * none, or it says of no stack how much is how old. */
int profile__find_age(const struct profile *profile, double age_s);

/* Leaves of a sorted profile what is live and older than the age of that index, or younger. What
 * was freed again has no age, nor has growth, and which thread holds what is left is not known: all
 * that is gone. The error is shared out by bytes. *ret_unknown: bytes of stacks whose ages are not
 * known, which are left out. 0 or -ENOMEM. */
int profile__keep_age(struct profile *profile, int age, bool younger, double *ret_unknown);

#endif
