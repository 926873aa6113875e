// SPDX-License-Identifier: BSD-2-Clause
#include "heap/lost.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/search.h"
#include "base/vector.h"
#include "heap/image.h"

#define NONE UINT32_MAX

/* --- which blocks --- */

struct listing {
	const struct reach *reach;
	struct image *image;
	const struct lost *before;
	size_t i; /* index in before->list */
	size_t max, room;
	uint32_t number;
	struct lost lost;
};

uint64_t lost__hash(struct image *image, const struct block *block)
{
	unsigned char bytes[LOST_HASHED] = {0};
	size_t len = block->size < LOST_HASHED ? (size_t)block->size : LOST_HASHED;
	size_t first = (size_t)(HEAP_PAGE - block->start % HEAP_PAGE);

	if (first > len)
		first = len;
	image__peek(image, block->start, bytes, first);
	if (first < len)
		image__peek(image, block->start + first, bytes + first, len - first);
	return hash__keyed(bytes, len);
}

static int list_block(const struct block *block, void *ctx)
{
	struct listing *l = ctx;
	const struct lost *before = l->before;
	struct lost_block lost;

	if (!block->in_use || reach__has(l->reach, l->number++))
		return 0;
	lost = (struct lost_block){
		.addr = block->start, .size = block->size, .content = lost__hash(l->image, block)};
	if (before) {
		while (l->i < before->n && before->list[l->i].addr < block->start)
			l->i++;
		if (l->i == before->n || before->list[l->i].addr != block->start ||
		    before->list[l->i].size != block->size ||
		    before->list[l->i].content != lost.content)
			return 0;
		lost.asked = before->list[l->i].asked;
	}
	if (l->lost.n == l->max) {
		l->lost.beyond++;
		return 0;
	}
	if (VECTOR_RESERVE(l->lost.list, l->room, l->lost.n + 1))
		return -ENOMEM;
	l->lost.list[l->lost.n++] = lost;
	return 0;
}

bool lost__has(const struct lost *lost, uint64_t addr)
{
	size_t at = SEARCH_FIRST(i, lost->n, lost->list[i].addr >= addr);

	return at < lost->n && lost->list[at].addr == addr;
}

int lost__list(const struct reach *reach, struct image *image, const struct lost *before,
	       size_t max, struct lost *ret)
{
	struct listing l = {.reach = reach, .image = image, .before = before, .max = max};
	int err = blocks__each(reach->numbers.blocks, list_block, &l);

	if (err) {
		free(l.lost.list);
		return err;
	}
	if (before)
		l.lost.beyond += before->beyond;
	*ret = l.lost;
	return 0;
}

/* --- what leads to what --- */

/* Each array has an element for each lost block, in the order of the list. */
struct grouping {
	const struct edges *edges;
	const struct lost *lost;
	uint32_t *numbers; /* numbers of the blocks, ascending */
	uint32_t *leader;  /* index of the block's leader; NONE: not known yet */
	bool *pointed;	   /* another lost block points to this block */
	uint32_t *stack;
};

static uint32_t index_of(const struct grouping *g, uint32_t number)
{
	size_t i = SEARCH_FIRST(k, g->lost->n, g->numbers[k] >= number);

	return i < g->lost->n && g->numbers[i] == number ? (uint32_t)i : NONE;
}

static void note_pointed(struct grouping *g, uint32_t from)
{
	struct edge_walk walk = edges__from(g->edges, g->numbers[from]);
	uint32_t number, to;

	while (edge_walk__next(&walk, &number)) {
		to = index_of(g, number);
		if (to != NONE && to != from)
			g->pointed[to] = true;
	}
}

/* Makes `from` the leader of each block to which it leads, if that block has no leader yet. */
static void lead(struct grouping *g, uint32_t from)
{
	size_t n = 0;

	g->leader[from] = from;
	g->stack[n++] = from;
	while (n) {
		struct edge_walk walk = edges__from(g->edges, g->numbers[g->stack[--n]]);
		uint32_t number, to;

		while (edge_walk__next(&walk, &number)) {
			to = index_of(g, number);
			if (to == NONE || g->leader[to] != NONE)
				continue;
			g->leader[to] = from;
			g->stack[n++] = to; /* no block is pushed twice, because it now has a
					     * leader */
		}
	}
}

/* Each block to which no other lost block points becomes a leader. */
static void lead_from_heads(struct grouping *g)
{
	for (uint32_t i = 0; i < g->lost->n; i++)
		g->leader[i] = NONE;
	for (uint32_t i = 0; i < g->lost->n; i++)
		if (!g->pointed[i])
			lead(g, i);
}

