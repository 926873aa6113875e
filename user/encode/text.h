/* SPDX-License-Identifier: BSD-2-Clause */
/* Text that comes from the target, made fit for a reader. */
#ifndef MEMTRACE_ENCODE_TEXT_H
#define MEMTRACE_ENCODE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sink.h"
#include "profile/profile.h"
#include "profile/slots.h"

/* Bytes of the UTF-8 character at text (1..4), with *ret_code its code point; 0 when no valid one
 * is there (overlong, surrogate, cut short, stray byte) or the text ends. */
size_t utf8_next(const char *text, uint32_t *ret_code);

/* Would it move the cursor, or reorder the text around it? C0, DEL, C1, line separators and the
 * bidirectional controls. */
bool is_control(uint32_t code);

/* A copy of text with controls and bytes that are not UTF-8 replaced by '?'; NULL: no memory. */
char *text_printable(const char *text);

/* What people call a profile: the process's name, or else its file's, or else "?", printable; NULL:
 * no memory. */
char *text_profile_name(const struct profile *profile);

/* Columns that a printable text takes, one per character. */
size_t text_columns(const char *text);

/* A copy of a printable name in at most max (>= 2) columns. Template arguments go first, then the
 * middle: both the class and the method say something. NULL: no memory. */
char *text_shorten(const char *name, size_t max);

/* A copy of a printable name of C++ or Rust without template arguments, and without as many of its
 * leading parts as must go for max columns, the last stays: a::b<c::d>::e -> a::b<..>::e, b<..>::e,
 * e. NULL: no memory. */
char *text_unqualified(const char *name, size_t max);

/* The frames of a site one by one, from the leaf, inlined ones in their places. Zeroed but for
 * profile, site and, if they are of use, slots at the beginning. */
struct frame_walk {
	const struct profile *profile;
	const struct profile_site *site;
	const struct frame_slots *slots;
	size_t slot;			   /* of the frame that was returned, if there are slots */
	uint32_t location;		   /* of the next frame: index into site->locations */
	size_t index;			   /* in the location's frames */
	const struct profile_frame *frame; /* the one that was returned; NULL: not symbolized */
	char buf[24];
};

/* The name of the next frame, or, while it has none, its address in walk->buf; NULL at the end. */
const char *frame_walk__next(struct frame_walk *walk);

/* The first location from the leaf that is shown where only holders are. The leaf is the probed
 * function, which names no holder; operator new, when it is the one that called malloc, no more.
 * jeprof leaves out both. */
uint32_t first_frame(const struct profile *profile, const struct profile_site *site);

/* "root;caller;leaf" as in collapsed files, fit for them; NULL: no memory. The caller frees it. */
char *collapsed_names(const struct profile *profile, const struct profile_site *site);

/* A non-negative number of bytes or objects as an integer; what is no number is 0. */
uint64_t to_integer(double value);

/* Divides bytes by the unit in which it is shown (1023.96 KiB is 1.0 MiB) and names that unit;
 * *ret_divisor (may be NULL) is what it was divided by. */
double scale_bytes(double bytes, const char **ret_unit, double *ret_divisor);

/* "one sample per 64 KiB", or where it became coarser than asked for (asked: 0 if not) "one
 * sample per 64 KiB to 1 MiB (to keep the limit)". */
void put_samples_per(uint64_t asked, uint64_t interval, struct sink *sink);

/* "+3.1 MiB" into buf (>= 20 bytes); returns buf. */
const char *format_change(double bytes, char *buf);

#define CELL_SIZE 64 /* of a buffer that has room for any figure */

/* "+3.1 to +8.9 MiB": both in the unit of the larger; "" of what is not finite, or no range. */
void format_range(double low, double high, char *buf, size_t size);

/* "61.2 - 66.8 MiB": both ends in the unit of the larger, so that they compare at a glance. */
void format_interval(struct interval interval, char *buf, size_t size);

/* The end of a noun that n of are counted: "" of one, else "s". */
const char *plural(uint64_t n);

/* 1204113 -> "1,204,113" into buf (>= 32 bytes); returns buf. */
const char *with_commas(uint64_t value, char *buf);

#endif
