/* SPDX-License-Identifier: BSD-2-Clause */
/* The addresses at which clients reach the agent's server: TCP addresses and unix sockets. */
#ifndef MEMTRACE_AGENT_LISTEN_H
#define MEMTRACE_AGENT_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/error.h"

#define AGENT_LISTEN  4 /* listening sockets, at most */
#define AGENT_PORT    "9178"
#define AGENT_ADDRESS "127.0.0.1:" AGENT_PORT

struct listen_address {
	struct sockaddr_storage address; /* of a TCP socket */
	socklen_t len;
	const char *path;	 /* of a unix socket: a part of the text; NULL: TCP */
	bool is_for_other_hosts; /* other hosts reach it */
};

/* Parses an address: "127.0.0.1:9178", "[::]:9178", ":9178" (on 127.0.0.1), "9178" or
 * "unix:/run/memtrace/socket". 0, or -EINVAL with err. */
int listen_address__parse(const char *text, struct listen_address *ret, struct error *err);

struct listener {
	int fd;
	/* The open directory of a unix socket; -1: this is TCP. */
	int directory;
	const char *name; /* the socket's name in the directory; a part of the address's text */
	ino_t inode;
};

/* Listens on an address. A unix socket is for its owner and group (mode 0660). The new socket
 * replaces a unix socket on which nobody listens any more, but no other file of that name. text:
 * the address; the caller keeps it until listener__close(). 0, or negative errno with err. */
int listener__open(const char *text, struct listener *ret, struct error *err);

/* Checks whether a process could listen on the address. Listens there for a moment to find out.
 * held: addresses on which another process listens now. They count as free, because that process
 * will end before the caller listens. 0, or negative errno with err. */
int listener__try(const char *text, const char *const *held, size_t n_held, struct error *err);

/* Ends listening, and removes the unix socket. */
void listener__close(struct listener *listener);

#endif
