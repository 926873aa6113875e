/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to user/encode: the words of a flame graph (svg.c). */
#ifndef MEMTRACE_ENCODE_SVG_HEAD_H
#define MEMTRACE_ENCODE_SVG_HEAD_H

#include "encode/tree.h"
#include "profile/profile.h"

/* The text above the picture: printable lines, each ended by a newline and short enough for the
 * picture. First comes the title: whose memory it is, how much, and how sure the figure is. Then
 * follow how the profile was made, what is missing (lines with "lost: " or "INCOMPLETE"), and
 * contradictions (contradiction_word()). base may be NULL. The caller frees *ret_text. 0 or
 * -ENOMEM. */
int svg_head(const struct profile *profile, const struct profile *base, const struct tree *tree,
	     char **ret_text);

/* "live", ...: what a frame's bytes mean. */
const char *svg_what(const struct profile *profile);

/* "object", ...: the unit that is counted beside the bytes. */
const char *svg_unit(const struct profile *profile);

#endif
