// SPDX-License-Identifier: BSD-2-Clause
#include "heap/numbers.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/search.h"

int numbers__open(struct numbers *numbers, const struct blocks *blocks)
{
	size_t n_words = bits__words(blocks__n_slots(blocks));

	*numbers = (struct numbers){
		.blocks = blocks,
		.used = calloc(n_words, sizeof(*numbers->used)),
		.before = calloc(n_words, sizeof(*numbers->before)),
		.n_words = n_words,
	};
	if (numbers->used && numbers->before)
		return 0;
	numbers__clear(numbers);
	return -ENOMEM;
}

void numbers__take(struct numbers *numbers, const struct block *block)
{
	bits__set(numbers->used, block->slot);
}

int numbers__close(struct numbers *numbers)
{
	uint64_t n = 0;

	for (size_t i = 0; i < numbers->n_words && n <= INT32_MAX; i++) {
		numbers->before[i] = (uint32_t)n;
		n += bits__count(numbers->used[i]);
	}
	if (n > INT32_MAX) {
		numbers__clear(numbers);
		return -EFBIG;
	}
	numbers->n = (uint32_t)n;
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
	size_t slot;
	uint64_t word, bit;

	if (!blocks__slot(numbers->blocks, addr, &slot))
		return NO_NUMBER;
	word = numbers->used[slot / 64];
	bit = 1ULL << slot % 64;
	return word & bit ? numbers->before[slot / 64] + bits__count(word & (bit - 1)) : NO_NUMBER;
}

void numbers__prefetch(const struct numbers *numbers, uint64_t addr)
{
	size_t slot = blocks__prefetch(numbers->blocks, addr);

	if (slot == SIZE_MAX)
		return;
	__builtin_prefetch(&numbers->used[slot / 64]);
	__builtin_prefetch(&numbers->before[slot / 64]);
}

/* The slot of a number. */
static size_t slot_of(const struct numbers *numbers, uint32_t number)
{
	size_t word = SEARCH_FIRST(i, numbers->n_words, numbers->before[i] > number) - 1;
	uint64_t bits = numbers->used[word];

	for (uint32_t left = number - numbers->before[word]; left; left--)
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
