// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"
#include "decode/pprof_parts.h"

#define MAX_COMMENTS 65536

int pprof_file__bad(const struct pprof_file *file, const uint8_t *at, const char *what)
{
	return wire__bad(file->input, -EINVAL, at, what);
}

int pprof_file__too_much(const struct pprof_file *file, const uint8_t *at)
{
	return wire__bad(file->input, -EFBIG, at, file->draft->why);
}

static int too_many(const struct pprof_file *file, const uint8_t *at)
{
	draft__refuse(file->draft, "more entries of a table than any profile has");
	return pprof_file__too_much(file, at);
}

/* --- texts --- */

static int add_string(struct pprof_file *file, const struct field *field)
{
	int rc = wire__want_bytes(file->input, field);

	if (rc)
		return rc;
	if (file->n_strings == file->draft->limits->items)
		return too_many(file, field->at);
	if (VECTOR_RESERVE(file->strings, file->strings_room, file->n_strings + 1))
		return -ENOMEM;
	file->strings[file->n_strings++] = field->bytes;
	return 0;
}

struct bytes pprof_file__text(const struct pprof_file *file, uint64_t number)
{
	struct bytes text = {};
	size_t len;

	if (number >= file->n_strings)
		return text;
	text = file->strings[number];
	len = (size_t)(text.end - text.pos);
	len = strnlen((const char *)text.pos, len < MAX_NAME_BYTES ? len : MAX_NAME_BYTES);
	text.end = text.pos + len;
	return text;
}

bool pprof_file__text_is(const struct pprof_file *file, uint64_t number, const char *word)
{
	struct bytes text = pprof_file__text(file, number);
	size_t len = (size_t)(text.end - text.pos);

	return len == strlen(word) && !memcmp(text.pos, word, len);
}

char *pprof_file__copy_text(const struct pprof_file *file, uint64_t number)
{
	struct bytes text = pprof_file__text(file, number);

	return text.pos ? strndup((const char *)text.pos, (size_t)(text.end - text.pos))
			: strdup("");
}

/* --- messages --- */

static int check_member(const struct pprof_file *file, const struct pprof_member *member,
			const struct field *field)
{
	int rc = member->type == MEMBER_ANY ? 0 : wire__want_number(file->input, field);

	if (!rc && member->type == MEMBER_TEXT && field->value >= file->n_strings)
		return pprof_file__bad(file, field->at,
				       "a text that is not in the table of strings");
	return rc;
}

int pprof_file__members(const struct pprof_file *file, struct bytes message,
			const struct pprof_member *members, size_t n)
{
	struct field field;
	int rc = 0;

	while (!rc && (rc = wire__next(file->input, &message, &field)) > 0) {
		rc = 0;
		for (size_t i = 0; i < n; i++) {
			if (field.number != members[i].field)
				continue;
			rc = check_member(file, &members[i], &field);
			*members[i].ret = field.value;
			break;
		}
	}
	return rc;
}

static int read_value_type(const struct pprof_file *file, const struct field *field,
			   uint64_t *ret_type, uint64_t *ret_unit)
{
	const struct pprof_member members[] = {
		{VALUE_TYPE_TYPE, MEMBER_NUMBER, ret_type},
		{VALUE_TYPE_UNIT, MEMBER_NUMBER, ret_unit},
	};
	int rc = wire__want_bytes(file->input, field);

	return rc ? rc : pprof_file__members(file, field->bytes, members, 2);
}

static int add_sample_type(struct pprof_file *file, const struct field *field)
{
	if (file->n_types == PPROF_MAX_TYPES)
		return pprof_file__bad(file, field->at, "more types of values than can be read");
	file->n_types++;
	return read_value_type(file, field, &file->types[file->n_types - 1].type,
			       &file->types[file->n_types - 1].unit);
}

static int add_comments(struct pprof_file *file, struct field *field)
{
	bool done = false;
	uint64_t number;
	int rc;

	while ((rc = wire__next_number(file->input, field, &done, &number)) > 0) {
		if (file->n_comments == MAX_COMMENTS)
			return too_many(file, field->at);
		if (VECTOR_RESERVE(file->comments, file->comments_room, file->n_comments + 1))
			return -ENOMEM;
		file->comments[file->n_comments++] = number;
	}
	return rc;
}

/* --- tables of messages --- */

