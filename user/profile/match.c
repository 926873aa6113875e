// SPDX-License-Identifier: BSD-2-Clause
/* Every frame gets a number, equal for equal frames; a stack is the list of its frames' numbers.
 * Nothing is looked up, all is sorted: linear-logarithmic in what the profiles hold. */
#include "profile/match.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/path.h"

const struct match_limits match_limits = {.frames = 1u << 27, .figures = 1u << 24};

/* A location as a place in a file. */
struct place {
	const char *build_id;
	uint64_t off;
	const struct profile_location *location;
	uint32_t number; /* of the location, among those of all profiles */
};

/* A frame's name, and where its number goes. */
struct word {
	const char *name, *library;
	uint32_t *number;
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
	size_t *base;	   /* n + 1: number of each profile's first location */
	uint32_t *same_as; /* by number: of the location whose frames go for it */
	const struct profile_location **locations; /* by number */
	char **library_of; /* by number of mapping, counted through all profiles; owned strings */
	size_t n_libraries;
	char **addresses; /* by number: the name of one that has no frames, or NULL; owned strings
			   */
	uint32_t *first_frame; /* by number, n_locations + 1: where the frames of each begin in
					* numbers */
	uint32_t *numbers;     /* of frames */
	bool *is_allocator;    /* by number of frame */
	uint32_t *stacks;      /* the numbers of all stacks' frames */
	struct key *keys;
	size_t n_keys;
};

static void matcher__clear(struct matcher *m)
{
	for (size_t i = 0; m->library_of && i < m->n_libraries; i++)
		free(m->library_of[i]);
	for (size_t i = 0; m->addresses && i < m->base[m->n]; i++)
		free(m->addresses[i]);
	free(m->base);
	free(m->same_as);
	free(m->locations);
	free(m->library_of);
	free(m->addresses);
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

/* At least one, so that NULL means that there is no memory. */
static void *array(size_t n, size_t size)
{
	return calloc(n + 1, size);
}

static uint64_t file_offset(const struct profile_mapping *mapping,
			    const struct profile_location *location)
{
	return location->addr - 1 - mapping->start + mapping->off;
}

/* The shared library of a path, without its version; "" for anything else. */
static char *library_of(const char *path)
{
	const char *name = base_name(path), *end = strstr(name, ".so");

	if (!end)
		return strdup("");
	/* libc-2.31.so and libc.so.6 */
	for (const char *c = name; c < end; c++)
		if (*c == '-' && isdigit((unsigned char)c[1]))
			end = c;
	return strndup(name, (size_t)(end - name));
}

static int find_libraries(struct matcher *m)
{
	bool known = true;
	size_t number = 0;

	for (size_t p = 0; p < m->n; p++) {
		m->n_libraries += m->profiles[p]->n_mappings;
		known &= m->profiles[p]->n_mappings != 0;
	}
	m->library_of = array(m->n_libraries, sizeof(*m->library_of));
	if (!m->library_of)
		return -ENOMEM;
	for (size_t p = 0; p < m->n; p++)
		for (size_t i = 0; i < m->profiles[p]->n_mappings; i++, number++) {
			const char *path = m->profiles[p]->mappings[i].path;

			m->library_of[number] = library_of(known && path ? path : "");
			if (!m->library_of[number])
				return -ENOMEM;
		}
	return 0;
}

/* How much is known of what is there: a name, and inlined functions. */
static size_t knowledge(const struct profile_location *location)
{
	return location->reason == UNRESOLVED_NAMED ? location->n_frames : 0;
}

/* By place; what is known best first, ties by number. */
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

/* Finds for every location the one whose frames go for it: mostly itself. */
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

/* What the symbolizer calls what it knows no name of. */
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

static int by_name(const void *a, const void *b)
{
	const struct word *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : strcmp(x->library, y->library);
}

/* Numbers the frames of all locations. */
static int number_frames(struct matcher *m)
{
	size_t n_locations = m->base[m->n], n = 0, mappings = 0;
	_cleanup_free_ struct word *words = NULL;
	uint32_t distinct = 0;

	m->first_frame = array(n_locations + 1, sizeof(*m->first_frame));
	m->addresses = array(n_locations, sizeof(*m->addresses));
	if (!m->first_frame || !m->addresses)
		return -ENOMEM;
	for (size_t i = 0; i < n_locations; i++) {
		n += m->locations[i]->n_frames ? m->locations[i]->n_frames : 1;
		if (n > UINT32_MAX)
			return -ENOMEM;
		m->first_frame[i + 1] = (uint32_t)n;
	}
	words = array(n, sizeof(*words));
	m->numbers = array(n, sizeof(*m->numbers));
	m->is_allocator = array(n, sizeof(*m->is_allocator));
	if (!words || !m->numbers || !m->is_allocator)
		return -ENOMEM;
	n = 0;
	for (size_t p = 0; p < m->n; p++) {
		const struct profile *profile = m->profiles[p];

		for (size_t i = 0; i < profile->n_locations; i++) {
			const struct profile_location *location = &profile->locations[i];
			const char *library = "";
			char *address;

			if (location->mapping >= 0)
				library = m->library_of[mappings + (size_t)location->mapping];
			for (size_t k = 0; k < location->n_frames; k++, n++)
				words[n] = (struct word){location->frames[k].name, library,
							 &m->numbers[n]};
			if (location->n_frames)
				continue;
			address = address_name(profile, location);
			if (!address)
				return -ENOMEM;
			m->addresses[m->base[p] + i] = address;
			words[n] = (struct word){address, library, &m->numbers[n]};
			n++;
		}
		mappings += profile->n_mappings;
	}
	qsort(words, n, sizeof(*words), by_name);
	for (size_t i = 0; i < n; i++) {
		if (!i || by_name(&words[i - 1], &words[i])) {
			m->is_allocator[distinct] = profile__is_allocator_frame(words[i].name);
			distinct++;
		}
		*words[i].number = distinct - 1;
	}
	return 0;
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

/* Writes the numbers of a site's frames to `to`; how many. An allocator's are left out, but for
 * the last frame. */
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
				return error__set(err, -EFBIG,
						  "up to profile %zu the stacks have more than %" PRIu64
						  " frames, with what is inlined in them: too many to compare",
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

/* The site of a stack with the fewest frames without a name, the last of these: the latest
 * profile's. */
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
		error__set(err, -EFBIG, "%zu different stacks in %zu profiles are too many to compare", ret->n_stacks,
			   m->n);
		match__clear(ret);
		return -EFBIG;
	}
	for (size_t i = 0; i < ret->n_stacks; i++)
		ret->best[i] = best_of(m, ret->first[i], ret->first[i + 1]);
	return 0;
}

int match__stacks(const struct profile *const *profiles, size_t n, const struct match_limits *limits,
		  struct match *ret_match, struct error *err)
{
	_cleanup_(matcher__clear) struct matcher m = {.limits = limits, .profiles = profiles, .n = n};
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
