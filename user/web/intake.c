// SPDX-License-Identifier: BSD-2-Clause
#include "web/intake.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"

#define AT_ONCE 32 /* messages, before requests have their turn again */

/* The file's bytes. NULL: no memory, or none that we take. */
static char *read_memory(int fd, size_t *ret_size)
{
	_cleanup_free_ char *bytes = NULL;
	uint64_t size = io__file_bytes(fd);

	if (!size || size > STORE_PROFILE)
		return NULL;
	bytes = malloc(size);
	if (!bytes || io__pread(fd, bytes, size, 0) != (ssize_t)size)
		return NULL;
	*ret_size = size;
	return_ptr(bytes);
}

static void take_profile(struct site *site, const struct feed_message *message, int memory)
{
	struct error err = {};
	size_t size;
	char *bytes = memory >= 0 ? read_memory(memory, &size) : NULL;
	struct process *p;

	if (!bytes) {
		site->store.n_unreadable++;
		return;
	}
	if (store__add(&site->store, message->pid, message->taken_ns, bytes, size, &err))
		return;
	p = store__find(&site->store, message->pid);
	/* one that has just ended is in no cgroup any more */
	if (p && *message->container.id)
		p->container = message->container;
}

bool site__take_feed(struct site *site, int fd)
{
	struct feed_message message;
	int memory, rc = 1;

	for (int i = 0; i < AT_ONCE && (rc = feed__receive(fd, &message, &memory)) > 0; i++) {
		if (message.kind == FEED_PROFILE)
			take_profile(site, &message, memory);
		if (memory >= 0)
			close(memory);
		if (message.kind == FEED_ROUND) {
			site->round = message;
			site->round_at_s = clock__monotonic_s();
			store__end_round(&site->store);
		}
	}
	return rc >= 0;
}
