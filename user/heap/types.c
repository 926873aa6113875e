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

#define NO_TYPE UINT32_MAX
#define WINDOW	(256u << 10)

/* What the first word of a block tells. */
enum verdict {
	NO_OBJECT,
	OBJECT,
	UNCHECKED, /* the word may point to a vtable */
};

/* The verdict on a word that may point to a vtable. */
struct judged {
	uint64_t word;
	uint32_t type; /* index in `list` of the class's last element, or NO_TYPE */
};

struct types {
	struct image *image;
	struct first_words words;
	struct table table; /* finds a word's index in `judged` */
	struct judged *judged;
	size_t n_judged, judged_room;
	struct census_type *list;
	size_t n, room;
	uint32_t *before; /* for each element of `list`: index of the class's previous element, or
			   * NO_TYPE */
	size_t before_room;
	uint64_t untold, unchecked;
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

/* The element of `list` for a block that begins with this vtable. */
static struct census_type element(uint64_t vtable, const struct block *block)
{
	return (struct census_type){.vtable = vtable,
				    .allocator = block->span->allocator,
				    .size_group = (uint32_t)heap__size_group(block->size)};
}

static int add_type(struct types *c, const struct census_type *type, uint32_t before, uint32_t *ret)
{
	if (VECTOR_RESERVE(c->list, c->room, c->n + 1) ||
	    VECTOR_RESERVE(c->before, c->before_room, c->n + 1))
		return -ENOMEM;
	*ret = (uint32_t)c->n;
	c->before[c->n] = before;
	c->list[c->n++] = *type;
	return 0;
}

static uint32_t *slot_of(struct types *c, uint64_t word)
{
	return TABLE_SLOT(&c->table, hash__keyed(&word, sizeof(word)), i,
			  c->judged[i].word == word);
}

static int make_room(struct types *c)
{
	int rc = table__reserve(&c->table, c->n_judged + 1);

	if (rc < 0 || VECTOR_RESERVE(c->judged, c->judged_room, c->n_judged + 1))
		return -ENOMEM;
	for (size_t i = 0; rc && i < c->n_judged; i++)
		*slot_of(c, c->judged[i].word) = (uint32_t)i + 1;
	return 0;
}

/* Finds the class of a block that begins with `word`. *ret: the verdict on the word; NULL: the word
 * points to no vtable, or there are too many classes or words. *ret_verdict: does the word point
 * to a vtable? */
static int find_class(struct types *c, uint64_t word, const struct block *block,
		      struct judged **ret, enum verdict *ret_verdict)
{
	struct census_type type = element(word, block);
	struct judged *judged;
	uint32_t *slot;
	int err = make_room(c);

	*ret = NULL;
	if (err)
		return err;
	slot = slot_of(c, word);
	if (*slot) {
		judged = &c->judged[*slot - 1];
		*ret = judged->type == NO_TYPE ? NULL : judged;
		*ret_verdict = *ret ? OBJECT : NO_OBJECT;
		return 0;
	}
	if (c->n_judged == TYPES_MAX_WORDS) {
		*ret_verdict = UNCHECKED;
		return 0;
	}
	judged = &c->judged[c->n_judged];
	*judged = (struct judged){word, NO_TYPE};
	*ret_verdict = is_vtable(c->image, word, type.name) ? OBJECT : NO_OBJECT;
	if (*ret_verdict == OBJECT && c->n == TYPES_MAX)
		return 0; /* `word` is not stored in `judged`, so it is judged again for each
			   * object */
	if (*ret_verdict == OBJECT) {
		err = add_type(c, &type, NO_TYPE, &judged->type);
		if (err)
			return err;
		*ret = judged;
	}
	*slot = (uint32_t)++c->n_judged;
	return 0;
}

/* Finds the element in which an object of the class counts. *ret: NULL if there are too many
 * elements. */
static int find_element(struct types *c, struct judged *class, const struct block *block,
			struct census_type **ret)
{
	struct census_type type = element(class->word, block);
	uint32_t i = class->type;

	*ret = NULL;
	while (i != NO_TYPE &&
	       (c->list[i].allocator != type.allocator || c->list[i].size_group != type.size_group))
		i = c->before[i];
	if (i == NO_TYPE) {
		int err;

		if (c->n == TYPES_MAX)
			return 0;
		memcpy(type.name, c->list[class->type].name, sizeof(type.name));
		err = add_type(c, &type, class->type, &i);
		if (err)
			return err;
		class->type = i;
	}
	*ret = &c->list[i];
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

/* Finds the element in which a block counts. *ret: NULL if the block is no object, or if there are
 * too many elements or words. *ret_verdict: is the block an object? */
static int judge_block(struct types *c, const struct block *block, struct census_type **ret,
		       enum verdict *ret_verdict)
{
	const struct span *span = block->span;
	struct judged *class;
	uint64_t word;
	int err;

	*ret = NULL;
	*ret_verdict = NO_OBJECT;
	if (!block->in_use || !first_words__read(&c->words, block, &word, 1) || word % 8 ||
	    word < 16 || (word >= span->start && word < span->end) || !in_file(c->image, word))
		return 0;
	err = find_class(c, word, block, &class, ret_verdict);
	return err || !class ? err : find_element(c, class, block, ret);
}

static int count_block(const struct block *block, void *ctx)
{
	struct types *c = ctx;
	struct census_type *type;
	enum verdict verdict;
	int err = judge_block(c, block, &type, &verdict);

	if (type) {
		type->count.blocks++;
		type->count.bytes += block->size;
	} else {
		c->untold += verdict == OBJECT;
		c->unchecked += verdict == UNCHECKED;
	}
	return err;
}

int types__pin(struct types *c, const struct block *block, uint64_t pinned)
{
	struct census_type *type;
	enum verdict verdict;
	int err = judge_block(c, block, &type, &verdict);

	if (type)
		type->pinned += pinned;
	return err;
}

static int compare_types(const void *a, const void *b)
{
	const struct census_type *x = a, *y = b;

	if (x->vtable != y->vtable)
		return x->vtable < y->vtable ? -1 : 1;
	return (x->size_group > y->size_group) - (x->size_group < y->size_group);
}

int types__new(struct image *image, struct types **ret)
{
	struct types *types = calloc(1, sizeof(*types));
	int err = types ? first_words__open(&types->words, image) : -ENOMEM;

	if (err) {
		free(types);
		return err;
	}
	types->image = image;
	*ret = types;
	return 0;
}

void types__free(struct types *types)
{
	if (!types)
		return;
	table__clear(&types->table);
	free(types->judged);
	free(types->before);
	free(types->list);
	first_words__close(&types->words);
	free(types);
}

int types__count(struct types *types, const struct blocks *blocks)
{
	image__forget(types->image);
	return blocks__each(blocks, count_block, types);
}

void types__give(struct types *types, struct census_type **ret, uint64_t *ret_n,
		 uint64_t *ret_untold, uint64_t *ret_unchecked)
{
	if (types->n)
		qsort(types->list, types->n, sizeof(*types->list), compare_types);
	*ret = types->list;
	*ret_n = types->n;
	*ret_untold = types->untold;
	*ret_unchecked = types->unchecked;
	types->list = NULL;
	types->n = 0;
}
