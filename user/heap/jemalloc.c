// SPDX-License-Identifier: BSD-2-Clause
/* jemalloc finds the extent (its struct edata) of an address in a radix tree. The tree has two
 * levels, or three if jemalloc was built on a machine with addresses of 57 bits (like Debian 13's
 * jemalloc). The root is an array in jemalloc's bss. To find the root, each word of the bss is
 * tried as the root's entry for a page that is resident. The word is right if it leads to an extent
 * that covers this page and agrees with the leaf. */
#include "heap/jemalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "heap/jemalloc_records.h"

#define GIB_SHIFT    30
#define SAMPLES	     1024      /* at most this many pages of each GiB are samples */
#define STEPS	     64	       /* at most this many pages of each region are samples */
#define MAX_GIBS     64	       /* at most this many GiBs have samples */
#define MAX_TRIES    (1 << 16) /* at most this many tries to find the root: one per word and GiB */
#define MAX_EXTENT   (1ULL << 40)
#define MAX_REGIONS  512 /* a slab has at most this many blocks */
#define WINDOW_WORDS 4096
#define MAX_ARENA    4096

/* An entry of a leaf holds the number of the size class, the address of the extent, and the
 * extent's state and kind. With three levels, an entry has two words, which join_entry() joins into
 * one. */
#define LEAF_SIZE(entry) ((entry) >> 48 & 0xff)
#define LEAF_SLAB(entry) ((entry)&1)

#define RECORD_SLAB(bits) ((bits) >> 12 & 1)
#define STATE_ACTIVE	  0
#define STATE_RETAINED	  3 /* the last state of free extents; larger states are temporary */

/* What differs by version: the alignment of records, the positions of fields in RECORD_BITS, and
 * the tree. */
struct layout {
	uint64_t extent_mask, state_mask;
	int state, szind, n_free;
	/* log2 of the bytes that one entry of the root covers; the same for one leaf */
	int root_shift, leaf_shift;
	int index_bits; /* bits of the index in a node, on each level of the tree */
};

static const struct layout layouts[] = {
	{0x0000ffffffffff80ULL, 7, 17, 20, 28, 30, 30, 18}, /* 5.3 */
	{0x0000ffffffffffc0ULL, 3, 16, 18, 26, 30, 30, 18}, /* 5.1, 5.2 */
	{0x0000ffffffffff80ULL, 7, 17, 20, 28, 42, 27, 15}, /* 5.3, three levels */
};
#define N_LAYOUTS (sizeof(layouts) / sizeof(*layouts))

/* Each layout may come with each of these sets of classes. */
static const struct jemalloc_classes all_classes[] = {{16, 232, 36}, {8, 235, 39}};
#define N_CLASSES (sizeof(all_classes) / sizeof(*all_classes))

/* With three levels: the second word of a leaf's entry. */
#define META_SIZE(word) ((word) >> 5 & 0xff)
#define META_SLAB(word) ((word)&1)

struct extent {
	uint64_t start, end; /* addresses of whole pages */
	uint64_t addr;	     /* address of the first block; a large block need not begin at a
			      * page */
	uint64_t block_size;
	uint64_t words[RECORD_WORDS]; /* the words of the extent's record */
};

struct jemalloc {
	struct image *image;
	struct blocks *blocks;
	struct heap_found *found;
	struct heap_quality *quality;
	const struct layout *layout;
	uint64_t root;
	size_t tries;
	/* The extent of a large block has one page more than the block needs. jemalloc shifts the
	 * block's start within this page. (False: jemalloc was built without this feature.) */
	bool pads;
	bool alone; /* slabs are left out */
	/* Large blocks whose size class is as large as their extent. If `pads` is true, the size
	 * class is too large by a page (5.3.1). `pads` is certain only when all extents have been
	 * seen, so these blocks are added last. */
	struct extent *full;
	size_t n_full;
	uint64_t *records; /* addresses of the records of all extents */
	size_t n_records;
	uint32_t arenas[MAX_ARENA]; /* indexed by jemalloc's number of the arena: 1 + index in
				     * found->arenas */
};

