// SPDX-License-Identifier: BSD-2-Clause
/* Finds the arenas. The main arena is in the writable data of the C library (or of a static
 * program). It is recognized by its 127 bins: each is a list head, and the heads of empty lists
 * point to themselves. The other arenas are linked with the main arena in a ring, and each is at
 * the start of a heap that was mapped for it. */
#include "heap/glibc_internal.h"

#include <errno.h>

#include "base/vector.h"

#define WINDOW	      (256u << 10)
#define MIN_EMPTY     4	   /* a main arena has at least this many empty bins; most have dozens */
#define MAX_ARENAS    4096 /* glibc makes at most eight for each CPU */
#define MAX_HEAPS     (1 << 16)
#define HEAP_MAX_SIZE (64ULL << 20) /* largest size, and alignment, of heaps without huge pages */

/* Offsets in struct heap_info. Its size is 32 bytes up to glibc 2.34, and 48 bytes later. */
enum { HEAP_ARENA = 0, HEAP_PREV = 8, HEAP_SIZE = 16, HEAP_BYTES = 24 };

/* Offsets in struct malloc_par, counted from its member n_mmaps. The fields before n_mmaps differ
 * by version. From glibc 2.35 on, n_mmaps is the second half of a word, so the fields from
 * PARAMS_MMAPPED on lie 4 bytes farther from it. */
enum {
	PARAMS_MMAPS_MAX = 4,
	PARAMS_MAX_N_MMAPS = 8,
	PARAMS_MMAPPED = 16, /* from 2.35 on, this offset and the offsets below are larger by 4 */
	PARAMS_MAX_MMAPPED = 24,
	PARAMS_SBRK_BASE = 32,
	PARAMS_TCACHE_BINS = 40,
	PARAMS_TCACHE_MAX = 48,
	PARAMS_BYTES = 60,
};
#define MAX_TCACHE_MAX	  ((4u << 20) + 1)
#define DEFAULT_MMAPS_MAX 65536

/* May `next` and `top` of an arena be addresses? Does not search the maps for the top, because the
 * top may lie in memory that was mapped after the maps were read. */
static bool has_sound_links(const unsigned char *bytes)
{
	uint64_t next = glibc__word(bytes + TOP_NEXT), top = glibc__word(bytes);

	return next && next % 8 == 0 && top && top % CHUNK_ALIGN == 0;
}

/* Do the bytes look like the part of a main arena that begins with its member `top`? addr: their
 * address. */
static bool is_main_arena(uint64_t addr, const unsigned char *bytes)
{
	size_t empty = 0;

	for (size_t i = 0; i < N_BINS; i++) {
		uint64_t self = addr + TOP_BINS + 16 * i - CHUNK_USER;
		uint64_t fd = glibc__word(bytes + TOP_BINS + 16 * i);
		uint64_t bk = glibc__word(bytes + TOP_BINS + 16 * i + 8);

		if (fd == self && bk == self)
			empty++;
		else if (!fd || !bk || fd % CHUNK_ALIGN || bk % CHUNK_ALIGN)
			return false;
	}
	return empty >= MIN_EMPTY && has_sound_links(bytes);
}

/* Reads the arena at addr, which is not the main one, from its member `top` on. The header of its
 * first heap must point back to the arena. */
static bool read_other_arena(struct glibc *g, uint64_t addr, unsigned char *bytes)
{
	uint64_t owner, heap = addr & ~(HEAP_PAGE - 1);

	return addr - heap >= HEAP_BYTES && addr - heap < 256 &&
	       glibc__read_word(g, heap + HEAP_ARENA, &owner) && owner == addr &&
	       !image__read(g->image, addr + g->top_off, bytes, TOP_BYTES) &&
	       has_sound_links(bytes);
}

static int add_range(struct glibc *g, uint64_t start, uint64_t end, uint64_t first, uint32_t arena)
{
	if (g->n_ranges >= MAX_HEAPS || end <= start)
		return 0;
	for (size_t i = 0; i < g->n_ranges; i++)
		if (start < g->ranges[i].end && end > g->ranges[i].start)
			return 0;
	if (VECTOR_RESERVE(g->ranges, g->ranges_room, g->n_ranges + 1))
		return -ENOMEM;
	g->ranges[g->n_ranges++] = (struct glibc_range){start, end, first, arena};
	return 0;
}

/* Adds the heaps of an arena that is not the main one. Begins with the newest heap, which holds the
 * top. */
