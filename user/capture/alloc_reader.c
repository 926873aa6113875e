// SPDX-License-Identifier: BSD-2-Clause
/* Reads the functions of one allocator: which instruction of each gets the probe, and which calls
 * are the allocator's own.
 *
 * Calls inside an allocator must not be counted a second time. Examples: a realloc that moves a
 * block calls malloc, realloc(NULL, n) jumps to malloc, and aligned_alloc with a small alignment
 * hands the call over to malloc. In a shared C library every ordinary caller reaches malloc through
 * the PLT, because malloc can be interposed. So a direct call to malloc's entry comes from the
 * allocator's own code. The kernel side gets the return addresses of such calls ("inner") and the
 * address ranges of the functions that hand calls over ("outer"). It compares the return addresses
 * of calls with both. In a library that is nothing but an allocator, any call from its code counts
 * as inner while an outer call is under way. A jump leaves no return address. So for jumps, the
 * kernel side remembers the outer call itself. If a function does nothing but jump to another one,
 * only the other one gets a probe.
 *
 * C++: the operators new and delete of the C++ libraries call malloc and free, and get no probes.
 * The operators of tcmalloc, jemalloc and mimalloc are entry points of their own, like malloc. An
 * operator new may throw, so it gets no return probe but probes on its ret instructions
 * (elf/exits.h). */
#include "capture/alloc_reader.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "elf/exits.h"
#include "elf/image.h"

#define MAX_UNWIND_ROWS (4u << 20) /* limit for the unwind table that is built to find exits */

int alloc_reader__cannot(struct alloc_offer *offer, int rc, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(offer->why, sizeof(offer->why), fmt, args);
	va_end(args);
	offer->rc = rc;
	return 0;
}

/* The probe reads some of the call's arguments. Returns the highest of their numbers. */
static unsigned int n_args(const struct abi_func *func)
{
	unsigned int n = func->size_arg;

	n = func->count_arg > n ? func->count_arg : n;
	n = func->ptr_arg > n ? func->ptr_arg : n;
	n = func->pool_arg > n ? func->pool_arg : n;
	return func->out_arg > n ? func->out_arg : n;
}

/* Returns the register in which argument number n is at the probe; 0: none. */
static uint8_t place_of(const struct probe_site *site, uint8_t n)
{
	return n && n <= PROBE_SITE_ALL_ARGS ? site->args[n - 1] : 0;
}

/* Is the offer the part's first allocating function (malloc)? If the results of this function
 * cannot be seen, probes on the other functions are of no use. */
static bool is_first_alloc(const struct alloc_part *part, const struct alloc_offer *offer)
{
	const struct alloc_offer *o = part->offers;

	while (o < offer && (o->func.role != ROLE_ALLOC || o->leads_to != ALLOC_NOWHERE))
		o++;
	return o == offer;
}

