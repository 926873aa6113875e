// SPDX-License-Identifier: BSD-2-Clause
#include "encode/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "encode/text.h"

struct stack {
	char *names; /* "root;...;leaf" */
	double bytes;
};

struct stacks {
	struct stack *list;
	size_t n;
};

static void stacks__clear(struct stacks *stacks)
{
	for (size_t i = 0; i < stacks->n; i++)
		free(stacks->list[i].names);
	free(stacks->list);
}

static int by_names(const void *a, const void *b)
{
	const struct stack *x = a, *y = b;

	return strcmp(x->names, y->names);
}

static void put_name(FILE *stream, const char *name)
{
	while (*name) {
		uint32_t code;
		size_t len = utf8_next(name, &code);

		if (!len || is_control(code))
			fputc('?', stream);
		else if (code == ';')
			fputc(':', stream);
		else
			fwrite(name, 1, len, stream);
		name += len ? len : 1;
	}
}

/* Writes a location's functions, outermost first. */
static void put_location(FILE *stream, const struct profile_location *location)
{
	if (!location->n_frames)
		fprintf(stream, "0x%" PRIx64, location->addr - 1);
	for (size_t i = location->n_frames; i--;) {
		put_name(stream, location->frames[i].name);
		if (i)
			fputc(';', stream);
	}
}

char *collapsed_names(const struct profile *profile, const struct profile_site *site)
{
	uint32_t first = first_frame(profile, site);
	char *names = NULL;
	size_t len;
	FILE *stream = open_memstream(&names, &len);
	bool failed;

	if (!stream)
		return NULL;
	if (!site->n_locations)
		fputs("[no stack]", stream);
	for (uint32_t i = site->n_locations; i-- > first;) {
		put_location(stream, profile__location(profile, site, i));
		if (i > first)
			fputc(';', stream);
	}
	/* `names` is final only once the stream is closed. */
	failed = ferror(stream);
	if (fclose(stream) || failed) {
		free(names);
		return NULL;
	}
	return names;
}

int encode_collapsed(const struct profile *profile, struct sink *sink)
{
	_cleanup_(stacks__clear) struct stacks stacks = {};
	size_t end;

	stacks.list = calloc(profile->n_sites ? profile->n_sites : 1, sizeof(*stacks.list));
	if (!stacks.list)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_sites; i++) {
		struct stack *stack = &stacks.list[stacks.n];

		if (!(profile->sites[i].live.bytes > 0))
			continue;
		stack->bytes = profile->sites[i].live.bytes;
		stack->names = collapsed_names(profile, &profile->sites[i]);
		if (!stack->names)
			return -ENOMEM;
		stacks.n++;
	}
	qsort(stacks.list, stacks.n, sizeof(*stacks.list), by_names);
	for (size_t i = 0; i < stacks.n; i = end) {
		double bytes = 0;
		uint64_t rounded;

		for (end = i; end < stacks.n && !by_names(&stacks.list[i], &stacks.list[end]);
		     end++)
			bytes += stacks.list[end].bytes;
		rounded = to_integer(bytes);
		if (rounded)
			sink__printf(sink, "%s %" PRIu64 "\n", stacks.list[i].names, rounded);
	}
	return sink->error;
}
