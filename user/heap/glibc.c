// SPDX-License-Identifier: BSD-2-Clause
#include "heap/glibc_internal.h"

#include <stdlib.h>

#include "base/cleanup.h"

static void cleanup_glibc(struct glibc *g)
{
	free(g->arenas);
	free(g->ranges);
	free(g->caches);
}

int glibc__find(struct image *image, struct blocks *blocks, bool alone, struct heap_found *found)
{
	_cleanup_(cleanup_glibc) struct glibc g = {
		.image = image,
		.blocks = blocks,
		.found = found,
		.quality = &found->quality[HEAP_GLIBC],
	};
	int err = glibc__find_arenas(&g);

	if (err)
		return err;
	for (size_t i = 0; i < g.n_ranges && !err && !alone; i++)
		err = glibc__walk(&g, &g.ranges[i]);
	if (!err && !alone)
		err = glibc__free_cached(&g);
	return err ? err : glibc__find_mmapped(&g);
}
