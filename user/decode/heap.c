// SPDX-License-Identifier: BSD-2-Clause
/* Heap profiles in text (encode/encode.h tells what the numbers of heap_v2 mean):
 *
 * 	--- symbol			only in files that carry their names
 * 	binary=/usr/bin/redis-server
 * 	0x0000000000401010 main--inlined
 * 	---
 * 	--- heap
 * 	heap_v2/524288			jemalloc, memtrace
 * 	  t*: 7: 3670016 [0: 0]
 * 	  t1: 7: 3670016 [0: 0] main
 * 	@ 0x401011 0x402000		leaf first
 * 	  t*: 7: 3670016 [0: 0]
 * 	  t1: 7: 3670016 [0: 0]
 *
 * 	MAPPED_LIBRARIES:
 * 	(the text of /proc/PID/maps)
 *
 * or, in the place of heap_v2, gperftools' form, with one line for each stack:
 *
 * 	heap profile:   14:  17384 [  34: 19204] @ heapprofile
 * 	     4:  16384 [     4:  16384] @ 0x401011 0x402000
 *
 * ("@ heap_v2/R" is sampled, "@ heapprofile" is not; the line "--- heap" may be missing.) A file
 * may have several entries for one stack. Each entry is scaled up by itself, and the results are
 * added up, as all readers do. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "base/vector.h"
#include "decode/internal.h"
#include "proc/maps.h"

static const char libraries[] = "MAPPED_LIBRARIES:";

/* Live and allocated memory, as sampled. */
struct counts {
	uint64_t objects, bytes, alloc_objects, alloc_bytes;
};

struct symbol {
	uint64_t addr;
	const char *name;
	size_t len;
};

struct held {
	size_t thread; /* index in the profile */
	struct counts counts;
};

struct heap {
	const struct input *in;
	struct draft *draft;
	struct profile *profile;
	uint64_t interval; /* sampling interval in bytes; 0: not sampled */
	struct symbol *symbols;
	size_t n_symbols, symbols_room;
	/* the stack that is being read */
	uint64_t *addrs;
	size_t n_addrs;
	bool has_stack, has_counts;
	struct counts counts;
	struct held *held;
	size_t n_held, held_room;
};

/* A line while it is read. */
struct text {
	const char *pos, *end;
};

static bool take_char(struct text *in, char c)
{
	if (in->pos == in->end || *in->pos != c)
		return false;
	in->pos++;
	return true;
}

static void skip_blanks(struct text *in)
{
	while (take_char(in, ' '))
		;
}

static bool take_word(struct text *in, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(in->end - in->pos) < len || memcmp(in->pos, word, len))
		return false;
	in->pos += len;
	return true;
}

static bool take_count(struct text *in, uint64_t *ret)
{
	skip_blanks(in);
	return !take_decimal(&in->pos, in->end, ret);
}

/* Reads "0x" and hexadecimal digits. */
static bool take_address(struct text *in, uint64_t *ret)
{
	uint64_t value = 0;
	int n = 0;

	if (!take_word(in, "0x"))
		return false;
	for (; in->pos < in->end; in->pos++, n++) {
		char c = *in->pos;
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
			    : c >= 'A' && c <= 'F' ? c - 'A' + 10
						   : -1;

		if (digit < 0)
			break;
		if (value >> 60)
			return false;
		value = value << 4 | (uint64_t)digit;
	}
	*ret = value;
	return n > 0;
}

/* Reads "1: 2 [3: 4]". */
static bool take_counts(struct text *in, struct counts *ret)
{
	return take_count(in, &ret->objects) && take_char(in, ':') && take_count(in, &ret->bytes) &&
	       (skip_blanks(in), take_char(in, '[')) && take_count(in, &ret->alloc_objects) &&
	       take_char(in, ':') && take_count(in, &ret->alloc_bytes) && take_char(in, ']');
}

/* Reads the addresses of a stack, up to the end of the line. */
static int take_stack(struct heap *h, const struct line *line, struct text *in)
{
	uint64_t addr;

	h->n_addrs = 0;
	for (;;) {
		skip_blanks(in);
		if (in->pos == in->end)
			break;
		if (!take_address(in, &addr))
			return input__bad_line(h->in, -EINVAL, line->number,
					       "no address in a stack");
		if (h->n_addrs == MAX_STACK_FRAMES)
			return input__bad_line(h->in, -EFBIG, line->number,
					       "a stack of more than %d frames", MAX_STACK_FRAMES);
		/* No process has an address from PROFILE_NO_ADDR on. Such an address would be taken
		 * for a name. */
		if (addr && addr < PROFILE_NO_ADDR)
			h->addrs[h->n_addrs++] = addr;
	}
	h->has_stack = true;
	return 0;
}

