// SPDX-License-Identifier: BSD-2-Clause
/* If a number is too large for the packed rules, it is clamped when it is read. The clamped value
 * is too large to be packed, too. So no later code sees an overflow. */
#include "elf/cfi.h"

#include <dwarf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define MAX_REMEMBERED 64 /* at most this many states are remembered; compilers need one or two */
#define MAX_RBP_SLOT   4095
#define MAX_CFA_OFF    (65535 * 8)

#define DWARF_RBP 6
#define DWARF_RSP 7

/* How a register of the caller is found. */
enum how {
	HOW_UNSET, /* no rule yet: a register that the ABI preserves is unchanged */
	HOW_SAME,
	HOW_UNDEFINED,
	HOW_OFFSET,	/* saved at CFA + off */
	HOW_VAL_OFFSET, /* the register's value is CFA + off */
	HOW_AT_RSP,	/* saved at rsp + off, by expression */
	HOW_AT_RBP,	/* saved at rbp + off, by expression */
	HOW_OTHER,
};

enum cfa {
	CFA_UNSET,
	CFA_REG,    /* cfa_reg + cfa_off */
	CFA_AT_RSP, /* saved at rsp + cfa_off, by expression */
	CFA_AT_RBP, /* saved at rbp + cfa_off, by expression */
	CFA_PLT,
	CFA_OTHER,
};

/* --- rules --------------------------------------------------------------------------------------
 */

/* Does the state describe glibc's __restore_rt, or a trampoline like it? In such code all registers
 * come from the ucontext that rsp points to. */
static bool restores_ucontext(const struct cfi_state *state)
{
	/* struct ucontext_t: 40 bytes, then the registers in the order of <sys/ucontext.h> */
	const int rbp = 40 + 8 * 10, rsp = 40 + 8 * 15, rip = 40 + 8 * 16;

	return state->cfa == CFA_AT_RSP && state->cfa_off == rsp &&
	       state->how[CFI_RBP] == HOW_AT_RSP && state->off[CFI_RBP] == rbp &&
	       state->how[CFI_RA] == HOW_AT_RSP && state->off[CFI_RA] == rip &&
	       (state->how[CFI_RSP] == HOW_UNSET ||
		(state->how[CFI_RSP] == HOW_AT_RSP && state->off[CFI_RSP] == rsp));
}

