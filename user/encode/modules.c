// SPDX-License-Identifier: BSD-2-Clause
#include "encode/encode.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/table.h"
#include "encode/text.h"

#define REMAINDER "(no rule)"

static int row_width(const struct module_sum *sum)
{
	return (int)(2 * sum->depth) + (sum->part ? (int)text_columns(sum->part) : (int)strlen(REMAINDER));
}

static void format_rate(double bytes_per_s, char *buf, size_t size)
{
	char text[16];

	if (isfinite(bytes_per_s))
		snprintf(buf, size, "%s%s/s", bytes_per_s < 0 ? "-" : "", format_bytes(fabs(bytes_per_s), text));
	else
		snprintf(buf, size, "?");
}

/* What the interval says of a row; nothing where none is known: of what misses samples, of a file that does not
 * say how it was sampled, and of a component that no sample fell to. */
static void put_interval(const struct profile *profile, const struct estimate *live, char *cell, size_t size)
{
	struct interval of = estimate__interval(live);

	*cell = '\0';
	if (profile__is_lower_bound(profile))
		return;
	if (profile__is_exact(profile) || profile__is_regions(profile))
		snprintf(cell, size, "exact");
	else if (profile->interval_bytes && of.high > of.low)
		format_interval(of, cell, size);
}

/* ">= 12.0 MiB" where it is more. */
static int live_width(const struct profile *profile)
{
	return profile__is_lower_bound(profile) ? 13 : 10;
}

static int put_row(const struct profile *profile, const struct module_sum *sum, int width, double whole,
		   struct sink *sink)
{
	char bytes[16], live[20], interval[48], objects[32] = "?", rate[24], low[24], high[24];
	_cleanup_free_ char *part = text_printable(sum->part ? sum->part : REMAINDER);

	if (!part)
		return -ENOMEM;
	snprintf(live, sizeof(live), "%s%s", profile__is_lower_bound(profile) ? ">= " : "", format_bytes(sum->live.bytes, bytes));
	put_interval(profile, &sum->live, interval, sizeof(interval));
	/* bytes in no objects: the file that they were read from does not say */
	if (sum->live.objects > 0 || !(sum->live.bytes > 0))
		with_commas(to_integer(sum->live.objects), objects);
	sink__printf(sink, "%*s%s%*s  %*s  %21s  %13s  %5.1f %%  %6llu", (int)(2 * sum->depth), "", part,
		     width - row_width(sum), "", live_width(profile), live, interval, objects,
		     whole > 0 ? 100 * sum->live.bytes / whole : 0, (unsigned long long)sum->stacks);
	if (profile->has_life)
		sink__printf(sink, "  %10s  %10s", format_bytes(sum->life.low_bytes, low),
			     format_bytes(sum->life.high_bytes, high));
	if (profile->has_growth && sum->stacks) {
		format_rate(sum->growth.bytes_per_s, rate, sizeof(rate));
		format_rate(sum->growth.low, low, sizeof(low));
		format_rate(sum->growth.high, high, sizeof(high));
		sink__printf(sink, "  %13s (%s to %s)", rate, low, high);
	}
	return sink__puts(sink, "\n");
}

/* What the rows are worth: of `memtrace report` this is all that stands beside them. */
static void put_doubts(const struct profile *profile, struct sink *sink)
{
	char count[32];

	if (profile->dropped)
		sink__printf(sink, "INCOMPLETE: %s samples had no room and are missing\n",
			     with_commas(profile->dropped, count));
	if (profile->regions_followed_s > 0)
		sink__printf(sink, "INCOMPLETE: followed for the first %.1f s only\n", profile->regions_followed_s);
	if (!profile->interval_bytes) {
		put_foreign_sampling(profile, sink);
		sink__puts(sink, "\n");
	}
	put_lost(profile, false, sink);
}

int encode_modules(const struct profile *profile, const struct modules *modules, bool alone, struct sink *sink)
{
	_cleanup_(module_sums__clear) struct module_sums all = {};
	int rc = modules__sum(modules, profile, &all), width = (int)strlen(REMAINDER);
	double whole = profile__live(profile).bytes;

	for (size_t i = 0; i < all.n && !rc; i++)
		width = row_width(&all.sums[i]) > width ? row_width(&all.sums[i]) : width;
	if (!rc)
		sink__printf(sink, "%-*s  %*s  %21s  %13s  %7s  %6s%s%s\n", width, "COMPONENT", live_width(profile), "LIVE",
			     "95 % INTERVAL", "OBJECTS", "SHARE", "STACKS",
			     profile->has_life ? "      LOW >=     HIGH <=" : "",
			     profile->has_growth ? "       GROWTH/s (95 % interval)" : "");
	for (size_t i = 0; i < all.n && !rc; i++)
		rc = put_row(profile, &all.sums[i], width, whole, sink);
	if (!rc && alone)
		put_doubts(profile, sink);
	return rc ? rc : sink->error;
}
