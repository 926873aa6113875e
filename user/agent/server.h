/* SPDX-License-Identifier: BSD-2-Clause */
/* The tracer's side of the server: a process that has no privileges, speaks HTTP and has the
 * profiles (user/web). When it ends, it is started again, and then only has the profiles that come
 * from then on. */
#ifndef MEMTRACE_AGENT_SERVER_H
#define MEMTRACE_AGENT_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/feed.h"
#include "agent/guard.h"
#include "agent/listen.h"
#include "agent/spool.h"
#include "base/backoff.h"
#include "base/error.h"
#include "profile/profile.h"

#define SERVER_WISHES 16 /* requests that were received and not carried out yet, at most */

/* What the server wants. */
struct server_wishes {
	bool round;
	/* in this order; kind: FEED_DEACTIVATE, FEED_ACTIVATE or FEED_FAVOUR */
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
	/* Where the server is to send profiles, as text (agent/feed.h); the caller's. NULL:
	 * nowhere. */
	const char *push;
	int feed; /* -1: there is no server now */
	pid_t pid;
	struct backoff backoff;
	double begun_s;	       /* monotonic: when it was started */
	double again_s;	       /* monotonic: it is not started again before this time */
	double progress_s;     /* monotonic: when it last had nothing to read, or had read
				* something */
	int unread;	       /* bytes of the feed that it had not read at the last check, as the
				* kernel counts */
	uint64_t unread_bytes; /* at most: bytes of profiles sent since the server had read all */
	uint64_t n_dropped, n_started;
};

/* Listens on this address, too (agent/listen.h). address lives as long as the server. 0, or
 * negative errno with err. */
int server__listen(struct server *server, const char *address, struct error *err);

/* Fills in *server, and finds its program: beside the one that runs now, or in ../libexec/memtrace.
 * Call server__end() in any case. 0 or negative errno with err. */
int server__find(struct server *server, struct error *err);

/* Sets what guards its TCP addresses. Call it before server__start(). 0, or negative errno with
 * err. */
int server__guard(struct server *server, const struct guard *guard, struct error *err);

/* Lets the server's program check the certificate and the key, because it parses them without
 * privileges. 0, or negative errno with err. */
int server__check_guard(struct server *server, struct error *err);

/* Starts the server, if it does not run and may be started. 0, or negative errno with err. */
int server__start(struct server *server, struct error *err);

/* Sends a profile, whose figures were read after taken_ns (by the wall clock). A profile that the
 * server does not take in time is dropped and counted. 0, or negative errno if the failure is not
 * the server's. */
int server__send_profile(struct server *server, const struct profile *profile, uint64_t taken_ns);

/* Tells the server that the process's last profile is still right. Returns as
 * server__send_profile() does. */
int server__send_same(struct server *server, pid_t pid);

/* Tells the server that the process is not traced. Returns as server__send_profile() does. */
int server__send_inactive(struct server *server, pid_t pid, const char *why);

/* Tells the server that a round is over. round: its figures; this function adds the kind, the time,
 * the number of dropped profiles, memory and CPU time. */
void server__end_round(struct server *server, const struct feed_message *round);

/* Reads the server's requests and adds them to wishes. Requests that find no room there are read in
 * a later call. Kills a server that reads nothing for too long, or sends something else. */
void server__listen_to(struct server *server, struct server_wishes *wishes);

void server__end(struct server *server);

#endif
