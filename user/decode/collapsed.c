// SPDX-License-Identifier: BSD-2-Clause
/* "root;caller;leaf BYTES", a line for each stack. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "decode/internal.h"

/* The number behind the last blank, digits with a fraction perhaps; *ret_len is what stands before
 * it. */
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

static int take_line(const struct input *in, struct making *making, const struct line *line,
		     uint64_t *addrs)
{
	struct estimate live = {};
	size_t len, n = 0, site;
	const char *end;
	int rc = 0;

	if (take_number(line, &len, &live.bytes))
		return input__bad_line(
			in, -EINVAL, line->number,
			"no line of collapsed stacks (\"caller;function NUMBER\"); and "
			"the file is neither pprof nor heap_v2");
	/* from the leaf on */
	for (end = line->text + len; !rc && end >= line->text;) {
		const char *semicolon = memrchr(line->text, ';', (size_t)(end - line->text));
		const char *name = semicolon ? semicolon + 1 : line->text;

		if (n == MAX_STACK_FRAMES)
			return input__bad_line(in, -EFBIG, line->number,
					       "a stack of more than %d frames", MAX_STACK_FRAMES);
		if (name == end)
			return input__bad_line(in, -EINVAL, line->number, "a frame without a name");
		rc = making__name(making, name, (size_t)(end - name), &addrs[n++]);
		if (!semicolon)
			break;
		end = semicolon;
	}
	if (!rc)
		rc = making__site(making, addrs, n, &site);
	if (!rc)
		rc = making__add(making, site, &live, 0, 0);
	return rc == -EFBIG ? input__bad_line(in, rc, line->number, "%s", making->why) : rc;
}

int decode_collapsed(const struct input *in, struct making *making)
{
	_cleanup_free_ uint64_t *addrs = calloc(MAX_STACK_FRAMES, sizeof(*addrs));
	struct line line = {};
	int rc = addrs ? 0 : -ENOMEM;

	while (!rc && input__next_line(in, &line)) {
		struct line text = line;

		if (text.len && text.text[text.len - 1] == '\r')
			text.len--;
		if (text.len)
			rc = take_line(in, making, &text, addrs);
	}
	if (!rc && !making->profile->n_sites)
		return error__set(in->err, -EINVAL, "%s: is empty", in->name);
	making->profile->no_objects = making->profile->leaf_holds = true;
	return rc ? rc : making__sort(making);
}
