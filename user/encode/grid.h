/* SPDX-License-Identifier: BSD-2-Clause */
/* A table for people, each column as wide as its widest cell. Widths are columns of the terminal,
 * not bytes. */
#ifndef MEMTRACE_ENCODE_GRID_H
#define MEMTRACE_ENCODE_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include "base/sink.h"

struct grid_column {
	const char *title;
	bool left; /* aligned to the left; otherwise to the right */
};

/* A grid with only .columns and .n_columns set has no rows. Free with grid__clear(). */
struct grid {
	const struct grid_column *columns;
	size_t n_columns;
	char **cells; /* row by row; owned. NULL: the cell before it takes its place, too */
	size_t n;
	/* Width of each column, set by grid__fit(); 0: the column is left out. The caller may then
	 * set more widths to 0. */
	size_t *width;
	size_t line; /* rows are cut to this many columns of the terminal if possible; 0: rows are
		      * not cut */
	int error;   /* 0, or -ENOMEM from the first failure on */
};

/* A grid of the given columns. The columns exist as long as the block that contains the macro. */
#define GRID(...)                                                                                  \
	((struct grid){.columns = (const struct grid_column[]){__VA_ARGS__},                       \
		       .n_columns = sizeof((const struct grid_column[]){__VA_ARGS__}) /            \
				    sizeof(struct grid_column)})

/* Adds the next cell. Cells are added from left to right, row by row. Unprintable characters are
 * replaced (encode/text.h). */
void grid__add(struct grid *grid, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds a row. Tabs separate its cells; only the last column's cell may itself contain tabs. If
 * there are fewer cells than columns, the last cell fills the row: it is aligned to the left, and
 * no column becomes wider for it. */
void grid__add_row(struct grid *grid, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Sets the widths of the columns. Call it when all cells are added. A column with only empty cells
 * is left out. 0 or -ENOMEM. */
int grid__fit(struct grid *grid);

/* After grid__fit(): shows a column even if all its cells are empty, and gives it at least this
 * width. */
void grid__widen(struct grid *grid, size_t column, size_t width);

/* After grid__fit(): returns how many columns of the terminal a row takes before the text that may
 * follow it. */
size_t grid__columns(const struct grid *grid);

/* Put the titles, or a row, and then the text, without a newline. text NULL: the caller puts the
 * text. Two blanks separate the columns from each other, and the last column from the text. Both
 * return grid__columns(). */
size_t grid__put_titles(const struct grid *grid, const char *text, struct sink *sink);
size_t grid__put_row(const struct grid *grid, size_t row, const char *text, struct sink *sink);

/* Puts titles and rows, one line each, without trailing blanks. Fits the grid if the caller has not
 * done so. 0 or the sink's error, which is -ENOMEM if there was no memory. */
int grid__put(struct grid *grid, struct sink *sink);

void grid__clear(struct grid *grid);

#endif
