/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes JSON piece by piece, without a copy of the document in memory. Used by the files of
 * user/encode, and by commands that print no profile. */
#ifndef MEMTRACE_ENCODE_JSON_H
#define MEMTRACE_ENCODE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sink.h"
#include "profile/diff.h"
#include "profile/profile.h"

/* A writer of JSON. Its only state is `first`: while it is set, the enclosing object or array is
 * empty, so no comma is due. The first item clears it. A document begins with {.sink = sink, .first
 * = true}. */
struct json {
	struct sink *sink;
	bool first;
};

/* Each of these functions writes one part of a document. json__comma(): the comma before the next
 * item of an array, if one is due. json__text(): a string. json__key(): the key of a member of an
 * object, with its colon. */
void json__comma(struct json *json);
void json__text(struct json *json, const char *text);
void json__key(struct json *json, const char *key);

/* Opens an object or array, as the member `key` of an object (NULL: as an item of an array). The
 * returned writer writes into it. The caller writes the closing bracket. */
struct json json__open(struct json *json, const char *key, const char *bracket);

/* Opens the document's outermost object and writes its first members: "version"
 * (ENCODE_JSON_VERSION) and "what", such as profile_what__name(). The caller writes "}\n". */
struct json json__open_document(struct sink *sink, const char *what);

/* Write a member of an object. Non-integers have three decimals. Numbers that JSON cannot express
 * are null. */
void json__put_text(struct json *json, const char *key, const char *text);
void json__put_uint(struct json *json, const char *key, uint64_t value);
void json__put_real(struct json *json, const char *key, double value);
void json__put_signed(struct json *json, const char *key, double value); /* rounded */
void json__put_bool(struct json *json, const char *key, bool value);

/* Writes the next number of an array. */
void json__put_item(struct json *list, double value);

/* Writes "lost": {"name": count, ...}. */
void json__put_lost(struct json *json, const struct profile *profile);

/* Writes "contradictions". 0 or -ENOMEM. */
int json__put_contradictions(struct json *json, const struct profile *profile);

/* Writes "file" (if the profile was read from one), "pid" and "comm". */
void json__put_identity(struct json *json, const struct profile *profile);

/* Write "profiles" (returns 0 or -ENOMEM) and "warnings". */
int json__put_profiles(struct json *json, const struct diff *diff);
void json__put_warnings(struct json *json, unsigned warnings);

/* Writes "resident". */
void json__put_resident(struct json *json, const struct resident *resident);

/* Write "why" of a stack, and "why_search" of a profile. If `why` is NULL, nothing is written. */
void json__put_why(struct json *stack, const struct site_why *why);
void json__put_why_search(struct json *json, const struct profile_why *why);

/* Writes "heap": the whole object of encode_heap_report_json(). */
void json__put_heap_report(struct json *json, const struct heap_report *report);

/* Writes "frames" of a stack, leaf first. If the source line of any frame is known, also writes
 * "lines": "file:line" or null for each frame. */
void json__put_frames(struct json *stack, const struct profile *profile,
		      const struct profile_site *site);

#endif
