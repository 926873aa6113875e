// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/encode.h"
#include "encode/grid.h"
#include "encode/json.h"
#include "encode/text.h"
#include "profile/origins.h"

#define MAX_ARENAS 8 /* at most this many arenas have rows; the last row sums up all others */

/* Where blocks are: words for people, and keys of JSON. */
static const struct {
	const char *text, *key;
} places[HEAP_PLACES] = {
	[PLACE_IN_USE] = {"in use", "in_use"},
	[PLACE_LARGE] = {"in use, of their own pages", "large"},
	[PLACE_THREAD_CACHE] = {"free, in thread caches", "thread_cache"},
	[PLACE_FAST_BIN] = {"free, in fast bins", "fast_bins"},
	[PLACE_BIN] = {"free, in bins and slabs", "bins"},
	[PLACE_TOP] = {"free, at the top or in extents", "top"},
};

bool heap_report__refusal(const struct census *census, char *text, size_t size)
{
	for (int i = 0; i < HEAP_ALLOCATORS; i++) {
		double doubt = census__doubt(census, (enum heap_allocator)i);

		if (doubt <= CENSUS_MAX_DOUBT)
			continue;
		if (!heap_quality__slabs_agree(&census->quality[i])) {
			snprintf(
				text, size,
				"%" PRIu64 " slabs of %s do not agree with their own counts: this "
				"build probably has other sizes of blocks than those that memtrace "
				"knows",
				census->quality[i].broken_slabs, heap_allocator__name(i));
			return true;
		}
		snprintf(
			text, size,
			"%.0f %% of the memory of %s made no sense or was not resident: more than "
			"%.0f %%, so its figures would mislead. Try again when the program is less "
			"busy",
			100 * doubt, heap_allocator__name(i), 100 * CENSUS_MAX_DOUBT);
		return true;
	}
	return false;
}

/* --- text --- */

static const char *bytes(uint64_t n, char *buf)
{
	return format_bytes((double)n, buf);
}

/* Puts a table after an empty line, or nothing if it has no rows. */
static void put_below(struct grid *grid, struct sink *sink)
{
	if (!grid->n && !grid->error)
		return;
	sink__puts(sink, "\n");
	grid__put(grid, sink);
}

static void put_memory(const struct heap_report *report, struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid =
		GRID({"MEMORY", true}, {"RESIDENT", false}, {"", true});
	const struct census *census = report->census;
	uint64_t swapped = 0;
	char a[20], b[20];

	for (int i = 0; i < IMAGE_KINDS; i++)
		swapped += census->memory[i].swapped;
	for (int i = 0; i < HEAP_ALLOCATORS; i++) {
		const struct census_pages *pages = &census->pages[i];

		if (!pages->mapped)
			continue;
		grid__add_row(&grid, "%s\t%s\t", heap_allocator__name(i), bytes(pages->pages, a));
		grid__add_row(&grid, "  blocks in use\t%s\t", bytes(pages->live, a));
		grid__add_row(&grid, "  free, whole pages\t%s\t%s of it in free blocks%s",
			      bytes(pages->whole_free, a), bytes(pages->trimmable, b),
			      i == HEAP_GLIBC ? ": malloc_trim(0) returns most such pages" : "");
		grid__add_row(&grid,
			      "  free, between blocks\t%s\tfree bytes and headers on pages with "
			      "blocks",
			      bytes(pages->between, a));
	}
	grid__add_row(&grid,
		      "other anonymous memory\t%s\tthreads' stacks, mappings, pools, allocators "
		      "that cannot be read",
		      bytes(census->unknown_anon, a));
	grid__add_row(
		&grid, "data of files\t%s\t",
		bytes(census->memory[IMAGE_DATA].resident + census->memory[IMAGE_BSS].resident, a));
	grid__add_row(&grid, "main thread's stack\t%s\t",
		      bytes(census->memory[IMAGE_STACK].resident, a));
	if (swapped)
		grid__add_row(&grid, "swapped\t%s\tswapped out, so not read", bytes(swapped, a));
	grid__put(&grid, sink);
	if (report->unread)
		sink__printf(sink,
			     "Blocks of %s cannot be found from outside: they are not counted. Its "
			     "memory is in\n\"other anonymous memory\".\n",
			     report->unread);
	else if (!census->pages[HEAP_GLIBC].mapped && !census->pages[HEAP_JEMALLOC].mapped)
		sink__puts(
			sink,
			"No heap of glibc (2.31 to 2.43) or jemalloc (5.2, 5.3) was found: other "
			"allocators cannot be read.\n");
}