/* The size classes of sc.h: powers of two from 8 on, below the quantum; then the first four
 * multiples of the quantum; then four classes for each doubling. */
uint64_t jemalloc__size_of(const struct jemalloc_classes *classes, uint64_t number)
{
	const uint64_t quantum = classes->quantum, tiny = quantum == 16;
	uint64_t i = number - tiny;

	if (number < tiny)
		return 8;
	if (i < 4)
		return quantum * (i + 1);
	return (4 * quantum << (i - 4) / 4) + ((i - 4) % 4 + 1) * (quantum << (i - 4) / 4);
}

static uint64_t state_of(const struct jemalloc *j, uint64_t bits)
{
	return bits >> j->layout->state & j->layout->state_mask;
}

static uint64_t size_number(const struct jemalloc *j, uint64_t bits)
{
	return bits >> j->layout->szind & 0xff;
}

/* Reads the record of an extent. entry: the entry of a leaf that leads to the extent. Sets all but
 * ret->block_size. False: the entry and the extent do not agree. */
static bool read_record(struct jemalloc *j, uint64_t entry, struct extent *ret)
{
	uint64_t *words = ret->words, at = entry & j->layout->extent_mask, bits, size;

	if (!at || image__peek(j->image, at, words, sizeof(ret->words)))
		return false;
	bits = words[RECORD_BITS];
	size = words[RECORD_SIZE] & ~(HEAP_PAGE - 1);
	if (RECORD_SLAB(bits) != LEAF_SLAB(entry) || state_of(j, bits) > STATE_RETAINED || !size ||
	    size > MAX_EXTENT)
		return false;
	ret->addr = words[RECORD_ADDR];
	ret->start = ret->addr & ~(HEAP_PAGE - 1);
	ret->end = ret->start + size;
	return true;
}

/* Sets ret->block_size of an extent whose record was read. False: with these classes, the entry and
 * the extent do not agree. */
static bool take_size(const struct jemalloc *j, const struct jemalloc_classes *classes,
		      uint64_t entry, struct extent *ret)
{
	uint64_t bits = ret->words[RECORD_BITS], number = size_number(j, bits);
	uint64_t size = ret->end - ret->start;

	if (state_of(j, bits) != STATE_ACTIVE)
		return number == classes->n;
	if (number >= classes->n || number != LEAF_SIZE(entry))
		return false;
	ret->block_size = jemalloc__size_of(classes, number);
	if (ret->block_size <= ret->end - ret->addr)
		return true;
	/* jemalloc 5.3.1 rounds the size of a large block only up to whole pages, but notes the
	 * next larger size class. The extent has one page more than the block, as in older
	 * versions. */
	if (RECORD_SLAB(bits) || ret->block_size > size + size / 4 || size <= HEAP_PAGE)
		return false;
	ret->block_size = size - HEAP_PAGE;
	return true;
}

/* Reads an extent. False: the entry of a leaf and the extent do not agree. */
static bool read_extent(struct jemalloc *j, uint64_t entry, struct extent *ret)
{
	return read_record(j, entry, ret) && take_size(j, j->found->classes, entry, ret);
}

/* Is a slot of a slab free? */
static bool is_free(const struct extent *extent, size_t slot)
{
	return extent->words[RECORD_BITMAP + slot / 64] >> slot % 64 & 1;
}

static uint64_t own_free(const struct jemalloc *j, const struct extent *extent)
{
	return extent->words[RECORD_BITS] >> j->layout->n_free & 0x3ff;
}

/* Returns the size, in bytes, of the fewest whole pages that blocks of this size fill exactly. */
static uint64_t slab_bytes(uint64_t block_size)
{
	uint64_t bytes = block_size;

	while (bytes % HEAP_PAGE)
		bytes *= 2;
	return bytes;
}

