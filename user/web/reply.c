// SPDX-License-Identifier: BSD-2-Clause
#include "web/reply.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

FILE *reply__open(struct reply *r, const char *type)
{
	r->status = 200;
	r->type = type;
	r->stream = open_memstream(&r->body, &r->size);
	return r->stream;
}

int reply__close(struct reply *r)
{
	FILE *stream = r->stream;

	r->stream = NULL;
	return !stream || fclose(stream) ? -ENOMEM : 0;
}

void reply__say(struct reply *r, unsigned status, const char *fmt, ...)
{
	va_list ap;

	if (r->stream)
		reply__close(r);
	free(r->body);
	r->body = NULL;
	r->status = status;
	r->type = TYPE_TEXT;
	r->file = NULL;
	va_start(ap, fmt);
	if (vasprintf(&r->body, fmt, ap) < 0)
		r->body = NULL;
	va_end(ap);
	r->size = r->body ? strlen(r->body) : 0;
}

void put_html(FILE *to, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '<':
			fputs("&lt;", to);
			break;
		case '>':
			fputs("&gt;", to);
			break;
		case '&':
			fputs("&amp;", to);
			break;
		case '"':
			fputs("&quot;", to);
			break;
		case '\'':
			fputs("&#39;", to);
			break;
		default:
			fputc(*text, to);
		}
}
