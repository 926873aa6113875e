// SPDX-License-Identifier: BSD-2-Clause
/* Runs the programs in .eh_frame and makes the unwind table.
 *
 * The section is a list of entries. A CIE holds data that many functions share: alignment factors,
 * the encoding of pointers, and the instructions that make the state at a function's first byte. An
 * FDE names its CIE, a range of addresses, and instructions that change the state as the address
 * advances. elf/cfi.h runs the instructions. This file finds the entries, sorts them and makes a
 * table.
 *
 * The bytes are the target's and are not trusted. Each read goes through a cursor (elf/cursor.h)
 * that refuses to pass the end of its entry. Work and memory stay proportional to the section's
 * size. Entries do not overlap, so each byte of an FDE is interpreted once. The bytes of a CIE are
 * also interpreted once, however many FDEs name it, because the resulting state is kept. Each row
 * costs at least one byte of instructions, and each FDE adds at most two more rows.
 *
 * If a program is broken, the rest of its function gets UNWIND_BAD. */
#include "elf/unwind.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "base/vector.h"
#include "elf/cfi.h"
#include "elf/cursor.h"
#include "elf/go_code.h"
#include "elf/unwind_rows.h"

#define DEFAULT_MAX_ROWS 16777216

struct cie {
	uint32_t pos; /* offset of the entry in the section */
	bool sound;
	bool has_size; /* 'z': FDEs give the length of their augmentation data */
	struct cfi_cie shared;
};

struct fde {
	uint32_t pc, end;	       /* addresses relative to the table's base */
	uint32_t program, program_end; /* offsets in the section */
	uint32_t cie;		       /* index in `cies` */
};

struct builder {
	unsigned char *bytes;
	size_t size;
	struct cfi_section section; /* the section that has these bytes */
	uint64_t code_end;	    /* vaddr at which the code ends */
	struct cie *cies;	    /* in ascending order of pos */
	size_t n_cies, cies_room;
	struct fde *fdes;
	size_t n_fdes, fdes_room;
	struct unwind_rows rows;
	struct unwind_table *table; /* the table that gets the rows when all are made */
};

/* --- entries ------------------------------------------------------------------------------------
 */

/* Interprets each letter of the augmentation string. data: begins at the augmentation data. */
static bool read_augmentation(struct cie *cie, const char *letters, struct cursor data)
{
	for (; *letters; letters++) {
		uint8_t encoding;

		switch (*letters) {
		case 'R':
			cie->shared.encoding = cursor__bytes(&data, 1);
			break;
		case 'P':
			encoding = cursor__bytes(&data, 1);
			/* DW_EH_PE_aligned needs this field's address; x86-64 never uses it. */
			if ((encoding & 0x70) == DW_EH_PE_aligned)
				return false;
			cursor__number(&data, encoding);
			break;
		case 'L':
			cursor__bytes(&data, 1);
			break;
		case 'S':
			cie->shared.is_signal = true;
			break;
		default:
			return false;
		}
	}
	return !data.broken;
}

static bool read_cie(const struct builder *b, struct cie *cie, struct cursor cursor)
{
	uint64_t version = cursor__bytes(&cursor, 1);
	const char *letters = (const char *)cursor.pos;
	uint64_t ra;

	if (cursor.broken || (version != 1 && version != 3) ||
	    !memchr(letters, '\0', cursor.end - cursor.pos))
		return false;
	cursor__skip(&cursor, strlen(letters) + 1);
	cie->shared.code_align = cursor__uleb(&cursor);
	cie->shared.data_align = cursor__sleb(&cursor);
	ra = version == 1 ? cursor__bytes(&cursor, 1) : cursor__uleb(&cursor);
	if (cursor.broken || ra != CFI_RETURN_ADDRESS)
		return false;
	if (*letters) {
		cie->has_size = *letters == 'z';
		if (!cie->has_size || !read_augmentation(cie, letters + 1, cursor__block(&cursor)))
			return false;
	}
	return !cursor.broken && cfi_cie__run(&cie->shared, &b->section, &cursor) == 0;
}

static int add_cie(struct builder *b, size_t pos, struct cursor cursor)
{
	struct cie cie = {.pos = pos};

	cie.sound = read_cie(b, &cie, cursor);
	if (!cie.sound)
		b->table->skipped++;
	if (VECTOR_RESERVE(b->cies, b->cies_room, b->n_cies + 1))
		return -ENOMEM;
	b->cies[b->n_cies++] = cie;
	return 0;
}

static int compare_cies(const void *a, const void *b)
{
	uint32_t x = ((const struct cie *)a)->pos, y = ((const struct cie *)b)->pos;

	return (x > y) - (x < y);
}

/* Finds the sound CIE that begins at pos; NULL: there is none. */
static const struct cie *find_cie(const struct builder *b, size_t pos)
{
	struct cie key = {.pos = pos};
	const struct cie *cie;

	if (b->n_cies == 0)
		return NULL;
	cie = bsearch(&key, b->cies, b->n_cies, sizeof(key), compare_cies);
	return cie && cie->sound ? cie : NULL;
}