/* Does the extent look as it must if jemalloc was built with these classes? This tells the sets of
 * classes apart, because the same number stands for a different block size in each set. The extent
 * of a large block has at most one page more than the block. The option slab_sizes makes slabs of
 * other sizes. Such slabs prove nothing or, rarely, the wrong set (most_evidence()). */
static bool proves(const struct jemalloc *j, const struct jemalloc_classes *classes,
		   const struct extent *extent)
{
	uint64_t bits = extent->words[RECORD_BITS], size = extent->end - extent->start, n_free = 0;
	uint64_t number = size_number(j, bits), block = extent->block_size;

	if (state_of(j, bits) != STATE_ACTIVE)
		return true;
	if (!RECORD_SLAB(bits))
		return number >= classes->n_slab && size <= block + HEAP_PAGE;
	if (number >= classes->n_slab || size != slab_bytes(block) || size / block > MAX_REGIONS)
		return false;
	for (size_t i = 0; i < size / block; i++)
		n_free += is_free(extent, i);
	return n_free == own_free(j, extent);
}

/* --- the tree --- */

static bool is_deep(const struct layout *layout)
{
	return layout->root_shift != layout->leaf_shift;
}

static uint64_t index_of(const struct layout *layout, uint64_t addr, int shift)
{
	return addr >> shift & ((1ULL << layout->index_bits) - 1);
}

static uint64_t root_bytes(const struct layout *layout)
{
	return 8ULL << layout->index_bits;
}

static uint64_t entry_bytes(const struct layout *layout)
{
	return is_deep(layout) ? 16 : 8;
}

/* May jemalloc have mapped the region? A mapping that happens to lie right behind a file's mapping
 * counts as IMAGE_BSS. */
static bool may_be_mapped(const struct image_region *region)
{
	return region->kind == IMAGE_ANON || region->kind == IMAGE_BRK || region->kind == IMAGE_BSS;
}

/* May `word` point to a node? A node is an array in memory that jemalloc mapped for itself. */
static bool may_be_node(struct jemalloc *j, uint64_t word, uint64_t bytes)
{
	const struct image_region *region = word % 64 || !word ? NULL : image__find(j->image, word);

	return region && may_be_mapped(region) && region->end - word >= bytes;
}

/* Returns the address of the leaf for addr. from_root: the root's entry for addr. 0: there is no
 * leaf. */
static uint64_t leaf_for(struct jemalloc *j, uint64_t from_root, uint64_t addr)
{
	const struct layout *layout = j->layout;
	uint64_t leaf = from_root;

	if (is_deep(layout) &&
	    image__peek(j->image, from_root + 8 * index_of(layout, addr, layout->leaf_shift), &leaf,
			sizeof(leaf)))
		return 0;
	return may_be_node(j, leaf, entry_bytes(layout) << layout->index_bits) ? leaf : 0;
}

/* Returns, as one word, the leaf's entry at `at`. */
static uint64_t join_entry(const struct layout *layout, const uint64_t *at)
{
	if (!is_deep(layout))
		return at[0];
	return (at[0] & layout->extent_mask) | META_SIZE(at[1]) << 48 | META_SLAB(at[1]);
}

/* --- the root --- */

/* Samples of resident pages, from each GiB of addresses. */
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

	while (i < samples->n && samples->gibs[i].pages[0] >> GIB_SHIFT != page >> GIB_SHIFT)
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

		if (!may_be_mapped(region))
			continue;
		for (uint64_t at = region->start; at < region->end; at += step)
			if (image__run(image, at, region->end, &page, &end))
				add_sample(samples, page);
	}
}

/* By set of classes: the number of sample pages that fit the set. A page counts twice if its extent
 * proves the set. */
struct evidence {
	size_t of[N_CLASSES];
	size_t against[N_CLASSES]; /* sample pages that are in the tree and cannot be of the set */
};

/* Returns the set of classes with the fewest pages against it; of several such sets, the one with
 * the most evidence. Slabs made with the option slab_sizes may prove a wrong set, but large and
 * free extents never fit a wrong set. */
