// SPDX-License-Identifier: BSD-2-Clause
#include "web/reply.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"

/* Appends to the body. (open_memstream() is not used, because its stream does not report that
 * memory ran out.) */
static ssize_t append(void *cookie, const char *data, size_t len)
{
	struct reply *r = cookie;

	if (!r->error && len > REPLY_BODY - r->size)
		r->error = -EFBIG;
	if (!r->error)
		r->error = VECTOR_RESERVE(r->body, r->room, r->size + len);
	if (r->error) {
		errno = -r->error;
		return 0;
	}
	memcpy(r->body + r->size, data, len);
	r->size += len;
	return (ssize_t)len;
}

FILE *reply__open(struct reply *r, const char *type)
{
	const cookie_io_functions_t functions = {.write = append};

	r->status = 200;
	r->type = type;
	r->stream = fopencookie(r, "w", functions);
	return r->stream;
}

int reply__close(struct reply *r)
{
	FILE *stream = r->stream;

	r->stream = NULL;
	if (!stream || (fclose(stream) && !r->error))
		return -ENOMEM;
	return r->error;
}

void reply__fail(struct reply *r, int error)
{
	if (error == -EFBIG)
		reply__say(r, 500, "the answer is larger than %d MiB\n", REPLY_BODY >> 20);
	else
		reply__say(r, 500, "%s\n", error == -ENOMEM ? "out of memory" : strerror(-error));
}

void reply__say(struct reply *r, unsigned status, const char *fmt, ...)
{
	va_list ap;

	if (r->stream)
		reply__close(r);
	free(r->body);
	r->body = NULL;
	r->room = 0;
	r->status = status;
	r->type = TYPE_TEXT;
	r->file = NULL;
	va_start(ap, fmt);
	if (vasprintf(&r->body, fmt, ap) < 0)
		r->body = NULL;
	va_end(ap);
	r->size = r->body ? strlen(r->body) : 0;
}

static int write_html(void *ctx, const void *data, size_t len)
{
	static const char *const entities[] = {['<'] = "&lt;",
					       ['>'] = "&gt;",
					       ['&'] = "&amp;",
					       ['"'] = "&quot;",
					       ['\''] = "&#39;"};
	FILE *to = ctx;

	for (const unsigned char *c = data; len--; c++) {
		const char *entity =
			*c < sizeof(entities) / sizeof(*entities) ? entities[*c] : NULL;

		if ((entity ? fputs(entity, to) : putc(*c, to)) < 0)
			return -ENOMEM;
	}
	return 0;
}

struct sink sink__to_html(FILE *to)
{
	return (struct sink){.write = write_html, .ctx = to};
}

void put_html(FILE *to, const char *text)
{
	write_html(to, text, strlen(text));
}
