// SPDX-License-Identifier: BSD-2-Clause
/* Finds the reachable blocks of a heap. The input sets the pointers in the heap. Marking with
 * parents and without must agree, leaks must add up, and paths must lead from a root to their
 * block. Then the same is done while the memory changes during the reading. In this case the code
 * only has to come to an end. */
#include "heap.h"

#include "heap/lost.h"
#include "heap/paths.h"
#include "heap/reach.h"
#include "heap/recheck.h"

#define DATA	   0x400000ULL
#define HEAP	   0x500000ULL
#define HEAP_BYTES 0x30000ULL

static struct blocks *make_blocks(struct fuzz_input *in)
{
	const struct span model = {.kind = SPAN_WALKED, .start = HEAP, .end = HEAP + HEAP_BYTES};
	struct blocks *blocks;
	struct span *span;
	size_t dropped[HEAP_ALLOCATORS];

	require(!blocks__new(&blocks) && !blocks__add(blocks, &model, &span));
	for (uint64_t at = HEAP; at + 32 < HEAP + HEAP_BYTES;) {
		uint64_t how = fuzz_take(in, 1);

		span__add_block(span, at, how & 3);
		at += how & 4 ? 0x1400 : 32 + (how >> 3) * 16;
	}
	require(!blocks__finish(blocks, dropped));
	return blocks;
}

static void check_leaks(const struct reach *reach, struct image *image)
{
	struct lost lost, same;
	struct leak *leaks;
	size_t n;
	uint64_t blocks = 0, bytes = 0, all = 0;

	require(!lost__list(reach, image, NULL, 100000, &lost));
	require(lost.n == reach->numbers.n - reach->n_marked);
	require(!lost__list(reach, image, &lost, 100000, &same) && same.n <= lost.n);
	require(!lost__leaks(&reach->numbers, &reach->edges, &lost, &leaks, &n));
	for (size_t i = 0; i < n; i++) {
		blocks += leaks[i].blocks;
		bytes += leaks[i].bytes;
		require(leaks[i].blocks && (!i || leaks[i].head.addr > leaks[i - 1].head.addr));
	}
	for (size_t i = 0; i < lost.n; i++)
		all += lost.list[i].size;
	require(blocks == lost.n && bytes == all);
	free(leaks);
	free(lost.list);
	free(same.list);
}

static void check_paths(const struct reach *reach, struct image *image)
{
	uint64_t hops = 1 << 20;

	for (uint32_t i = 0; i < reach->numbers.n; i++) {
		struct path path;
		struct block block;

		require(numbers__block(&reach->numbers, i, &block));
		require(numbers__find(&reach->numbers, block.start) == i);
		require(reach__has(reach, i) == (reach->parents[i] != PARENT_NONE));
		if (!reach__has(reach, i) || reach__path(reach, image, i, &hops, &path))
			continue;
		require(path.n_steps && path.n_steps <= PATH_STEPS);
		require(path.steps[path.n_steps - 1].size == block.size);
		require(path.root.addr >= DATA && path.root.addr < HEAP);
	}
}

/* If the heap has not changed, a recheck must find the same lost blocks again. If the heap has
 * changed, a recheck must find no further lost blocks. Each lost block must belong to one leak. */
static void check_again(struct image *image, const struct blocks *blocks, const struct roots *roots,
			const struct reach *reach, bool still)
{
	struct recheck first, second;
	struct leak *leaks;
	struct lost lost;
	size_t n;
	uint64_t n_blocks = 0;

	require(!lost__list(reach, image, NULL, 100000, &lost));
	if (!recheck__scan(image, blocks, roots, &lost, NULL, false, &first)) {
		require(first.lost.n <= lost.n && (!still || first.lost.n == lost.n));
		if (!recheck__scan(image, blocks, roots, &first.lost, &first.stale, true,
				   &second)) {
			require(second.lost.n <= first.lost.n);
			require(!still || second.lost.n == lost.n);
			require(!lost__leaks(&second.numbers, &second.edges, &second.lost, &leaks,
					     &n));
			for (size_t i = 0; i < n; i++)
				n_blocks += leaks[i].blocks;
			require(n_blocks == second.lost.n);
			free(leaks);
			recheck__clear(&second);
		}
		recheck__clear(&first);
	}
	free(lost.list);
}

