// SPDX-License-Identifier: BSD-2-Clause
/* profile.proto. Two passes over the fields of the profile: the first takes in the tables, the
 * second the samples, which refer to these by number. Messages are read where they lie; nothing is
 * allocated by what a file says of itself, only by what is really there. What a profile of
 * memtrace's has beyond others is told in profile/pprof.h. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "decode/internal.h"
#include "decode/wire.h"
#include "profile/pprof.h"

#define MAX_TYPES    64
#define MAX_COMMENTS 65536
#define MAX_TRIES    100	  /* stacks to look at for the allocator */
#define MAX_AGE_S    1e9

struct table_item {
	uint64_t id;
	struct bytes bytes; /* the message */
};

/* Messages by their id; sorted, and where ids run from 1 without a gap, as they nearly always do,
 * each is at its place. */
struct table {
	struct table_item *items;
	size_t n, room;
};

struct file_mapping {
	uint64_t id, start, limit, off;
	uint64_t filename, build_id;
	bool used; /* it is one of the profile's: sound, and no other lies over it */
};

struct file_location {
	uint64_t mapping; /* index + 1; 0: none */
	uint64_t address;
	uint64_t addr; /* what it is called in the profile */
	struct bytes message;
};

/* A function, read once: any number of lines may refer to it. */
struct file_function {
	uint64_t name, filename;
	enum unresolved_reason reason;
};

struct label {
	uint64_t key, str;
	int64_t num;
};

/* What a label is about. */
enum label_kind {
	KIND_OTHER = 1,
	KIND_THREAD,
	KIND_TID,
	KIND_PID,
	KIND_COMM,
	KIND_INCOMPLETE, /* from here on memtrace's own */
	KIND_TRUNCATED,
	KIND_ALLOCATORS_OWN,
	KIND_LARGEST,
	KIND_SQUARES,
	KIND_COMMON,
	KIND_GROWTH_LOW,
	KIND_GROWTH_HIGH,
	KIND_REPLACES,
	KIND_SURVIVAL, /* + index of the age */
	KIND_OLDER = KIND_SURVIVAL + PROFILE_SURVIVAL_AGES, /* the same */
};

struct reader {
	const struct input *in;
	struct making *making;
	struct profile *profile;
	struct bytes *strings;
	size_t n_strings, strings_room;
	struct table mappings, locations, functions;
	struct file_mapping *file_mappings;
	struct file_location *file_locations;
	struct file_function *file_functions;
	size_t n_lines; /* of locations */
	struct {
		uint64_t type, unit;
	} types[MAX_TYPES];
	size_t n_types;
	int value_at[VALUES]; /* index among the values of a sample; -1: none */
	uint64_t *comments, drop_frames, period, period_type, period_unit;
	size_t n_comments, comments_room;
	int64_t time_ns, duration_ns;
	bool own;	/* memtrace has written it */
	uint8_t *kinds; /* enum label_kind, by the key's string; 0: not looked at */
	/* of the sample at hand */
	uint64_t *addrs;
	size_t n_addrs;
	int64_t values[MAX_TYPES];
	size_t n_values;
};

/* What is too much, with the reason that is there. */
static int too_much(const struct reader *r, const uint8_t *at)
{
	return wire__bad(r->in, -EFBIG, at, r->making->why);
}

/* --- tables --- */

/* Room for one more element in an array. */
static void *grow(void *array, size_t n, size_t *room, size_t size)
{
	size_t more = *room ? 2 * *room : 64;
	void *bigger;

	if (n < *room)
		return array;
	bigger = reallocarray(array, more, size);
	if (bigger)
		*room = more;
	return bigger;
}

static int too_many(const struct reader *r, const uint8_t *at)
{
	making__refuse(r->making, "more entries of a table than any profile has");
	return too_much(r, at);
}

