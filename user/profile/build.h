/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to user/profile: look-up tables with which a profile is built in linear time. The first
 * call of a profile__add_* function makes them. profile__sort() moves their contents into the
 * sites. */
#ifndef MEMTRACE_PROFILE_BUILD_H
#define MEMTRACE_PROFILE_BUILD_H

#include "base/table.h"
#include "profile/profile.h"

/* The part of a site's memory that a thread holds, until profile__sort() puts it into the site. */
struct build_share {
	uint32_t site, thread;
	double objects, bytes;
};

struct profile_build {
	struct table locations; /* profile->locations by address, if they have one */
	/* for locations without an address, by addr - PROFILE_NO_ADDR: the index in
	 * profile->locations plus 1, or 0 if there is no such location */
	uint32_t *named;
	size_t n_named;
	struct table threads; /* profile->threads by tid */
	struct table pairs;   /* shares by site and thread */
	struct build_share *shares;
	size_t n_shares;
};

/* Returns the profile's build state. If there is none yet, makes it from what the profile holds
 * already. NULL: out of memory. */
struct profile_build *profile__build(struct profile *profile);
void profile_build__free(struct profile_build *build);

/* Adds objects and bytes to the share of a site's live memory that a thread holds. site, thread:
 * indices. 0 or -ENOMEM. */
int profile_build__share(struct profile_build *build, size_t site, size_t thread, double objects,
			 double bytes);

/* Removes the locations that are in no stack. 0 or -ENOMEM. */
int profile__drop_unused_locations(struct profile *profile);

#endif
