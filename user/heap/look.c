// SPDX-License-Identifier: BSD-2-Clause
#include "heap/look.h"

#include <string.h>

#include "heap/image.h"

#define ROUGH_WORDS 4
/* Bytes. A pointer that leads at least this far behind a block's start leads to some element of an
 * array, so the distance says nothing. */
#define FAR	   64
#define MAX_HEADER 16
/* Addresses of user space lie below this (x86-64 with four levels of page tables). */
#define USER_END (1ULL << 47)

static uint64_t kind_word(enum look_kind kind, uint64_t value)
{
	return (uint64_t)kind << 56 | value;
}

static enum look_kind kind_of(uint64_t described)
{
	return (enum look_kind)(described >> 56);
}

static uint64_t value_of(uint64_t described)
{
	return described & ((1ULL << 56) - 1);
}

/* Is the word two or more printable characters, with only NULs behind them? */
static bool is_text(uint64_t word)
{
	unsigned char c[sizeof(word)];
	size_t len = 0;

	memcpy(c, &word, sizeof(c));
	while (len < sizeof(c) && c[len] >= ' ' && c[len] <= '~')
		len++;
	for (size_t i = len; i < sizeof(c); i++)
		if (c[i])
			return false;
	return len >= 2;
}

/* Is word number i the block's last one? Allocators round sizes up. So the last word may lie behind
 * the requested size, and hold remains of an earlier block. */
static bool is_last(const struct look *look, size_t i)
{
	return i + 1 >= look->size / 8;
}

static uint64_t describe_data(uint64_t word)
{
	if (is_text(word))
		return kind_word(LOOK_TEXT, 0);
	if (word < 1 << 16)
		return kind_word(LOOK_SMALL, 0);
	return kind_word(word >> 32 ? LOOK_OTHER : LOOK_INT, 0);
}

static uint64_t describe_pointer(const struct blocks *blocks, uint64_t word)
{
	uint64_t distance = FAR, start;

	if (blocks__find_start(blocks, word, &start) && word - start < FAR)
		distance = word - start;
	return kind_word(LOOK_HEAP, distance);
}

static uint64_t describe_word(struct image *image, const struct blocks *blocks,
			      const struct block *block, uint64_t word)
{
	const struct image_region *region;
	const struct span *span;

	if (!word)
		return kind_word(LOOK_ZERO, 0);
	if (word < 1 << 16 || word >= USER_END)
		return describe_data(word);
	if (word >= block->start && word < block->start + block->size)
		return kind_word(LOOK_SELF, word - block->start);
	span = block->span;
	if (word >= span->start && word < span->end)
		return describe_pointer(blocks, word);
	region = image__find(image, word);
	if (!region)
		return describe_data(word);
	switch (region->kind) {
	case IMAGE_CONST:
	case IMAGE_DATA:
		return kind_word(LOOK_FILE, word);
	case IMAGE_BSS: /* also memory that an allocator has mapped right behind a file */
		return blocks__find_span(blocks, word) ? describe_pointer(blocks, word)
						       : kind_word(LOOK_FILE, word);
	case IMAGE_BRK:
	case IMAGE_ANON:
		return blocks__find_span(blocks, word) ? describe_pointer(blocks, word)
						       : kind_word(LOOK_MEMORY, 0);
	default:
		return kind_word(LOOK_MEMORY, 0);
	}
}

struct look look__of(struct image *image, const struct blocks *blocks, const struct block *block,
		     const uint64_t *words, size_t n)
{
	struct look look = {.size = block->size};

	for (size_t i = 0; i < n; i++) {
		look.words[i] = describe_word(image, blocks, block, words[i]);
		if (is_last(&look, i) && kind_of(look.words[i]) == LOOK_HEAP)
			look.words[i] = kind_word(LOOK_HEAP, 0);
	}
	return look;
}

bool look__read(struct first_words *reader, const struct blocks *blocks, const struct block *block,
		struct look *ret)
{
	size_t n = (size_t)(block->size / 8 < LOOK_WORDS ? block->size / 8 : LOOK_WORDS);
	uint64_t words[LOOK_WORDS];

	if (!n || !first_words__read(reader, block, words, n))
		return false;
	*ret = look__of(reader->image, blocks, block, words, n);
	return true;
}

static uint64_t without_value(uint64_t described)
{
	switch (kind_of(described)) {
	case LOOK_SMALL:
	case LOOK_INT:
	case LOOK_TEXT:
	case LOOK_OTHER:
		return kind_word(LOOK_DATA, 0);
	default:
		return described;
	}
}

/* Makes a distance less exact. If the program has not written to a part of a block yet, old
 * pointers with any distance may be there. With exact distances, blocks of one shape would seem to
 * have many shapes. */
static uint64_t fine_word(uint64_t described)
{
	uint64_t distance = value_of(described);

	if (kind_of(described) != LOOK_HEAP || !distance)
		return described;
	return kind_word(distance <= MAX_HEADER ? LOOK_HEADER : LOOK_INSIDE, 0);
}

static uint64_t rough_word(uint64_t described)
{
	uint64_t fine = fine_word(described);

	switch (kind_of(fine)) {
	case LOOK_ZERO:
	case LOOK_HEAP:
	case LOOK_INSIDE:
	case LOOK_MEMORY:
		return kind_word(LOOK_POINTER, 0);
	default:
		return without_value(fine);
	}
}

struct look look__fine(const struct look *look)
{
	struct look fine = {.size = look->size};

	for (size_t i = 0; i < LOOK_WORDS; i++)
		fine.words[i] = fine_word(look->words[i]);
	return fine;
}

struct look look__pointers(const struct look *look)
{
	struct look pointers = {.size = look->size};

	for (size_t i = 0; i < ROUGH_WORDS; i++)
		if (!is_last(look, i))
			pointers.words[i] = without_value(look->words[i]);
	return pointers;
}

struct look look__rough(const struct look *look)
{
	struct look rough = {.size = look->size};

	for (size_t i = 0; i < ROUGH_WORDS; i++)
		rough.words[i] = rough_word(look->words[i]);
	return rough;
}

uint64_t look__mark(const struct look *look)
{
	for (size_t i = 0; i < LOOK_WORDS; i++)
		if (kind_of(look->words[i]) == LOOK_FILE)
			return value_of(look->words[i]);
	return 0;
}

enum shape_class look__class(const struct look *look)
{
	unsigned int pointers = 0;

	for (size_t i = 0; i < LOOK_WORDS; i++) {
		enum look_kind kind = kind_of(look->words[i]);

		if (kind == LOOK_FILE || kind == LOOK_SELF)
			return SHAPE_PARTICULAR;
		pointers += kind == LOOK_HEAP || kind == LOOK_HEADER || kind == LOOK_INSIDE;
	}
	if (pointers > 1)
		return SHAPE_PARTICULAR;
	return look->size >= LOOK_LARGE ? SHAPE_LARGE : SHAPE_PLAIN;
}
