// SPDX-License-Identifier: BSD-2-Clause
#include "heap/recheck.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/vector.h"
#include "heap/image.h"
#include "heap/late.h"
#include "heap/window.h"

#define WORD	      sizeof(uint64_t)
#define FILTER	      (1u << 20) /* bits; a power of two */
#define EDGES_AT_ONCE 1024

#define MIN_CHUNK  32
#define PREV_INUSE 1 /* bits of a chunk's size: the chunk before is in use */
#define IS_MMAPPED 2
#define SIZE_FLAGS 7

struct checking {
	struct image *image;
	const struct blocks *blocks;
	struct recheck *to;
	uint64_t lowest, highest; /* lowest and highest address of all spans and their vicinity */
	const struct span *near;  /* the last span to which a value pointed */

	struct lost candidates; /* the blocks of `before` that are unchanged */
	struct numbers numbers; /* the number of a candidate is its index */
	uint64_t *off;		/* a bit per candidate; set: the candidate is not lost, so it is off
				 * the list */
	/* candidates that are not lost and whose pointers were not followed yet */
	uint32_t *queue;
	size_t n_queue, queue_room;
	uint32_t from, last; /* in find_edges(): the candidate that is being read, and its last
			      * target */
	uint64_t *filter;    /* a bit per page, modulo FILTER; set: the page may hold a candidate */

	struct window window;
	struct late late; /* pointers to memory that was mapped after the maps were read */
	size_t stale_room;
};

static bool may_hold(const struct checking *c, uint64_t value)
{
	return bits__test(c->filter, value / HEAP_PAGE % FILTER);
}

/* --- candidates --- */

/* Makes candidates of the blocks of `before` that still exist unchanged. */
static int take_candidates(struct checking *c, const struct lost *before)
{
	struct lost *to = &c->candidates;
	int err = numbers__open(&c->numbers, c->blocks);

	if (err)
		return err;
	to->list = calloc(before->n + 1, sizeof(*to->list));
	c->off = calloc(bits__words(before->n), sizeof(*c->off));
	c->filter = calloc(bits__words(FILTER), sizeof(*c->filter));
	if (!to->list || !c->off || !c->filter)
		return -ENOMEM;
	to->beyond = before->beyond;
	for (size_t i = 0; i < before->n && !image__spent(c->image); i++) {
		const struct lost_block *candidate = &before->list[i];
		struct block block;
		uint64_t end;

		if (!blocks__find(c->blocks, candidate->addr, &block) || !block.in_use ||
		    block.start != candidate->addr || block.size != candidate->size ||
		    lost__hash(c->image, &block) != candidate->content)
			continue;
		to->list[to->n++] = *candidate;
		numbers__take(&c->numbers, &block);
		end = block.start + block.size;
		for (uint64_t at = block.start / HEAP_PAGE * HEAP_PAGE; at < end; at += HEAP_PAGE)
			bits__set(c->filter, at / HEAP_PAGE % FILTER);
	}
	err = numbers__close(&c->numbers);
	return err ? err : image__spent(c->image);
}

/* Records that the candidate is not lost. */
static int take_off(struct checking *c, uint32_t number)
{
	if (bits__test(c->off, number))
		return 0;
	bits__set(c->off, number);
	if (VECTOR_RESERVE(c->queue, c->queue_room, c->n_queue + 1))
		return -ENOMEM;
	c->queue[c->n_queue++] = number;
	return 0;
}

/* --- words --- */

/* Is the word at `at` the last one of a block in use? The block may have been allocated after the
 * blocks were listed; then the size of the next chunk is behind the word. */
static bool is_last_word(const struct checking *c, uint64_t at, const struct block *holder)
{
	uint64_t size;

	if (holder->in_use)
		return at == holder->start + holder->size - WORD;
	return at % 16 == 0 && !image__read(c->image, at + WORD, &size, sizeof(size)) &&
	       (size & PREV_INUSE) && !(size & IS_MMAPPED) &&
	       (size & ~(uint64_t)SIZE_FLAGS) >= MIN_CHUNK && size % 16 < 8 &&
	       (size & ~(uint64_t)SIZE_FLAGS) < holder->span->end - at;
}

