// SPDX-License-Identifier: BSD-2-Clause
/* The summary that people read first: how much memory, how sure, which stacks hold it, what was
 * missed. Columns are as wide as their widest cell. The rest of the line is for the frames. */
#include "encode/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "encode/grid.h"
#include "encode/table.h"
#include "encode/text.h"
#include "encode/where.h"

#define DEFAULT_TOP   20
#define DEFAULT_WIDTH 100
#define MIN_ROOM      24 /* fewest columns for frames, also on a narrower terminal */

static size_t width_of(const struct table_options *options)
{
	return options->width ? options->width : DEFAULT_WIDTH;
}

enum column {
	GROWTH,
	GROWTH_INTERVAL,
	LIVE,
	INTERVAL,
	OBJECTS,
	SHARE,
	N_COLUMNS,
};

static const struct grid_column columns[N_COLUMNS] = {
	[GROWTH] = {"GROWTH/s", false}, [GROWTH_INTERVAL] = {"95 % INTERVAL", false},
	[LIVE] = {"LIVE", false},	[INTERVAL] = {"95 % INTERVAL", false},
	[OBJECTS] = {"OBJECTS", false}, [SHARE] = {"SHARE", false},
};

/* Adds the row of a group of stacks. If `group` is NULL, adds the row that sums up the rest. If a
 * stack's growth may be 0, the cell says so, because readers first want to know whether the stack
 * grows at all. */
static void add_row(struct grid *grid, const struct profile *profile, const struct group *group,
		    const struct estimate *live, double total)
{
	char growth[16] = "", growth_interval[CELL_SIZE] = "", bytes[16], interval[CELL_SIZE] = "",
	     objects[32] = "";

	if (group && isfinite(group->growth.low)) {
		format_bytes(group->growth.bytes_per_s, growth);
		if (group->growth.low != group->growth.high)
			format_interval((struct interval){group->growth.low, group->growth.high},
					growth_interval, sizeof(growth_interval));
		if (*growth_interval && !growth__is_significant(&group->growth))
			strcpy(growth_interval, "may be 0");
	}
	if (group && live->objects > 0)
		with_commas(to_integer(live->objects), objects);
	else if (group)
		strcpy(objects, "?"); /* the profile's file has no numbers of objects */
	if (group)
		format_live_interval(profile, live, interval);
	grid__add_row(grid, "%s\t%s\t%s\t%s\t%s\t%.1f%%", growth, growth_interval,
		      format_bytes(live->bytes, bytes), interval, objects,
		      total > 0 ? 100 * live->bytes / total : 0.0);
}

/* Leaves out columns until the frames have room: first OBJECTS, then SHARE, or LIVE in a table of
 * leaks. A row must fit one line of the terminal. The interval of an estimate always stays. */
static void make_room(struct grid *grid, bool leaks, const struct table_options *options,
		      struct sink *sink)
{
	const enum column order[] = {OBJECTS, leaks ? LIVE : SHARE};
	const char *before = "left out for want of room: ";

	for (int i = 0; i < 2 && grid__columns(grid) + MIN_ROOM > width_of(options); i++) {
		grid->width[order[i]] = 0;
		sink__printf(sink, "%s%s", before, columns[order[i]].title);
		before = ", ";
	}
	if (*before == ',')
		sink__puts(sink, "\n");
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct group *)a)->key, ((const struct group *)b)->key);
}

/* Orders groups by growth. Regions that an allocator maps for its heap are not leaks in themselves,
 * so they come last. */
static int compare_growth(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	int order = growth__compare(&x->growth, &y->growth);

	if (x->site->allocators_own != y->site->allocators_own)
		return x->site->allocators_own ? 1 : -1;
	return order ? order : strcmp(x->key, y->key);
}

/* Descending; ties by the text of the stack, so that equal input gives equal output. */
static int compare_live(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->live.bytes != y->live.bytes)
		return x->live.bytes > y->live.bytes ? -1 : 1;
	return strcmp(x->key, y->key);
}

static int compare_allocated(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->alloc_bytes != y->alloc_bytes)
		return x->alloc_bytes > y->alloc_bytes ? -1 : 1;
	return strcmp(x->key, y->key);
}

static int compare_calls(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->alloc_objects != y->alloc_objects)
		return x->alloc_objects > y->alloc_objects ? -1 : 1;
	return strcmp(x->key, y->key);
}

