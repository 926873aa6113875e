// SPDX-License-Identifier: BSD-2-Clause
/* The parent asks about some addresses. The child first goes through the ranges of all compile
 * units, and keeps the units that hold one of these addresses. .debug_aranges is not used, because
 * clang writes none. Then the child walks the DIEs of each kept unit. It does not descend into
 * functions and blocks that hold none of the addresses. If this walk finds no function for some
 * address, a second walk descends into these functions and blocks, too. */
#include "symbolize/dwarf_child.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dwarf.h>
#include <elfutils/libdw.h>

#include "base/search.h"
#include "base/vector.h"
#include "symbolize/clean.h"
#include "symbolize/dwarf_alternate.h"

#define UNITS_AT_ONCE 64
#define MAX_DEPTH     512 /* most levels of nested DIEs; real programs reach some 50 */
#define NONE	      UINT32_MAX

/* --- which unit holds which address --- */

/* This file does not free its own memory: the child ends soon, and its end frees all memory at
 * once. */
struct unit {
	Dwarf_Die die;
	const char *directory;	/* the directory of the compilation, or NULL */
	Dwarf_Files *files;	/* the unit's table of files, or NULL */
	const uint64_t *vaddrs; /* the addresses in this unit, ascending */
	const uint32_t *at;	/* index of each of these addresses among all addresses */
	uint32_t *scope;	/* for each of these addresses, the index of its innermost known
				 * scope, or NONE */
	size_t n;
	struct scope {
		Dwarf_Die die;
		/* index of the scope into which this one was inlined; NONE: not inlined */
		uint32_t parent;
	} * scopes;
	size_t n_scopes, room;
};

static void *must(void *memory)
{
	if (!memory)
		_exit(CHILD_FAILED);
	return memory;
}

/* Returns the first index with vaddrs[index] >= vaddr. */
static size_t lower_bound(const uint64_t *vaddrs, size_t n, uint64_t vaddr)
{
	return SEARCH_FIRST(i, n, vaddrs[i] >= vaddr);
}

/* A walk over the ranges of a DIE. All zero: it has not begun. At each call, libdw needs the `off`
 * and `base` that it returned at the last call. */
struct ranges {
	ptrdiff_t off;
	Dwarf_Addr base; /* the ranges are relative to this address */
	uint64_t start, end;
};

/* Finds the next range of a DIE. Skips empty ranges, and ranges of code that the linker removed.
 * The range of removed code starts at 0 (or at 1, where a 0 would end the list), so it overlaps
 * real code. */
static bool next_range(Dwarf_Die *die, struct ranges *r)
{
	while ((r->off = dwarf_ranges(die, r->off, &r->base, &r->start, &r->end)) > 0)
		if (r->start > 1 && r->start < r->end)
			return true;
	return false;
}

/* The unit of an address, and the length of the unit's range that holds the address. If several
 * ranges hold the address, the shortest is trusted, because wrong ranges are long. */
struct claim {
	uint64_t len;
	uint32_t unit; /* index, or NONE */
};

/* Lists the offsets of the units that hold one of the addresses. Sets claims[i] for vaddrs[i].
 * Returns the number of units listed. */
static size_t index_units(Dwarf *dwarf, const uint64_t *vaddrs, size_t n, struct claim *claims,
			  Dwarf_Off **ret_units)
{
	size_t n_units = 0, room = 0;
	Dwarf_CU *cu = NULL;
	Dwarf_Off *units = NULL;
	Dwarf_Die die;
	uint8_t type;

	for (size_t i = 0; i < n; i++)
		claims[i] = (struct claim){UINT64_MAX, NONE};
	/* The loop ends at the first broken header: units behind it cannot be found. */
	while (!dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, NULL)) {
		struct ranges range = {0};
		bool used = false;

		if ((type != DW_UT_compile && type != DW_UT_skeleton) ||
		    (dwarf_tag(&die) != DW_TAG_compile_unit &&
		     dwarf_tag(&die) != DW_TAG_skeleton_unit))
			continue;
		while (next_range(&die, &range)) {
			uint64_t len = range.end - range.start;

			for (size_t i = lower_bound(vaddrs, n, range.start);
			     i < n && vaddrs[i] < range.end; i++) {
				if (len >= claims[i].len)
					continue;
				claims[i] = (struct claim){len, (uint32_t)n_units};
				used = true;
			}
		}
		if (!used)
			continue;
		if (VECTOR_RESERVE(units, room, n_units + 1))
			_exit(CHILD_FAILED);
		units[n_units++] = dwarf_dieoffset(&die);
	}
	*ret_units = units;
	return n_units;
}

/* --- which functions, inlined in which, hold an address --- */

/* Makes a new scope inside the scope `parent`. Moves into it those addresses of the DIE that were
 * in `parent`. Returns the new scope's index; NONE: there are no such addresses. */
