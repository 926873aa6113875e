// SPDX-License-Identifier: BSD-2-Clause
/* Who allocated the blocks on a path, as far as tracing sampled them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/vector.h"
#include "cli/why.h"
#include "encode/where.h"
#include "heap/shapes.h"

#define NAME_ROOM 48 /* columns of a function's name */

struct made {
	uint64_t addr, size;
	const char *maker; /* one of struct why_makers.names */
};

struct why_makers {
	struct made *made; /* by address, ascending */
	size_t n_made;
	char **names; /* of the sites that have blocks */
	size_t n_names;
};

static int compare_made(const void *a, const void *b)
{
	const struct made *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static int add_site(struct why_makers *makers, const struct profile *profile,
		    const struct profile_site *site)
{
	char *name;

	if (!site->n_blocks)
		return 0;
	name = where_holder(profile, site, NAME_ROOM, false);
	if (!name || VECTOR_ADD_ROOM(makers->names, makers->n_names)) {
		free(name);
		return -ENOMEM;
	}
	makers->names[makers->n_names++] = name;
	for (size_t i = 0; i < site->n_blocks; i++) {
		const struct profile_block *block = &site->blocks[i];

		if (VECTOR_ADD_ROOM(makers->made, makers->n_made))
			return -ENOMEM;
		makers->made[makers->n_made++] = (struct made){block->addr, block->size, name};
	}
	return 0;
}

int why_makers__new(const struct profile *profile, struct why_makers **ret)
{
	struct why_makers *makers = calloc(1, sizeof(*makers));
	int err = makers ? 0 : -ENOMEM;

	for (size_t i = 0; i < profile->n_sites && !err; i++)
		err = add_site(makers, profile, &profile->sites[i]);
	if (err) {
		why_makers__free(makers);
		return err;
	}
	if (makers->n_made)
		qsort(makers->made, makers->n_made, sizeof(*makers->made), compare_made);
	*ret = makers;
	return 0;
}

const char *why_makers__find(const struct why_makers *makers, uint64_t addr, uint64_t size)
{
	size_t first = SEARCH_FIRST(i, makers->n_made, makers->made[i].addr >= addr);
	const char *maker = NULL;

	for (size_t i = first; i < makers->n_made && makers->made[i].addr == addr; i++) {
		const struct made *made = &makers->made[i];

		if (!shape_label__fits(&(struct shape_label){made->addr, made->size}, size))
			continue;
		if (maker && strcmp(maker, made->maker) != 0)
			return NULL;
		maker = made->maker;
	}
	return maker;
}

void why_makers__free(struct why_makers *makers)
{
	if (!makers)
		return;
	for (size_t i = 0; i < makers->n_names; i++)
		free(makers->names[i]);
	free(makers->names);
	free(makers->made);
	free(makers);
}
