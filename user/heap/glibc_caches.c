// SPDX-License-Identifier: BSD-2-Clause
/* Blocks in thread caches and fast bins: the program has freed them, but their chunks still look in
 * use. Caches and bins consist of singly linked lists: last in, first out. From glibc 2.32 on, a
 * link that is stored at address `at` has the form link ^ (at >> 12).
 *
 * A block is free if it is on such a list. While the program runs, a list may change too fast to be
 * followed. A fast bin may be long. If it changes too fast, only the blocks at its end count as
 * free, because these blocks stay on it. If a list of a thread cache changes too fast, a block of
 * the list's size counts as free if both of these are true. The block has the key (struct glibc).
 * The block's link leads to a block of the same size, or ends the list. */
#include "heap/glibc_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vector.h"

#define TCACHE_BINS_242 76 /* 12 of them are for larger blocks, each for several sizes */
/* at most this many blocks in a list of a thread cache: the tunable glibc.malloc.tcache_count
 * cannot be larger. Its default is 7 or 16 */
#define MAX_SLOTS UINT16_MAX
#define MAX_FAST  (1 << 24) /* a fast bin has at most this many chunks */
#define TRIES	  8
#define ANY_SIZE  0

/* struct tcache_perthread_struct. */
struct tcache {
	size_t n_bins;
	/* How many blocks each list has. From glibc 2.42 on: how many more blocks each list may
	 * get. */
	uint16_t counts[TCACHE_BINS_242];
	uint64_t entries[TCACHE_BINS_242];
};

struct list {
	uint64_t head_addr; /* address of the word that holds the address of the first block */
	uint64_t offset;    /* distance from the address in a link to the address that malloc()
			     * returned */
	uint64_t size;	    /* size of each chunk in the list, or ANY_SIZE */
	uint64_t key;	    /* the key that each block has; 0: none */
	size_t max;
	struct glibc_block *blocks;
	size_t n, room;
	struct glibc_block *before; /* for read_stable(): the blocks that the previous walk found */
	size_t n_before, before_room;
};

static void cleanup_list(struct list *list)
{
	free(list->blocks);
	free(list->before);
}

/* Adds the block at addr to the list. *ret_link: the block's link, in the form in which it is
 * stored. 0; -ENOENT: no block of this list can be there; -ENOMEM. */
static int add_block(struct glibc *g, struct list *list, uint64_t addr, uint64_t *ret_link)
{
	uint64_t words[4], size;

	if (addr % CHUNK_ALIGN || addr < CHUNK_USER ||
	    image__read(g->image, addr - CHUNK_USER, words, sizeof(words)))
		return -ENOENT;
	size = words[1] & ~(CHUNK_PREV_USED | CHUNK_NON_MAIN);
	if ((list->size ? size != list->size : size <= TCACHE_MAX_CHUNK || size & CHUNK_FLAGS) ||
	    (list->key && words[3] != list->key))
		return -ENOENT;
	if (VECTOR_RESERVE(list->blocks, list->room, list->n + 1))
		return -ENOMEM;
	list->blocks[list->n++] = (struct glibc_block){addr, size};
	*ret_link = words[2];
	return 0;
}

/* Collects the blocks from addr on. safe: links have the form of glibc 2.32. 0: all were collected;
 * -ENOENT: a link leads to no block of this list; -ENOMEM. */
static int follow(struct glibc *g, struct list *list, uint64_t addr, bool safe)
{
	uint64_t link;

	for (list->n = 0; addr; addr = link ? link + list->offset : 0) {
		int err = list->n < list->max ? add_block(g, list, addr, &link) : -ENOENT;

		if (err)
			return err;
		if (safe)
			link ^= addr >> 12;
	}
	return 0;
}

/* Collects the blocks of the list. *ret_head: its head. The results are those of
 * follow(). */
static int walk(struct glibc *g, struct list *list, uint64_t *ret_head)
{
	int err;

	list->n = 0;
	if (!glibc__read_word(g, list->head_addr, ret_head))
		return -ENOENT;
	if (!*ret_head)
		return 0;
	err = follow(g, list, *ret_head + list->offset, true);
	if (err == -ENOENT && !g->key) /* perhaps this is glibc 2.31, which stores links as they
					* are */
		err = follow(g, list, *ret_head + list->offset, false);
	return err;
}

/* Collects the blocks that are on a list at one moment. If the first block is the same before and
 * after the walk, no block behind it has left the list during the walk. 0; -ENOENT: the list
 * changes too fast, and list->blocks has the blocks that the last try reached; -ENOMEM. */
static int read_list(struct glibc *g, struct list *list)
{
	uint64_t head, again;

	for (int tries = 0; tries < TRIES; tries++) {
		int err = walk(g, list, &head);

		if (err == -ENOMEM || (!err && !head))
			return err;
		if (!err && glibc__read_word(g, list->head_addr, &again) && again == head)
			return 0;
	}
	return -ENOENT;
}

