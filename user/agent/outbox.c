// SPDX-License-Identifier: BSD-2-Clause
#include "agent/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct letter {
	struct letter *next;
	struct feed_message message;
	int memory; /* owned; -1: none */
};

static void drop_first(struct outbox *o)
{
	struct letter *letter = o->first;

	o->first = letter->next;
	o->n--;
	if (letter->memory >= 0) {
		close(letter->memory);
		o->n_files--;
	}
	free(letter);
}

int outbox__flush(struct outbox *o, int fd)
{
	while (o->n) {
		int rc = feed__send(fd, &o->first->message, o->first->memory);

		if (rc) /* the socket has no room, or memory is short: tried again later */
			return rc == -EPIPE ? rc : 0;
		drop_first(o);
	}
	return 0;
}

static int keep(struct outbox *o, const struct feed_message *message, int memory)
{
	struct letter *letter;

	if (o->n == OUTBOX_MESSAGES || (memory >= 0 && o->n_files == OUTBOX_FILES))
		return -EAGAIN;
	letter = malloc(sizeof(*letter));
	if (!letter)
		return -ENOMEM;
	*letter = (struct letter){.message = *message, .memory = -1};
	if (memory >= 0) {
		letter->memory = fcntl(memory, F_DUPFD_CLOEXEC, 0);
		if (letter->memory < 0) {
			int rc = -errno;

			free(letter);
			return rc;
		}
		o->n_files++;
	}
	*(o->n ? &o->last->next : &o->first) = letter;
	o->last = letter;
	o->n++;
	return 0;
}

int outbox__send(struct outbox *o, int fd, const struct feed_message *message, int memory)
{
	int rc = o->n ? -EAGAIN : feed__send(fd, message, memory);

	return rc == -EAGAIN ? keep(o, message, memory) : rc;
}

void outbox__clear(struct outbox *o)
{
	while (o->n)
		drop_first(o);
}
