// SPDX-License-Identifier: BSD-2-Clause
#include "encode/grid.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "encode/text.h"

void grid__add(struct grid *grid, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int len;

	if (grid->error)
		return;
	va_start(ap, fmt);
	len = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (len < 0) {
		text = NULL; /* glibc leaves it undefined */
		grid->error = -ENOMEM;
		return;
	}
	grid->error = VECTOR_ADD_ROOM(grid->cells, grid->n);
	if (grid->error)
		return;
	grid->cells[grid->n] = text_printable(text);
	if (grid->cells[grid->n])
		grid->n++;
	else
		grid->error = -ENOMEM;
}

static int larger(int a, int b)
{
	return a > b ? a : b;
}

int grid__fit(struct grid *grid)
{
	grid->width = calloc(grid->n_columns, sizeof(*grid->width));
	if (!grid->width)
		grid->error = -ENOMEM;
	for (size_t i = 0; i < grid->n && !grid->error; i++) {
		int *width = &grid->width[i % grid->n_columns];

		*width = larger(*width, (int)text_columns(grid->cells[i]));
	}
	for (size_t c = 0; c < grid->n_columns && !grid->error; c++)
		if (grid->width[c])
			grid->width[c] =
				larger(grid->width[c], (int)text_columns(grid->columns[c].title));
	return grid->error;
}

static size_t put_cell(const struct grid *grid, size_t column, const char *text, bool first,
		       struct sink *sink)
{
	int blanks = grid->width[column] - (int)text_columns(text);
	bool left = grid->columns[column].left;

	sink__printf(sink, "%s%*s%s%*s", first ? "" : "  ", left ? 0 : blanks, "", text,
		     left ? blanks : 0, "");
	return (size_t)grid->width[column] + (first ? 0 : 2);
}

size_t grid__put_titles(const struct grid *grid, struct sink *sink)
{
	size_t used = 0;

	for (size_t c = 0; c < grid->n_columns; c++)
		if (grid->width[c])
			used += put_cell(grid, c, grid->columns[c].title, !used, sink);
	return used;
}

size_t grid__put_row(const struct grid *grid, size_t row, struct sink *sink)
{
	size_t used = 0;

	for (size_t c = 0; c < grid->n_columns; c++)
		if (grid->width[c])
			used += put_cell(grid, c, grid->cells[row * grid->n_columns + c], !used,
					 sink);
	return used;
}

/* Puts a row without trailing blanks. Nothing may follow on its line. */
static void put_last_row(const struct grid *grid, size_t row, struct sink *sink)
{
	char *const *cells = grid->cells + row * grid->n_columns;
	size_t n = grid->n_columns;
	bool first = true;

	while (n && !*cells[n - 1])
		n--;
	for (size_t c = 0; c < n; c++) {
		if (!grid->width[c])
			continue;
		put_cell(grid, c, cells[c], first, sink);
		first = false;
	}
	sink__puts(sink, "\n");
}

int grid__put(struct grid *grid, struct sink *sink)
{
	int err = grid__fit(grid);

	if (err)
		return err;
	grid__put_titles(grid, sink);
	sink__puts(sink, "\n");
	for (size_t i = 0; i < grid->n / grid->n_columns; i++)
		put_last_row(grid, i, sink);
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
