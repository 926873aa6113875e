/* SPDX-License-Identifier: BSD-2-Clause */
/* Lets elfutils read the same .eh_frame and translates its answers into rules of an unwind table.
 * Include after cmocka.h. */
#ifndef MEMTRACE_TESTS_UNIT_ELF_UNWIND_ORACLE_H
#define MEMTRACE_TESTS_UNIT_ELF_UNWIND_ORACLE_H

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "elf/unwind.h"
#include "unwind_fixture.h"

struct oracle {
	Elf *elf;
	Dwarf_CFI *cfi;
	uint64_t entry; /* e_entry */
};

static inline struct oracle open_oracle(int fd)
{
	struct oracle oracle;

	elf_version(EV_CURRENT);
	oracle.elf = elf_begin(fd, ELF_C_READ, NULL);
	assert_non_null(oracle.elf);
	oracle.entry = elf64_getehdr(oracle.elf)->e_entry;
	oracle.cfi = dwarf_getcfi_elf(oracle.elf);
	if (!oracle.cfi)
		fail_msg("elfutils: %s", dwarf_errmsg(-1));
	return oracle;
}

static inline void close_oracle(struct oracle *oracle)
{
	dwarf_cfi_end(oracle->cfi);
	elf_end(oracle->elf);
}

/* Where elfutils finds a register. */
struct place {
	enum { SAME, UNDEFINED, AT_CFA, IS_CFA, AT_RSP, AT_RBP, ELSEWHERE } kind;
	int64_t off;
};

static inline struct place place_of(Dwarf_Frame *frame, int reg)
{
	Dwarf_Op mem[3], *ops;
	struct place place = {.kind = ELSEWHERE};
	size_t n;

	assert_int_equal(dwarf_frame_register(frame, reg, mem, &ops, &n), 0);
	if (n == 0) {
		place.kind = ops == mem ? UNDEFINED : SAME;
	} else if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa &&
		   (ops[1].atom == DW_OP_breg7 || ops[1].atom == DW_OP_breg6)) {
		/* The expression begins with the CFA on its stack. The last value is the
		 * result. */
		place.kind = ops[1].atom == DW_OP_breg7 ? AT_RSP : AT_RBP;
		place.off = ops[1].number;
	} else if (ops[0].atom == DW_OP_call_frame_cfa) {
		size_t i = 1;

		if (i < n && ops[i].atom == DW_OP_plus_uconst)
			place.off = ops[i++].number;
		if (i == n)
			place.kind = AT_CFA;
		else if (i + 1 == n && ops[i].atom == DW_OP_stack_value)
			place.kind = IS_CFA;
	}
	return place;
}

static inline bool is_place(struct place place, int kind, int64_t off)
{
	return (int)place.kind == kind && place.off == off;
}

static inline uint32_t rule_of_frame(Dwarf_Frame *frame)
{
	static const uint8_t plt[] = {DW_OP_breg7, DW_OP_breg16, DW_OP_lit15,
				      DW_OP_and,   DW_OP_lit11,	 DW_OP_ge,
				      DW_OP_lit3,  DW_OP_shl,	 DW_OP_plus};
	struct place rbp = place_of(frame, 6), rsp = place_of(frame, 7), ra = place_of(frame, 16);
	uint32_t slot = 0;
	bool is_signal;
	Dwarf_Op *cfa;
	size_t n;

	if (ra.kind == UNDEFINED)
		return UNWIND_END;
	assert_int_equal(dwarf_frame_info(frame, NULL, NULL, &is_signal), 16);
	if (dwarf_frame_cfa(frame, &cfa, &n) != 0)
		return BAD;
	if (is_signal)
		return n == 2 && cfa[0].atom == DW_OP_breg7 &&
				       cfa[0].number ==
					       offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]) &&
				       cfa[1].atom == DW_OP_deref &&
				       is_place(rbp, AT_RSP,
						offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP])) &&
				       is_place(ra, AT_RSP,
						offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]))
			       ? UNWIND_SIGNAL
			       : BAD;
	if (!is_place(ra, AT_CFA, -8) || !is_place(rsp, IS_CFA, 0))
		return BAD;
	if (n == 2 && cfa[0].atom == DW_OP_breg6 && cfa[1].atom == DW_OP_deref) {
		int64_t off = (int64_t)cfa[0].number;

		return is_place(rbp, AT_RBP, 0) && off < 0 && off >= -8 * 65535 && off % 8 == 0
			       ? UNWIND_REALIGNED(-off)
			       : BAD;
	}
	if (rbp.kind == AT_CFA && rbp.off < 0 && rbp.off >= -8 * 4095 && rbp.off % 8 == 0)
		slot = -rbp.off / 8;
	else if (rbp.kind != SAME)
		return BAD;
	if (n == sizeof(plt)) {
		for (size_t i = 0; i < n; i++)
			if (cfa[i].atom != plt[i])
				return BAD;
		return cfa[0].number == 8 && cfa[1].number == 0
			       ? UNWIND_RULE(UNWIND_PLT, 0, slot > 0, slot)
			       : BAD;
	}
	if (n != 1 || cfa[0].atom != DW_OP_bregx || (cfa[0].number != 6 && cfa[0].number != 7) ||
	    cfa[0].number2 > 8 * 65535 || cfa[0].number2 % 8 != 0)
		return BAD;
	return UNWIND_RULE(cfa[0].number == 7 ? UNWIND_SP : UNWIND_BP, cfa[0].number2, slot > 0,
			   slot);
}

static inline uint32_t oracle_rule(struct oracle *oracle, uint64_t vaddr)
{
	Dwarf_Frame *frame;
	uint32_t rule;

	if (dwarf_cfi_addrframe(oracle->cfi, vaddr, &frame) != 0)
		return strcmp(dwarf_errmsg(-1), "no matching address range") == 0 ? NONE : BAD;
	rule = rule_of_frame(frame);
	free(frame);
	return rule;
}

static inline size_t row_at(const struct unwind_table *table, uint64_t vaddr)
{
	size_t i = 0;

	while (i + 1 < table->n && table->base + table->rows[i + 1].pc <= vaddr)
		i++;
	return i;
}

/* Is vaddr in the row of the entry point? If .eh_frame has nothing for the entry point, the table's
 * rule is UNWIND_END, because stacks end there. */
static inline bool is_entry_gap(const struct unwind_table *table, const struct oracle *oracle,
				uint64_t vaddr)
{
	return oracle->entry && row_at(table, vaddr) == row_at(table, oracle->entry);
}

static inline void compare_at(const struct unwind_table *table, struct oracle *oracle,
			      const char *what, uint64_t vaddr)
{
	uint32_t mine = unwind_table__find(table, vaddr), theirs = oracle_rule(oracle, vaddr);

	if (mine == UNWIND_END && theirs == NONE && is_entry_gap(table, oracle, vaddr))
		return;
	if (mine != theirs)
		fail_msg("%s: at %#llx our rule is %#x, elfutils' %#x", what,
			 (unsigned long long)vaddr, mine, theirs);
}

#endif
