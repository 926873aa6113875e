/* SPDX-License-Identifier: BSD-2-Clause */
/* The tracer's side of the server. The server is a process that has no privileges, speaks HTTP and
 * keeps the profiles (user/web). When the server ends, it is started again. The new server has only
 * the profiles that come after its start. */
#ifndef MEMTRACE_AGENT_SERVER_H
#define MEMTRACE_AGENT_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/feed.h"
#include "agent/guard.h"
#include "agent/listen.h"
#include "agent/outbox.h"
#include "agent/spool.h"
#include "base/backoff.h"
#include "base/error.h"
#include "profile/profile.h"

#define SERVER_WISHES 16	 /* at most this many requests wait to be carried out */
#define SERVER_UNREAD (64 << 20) /* unread profiles take at most this much of the tracer's memory */

/* What the server wants. */
struct server_wishes {
	bool round;
	/* requests, in the order in which they came; kind: FEED_DEACTIVATE, FEED_ACTIVATE or
	 * FEED_FAVOUR */
	struct {
		pid_t pid;
		enum feed_kind kind;
	} of[SERVER_WISHES];
	size_t n;
};

struct server {
	struct listener listening[AGENT_LISTEN];
	size_t n_listening;
	int program; /* the file that is executed */
	int guard;   /* a file in memory (agent/guard.h); -1: none */
	/* The receivers to which the server sends profiles, as text (agent/feed.h); the caller's.
	 * NULL: there are none. */
	const char *push;
	int feed; /* -1: there is no server now */
	struct outbox outbox;
	pid_t pid;
	struct backoff backoff;
	double begun_s; /* monotonic: when it was started */
	double again_s; /* monotonic: the server is not started again before this time */
	/* monotonic: when the server was last seen to read, or to have nothing to read */
	double progress_s;
	int unread; /* outbox.unread at the last check */
	uint64_t n_dropped, n_started;
	uint64_t ended_ns; /* CPU time of servers that have ended */
	/* since the end of the last round, a message that names a process was dropped */
	bool any_unnamed;
};

/* Makes the server listen on this address, too (agent/listen.h). The caller keeps address until
 * server__end(). 0, or negative errno with err. */
int server__listen(struct server *server, const char *address, struct error *err);

/* Fills in *server, and finds the server's program: beside the program that runs now, or in
 * ../libexec/memtrace. Call server__end() in any case. 0 or negative errno with err. */
int server__find(struct server *server, struct error *err);

/* Sets what guards the server's TCP addresses. Call it before server__start(). 0, or negative errno
 * with err. */
int server__guard(struct server *server, const struct guard *guard, struct error *err);

/* Lets the server's program check the certificate and the key, because the program parses them
 * without privileges. 0, or negative errno with err. */
int server__check_guard(struct server *server, struct error *err);

/* Starts the server if it does not run, and if the wait before its restart is over. 0, or negative
 * errno with err. */
int server__start(struct server *server, struct error *err);

/* Sends a profile, whose figures were read after taken_ns (by the wall clock). It waits in memory
 * until the server has room. If too many profiles wait, it is dropped and counted, and 1 is
 * returned. 0, also if there is no server; negative errno for any other failure. */
int server__send_profile(struct server *server, const struct profile *profile, uint64_t taken_ns);

/* Tells the server that the process's last profile is still right. Returns 0, also if the server
 * fails. */
int server__send_same(struct server *server, pid_t pid);

/* Tells the server that the process is not traced. Returns 0, also if the server fails. */
int server__send_inactive(struct server *server, pid_t pid, const char *why);

/* Tells the server that a round is over. round: the figures of the round, and whether its messages
 * named every process (`complete`). This function adds the kind, the time, the number of dropped
 * profiles, memory and CPU time. If a process could not be named since the last call, it clears
 * `complete`. */
void server__end_round(struct server *server, const struct feed_message *round);

/* Returns the events for which the caller is to poll() the feed; 0: none. After such an event, call
 * server__listen_to(). deaf: requests are not to be read now. */
short server__events(const struct server *server, bool deaf);

/* Sends what waits. Reads the server's requests and adds them to wishes. Requests that find no room
 * there are read in a later call. Kills the server if it reads nothing for too long, or sends
 * anything but requests. */
void server__listen_to(struct server *server, struct server_wishes *wishes);

void server__end(struct server *server);

#endif
