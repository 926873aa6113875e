// SPDX-License-Identifier: BSD-2-Clause
#include "heap/shapes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/table.h"
#include "base/vector.h"
#include "heap/image.h"

#define WORDS	    8
#define ROUGH_WORDS 4
#define LARGE	    1024 /* SHAPE_LARGE */
/* jemalloc rounds up by a quarter at most, glibc by less and by a few bytes. A block that is larger
 * has taken the place of the sampled one. */
#define MOST_EXCESS 64
/* Addresses of user space lie below (x86-64 with four levels of page tables). */
#define USER_END (1ULL << 47)

/* In the top byte of a described word, above the exact target of FILE and SELF. */
enum kind {
	KIND_NONE, /* behind the block's end */
	KIND_ZERO,
	KIND_SMALL, /* below 2^16 */
	KIND_INT,   /* below 2^32 */
	KIND_TEXT,
	KIND_OTHER,
	KIND_HEAP,   /* a pointer to another block's memory */
	KIND_MEMORY, /* a pointer to other memory without a file */
	KIND_SELF,   /* a pointer into the block */
	KIND_FILE,   /* a pointer to code or data of a file */
	/* of rough shapes only */
	KIND_POINTER, /* ZERO, HEAP, MEMORY */
	KIND_DATA,    /* SMALL, INT, TEXT, OTHER */
};

struct shape {
	uint64_t size, words[WORDS];
};

/* Counted shapes, and the key of each. */
struct shape_list {
	struct census_shape *counts;
	struct shape *keys;
	size_t n;
	struct table table; /* by key */
};

struct shapes {
	struct image *image;
	const struct blocks *blocks;
	struct first_words words;
	struct shape_list fine, rough;
	struct table sizes; /* of the rough shapes' keys, one of each size */
	uint32_t *shape_of; /* by label */
	size_t n_labels;
};

static uint64_t kind_word(enum kind kind, uint64_t value)
{
	return (uint64_t)kind << 56 | value;
}

static enum kind kind_of(uint64_t described)
{
	return (enum kind)(described >> 56);
}

/* Two printable characters or more, and nothing behind the first NUL but NULs. */
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

static uint64_t describe_data(uint64_t word)
{
	if (is_text(word))
		return kind_word(KIND_TEXT, 0);
	if (word < 1 << 16)
		return kind_word(KIND_SMALL, 0);
	return kind_word(word >> 32 ? KIND_OTHER : KIND_INT, 0);
}

static uint64_t describe_word(const struct shapes *s, const struct block *block, uint64_t word)
{
	const struct image_region *region;
	const struct span *span;

	if (!word)
		return kind_word(KIND_ZERO, 0);
	if (word < 1 << 16 || word >= USER_END)
		return describe_data(word);
	if (word >= block->start && word < block->start + block->size)
		return kind_word(KIND_SELF, word - block->start);
	span = block->span;
	if (word >= span->start && word < span->end)
		return kind_word(KIND_HEAP, 0);
	region = image__find(s->image, word);
	if (!region)
		return describe_data(word);
	switch (region->kind) {
	case IMAGE_CONST:
	case IMAGE_DATA:
	case IMAGE_BSS:
		return kind_word(KIND_FILE, word);
	case IMAGE_BRK:
	case IMAGE_ANON:
		span = blocks__find_span(s->blocks, word);
		return kind_word(span ? KIND_HEAP : KIND_MEMORY, 0);
	default:
		return kind_word(KIND_MEMORY, 0);
	}
}

/* False: the words are not resident. */
static bool describe(struct shapes *s, const struct block *block, struct shape *ret)
{
	size_t n = (size_t)(block->size / 8 < WORDS ? block->size / 8 : WORDS);
	uint64_t words[WORDS];

	if (!n || !first_words__read(&s->words, block, words, n))
		return false;
	*ret = (struct shape){.size = block->size};
	for (size_t i = 0; i < n; i++)
		ret->words[i] = describe_word(s, block, words[i]);
	return true;
}

static struct shape make_rough(const struct shape *shape)
{
	struct shape rough = {.size = shape->size};

	for (size_t i = 0; i < ROUGH_WORDS; i++)
		switch (kind_of(shape->words[i])) {
		case KIND_NONE:
		case KIND_SELF:
		case KIND_FILE:
			rough.words[i] = shape->words[i];
			break;
		case KIND_ZERO:
		case KIND_HEAP:
		case KIND_MEMORY:
			rough.words[i] = kind_word(KIND_POINTER, 0);
			break;
		default:
			rough.words[i] = kind_word(KIND_DATA, 0);
		}
	return rough;
}

static uint64_t mark_of(const struct shape *shape)
{
	for (size_t i = 0; i < WORDS; i++)
		if (kind_of(shape->words[i]) == KIND_FILE)
			return shape->words[i] & (USER_END - 1);
	return 0;
}

static enum shape_class class_of(const struct shape *shape)
{
	unsigned int pointers = 0;