/* --- a stack --- */

static int add_threads(struct heap *h, size_t site, const struct estimate *live)
{
	double objects = 0, bytes = 0;
	int rc = 0;

	for (size_t i = 0; i < h->n_held; i++) {
		const struct counts *c = &h->held[i].counts;
		struct estimate part = unsampled((double)c->objects, (double)c->bytes, h->interval);

		objects += part.objects;
		bytes += part.bytes;
	}
	/* Each thread's counts are scaled up by the mean size of this thread's blocks. The results
	 * are then adjusted so that they add up to the memory of the stack. */
	for (size_t i = 0; i < h->n_held && !rc; i++) {
		const struct counts *c = &h->held[i].counts;
		struct estimate part = unsampled((double)c->objects, (double)c->bytes, h->interval);

		if (part.objects > 0)
			rc = draft__held(h->draft, site, h->held[i].thread,
					 part.objects * (live->objects / objects),
					 bytes > 0 ? part.bytes * (live->bytes / bytes) : 0);
	}
	return rc;
}

/* If a stack has been read, adds it to the profile. */
static int end_stack(struct heap *h, const struct line *line)
{
	const struct counts *c = &h->counts;
	struct estimate live, alloc;
	size_t site;
	int rc;

	if (!h->has_stack)
		return 0;
	if (!h->has_counts)
		return input__bad_line(h->in, -EINVAL, line->number,
				       "the stack before this line has no \"t*:\"");
	h->has_stack = h->has_counts = false;
	live = unsampled((double)c->objects, (double)c->bytes, h->interval);
	alloc = unsampled((double)c->alloc_objects, (double)c->alloc_bytes, h->interval);
	rc = draft__site(h->draft, h->addrs, h->n_addrs, &site);
	if (rc)
		return rc;
	rc = draft__add(h->draft, site, &live, alloc.objects, alloc.bytes);
	if (!rc)
		rc = add_threads(h, site, &live);
	h->n_held = 0;
	return rc;
}

/* Reads a line "t*: ..." or "t17: ...". Before the file's first stack, a line "t17: ..." ends with
 * the thread's name. */
static int take_thread_line(struct heap *h, const struct line *line, struct text *in)
{
	_cleanup_free_ char *name = NULL;
	struct counts counts;
	uint64_t tid = 0;
	size_t thread;
	bool all;
	int rc;

	all = take_word(in, "t*:");
	if ((!all && (!take_char(in, 't') || !take_count(in, &tid) || !take_char(in, ':'))) ||
	    !take_counts(in, &counts))
		return input__bad_line(h->in, -EINVAL, line->number,
				       "no line \"t*: OBJECTS: BYTES [OBJECTS: BYTES]\"");
	if (all) {
		h->counts = counts;
		h->has_counts = h->has_stack;
		return 0;
	}
	take_char(in, ' ');
	name = strndup(in->pos, sizeof(h->profile->threads->name) < (size_t)(in->end - in->pos)
					? sizeof(h->profile->threads->name)
					: (size_t)(in->end - in->pos));
	rc = name ? draft__thread(h->draft, tid, name, &thread) : -ENOMEM;
	if (rc || !h->has_stack)
		return rc;
	if (h->n_held == h->draft->limits->items)
		return draft__refuse(h->draft, "more threads in a stack than any profile has");
	if (VECTOR_RESERVE(h->held, h->held_room, h->n_held + 1))
		return -ENOMEM;
	h->held[h->n_held++] = (struct held){thread, counts};
	return 0;
}

/* Reads a line of the part with the stacks. */
static int take_line(struct heap *h, const struct line *line, bool one_line)
{
	struct text in = {line->text, line->text + line->len};
	int rc;

	skip_blanks(&in);
	if (in.pos == in.end)
		return 0;
	if (one_line) {
		if (!take_counts(&in, &h->counts) || (skip_blanks(&in), !take_char(&in, '@')))
			return input__bad_line(h->in, -EINVAL, line->number,
					       "no line \"OBJECTS: BYTES [OBJECTS: BYTES] @ "
					       "ADDRESSES\"");
		rc = take_stack(h, line, &in);
		h->has_counts = true;
		return rc ? rc : end_stack(h, line);
	}
	if (!take_char(&in, '@'))
		return take_thread_line(h, line, &in);
	rc = end_stack(h, line);
	return rc ? rc : take_stack(h, line, &in);
}

