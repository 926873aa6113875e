// SPDX-License-Identifier: BSD-2-Clause
/* The file's lines are painted onto the address space, from the last line to the first. Each line
 * is painted only where nothing is painted yet. The sorted starts and ends of all lines cut the
 * addresses into stretches. Once a stretch is painted, it is skipped in one step (disjoint sets
 * with path halving). So painting takes no more time than sorting the lines, even if many lines
 * overlap. */
#include "symbolize/perf_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/search.h"
#include "symbolize/clean.h"

#define MAX_FILE_BYTES (64u << 20)
/* as many as there are lines of 32 bytes in MAX_FILE_BYTES; real lines have 60 bytes */
#define MAX_ENTRIES (2u << 20)
#define NOBODY	    UINT32_MAX

/* One line of the file. */
struct entry {
	uint64_t start, end;
	const char *source; /* the name in the text, not ended by a NUL */
	size_t source_len;
	const char *name; /* the copy of the name; NULL: no range has needed it so far */
};

/* The stretch of addresses from `addr` up to the next edge's `addr`. */
struct edge {
	uint64_t addr;
	uint32_t owner; /* an index in `entries`, or NOBODY */
	uint32_t next;	/* index of the first unpainted edge from this one on, or of an edge on the
			 * way to that edge */
};

struct range {
	uint64_t start, end; /* end exclusive */
	uint64_t function;   /* START of the function's line */
	const char *name;
};

struct perf_map {
	struct range *ranges; /* ascending, disjoint */
	size_t n;
	char *names; /* all names, each ended by a NUL */
};

DEFINE_CLEANUP(struct perf_map *, cleanup_perf_map, perf_map__free)