/* Adds a message, whose id is its field 1. */
static int table__add(struct reader *r, struct table *table, const struct field *field)
{
	struct bytes in = field->bytes;
	struct table_item *items;
	struct field part;
	uint64_t id = 0;
	int rc = wire__want_bytes(r->in, field);

	if (rc)
		return rc;
	if (table->n == r->making->limits->items)
		return too_many(r, field->at);
	while ((rc = wire__next(r->in, &in, &part)) > 0)
		if (part.number == MAPPING_ID) { /* and LOCATION_ID, FUNCTION_ID */
			rc = wire__want_number(r->in, &part);
			if (rc)
				return rc;
			id = part.value;
		}
	if (rc < 0)
		return rc;
	if (!id)
		return wire__bad(r->in, -EINVAL, field->at, "an entry of a table without an id");
	items = grow(table->items, table->n, &table->room, sizeof(*items));
	if (!items)
		return -ENOMEM;
	table->items = items;
	items[table->n++] = (struct table_item){id, field->bytes};
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct table_item *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int table__sort(const struct reader *r, struct table *table)
{
	if (table->n)
		qsort(table->items, table->n, sizeof(*table->items), by_id);
	for (size_t i = 1; i < table->n; i++)
		if (table->items[i].id == table->items[i - 1].id)
			return wire__bad(r->in, -EINVAL, table->items[i].bytes.pos, "an id that is there twice");
	return 0;
}

/* The index of an id, or -1. */
static ptrdiff_t table__find(const struct table *table, uint64_t id)
{
	const struct table_item key = {.id = id}, *found;

	if (id && id - 1 < table->n && table->items[id - 1].id == id)
		return (ptrdiff_t)id - 1;
	found = table->n ? bsearch(&key, table->items, table->n, sizeof(key), by_id) : NULL;
	return found ? found - table->items : -1;
}

/* The text of that number in the table of strings, cut at a NUL and to what a name may have. */
static struct bytes text(const struct reader *r, uint64_t number)
{
	struct bytes text = {};
	size_t len;

	if (number >= r->n_strings)
		return text;
	text = r->strings[number];
	len = (size_t)(text.end - text.pos);
	len = strnlen((const char *)text.pos, len < MAX_NAME_BYTES ? len : MAX_NAME_BYTES);
	text.end = text.pos + len;
	return text;
}

static bool text_is(const struct reader *r, uint64_t number, const char *word)
{
	struct bytes t = text(r, number);
	size_t len = (size_t)(t.end - t.pos);

	return len == strlen(word) && !memcmp(t.pos, word, len);
}

/* A copy that the caller frees; NULL: no memory. */
static char *copy_text(const struct reader *r, uint64_t number)
{
	struct bytes t = text(r, number);

	return t.pos ? strndup((const char *)t.pos, (size_t)(t.end - t.pos)) : strdup("");
}

static int want_string(const struct reader *r, const struct field *field)
{
	int rc = wire__want_number(r->in, field);

	if (!rc && field->value >= r->n_strings)
		return wire__bad(r->in, -EINVAL, field->at, "a text that is not in the table of strings");
	return rc;
}

static int add_string(struct reader *r, const struct field *field)
{
	struct bytes *strings;
	int rc = wire__want_bytes(r->in, field);

	if (rc)
		return rc;
	if (r->n_strings == r->making->limits->items)
		return too_many(r, field->at);
	strings = grow(r->strings, r->n_strings, &r->strings_room, sizeof(*strings));
	if (!strings)
		return -ENOMEM;
	r->strings = strings;
	strings[r->n_strings++] = field->bytes;
	return 0;
}

static int add_comments(struct reader *r, struct field *field)
{
	bool done = false;
	uint64_t number;
	int rc;

	while ((rc = wire__next_number(r->in, field, &done, &number)) > 0) {
		uint64_t *comments =
			grow(r->comments, r->n_comments, &r->comments_room, sizeof(*comments));

		if (!comments)
			return -ENOMEM;
		r->comments = comments;
		if (r->n_comments == MAX_COMMENTS)
			return too_many(r, field->at);
		comments[r->n_comments++] = number;
	}
	return rc;
}

static int take_value_type(const struct reader *r, const struct field *field, uint64_t *ret_type,
			   uint64_t *ret_unit)
{
	struct bytes in = field->bytes;
	struct field part;
	int rc = wire__want_bytes(r->in, field);

	while (!rc && (rc = wire__next(r->in, &in, &part)) > 0) {
		rc = 0;
		if (part.number != VALUE_TYPE_TYPE && part.number != VALUE_TYPE_UNIT)
			continue;
		rc = wire__want_number(r->in, &part);
		*(part.number == VALUE_TYPE_TYPE ? ret_type : ret_unit) = part.value;
	}
	return rc;
}

/* The first pass. */
static int take_tables(struct reader *r)
{
	struct bytes in = wire__message(r->in);
	struct field field;
	int rc = 0;

	while (!rc && (rc = wire__next(r->in, &in, &field)) > 0) {
		rc = 0;
		switch (field.number) {
		case PROFILE_SAMPLE_TYPE:
			if (r->n_types == MAX_TYPES)
				return wire__bad(r->in, -EINVAL, field.at, "more types of values than can be read");
			rc = take_value_type(r, &field, &r->types[r->n_types].type,
					     &r->types[r->n_types].unit);
			r->n_types++;
			break;
		case PROFILE_SAMPLE:
			rc = wire__want_bytes(r->in, &field);
			break;
		case PROFILE_MAPPING:
			rc = table__add(r, &r->mappings, &field);
			break;
		case PROFILE_LOCATION:
			rc = table__add(r, &r->locations, &field);
			break;
		case PROFILE_FUNCTION:
			rc = table__add(r, &r->functions, &field);
			break;
		case PROFILE_STRING_TABLE:
			rc = add_string(r, &field);
			break;
		case PROFILE_COMMENT:
			rc = add_comments(r, &field);
			break;
		case PROFILE_PERIOD_TYPE:
			rc = take_value_type(r, &field, &r->period_type, &r->period_unit);
			break;
		case PROFILE_TIME_NANOS:
		case PROFILE_DURATION_NANOS:
		case PROFILE_PERIOD:
		case PROFILE_DROP_FRAMES:
			rc = wire__want_number(r->in, &field);
			if (field.number == PROFILE_TIME_NANOS)
				r->time_ns = (int64_t)field.value;
			else if (field.number == PROFILE_DURATION_NANOS)
				r->duration_ns = (int64_t)field.value;
			else if (field.number == PROFILE_PERIOD)
				r->period = field.value;
			else
				r->drop_frames = field.value;
			break;
		}
	}
	return rc;
}

/* --- what is said of the whole --- */

/* Which value of a sample is which; type or its other name, of the old kind. */
static void find_value(struct reader *r, enum pprof_value value, const char *other)
{
	r->value_at[value] = -1;
	for (size_t i = r->n_types; i--;)
		if ((text_is(r, r->types[i].type, pprof_values[value].type) ||
		     (other && text_is(r, r->types[i].type, other))) &&
		    text_is(r, r->types[i].unit, pprof_values[value].unit))
			r->value_at[value] = (int)i;
}

static int find_values(struct reader *r)
{
	struct bytes first;

	for (int i = 0; i < VALUES; i++)
		find_value(r, (enum pprof_value)i,
			   i == VALUE_INUSE_SPACE     ? "space"
			   : i == VALUE_INUSE_OBJECTS ? "objects"
						      : NULL);
	if (r->value_at[VALUE_INUSE_SPACE] >= 0)
		return 0;
	if (!r->n_types)
		return error__set(r->in->err, -EINVAL,
				  "%s: is neither a pprof profile (it has no sample_type), nor "
				  "heap_v2, nor collapsed stacks",
				  r->in->name);
	first = text(r, r->types[r->n_types - 1].type);
	return error__set(
		r->in->err, -EINVAL,
		"%s: is a pprof profile of something else (%.*s): it has no inuse_space in bytes",
		r->in->name, (int)(first.end - first.pos < 80 ? first.end - first.pos : 80),
		first.pos ? (const char *)first.pos : "");
}

/* The real number that a text begins with; NaN: none. */
static double real_number(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	return end > text ? value : NAN;
}

/* The value, cut to what there can be; NaN stays. */
static double within(double value, double low, double high)
{
	return value < low ? low : value > high ? high : value;
}

static void set_fact(struct profile *profile, const struct pprof_fact *fact, const char *value)
{
	void *at = (char *)profile + fact->offset;
	uint64_t n = 0;
	const char *pos = value;

	if (fact->type == FACT_REAL || fact->type == FACT_SIGNED) {
		double real = within(real_number(value), fact->type == FACT_SIGNED ? -MAX_VALUE : 0, MAX_VALUE);

		if (isfinite(real))
			*(double *)at = real;
		return;
	}
	if (take_decimal(&pos, value + strlen(value), &n) || *pos)
		return;
	if (fact->type == FACT_UINT64)
		*(uint64_t *)at = n;
	else if (fact->type == FACT_BOOL)
		*(bool *)at = n != 0;
	else if (n <= INT32_MAX)
		*(uint32_t *)at = (uint32_t)n;
}

/* Names go to terminals as they are: no others than such as ours. */
static bool is_counter_name(const char *name)
{
	return *name && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] && strlen(name) < 64;
}

