// SPDX-License-Identifier: BSD-2-Clause
/* Explains the resident set, in KiB as in /proc. With coarser rounding the printed rows would not
 * add up. */
#include "encode/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/json.h"
#include "encode/fold.h"
#include "encode/grid.h"
#include "encode/text.h"

/* Of each kind of memory, at most ROWS_OF_KIND rows are shown, and only those of at least
 * 1/LEAST_PART of the whole. One more row sums up the others. If only one other row is left, this
 * row itself is shown. */
#define ROWS_OF_KIND  10
#define LEAST_PART    200
#define DEFAULT_WIDTH 100

/* "-1,234" */
static const char *format_kib(double bytes, char *buf)
{
	uint64_t kib = to_integer(fabs(bytes) / 1024);

	*buf = '-';
	with_commas(kib, buf + (bytes < 0 && kib));
	return buf;
}

static void format_row_interval(const struct resident *r, const struct resident_row *row,
				char *cell, size_t size)
{
	char low[40], high[40];

	*cell = '\0';
	if (!r->heap_split || (row->kind != RESIDENT_HEAP_LIVE && row->kind != RESIDENT_HEAP))
		return;
	if (isnan(row->interval.low) || isnan(row->interval.high))
		snprintf(cell, size, "not known");
	else if (row->interval.low == row->interval.high)
		snprintf(cell, size, "exact");
	else
		snprintf(cell, size, "%s to %s", format_kib(row->interval.low, low),
			 format_kib(row->interval.high, high));
}

/* Returns the words for memory whose mapping was not seen. */
static const char *earlier_text(const struct resident *r)
{
	return !r->followed	    ? "anonymous, not followed"
	       : r->stopped_s.known ? "anonymous, from before the run or late in it"
	       : r->from_start	    ? "anonymous, the dynamic linker's"
				    : "anonymous, from before the run";
}

/* Returns the text of a row; NULL: no memory. The caller frees it. */
static char *row_text(const struct resident *r, const struct resident_row *row, const char *name)
{
	const char *form = "%s";
	char *text;

	switch (row->kind) {
	case RESIDENT_HEAP_LIVE:
		form = r->heap_windowed ? "heap, allocated during the run, from windows"
					: "heap, allocated during the run";
		break;
	case RESIDENT_HEAP:
		form = !r->heap_split  ? "heap"
		       : r->from_start ? "heap, the allocator's own"
				       : "heap, from before and the allocator's own";
		break;
	case RESIDENT_MAPPED:
		form = "mapped by %s";
		break;
	case RESIDENT_STACK:
		form = "thread stacks";
		break;
	case RESIDENT_FILE:
		form = *name ? "%s" : "files with names too long to keep";
		break;
	case RESIDENT_BSS:
		form = ".bss of %s, or next to it";
		break;
	case RESIDENT_SHARED:
		form = "shared memory %s";
		break;
	case RESIDENT_EARLIER:
		if (asprintf(&text, "%s%s%s", earlier_text(r), *name ? " " : "", name) < 0)
			return NULL;
		return text;
	case RESIDENT_SEVERAL:
		form = "several owners: too large to tell apart";
		break;
	case RESIDENT_KERNEL:
		form = "the kernel's own, as [vdso]";
		break;
	default:
		form = "mappings too many to tell apart";
		break;
	}
	return asprintf(&text, form, name) < 0 ? NULL : text;
}

/* Returns the bytes that are shown for a row. Measured figures are whole KiB. The heap's two rows
 * are rounded so that their sum stays right. */
static int64_t shown_bytes(const struct resident *r, const struct resident_row *row)
{
	if (row->kind == RESIDENT_HEAP && r->heap_split)
		return r->heap_bytes - 1024 * llround((double)r->rows[0].bytes / 1024);
	return row->bytes;
}

