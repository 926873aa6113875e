// SPDX-License-Identifier: BSD-2-Clause
#include "heap/numbers.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/search.h"

#define GROUP 8 /* words of 64 slots between two counts */

static int note(const struct block *block, void *ctx)
{
	struct numbers *numbers = ctx;

	if (block->in_use)
		bits__set(numbers->used, block->slot);
	return 0;
}

int numbers__init(struct numbers *numbers, const struct blocks *blocks)
{
	size_t n_words = bits__words(blocks__n_slots(blocks));
	struct numbers made = {
		.blocks = blocks,
		.used = calloc(n_words, sizeof(*made.used)),
		.before = calloc(n_words / GROUP + 1, sizeof(*made.before)),
		.n_words = n_words,
	};
	uint64_t n = 0;

	if (!made.used || !made.before) {
		numbers__clear(&made);
		return -ENOMEM;
	}
	blocks__each(blocks, note, &made);
	for (size_t i = 0; i < n_words && n <= INT32_MAX; i++) {
		if (i % GROUP == 0)
			made.before[i / GROUP] = (uint32_t)n;
		n += (uint64_t)__builtin_popcountll(made.used[i]);
	}
	if (n > INT32_MAX) {
		numbers__clear(&made);
		return -EFBIG;
	}
	made.n = (uint32_t)n;
	*numbers = made;
	return 0;
}

void numbers__clear(struct numbers *numbers)
{
	free(numbers->used);
	free(numbers->before);
	*numbers = (struct numbers){};
}

uint32_t numbers__find(const struct numbers *numbers, uint64_t addr)
{
	struct block block;
	size_t word;
	uint64_t bit;
	uint32_t n;

	if (!blocks__find(numbers->blocks, addr, &block) || !block.in_use)
		return NO_NUMBER;
	word = block.slot / 64;
	bit = 1ULL << (block.slot % 64);
	n = numbers->before[word / GROUP];
	for (size_t i = word / GROUP * GROUP; i < word; i++)
		n += (uint32_t)__builtin_popcountll(numbers->used[i]);
	return n + (uint32_t)__builtin_popcountll(numbers->used[word] & (bit - 1));
}

/* The slot of a number. */
static size_t slot_of(const struct numbers *numbers, uint32_t number)
{
	size_t n_groups = (numbers->n_words + GROUP - 1) / GROUP;
	size_t group = SEARCH_FIRST(g, n_groups, numbers->before[g] > number) - 1;
	uint32_t left = number - numbers->before[group];
	size_t word = group * GROUP;
	uint64_t bits;

	for (; left >= (uint32_t)__builtin_popcountll(numbers->used[word]); word++)
		left -= (uint32_t)__builtin_popcountll(numbers->used[word]);
	for (bits = numbers->used[word]; left; left--)
		bits &= bits - 1;
	return word * 64 + (size_t)__builtin_ctzll(bits);
}

bool numbers__block(const struct numbers *numbers, uint32_t number, struct block *ret)
{
	size_t slot, i;
	const struct span *span;

	if (number >= numbers->n)
		return false;
	slot = slot_of(numbers, number);
	i = SEARCH_FIRST(k, blocks__n_spans(numbers->blocks),
			 blocks__span(numbers->blocks, k)->first_slot > slot);
	if (!i)
		return false;
	span = blocks__span(numbers->blocks, i - 1);
	slot -= span->first_slot;
	return blocks__find(numbers->blocks,
			    span->kind == SPAN_WALKED ? span->start + slot * BLOCK_GRANULE
						      : span->first + slot * span->block_size,
			    ret) &&
	       ret->in_use;
}