static int add_counter(struct profile *profile, const char *name, const char *value, bool of_run)
{
	const char *kept, *pos = value;
	uint64_t n;

	if (take_decimal(&pos, value + strlen(value), &n) || *pos || !is_counter_name(name) ||
	    profile->n_lost >= 1000)
		return 0;
	kept = profile__keep(profile, name);
	if (!kept)
		return -ENOMEM;
	return of_run ? profile__add_run_lost(profile, kept, n)
		      : profile__add_lost(profile, kept, n);
}

static void set_survival_ages(struct profile *profile, const char *value)
{
	char *end;

	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++, value = end) {
		double age = strtod(value, &end);

		if (end == value)
			break;
		profile->survival_age_s[i] = isnan(age) ? 0 : within(age, 0, MAX_AGE_S);
	}
}

/* What follows word in key, or NULL. */
static const char *behind(const char *key, const char *word)
{
	return strncmp(key, word, strlen(word)) ? NULL : key + strlen(word);
}

/* A comment that is one of ours. What is there already stays: it is the first one's of merged
 * profiles. */
static int take_comment(struct profile *profile, const char *key, const char *value, uint64_t *seen)
{
	const char *rest;

	for (size_t i = 0; i < n_pprof_facts; i++) {
		if (strcmp(key, pprof_facts[i].key) || *seen >> i & 1)
			continue;
		*seen |= 1ULL << i;
		set_fact(profile, &pprof_facts[i], value);
		return 0;
	}
	if (!strcmp(key, COMMENT_WHAT) && !profile->what) {
		profile->what = !strcmp(value, "regions")  ? "regions"
				: !strcmp(value, "growth") ? "growth"
							   : "heap";
	} else if (!strcmp(key, COMMENT_MODE) && !profile->mode) {
		profile->mode = !strcmp(value, "windowed")     ? "windowed"
				: !strcmp(value, "continuous") ? "continuous"
							       : NULL;
	} else if (!strcmp(key, COMMENT_COMM) && !*profile->comm) {
		snprintf(profile->comm, sizeof(profile->comm), "%s", value);
	} else if (!strcmp(key, COMMENT_EXE) && !profile->exe) {
		profile->exe = strdup(value);
		return profile->exe ? 0 : -ENOMEM;
	} else if (!strcmp(key, COMMENT_SURVIVAL) && !(profile->survival_age_s[0] > 0)) {
		set_survival_ages(profile, value);
	} else if ((rest = behind(key, COMMENT_KIND))) {
		for (int i = 0; i < REGION_MEMORY_KINDS; i++)
			if (!strcmp(rest, region_memory__name((enum region_memory)i)))
				profile->kind_bytes[i] = fmax(within(real_number(value), 0, MAX_VALUE), 0);
	} else if ((rest = behind(key, COMMENT_RUN_LOST))) {
		return add_counter(profile, rest, value, true);
	} else if ((rest = behind(key, COMMENT_LOST))) {
		return add_counter(profile, rest, value, false);
	}
	return 0;
}

