/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes names safe: they come from the target and are printed to terminals and to line-based files.
 * Private to user/symbolize. */
#ifndef MEMTRACE_SYMBOLIZE_CLEAN_H
#define MEMTRACE_SYMBOLIZE_CLEAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The most bytes of a name; a longer name is cut. Real names of C++ templates have up to a few
 * thousand bytes. */
#define NAME_MAX_BYTES 4096

/* Returns the length of the UTF-8 sequence at s if it is valid and printable, else 0. s ends with a
 * NUL. */
static inline size_t printable_sequence(const unsigned char *s)
{
	size_t len = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (len == 0 || s[0] > 0xf4 || s[0] < 0x20 || s[0] == 0x7f)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if (s[0] == 0xc2 && s[1] < 0xa0) /* C1 controls */
		return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90)) /* overlong */
		return 0;
	/* a surrogate, or above U+10FFFF */
	if ((s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

/* Does the text begin with a continuation byte of UTF-8? Such a text begins in the middle of a
 * sequence, or is not UTF-8. */
static inline bool begins_within_sequence(const char *text)
{
	return ((unsigned char)*text & 0xc0) == 0x80;
}

/* Replaces control characters and invalid UTF-8 by '?', byte by byte. */
static inline void clean_name(char *name)
{
	unsigned char *s = (unsigned char *)name;

	while (*s) {
		size_t len = printable_sequence(s);

		if (!len)
			*s = '?';
		s += len ? len : 1;
	}
}

#endif
