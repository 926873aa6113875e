/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the room: JSON, written as it comes. */
#ifndef MEMTRACE_ENCODE_JSON_H
#define MEMTRACE_ENCODE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sink.h"
#include "profile/diff.h"
#include "profile/profile.h"

/* A writer of JSON without state: `first` of the enclosing object or array says whether a comma is
 * due, and is cleared. A document begins with {.sink = sink, .first = true}. */
struct json {
	struct sink *sink;
	bool first;
};

/* The comma before the next item of an array, if one is due; a string; "key": of an object. */
void json__comma(struct json *json);
void json__text(struct json *json, const char *text);
void json__key(struct json *json, const char *key);

/* Opens an object or array, in an object called key (NULL: in an array); the value returned writes
 * into it. Who opened it writes the bracket that closes it. */
struct json json__open(struct json *json, const char *key, const char *bracket);

/* The object that a document is, with its first members: "version" (ENCODE_JSON_VERSION) and "what"
 * (of profile_what__name()). Who opened it writes "}\n". */
struct json json__open_document(struct sink *sink, const char *what);

/* Members of an object. Numbers that are no integers have three decimals; those that JSON has no
 * form of are null. */
void json__put_text(struct json *json, const char *key, const char *text);
void json__put_uint(struct json *json, const char *key, uint64_t value);
void json__put_real(struct json *json, const char *key, double value);
void json__put_signed(struct json *json, const char *key, double value); /* rounded */
void json__put_bool(struct json *json, const char *key, bool value);

/* The next number of an array. */
void json__put_item(struct json *list, double value);

/* "lost": {"name": count, ...} */
void json__put_lost(struct json *json, const struct profile *profile);

/* "contradictions". 0 or -ENOMEM. */
int json__put_contradictions(struct json *json, const struct profile *profile);

/* "file" (where it was read from one), "pid", "comm" */
void json__put_identity(struct json *json, const struct profile *profile);

/* "profiles" (0 or -ENOMEM) and "warnings". */
int json__put_profiles(struct json *json, const struct diff *diff);
void json__put_warnings(struct json *json, unsigned warnings);

/* "resident" */
void json__put_resident(struct json *json, const struct resident *resident);

/* "frames" of a stack, leaf first, and "lines", where any is known, beside them: "file:line" or
 * null. */
void json__put_frames(struct json *stack, const struct profile *profile,
		      const struct profile_site *site);

#endif
