/* SPDX-License-Identifier: BSD-2-Clause */
/* What the readers of allocators find in a process whose memory the test writes byte by byte. */
#ifndef TESTS_UNIT_HEAP_FOUND_H
#define TESTS_UNIT_HEAP_FOUND_H

#include "fake.h"

#include "heap/find.h"

static struct fake fake;
static struct blocks *blocks;
static struct heap_found found;
static struct image *image;

static inline void find_some(bool alone)
{
	image = fake__image(&fake);
	assert_int_equal(blocks__new(&blocks), 0);
	assert_int_equal(heap__find_blocks(image, blocks, alone, &found), 0);
}

static inline void find(void)
{
	find_some(false);
}

static inline void end(void)
{
	blocks__free(blocks);
	heap_found__clear(&found);
	fake__free(&fake, image);
}

#endif
