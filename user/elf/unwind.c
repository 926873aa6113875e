// SPDX-License-Identifier: BSD-2-Clause
/* Running .eh_frame.
 *
 * The section is a list of entries. A CIE holds what many functions share: alignment factors, how
 * pointers are written, and the instructions that set up the state at a function's first byte. An
 * FDE names its CIE, a range of addresses, and instructions that change the state as the address
 * advances. The state says how to compute the CFA (the caller's rsp) and where each register of the
 * caller is found. Only rbp, rsp and the return address of these are followed here; rsp only to
 * notice the rare code where the caller's is not the CFA.
 *
 * The bytes are the target's and may lie. Each read goes through a cursor (elf/cursor.h) that
 * refuses to pass the end of its entry. Work and memory stay proportional to the section: entries
 * do not overlap, so each byte of an FDE is run once; the bytes of a CIE are run once too, however
 * many FDEs name it, and the state left behind is what is kept. Each row costs at least one byte of
 * instructions, each FDE gives at most two rows more.
 *
 * A program that breaks leaves UNWIND_BAD from where it broke to the end of its function. Numbers
 * too large for the packed rules are clamped where they are read, to values that are as unpackable:
 * no code downstream sees an overflow. */
#include "elf/unwind.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/cursor.h"
#include "elf/go_code.h"
#include "elf/unwind_rows.h"

#define DEFAULT_MAX_ROWS 16777216
#define MAX_REMEMBERED	 64 /* states on the stack; compilers nest one or two */
#define MAX_RBP_SLOT	 4095
#define MAX_CFA_OFF	 (65535 * 8)

#define DWARF_RBP 6
#define DWARF_RSP 7
#define DWARF_RA  16

/* How a register of the caller is found. */
enum how {
	HOW_UNSET, /* not mentioned: unchanged, where the ABI keeps it */
	HOW_SAME,
	HOW_UNDEFINED,
	HOW_OFFSET,	/* saved at CFA + off */
	HOW_VAL_OFFSET, /* is CFA + off */
	HOW_AT_RSP,	/* saved at rsp + off, by expression */
	HOW_OTHER,
};

enum cfa {
	CFA_UNSET,
	CFA_REG,    /* cfa_reg + cfa_off */
	CFA_AT_RSP, /* saved at rsp + cfa_off, by expression */
	CFA_PLT,
	CFA_OTHER,
};

enum followed { RBP, RSP, RA, N_FOLLOWED, NOT_FOLLOWED = N_FOLLOWED };

struct state {
	uint8_t cfa; /* enum cfa */
	uint8_t cfa_reg;
	uint8_t how[N_FOLLOWED]; /* enum how */
	int32_t cfa_off;
	int32_t off[N_FOLLOWED];
};

struct cie {
	uint32_t pos; /* of the entry in the section */
	bool sound;
	bool has_size;	  /* 'z': FDEs say how long their augmentation data is */
	bool is_signal;	  /* 'S' */
	uint8_t encoding; /* of pointers in FDEs */
	uint64_t code_align;
	int64_t data_align;
	struct state initial;
};

struct fde {
	uint32_t pc, end;	       /* relative to the table's base */
	uint32_t program, program_end; /* in the section */
	uint32_t cie;		       /* index */
};

struct builder {
	unsigned char *bytes;
	size_t size;
	uint64_t vaddr;
	uint64_t code_start, code_end;
	struct cie *cies; /* in ascending order of pos */
	size_t n_cies, cies_room;
	struct fde *fdes;
	size_t n_fdes, fdes_room;
	struct unwind_rows rows;
	struct unwind_table *table; /* gets the rows when all are made */
};

/* The function whose program runs; absent while a CIE's does. */
struct function {
	uint64_t pc, end;
	uint64_t from; /* rows begin here: what stands before belongs to the function before */
};

/* The address at which the cursor stands, in that encoding. */
static uint64_t read_address(const struct builder *b, struct cursor *cursor, uint8_t encoding)
{
	return cursor__address(cursor, encoding, b->vaddr + (cursor->pos - b->bytes));
}

/* --- rows ---------------------------------------------------------------------------------------
 */

