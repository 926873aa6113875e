// SPDX-License-Identifier: BSD-2-Clause
/* Blocks that the program has freed, but whose chunks still look in use: those in thread caches and
 * fast bins. Both are singly linked lists, last in, first out. From glibc 2.32 on a link is stored
 * as link ^ (its own address >> 12). */
#include "heap/glibc_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/vector.h"

#define TCACHE_BINS 64
#define MAX_COUNT   4096      /* of a thread cache's list; glibc's default is 7 */
#define MAX_FAST    (1 << 24) /* chunks of a fast bin */
#define TRIES	    4

struct tcache {
	uint16_t counts[TCACHE_BINS];
	uint64_t entries[TCACHE_BINS];
};

struct list {
	uint64_t *addrs; /* what malloc() returned */
	size_t n, room;
};

static void cleanup_list(struct list *list)
{
	free(list->addrs);
}

/* Reads a block that lies in a list: header, link and key. False: it cannot lie there. */
static bool read_block(struct glibc *g, uint64_t addr, uint64_t size, uint64_t ret_words[2])
{
	uint64_t words[4];

	if (addr % CHUNK_ALIGN || addr < CHUNK_USER ||
	    image__read(g->image, addr - CHUNK_USER, words, sizeof(words)) ||
	    (words[1] & ~(CHUNK_PREV_USED | CHUNK_NON_MAIN)) != size)
		return false;
	ret_words[0] = words[2];
	ret_words[1] = words[3];
	return true;
}

static int add(struct list *list, uint64_t addr)
{
	if (VECTOR_RESERVE(list->addrs, list->room, list->n + 1))
		return -ENOMEM;
	list->addrs[list->n++] = addr;
	return 0;
}

/* The address that comes after addr in the list. offset: from what a link holds to what malloc()
 * returns. A link that leads nowhere ends the list. */
static uint64_t next_of(uint64_t addr, uint64_t link, bool safe, uint64_t offset)
{
	uint64_t next = safe ? link ^ addr >> 12 : link;

	return next ? next + offset : 0;
}

/* Collects at most max blocks of `size` from addr on. 1: the list came to its end, or has max
 * blocks; 0: it leads nowhere; -ENOMEM. */
static int follow(struct glibc *g, uint64_t addr, uint64_t size, bool safe, uint64_t offset,
		  size_t max, struct list *list)
{
	uint64_t words[2];

	list->n = 0;
	while (addr && list->n < max) {
		if (!read_block(g, addr, size, words))
			return 0;
		if (add(list, addr))
			return -ENOMEM;
		addr = next_of(addr, words[0], safe, offset);
	}
	return 1;
}

/* The same without knowing how links are stored. */
static int follow_any(struct glibc *g, uint64_t addr, uint64_t size, uint64_t offset, size_t max,
		      struct list *list)
{
	int rc = follow(g, addr, size, true, offset, max, list);

	return rc ? rc : follow(g, addr, size, false, offset, max, list);
}

static void set_free(struct glibc *g, const struct list *list, uint64_t size, enum heap_place place)
{
	size_t group = heap__size_group(size - 8);

	for (size_t i = 0; i < list->n; i++) {
		struct span *span = blocks__find_span(g->blocks, list->addrs[i]);
		struct heap_arena *arena;

		if (!span || span->kind != SPAN_WALKED ||
		    !span__set_free(span, list->addrs[i], size - 8))
			continue;
		arena = g->arenas[span->arena].count;
		arena->count[PLACE_IN_USE][group].blocks--;
		arena->count[PLACE_IN_USE][group].bytes -= size - 8;
		heap_arena__count(arena, place, size - 8);
	}
}

/* --- thread caches --- */

static bool read_tcache(struct glibc *g, uint64_t chunk, struct tcache *ret)
{
	bool any = false;

	if (image__read(g->image, chunk + CHUNK_USER, ret, sizeof(*ret)))
		return false;
	for (size_t i = 0; i < TCACHE_BINS; i++) {
		if (ret->counts[i] > MAX_COUNT || ret->entries[i] % CHUNK_ALIGN)
			return false;
		/* glibc 2.31 has a count of 0 for an entry that is about to be stored. */
		any = any || (ret->counts[i] && ret->entries[i]);
	}
	return any;
}

bool glibc__read_key(struct glibc *g, uint64_t chunk)
{
	uint64_t head, words[2], key = 0;
	struct tcache tcache;

	if (!glibc__read_word(g, chunk + 8, &head) ||
	    (head & ~(CHUNK_PREV_USED | CHUNK_NON_MAIN)) != TCACHE_CHUNK ||
	    !read_tcache(g, chunk, &tcache))
		return false;
	for (size_t i = 0; i < TCACHE_BINS; i++) {
		if (!tcache.counts[i] || !tcache.entries[i])
			continue;
		if (!read_block(g, tcache.entries[i], 16 * i + CHUNK_MIN, words) ||
		    (key && words[1] != key))
			return false;
		key = words[1];
	}
	/* Before glibc 2.34 it is the address of this structure: nobody else's. */
	if (!key || key == chunk + CHUNK_USER)
		return false;
	g->key = key;
	return true;
}

static int free_tcache(struct glibc *g, uint64_t chunk, struct list *list)
{
	struct tcache tcache;
	uint64_t words[2];

	if (!read_tcache(g, chunk, &tcache))
		return 0;
	for (size_t i = 0; i < TCACHE_BINS; i++) {
		uint64_t size = 16 * i + CHUNK_MIN;
		int rc;

		if (!tcache.counts[i] || !tcache.entries[i] ||
		    !read_block(g, tcache.entries[i], size, words) ||
		    (words[1] != g->key && words[1] != chunk + CHUNK_USER))
			continue;
		rc = follow_any(g, tcache.entries[i], size, 0, tcache.counts[i], list);
		if (rc < 0)
			return rc;
		set_free(g, list, size, PLACE_THREAD_CACHE);
	}
	return 0;
}

/* --- fast bins --- */

static int free_fast_bin(struct glibc *g, uint64_t head_addr, uint64_t size, struct list *list)
{
	uint64_t head = 0, again = 0;

	for (int tries = 0; tries < TRIES; tries++) {
		int rc;

		if (!glibc__read_word(g, head_addr, &head) || !head)
			return 0;
		rc = follow_any(g, head + CHUNK_USER, size, CHUNK_USER, MAX_FAST, list);
		if (rc < 0)
			return rc;
		/* While the first one stays, none behind it has left. */
		if (rc && glibc__read_word(g, head_addr, &again) && again == head) {
			set_free(g, list, size, PLACE_FAST_BIN);
			return 0;
		}
	}
	return 0;
}

int glibc__free_cached(struct glibc *g)
{
	_cleanup_(cleanup_list) struct list list = {};
	int err = 0;

	for (size_t i = 0; i < g->n_caches && !g->key; i++)
		glibc__read_key(g, g->caches[i]);
	for (size_t i = 0; i < g->n_caches && !err; i++)
		err = free_tcache(g, g->caches[i], &list);
	for (size_t i = 0; i < g->n_arenas; i++)
		for (size_t k = 0; k < FAST_BINS && !err; k++)
			err = free_fast_bin(g, g->arenas[i].addr + ARENA_FAST + 8 * k,
					    CHUNK_MIN + 16 * k, &list);
	return err;
}
