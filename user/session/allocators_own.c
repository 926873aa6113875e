// SPDX-License-Identifier: BSD-2-Clause
#include "session/allocators_own.h"

#include <string.h>

#include "base/search.h"
#include "capture/snapshot.h"

#define HEADER_BYTES 8 /* of glibc, in front of each block */

/* Does the location lie in one of the allocator's functions, in code by which the allocator takes
 * memory from the kernel, or in a library that is nothing but the allocator? */
static bool is_in(const struct allocator *a, const struct profile *p,
		  const struct profile_location *location)
{
	const struct profile_mapping *m =
		location->mapping < 0 ? NULL : &p->mappings[location->mapping];
	uint64_t off, vaddr;

	if (!m || !a->n_points || !file_id__equal(&m->file, &a->file))
		return false;
	off = location->addr - 1 - m->start + m->off;
	for (size_t i = 0; i < a->n_points; i++) {
		uint64_t entry = a->points[i].place.off - a->points[i].site.delta;

		if (off >= entry && off - entry < a->points[i].bytes)
			return true;
	}
	/* Turns the place in the file into an address, because text_start and text_end are
	 * addresses, too. In all functions of a segment, place and address differ by the same
	 * number. */
	vaddr = off + a->points[0].func.vaddr - (a->points[0].place.off - a->points[0].site.delta);
	for (size_t i = 0; i < a->n_takers; i++)
		if (vaddr >= a->takers[i].start && vaddr < a->takers[i].end)
			return true;
	return vaddr >= a->object.text_start && vaddr < a->object.text_end;
}

/* Does the location lie in a traced allocator? */
static bool is_allocators(const struct build *b, const struct profile *p,
			  const struct profile_location *location)
{
	const struct allocators *allocators = b->target->allocators;

	for (size_t a = 0; allocators && a < allocators->n; a++)
		if (is_in(allocators->list[a], p, location))
			return true;
	return false;
}

/* Did the site map arenas for a language's pool? It did if its regions have the size for which
 * CPython's pool asks (256 KiB up to 3.9, 1 MiB later), and if code of the pool's file called mmap.
 * The stack may lack probed functions: some pools have none, and CPython 3.12 jumps from the probed
 * function to the function that takes the block. */
static bool maps_arenas(const char *family, const struct file_id *file, const struct profile *p,
			const struct profile_site *site)
{
	const struct profile_location *caller;
	double size = site->alloc_bytes / site->alloc_objects;

	if (!family || !alloc_family__is_language(family) || site->n_locations < 2 ||
	    (size != 256 << 10 && size != 1 << 20))
		return false;
	caller = profile__location(p, site, 1); /* of mmap */
	return caller->mapping >= 0 && file_id__equal(&p->mappings[caller->mapping].file, file);
}

/* maps_arenas() for the pools that are probed. */
static bool maps_arenas_of(const struct allocators *allocators, const struct profile *p,
			   const struct profile_site *site)
{
	for (size_t i = 0; allocators && i < allocators->n; i++)
		if (maps_arenas(allocators->list[i]->family, &allocators->list[i]->file, p, site))
			return true;
	return false;
}

void allocators_own__mark_sites(const struct build *b, struct profile *p)
{
	const struct allocators *allocators = b->target->allocators;

	for (size_t i = 0; i < p->n_sites; i++) {
		struct profile_site *site = &p->sites[i];

		site->unseen_pools = allocators && maps_arenas(allocators->unseen.family,
							       &allocators->unseen.file, p, site);
		site->allocators_own = site->unseen_pools || maps_arenas_of(allocators, p, site);
		for (uint32_t k = 0; k < site->n_locations && !site->allocators_own; k++)
			site->allocators_own = is_allocators(b, p, profile__location(p, site, k));
	}
}

/* Returns the mapping that has the byte before addr, or NULL. The mappings need not be sorted. */
static const struct profile_mapping *mapping_before(const struct profile *p, uint64_t addr)
{
	for (size_t m = 0; m < p->n_mappings; m++)
		if (p->mappings[m].start < addr && addr <= p->mappings[m].end)
			return &p->mappings[m];
	return NULL;
}

double allocators_own__header(const struct build *b, const struct profile *p,
			      const struct abi_stack_key *key)
{
	const struct allocators *allocators = b->target->allocators;
	const struct abi_stack *stack =
		b->drain ? snapshot__find_stack(&b->drain->stacks, key) : NULL;
	const struct profile_mapping *mapping =
		stack && stack->n ? mapping_before(p, stack->ip[0]) : NULL;
	double header = HEADER_BYTES;

	for (size_t i = 0; allocators && mapping && i < allocators->n; i++) {
		const struct allocator *a = allocators->list[i];

		if (!file_id__equal(&a->file, &mapping->file))
			continue;
		/* functions that the user named are most often wrappers of malloc, so a header is
		 * assumed */
		if (a->object.header || !strcmp(a->family, "named"))
			return HEADER_BYTES;
		header = 0;
	}
	return header;
}

/* site: a site's number in the book of regions. Does a frame of its stack lie in a traced
 * allocator? The profile's mappings are sorted. */
static bool is_allocators_stack(const struct build *b, const struct profile *p, size_t site)
{
	const struct abi_stack *stack =
		snapshot__find_stack(&b->drain->stacks, &b->target->book.sites[site].stack);

	for (uint32_t i = 0; stack && i < stack->n && i < ABI_STACK_FRAMES; i++) {
		const uint64_t addr = stack->ip[i];
		size_t m = SEARCH_FIRST(k, p->n_mappings, p->mappings[k].end >= addr);
		const struct profile_location location = {.addr = addr, .mapping = (int32_t)m};

		if (m < p->n_mappings && p->mappings[m].start < addr &&
		    is_allocators(b, p, &location))
			return true;
	}
	return false;
}

/* Sorting has moved the profile's sites, so this function examines the stacks of the book's sites.
 * Neighbouring pieces mostly have the same site, so the last result is used again. */
void allocators_own__mark_pieces(const struct build *b, const struct profile *p)
{
	const struct resident_piece *last = NULL;

	for (size_t i = 0; b->pieces && i < b->pieces->n; i++) {
		struct resident_piece *piece = &b->pieces->at[i];

		if (piece->kind != RESIDENT_MAPPED)
			continue;
		piece->of_heap = last && last->site == piece->site
					 ? last->of_heap
					 : is_allocators_stack(b, p, piece->site);
		last = piece;
	}
}
