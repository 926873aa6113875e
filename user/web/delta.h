/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests for what a process gains within S seconds, like heap?seconds=S of Go's net/http/pprof. A
 * request waits for two profiles. The first is taken after the request. The second is taken at
 * least S seconds later, or when the process has ended. */
#ifndef MEMTRACE_WEB_DELTA_H
#define MEMTRACE_WEB_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DELTA_MOST_S 300
#define DELTA_WAITS  64 /* at most this many requests wait at a time */
/* limit for the bytes of the first profiles of all waiting requests */
#define DELTA_BYTES (64 << 20)

struct process;
struct store;

/* A request that waits. */
struct delta {
	struct delta *next, **link; /* link: the pointer that points to this request */
	pid_t pid;
	double seconds;
	uint64_t asked_ns;	 /* by the wall clock */
	uint64_t from_ns;	 /* when the first profile was taken; 0: the request has no profile
				  * yet */
	double due_s, give_up_s; /* monotonic */
	bool asked;		 /* the second profile was asked for */
	char *file;		 /* the first profile; owned */
	size_t size;
	/* The answer: 200 with the body, or another status with a sentence. 0: there is no answer
	 * yet. */
	unsigned status;
	const char *why; /* static */
	char *body;	 /* owned, a pprof file */
	size_t body_size;
};

/* All zero: no request waits. */
struct deltas {
	struct delta *first;
	size_t n, bytes;
};

/* Adds a request, which waits from now on. now_ns: the wall clock; now_s: monotonic. NULL: too many
 * wait, or there is no memory. */
struct delta *delta__new(struct deltas *deltas, pid_t pid, double seconds, uint64_t now_ns,
			 double now_s);

/* Frees the request, whether it still waits or not. */
void delta__free(struct deltas *deltas, struct delta *delta);

/* Gives the latest profile of the process to the requests that wait for it. Call it when the
 * process has a new profile. */
void deltas__take(struct deltas *deltas, const struct process *process, double now_s);

/* Gives up requests that have waited too long, or whose process has ended. True: at least one
 * request needs a profile now. */
bool deltas__tick(struct deltas *deltas, const struct store *store, double now_s);

#endif
