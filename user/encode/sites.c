// SPDX-License-Identifier: BSD-2-Clause
/* How much each stack allocated during the run, how much it held, and for how long. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/encode.h"
#include "encode/grid.h"
#include "encode/table.h"
#include "encode/text.h"
#include "encode/where.h"

#define MIN_ROOM     60
#define INDENT	     "    "
#define AGES_COLUMNS 96

static unsigned width_of(const struct table_options *options)
{
	return options->width ? options->width : 100;
}

/* Is there room for stacks beside this many columns? If not, each stack has a line of its own. */
static bool is_beside(const struct table_options *options, unsigned columns)
{
	return width_of(options) >= columns + MIN_ROOM;
}

static int put_stack(const struct profile *profile, const struct group *group,
		     const struct table_options *options, unsigned columns, struct sink *sink)
{
	int rc;

	if (!is_beside(options, columns)) {
		columns = (unsigned)strlen(INDENT);
		sink__puts(sink, INDENT);
	}
	rc = put_where(profile, group->site, width_of(options) - columns, options->show_runtime,
		       sink);
	return rc ? rc : sink__puts(sink, "\n");
}

static int put_more(size_t n, size_t top, struct sink *sink)
{
	if (n > top)
		sink__printf(sink, "(%zu more stack%s)\n", n - top, n - top == 1 ? "" : "s");
	return sink->error;
}

static const struct grid_column columns[] = {
	{"ALLOCATED", false}, {"BYTES", false}, {"95 %", false},  {"FREED", false},
	{"BYTES", false},     {"LOW", false},	{"BYTES", false}, {"CURRENT", false},
	{"BYTES", false},     {"HIGH", false},	{"BYTES", false},
};

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* Adds two cells of a row: objects and bytes. */
static void add_amount(struct grid *grid, double objects, double bytes)
{
	char text[32];

	grid__add(grid, "%s", with_commas(to_integer(objects), text));
	grid__add(grid, "%s", format_bytes(bytes, text));
}

static void add_error(struct grid *grid, const struct profile *profile, double bytes)
{
	double pct = sampling_error_pct(profile, bytes);
	char high[16];

	if (profile__is_lower_bound(profile))
		grid__add(grid, "%s", "");
	else if (pct >= 100)
		/* the bytes come from a few samples, so only an upper end is printed */
		grid__add(grid, "< %s", format_bytes(sampling_high(profile, bytes), high));
	else if (pct > 0)
		grid__add(grid, "+-%.0f %%", pct);
	else
		grid__add(grid, "%s", "");
}

int encode_sites(const struct profile *profile, const struct table_options *options,
		 struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid = {.columns = columns, .n_columns = N_COLUMNS};
	size_t top = options->top ? options->top : 20, n;
	struct group *groups;
	unsigned width = 0;
	bool beside = false;
	int rc;

	if (!profile->life.heights_known)
		return sink__puts(sink, "sites: not known for this run, because it was not traced "
					"continuously (--max-overhead off does that)\n");
	rc = group_sites(profile, &groups, &n, GROUPS_BY_ALLOCATED);
	if (rc)
		return rc;
	for (size_t i = 0; i < n && i < top; i++) {
		const struct group *g = &groups[i];

		add_amount(&grid, g->alloc_objects, g->alloc_bytes);
		add_error(&grid, profile, g->alloc_bytes);
		add_amount(&grid, g->freed_objects, g->freed_bytes);
		add_amount(&grid, g->life.low_objects, g->life.low_bytes);
		add_amount(&grid, g->live.objects, g->live.bytes);
		add_amount(&grid, g->life.high_objects, g->life.high_bytes);
	}
	rc = grid__fit(&grid);
	if (!rc) {
		width = (unsigned)grid__columns(&grid);
		beside = is_beside(options, width);
		grid__put_titles(&grid, beside ? "STACK" : "", sink);
		sink__puts(sink, beside ? "\n" : "\n    STACK\n");
	}
	for (size_t i = 0; i < n && i < top && !rc; i++) {
		grid__put_row(&grid, i, beside ? NULL : "", sink);
		sink__puts(sink, beside ? "" : "\n");
		rc = put_stack(profile, &groups[i], options, width, sink);
	}
	free_groups(groups, n);
	return rc ? rc : put_more(n, top, sink);
}

