// SPDX-License-Identifier: BSD-2-Clause
#include "encode/encode.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "encode/table.h"
#include "encode/text.h"
#include "profile/threads.h"

#define NAME_WIDTH 22
#define CELL_WIDTH 18
#define PAIR_WIDTH 11

double sampling_error_pct(const struct profile *profile, double bytes)
{
	return bytes > 0 ? 196 * sqrt(estimate__of_bytes(bytes, profile->interval_bytes).variance) / bytes : 0;
}

static void put_cell(const struct profile *profile, double bytes, struct sink *sink)
{
	double error = sampling_error_pct(profile, bytes);
	char text[16], cell[48];

	format_bytes(bytes, text);
	if (error > 0)
		snprintf(cell, sizeof(cell), "%s +-%.*f %%", text, error < 10 ? 1 : 0, fmin(error, 999));
	else
		snprintf(cell, sizeof(cell), "%s", text);
	sink__printf(sink, "  %*s", CELL_WIDTH, cell);
}

/* "worker-#", or with its tid where it is one thread's. */
static char *pool_name(const struct pool *pool, bool fold)
{
	_cleanup_free_ char *name = text_printable(pool->name);
	char *label;

	if (!name)
		return NULL;
	if (fold && pool->n_threads > 1)
		return asprintf(&label, "%s", name) < 0 ? NULL : label;
	return asprintf(&label, "%s (%u)", name, pool->tid) < 0 ? NULL : label;
}

static int put_pools(const struct profile *profile, const struct pools *pools, bool fold, size_t top, struct sink *sink)
{
	sink__printf(sink, "%-*s %7s  %*s  %*s  %*s  %*s  %*s\n", NAME_WIDTH, "THREAD", "THREADS", CELL_WIDTH,
		     "ALLOCATED", CELL_WIDTH, "FREED BY ITSELF", CELL_WIDTH, "BY OTHERS", CELL_WIDTH,
		     "STILL OWNED", CELL_WIDTH, "FREED OF OTHERS");
	for (size_t i = 0; i < pools->n && i < top; i++) {
		const struct pool *pool = &pools->list[i];
		_cleanup_free_ char *name = pool_name(pool, fold);

		if (!name)
			return -ENOMEM;
		sink__printf(sink, "%-*s %7zu", NAME_WIDTH, name, pool->n_threads);
		put_cell(profile, pool->allocated, sink);
		put_cell(profile, pool->freed_self, sink);
		put_cell(profile, pool->freed_by_others, sink);
		put_cell(profile, pool->owned, sink);
		put_cell(profile, pool->freed_of_others, sink);
		sink__puts(sink, "\n");
	}
	if (pools->n > top)
		sink__printf(sink, "(%zu more)\n", pools->n - top);
	return sink->error;
}

static int put_heading(const struct pools *pools, size_t i, size_t shown, bool fold, struct sink *sink)
{
	_cleanup_free_ char *name = i < shown ? pool_name(&pools->list[i], fold) : NULL;
	_cleanup_free_ char *fit = NULL;

	if (i >= shown) {
		sink__printf(sink, "  %*s", PAIR_WIDTH, "(others)");
		return sink->error;
	}
	fit = name ? text_shorten(name, PAIR_WIDTH) : NULL;
	if (!fit)
		return -ENOMEM;
	sink__printf(sink, "  %*s", PAIR_WIDTH, fit);
	return sink->error;
}

/* Those that are not shown, and what had no thread to its name. */
static bool has_others(const struct pools *pools)
{
	bool any = pools->n > POOLS_PAIRED;

	for (size_t i = 0; i <= POOLS_PAIRED; i++)
		any |= pools->freed[i][POOLS_PAIRED] > 0 || pools->freed[POOLS_PAIRED][i] > 0;
	return any;
}

/* Rows: whose memory. Columns: who freed it. */
static int put_pairs(const struct pools *pools, bool fold, struct sink *sink)
{
	size_t shown = pools->n < POOLS_PAIRED ? pools->n : POOLS_PAIRED, columns = shown + has_others(pools);
	char text[16];
	int rc = 0;

	sink__printf(sink, "\n%-*s", NAME_WIDTH, "WHOSE, by whom freed:");
	for (size_t k = 0; k < columns && !rc; k++)
		rc = put_heading(pools, k, shown, fold, sink);
	sink__puts(sink, "\n");
	for (size_t i = 0; i < columns && !rc; i++) {
		_cleanup_free_ char *name = i < shown ? pool_name(&pools->list[i], fold) : NULL;

		if (i < shown && !name)
			return -ENOMEM;
		sink__printf(sink, "%-*s", NAME_WIDTH, name ? name : "(others)");
		for (size_t k = 0; k < columns; k++) {
			double bytes = pools->freed[i < shown ? i : POOLS_PAIRED][k < shown ? k : POOLS_PAIRED];

			sink__printf(sink, "  %*s", PAIR_WIDTH, bytes > 0 ? format_bytes(bytes, text) : "-");
		}
		rc = sink__puts(sink, "\n");
	}
	return rc;
}

int encode_threads(const struct profile *profile, const struct table_options *options, bool each, struct sink *sink)
{
	_cleanup_(pools__clear) struct pools pools = {};
	int rc;

	if (!profile->n_transfers)
		return sink__puts(sink, "threads: who freed whose memory is known of what is traced continuously from "
					"its allocation to its free, and of none here\n");
	rc = pools__make(profile, !each, &pools);
	if (!rc)
		rc = put_pools(profile, &pools, !each, options->top ? options->top : 20, sink);
	if (!rc)
		rc = put_pairs(&pools, !each, sink);
	return rc;
}
