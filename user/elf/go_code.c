// SPDX-License-Identifier: BSD-2-Clause
/* Go's functions and the stacks they run on.
 *
 * A goroutine has its own stack, which is moved to a larger place when it is full. C code needs a
 * real stack: runtime.asmcgocall switches to the thread's stack, "g0", and calls C there. When C
 * calls back, runtime.cgocallback switches to the goroutine's stack again. The frame pointers lead
 * through all these stacks, with these exceptions:
 *
 * runtime.asmcgocall: Go adjusts the frame pointers inside a stack that it moves. But some frame
 * pointers that lead into this stack are in registers or in C's frames on g0. Go cannot adjust
 * these. If the stack moves during a callback, such frame pointers then point to memory that may
 * have another use. For its own return asmcgocall saves the goroutine and the depth of the
 * goroutine's stack; the walk continues from these two values (UNWIND_GO_SWITCH). The place of the
 * two saved values differs between versions of Go, so it is taken from the instructions that read
 * them.
 *
 * runtime.cgocall, the caller of asmcgocall: asmcgocall restores rsp. When asmcgocall has no frame
 * of its own (before Go 1.21), it does not restore rbp, which stays as C left it and may be stale.
 * So the rule of cgocall uses rsp, and .gopclntab tells the distance from rsp to the return
 * address. rbp is saved at the frame's upper end, as in all of Go's frames.
 *
 * crosscall2, through which C calls back: since Go 1.21 it holds two frames, and the inner one has
 * no return address. So the rule of crosscall2 uses rsp, too.
 *
 * Functions that Go marks as the first of a stack: runtime.mstart, runtime.rt0_go, and
 * runtime.goexit, to which a goroutine's first frame returns. The walk ends at such a function.
 *
 * C code that Go's own linker included (it does so only for Go's standard library): .gopclntab
 * lists this code without the changes of rsp. The code has no frame pointers, and its .eh_frame is
 * lost, so there is no rule.
 *
 * The table .gopclntab, versions 1.18 and 1.20 (src/runtime/symtab.go), has these parts. The header
 * says where Go's code begins and where in the table the parts begin. "functab" has the offset of
 * each function, in ascending order, and with it the offset of the function's description. Another
 * part has the names. "pctab" has pairs of numbers for each function. The first number says by how
 * much the distance of rsp from the return address changes. The second says for how many bytes of
 * code the distance then stays the same. */
#include "elf/go_code.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/unwind_rows.h"

#define MAGIC_118 0xfffffff0
#define MAGIC_120 0xfffffff1

#define HEADER_BYTES 72
#define TEXT_START   24 /* offset of the field in the header */
/* A file has one header. At most this many places that look like a header are tried, because each
 * try may read all relocations. */
#define MAX_HEADERS  16
#define FUNCTION_TOP 1 /* flag of a function: the function is the first one of its stack */

struct table {
	const unsigned char *bytes; /* the table's bytes, beginning with the header */
	uint64_t size;
	uint64_t text;	    /* vaddr of Go's code */
	uint64_t functions; /* offset of functab */
	uint64_t n_functions;
	uint64_t names, pctab;
	uint64_t flag_off; /* offset of the flags in a function's description */
};

struct rows {
	uint64_t base; /* vaddr of pc 0 */
	struct unwind_rows made;
};

struct function {
	uint64_t start, end; /* vaddrs */
	uint32_t name;	     /* offset of its name in the part with the names */
	uint32_t rsp;	     /* offset of its pairs in pctab; 0: it has none */
	uint8_t flags;
};

static uint64_t number_at(const unsigned char *bytes, size_t len)
{
	uint64_t value = 0;

	memcpy(&value, bytes, len);
	return value;
}

/* --- the table ----------------------------------------------------------------------------------
 */

static bool is_header(const unsigned char *bytes)
{
	uint32_t magic = number_at(bytes, 4);

	/* behind the magic: two zeros, the least size of an instruction, the size of a pointer */
	return (magic == MAGIC_118 || magic == MAGIC_120) && number_at(bytes + 4, 4) == 0x08010000;
}

/* The section .rela.dyn. A hostile file may have many headers, and a section of 256 MiB. So the
 * section is read once, when the first header needs it. */
struct relocations {
	unsigned char *bytes; /* owned */
	size_t size;
	bool read;
};

static void free_relocations(struct relocations *relocations)
{
	free(relocations->bytes);
}

/* Returns the address that the dynamic linker will write to vaddr of a position-independent file:
 * the addend of a relocation. 0: there is none. */