static int take_comments(struct reader *r)
{
	struct profile *profile = r->profile;
	uint64_t seen = 0; /* of pprof_facts[] */

	for (size_t i = 0; i < r->n_comments && !r->own; i++)
		r->own = text_is(r, r->comments[i], COMMENT_WHAT ": heap") ||
			 text_is(r, r->comments[i], COMMENT_WHAT ": regions") ||
			 text_is(r, r->comments[i], COMMENT_WHAT ": growth");
	for (size_t i = 0; i < r->n_comments && r->own; i++) {
		_cleanup_free_ char *comment = copy_text(r, r->comments[i]);
		char *colon = comment ? strstr(comment, ": ") : NULL;
		int rc;

		if (!comment)
			return -ENOMEM;
		if (!colon)
			continue;
		*colon = '\0';
		rc = take_comment(profile, comment, colon + 2, &seen);
		if (rc)
			return rc;
	}
	profile->has_growth &= r->value_at[VALUE_GROWTH] >= 0;
	if (r->time_ns > 0)
		profile->start_unix_ns = (uint64_t)r->time_ns;
	if (r->duration_ns > 0)
		profile->duration_s = (double)r->duration_ns / 1e9;
	if (text_is(r, r->period_type, PERIOD_TYPE) && text_is(r, r->period_unit, PERIOD_UNIT) &&
	    r->period <= MAX_INTERVAL)
		profile->interval_bytes = r->period;
	profile->no_objects = r->value_at[VALUE_INUSE_OBJECTS] < 0 || profile->no_objects;
	return 0;
}

/* --- mappings and locations --- */

static int read_mapping(struct reader *r, size_t index)
{
	struct file_mapping *mapping = &r->file_mappings[index];
	struct bytes in = r->mappings.items[index].bytes;
	struct field part;
	int rc = 0;

	mapping->id = r->mappings.items[index].id;
	while (!rc && (rc = wire__next(r->in, &in, &part)) > 0) {
		rc = 0;
		switch (part.number) {
		case MAPPING_START:
			mapping->start = part.value;
			break;
		case MAPPING_LIMIT:
			mapping->limit = part.value;
			break;
		case MAPPING_OFFSET:
			mapping->off = part.value;
			break;
		case MAPPING_FILENAME:
			rc = want_string(r, &part);
			mapping->filename = part.value;
			break;
		case MAPPING_BUILD_ID:
			rc = want_string(r, &part);
			mapping->build_id = part.value;
			break;
		}
	}
	return rc;
}

static int by_start(const void *a, const void *b)
{
	const struct file_mapping *x = *(struct file_mapping *const *)a,
				  *y = *(struct file_mapping *const *)b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static int add_mapping(struct reader *r, const struct file_mapping *mapping, const uint8_t *at)
{
	static const char deleted[] = DELETED_SUFFIX;
	_cleanup_free_ char *path = copy_text(r, mapping->filename),
			    *build_id = copy_text(r, mapping->build_id);
	struct profile_mapping add = {.start = mapping->start,
				      .end = mapping->limit,
				      .off = mapping->off,
				      .perms = "r-xp",
				      .path = path};
	size_t len;
	int rc;

	if (!path || !build_id)
		return -ENOMEM;
	len = strlen(path);
	if (len >= strlen(deleted) && !strcmp(path + len - strlen(deleted), deleted)) {
		path[len - strlen(deleted)] = '\0';
		add.deleted = true;
	}
	add.build_id = *build_id ? build_id : NULL;
	rc = making__mapping(r->making, &add);
	return rc == -EFBIG ? too_much(r, at) : rc;
}

/* Of mappings that lie over each other, as those of merged profiles may, the first one stays. */
static int take_mappings(struct reader *r)
{
	size_t n = r->mappings.n;
	_cleanup_free_ struct file_mapping **order = calloc(n + 1, sizeof(*order));
	uint64_t end = 0;
	int rc = 0;

	r->file_mappings = calloc(n + 1, sizeof(*r->file_mappings));
	if (!order || !r->file_mappings)
		return -ENOMEM;
	for (size_t i = 0; i < n && !rc; i++) {
		order[i] = &r->file_mappings[i];
		rc = read_mapping(r, i);
	}
	if (rc)
		return rc;
	qsort(order, n, sizeof(*order), by_start);
	for (size_t i = 0; i < n && !rc; i++) {
		struct file_mapping *mapping = order[i];

		mapping->used = mapping->start >= end && mapping->limit > mapping->start &&
				mapping->limit < PROFILE_NO_ADDR;
		if (!mapping->used)
			continue;
		end = mapping->limit;
		rc = add_mapping(r, mapping, r->mappings.items[mapping - r->file_mappings].bytes.pos);
	}
	if (!rc && !r->profile->exe && n) { /* as all readers take it */
		r->profile->exe = copy_text(r, r->file_mappings[0].filename);
		rc = r->profile->exe ? 0 : -ENOMEM;
	}
	return rc;
}

static int read_location(struct reader *r, size_t index)
{
	struct file_location *location = &r->file_locations[index];
	const struct file_mapping *mapping = NULL;
	struct bytes in = r->locations.items[index].bytes;
	struct field part;
	int rc = 0;

	location->message = in;
	while (!rc && (rc = wire__next(r->in, &in, &part)) > 0) {
		rc = 0;
		if (part.number == LOCATION_ADDRESS) {
			location->address = part.value;
		} else if (part.number == LOCATION_MAPPING_ID && part.value) {
			ptrdiff_t found = table__find(&r->mappings, part.value);

			if (found < 0)
				return wire__bad(r->in, -EINVAL, part.at, "a mapping that is not there");
			location->mapping = (uint64_t)found + 1;
		}
	}
	if (rc)
		return rc;
	/* An address means something where it lies in the mapping that it names. */
	if (location->mapping)
		mapping = &r->file_mappings[location->mapping - 1];
	if (location->address && location->address + 1 < PROFILE_NO_ADDR &&
	    (!mapping || (mapping->used && location->address >= mapping->start &&
			  location->address < mapping->limit)))
		location->addr = location->address + 1;
	return 0;
}

static int by_addr(const void *a, const void *b)
{
	const struct file_location *x = *(struct file_location *const *)a,
				   *y = *(struct file_location *const *)b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return (x > y) - (x < y);
}

/* Each gets an address of its own: what it has in the file, or, where that says nothing or is
 * another one's, one of those that mean none. order: room for all of them, which it leaves
 * ascending by addr. */
static int take_locations(struct reader *r, struct file_location **order)
{
	size_t n = r->locations.n;
	uint64_t next = PROFILE_NO_ADDR, last = 0;
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		order[i] = &r->file_locations[i];
		rc = read_location(r, i);
	}
	if (rc)
		return rc;
	qsort(order, n, sizeof(*order), by_addr);
	for (size_t i = 0; i < n; i++) {
		uint64_t addr = order[i]->addr;

		if (!addr || addr == last)
			order[i]->addr = next++;
		last = addr;
	}
	qsort(order, n, sizeof(*order), by_addr);
	return 0;
}