/* The array of n with room for one more, perhaps elsewhere; NULL: out of memory, the array stays.
 */
static void *grow(void *array, size_t n, size_t *room, size_t size)
{
	size_t bigger = *room ? 2 * *room : 256;

	if (n < *room)
		return array;
	array = reallocarray(array, bigger, size);
	if (array)
		*room = bigger;
	return array;
}

/* glibc's __restore_rt, and any trampoline that describes itself like it: all comes from the
 * ucontext that rsp points to. */
static bool restores_ucontext(const struct state *state)
{
	/* struct ucontext_t: 40 bytes, then the registers in the order of <sys/ucontext.h> */
	const int rbp = 40 + 8 * 10, rsp = 40 + 8 * 15, rip = 40 + 8 * 16;

	return state->cfa == CFA_AT_RSP && state->cfa_off == rsp && state->how[RBP] == HOW_AT_RSP &&
	       state->off[RBP] == rbp && state->how[RA] == HOW_AT_RSP && state->off[RA] == rip &&
	       (state->how[RSP] == HOW_UNSET ||
		(state->how[RSP] == HOW_AT_RSP && state->off[RSP] == rsp));
}

static uint32_t pack(const struct cie *cie, const struct state *state)
{
	bool saved = state->how[RBP] == HOW_OFFSET;
	int32_t slot = saved ? -(state->off[RBP] / 8) : 0;

	if (state->how[RA] == HOW_UNDEFINED)
		return UNWIND_END;
	/* After any other signal frame the caller's pc is exact, which the plain kinds cannot say.
	 */
	if (cie->is_signal)
		return restores_ucontext(state) ? UNWIND_SIGNAL : UNWIND_BAD;
	if (state->how[RA] != HOW_OFFSET || state->off[RA] != -8)
		return UNWIND_BAD;
	if (state->how[RSP] != HOW_UNSET &&
	    (state->how[RSP] != HOW_VAL_OFFSET || state->off[RSP] != 0))
		return UNWIND_BAD;
	if (saved && (state->off[RBP] % 8 != 0 || slot < 1 || slot > MAX_RBP_SLOT))
		return UNWIND_BAD;
	if (!saved && state->how[RBP] != HOW_UNSET && state->how[RBP] != HOW_SAME)
		return UNWIND_BAD;

	if (state->cfa == CFA_PLT)
		return UNWIND_RULE(UNWIND_PLT, 0, saved, slot);
	if (state->cfa != CFA_REG || state->cfa_off < 0 || state->cfa_off > MAX_CFA_OFF ||
	    state->cfa_off % 8 != 0)
		return UNWIND_BAD;
	if (state->cfa_reg == DWARF_RSP)
		return UNWIND_RULE(UNWIND_SP, state->cfa_off, saved, slot);
	if (state->cfa_reg == DWARF_RBP)
		return UNWIND_RULE(UNWIND_BP, state->cfa_off, saved, slot);
	return UNWIND_BAD;
}

/* --- programs -----------------------------------------------------------------------------------
 */

static int32_t clamp(int64_t value)
{
	return value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value;
}

/* value times the data alignment factor. */
static int32_t factored(const struct cie *cie, int64_t value)
{
	int64_t product;

	return __builtin_mul_overflow(value, cie->data_align, &product) ? INT32_MAX
									: clamp(product);
}

/* An unsigned operand as a signed one; what does not fit is out of range in any case. */
static int64_t read_operand(struct cursor *cursor)
{
	uint64_t value = cursor__uleb(cursor);

	return value > INT64_MAX ? INT64_MAX : value;
}

static enum followed follow(uint64_t reg)
{
	switch (reg) {
	case DWARF_RBP:
		return RBP;
	case DWARF_RSP:
		return RSP;
	case DWARF_RA:
		return RA;
	default:
		return NOT_FOLLOWED;
	}
}

static void set_register(struct state *state, uint64_t reg, enum how how, int32_t off)
{
	enum followed i = follow(reg);

	if (i == NOT_FOLLOWED)
		return;
	state->how[i] = how;
	state->off[i] = off;
}

