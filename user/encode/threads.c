// SPDX-License-Identifier: BSD-2-Clause
#include "encode/encode.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "encode/grid.h"
#include "encode/table.h"
#include "encode/text.h"
#include "profile/threads.h"

#define PAIR_WIDTH 11 /* columns of a thread's name in the matrix's head */

static const struct grid_column columns[] = {
	{"THREAD", true},	    {"THREADS", false},	  {"ALLOCATED", false},
	{"FREED BY ITSELF", false}, {"BY OTHERS", false}, {"STILL OWNED", false},
	{"FREED OF OTHERS", false},
};

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

double sampling_error_pct(const struct profile *profile, double bytes)
{
	return bytes > 0 ? 196 * sqrt(estimate__of_bytes(bytes, profile->interval_bytes).variance) /
				   bytes
			 : 0;
}

double sampling_high(const struct profile *profile, double bytes)
{
	struct estimate estimate = estimate__of_bytes(bytes, profile->interval_bytes);

	return estimate__interval(&estimate).high;
}

static void add_cell(struct grid *grid, const struct profile *profile, double bytes)
{
	/* a bound has no interval */
	double error = profile__is_lower_bound(profile) ? 0 : sampling_error_pct(profile, bytes);
	char text[16], high[16];

	format_bytes(bytes, text);
	/* with a few samples the interval is far from symmetric, so only its upper end is
	 * printed */
	if (error >= 100)
		grid__add(grid, "%s, < %s", text,
			  format_bytes(sampling_high(profile, bytes), high));
	else if (error > 0)
		grid__add(grid, "%s +-%.*f %%", text, error < 10 ? 1 : 0, error);
	else
		grid__add(grid, "%s", text);
}

/* Returns "worker-#", or the name with the tid if the pool is one thread. */
static char *pool_name(const struct pool *pool)
{
	_cleanup_free_ char *name = text_printable(pool->name);
	char *label;

	if (!name)
		return NULL;
	if (pool->n_threads > 1)
		return asprintf(&label, "%s", name) < 0 ? NULL : label;
	return asprintf(&label, "%s (%u)", name, pool->tid) < 0 ? NULL : label;
}

static int put_pools(const struct profile *profile, const struct pools *pools, size_t top,
		     struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid = {.columns = columns, .n_columns = N_COLUMNS};
	int err;

	for (size_t i = 0; i < pools->n && i < top; i++) {
		const struct pool *pool = &pools->list[i];
		_cleanup_free_ char *name = pool_name(pool);

		if (!name)
			return -ENOMEM;
		grid__add(&grid, "%s", name);
		grid__add(&grid, "%zu", pool->n_threads);
		add_cell(&grid, profile, pool->allocated);
		add_cell(&grid, profile, pool->freed_self);
		add_cell(&grid, profile, pool->freed_by_others);
		add_cell(&grid, profile, pool->owned);
		add_cell(&grid, profile, pool->freed_of_others);
	}
	err = grid__put(&grid, sink);
	if (!err && pools->n > top)
		sink__printf(sink, "(%zu more)\n", pools->n - top);
	return err ? err : sink->error;
}

/* Is there anything for the row and the column "others": pools that are not shown, or memory
 * without a known thread? */
static bool has_others(const struct pools *pools)
{
	bool any = pools->n > POOLS_PAIRED;

	for (size_t i = 0; i <= POOLS_PAIRED; i++)
		any |= pools->freed[i][POOLS_PAIRED] > 0 || pools->freed[POOLS_PAIRED][i] > 0;
	return any;
}

#define OTHERS "(others)"

/* Puts the matrix. Rows: who allocated the memory. Columns: who freed it. */
static int put_pairs(const struct pools *pools, struct sink *sink)
{
	size_t shown = pools->n < POOLS_PAIRED ? pools->n : POOLS_PAIRED,
	       n = shown + has_others(pools);
	struct grid_column whom[POOLS_PAIRED + 2] = {{"WHOSE, by whom freed:", true}};
	char *headings[POOLS_PAIRED] = {}, text[16];
	_cleanup_(grid__clear) struct grid grid = {.columns = whom, .n_columns = 1 + n};
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *name = i < shown ? pool_name(&pools->list[i]) : NULL;

		if (i < shown)
			headings[i] = name ? text_shorten(name, PAIR_WIDTH) : NULL;
		if (i < shown && !headings[i])
			rc = -ENOMEM;
		whom[1 + i].title = i < shown ? headings[i] : OTHERS;
		grid__add(&grid, "%s", name ? name : OTHERS);
		for (size_t k = 0; k < n; k++) {
			double bytes = pools->freed[i < shown ? i : POOLS_PAIRED]
						   [k < shown ? k : POOLS_PAIRED];

			grid__add(&grid, "%s", bytes > 0 ? format_bytes(bytes, text) : "-");
		}
	}
	sink__puts(sink, "\n");
	rc = rc ? rc : grid__put(&grid, sink);
	for (size_t i = 0; i < shown; i++)
		free(headings[i]);
	return rc;
}

static const struct grid_column owners[] = {
	{"THREAD", true},	  {"THREADS", false}, {"STILL OWNED", false},
	{"95 % INTERVAL", false}, {"OBJECTS", false},
};

/* For a windowed run: writes which pools of threads own the live memory. The owner is known only
 * for memory that was seen live in windows. */
static int put_owners(const struct profile *profile, size_t top, struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid = {.columns = owners,
						   .n_columns = sizeof(owners) / sizeof(owners[0])};
	_cleanup_(pools__clear) struct pools pools = {};
	size_t n = 0;
	int rc = pools__make(profile, &pools);

	if (rc)
		return rc;
	sink__puts(sink,
		   "threads: estimated from windows, which show whose memory is live, and not who "
		   "frees it\n");
	while (n < pools.n && pools.list[n].owned > 0)
		n++;
	for (size_t i = 0; i < n && i < top; i++) {
		const struct pool *pool = &pools.list[i];
		_cleanup_free_ char *name = pool_name(pool);
		char bytes[16], interval[CELL_SIZE], objects[32];

		if (!name)
			return -ENOMEM;
		format_live_interval(profile, &pool->live, interval);
		grid__add(&grid, "%s", name);
		grid__add(&grid, "%zu", pool->n_threads);
		grid__add(&grid, "%s", format_bytes(pool->owned, bytes));
		grid__add(&grid, "%s", interval);
		grid__add(&grid, "%s", with_commas(to_integer(pool->live.objects), objects));
	}
	rc = grid__put(&grid, sink);
	if (!rc && n > top)
		sink__printf(sink, "(%zu more)\n", n - top);
	return rc ? rc : sink->error;
}

int encode_threads(const struct profile *profile, const struct table_options *options,
		   struct sink *sink)
{
	_cleanup_(pools__clear) struct pools pools = {};
	size_t top = options->top ? options->top : 20;
	int rc;

	if (!profile->n_transfers && profile__is_windowed(profile))
		return put_owners(profile, top, sink);
	if (!profile->n_transfers)
		return sink__puts(sink,
				  "threads: not known for this run, in which no block was traced "
				  "continuously from its allocation to its free\n");
	rc = pools__make(profile, &pools);
	if (!rc)
		rc = put_pools(profile, &pools, top, sink);
	if (!rc)
		rc = put_pairs(&pools, sink);
	return rc;
}