/* Why a frame has no name, by what a function of memtrace's has for its system name. */
static enum unresolved_reason reason_of(const struct reader *r, uint64_t system_name)
{
	for (int i = UNRESOLVED_NAMED + 1; i < UNRESOLVED_MAX; i++) {
		char word[48];

		snprintf(word, sizeof(word), REASON_SYSTEM_NAME,
			 unresolved_reason__name((enum unresolved_reason)i));
		if (text_is(r, system_name, word))
			return (enum unresolved_reason)i;
	}
	return UNRESOLVED_NAMED;
}

static int read_function(const struct reader *r, size_t index)
{
	struct file_function *function = &r->file_functions[index];
	struct bytes in = r->functions.items[index].bytes;
	uint64_t names[FUNCTION_START_LINE] = {};
	struct field part;
	int rc = 0;

	while (!rc && (rc = wire__next(r->in, &in, &part)) > 0) {
		rc = 0;
		if (part.number < FUNCTION_NAME || part.number > FUNCTION_FILENAME)
			continue;
		rc = want_string(r, &part);
		names[part.number] = part.value;
	}
	if (rc)
		return rc;
	function->name = names[FUNCTION_NAME];
	function->filename = names[FUNCTION_FILENAME];
	function->reason = r->own ? reason_of(r, names[FUNCTION_SYSTEM_NAME]) : UNRESOLVED_NAMED;
	return 0;
}

static int take_functions(struct reader *r)
{
	int rc = 0;

	r->file_functions = calloc(r->functions.n + 1, sizeof(*r->file_functions));
	if (!r->file_functions)
		return -ENOMEM;
	for (size_t i = 0; i < r->functions.n && !rc; i++)
		rc = read_function(r, i);
	return rc;
}

/* Fills in the frame of a line. 1; 0: it has no name; negative errno. */
static int read_frame(struct reader *r, const struct field *line, struct profile_frame *ret_frame,
		      enum unresolved_reason *ret_reason)
{
	_cleanup_free_ char *name = NULL, *file = NULL;
	const struct file_function *function;
	struct bytes in = line->bytes, text_of;
	uint64_t id = 0, number = 0;
	struct field part;
	ptrdiff_t found;
	int rc = wire__want_bytes(r->in, line);

	while (!rc && (rc = wire__next(r->in, &in, &part)) > 0) {
		rc = 0;
		if (part.number == LINE_FUNCTION_ID)
			id = part.value;
		else if (part.number == LINE_LINE)
			number = part.value;
	}
	if (rc || !id)
		return rc;
	found = table__find(&r->functions, id);
	if (found < 0)
		return wire__bad(r->in, -EINVAL, line->at, "a function that is not there");
	function = &r->file_functions[found];
	text_of = text(r, function->name);
	if (text_of.pos == text_of.end) /* some writers leave it out */
		return 0;
	name = copy_text(r, function->name);
	file = copy_text(r, function->filename);
	if (!name || !file)
		return -ENOMEM;
	if (making__take(r->making, strlen(name) + 1) || (*file && making__take(r->making, strlen(file) + 1)))
		return too_much(r, line->at);
	*ret_reason = function->reason;
	*ret_frame = (struct profile_frame){.name = name,
					    .line = number <= UINT32_MAX ? (uint32_t)number : 0};
	name = NULL;
	if (*file) {
		ret_frame->file = file;
		file = NULL;
	}
	return 1;
}

/* The lines of a location. They count whether they have names or not: reading them takes time. */
static int count_lines(struct reader *r, struct bytes in, size_t *ret_n)
{
	struct field part;
	size_t n = 0;
	int rc;

	while ((rc = wire__next(r->in, &in, &part)) > 0)
		n += part.number == LOCATION_LINE;
	if (rc < 0)
		return rc;
	r->n_lines += n;
	*ret_n = n;
	if (n > MAX_STACK_FRAMES || r->n_lines > r->making->limits->items)
		return making__refuse(r->making, "more lines of locations than any profile has");
	return n ? making__take(r->making, n * sizeof(struct profile_frame)) : 0;
}

static int read_frames(struct reader *r, const struct file_location *from,
		       struct profile_location *location)
{
	struct profile_location draft = {};
	struct bytes in = from->message;
	struct field part;
	size_t n_lines;
	int rc = count_lines(r, in, &n_lines);

