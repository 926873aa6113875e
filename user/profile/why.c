// SPDX-License-Identifier: BSD-2-Clause
#include "profile/why.h"

#include <inttypes.h>
#include <stdio.h>
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

/* Orders rows by their paths without offsets. */
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
		order = strcmp(p->type ?: "", q->type ?: "");
		if (order)
			return order;
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

static void add_step(struct why_step *to, const struct why_step *from)
{
	if (to->off != from->off)
		to->off = WHY_UNKNOWN;
	to->made += from->made;
	to->makers_differ |= from->makers_differ ||
			     (to->maker && from->maker && strcmp(to->maker, from->maker) != 0);
	to->maker = to->makers_differ ? NULL : to->maker ?: from->maker;
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
		add_step(&to->steps[i], &from->steps[i]);
}

size_t why_rows__merge(struct why_row *rows, size_t n_rows)
{
	size_t n = 0;

	if (!n_rows)
		return 0;
	qsort(rows, n_rows, sizeof(*rows), compare_ways);
	for (size_t i = 0; i < n_rows; i++) {
		if (n && !compare_ways(&rows[n - 1], &rows[i])) {
			add(&rows[n - 1], &rows[i]);
			clear_row(&rows[i]);
		} else {
			rows[n++] = rows[i];
		}
	}
	qsort(rows, n, sizeof(*rows), compare_rows);
	return n;
}

void why_report__merge(struct why_report *report)
{
	report->n_rows = why_rows__merge(report->rows, report->n_rows);
}

void why_rows__free(struct why_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		clear_row(&rows[i]);
	free(rows);
}

void why_step__text(const struct why_step *step, char text[WHY_STEP_TEXT])
{
	const char *from = step->maker ? " from " : "", *maker = step->maker ?: "";
	char off[32] = "";

	if (step->off != WHY_UNKNOWN)
		snprintf(off, sizeof(off), " +0x%" PRIx64, step->off);
	if (step->type)
		snprintf(text, WHY_STEP_TEXT, "%s[%.80s, %" PRIu64 " bytes%s%.80s]%s",
			 step->chain ? "chain of " : "", step->type, step->size, from, maker, off);
	else
		snprintf(text, WHY_STEP_TEXT, "%s[%" PRIu64 "-byte block%s%.80s]%s",
			 step->chain ? "chain of " : "", step->size, from, maker, off);
}

char *why_row__text(const struct why_row *row)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	bool failed;

	if (!to)
		return NULL;
	fprintf(to, "%s %s", row->root_kind, row->root);
	if (row->root_off && row->root_off != WHY_UNKNOWN)
		fprintf(to, " +0x%" PRIx64, row->root_off);
	for (size_t i = 0; i < row->n_steps; i++) {
		char step[WHY_STEP_TEXT];

		why_step__text(&row->steps[i], step);
		fprintf(to, " -> %s%s", row->cut && i == row->n_steps / 2 ? "... -> " : "", step);
	}
	failed = ferror(to);
	if (!fclose(to) && !failed)
		return text;
	free(text);
	return NULL;
}

void why_report__clear(struct why_report *report)
{
	why_rows__free(report->rows, report->n_rows);
	free(report->leaks);
	for (size_t i = 0; i < report->n_types; i++)
		free(report->types[i].name);
	free(report->types);
	*report = (struct why_report){};
}

void site_why__free(struct site_why *why)
{
	if (!why)
		return;
	for (size_t i = 0; i < why->n_holders; i++)
		free(why->holders[i].path);
	free(why->holders);
	free(why);
}

void profile_why__free(struct profile_why *why)
{
	if (!why)
		return;
	free(why->failed);
	free(why->doubt);
	free(why);
}