static int by_bytes(const void *a, const void *b)
{
	const struct census_arena *x = a, *y = b;
	uint64_t in_x = x->places[PLACE_IN_USE].bytes + x->places[PLACE_LARGE].bytes;
	uint64_t in_y = y->places[PLACE_IN_USE].bytes + y->places[PLACE_LARGE].bytes;

	if (in_x != in_y)
		return in_x < in_y ? 1 : -1;
	return (x->addr > y->addr) - (x->addr < y->addr);
}

static void add_arena(struct grid *grid, const char *allocator, const char *name,
		      const struct heap_count *counts)
{
	char a[20];

	for (int i = 0; i < HEAP_PLACES; i++)
		if (counts[i].blocks)
			grid__add_row(grid, "%s\t%s\t%s\t%" PRIu64 "\t%s", allocator, name,
				      places[i].text, counts[i].blocks, bytes(counts[i].bytes, a));
}

static int put_arenas(const struct census *census, struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid =
		GRID({"ALLOCATOR", true}, {"ARENA", true}, {"WHERE", true}, {"BLOCKS", false},
		     {"BYTES", false});
	size_t n = (size_t)census->n_arenas, shown = n > MAX_ARENAS ? MAX_ARENAS - 1 : n;
	_cleanup_free_ struct census_arena *arenas = malloc((n + 1) * sizeof(*arenas));
	struct heap_count others[HEAP_PLACES] = {};
	char name[40];

	if (!arenas)
		return -ENOMEM;
	if (!n)
		return 0;
	memcpy(arenas, census->arenas, n * sizeof(*arenas));
	qsort(arenas, n, sizeof(*arenas), by_bytes);
	for (size_t i = 0; i < shown; i++) {
		snprintf(name, sizeof(name),
			 arenas[i].allocator == HEAP_GLIBC ? "0x%" PRIx64 : "%" PRIu64,
			 arenas[i].addr);
		add_arena(&grid, heap_allocator__name(arenas[i].allocator), name, arenas[i].places);
	}
	for (size_t i = shown; i < n; i++)
		for (int k = 0; k < HEAP_PLACES; k++) {
			others[k].blocks += arenas[i].places[k].blocks;
			others[k].bytes += arenas[i].places[k].bytes;
		}
	if (shown < n) {
		snprintf(name, sizeof(name), "%zu others", n - shown);
		add_arena(&grid, "", name, others);
	}
	put_below(&grid, sink);
	return 0;
}

/* A group of sizes of an allocator, for sorting. */
struct size_row {
	const struct census_size *size;
	uint64_t max, key;
};

static int by_key(const void *a, const void *b)
{
	const struct size_row *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	return (x->max > y->max) - (x->max < y->max);
}

/* Finds the groups that are not empty, descending by key. Returns their number. */
static size_t sort_sizes(const struct census *census, int allocator, bool by_pinned,
			 struct size_row rows[HEAP_SIZES])
{
	size_t n = 0;

	for (size_t i = 0; i < HEAP_SIZES; i++) {
		const struct census_size *size = &census->sizes[allocator][i];
		uint64_t key = by_pinned ? size->pinned : size->in_use.bytes;

		if (key || (!by_pinned && (size->cached.bytes || size->free.bytes)))
			rows[n++] = (struct size_row){size, heap__group_max(i), key};
	}
	qsort(rows, n, sizeof(*rows), by_key);
	return n;
}