	if (rc == -EFBIG)
		return too_much(r, in.pos);
	if (rc || !n_lines)
		return rc;
	draft.frames = calloc(n_lines, sizeof(*draft.frames));
	if (!draft.frames)
		return -ENOMEM;
	while (!rc && (rc = wire__next(r->in, &in, &part)) > 0) {
		rc = 0;
		if (part.number != LOCATION_LINE)
			continue;
		rc = read_frame(r, &part, &draft.frames[draft.n_frames], &draft.reason);
		if (rc > 0) {
			draft.n_frames++;
			rc = 0;
		}
	}
	if (rc || !draft.n_frames) {
		profile_location__set_frames(&draft, NULL, 0);
		return rc;
	}
	profile_location__set_frames(location, draft.frames, draft.n_frames);
	location->reason = draft.reason;
	return 0;
}

/* A place without a name in a mapping that is not the profile's. */
static int name_by_file(struct reader *r, const struct file_location *from,
			struct profile_location *location)
{
	_cleanup_free_ char *path = NULL;
	uint64_t off = from->address;
	int rc;

	if (location->n_frames || location->addr < PROFILE_NO_ADDR)
		return 0;
	if (from->mapping) {
		const struct file_mapping *mapping = &r->file_mappings[from->mapping - 1];

		path = copy_text(r, mapping->filename);
		if (!path)
			return -ENOMEM;
		off += mapping->off - mapping->start;
	}
	rc = making__name_by_offset(r->making, location, path, off);
	return rc == -EFBIG ? too_much(r, from->message.pos) : rc;
}

/* Gives the profile's locations their frames. Both lists ascend by address. */
static int name_locations(struct reader *r, struct file_location **order)
{
	struct profile *profile = r->profile;
	size_t k = 0;
	int rc = 0;

	for (size_t i = 0; i < profile->n_locations && !rc; i++) {
		while (k < r->locations.n && order[k]->addr < profile->locations[i].addr)
			k++;
		if (k == r->locations.n || order[k]->addr != profile->locations[i].addr)
			continue;
		rc = read_frames(r, order[k], &profile->locations[i]);
		if (!rc)
			rc = name_by_file(r, order[k], &profile->locations[i]);
	}
	return rc;
}

/* --- samples --- */

static int take_stack(struct reader *r, struct field *field)
{
	bool done = false;
	uint64_t id;
	int rc;

	while ((rc = wire__next_number(r->in, field, &done, &id)) > 0) {
		ptrdiff_t found = table__find(&r->locations, id);

		if (found < 0)
			return wire__bad(r->in, -EINVAL, field->at, "a location that is not there");
		if (r->n_addrs == MAX_STACK_FRAMES)
			return wire__bad(r->in, -EINVAL, field->at, "a stack of more frames than can be read");
		r->addrs[r->n_addrs++] = r->file_locations[found].addr;
	}
	return rc;
}

static int take_values(struct reader *r, struct field *field)
{
	bool done = false;
	uint64_t value;
	int rc;

	while ((rc = wire__next_number(r->in, field, &done, &value)) > 0) {
		if (r->n_values == r->n_types)
			return wire__bad(r->in, -EINVAL, field->at, "a sample with more values than types of them");
		r->values[r->n_values++] = (int64_t)value;
	}
	return rc;
}

static int take_label(const struct reader *r, const struct field *field, struct label *ret)
{
	struct bytes in = field->bytes;
	struct field part;
	int rc = wire__want_bytes(r->in, field);

	*ret = (struct label){};
	while (!rc && (rc = wire__next(r->in, &in, &part)) > 0) {
		rc = part.number == LABEL_NUM				    ? wire__want_number(r->in, &part)
		     : part.number == LABEL_KEY || part.number == LABEL_STR ? want_string(r, &part)
									    : 0;
		if (part.number == LABEL_KEY)
			ret->key = part.value;
		else if (part.number == LABEL_STR)
			ret->str = part.value;
		else if (part.number == LABEL_NUM)
			ret->num = (int64_t)part.value;
	}
	return rc;
}

/* What the labels of one sample say. */
struct labels {
	bool has_thread;
	uint64_t thread; /* its name's number */
	bool has_tid;
	uint64_t tid;
	bool incomplete, truncated, allocators_own, has_low, has_high, replaces;
	double largest, root_of_squares, common, low, high;
	double survival[PROFILE_SURVIVAL_AGES], older[PROFILE_SURVIVAL_AGES];
};

static enum label_kind find_kind(const struct reader *r, uint64_t key)
{
	static const char *const names[] = {
		[KIND_THREAD] = LABEL_THREAD,
		[KIND_TID] = LABEL_TID,
		[KIND_PID] = LABEL_PID,
		[KIND_COMM] = LABEL_COMM,
		[KIND_INCOMPLETE] = LABEL_INCOMPLETE,
		[KIND_TRUNCATED] = LABEL_TRUNCATED,
		[KIND_ALLOCATORS_OWN] = LABEL_ALLOCATORS_OWN,
		[KIND_LARGEST] = LABEL_LARGEST,
		[KIND_SQUARES] = LABEL_SQUARES,
		[KIND_COMMON] = LABEL_COMMON,
		[KIND_GROWTH_LOW] = LABEL_GROWTH_LOW,
		[KIND_GROWTH_HIGH] = LABEL_GROWTH_HIGH,
		[KIND_REPLACES] = LABEL_REPLACES,
	};
	char survival[48], older[48];

	for (int i = KIND_THREAD; i < (r->own ? KIND_SURVIVAL : KIND_INCOMPLETE); i++)
		if (text_is(r, key, names[i]))
			return (enum label_kind)i;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES && r->own; i++) {
		snprintf(survival, sizeof(survival), LABEL_SURVIVAL, r->profile->survival_age_s[i]);
		snprintf(older, sizeof(older), LABEL_OLDER, r->profile->survival_age_s[i]);
		if (r->profile->survival_age_s[i] > 0 && text_is(r, key, survival))
			return (enum label_kind)(KIND_SURVIVAL + i);
		if (r->profile->survival_age_s[i] > 0 && text_is(r, key, older))
			return (enum label_kind)(KIND_OLDER + i);
	}
	return KIND_OTHER;
}