void free_groups(struct group *groups, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(groups[i].key);
	free(groups);
}

/* A buffer for text that is reused for each site. */
struct scratch {
	char *text;
	size_t len, room;
};

static void scratch__clear(struct scratch *scratch)
{
	free(scratch->text);
}

static int scratch__add(struct scratch *scratch, const char *line)
{
	size_t len = strlen(line);

	if (VECTOR_RESERVE(scratch->text, scratch->room, scratch->len + len + 2))
		return -ENOMEM;
	memcpy(scratch->text + scratch->len, line, len);
	scratch->len += len;
	scratch->text[scratch->len++] = '\n';
	return 0;
}

/* Returns the shown frames of a site, each on a line. */
static char *group_key(const struct profile *profile, const struct profile_site *site,
		       const struct frame_slots *slots, struct scratch *scratch)
{
	struct frame_walk walk = {.profile = profile, .site = site, .slots = slots};
	const char *name;

	scratch->len = 0;
	while ((name = frame_walk__next(&walk)))
		if ((slots->owners[walk.slot] != FRAME_OF_ALLOCATOR ||
		     walk.location == site->n_locations) &&
		    scratch__add(scratch, name))
			return NULL;
	return strndup(scratch->text ? scratch->text : "", scratch->len);
}

int group_sites(const struct profile *profile, struct group **ret_groups, size_t *ret_n,
		enum groups by)
{
	static int (*const orders[])(const void *, const void *) = {
		[GROUPS_BY_LIVE] = compare_live,	   [GROUPS_BY_GROWTH] = compare_growth,
		[GROUPS_BY_ALLOCATED] = compare_allocated, [GROUPS_BY_CALLS] = compare_calls,
		[GROUPS_BY_NAME] = compare_keys,
	};
	_cleanup_(frame_slots__clear) struct frame_slots slots = {};
	_cleanup_(scratch__clear) struct scratch scratch = {};
	struct growth_sum growth = {}; /* of the last merged group */
	size_t n = 0, merged = 0;
	struct group *groups;
	int rc = frame_slots__init(&slots, profile);

	if (rc)
		return rc;
	groups = calloc(profile->n_sites + 1, sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];

		if ((by == GROUPS_BY_LIVE || by == GROUPS_BY_GROWTH) && !(site->live.objects > 0) &&
		    !(site->live.bytes > 0))
			continue;
		groups[n] = (struct group){
			.site = site,
			.key = group_key(profile, site, &slots, &scratch),
			.live = site->live,
			.growth = site->growth,
			.alloc_objects = site->alloc_objects,
			.alloc_bytes = site->alloc_bytes,
			.alloc_variance = site->alloc_variance,
			.alloc_common = site->alloc_common,
			.freed_objects = site->freed_objects,
			.freed_bytes = site->freed_bytes,
			.peak_objects = site->peak_objects,
			.peak_bytes = site->peak_bytes,
			.life = site->life,
			.why = site->why,
		};
		if (!groups[n++].key) {
			free_groups(groups, n);
			return -ENOMEM;
		}
	}
	qsort(groups, n, sizeof(*groups), compare_keys);
	for (size_t i = 0; i < n; i++) {
		struct group *last = merged ? &groups[merged - 1] : NULL;

		if (last && !strcmp(last->key, groups[i].key)) {
			growth_sum__add(&growth, &groups[i].growth);
			last->growth = growth.total;
			estimate__merge(&last->live, &groups[i].live);
			last->alloc_objects += groups[i].alloc_objects;
			last->alloc_bytes += groups[i].alloc_bytes;
			last->alloc_variance += groups[i].alloc_variance;
			last->alloc_common += groups[i].alloc_common;
			last->freed_objects += groups[i].freed_objects;
			last->freed_bytes += groups[i].freed_bytes;
			last->peak_objects += groups[i].peak_objects;
			last->peak_bytes += groups[i].peak_bytes;
			site_life__merge(&last->life, &groups[i].life);
			last->why = last->why ? last->why : groups[i].why;
			free(groups[i].key);
		} else {
			growth = (struct growth_sum){};
			growth_sum__add(&growth, &groups[i].growth);
			groups[merged++] = groups[i];
		}
	}
	qsort(groups, merged, sizeof(*groups), orders[by]);
	*ret_groups = groups;
	*ret_n = merged;
	return 0;
}

