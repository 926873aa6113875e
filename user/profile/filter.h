/* SPDX-License-Identifier: BSD-2-Clause */
/* Reduces a profile to the part that the user asked for. Facts about the whole run stay as they
 * are. */
#ifndef MEMTRACE_PROFILE_FILTER_H
#define MEMTRACE_PROFILE_FILTER_H

#include <stdbool.h>

#include "profile/profile.h"

/* Removes the sites of a sorted profile for which keep() returns false, and the locations that no
 * remaining site uses. 0 or -ENOMEM. */
int profile__keep_sites(struct profile *profile,
			bool (*keep)(void *ctx, const struct profile *profile,
				     const struct profile_site *site),
			void *ctx);

/* Reduces a sorted profile to the memory of some threads: those for which keep[index of thread] is
 * true. Only live memory is known by thread, so all other figures of the stacks are removed. Stacks
 * without live memory are removed, too. The variance is reduced in proportion to the bytes. 0 or
 * -ENOMEM. */
int profile__keep_threads(struct profile *profile, const bool *keep);

/* Index of the age in survival_age_s that differs from age_s by at most a tenth. -1: there is none,
 * or no stack says how much memory is older than this age. */
int profile__find_age(const struct profile *profile, double age_s);

/* Reduces a sorted profile to live memory that is older than survival_age_s[age], or, if `younger`
 * is set, to the other live memory. The ages of other figures are not known. It is also not known
 * which thread holds the remaining memory. So threads and all other figures of the stacks are
 * removed. Stacks without live memory are removed, too. The variance is reduced in proportion to
 * the bytes. *ret_unknown: live bytes of stacks whose ages are not known; they are left out. 0 or
 * -ENOMEM. */
int profile__keep_age(struct profile *profile, int age, bool younger, double *ret_unknown);

#endif