	for (size_t i = 0; i < WORDS; i++) {
		enum kind kind = kind_of(shape->words[i]);

		if (kind == KIND_FILE || kind == KIND_SELF)
			return SHAPE_PARTICULAR;
		pointers += kind == KIND_HEAP;
	}
	if (pointers > 1)
		return SHAPE_PARTICULAR;
	return shape->size >= LARGE ? SHAPE_LARGE : SHAPE_PLAIN;
}

/* --- lists --- */

static uint32_t *slot_of(const struct shape_list *list, const struct shape *key)
{
	return TABLE_SLOT(&list->table, hash__keyed(key, sizeof(*key)), i,
			  !memcmp(&list->keys[i], key, sizeof(*key)));
}

static uint32_t *slot_of_size(const struct shapes *s, uint64_t size)
{
	return TABLE_SLOT(&s->sizes, hash__keyed(&size, sizeof(size)), i,
			  s->rough.keys[i].size == size);
}

/* rough: index of the rough shape; CENSUS_NO_SHAPE: the key is one. *ret: index of the key, which
 * is added if it is new. 0 or -ENOMEM. */
static int add_key(struct shape_list *list, const struct shape *key, uint32_t rough, uint32_t *ret)
{
	int rc = table__reserve(&list->table, list->n + 1);
	uint32_t *slot;

	if (rc < 0 || VECTOR_ADD_ROOM(list->keys, list->n) ||
	    VECTOR_ADD_ROOM(list->counts, list->n))
		return -ENOMEM;
	for (size_t i = 0; rc && i < list->n; i++)
		*slot_of(list, &list->keys[i]) = (uint32_t)i + 1;
	slot = slot_of(list, key);
	if (!*slot) {
		list->keys[list->n] = *key;
		list->counts[list->n] = (struct census_shape){
			.rough = rough == CENSUS_NO_SHAPE ? (uint32_t)list->n : rough,
			.shape_class = class_of(key),
			.mark = mark_of(key)};
		*slot = (uint32_t)++list->n;
	}
	*ret = *slot - 1;
	return 0;
}

static void free_list(struct shape_list *list)
{
	free(list->counts);
	free(list->keys);
	table__clear(&list->table);
}

static int add_label(struct shapes *s, const struct shape_label *label, uint32_t *ret)
{
	struct shape shape, rough;
	struct block block;
	uint32_t i;
	int err;

	*ret = CENSUS_NO_SHAPE;
	if (!blocks__find(s->blocks, label->addr, &block) || !block.in_use ||
	    block.start != label->addr || block.size < label->size ||
	    block.size > label->size + label->size / 4 + MOST_EXCESS ||
	    !describe(s, &block, &shape))
		return 0;
	rough = make_rough(&shape);
	err = add_key(&s->rough, &rough, CENSUS_NO_SHAPE, &i);
	return err ?: add_key(&s->fine, &shape, i, ret);
}

static int note_sizes(struct shapes *s)
{
	if (table__reserve(&s->sizes, s->rough.n + 1) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < s->rough.n; i++) {
		uint32_t *slot = slot_of_size(s, s->rough.keys[i].size);

		if (!*slot)
			*slot = (uint32_t)i + 1;
	}
	return 0;
}

/* --- interface --- */

int shapes__new(struct image *image, const struct blocks *blocks, const struct shape_label *labels,
		size_t n, struct shapes **ret)
{
	struct shapes *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->image = image;
	s->blocks = blocks;
	s->n_labels = n;
	s->shape_of = calloc(n + 1, sizeof(*s->shape_of));
	err = first_words__open(&s->words, image);
	if (!s->shape_of)
		err = -ENOMEM;
	for (size_t i = 0; i < n && !err; i++)
		err = add_label(s, &labels[i], &s->shape_of[i]);
	if (!err)
		err = note_sizes(s);
	if (err) {
		shapes__free(s);
		return err;
	}
	*ret = s;
	return 0;
}

void shapes__free(struct shapes *s)
{
	if (!s)
		return;
	first_words__close(&s->words);
	free_list(&s->fine);
	free_list(&s->rough);
	table__clear(&s->sizes);
	free(s->shape_of);
	free(s);
}

static void count_one(struct census_shape *shape, const struct block *block, uint64_t pinned)
{
	shape->count.blocks++;
	shape->count.bytes += block->size;
	shape->pinned += pinned;
}

void shapes__count(struct shapes *s, const struct block *block, uint64_t pinned)
{
	struct shape shape, rough;
	uint32_t found;

	if (!s->fine.n || !*slot_of_size(s, block->size) || !describe(s, block, &shape))
		return;
	found = *slot_of(&s->fine, &shape);
	if (found) {
		count_one(&s->fine.counts[found - 1], block, pinned);
		return;
	}
	rough = make_rough(&shape);
	found = *slot_of(&s->rough, &rough);
	if (found)
		count_one(&s->rough.counts[found - 1], block, pinned);
}

void shapes__give(struct shapes *s, struct census *ret)
{
	ret->n_shapes = s->fine.n;
	ret->n_rough = s->rough.n;
	ret->n_labels = s->n_labels;
	ret->shapes = s->fine.counts;
	ret->rough = s->rough.counts;
	ret->shape_of = s->shape_of;
	s->fine.counts = s->rough.counts = NULL;
	s->shape_of = NULL;
}