/* Lists lost blocks, and some blocks that are not lost. */
static struct lost list_too_many(struct image *image, const struct reach *reach)
{
	struct lost lost = {.list = calloc((size_t)reach->numbers.n + 1, sizeof(*lost.list))};
	struct block block;

	require(lost.list);
	for (uint32_t i = 0; i < reach->numbers.n; i++) {
		if (reach__has(reach, i) && i % 3 != 1)
			continue;
		require(numbers__block(&reach->numbers, i, &block));
		lost.list[lost.n++] = (struct lost_block){.addr = block.start,
							  .size = block.size,
							  .content = lost__hash(image, &block)};
	}
	return lost;
}

/* Two rechecks must remove from the list all blocks to which a root leads, and no other blocks.
 * (What looks like a link of glibc counts only if both rechecks find it at the same place.) */
static void check_taken_off(struct image *image, const struct blocks *blocks,
			    const struct roots *roots, const struct reach *reach)
{
	struct lost lost = list_too_many(image, reach);
	struct recheck first, found;

	if (recheck__scan(image, blocks, roots, &lost, NULL, false, &first)) {
		free(lost.list);
		return;
	}
	if (!recheck__scan(image, blocks, roots, &first.lost, &first.stale, false, &found)) {
		require(found.lost.n == reach->numbers.n - reach->n_marked);
		for (size_t i = 0; i < found.lost.n; i++)
			require(!reach__has(
				reach, numbers__find(&reach->numbers, found.lost.list[i].addr)));
		recheck__clear(&found);
	}
	recheck__clear(&first);
	free(lost.list);
}

static void look(struct image *image, const struct blocks *blocks, const struct roots *roots,
		 bool still)
{
	struct reach alone, with;

	if (reach__scan(image, blocks, roots, NULL, false, &alone))
		return;
	check_leaks(&alone, image);
	check_again(image, blocks, roots, &alone, still);
	if (still)
		check_taken_off(image, blocks, roots, &alone);
	if (!reach__scan(image, blocks, roots, NULL, true, &with)) {
		require(with.numbers.n == alone.numbers.n);
		require(!still || with.n_marked == alone.n_marked);
		for (uint32_t i = 0; still && i < with.numbers.n; i++)
			require(reach__has(&alone, i) == reach__has(&with, i));
		check_leaks(&with, image);
		check_paths(&with, image);
		reach__clear(&with);
	}
	reach__clear(&alone);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_heap heap = {.in = {data, data + size}};
	const struct image_source source = {fuzz_heap__read, fuzz_heap__pagemap, &heap};
	const struct image_limits limits = {.read_bytes = 64 << 20};
	const struct root_range own = {HEAP, HEAP + HEAP_BYTES};
	struct root_threads threads = {};
	struct fuzz_input later;
	struct blocks *blocks;
	struct image *image;
	struct roots roots;
	struct maps maps;

	fuzz_heap__add(&heap, DATA, 0x1000, "rw-p 00001000 08:01 77 /bin/program");
	fuzz_heap__add(&heap, HEAP, HEAP_BYTES, "rw-p 00000000 00:00 0 [heap]");
	blocks = make_blocks(&heap.in);
	for (size_t i = fuzz_take(&heap.in, 2) % 4096; i && heap.in.pos < heap.in.end; i--)
		fuzz_heap__change(&heap);
	require(!maps__parse(heap.text, strlen(heap.text), &maps, NULL));
	require(!image__new(&maps, &source, &limits, &image));
	require(!roots__find(&maps, &threads, &own, 1, &roots));
	later = heap.in;
	heap.in.pos = heap.in.end; /* nothing changes */
	look(image, blocks, &roots, true);
	heap.in = later;
	image__forget(image);
	look(image, blocks, &roots, false);
	roots__clear(&roots);
	image__free(image);
	blocks__free(blocks);
	maps__free(&maps);
	for (size_t i = 0; i < heap.n_parts; i++)
		free(heap.parts[i].bytes);
	return 0;
}
