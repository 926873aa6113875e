// SPDX-License-Identifier: BSD-2-Clause
#include "heap/shapes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/table.h"
#include "base/vector.h"
#include "heap/look.h"
#include "heap/referrers.h"

struct shape {
	struct look look;
	uint64_t colour; /* colour of a plain block's referrer; 0: no block points to the block */
};

/* Counted shapes, and the key of each. */
struct shape_list {
	struct census_shape *counts;
	struct shape *keys;
	size_t n;
	struct table table; /* finds the index of a key */
};

struct shapes {
	struct image *image;
	const struct blocks *blocks;
	struct first_words words;
	struct referrers referrers;
	struct look *looks; /* the look of each label's block; size 0: the block is not in use */
	struct table sizes; /* index of a look by its size; one entry per size */
	struct shape_list fine, rough;
	uint32_t *shape_of; /* index of the shape of each label's block */
	size_t n_labels;
};

/* --- lists --- */

static uint32_t *slot_of(const struct shape_list *list, const struct shape *key)
{
	return TABLE_SLOT(&list->table, hash__keyed(key, sizeof(*key)), i,
			  !memcmp(&list->keys[i], key, sizeof(*key)));
}

static uint32_t *slot_of_size(const struct shapes *s, uint64_t size)
{
	return TABLE_SLOT(&s->sizes, hash__keyed(&size, sizeof(size)), i, s->looks[i].size == size);
}

_Static_assert(REFERRERS_SIZES >= LOOK_LARGE, "all plain blocks may have a colour");

/* The class of a shape. A plain block to which no block points is SHAPE_ALONE: its shape tells
 * nothing. */
static enum shape_class class_of(const struct shape *shape)
{
	enum shape_class shape_class = look__class(&shape->look);

	return shape_class == SHAPE_PLAIN && !shape->colour ? SHAPE_ALONE : shape_class;
}

static struct shape with_colour(const struct shapes *s, const struct block *block,
				const struct look *look)
{
	struct shape shape = {.look = *look};

	if (look__class(look) == SHAPE_PLAIN)
		shape.colour = referrers__of(&s->referrers, block);
	return shape;
}

/* Returns the shape of a block with this look. */
static struct shape shape_of(const struct shapes *s, const struct block *block,
			     const struct look *look)
{
	const struct look fine = look__fine(look);

	return with_colour(s, block, &fine);
}

static struct shape rough_shape_of(const struct shapes *s, const struct block *block,
				   const struct look *look)
{
	const struct look rough = look__rough(look);

	return with_colour(s, block, &rough);
}

/* Finds a key in the list, or adds it. *ret: the key's index. rough: index of the key's rough
 * shape; CENSUS_NO_SHAPE: the key is itself a rough shape. 0 or -ENOMEM. */
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
			.mark = look__mark(&key->look)};
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

/* Finds the block of a label. False: the block is not there any more. */
static bool find_label(const struct shapes *s, const struct shape_label *label, struct block *ret)
{
	return blocks__find(s->blocks, label->addr, ret) && ret->in_use &&
	       ret->start == label->addr && heap__may_hold(ret->size, label->size);
}

static void look_at(struct shapes *s, const struct shape_label *labels)
{
	struct block block;

	for (size_t i = 0; i < s->n_labels; i++)
		if (find_label(s, &labels[i], &block))
			look__read(&s->words, s->blocks, &block, &s->looks[i]);
}

static int note_sizes(struct shapes *s, uint64_t plain[REFERRERS_SIZES / 64])
{
	if (table__reserve(&s->sizes, s->n_labels + 1) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_labels; i++) {
		uint64_t size = s->looks[i].size;
		uint32_t *slot = slot_of_size(s, size);

		if (!size || *slot)
			continue;
		*slot = (uint32_t)i + 1;
		if (size < REFERRERS_SIZES)
			bits__set(plain, size);
	}
	return 0;
}

static int add_label(struct shapes *s, const struct shape_label *label, const struct look *look,
		     uint32_t *ret)
{
	struct shape shape, rough;
	struct block block;
	uint32_t i;
	int err;

	*ret = CENSUS_NO_SHAPE;
	if (!look->size || !find_label(s, label, &block))
		return 0;
	shape = shape_of(s, &block, look);
	rough = rough_shape_of(s, &block, look);
	err = add_key(&s->rough, &rough, CENSUS_NO_SHAPE, &i);
	return err ?: add_key(&s->fine, &shape, i, ret);
}

static int add_labels(struct shapes *s, const struct shape_label *labels)
{
	_cleanup_free_ uint64_t *addrs = calloc(s->n_labels + 1, sizeof(*addrs));
	uint64_t sizes[REFERRERS_SIZES / 64] = {};
	const struct referrers_options options = {
		.sizes = sizes, .addrs = addrs, .n_addrs = s->n_labels};
	int err;

	if (!addrs)
		return -ENOMEM;
	look_at(s, labels);
	for (size_t i = 0; i < s->n_labels; i++)
		addrs[i] = s->looks[i].size ? labels[i].addr : 0;
	err = note_sizes(s, sizes);
	if (!err)
		err = referrers__find(s->image, s->blocks, &options, &s->referrers);
	for (size_t i = 0; i < s->n_labels && !err; i++)
		err = add_label(s, &labels[i], &s->looks[i], &s->shape_of[i]);
	return err;
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
	s->looks = calloc(n + 1, sizeof(*s->looks));
	err = first_words__open(&s->words, image);
	if (!s->shape_of || !s->looks)
		err = -ENOMEM;
	if (!err)
		err = add_labels(s, labels);
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
	referrers__clear(&s->referrers);
	free(s->looks);
	table__clear(&s->sizes);
	free(s->shape_of);
	free(s);
}

static void count_one(struct census_shape *shape, const struct block *block, uint64_t pinned,
		      uint32_t weight)
{
	shape->count.blocks += weight;
	shape->count.bytes += weight * block->size;
	shape->pinned += weight * pinned;
}

void shapes__count(struct shapes *s, const struct block *block, uint64_t pinned)
{
	uint32_t found, weight = 1;
	struct shape shape;
	struct look look;

	/* The weight is 0 on pages that are not chosen, because the referrers of their blocks are
	 * not known. */
	if (block->size < LOOK_LARGE)
		weight = referrers__weight(&s->referrers, block);
	if (!weight || !s->fine.n || !*slot_of_size(s, block->size) ||
	    !look__read(&s->words, s->blocks, block, &look))
		return;
	shape = shape_of(s, block, &look);
	found = *slot_of(&s->fine, &shape);
	if (found) {
		count_one(&s->fine.counts[found - 1], block, pinned, weight);
		return;
	}
	shape = rough_shape_of(s, block, &look);
	found = *slot_of(&s->rough, &shape);
	if (found)
		count_one(&s->rough.counts[found - 1], block, pinned, weight);
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
