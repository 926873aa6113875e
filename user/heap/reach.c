// SPDX-License-Identifier: BSD-2-Clause
#include "heap/reach.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/search.h"
#include "base/vector.h"
#include "heap/image.h"
#include "heap/window.h"
#include "sandbox/gentle.h"

#define WORD	     sizeof(uint64_t)
#define QUEUE	     (1u << 18) /* blocks; a power of two */
#define LATE_ROUNDS  16
#define LARGE	     (64u << 10)
#define PREFETCH     32	   /* the scan prefetches the word that is this many words ahead */
#define STEP_BLOCKS  128   /* blocks to visit between two calls of gentle__step() */
#define AHEAD_BLOCKS 32768 /* at most this many small blocks are read ahead */

/* A block of LARGE bytes or more, such as a hash table. */
struct large {
	struct block block;
	uint32_t number;
	bool read; /* the block was read before the other blocks */
};

/* One scan. Blocks are visited once each: a marked block goes into the queue. If the queue is full,
 * the block's bit in `waiting` is set instead, which needs no more memory. */
struct scanning {
	struct image *image;
	struct reach *reach;
	const struct blocks *blocks;
	struct late *late;	  /* NULL: late pointers are ignored */
	uint64_t lowest, highest; /* lowest and highest address of all spans and their vicinity */
	bool all;		  /* the scan stores all pointers, and parents */
	bool ahead;		  /* read_ahead() is running */
	bool again;		  /* the block that is being read will be read again later */
	bool dropped;		  /* push_ahead() had no room for a block */

	/* Number of the block up to which the heap was read. Later blocks are visited when they are
	 * read. Equal to the number of blocks: the whole heap was read. */
	uint32_t reached;

	uint32_t *queue; /* a ring */
	uint32_t head, tail;
	uint64_t *waiting;
	uint32_t n_waiting;

	struct window window;
	uint64_t gap; /* nothing is resident from this address to the window's start */

	struct large *large; /* ascending by number */
	size_t n_large, large_room;
	size_t next_large; /* index of the first large block that the reading has not passed yet */

	uint32_t number;   /* the number of the block that is read */
	uint32_t *targets; /* targets of pointers in the words that are being handled; room for
			    * WINDOW_WORDS */
};

/* --- marking --- */

static bool mark(struct reach *reach, uint32_t number)
{
	if (reach__has(reach, number))
		return false;
	bits__set(reach->marked, number);
	reach->n_marked++;
	return true;
}

static void push(struct scanning *s, uint32_t number)
{
	if (s->tail - s->head < QUEUE) {
		s->queue[s->tail++ % QUEUE] = number;
		return;
	}
	bits__set(s->waiting, number);
	s->n_waiting++;
}

/* Queues a block for read_ahead(), if there is room. If there is no room, the block is read
 * later. */
static void push_ahead(struct scanning *s, uint32_t number)
{
	if (s->tail - s->head < QUEUE)
		s->queue[s->tail++ % QUEUE] = number;
	else
		s->dropped = true;
}

/* Moves waiting blocks into the queue, which is empty. */
static void refill(struct scanning *s)
{
	size_t n_words = bits__words(s->reach->numbers.n);

	for (size_t i = 0; s->n_waiting && i < n_words; i++)
		while (s->waiting[i] && s->tail - s->head < QUEUE) {
			uint32_t bit = (uint32_t)__builtin_ctzll(s->waiting[i]);

			s->waiting[i] &= s->waiting[i] - 1;
			s->n_waiting--;
			s->queue[s->tail++ % QUEUE] = (uint32_t)i * 64 + bit;
		}
}

/* Visits the queued blocks, and the blocks to which they lead. */
static void drain(struct scanning *s)
{
	struct reach *reach = s->reach;

	for (;;) {
		uint32_t from, to;
		struct edge_walk walk;

		if (s->head == s->tail)
			refill(s);
		if (s->head == s->tail)
			return;
		from = s->queue[s->head++ % QUEUE];
		if (s->head % STEP_BLOCKS == 0)
			gentle__step();
		walk = edges__from(&reach->edges, from);
		while (edge_walk__next(&walk, &to)) {
			if (!mark(reach, to))
				continue;
			if (reach->parents)
				reach->parents[to] = from + 1;
			if (to <= s->reached)
				push(s, to);
		}
	}
}

/* --- reading --- */

static bool may_point(const struct scanning *s, uint64_t value)
{
	return value - s->lowest < s->highest - s->lowest;
}

/* Adds to reach->root_words a root that leads to a block. *ret_parent: the root's value in
 * `parents`. 0 or -ENOMEM. */