static void add_row(struct grid *grid, const struct resident *r, const struct resident_row *row,
		    const char *text)
{
	char resident[40], interval[88], anonymous[40] = "", swap[40] = "";

	format_kib((double)shown_bytes(r, row), resident);
	format_row_interval(r, row, interval, sizeof(interval));
	/* the heap has two rows: RESIDENT_HEAP shows the anonymous memory and the swap of both
	 * rows */
	if (row->kind != RESIDENT_HEAP_LIVE) {
		format_kib((double)row->anonymous, anonymous);
		format_kib((double)row->swap, swap);
	}
	grid__add_row(grid, "%s\t%s\t%s\t%s\t%s", resident, interval, anonymous, swap, text);
}

static const char *part_text(const struct resident *r, enum resident_part part)
{
	switch (part) {
	case RESIDENT_PART_IN_USE:
		return !r->heap_split  ? "blocks in use"
		       : r->from_start ? "blocks in use, beyond what was asked for"
				       : "blocks in use from before the run, and rounding";
	case RESIDENT_PART_WHOLE_FREE:
		return "free, whole pages";
	case RESIDENT_PART_FREE:
		return "free, on pages that blocks in use keep";
	case RESIDENT_PART_HEADERS:
		return "headers, and bytes that no block can use";
	default:
		return "not found in the allocator's structures, or changed since";
	}
}

/* Computes the parts of the row HEAP in the table, rounded to whole KiB. The first part takes the
 * rounding errors of the others, so that the parts add up to the row. */
static void round_parts(const struct resident *r, const struct resident_row *row,
			int64_t parts[RESIDENT_PARTS])
{
	resident__parts(r, parts);
	parts[0] = 1024 * llround((double)shown_bytes(r, row) / 1024);
	for (int i = 1; i < RESIDENT_PARTS; i++) {
		parts[i] = 1024 * llround((double)parts[i] / 1024);
		parts[0] -= parts[i];
	}
}

/* Adds the parts of the row HEAP below this row. The parts begin at the second column, because the
 * sum of the first column must not include them. Besides, the texts of the parts are long. */
static void add_parts(struct grid *grid, const struct resident *r, const struct resident_row *row)
{
	int64_t parts[RESIDENT_PARTS];
	char number[40], trim[40];

	if (!r->census || row->kind != RESIDENT_HEAP)
		return;
	round_parts(r, row, parts);
	for (enum resident_part i = 0; i < RESIDENT_PARTS; i++) {
		bool trims = i == RESIDENT_PART_WHOLE_FREE && r->census->trimmable;

		if (parts[i])
			grid__add_row(grid, "\tof it %s: %s%s%s",
				      format_kib((double)parts[i], number), part_text(r, i),
				      trims ? "; malloc_trim(0) returns up to " : "",
				      trims ? format_kib((double)r->census->trimmable, trim) : "");
	}
}

static int add_named_row(struct grid *grid, const struct resident *r,
			 const struct resident_row *row)
{
	_cleanup_free_ char *printable = text_printable(row->name), *name = NULL, *text = NULL;

	/* An owner's name consists of names of functions, which may have template arguments. The
	 * names of other rows are paths of files. */
	if (printable)
		name = row->kind == RESIDENT_MAPPED ? fold_name(printable) : strdup(printable);
	text = name ? row_text(r, row, name) : NULL;
	if (!text)
		return -ENOMEM;
	add_row(grid, r, row, text);
	add_parts(grid, r, row);
	return 0;
}

/* Adds the rows of one kind of memory, which begin at row i: the largest rows, then one row for the
 * others. *ret_next: the first row of the next kind. */
