// SPDX-License-Identifier: BSD-2-Clause
#include "heap/paths.h"

#include <errno.h>
#include <string.h>

#include "heap/image.h"
#include "sandbox/gentle.h"

#define MOST_READ (1u << 20) /* bytes at a block's start that are searched for a pointer */
#define PIECE	  4096
#define STEP_HOPS 128 /* blocks on a path between two calls of gentle__step() */

/* Returns the offset, in the block at addr, of a pointer to [target, target + target_size).
 * PATH_NO_OFF: there is none. */
static uint64_t find_pointer(struct image *image, uint64_t addr, uint64_t block_size,
			     uint64_t target, uint64_t target_size)
{
	uint64_t words[PIECE / sizeof(uint64_t)], len;

	if (block_size > MOST_READ)
		block_size = MOST_READ;
	for (uint64_t off = 0; off < block_size; off += len) {
		/* up to the end of the page, because the next one may not be resident */
		len = PIECE - (addr + off) % PIECE;
		if (len > block_size - off)
			len = block_size - off;
		if (image__peek(image, addr + off, words, (size_t)len))
			continue;
		for (size_t i = 0; i < len / sizeof(*words); i++)
			if (words[i] - target < target_size)
				return off + i * sizeof(*words);
	}
	return PATH_NO_OFF;
}

/* The steps from the block towards the root, while the path is followed. */
struct climb {
	struct path_step steps[PATH_STEPS]; /* addr of a step: address of the step's block nearest
					     * to the root */
	/* for each step: address of the step's block farthest from the root */
	uint64_t last[PATH_STEPS];
	uint32_t n;
	bool cut;
};

static void climb_to(struct climb *climb, const struct block *block)
{
	struct path_step *top = climb->n ? &climb->steps[climb->n - 1] : NULL;

	if (top && top->size == block->size) {
		top->addr = block->start;
		top->blocks++;
		return;
	}
	if (climb->n == PATH_STEPS) {
		enum { DROPPED = PATH_STEPS / 2 };

		memmove(&climb->steps[DROPPED], &climb->steps[DROPPED + 1],
			(PATH_STEPS - DROPPED - 1) * sizeof(*climb->steps));
		memmove(&climb->last[DROPPED], &climb->last[DROPPED + 1],
			(PATH_STEPS - DROPPED - 1) * sizeof(*climb->last));
		climb->n--;
		climb->cut = true;
	}
	climb->last[climb->n] = block->start;
	climb->steps[climb->n++] = (struct path_step){
		.addr = block->start, .size = block->size, .blocks = 1, .off = PATH_NO_OFF};
}

/* The word with which both blocks begin; 0: the words differ, or are not resident. */
static uint64_t common_word(struct image *image, uint64_t first, uint64_t last)
{
	uint64_t word, other;

	if (image__peek(image, first, &word, sizeof(word)))
		return 0;
	if (last == first)
		return word;
	return image__peek(image, last, &other, sizeof(other)) || other != word ? 0 : word;
}

int reach__path(const struct reach *reach, struct image *image, uint32_t number, uint64_t *hops,
		struct path *ret)
{
	struct climb climb = {};
	struct path path = {};
	uint32_t parent = number + 1;

	while (!(parent & PARENT_ROOT)) {
		struct block block;

		if (!*hops)
			return -E2BIG;
		if (--*hops % STEP_HOPS == 0)
			gentle__step();
		if (!parent || !numbers__block(&reach->numbers, parent - 1, &block))
			return -EINVAL;
		climb_to(&climb, &block);
		parent = reach->parents[parent - 1];
	}
	path.root = reach->root_words[parent & ~PARENT_ROOT];
	path.cut = climb.cut;
	path.n_steps = climb.n;
	for (uint32_t i = 0; i < climb.n; i++) {
		path.steps[i] = climb.steps[climb.n - 1 - i];
		path.steps[i].word =
			common_word(image, path.steps[i].addr, climb.last[climb.n - 1 - i]);
	}
	for (uint32_t i = 0; i + 1 < climb.n; i++) {
		const struct path_step *next = &path.steps[i + 1];

		path.steps[i].off = find_pointer(image, climb.last[climb.n - 1 - i],
						 path.steps[i].size, next->addr, next->size);
	}
	*ret = path;
	return 0;
}
