// SPDX-License-Identifier: BSD-2-Clause
#include "encode/pprof_parts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "encode/text.h"

#define CHUNK 65536

uint64_t carry__take(struct carry *carry, double value)
{
	uint64_t sum, n;

	if (!(value > 0) || !isfinite(value))
		return 0;
	carry->sum += value;
	sum = to_integer(carry->sum);
	n = sum > carry->written ? sum - carry->written : 0;
	carry->written += n;
	return n;
}

/* --- the wire --- */

void message__append(struct message *m, const void *data, size_t len)
{
	if (VECTOR_RESERVE(m->bytes, m->room, m->len + len)) {
		m->failed = true;
		return;
	}
	if (len)
		memcpy(m->bytes + m->len, data, len);
	m->len += len;
}

static size_t put_varint(uint8_t *to, uint64_t value)
{
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		to[n++] = (uint8_t)value | 0x80;
	to[n++] = (uint8_t)value;
	return n;
}

void message__varint(struct message *m, uint64_t value)
{
	uint8_t bytes[10];

	message__append(m, bytes, put_varint(bytes, value));
}

void message__uint(struct message *m, int field, uint64_t value)
{
	if (!value)
		return;
	message__varint(m, (uint64_t)field << 3 | WIRE_VARINT);
	message__varint(m, value);
}

void message__bytes(struct message *m, int field, const void *data, size_t len)
{
	message__varint(m, (uint64_t)field << 3 | WIRE_BYTES);
	message__varint(m, len);
	message__append(m, data, len);
}

/* --- the file --- */

void pprof__deflate(struct pprof *p, const void *data, size_t len, int flush)
{
	Bytef out[CHUNK];

	p->zip.next_in = (z_const Bytef *)data;
	p->zip.avail_in = (uInt)len;
	do {
		p->zip.next_out = out;
		p->zip.avail_out = sizeof(out);
		if (deflate(&p->zip, flush) == Z_STREAM_ERROR)
			p->error = -EIO;
		if (!p->error)
			p->error = sink__write(p->sink, out, sizeof(out) - p->zip.avail_out);
	} while (!p->zip.avail_out && !p->error);
}

void pprof__put_field(struct pprof *p, int field, const void *data, size_t len)
{
	uint8_t head[20];
	size_t n = put_varint(head, (uint64_t)field << 3 | WIRE_BYTES);

	n += put_varint(head + n, len);
	pprof__deflate(p, head, n, Z_NO_FLUSH);
	/* zlib counts in 32 bits; one message has a few KB. */
	if (len > UINT32_MAX)
		p->error = -EOVERFLOW;
	else if (!p->error)
		pprof__deflate(p, data, len, Z_NO_FLUSH);
}

void pprof__put_message(struct pprof *p, int field)
{
	if ((p->message.failed || p->part.failed) && !p->error)
		p->error = -ENOMEM;
	if (!p->error)
		pprof__put_field(p, field, p->message.bytes, p->message.len);
	p->message.len = 0;
}

void pprof__put_number(struct pprof *p, int field, uint64_t value)
{
	uint8_t bytes[20];
	size_t n = put_varint(bytes, (uint64_t)field << 3 | WIRE_VARINT);

	n += put_varint(bytes + n, value);
	if (value && !p->error)
		pprof__deflate(p, bytes, n, Z_NO_FLUSH);
}

uint64_t pprof__string(struct pprof *p, const char *text)
{
	_cleanup_free_ char *printable = text_printable(text);
	uint32_t number = 0;

	if (!printable || intern__add(&p->strings, printable, strlen(printable), &number) < 0)
		p->error = -ENOMEM;
	return number;
}