static uint32_t enter_scope(struct unit *unit, Dwarf_Die *die, uint32_t parent)
{
	struct ranges range = {0};
	uint32_t scope = NONE;

	while (next_range(die, &range)) {
		for (size_t i = lower_bound(unit->vaddrs, unit->n, range.start);
		     i < unit->n && unit->vaddrs[i] < range.end; i++) {
			if (unit->scope[i] != parent)
				continue;
			if (scope == NONE) {
				if (VECTOR_RESERVE(unit->scopes, unit->room, unit->n_scopes + 1))
					_exit(CHILD_FAILED);
				scope = (uint32_t)unit->n_scopes++;
				unit->scopes[scope] = (struct scope){*die, parent};
			}
			unit->scope[i] = scope;
		}
	}
	return scope;
}

/* May a block hold addresses of the scope? A block without ranges of its own may. */
static bool block_matters(const struct unit *unit, Dwarf_Die *die, uint32_t scope)
{
	struct ranges range = {0};

	if (!dwarf_hasattr(die, DW_AT_ranges) && !dwarf_hasattr(die, DW_AT_high_pc))
		return true;
	while (next_range(die, &range))
		for (size_t i = lower_bound(unit->vaddrs, unit->n, range.start);
		     i < unit->n && unit->vaddrs[i] < range.end; i++)
			if (unit->scope[i] == scope)
				return true;
	return false;
}

/* Walks the children of the DIE `parent`, which lies in `scope` (NONE: in no function). everywhere:
 * also descends into functions that hold no address. A function nested in such a function may hold
 * an address. */
static void walk(struct unit *unit, Dwarf_Die *parent, uint32_t scope, bool everywhere, int depth)
{
	Dwarf_Die die;

	if (depth > MAX_DEPTH || dwarf_child(parent, &die) != 0)
		return;
	do {
		uint32_t entered;

		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			entered = enter_scope(unit, &die, NONE);
			if (entered != NONE || everywhere)
				walk(unit, &die, entered, everywhere, depth + 1);
			break;
		case DW_TAG_inlined_subroutine:
			entered = scope == NONE ? NONE : enter_scope(unit, &die, scope);
			if (entered != NONE || everywhere)
				walk(unit, &die, entered, everywhere, depth + 1);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
		case DW_TAG_with_stmt:
			if (everywhere || (scope != NONE && block_matters(unit, &die, scope)))
				walk(unit, &die, scope, everywhere, depth + 1);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
		case DW_TAG_union_type:
		case DW_TAG_interface_type:
		case DW_TAG_enumeration_type: /* Rust's enumerations have methods */
			if (everywhere || scope == NONE)
				walk(unit, &die, NONE, everywhere, depth + 1);
			break;
		}
	} while (!dwarf_siblingof(&die, &die));
}

/* --- what to say of an address --- */

struct answer {
	struct dwarf_wire_frame wire;
	const char *function, *file, *directory; /* directory: goes before file, or NULL */
};

static void set_function(struct answer *answer, Dwarf_Die *die)
{
	static const unsigned int names[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name,
					     DW_AT_name};
	Dwarf_Attribute attr;

	for (size_t i = 0; !answer->function && i < sizeof(names) / sizeof(*names); i++)
		answer->function = dwarf_formstring(dwarf_attr_integrate(die, names[i], &attr));
}

static void set_file(struct answer *answer, const struct unit *unit, const char *file)
{
	if (!file || !*file || !strcmp(file, "???")) /* libdw's name for "no file" */
		return;
	answer->file = file;
	answer->directory = *file == '/' ? NULL : unit->directory;
}

static uint64_t number(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	return dwarf_formudata(dwarf_attr(die, name, &attr), &value) ? 0 : value;
}

/* Sets the file and line of the address itself. */
static void set_line(struct answer *answer, struct unit *unit, uint64_t vaddr)
{
	Dwarf_Line *line = dwarf_getsrc_die(&unit->die, vaddr);
	int number;

	if (!line)
		return;
	set_file(answer, unit, dwarf_linesrc(line, NULL, NULL));
	if (!dwarf_lineno(line, &number) && number > 0)
		answer->wire.line = (uint32_t)number;
}

/* Sets the place where the inlined function of die was called. */
static void set_call(struct answer *answer, const struct unit *unit, Dwarf_Die *die)
{
	uint64_t line = number(die, DW_AT_call_line);

	if (unit->files && dwarf_hasattr(die, DW_AT_call_file))
		set_file(answer, unit,
			 dwarf_filesrc(unit->files, number(die, DW_AT_call_file), NULL, NULL));
	answer->wire.line = line <= INT32_MAX ? (uint32_t)line : 0;
}

static uint32_t cut(size_t len)
{
	return len < NAME_MAX_BYTES ? (uint32_t)len : NAME_MAX_BYTES;
}

static void send(FILE *out, const void *data, size_t len)
{
	if (len && fwrite(data, len, 1, out) != 1)
		_exit(CHILD_FAILED);
}