static void add_size(struct census_size *sum, const struct census_size *size)
{
	sum->in_use.blocks += size->in_use.blocks;
	sum->in_use.bytes += size->in_use.bytes;
	sum->cached.bytes += size->cached.bytes;
	sum->free.bytes += size->free.bytes;
	sum->holders += size->holders;
	sum->pinned += size->pinned;
}

static void add_size_row(struct grid *grid, int allocator, const char *name,
			 const struct census_size *size, bool pinned)
{
	char a[20], b[20], c[20];

	if (pinned)
		grid__add_row(grid, "%s\t%" PRIu64 "\t%s", name, size->holders,
			      bytes(size->pinned, a));
	else
		grid__add_row(grid, "%s %s\t%" PRIu64 "\t%s\t%s\t%s",
			      heap_allocator__name(allocator), name, size->in_use.blocks,
			      bytes(size->in_use.bytes, a), bytes(size->cached.bytes, b),
			      bytes(size->free.bytes, c));
}

/* Adds the rows of the first sizes, and one that sums up the others. */
static void add_sizes(struct grid *grid, const struct census *census, int allocator, unsigned top,
		      bool pinned)
{
	struct size_row rows[HEAP_SIZES];
	size_t n = sort_sizes(census, allocator, pinned, rows);
	struct census_size others = {};
	char name[40];

	for (size_t i = 0; i < n; i++)
		if (i < top)
			add_size_row(grid, allocator, bytes(rows[i].max, name), rows[i].size,
				     pinned);
		else
			add_size(&others, rows[i].size);
	if (n > top) {
		snprintf(name, sizeof(name), "%zu others", n - top);
		add_size_row(grid, allocator, name, &others, pinned);
	}
}

static void put_sizes(const struct census *census, int allocator, unsigned top, struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid =
		GRID({"SIZE (usable, up to)", true}, {"BLOCKS", false}, {"BYTES", false},
		     {"CACHED", false}, {"FREE", false});

	add_sizes(&grid, census, allocator, top, false);
	put_below(&grid, sink);
}

static void add_type_row(struct grid *grid, const struct heap_type *type, const char *name)
{
	char a[20], b[20];

	grid__add_row(grid, "%" PRIu64 "\t%s\t%s\t%s", type->count.blocks,
		      bytes(type->count.bytes, a), type->pinned ? bytes(type->pinned, b) : "",
		      name);
}

static void put_types(const struct heap_report *report, unsigned top, struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid =
		GRID({"BLOCKS", false}, {"BYTES", false}, {"THEY PIN", false},
		     {"C++ CLASS (with virtual functions)", true});
	struct heap_type others = {};
	char name[40];

	if (!report->n_types && !report->census->unchecked_types)
		return;
	for (size_t i = 0; i < report->n_types; i++) {
		const struct heap_type *type = &report->types[i];

		if (i < top) {
			add_type_row(&grid, type, type->name);
			continue;
		}
		others.count.blocks += type->count.blocks;
		others.count.bytes += type->count.bytes;
		others.pinned += type->pinned;
	}
	snprintf(name, sizeof(name), "%zu others", report->n_types - top);
	if (report->n_types > top)
		add_type_row(&grid, &others, name);
	if (report->census->untold_types)
		grid__add_row(&grid, "%" PRIu64 "\t\t\tof further classes or sizes, not told apart",
			      report->census->untold_types);
	if (report->census->unchecked_types)
		grid__add_row(&grid, "%" PRIu64 "\t\t\tnot checked: too many different first words",
			      report->census->unchecked_types);
	put_below(&grid, sink);
}

