/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes text from the target safe to print, and formats figures. */
#ifndef MEMTRACE_ENCODE_TEXT_H
#define MEMTRACE_ENCODE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sink.h"
#include "profile/profile.h"
#include "profile/slots.h"

/* The number of bytes (1..4) of the UTF-8 character at text; *ret_code is its code point. 0 if
 * there is no valid character (overlong, surrogate, cut short, stray byte) or the text ends. */
size_t utf8_next(const char *text, uint32_t *ret_code);

/* Would the character move the cursor, or reorder the text around it? C0, DEL, C1, the line
 * separators and the bidirectional controls do. */
bool is_control(uint32_t code);

/* A copy of text with controls and bytes that are not UTF-8 replaced by '?'; NULL: no memory. */
char *text_printable(const char *text);

/* Returns the name of a profile for people, printable: the name of the process, or else of the
 * profile's file, or else "?". NULL: no memory. */
char *text_profile_name(const struct profile *profile);

/* Returns the number of columns of a printable text, one per character. */
size_t text_columns(const char *text);

/* A copy of a printable name in at most max (>= 2) columns. Template arguments are cut first. Then
 * the middle of the name is cut, because the class at its beginning and the method at its end are
 * both informative. NULL: no memory. */
char *text_shorten(const char *name, size_t max);

/* A copy of a printable name of C++ or Rust without template arguments. Leading parts are removed
 * until the name fits max columns; the last part stays: a::b<c::d>::e -> a::b<..>::e, b<..>::e, e.
 * NULL: no memory. */
char *text_unqualified(const char *name, size_t max);

/* A walk over the frames of a site, from the leaf. Inlined frames are in their places. To begin,
 * set profile, site and, if needed, slots, and zero the rest. */
struct frame_walk {
	const struct profile *profile;
	const struct profile_site *site;
	const struct frame_slots *slots;
	size_t slot;			   /* slot of the frame returned last; set only with
					    * slots */
	uint32_t location;		   /* index of the next frame's location in
					    * site->locations */
	size_t index;			   /* index of the next frame in that location */
	const struct profile_frame *frame; /* the frame returned last; NULL: not symbolized */
	char buf[24];
};

/* Returns the name of the next frame, or, if it has no name, its address in walk->buf. NULL: the
 * walk is at its end. */
const char *frame_walk__next(struct frame_walk *walk);

/* Some outputs leave out allocation functions. Returns the index of the location at which these
 * outputs begin a stack, counted from the leaf. The leaf is the probed function, and does not tell
 * who holds the memory. The same is true of an operator new that called malloc. jeprof leaves out
 * both. 0 for page faults, and for stacks that begin with the allocator's caller (leaf_holds). */
uint32_t first_frame(const struct profile *profile, const struct profile_site *site);

/* Returns "root;caller;leaf" as in collapsed files, with the same characters replaced; NULL: no
 * memory. The caller frees it. */
char *collapsed_names(const struct profile *profile, const struct profile_site *site);

/* A non-negative number of bytes or objects as an integer; NaN becomes 0. */
uint64_t to_integer(double value);

/* Divides bytes by the unit in which they are shown (1023.96 KiB is 1.0 MiB) and names that unit.
 * *ret_divisor (may be NULL) is the divisor. */
double scale_bytes(double bytes, const char **ret_unit, double *ret_divisor);

/* "one sample per 64 KiB"; "one sample per 64 KiB to 1 MiB (to keep the limit)" if the interval
 * became coarser than asked for; "one sample per 32 KiB to 512 KiB" if it became finer. interval:
 * the coarsest interval. finest, asked: 0 if equal to `interval`. */
void put_samples_per(uint64_t finest, uint64_t asked, uint64_t interval, struct sink *sink);

/* Returns the word for what profile->alloc_calls counts, as in "598 samples of N allocations".
 * Instead of allocations, it may count the samples that the program took itself. */
const char *sampled_word(const struct profile *profile);

/* "+3.1 MiB" into buf (>= 20 bytes); returns buf. */
const char *format_change(double bytes, char *buf);

#define CELL_SIZE 64 /* size of a buffer that has room for any figure */

/* "+3.1 to +8.9 MiB": both ends in the unit of the larger end; "" if an end is not finite or both
 * ends are equal. */
void format_range(double low, double high, char *buf, size_t size);

/* "61.2 - 66.8 MiB": both ends in the unit of the larger end, so that they are easy to compare. */
void format_interval(struct interval interval, char *buf, size_t size);

/* Returns the ending of a noun after the number n: "" for 1, else "s". */
const char *plural(uint64_t n);

/* 1204113 -> "1,204,113" into buf (>= 32 bytes); returns buf. */
const char *with_commas(uint64_t value, char *buf);

#endif