static void take_comm(struct reader *r, uint64_t number)
{
	struct bytes comm = text(r, number);

	if (comm.pos)
		snprintf(r->profile->comm, sizeof(r->profile->comm), "%.*s",
			 (int)(comm.end - comm.pos), (const char *)comm.pos);
}

/* Samples of several processes may be in one file: the first one is told. */
static void use_label(struct reader *r, const struct label *label, struct labels *labels)
{
	struct profile *profile = r->profile;
	double number = (double)label->num;

	if (!r->kinds[label->key])
		r->kinds[label->key] = (uint8_t)find_kind(r, label->key);
	switch (r->kinds[label->key]) {
	case KIND_OTHER:
		return;
	case KIND_THREAD:
		labels->has_thread = label->str;
		labels->thread = label->str;
		return;
	case KIND_TID:
		labels->has_tid = true;
		labels->tid = (uint64_t)label->num;
		return;
	case KIND_PID:
		if (!profile->pid && label->num > 0 && label->num <= INT32_MAX)
			profile->pid = (pid_t)label->num;
		return;
	case KIND_COMM:
		if (!*profile->comm)
			take_comm(r, label->str);
		return;
	case KIND_INCOMPLETE:
		labels->incomplete = label->num;
		return;
	case KIND_TRUNCATED:
		labels->truncated = label->num;
		return;
	case KIND_ALLOCATORS_OWN:
		labels->allocators_own = label->num;
		return;
	case KIND_LARGEST:
		labels->largest = fmax(number, 0);
		return;
	case KIND_SQUARES:
		labels->root_of_squares = fmax(number, 0);
		return;
	case KIND_COMMON:
		labels->common = fmax(number, 0);
		return;
	case KIND_GROWTH_LOW:
		labels->has_low = true;
		labels->low = number / PER_HOUR;
		return;
	case KIND_GROWTH_HIGH:
		labels->has_high = true;
		labels->high = number / PER_HOUR;
		return;
	case KIND_REPLACES:
		labels->replaces = label->num;
		return;
	default:
		if (r->kinds[label->key] < KIND_OLDER)
			labels->survival[r->kinds[label->key] - KIND_SURVIVAL] = within(number / PPM, 0, 1);
		else
			labels->older[r->kinds[label->key] - KIND_OLDER] = within(number / PPM, 0, 1);
	}
}

/* A value of the sample at hand. */
static double value_of(const struct reader *r, enum pprof_value value)
{
	return r->value_at[value] < 0 ? 0 : (double)r->values[r->value_at[value]];
}

/* What is live of the sample, with its error: as told, or as sampling by the period makes it. */
static struct estimate live_of(const struct reader *r, const struct labels *labels)
{
	double objects = value_of(r, VALUE_INUSE_OBJECTS), bytes = value_of(r, VALUE_INUSE_SPACE);
	uint64_t interval = r->profile->interval_bytes;
	struct estimate live = {.objects = objects, .bytes = bytes};

	if (r->value_at[VALUE_INUSE_VARIANCE] >= 0) {
		live.samples = (uint64_t)value_of(r, VALUE_INUSE_SAMPLES);
		live.sampled_bytes = (uint64_t)value_of(r, VALUE_INUSE_SAMPLED);
		live.variance =
			value_of(r, VALUE_INUSE_VARIANCE) * (double)(interval ? interval : 1);
		live.variance_max = labels->largest * labels->largest;
		live.squares = labels->root_of_squares * labels->root_of_squares;
		live.common = labels->common;
		live.most = r->profile->heap_mapped_bytes;
	} else if (interval && objects > 0 && bytes > 0) {
		double p = -expm1(-bytes / objects / (double)interval);

		live = unsampled(objects * p, bytes * p, interval);
		live.objects = objects; /* as it was, but for rounding */
		live.bytes = bytes;
	}
	return live;
}

static int add_held(struct reader *r, size_t site, const struct labels *labels,
		    const struct estimate *live)
{
	_cleanup_free_ char *name = NULL;
	size_t thread;
	int rc;

	if (!labels->has_thread && !labels->has_tid)
		return 0;
	name = copy_text(r, labels->thread);
	if (!name)
		return -ENOMEM;
	rc = making__thread(r->making, labels->has_tid ? labels->tid : NO_TID, name, &thread);
	if (!rc && (live->objects > 0 || live->bytes > 0))
		rc = making__held(r->making, site, thread, live->objects, live->bytes);
	return rc;
}

static void add_growth(struct growth *to, double bytes_per_s, const struct labels *labels)
{
	to->bytes_per_s += bytes_per_s;
	if (!labels->has_low || !labels->has_high)
		return;
	/* the first, or another one of merged profiles: wider than it need be */
	to->low = (isnan(to->low) ? 0 : to->low) + labels->low;
	to->high = (isnan(to->high) ? 0 : to->high) + labels->high;
}