/* Does the word look like a link of glibc from one free chunk to another? Chunks begin 16 bytes
 * before their blocks, so such a link seems to lead to the last word of the block before. But a
 * program may have lists whose links are the last words of their blocks, and lead to each other. So
 * a word that is itself the last word of its block does not count as a link of glibc. */
static bool may_be_link(const struct checking *c, uint64_t at, uint64_t value,
			const struct block *holder, uint32_t number)
{
	const struct lost_block *candidate = &c->candidates.list[number];

	return value == candidate->addr + candidate->size - WORD && holder->span &&
	       holder->span->kind == SPAN_WALKED && !is_last_word(c, at, holder);
}

static int add_stale(struct checking *c, uint64_t at, uint64_t value)
{
	struct stale_words *stale = &c->to->stale;

	if (VECTOR_RESERVE(stale->list, c->stale_room, stale->n + 1))
		return -ENOMEM;
	stale->list[stale->n++] = (struct stale_word){at, value};
	return 0;
}

/* Handles a word at `at` in heap memory that points to a candidate. */
static int take_heap_word(struct checking *c, uint64_t at, uint64_t value, uint32_t number)
{
	struct block holder = {};
	bool link;

	if (numbers__find(&c->numbers, at) != NO_NUMBER)
		return 0; /* a candidate's pointers are followed later, if it is not lost */
	blocks__find(c->blocks, at, &holder);
	link = may_be_link(c, at, value, &holder, number);
	if (link && !holder.in_use)
		return 0;
	if ((holder.in_use && !link) || c->to->stale.n == RECHECK_STALE)
		return take_off(c, number);
	return add_stale(c, link ? at | STALE_LINK : at, value);
}

/* Handles a value in the heap's vicinity that points to no candidate. If the value leads to memory
 * that was mapped after the maps were read, this memory is read later. */
static int note_late(struct checking *c, uint64_t value)
{
	size_t n;
	int err;

	if (c->near && value - c->near->start < c->near->end - c->near->start)
		return 0;
	c->near = blocks__find_span(c->blocks, value);
	if (c->near || !late__may_be(c->image, c->blocks, value))
		return 0;
	n = c->late.seen.n;
	err = late__note(&c->late, value);
	if (err < 0 || (c->late.seen.n == n && n < LATE_VALUES))
		return err; /* the value is already noted */
	return late__follow(&c->late, value, 0);
}

/* Handles a word at `at`. heap: the word is in heap memory. Otherwise it is a root, or in newly
 * mapped memory. */
static int take_word(struct checking *c, uint64_t at, uint64_t value, bool heap)
{
	uint32_t number = may_hold(c, value) ? numbers__find(&c->numbers, value) : NO_NUMBER;

	if (number == NO_NUMBER)
		return note_late(c, value);
	return heap ? take_heap_word(c, at, value, number) : take_off(c, number);
}

/* Handles all resident words of [at, end). */
static int sweep(struct checking *c, uint64_t at, uint64_t end, bool heap)
{
	struct window *window = &c->window;
	uint64_t range = c->highest - c->lowest;
	int err = 0;

	for (; !err && at < end; at = window->end) {
		err = window__next(window, c->image, at, end);
		for (size_t i = 0; !err && i < (window->end - window->start) / WORD; i++)
			if (window->words[i] - c->lowest < range)
				err = take_word(c, window->start + i * WORD, window->words[i],
						heap);
		if (!heap)
			c->to->root_bytes += window->end - window->start;
	}
	return err ? err : image__spent(c->image);
}

