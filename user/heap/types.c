// SPDX-License-Identifier: BSD-2-Clause
#include "heap/types.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/table.h"
#include "base/vector.h"
#include "heap/image.h"

#define MAX_JUDGED (1 << 16) /* at most so many words are judged */
#define NO_TYPE	   UINT32_MAX
#define WINDOW	   (256u << 10)

/* The verdict on a word that may point to a vtable. */
struct judged {
	uint64_t word;
	uint32_t type; /* index in types, or NO_TYPE */
};

struct counting {
	struct image *image;
	struct first_words words;
	struct table table; /* index in `judged`, by word */
	struct judged *judged;
	size_t n_judged, judged_room;
	struct census_type *types;
	size_t n_types, types_room;
	uint64_t untold;
};

/* The region that holds addr, if it belongs to a file; else NULL. */
static const struct image_region *in_file(struct image *image, uint64_t addr)
{
	const struct image_region *region = image__find(image, addr);

	return region && (region->kind == IMAGE_CONST || region->kind == IMAGE_DATA) ? region
										     : NULL;
}

static bool is_name(const char *name)
{
	for (; *name; name++)
		if (*name <= ' ' || *name > '~')
			return false;
	return true;
}

/* Reads a text that ends with NUL. False: it is too long, or not resident. */
static bool read_text(struct image *image, uint64_t addr, char *to, size_t size)
{
	for (size_t done = 0; done < size;) {
		size_t part = (size_t)(HEAP_PAGE - (addr + done) % HEAP_PAGE);

		if (part > size - done)
			part = size - done;
		if (image__peek(image, addr + done, to + done, part))
			return false;
		if (memchr(to + done, '\0', part))
			return true;
		done += part;
	}
	return false;
}

/* Fills in the name. False: no type_info is at addr. */
static bool read_type_info(struct image *image, uint64_t addr, char name[CENSUS_TYPE_NAME])
{
	uint64_t words[2]; /* the vtable of this kind of type_info, and the name */

	if (addr % 8 || !in_file(image, addr) || image__peek(image, addr, words, sizeof(words)) ||
	    words[0] % 8 || !in_file(image, words[0]) || !in_file(image, words[1]))
		return false;
	if (!read_text(image, words[1], name, CENSUS_TYPE_NAME)) {
		name[0] = '\0';
		return true;
	}
	if (name[0] == '*') /* the class has internal linkage */
		memmove(name, name + 1, strlen(name));
	return name[0] && is_name(name);
}

static bool is_vtable(struct image *image, uint64_t addr, char name[CENSUS_TYPE_NAME])
{
	uint64_t words[3]; /* offset to the whole object, type_info, the first function */
	const struct image_region *code;

	if (image__peek(image, addr - 16, words, sizeof(words)) || words[0])
		return false;
	code = in_file(image, words[2]);
	if (!code || !code->entry->executable)
		return false;
	name[0] = '\0';
	return !words[1] || read_type_info(image, words[1], name);
}

bool types__is_object(struct image *image, uint64_t word, char name[CENSUS_TYPE_NAME])
{
	return word >= 16 && word % 8 == 0 && in_file(image, word) && is_vtable(image, word, name);
}

static int add_type(struct counting *c, uint64_t vtable, const char *name, uint32_t *ret)
{
	struct census_type *type;

	if (VECTOR_RESERVE(c->types, c->types_room, c->n_types + 1))
		return -ENOMEM;
	*ret = (uint32_t)c->n_types;
	type = &c->types[c->n_types++];
	*type = (struct census_type){.vtable = vtable};
	memcpy(type->name, name, strlen(name) + 1);
	return 0;
}

static uint32_t *slot_of(struct counting *c, uint64_t word)
{
	return TABLE_SLOT(&c->table, hash__keyed(&word, sizeof(word)), i,
			  c->judged[i].word == word);
}

static int make_room(struct counting *c)
{
	int rc = table__reserve(&c->table, c->n_judged + 1);

	if (rc < 0 || VECTOR_RESERVE(c->judged, c->judged_room, c->n_judged + 1))
		return -ENOMEM;
	for (size_t i = 0; rc && i < c->n_judged; i++)
		*slot_of(c, c->judged[i].word) = (uint32_t)i + 1;
	return 0;
}

/* Finds the class to whose vtable the word points. *ret: its index in `types`; NO_TYPE: there is
 * none. */
static int find_type(struct counting *c, uint64_t word, uint32_t *ret)
{
	char name[CENSUS_TYPE_NAME];
	uint32_t *slot;
	int err = make_room(c);

	if (err)
		return err;
	slot = slot_of(c, word);
	*ret = NO_TYPE;
	if (*slot) {
		*ret = c->judged[*slot - 1].type;
		return 0;
	}
	if (c->n_judged == MAX_JUDGED)
		return 0;
	if (is_vtable(c->image, word, name)) {
		if (c->n_types == TYPES_MAX) {
			c->untold++;
			return 0;
		}
		err = add_type(c, word, name, ret);
		if (err)
			return err;
	}
	c->judged[c->n_judged++] = (struct judged){word, *ret};
	*slot = (uint32_t)c->n_judged;
	return 0;
}

int first_words__open(struct first_words *w, struct image *image)
{
	*w = (struct first_words){.image = image, .bytes = malloc(WINDOW)};
	return w->bytes ? 0 : -ENOMEM;
}

void first_words__close(struct first_words *w)
{
	free(w->bytes);
}

bool first_words__read(struct first_words *w, const struct block *block, uint64_t *ret, size_t n)
{
	uint64_t addr = block->start, len = n * sizeof(*ret), run_start, run_end;
	uint64_t most = block->span->kind == SPAN_SINGLE ? len : WINDOW, end;

	if (block->size < len)
		return false;
	if (addr < w->from || addr + len > w->to) {
		w->from = w->to = 0;
		/* Looks up no more pages than will be read: a run may be as long as the heap. */
		end = (addr + most + HEAP_PAGE - 1) & ~(HEAP_PAGE - 1);
		if (end > block->span->end)
			end = block->span->end;
		if (!image__run(w->image, addr, end, &run_start, &run_end) || run_start != addr)
			return false;
		if (run_end - addr > most)
			run_end = addr + most;
		if (run_end - addr < len ||
		    image__read(w->image, addr, w->bytes, (size_t)(run_end - addr)))
			return false;
		w->from = addr;
		w->to = run_end;
	}
	memcpy(ret, w->bytes + (addr - w->from), (size_t)len);
	return true;
}

static int count_block(const struct block *block, void *ctx)
{
	const struct span *span = block->span;
	struct counting *c = ctx;
	uint64_t word;
	uint32_t type;
	int err;

	if (!block->in_use || !first_words__read(&c->words, block, &word, 1) || word % 8 ||
	    word < 16 || (word >= span->start && word < span->end) || !in_file(c->image, word))
		return 0;
	err = find_type(c, word, &type);
	if (err || type == NO_TYPE)
		return err;
	c->types[type].count.blocks++;
	c->types[type].count.bytes += block->size;
	return 0;
}

int types__count(struct image *image, const struct blocks *blocks, struct census_type **ret,
		 size_t *ret_n, uint64_t *ret_untold)
{
	struct counting c = {.image = image};
	int err = first_words__open(&c.words, image);

	image__forget(image);
	if (!err)
		err = blocks__each(blocks, count_block, &c);
	table__clear(&c.table);
	free(c.judged);
	first_words__close(&c.words);
	if (err) {
		free(c.types);
		return err;
	}
	*ret = c.types;
	*ret_n = c.n_types;
	*ret_untold = c.untold;
	return 0;
}
