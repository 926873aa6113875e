// SPDX-License-Identifier: BSD-2-Clause
#include "profile/resident.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "base/vector.h"
#include "profile/own_frame.h"
#include "profile/profile.h"

#define OWNER_FRAMES 3 /* at most this many frames name the owner of a mapping */

const char *resident_kind__name(enum resident_kind kind)
{
	static const char *const names[RESIDENT_N_KINDS] = {
#define X(id, name) [RESIDENT_##id] = name,
		RESIDENT_KINDS(X)
#undef X
	};

	return kind < RESIDENT_N_KINDS ? names[kind] : "";
}

void resident_bytes__add(struct resident_bytes *sum, const struct resident_bytes *more)
{
	sum->rss += more->rss;
	sum->anonymous += more->anonymous;
	sum->swap += more->swap;
	sum->mappings += more->mappings;
}

/* --- what was measured --- */

void resident_pieces__free(struct resident_pieces *p)
{
	free(p->at);
	intern__clear(&p->names);
	memset(p, 0, sizeof(*p));
}

static bool make_room(struct resident_pieces *p)
{
	return p->n < RESIDENT_MAX_PIECES && !VECTOR_RESERVE(p->at, p->room, p->n + 1);
}

void resident_pieces__add(struct resident_pieces *p, const struct resident_piece *piece,
			  const char *name)
{
	const size_t used = p->names.used;
	uint32_t number = 0;

	if (!make_room(p) || (!p->names.n && intern__add(&p->names, "", 0, &number) < 0)) {
		resident_bytes__add(&p->left_out, &piece->bytes);
		return;
	}
	if (!name || used + strlen(name) > RESIDENT_MAX_NAMES ||
	    intern__add(&p->names, name, strlen(name), &number) < 0)
		number = 0; /* "" */
	p->at[p->n] = *piece;
	p->at[p->n++].name = number;
}

/* --- what it is --- */

/* A part of a row. Parts of the same kind and name are added up to one row. */
struct part {
	enum resident_kind kind;
	uint32_t name;
	struct resident_bytes bytes;
};

struct parts {
	struct part *at;
	size_t n;
	struct intern names;
};

static void parts__clear(struct parts *parts)
{
	free(parts->at);
	intern__clear(&parts->names);
}

/* Adds a part to `parts`, which has room for one more. */
static int add_part(struct parts *parts, enum resident_kind kind, const void *name, size_t len,
		    const struct resident_bytes *bytes)
{
	struct part part = {.kind = kind, .bytes = *bytes};
	int rc = intern__add(&parts->names, name, len, &part.name);

	if (rc >= 0 && (bytes->rss || bytes->swap))
		parts->at[parts->n++] = part;
	return rc < 0 ? rc : 0;
}

static bool has_block(const struct resident_piece *piece, const uint64_t *blocks, size_t n)
{
	size_t first = SEARCH_FIRST(i, n, blocks[i] >= piece->start);

	return first < n && blocks[first] < piece->end;
}

#define PAGE 4096ULL

/* Adds the piece to the heap's ranges, which have room for it. */
static void add_range(struct resident *r, const struct resident_piece *piece)
{
	struct heap_range range = {(piece->start + PAGE - 1) & ~(PAGE - 1),
				   (piece->end + PAGE - 1) & ~(PAGE - 1)};

	if (r->n_ranges && r->ranges[r->n_ranges - 1].end == range.start)
		r->ranges[r->n_ranges - 1].end = range.end;
	else if (range.end > range.start)
		r->ranges[r->n_ranges++] = range;
}

/* Adds a part for each piece, except for pieces of kind RESIDENT_MAPPED. These are only summed up
 * in *mapped: add_sites() adds the parts for them. */
static int add_pieces(const struct resident_pieces *pieces, const uint64_t *blocks, size_t n_blocks,
		      struct resident *r, struct parts *parts, struct resident_bytes *mapped)
{
	int rc = 0;

	for (size_t i = 0; i < pieces->n && !rc; i++) {
		const struct resident_piece *piece = &pieces->at[i];
		enum resident_kind kind = piece->kind;
		const void *name;
		size_t len;

		if (kind == RESIDENT_MAPPED) {
			resident_bytes__add(mapped, &piece->bytes);
			if (piece->of_heap)
				add_range(r, piece);
			continue;
		}
		if ((kind == RESIDENT_EARLIER || kind == RESIDENT_BSS) &&
		    has_block(piece, blocks, n_blocks))
			kind = RESIDENT_HEAP;
		if (kind == RESIDENT_HEAP)
			add_range(r, piece);
		name = intern__get(&pieces->names, piece->name, &len);
		rc = add_part(parts, kind, name, kind == RESIDENT_HEAP ? 0 : len, &piece->bytes);
	}
	return rc ? rc : add_part(parts, RESIDENT_LEFT_OUT, "", 0, &pieces->left_out);
}

