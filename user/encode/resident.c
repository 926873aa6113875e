// SPDX-License-Identifier: BSD-2-Clause
/* The resident set explained. In KiB, as /proc counts it: rounded further, rows would not add up before the reader's
 * eyes. */
#include "encode/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/json.h"
#include "encode/text.h"

#define NUMBER	      12 /* columns */
#define INTERVAL      26
#define BEFORE_WHAT   (3 * (NUMBER + 2) + INTERVAL + 1)
#define MIN_ROOM      40
#define ROWS_OF_KIND  10 /* the rest of a kind is one row */
#define DEFAULT_WIDTH 120

/* "-1,234" */
static const char *format_kib(double bytes, char *buf)
{
	uint64_t kib = to_integer(fabs(bytes) / 1024);

	*buf = '-';
	with_commas(kib, buf + (bytes < 0 && kib));
	return buf;
}

static void format_row_interval(const struct resident *r, const struct resident_row *row, char *cell, size_t size)
{
	char low[40], high[40];

	*cell = '\0';
	if (!r->heap_split || (row->kind != RESIDENT_HEAP_LIVE && row->kind != RESIDENT_HEAP))
		return;
	if (isnan(row->interval.low) || isnan(row->interval.high))
		snprintf(cell, size, "INCOMPLETE");
	else if (row->interval.low == row->interval.high)
		snprintf(cell, size, "exact");
	else
		snprintf(cell, size, "%s to %s", format_kib(row->interval.low, low),
			 format_kib(row->interval.high, high));
}

/* What nobody was seen to map. */
static char *earlier_text(const struct resident *r, const char *name)
{
	const char *before = r->from_start ? "anonymous memory of the kernel's and the dynamic linker's"
			     : r->followed ? "anonymous memory from before the run, or the dynamic linker's"
					   : "anonymous memory (who maps it was not followed)";
	char *text;
	int rc;

	if (r->followed_s > 0)
		rc = asprintf(&text, "%s, or mapped after the first %.1f s%s%s", before, r->followed_s,
			      *name ? ": " : "", name);
	else
		rc = asprintf(&text, "%s%s%s", before, *name ? ": " : "", name);
	return rc < 0 ? NULL : text;
}

/* NULL: no memory. The caller frees it. */
static char *row_text(const struct resident *r, const struct resident_row *row, const char *name)
{
	const char *form = "%s";
	char *text;

	switch (row->kind) {
	case RESIDENT_HEAP_LIVE:
		form = r->heap_upper ? "heap: allocated during the run and not freed, an upper estimate"
				     : "heap: allocated during the run and not freed";
		break;
	case RESIDENT_HEAP:
		form = !r->heap_split ? "heap: what it has given out, and the allocator's own"
		       : r->from_start
			       ? "heap: the allocator's own: free chunks, headers, rounding"
			       : "heap: held from before the run, and the allocator's own: free chunks, headers, rounding";
		break;
	case RESIDENT_MAPPED:
		form = "mapped by %s";
		break;
	case RESIDENT_STACK:
		form = "thread stacks";
		break;
	case RESIDENT_FILE:
		form = *name ? "%s" : "(files with names too long to keep)";
		break;
	case RESIDENT_BSS:
		form = "behind %s: its .bss, and what adjoins it";
		break;
	case RESIDENT_SHARED:
		form = "shared memory: %s";
		break;
	case RESIDENT_EARLIER:
		return earlier_text(r, name);
	case RESIDENT_SEVERAL:
		form = "mappings of several owners, too large to look at page by page";
		break;
	case RESIDENT_KERNEL:
		form = "the kernel's own ([vdso] and the like)";
		break;
	default:
		form = "in mappings beyond those that are told apart";
		break;
	}
	return asprintf(&text, form, name) < 0 ? NULL : text;
}

static void put_numbers(const char *resident, const char *interval, const char *anonymous, const char *swap,
			struct sink *sink)
{
	sink__printf(sink, "%*s  %*s  %*s  %*s  ", NUMBER, resident, INTERVAL, interval, NUMBER, anonymous, NUMBER,
		     swap);
}

static int put_row(const struct resident *r, const struct resident_row *row, const char *text, size_t room,
		   struct sink *sink)
{
	char resident[40], interval[88], anonymous[40] = "", swap[40] = "";
	_cleanup_free_ char *shown = text_shorten(text, room);

	if (!shown)
		return -ENOMEM;
	format_row_interval(r, row, interval, sizeof(interval));
	if (row->kind != RESIDENT_HEAP_LIVE) { /* those of the whole heap stand in the other row */
		format_kib((double)row->anonymous, anonymous);
		format_kib((double)row->swap, swap);
	}
	put_numbers(format_kib((double)row->bytes, resident), interval, anonymous, swap, sink);
	return sink__printf(sink, "%s\n", shown);
}

static int put_named_row(const struct resident *r, const struct resident_row *row, size_t room, struct sink *sink)
{
	_cleanup_free_ char *name = text_printable(row->name), *text = name ? row_text(r, row, name) : NULL;

	return text ? put_row(r, row, text, room, sink) : -ENOMEM;
}

