/* SPDX-License-Identifier: BSD-2-Clause */
/* The made-up memory of a process, for the readers of heaps. A target first lays out a heap that is
 * valid. The input then changes words of the heap: some before the heap is read, and some during
 * the reading. */
#ifndef MEMTRACE_TESTS_FUZZ_HEAP_H
#define MEMTRACE_TESTS_FUZZ_HEAP_H

#include "fuzz.h"

#include "heap/find.h"
#include "heap/shapes.h"
#include "heap/types.h"
#include "heap/image.h"
#include "proc/maps.h"

#define HEAP_MAX_PARTS 8

struct fuzz_heap {
	struct {
		uint64_t start, len;
		unsigned char *bytes;
	} parts[HEAP_MAX_PARTS];
	size_t n_parts, n_words;
	char text[1024];
	struct fuzz_input in;
};

static inline void fuzz_heap__add(struct fuzz_heap *heap, uint64_t start, uint64_t len,
				  const char *tail)
{
	size_t at = strlen(heap->text);

	heap->parts[heap->n_parts].start = start;
	heap->parts[heap->n_parts].len = len;
	heap->parts[heap->n_parts].bytes = calloc(1, len);
	require(heap->parts[heap->n_parts].bytes);
	heap->n_parts++;
	heap->n_words += len / 8;
	snprintf(heap->text + at, sizeof(heap->text) - at, "%llx-%llx %s\n",
		 (unsigned long long)start, (unsigned long long)(start + len), tail);
}

/* Returns the bytes from addr on; ret_len: how many there are in this part. */
static inline unsigned char *fuzz_heap__at(struct fuzz_heap *heap, uint64_t addr, uint64_t *ret_len)
{
	for (size_t i = 0; i < heap->n_parts; i++)
		if (addr - heap->parts[i].start < heap->parts[i].len) {
			*ret_len = heap->parts[i].len - (addr - heap->parts[i].start);
			return heap->parts[i].bytes + (addr - heap->parts[i].start);
		}
	return NULL;
}

static inline void fuzz_heap__put(struct fuzz_heap *heap, uint64_t addr, uint64_t word)
{
	uint64_t len;

	memcpy(fuzz_heap__at(heap, addr, &len), &word, sizeof(word));
}

/* Changes a word as the input says: the word's number, how to change it, and a value. */
static inline void fuzz_heap__change(struct fuzz_heap *heap)
{
	size_t word = fuzz_take(&heap->in, 2) % heap->n_words, part;
	uint64_t how = fuzz_take(&heap->in, 1), value = fuzz_take(&heap->in, 4);

	for (part = 0; word >= heap->parts[part].len / 8; part++)
		word -= heap->parts[part].len / 8;
	if (how & 1)
		value += heap->parts[(how >> 1) % heap->n_parts].start;
	if (how & 0x40)
		value <<= 32;
	memcpy(heap->parts[part].bytes + 8 * word, &value, sizeof(value));
}

static inline long fuzz_heap__read(void *ctx, uint64_t addr, void *to, size_t len)
{
	struct fuzz_heap *heap = ctx;
	size_t done = 0;

	if (heap->in.pos < heap->in.end)
		fuzz_heap__change(heap);
	while (done < len) {
		uint64_t part;
		const unsigned char *from = fuzz_heap__at(heap, addr + done, &part);

		if (!from)
			break;
		if (part > len - done)
			part = len - done;
		memcpy((char *)to + done, from, part);
		done += part;
	}
	return (long)done;
}

static inline int fuzz_heap__pagemap(void *ctx, uint64_t page, uint64_t *entries, size_t n)
{
	(void)ctx;
	for (size_t i = 0; i < n; i++)
		entries[i] = (page + i) % 37 != 5 ? 1ULL << 63 : 0;
	return 0;
}

struct fuzz_heap_sums {
	uint64_t end, in_use, in_use_bytes;
	const struct blocks *blocks;
};

static inline int fuzz_heap__check_block(const struct block *block, void *ctx)
{
	struct fuzz_heap_sums *sums = ctx;
	struct block found;
	uint64_t start;

	require(block->start >= sums->end && block->size);
	require(block->start >= block->span->start);
	require(block->start + block->size <= block->span->end);
	require(block->slot < blocks__n_slots(sums->blocks));
	require(blocks__find(sums->blocks, block->start + block->size - 1, &found));
	require(found.start == block->start && found.in_use == block->in_use);
	require(blocks__find_start(sums->blocks, block->start + block->size - 1, &start));
	require(start == block->start);
	sums->end = block->start + block->size;
	sums->in_use += block->in_use;
	sums->in_use_bytes += block->in_use ? block->size : 0;
	return 0;
}