/* Adds an FDE. The FDE's CIE field stands 4 bytes before cursor. back is the field's content: the
 * CIE begins that many bytes before the field. */
static int add_fde(struct builder *b, uint32_t back, struct cursor cursor)
{
	size_t field = cursor.pos - b->bytes - 4;
	const struct cie *cie = back <= field ? find_cie(b, field - back) : NULL;
	uint64_t pc, len;

	if (!cie)
		goto skipped;
	pc = cfi_section__address(&b->section, &cursor, cie->shared.encoding);
	len = cursor__number(&cursor, cie->shared.encoding);
	if (cie->has_size)
		cursor__block(&cursor);
	if (cursor.broken)
		goto skipped;
	if (len == 0)
		return 0;
	if (pc < b->section.code_start || pc >= b->code_end || len > b->code_end - pc)
		goto skipped;

	if (VECTOR_RESERVE(b->fdes, b->fdes_room, b->n_fdes + 1))
		return -ENOMEM;
	b->fdes[b->n_fdes++] = (struct fde){
		.pc = pc - b->section.code_start,
		.end = pc + len - b->section.code_start,
		.program = cursor.pos - b->bytes,
		.program_end = cursor.end - b->bytes,
		.cie = cie - b->cies,
	};
	return 0;

skipped:
	b->table->skipped++;
	return 0;
}

/* Lists the entries. A length of 0 should end the section. But some linkers leave such an end in
 * the middle. The entries behind it are valid, and .eh_frame_hdr leads to them, so reading
 * continues. After a length beyond the section (also 0xffffffff, which announces a longer length)
 * reading cannot continue. */
static int read_entries(struct builder *b)
{
	size_t pos = 0;

	while (b->size - pos >= 4) {
		struct cursor cursor = {.pos = b->bytes + pos, .end = b->bytes + b->size};
		uint32_t len = cursor__bytes(&cursor, 4), id;
		int ret = 0;

		if (len > b->size - pos - 4) {
			b->table->skipped++;
			break;
		}
		cursor.end = cursor.pos + len;
		id = cursor__bytes(&cursor, 4);
		if (!cursor.broken)
			ret = id == 0 ? add_cie(b, pos, cursor) : add_fde(b, id, cursor);
		else if (len != 0)
			b->table->skipped++;
		if (ret)
			return ret;
		pos += 4 + (size_t)len;
	}
	return 0;
}

static int compare_fdes(const void *a, const void *b)
{
	const struct fde *x = a, *y = b;

	if (x->pc != y->pc)
		return x->pc < y->pc ? -1 : 1;
	return (x->program > y->program) - (x->program < y->program);
}

/* Adds a function's rows. from: the end of the previous function. Returns 0, -ENOMEM or -E2BIG. */
static int write_function(struct builder *b, const struct fde *fde, uint32_t from)
{
	struct cursor cursor = {.pos = b->bytes + fde->program, .end = b->bytes + fde->program_end};
	struct cfi_function function = {.pc = fde->pc, .end = fde->end, .from = from};
	int ret = cfi_function__run(&function, &b->section, &b->cies[fde->cie].shared, &cursor,
				    &b->rows);

	if (ret == -ENOEXEC) {
		b->table->skipped++;
		ret = unwind_rows__add(&b->rows, function.pc > from ? function.pc : from,
				       UNWIND_BAD);
	}
	return ret ? ret : unwind_rows__add(&b->rows, fde->end, UNWIND_NONE);
}

static int write_rows(struct builder *b)
{
	struct unwind_table *table = b->table;
	uint32_t end = 0;

	if (b->n_fdes)
		qsort(b->fdes, b->n_fdes, sizeof(*b->fdes), compare_fdes);
	for (size_t i = 0; i < b->n_fdes; i++) {
		const struct fde *fde = &b->fdes[i];
		int ret;

		if (fde->end <= end) {
			table->skipped++;
			continue;
		}
		ret = write_function(b, fde, end);
		if (ret)
			return ret;
		end = fde->end;
		table->fdes++;
	}
	return 0;
}

/* Fills the gaps between .eh_frame's rows with the rows of Go's code. 0, -ENOMEM, -E2BIG. */
static int add_go_code(struct builder *b, const struct elf_image *image)
{
	_cleanup_free_ struct unwind_row *ours = NULL, *go = NULL;
	uint32_t our_rule = UNWIND_NONE, go_rule = UNWIND_NONE;
	size_t n_ours = b->rows.n, n_go = 0;
	int ret = go_code__rows(image, b->section.code_start, b->rows.max, &go, &n_go);

	if (ret == -ENOENT)
		return 0;
	if (ret == -ENOMEM || ret == -E2BIG)
		return ret;
	if (ret) {
		b->table->skipped++;
		return 0;
	}
	ours = b->rows.rows;
	b->rows = (struct unwind_rows){.max = b->rows.max};
	for (size_t i = 0, j = 0; i < n_ours || j < n_go;) {
		uint64_t our_pc = i < n_ours ? ours[i].pc : UINT64_MAX;
		uint64_t go_pc = j < n_go ? go[j].pc : UINT64_MAX;

		if (our_pc <= go_pc)
			our_rule = ours[i++].rule;
		if (go_pc <= our_pc)
			go_rule = go[j++].rule;
		ret = unwind_rows__add(&b->rows, our_pc < go_pc ? our_pc : go_pc,
				       our_rule != UNWIND_NONE ? our_rule : go_rule);
		if (ret)
			return ret;
	}
	return 0;
}

