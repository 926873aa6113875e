// SPDX-License-Identifier: BSD-2-Clause
/* Stacks sorted by a weight other than live bytes: bytes allocated, bytes held at the peak, or
 * churn. (Churn is how much a stack allocates and how long the memory lives.) Live bytes are shown
 * beside the weight. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/encode.h"
#include "encode/grid.h"
#include "encode/table.h"
#include "encode/text.h"

#define DEFAULT_TOP 20

/* A group and its weight. */
struct weighed {
	const struct group *group;
	struct estimate amount; /* .bytes is the amount, in the unit of the weight */
};

/* Makes an estimate of `bytes`, a part of the group's allocated bytes. In a windowed run, the error
 * of the estimate is the same part of the group's error. */
static struct estimate part_allocated(const struct profile *profile, const struct group *g,
				      double bytes)
{
	double share = g->alloc_bytes > 0 ? bytes / g->alloc_bytes : 0;

	if (!profile__is_windowed(profile))
		return estimate__of_bytes(bytes, profile->interval_bytes);
	return (struct estimate){.bytes = bytes,
				 .variance = g->alloc_variance * share * share,
				 .common = g->alloc_common * share};
}

static struct estimate weigh(const struct profile *profile, const struct group *g,
			     enum profile_weight weight)
{
	struct estimate amount;

	switch (weight) {
	case WEIGHT_OBJECTS:
		return (struct estimate){.bytes = g->live.objects, .objects = g->live.objects};
	case WEIGHT_GROWTH:
		return (struct estimate){.bytes = fmax(g->growth.bytes_per_s, 0),
					 .objects = g->live.objects};
	case WEIGHT_ALLOCATED:
		amount = part_allocated(profile, g, g->alloc_bytes);
		amount.objects = g->alloc_objects;
		return amount;
	case WEIGHT_FREED:
		amount = part_allocated(profile, g, g->freed_bytes);
		amount.objects = g->freed_objects;
		return amount;
	case WEIGHT_PEAK:
		amount = estimate__of_bytes(g->peak_bytes, profile->interval_bytes);
		amount.objects = g->peak_objects;
		return amount;
	default:
		return g->live;
	}
}

static bool has_error(const struct estimate *amount)
{
	return amount->variance > 0 || amount->common > 0;
}

/* Descending; ties by the text of the stack. */
static int compare_weighed(const void *a, const void *b)
{
	const struct weighed *x = a, *y = b;

	if (x->amount.bytes != y->amount.bytes)
		return x->amount.bytes > y->amount.bytes ? -1 : 1;
	return strcmp(x->group->key, y->group->key);
}

/* Finds the groups whose weight is above 0. The caller frees *ret_groups with free_groups() and
 * *ret with free(). 0 or -ENOMEM. */
static int weigh_all(const struct profile *profile, enum profile_weight weight,
		     struct group **ret_groups, size_t *ret_n_groups, struct weighed **ret,
		     size_t *ret_n)
{
	struct weighed *all;
	size_t n = 0;
	int rc = group_sites(profile, ret_groups, ret_n_groups, GROUPS_BY_NAME);

	if (rc)
		return rc;
	all = calloc(*ret_n_groups + 1, sizeof(*all));
	if (!all) {
		free_groups(*ret_groups, *ret_n_groups);
		return -ENOMEM;
	}
	for (size_t i = 0; i < *ret_n_groups; i++) {
		all[n] = (struct weighed){&(*ret_groups)[i],
					  weigh(profile, &(*ret_groups)[i], weight)};
		n += all[n].amount.bytes > 0;
	}
	qsort(all, n, sizeof(*all), compare_weighed);
	*ret = all;
	*ret_n = n;
	return 0;
}

/* --- by weight --- */

