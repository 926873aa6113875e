/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads what the tracer sends. */
#ifndef MEMTRACE_WEB_INTAKE_H
#define MEMTRACE_WEB_INTAKE_H

#include <stdbool.h>

#include "web/reply.h"

/* Reads messages at fd, the server's end of the feed (agent/feed.h). Reads a limited number of
 * messages, and does not wait for any. Profiles that cannot be stored are counted in the store.
 * false: the tracer has ended, something other than a message came, or FEED_PUSH could not be
 * used. */
bool site__take_feed(struct site *site, int fd);

#endif