/* Gives the rows to the table and releases the unused memory behind them. */
static void hand_over_rows(struct builder *b)
{
	struct unwind_row *smaller = NULL;

	if (b->rows.n)
		smaller = reallocarray(b->rows.rows, b->rows.n, sizeof(*smaller));
	b->table->rows = smaller ? smaller : b->rows.rows;
	b->table->n = b->rows.n;
	b->rows.rows = NULL;
}

static int build(struct builder *b, const struct elf_image *image, struct error *err)
{
	int ret = elf_image__read_eh_frame(image, &b->bytes, &b->size, &b->section.vaddr);

	if (ret && ret != -ENOENT)
		return error__set(err, ret, "cannot read .eh_frame: %s", strerror(-ret));
	if (ret && !elf_image__is_go(image))
		return 0;
	if (elf_image__code_span(image, &b->section.code_start, &b->code_end) != 0)
		return 0;
	if (b->code_end - b->section.code_start > UINT32_MAX)
		return error__set(err, -ERANGE, "the code spans more than 4 GiB");
	b->section.bytes = b->bytes;
	b->table->base = b->section.code_start;

	ret = read_entries(b);
	if (!ret)
		ret = write_rows(b);
	if (!ret)
		ret = add_go_code(b, image);
	if (ret == -E2BIG)
		return error__set(err, ret, "it makes more than %zu rows", b->rows.max);
	if (ret)
		return error__set(err, ret, "out of memory reading .eh_frame");
	hand_over_rows(b);
	for (size_t i = 0; i < b->table->n; i++)
		b->table->bad_rows += UNWIND_RULE_KIND(b->table->rows[i].rule) == UNWIND_BAD;
	if (b->table->n == 0 && b->table->skipped)
		return error__set(err, -ENOEXEC, ".eh_frame holds nothing that makes sense");
	return 0;
}

static void remove_row(struct unwind_table *table, size_t i)
{
	table->n--;
	memmove(&table->rows[i], &table->rows[i + 1], (table->n - i) * sizeof(table->rows[i]));
}

/* Returns the index of the first row above pc. The row before it has the rule for pc. */
static size_t first_above(const struct unwind_table *table, uint64_t pc)
{
	return SEARCH_FIRST(i, table->n, table->rows[i].pc > pc);
}

/* Gives the code at the entry the rule UNWIND_END if it has no rule. The kernel jumps to this code,
 * so the code has no caller. In .eh_frame, a program's _start has an undefined return address. But
 * the dynamic linker's _start is hand-written and has no unwind information. The code behind it,
 * which runs the constructors, has none either. */
static void mark_entry(struct unwind_table *table, uint64_t entry)
{
	uint64_t pc = entry - table->base;
	size_t next;

	if (!entry || entry < table->base || pc > UINT32_MAX)
		return;
	next = first_above(table, pc);
	if (!next || next == table->n ||
	    UNWIND_RULE_KIND(table->rows[next - 1].rule) != UNWIND_NONE)
		return;
	table->rows[next - 1].rule = UNWIND_END;
	/* Neighbouring rows must differ. */
	if (table->rows[next].rule == UNWIND_END)
		remove_row(table, next);
	if (next > 1 && table->rows[next - 2].rule == UNWIND_END)
		remove_row(table, next - 1);
}

int unwind_table__build(const struct elf_image *image, size_t max_rows, struct unwind_table **ret,
			struct error *err)
{
	struct builder b = {.rows.max = max_rows ? max_rows : DEFAULT_MAX_ROWS};
	int result;

	b.table = calloc(1, sizeof(*b.table));
	if (!b.table)
		return error__set(err, -ENOMEM, "out of memory reading .eh_frame");
	result = build(&b, image, err);
	if (!result)
		mark_entry(b.table, elf_image__entry(image));
	free(b.bytes);
	free(b.cies);
	free(b.fdes);
	free(b.rows.rows);
	if (result) {
		unwind_table__free(b.table);
		return result;
	}
	*ret = b.table;
	return 0;
}

void unwind_table__free(struct unwind_table *table)
{
	if (!table)
		return;
	free(table->rows);
	free(table);
}

uint32_t unwind_table__find(const struct unwind_table *table, uint64_t vaddr)
{
	uint64_t pc = vaddr - table->base;
	size_t next;

	if (vaddr < table->base || pc > UINT32_MAX)
		return UNWIND_NONE;
	next = first_above(table, pc);
	return next ? table->rows[next - 1].rule : UNWIND_NONE;
}
