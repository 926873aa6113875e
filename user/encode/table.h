/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the room: what the table of one process's stacks (table.c) and the table of processes
 * (processes.c) have in common. */
#ifndef MEMTRACE_ENCODE_TABLE_H
#define MEMTRACE_ENCODE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/sink.h"
#include "profile/profile.h"

#define BOLD   "\033[1m"
#define YELLOW "\033[33m"
#define RESET  "\033[0m"

/* Live memory of the sites that read the same: their stacks differ in return addresses within the
 * same functions, or in which allocation function was called. */
struct group {
	const struct profile_site *site; /* one of them */
	char *key;			 /* what is read, a line per frame; owned */
	struct estimate live;
	struct growth growth;
};

/* Groups the sites with anything live by what is read of them, descending by live bytes, or by growth.
 * *ret_groups is for free_groups(). 0 or -ENOMEM. */
int group_sites(const struct profile *profile, struct group **ret_groups, size_t *ret_n, bool by_growth);
void free_groups(struct group *groups, size_t n);

/* "lost: live_full 12,000, stacks_truncated 3": the counters that are not zero, on one line;
 * nothing when all are. */
void put_lost(const struct profile *profile, bool color, struct sink *sink);

#endif