static size_t most_evidence(const struct evidence *evidence)
{
	const size_t *of = evidence->of, *against = evidence->against;
	size_t most = 0;

	for (size_t k = 1; k < N_CLASSES; k++)
		if (against[k] < against[most] || (against[k] == against[most] && of[k] > of[most]))
			most = k;
	return most;
}

static void add_evidence(const struct jemalloc *j, uint64_t entry, struct extent *extent,
			 struct evidence *evidence)
{
	bool slab = RECORD_SLAB(extent->words[RECORD_BITS]);

	for (size_t k = 0; k < N_CLASSES; k++) {
		bool fits = take_size(j, &all_classes[k], entry, extent);
		bool proven = fits && proves(j, &all_classes[k], extent);

		evidence->of[k] += fits + proven;
		evidence->against[k] += !fits || (!proven && !slab);
	}
}

/* Adds the evidence that the sample pages in one GiB give. from_root: the root's entry for these
 * pages. one: stops at the first page that is in the tree. */
static void add_agreeing(struct jemalloc *j, const struct samples *samples, size_t gib,
			 uint64_t from_root, bool one, struct evidence *evidence)
{
	const struct layout *layout = j->layout;
	uint64_t leaf = 0, part = UINT64_MAX;

	for (size_t i = 0; i < samples->gibs[gib].n; i++) {
		uint64_t page = samples->gibs[gib].pages[i], bytes = entry_bytes(layout), entry[2];
		struct extent extent;

		if (page >> layout->leaf_shift != part) {
			part = page >> layout->leaf_shift;
			leaf = leaf_for(j, from_root, page);
		}
		if (leaf &&
		    !image__peek(j->image, leaf + bytes * index_of(layout, page, 12), entry,
				 bytes) &&
		    read_record(j, join_entry(layout, entry), &extent) && page >= extent.start &&
		    page < extent.end)
			add_evidence(j, join_entry(layout, entry), &extent, evidence);
		if (one && evidence->of[most_evidence(evidence)])
			return;
	}
}

/* Looks for the root in the data of a file, [from, to). */
static void find_root(struct jemalloc *j, const struct samples *samples, uint64_t from, uint64_t to)
{
	static uint64_t words[WINDOW_WORDS];
	const struct layout *layout = j->layout;
	uint64_t at = from, end;

	while (image__run(j->image, at, to, &at, &end)) {
		uint64_t len = end - at < sizeof(words) ? end - at : sizeof(words);

		if (image__spent(j->image) || j->tries > MAX_TRIES)
			return;
		if (image__read(j->image, at, words, (size_t)len))
			len = 0;
		for (uint64_t i = 0; i < len / 8; i++) {
			if (!may_be_node(j, words[i], root_bytes(layout)))
				continue;
			for (size_t gib = 0; gib < samples->n; gib++) {
				uint64_t page = samples->gibs[gib].pages[0];
				uint64_t off = 8 * index_of(layout, page, layout->root_shift);
				uint64_t root = at + 8 * i - off;

				if (at + 8 * i < from + off || to - root < root_bytes(layout))
					continue;
				struct evidence evidence = {};

				j->tries++;
				add_agreeing(j, samples, gib, words[i], true, &evidence);
				if (!evidence.of[most_evidence(&evidence)])
					continue;
				j->root = root;
				return;
			}
		}
		at += len ? len : HEAP_PAGE;
	}
}

/* The root's entry for addr. 0: none. */
static uint64_t from_root(struct jemalloc *j, uint64_t addr)
{
	uint64_t word;

	if (image__peek(j->image, j->root + 8 * index_of(j->layout, addr, j->layout->root_shift),
			&word, sizeof(word)))
		return 0;
	return word;
}

/* The evidence of all sample pages. */
static struct evidence judge(struct jemalloc *j, const struct samples *samples)
{
	struct evidence evidence = {};

