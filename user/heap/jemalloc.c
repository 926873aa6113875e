// SPDX-License-Identifier: BSD-2-Clause
/* jemalloc finds the extent (its struct edata) of an address in a radix tree of two levels. The
 * root is an array in jemalloc's bss. It is found by hypothesis: a word of the bss is taken for the
 * root's entry of a page that is known to be memory, and is right if the way from there leads to an
 * extent that covers this page and says the same as the leaf. */
#include "heap/jemalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define ROOT_SHIFT   30
#define ROOT_ENTRIES (1ULL << 18)
#define ROOT_BYTES   (ROOT_ENTRIES * 8)
#define LEAF_ENTRIES (1ULL << 18)
#define SAMPLES	     1024      /* pages of each GiB that the root is tried with, at most */
#define STEPS	     64	       /* of each region */
#define MAX_GIBS     64	       /* that it is tried with */
#define MAX_TRIES    (1 << 16) /* words, times GiBs */
#define MAX_EXTENT   (1ULL << 40)
#define MAX_REGIONS  512 /* blocks of a slab */
#define WINDOW_WORDS 4096
#define N_SIZES	     232
#define MAX_ARENA    4096

/* A leaf's entry: the size's number, the extent, its state and kind. */
#define LEAF_SIZE(entry)   ((entry) >> 48 & 0xff)
#define LEAF_EXTENT(entry) ((entry)&0x0000ffffffffff80ULL)
#define LEAF_SLAB(entry)   ((entry)&1)

/* struct edata_s. */
enum { EDATA_BITS, EDATA_ADDR, EDATA_SIZE, EDATA_BITMAP = 8, EDATA_WORDS = 16 };
#define EDATA_ARENA(bits)  ((uint32_t)((bits)&0xfff))
#define EDATA_SLAB(bits)   ((bits) >> 12 & 1)
#define EDATA_STATE(bits)  ((bits) >> 17 & 7)
#define EDATA_SZIND(bits)  ((bits) >> 20 & 0xff)
#define EDATA_N_FREE(bits) ((bits) >> 28 & 0x3ff)
#define STATE_ACTIVE	   0
#define STATE_RETAINED	   3 /* the last of those that are free; above: between states */

struct extent {
	uint64_t start, end; /* pages */
	uint64_t addr;	     /* of the first block: large ones do not begin at a page */
	uint64_t block_size;
	uint64_t words[EDATA_WORDS];
};

struct jemalloc {
	struct image *image;
	struct blocks *blocks;
	struct heap_found *found;
	struct heap_quality *quality;
	uint64_t root;
	size_t tries;
	uint32_t arenas[MAX_ARENA]; /* by jemalloc's number: 1 + index in found->arenas */
};

/* Size classes (sc.h): 8; 16 to 64 by 16; then four for each doubling. */
static uint64_t size_of(uint64_t number)
{
	uint64_t i = number - 1;

	if (!number)
		return 8;
	if (i < 4)
		return 16 * (i + 1);
	return (64ULL << (i - 4) / 4) + ((i - 4) % 4 + 1) * (16ULL << (i - 4) / 4);
}

/* The extent that the leaf's entry leads to, if both agree. */
static bool read_extent(struct jemalloc *j, uint64_t entry, struct extent *ret)
{
	uint64_t *words = ret->words, bits, size;

	if (!LEAF_EXTENT(entry) ||
	    image__peek(j->image, LEAF_EXTENT(entry), words, sizeof(ret->words)))
		return false;
	bits = words[EDATA_BITS];
	size = words[EDATA_SIZE] & ~(HEAP_PAGE - 1);
	if (EDATA_SLAB(bits) != LEAF_SLAB(entry) || EDATA_STATE(bits) > STATE_RETAINED || !size ||
	    size > MAX_EXTENT)
		return false;
	ret->addr = words[EDATA_ADDR];
	ret->start = ret->addr & ~(HEAP_PAGE - 1);
	ret->end = ret->start + size;
	if (EDATA_STATE(bits) != STATE_ACTIVE)
		return true;
	if (EDATA_SZIND(bits) >= N_SIZES || EDATA_SZIND(bits) != LEAF_SIZE(entry))
		return false;
	ret->block_size = size_of(EDATA_SZIND(bits));
	return ret->block_size <= ret->end - ret->addr;
}

static uint64_t leaf_of(uint64_t addr)
{
	return addr >> ROOT_SHIFT & (ROOT_ENTRIES - 1);
}

static uint64_t entry_of(uint64_t addr)
{
	return addr / HEAP_PAGE & (LEAF_ENTRIES - 1);
}

