// SPDX-License-Identifier: BSD-2-Clause
/* Do probes on a pool's functions show all blocks of the pool? Compilers copy these functions into
 * their callers, whole or in part. A copy does not call the function, so probes on the function
 * miss the copy's blocks, and nothing shows this. So a pool is probed only if the file shows that
 * the pool's functions are called and have no copies, or if all copies are found. */
#include "capture/alloc_reader.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elf/forward.h"
#include "elf/image.h"

/* Are the pool's functions called? In a library they are called through the PLT. If a program never
 * calls them, the compiler has inlined them into their callers. */
static bool are_called(const struct alloc_reader *r, const struct alloc_family *f)
{
	const struct alloc_function *fn = f->functions[0];
	struct elf_symbol symbol;
	uint64_t caller;

	if (elf_image__soname(r->image))
		return true;
	for (; fn->name; fn++) {
		/* only the first function and the functions that free a pool are checked, because
		 * the other functions are called more rarely */
		if ((fn != f->functions[0] && fn->func.role != ROLE_POOL_FREE) ||
		    elf_image__find_function(r->image, fn->name, &symbol))
			continue;
		if (!elf_image__direct_callers(r->image, symbol.vaddr, &caller, 1))
			return false;
	}
	return true;
}

#define MOST_CALLERS 64 /* at most this many callers of each part are examined */
#define MOST_PARTS   64 /* at most this many parts are examined: each needs a search of all code */

struct parts {
	const struct alloc_reader *r;
	const struct alloc_function *functions; /* the pool's functions */
	size_t n;
};

/* Is vaddr in one of the pool's functions? */
static bool is_in_pool(const struct parts *p, uint64_t vaddr)
{
	struct elf_symbol symbol;

	for (const struct alloc_function *fn = p->functions; fn->name; fn++)
		if (!elf_image__find_function(p->r->image, fn->name, &symbol) &&
		    vaddr - symbol.vaddr <= symbol.size)
			return true;
	return false;
}

/* Returns 1 if the symbol is a part or variant of one of the pool's functions, and code outside the
 * pool calls it. Also returns 1 after MOST_PARTS parts. */
static int judge_part(const struct elf_symbol *symbol, void *ctx)
{
	struct parts *p = ctx;
	size_t len = strcspn(symbol->name, ".");
	uint64_t callers[MOST_CALLERS];
	struct elf_symbol whole;
	size_t n;

	/* a ".cold" part is never called, and only its own function jumps there */
	if (!symbol->name[len] || strstr(symbol->name + len, ".cold"))
		return 0;
	for (const struct alloc_function *fn = p->functions; fn->name; fn++) {
		if (strlen(fn->name) != len || memcmp(fn->name, symbol->name, len) != 0)
			continue;
		/* the symbol is another name of the whole function, such as palloc.localalias */
		if (!elf_image__find_function(p->r->image, fn->name, &whole) &&
		    whole.vaddr == symbol->vaddr)
			continue;
		if (p->n++ == MOST_PARTS)
			return 1;
		n = elf_image__direct_callers(p->r->image, symbol->vaddr, callers, MOST_CALLERS);
		for (size_t i = 0; i < n && i < MOST_CALLERS; i++)
			if (callers[i] - symbol->vaddr > symbol->size && !is_in_pool(p, callers[i]))
				return 1;
	}
	return 0;
}

/* Has the compiler copied the beginning of one of the pool's functions into callers? GCC then makes
 * a separate function of the rest (palloc.part.0), which the copies call, or it makes a variant of
 * the function (palloc.constprop.0). Copies of whole functions leave no such trace. A file without
 * symbols does not show any of these functions. */
static bool has_called_parts(const struct alloc_reader *r, const struct alloc_function *functions)
{
	struct parts parts = {.r = r, .functions = functions};

	return elf_image__each_function(r->image, judge_part, &parts);
}

/* Adds an instruction to probe, in a copy of the pool's function `name`. 0 or -ENOMEM. */
static int add_copy(struct alloc_reader *r, const struct pymalloc_place *place, const char *name)
{
	struct alloc_part *part = r->part;
	const struct elf_symbol symbol = {.vaddr = place->vaddr};
	const struct abi_func func = {.role = place->pool ? ROLE_TAKEN : ROLE_FREE,
				      .ptr_arg = place->block,
				      .pool_arg = place->pool};
	struct alloc_offer *offer;
	uint8_t byte;
	uint64_t off;
	int rc =
		alloc_reader__add_offer(r, alloc_names__find(r->names, name), name, &func, &symbol);

	if (rc)
		return rc;
	offer = &part->offers[part->n_offers - 1];
	offer->site.emulated = place->emulated;
	memcpy(offer->site.instruction, place->instruction, sizeof(place->instruction));
	if (elf_image__vaddr_to_off(r->image, place->vaddr, &off) ||
	    elf_image__read_code(r->image, place->vaddr, &byte, 1) != 1)
		return alloc_reader__cannot(offer, -ENOEXEC, "the instruction is not in the file");
	offer->insn = (struct code_place){.off = off, .byte = byte};
	return 0;
}

