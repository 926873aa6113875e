// SPDX-License-Identifier: BSD-2-Clause
#include "elf/unwind_rows.h"

#include <errno.h>
#include <stdlib.h>

int unwind_rows__add(struct unwind_rows *rows, uint32_t pc, uint32_t rule)
{
	if (rows->n && rows->rows[rows->n - 1].pc == pc)
		rows->n--;
	if (rule == (rows->n ? rows->rows[rows->n - 1].rule : UNWIND_NONE))
		return 0;
	if (rows->n >= rows->max)
		return -E2BIG;
	if (rows->n == rows->room) {
		size_t room = rows->room ? 2 * rows->room : 256;
		struct unwind_row *bigger = reallocarray(rows->rows, room, sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		rows->rows = bigger;
		rows->room = room;
	}
	rows->rows[rows->n++] = (struct unwind_row){.pc = pc, .rule = rule};
	return 0;
}