void put_stack_titles(const struct grid *grid, const struct table_options *options,
		      struct sink *sink)
{
	sink__puts(sink, options->color ? "\n" BOLD : "\n");
	grid__put_titles(grid, options->color ? WHERE_TITLE RESET "\n" : WHERE_TITLE "\n", sink);
}

int put_stack_row(const struct grid *grid, size_t row, const struct profile *profile,
		  const struct profile_site *site, const struct table_options *options,
		  struct sink *sink)
{
	size_t width = width_of(options), used = grid__put_row(grid, row, NULL, sink);
	int err = put_where(profile, site, width > used + MIN_ROOM ? width - used : MIN_ROOM,
			    options->show_runtime, sink);

	return err ? err : sink__puts(sink, "\n");
}

static int put_rows(const struct profile *profile, const struct table_options *options,
		    const struct estimate *live, struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid = {.columns = columns, .n_columns = N_COLUMNS};
	size_t top = options->top ? options->top : DEFAULT_TOP, n;
	bool leaks = options->leaks && profile->growth.stacks_known;
	/* exact, or no interval is known */
	bool exact = profile__is_exact(profile) || !profile->interval_bytes;
	struct estimate rest = {};
	struct group *groups;
	int err;

	err = group_sites(profile, &groups, &n, leaks ? GROUPS_BY_GROWTH : GROUPS_BY_LIVE);
	if (err)
		return err;
	for (size_t i = 0; i < n; i++)
		if (i < top)
			add_row(&grid, profile, &groups[i], &groups[i].live, live->bytes);
		else
			estimate__merge(&rest, &groups[i].live);
	if (n > top)
		add_row(&grid, profile, NULL, &rest, live->bytes);
	err = grid__fit(&grid);
	/* the column is shown even if no stack has growth, because the user asked for it */
	for (int c = 0; c < N_COLUMNS && !err; c++)
		if (c == LIVE || c == OBJECTS ||
		    (c < LIVE ? leaks : !leaks && (c == SHARE || !exact)))
			grid__widen(&grid, c, c == LIVE ? 10 : 0);
		else
			grid.width[c] = 0;
	if (!err) {
		make_room(&grid, leaks, options, sink);
		put_stack_titles(&grid, options, sink);
	}
	for (size_t i = 0; i < n && i < top && !err; i++)
		err = put_stack_row(&grid, i, profile, groups[i].site, options, sink);
	if (n > top && !err) {
		grid__put_row(&grid, top, NULL, sink);
		sink__printf(sink, "(%zu more stack%s)\n", n - top, plural(n - top));
	}
	free_groups(groups, n);
	return err ? err : sink->error;
}

static int put_path(const struct profile *profile, size_t i, const char *before, struct sink *sink)
{
	_cleanup_free_ char *path = text_printable(profile->files[i]);

	if (!path)
		return -ENOMEM;
	sink__printf(sink, "%s%s", before, path);
	return 0;
}

static int put_files(const struct profile *profile, struct sink *sink)
{
	size_t n = profile->n_snapshots;
	int rc = 0;

	/* names only the first and the last file, because there may be thousands */
	if (n)
		rc = put_path(profile, 0, "snapshots: ", sink);
	if (n > 1 && !rc)
		rc = put_path(profile, n - 1, n > 2 ? " ... " : " ", sink);
	if (n > 2)
		sink__printf(sink, " (%zu files)", n);
	if (n)
		sink__puts(sink, "\n");
	for (size_t i = n; i < profile->n_files && !rc; i++)
		rc = put_path(profile, i, i > n ? " " : "written: ", sink);
	if (profile->n_files > n)
		sink__puts(sink, "\n");
	return rc ? rc : sink->error;
}

void put_lost(const struct profile *profile, bool color, struct sink *sink)
{
	const char *before = color ? YELLOW "lost:" RESET " " : "lost: ";
	const struct profile_counter *lost;
	bool any = false;
	char count[32];

	for (size_t i = 0; (lost = profile__loss(profile, i)); i++) {
		if (!lost->count)
			continue;
		sink__printf(sink, "%s%s %s", any ? ", " : before, lost->name,
			     with_commas(lost->count, count));
		any = true;
	}
	if (any)
		sink__puts(sink, "\n");
}