static void exchange(struct list *list)
{
	struct glibc_block *blocks = list->blocks;
	size_t n = list->n, room = list->room;

	list->blocks = list->before;
	list->n = list->n_before;
	list->room = list->before_room;
	list->before = blocks;
	list->n_before = n;
	list->before_room = room;
}

/* Keeps only the blocks at the end of the list that the previous walk also found there. Drops the
 * other blocks. False: no block would be left, so none is dropped. */
static bool drop_changed(struct list *list)
{
	size_t same = 0;

	while (same < list->n && same < list->n_before &&
	       list->blocks[list->n - 1 - same].addr ==
		       list->before[list->n_before - 1 - same].addr)
		same++;
	if (!same)
		return false;
	memmove(list->blocks, list->blocks + list->n - same, same * sizeof(*list->blocks));
	list->n = same;
	return true;
}

/* Like read_list(). But if the list changes too fast, collects only the blocks that stay on it.
 * Other blocks come and go at the front of the list. So the blocks that stay are at the end of the
 * list, and two walks find the same ones. 0 or -ENOMEM. */
static int read_stable(struct glibc *g, struct list *list)
{
	int err = read_list(g, list);
	bool once = false;
	uint64_t head;

	for (int tries = 0; err == -ENOENT && tries < TRIES; tries++) {
		exchange(list);
		err = walk(g, list, &head);
		if (err) {
			exchange(list);
		} else {
			/* If the two walks have no common end, one of them went wrong, or no block
			 * stays. */
			err = once && drop_changed(list) ? 0 : -ENOENT;
			once = true;
		}
	}
	if (err)
		list->n = 0;
	return err == -ENOMEM ? err : 0;
}

static void set_free(struct glibc *g, const struct glibc_block *block, enum heap_place place)
{
	struct span *span = blocks__find_span(g->blocks, block->addr);
	uint64_t size = block->size - 8;
	struct heap_count *in_use;
	struct heap_arena *arena;

	if (!span || span->kind != SPAN_WALKED || !span__set_free(span, block->addr, size))
		return;
	arena = g->arenas[span->arena].count;
	in_use = &arena->count[PLACE_IN_USE][heap__size_group(size)];
	in_use->blocks--;
	in_use->bytes -= size;
	heap_arena__count(arena, place, size);
}

static void set_list_free(struct glibc *g, const struct list *list, enum heap_place place)
{
	for (size_t i = 0; i < list->n; i++)
		set_free(g, &list->blocks[i], place);
}

/* --- thread caches --- */

static uint64_t size_of_bin(size_t bin)
{
	return bin < TCACHE_BINS ? CHUNK_MIN + 16 * bin : ANY_SIZE;
}

/* Returns the address of the entries of the thread cache in this block. */
static uint64_t entries_addr(const struct glibc_block *block, size_t n_bins)
{
	return block->addr + n_bins * sizeof(uint16_t);
}

static bool read_tcache(struct glibc *g, const struct glibc_block *block, struct tcache *ret)
{
	bool any = false;

	if (!glibc__may_be_cache(block->size))
		return false;
	ret->n_bins = block->size == TCACHE_CHUNK ? TCACHE_BINS : TCACHE_BINS_242;
	if (image__read(g->image, block->addr, ret->counts, ret->n_bins * sizeof(*ret->counts)) ||
	    image__read(g->image, entries_addr(block, ret->n_bins), ret->entries,
			ret->n_bins * sizeof(*ret->entries)))
		return false;
	for (size_t i = 0; i < ret->n_bins; i++) {
		if (ret->entries[i] % CHUNK_ALIGN)
			return false;
		/* In glibc 2.31 the count is still 0 while the first block of a list is being
		 * stored. */
		if (ret->n_bins == TCACHE_BINS && !ret->counts[i])
			ret->entries[i] = 0;
		any = any || ret->entries[i];
	}
	return any;
}

static bool first_block(struct glibc *g, const struct tcache *tcache, size_t bin, uint64_t *ret_key)
{
	uint64_t addr = tcache->entries[bin], size = size_of_bin(bin), head;

	return glibc__read_word(g, addr - 8, &head) && glibc__read_word(g, addr + 8, ret_key) &&
	       (!size || (head & ~(CHUNK_PREV_USED | CHUNK_NON_MAIN)) == size);
}

/* Returns the key that the first blocks of all lists have; 0: they have no common key, or no list
 * is for blocks of one size only. A list for one size is needed: in a list for several sizes, any
 * words would look like a block. */
static uint64_t key_of(struct glibc *g, const struct tcache *tcache)
{
	uint64_t key = 0, word;
	bool sized = false;

	for (size_t i = 0; i < tcache->n_bins; i++) {
		if (!tcache->entries[i])
			continue;
		if (!first_block(g, tcache, i, &word) || (key && word != key))
			return 0;
		key = word;
		sized = sized || size_of_bin(i);
	}
	return sized ? key : 0;
}

