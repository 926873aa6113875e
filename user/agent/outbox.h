/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages for the server that wait because its socket has no room for them yet. The kernel's
 * buffer may hold no more than some hundred messages, and a round may have some thousand. The
 * tracer must not wait for room, so the messages wait here. The outbox also knows which files the
 * server has not received yet, because these files take the tracer's memory. */
#ifndef MEMTRACE_AGENT_OUTBOX_H
#define MEMTRACE_AGENT_OUTBOX_H

#include <stddef.h>
#include <stdint.h>

#include "agent/feed.h"

#define OUTBOX_MESSAGES 8192 /* at most this many messages wait: more than one for each process */
/* At most this many waiting messages have a file in memory, because each file takes a descriptor.
 * Three quarters of all descriptors are for the targets' files (elf/binary.h). */
#define OUTBOX_FILES 512

/* {}: no message waits. */
struct outbox {
	struct letter *first, *last; /* in the order in which they are to be sent; owned */
	size_t n, n_files;
	/* Files in the socket, oldest first; owned. number: how many messages had been sent before
	 * the file's message. */
	struct parcel {
		uint64_t number, bytes;
	} * parcels;
	size_t n_parcels;
	uint64_t n_sent; /* messages sent so far */
	/* bytes of the files that wait here or in the socket */
	uint64_t bytes;
	/* The kernel tells how much memory the messages in the socket take. All messages have the
	 * same size, so each takes about the same amount. unread: what all of them took at the last
	 * check. charge: the most that one message was seen to take; 0: not known. */
	int unread, charge;
};

/* Sends a message. If others wait, or the socket has no room, the message waits, too. memory: as in
 * packet__send(). 0; -EPIPE: the other side is gone; or another negative errno: the message is
 * dropped, because too many wait (-EAGAIN), or there is no memory. */
int outbox__send(struct outbox *outbox, int fd, const struct feed_message *message, int memory);

/* Sends messages that wait, as many as there is room for. Then finds out what the server has
 * received. 0 or -EPIPE. */
int outbox__flush(struct outbox *outbox, int fd);

/* Drops all messages, and forgets what is in the socket. */
void outbox__clear(struct outbox *outbox);

#endif