static int read_roots(struct checking *c, const struct roots *roots)
{
	int err = 0;

	for (size_t i = 0; !err && i < roots->n; i++)
		err = sweep(c, roots->list[i].start, roots->list[i].end, false);
	for (size_t i = 0; !err && i < roots->n_values; i++)
		if (roots->values[i].value - c->lowest < c->highest - c->lowest)
			err = take_word(c, 0, roots->values[i].value, false);
	return err;
}

/* Reads newly mapped memory, which may lead to more such memory. */
static int read_late(struct checking *c)
{
	uint64_t words[LATE_WORDS];
	int err = 0;

	for (size_t i = 0; i < c->late.n_pointers && !err; i++) {
		int n = late__visit(&c->late, c->image, c->late.pointers[i].value, words);

		if (n < 0)
			return n;
		for (int k = 0; k < n && !err; k++)
			if (words[k] - c->lowest < c->highest - c->lowest)
				err = take_word(c, 0, words[k], false);
	}
	c->to->late_beyond = c->late.beyond;
	return err;
}

/* --- what follows from it --- */

/* Compares the words of c->to->stale with those of the preceding recheck, and so decides which
 * words count as pointers. Takes the targets of these pointers off the list. */
static int judge_stale(struct checking *c, const struct stale_words *before)
{
	const struct stale_words *stale = &c->to->stale;
	size_t k = 0;
	int err = 0;

	for (size_t i = 0; i < stale->n && !err; i++) {
		const struct stale_word *word = &stale->list[i];
		bool link = word->at & STALE_LINK, seen;

		while (k < before->n && before->list[k].at < word->at)
			k++;
		seen = k < before->n && before->list[k].at == word->at &&
		       (link || before->list[k].value == word->value);
		if (seen == link)
			err = take_off(c, numbers__find(&c->numbers, word->value));
	}
	return err;
}

/* Calls fn for each candidate to which a block leads. */
static int each_target(struct checking *c, const struct lost_block *block,
		       int (*fn)(struct checking *c, uint32_t to))
{
	uint64_t at = (block->addr + WORD - 1) / WORD * WORD, words[HEAP_PAGE / WORD], len;
	uint64_t end = (block->addr + block->size) / WORD * WORD;
	int err = 0;

	for (; at < end && !err; at += len) {
		len = HEAP_PAGE - at % HEAP_PAGE;
		len = len < end - at ? len : end - at;
		if (image__peek(c->image, at, words, (size_t)len)) {
			err = image__spent(c->image);
			continue; /* the page is not resident */
		}
		for (size_t i = 0; i < len / WORD && !err; i++) {
			uint32_t to = words[i] - c->lowest < c->highest - c->lowest &&
						      may_hold(c, words[i])
					      ? numbers__find(&c->numbers, words[i])
					      : NO_NUMBER;

			if (to != NO_NUMBER)
				err = fn(c, to);
		}
	}
	return err;
}

/* Follows the pointers in the candidates that were taken off the list. Takes the targets off the
 * list, too. */
static int follow(struct checking *c)
{
	int err = 0;

	image__forget(c->image);
	while (c->n_queue && !err)
		err = each_target(c, &c->candidates.list[c->queue[--c->n_queue]], take_off);
	return err;
}

/* Lists the candidates that are left. */
static int list_rest(struct checking *c)
{
	struct lost *lost = &c->to->lost;

	lost->list = calloc(c->candidates.n + 1, sizeof(*lost->list));
	if (!lost->list)
		return -ENOMEM;
	lost->beyond = c->candidates.beyond;
	for (size_t i = 0; i < c->candidates.n; i++)
		if (!bits__test(c->off, i))
			lost->list[lost->n++] = c->candidates.list[i];
	return 0;
}

/* --- the pointers of what is left --- */

static int flush_edges(struct checking *c)
{
	int err = edges__add(&c->to->edges, c->from, c->queue, c->n_queue);

	c->n_queue = 0;
	return err;
}

