// SPDX-License-Identifier: BSD-2-Clause
#include "web/intake.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"

#define AT_ONCE 32 /* at most this many messages are read before requests are answered again */

/* Reads the file. NULL: no memory, or the file is empty or too large. */
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

/* A profile on its way into the store. */
struct arrival {
	struct site *site;
	const struct feed_message *message;
};

static void came(void *ctx, struct process *process, const struct profile *before)
{
	const struct arrival *arrival = ctx;

	/* A process that has just ended is in no cgroup any more. Then the last known container
	 * stays. */
	if (*arrival->message->container.id)
		process->container = arrival->message->container;
	if (arrival->site->push)
		push__add(arrival->site->push, process, before);
	deltas__take(&arrival->site->deltas, process, clock__monotonic_s());
}

static void take_profile(struct site *site, const struct feed_message *message, int memory)
{
	struct error err = {};
	size_t size;
	char *bytes = memory >= 0 ? read_memory(memory, &size) : NULL;

	if (bytes) {
		store__add(&site->store, message->pid, message->taken_ns, bytes, size, &err);
	} else {
		site->store.n_unreadable++;
		store__miss(&site->store, message->pid);
	}
}

/* Takes the list of receivers, which the tracer sends once, at the start. */
static bool take_push(struct site *site, int memory)
{
	size_t size;
	char *text = site->push || memory < 0 ? NULL : read_memory(memory, &size);

	if (!text)
		return false;
	site->push = push__new(text, size, clock__now_ns(CLOCK_REALTIME));
	return site->push != NULL;
}

/* Asks the tracer for more windows for processes that surely grow. The tracer may refuse, so the
 * server asks again in the next round. */
static void ask_for_windows(struct site *site, const struct feed_message *round)
{
	uint32_t n = round->n_favoured < FEED_FAVOURED ? round->n_favoured : FEED_FAVOURED;

	for (size_t i = 0; i < site->store.n; i++) {
		struct process *p = site->store.processes[i];
		uint32_t at = 0;
		bool has;

		if (!p->rise.known)
			continue;
		while (at < n && round->favoured[at].pid != p->pid)
			at++;
		has = at < n && !p->ended;
		if (process__note_windows(p, has, has ? round->favoured[at].from_ns : 0,
					  has ? round->favoured[at].until_ns : 0,
					  !round->most_favoured || p->ended || p->inactive) &&
		    site->n_wishes < SITE_WISHES / 2)
			site->wishes[site->n_wishes++] = (struct wish){p->pid, FEED_FAVOUR};
	}
}

bool site__take_feed(struct site *site, int fd)
{
	struct feed_message message;
	bool ok = true;
	int memory, rc = 1;

	for (int i = 0; i < AT_ONCE && ok && (rc = feed__receive(fd, &message, &memory)) > 0; i++) {
		struct arrival arrival = {site, &message};

		site->store.came = came;
		site->store.ctx = &arrival;
		if (message.kind == FEED_PROFILE)
			take_profile(site, &message, memory);
		else if (message.kind == FEED_SAME)
			store__hold(&site->store, message.pid, message.taken_ns);
		else if (message.kind == FEED_LEFT_OUT)
			store__miss(&site->store, message.pid);
		else if (message.kind == FEED_INACTIVE)
			store__leave(&site->store, message.pid, message.why);
		else if (message.kind == FEED_PUSH)
			ok = take_push(site, memory);
		if (memory >= 0)
			close(memory);
		/* An incomplete round does not count as news, so that /healthz tells when all
		 * rounds fail. Messages about processes that are not traced do not count either:
		 * the tracer sends them in incomplete rounds, too. */
		if (message.kind == FEED_PROFILE || message.kind == FEED_SAME ||
		    (message.kind == FEED_ROUND && message.complete))
			site->news_at_s = clock__monotonic_s();
		if (message.kind == FEED_ROUND) {
			site->round = message;
			store__end_round(&site->store, message.complete);
			ask_for_windows(site, &message);
		}
		site->store.came = NULL;
	}
	return ok && rc >= 0;
}