/* --- the parts before and after the stacks --- */

static size_t name_length(const char *start, const char *end)
{
	return end - start < MAX_NAME_BYTES ? (size_t)(end - start) : MAX_NAME_BYTES;
}

static int take_symbol(struct heap *h, const struct line *line)
{
	struct text in = {line->text, line->text + line->len};
	struct symbol symbol = {};

	if (take_word(&in, "binary=")) {
		free(h->profile->exe);
		h->profile->exe = strndup(in.pos, name_length(in.pos, in.end));
		return h->profile->exe ? 0 : -ENOMEM;
	}
	if (!take_address(&in, &symbol.addr) || !take_char(&in, ' '))
		return input__bad_line(h->in, -EINVAL, line->number,
				       "no line \"0xADDRESS NAME\" among the symbols");
	if (h->n_symbols == h->draft->limits->items)
		return input__bad_line(h->in, -EFBIG, line->number,
				       "more symbols than any file has");
	symbol.name = in.pos;
	/* the name ends at the first NUL, if it has one */
	symbol.len = strnlen(in.pos, (size_t)(in.end - in.pos));
	if (VECTOR_RESERVE(h->symbols, h->symbols_room, h->n_symbols + 1))
		return -ENOMEM;
	h->symbols[h->n_symbols++] = symbol;
	return 0;
}