/* Prints for each class of ages its share of the total, in per cent. */
static void put_ages(const double of[PROFILE_AGES], struct sink *sink)
{
	double all = 0;

	for (int i = 0; i < PROFILE_AGES; i++)
		all += of[i];
	for (int i = 0; i < PROFILE_AGES; i++)
		if (of[i] > 0)
			sink__printf(sink, " %4.0f%%", 100 * of[i] / all);
		else
			sink__puts(sink, "     -");
}

/* "440 ms"; buf: >= 16 bytes. */
static const char *format_age(double s, char *buf)
{
	static const char *const units[] = {"s", "ms", "us"};
	int unit = s >= 1 ? 0 : s >= 1e-3 ? 1 : 2;
	double value = fmin(s * pow(1000, unit), 1e9);

	snprintf(buf, 16, "%.*f %s", value < 9.95, value, units[unit]);
	return buf;
}

static int put_half_life(const struct half_life *h, struct sink *sink)
{
	char value[16], low[16], high[16];

	if (!(h->s > 0))
		return 0;
	sink__printf(sink, "%12s  half of them live longer than ", "");
	format_age(h->low_s, low);
	if (isinf(h->s))
		return sink__printf(sink, "%s, at least\n", low);
	format_age(h->s, value);
	if (isinf(h->high_s))
		return sink__printf(sink, "%s (95 %%: %s or more)\n", value, low);
	format_age(h->high_s, high);
	return sink__printf(sink, "%s (95 %%: %s - %s)\n", value, low, high);
}

int encode_lifetimes(const struct profile *profile, const struct table_options *options,
		     struct sink *sink)
{
	bool beside = is_beside(options, AGES_COLUMNS);
	size_t top = options->top ? options->top : 20, n;
	struct group *groups;
	int rc;

	if (!profile->life.ages_known)
		return sink__puts(sink, "lifetimes: not known for this run\n");
	if (profile__is_windowed(profile))
		sink__puts(sink, "lifetimes are estimated from windows\n");
	rc = group_sites(profile, &groups, &n, GROUPS_BY_CALLS);
	if (rc)
		return rc;
	sink__printf(sink, "%12s  %-5s %12s ", "ALLOCATED/s", "AGES", "OBJECTS");
	for (int i = 0; i < PROFILE_AGES; i++)
		sink__printf(sink, " %5s", profile_age__name(i));
	sink__puts(sink, "  STACK\n");
	for (size_t i = 0; i < n && i < top && !rc; i++) {
		const struct group *g = &groups[i];
		char rate[32], freed[32], live[32];

		with_commas(to_integer(profile->duration_s > 0
					       ? g->alloc_objects / profile->duration_s
					       : 0),
			    rate);
		sink__printf(sink, "%12s  freed %12s ", rate,
			     with_commas(to_integer(g->freed_objects), freed));
		put_ages(g->life.ended, sink);
		sink__puts(sink, beside ? "  " : "\n");
		if (beside)
			rc = put_stack(profile, g, options, AGES_COLUMNS, sink);
		if (!rc && g->live.objects > 0 && profile->life.living_known) {
			sink__printf(sink, "%12s  live  %12s ", "",
				     with_commas(to_integer(g->live.objects), live));
			put_ages(g->life.living, sink);
			rc = sink__puts(sink, "\n");
		}
		if (!rc)
			rc = put_half_life(&g->life.half_life, sink);
		if (!rc && !beside)
			rc = put_stack(profile, g, options, AGES_COLUMNS, sink);
	}
	free_groups(groups, n);
	return rc ? rc : put_more(n, top, sink);
}