/* Puts "55.0 MiB (95 %: 50.1 - 60.2 MiB) in 12,345 objects, estimated". */
static void put_amount(const struct profile *profile, enum profile_weight weight,
		       const struct estimate *amount, struct sink *sink)
{
	/* bpf/peak.bpf.h says why other threads make the figure inexact */
	const char *exact = weight == WEIGHT_PEAK && profile->n_threads > 1
				    ? ", exact but for what other threads did at that very moment\n"
				    : ", exact\n";
	/* A missed free makes the peak too large. It makes no amount of allocated or freed memory
	 * too large. */
	bool lower = profile__is_lower_bound(profile),
	     upper = weight == WEIGHT_PEAK && profile__is_upper_bound(profile);
	char bytes[16], objects[32], interval[CELL_SIZE];

	sink__printf(sink, "%s%s", bound_words(lower, upper), format_bytes(amount->bytes, bytes));
	if (has_error(amount) && !lower) {
		format_interval(estimate__interval(amount), interval, sizeof(interval));
		sink__printf(sink, " (95 %%: %s)", interval);
	}
	if (amount->objects > 0)
		sink__printf(sink, " in %s object%s",
			     with_commas(to_integer(amount->objects), objects),
			     plural(to_integer(amount->objects)));
	if (profile__is_surely_exact(profile))
		sink__puts(sink, exact);
	else
		sink__puts(sink, lower || profile__is_exact(profile) ? "\n" : ", estimated\n");
}

static void put_weight_head(const struct profile *profile, enum profile_weight weight,
			    const struct estimate *total, struct sink *sink)
{
	bool brief = profile->peak.s < 1;

	if (weight == WEIGHT_PEAK)
		sink__printf(sink, "at its highest, %.*f %s after the start: ", brief ? 0 : 1,
			     profile->peak.s * (brief ? 1000 : 1), brief ? "ms" : "s");
	else if (weight == WEIGHT_ALLOCATED)
		sink__puts(sink, "allocated during the run: ");
	else if (weight == WEIGHT_FREED)
		sink__puts(sink, "freed of what was allocated during the run: ");
	else
		return;
	put_amount(profile, weight, total, sink);
}

enum { WEIGHT, INTERVAL, OBJECTS, SHARE, BESIDE, CELLS };

static const char *title_of(enum profile_weight weight)
{
	static const char *const titles[PROFILE_WEIGHTS] = {
		/* the column OBJECTS already shows this weight */
		[WEIGHT_LIVE] = "LIVE",		  [WEIGHT_OBJECTS] = "",
		[WEIGHT_ALLOCATED] = "ALLOCATED", [WEIGHT_FREED] = "FREED",
		[WEIGHT_GROWTH] = "GROWTH/s",	  [WEIGHT_PEAK] = "AT PEAK",
	};

	return titles[weight];
}

static void add_row(struct grid *grid, const struct profile *profile, enum profile_weight weight,
		    const struct estimate *amount, const struct growth *growth,
		    const struct estimate *live, double total)
{
	char cell[CELL_SIZE];

	grid__add(grid, "%s", weight == WEIGHT_OBJECTS ? "" : format_bytes(amount->bytes, cell));
	if (weight == WEIGHT_GROWTH && growth && isfinite(growth->low) &&
	    growth->low < growth->high) {
		format_interval((struct interval){growth->low, growth->high}, cell, sizeof(cell));
		grid__add(grid, "%s", growth__is_significant(growth) ? cell : "may be 0");
	} else if (has_error(amount) && !profile__is_lower_bound(profile)) {
		format_interval(estimate__interval(amount), cell, sizeof(cell));
		grid__add(grid, "%s", cell);
	} else {
		grid__add(grid, "%s", "");
	}
	grid__add(grid, "%s", with_commas(to_integer(amount->objects), cell));
	grid__add(grid, "%.1f%%", total > 0 ? 100 * amount->bytes / total : 0.0);
	grid__add(grid, "%s", format_bytes(live->bytes, cell));
}

/* Puts the rows of a grid, each followed by its stack. The last row may sum up all other stacks. */
static int put_grid(const struct profile *profile, const struct table_options *options,
		    struct grid *grid, const struct weighed *weighed, size_t n, size_t n_rest,
		    struct sink *sink)
{
	int rc = grid__fit(grid);

