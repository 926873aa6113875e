// SPDX-License-Identifier: BSD-2-Clause
/* Blocks that have a mapping of their own. The kernel merges neighbouring mappings, so a header may
 * lie on any page. Only the two words of its header show that a block is there, and other words may
 * look like a header. But glibc counts the bytes of such blocks. So `own_large` and `found_large`
 * of struct heap_quality show whether the result is right. */
#include "heap/glibc_internal.h"

#include <errno.h>

/* memalign() moves the chunk to just before an address that is a multiple of the alignment, and
 * leaves the first header where it was. */
#define MIN_ALIGN_LOG 5
#define MAX_ALIGN_LOG 40

/* glibc 2.43 leaves room for a header behind the chunk, and has a flag for huge pages in the first
 * word of the header. */
#define MMAP_TAIL 16ULL
#define MMAP_HUGE 1ULL

/* If addr is in the memory of an arena, returns where this memory ends. 0: it is in none. */
static uint64_t arena_end(const struct glibc *g, uint64_t addr)
{
	for (size_t i = 0; i < g->n_ranges; i++)
		if (addr >= g->ranges[i].start && addr < g->ranges[i].end)
			return g->ranges[i].end;
	return 0;
}

/* A chunk, and where its mapping ends. */
struct mapped {
	uint64_t addr, usable, end;
};

/* Is there a chunk at addr whose mapping begins at `start` and ends at or before `limit`? */
static bool read_chunk(struct glibc *g, uint64_t addr, uint64_t start, uint64_t limit,
		       struct mapped *ret)
{
	uint64_t header[2], size, tail;

	if (image__peek(g->image, addr, header, sizeof(header)) ||
	    (header[1] & CHUNK_FLAGS) != CHUNK_MMAPPED)
		return false;
	size = header[1] & ~CHUNK_FLAGS;
	if ((header[0] & ~MMAP_HUGE) != addr - start || size > limit - addr || size < CHUNK_MIN)
		return false;
	tail = (addr + size) % HEAP_PAGE ? MMAP_TAIL : 0;
	if ((addr + size + tail) % HEAP_PAGE || size + tail > limit - addr)
		return false;
	*ret = (struct mapped){addr, size - (tail ? 8 : CHUNK_USER), addr + size + tail};
	return true;
}

static int add_chunk(struct glibc *g, const struct mapped *chunk, uint64_t start)
{
	const struct span model = {.kind = SPAN_SINGLE,
				   .allocator = HEAP_GLIBC,
				   .start = start,
				   .end = chunk->end,
				   .first = chunk->addr + CHUNK_USER,
				   .block_size = chunk->usable};
	struct span *span;
	int err = blocks__add(g->blocks, &model, &span);

	if (err)
		return err == -EINVAL ? 0 : err;
	heap_arena__count(g->arenas[0].count, PLACE_LARGE, model.block_size);
	g->quality->found_large += chunk->end - start;
	return 0;
}

/* Finds the chunk of a mapping that begins at `start` and ends at or before `limit`. */
static bool find_chunk(struct glibc *g, uint64_t start, uint64_t limit, struct mapped *ret)
{
	struct mapped moved;

	if (!read_chunk(g, start, start, limit, ret))
		return false;
	for (int log = MIN_ALIGN_LOG; log <= MAX_ALIGN_LOG; log++) {
		uint64_t align = 1ULL << log;
		uint64_t addr = (start / align + 1) * align - CHUNK_USER;

		if (addr - start >= CHUNK_MIN && addr < ret->end &&
		    read_chunk(g, addr, start, ret->end, &moved) && moved.end == ret->end) {
			*ret = moved;
			break;
		}
	}
	return true;
}

/* Looks for chunks that begin in the run of pages [page, run_end). *ret_next: where to continue. */
static int search_run(struct glibc *g, uint64_t page, uint64_t run_end, uint64_t limit,
		      uint64_t *ret_next)
{
	int err = 0;

	while (!err && page < run_end && !image__spent(g->image)) {
		uint64_t taken = arena_end(g, page);
		struct mapped chunk;

		if (taken) {
			page = taken;
		} else if (find_chunk(g, page, limit, &chunk)) {
			err = add_chunk(g, &chunk, page);
			page = chunk.end;
		} else {
			page += HEAP_PAGE;
		}
	}
	*ret_next = page;
	return err;
}

static int search(struct glibc *g, const struct image_region *region)
{
	uint64_t page = region->start, run_end;
	int err = 0;

	while (!err && image__run(g->image, page, region->end, &page, &run_end))
		err = search_run(g, page, run_end, region->end, &page);
	return err;
}

int glibc__find_mmapped(struct glibc *g)
{
	int err = 0;

	if (!g->n_arenas || (g->has_params && !g->n_mmapped))
		return 0;
	image__forget(g->image);
	g->quality->own_large += g->mmapped_bytes;
	for (size_t i = 0; i < image__n_regions(g->image) && !err; i++) {
		const struct image_region *region = image__region(g->image, i);

		if (region->kind == IMAGE_ANON || region->kind == IMAGE_BSS)
			err = search(g, region);
	}
	return err;
}