/* The rows of one kind from i on: the largest, and the others in one. *ret_next: the first of the next kind. */
static int put_kind(const struct resident *r, size_t i, size_t room, struct sink *sink, size_t *ret_next)
{
	struct resident_row others = {.kind = r->rows[i].kind};
	size_t n = 0, shown = 0;
	char text[64];
	int rc = 0;

	while (i + n < r->n && r->rows[i + n].kind == others.kind)
		n++;
	*ret_next = i + n;
	for (; shown < n && (shown < ROWS_OF_KIND || n == ROWS_OF_KIND + 1) && !rc; shown++)
		rc = put_named_row(r, &r->rows[i + shown], room, sink);
	if (shown == n || rc)
		return rc;
	for (size_t k = shown; k < n; k++) {
		const struct resident_row *row = &r->rows[i + k];

		others.bytes += row->bytes;
		others.anonymous += row->anonymous;
		others.swap += row->swap;
	}
	snprintf(text, sizeof(text), "(%zu more %s)", n - shown,
		 others.kind == RESIDENT_MAPPED	 ? "owners of mappings"
		 : others.kind == RESIDENT_FILE	 ? "files"
		 : others.kind == RESIDENT_BSS	 ? "files: behind their data"
		 : others.kind == RESIDENT_SHARED ? "kinds of shared memory"
						  : "of other names");
	return put_row(r, &others, text, room, sink);
}

static void put_sums(const struct profile *profile, const struct resident *r, struct sink *sink)
{
	char number[40];

	sink__printf(sink, "%*s  the sum of these rows: Rss in /proc/%d/smaps\n", NUMBER,
		     format_kib((double)r->smaps_bytes, number), (int)profile->pid);
	sink__printf(sink, "%*s  what VmRSS has more: it is read a moment later, and counted on each CPU apart\n",
		     NUMBER, format_kib((double)(r->vmrss_bytes - r->smaps_bytes), number));
	sink__printf(sink, "%*s  VmRSS in /proc/%d/status\n", NUMBER, format_kib((double)r->vmrss_bytes, number),
		     (int)profile->pid);
	if (r->heap_split)
		sink__printf(sink,
			     "heap: %s KiB are resident in its mappings; blocks count as they were asked for, touched or not\n",
			     format_kib((double)r->heap_bytes, number));
	if (r->huge_bytes)
		sink__printf(sink, "of this in transparent huge pages: %s KiB\n",
			     format_kib((double)r->huge_bytes, number));
	if (r->swap_bytes)
		sink__printf(sink, "not in it: %s KiB swapped out\n", format_kib((double)r->swap_bytes, number));
	if (r->hugetlb_bytes)
		sink__printf(sink, "not in it: %s KiB of reserved huge pages (hugetlb)\n",
			     format_kib((double)r->hugetlb_bytes, number));
	if (r->skipped)
		sink__printf(sink, "%" PRIu64 " lines of smaps were not understood\n", r->skipped);
}

int encode_resident(const struct profile *profile, const struct table_options *options, struct sink *sink)
{
	const struct resident *r = profile->resident;
	size_t width = options && options->width ? options->width : DEFAULT_WIDTH;
	size_t room = width > BEFORE_WHAT + MIN_ROOM ? width - BEFORE_WHAT : MIN_ROOM;
	_cleanup_free_ char *comm = text_printable(profile->comm);
	int rc = 0;

	if (!comm)
		return -ENOMEM;
	if (!r)
		return sink__printf(sink, "resident set of pid %d (%s): not known, %s\n", (int)profile->pid, comm,
				    profile->ended ? "it ended before it could be looked at"
						   : "/proc could not be read");
	sink__printf(sink, "resident set of pid %d (%s), KiB:\n\n", (int)profile->pid, comm);
	put_numbers("RESIDENT", "95 % INTERVAL", "ANONYMOUS", "SWAPPED", sink);
	sink__puts(sink, "WHAT\n");
	for (size_t i = 0; i < r->n && !rc;)
		rc = put_kind(r, i, room, sink, &i);
	if (!rc)
		put_sums(profile, r, sink);
	return rc ? rc : sink->error;
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
	json__key(&object, "from_start");
	sink__puts(json->sink, r->from_start ? "true" : "false");
	json__key(&object, "regions_followed");
	sink__puts(json->sink, r->followed ? "true" : "false");
	rows = json__open(&object, "rows", "[");
	for (size_t i = 0; i < r->n; i++) {
		const struct resident_row *row = &r->rows[i];
		struct json item = json__open(&rows, NULL, "{");

		json__put_text(&item, "kind", resident_kind__name(row->kind));
		if (*row->name)
			json__put_text(&item, "name", row->name);
		json__put_signed(&item, "bytes", (double)row->bytes);
		if (r->heap_split && (row->kind == RESIDENT_HEAP_LIVE || row->kind == RESIDENT_HEAP)) {
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
