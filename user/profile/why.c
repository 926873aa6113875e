// SPDX-License-Identifier: BSD-2-Clause
#include "profile/why.h"

#include <stdlib.h>
#include <string.h>

const char *why_loss__name(enum why_loss loss)
{
	static const char *const names[] = {
#define WHY_NAME(member, name) [WHY_LOSS_##member] = name,
		WHY_LOSSES(WHY_NAME)
#undef WHY_NAME
	};

	return names[loss];
}

static void clear_row(struct why_row *row)
{
	free(row->root);
	free(row->steps);
}

/* By all that tells rows apart. */
static int compare_ways(const void *a, const void *b)
{
	const struct why_row *x = a, *y = b;
	int order = strcmp(x->root_kind, y->root_kind);

	if (!order)
		order = strcmp(x->root, y->root);
	if (!order)
		order = x->cut - y->cut;
	if (order)
		return order;
	if (x->n_steps != y->n_steps)
		return x->n_steps < y->n_steps ? -1 : 1;
	for (size_t i = 0; i < x->n_steps; i++) {
		const struct why_step *p = &x->steps[i], *q = &y->steps[i];

		if (p->size != q->size)
			return p->size < q->size ? -1 : 1;
		if (p->chain != q->chain)
			return p->chain ? 1 : -1;
	}
	return 0;
}

static int compare_rows(const void *a, const void *b)
{
	const struct why_row *x = a, *y = b;

	if (x->blocks != y->blocks)
		return x->blocks < y->blocks ? 1 : -1;
	return compare_ways(a, b);
}

static void add(struct why_row *to, const struct why_row *from)
{
	to->blocks += from->blocks;
	to->bytes += from->bytes;
	if (from->example < to->example)
		to->example = from->example;
	if (to->root_off != from->root_off)
		to->root_off = WHY_UNKNOWN;
	for (size_t i = 0; i < to->n_steps; i++)
		if (to->steps[i].off != from->steps[i].off)
			to->steps[i].off = WHY_UNKNOWN;
}

void why_report__merge(struct why_report *report)
{
	size_t n = 0;

	if (!report->n_rows)
		return;
	qsort(report->rows, report->n_rows, sizeof(*report->rows), compare_ways);
	for (size_t i = 0; i < report->n_rows; i++) {
		struct why_row *row = &report->rows[i];

		if (n && !compare_ways(&report->rows[n - 1], row)) {
			add(&report->rows[n - 1], row);
			clear_row(row);
		} else {
			report->rows[n++] = *row;
		}
	}
	report->n_rows = n;
	qsort(report->rows, n, sizeof(*report->rows), compare_rows);
}

void why_report__clear(struct why_report *report)
{
	for (size_t i = 0; i < report->n_rows; i++)
		clear_row(&report->rows[i]);
	free(report->rows);
	free(report->leaks);
	*report = (struct why_report){};
}