/* Adds the copies of the pool's functions as a part of the file, if all of them are found. Else
 * notes why not. 0 or -ENOMEM. */
static int add_copies(struct alloc_reader *r, const struct alloc_family *f)
{
	struct alloc_file *file = r->file;
	struct pymalloc pool = {};
	int rc = -ENOTSUP;

	if (!r->how.copies || !file->copy.usual)
		snprintf(pool.why, sizeof(pool.why),
			 "the copies are not probed with perf uprobes, or when all processes are "
			 "probed");
	else
		rc = pymalloc__find(r->image, file->copy.usual, &r->how.meanwhile, &pool);
	if (!rc && pool.n > ALLOC_MAX_NAMES) {
		snprintf(pool.why, sizeof(pool.why), "there are %zu copies", pool.n);
		rc = -ENOTSUP;
	}
	if (rc == -ENOTSUP) {
		file->copied = f->name;
		memcpy(file->why, pool.why, sizeof(file->why));
		rc = 0;
	} else if (!rc) {
		alloc_reader__begin_part(r, f->name);
		memcpy(r->part->takers, pool.arena_code, sizeof(r->part->takers));
		r->part->n_takers = pool.n_arena_code;
		for (size_t i = 0; i < pool.n && !rc; i++)
			rc = add_copy(r, &pool.places[i],
				      pool.places[i].pool ? "PyObject_Malloc" : "PyObject_Free");
		for (size_t i = 0; i < r->part->n_aliases; i++)
			r->part->aliases[i].exported = false; /* copies have no name */
		file->n_parts++;
	}
	pymalloc__free(&pool);
	return rc;
}

int alloc_reader__shows_all(struct alloc_reader *r, const struct alloc_family *f)
{
	const struct alloc_function *fn = f->functions[0];
	struct alloc_file *file = r->file;
	struct elf_symbol symbol;
	int rc;

	if (f->home == HOME_METHODS)
		return 1;
	if (f->home != HOME_LANGUAGE) {
		if (are_called(r, f) && !has_called_parts(r, f->functions[0]))
			return 1;
		file->copied = f->name;
		return 0;
	}
	/* a freeing function shows best whether functions were copied, because it checks nothing
	 * before it passes the call on */
	while (fn->func.role != ROLE_FREE)
		fn++;
	rc = elf_image__find_function(r->image, fn->name, &symbol);
	rc = rc ?: forward__read(r->image, symbol.vaddr, &file->copy);
	if (rc == -ENOMEM)
		return rc;
	if (!rc && !file->copy.copied)
		return 1;
	alloc_reader__note_shift(r);
	return add_copies(r, f);
}

/* Some functions pass their calls on. Does the code of one of them mention the address vaddr? With
 * profile-guided optimization, compilers copy the function at vaddr into these functions, or make
 * these functions call it directly. */
static bool is_promoted(const struct alloc_reader *r, const struct alloc_function *passing,
			uint64_t vaddr)
{
	struct elf_symbol symbol;

	for (; passing->name; passing++)
		if (!elf_image__find_function(r->image, passing->name, &symbol) &&
		    forward__mentions(r->image, symbol.vaddr, symbol.size, vaddr))
			return true;
	return false;
}

bool alloc_reader__stand_alone(const struct alloc_reader *r, const struct alloc_family *f)
{
	const struct parts parts = {.r = r, .functions = f->functions[1]};
	uint64_t callers[MOST_CALLERS];
	struct elf_symbol symbol;
	size_t n;

	for (const struct alloc_function *fn = f->functions[1]; fn->name; fn++) {
		if (elf_image__find_function(r->image, fn->name, &symbol) ||
		    symbol.type != STT_FUNC || is_promoted(r, f->functions[0], symbol.vaddr))
			return false;
		n = elf_image__direct_callers(r->image, symbol.vaddr, callers, MOST_CALLERS);
		if (n > MOST_CALLERS)
			return false;
		for (size_t i = 0; i < n; i++)
			if (!is_in_pool(&parts, callers[i]))
				return false;
	}
	return !has_called_parts(r, f->functions[1]);
}
