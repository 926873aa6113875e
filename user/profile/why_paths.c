// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "profile/drawing.h"
#include "profile/why.h"

static int add_step(struct drawing *d, const struct why_step *step)
{
	char name[WHY_STEP_TEXT];

	why_step__text(step, name);
	return drawing__add_frame(d, name);
}

/* Draws a row as a stack. seen: the share of held blocks whose paths were followed. */
static int draw_row(struct drawing *d, const struct why_row *row, double seen)
{
	_cleanup_free_ char *root = NULL;
	size_t site;
	int rc = 0;

	if (asprintf(&root, "%s %s", row->root_kind, row->root) < 0)
		return -ENOMEM;
	rc = drawing__add_frame(d, root);
	for (size_t i = 0; i < row->n_steps && !rc; i++) {
		if (row->cut && i == row->n_steps / 2)
			rc = drawing__add_frame(d, "...");
		if (!rc)
			rc = add_step(d, &row->steps[i]);
	}
	if (!rc)
		rc = drawing__add_stack(d, &site);
	for (uint64_t i = 0; i < row->blocks && !rc; i++)
		rc = profile__add_live_seen(d->profile, site, d->thread, row->bytes / row->blocks,
					    seen);
	return rc;
}

static int draw_leak(struct drawing *d, const struct why_leak *leak)
{
	int rc = drawing__add_frame(d, "lost: no pointer is left");

	if (!rc)
		rc = add_step(d, &(struct why_step){.size = leak->size, .off = WHY_UNKNOWN});
	return rc ? rc : drawing__add_blocks(d, leak->blocks, leak->bytes);
}

static int draw(struct drawing *d, const struct why_report *r)
{
	double seen = r->held_blocks ? (double)r->followed / (double)r->held_blocks : 1;
	int rc = 0;

	for (size_t i = 0; i < r->n_rows && !rc; i++)
		rc = draw_row(d, &r->rows[i], seen);
	for (size_t i = 0; i < r->n_leaks && !rc; i++)
		rc = draw_leak(d, &r->leaks[i]);
	for (int i = 0; i < WHY_N_LOSSES && !rc; i++)
		rc = profile__add_lost(d->profile, why_loss__name(i), r->losses[i]);
	return rc;
}

int why_report__paths(const struct why_report *report, struct profile **ret)
{
	struct drawing d;
	int rc = drawing__begin(&d, DRAWN_PATHS, report->pid, report->comm);

	if (!rc)
		rc = draw(&d, report);
	if (!rc)
		rc = drawing__finish(&d, ret);
	drawing__end(&d);
	return rc ? -ENOMEM : 0;
}