/* Finds the key that all caches share. Before glibc 2.34 there is no such key: each cache uses its
 * own address as the key. */
static void find_key(struct glibc *g)
{
	struct tcache tcache;

	for (size_t i = 0; i < g->n_caches; i++) {
		uint64_t key = read_tcache(g, &g->caches[i], &tcache) ? key_of(g, &tcache) : 0;

		if (key) {
			g->key = key == g->caches[i].addr ? 0 : key;
			return;
		}
	}
}

/* Does a list of the cache begin with a block that has the key? */
static bool is_tcache(struct glibc *g, const struct tcache *tcache, uint64_t key)
{
	uint64_t word;

	for (size_t i = 0; i < tcache->n_bins; i++)
		if (tcache->entries[i] && first_block(g, tcache, i, &word) && word == key)
			return true;
	return false;
}

/* Counts the blocks in a thread cache as free. broken: has a bit for each block size. The bit is
 * set if a list of blocks of this size could not be followed to its end. */
static int free_tcache(struct glibc *g, const struct glibc_block *block, struct list *list,
		       uint64_t *broken)
{
	struct tcache tcache;

	list->key = g->key ? g->key : block->addr;
	list->offset = 0;
	list->max = MAX_SLOTS;
	if (!read_tcache(g, block, &tcache) || !is_tcache(g, &tcache, list->key))
		return 0;
	for (size_t i = 0; i < tcache.n_bins; i++) {
		int err;

		if (!tcache.entries[i])
			continue;
		list->head_addr = entries_addr(block, tcache.n_bins) + i * sizeof(uint64_t);
		list->size = size_of_bin(i);
		err = read_list(g, list);
		if (err == -ENOMEM)
			return err;
		if (err && i < TCACHE_BINS)
			*broken |= 1ULL << i;
		set_list_free(g, list, PLACE_THREAD_CACHE);
	}
	return 0;
}

struct hinting {
	struct glibc *g;
	uint64_t broken; /* `broken` of free_tcache() */
};

/* Does the link in the block at addr end a list, or lead to a chunk of this size? */
static bool is_sound_link(struct glibc *g, uint64_t addr, uint64_t link, uint64_t size)
{
	uint64_t next = link ^ addr >> 12, head;

	return !next ||
	       (next % CHUNK_ALIGN == 0 && !image__peek(g->image, next - 8, &head, sizeof(head)) &&
		(head & ~(CHUNK_PREV_USED | CHUNK_NON_MAIN)) == size);
}

/* Counts the block as free if it looks free, and if a list of its size is in `broken`. */
static int free_hint(const struct block *block, void *ctx)
{
	struct hinting *hinting = ctx;
	struct glibc_block piece = {block->start, block->size + 8};
	uint64_t words[2];

	if (block->in_use && block->span->kind == SPAN_WALKED && piece.size <= TCACHE_MAX_CHUNK &&
	    hinting->broken >> (piece.size - CHUNK_MIN) / 16 & 1 &&
	    !image__peek(hinting->g->image, block->start, words, sizeof(words)) &&
	    words[1] == hinting->g->key &&
	    is_sound_link(hinting->g, block->start, words[0], piece.size))
		set_free(hinting->g, &piece, PLACE_THREAD_CACHE);
	return 0;
}

/* --- fast bins --- */

static int free_fast_bins(struct glibc *g, const struct glibc_arena *arena, struct list *list)
{
	if (g->top_off != ARENA_TOP)
		return 0;
	list->offset = CHUNK_USER;
	list->key = 0;
	list->max = MAX_FAST;
	for (size_t i = 0; i < FAST_BINS; i++) {
		list->head_addr = arena->addr + ARENA_FAST + 8 * i;
		list->size = CHUNK_MIN + 16 * i;
		if (read_stable(g, list))
			return -ENOMEM;
		set_list_free(g, list, PLACE_FAST_BIN);
	}
	return 0;
}

int glibc__free_cached(struct glibc *g)
{
	_cleanup_(cleanup_list) struct list list = {};
	struct hinting hinting = {.g = g};
	int err = 0;

	find_key(g);
	for (size_t i = 0; i < g->n_caches && !err; i++)
		err = free_tcache(g, &g->caches[i], &list, &hinting.broken);
	for (size_t i = 0; i < g->n_arenas && !err; i++)
		err = free_fast_bins(g, &g->arenas[i], &list);
	/* A cache may be in memory that the walk did not reach, so lists of all sizes count as
	 * broken. */
	if (g->caches_missing || g->quality->absent_bytes || g->quality->unknown_bytes)
		hinting.broken = UINT64_MAX;
	image__forget(g->image);
	if (!err && g->key && hinting.broken)
		blocks__each(g->blocks, free_hint, &hinting);
	return err;
}