static int add_exits(struct alloc_reader *r, struct alloc_offer *offer)
{
	struct alloc_part *part = r->part;
	struct code_place insns[EXITS_MAX] = {}, *grown;
	struct exits exits = {};
	int rc = 0;

	if (!r->table && !r->no_table) {
		rc = unwind_table__build(r->image, MAX_UNWIND_ROWS, &r->table, NULL);
		if (rc == -ENOMEM)
			return rc;
		r->no_table = rc;
		rc = 0;
	}
	if (r->no_table) {
		rc = -ENOTSUP;
		snprintf(exits.why, sizeof(exits.why), "no unwind information");
	}
	if (!rc)
		rc = exits__find(r->image, r->table, offer->func.vaddr, &exits);
	for (size_t i = 0; !rc && i < exits.n; i++)
		if (elf_image__vaddr_to_off(r->image, exits.vaddrs[i], &insns[i].off) ||
		    elf_image__read_code(r->image, exits.vaddrs[i], &insns[i].byte, 1) != 1) {
			rc = -ENOTSUP;
			snprintf(exits.why, sizeof(exits.why),
				 "a ret instruction is not in the file");
		}
	if (rc == -ENOTSUP && r->how.no_returns && is_first_alloc(part, offer))
		return alloc_reader__cannot(
			offer, rc, "its results cannot be seen without a return probe (%.64s)",
			exits.why);
	if (rc) { /* no ret instructions are known: calls of the function are counted as lost */
		offer->func.exits = 0;
		offer->func.blind = 1;
		snprintf(offer->site.why, sizeof(offer->site.why), "its results are lost: %.72s",
			 exits.why);
		return rc == -ENOMEM ? rc : 0;
	}
	grown = reallocarray(part->exits, part->n_exits + exits.n, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	part->exits = grown;
	memcpy(grown + part->n_exits, insns, exits.n * sizeof(*insns));
	offer->first_exit = part->n_exits;
	offer->n_exits = exits.n;
	part->n_exits += exits.n;
	return 0;
}

/* Finds the place of the offer's probe. If there is no place, sets offer->rc. Returns 0 in both
 * cases, or -ENOMEM. */
static int place(struct alloc_reader *r, struct alloc_offer *offer, uint64_t size)
{
	_cleanup_free_ uint8_t *code = NULL;
	struct abi_func *func = &offer->func;
	size_t want = size && size < 65536 ? size : 64;
	uint64_t off;
	long len;
	int rc;

	code = malloc(want);
	if (!code)
		return -ENOMEM;
	len = elf_image__read_code(r->image, func->vaddr, code, want);
	if (len <= 0)
		return alloc_reader__cannot(offer, -ENOEXEC, "the symbol points to no code");
	rc = probe_site__choose(code, (size_t)len, func->vaddr, size, n_args(func), &offer->site);
	if (rc == -ENOMEM)
		return rc;
	if (rc)
		return alloc_reader__cannot(offer, rc, "the code cannot be read: %.64s",
					    offer->site.why);
	rc = elf_image__vaddr_to_off(r->image, func->vaddr + offer->site.delta, &off);
	if (rc)
		return alloc_reader__cannot(offer, rc, "the symbol points outside the file");
	offer->insn = code_place__in(code, offer->site.delta, off);
	func->size_arg = place_of(&offer->site, func->size_arg);
	func->count_arg = place_of(&offer->site, func->count_arg);
	func->ptr_arg = place_of(&offer->site, func->ptr_arg);
	func->out_arg = place_of(&offer->site, func->out_arg);
	func->pool_arg = place_of(&offer->site, func->pool_arg);
	if (func->outer && r->alone)
		func->outer = OUTER_WITHIN;
	func->delta = offer->site.delta;
	if (r->how.no_returns && !abi_role__frees(func->role))
		func->exits = 1;
	return func->exits ? add_exits(r, offer) : 0;
}

/* If the offer at `index` only hands its calls over to another offer with the same role, returns
 * the index of the other offer. Else returns ALLOC_NOWHERE. */
static size_t hands_over(const struct alloc_reader *r, size_t index)
{
	const struct alloc_offer *offers = r->part->offers;
	uint64_t stages[EXITS_MAX_STAGES];
	size_t n = exits__hand_over(r->image, offers[index].func.vaddr, stages, EXITS_MAX_STAGES);

	for (size_t stage = 0; stage < n; stage++)
		for (size_t i = 0; i < r->part->n_offers; i++)
			if (i != index && offers[i].func.vaddr == stages[stage] &&
			    offers[i].func.role == offers[index].func.role)
				return i;
	return ALLOC_NOWHERE;
}

/* Finds the inner calls and the outer functions of the part. Looks at all functions of the part,
 * even those that the process does not use, because the kernel side has one table for all
 * processes. */
static void find_inner_calls(const struct alloc_reader *r, struct abi_object *o)
{
	if (r->alone)
		elf_image__code_span(r->image, (uint64_t *)&o->text_start,
				     (uint64_t *)&o->text_end);
	o->header = !strcmp(r->part->family, "glibc");
	for (size_t i = 0; i < r->part->n_offers; i++) {
		const struct abi_func *func = &r->part->offers[i].func;
		size_t room = ABI_MAX_INNER - o->n_inner, n;

		/* Inner calls of freeing functions do no harm: if a block is freed twice, its end
		 * is recorded once. So such calls are not searched for. (With `outer`, a call of a
		 * freeing function is inner if an outer function made it.) Inner calls of functions
		 * that make pools are not searched for either, because such functions have direct
		 * callers outside of the allocator, too. */
		if (r->interposed && !abi_role__frees(func->role) && !func->own) {
			n = elf_image__direct_callers(r->image, func->vaddr,
						      (uint64_t *)&o->inner[o->n_inner], room);
			o->n_inner += n < room ? n : room;
		}
		if (func->outer && !abi_role__frees(func->role) && r->sizes[i] &&
		    o->n_outer < ABI_MAX_OUTER)
			o->outer[o->n_outer++] =
				(struct abi_range){func->vaddr, func->vaddr + r->sizes[i]};
	}
	o->low = o->text_end ? o->text_start : ~0ULL;
	o->high = o->text_end;
	for (uint32_t i = 0; i < o->n_inner; i++) {
		o->low = o->inner[i] < o->low ? o->inner[i] : o->low;
		o->high = o->inner[i] > o->high ? o->inner[i] : o->high;
	}
	for (uint32_t i = 0; i < o->n_outer; i++) {
		o->low = o->outer[i].start < o->low ? o->outer[i].start : o->low;
		o->high = o->outer[i].end > o->high ? o->outer[i].end : o->high;
	}
}

int alloc_reader__add_offer(struct alloc_reader *r, size_t name, const char *text,
			    const struct abi_func *func, const struct elf_symbol *symbol)
{
	struct alloc_part *part = r->part;
	struct alloc_offer *offers;
	size_t i = 0;

	while (i < part->n_offers && part->offers[i].func.vaddr != symbol->vaddr)
		i++;
	if (i == ABI_MAX_FUNCS || part->n_aliases == ALLOC_MAX_NAMES)
		return 0;
	if (VECTOR_ADD_ROOM(part->aliases, part->n_aliases))
		return -ENOMEM;
	part->aliases[part->n_aliases++] =
		(struct alloc_alias){(uint16_t)name, (uint16_t)i, symbol->dynamic};
	if (i < part->n_offers)
		return 0;
	if (VECTOR_ADD_ROOM(part->offers, i)) {
		part->n_aliases--;
		return -ENOMEM;
	}
	offers = part->offers;
	offers[i] = (struct alloc_offer){.name = text, .func = *func, .leads_to = ALLOC_NOWHERE};
	offers[i].func.vaddr = symbol->vaddr;
	offers[i].bytes = symbol->size;
	r->sizes[i] = symbol->size;
	part->n_offers++;
	return 0;
}

void alloc_reader__begin_part(struct alloc_reader *r, const char *family)
{
	r->part = &r->file->parts[r->file->n_parts];
	r->part->family = family;
	r->alone = r->interposed = false;
}

int alloc_reader__end_part(struct alloc_reader *r)
{
	struct alloc_part *part = r->part;
	int rc = 0;

	r->file->n_parts++; /* the part is counted at once, so that it is also freed after a
			     * failure */
	for (size_t i = 0; i < part->n_offers; i++)
		part->offers[i].leads_to = hands_over(r, i);
	for (size_t i = 0; i < part->n_offers && !rc; i++)
		if (part->offers[i].leads_to == ALLOC_NOWHERE)
			rc = place(r, &part->offers[i], r->sizes[i]);
	find_inner_calls(r, &part->object);
	if (!part->n_offers)
		r->file->n_parts--;
	return rc;
}

void alloc_reader__note_shift(const struct alloc_reader *r)
{
	uint64_t start, end, off;

	if (!elf_image__code_span(r->image, &start, &end) &&
	    !elf_image__vaddr_to_off(r->image, start, &off))
		r->file->code_shift = start - off;
}
