// SPDX-License-Identifier: BSD-2-Clause
#include "heap/jemalloc_records.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/search.h"
#include "base/vector.h"
#include "heap/jemalloc.h"

#define LINKS	     3
#define LINK_ALIGN   64
#define BASE_BLOCK   (2ULL << 20) /* bytes; jemalloc's own memory begins at a multiple of this */
#define WINDOW_WORDS 4096	  /* handled in less than a burst (sandbox/gentle.h) */

/* A bin of free extents. */
enum { BIN_ROOT, BIN_WAITING, BIN_NUMBER, BIN_ADDR, BIN_WORDS };
#define BINS	    200 /* bins in an array */
#define BINS_SEEN   190 /* this many bins in a row are an array: other bins may change meanwhile */
#define MAX_WAITING (1ULL << 20) /* jemalloc lets far fewer extents wait */
#define MAX_NUMBER  (1ULL << 40)

/* Words that look like bins, one bin after the other. */
struct bins {
	size_t n;
	uint64_t at[BINS]; /* addresses of the bins' words BIN_ADDR, without those that are zero */
	size_t n_at;
};

struct records {
	struct image *image;
	struct heap_found *found;
	int szind;
	size_t n; /* the first n of found->records are ranges of records; ranges of bins follow */
	/* bins may begin at any word, so the index is the number of their first word modulo
	 * BIN_WORDS */
	struct bins bins[BIN_WORDS];
};

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Is an unused record of this arena at `at`? The extent of such a record began and ended at the
 * border of a page. */
static bool is_unused(const struct records *r, uint64_t at, uint32_t arena)
{
	uint64_t words[RECORD_BITMAP];
	bool is = !image__peek(r->image, at, words, sizeof(words)) &&
		  RECORD_ARENA(words[RECORD_BITS]) == arena &&
		  (words[RECORD_BITS] >> r->szind & 0xff) == r->found->classes->n &&
		  words[RECORD_ADDR] && words[RECORD_ADDR] % HEAP_PAGE == 0 &&
		  words[RECORD_SIZE] >= HEAP_PAGE;

	for (size_t i = 0; is && i < LINKS; i++)
		is = words[RECORD_LINKS + i] % LINK_ALIGN == 0;
	return is;
}

/* Returns the arena's number in the record at `at`; UINT32_MAX: it cannot be read. */
static uint32_t arena_of(const struct records *r, uint64_t at)
{
	uint64_t bits;

	return image__peek(r->image, at, &bits, sizeof(bits)) ? UINT32_MAX : RECORD_ARENA(bits);
}

/* Adds a range, or makes the last one longer. */
static int add(struct records *r, uint64_t start, uint64_t end)
{
	struct heap_found *found = r->found;
	struct root_range *last = found->n_records ? &found->records[found->n_records - 1] : NULL;

	if (last && start <= last->end) {
		if (end > last->end)
			last->end = end;
		return 0;
	}
	if (VECTOR_ADD_ROOM(found->records, found->n_records))
		return -ENOMEM;
	found->records[found->n_records++] = (struct root_range){start, end};
	return 0;
}

/* Adds the record at `at`, and the unused records beside it that lie in [from, to). */
static int add_record(struct records *r, uint64_t at, uint64_t from, uint64_t to)
{
	uint32_t arena = arena_of(r, at);
	uint64_t start = at, end = at + RECORD_BYTES;

	while (start >= from + RECORD_BYTES && is_unused(r, start - RECORD_BYTES, arena))
		start -= RECORD_BYTES;
	while (end + RECORD_BYTES <= to && is_unused(r, end, arena))
		end += RECORD_BYTES;
	return add(r, start, end);
}

static int add_records(struct records *r, const uint64_t *at, size_t n)
{
	uint64_t from = 0;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		err = add_record(r, at[i], from, i + 1 < n ? at[i + 1] : UINT64_MAX);
		if (!err)
			from = r->found->records[r->found->n_records - 1].end;
	}
	r->n = r->found->n_records;
	return err;
}