static void send_answer(FILE *out, struct answer *answer)
{
	char joined[NAME_MAX_BYTES + 1];
	const char *file = answer->file;

	if (file && answer->directory) {
		size_t len = strlen(answer->directory);

		snprintf(joined, sizeof(joined), "%s%s%s", answer->directory,
			 len && answer->directory[len - 1] == '/' ? "" : "/", file);
		file = joined;
	}
	answer->wire.function_len =
		answer->function ? cut(strlen(answer->function)) : DWARF_NO_STRING;
	answer->wire.file_len = file ? cut(strlen(file)) : DWARF_NO_STRING;
	send(out, &answer->wire, sizeof(answer->wire));
	if (answer->function)
		send(out, answer->function, answer->wire.function_len);
	if (file)
		send(out, file, answer->wire.file_len);
}

static void send_address(FILE *out, struct unit *unit, size_t i)
{
	struct answer answers[DWARF_MAX_FRAMES] = {0};
	uint32_t scope = unit->scope[i];
	size_t n = 0;

	set_line(&answers[0], unit, unit->vaddrs[i]);
	if (scope != NONE) {
		while (unit->scopes[scope].parent != NONE) {
			set_function(&answers[n], &unit->scopes[scope].die);
			if (n < DWARF_MAX_FRAMES - 1)
				n++;
			answers[n] = (struct answer){0};
			set_call(&answers[n], unit, &unit->scopes[scope].die);
			scope = unit->scopes[scope].parent;
		}
		set_function(&answers[n], &unit->scopes[scope].die);
	} else if (!answers[0].file && !answers[0].wire.line) {
		return;
	}
	n++;
	send(out, &(struct dwarf_record){unit->at[i], (uint32_t)n}, sizeof(struct dwarf_record));
	for (size_t k = 0; k < n; k++)
		send_answer(out, &answers[k]);
}

static void resolve_unit(FILE *out, struct unit *unit)
{
	Dwarf_Attribute attr;
	size_t n_files, missing = 0;

	unit->directory = dwarf_formstring(dwarf_attr(&unit->die, DW_AT_comp_dir, &attr));
	if (dwarf_getsrcfiles(&unit->die, &unit->files, &n_files))
		unit->files = NULL;
	for (size_t i = 0; i < unit->n; i++)
		unit->scope[i] = NONE;
	unit->n_scopes = 0;
	walk(unit, &unit->die, NONE, false, 0);
	for (size_t i = 0; i < unit->n; i++)
		missing += unit->scope[i] == NONE;
	if (missing)
		walk(unit, &unit->die, NONE, true, 0);
	for (size_t i = 0; i < unit->n; i++)
		send_address(out, unit, i);
	if (fflush(out)) /* after this flush, the parent has the answers even if this process is
			  * killed */
		_exit(CHILD_FAILED);
}

enum child_exit dwarf_child__read(FILE *out, int file_fd, int alternate_fd, void *ctx)
{
	const struct dwarf_child *child = ctx;
	const uint64_t *vaddrs = child->vaddrs;
	size_t n = child->n;
	struct claim *claims = must(calloc(n, sizeof(*claims)));
	uint32_t *at = must(calloc(n, sizeof(*at))), *ends;
	uint64_t *sorted = must(calloc(n, sizeof(*sorted)));
	struct unit unit = {.scope = must(calloc(n, sizeof(*unit.scope)))};
	size_t n_units;
	Dwarf *dwarf, *alternate = NULL;
	Dwarf_Off *units;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(file_fd, ELF_C_READ_MMAP, NULL);
	dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	if (!dwarf)
		return CHILD_NO_DATA;
	if (alternate_fd >= 0)
		alternate = dwarf_alternate__check(dwarf, alternate_fd);

	/* Sort the addresses by unit, ascending in each unit: a counting sort. */
	n_units = index_units(dwarf, vaddrs, n, claims, &units);
	ends = must(calloc(n_units + 1, sizeof(*ends)));
	for (size_t i = 0; i < n; i++)
		if (claims[i].unit != NONE)
			ends[claims[i].unit + 1]++;
	for (size_t u = 0; u < n_units; u++)
		ends[u + 1] += ends[u];
	for (size_t i = 0; i < n; i++) {
		if (claims[i].unit == NONE)
			continue;
		at[ends[claims[i].unit]] = (uint32_t)i;
		sorted[ends[claims[i].unit]++] = vaddrs[i];
	}
	for (size_t u = 0, begin = 0; u < n_units; begin = ends[u++]) {
		if (u % UNITS_AT_ONCE == 0) { /* free what libdw keeps for each unit */
			dwarf_end(dwarf);
			dwarf = must(dwarf_begin_elf(elf, DWARF_C_READ, NULL));
			if (alternate)
				dwarf_setalt(dwarf, alternate);
		}
		unit.vaddrs = sorted + begin;
		unit.at = at + begin;
		unit.n = ends[u] - begin;
		if (unit.n && dwarf_offdie(dwarf, units[u], &unit.die))
			resolve_unit(out, &unit);
	}
	return CHILD_DONE;
}

int dwarf_child__open_other(int file_fd, void *ctx)
{
	const struct dwarf_child *child = ctx;

	return dwarf_alternate__open(file_fd, child->debug_root);
}