static int add_root_word(struct scanning *s, const struct root_word *word, uint32_t *ret_parent)
{
	struct reach *reach = s->reach;

	*ret_parent = PARENT_ROOT;
	if (!s->all)
		return 0;
	if (VECTOR_RESERVE(reach->root_words, reach->root_words_room, reach->n_root_words + 1))
		return -ENOMEM;
	*ret_parent |= (uint32_t)reach->n_root_words;
	reach->root_words[reach->n_root_words++] = *word;
	return 0;
}

/* Judges a value that points to no known block. 1: follow it; 0: do not; -ENOMEM. */
static int note_late(struct scanning *s, uint64_t value)
{
	return s->late && late__may_be(s->image, s->blocks, value) ? late__note(s->late, value) : 0;
}

static int take_root(struct scanning *s, uint64_t value, const struct root_word *word)
{
	struct reach *reach = s->reach;
	uint32_t number, parent;
	int rc;

	if (!may_point(s, value))
		return 0;
	number = numbers__find(&reach->numbers, value);
	if (number == NO_NUMBER) {
		rc = note_late(s, value);
		if (rc <= 0)
			return rc;
		rc = add_root_word(s, word, &parent);
		return rc ? rc : late__follow(s->late, value, parent);
	}
	if (!mark(reach, number))
		return 0;
	if (!s->all) {
		push_ahead(s, number);
		return 0;
	}
	rc = add_root_word(s, word, &parent);
	if (rc)
		return rc;
	reach->parents[number] = parent;
	push(s, number);
	return 0;
}

static int read_root(struct scanning *s, const struct root *root)
{
	struct root_word word = {.kind = root->kind, .tid = root->tid};
	struct window *window = &s->window;
	uint64_t at = root->start;
	int err = 0;

	for (; !err && at < root->end; at = window->end) {
		err = window__next(window, s->image, at, root->end);
		for (size_t i = 0; !err && i < (window->end - window->start) / WORD; i++) {
			word.addr = window->start + i * WORD;
			err = take_root(s, window->words[i], &word);
		}
		s->reach->root_bytes += window->end - window->start;
	}
	return err ? err : image__spent(s->image);
}

/* Reads the roots of one kind. If all pointers are stored, also visits the blocks to which the
 * roots lead. */
static int read_roots(struct scanning *s, const struct roots *roots, enum root_kind kind)
{
	int err = 0;

	for (size_t i = 0; !err && i < roots->n; i++)
		if (roots->list[i].kind == kind)
			err = read_root(s, &roots->list[i]);
	for (size_t i = 0; !err && kind == ROOT_REGISTER && i < roots->n_values; i++) {
		struct root_word word = {.kind = kind, .tid = roots->values[i].tid};

		err = take_root(s, roots->values[i].value, &word);
	}
	if (!err && s->all)
		drain(s);
	return err;
}

/* Handles n words of the block s->number. `words` points into s->window, the memory that was read
 * last. */
static int take_words(struct scanning *s, const uint64_t *words, size_t n)
{
	struct reach *reach = s->reach;
	bool marked = !s->all && reach__has(reach, s->number);
	const uint64_t *end = s->window.words + (s->window.end - s->window.start) / WORD;
	size_t n_targets = 0, left = (size_t)(end - words);
	uint32_t last = NO_NUMBER;

	for (size_t i = 0; i < n; i++) {
		uint32_t to;

		if (i + PREFETCH < left && may_point(s, words[i + PREFETCH]))
			numbers__prefetch(&reach->numbers, words[i + PREFETCH]);
		if (!may_point(s, words[i]))
			continue;
		to = numbers__find(&reach->numbers, words[i]);
		if (to == NO_NUMBER) {
			int rc = s->again ? 0 : note_late(s, words[i]);

			if (rc > 0)
				rc = late__follow(s->late, words[i], s->number + 1);
			if (rc)
				return rc;
		}
		if (to == NO_NUMBER || to == s->number || to == last)
			continue;
		last = to;
		if (marked) {
			if (!mark(reach, to))
				continue;
			if (s->ahead)
				push_ahead(s, to);
			else if (to < s->reached)
				push(s, to);
		} else if (s->all || !reach__has(reach, to)) {
			s->targets[n_targets++] = to;
		}
	}
	return edges__add(&reach->edges, s->number, s->targets, n_targets);
}

/* Reads the block whose number is s->number. May read more memory, up to `to`, because the next
 * blocks need it. */