/* --- bins of free extents --- */

static bool is_record(const struct records *r, uint64_t addr)
{
	const struct root_range *ranges = r->found->records;
	size_t i = SEARCH_FIRST(k, r->n, ranges[k].end > addr);

	return addr % LINK_ALIGN == 0 && i < r->n && ranges[i].start <= addr;
}

/* May the words be a bin? */
static bool is_bin(const struct records *r, const uint64_t *words)
{
	if (words[BIN_ADDR] % HEAP_PAGE || words[BIN_NUMBER] >= MAX_NUMBER)
		return false;
	return words[BIN_ROOT] ? words[BIN_WAITING] < MAX_WAITING && is_record(r, words[BIN_ROOT])
			       : !words[BIN_WAITING];
}

/* Called when no further bin follows. If the bins so far are an array, the addresses in them are
 * not pointers of the program. */
static int end_bins(struct records *r, struct bins *bins)
{
	struct heap_found *found = r->found;
	bool array = bins->n >= BINS_SEEN && bins->n_at <= BINS;

	for (size_t i = 0; array && i < bins->n_at; i++) {
		if (VECTOR_ADD_ROOM(found->records, found->n_records))
			return -ENOMEM;
		found->records[found->n_records++] =
			(struct root_range){bins->at[i], bins->at[i] + 8};
	}
	bins->n = bins->n_at = 0;
	return 0;
}

/* Handles the words at `at`. */
static int take_words(struct records *r, uint64_t at, const uint64_t *words)
{
	struct bins *bins = &r->bins[at / 8 % BIN_WORDS];

	if (!is_bin(r, words))
		return bins->n ? end_bins(r, bins) : 0;
	bins->n++;
	if (words[BIN_ADDR] && bins->n_at < BINS)
		bins->at[bins->n_at] = at + 8ULL * BIN_ADDR;
	if (words[BIN_ADDR] && bins->n_at <= BINS)
		bins->n_at++;
	return 0;
}

/* Searches [at, end), which is resident, for bins. */
static int search(struct records *r, uint64_t at, uint64_t end)
{
	static uint64_t words[WINDOW_WORDS];
	const size_t overlap = BIN_WORDS - 1;
	int err = 0;

	while (end - at > overlap * 8 && !err) {
		size_t n = end - at < sizeof(words) ? (size_t)(end - at) / 8 : WINDOW_WORDS;

		if (image__read(r->image, at, words, n * 8))
			break;
		for (size_t i = 0; i + overlap < n && !err; i++)
			err = take_words(r, at + 8 * i, &words[i]);
		at += (n - overlap) * 8;
	}
	for (size_t i = 0; i < BIN_WORDS && !err; i++)
		err = end_bins(r, &r->bins[i]);
	return err;
}

/* Searches each BASE_BLOCK for bins, up to its first record: the bins are in an arena's struct
 * arena_s, which lies before the arena's first record. */
static int add_bins(struct records *r)
{
	uint64_t last = UINT64_MAX;
	int err = 0;

	for (size_t i = 0; i < r->n && !err; i++) {
		uint64_t first = r->found->records[i].start, end;
		uint64_t at = first / BASE_BLOCK * BASE_BLOCK;

		if (at == last)
			continue;
		last = at;
		for (; !err && image__run(r->image, at, first, &at, &end); at = end)
			err = search(r, at, end);
	}
	return err;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct root_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

int jemalloc__add_records(struct image *image, uint64_t *at, size_t n, int szind,
			  struct heap_found *found)
{
	struct records r = {.image = image, .found = found, .szind = szind};
	int err;

	image__forget(image);
	if (!n)
		return 0;
	qsort(at, n, sizeof(*at), compare);
	err = add_records(&r, at, n);
	if (!err)
		err = add_bins(&r);
	if (!err)
		qsort(found->records, found->n_records, sizeof(*found->records), compare_ranges);
	return err;
}
