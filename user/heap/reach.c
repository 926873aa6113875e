// SPDX-License-Identifier: BSD-2-Clause
#include "heap/reach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/vector.h"
#include "heap/image.h"

#define WORD	     sizeof(uint64_t)
#define WINDOW_BYTES (256u << 10)
#define WINDOW_WORDS (WINDOW_BYTES / WORD)
#define QUEUE	     (1u << 18) /* blocks; a power of two */
#define LATE_ROUNDS  16
#define LOW_ADDRS    (1ULL << 32)

/* One scan. Blocks are visited once each: when a block is marked, it goes into the queue. When the
 * queue is full, the block's bit in `waiting` is set instead, which needs no memory more. */
struct scanning {
	struct image *image;
	struct reach *reach;
	const struct blocks *blocks;
	struct late *late;	  /* NULL: none are noted */
	uint64_t lowest, highest; /* of all spans and their vicinity */
	bool all;		  /* keep all pointers, and parents */

	/* How far the heap is read, as a block's number: blocks from this one on are visited when
	 * they are read. The number of all blocks: the heap is read. */
	uint32_t reached;

	uint32_t *queue; /* a ring */
	uint32_t head, tail;
	uint64_t *waiting;
	uint32_t n_waiting;

	/* The present words, and a range of addresses that is known not to be resident. */
	uint64_t *words;
	uint64_t gap, start, end; /* nothing is resident in [gap, start); words has [start, end) */

	uint32_t number;   /* of the block at hand */
	uint32_t *targets; /* WINDOW_WORDS */
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

/* Moves blocks that wait into the queue, which is empty. */
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

/* Visits the queued blocks, and what they lead to. */
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

/* As load(), page by page: zeros where nothing is. */
static int load_pages(struct scanning *s, uint64_t start, uint64_t end)
{
	for (uint64_t at = start, stop; at < end; at = stop) {
		unsigned char *to = (unsigned char *)s->words + (at - start);
		int err;

		stop = at / HEAP_PAGE * HEAP_PAGE + HEAP_PAGE;
		stop = stop < end ? stop : end;
		err = image__read(s->image, at, to, (size_t)(stop - at));
		if (err == -ETIMEDOUT || err == -EFBIG)
			return err;
		if (err) {
			memset(to, 0, (size_t)(stop - at));
			s->reach->unread_bytes += stop - at;
		}
	}
	return 0;
}

/* Reads resident memory from start on into the window. 0, or why nothing more can be read. */
static int load(struct scanning *s, uint64_t start, uint64_t end)
{
	int err;

	if (end - start > WINDOW_BYTES)
		end = start + WINDOW_BYTES;
	err = image__read(s->image, start, s->words, (size_t)(end - start));
	if (err == -ETIMEDOUT || err == -EFBIG)
		return err;
	if (err) /* some of the memory was unmapped meanwhile */
		err = load_pages(s, start, end);
	s->start = start;
	s->end = end;
	return err;
}

/* *ret_parent: a root that leads to blocks. 0 or -ENOMEM. */
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
	if (!mark(reach, number) || !s->all)
		return 0;
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
	uint64_t at = root->start, start, end;
	int err;

	while (at < root->end && image__run(s->image, at, root->end, &start, &end)) {
		err = load(s, start, end);
		for (size_t i = 0; !err && i < (s->end - start) / WORD; i++) {
			word.addr = start + i * WORD;
			err = take_root(s, s->words[i], &word);
		}
		if (err)
			return err;
		s->reach->root_bytes += s->end - start;
		at = s->end;
	}
	return image__spent(s->image);
}

/* The roots of one kind, and, if all pointers are known, what they lead to. */
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

