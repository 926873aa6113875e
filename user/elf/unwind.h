/* SPDX-License-Identifier: BSD-2-Clause */
/* How to step out of every function of one ELF file. The programs in the file's .eh_frame are run
 * once. The results are stored as a sorted table of 8-byte rows for the unwinder in the kernel.
 *
 * A row is valid from its pc up to the pc of the next row. In all x86-64 code that compilers make,
 * the return address stands at CFA - 8. Only rsp, rbp and rip need following, because CFAs are rsp
 * or rbp plus a constant, or stand in memory at rbp minus a constant. If a rule does not fit into a
 * row, the row gets UNWIND_BAD: rules are never approximated. */
#ifndef MEMTRACE_ELF_UNWIND_H
#define MEMTRACE_ELF_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "elf/image.h"

/* Rules, packed into 32 bits:
 *	bits 0-2   enum unwind_kind
 *	bit  3	   the caller's rbp is saved at CFA - 8 * rbp_slot (else rbp is unchanged)
 *	bits 4-15  rbp_slot, 1 .. 4095; 0: see UNWIND_REALIGNED
 *	bits 16-31 cfa_off / 8, 0 .. 65535 (kinds SP and BP)
 * For the kind GO, all bits but the kind have meanings of their own. */
enum unwind_kind {
	UNWIND_NONE,   /* no information: between functions, hand-written assembly */
	UNWIND_SP,     /* CFA = rsp + cfa_off */
	UNWIND_BP,     /* CFA = rbp + cfa_off; see also UNWIND_REALIGNED */
	UNWIND_PLT,    /* CFA = rsp + 8 + ((rip & 15) >= 11 ? 8 : 0): lazy PLT entries */
	UNWIND_SIGNAL, /* a signal's return trampoline: rsp is the address of a struct ucontext_t,
			* which holds all registers */
	UNWIND_END,    /* the return address is undefined: the outermost frame */
	UNWIND_BAD,    /* an expression or register that the table cannot hold */
	UNWIND_GO,     /* Go code, see elf/go_code.h: UNWIND_GO_FRAME or UNWIND_GO_SWITCH */
};

#define UNWIND_RULE(kind, cfa_off, rbp_saved, rbp_slot)                                            \
	((uint32_t)(kind) | (uint32_t)(rbp_saved) << 3 | (uint32_t)(rbp_slot) << 4 |               \
	 (uint32_t)((cfa_off) / 8) << 16)
/* A frame that gcc has aligned to more than 16 bytes, in a function with alloca() or arrays of
 * variable size. The CFA cannot be computed from rbp or rsp: its value is in memory at rbp - cfa_at
 * (8 .. 524280). The caller's rbp is in memory at rbp. */
#define UNWIND_REALIGNED(cfa_at)       UNWIND_RULE(UNWIND_BP, cfa_at, 1, 0)
#define UNWIND_RULE_IS_REALIGNED(rule) (((rule)&0xffff) == UNWIND_REALIGNED(0))
/* A frame of Go with a frame pointer. The frame pointer may point to another stack, at higher or
 * lower addresses. */
#define UNWIND_GO_FRAME UNWIND_RULE(UNWIND_GO, 0, 1, 0)
/* A frame that has switched from its goroutine's stack to the thread's stack. The word at rsp +
 * g_off is the goroutine's address. The goroutine's second word is the upper end of its stack. The
 * word at rsp + depth_off says how far below that end rsp was before the switch. If the goroutine's
 * address is 0, the word at rsp + depth_off is the former rsp itself. The former rsp points to the
 * caller's rbp, if rbp_saved, and then to the return address. g_off and depth_off are not both
 * 0. */
#define UNWIND_GO_SWITCH(g_off, depth_off, rbp_saved)                                              \
	UNWIND_RULE(UNWIND_GO, depth_off, rbp_saved, (g_off) / 8)
#define UNWIND_RULE_KIND(rule)	    ((enum unwind_kind)((rule)&7))
#define UNWIND_RULE_RBP_SAVED(rule) ((rule) >> 3 & 1)
#define UNWIND_RULE_RBP_SLOT(rule)  ((rule) >> 4 & 0xfff)
#define UNWIND_RULE_CFA_OFF(rule)   (((rule) >> 16) * 8)

struct unwind_row {
	uint32_t pc; /* vaddr - base */
	uint32_t rule;
};

struct unwind_table {
	uint64_t base;		 /* vaddr of pc 0: start of the lowest executable PT_LOAD segment */
	struct unwind_row *rows; /* strictly ascending by pc; neighbours differ in rule; the last
				  * row is UNWIND_NONE at the end of the last function */
	size_t n;
	size_t fdes;	 /* number of functions that the FDEs describe */
	size_t bad_rows; /* rows of kind UNWIND_BAD */
	size_t skipped;	 /* number of entries that were broken or out of range */
};

/* Builds the table. max_rows (0: 16,777,216) limits its rows. Returns 0 (without .eh_frame, only
 * Go code has rows); -ENOEXEC when the section makes no sense at all, is too large or is not in the
 * file; -ENOMEM, -EIO; -E2BIG when there are more rows than max_rows; -ERANGE when the code spans
 * more than 4 GiB. err may be NULL. */
int unwind_table__build(const struct elf_image *image, size_t max_rows, struct unwind_table **ret,
			struct error *err);
void unwind_table__free(struct unwind_table *table);
DEFINE_CLEANUP(struct unwind_table *, unwind_table__cleanup, unwind_table__free)

/* Returns the rule at vaddr; UNWIND_NONE outside the table. */
uint32_t unwind_table__find(const struct unwind_table *table, uint64_t vaddr);

#endif