/* Finds the first frame that is neither an allocator's nor the runtime's. Returns the index of its
 * location in the site. *ret_frame: the frame's index in the location. Both indices are 0 if there
 * is no such frame. */
static uint32_t first_own(const struct profile *profile, const struct profile_site *site,
			  size_t *ret_frame)
{
	for (uint32_t i = 0; i < site->n_locations; i++) {
		const struct profile_location *location = profile__location(profile, site, i);

		for (size_t k = 0; k < location->n_frames; k++) {
			*ret_frame = k;
			/* The rows of --rss are named after owners. So an interpreter that maps
			 * memory for its pool is one owner, whatever function it interprets at that
			 * time. */
			if (profile__frame_owner(profile, location, location->frames[k].name,
						 NULL) >= FRAME_OF_INTERPRETER)
				return i;
		}
	}
	*ret_frame = 0;
	return 0;
}

/* Makes the name of an owner, "map_cache < main": up to OWNER_FRAMES frames, from first_own()
 * outwards, without allocator frames. */
static char *owner_of(const struct profile *profile, const struct profile_site *site)
{
	const char *told[OWNER_FRAMES], *first = NULL;
	size_t n = 0, len = 1, frame;
	uint32_t from = first_own(profile, site, &frame);
	char *text, *to;

	for (uint32_t i = from; i < site->n_locations && n < OWNER_FRAMES; i++) {
		const struct profile_location *location = profile__location(profile, site, i);

		for (size_t k = i == from ? frame : 0; k < location->n_frames && n < OWNER_FRAMES;
		     k++) {
			const char *name = location->frames[k].name;

			first = first ? first : name;
			if (!profile__is_allocator_frame(name))
				told[n++] = name;
		}
	}
	if (!n && first)
		told[n++] = first;
	for (size_t i = 0; i < n; i++)
		len += strlen(told[i]) + 3;
	to = text = malloc(len);
	for (size_t i = 0; text && i < n; i++)
		to = stpcpy(stpcpy(to, i ? " < " : ""), told[i]);
	if (text)
		*to = '\0';
	return text;
}

/* Adds a part for each site of `regions`. mapped: sum of all RESIDENT_MAPPED pieces. The remainder
 * of `mapped` belongs to no site, because its stack is not known. It becomes RESIDENT_EARLIER. */
static int add_sites(const struct profile *regions, struct resident_bytes mapped,
		     struct parts *parts)
{
	int rc = 0;

	for (size_t i = 0; regions && i < regions->n_sites && !rc; i++) {
		const struct profile_site *site = &regions->sites[i];
		_cleanup_free_ char *owner = NULL;

		mapped.rss -= site->resident.rss;
		mapped.anonymous -= site->resident.anonymous;
		mapped.swap -= site->resident.swap;
		mapped.mappings -= site->resident.mappings;
		if (site->allocators_own && !site->unseen_pools) {
			rc = add_part(parts, RESIDENT_HEAP, "", 0, &site->resident);
			continue;
		}
		owner = owner_of(regions, site);
		rc = owner ? add_part(parts, RESIDENT_MAPPED, owner, strlen(owner), &site->resident)
			   : -ENOMEM;
	}
	return rc ? rc : add_part(parts, RESIDENT_EARLIER, "", 0, &mapped);
}

