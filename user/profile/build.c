// SPDX-License-Identifier: BSD-2-Clause
#include "profile/build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/table.h"
#include "base/vector.h"

/* Returns the hash of a table's key. The hash depends on a secret, because an attacker may have
 * chosen the addresses in a file. */
static size_t home_of(uint64_t key)
{
	return hash__keyed(&key, sizeof(key));
}

void profile_build__free(struct profile_build *build)
{
	if (!build)
		return;
	table__clear(&build->locations);
	free(build->named);
	table__clear(&build->threads);
	table__clear(&build->pairs);
	free(build->shares);
	free(build);
}

/* Locations without an address have dense numbers (PROFILE_NO_ADDR), so an array finds them without
 * hashing. Most frames of a large file are looked up in this array. Numbers from MAX_NAMED on are
 * not in it. */
#define MAX_NAMED (1u << 24)

static bool is_named(uint64_t addr)
{
	return addr >= PROFILE_NO_ADDR && addr - PROFILE_NO_ADDR < MAX_NAMED;
}

static uint32_t *named_slot(struct profile_build *build, size_t number)
{
	size_t before = build->n_named;

	if (VECTOR_RESERVE(build->named, build->n_named, number + 1))
		return NULL;
	memset(build->named + before, 0, (build->n_named - before) * sizeof(*build->named));
	return &build->named[number];
}

static uint32_t *unnamed_slot(const struct profile *profile, uint64_t addr)
{
	return TABLE_SLOT(&profile->build->locations, home_of(addr), i,
			  profile->locations[i].addr == addr);
}

/* Returns the slot of the address's location. The slot holds the location's index plus 1; 0: there
 * is no such location yet. NULL: out of memory. */
static uint32_t *location_slot(const struct profile *profile, uint64_t addr)
{
	int rc;

	if (is_named(addr))
		return named_slot(profile->build, addr - PROFILE_NO_ADDR);
	rc = table__reserve(&profile->build->locations, profile->n_locations + 1);
	for (size_t i = 0; i < profile->n_locations && rc > 0; i++) {
		uint32_t *slot = unnamed_slot(profile, profile->locations[i].addr);

		if (!*slot && !is_named(profile->locations[i].addr))
			*slot = (uint32_t)i + 1;
	}
	return rc < 0 ? NULL : unnamed_slot(profile, addr);
}

static uint32_t *thread_of(const struct profile *profile, uint32_t tid)
{
	return TABLE_SLOT(&profile->build->threads, home_of(tid), i,
			  profile->threads[i].tid == tid);
}

/* Like location_slot(), for a thread. */
static uint32_t *thread_slot(const struct profile *profile, uint32_t tid)
{
	int rc = table__reserve(&profile->build->threads, profile->n_threads + 1);

	for (size_t i = 0; i < profile->n_threads && rc > 0; i++) {
		uint32_t *slot = thread_of(profile, profile->threads[i].tid);

		if (!*slot)
			*slot = (uint32_t)i + 1;
	}
	return rc < 0 ? NULL : thread_of(profile, tid);
}

static uint32_t *share_of(const struct profile_build *build, size_t site, size_t thread)
{
	return TABLE_SLOT(&build->pairs, home_of((uint64_t)site << 32 | thread), i,
			  build->shares[i].site == site && build->shares[i].thread == thread);
}

/* Like location_slot(), for a thread's share of a site. */
static uint32_t *share_slot(struct profile_build *build, size_t site, size_t thread)
{
	int rc = table__reserve(&build->pairs, build->n_shares + 1);

	for (size_t i = 0; i < build->n_shares && rc > 0; i++)
		*share_of(build, build->shares[i].site, build->shares[i].thread) = (uint32_t)i + 1;
	return rc < 0 ? NULL : share_of(build, site, thread);
}

struct profile_build *profile__build(struct profile *profile)
{
	if (profile->build)
		return profile->build;
	profile->build = calloc(1, sizeof(*profile->build));
	for (size_t i = 0; i < profile->n_locations && profile->build; i++) {
		uint32_t *slot = location_slot(profile, profile->locations[i].addr);

		if (slot && !*slot)
			*slot = (uint32_t)i + 1;
		if (!slot) {
			profile_build__free(profile->build);
			profile->build = NULL;
		}
	}
	return profile->build;
}

int profile_build__share(struct profile_build *build, size_t site, size_t thread, double objects,
			 double bytes)
{
	uint32_t *slot = share_slot(build, site, thread);

	if (!slot || (!*slot && VECTOR_ADD_ROOM(build->shares, build->n_shares)))
		return -ENOMEM;
	if (!*slot) {
		build->shares[build->n_shares++] =
			(struct build_share){.site = (uint32_t)site, .thread = (uint32_t)thread};
		*slot = (uint32_t)build->n_shares;
	}
	build->shares[*slot - 1].objects += objects;
	build->shares[*slot - 1].bytes += bytes;
	return 0;
}

