// SPDX-License-Identifier: BSD-2-Clause
/* A thread cache of jemalloc 5.3 (struct tcache_s) is in the thread's own memory, mostly its TLS.
 * It has an array of bins, one for each size class from the smallest on (struct cache_bin_s):
 *
 *	word 0	the head: the address of the slot of the block that was added last
 *	word 1	statistics
 *	word 2	from bit 0 on, the low 16 bits of three addresses: of the low water, of the first
 *		slot, and of the end. The last 16 bits are the number of slots (5.3.1), or unused
 *		(5.3.0)
 *
 * The slots of all bins lie one after the other in one block of jemalloc. A word 0x7a7a... is
 * before the slots. In 5.3.0, a word 0xa7a7... is behind the slots. A bin is filled from its end
 * downwards.
 *
 * The caches are searched for in writable private memory that no allocator owns, except [stack].
 * At most 4 GiB are searched. A place is a cache if four things are true. The slots of its bins
 * adjoin each other. The word 0x7a7a... is before the slots. The word 0xa7a7... is behind the
 * slots, or each bin has the right number of slots. The slots are in a block in use. Slots that are
 * not filled hold stale pointers, so the pointers in this block must not be followed.
 *
 * In 5.1 and 5.2 (tcache_s, cache_bin_s) a bin is:
 *
 *	word 0	the low water, and in the upper 32 bits the number of blocks
 *	word 1	statistics
 *	word 2	the address of the end
 *
 * The bins of the classes of slabs are an array at the beginning of the cache. The other bins are
 * an array further on. Two words between the arrays hold the addresses of both arrays. A cache is
 * recognized by these two words: both addresses must fit the place where the words lie. */
#include "heap/jemalloc_caches.h"

#include "base/search.h"
#include "heap/image.h"
#include "heap/jemalloc.h"

#define BIN_WORDS    3
#define MAX_BINS     256
#define BEFORE	     0x7a7a7a7a7a7a7a7aULL
#define AFTER	     0xa7a7a7a7a7a7a7a7ULL
#define WINDOW_WORDS 4096	   /* handled in less than a burst (sandbox/gentle.h) */
#define MAX_SEARCHED (4ULL << 30)  /* bytes */
#define SLOTS	     (0x10000 / 8) /* a bin has at most this many slots */
#define TRIES	     4

/* For 5.1 and 5.2. Between the two addresses and the second array are a word, four bytes, and a
 * byte for each class of slabs. */
#define OLD_GAP_5_2 56	      /* bytes from the end of the first array to the two addresses */
#define OLD_GAP_5_1 32	      /* the same, for 5.1 */
#define OLD_BEHIND  28	      /* bytes: the two addresses, the word and the four bytes */
#define OLD_BLOCKS  (1 << 15) /* a bin has at most this many blocks */

struct bin {
	uint64_t first, head, end; /* addresses of the first slot, of the head, and of the end of
				    * the slots */
	bool counted;		   /* the number of slots in word 2 (5.3.1) is right */
};

/* Where a cache is. */
struct place {
	uint64_t at;
	uint64_t large; /* 5.1, 5.2: bytes from `at` to the second array; 0: another version */
};

struct caches {
	struct image *image;
	struct blocks *blocks;
	struct heap_found *found;
	uint64_t searched;
};

/* Reads a bin of 5.1 or 5.2. Such a bin does not tell where its slots begin, so `first` is set to
 * the head. */
static bool read_old_bin(const uint64_t words[BIN_WORDS], struct bin *ret)
{
	uint64_t n = words[0] >> 32;

	*ret = (struct bin){.end = words[2], .head = words[2] - 8 * n};
	ret->first = ret->head;
	return words[2] % 8 == 0 && n < OLD_BLOCKS && words[2] > 8 * n;
}

