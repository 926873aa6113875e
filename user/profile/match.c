// SPDX-License-Identifier: BSD-2-Clause
/* Every frame gets a number, and equal frames get the same number. A stack is the list of its
 * frames' numbers. Stacks are sorted by these lists. The time is linear-logarithmic in the size of
 * the profiles. */
#include "profile/match.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/intern.h"
#include "base/path.h"

const struct match_limits match_limits = {.frames = 1u << 27, .figures = 1u << 24};

/* A location as a place in a file. */
struct place {
	const char *build_id;
	uint64_t off;
	const struct profile_location *location;
	uint32_t number; /* the location's, among the locations of all profiles */
};

/* A frame as the numbers of two names (matcher.names). Frames are equal if both numbers are. */
struct frame {
	uint32_t name, library;
};

struct key {
	const uint32_t *numbers; /* leaf first */
	uint32_t n;
	struct match_site site;
};

struct matcher {
	const struct match_limits *limits;
	const struct profile *const *profiles;
	size_t n;
	size_t *base;	   /* by profile: number of its first location; element n: the number of
			    * all locations */
	uint32_t *same_as; /* by location: number of the location whose frames it takes */
	const struct profile_location **locations; /* by number */
	uint32_t *library_of;  /* by mapping, counted through all profiles: the number of the
			        * mapping's library in `names` */
	struct intern names;   /* names of frames, and of libraries; the first is "" */
	struct intern frames;  /* struct frame of each number */
	uint32_t *first_frame; /* by location, n_locations + 1: index of its first frame in
			        * numbers[] */
	uint32_t *numbers;     /* of frames */
	bool *is_allocator;    /* by number of frame */
	uint32_t *stacks;      /* the numbers of all stacks' frames */
	struct key *keys;
	size_t n_keys;
};

static void matcher__clear(struct matcher *m)
{
	intern__clear(&m->names);
	intern__clear(&m->frames);
	free(m->base);
	free(m->same_as);
	free(m->locations);
	free(m->library_of);
	free(m->first_frame);
	free(m->numbers);
	free(m->is_allocator);
	free(m->stacks);
	free(m->keys);
}

void match__clear(struct match *match)
{
	free(match->sites);
	free(match->first);
	free(match->best);
	*match = (struct match){};
}

/* Allocates at least one element, so that NULL always means out of memory. */
static void *array(size_t n, size_t size)
{
	return calloc(n + 1, size);
}

static uint64_t file_offset(const struct profile_mapping *mapping,
			    const struct profile_location *location)
{
	return location->addr - 1 - mapping->start + mapping->off;
}

/* Returns the length of a shared library's file name up to its version. 0: not a shared library. */
static size_t library_length(const char *name)
{
	const char *end = strstr(name, ".so");

	if (!end)
		return 0;
	/* libc-2.31.so and libc.so.6 */
	for (const char *c = name; c < end; c++)
		if (*c == '-' && isdigit((unsigned char)c[1]))
			end = c;
	return (size_t)(end - name);
}

static int find_libraries(struct matcher *m)
{
	bool known = true;
	size_t number = 0, n = 0;
	uint32_t none;
	int rc;

	for (size_t p = 0; p < m->n; p++) {
		n += m->profiles[p]->n_mappings;
		known &= m->profiles[p]->n_mappings != 0;
	}
	m->library_of = array(n, sizeof(*m->library_of));
	rc = m->library_of ? intern__add(&m->names, "", 0, &none) : -ENOMEM;
	for (size_t p = 0; p < m->n; p++)
		for (size_t i = 0; rc >= 0 && i < m->profiles[p]->n_mappings; i++) {
			const char *path = m->profiles[p]->mappings[i].path,
				   *name = base_name(known && path ? path : "");

			rc = intern__add(&m->names, name, library_length(name),
					 &m->library_of[number++]);
		}
	return rc < 0 ? rc : 0;
}

/* Returns how much is known of the code at a location: the number of its functions, including
 * inlined ones; 0: they have no names. */
static size_t knowledge(const struct profile_location *location)
{
	return location->reason == UNRESOLVED_NAMED ? location->n_frames : 0;
}

/* Orders locations by place. Several locations may be one place. Of these, the one with the most
 * knowledge() comes first; ties by number. */
static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	size_t known_x = knowledge(x->location), known_y = knowledge(y->location);
	int order = strcmp(x->build_id, y->build_id);

	if (order)
		return order;
	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	if (known_x != known_y)
		return known_x > known_y ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

/* Several locations may be one place in a file. They all take the frames of the location with the
 * most knowledge(). Sets same_as of each location: mostly to the location itself. */
