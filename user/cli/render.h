/* SPDX-License-Identifier: BSD-2-Clause */
/* What record and report print of one profile: the table of stacks, and other tables below it. If a
 * member of the options is zero, its output is left out. */
#ifndef MEMTRACE_CLI_RENDER_H
#define MEMTRACE_CLI_RENDER_H

#include <stdbool.h>

#include "encode/encode.h"

/* Further tables. */
struct more_tables {
	bool threads, sites, lifetimes; /* only profiles of the heap have these tables */
	bool resident;
};

/* Is at least one of the tables wanted? */
bool more_tables__any(const struct more_tables *more);

struct render_options {
	struct table_options table;
	bool leaks; /* sentences about which stacks leak, or why that is not known */
	struct more_tables more;
	const struct modules *modules; /* rules for a table of components; NULL: no such table */
};

/* Prints all tables. Returns 0, the sink's error, or -ENOMEM. */
int render_tables(const struct profile *profile, const struct render_options *options,
		  struct sink *sink);

#endif