static void put_pinned(const struct census *census, int allocator, unsigned top, struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid =
		GRID({"SIZE (usable, up to)", true}, {"BLOCKS", false}, {"THEY PIN", false});
	const struct census_pages *pages = &census->pages[allocator];
	char a[20], b[20];

	if (!pages->sparse)
		return;
	sink__printf(sink,
		     "\nPinned pages of %s: %s of pages are less than half in use. %s on them are "
		     "free, but\nblocks in use keep these pages:\n",
		     heap_allocator__name(allocator), bytes(pages->sparse, a),
		     bytes(pages->pinned, b));
	add_sizes(&grid, census, allocator, top, true);
	grid__put(&grid, sink);
}

#define SHOWN_FUNCTIONS	 4
#define FUNCTION_COLUMNS 40

static bool is_plain(const struct origin *origin)
{
	return 2 * origin->plain_bytes > origin->count.bytes;
}

static int put_functions(const struct origin *origin, struct sink *sink)
{
	size_t n = origin->n_functions < SHOWN_FUNCTIONS ? origin->n_functions : SHOWN_FUNCTIONS;

	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *printable = text_printable(origin->functions[i]);
		_cleanup_free_ char *name =
			printable ? text_unqualified(printable, FUNCTION_COLUMNS) : NULL;

		if (!name)
			return -ENOMEM;
		sink__printf(sink, "%s%s", i ? " < " : "", name);
	}
	sink__puts(sink, n < origin->n_functions ? " < ..." : "");
	sink__puts(sink, is_plain(origin) ? " (plain)\n" : "\n");
	return 0;
}

static void add_origin(struct grid *grid, const struct heap_count *count, uint64_t pinned)
{
	char a[20], b[20];

	grid__add_row(grid, "%" PRIu64 "\t%s\t%s", count->blocks, bytes(count->bytes, a),
		      pinned ? bytes(pinned, b) : "");
}

/* As a check, each half of the known blocks was used to guess the functions of the other half. Puts
 * how many guesses were right. */
static void put_held_back(const struct origins *o, bool by_file, struct sink *sink)
{
	sink__printf(sink, "Known blocks: %zu that tracing sampled and that live.", o->known);
	if (by_file)
		sink__puts(sink, " (Some may be other blocks, which\nhave taken the place of those "
				 "since the profile's run.)");
	if (o->told.blocks)
		sink__printf(sink,
			     " As a check, each half\nwas used to name the functions of the other "
			     "half: %" PRIu64 " blocks were named,\n%" PRIu64
			     " of them correctly (%.1f %% of the blocks, %.1f %% of the bytes).",
			     o->told.blocks, o->right.blocks,
			     100.0 * (double)o->right.blocks / (double)o->told.blocks,
			     100.0 * (double)o->right.bytes / (double)o->told.bytes);
	else if (o->n_rows)
		sink__puts(sink, " They are too few to check how often the functions are right.");
	sink__puts(sink, "\n");
}