static uint64_t relocated(const struct elf_image *image, struct relocations *relocations,
			  uint64_t vaddr)
{
	uint64_t at;

	if (!relocations->read && elf_image__read_section(image, ".rela.dyn", &relocations->bytes,
							  &relocations->size, &at) != 0)
		relocations->size = 0;
	relocations->read = true;
	for (size_t i = 0; i + sizeof(Elf64_Rela) <= relocations->size; i += sizeof(Elf64_Rela)) {
		Elf64_Rela rela;

		memcpy(&rela, relocations->bytes + i, sizeof(rela));
		if (rela.r_offset == vaddr && ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE)
			return rela.r_addend;
	}
	return 0;
}

/* Reads the header of .gopclntab, which stands at vaddr. Returns 0, -ENOTSUP or -ENOEXEC. */
static int read_header(const struct elf_image *image, struct relocations *relocations,
		       const unsigned char *bytes, uint64_t size, uint64_t vaddr,
		       struct table *table)
{
	if (size < HEADER_BYTES || !is_header(bytes))
		return -ENOTSUP;
	table->bytes = bytes;
	table->size = size;
	table->n_functions = number_at(bytes + 8, 8);
	table->text = number_at(bytes + TEXT_START, 8);
	table->names = number_at(bytes + 32, 8);
	table->pctab = number_at(bytes + 56, 8);
	table->functions = number_at(bytes + 64, 8);
	table->flag_off = number_at(bytes, 4) == MAGIC_118 ? 37 : 41;
	if (!table->text)
		table->text = relocated(image, relocations, vaddr + TEXT_START);
	if (!table->text)
		return -ENOTSUP;
	/* Behind the last function, functab has half an entry more: the last function's end. */
	if (table->names > size || table->pctab > size || table->functions > size ||
	    size - table->functions < 4 || table->n_functions > (size - table->functions - 4) / 8)
		return -ENOEXEC;
	return 0;
}

/* Finds .gopclntab: in its own section, or anywhere in the relocated constants (.data.rel.ro). The
 * caller frees *ret_bytes, also after an error. */
static int read_table(const struct elf_image *image, unsigned char **ret_bytes, struct table *table)
{
	_cleanup_(free_relocations) struct relocations relocations = {};
	uint64_t vaddr;
	size_t size;
	int err, n = 0;

	err = elf_image__read_section(image, ".gopclntab", ret_bytes, &size, &vaddr);
	if (!err)
		return read_header(image, &relocations, *ret_bytes, size, vaddr, table);
	if (err != -ENOENT)
		return err;
	err = elf_image__read_section(image, ".data.rel.ro", ret_bytes, &size, &vaddr);
	if (err)
		return err == -ENOENT ? -ENOTSUP : err;
	for (size_t i = 0; i + HEADER_BYTES <= size && n < MAX_HEADERS; i += 8) {
		if (!is_header(*ret_bytes + i))
			continue;
		n++;
		err = read_header(image, &relocations, *ret_bytes + i, size - i, vaddr + i, table);
		if (!err)
			return 0;
	}
	return -ENOTSUP;
}

/* Reads function i < n_functions. 0 or -ENOEXEC. */
static int read_function(const struct table *table, uint64_t i, struct function *ret)
{
	const unsigned char *entry = table->bytes + table->functions + 8 * i;
	uint64_t off = table->functions + number_at(entry + 4, 4);

	ret->start = table->text + number_at(entry, 4);
	ret->end = table->text + number_at(entry + 8, 4);
	if (ret->end < ret->start || off > table->size || table->size - off <= table->flag_off)
		return -ENOEXEC;
	ret->name = number_at(table->bytes + off + 4, 4);
	ret->rsp = number_at(table->bytes + off + 16, 4);
	ret->flags = table->bytes[off + table->flag_off];
	return 0;
}

static bool is_called(const struct table *table, const struct function *function, const char *name)
{
	uint64_t off = table->names + function->name;

	return off < table->size && table->size - off > strlen(name) &&
	       memcmp(table->bytes + off, name, strlen(name) + 1) == 0;
}

/* --- rows ---------------------------------------------------------------------------------------
 */

/* Adds a row. 0; -ENOEXEC when vaddr is out of order or range; -E2BIG, -ENOMEM. */
static int add_row(struct rows *rows, uint64_t vaddr, uint32_t rule)
{
	const struct unwind_rows *made = &rows->made;
	uint64_t pc = vaddr - rows->base;

	if (vaddr < rows->base || pc > UINT32_MAX || (made->n && pc < made->rows[made->n - 1].pc))
		return -ENOEXEC;
	return unwind_rows__add(&rows->made, pc, rule);
}

