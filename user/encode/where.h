/* SPDX-License-Identifier: BSD-2-Clause */
/* What tables say of a stack in one line. It begins with the first frame, from the leaf, of the
 * program's own (profile/own_frame.h), says in brackets what that called to get memory, and goes on
 * with who called it:
 *
 *	open_session (via std::string) < handle_request < worker < ...
 *
 * Names are folded (encode/fold.h), printable, and shortened where they alone would fill the line.
 * The allocator's frames are left out, and of many of the runtime's in a row all but the first are
 * counted. A stack without an own frame is told from its first frame on that is not the
 * allocator's, or, where there is no such, by its last. */
#ifndef MEMTRACE_ENCODE_WHERE_H
#define MEMTRACE_ENCODE_WHERE_H

#include <stddef.h>

#include "base/sink.h"
#include "encode/text.h"
#include "profile/profile.h"

#define WHERE_TITLE "WHERE (leaf first)"

/* As much of the line as fits into room (>= 24) columns: the first frame always, shortened if it
 * must be, then what it called, then its callers as long as each fits as a whole. 0, -ENOMEM or the
 * sink's error. */
int put_where(const struct profile *profile, const struct profile_site *site, size_t room,
	      struct sink *sink);

/* The function that the line begins with, in at most room (>= 2) columns, for who is to look at it.
 * NULL: no memory. */
char *where_holder(const struct profile *profile, const struct profile_site *site, size_t room);

/* "open_session (via std::string)", however long that is, of the site of a walk that has not begun
 * yet and has slots. The walk then goes on behind that frame. NULL: no memory. */
char *where_beginning(struct frame_walk *walk);

#endif