/* --- the root --- */

/* Pages that are memory, some of each GiB of addresses. */
struct samples {
	struct {
		uint64_t pages[SAMPLES];
		size_t n;
	} gibs[MAX_GIBS];
	size_t n;
};

static void add_sample(struct samples *samples, uint64_t page)
{
	size_t i = 0;

	while (i < samples->n && leaf_of(samples->gibs[i].pages[0]) != leaf_of(page))
		i++;
	if (i == MAX_GIBS || (i < samples->n && samples->gibs[i].n == SAMPLES))
		return;
	if (i == samples->n)
		samples->n++;
	else if (samples->gibs[i].pages[samples->gibs[i].n - 1] == page)
		return;
	samples->gibs[i].pages[samples->gibs[i].n++] = page;
}

static void take_samples(struct image *image, struct samples *samples)
{
	for (size_t i = 0; i < image__n_regions(image); i++) {
		struct image_region *region = image__region(image, i);
		uint64_t pages = (region->end - region->start) / HEAP_PAGE;
		uint64_t step = (pages / STEPS + 1) * HEAP_PAGE;
		uint64_t page, end;

		if (region->kind != IMAGE_ANON && region->kind != IMAGE_BRK)
			continue;
		for (uint64_t at = region->start; at < region->end; at += step)
			if (image__run(image, at, region->end, &page, &end))
				add_sample(samples, page);
	}
}

/* Is leaf the one of a GiB, as its pages tell? */
static bool is_leaf(struct jemalloc *j, const struct samples *samples, size_t gib, uint64_t leaf)
{
	for (size_t i = 0; i < samples->gibs[gib].n; i++) {
		uint64_t page = samples->gibs[gib].pages[i], entry;
		struct extent extent;

		if (!image__peek(j->image, leaf + 8 * entry_of(page), &entry, sizeof(entry)) &&
		    read_extent(j, entry, &extent) && page >= extent.start && page < extent.end)
			return true;
	}
	return false;
}

/* A leaf is one array in memory that jemalloc mapped for itself. */
static bool may_be_leaf(struct jemalloc *j, uint64_t word)
{
	const struct image_region *region = word % 64 ? NULL : image__find(j->image, word);

	return region && (region->kind == IMAGE_ANON || region->kind == IMAGE_BRK) &&
	       region->end - word >= LEAF_ENTRIES * 8;
}

/* Looks for the root in the data of a file, [from, to). */
static bool find_root(struct jemalloc *j, const struct samples *samples, uint64_t from, uint64_t to)
{
	static uint64_t words[WINDOW_WORDS];
	uint64_t at = from, end;

	while (image__run(j->image, at, to, &at, &end)) {
		uint64_t len = end - at < sizeof(words) ? end - at : sizeof(words);

		if (image__spent(j->image) || j->tries > MAX_TRIES)
			return false;
		if (image__read(j->image, at, words, (size_t)len))
			len = 0;
		for (uint64_t i = 0; i < len / 8; i++) {
			if (!words[i] || !may_be_leaf(j, words[i]))
				continue;
			for (size_t gib = 0; gib < samples->n; gib++) {
				uint64_t off = 8 * leaf_of(samples->gibs[gib].pages[0]);
				uint64_t root = at + 8 * i - off;

				if (at + 8 * i < from + off || to - root < ROOT_BYTES)
					continue;
				j->tries++;
				if (!is_leaf(j, samples, gib, words[i]))
					continue;
				j->root = root;
				return true;
			}
		}
		at += len ? len : HEAP_PAGE;
	}
	return false;
}

static bool find_tree(struct jemalloc *j, const struct samples *samples)
{
	uint64_t from, to;

	for (size_t i = 0; image__data(j->image, &i, &from, &to);)
		if (to - from >= ROOT_BYTES && find_root(j, samples, from, to))
			return true;
	return false;
}

/* --- extents --- */

static struct heap_arena *arena_of(struct jemalloc *j, uint32_t number, uint32_t *ret_index)
{
	if (!j->arenas[number]) {
		if (!heap_found__add_arena(j->found, HEAP_JEMALLOC, number))
			return NULL;
		j->arenas[number] = (uint32_t)j->found->n_arenas;
	}
	*ret_index = j->arenas[number] - 1;
	return j->found->arenas[*ret_index];
}

/* Fills in which blocks of a slab are in use. In jemalloc's bitmap those are 0. */
static void take_slab(struct jemalloc *j, const struct extent *extent, struct span *span,
		      struct heap_arena *arena)
{
	size_t n_free = 0;