/* Finds the location of addr, or adds it. *ret_index: its index. */
static int add_location(struct profile *profile, uint64_t addr, size_t *ret_index)
{
	uint32_t *slot = location_slot(profile, addr);

	if (!slot || (!*slot && (profile->n_locations >= UINT32_MAX ||
				 VECTOR_ADD_ROOM(profile->locations, profile->n_locations))))
		return -ENOMEM;
	if (!*slot) {
		/* Nothing is known of an address until it is looked up. */
		profile->locations[profile->n_locations++] = (struct profile_location){
			.addr = addr, .mapping = -1, .reason = UNRESOLVED_NO_MAPPING};
		*slot = (uint32_t)profile->n_locations;
	}
	*ret_index = *slot - 1;
	return 0;
}

int profile__add_site(struct profile *profile, const uint64_t *addrs, size_t n, bool truncated,
		      size_t *ret_site)
{
	_cleanup_free_ uint32_t *indices = NULL;
	uint32_t n_indices = 0;

	if (!profile__build(profile) || profile->n_sites >= UINT32_MAX || n >= UINT32_MAX)
		return -ENOMEM;
	indices = calloc(n ? n : 1, sizeof(*indices));
	if (!indices)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		size_t index;
		int err;

		if (!addrs[i])
			continue;
		err = add_location(profile, addrs[i], &index);
		if (err)
			return err;
		indices[n_indices++] = (uint32_t)index;
	}
	if (VECTOR_ADD_ROOM(profile->sites, profile->n_sites))
		return -ENOMEM;
	profile->sites[profile->n_sites] = (struct profile_site){
		.locations = indices, .n_locations = n_indices, .truncated = truncated};
	indices = NULL;
	*ret_site = profile->n_sites++;
	return 0;
}

int profile__add_thread(struct profile *profile, uint32_t tid, const char *name, size_t *ret_thread)
{
	struct profile_thread *thread;
	uint32_t *slot;

	if (!profile__build(profile))
		return -ENOMEM;
	slot = thread_slot(profile, tid);
	if (!slot || (!*slot && VECTOR_ADD_ROOM(profile->threads, profile->n_threads)))
		return -ENOMEM;
	if (!*slot) {
		profile->threads[profile->n_threads++] = (struct profile_thread){.tid = tid};
		*slot = (uint32_t)profile->n_threads;
	}
	thread = &profile->threads[*slot - 1];
	if (name && *name) {
		size_t len = strnlen(name, sizeof(thread->name) - 1);

		memcpy(thread->name, name, len);
		thread->name[len] = '\0';
	}
	*ret_thread = *slot - 1;
	return 0;
}

int profile__add_transfer(struct profile *profile, const struct profile_transfer *transfer)
{
	if (VECTOR_ADD_ROOM(profile->transfers, profile->n_transfers))
		return -ENOMEM;
	profile->transfers[profile->n_transfers++] = *transfer;
	return 0;
}

static int add_live(struct profile *profile, size_t site, size_t thread, const struct estimate *one)
{
	int err;

	if (site >= profile->n_sites || thread >= profile->n_threads)
		return -EINVAL;
	if (!profile__build(profile))
		return -ENOMEM;
	err = profile_build__share(profile->build, site, thread, one->objects, one->bytes);
	if (err)
		return err;
	estimate__merge(&profile->sites[site].live, one);
	return 0;
}

int profile__add_live(struct profile *profile, size_t site, size_t thread, uint64_t size)
{
	struct estimate one = {};

	estimate__add(&one, size, profile->interval_bytes);
	return add_live(profile, site, thread, &one);
}

int profile__add_live_seen(struct profile *profile, size_t site, size_t thread, uint64_t size,
			   double p)
{
	struct estimate one = {};

	estimate__add_seen(&one, size, p);
	return add_live(profile, site, thread, &one);
}

int profile__add_live_estimate(struct profile *profile, size_t site, size_t thread,
			       const struct estimate *estimate)
{
	return add_live(profile, site, thread, estimate);
}

int profile__add_held(struct profile *profile, size_t site, size_t thread, double objects,
		      double bytes)
{
	if (site >= profile->n_sites || thread >= profile->n_threads)
		return -EINVAL;
	if (!profile__build(profile))
		return -ENOMEM;
	return profile_build__share(profile->build, site, thread, objects, bytes);
}

int profile__add_block(struct profile *profile, size_t site, uint64_t addr, uint64_t size)
{
	struct profile_site *to;

	if (site >= profile->n_sites)
		return -EINVAL;
	to = &profile->sites[site];
	if (VECTOR_ADD_ROOM(to->blocks, to->n_blocks))
		return -ENOMEM;
	to->blocks[to->n_blocks++] = (struct profile_block){addr, size};
	return 0;
}