/* Takes the words of a block that the window holds. */
static int take_words(struct scanning *s, const uint64_t *words, size_t n)
{
	struct reach *reach = s->reach;
	bool marked = !s->all && reach__has(reach, s->number);
	size_t n_targets = 0;
	uint32_t last = NO_NUMBER;

	for (size_t i = 0; i < n; i++) {
		uint32_t to;

		if (!may_point(s, words[i]))
			continue;
		to = numbers__find(&reach->numbers, words[i]);
		if (to == NO_NUMBER) {
			int rc = note_late(s, words[i]);

			if (rc > 0)
				rc = late__follow(s->late, words[i], s->number + 1);
			if (rc)
				return rc;
		}
		if (to == NO_NUMBER || to == s->number || to == last)
			continue;
		last = to;
		if (marked) {
			if (mark(reach, to) && to < s->number)
				push(s, to);
		} else if (s->all || !reach__has(reach, to)) {
			s->targets[n_targets++] = to;
		}
	}
	return edges__add(&reach->edges, s->number, s->targets, n_targets);
}

static int read_block(const struct block *block, void *ctx)
{
	struct scanning *s = ctx;
	uint64_t at = (block->start + WORD - 1) / WORD * WORD;
	uint64_t block_end = (block->start + block->size) / WORD * WORD;
	int err;

	if (!block->in_use)
		return 0;
	s->reached = s->number;
	while (at < block_end) {
		uint64_t start, end;

		if (at < s->gap || at >= s->end) {
			s->gap = at;
			if (!image__run(s->image, at, block->span->end, &start, &end)) {
				s->start = s->end = block->span->end;
				err = image__spent(s->image);
			} else {
				err = load(s, start, end);
			}
			if (err)
				return err;
		}
		start = at > s->start ? at : s->start;
		end = block_end < s->end ? block_end : s->end;
		if (start >= end)
			break; /* no more of the block is resident */
		err = take_words(s, s->words + (start - s->start) / WORD, (end - start) / WORD);
		if (err)
			return err;
		/* Marked only now, by a block that it leads to: the rest of it is handled as that
		 * of a marked block. */
		drain(s);
		at = end;
	}
	s->number++;
	return 0;
}

/* --- late blocks --- */

/* A word of a late block, to which `from` leads. */
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

/* Visits a late block. It is within memory that was one free block, or ends where a known block
 * begins. *ret_any: it was not visited before. */
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
			struct late_pointer pointer = late->pointers[i]; /* they may move */

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
	s->gap = s->start = s->end = 0;
	if (!err)
		err = blocks__each(blocks, read_block, s);
	s->reached = s->reach->numbers.n;
	for (int kind = 0; !err && s->all && kind < ROOT_KINDS; kind++)
		err = read_roots(s, roots, kind);
	return err ? err : follow_late(s);
}

static int make(struct scanning *s, const struct blocks *blocks, struct reach *reach)
{
	size_t n_spans = blocks__n_spans(blocks), n;
	int err = numbers__init(&reach->numbers, blocks);

	if (err)
		return err;
	if (n_spans) {
		s->lowest = blocks__span(blocks, 0)->start;
		s->highest = blocks__span(blocks, n_spans - 1)->end;
		if (s->late) {
			/* A heap at low addresses grows upwards. Values below it are mostly
			 * numbers. */
			s->lowest -= s->lowest < LOW_ADDRS ? 0 : LATE_NEAR;
			s->highest += LATE_NEAR;
		}
	}
	n = bits__words(reach->numbers.n);
	reach->marked = calloc(n, sizeof(*reach->marked));
	if (s->all)
		reach->parents = calloc((size_t)reach->numbers.n + 1, sizeof(*reach->parents));
	s->queue = malloc(QUEUE * sizeof(*s->queue));
	s->waiting = calloc(n, sizeof(*s->waiting));
	s->words = malloc(WINDOW_BYTES);
	s->targets = malloc(WINDOW_WORDS * sizeof(*s->targets));
	if (!reach->marked || (s->all && !reach->parents) || !s->queue || !s->waiting ||
	    !s->words || !s->targets)
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
	free(s.queue);
	free(s.waiting);
	free(s.words);
	free(s.targets);
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

	return slots / 8 + slots / 128 + n / 8 + reach->edges.n_bytes +
	       n / EDGES_STRIDE * sizeof(uint64_t) + (reach->parents ? n * sizeof(uint32_t) : 0) +
	       reach->n_root_words * sizeof(*reach->root_words);
}
