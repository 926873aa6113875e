// SPDX-License-Identifier: BSD-2-Clause
#include "encode/encode.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/grid.h"
#include "encode/table.h"
#include "encode/text.h"

#define REMAINDER "(no rule)"

static const struct grid_column columns[] = {
	{"COMPONENT", true}, {"LIVE", false},	       {"95 % INTERVAL", false}, {"OBJECTS", false},
	{"SHARE", false},    {"STACKS", false},	       {"LOW >=", false},	 {"HIGH <=", false},
	{"GROWTH/s", false}, {"95 % INTERVAL", false},
};

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* Fills the cell with a row's interval. The cell is empty if no interval is known: samples were
 * missed, the file does not say how the profile was sampled, or windows saw none of the row's
 * memory. */
static void put_interval(const struct profile *profile, const struct estimate *live, char *cell)
{
	if (format_live_interval(profile, live, cell) && profile__is_exact(profile) &&
	    !profile->drawn)
		snprintf(cell, CELL_SIZE, "exact");
}

static void add_row(struct grid *grid, const struct profile *profile, const struct module_sum *sum,
		    double whole)
{
	bool grows = profile->growth.stacks_known && sum->stacks;
	char bytes[20], interval[CELL_SIZE], objects[32] = "?";

	put_interval(profile, &sum->live, interval);
	/* if there are bytes but no objects, the profile's file has no numbers of objects */
	if (sum->live.objects > 0 || !(sum->live.bytes > 0))
		with_commas(to_integer(sum->live.objects), objects);
	grid__add(grid, "%*s%s", (int)(2 * sum->depth), "", sum->part ? sum->part : REMAINDER);
	grid__add(grid, "%s%s",
		  bound_sign(profile__is_lower_bound(profile), profile__is_upper_bound(profile)),
		  format_bytes(sum->live.bytes, bytes));
	grid__add(grid, "%s", interval);
	grid__add(grid, "%s", objects);
	grid__add(grid, "%.1f %%", whole > 0 ? 100 * sum->live.bytes / whole : 0);
	grid__add(grid, "%zu", (size_t)sum->stacks);
	grid__add(grid, "%s",
		  profile->life.heights_known ? format_bytes(sum->life.low_bytes, bytes) : "");
	grid__add(grid, "%s",
		  profile->life.heights_known ? format_bytes(sum->life.high_bytes, bytes) : "");
	format_range(sum->growth.total.low, sum->growth.total.high, interval, sizeof(interval));
	grid__add(grid, "%s",
		  !grows ? ""
		  : isfinite(sum->growth.total.bytes_per_s)
			  ? format_change(sum->growth.total.bytes_per_s, bytes)
			  : "?");
	grid__add(grid, "%s", grows ? interval : "");
}

int encode_modules(const struct profile *profile, const struct modules *modules, bool alone,
		   struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid = {.columns = columns, .n_columns = N_COLUMNS};
	_cleanup_(module_sums__clear) struct module_sums all = {};
	double whole = profile__live(profile).bytes;
	int rc = modules__sum(modules, profile, &all);

	for (size_t i = 0; i < all.n && !rc; i++)
		add_row(&grid, profile, &all.sums[i], whole);
	if (!rc && alone) {
		rc = put_run_head(profile, true, sink);
		sink__puts(sink, "\n");
	}
	rc = rc ? rc : grid__put(&grid, sink);
	if (!rc && alone)
		put_lost(profile, false, sink);
	return rc ? rc : sink->error;
}
