// SPDX-License-Identifier: BSD-2-Clause
#include "decode/wire.h"

#include <errno.h>
#include <stddef.h>

#include "profile/pprof.h"

struct bytes wire__message(const struct input *input)
{
	const uint8_t *start = (const uint8_t *)input->bytes;

	return (struct bytes){start, start + input->len};
}

/* Returns the offset of a place in the input. */
static size_t offset_of(const struct input *input, const uint8_t *at)
{
	return (size_t)((const char *)at - input->bytes);
}

int wire__bad(const struct input *input, int code, const uint8_t *at, const char *what)
{
	return input__bad_byte(input, code, offset_of(input, at), "%s", what);
}

/* Like wire__bad(), for bytes that do not have the form of a pprof profile. Such a file may be of
 * any kind, so the message says that it was read as pprof because it is not text. A gzipped file is
 * taken for a pprof file, and its message does not say this. */
static int malformed(const struct input *input, const uint8_t *at, const char *what)
{
	return input__bad_byte(input, -EINVAL, offset_of(input, at), "%s%s", what,
			       input->packed ? "" : " (a file that is not text is read as pprof)");
}

static int take_varint(const struct input *input, struct bytes *message, uint64_t *ret)
{
	const uint8_t *start = message->pos;
	uint64_t value = 0;

	for (int shift = 0; shift < 70; shift += 7) {
		uint8_t byte;

		if (message->pos == message->end)
			return malformed(input, start, "a number is cut short");
		byte = *message->pos++;
		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = value;
			return 0;
		}
	}
	return malformed(input, start, "a number is longer than 64 bits");
}

int wire__next(const struct input *input, struct bytes *message, struct field *ret)
{
	uint64_t tag, len;
	size_t skip = 0;

	if (message->pos == message->end)
		return 0;
	*ret = (struct field){.at = message->pos};
	if (take_varint(input, message, &tag))
		return -EINVAL;
	if (!(tag >> 3) || tag >> 3 > UINT32_MAX)
		return malformed(input, ret->at, "no field of a pprof profile");
	ret->number = (uint32_t)(tag >> 3);
	switch (tag & 7) {
	case WIRE_VARINT:
		return take_varint(input, message, &ret->value) ? -EINVAL : 1;
	case WIRE_FIXED64: /* pprof has no fields of this type, so the field is skipped */
	case WIRE_FIXED32:
		skip = (tag & 7) == WIRE_FIXED64 ? 8 : 4;
		if ((size_t)(message->end - message->pos) < skip)
			return malformed(input, ret->at, "a field is cut short");
		message->pos += skip;
		ret->number = 0;
		return 1;
	case WIRE_BYTES:
		if (take_varint(input, message, &len))
			return -EINVAL;
		if (len > (uint64_t)(message->end - message->pos))
			return malformed(input, ret->at, "a field is longer than what is left");
		ret->is_bytes = true;
		ret->bytes = (struct bytes){message->pos, message->pos + len};
		message->pos += len;
		return 1;
	default:
		return malformed(input, ret->at, "no field of a pprof profile");
	}
}

int wire__want_bytes(const struct input *input, const struct field *field)
{
	return field->is_bytes ? 0 : malformed(input, field->at, "a number instead of a message");
}

int wire__want_number(const struct input *input, const struct field *field)
{
	return field->is_bytes ? malformed(input, field->at, "bytes instead of a number") : 0;
}

int wire__next_number(const struct input *input, struct field *field, bool *done, uint64_t *ret)
{
	if (!field->is_bytes) {
		if (*done)
			return 0;
		*done = true;
		*ret = field->value;
		return 1;
	}
	if (field->bytes.pos == field->bytes.end)
		return 0;
	return take_varint(input, &field->bytes, ret) ? -EINVAL : 1;
}