/* Reads bin number i. False: the words are no bin, or are a bin without slots. */
static bool read_bin(struct caches *c, struct place cache, size_t i, struct bin *ret)
{
	uint64_t at = cache.at + i * BIN_WORDS * 8, words[BIN_WORDS];
	const size_t n_slab = c->found->classes->n_slab;
	uint16_t first, end;

	if (cache.large && i >= n_slab)
		at += cache.large - n_slab * BIN_WORDS * 8;
	if (image__read(c->image, at, words, sizeof(words)))
		return false;
	if (cache.large)
		return read_old_bin(words, ret);
	if (!words[0] || words[0] % 8)
		return false;
	first = (uint16_t)(words[2] >> 16);
	end = (uint16_t)(words[2] >> 32);
	ret->head = words[0];
	ret->first = ret->head - (uint16_t)((uint16_t)ret->head - first);
	ret->end = ret->first + (uint16_t)(end - first);
	ret->counted = words[2] >> 48 == (ret->end - ret->first) / 8;
	return first % 8 == 0 && end % 8 == 0 && ret->head <= ret->end;
}

static bool has_word(struct caches *c, uint64_t addr, uint64_t wanted)
{
	uint64_t word;

	return !image__read(c->image, addr, &word, sizeof(word)) && word == wanted;
}

/* Reads the bins from `at` on. Returns their number; 0: no cache is there. Each cache has bins for
 * all classes of slabs. */
static size_t read_bins(struct caches *c, uint64_t at, struct bin bins[MAX_BINS])
{
	struct block block;
	bool counted = true;
	size_t n = 0;

	while (n < MAX_BINS && read_bin(c, (struct place){at, 0}, n, &bins[n]) &&
	       (!n || bins[n].first == bins[n - 1].end))
		counted = bins[n++].counted && counted;
	if (n < c->found->classes->n_slab || !has_word(c, bins[0].first - 8, BEFORE) ||
	    (!counted && !has_word(c, bins[n - 1].end, AFTER)))
		return 0;
	return blocks__find(c->blocks, bins[0].first, &block) && block.in_use &&
			       block.span->allocator == HEAP_JEMALLOC &&
			       block.start == bins[0].first - 8 &&
			       bins[n - 1].end < block.start + block.size
		       ? n
		       : 0;
}

/* Like read_bins(), for 5.1 and 5.2. */
static size_t read_old_bins(struct caches *c, struct place cache, struct bin bins[MAX_BINS])
{
	size_t n = 0;

	while (n < MAX_BINS && read_bin(c, cache, n, &bins[n]) &&
	       (!n || (bins[n].end > bins[n - 1].end && bins[n].head >= bins[n - 1].end)))
		n++;
	return n < c->found->classes->n_slab ? 0 : n;
}

static void move_count(struct caches *c, const struct block *block)
{
	struct heap_arena *arena = c->found->arenas[block->span->arena];
	enum heap_place from = block->span->kind == SPAN_SLAB ? PLACE_IN_USE : PLACE_LARGE;
	struct heap_count *count = &arena->count[from][heap__size_group(block->size)];

	count->blocks--;
	count->bytes -= block->size;
	heap_arena__count(arena, PLACE_THREAD_CACHE, block->size);
}

/* Marks the block at addr as free, if it is a block in use of this size. */
static void free_block(struct caches *c, uint64_t addr, uint64_t size)
{
	struct block block;

	if (!blocks__find(c->blocks, addr, &block) || block.start != addr || !block.in_use ||
	    block.span->allocator != HEAP_JEMALLOC || block.size != size)
		return;
	move_count(c, &block);
	span__free_fixed(blocks__find_span(c->blocks, addr), addr);
}

/* Reads the filled slots of bin number i. As long as the head stays the same, or moves down, the
 * blocks above the head stay in the bin. *ret_n: how many slots are filled. */
static void read_slots(struct caches *c, struct place cache, size_t i, struct bin bin,
		       uint64_t slots[SLOTS], size_t *ret_n)
{
	*ret_n = 0;
	for (int tries = 0; tries < TRIES; tries++) {
		size_t n = (size_t)(bin.end - bin.head) / 8;
		struct bin after;

		if (n >= SLOTS || (n && image__read(c->image, bin.head, slots, n * 8)) ||
		    !read_bin(c, cache, i, &after) || after.end != bin.end ||
		    (!cache.large && after.first != bin.first))
			return;
		if (after.head <= bin.head) {
			*ret_n = n;
			return;
		}
		bin = after;
	}
}

