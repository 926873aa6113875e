/* SPDX-License-Identifier: BSD-2-Clause */
/* Call frame instructions: the programs in .eh_frame that say, address by address, how to step out
 * of a function.
 *
 * The state says how to compute the CFA (the caller's rsp) and where each register of the caller is
 * found. Instructions change the state as the address advances. Of the registers, only rbp, rsp and
 * the return address are followed here. In rare code, the caller's rsp is not the CFA; rsp is
 * followed only to notice such code. */
#ifndef MEMTRACE_ELF_CFI_H
#define MEMTRACE_ELF_CFI_H

#include <stdbool.h>
#include <stdint.h>

#include "elf/cursor.h"
#include "elf/unwind_rows.h"

#define CFI_RETURN_ADDRESS 16 /* DWARF's number of the register */

enum cfi_followed { CFI_RBP, CFI_RSP, CFI_RA, CFI_FOLLOWED };

/* All zeros: the program has set nothing yet. */
struct cfi_state {
	uint8_t cfa; /* values of enum cfa in cfi.c; values of how[]: enum how */
	uint8_t cfa_reg;
	uint8_t how[CFI_FOLLOWED];
	int32_t cfa_off;
	int32_t off[CFI_FOLLOWED];
};

/* The section that holds the programs and the encoded addresses. */
struct cfi_section {
	const unsigned char *bytes;
	uint64_t vaddr;	     /* vaddr of the first byte */
	uint64_t code_start; /* vaddr of pc 0 */
};

/* What the functions of one CIE share. */
struct cfi_cie {
	bool is_signal;	  /* the functions are signal frames: the caller made no call, but was
			   * interrupted by a signal */
	uint8_t encoding; /* encoding of the pointers in the functions' programs */
	uint64_t code_align;
	int64_t data_align;
	struct cfi_state initial; /* the state at a function's first byte */
};

/* A function, and how far its program was run. */
struct cfi_function {
	uint64_t pc; /* at first, the function's first byte; after cfi_function__run(), the address
		      * up to which the program was run */
	uint64_t end;
	uint64_t from; /* rows begin here: lower addresses belong to the previous function */
};

/* Reads the address at the cursor, written in the given encoding (DW_EH_PE_*). */
uint64_t cfi_section__address(const struct cfi_section *section, struct cursor *cursor,
			      uint8_t encoding);

/* Runs the CIE's own program and stores its result in cie->initial, which the caller has set to all
 * zeros. The program may not advance the address. Returns 0, or -ENOEXEC when the program is
 * broken. */
int cfi_cie__run(struct cfi_cie *cie, const struct cfi_section *section, struct cursor *program);

/* Runs a function's program and adds its rows, up to function->end. Returns 0; -ENOEXEC when the
 * program is broken (the rows are then valid up to function->pc); -ENOMEM; -E2BIG. */
int cfi_function__run(struct cfi_function *function, const struct cfi_section *section,
		      const struct cfi_cie *cie, struct cursor *program, struct unwind_rows *rows);

#endif