static int add_kind(struct grid *grid, const struct resident *r, size_t i, size_t *ret_next)
{
	struct resident_row others = {.kind = r->rows[i].kind};
	size_t n = 0, shown = 0;
	char text[64];
	int rc = 0;

	while (i + n < r->n && r->rows[i + n].kind == others.kind)
		n++;
	*ret_next = i + n;
	while (!rc && shown < n &&
	       (n - shown == 1 ||
		(shown < ROWS_OF_KIND && r->rows[i + shown].bytes >= r->smaps_bytes / LEAST_PART)))
		rc = add_named_row(grid, r, &r->rows[i + shown++]);
	if (shown == n || rc)
		return rc;
	for (size_t k = shown; k < n; k++) {
		const struct resident_row *row = &r->rows[i + k];

		others.bytes += row->bytes;
		others.anonymous += row->anonymous;
		others.swap += row->swap;
	}
	snprintf(text, sizeof(text),
		 others.kind == RESIDENT_MAPPED	  ? "mapped by %zu %sowners"
		 : others.kind == RESIDENT_FILE	  ? "%zu %sfiles"
		 : others.kind == RESIDENT_BSS	  ? ".bss of %zu %sfiles, or next to it"
		 : others.kind == RESIDENT_SHARED ? "shared memory of %zu %snames"
						  : "anonymous, of %zu %snames",
		 n - shown, shown ? "other " : "");
	add_row(grid, r, &others, text);
	return 0;
}

/* Puts notes about the parts of the heap, or why there are no parts. */
static void put_census(const struct resident *r, struct sink *sink)
{
	_cleanup_free_ char *why = r->census_failed ? text_printable(r->census_failed) : NULL;
	char number[40];

	if (r->census && r->census->cached)
		sink__printf(sink,
			     "heap: %s KiB of the free memory are blocks in thread caches and fast "
			     "bins\n",
			     format_kib((double)r->census->cached, number));
	if (why)
		sink__printf(sink, "heap: its free memory is not told apart: %s\n", why);
}

static void add_sums(struct grid *grid, const struct profile *profile, const struct resident *r)
{
	char number[40];

	grid__add_row(grid, "%s\tsum: Rss in /proc/%d/smaps",
		      format_kib((double)r->smaps_bytes, number), (int)profile->pid);
	grid__add_row(grid, "%s\tby which VmRSS differs, read a moment later",
		      format_kib((double)(r->vmrss_bytes - r->smaps_bytes), number));
	grid__add_row(grid, "%s\tVmRSS in /proc/%d/status",
		      format_kib((double)r->vmrss_bytes, number), (int)profile->pid);
}

static void put_below(const struct resident *r, struct sink *sink)
{
	char number[40], live[40];

	if (r->heap_split && r->rows[0].bytes > r->heap_bytes) {
		sink__printf(
			sink,
			"heap: %s KiB are resident in its mappings; blocks of the run that are not "
			"freed come to %s by the estimate, which is more:\nnot all of them are "
			"touched, or the truth is in the lower part of the interval\n",
			format_kib((double)r->heap_bytes, number),
			format_kib((double)r->rows[0].bytes, live));
	} else if (r->heap_split) {
		format_kib((double)r->rows[0].bytes, live);
		sink__printf(sink,
			     "heap: %s KiB are resident in its mappings; %s of them are taken by "
			     "blocks of the run that are not freed (counted by the size\n"
			     "asked for, touched or not), the rest by %sfree chunks, headers "
			     "and rounding\n",
			     format_kib((double)r->heap_bytes, number), live,
			     r->from_start ? "" : "what was held from before the run, ");
	}
	put_census(r, sink);
	if (r->huge_bytes)
		sink__printf(sink, "in transparent huge pages: %s KiB of it\n",
			     format_kib((double)r->huge_bytes, number));
	if (r->swap_bytes)
		sink__printf(sink, "swapped out: %s KiB, not in it\n",
			     format_kib((double)r->swap_bytes, number));
	if (r->hugetlb_bytes)
		sink__printf(sink, "reserved huge pages (hugetlb): %s KiB, not in it\n",
			     format_kib((double)r->hugetlb_bytes, number));
	if (r->stopped_s.known)
		sink__printf(sink,
			     "INCOMPLETE: calls that map memory were followed for the first "
			     "%.1f s only\n",
			     r->stopped_s.value);
	if (!r->followed)
		sink__puts(sink, "memtrace did not follow which stacks map memory; "
				 "--what heap,regions does\n");
	if (r->skipped)
		sink__printf(sink, "INCOMPLETE: %" PRIu64 " lines of smaps were not understood\n",
			     r->skipped);
}