static int find_places(struct matcher *m)
{
	size_t n_locations = m->base[m->n], n = 0;
	_cleanup_free_ struct place *places = array(n_locations, sizeof(*places));

	m->same_as = array(n_locations, sizeof(*m->same_as));
	m->locations = array(n_locations, sizeof(*m->locations));
	if (!places || !m->same_as || !m->locations)
		return -ENOMEM;
	for (size_t p = 0; p < m->n; p++) {
		const struct profile *profile = m->profiles[p];

		for (size_t i = 0; i < profile->n_locations; i++) {
			const struct profile_location *location = &profile->locations[i];
			uint32_t number = (uint32_t)(m->base[p] + i);
			const struct profile_mapping *mapping;

			m->locations[number] = location;
			m->same_as[number] = number;
			if (location->mapping < 0)
				continue;
			mapping = &profile->mappings[location->mapping];
			if (mapping->build_id)
				places[n++] = (struct place){mapping->build_id,
							     file_offset(mapping, location),
							     location, number};
		}
	}
	qsort(places, n, sizeof(*places), by_place);
	for (size_t i = 1; i < n; i++)
		if (places[i].off == places[i - 1].off &&
		    !strcmp(places[i].build_id, places[i - 1].build_id))
			m->same_as[places[i].number] = m->same_as[places[i - 1].number];
	return 0;
}

/* Makes the name that the symbolizer gives to a location without a known name. */
static char *address_name(const struct profile *profile, const struct profile_location *location)
{
	char *name;
	int len;

	if (location->mapping >= 0 && profile->mappings[location->mapping].path[0] == '/') {
		const struct profile_mapping *mapping = &profile->mappings[location->mapping];

		len = asprintf(&name, "%s+0x%" PRIx64, base_name(mapping->path),
			       file_offset(mapping, location));
	} else {
		len = asprintf(&name, "0x%" PRIx64, location->addr - 1);
	}
	return len < 0 ? NULL : name;
}

static int number_frame(struct matcher *m, const char *name, uint32_t library, uint32_t *ret_number)
{
	struct frame frame = {.library = library};
	int rc = intern__add(&m->names, name, strlen(name), &frame.name);

	if (rc >= 0)
		rc = intern__add(&m->frames, &frame, sizeof(frame), ret_number);
	if (rc == 1)
		m->is_allocator[*ret_number] = profile__is_allocator_frame(name);
	return rc < 0 ? rc : 0;
}

/* Numbers the frames of one location. */
static int number_location(struct matcher *m, const struct profile *profile,
			   const struct profile_location *location, uint32_t library,
			   uint32_t *numbers)
{
	_cleanup_free_ char *address = NULL;
	int rc = 0;

	for (size_t k = 0; k < location->n_frames && !rc; k++)
		rc = number_frame(m, location->frames[k].name, library, &numbers[k]);
	if (location->n_frames)
		return rc;
	address = address_name(profile, location);
	return address ? number_frame(m, address, library, numbers) : -ENOMEM;
}

/* Numbers the frames of all locations. */
static int number_frames(struct matcher *m)
{
	size_t n_locations = m->base[m->n], n = 0, mappings = 0;
	int rc = 0;

	m->first_frame = array(n_locations + 1, sizeof(*m->first_frame));
	if (!m->first_frame)
		return -ENOMEM;
	for (size_t i = 0; i < n_locations; i++) {
		n += m->locations[i]->n_frames ? m->locations[i]->n_frames : 1;
		if (n > UINT32_MAX)
			return -ENOMEM;
		m->first_frame[i + 1] = (uint32_t)n;
	}
	m->numbers = array(n, sizeof(*m->numbers));
	m->is_allocator = array(n, sizeof(*m->is_allocator));
	if (!m->numbers || !m->is_allocator)
		return -ENOMEM;
	for (size_t p = 0; p < m->n; p++) {
		const struct profile *profile = m->profiles[p];

		for (size_t i = 0; i < profile->n_locations && !rc; i++) {
			const struct profile_location *location = &profile->locations[i];
			uint32_t library =
				location->mapping < 0
					? 0
					: m->library_of[mappings + (size_t)location->mapping];

			rc = number_location(m, profile, location, library,
					     m->numbers + m->first_frame[m->base[p] + i]);
		}
		mappings += profile->n_mappings;
	}
	return rc;
}

static int by_frames(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	for (uint32_t i = 0; i < x->n && i < y->n; i++)
		if (x->numbers[i] != y->numbers[i])
			return x->numbers[i] < y->numbers[i] ? -1 : 1;
	return (x->n > y->n) - (x->n < y->n);
}

static int by_stack(const void *a, const void *b)
{
	const struct match_site *x = &((const struct key *)a)->site;
	const struct match_site *y = &((const struct key *)b)->site;
	int order = by_frames(a, b);

	if (order)
		return order;
	if (x->profile != y->profile)
		return x->profile < y->profile ? -1 : 1;
	return (x->site > y->site) - (x->site < y->site);
}

/* Writes the numbers of a site's frames to `to`, and returns how many there are. Frames of
 * allocators are left out, except for the stack's last (outermost) frame. */