	for (size_t i = 0; i < span->n_slots; i++) {
		bool is_free = extent->words[EDATA_BITMAP + i / 64] >> i % 64 & 1;

		n_free += is_free;
		if (!is_free)
			span->in_use[i / 64] |= 1ULL << i % 64;
		heap_arena__count(arena, is_free ? PLACE_BIN : PLACE_IN_USE, span->block_size);
	}
	if (n_free != EDATA_N_FREE(extent->words[EDATA_BITS]))
		j->quality->broken_slabs++;
}

static int add_extent(struct jemalloc *j, const struct extent *extent)
{
	uint64_t bits = extent->words[EDATA_BITS];
	struct span model = {.kind = EDATA_SLAB(bits) ? SPAN_SLAB : SPAN_SINGLE,
			     .allocator = HEAP_JEMALLOC,
			     .start = extent->start,
			     .end = extent->end,
			     .first = extent->addr,
			     .block_size = extent->block_size};
	struct heap_arena *arena = arena_of(j, EDATA_ARENA(bits), &model.arena);
	struct span *span;
	int err;

	if (!arena)
		return -ENOMEM;
	if (EDATA_STATE(bits) != STATE_ACTIVE) {
		heap_arena__count(arena, PLACE_TOP, extent->end - extent->start);
		model.kind = SPAN_FREE;
		err = blocks__add(j->blocks, &model, &span);
		return err == -EINVAL ? 0 : err;
	}
	j->quality->found_bytes += extent->end - extent->start;
	if (EDATA_SLAB(bits)) {
		model.n_slots = (size_t)((extent->end - extent->start) / extent->block_size);
		if (model.n_slots > MAX_REGIONS || extent->addr != extent->start)
			return 0;
	}
	err = blocks__add(j->blocks, &model, &span);
	if (err)
		return err == -EINVAL ? 0 : err;
	if (EDATA_SLAB(bits))
		take_slab(j, extent, span, arena);
	else
		heap_arena__count(arena, PLACE_LARGE, extent->block_size);
	return 0;
}

/* The extents whose first page is in [start, end), of one GiB. */
static int add_extents(struct jemalloc *j, uint64_t start, uint64_t end)
{
	static uint64_t entries[512];
	uint64_t leaf, last = 0;

	if (image__peek(j->image, j->root + 8 * leaf_of(start), &leaf, sizeof(leaf)) || !leaf)
		return 0;
	for (uint64_t page = start, n; page < end; page += n * HEAP_PAGE) {
		/* as many entries as lie on one page of the leaf */
		uint64_t addr = leaf + 8 * entry_of(page);

		n = (HEAP_PAGE - addr % HEAP_PAGE + 7) / 8;
		if (n > (end - page) / HEAP_PAGE)
			n = (end - page) / HEAP_PAGE;
		if (image__spent(j->image))
			return 0;
		if (image__read(j->image, addr, entries, (size_t)n * 8))
			continue;
		for (uint64_t i = 0; i < n; i++) {
			struct extent extent;
			int err;

			if (!entries[i] || LEAF_EXTENT(entries[i]) == last)
				continue;
			last = LEAF_EXTENT(entries[i]);
			if (!read_extent(j, entries[i], &extent) ||
			    extent.start != page + i * HEAP_PAGE)
				continue;
			err = add_extent(j, &extent);
			if (err)
				return err;
		}
	}
	return 0;
}

static int add_all(struct jemalloc *j)
{
	int err = 0;

	for (size_t i = 0; i < image__n_regions(j->image); i++) {
		const struct image_region *region = image__region(j->image, i);
		uint64_t end;

		if (region->kind != IMAGE_ANON && region->kind != IMAGE_BRK)
			continue;
		for (uint64_t at = region->start; at < region->end && !err; at = end) {
			end = (leaf_of(at) + 1) << ROOT_SHIFT;
			if (end > region->end)
				end = region->end;
			err = add_extents(j, at, end);
		}
	}
	return err;
}

int jemalloc__find(struct image *image, struct blocks *blocks, struct heap_found *found)
{
	_cleanup_free_ struct samples *samples = calloc(1, sizeof(*samples));
	_cleanup_free_ struct jemalloc *j = calloc(1, sizeof(*j));

	if (!samples || !j)
		return -ENOMEM;
	*j = (struct jemalloc){
		.image = image,
		.blocks = blocks,
		.found = found,
		.quality = &found->quality[HEAP_JEMALLOC],
	};
	image__forget(image);
	take_samples(image, samples);
	return find_tree(j, samples) ? add_all(j) : 0;
}