static int by_symbol_addr(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

/* Is this the first line of the part with the stacks? */
static bool is_head(const struct line *line)
{
	return line__starts(line, "heap profile:") || line__starts(line, "heap_v2/");
}

/* Reads up to the first line of the stacks, or to "--- heap" before it. */
static int take_symbols(struct heap *h, struct line *line)
{
	bool over = false;
	int rc = 0;

	while (!rc && input__next_line(h->in, line)) {
		if (line__starts(line, "--- heap") || (over && is_head(line))) {
			if (h->n_symbols)
				qsort(h->symbols, h->n_symbols, sizeof(*h->symbols),
				      by_symbol_addr);
			return 0;
		}
		if (line__starts(line, "---"))
			over = true;
		else if (!over && line->len)
			rc = take_symbol(h, line);
	}
	return rc ? rc
		  : input__bad_line(h->in, -EINVAL, line->number,
				    "it ends before the stacks: it was cut short");
}

/* Reads the line that says which form the file has, and how it was sampled. */
static int take_head(struct heap *h, const struct line *line, bool *ret_one_line)
{
	struct text in = {line->text, line->text + line->len};
	struct counts ignored;
	bool known;

	*ret_one_line = take_word(&in, "heap profile:");
	if (*ret_one_line) {
		known = take_counts(&in, &ignored) && (skip_blanks(&in), take_char(&in, '@'));
		skip_blanks(&in);
	} else {
		known = true;
	}
	if (known && !(*ret_one_line && take_word(&in, "heapprofile")))
		known = take_word(&in, "heap_v2/") && take_count(&in, &h->interval) &&
			h->interval && h->interval <= MAX_INTERVAL;
	skip_blanks(&in);
	if (!known || in.pos != in.end)
		return input__bad_line(
			h->in, -EINVAL, line->number,
			"no heap profile that can be read: \"heap_v2/INTERVAL\" or \"heap profile: "
			"... @ heapprofile\" is expected");
	h->profile->interval_bytes = h->interval ? h->interval : 1;
	return 0;
}

/* Reads one line of the list of libraries. Lines are parsed one by one, because parsing the whole
 * list at once would need a second copy of it. *end: the end of the previous mapping. */
static int take_library(struct heap *h, const struct line *line, uint64_t *end, uint64_t *n_broken)
{
	struct profile_mapping mapping = {};
	struct maps maps;
	int rc = maps__parse(line->text, line->len, &maps, NULL);

	if (rc)
		return rc;
	if (maps.n && maps.entries[0].start >= *end) {
		const struct map_entry *entry = &maps.entries[0];

		*end = entry->end;
		mapping = (struct profile_mapping){.start = entry->start,
						   .end = entry->end,
						   .off = entry->off,
						   .file = entry->file,
						   .deleted = entry->deleted,
						   .path = entry->path};
		memcpy(mapping.perms, entry->perms, sizeof(mapping.perms));
		rc = draft__mapping(h->draft, &mapping);
	} else {
		++*n_broken;
	}
	maps__free(&maps);
	return rc;
}

/* Reads the list of libraries, to the end of the file. */
static int take_libraries(struct heap *h, struct line *line)
{
	uint64_t end = 0, n_broken = 0;
	int rc = 0;

	if (h->in->bytes[h->in->len - 1] != '\n')
		return input__bad_line(h->in, -EINVAL, line->number,
				       "the list of libraries below it was cut short");
	while (!rc && input__next_line(h->in, line))
		if (line->len)
			rc = take_library(h, line, &end, &n_broken);
	if (!rc && n_broken)
		rc = profile__add_lost(h->profile, "mappings_unreadable", n_broken);
	return rc;
}

/* --- names --- */

static const struct symbol *find_symbol(const struct heap *h, uint64_t addr)
{
	size_t at = SEARCH_FIRST(i, h->n_symbols, h->symbols[i].addr >= addr);

	return at < h->n_symbols && h->symbols[at].addr == addr ? &h->symbols[at] : NULL;
}

/* Returns where the name of the next function begins in "outer--inner", after the dashes. NULL:
 * there is no next function. The dashes of "operator--" belong to the name. */
static const char *next_function(const char *name, const char *end)
{
	static const char operator[] = "operator";
	const char *at = name;

	while ((at = memmem(at, (size_t)(end - at), "--", 2))) {
		size_t before = (size_t)(at - name), word = strlen(operator);

		at += 2;
		if (before && at < end && (before < word || memcmp(at - 2 - word, operator, word)))
			return at;
	}
	return NULL;
}

/* Gives the location its frames. In the symbol, names are joined outermost first. */
static int name_location(struct heap *h, struct profile_location *location,
			 const struct symbol *symbol)
{
	const char *end = symbol->name + symbol->len, *starts[64];
	struct profile_frame *frames;
	size_t n = 0;

	for (const char *at = symbol->name; at && n < 64; at = next_function(at, end))
		starts[n++] = at;
	if (draft__take(h->draft, n * sizeof(*frames)))
		return -EFBIG;
	frames = calloc(n, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const char *start = starts[n - 1 - i];
		size_t len = name_length(start, i ? starts[n - i] - 2 : end);
		int rc = draft__take(h->draft, len + 1);

		frames[i].name = rc ? NULL : strndup(start, len);
		if (!frames[i].name) {
			while (i--)
				free(frames[i].name);
			free(frames);
			return rc ? rc : -ENOMEM;
		}
	}
	profile_location__set_frames(location, frames, n);
	location->reason = UNRESOLVED_NAMED;
	return 0;
}

/* Names the locations by the file's symbols. jeprof looks up the leaf's address as it is, and every
 * other address minus one. */
static int name_locations(struct heap *h)
{
	int rc = 0;

	for (size_t i = 0; i < h->profile->n_locations && !rc; i++) {
		struct profile_location *location = &h->profile->locations[i];
		const struct symbol *symbol = find_symbol(h, location->addr - 1);

		if (!symbol)
			symbol = find_symbol(h, location->addr);
		/* the symbol's text is an address: jeprof found no name */
		if (symbol && symbol->len && !(symbol->len > 2 && !memcmp(symbol->name, "0x", 2)))
			rc = name_location(h, location, symbol);
	}
	return rc;
}

static void heap__clear(struct heap *h)
{
	free(h->symbols);
	free(h->addrs);
	free(h->held);
}

int decode_heap(const struct input *in, struct draft *draft)
{
	_cleanup_(heap__clear) struct heap h = {
		.in = in, .draft = draft, .profile = draft->profile};
	struct line line = {};
	bool one_line, whole = false;
	int rc;

	h.addrs = calloc(MAX_STACK_FRAMES, sizeof(*h.addrs));
	if (!h.addrs)
		return -ENOMEM;
	input__next_line(in, &line);
	if (line__starts(&line, "--- symbol")) {
		rc = take_symbols(&h, &line);
		if (rc)
			return rc;
		if (!is_head(&line) && !input__next_line(in, &line))
			return input__bad_line(in, -EINVAL, line.number,
					       "nothing follows the symbols");
	}
	rc = take_head(&h, &line, &one_line);
	while (!rc && !whole && input__next_line(in, &line)) {
		whole = line__starts(&line, libraries);
		rc = whole ? end_stack(&h, &line) : take_line(&h, &line, one_line);
	}
	if (!rc)
		rc = whole ? take_libraries(&h, &line)
			   : input__bad_line(in, -EINVAL, line.number,
					     "it ends before %s it was cut short", libraries);
	if (rc == -EFBIG && draft->why)
		return input__bad_line(in, rc, line.number, "%s", draft->why);
	if (!rc)
		rc = draft__sort(draft);
	return rc ? rc : name_locations(&h);
}
