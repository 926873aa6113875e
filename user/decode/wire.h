/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to user/decode: protobuf's wire format, in which pprof profiles are written. A message is
 * a row of fields. A field is a number, or bytes, which may be a message again. Messages are read
 * in place in the input: nothing is allocated. After an error, functions return -EINVAL, and the
 * error's text names the place. */
#ifndef MEMTRACE_DECODE_WIRE_H
#define MEMTRACE_DECODE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/internal.h"

/* A part of the input: from pos up to end. Reading moves pos. */
struct bytes {
	const uint8_t *pos, *end;
};

struct field {
	uint32_t number; /* the field's number; 0: pprof has no field of this type */
	bool is_bytes;
	uint64_t value;	    /* the number, if not is_bytes */
	struct bytes bytes; /* the bytes, if is_bytes */
	const uint8_t *at;  /* where the field begins in the input */
};

/* Returns the whole input as a message. */
struct bytes wire__message(const struct input *input);

/* Sets the error "NAME: byte N: WHAT", where N is the offset of `at`, and returns code. */
int wire__bad(const struct input *input, int code, const uint8_t *at, const char *what);

/* Takes the next field of a message. 1; 0 at its end; negative errno. */
int wire__next(const struct input *input, struct bytes *message, struct field *ret);

/* A repeated field has packed numbers or a single number. Takes the next number. *done is false at
 * first, and is set when the single number is taken. 1; 0 at the end; negative errno. */
int wire__next_number(const struct input *input, struct field *field, bool *done, uint64_t *ret);

/* 0, or negative errno if the field is not of this type. */
int wire__want_bytes(const struct input *input, const struct field *field);
int wire__want_number(const struct input *input, const struct field *field);

#endif