	if (!rc)
		put_stack_titles(grid, options, sink);
	for (size_t i = 0; i < n && !rc; i++)
		rc = put_stack_row(grid, i, profile, weighed[i].group->site, options, sink);
	if (n_rest && !rc) {
		grid__put_row(grid, n, NULL, sink);
		sink__printf(sink, "(%zu more stack%s)\n", n_rest, plural(n_rest));
	}
	return rc ? rc : sink->error;
}

int put_weighed(const struct profile *profile, const struct table_options *options,
		struct sink *sink)
{
	const struct grid_column columns[CELLS] = {
		[WEIGHT] = {title_of(options->weight), false},
		[INTERVAL] = {"95 % INTERVAL", false},
		[OBJECTS] = {"OBJECTS", false},
		[SHARE] = {"SHARE", false},
		[BESIDE] = {profile->ended || options->weight == WEIGHT_PEAK ? "AT END" : "LIVE",
			    false},
	};
	_cleanup_(grid__clear) struct grid grid = {.columns = columns, .n_columns = CELLS};
	size_t top = options->top ? options->top : DEFAULT_TOP, n, n_groups;
	_cleanup_free_ struct weighed *weighed = NULL;
	struct estimate total = {}, rest = {}, rest_live = {};
	struct group *groups;
	int rc = weigh_all(profile, options->weight, &groups, &n_groups, &weighed, &n);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		estimate__merge(&total, &weighed[i].amount);
		if (i >= top) {
			estimate__merge(&rest, &weighed[i].amount);
			estimate__merge(&rest_live, &weighed[i].group->live);
		}
	}
	for (size_t i = 0; i < n && i < top; i++)
		add_row(&grid, profile, options->weight, &weighed[i].amount,
			&weighed[i].group->growth, &weighed[i].group->live, total.bytes);
	if (n > top) {
		rest.variance = rest.common = 0; /* so the row of the rest shows no interval */
		add_row(&grid, profile, options->weight, &rest, NULL, &rest_live, total.bytes);
	}
	put_weight_head(profile, options->weight, &total, sink);
	if (n)
		rc = put_grid(profile, options, &grid, weighed, n < top ? n : top,
			      n > top ? n - top : 0, sink);
	free_groups(groups, n_groups);
	return rc ? rc : sink->error;
}

/* --- churn --- */

enum { RATE, RATE_INTERVAL, RATE_OBJECTS, SIZE, FREED, LIVED, STILL_LIVE, CHURN_CELLS };

/* Half of the freed objects did not exceed some age. Writes this age into buf (>= 16 bytes), such
 * as "< 1ms". If this age is in the last class, writes "> 1000s". Returns buf, or "" if nothing was
 * freed. */
static const char *half_lived(const double ended[PROFILE_AGES], char *buf)
{
	double all = 0, younger = 0;
	int i = 0;

	for (int k = 0; k < PROFILE_AGES; k++)
		all += ended[k];
	if (!(all > 0))
		return "";
	while (i < PROFILE_AGES - 1 && younger + ended[i] < all / 2)
		younger += ended[i++];
	if (i == PROFILE_AGES - 1)
		snprintf(buf, 16, "> %s", profile_age__name(i - 1));
	else
		snprintf(buf, 16, "< %s", profile_age__name(i));
	return buf;
}

/* Returns the amount per second. */
static struct estimate per_second(const struct estimate *amount, double seconds)
{
	struct estimate rate = *amount;

	if (!(seconds > 0))
		seconds = 1;
	rate.objects /= seconds;
	rate.bytes /= seconds;
	rate.variance /= seconds * seconds;
	rate.variance_max /= seconds * seconds;
	rate.common /= seconds;
	rate.sampled_bytes = 0;
	return rate;
}

/* Objects per second; below 10 with fractions. */
static const char *format_rate(double objects, char *buf)
{
	if (objects >= 10 || objects == 0)
		return with_commas(to_integer(objects), buf);
	snprintf(buf, 32, "%.2g", objects);
	return buf;
}

