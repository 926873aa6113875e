// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "decode/pprof_parts.h"

static int read_mapping(const struct pprof_file *file, struct bytes message,
			struct pprof_mapping *ret)
{
	const struct pprof_member members[] = {
		{MAPPING_START, MEMBER_ANY, &ret->start},
		{MAPPING_LIMIT, MEMBER_ANY, &ret->limit},
		{MAPPING_OFFSET, MEMBER_ANY, &ret->off},
		{MAPPING_FILENAME, MEMBER_TEXT, &ret->filename},
		{MAPPING_BUILD_ID, MEMBER_TEXT, &ret->build_id},
	};

	return pprof_file__members(file, message, members, sizeof(members) / sizeof(*members));
}

/* Of mappings with the same start, the one with the lower id comes first. */
static int by_start(const void *a, const void *b)
{
	const struct pprof_mapping *x = *(struct pprof_mapping *const *)a,
				   *y = *(struct pprof_mapping *const *)b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x > y) - (x < y);
}

static int add_mapping(const struct pprof_file *file, const struct pprof_mapping *mapping,
		       const uint8_t *at)
{
	static const char deleted[] = DELETED_SUFFIX;
	_cleanup_free_ char *path = pprof_file__copy_text(file, mapping->filename),
			    *build_id = pprof_file__copy_text(file, mapping->build_id);
	struct profile_mapping add = {.start = mapping->start,
				      .end = mapping->limit,
				      .off = mapping->off,
				      .perms = "r-xp",
				      .path = path};
	size_t len;
	int rc;

	if (!path || !build_id)
		return -ENOMEM;
	len = strlen(path);
	if (len >= strlen(deleted) && !strcmp(path + len - strlen(deleted), deleted)) {
		path[len - strlen(deleted)] = '\0';
		add.deleted = true;
	}
	add.build_id = *build_id ? build_id : NULL;
	rc = draft__mapping(file->draft, &add);
	return rc == -EFBIG ? pprof_file__too_much(file, at) : rc;
}

/* In a merged profile, mappings may overlap. A mapping that overlaps an earlier one is left out. */
static int read_mappings(struct pprof_places *places, const struct pprof_file *file)
{
	struct profile *profile = file->draft->profile;
	size_t n = file->mappings.n;
	_cleanup_free_ struct pprof_mapping **order = calloc(n + 1, sizeof(*order));
	uint64_t end = 0;
	int rc = 0;

	places->mappings = calloc(n + 1, sizeof(*places->mappings));
	if (!order || !places->mappings)
		return -ENOMEM;
	for (size_t i = 0; i < n && !rc; i++) {
		order[i] = &places->mappings[i];
		rc = read_mapping(file, file->mappings.items[i].message, &places->mappings[i]);
	}
	if (rc)
		return rc;
	qsort(order, n, sizeof(*order), by_start);
	for (size_t i = 0; i < n && !rc; i++) {
		struct pprof_mapping *mapping = order[i];

		mapping->used = mapping->start >= end && mapping->limit > mapping->start &&
				mapping->limit < PROFILE_NO_ADDR;
		if (!mapping->used)
			continue;
		end = mapping->limit;
		rc = add_mapping(file, mapping,
				 file->mappings.items[mapping - places->mappings].message.pos);
	}
	/* by a convention of pprof, the first mapping is the program's */
	if (!rc && !profile->exe && n) {
		profile->exe = pprof_file__copy_text(file, places->mappings[0].filename);
		rc = profile->exe ? 0 : -ENOMEM;
	}
	return rc;
}

static int read_location(struct pprof_places *places, const struct pprof_file *file, size_t index)
{
	struct pprof_location *location = &places->locations[index];
	const struct pprof_mapping *mapping = NULL;
	struct bytes in = file->locations.items[index].message;
	struct field part;
	uint64_t frame = 0;
	int rc = 0;

	location->message = in;
	while (!rc && (rc = wire__next(file->input, &in, &part)) > 0) {
		rc = 0;
		if (part.number == LOCATION_ADDRESS) {
			location->address = part.value;
		} else if (part.number == LOCATION_OWN_FRAME && file->own) {
			frame = part.value;
		} else if (part.number == LOCATION_MAPPING_ID && part.value) {
			ptrdiff_t found = pprof_table__find(&file->mappings, part.value);

			if (found < 0)
				return pprof_file__bad(file, part.at,
						       "a reference to a missing mapping");
			location->mapping = (uint64_t)found + 1;
		}
	}
	if (rc)
		return rc;
	/* If the location names a mapping, its address counts only if it lies in this mapping. */
	if (location->mapping)
		mapping = &places->mappings[location->mapping - 1];
	if (location->address && location->address + 1 < PROFILE_NO_ADDR &&
	    (!mapping || (mapping->used && location->address >= mapping->start &&
			  location->address < mapping->limit)))
		location->addr = location->address + 1;
	else if (frame >= PROFILE_FRAME_ADDR)
		location->addr = frame;
	return 0;
}

static int by_addr(const void *a, const void *b)
{
	const struct pprof_location *x = *(struct pprof_location *const *)a,
				    *y = *(struct pprof_location *const *)b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return (x > y) - (x < y);
}

/* Each location gets an address that no other location has. If its address in the file is usable
 * and no earlier location has it, the location gets this address plus 1. The reason: a profile has
 * return addresses, and pprof has return addresses minus 1. An interpreter's frame gets the number
 * that it had, unless an earlier location has this number. All other locations get numbers from
 * PROFILE_NO_ADDR on. */
static int read_locations(struct pprof_places *places, const struct pprof_file *file)
{
	size_t n = file->locations.n;
	uint64_t next = PROFILE_NO_ADDR, last = 0;
	struct pprof_location **order;
	int rc = 0;

	places->locations = calloc(n + 1, sizeof(*places->locations));
	places->order = order = calloc(n + 1, sizeof(*order));
	if (!places->locations || !order)
		return -ENOMEM;
	for (size_t i = 0; i < n && !rc; i++) {
		order[i] = &places->locations[i];
		rc = read_location(places, file, i);
	}
	if (rc)
		return rc;
	qsort(order, n, sizeof(*order), by_addr);
	for (size_t i = 0; i < n; i++) {
		uint64_t addr = order[i]->addr;

		if (!addr || addr == last)
			order[i]->addr = next++;
		last = addr;
	}
	qsort(order, n, sizeof(*order), by_addr);
	return 0;
}

int pprof_places__read(struct pprof_places *places, const struct pprof_file *file)
{
	int rc = read_mappings(places, file);

	return rc ? rc : read_locations(places, file);
}

void pprof_places__clear(struct pprof_places *places)
{
	free(places->mappings);
	free(places->locations);
	free(places->order);
}