	for (size_t gib = 0; j->root && gib < samples->n; gib++) {
		uint64_t word = from_root(j, samples->gibs[gib].pages[0]);

		if (word)
			add_agreeing(j, samples, gib, word, false, &evidence);
	}
	return evidence;
}

/* Does the data at addr belong to jemalloc's own library? The data of this library are searched
 * first. Heap memory right behind another file's data is taken for data, too. The many pointers in
 * such heap memory could use up all tries. */
static bool is_of_jemalloc(const struct jemalloc *j, uint64_t addr)
{
	return strstr(image__find(j->image, addr)->entry->path, "jemalloc");
}

/* Finds the root, the layout and the classes. The layout with the most evidence is the right one: a
 * wrong layout may fit some pages by chance. */
static bool find_tree(struct jemalloc *j, const struct samples *samples)
{
	const struct layout *best = NULL;
	uint64_t from, to, root = 0;
	size_t most = 0;

	for (size_t k = 0; k < N_LAYOUTS; k++) {
		struct evidence evidence;
		size_t n;

		j->layout = &layouts[k];
		j->root = 0;
		j->tries = 0;
		for (int others = 0; others < 2; others++)
			for (size_t i = 0; !j->root && image__data(j->image, &i, &from, &to);)
				if (to - from >= root_bytes(j->layout) &&
				    is_of_jemalloc(j, from) == !others)
					find_root(j, samples, from, to);
		evidence = judge(j, samples);
		n = most_evidence(&evidence);
		if (evidence.of[n] > most) {
			most = evidence.of[n];
			j->found->classes = &all_classes[n];
			best = j->layout;
			root = j->root;
		}
	}
	j->layout = best;
	j->root = root;
	return best;
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

/* Fills in which blocks of a slab are in use. In jemalloc's bitmap the bits of these blocks are
 * 0. */
static void take_slab(struct jemalloc *j, const struct extent *extent, struct span *span,
		      struct heap_arena *arena)
{
	size_t n_free = 0;

	for (size_t i = 0; i < span->n_slots; i++) {
		bool free = is_free(extent, i);

		n_free += free;
		if (!free)
			span->in_use[i / 64] |= 1ULL << i % 64;
		heap_arena__count(arena, free ? PLACE_BIN : PLACE_IN_USE, span->block_size);
	}
	j->quality->slabs++;
	if (n_free != own_free(j, extent))
		j->quality->broken_slabs++;
}

static int add_extent(struct jemalloc *j, const struct extent *extent)
{
	uint64_t bits = extent->words[RECORD_BITS];
	struct span model = {.kind = RECORD_SLAB(bits) ? SPAN_SLAB : SPAN_SINGLE,
			     .allocator = HEAP_JEMALLOC,
			     .start = extent->start,
			     .end = extent->end,
			     .first = extent->addr,
			     .block_size = extent->block_size};
	struct heap_arena *arena = arena_of(j, RECORD_ARENA(bits), &model.arena);
	struct span *span;
	int err;

	if (!arena)
		return -ENOMEM;
	if (state_of(j, bits) != STATE_ACTIVE) {
		heap_arena__count(arena, PLACE_TOP, extent->end - extent->start);
		model.kind = SPAN_FREE;
		err = blocks__add(j->blocks, &model, &span);
		return err == -EINVAL ? 0 : err;
	}
	j->quality->found_bytes += extent->end - extent->start;
	if (RECORD_SLAB(bits)) {
		model.n_slots = (size_t)((extent->end - extent->start) / extent->block_size);
		if (model.n_slots > MAX_REGIONS || extent->addr != extent->start)
			return 0;
	}
	err = blocks__add(j->blocks, &model, &span);
	if (err)
		return err == -EINVAL ? 0 : err;
	if (RECORD_SLAB(bits))
		take_slab(j, extent, span, arena);
	else
		heap_arena__count(arena, PLACE_LARGE, extent->block_size);
	return 0;
}

/* Does the extent hold a large block with a size class as large as the extent? */
static bool is_full(const struct jemalloc *j, const struct extent *extent)
{
	uint64_t bits = extent->words[RECORD_BITS];

	return state_of(j, bits) == STATE_ACTIVE && !RECORD_SLAB(bits) &&
	       extent->addr == extent->start && extent->block_size == extent->end - extent->start;
}

static int keep_record(struct jemalloc *j, uint64_t at)
{
	if (VECTOR_ADD_ROOM(j->records, j->n_records))
		return -ENOMEM;
	j->records[j->n_records++] = at;
	return 0;
}

static int keep_full(struct jemalloc *j, const struct extent *extent)
{
	if (VECTOR_ADD_ROOM(j->full, j->n_full))
		return -ENOMEM;
	j->full[j->n_full++] = *extent;
	return 0;
}

static int add_full(struct jemalloc *j)
{
	int err = 0;

	for (size_t i = 0; i < j->n_full && !err; i++) {
		if (j->pads)
			j->full[i].block_size -= HEAP_PAGE;
		err = add_extent(j, &j->full[i]);
	}
	return err;
}

/* Adds the extents whose first page is in [start, end). One leaf covers this range. */
static int add_extents(struct jemalloc *j, uint64_t start, uint64_t end)
{
	static uint64_t words[512];
	uint64_t bytes = entry_bytes(j->layout), last = 0, word = from_root(j, start);
	uint64_t leaf = word ? leaf_for(j, word, start) : 0;

	if (!leaf)
		return 0;
	for (uint64_t page = start, n; page < end; page += n * HEAP_PAGE) {
		/* one read gets all entries that lie on one page of the leaf */
		uint64_t addr = leaf + bytes * index_of(j->layout, page, 12);

		n = (HEAP_PAGE - addr % HEAP_PAGE) / bytes;
		if (n > (end - page) / HEAP_PAGE)
			n = (end - page) / HEAP_PAGE;
		if (image__spent(j->image))
			return 0;
		if (image__read(j->image, addr, words, (size_t)(n * bytes)))
			continue;
		for (uint64_t i = 0; i < n; i++) {
			uint64_t entry = join_entry(j->layout, &words[i * bytes / 8]);
			uint64_t at = entry & j->layout->extent_mask;
			struct extent extent;
			int err;

			if (!at || at == last || (j->alone && LEAF_SLAB(entry)))
				continue;
			last = at;
			if (!read_extent(j, entry, &extent) || extent.start != page + i * HEAP_PAGE)
				continue;
			j->pads |= extent.addr != extent.start;
			err = keep_record(j, at);
			if (!err)
				err = is_full(j, &extent) ? keep_full(j, &extent)
							  : add_extent(j, &extent);
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

		if (!may_be_mapped(region))
			continue;
		for (uint64_t at = region->start; at < region->end && !err; at = end) {
			end = ((at >> j->layout->leaf_shift) + 1) << j->layout->leaf_shift;
			if (end > region->end)
				end = region->end;
			err = add_extents(j, at, end);
		}
	}
	return err;
}

int jemalloc__find(struct image *image, struct blocks *blocks, bool alone, struct heap_found *found)
{
	_cleanup_free_ struct samples *samples = calloc(1, sizeof(*samples));
	_cleanup_free_ struct jemalloc *j = calloc(1, sizeof(*j));
	int err;

	if (!samples || !j)
		return -ENOMEM;
	*j = (struct jemalloc){
		.image = image,
		.blocks = blocks,
		.found = found,
		.quality = &found->quality[HEAP_JEMALLOC],
		.alone = alone,
	};
	image__forget(image);
	take_samples(image, samples);
	err = find_tree(j, samples) ? add_all(j) : 0;
	if (!err)
		err = add_full(j);
	if (!err && j->n_records && !alone)
		err = jemalloc__add_records(image, j->records, j->n_records, j->layout->szind,
					    found);
	free(j->full);
	free(j->records);
	return err;
}
