// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "decode/pprof_parts.h"

/* A function. It is read once, although many lines may refer to it. */
struct function {
	uint64_t name, filename; /* indices of strings */
	enum unresolved_reason reason;
};

struct names {
	const struct pprof_file *file;
	const struct pprof_places *places;
	struct function *functions; /* same indices as file->functions */
	size_t n_lines;		    /* lines of locations read so far */
};

/* Returns the reason why a frame has no name. memtrace's files store the reason as the system name
 * of the frame's function. */
static enum unresolved_reason reason_of(const struct pprof_file *file, uint64_t system_name)
{
	for (int i = UNRESOLVED_NAMED + 1; i < UNRESOLVED_MAX; i++) {
		char word[48];

		snprintf(word, sizeof(word), REASON_SYSTEM_NAME,
			 unresolved_reason__name((enum unresolved_reason)i));
		if (pprof_file__text_is(file, system_name, word))
			return (enum unresolved_reason)i;
	}
	return UNRESOLVED_NAMED;
}

static int read_function(const struct pprof_file *file, struct bytes message, struct function *ret)
{
	uint64_t system_name = 0;
	const struct pprof_member members[] = {
		{FUNCTION_NAME, MEMBER_TEXT, &ret->name},
		{FUNCTION_SYSTEM_NAME, MEMBER_TEXT, &system_name},
		{FUNCTION_FILENAME, MEMBER_TEXT, &ret->filename},
	};
	int rc = pprof_file__members(file, message, members, sizeof(members) / sizeof(*members));

	ret->reason = !rc && file->own ? reason_of(file, system_name) : UNRESOLVED_NAMED;
	return rc;
}

static int read_functions(struct names *names)
{
	const struct pprof_table *table = &names->file->functions;
	int rc = 0;

	names->functions = calloc(table->n + 1, sizeof(*names->functions));
	if (!names->functions)
		return -ENOMEM;
	for (size_t i = 0; i < table->n && !rc; i++)
		rc = read_function(names->file, table->items[i].message, &names->functions[i]);
	return rc;
}

/* Fills in the frame of a line. 1; 0: the frame has no name; negative errno. */
static int read_frame(const struct names *names, const struct field *line,
		      struct profile_frame *ret_frame, enum unresolved_reason *ret_reason)
{
	const struct pprof_file *file = names->file;
	struct draft *draft = file->draft;
	_cleanup_free_ char *name = NULL, *path = NULL;
	const struct function *function;
	uint64_t id = 0, number = 0;
	const struct pprof_member members[] = {
		{LINE_FUNCTION_ID, MEMBER_ANY, &id},
		{LINE_LINE, MEMBER_ANY, &number},
	};
	struct bytes text;
	ptrdiff_t found;
	int rc = wire__want_bytes(file->input, line);

	if (!rc)
		rc = pprof_file__members(file, line->bytes, members,
					 sizeof(members) / sizeof(*members));
	if (rc || !id)
		return rc;
	found = pprof_table__find(&file->functions, id);
	if (found < 0)
		return pprof_file__bad(file, line->at, "a reference to a missing function");
	function = &names->functions[found];
	text = pprof_file__text(file, function->name);
	if (text.pos == text.end) /* some writers leave the name out */
		return 0;
	name = pprof_file__copy_text(file, function->name);
	path = pprof_file__copy_text(file, function->filename);
	if (!name || !path)
		return -ENOMEM;
	if (draft__take(draft, strlen(name) + 1) || (*path && draft__take(draft, strlen(path) + 1)))
		return pprof_file__too_much(file, line->at);
	*ret_reason = function->reason;
	*ret_frame = (struct profile_frame){.name = name,
					    .line = number <= UINT32_MAX ? (uint32_t)number : 0};
	name = NULL;
	if (*path) {
		ret_frame->file = path;
		path = NULL;
	}
	return 1;
}

/* Counts a location's lines in names->n_lines, which has a limit. Lines without names count, too,
 * because reading them takes time. */
static int count_lines(struct names *names, struct bytes in, size_t *ret_n)
{
	struct draft *draft = names->file->draft;
	struct field part;
	size_t n = 0;
	int rc;

	while ((rc = wire__next(names->file->input, &in, &part)) > 0)
		n += part.number == LOCATION_LINE;
	if (rc < 0)
		return rc;
	names->n_lines += n;
	*ret_n = n;
	if (n > MAX_STACK_FRAMES || names->n_lines > draft->limits->items)
		return draft__refuse(draft, "more lines of locations than any profile has");
	return n ? draft__take(draft, n * sizeof(struct profile_frame)) : 0;
}

static int read_frames(struct names *names, const struct pprof_location *from,
		       struct profile_location *location)
{
	const struct pprof_file *file = names->file;
	struct profile_location whole = {};
	struct bytes in = from->message;
	struct field part;
	size_t n_lines;
	int rc = count_lines(names, in, &n_lines);

	if (rc == -EFBIG)
		return pprof_file__too_much(file, in.pos);
	if (rc || !n_lines)
		return rc;
	whole.frames = calloc(n_lines, sizeof(*whole.frames));
	if (!whole.frames)
		return -ENOMEM;
	while (!rc && (rc = wire__next(file->input, &in, &part)) > 0) {
		rc = 0;
		if (part.number != LOCATION_LINE)
			continue;
		rc = read_frame(names, &part, &whole.frames[whole.n_frames], &whole.reason);
		if (rc > 0) {
			whole.n_frames++;
			rc = 0;
		}
	}
	if (rc || !whole.n_frames) {
		profile_location__set_frames(&whole, NULL, 0);
		return rc;
	}
	profile_location__set_frames(location, whole.frames, whole.n_frames);
	location->reason = whole.reason;
	return 0;
}

/* Names a location by its file, if it has no name and no usable address in the profile. */
static int name_by_file(const struct names *names, const struct pprof_location *from,
			struct profile_location *location)
{
	const struct pprof_file *file = names->file;
	_cleanup_free_ char *path = NULL;
	uint64_t off = from->address;
	int rc;

	if (location->n_frames || location->addr < PROFILE_NO_ADDR)
		return 0;
	if (from->mapping) {
		const struct pprof_mapping *mapping = &names->places->mappings[from->mapping - 1];

		path = pprof_file__copy_text(file, mapping->filename);
		if (!path)
			return -ENOMEM;
		off += mapping->off - mapping->start;
	}
	rc = draft__name_by_offset(file->draft, location, path, off);
	return rc == -EFBIG ? pprof_file__too_much(file, from->message.pos) : rc;
}

/* Names the profile's locations. The locations and `order` both ascend by address. */
static int name_locations(struct names *names)
{
	struct profile *profile = names->file->draft->profile;
	struct pprof_location *const *order = names->places->order;
	size_t k = 0, n = names->file->locations.n;
	int rc = 0;

	for (size_t i = 0; i < profile->n_locations && !rc; i++) {
		while (k < n && order[k]->addr < profile->locations[i].addr)
			k++;
		if (k == n || order[k]->addr != profile->locations[i].addr)
			continue;
		rc = read_frames(names, order[k], &profile->locations[i]);
		if (!rc)
			rc = name_by_file(names, order[k], &profile->locations[i]);
	}
	return rc;
}

int pprof_names__read(const struct pprof_file *file, const struct pprof_places *places)
{
	struct names names = {.file = file, .places = places};
	int rc = read_functions(&names);

	if (!rc)
		rc = name_locations(&names);
	free(names.functions);
	return rc;
}