static void restore_register(const struct cie *cie, struct state *state, uint64_t reg)
{
	enum followed i = follow(reg);

	if (i != NOT_FOLLOWED)
		set_register(state, reg, cie->initial.how[i], cie->initial.off[i]);
}

static void set_cfa(struct state *state, enum cfa cfa, uint64_t reg, int32_t off)
{
	state->cfa = cfa;
	state->cfa_reg = reg > UINT8_MAX ? UINT8_MAX : reg;
	state->cfa_off = off;
}

/* "rsp + off", alone or followed by one more operation. */
static bool is_rsp_plus(struct cursor expr, int last, int32_t *ret_off)
{
	if (cursor__bytes(&expr, 1) != DW_OP_breg0 + DWARF_RSP)
		return false;
	*ret_off = clamp(cursor__sleb(&expr));
	if (last >= 0 && cursor__bytes(&expr, 1) != (uint64_t)last)
		return false;
	return !expr.broken && expr.pos == expr.end;
}

static void set_cfa_expression(struct state *state, struct cursor expr)
{
	/* What linkers write for a lazy .plt. Those for indirect branch tracking compare with
	 * another number than 11: another meaning, not this one. */
	static const unsigned char plt[] = {
		DW_OP_breg0 + DWARF_RSP,
		8,
		DW_OP_breg0 + DWARF_RA,
		0,
		DW_OP_lit15,
		DW_OP_and,
		DW_OP_lit11,
		DW_OP_ge,
		DW_OP_lit3,
		DW_OP_shl,
		DW_OP_plus,
	};
	int32_t off;

	if (expr.end - expr.pos == sizeof(plt) && memcmp(expr.pos, plt, sizeof(plt)) == 0)
		set_cfa(state, CFA_PLT, 0, 0);
	else if (is_rsp_plus(expr, DW_OP_deref, &off))
		set_cfa(state, CFA_AT_RSP, 0, off);
	else
		set_cfa(state, CFA_OTHER, 0, 0);
}

static void set_expression(struct state *state, uint64_t reg, struct cursor expr)
{
	int32_t off;

	if (is_rsp_plus(expr, -1, &off))
		set_register(state, reg, HOW_AT_RSP, off);
	else
		set_register(state, reg, HOW_OTHER, 0);
}

/* The state held up to pc: writes its row. function->pc == function->end afterwards: no more to do.
 */
static int advance_to(struct builder *b, const struct cie *cie, struct function *function,
		      const struct state *state, uint64_t pc)
{
	uint64_t from = function->pc > function->from ? function->pc : function->from;

	if (pc < function->pc)
		return -ENOEXEC;
	function->pc = pc < function->end ? pc : function->end;
	return function->pc > from ? unwind_rows__add(&b->rows, from, pack(cie, state)) : 0;
}

static int advance_by(struct builder *b, const struct cie *cie, struct function *function,
		      const struct state *state, uint64_t delta)
{
	uint64_t pc;

	if (__builtin_mul_overflow(delta, cie->code_align, &pc) ||
	    __builtin_add_overflow(pc, function->pc, &pc))
		pc = UINT64_MAX;
	return advance_to(b, cie, function, state, pc);
}

/* Instructions that change the state at one address. 0 or -ENOEXEC. */
static int change_state(const struct cie *cie, struct cursor *cursor, uint8_t op,
			struct state *state)
{
	uint64_t reg;

	switch (op & 0xc0) {
	case DW_CFA_offset:
		set_register(state, op & 0x3f, HOW_OFFSET, factored(cie, read_operand(cursor)));
		return 0;
	case DW_CFA_restore:
		restore_register(cie, state, op & 0x3f);
		return 0;
	}

