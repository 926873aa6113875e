/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the room: a table for people, each column as wide as its widest cell. */
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
	char **cells; /* row by row; owned */
	size_t n;
	int *width; /* width of each column, set by grid__fit(); 0: the column is left out */
	int error;  /* 0, or -ENOMEM from the first failure on */
};

/* Adds the next cell, row by row. Unprintable characters are replaced (encode/text.h). */
void grid__add(struct grid *grid, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Call when all cells are added: sets the widths of columns. A column with only empty cells is left
 * out. 0 or -ENOMEM. */
int grid__fit(struct grid *grid);

/* Put the titles, or a row, padded to full width, so that text can follow on the line. Columns are
 * two blanks apart. Both return how many columns of the terminal they take. */
size_t grid__put_titles(const struct grid *grid, struct sink *sink);
size_t grid__put_row(const struct grid *grid, size_t row, struct sink *sink);

/* Fits the grid and puts all rows, one line each, without trailing blanks. 0, -ENOMEM or the sink's
 * error. */
int grid__put(struct grid *grid, struct sink *sink);

void grid__clear(struct grid *grid);

#endif
