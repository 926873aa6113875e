// SPDX-License-Identifier: BSD-2-Clause
#include "encode/grid.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "encode/text.h"

#define GAP	 2  /* blanks between columns */
#define MIN_ROOM 40 /* a last cell that is cut keeps this many columns, even on a narrow terminal */

static char *format(struct grid *grid, const char *fmt, va_list ap)
{
	char *text;

	if (!grid->error && vasprintf(&text, fmt, ap) >= 0)
		return text;
	grid->error = -ENOMEM;
	return NULL;
}

static void add(struct grid *grid, const char *text)
{
	if (!grid->error)
		grid->error = VECTOR_ADD_ROOM(grid->cells, grid->n);
	if (grid->error)
		return;
	grid->cells[grid->n] = text ? text_printable(text) : NULL;
	if (text && !grid->cells[grid->n])
		grid->error = -ENOMEM;
	else
		grid->n++;
}

void grid__add(struct grid *grid, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = format(grid, fmt, ap);
	va_end(ap);
	add(grid, text);
}

void grid__add_row(struct grid *grid, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	char *rest;
	va_list ap;

	va_start(ap, fmt);
	text = rest = format(grid, fmt, ap);
	va_end(ap);
	for (size_t c = 1; c < grid->n_columns; c++)
		add(grid, strsep(&rest, "\t"));
	add(grid, rest);
}

/* Does the cell in this column fill the rest of its row? cells: the cells of this row. */
static bool is_rest(const struct grid *grid, char *const *cells, size_t column)
{
	return column + 1 < grid->n_columns && !cells[column + 1];
}

int grid__fit(struct grid *grid)
{
	grid->width = calloc(grid->n_columns, sizeof(*grid->width));
	if (!grid->width)
		grid->error = -ENOMEM;
	for (size_t i = 0; i < grid->n && !grid->error; i++) {
		size_t c = i % grid->n_columns;
		const char *cell = grid->cells[i];

		if (cell && *cell && !is_rest(grid, grid->cells + i - c, c))
			grid__widen(grid, c, text_columns(cell));
	}
	return grid->error;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

void grid__widen(struct grid *grid, size_t column, size_t width)
{
	size_t *now = &grid->width[column];

	*now = larger(*now, larger(width, text_columns(grid->columns[column].title)));
}

/* Returns how many terminal columns lie left of this grid column. */
static size_t before(const struct grid *grid, size_t column)
{
	size_t columns = 0;

	for (size_t c = 0; c < column; c++)
		columns += grid->width[c] ? grid->width[c] + GAP : 0;
	return columns;
}

size_t grid__columns(const struct grid *grid)
{
	return before(grid, grid->n_columns);
}

/* Puts the last cell of a row, cut to grid->line. */
static void put_last(const struct grid *grid, size_t column, const char *text, struct sink *sink)
{
	size_t line = larger(grid->line, before(grid, grid->n_columns - 1) + MIN_ROOM);
	_cleanup_free_ char *shorter = text_shorten(text, line - before(grid, column));

	if (shorter)
		sink__puts(sink, shorter);
	else if (!sink->error)
		sink->error = -ENOMEM;
}

/* Puts a row's cells, or the titles if `cells` is NULL. Returns how many blanks have to follow
 * before another text. */
static size_t put_cells(const struct grid *grid, char *const *cells, struct sink *sink)
{
	size_t blanks = 0;

	for (size_t c = 0; c < grid->n_columns; c++) {
		const char *text = cells ? cells[c] : grid->columns[c].title;
		bool rest = cells && is_rest(grid, cells, c);
		size_t padding;

		if (!text || (!rest && !grid->width[c]))
			continue;
		padding = rest ? 0 : grid->width[c] - text_columns(text);
		blanks += grid->columns[c].left ? 0 : padding;
		if (*text) {
			sink__printf(sink, "%*s", (int)blanks, "");
			if (grid->line && (rest || c + 1 == grid->n_columns))
				put_last(grid, c, text, sink);
			else
				sink__puts(sink, text);
			blanks = 0;
		}
		blanks += GAP + (grid->columns[c].left ? padding : 0);
	}
	return blanks;
}

static size_t put_line(const struct grid *grid, char *const *cells, const char *text,
		       struct sink *sink)
{
	size_t blanks = put_cells(grid, cells, sink);

	if (!text || *text)
		sink__printf(sink, "%*s%s", (int)blanks, "", text ? text : "");
	return grid__columns(grid);
}

size_t grid__put_titles(const struct grid *grid, const char *text, struct sink *sink)
{
	return put_line(grid, NULL, text, sink);
}

size_t grid__put_row(const struct grid *grid, size_t row, const char *text, struct sink *sink)
{
	return put_line(grid, grid->cells + row * grid->n_columns, text, sink);
}

int grid__put(struct grid *grid, struct sink *sink)
{
	int err = grid->width ? 0 : grid__fit(grid);

	if (err) {
		sink->error = sink->error ? sink->error : err;
		return sink->error;
	}
	put_cells(grid, NULL, sink);
	sink__puts(sink, "\n");
	for (size_t i = 0; i < grid->n; i += grid->n_columns) {
		put_cells(grid, grid->cells + i, sink);
		sink__puts(sink, "\n");
	}
	return sink->error;
}

void grid__clear(struct grid *grid)
{
	for (size_t i = 0; i < grid->n; i++)
		free(grid->cells[i]);
	free(grid->cells);
	free(grid->width);
	*grid = (struct grid){};
}