static int add_sample(struct reader *r, const struct field *field, const struct labels *labels)
{
	size_t index, n = r->making->stacks.n;
	struct profile_site *site;
	struct estimate live;
	int rc;

	for (int i = 0; i < VALUE_GROWTH; i++)
		if (value_of(r, (enum pprof_value)i) < 0)
			return wire__bad(r->in, -EINVAL, field->at,
				   "a negative value: it is the difference of two profiles");
	live = live_of(r, labels);
	rc = making__site(r->making, r->addrs, r->n_addrs, &index);
	if (rc)
		return rc;
	site = &r->profile->sites[index];
	if (r->making->stacks.n > n)
		site->complete = r->own;
	rc = making__add(r->making, index, &live, value_of(r, VALUE_ALLOC_OBJECTS), value_of(r, VALUE_ALLOC_SPACE));
	if (rc)
		return rc;
	site->complete = site->complete && !labels->incomplete;
	site->truncated = site->truncated || labels->truncated;
	site->allocators_own = site->allocators_own || labels->allocators_own;
	site->replaces = site->replaces || labels->replaces;
	if (r->profile->has_growth)
		add_growth(&site->growth, value_of(r, VALUE_GROWTH) / PER_HOUR, labels);
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		if (isfinite(labels->survival[i]))
			site->survival[i] = labels->survival[i];
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		if (isfinite(labels->older[i]))
			site->older[i] = labels->older[i];
	return add_held(r, index, labels, &live);
}

static int take_sample(struct reader *r, const struct field *field)
{
	struct labels labels = {};
	struct bytes in = field->bytes;
	struct field part;
	struct label label;
	int rc = 0;

	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		labels.survival[i] = labels.older[i] = NAN;
	r->n_addrs = r->n_values = 0;
	while (!rc && (rc = wire__next(r->in, &in, &part)) > 0) {
		rc = 0;
		if (part.number == SAMPLE_LOCATION_ID) {
			rc = take_stack(r, &part);
		} else if (part.number == SAMPLE_VALUE) {
			rc = take_values(r, &part);
		} else if (part.number == SAMPLE_LABEL) {
			rc = take_label(r, &part, &label);
			if (!rc)
				use_label(r, &label, &labels);
		}
	}
	if (rc)
		return rc;
	if (r->n_values != r->n_types)
		return wire__bad(r->in, -EINVAL, field->at, "a sample with fewer values than types of them");
	rc = add_sample(r, field, &labels);
	return rc == -EFBIG ? too_much(r, field->at) : rc;
}

/* The second pass. */
static int take_samples(struct reader *r)
{
	struct bytes in = wire__message(r->in);
	struct field field;
	int rc = 0;

	r->addrs = calloc(MAX_STACK_FRAMES, sizeof(*r->addrs));
	r->kinds = calloc(r->n_strings + 1, 1);
	if (!r->addrs || !r->kinds)
		return -ENOMEM;
	while (!rc && (rc = wire__next(r->in, &in, &field)) > 0)
		rc = field.number == PROFILE_SAMPLE ? take_sample(r, &field) : 0;
	return rc;
}

/* Is the name in the regular expression, character by character but for what is quoted? */
static bool is_named_in(struct bytes regex, const char *name)
{
	size_t len = strlen(name);

	for (const uint8_t *start = regex.pos; start < regex.end; start++) {
		const uint8_t *at = start;
		size_t i = 0;

		for (; at < regex.end && i < len && name[i]; at++) {
			if (*at == '\\' && at + 1 < regex.end)
				at++;
			if (*at != (uint8_t)name[i])
				break;
			i++;
		}
		if (i == len)
			return true;
	}
	return false;
}

/* Tools that follow drop_frames and write the profile again have left the allocator out: then no
 * stack begins with what is named there. */
static bool leaf_holds(const struct reader *r)
{
	const struct profile *profile = r->profile;
	struct bytes regex = text(r, r->drop_frames);
	int tries = 0;

	if (!r->own || profile->leaf_holds)
		return true;
	if (regex.pos == regex.end)
		return false;
	for (size_t i = 0; i < profile->n_sites && tries < MAX_TRIES; i++) {
		const struct profile_site *site = &profile->sites[i];
		const char *name;

		if (site->n_locations < 2)
			continue;
		name = profile_location__function(profile__location(profile, site, 0));
		if (name && is_named_in(regex, name))
			return false;
		tries++;
	}
	return tries > 0;
}

static void reader__clear(struct reader *r)
{
	free(r->strings);
	free(r->mappings.items);
	free(r->locations.items);
	free(r->functions.items);
	free(r->file_mappings);
	free(r->file_locations);
	free(r->file_functions);
	free(r->comments);
	free(r->addrs);
	free(r->kinds);
}

int decode_pprof(const struct input *in, struct making *making)
{
	_cleanup_(reader__clear) struct reader r = {
		.in = in, .making = making, .profile = making->profile};
	_cleanup_free_ struct file_location **order = NULL;
	int rc = take_tables(&r);

	if (!rc)
		rc = find_values(&r);
	if (!rc)
		rc = table__sort(&r, &r.mappings);
	if (!rc)
		rc = table__sort(&r, &r.locations);
	if (!rc)
		rc = table__sort(&r, &r.functions);
	if (!rc)
		rc = take_comments(&r);
	if (!rc)
		rc = take_mappings(&r);
	if (rc)
		return rc;
	r.file_locations = calloc(r.locations.n + 1, sizeof(*r.file_locations));
	order = calloc(r.locations.n + 1, sizeof(*order));
	if (!r.file_locations || !order)
		return -ENOMEM;
	rc = take_locations(&r, order);
	if (!rc)
		rc = take_samples(&r);
	if (!rc)
		rc = making__sort(making);
	if (!rc)
		rc = take_functions(&r);
	if (!rc)
		rc = name_locations(&r, order);
	if (!rc)
		r.profile->leaf_holds = leaf_holds(&r);
	return rc;
}
