// SPDX-License-Identifier: BSD-2-Clause
/* Who allocated the blocks on a path, as far as tracing sampled them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "cli/why.h"
#include "encode/where.h"
#include "heap/shapes.h"
#include "profile/origins.h"

#define NAME_ROOM 48 /* columns of a function's name */

struct why_makers {
	struct known_block *blocks; /* ascending by address */
	size_t n_blocks;
	char **names; /* by site; NULL: the site has no blocks */
	size_t n_names;
};

static int name_sites(struct why_makers *makers, const struct profile *profile)
{
	makers->names = calloc(profile->n_sites + 1, sizeof(*makers->names));
	if (!makers->names)
		return -ENOMEM;
	for (; makers->n_names < profile->n_sites; makers->n_names++) {
		const struct profile_site *site = &profile->sites[makers->n_names];

		if (!site->n_blocks)
			continue;
		makers->names[makers->n_names] = where_holder(profile, site, NAME_ROOM, false);
		if (!makers->names[makers->n_names])
			return -ENOMEM;
	}
	return 0;
}

int why_makers__new(const struct profile *profile, struct why_makers **ret)
{
	struct why_makers *makers = calloc(1, sizeof(*makers));
	int err = makers ? origins__sampled(profile, &makers->blocks, &makers->n_blocks) : -ENOMEM;

	if (!err)
		err = name_sites(makers, profile);
	if (err) {
		why_makers__free(makers);
		return err;
	}
	*ret = makers;
	return 0;
}

const char *why_makers__find(const struct why_makers *makers, uint64_t addr, uint64_t size)
{
	size_t first = SEARCH_FIRST(i, makers->n_blocks, makers->blocks[i].addr >= addr);
	const char *maker = NULL;

	for (size_t i = first; i < makers->n_blocks && makers->blocks[i].addr == addr; i++) {
		const struct known_block *block = &makers->blocks[i];
		const char *name = makers->names[block->site];

		if (!heap__may_hold(size, block->size))
			continue;
		if (maker && strcmp(maker, name) != 0)
			return NULL;
		maker = name;
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
	free(makers->blocks);
	free(makers);
}