	switch (op) {
	case DW_CFA_nop:
		return 0;
	case DW_CFA_GNU_args_size:
		cursor__uleb(cursor);
		return 0;
	case DW_CFA_offset_extended:
		reg = cursor__uleb(cursor);
		set_register(state, reg, HOW_OFFSET, factored(cie, read_operand(cursor)));
		return 0;
	case DW_CFA_offset_extended_sf:
		reg = cursor__uleb(cursor);
		set_register(state, reg, HOW_OFFSET, factored(cie, cursor__sleb(cursor)));
		return 0;
	case DW_CFA_GNU_negative_offset_extended:
		reg = cursor__uleb(cursor);
		set_register(state, reg, HOW_OFFSET, factored(cie, -read_operand(cursor)));
		return 0;
	case DW_CFA_val_offset:
		reg = cursor__uleb(cursor);
		set_register(state, reg, HOW_VAL_OFFSET, factored(cie, read_operand(cursor)));
		return 0;
	case DW_CFA_val_offset_sf:
		reg = cursor__uleb(cursor);
		set_register(state, reg, HOW_VAL_OFFSET, factored(cie, cursor__sleb(cursor)));
		return 0;
	case DW_CFA_restore_extended:
		restore_register(cie, state, cursor__uleb(cursor));
		return 0;
	case DW_CFA_undefined:
		set_register(state, cursor__uleb(cursor), HOW_UNDEFINED, 0);
		return 0;
	case DW_CFA_same_value:
		set_register(state, cursor__uleb(cursor), HOW_SAME, 0);
		return 0;
	case DW_CFA_register:
		reg = cursor__uleb(cursor);
		cursor__uleb(cursor);
		set_register(state, reg, HOW_OTHER, 0);
		return 0;
	case DW_CFA_expression:
		reg = cursor__uleb(cursor);
		set_expression(state, reg, cursor__block(cursor));
		return 0;
	case DW_CFA_val_expression:
		reg = cursor__uleb(cursor);
		cursor__block(cursor);
		set_register(state, reg, HOW_OTHER, 0);
		return 0;
	case DW_CFA_def_cfa:
		reg = cursor__uleb(cursor);
		set_cfa(state, CFA_REG, reg, clamp(read_operand(cursor)));
		return 0;
	case DW_CFA_def_cfa_sf:
		reg = cursor__uleb(cursor);
		set_cfa(state, CFA_REG, reg, factored(cie, cursor__sleb(cursor)));
		return 0;
	case DW_CFA_def_cfa_expression:
		set_cfa_expression(state, cursor__block(cursor));
		return 0;
	}

	/* These change one half of "register plus offset", so there must be one. */
	if (state->cfa != CFA_REG)
		return -ENOEXEC;
	switch (op) {
	case DW_CFA_def_cfa_register:
		set_cfa(state, CFA_REG, cursor__uleb(cursor), state->cfa_off);
		return 0;
	case DW_CFA_def_cfa_offset:
		state->cfa_off = clamp(read_operand(cursor));
		return 0;
	case DW_CFA_def_cfa_offset_sf:
		state->cfa_off = factored(cie, cursor__sleb(cursor));
		return 0;
	}
	return -ENOEXEC;
}

/* Runs a program; function is NULL for a CIE's, which may not advance. 0; -ENOEXEC when it breaks,
 * at function->pc; -ENOMEM; -E2BIG. */
static int run(struct builder *b, const struct cie *cie, struct cursor *cursor,
	       struct function *function, struct state *state)
{
	struct state remembered[MAX_REMEMBERED];
	size_t depth = 0;

	while (cursor->pos < cursor->end && (!function || function->pc < function->end)) {
		uint8_t op = cursor__bytes(cursor, 1);
		bool advances = true;
		uint64_t operand = 0;
		int ret;

		switch (op) {
		case DW_CFA_set_loc:
			operand = read_address(b, cursor, cie->encoding);
			cursor->broken |= operand < b->code_start;
			operand -= b->code_start;
			break;
		case DW_CFA_advance_loc1:
			operand = cursor__bytes(cursor, 1);
			break;
		case DW_CFA_advance_loc2:
			operand = cursor__bytes(cursor, 2);
			break;
		case DW_CFA_advance_loc4:
			operand = cursor__bytes(cursor, 4);
			break;
		default:
			advances = (op & 0xc0) == DW_CFA_advance_loc;
			operand = op & 0x3f;
		}

		if (advances) {
			if (!function || cursor->broken)
				return -ENOEXEC;
			ret = (op == DW_CFA_set_loc ? advance_to : advance_by)(b, cie, function,
									       state, operand);
		} else if (op == DW_CFA_remember_state) {
			if (depth == MAX_REMEMBERED)
				return -ENOEXEC;
			remembered[depth++] = *state;
			ret = 0;
		} else if (op == DW_CFA_restore_state) {
			if (depth == 0)
				return -ENOEXEC;
			*state = remembered[--depth];
			ret = 0;
		} else {
			ret = change_state(cie, cursor, op, state);
		}
		if (ret)
			return ret;
		if (cursor->broken)
			return -ENOEXEC;
	}
	return 0;
}

