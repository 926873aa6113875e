// SPDX-License-Identifier: BSD-2-Clause
/* The markers by which a program reports samples of its own. */
#include "capture/alloc_reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"
#include "elf/stapsdt.h"

static struct abi_place place_of_argument(const struct stapsdt_argument *a)
{
	static const uint8_t kinds[] = {
		[STAPSDT_CONSTANT] = PLACE_CONSTANT,
		[STAPSDT_REGISTER] = PLACE_REGISTER,
		[STAPSDT_MEMORY] = PLACE_MEMORY,
	};

	return (struct abi_place){
		.value = a->value,
		.kind = kinds[a->kind],
		.base = a->base,
		.index = a->index,
		.shift = a->shift,
		.bytes = a->bytes,
		.is_signed = a->is_signed,
	};
}

/* Reads the instruction at a marker, which must be a nop of 1 byte or of 5 bytes. Anything else
 * shows that the ELF note of the marker is wrong: a breakpoint might then stand inside an
 * instruction. */
static bool read_nop(const struct elf_image *image, uint64_t vaddr, struct probe_site *ret)
{
	static const uint8_t nop5[5] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
	uint8_t code[sizeof(nop5)];
	long n = elf_image__read_code(image, vaddr, code, sizeof(code));

	ret->emulated = n > 0 && code[0] == 0x90;
	ret->nop = n == sizeof(nop5) && !memcmp(code, nop5, sizeof(nop5));
	snprintf(ret->instruction, sizeof(ret->instruction), "%s", ret->nop ? "nopl" : "nop");
	return ret->emulated || ret->nop;
}

/* Notes why the markers are of no use. Returns 1. */
static int __attribute__((format(printf, 2, 3)))
no_markers(struct alloc_reader *r, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(r->file->markers_why, sizeof(r->file->markers_why), fmt, args);
	va_end(args);
	return 1;
}

#define ALLOC_ARGUMENTS 3
#define MOST_ARGUMENTS	12

/* Adds one marker to the current part. 0; 1: the markers cannot be used; -ENOMEM. */
static int add_marker(const struct stapsdt_marker *marker, void *ctx)
{
	bool allocates = !strcmp(marker->name, "alloc");
	const char *name = allocates ? ALLOC_MARKERS ":alloc" : ALLOC_MARKERS ":free";
	struct stapsdt_argument arguments[MOST_ARGUMENTS] = {};
	const struct elf_symbol symbol = {.vaddr = marker->vaddr};
	const struct abi_func func = {.role = allocates ? ROLE_MARK_ALLOC : ROLE_MARK_FREE};
	struct alloc_reader *r = ctx;
	struct probe_site site = {};
	struct alloc_offer *offer;
	uint64_t off, semaphore = 0;
	int n, rc;

	if (!allocates && strcmp(marker->name, "free") != 0)
		return 0;
	n = stapsdt__parse(marker->arguments, arguments, MOST_ARGUMENTS);
	if (n < (allocates ? ALLOC_ARGUMENTS : 1))
		return no_markers(r, "the arguments of %s (%.32s) are not understood", name,
				  marker->arguments);
	if (!read_nop(r->image, marker->vaddr, &site) ||
	    elf_image__vaddr_to_off(r->image, marker->vaddr, &off))
		return no_markers(r, "there is no nop at a %s", name);
	if (marker->semaphore &&
	    (elf_image__vaddr_to_off(r->image, marker->semaphore, &semaphore) || semaphore % 2))
		return no_markers(r, "the semaphore of a %s is not in the file", name);
	if (r->part->n_offers == ABI_MAX_MARKERS / 2)
		return no_markers(r, "there are more than %d", ABI_MAX_MARKERS / 2);
	for (size_t i = 0; i < r->part->n_offers; i++)
		if (r->part->offers[i].func.vaddr == marker->vaddr)
			return no_markers(r, "two of them are at one place");
	rc = alloc_reader__add_offer(r, SIZE_MAX, name, &func, &symbol);
	if (rc)
		return rc;
	offer = &r->part->offers[r->part->n_offers - 1];
	offer->site = site;
	offer->semaphore = semaphore;
	offer->insn = (struct code_place){.off = off, .byte = site.nop ? 0x0f : 0x90};
	offer->marker.ptr = place_of_argument(&arguments[0]);
	if (allocates) {
		offer->marker.size = place_of_argument(&arguments[1]);
		offer->marker.weighted = place_of_argument(&arguments[2]);
	}
	return 0;
}

static bool has_role(const struct alloc_part *part, enum abi_role role)
{
	for (size_t i = 0; i < part->n_offers; i++)
		if (part->offers[i].func.role == role)
			return true;
	return false;
}

int alloc_reader__add_markers(struct alloc_reader *r)
{
	struct alloc_part *part;
	int rc;

	if (!r->how.markers)
		return 0;
	alloc_reader__begin_part(r, ALLOC_MARKERS);
	part = r->part;
	rc = stapsdt__each(r->image, ALLOC_MARKERS, add_marker, r);
	if (!rc && part->n_offers &&
	    (!has_role(part, ROLE_MARK_ALLOC) || !has_role(part, ROLE_MARK_FREE)))
		rc = no_markers(r, "the file has only one of " ALLOC_MARKERS ":alloc and :free");
	for (size_t i = 0; i < part->n_aliases; i++)
		part->aliases[i].exported = false; /* markers have no name for the linker */
	r->file->n_parts++;
	if (rc || !part->n_offers) {
		r->file->n_parts--;
		free(part->offers);
		free(part->aliases);
		*part = (struct alloc_part){};
	}
	return rc == -ENOMEM ? rc : 0;
}