#define FUZZ_LABELS 8

/* The first blocks in use have a label, as if their stacks were known. */
struct fuzz_heap_labels {
	struct shape_label labels[FUZZ_LABELS];
	size_t n;
};

static inline int fuzz_heap__label(const struct block *block, void *ctx)
{
	struct fuzz_heap_labels *labels = ctx;

	if (block->in_use && labels->n < FUZZ_LABELS)
		labels->labels[labels->n++] = (struct shape_label){block->start, block->size};
	return 0;
}

static inline int fuzz_heap__count(const struct block *block, void *ctx)
{
	if (block->in_use)
		shapes__count(ctx, block, 0);
	return 0;
}

/* Counts the blocks that look like the labelled ones. The counts must not exceed the blocks in
 * use. */
static inline void fuzz_heap__shapes(struct image *image, const struct blocks *blocks,
				     uint64_t in_use)
{
	struct fuzz_heap_labels labels = {};
	struct census census = {};
	struct shapes *shapes;
	uint64_t n = 0;

	blocks__each(blocks, fuzz_heap__label, &labels);
	require(!shapes__new(image, blocks, labels.labels, labels.n, &shapes));
	blocks__each(blocks, fuzz_heap__count, shapes);
	shapes__give(shapes, &census);
	shapes__free(shapes);
	for (size_t i = 0; i < census.n_shapes; i++)
		n += census.shapes[i].count.blocks;
	for (size_t i = 0; i < census.n_rough; i++)
		n += census.rough[i].count.blocks;
	require(n <= in_use && census.n_shapes <= labels.n && census.n_rough <= labels.n);
	for (size_t i = 0; i < labels.n; i++)
		require(census.shape_of[i] < census.n_shapes ||
			census.shape_of[i] == CENSUS_NO_SHAPE);
	census__clear(&census);
}

/* Reads the heap and checks that blocks and counts agree. */
static inline void fuzz_heap__run(struct fuzz_heap *heap)
{
	const struct image_source source = {fuzz_heap__read, fuzz_heap__pagemap, heap};
	const struct image_limits limits = {.read_bytes = 64 << 20};
	struct heap_found found = {};
	struct fuzz_heap_sums sums = {};
	struct blocks *blocks;
	struct image *image;
	struct maps maps;
	struct census_type *types;
	struct types *counting;
	uint64_t n = 0, n_types, untold, unchecked;

	for (size_t i = fuzz_take(&heap->in, 1); i; i--)
		fuzz_heap__change(heap);
	require(!maps__parse(heap->text, strlen(heap->text), &maps, NULL));
	require(!image__new(&maps, &source, &limits, &image) && !blocks__new(&blocks));
	require(!heap__find_blocks(image, blocks, false, &found));
	sums.blocks = blocks;
	blocks__each(blocks, fuzz_heap__check_block, &sums);
	for (size_t i = 0; i < found.n_arenas; i++)
		for (size_t k = 0; k < HEAP_SIZES; k++)
			n += found.arenas[i]->count[PLACE_IN_USE][k].blocks +
			     found.arenas[i]->count[PLACE_LARGE][k].blocks;
	require(!types__new(image, &counting) && !types__count(counting, blocks));
	types__give(counting, &types, &n_types, &untold, &unchecked);
	types__free(counting);
	require(n_types <= TYPES_MAX);
	for (uint64_t i = 1; i < n_types; i++)
		require(types[i - 1].vtable <= types[i].vtable);
	free(types);
	fuzz_heap__shapes(image, blocks, sums.in_use);
	/* n also counts the large blocks that contain the slots of thread caches. sums.in_use does
	 * not, because jemalloc itself uses these blocks. */
	require(found.stopped || found.quality[HEAP_GLIBC].dropped_spans ||
		(n >= sums.in_use &&
		 n <= sums.in_use + found.quality[HEAP_JEMALLOC].thread_caches));
	heap_found__clear(&found);
	blocks__free(blocks);
	image__free(image);
	maps__free(&maps);
	for (size_t i = 0; i < heap->n_parts; i++)
		free(heap->parts[i].bytes);
}

#endif