/* Blocks to which no head leads are in cycles, or cycles lead to them. A first round makes leaders
 * of some of these blocks, and lists them in `met`. One cycle may lead to another, so not every
 * block in `met` stays a leader. But no block in `met` leads to a later block in `met`. A second
 * round goes from the last block in `met` to the first. It finds leaders to which no other leader
 * leads (as in Kosaraju's algorithm for strongly connected components). */
static int find_leaders(struct grouping *g)
{
	_cleanup_free_ uint32_t *met = NULL;
	size_t n = 0, room = 0;

	for (uint32_t i = 0; i < g->lost->n; i++)
		note_pointed(g, i);
	lead_from_heads(g);
	for (uint32_t i = 0; i < g->lost->n; i++) {
		if (g->leader[i] != NONE)
			continue;
		if (VECTOR_RESERVE(met, room, n + 1))
			return -ENOMEM;
		met[n++] = i;
		lead(g, i);
	}
	if (!n)
		return 0;
	lead_from_heads(g);
	while (n--)
		if (g->leader[met[n]] == NONE)
			lead(g, met[n]);
	return 0;
}

static int sum_up(struct grouping *g, struct leak **ret_leaks, size_t *ret_n)
{
	const struct lost *lost = g->lost;
	struct leak *leaks = NULL;
	size_t n = 0;

	for (uint32_t i = 0; i < lost->n; i++)
		n += g->leader[i] == i;
	leaks = calloc(n + 1, sizeof(*leaks));
	if (!leaks)
		return -ENOMEM;
	n = 0;
	for (uint32_t i = 0; i < lost->n; i++) {
		if (g->leader[i] != i)
			continue;
		g->stack[i] = (uint32_t)n; /* the leader's index in leaks */
		leaks[n++] = (struct leak){.head = lost->list[i], .cycle = g->pointed[i]};
	}
	for (uint32_t i = 0; i < lost->n; i++) {
		struct leak *leak = &leaks[g->stack[g->leader[i]]];

		leak->blocks++;
		leak->bytes += lost->list[i].size;
	}
	*ret_leaks = leaks;
	*ret_n = n;
	return 0;
}

int lost__leaks(const struct numbers *all, const struct edges *edges, const struct lost *lost,
		struct leak **ret_leaks, size_t *ret_n)
{
	_cleanup_free_ uint32_t *numbers = calloc(lost->n + 1, sizeof(*numbers));
	_cleanup_free_ uint32_t *leader = calloc(lost->n + 1, sizeof(*leader));
	_cleanup_free_ uint32_t *stack = calloc(lost->n + 1, sizeof(*stack));
	_cleanup_free_ bool *pointed = calloc(lost->n + 1, sizeof(*pointed));
	struct grouping g = {edges, lost, numbers, leader, pointed, stack};
	int err;

	if (!numbers || !leader || !stack || !pointed)
		return -ENOMEM;
	for (size_t i = 0; i < lost->n; i++)
		numbers[i] = numbers__find(all, lost->list[i].addr);
	err = find_leaders(&g);
	return err ? err : sum_up(&g, ret_leaks, ret_n);
}

/* --- groups --- */

static int by_head_size(const void *a, const void *b)
{
	const struct leak *x = a, *y = b;

	if (x->head.size != y->head.size)
		return x->head.size < y->head.size ? -1 : 1;
	return (x->head.addr > y->head.addr) - (x->head.addr < y->head.addr);
}

static int by_bytes(const void *a, const void *b)
{
	const struct leak_group *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return (x->head_size > y->head_size) - (x->head_size < y->head_size);
}

int leaks__group(struct leak *leaks, size_t n, struct leak_group **ret_groups, size_t *ret_n)
{
	_cleanup_free_ struct leak_group *groups = NULL;
	size_t n_groups = 0;

	if (n)
		qsort(leaks, n, sizeof(*leaks), by_head_size);
	for (size_t i = 0; i < n; i++) {
		const struct leak *leak = &leaks[i];
		struct leak_group *group;

		if (!n_groups || groups[n_groups - 1].head_size != leak->head.size) {
			if (VECTOR_ADD_ROOM(groups, n_groups))
				return -ENOMEM;
			groups[n_groups++] = (struct leak_group){.head_size = leak->head.size,
								 .example = leak->head.addr};
		}
		group = &groups[n_groups - 1];
		group->leaks++;
		group->cycles += leak->cycle;
		group->blocks += leak->blocks;
		group->bytes += leak->bytes;
	}
	if (n_groups)
		qsort(groups, n_groups, sizeof(*groups), by_bytes);
	*ret_groups = groups;
	*ret_n = n_groups;
	groups = NULL;
	return 0;
}
