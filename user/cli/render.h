/* SPDX-License-Identifier: BSD-2-Clause */
/* What record and report print of one profile: the table, and others below it. What is not asked
 * for is zero. */
#ifndef MEMTRACE_CLI_RENDER_H
#define MEMTRACE_CLI_RENDER_H

#include <stdbool.h>

#include "encode/encode.h"

/* Tables besides. */
struct more_tables {
	bool threads, sites, lifetimes; /* of the heap: of other profiles they are left out */
	bool resident;
};

bool more_tables__any(const struct more_tables *more);

struct render_options {
	struct table_options table;
	bool leaks; /* which stacks leak, in words; or why that is not known */
	struct more_tables more;
	const struct modules *modules; /* below the others; NULL: none */
};

/* 0 or the sink's error or -ENOMEM. */
int render_tables(const struct profile *profile, const struct render_options *options,
		  struct sink *sink);

#endif
