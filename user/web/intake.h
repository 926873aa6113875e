/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads what the tracer sends. */
#ifndef MEMTRACE_WEB_INTAKE_H
#define MEMTRACE_WEB_INTAKE_H

#include <stdbool.h>

#include "web/reply.h"

/* Reads the messages that wait at fd, the server's end of the feed (agent/feed.h), but not too many
 * at a time. Does not wait for more. Profiles that cannot be stored are counted in the store.
 * false: the tracer has ended, something other than a message came, or FEED_PUSH could not be
 * used. */
bool site__take_feed(struct site *site, int fd);

#endif