static uint32_t put_stack(const struct matcher *m, size_t profile, const struct profile_site *site,
			  uint32_t *to)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < site->n_locations; i++) {
		uint32_t location = m->same_as[m->base[profile] + site->locations[i]];
		uint32_t end = m->first_frame[location + 1];

		for (uint32_t f = m->first_frame[location]; f < end; f++)
			if (!m->is_allocator[m->numbers[f]] ||
			    (i + 1 == site->n_locations && f + 1 == end))
				to[n++] = m->numbers[f];
	}
	return n;
}

static int make_keys(struct matcher *m, struct error *err)
{
	size_t n_frames = 0, n_sites = 0, used = 0;

	for (size_t p = 0; p < m->n; p++) {
		n_sites += m->profiles[p]->n_sites;
		for (size_t i = 0; i < m->profiles[p]->n_sites; i++) {
			const struct profile_site *site = &m->profiles[p]->sites[i];

			for (uint32_t k = 0; k < site->n_locations; k++) {
				uint32_t l = m->same_as[m->base[p] + site->locations[k]];

				n_frames += m->first_frame[l + 1] - m->first_frame[l];
			}
			if (n_frames > m->limits->frames)
				return error__set(
					err, -EFBIG,
					"the stacks of the profiles up to number %zu have more "
					"than %" PRIu64 " frames, inlined ones included: too many "
					"to compare",
					p + 1, m->limits->frames);
		}
	}
	m->stacks = array(n_frames, sizeof(*m->stacks));
	m->keys = array(n_sites, sizeof(*m->keys));
	if (!m->stacks || !m->keys)
		return -ENOMEM;
	for (size_t p = 0; p < m->n; p++)
		for (size_t i = 0; i < m->profiles[p]->n_sites; i++) {
			struct key *key = &m->keys[m->n_keys++];

			key->site = (struct match_site){(uint32_t)p, (uint32_t)i};
			key->numbers = m->stacks + used;
			key->n = put_stack(m, p, &m->profiles[p]->sites[i], m->stacks + used);
			used += key->n;
		}
	qsort(m->keys, m->n_keys, sizeof(*m->keys), by_stack);
	return 0;
}

static size_t n_unnamed(const struct profile *profile, const struct profile_site *site)
{
	size_t n = 0;

	for (uint32_t i = 0; i < site->n_locations; i++)
		n += profile__location(profile, site, i)->reason != UNRESOLVED_NAMED;
	return n;
}

/* Among the sites of one stack, finds the site with the fewest unnamed frames. If several sites
 * have equally few, takes the last of them: the latest profile's. */
static size_t best_of(const struct matcher *m, size_t first, size_t end)
{
	size_t fewest = SIZE_MAX, best = first;

	for (size_t i = first; i < end; i++) {
		const struct profile *profile = m->profiles[m->keys[i].site.profile];
		size_t n = n_unnamed(profile, &profile->sites[m->keys[i].site.site]);

		if (n <= fewest) {
			fewest = n;
			best = i;
		}
	}
	return best;
}

static int group(const struct matcher *m, struct match *ret, struct error *err)
{
	ret->sites = array(m->n_keys, sizeof(*ret->sites));
	ret->first = array(m->n_keys + 1, sizeof(*ret->first));
	ret->best = array(m->n_keys, sizeof(*ret->best));
	if (!ret->sites || !ret->first || !ret->best) {
		match__clear(ret);
		return -ENOMEM;
	}
	for (size_t i = 0; i < m->n_keys; i++) {
		ret->sites[i] = m->keys[i].site;
		if (!i || by_frames(&m->keys[i - 1], &m->keys[i]))
			ret->first[ret->n_stacks++] = i;
	}
	ret->first[ret->n_stacks] = m->n_keys;
	if (ret->n_stacks * m->n > m->limits->figures) {
		error__set(err, -EFBIG,
			   "%zu different stacks in %zu profiles are too many to compare",
			   ret->n_stacks, m->n);
		match__clear(ret);
		return -EFBIG;
	}
	for (size_t i = 0; i < ret->n_stacks; i++)
		ret->best[i] = best_of(m, ret->first[i], ret->first[i + 1]);
	return 0;
}

int match__stacks(const struct profile *const *profiles, size_t n,
		  const struct match_limits *limits, struct match *ret_match, struct error *err)
{
	_cleanup_(matcher__clear) struct matcher m = {
		.limits = limits, .profiles = profiles, .n = n};
	struct match match = {};
	int rc;

	m.base = array(n + 1, sizeof(*m.base));
	if (!m.base)
		return -ENOMEM;
	for (size_t p = 0; p < n; p++)
		m.base[p + 1] = m.base[p] + profiles[p]->n_locations;
	if (m.base[n] >= UINT32_MAX)
		return -ENOMEM;
	rc = find_libraries(&m);
	if (!rc)
		rc = find_places(&m);
	if (!rc)
		rc = number_frames(&m);
	if (!rc)
		rc = make_keys(&m, err);
	if (!rc)
		rc = group(&m, &match, err);
	if (!rc)
		*ret_match = match;
	return rc;
}