static int read_words(struct scanning *s, const struct block *block, uint64_t to)
{
	uint64_t at = (block->start + WORD - 1) / WORD * WORD;
	uint64_t block_end = (block->start + block->size) / WORD * WORD;
	int err;

	while (at < block_end) {
		uint64_t start, end;

		if (at < s->gap || at >= s->window.end) {
			s->gap = at;
			err = window__next(&s->window, s->image, at, to);
			if (err)
				return err;
		}
		start = at > s->window.start ? at : s->window.start;
		end = block_end < s->window.end ? block_end : s->window.end;
		if (start >= end)
			break; /* the rest of the block is not resident */
		err = take_words(s, s->window.words + (start - s->window.start) / WORD,
				 (end - start) / WORD);
		if (err)
			return err;
		/* These words may have marked blocks with lower numbers, which are visited here. */
		if (!s->ahead)
			drain(s);
		at = end;
	}
	return 0;
}

static int read_block(const struct block *block, void *ctx)
{
	struct scanning *s = ctx;
	bool was_read = false;
	int err;

	if (!block->in_use)
		return 0;
	s->reached = s->number;
	if (s->next_large < s->n_large && s->large[s->next_large].number == s->number)
		was_read = s->large[s->next_large++].read;
	err = was_read ? 0 : read_words(s, block, block->span->end);
	s->number++;
	return err;
}

static void forget_window(struct scanning *s)
{
	s->gap = s->window.start = s->window.end = 0;
}

static int read_one_ahead(struct scanning *s, uint32_t number, const struct block *block)
{
	uint64_t unread_bytes = s->window.unread_bytes;
	int err;

	s->again = block->size < LARGE;
	s->number = number;
	forget_window(s);
	err = read_words(s, block, (block->start + block->size) / WORD * WORD);
	if (s->again)
		/* these bytes are not counted now, but when the block is read again */
		s->window.unread_bytes = unread_bytes;
	s->again = false;
	return err;
}

static int read_large(struct scanning *s, struct large *large)
{
	if (large->read)
		return 0;
	large->read = true;
	return read_one_ahead(s, large->number, &large->block);
}

/* Reads the large blocks in the queue, and up to *budget small ones. Queues the blocks to which
 * these blocks lead, and reads them in the same way. */
static int read_queue(struct scanning *s, uint32_t *budget)
{
	int err = 0;

	while (s->head != s->tail && !err) {
		uint32_t number = s->queue[s->head++ % QUEUE];
		size_t at = SEARCH_FIRST(i, s->n_large, s->large[i].number >= number);
		struct block block;

		if (at < s->n_large && s->large[at].number == number) {
			err = read_large(s, &s->large[at]);
		} else if (*budget && numbers__block(&s->reach->numbers, number, &block)) {
			--*budget;
			err = read_one_ahead(s, number, &block);
		}
	}
	return err;
}

/* Reads large blocks before all others, if few steps lead from a root to them. A large table may
 * lead to most of a heap, and often lies at the heap's end. If such a table were read last, the
 * pointers of all blocks before it would have to be stored first, and then followed in the table's
 * order. */
static int read_ahead(struct scanning *s)
{
	uint32_t budget = s->reach->numbers.n / 64;
	int err;

	if (budget > AHEAD_BLOCKS)
		budget = AHEAD_BLOCKS;
	s->ahead = true;
	while (!(err = read_queue(s, &budget)) && s->dropped) {
		/* the queue is empty now, but it was full of small blocks */
		s->dropped = false;
		for (size_t i = 0; i < s->n_large; i++)
			if (!s->large[i].read && reach__has(s->reach, s->large[i].number))
				push_ahead(s, s->large[i].number);
	}
	s->ahead = false;
	s->head = s->tail = 0;
	s->number = 0;
	return err;
}

/* --- late blocks --- */

/* Handles a word of a late block. from: the block or root that leads to the late block. */
static int take_late_word(struct scanning *s, uint64_t value, uint32_t from)
{
	struct reach *reach = s->reach;
	uint32_t number;
	int rc;

	if (!may_point(s, value))
		return 0;
	number = numbers__find(&reach->numbers, value);
	if (number == NO_NUMBER) {
		rc = note_late(s, value);
		return rc > 0 ? late__follow(s->late, value, from) : rc;
	}
	if (mark(reach, number)) {
		if (reach->parents)
			reach->parents[number] = from;
		push(s, number);
	}
	return 0;
}

/* Visits a late block. The end of a late block is not known. So this function reads at most up to
 * the end of the free block that was there before, or up to the next known block. Sets *ret_any if
 * the late block was not visited before. */
