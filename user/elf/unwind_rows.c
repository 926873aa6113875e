// SPDX-License-Identifier: BSD-2-Clause
#include "elf/unwind_rows.h"

#include <errno.h>
#include <stdlib.h>

#include "base/vector.h"

int unwind_rows__add(struct unwind_rows *rows, uint32_t pc, uint32_t rule)
{
	if (rows->n && rows->rows[rows->n - 1].pc == pc)
		rows->n--;
	if (rule == (rows->n ? rows->rows[rows->n - 1].rule : UNWIND_NONE))
		return 0;
	if (rows->n >= rows->max)
		return -E2BIG;
	if (VECTOR_RESERVE(rows->rows, rows->room, rows->n + 1))
		return -ENOMEM;
	rows->rows[rows->n++] = (struct unwind_row){.pc = pc, .rule = rule};
	return 0;
}