static int add_heaps(struct glibc *g, uint32_t number, uint64_t top)
{
	uint64_t arena = g->arenas[number].addr, heap = top & ~(HEAP_MAX_SIZE - 1);
	uint64_t info_bytes = arena % HEAP_PAGE;

	for (size_t n = 0; heap && n < MAX_HEAPS; n++) {
		const struct image_region *region = image__find(g->image, heap);
		uint64_t info[HEAP_BYTES / 8], end, first;
		int err;

		if (!region || !image_region__readable(region) ||
		    image__read(g->image, heap, info, sizeof(info)) ||
		    info[HEAP_ARENA / 8] != arena)
			return 0;
		end = heap + info[HEAP_SIZE / 8];
		if (end % HEAP_PAGE || end <= heap || end > region->end)
			end = region->end;
		first = heap == arena - info_bytes
				? (arena + g->top_off + TOP_BYTES + CHUNK_ALIGN - 1) &
					  ~(CHUNK_ALIGN - 1)
				: heap + info_bytes;
		err = add_range(g, heap, end, first, number);
		if (err)
			return err;
		heap = info[HEAP_PREV / 8];
		if (heap % HEAP_PAGE)
			return 0;
	}
	return 0;
}

/* Adds the memory of the main arena: the memory that sbrk() gave and, if sbrk() has failed, the
 * mapping with the top. */
static int add_main_ranges(struct glibc *g, uint32_t number, uint64_t top)
{
	const struct image_region *holder = image__find(g->image, top);
	uint64_t start = 0, end = 0;

	for (size_t i = 0; i < image__n_regions(g->image); i++) {
		const struct image_region *region = image__region(g->image, i);

		if (region->kind != IMAGE_BRK)
			continue;
		if (!end)
			start = region->start;
		else if (region->start != end)
			break;
		end = region->end;
	}
	if (end &&
	    add_range(g, start, end, g->sbrk_base >= start && g->sbrk_base < end ? g->sbrk_base : 0,
		      number))
		return -ENOMEM;
	if (holder && holder->kind == IMAGE_ANON)
		return add_range(g, holder->start, holder->end, 0, number);
	return 0;
}

/* Finds struct malloc_par in the data of the file that holds the main arena. */
static void find_params_in(struct glibc *g, const unsigned char *bytes, size_t len)
{
	for (size_t at = 0; at + PARAMS_BYTES <= len && !g->has_params; at += 4) {
		const unsigned char *p = bytes + at, *q = at % 8 ? p + 4 : p;
		uint64_t base = glibc__word(q + PARAMS_SBRK_BASE);
		uint64_t mmapped = glibc__word(q + PARAMS_MMAPPED);
		uint64_t n = glibc__word(p) & UINT32_MAX;
		const struct image_region *region;

		if ((glibc__word(p + PARAMS_MMAPS_MAX) & UINT32_MAX) != DEFAULT_MMAPS_MAX ||
		    n > (glibc__word(p + PARAMS_MAX_N_MMAPS) & UINT32_MAX) || mmapped % HEAP_PAGE ||
		    !n != !mmapped || mmapped > glibc__word(q + PARAMS_MAX_MMAPPED) ||
		    glibc__word(q + PARAMS_TCACHE_BINS) > TCACHE_BINS ||
		    glibc__word(q + PARAMS_TCACHE_MAX) > MAX_TCACHE_MAX || base % CHUNK_ALIGN)
			continue;
		region = image__find(g->image, base);
		if (!region || region->kind != IMAGE_BRK)
			continue;
		g->has_params = true;
		g->n_mmapped = n;
		g->mmapped_bytes = mmapped;
		g->sbrk_base = base;
	}
}

/* Calls fn for the resident bytes of [start, end), in windows that overlap. */
static void each_window(struct glibc *g, uint64_t start, uint64_t end, unsigned char *bytes,
			void (*fn)(struct glibc *g, uint64_t addr, size_t len, void *ctx),
			void *ctx)
{
	uint64_t run_start, run_end;

	while (image__run(g->image, start, end, &run_start, &run_end)) {
		for (uint64_t at = run_start; at < run_end; at += WINDOW - TOP_BYTES) {
			size_t len = run_end - at < WINDOW ? (size_t)(run_end - at) : WINDOW;

			if (image__spent(g->image))
				return;
			if (!image__read(g->image, at, bytes, len))
				fn(g, at, len, ctx);
			if (len < WINDOW)
				break;
		}
		start = run_end;
	}
}

struct finding {
	unsigned char *bytes; /* the content of the window */
	uint64_t found;	      /* address of a main arena; 0: none was found yet */
};

static void params_of_window(struct glibc *g, uint64_t addr, size_t len, void *ctx)
{
	struct finding *finding = ctx;

	(void)addr;
	find_params_in(g, finding->bytes, len);
}