static int visit_late(struct scanning *s, const struct late_pointer *pointer, bool *ret_any)
{
	uint64_t words[LATE_WORDS], at = pointer->value / WORD * WORD;
	int n = late__visit(s->late, s->image, pointer->value, words), err = 0;
	struct block hole = {.size = UINT64_MAX};

	blocks__find(s->blocks, pointer->value, &hole);
	if (n < 0)
		return n;
	*ret_any |= n;
	for (int i = 0; i < n && !err && at - hole.start < hole.size; i++, at += WORD) {
		if (at % BLOCK_GRANULE == 0 && numbers__find(&s->reach->numbers, at) != NO_NUMBER)
			break;
		err = take_late_word(s, words[i], pointer->from);
	}
	drain(s);
	return err;
}

/* Follows the late pointers in the reached blocks. The blocks to which they lead may have late
 * pointers, too. */
static int follow_late(struct scanning *s)
{
	struct late *late = s->late;
	bool more = late && late->n_pointers;
	int err = 0;

	for (int round = 0; more && !err && round < LATE_ROUNDS; round++) {
		more = false;
		for (size_t i = 0; i < late->n_pointers && !err; i++) {
			struct late_pointer pointer = late->pointers[i]; /* late->pointers may
									  * move */

			if ((pointer.from & PARENT_ROOT) || reach__has(s->reach, pointer.from - 1))
				err = visit_late(s, &pointer, &more);
		}
	}
	return err;
}

static int scan(struct scanning *s, const struct blocks *blocks, const struct roots *roots)
{
	int err = 0;

	for (int kind = 0; !err && !s->all && kind < ROOT_KINDS; kind++)
		err = read_roots(s, roots, kind);
	if (!err && !s->all)
		err = read_ahead(s);
	forget_window(s);
	if (!err)
		err = blocks__each(blocks, read_block, s);
	s->reached = s->reach->numbers.n;
	for (int kind = 0; !err && s->all && kind < ROOT_KINDS; kind++)
		err = read_roots(s, roots, kind);
	return err ? err : follow_late(s);
}

static int number_block(const struct block *block, void *ctx)
{
	struct scanning *s = ctx;

	if (!block->in_use)
		return 0;
	numbers__take(&s->reach->numbers, block);
	if (block->size >= LARGE) {
		if (VECTOR_RESERVE(s->large, s->large_room, s->n_large + 1))
			return -ENOMEM;
		s->large[s->n_large++] = (struct large){.block = *block, .number = s->number};
	}
	s->number++;
	return 0;
}

static int make(struct scanning *s, const struct blocks *blocks, struct reach *reach)
{
	size_t n;
	int err = numbers__open(&reach->numbers, blocks);

	if (!err)
		err = blocks__each(blocks, number_block, s);
	if (!err)
		err = numbers__close(&reach->numbers);
	if (err)
		return err;
	s->number = 0;
	late__range(blocks, &s->lowest, &s->highest);
	n = bits__words(reach->numbers.n);
	reach->marked = calloc(n, sizeof(*reach->marked));
	if (s->all)
		reach->parents = calloc((size_t)reach->numbers.n + 1, sizeof(*reach->parents));
	s->queue = malloc(QUEUE * sizeof(*s->queue));
	s->waiting = calloc(n, sizeof(*s->waiting));
	s->targets = malloc(WINDOW_WORDS * sizeof(*s->targets));
	if (!reach->marked || (s->all && !reach->parents) || !s->queue || !s->waiting ||
	    window__init(&s->window) || !s->targets)
		return -ENOMEM;
	return edges__init(&reach->edges, reach->numbers.n);
}

int reach__scan(struct image *image, const struct blocks *blocks, const struct roots *roots,
		struct late *late, bool parents, struct reach *ret)
{
	struct reach reach = {};
	struct scanning s = {
		.image = image, .reach = &reach, .blocks = blocks, .late = late, .all = parents};
	int err = make(&s, blocks, &reach);

	if (!err)
		err = scan(&s, blocks, roots);
	reach.unread_bytes = s.window.unread_bytes;
	free(s.queue);
	free(s.waiting);
	window__clear(&s.window);
	free(s.targets);
	free(s.large);
	if (err) {
		reach__clear(&reach);
		return err;
	}
	*ret = reach;
	return 0;
}

void reach__clear(struct reach *reach)
{
	numbers__clear(&reach->numbers);
	edges__clear(&reach->edges);
	free(reach->marked);
	free(reach->parents);
	free(reach->root_words);
	*reach = (struct reach){};
}

size_t reach__bytes(const struct reach *reach)
{
	size_t n = reach->numbers.n, slots = reach->numbers.n_words * 64;

	return slots / 8 + slots / 16 + n / 4 + reach->edges.n_bytes +
	       n / EDGES_STRIDE * sizeof(uint64_t) + (reach->parents ? n * sizeof(uint32_t) : 0) +
	       reach->n_root_words * sizeof(*reach->root_words);
}