static void add_churn(struct grid *grid, const struct profile *profile, const struct group *sum,
		      const struct estimate *allocated)
{
	struct estimate rate = per_second(allocated, profile->duration_s);
	char cell[CELL_SIZE];

	grid__add(grid, "%s", format_bytes(rate.bytes, cell));
	if (has_error(&rate) && !profile__is_lower_bound(profile))
		format_interval(estimate__interval(&rate), cell, sizeof(cell));
	else
		*cell = '\0';
	grid__add(grid, "%s", cell);
	grid__add(grid, "%s", format_rate(rate.objects, cell));
	grid__add(grid, "%s",
		  sum->alloc_objects > 0 ? format_bytes(sum->alloc_bytes / sum->alloc_objects, cell)
					 : "");
	grid__add(grid, "%.0f%%",
		  sum->alloc_bytes > 0 ? fmin(100 * sum->freed_bytes / sum->alloc_bytes, 100)
				       : 0.0);
	grid__add(grid, "%s", profile->life.ages_known ? half_lived(sum->life.ended, cell) : "");
	grid__add(grid, "%s", format_bytes(sum->live.bytes, cell));
}

static void add_to(struct group *sum, const struct group *g)
{
	sum->alloc_objects += g->alloc_objects;
	sum->alloc_bytes += g->alloc_bytes;
	sum->freed_bytes += g->freed_bytes;
	estimate__merge(&sum->live, &g->live);
	site_life__merge(&sum->life, &g->life);
}

static void put_churn_head(const struct profile *profile, const struct group *all,
			   const struct estimate *allocated, struct sink *sink)
{
	struct estimate rate = per_second(allocated, profile->duration_s);
	bool lower = profile__is_lower_bound(profile);
	char bytes[16], objects[32], interval[CELL_SIZE], lived[16];

	sink__printf(sink, "churn: %s%s/s", bound_words(lower, false),
		     format_bytes(rate.bytes, bytes));
	if (has_error(&rate) && !lower) {
		format_interval(estimate__interval(&rate), interval, sizeof(interval));
		sink__printf(sink, " (95 %%: %s)", interval);
	}
	sink__printf(sink, " in %s objects/s, %.0f %% of the bytes freed again",
		     format_rate(rate.objects, objects),
		     all->alloc_bytes > 0 ? fmin(100 * all->freed_bytes / all->alloc_bytes, 100)
					  : 0.0);
	if (!profile->life.ages_known)
		sink__puts(sink, "; how long it lived is not known here");
	else if (*half_lived(all->life.ended, lived))
		sink__printf(sink, "; half of the freed objects lived %s", lived);
	sink__puts(sink, "\n");
}

int put_churn(const struct profile *profile, const struct table_options *options, struct sink *sink)
{
	static const struct grid_column columns[CHURN_CELLS] = {
		[RATE] = {"BYTES/s", false},
		[RATE_INTERVAL] = {"95 % INTERVAL", false},
		[RATE_OBJECTS] = {"OBJECTS/s", false},
		[SIZE] = {"EACH", false},
		[FREED] = {"FREED", false},
		[LIVED] = {"HALF LIVED", false},
		[STILL_LIVE] = {"LIVE", false},
	};
	_cleanup_(grid__clear) struct grid grid = {.columns = columns, .n_columns = CHURN_CELLS};
	size_t top = options->top ? options->top : DEFAULT_TOP, n, n_groups;
	_cleanup_free_ struct weighed *weighed = NULL;
	struct group all = {}, rest = {}, *groups;
	struct estimate total = {}, none = {};
	int rc = weigh_all(profile, WEIGHT_ALLOCATED, &groups, &n_groups, &weighed, &n);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		estimate__merge(&total, &weighed[i].amount);
		add_to(&all, weighed[i].group);
		if (i < top) {
			add_churn(&grid, profile, weighed[i].group, &weighed[i].amount);
			continue;
		}
		add_to(&rest, weighed[i].group);
		none.objects += weighed[i].amount.objects;
		none.bytes += weighed[i].amount.bytes;
	}
	if (n > top)
		add_churn(&grid, profile, &rest, &none);
	if (n) {
		put_churn_head(profile, &all, &total, sink);
		rc = put_grid(profile, options, &grid, weighed, n < top ? n : top,
			      n > top ? n - top : 0, sink);
	}
	free_groups(groups, n_groups);
	return rc ? rc : sink->error;
}