static int put_origins(const struct origins *o, bool by_file, unsigned top, struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid =
		GRID({"BLOCKS", false}, {"BYTES", false}, {"THEY PIN", false});
	size_t n = o->n_rows < top ? o->n_rows : top;
	struct heap_count others = {};
	uint64_t pinned = 0;
	bool plain = false;

	sink__puts(sink, "\nWho probably made the blocks: they look like blocks that tracing has "
			 "seen.\n");
	if (o->misleading)
		sink__puts(sink,
			   "No function is named: too many known blocks would get a wrong one.\n");
	if (!o->misleading && !o->n_rows)
		sink__puts(
			sink,
			"Nothing can be told: too few blocks are known (a longer run gives more), "
			"or blocks of\nseveral functions are too similar.\n");
	for (size_t i = 0; i < o->n_rows; i++) {
		const struct origin *row = &o->rows[i];

		if (i < n) {
			plain |= is_plain(row);
			add_origin(&grid, &row->count, row->pinned);
			continue;
		}
		others.blocks += row->count.blocks;
		others.bytes += row->count.bytes;
		pinned += row->pinned;
	}
	add_origin(&grid, &others, pinned); /* a row without blocks is not shown */
	add_origin(&grid, &o->unknown, 0);
	if (grid__fit(&grid))
		return -ENOMEM;
	grid__widen(&grid, 2, 0);
	grid__put_titles(&grid, "LOOK LIKE THOSE OF\n", sink);
	for (size_t i = 0; i < n; i++) {
		grid__put_row(&grid, i, NULL, sink);
		if (put_functions(&o->rows[i], sink))
			return -ENOMEM;
	}
	if (o->n_rows > n) {
		grid__put_row(&grid, n, NULL, sink);
		sink__printf(sink, "%zu others\n", o->n_rows - n);
	}
	grid__put_row(&grid, n + 1, "unknown\n", sink);
	if (plain)
		sink__puts(sink,
			   "(plain): blocks with numbers and text in the same places, to which "
			   "blocks of the same kind point.\nFunctions that made no such block "
			   "during the tracing may have made some of these.\n");
	put_held_back(o, by_file, sink);
	return 0;
}

static void put_quality(const struct census *census, struct sink *sink)
{
	char a[20], b[20];

	sink__puts(sink, "\n");
	for (int i = 0; i < HEAP_ALLOCATORS; i++) {
		const struct heap_quality *q = &census->quality[i];

		if (!census->pages[i].mapped)
			continue;
		sink__printf(sink, "Quality, %s: %.3f %% in doubt", heap_allocator__name(i),
			     100 * census__doubt(census, (enum heap_allocator)i));
		if (q->own_bytes)
			sink__printf(sink, "; its own count %s, found %s", bytes(q->own_bytes, a),
				     bytes(q->found_bytes, b));
		if (q->resyncs)
			sink__printf(sink,
				     "; %" PRIu64 " places skipped where headers made no sense",
				     q->resyncs);
		if (q->unknown_bytes)
			sink__printf(sink, " (%s)", bytes(q->unknown_bytes, a));
		if (q->absent_bytes)
			sink__printf(sink, "; %s behind headers that are not resident",
				     bytes(q->absent_bytes, a));
		if (q->doubtful)
			sink__printf(sink, "; %" PRIu64 " large blocks whose size nothing proves",
				     q->doubtful);
		if (q->own_large != q->found_large)
			sink__printf(sink, "; in mappings of their own %s%s%s",
				     bytes(q->found_large, a),
				     q->own_large ? ", by its own count " : "",
				     q->own_large ? bytes(q->own_large, b) : "");
		if (q->broken_slabs)
			sink__printf(sink, "; %" PRIu64 " slabs changed while they were read",
				     q->broken_slabs);
		if (q->thread_caches)
			sink__printf(sink, "; %" PRIu64 " thread caches read", q->thread_caches);
		if (q->dropped_spans)
			sink__printf(sink, "; %" PRIu64 " extents changed", q->dropped_spans);
		sink__puts(sink, "\n");
	}
	if (census->pages[HEAP_JEMALLOC].mapped && !census->quality[HEAP_JEMALLOC].thread_caches)
		sink__puts(sink, "jemalloc: no thread cache was found, so blocks in thread caches "
				 "look like blocks in use.\n");
	if (census->stopped)
		sink__printf(sink, "The scan ended early: %s\n",
			     census->stopped == -EFBIG ? "there is too much memory to read"
						       : strerror((int)-census->stopped));
}

