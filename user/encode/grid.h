/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the room: a table for people, each column as wide as its widest cell. */
#ifndef MEMTRACE_ENCODE_GRID_H
#define MEMTRACE_ENCODE_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include "base/sink.h"

struct grid_column {
	const char *title;
	bool left; /* aligned; otherwise to the right */
};

/* {.columns, .n_columns} and else zero: no rows. Free with grid__clear(). */
struct grid {
	const struct grid_column *columns;
	size_t n_columns;
	char **cells; /* row by row; owned */
	size_t n;
	int *width; /* of each column; 0: it is left out; after grid__fit() */
	int error;  /* -ENOMEM once, and from then on */
};

/* The next cell, row by row; what cannot be printed is replaced (encode/text.h). */
void grid__add(struct grid *grid, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* When all cells are there: how wide columns are. Those of empty cells alone are left out. 0 or
 * -ENOMEM. */
int grid__fit(struct grid *grid);

/* The titles, and a row, in full width, for something to stand behind them; columns are two blanks
 * apart. They return how many columns of the terminal they take. */
size_t grid__put_titles(const struct grid *grid, struct sink *sink);
size_t grid__put_row(const struct grid *grid, size_t row, struct sink *sink);

/* Fits and puts all, a line each, without blanks at the end. 0, -ENOMEM or the sink's error. */
int grid__put(struct grid *grid, struct sink *sink);

void grid__clear(struct grid *grid);

#endif