/* --- entries ------------------------------------------------------------------------------------
 */

/* What each letter of the augmentation string says; the cursor stands at the augmentation data. */
static bool read_augmentation(struct cie *cie, const char *letters, struct cursor data)
{
	for (; *letters; letters++) {
		uint8_t encoding;

		switch (*letters) {
		case 'R':
			cie->encoding = cursor__bytes(&data, 1);
			break;
		case 'P':
			encoding = cursor__bytes(&data, 1);
			/* DW_EH_PE_aligned would need the address; it is not used on x86-64. */
			if ((encoding & 0x70) == DW_EH_PE_aligned)
				return false;
			cursor__number(&data, encoding);
			break;
		case 'L':
			cursor__bytes(&data, 1);
			break;
		case 'S':
			cie->is_signal = true;
			break;
		default:
			return false;
		}
	}
	return !data.broken;
}

static bool read_cie(struct builder *b, struct cie *cie, struct cursor cursor)
{
	uint64_t version = cursor__bytes(&cursor, 1);
	const char *letters = (const char *)cursor.pos;
	struct state state = {0};
	uint64_t ra;

	if (cursor.broken || (version != 1 && version != 3) ||
	    !memchr(letters, '\0', cursor.end - cursor.pos))
		return false;
	cursor__skip(&cursor, strlen(letters) + 1);
	cie->code_align = cursor__uleb(&cursor);
	cie->data_align = cursor__sleb(&cursor);
	ra = version == 1 ? cursor__bytes(&cursor, 1) : cursor__uleb(&cursor);
	if (cursor.broken || ra != DWARF_RA)
		return false;
	if (*letters) {
		cie->has_size = *letters == 'z';
		if (!cie->has_size || !read_augmentation(cie, letters + 1, cursor__block(&cursor)))
			return false;
	}
	if (cursor.broken || run(b, cie, &cursor, NULL, &state) != 0)
		return false;
	cie->initial = state;
	return true;
}

static int add_cie(struct builder *b, size_t pos, struct cursor cursor)
{
	struct cie cie = {.pos = pos};
	struct cie *cies;

	cie.sound = read_cie(b, &cie, cursor);
	if (!cie.sound)
		b->table->skipped++;
	cies = grow(b->cies, b->n_cies, &b->cies_room, sizeof(*cies));
	if (!cies)
		return -ENOMEM;
	b->cies = cies;
	cies[b->n_cies++] = cie;
	return 0;
}

static int compare_cies(const void *a, const void *b)
{
	uint32_t x = ((const struct cie *)a)->pos, y = ((const struct cie *)b)->pos;

	return (x > y) - (x < y);
}

/* The CIE at pos, NULL when no sound one begins there. */
static const struct cie *find_cie(const struct builder *b, size_t pos)
{
	struct cie key = {.pos = pos};
	const struct cie *cie;

	if (b->n_cies == 0)
		return NULL;
	cie = bsearch(&key, b->cies, b->n_cies, sizeof(key), compare_cies);
	return cie && cie->sound ? cie : NULL;
}