static int table__add(struct pprof_table *table, const struct pprof_file *file,
		      const struct field *field)
{
	uint64_t id = 0;
	const struct pprof_member members[] = {
		{MAPPING_ID, MEMBER_NUMBER, &id}}; /* = LOCATION_ID = FUNCTION_ID */
	int rc = wire__want_bytes(file->input, field);

	if (rc)
		return rc;
	if (table->n == file->draft->limits->items)
		return too_many(file, field->at);
	rc = pprof_file__members(file, field->bytes, members, 1);
	if (rc)
		return rc;
	if (!id)
		return pprof_file__bad(file, field->at, "a table's entry without an id");
	if (VECTOR_RESERVE(table->items, table->room, table->n + 1))
		return -ENOMEM;
	table->items[table->n++] = (struct pprof_table_item){id, field->bytes};
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct pprof_table_item *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int table__sort(struct pprof_table *table, const struct pprof_file *file)
{
	if (table->n)
		qsort(table->items, table->n, sizeof(*table->items), by_id);
	for (size_t i = 1; i < table->n; i++)
		if (table->items[i].id == table->items[i - 1].id)
			return pprof_file__bad(file, table->items[i].message.pos,
					       "an id that occurs twice");
	return 0;
}

/* Tries the index id - 1 first, because in nearly all files the ids are 1, 2, 3 and so on. */
ptrdiff_t pprof_table__find(const struct pprof_table *table, uint64_t id)
{
	const struct pprof_table_item key = {.id = id}, *found;

	if (id && id - 1 < table->n && table->items[id - 1].id == id)
		return (ptrdiff_t)id - 1;
	found = table->n ? bsearch(&key, table->items, table->n, sizeof(key), by_id) : NULL;
	return found ? found - table->items : -1;
}

/* --- the whole --- */

static int read_field(struct pprof_file *file, struct field *field)
{
	switch (field->number) {
	case PROFILE_SAMPLE_TYPE:
		return add_sample_type(file, field);
	case PROFILE_SAMPLE:
		return wire__want_bytes(file->input, field);
	case PROFILE_MAPPING:
		return table__add(&file->mappings, file, field);
	case PROFILE_LOCATION:
		return table__add(&file->locations, file, field);
	case PROFILE_FUNCTION:
		return table__add(&file->functions, file, field);
	case PROFILE_STRING_TABLE:
		return add_string(file, field);
	case PROFILE_COMMENT:
		return add_comments(file, field);
	case PROFILE_PERIOD_TYPE:
		return read_value_type(file, field, &file->period_type, &file->period_unit);
	case PROFILE_TIME_NANOS:
		file->time_ns = (int64_t)field->value;
		return wire__want_number(file->input, field);
	case PROFILE_DURATION_NANOS:
		file->duration_ns = (int64_t)field->value;
		return wire__want_number(file->input, field);
	case PROFILE_PERIOD:
		file->period = field->value;
		return wire__want_number(file->input, field);
	case PROFILE_DROP_FRAMES:
		file->drop_frames = field->value;
		return wire__want_number(file->input, field);
	default:
		return 0;
	}
}

/* Finds the index of a value by the name of its type, or by `other`, an older name of this type. */
static void find_value(struct pprof_file *file, enum pprof_value value, const char *other)
{
	file->value_at[value] = -1;
	for (size_t i = file->n_types; i--;)
		if ((pprof_file__text_is(file, file->types[i].type, pprof_values[value].type) ||
		     (other && pprof_file__text_is(file, file->types[i].type, other))) &&
		    pprof_file__text_is(file, file->types[i].unit, pprof_values[value].unit))
			file->value_at[value] = (int)i;
}

static int find_values(struct pprof_file *file)
{
	const struct input *input = file->input;
	struct bytes first;

	for (int i = 0; i < VALUES; i++)
		find_value(file, (enum pprof_value)i,
			   i == VALUE_INUSE_SPACE     ? "space"
			   : i == VALUE_INUSE_OBJECTS ? "objects"
						      : NULL);
	if (file->value_at[VALUE_INUSE_SPACE] >= 0)
		return 0;
	if (!file->n_types)
		return error__set(input->err, -EINVAL,
				  "%s: is neither a pprof profile (it has no sample_type), nor "
				  "heap_v2, nor collapsed stacks",
				  input->name);
	first = pprof_file__text(file, file->types[file->n_types - 1].type);
	return error__set(
		input->err, -EINVAL,
		"%s: is a pprof profile of something else (%.*s): it has no inuse_space in bytes",
		input->name, (int)(first.end - first.pos < 80 ? first.end - first.pos : 80),
		first.pos ? (const char *)first.pos : "");
}

int pprof_file__read(struct pprof_file *file)
{
	struct bytes in = wire__message(file->input);
	struct field field;
	int rc = 0;

	while (!rc && (rc = wire__next(file->input, &in, &field)) > 0)
		rc = read_field(file, &field);
	if (!rc)
		rc = find_values(file);
	if (!rc)
		rc = table__sort(&file->mappings, file);
	if (!rc)
		rc = table__sort(&file->locations, file);
	if (!rc)
		rc = table__sort(&file->functions, file);
	return rc;
}

void pprof_file__clear(struct pprof_file *file)
{
	free(file->strings);
	free(file->mappings.items);
	free(file->locations.items);
	free(file->functions.items);
	free(file->comments);
}