int encode_heap_report(const struct heap_report *report, unsigned top, struct sink *sink)
{
	const struct census *census = report->census;
	char a[20];
	int err;

	sink__printf(sink, "Process %d (%s): census in %.2f s, %s read\n\n", (int)report->pid,
		     report->comm, report->seconds, bytes(census->bytes_read, a));
	put_memory(report, sink);
	err = put_arenas(census, sink);
	if (err)
		return err;
	for (int i = 0; i < HEAP_ALLOCATORS; i++)
		put_sizes(census, i, top, sink);
	put_types(report, top, sink);
	if (report->origins && put_origins(report->origins, report->by_file, top, sink))
		return -ENOMEM;
	for (int i = 0; i < HEAP_ALLOCATORS; i++)
		put_pinned(census, i, top, sink);
	put_quality(census, sink);
	return sink->error;
}

/* --- JSON --- */

static void put_count(struct json *object, const char *key, const struct heap_count *count)
{
	struct json json = json__open(object, key, "{");

	json__put_uint(&json, "blocks", count->blocks);
	json__put_uint(&json, "bytes", count->bytes);
	sink__puts(json.sink, "}");
}

static void put_json_pages(struct json *object, const struct census_pages *pages)
{
	struct json json = json__open(object, "pages", "{");

	json__put_uint(&json, "mapped", pages->mapped);
	json__put_uint(&json, "resident", pages->pages);
	json__put_uint(&json, "live", pages->live);
	json__put_uint(&json, "whole_free", pages->whole_free);
	json__put_uint(&json, "trimmable", pages->trimmable);
	json__put_uint(&json, "between", pages->between);
	json__put_uint(&json, "sparse", pages->sparse);
	json__put_uint(&json, "pinned", pages->pinned);
	sink__puts(json.sink, "}");
}

static void put_json_quality(struct json *object, const struct census *census, int allocator)
{
	const struct heap_quality *q = &census->quality[allocator];
	struct json json = json__open(object, "quality", "{");

	json__put_real(&json, "doubt", census__doubt(census, (enum heap_allocator)allocator));
	json__put_uint(&json, "resyncs", q->resyncs);
	json__put_uint(&json, "unknown_bytes", q->unknown_bytes);
	json__put_uint(&json, "absent_bytes", q->absent_bytes);
	json__put_uint(&json, "doubtful", q->doubtful);
	json__put_uint(&json, "own_bytes", q->own_bytes);
	json__put_uint(&json, "found_bytes", q->found_bytes);
	json__put_uint(&json, "own_large", q->own_large);
	json__put_uint(&json, "found_large", q->found_large);
	json__put_uint(&json, "broken_slabs", q->broken_slabs);
	json__put_uint(&json, "dropped_spans", q->dropped_spans);
	json__put_uint(&json, "thread_caches", q->thread_caches);
	sink__puts(json.sink, "}");
}

static void put_json_allocator(struct json *list, const struct census *census, int allocator)
{
	struct json json = json__open(list, NULL, "{"), arenas, sizes;

	json__put_text(&json, "name", heap_allocator__name(allocator));
	put_json_pages(&json, &census->pages[allocator]);
	arenas = json__open(&json, "arenas", "[");
	for (size_t i = 0; i < census->n_arenas; i++) {
		struct json arena;

		if ((int)census->arenas[i].allocator != allocator)
			continue;
		arena = json__open(&arenas, NULL, "{");
		json__put_uint(&arena, "arena", census->arenas[i].addr);
		for (int k = 0; k < HEAP_PLACES; k++)
			put_count(&arena, places[k].key, &census->arenas[i].places[k]);
		sink__puts(arena.sink, "}");
	}
	sink__puts(json.sink, "]");
	sizes = json__open(&json, "sizes", "[");
	for (size_t i = 0; i < HEAP_SIZES; i++) {
		const struct census_size *size = &census->sizes[allocator][i];
		struct json row;

		if (!size->in_use.blocks && !size->cached.blocks && !size->free.blocks)
			continue;
		row = json__open(&sizes, NULL, "{");
		json__put_uint(&row, "max", heap__group_max(i));
		put_count(&row, "in_use", &size->in_use);
		put_count(&row, "cached", &size->cached);
		put_count(&row, "free", &size->free);
		json__put_uint(&row, "holders", size->holders);
		json__put_uint(&row, "pinned", size->pinned);
		sink__puts(row.sink, "}");
	}
	sink__puts(json.sink, "]");
	put_json_quality(&json, census, allocator);
	sink__puts(json.sink, "}");
}