/* Marks the blocks in the cache as free. Bin number i has the blocks of size class i. */
static void free_cache(struct caches *c, struct place cache, const struct bin *bins, size_t n)
{
	static uint64_t slots[SLOTS];
	struct span *span = blocks__find_span(c->blocks, bins[0].end);

	for (size_t i = 0; i < n; i++) {
		size_t filled;

		read_slots(c, cache, i, bins[i], slots, &filled);
		for (size_t k = 0; k < filled; k++)
			free_block(c, slots[k], jemalloc__size_of(c->found->classes, i));
	}
	if (span && span->kind == SPAN_SINGLE)
		span__own(span);
	c->found->quality[HEAP_JEMALLOC].thread_caches++;
}

/* May the words be two bins of a cache? */
static bool may_be_bins(const uint64_t *words)
{
	uint64_t first = words[2] >> 16 & 0xffff, end = words[2] >> 32 & 0xffff;

	return words[0] && words[0] % 8 == 0 && first != end &&
	       (words[BIN_WORDS + 2] >> 16 & 0xffff) == end;
}

/* May the words at `at` be the two addresses in a cache of 5.1 or 5.2? Sets *ret to the cache. */
static bool may_be_addresses(const struct caches *c, const uint64_t *words, uint64_t at,
			     struct place *ret)
{
	static const uint64_t gaps[] = {OLD_GAP_5_2, OLD_GAP_5_1};
	const uint64_t n_slab = c->found->classes->n_slab;

	for (size_t i = 0; i < sizeof(gaps) / sizeof(*gaps); i++) {
		uint64_t addresses = n_slab * BIN_WORDS * 8 + gaps[i];
		uint64_t large = (addresses + OLD_BEHIND + n_slab + 7) & ~7ULL;

		*ret = (struct place){words[0], large};
		if (words[0] == at - addresses && words[1] == words[0] + large)
			return true;
	}
	return false;
}

/* If there is a cache at `at`, handles it. For 5.1 and 5.2: if the two addresses of a cache are at
 * `at`, handles this cache. words: the 2 * BIN_WORDS words at `at`. */
static void take_cache(struct caches *c, uint64_t at, const uint64_t *words)
{
	struct bin bins[MAX_BINS];
	struct place old;
	size_t n;

	if (may_be_bins(words)) {
		n = read_bins(c, at, bins);
		if (n)
			free_cache(c, (struct place){at, 0}, bins, n);
	} else if (may_be_addresses(c, words, at, &old)) {
		n = read_old_bins(c, old, bins);
		if (n)
			free_cache(c, old, bins, n);
	}
}

/* Searches [at, end), which is resident. */
static void search(struct caches *c, uint64_t at, uint64_t end)
{
	static uint64_t words[WINDOW_WORDS];
	const size_t overlap = 2 * BIN_WORDS - 1;

	while (end - at > overlap * 8 && !image__spent(c->image) && c->searched < MAX_SEARCHED) {
		size_t n = end - at < sizeof(words) ? (size_t)(end - at) / 8 : WINDOW_WORDS;

		if (image__read(c->image, at, words, n * 8))
			return;
		c->searched += n * 8;
		for (size_t i = 0; i + overlap < n; i++)
			take_cache(c, at + 8 * i, &words[i]);
		at += (n - overlap) * 8;
	}
}

/* Searches the parts of [at, end) that are in no span. */
static void search_outside(struct caches *c, uint64_t at, uint64_t end)
{
	size_t n = blocks__n_spans(c->blocks);
	size_t i = SEARCH_FIRST(k, n, blocks__span(c->blocks, k)->end > at);

	for (; i < n && blocks__span(c->blocks, i)->start < end; i++) {
		const struct span *span = blocks__span(c->blocks, i);

		if (span->start > at)
			search(c, at, span->start);
		at = span->end;
	}
	if (at < end)
		search(c, at, end);
}

void jemalloc__free_cached(struct image *image, struct blocks *blocks, struct heap_found *found)
{
	struct caches c = {image, blocks, found, 0};

	for (size_t i = 0; i < image__n_regions(image); i++) {
		const struct image_region *region = image__region(image, i);
		uint64_t at = region->start, end;

		if (region->kind > IMAGE_BSS)
			continue;
		for (; image__run(image, at, region->end, &at, &end); at = end)
			search_outside(&c, at, end);
	}
}
