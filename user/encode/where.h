/* SPDX-License-Identifier: BSD-2-Clause */
/* How tables show a stack in one line. The line begins with the first own frame from the leaf
 * (profile/own_frame.h). Brackets name the function that the own frame called to get memory. The
 * callers of the own frame follow:
 *
 *	open_session (via std::string) < handle_request < worker < ...
 *
 * Names are folded (encode/fold.h) and printable. A name that alone would fill the line is
 * shortened. The allocator's frames are left out. If many frames of the runtime follow each other,
 * the first is named and the others are counted. A stack without a frame of the program begins with
 * its first frame of the interpreter or of a library. If there is no such frame either, the stack
 * begins with its first frame that is not the allocator's. If all frames are the allocator's, only
 * the last one is shown.
 *
 * With show_runtime, every stack begins with its first frame that is not the allocator's. */
#ifndef MEMTRACE_ENCODE_WHERE_H
#define MEMTRACE_ENCODE_WHERE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/sink.h"
#include "encode/text.h"
#include "profile/profile.h"

#define WHERE_TITLE "WHERE (leaf first)"

/* Puts as much of the line as fits into room (>= 24) columns. The first frame is always shown,
 * shortened if necessary. The function that this frame called follows, then the callers that fit. A
 * caller's name takes at most half of the room. 0, -ENOMEM or the sink's error. */
int put_where(const struct profile *profile, const struct profile_site *site, size_t room,
	      bool show_runtime, struct sink *sink);

/* Returns the name of the function that the line begins with, in at most room (>= 2) columns.
 * Without show_runtime, this is the program's function whose code a person should read. NULL: no
 * memory. */
char *where_holder(const struct profile *profile, const struct profile_site *site, size_t room,
		   bool show_runtime);

/* Returns the beginning of the line, as in "open_session (via std::string)", not shortened. The
 * walk must not have begun, and its site must have slots. The walk then continues behind the frames
 * of this text. NULL: no memory. */
char *where_beginning(struct frame_walk *walk, bool show_runtime);

#endif