static void put_json_origins(struct json *object, const struct origins *o)
{
	struct json json = json__open(object, "origins", "{");
	struct json list = json__open(&json, "stacks", "[");

	for (size_t i = 0; i < o->n_rows; i++) {
		struct json row = json__open(&list, NULL, "{");
		struct json functions = json__open(&row, "stack", "[");

		for (size_t k = 0; k < o->rows[i].n_functions; k++) {
			json__comma(&functions);
			json__text(&functions, o->rows[i].functions[k]);
		}
		sink__puts(functions.sink, "]");
		json__put_uint(&row, "blocks", o->rows[i].count.blocks);
		json__put_uint(&row, "bytes", o->rows[i].count.bytes);
		json__put_uint(&row, "pinned", o->rows[i].pinned);
		json__put_uint(&row, "plain_bytes", o->rows[i].plain_bytes);
		sink__puts(row.sink, "}");
	}
	sink__puts(list.sink, "]");
	put_count(&json, "unknown", &o->unknown);
	json__put_uint(&json, "known_blocks", o->known);
	put_count(&json, "told", &o->told);
	put_count(&json, "told_rightly", &o->right);
	json__put_bool(&json, "misleading", o->misleading);
	sink__puts(json.sink, "}");
}

static void put_document(const struct heap_report *report, struct sink *sink)
{
	const struct census *census = report->census;
	struct json json = json__open_document(sink, "heap_census"), allocators, types;
	uint64_t swapped = 0;

	for (int i = 0; i < IMAGE_KINDS; i++)
		swapped += census->memory[i].swapped;
	json__put_uint(&json, "pid", (uint64_t)report->pid);
	json__put_text(&json, "comm", report->comm);
	json__put_real(&json, "seconds", report->seconds);
	json__put_uint(&json, "bytes_read", census->bytes_read);
	json__put_uint(&json, "other_anonymous", census->unknown_anon);
	json__put_uint(&json, "data",
		       census->memory[IMAGE_DATA].resident + census->memory[IMAGE_BSS].resident);
	json__put_uint(&json, "stack", census->memory[IMAGE_STACK].resident);
	json__put_uint(&json, "swapped", swapped);
	json__put_bool(&json, "stopped_early", census->stopped);
	if (report->unread)
		json__put_text(&json, "unread", report->unread);
	allocators = json__open(&json, "allocators", "[");
	for (int i = 0; i < HEAP_ALLOCATORS; i++)
		if (census->pages[i].mapped)
			put_json_allocator(&allocators, census, i);
	sink__puts(sink, "]");
	types = json__open(&json, "types", "[");
	for (size_t i = 0; i < report->n_types; i++) {
		struct json type = json__open(&types, NULL, "{");

		json__put_text(&type, "class", report->types[i].name);
		json__put_uint(&type, "blocks", report->types[i].count.blocks);
		json__put_uint(&type, "bytes", report->types[i].count.bytes);
		json__put_uint(&type, "pinned", report->types[i].pinned);
		sink__puts(sink, "}");
	}
	sink__puts(sink, "]");
	json__put_uint(&json, "untold_types", census->untold_types);
	json__put_uint(&json, "unchecked_types", census->unchecked_types);
	if (report->origins)
		put_json_origins(&json, report->origins);
	sink__puts(sink, "}");
}

int encode_heap_report_json(const struct heap_report *report, struct sink *sink)
{
	put_document(report, sink);
	sink__puts(sink, "\n");
	return sink->error;
}

void json__put_heap_report(struct json *json, const struct heap_report *report)
{
	json__key(json, "heap");
	put_document(report, json->sink);
}
