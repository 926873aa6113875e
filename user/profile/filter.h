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

/* Leaves of a sorted profile what the threads hold for which keep, by thread, is true. Whose the memory was
 * that is freed again is not known, nor is growth by thread: both are gone. The error is shared out by bytes.
 * 0 or -ENOMEM. */
int profile__keep_threads(struct profile *profile, const bool *keep);

#endif
