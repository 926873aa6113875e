// SPDX-License-Identifier: BSD-2-Clause
#include "profile/build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/vector.h"

/* The slot of key, or the free one where it belongs. */
static struct index_slot *find_slot(const struct index_map *map, uint64_t key)
{
	size_t i = hash__keyed(&key, sizeof(key)); /* the addresses of a file may be anybody's */

	for (;; i++) {
		struct index_slot *slot = &map->slots[i & (map->n_slots - 1)];

		if (!slot->value || slot->key == key)
			return slot;
	}
}

static int map_grow(struct index_map *map)
{
	struct index_map bigger = {.n_slots = map->n_slots ? 2 * map->n_slots : 64,
				   .n_used = map->n_used};

	bigger.slots = calloc(bigger.n_slots, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->n_slots; i++) {
		if (map->slots[i].value)
			*find_slot(&bigger, map->slots[i].key) = map->slots[i];
	}
	free(map->slots);
	*map = bigger;
	return 0;
}

/* Looks key up and enters it as new_index when it is not there: 1 when it was, 0 when it is new,
 * -ENOMEM. */
static int map_enter(struct index_map *map, uint64_t key, size_t new_index, size_t *ret_index)
{
	struct index_slot *slot;

	if (2 * map->n_used >= map->n_slots) {
		int err = map_grow(map);

		if (err)
			return err;
	}
	slot = find_slot(map, key);
	if (slot->value) {
		*ret_index = slot->value - 1;
		return 1;
	}
	if (new_index >= UINT32_MAX)
		return -ENOMEM;
	*slot = (struct index_slot){.key = key, .value = (uint32_t)new_index + 1};
	map->n_used++;
	*ret_index = new_index;
	return 0;
}

/* Entries are made before the array has room for them; this takes back the newest one. Nothing was
 * entered since, so no other key's probing has stepped over its slot. */
static void map_forget(struct index_map *map, uint64_t key)
{
	find_slot(map, key)->value = 0;
	map->n_used--;
}

void profile_build__free(struct profile_build *build)
{
	if (!build)
		return;
	free(build->locations.slots);
	free(build->named);
	free(build->threads.slots);
	free(build->pairs.slots);
	free(build->shares);
	free(build);
}

DEFINE_CLEANUP(struct profile_build *, cleanup_build, profile_build__free)

/* Numbers of names are dense, so that they need no hashing: of a large file most frames are looked
 * up here. Others than those are not made. */
#define MAX_NAMED (1u << 24)

/* Looks an address up, and enters it as new_index when it is not there: as map_enter(). */
static int enter_location(struct profile_build *build, uint64_t addr, size_t new_index,
			  size_t *ret_index)
{
	uint64_t number = addr - PROFILE_NO_ADDR;
	size_t room = build->n_named ? build->n_named : 64;

	if (addr < PROFILE_NO_ADDR || number >= MAX_NAMED)
		return map_enter(&build->locations, addr, new_index, ret_index);
	while (room <= number)
		room *= 2;
	if (room > build->n_named) {
		uint32_t *named = reallocarray(build->named, room, sizeof(*named));

		if (!named)
			return -ENOMEM;
		memset(named + build->n_named, 0, (room - build->n_named) * sizeof(*named));
		build->named = named;
		build->n_named = room;
	}
	if (build->named[number]) {
		*ret_index = build->named[number] - 1;
		return 1;
	}
	if (new_index >= UINT32_MAX)
		return -ENOMEM;
	build->named[number] = (uint32_t)new_index + 1;
	*ret_index = new_index;
	return 0;
}

static void forget_location(struct profile_build *build, uint64_t addr)
{
	if (addr < PROFILE_NO_ADDR || addr - PROFILE_NO_ADDR >= MAX_NAMED)
		map_forget(&build->locations, addr);
	else
		build->named[addr - PROFILE_NO_ADDR] = 0;
}

struct profile_build *profile__build(struct profile *profile)
{
	_cleanup_(cleanup_build) struct profile_build *build = NULL;
	size_t index;

	if (profile->build)
		return profile->build;
	build = calloc(1, sizeof(*build));
	if (!build)
		return NULL;
	for (size_t i = 0; i < profile->n_locations; i++) {
		if (enter_location(build, profile->locations[i].addr, i, &index) < 0)
			return NULL;
	}
	for (size_t i = 0; i < profile->n_threads; i++) {
		if (map_enter(&build->threads, profile->threads[i].tid, i, &index) < 0)
			return NULL;
	}
	profile->build = build;
	return_ptr(build);
}

int profile_build__share(struct profile_build *build, size_t site, size_t thread, double objects,
			 double bytes)
{
	uint64_t key = (uint64_t)site << 32 | thread;
	size_t index;
	int found = map_enter(&build->pairs, key, build->n_shares, &index);

	if (found < 0)
		return found;
	if (!found) {
		if (VECTOR_ADD_ROOM(build->shares, build->n_shares)) {
			map_forget(&build->pairs, key);
			return -ENOMEM;
		}
		build->shares[build->n_shares++] =
			(struct build_share){.site = (uint32_t)site, .thread = (uint32_t)thread};
	}
	build->shares[index].objects += objects;
	build->shares[index].bytes += bytes;
	return 0;
}

/* Index of the location of addr, made when it is new. */
static int add_location(struct profile *profile, uint64_t addr, size_t *ret_index)
{
	int found = enter_location(profile->build, addr, profile->n_locations, ret_index);

	if (found)
		return found < 0 ? found : 0;
	if (VECTOR_ADD_ROOM(profile->locations, profile->n_locations)) {
		forget_location(profile->build, addr);
		return -ENOMEM;
	}
	/* Until it is looked up, nothing is known about it. */
	profile->locations[profile->n_locations++] = (struct profile_location){
		.addr = addr, .mapping = -1, .reason = UNRESOLVED_NO_MAPPING};
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
	size_t index;
	int found;

	if (!profile__build(profile))
		return -ENOMEM;
	found = map_enter(&profile->build->threads, tid, profile->n_threads, &index);
	if (found < 0)
		return found;
	if (!found) {
		if (VECTOR_ADD_ROOM(profile->threads, profile->n_threads)) {
			map_forget(&profile->build->threads, tid);
			return -ENOMEM;
		}
		profile->threads[profile->n_threads++] = (struct profile_thread){.tid = tid};
	}
	if (name && *name) {
		char *to = profile->threads[index].name;
		size_t len = strnlen(name, sizeof(profile->threads[index].name) - 1);

		memcpy(to, name, len);
		to[len] = '\0';
	}
	*ret_thread = index;
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