/* back: how far in front of the field that says so (4 bytes in front of cursor) the CIE stands. */
static int add_fde(struct builder *b, uint32_t back, struct cursor cursor)
{
	size_t field = cursor.pos - b->bytes - 4;
	const struct cie *cie = back <= field ? find_cie(b, field - back) : NULL;
	struct fde *fdes;
	uint64_t pc, len;

	if (!cie)
		goto skipped;
	pc = read_address(b, &cursor, cie->encoding);
	len = cursor__number(&cursor, cie->encoding);
	if (cie->has_size)
		cursor__block(&cursor);
	if (cursor.broken)
		goto skipped;
	if (len == 0)
		return 0;
	if (pc < b->code_start || pc >= b->code_end || len > b->code_end - pc)
		goto skipped;

	fdes = grow(b->fdes, b->n_fdes, &b->fdes_room, sizeof(*fdes));
	if (!fdes)
		return -ENOMEM;
	b->fdes = fdes;
	fdes[b->n_fdes++] = (struct fde){
		.pc = pc - b->code_start,
		.end = pc + len - b->code_start,
		.program = cursor.pos - b->bytes,
		.program_end = cursor.end - b->bytes,
		.cie = cie - b->cies,
	};
	return 0;

skipped:
	b->table->skipped++;
	return 0;
}

/* Lists the entries. A length of 0 ends the section; but some link editors leave such an end in the
 * middle, and what stands behind it is found through .eh_frame_hdr and valid. A length beyond the
 * section (also 0xffffffff, which announces a longer one) leaves no way to go on. */
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

/* from: where the function before ends. 0, -ENOMEM, -E2BIG. */
static int write_function(struct builder *b, const struct fde *fde, uint32_t from)
{
	const struct cie *cie = &b->cies[fde->cie];
	struct cursor cursor = {.pos = b->bytes + fde->program, .end = b->bytes + fde->program_end};
	struct function function = {.pc = fde->pc, .end = fde->end, .from = from};
	struct state state = cie->initial;
	int ret = run(b, cie, &cursor, &function, &state);

	if (ret == 0) {
		ret = advance_to(b, cie, &function, &state, fde->end);
	} else if (ret == -ENOEXEC) {
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

/* Fills the gaps of .eh_frame's rows with those of Go's code. 0, -ENOMEM, -E2BIG. */
static int add_go_code(struct builder *b, const struct elf_image *image)
{
	_cleanup_free_ struct unwind_row *ours = NULL, *go = NULL;
	uint32_t our_rule = UNWIND_NONE, go_rule = UNWIND_NONE;
	size_t n_ours = b->rows.n, n_go = 0;
	int ret = go_code__rows(image, b->code_start, b->rows.max, &go, &n_go);

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

/* Gives the rows to the table, without the room behind them. */
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
	int ret = elf_image__read_eh_frame(image, &b->bytes, &b->size, &b->vaddr);

	if (ret && ret != -ENOENT)
		return error__set(err, ret, "cannot read .eh_frame: %s", strerror(-ret));
	if (ret && !elf_image__is_go(image))
		return 0;
	if (elf_image__code_span(image, &b->code_start, &b->code_end) != 0)
		return 0;
	if (b->code_end - b->code_start > UINT32_MAX)
		return error__set(err, -ERANGE, "the code spans more than 4 GiB");
	b->table->base = b->code_start;

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

/* What the kernel jumps to has no caller. A program's _start says so itself; the dynamic linker's
 * is hand-written and says nothing, nor does the code behind it that runs the constructors. */
static void mark_entry(struct unwind_table *table, uint64_t entry)
{
	size_t low = 0, high = table->n;
	uint64_t pc = entry - table->base;

	if (!entry || entry < table->base || pc > UINT32_MAX)
		return;
	while (low < high) { /* the first row above pc */
		size_t middle = low + (high - low) / 2;

		if (table->rows[middle].pc <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || low == table->n || UNWIND_RULE_KIND(table->rows[low - 1].rule) != UNWIND_NONE)
		return;
	table->rows[low - 1].rule = UNWIND_END;
	/* Neighbours differ. */
	if (table->rows[low].rule == UNWIND_END)
		remove_row(table, low);
	if (low > 1 && table->rows[low - 2].rule == UNWIND_END)
		remove_row(table, low - 1);
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
	size_t low = 0, high = table->n;

	if (vaddr < table->base || pc > UINT32_MAX)
		return UNWIND_NONE;
	/* rows[low - 1].pc <= pc < rows[high].pc, where they exist */
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (table->rows[mid].pc <= pc)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? table->rows[low - 1].rule : UNWIND_NONE;
}
