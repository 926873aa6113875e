// SPDX-License-Identifier: BSD-2-Clause
/* "root;caller;leaf BYTES", a line for each stack. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "decode/internal.h"

/* Reads the number after the last blank: digits, perhaps with a fraction. *ret_len is the length of
 * the text before the blank. */
static int take_number(const struct line *line, size_t *ret_len, double *ret)
{
	const char *end = line->text + line->len, *blank = memrchr(line->text, ' ', line->len),
		   *pos;
	uint64_t whole;
	double digit = 0.1;

	if (!blank || blank == line->text)
		return -EINVAL;
	pos = blank + 1;
	if (take_decimal(&pos, end, &whole))
		return -EINVAL;
	*ret = (double)whole;
	if (pos < end && *pos == '.') {
		for (pos++; pos < end && *pos >= '0' && *pos <= '9'; pos++, digit /= 10)
			*ret += digit * (*pos - '0');
	}
	*ret_len = (size_t)(blank - line->text);
	return pos == end ? 0 : -EINVAL;
}

/* The previous line. Most files are sorted, so a line often begins with the same names as the
 * previous line, and these names are not looked up again. */
struct stacks {
	/* addresses of the previous line's names; each array has MAX_STACK_FRAMES elements */
	uint64_t *from_root, *from_leaf;
	const char *text; /* the previous line's names */
	size_t len;
};

/* Returns how many names at the beginning of the line are the same as in the previous line.
 * *ret_start: the offset of the first name that differs. */
static size_t count_shared(const struct stacks *last, const char *text, size_t len,
			   size_t *ret_start)
{
	size_t n = 0;

	*ret_start = 0;
	for (size_t i = 0; i < len && i < last->len && text[i] == last->text[i]; i++)
		if (text[i] == ';') {
			n++;
			*ret_start = i + 1;
		}
	return n;
}

static int take_line(const struct input *in, struct draft *draft, const struct line *line,
		     struct stacks *stacks)
{
	struct estimate live = {};
	size_t len, n, start, site;
	int rc = 0;

	if (take_number(line, &len, &live.bytes))
		return input__bad_line(
			in, -EINVAL, line->number,
			"no line of collapsed stacks (\"caller;function NUMBER\"); and "
			"the file is neither pprof nor heap_v2");
	n = count_shared(stacks, line->text, len, &start);
	for (bool more = true; more && !rc; n++) {
		const char *name = line->text + start, *end = memchr(name, ';', len - start);

		more = end;
		end = end ? end : line->text + len;
		if (n == MAX_STACK_FRAMES)
			return input__bad_line(in, -EFBIG, line->number,
					       "a stack of more than %d frames", MAX_STACK_FRAMES);
		if (name == end)
			return input__bad_line(in, -EINVAL, line->number, "a frame without a name");
		rc = draft__name(draft, name, (size_t)(end - name), &stacks->from_root[n]);
		start = (size_t)(end - line->text) + 1;
	}
	stacks->text = line->text;
	stacks->len = len;
	for (size_t i = 0; i < n; i++)
		stacks->from_leaf[i] = stacks->from_root[n - 1 - i];
	if (!rc)
		rc = draft__site(draft, stacks->from_leaf, n, &site);
	if (!rc)
		rc = draft__add(draft, site, &live, 0, 0);
	return rc == -EFBIG ? input__bad_line(in, rc, line->number, "%s", draft->why) : rc;
}

int decode_collapsed(const struct input *in, struct draft *draft)
{
	_cleanup_free_ uint64_t *from_root = calloc(MAX_STACK_FRAMES, sizeof(*from_root));
	_cleanup_free_ uint64_t *from_leaf = calloc(MAX_STACK_FRAMES, sizeof(*from_leaf));
	struct stacks stacks = {from_root, from_leaf, NULL, 0};
	struct line line = {};
	int rc = from_root && from_leaf ? 0 : -ENOMEM;

	while (!rc && input__next_line(in, &line)) {
		struct line text = line;

		if (text.len && text.text[text.len - 1] == '\r')
			text.len--;
		if (text.len)
			rc = take_line(in, draft, &text, &stacks);
	}
	if (!rc && !draft->profile->n_sites)
		return error__set(in->err, -EINVAL, "%s: is empty", in->name);
	/* a line without a newline may have been cut within its number, but still looks like a
	 * whole line */
	if (!rc && in->bytes[in->len - 1] != '\n')
		return input__bad_line(in, -EINVAL, line.number,
				       "the last line has no end: the file is cut short");
	draft->profile->no_objects = draft->profile->leaf_holds = true;
	return rc ? rc : draft__sort(draft);
}
