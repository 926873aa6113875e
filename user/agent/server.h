/* SPDX-License-Identifier: BSD-2-Clause */
/* The tracer's side of the server: a process that has no privileges, speaks HTTP and has the
 * profiles (user/web). It is started again when it ends; then it has what comes from then on. */
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

#define SERVER_WISHES 16 /* requests that were received and not carried out yet */

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
	/* Where it sends profiles, as text (agent/feed.h); the caller's. NULL: nowhere. */
	const char *push;
	int feed; /* -1: there is no server now */
	pid_t pid;
	struct backoff backoff;
	double begun_s;	       /* monotonic: when it was started */
	double again_s;	       /* monotonic: it is started again no earlier */
	double progress_s;     /* monotonic: when it had nothing to read, or had read something */
	int unread;	       /* bytes of the feed, as the kernel counts them, at the last look */
	uint64_t unread_bytes; /* at most: profiles sent since the server had read all */
	uint64_t n_dropped, n_started;
};

/* Listens there, too (agent/listen.h). address lives as long as the server. 0, or negative errno
 * with err. */
int server__listen(struct server *server, const char *address, struct error *err);

/* Finds the program: beside the one that we run, or in ../libexec/memtrace. Zeroed before; free it
 * with server__end() in any case. 0 or negative errno with err. */
int server__find(struct server *server, struct error *err);

/* What guards its TCP addresses. Before it is started. 0, or negative errno with err. */
int server__guard(struct server *server, const struct guard *guard, struct error *err);

/* Lets the server's program check the certificate and the key, because it parses them without
 * privileges. 0, or negative errno with err. */
int server__check_guard(struct server *server, struct error *err);

/* Starts it, if it does not run and may be started. 0, or negative errno with err. */
int server__start(struct server *server, struct error *err);

/* Sends a profile, whose figures were read after taken_ns (by the wall clock). A profile that the
 * server does not take in time is dropped and counted. 0, or negative errno if the failure is not
 * the server's. */
int server__send_profile(struct server *server, const struct profile *profile, uint64_t taken_ns);

/* The process's last profile still holds. As server__send_profile(). */
int server__send_same(struct server *server, pid_t pid);

/* Tells the server that the process is not traced. Returns as server__send_profile() does. */
int server__send_inactive(struct server *server, pid_t pid, const char *why);

/* A round is over. round: what is told of it; this function fills in what the server's side knows
 * by itself: the kind, the time, profiles that were dropped, memory and CPU time. */
void server__end_round(struct server *server, const struct feed_message *round);

/* Takes in what the server says, and whether it is still there and reads. One that does not read,
 * or says what it may not, is killed. Adds what it wants; for what has no room there, it waits. */
void server__listen_to(struct server *server, struct server_wishes *wishes);

void server__end(struct server *server);

#endif