/* Reads a number with seven bits in each byte, the lowest first. False: there is none. */
static bool read_varint(const struct table *table, uint64_t *off, uint32_t *ret)
{
	*ret = 0;
	for (unsigned int shift = 0; shift < 32 && *off < table->size; shift += 7) {
		unsigned char byte = table->bytes[(*off)++];

		*ret |= (uint32_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* Adds rows that use rsp, as far as the function's pairs in pctab reach. */
static int add_rows_by_rsp(struct rows *rows, const struct table *table,
			   const struct function *function)
{
	uint64_t off = table->pctab + function->rsp, vaddr = function->start;
	int64_t distance = -1; /* distance of rsp from the return address */
	uint32_t change, bytes;
	int err = 0;

	while (!err && vaddr < function->end && read_varint(table, &off, &change) &&
	       read_varint(table, &off, &bytes) && bytes) {
		uint32_t rule = UNWIND_BAD;

		distance += (int32_t)(change & 1 ? ~(change >> 1) : change >> 1);
		if (distance >= 0 && distance < 65535 * 8 && distance % 8 == 0)
			rule = UNWIND_RULE(UNWIND_SP, distance + 8, distance > 0,
					   distance > 0 ? 2 : 0);
		err = add_row(rows, vaddr, rule);
		vaddr += bytes;
	}
	return err;
}

/* Matches "mov disp(%rsp), reg" or "sub disp(%rsp), reg": op tells which of the two. Sets *ret to
 * disp. Returns the length of the instruction, or 0 when it is another one. */
static size_t match_rsp_operand(const unsigned char *code, uint8_t op, uint8_t reg, uint8_t *ret)
{
	if (code[0] != 0x48 || code[1] != op || (code[2] & 0x3f) != (reg << 3 | 4) ||
	    code[3] != 0x24)
		return 0;
	*ret = code[2] >> 6 == 1 ? code[4] : 0;
	return code[2] >> 6 == 1 ? 5 : code[2] >> 6 == 0 ? 4 : 0;
}

/* Returns the rule of asmcgocall, read from its instructions; UNWIND_GO_FRAME when these
 * instructions are not as expected. */
static uint32_t switch_rule(const struct elf_image *image, const struct function *function)
{
	static const unsigned char high[] = {0x48, 0x8b, 0x77, 8}; /* mov 8(%rdi), %rsi */
	static const unsigned char frame[] = {0x55, 0x48, 0x89,
					      0xe5}; /* push %rbp; mov %rsp, %rbp */
	enum { RSI = 6, RDI = 7, MOV = 0x8b, SUB = 0x2b };
	unsigned char code[512] = {0};
	uint8_t g_off, depth_off;
	long n;

	n = function->end - function->start;
	n = elf_image__read_code(image, function->start, code, n < 512 ? n : 512);
	for (long i = 0; i + 14 <= n; i++) {
		size_t len = match_rsp_operand(code + i, MOV, RDI, &g_off);

		if (!len || memcmp(code + i + len, high, sizeof(high)) != 0 ||
		    !match_rsp_operand(code + i + len + sizeof(high), SUB, RSI, &depth_off))
			continue;
		if (g_off % 8 || depth_off % 8 || g_off == depth_off || g_off > 127 ||
		    depth_off > 127)
			break;
		return UNWIND_GO_SWITCH(g_off, depth_off, memcmp(code, frame, sizeof(frame)) == 0);
	}
	return UNWIND_GO_FRAME;
}

static int add_function(struct rows *rows, const struct elf_image *image, const struct table *table,
			const struct function *function)
{
	uint32_t rule = UNWIND_GO_FRAME;
	int err;

	if (function->flags & FUNCTION_TOP)
		rule = UNWIND_END;
	else if (!function->rsp)
		rule = UNWIND_NONE;
	else if (is_called(table, function, "runtime.asmcgocall"))
		rule = switch_rule(image, function);
	err = add_row(rows, function->start, rule);
	if (!err && rule == UNWIND_GO_FRAME &&
	    (is_called(table, function, "runtime.cgocall") ||
	     is_called(table, function, "crosscall2")))
		err = add_rows_by_rsp(rows, table, function);
	return err;
}

int go_code__rows(const struct elf_image *image, uint64_t base, size_t max_rows,
		  struct unwind_row **ret_rows, size_t *ret_n)
{
	struct rows rows = {.base = base, .made.max = max_rows};
	_cleanup_free_ unsigned char *bytes = NULL;
	struct function function = {0};
	struct table table = {0};
	int err;

	if (!elf_image__is_go(image))
		return -ENOENT;
	err = read_table(image, &bytes, &table);
	for (uint64_t i = 0; !err && i < table.n_functions; i++) {
		err = read_function(&table, i, &function);
		if (!err)
			err = add_function(&rows, image, &table, &function);
	}
	if (!err && rows.made.n)
		err = add_row(&rows, function.end, UNWIND_NONE);
	if (err) {
		free(rows.made.rows);
		return err;
	}
	*ret_rows = rows.made.rows;
	*ret_n = rows.made.n;
	return 0;
}