bool format_live_interval(const struct profile *profile, const struct estimate *live, char *buf)
{
	struct interval interval = profile__live_interval(profile, live);
	bool known = isfinite(interval.low) && isfinite(interval.high);

	*buf = '\0';
	if (known)
		format_interval(interval, buf, CELL_SIZE);
	return known;
}

const char *bound_words(bool lower, bool upper)
{
	return lower && upper ? "ABOUT " : lower ? "AT LEAST " : upper ? "AT MOST " : "";
}

const char *bound_sign(bool lower, bool upper)
{
	return lower && upper ? "~ " : lower ? ">= " : upper ? "<= " : "";
}

int put_each_doubt(const struct profile *const *profiles, size_t n, bool color, struct sink *sink)
{
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		const struct profile_counter *lost;
		char who[32];
		bool any = false;

		snprintf(who, sizeof(who), "profile %zu: ", i + 1);
		rc = put_contradictions(profiles[i], who, sink);

		for (size_t k = 0; (lost = profile__loss(profiles[i], k)); k++)
			any |= lost->count != 0;
		if (!any)
			continue;
		sink__puts(sink, who);
		put_lost(profiles[i], color, sink);
	}
	return rc ? rc : sink->error;
}

int encode_fastest(const struct profile *profile, const struct table_options *options,
		   struct sink *sink)
{
	struct contradictions doubts = profile__contradictions(profile);
	struct group *groups = NULL;
	char growth[16], interval[48], head[128];
	unsigned width;
	size_t n = 0;
	int rc = group_sites(profile, &groups, &n, GROUPS_BY_GROWTH);

	if (rc)
		return rc;
	for (size_t i = 0; i < doubts.n; i++)
		sink__printf(sink, "%s%s", i ? ", " : "contradictions: ",
			     contradiction_rule__name(doubts.at[i].rule));
	if (doubts.n)
		sink__puts(sink, ": ");
	if (!n || !profile->growth.stacks_known || !(groups[0].growth.low > 0)) {
		sink__puts(sink, "no stack surely grows so far");
	} else {
		const struct growth *first = &groups[0].growth;

		format_interval((struct interval){first->low, first->high}, interval,
				sizeof(interval));
		snprintf(head, sizeof(head), "fastest growth %s/s (%s) ",
			 format_bytes(first->bytes_per_s, growth), interval);
		sink__puts(sink, head);
		width = width_of(options);
		rc = put_where(profile, groups[0].site,
			       width > strlen(head) + MIN_ROOM ? width - strlen(head) : MIN_ROOM,
			       options->show_runtime, sink);
	}
	free_groups(groups, n);
	return rc ? rc : sink->error;
}

int encode_leader(const struct profile *profile, const struct table_options *options,
		  struct sink *sink)
{
	_cleanup_free_ char *comm = text_printable(profile->comm);
	char cost[32];

	if (!comm)
		return -ENOMEM;
	sink__printf(sink, "pid %d (%s), %.0f s, %s%s", (int)profile->pid, comm,
		     profile->duration_s, profile__is_regions(profile) ? "regions, " : "",
		     !profile__is_regions(profile)	 ? profile_mode__name(profile->mode)
		     : profile__is_surely_exact(profile) ? "exact"
							 : "INCOMPLETE");
	if (profile->overhead_pct.known && !profile__is_regions(profile)) {
		format_cost(profile->overhead_pct.value, cpu_cores(profile), cost);
		sink__printf(sink, ", cost %s", cost);
	}
	sink__puts(sink, profile__contradictions(profile).n ? ", " : ": ");
	return encode_fastest(profile, options, sink);
}

int encode_table(const struct profile *profile, const struct table_options *options,
		 struct sink *sink)
{
	struct estimate live = profile__live(profile);
	int err = put_run_head(profile, options->leaks, sink);

	if (err)
		return err;
	if (options->churn)
		err = put_churn(profile, options, sink);
	else if (options->weight != WEIGHT_LIVE && !options->tree)
		err = put_weighed(profile, options, sink);
	else if (live.objects > 0 || live.bytes > 0)
		err = options->tree ? put_tree(profile, options, &live, sink)
				    : put_rows(profile, options, &live, sink);
	if (!err)
		err = put_files(profile, sink);
	if (err)
		return err;
	put_lost(profile, options->color, sink);
	return sink->error;
}