int encode_resident(const struct profile *profile, const struct table_options *options,
		    struct sink *sink)
{
	const struct resident *r = profile->resident;
	_cleanup_free_ char *comm = text_printable(profile->comm);
	_cleanup_(grid__clear) struct grid grid =
		GRID({"RESIDENT", false}, {"95 % INTERVAL", false}, {"ANONYMOUS", false},
		     {"SWAPPED", false}, {"WHAT", true});
	int rc = 0;

	if (!comm)
		return -ENOMEM;
	if (!r)
		return sink__printf(sink, "resident set of pid %d (%s): not known, %s\n",
				    (int)profile->pid, comm,
				    profile->ended ? "it ended before it could be looked at"
						   : "/proc could not be read");
	for (size_t i = 0; i < r->n && !rc;)
		rc = add_kind(&grid, r, i, &i);
	add_sums(&grid, profile, r);
	rc = rc ?: grid__fit(&grid);
	if (rc)
		return rc;
	for (size_t c = 0; c < grid.n_columns; c++)
		grid__widen(&grid, c, 0);
	grid.line = options && options->width ? options->width : DEFAULT_WIDTH;
	sink__printf(sink, "resident set of pid %d (%s), KiB:\n\n", (int)profile->pid, comm);
	grid__put(&grid, sink);
	put_below(r, sink);
	return sink->error;
}

static void put_json_census(struct json *object, const struct resident *r)
{
	struct json json = json__open(object, "heap_census", "{");
	int64_t parts[RESIDENT_PARTS];

	resident__parts(r, parts);
	json__put_signed(&json, "in_use_bytes", (double)parts[RESIDENT_PART_IN_USE]);
	json__put_uint(&json, "whole_free_bytes", r->census->whole_free);
	json__put_uint(&json, "free_bytes", r->census->free);
	json__put_signed(&json, "header_bytes", (double)parts[RESIDENT_PART_HEADERS]);
	json__put_signed(&json, "other_bytes", (double)parts[RESIDENT_PART_OTHER]);
	json__put_uint(&json, "trimmable_bytes", r->census->trimmable);
	json__put_uint(&json, "cached_bytes", r->census->cached);
	sink__puts(json.sink, "}");
}

void json__put_resident(struct json *json, const struct resident *r)
{
	struct json object = json__open(json, "resident", "{"), rows;

	json__put_signed(&object, "vmrss_bytes", (double)r->vmrss_bytes);
	json__put_signed(&object, "smaps_bytes", (double)r->smaps_bytes);
	json__put_signed(&object, "heap_bytes", (double)r->heap_bytes);
	json__put_uint(&object, "swap_bytes", r->swap_bytes);
	json__put_uint(&object, "huge_bytes", r->huge_bytes);
	json__put_uint(&object, "hugetlb_bytes", r->hugetlb_bytes);
	json__put_uint(&object, "lines_skipped", r->skipped);
	json__put_bool(&object, "from_start", r->from_start);
	json__put_bool(&object, "regions_followed", r->followed);
	if (r->census)
		put_json_census(&object, r);
	if (r->census_failed)
		json__put_text(&object, "heap_census_failed", r->census_failed);
	rows = json__open(&object, "rows", "[");
	for (size_t i = 0; i < r->n; i++) {
		const struct resident_row *row = &r->rows[i];
		struct json item = json__open(&rows, NULL, "{");

		json__put_text(&item, "kind", resident_kind__name(row->kind));
		if (*row->name)
			json__put_text(&item, "name", row->name);
		json__put_signed(&item, "bytes", (double)row->bytes);
		if (r->heap_split &&
		    (row->kind == RESIDENT_HEAP_LIVE || row->kind == RESIDENT_HEAP)) {
			json__put_signed(&item, "low", row->interval.low);
			json__put_signed(&item, "high", row->interval.high);
		}
		if (row->kind != RESIDENT_HEAP_LIVE) {
			json__put_uint(&item, "anonymous_bytes", row->anonymous);
			json__put_uint(&item, "swap_bytes", row->swap);
			json__put_uint(&item, "mappings", row->mappings);
		}
		sink__puts(json->sink, "}");
	}
	sink__puts(json->sink, "]}");
}
