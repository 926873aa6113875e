// SPDX-License-Identifier: BSD-2-Clause
#include "agent/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/io.h"
#include "base/vector.h"

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

/* Finds out how much of what was sent is still in the socket, and forgets the files that the server
 * has received. If the number of messages in the socket is not certain, it is assumed to be larger
 * rather than smaller. */
static void look(struct outbox *o, int fd)
{
	uint64_t in_socket;
	size_t n = 0;

	if (ioctl(fd, SIOCOUTQ, &o->unread))
		return;
	in_socket = (uint64_t)o->unread;
	if (o->charge)
		in_socket = (in_socket + (uint64_t)o->charge - 1) / (uint64_t)o->charge;
	while (n < o->n_parcels && o->parcels[n].number + in_socket < o->n_sent)
		o->bytes -= o->parcels[n++].bytes;
	o->n_parcels -= n;
	if (n)
		memmove(o->parcels, o->parcels + n, o->n_parcels * sizeof(*o->parcels));
}

/* Sends one message. 0 or negative errno, as packet__send(). */
static int send_one(struct outbox *o, int fd, const struct feed_message *message, int memory)
{
	int before = o->unread, rc;

	if (memory >= 0 && VECTOR_ADD_ROOM(o->parcels, o->n_parcels))
		return -ENOMEM;
	rc = feed__send(fd, message, memory);
	if (rc)
		return rc;
	if (memory >= 0)
		o->parcels[o->n_parcels++] = (struct parcel){o->n_sent, io__file_bytes(memory)};
	o->n_sent++;
	/* If the server has received a message meanwhile, the difference is too small. So the
	 * largest difference so far counts. */
	if (!ioctl(fd, SIOCOUTQ, &o->unread) && o->unread - before > o->charge)
		o->charge = o->unread - before;
	return 0;
}

int outbox__flush(struct outbox *o, int fd)
{
	while (o->n) {
		int rc = send_one(o, fd, &o->first->message, o->first->memory);

		if (rc == -EPIPE)
			return rc;
		if (rc) /* no room or no memory: the message is sent later */
			break;
		drop_first(o);
	}
	look(o, fd);
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
	int rc = o->n ? -EAGAIN : send_one(o, fd, message, memory);

	if (rc == -EAGAIN)
		rc = keep(o, message, memory);
	if (!rc)
		o->bytes += io__file_bytes(memory);
	return rc;
}

void outbox__clear(struct outbox *o)
{
	while (o->n)
		drop_first(o);
	free(o->parcels);
	*o = (struct outbox){};
}