/* --- lines --- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Reads a hex number and the blanks behind it. Returns the end of the blanks, or NULL. */
static const char *parse_hex(const char *at, const char *end, uint64_t *ret_value)
{
	const char *digits;
	uint64_t value = 0;

	if (end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
		at += 2;
	for (digits = at; at < end && hex_digit(*at) >= 0; at++) {
		if (value >> 60)
			return NULL;
		value = value << 4 | (uint64_t)hex_digit(*at);
	}
	if (at == digits || at == end || *at != ' ')
		return NULL;
	while (at < end && *at == ' ')
		at++;
	*ret_value = value;
	return at;
}

static bool parse_line(const char *line, const char *end, struct entry *ret_entry)
{
	uint64_t start, size;

	line = parse_hex(line, end, &start);
	if (line)
		line = parse_hex(line, end, &size);
	if (!line || line == end || start + size <= start)
		return false;
	*ret_entry = (struct entry){
		.start = start,
		.end = start + size,
		.source = line,
		.source_len = (size_t)(end - line),
	};
	return true;
}

static size_t count_newlines(const char *text, size_t len)
{
	const char *end = text + len;
	size_t n = 0;

	while (text < end && (text = memchr(text, '\n', (size_t)(end - text)))) {
		text++;
		n++;
	}
	return n;
}

/* Fills `entries`, which has room for `max` entries, and returns their number. Adds to *skipped the
 * number of unused lines. */
static size_t parse_lines(const char *text, size_t len, struct entry *entries, size_t max,
			  size_t *skipped)
{
	const char *end = text + len, *newline;
	size_t n = 0;

	while (text < end && (newline = memchr(text, '\n', (size_t)(end - text)))) {
		if (n < max && parse_line(text, newline, &entries[n]))
			n++;
		else
			++*skipped;
		text = newline + 1;
	}
	*skipped += text < end;
	return n;
}

/* --- which lines are needed --- */

/* Finds the first address, from number i on, that no line has covered yet. Returns its number. */
static size_t first_open(size_t *next, size_t i)
{
	while (next[i] != i) {
		next[i] = next[next[i]];
		i = next[i];
	}
	return i;
}

/* Keeps only the entries that are needed: for each wanted address, the last entry that covers it.
 * Returns the number of entries; -ENOMEM. A profile has only some thousand addresses, so a file of
 * a million lines takes little more time than is needed to read it. */
static ssize_t keep_wanted(struct entry *entries, size_t n_entries,
			   const struct perf_map_wanted *wanted)
{
	_cleanup_free_ size_t *next = calloc(wanted->n + 1, sizeof(*next));
	size_t n = 0;

	if (!next)
		return -ENOMEM;
	for (size_t i = 0; i <= wanted->n; i++)
		next[i] = i;
	for (size_t k = n_entries; k-- > 0;) {
		const struct entry *e = &entries[k];
		size_t i = SEARCH_FIRST(m, wanted->n, wanted->addrs[m] >= e->start);
		bool needed = false;

		while ((i = first_open(next, i)) < wanted->n && wanted->addrs[i] < e->end) {
			next[i] = i + 1;
			needed = true;
		}
		if (!needed)
			entries[k].source = NULL;
	}
	for (size_t k = 0; k < n_entries; k++)
		if (entries[k].source)
			entries[n++] = entries[k];
	return (ssize_t)n;
}

/* --- painting --- */

static int by_addr(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Fills `edges` with the edges of all entries, ascending, each address once. Returns their
 * number. */
static size_t sort_edges(struct edge *edges, const struct entry *entries, size_t n_entries)
{
	size_t n = 0;

	for (size_t i = 0; i < n_entries; i++) {
		edges[2 * i].addr = entries[i].start;
		edges[2 * i + 1].addr = entries[i].end;
	}
	qsort(edges, 2 * n_entries, sizeof(*edges), by_addr);
	for (size_t i = 0; i < 2 * n_entries; i++)
		if (!n || edges[n - 1].addr != edges[i].addr)
			edges[n++].addr = edges[i].addr;
	for (size_t i = 0; i < n; i++) {
		edges[i].owner = NOBODY;
		edges[i].next = (uint32_t)i;
	}
	return n;
}

/* The index of the edge at addr; there must be one. */
static uint32_t edge_at(const struct edge *edges, size_t n, uint64_t addr)
{
	return (uint32_t)SEARCH_FIRST(i, n, edges[i].addr >= addr);
}

static uint32_t first_unpainted(struct edge *edges, uint32_t i)
{
	while (edges[i].next != i) {
		edges[i].next = edges[edges[i].next].next;
		i = edges[i].next;
	}
	return i;
}

static void paint(struct edge *edges, size_t n, const struct entry *entries, size_t n_entries)
{
	for (size_t k = n_entries; k-- > 0;) {
		uint32_t end = edge_at(edges, n, entries[k].end);
		uint32_t i = edge_at(edges, n, entries[k].start);

		/* The last edge is the end of an entry and never painted, so an unpainted edge
		 * always follows. */
		while ((i = first_unpainted(edges, i)) < end) {
			edges[i].owner = (uint32_t)k;
			edges[i].next = i + 1;
		}
	}
}

/* --- the map --- */

static size_t kept_len(const struct entry *entry)
{
	return entry->source_len < NAME_MAX_BYTES ? entry->source_len : NAME_MAX_BYTES;
}

/* Copies a name to *at and moves *at behind it. */
static const char *copy_name(const struct entry *entry, char **at)
{
	char *name = *at;
	size_t len = kept_len(entry);

	for (size_t i = 0; i < len; i++)
		name[i] = entry->source[i] ? entry->source[i] : '?';
	name[len] = '\0';
	clean_name(name);
	*at += len + 1;
	return name;
}

/* Turns painted edges into ranges. Copies the names of the entries that own an edge. */
static int keep(struct perf_map *map, const struct edge *edges, size_t n, struct entry *entries)
{
	uint32_t before = NOBODY;
	size_t n_ranges = 0, bytes = 0;
	char *at;

	for (size_t i = 0; i < n; i++) {
		struct entry *owner = edges[i].owner == NOBODY ? NULL : &entries[edges[i].owner];

		if (owner && !owner->name) {
			owner->name = ""; /* seen */
			bytes += kept_len(owner) + 1;
		}
		n_ranges += owner && edges[i].owner != before;
		before = edges[i].owner;
	}
	if (!n_ranges)
		return 0;
	map->ranges = calloc(n_ranges, sizeof(*map->ranges));
	at = map->names = malloc(bytes);
	if (!map->ranges || !map->names)
		return -ENOMEM;
	for (size_t i = 0; i + 1 < n; i++) {
		struct range *last = map->n ? &map->ranges[map->n - 1] : NULL;
		struct entry *owner = edges[i].owner == NOBODY ? NULL : &entries[edges[i].owner];

		if (!owner)
			continue;
		if (!*owner->name)
			owner->name = copy_name(owner, &at);
		if (last && last->name == owner->name) /* the same line continues */
			last->end = edges[i + 1].addr;
		else
			map->ranges[map->n++] = (struct range){edges[i].addr, edges[i + 1].addr,
							       owner->start, owner->name};
	}
	return 0;
}

int perf_map__parse(const char *text, size_t len, const struct perf_map_wanted *wanted,
		    struct perf_map **ret_map, size_t *ret_skipped)
{
	_cleanup_(cleanup_perf_map) struct perf_map *map = calloc(1, sizeof(*map));
	_cleanup_free_ struct entry *entries = NULL;
	_cleanup_free_ struct edge *edges = NULL;
	size_t n_entries = count_newlines(text, len), skipped = 0, n;
	int err;

	if (n_entries > MAX_ENTRIES)
		n_entries = MAX_ENTRIES;
	entries = calloc(n_entries + 1, sizeof(*entries));
	if (!map || !entries)
		return -ENOMEM;
	n_entries = parse_lines(text, len, entries, n_entries, &skipped);
	if (wanted) {
		ssize_t kept = keep_wanted(entries, n_entries, wanted);

		if (kept < 0)
			return (int)kept;
		n_entries = (size_t)kept;
	}
	edges = calloc(2 * n_entries + 1, sizeof(*edges));
	if (!edges)
		return -ENOMEM;
	n = sort_edges(edges, entries, n_entries);
	paint(edges, n, entries, n_entries);
	err = keep(map, edges, n, entries);
	if (err)
		return err;
	if (ret_skipped)
		*ret_skipped = skipped;
	*ret_map = map;
	map = NULL;
	return 0;
}

int perf_map__read(int fd, const struct perf_map_wanted *wanted, struct perf_map **ret_map,
		   size_t *ret_skipped)
{
	_cleanup_free_ char *text = NULL;
	size_t len, skipped;
	bool too_large;
	struct stat st;
	ssize_t n;
	int err;

	if (fstat(fd, &st) < 0)
		return -errno;
	too_large = st.st_size > MAX_FILE_BYTES;
	len = too_large ? MAX_FILE_BYTES : (size_t)st.st_size;
	text = malloc(len + 1);
	if (!text)
		return -ENOMEM;
	/* read, not mapped, because the target may cut its file short */
	n = io__pread(fd, text, len, 0);
	if (n < 0)
		return (int)n;
	len = (size_t)n;
	if (too_large) { /* the incomplete last line belongs to the rest, which counts as one
			  * skipped line */
		const char *newline = memrchr(text, '\n', len);

		len = newline ? (size_t)(newline - text) + 1 : 0;
	}
	err = perf_map__parse(text, len, wanted, ret_map, &skipped);
	if (!err && ret_skipped)
		*ret_skipped = skipped + too_large;
	return err;
}

const char *perf_map__find(const struct perf_map *map, uint64_t addr, uint64_t *ret_start)
{
	size_t at = SEARCH_FIRST(i, map->n, map->ranges[i].end > addr);

	if (at == map->n || map->ranges[at].start > addr)
		return NULL;
	if (ret_start)
		*ret_start = map->ranges[at].function;
	return map->ranges[at].name;
}

void perf_map__free(struct perf_map *map)
{
	if (!map)
		return;
	free(map->ranges);
	free(map->names);
	free(map);
}
