// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>

#include "profile/drawing.h"
#include "profile/origins.h"

static int draw_row(struct drawing *d, const struct origin *row)
{
	/* a stack that is too long loses its outer functions, which tell less than the inner
	 * ones */
	size_t n = row->n_functions < DRAWING_MAX_FRAMES ? row->n_functions : DRAWING_MAX_FRAMES;
	int rc = 0;

	for (size_t i = n; i-- > 0 && !rc;)
		rc = drawing__add_frame(d, row->functions[i]);
	return rc ? rc : drawing__add_blocks(d, row->count.blocks, row->count.bytes);
}

static int draw(struct drawing *d, const struct origins *origins)
{
	int rc = 0;

	for (size_t i = 0; i < origins->n_rows && !rc; i++)
		rc = draw_row(d, &origins->rows[i]);
	if (!rc)
		rc = drawing__add_frame(d, "unknown");
	return rc ? rc : drawing__add_blocks(d, origins->unknown.blocks, origins->unknown.bytes);
}

int heap_report__stacks(const struct heap_report *report, struct profile **ret)
{
	struct drawing d;
	int rc = drawing__begin(&d, DRAWN_ORIGINS, report->pid, report->comm);

	if (!rc)
		rc = draw(&d, report->origins);
	if (!rc)
		rc = drawing__finish(&d, ret);
	drawing__end(&d);
	return rc ? -ENOMEM : 0;
}
