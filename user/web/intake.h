/* SPDX-License-Identifier: BSD-2-Clause */
/* What comes from the tracer. */
#ifndef MEMTRACE_WEB_INTAKE_H
#define MEMTRACE_WEB_INTAKE_H

#include <stdbool.h>

#include "web/reply.h"

/* Takes in some of the messages that are at the feed's end fd (agent/feed.h), all if these are few;
 * it does not wait for more. Profiles that cannot be taken are counted in the store. false: there
 * is no tracer any more, or what came is no message of one. */
bool site__take_feed(struct site *site, int fd);

#endif