/* Does the ring of arenas lead from `next` to the arena at addr? */
static bool is_ring(struct glibc *g, uint64_t addr, uint64_t next)
{
	unsigned char bytes[TOP_BYTES];

	for (size_t steps = 0; next != addr; steps++) {
		if (steps == MAX_ARENAS || !read_other_arena(g, next, bytes))
			return false;
		next = glibc__word(bytes + TOP_NEXT);
	}
	return true;
}

/* Returns the address of the main arena whose bins include the list head at `head`; 0: there is no
 * such arena. */
static uint64_t arena_of_bin(struct glibc *g, uint64_t head)
{
	static const uint64_t top_offs[] = {ARENA_TOP, ARENA_TOP_WITHOUT_FAST};
	unsigned char bytes[TOP_BYTES];

	image__forget(g->image);
	for (size_t i = 0; i < N_BINS; i++) {
		uint64_t top_addr = head - TOP_BINS - 16 * i;

		if (image__peek(g->image, top_addr, bytes, sizeof(bytes)) ||
		    !is_main_arena(top_addr, bytes))
			continue;
		for (size_t k = 0; k < 2; k++) {
			if (g->n_arenas && g->top_off != top_offs[k])
				continue;
			g->top_off = top_offs[k];
			if (is_ring(g, top_addr - g->top_off, glibc__word(bytes + TOP_NEXT)))
				return top_addr - g->top_off;
		}
	}
	return 0;
}

static void main_arena_of_window(struct glibc *g, uint64_t addr, size_t len, void *ctx)
{
	struct finding *finding = ctx;

	for (size_t at = 0; at + 16 <= len && !finding->found; at += 8) {
		uint64_t self = addr + at - CHUNK_USER;

		if (glibc__word(finding->bytes + at) == self &&
		    glibc__word(finding->bytes + at + 8) == self)
			finding->found = arena_of_bin(g, addr + at);
	}
}

static int add_arena(struct glibc *g, uint64_t addr, const unsigned char *bytes, bool is_main)
{
	struct heap_arena *count;

	if (VECTOR_RESERVE(g->arenas, g->arenas_room, g->n_arenas + 1))
		return -ENOMEM;
	count = heap_found__add_arena(g->found, HEAP_GLIBC, addr);
	if (!count)
		return -ENOMEM;
	/* The arena's structure holds no roots. Its bins seem to point into blocks, but they hold
	 * addresses of free chunks. The address of a free chunk lies within the preceding block. */
	count->own_bytes = g->top_off + TOP_BYTES;
	g->arenas[g->n_arenas++] =
		(struct glibc_arena){.addr = addr,
				     .top_addr = addr + g->top_off,
				     .is_main = is_main,
				     .own_bytes = glibc__word(bytes + TOP_SYSTEM_MEM),
				     .count = count};
	g->quality->own_bytes += glibc__word(bytes + TOP_SYSTEM_MEM);
	return 0;
}

static bool is_known(const struct glibc *g, uint64_t addr)
{
	for (size_t i = 0; i < g->n_arenas; i++)
		if (g->arenas[i].addr == addr)
			return true;
	return false;
}

/* Adds all arenas on the ring of the main arena at addr. */
static int add_ring(struct glibc *g, uint64_t addr)
{
	unsigned char bytes[TOP_BYTES];
	uint64_t next = addr;

	while (!is_known(g, next) && g->n_arenas < MAX_ARENAS &&
	       (next == addr ? !image__read(g->image, addr + g->top_off, bytes, TOP_BYTES)
			     : read_other_arena(g, next, bytes))) {
		uint32_t number = (uint32_t)g->n_arenas;
		uint64_t top = glibc__word(bytes);
		int err = add_arena(g, next, bytes, next == addr);

		/* if an arena has no memory, its top points into the arena's own structure */
		if (!err && top != next + g->top_off)
			err = next == addr ? add_main_ranges(g, number, top)
					   : add_heaps(g, number, top);
		if (err)
			return err;
		next = glibc__word(bytes + TOP_NEXT);
	}
	return 0;
}

int glibc__find_arenas(struct glibc *g)
{
	static unsigned char bytes[WINDOW];
	uint64_t from, to;
	int err = 0;

	for (size_t i = 0; !err && image__data(g->image, &i, &from, &to);) {
		struct finding finding = {.bytes = bytes};

		each_window(g, from, to, bytes, main_arena_of_window, &finding);
		if (!finding.found || is_known(g, finding.found))
			continue;
		if (!g->has_params)
			each_window(g, from, to, bytes, params_of_window, &finding);
		err = add_ring(g, finding.found);
	}
	return err;
}
