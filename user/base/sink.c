// SPDX-License-Identifier: BSD-2-Clause
#include "base/sink.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"

int sink__write(struct sink *sink, const void *data, size_t len)
{
	if (!sink->error && len)
		sink->error = sink->write(sink->ctx, data, len);
	return sink->error;
}

int sink__puts(struct sink *sink, const char *text)
{
	return sink__write(sink, text, strlen(text));
}

int sink__printf(struct sink *sink, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int len;

	if (sink->error)
		return sink->error;
	va_start(ap, fmt);
	len = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (len < 0) {
		text = NULL;
		return sink->error = -ENOMEM;
	}
	return sink__write(sink, text, (size_t)len);
}

static int stream_write(void *ctx, const void *data, size_t len)
{
	errno = 0;
	if (fwrite(data, 1, len, ctx) != len)
		return errno ? -errno : -EIO;
	return 0;
}

struct sink sink__to_stream(FILE *stream)
{
	return (struct sink){.write = stream_write, .ctx = stream};
}