static int by_kind_and_name(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

static int by_kind_and_bytes(const void *a, const void *b)
{
	const struct resident_row *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

static struct resident_row *add_row(struct resident *r, enum resident_kind kind, const char *name,
				    size_t len)
{
	struct resident_row *row = &r->rows[r->n];

	*row = (struct resident_row){.kind = kind, .name = strndup(name, len)};
	r->n += row->name != NULL;
	return row->name ? row : NULL;
}

static int add_rows(struct resident *r, struct parts *parts)
{
	struct resident_row *row = NULL;

	qsort(parts->at, parts->n, sizeof(*parts->at), by_kind_and_name);
	for (size_t i = 0; i < parts->n; i++) {
		const struct part *part = &parts->at[i];

		if (!i || by_kind_and_name(part, part - 1)) {
			size_t len;
			const char *name = intern__get(&parts->names, part->name, &len);

			row = add_row(r, part->kind, name, len);
			if (!row)
				return -ENOMEM;
		}
		row->bytes += (int64_t)part->bytes.rss;
		row->anonymous += part->bytes.anonymous;
		row->swap += part->bytes.swap;
		row->mappings += part->bytes.mappings;
		r->smaps_bytes += (int64_t)part->bytes.rss;
		r->swap_bytes += part->bytes.swap;
		r->heap_bytes += part->kind == RESIDENT_HEAP ? (int64_t)part->bytes.rss : 0;
	}
	return 0;
}

/* Moves the estimate of live bytes from the row HEAP to a row HEAP_LIVE. */
static int split_heap(struct resident *r, const struct profile *heap)
{
	struct estimate live = profile__live(heap);
	struct interval all = profile__live_interval(heap, &live);
	struct resident_row *row = NULL, *of_live;
	int64_t bytes = llround(live.bytes);

	for (size_t i = 0; i < r->n; i++)
		row = r->rows[i].kind == RESIDENT_HEAP ? &r->rows[i] : row;
	if (!row)
		row = add_row(r, RESIDENT_HEAP, "", 0);
	of_live = row ? add_row(r, RESIDENT_HEAP_LIVE, "", 0) : NULL;
	if (!of_live)
		return -ENOMEM;
	of_live->bytes = bytes;
	of_live->interval = all;
	row->bytes -= bytes;
	row->interval = (struct interval){(double)r->heap_bytes - all.high,
					  (double)r->heap_bytes - all.low};
	r->heap_split = true;
	r->heap_windowed = profile__is_windowed(heap);
	return 0;
}

int resident__make(const struct resident_pieces *pieces, const struct profile *heap,
		   const struct profile *regions, const uint64_t *blocks, size_t n_blocks,
		   bool from_start, struct resident **ret)
{
	_cleanup_(parts__clear) struct parts parts = {};
	struct resident *r = calloc(1, sizeof(*r));
	size_t room = pieces->n + (regions ? regions->n_sites : 0) + 2;
	struct resident_bytes mapped = {};
	int rc = -ENOMEM;

	parts.at = calloc(room, sizeof(*parts.at));
	if (r)
		r->ranges = calloc(pieces->n + 1, sizeof(*r->ranges));
	if (!r || !r->ranges || !parts.at)
		goto out;
	rc = add_pieces(pieces, blocks, n_blocks, r, &parts, &mapped);
	if (!rc)
		rc = add_sites(regions, mapped, &parts);
	r->rows = calloc(parts.n + 2, sizeof(*r->rows)); /* 2: for both heap rows */
	if (!rc)
		rc = r->rows ? add_rows(r, &parts) : -ENOMEM;
	if (!rc && heap)
		rc = split_heap(r, heap);
	if (rc)
		goto out;
	qsort(r->rows, r->n, sizeof(*r->rows), by_kind_and_bytes);
	r->vmrss_bytes = (int64_t)pieces->vmrss_bytes;
	r->huge_bytes = pieces->huge_bytes;
	r->hugetlb_bytes = pieces->hugetlb_bytes;
	r->skipped = pieces->skipped;
	r->from_start = from_start;
	r->followed = regions != NULL;
	if (regions)
		r->stopped_s = regions->regions.stopped_s;
	*ret = r;
	r = NULL;
out:
	resident__free(r);
	return rc;
}

void resident__free(struct resident *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		free(r->rows[i].name);
	free(r->rows);
	free(r->ranges);
	free(r->census);
	free(r->census_failed);
	free(r);
}

/* --- the census --- */

void resident__parts(const struct resident *r, int64_t ret[RESIDENT_PARTS])
{
	const struct heap_slack *c = r->census;
	int64_t live = r->heap_split ? r->rows[0].bytes : 0;

	ret[RESIDENT_PART_IN_USE] = (int64_t)c->live - live;
	ret[RESIDENT_PART_WHOLE_FREE] = (int64_t)c->whole_free;
	ret[RESIDENT_PART_FREE] = (int64_t)c->free;
	ret[RESIDENT_PART_HEADERS] = (int64_t)(c->pages - c->live - c->whole_free - c->free);
	ret[RESIDENT_PART_OTHER] = r->heap_bytes - (int64_t)c->pages;
}

int resident__take_census(struct resident *r, const struct heap_slack *slack)
{
	struct heap_slack *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *slack;
	free(r->census);
	r->census = copy;
	return 0;
}

int resident__fail_census(struct resident *r, const char *why)
{
	char *copy = strdup(why);

	if (!copy)
		return -ENOMEM;
	free(r->census_failed);
	r->census_failed = copy;
	return 0;
}
