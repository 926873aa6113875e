/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of an unwind table (elf/unwind.h) while they are made, from any source. */
#ifndef MEMTRACE_ELF_UNWIND_ROWS_H
#define MEMTRACE_ELF_UNWIND_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "elf/unwind.h"

struct unwind_rows {
	struct unwind_row *rows; /* strictly ascending by pc; neighbours differ in rule. The owner
				  * of the struct frees them */
	size_t n, room;
	size_t max; /* the largest n allowed */
};

/* Adds a row: from pc on, rule is valid. The pcs of successive calls never descend; a row at the
 * same pc is replaced. Returns 0, -ENOMEM or -E2BIG. After an error the rows stay as they were,
 * except that a row at the same pc is removed. */
int unwind_rows__add(struct unwind_rows *rows, uint32_t pc, uint32_t rule);

#endif