static uint32_t pack(const struct cfi_cie *cie, const struct cfi_state *state)
{
	bool saved = state->how[CFI_RBP] == HOW_OFFSET;
	int32_t slot = saved ? -(state->off[CFI_RBP] / 8) : 0;

	if (state->how[CFI_RA] == HOW_UNDEFINED)
		return UNWIND_END;
	/* Behind a signal frame, the caller's pc is the interrupted instruction itself, not a
	 * return address. UNWIND_SIGNAL is the only kind of rule with this meaning. */
	if (cie->is_signal)
		return restores_ucontext(state) ? UNWIND_SIGNAL : UNWIND_BAD;
	if (state->how[CFI_RA] != HOW_OFFSET || state->off[CFI_RA] != -8)
		return UNWIND_BAD;
	if (state->how[CFI_RSP] != HOW_UNSET &&
	    (state->how[CFI_RSP] != HOW_VAL_OFFSET || state->off[CFI_RSP] != 0))
		return UNWIND_BAD;
	if (state->cfa == CFA_AT_RBP)
		return state->how[CFI_RBP] == HOW_AT_RBP && !state->off[CFI_RBP] &&
				       state->cfa_off < 0 && state->cfa_off >= -MAX_CFA_OFF &&
				       state->cfa_off % 8 == 0
			       ? UNWIND_REALIGNED(-state->cfa_off)
			       : UNWIND_BAD;
	if (saved && (state->off[CFI_RBP] % 8 != 0 || slot < 1 || slot > MAX_RBP_SLOT))
		return UNWIND_BAD;
	if (!saved && state->how[CFI_RBP] != HOW_UNSET && state->how[CFI_RBP] != HOW_SAME)
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

/* Returns value times the data alignment factor. */
static int32_t factored(const struct cfi_cie *cie, int64_t value)
{
	int64_t product;

	return __builtin_mul_overflow(value, cie->data_align, &product) ? INT32_MAX
									: clamp(product);
}

/* Reads an unsigned operand as a signed number. A value that does not fit becomes INT64_MAX, which
 * is out of range in any case. */
static int64_t read_operand(struct cursor *cursor)
{
	uint64_t value = cursor__uleb(cursor);

	return value > INT64_MAX ? INT64_MAX : value;
}

/* Returns the index of reg among the followed registers; CFI_FOLLOWED: reg is not followed. */
static enum cfi_followed follow(uint64_t reg)
{
	switch (reg) {
	case DWARF_RBP:
		return CFI_RBP;
	case DWARF_RSP:
		return CFI_RSP;
	case CFI_RETURN_ADDRESS:
		return CFI_RA;
	default:
		return CFI_FOLLOWED;
	}
}

static void set_register(struct cfi_state *state, uint64_t reg, enum how how, int32_t off)
{
	enum cfi_followed i = follow(reg);

	if (i == CFI_FOLLOWED)
		return;
	state->how[i] = how;
	state->off[i] = off;
}

static void restore_register(const struct cfi_cie *cie, struct cfi_state *state, uint64_t reg)
{
	enum cfi_followed i = follow(reg);

	if (i != CFI_FOLLOWED)
		set_register(state, reg, cie->initial.how[i], cie->initial.off[i]);
}

static void set_cfa(struct cfi_state *state, enum cfa cfa, uint64_t reg, int32_t off)
{
	state->cfa = cfa;
	state->cfa_reg = reg > UINT8_MAX ? UINT8_MAX : reg;
	state->cfa_off = off;
}

/* Is expr "reg + off", followed by the operation `last` (-1: by no operation)? */
static bool is_register_plus(struct cursor expr, int reg, int last, int32_t *ret_off)
{
	if (cursor__bytes(&expr, 1) != DW_OP_breg0 + (uint64_t)reg)
		return false;
	*ret_off = clamp(cursor__sleb(&expr));
	if (last >= 0 && cursor__bytes(&expr, 1) != (uint64_t)last)
		return false;
	return !expr.broken && expr.pos == expr.end;
}

static void set_cfa_expression(struct cfi_state *state, struct cursor expr)
{
	/* The expression that linkers write for a lazy .plt. A .plt for indirect branch tracking
	 * has an expression that compares with a number other than 11. That expression has another
	 * meaning, so it must not be taken for the first one. */
	static const unsigned char plt[] = {
		DW_OP_breg0 + DWARF_RSP,
		8,
		DW_OP_breg0 + CFI_RETURN_ADDRESS,
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
	else if (is_register_plus(expr, DWARF_RSP, DW_OP_deref, &off))
		set_cfa(state, CFA_AT_RSP, 0, off);
	else if (is_register_plus(expr, DWARF_RBP, DW_OP_deref, &off))
		set_cfa(state, CFA_AT_RBP, 0, off);
	else
		set_cfa(state, CFA_OTHER, 0, 0);
}

static void set_expression(struct cfi_state *state, uint64_t reg, struct cursor expr)
{
	int32_t off;

	if (is_register_plus(expr, DWARF_RSP, -1, &off))
		set_register(state, reg, HOW_AT_RSP, off);
	else if (is_register_plus(expr, DWARF_RBP, -1, &off))
		set_register(state, reg, HOW_AT_RBP, off);
	else
		set_register(state, reg, HOW_OTHER, 0);
}

/* Writes a row for the state. The state is valid up to pc. Then advances to pc. If function->pc ==
 * function->end afterwards, the function is complete. */
static int advance_to(struct unwind_rows *rows, const struct cfi_cie *cie,
		      struct cfi_function *function, const struct cfi_state *state, uint64_t pc)
{
	uint64_t from = function->pc > function->from ? function->pc : function->from;

	if (pc < function->pc)
		return -ENOEXEC;
	function->pc = pc < function->end ? pc : function->end;
	return function->pc > from ? unwind_rows__add(rows, from, pack(cie, state)) : 0;
}

static int advance_by(struct unwind_rows *rows, const struct cfi_cie *cie,
		      struct cfi_function *function, const struct cfi_state *state, uint64_t delta)
{
	uint64_t pc;

	if (__builtin_mul_overflow(delta, cie->code_align, &pc) ||
	    __builtin_add_overflow(pc, function->pc, &pc))
		pc = UINT64_MAX;
	return advance_to(rows, cie, function, state, pc);
}

/* Runs an instruction that changes the state without advancing the address. 0 or -ENOEXEC. */
static int change_state(const struct cfi_cie *cie, struct cursor *cursor, uint8_t op,
			struct cfi_state *state)
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

	/* The instructions below change one half of "register plus offset", so the CFA must already
	 * be of this form. */
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

/* Runs a program. function is NULL for a CIE's program, which may not advance the address. 0;
 * -ENOEXEC: the program is broken at function->pc; -ENOMEM; -E2BIG. */
static int run(const struct cfi_section *section, const struct cfi_cie *cie, struct cursor *cursor,
	       struct cfi_function *function, struct cfi_state *state, struct unwind_rows *rows)
{
	struct cfi_state remembered[MAX_REMEMBERED];
	size_t depth = 0;

	while (cursor->pos < cursor->end && (!function || function->pc < function->end)) {
		uint8_t op = cursor__bytes(cursor, 1);
		bool advances = true;
		uint64_t operand = 0;
		int ret;

		switch (op) {
		case DW_CFA_set_loc:
			operand = cfi_section__address(section, cursor, cie->encoding);
			cursor->broken |= operand < section->code_start;
			operand -= section->code_start;
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
			ret = (op == DW_CFA_set_loc ? advance_to : advance_by)(rows, cie, function,
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

uint64_t cfi_section__address(const struct cfi_section *section, struct cursor *cursor,
			      uint8_t encoding)
{
	return cursor__address(cursor, encoding, section->vaddr + (cursor->pos - section->bytes));
}

int cfi_cie__run(struct cfi_cie *cie, const struct cfi_section *section, struct cursor *program)
{
	struct cfi_state state = {0};
	int ret = run(section, cie, program, NULL, &state, NULL);

	if (!ret)
		cie->initial = state;
	return ret;
}

int cfi_function__run(struct cfi_function *function, const struct cfi_section *section,
		      const struct cfi_cie *cie, struct cursor *program, struct unwind_rows *rows)
{
	struct cfi_state state = cie->initial;
	int ret = run(section, cie, program, function, &state, rows);

	return ret ? ret : advance_to(rows, cie, function, &state, function->end);
}