/* Adds a pointer from c->from. A large block may be full of pointers. So at most EDGES_AT_ONCE of
 * them are kept at a time, and equal pointers in a row are added once. */
static int collect(struct checking *c, uint32_t to)
{
	if (bits__test(c->off, to) || to == c->from || to == c->last)
		return 0;
	c->last = to;
	if (VECTOR_RESERVE(c->queue, c->queue_room, c->n_queue + 1))
		return -ENOMEM;
	c->queue[c->n_queue++] = to;
	return c->n_queue < EDGES_AT_ONCE ? 0 : flush_edges(c);
}

/* Fills c->to->edges with the pointers between lost candidates. Each candidate is named by its
 * number (c->numbers). No edge leads from or to a candidate that is not lost. */
static int find_edges(struct checking *c)
{
	int err = edges__init(&c->to->edges, c->numbers.n);

	c->n_queue = 0;
	for (uint32_t i = 0; i < c->numbers.n && !err; i++) {
		if (bits__test(c->off, i))
			continue;
		c->from = i;
		c->last = NO_NUMBER;
		err = each_target(c, &c->candidates.list[i], collect);
		if (!err)
			err = flush_edges(c);
	}
	c->to->numbers = c->numbers;
	c->numbers = (struct numbers){};
	return err;
}

static int look(struct checking *c, const struct roots *roots, const struct stale_words *stale,
		bool leaks)
{
	int err = read_roots(c, roots);

	for (size_t i = 0; i < blocks__n_spans(c->blocks) && !err; i++) {
		const struct span *span = blocks__span(c->blocks, i);

		err = sweep(c, span->start, span->end, true);
	}
	if (!err)
		err = read_late(c);
	if (!err && stale)
		err = judge_stale(c, stale);
	if (!err)
		err = follow(c);
	if (!err)
		err = list_rest(c);
	return err || !leaks ? err : find_edges(c);
}

/* Returns the bytes of all tables. Call it before they are freed. before: the number of
 * blocks in `before` of recheck__scan(). */
static size_t table_bytes(const struct checking *c, size_t before)
{
	const struct recheck *to = c->to;
	/* one of the two `numbers` is empty, and adds nothing */
	size_t slots = (c->numbers.n_words + to->numbers.n_words) * 64;

	return slots / 8 + slots / 16 + (before + c->candidates.n) * sizeof(struct lost_block) +
	       before / 8 + c->queue_room * sizeof(*c->queue) + FILTER / 8 + WINDOW_BYTES +
	       late__bytes(&c->late) + c->stale_room * sizeof(struct stale_word) + to->edges.room +
	       to->numbers.n / 8 + to->numbers.n / EDGES_STRIDE * sizeof(uint64_t);
}

int recheck__scan(struct image *image, const struct blocks *blocks, const struct roots *roots,
		  const struct lost *before, const struct stale_words *stale, bool leaks,
		  struct recheck *ret)
{
	struct recheck made = {};
	struct checking c = {.image = image, .blocks = blocks, .to = &made};
	int err = window__init(&c.window);

	image__forget(image);
	late__range(blocks, &c.lowest, &c.highest);
	if (!err)
		err = take_candidates(&c, before);
	if (!err)
		err = look(&c, roots, stale, leaks);
	made.unread_bytes = c.window.unread_bytes;
	made.table_bytes = table_bytes(&c, before->n);
	window__clear(&c.window);
	late__clear(&c.late);
	numbers__clear(&c.numbers);
	free(c.candidates.list);
	free(c.off);
	free(c.queue);
	free(c.filter);
	if (err)
		recheck__clear(&made);
	else
		*ret = made;
	return err;
}

void recheck__clear(struct recheck *recheck)
{
	free(recheck->lost.list);
	free(recheck->stale.list);
	numbers__clear(&recheck->numbers);
	edges__clear(&recheck->edges);
	*recheck = (struct recheck){};
}
