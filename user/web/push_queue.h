/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests that wait for one receiver, bounded in number and bytes, and when each of them is
 * sent. This code uses no clock and no network: the caller gives all times, in seconds, from one
 * clock of any kind. */
#ifndef MEMTRACE_WEB_PUSH_QUEUE_H
#define MEMTRACE_WEB_PUSH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/backoff.h"

#define PUSH_REQUESTS 1000	  /* limit for the requests in one queue */
#define PUSH_BYTES    (16u << 20) /* limit for the bytes of their bodies */
/* at most this many requests are under way at a time; after a failure, one */
#define PUSH_AT_ONCE	  4
#define PUSH_ATTEMPTS	  10  /* at most this many attempts to send one request */
#define PUSH_WAIT_S	  1.0 /* wait after the first failure; doubled with each further one */
#define PUSH_WAIT_MOST_S  60.0
#define PUSH_ASKED_MOST_S 600.0 /* longest wait because of Retry-After */

/* Why a request was given up. */
#define PUSH_DROPS(X)                                                                              \
	X(QUEUE_FULL, "queue_full") /* the queue had no room for all requests */                   \
	X(ATTEMPTS, "attempts")	    /* PUSH_ATTEMPTS attempts failed */                            \
	X(REFUSED, "refused")	    /* never to be taken: a status like 400, or a redirect */      \
	X(TOO_LARGE, "too_large")   /* larger than the whole queue */                              \
	X(NO_MEMORY, "no_memory")   /* the request could not be made */

enum push_drop {
#define X(id, name) PUSH_DROP_##id,
	PUSH_DROPS(X)
#undef X
		PUSH_DROPS_MAX
};

/* How an attempt ended. */
#define PUSH_RESULTS(X)                                                                            \
	X(SENT, "sent")		      /* the receiver took the request */                          \
	X(REFUSED, "refused")	      /* not taken, and never to be tried again */                 \
	X(BUSY, "busy")		      /* not taken; to be tried again: 429, 502, 503, 504 */       \
	X(CONNECTION, "connection")   /* no connection, so nothing was sent */                     \
	X(UNKNOWN, "outcome_unknown") /* no answer in time, or a broken connection: perhaps taken */

enum push_result {
#define X(id, name) PUSH_RESULT_##id,
	PUSH_RESULTS(X)
#undef X
		PUSH_RESULTS_MAX
};

/* "queue_full", ..., "sent", ... */
const char *push_drop__name(enum push_drop drop);
const char *push_result__name(enum push_result result);

struct push_request {
	char *target; /* the part of the target's URL after the receiver's URL; owned */
	char *body;   /* owned */
	size_t size;
	char id[33];	   /* 32 hexadecimal digits: the same in each attempt */
	unsigned attempts; /* number of attempts that were begun */
	bool repeated;	   /* the receiver may have taken the request in an earlier attempt */
	bool under_way;
	struct push_request *next;
};

/* All zero: empty. */
struct push_queue {
	struct push_request *first, *last; /* oldest first; owned */
	size_t n, bytes, n_under_way;
	struct backoff backoff; /* wait_s is above 0 after a failure */
	double not_before_s;	/* after a failure: earliest time of the next attempt */
	uint64_t random;	/* state of the random numbers of the jitter; any value */
	/* counters since the start */
	uint64_t results[PUSH_RESULTS_MAX], drops[PUSH_DROPS_MAX];
	uint64_t n_repeated; /* attempts after an attempt whose outcome is not known */
};

/* Adds a request, which the queue owns from now on. If there is no room, the oldest requests that
 * are not under way are dropped. If there is still no room, or if the request is larger than the
 * whole queue, the new request itself is dropped. */
void push_queue__add(struct push_queue *queue, struct push_request *request);

/* Returns the next request to send, and marks it as under way; NULL: none is to be sent now. */
struct push_request *push_queue__take(struct push_queue *queue, double now_s);

/* Returns the seconds until push_queue__take() may return a request. Negative: it returns none
 * until a request is added or an attempt ends. */
double push_queue__wait_s(const struct push_queue *queue, double now_s);

/* Notes that an attempt has ended. asked_s: how long the receiver asks to wait (Retry-After); 0: it
 * does not ask. Frees the request if there will be no other attempt. */
void push_queue__end(struct push_queue *queue, struct push_request *request,
		     enum push_result result, double asked_s, double now_s);

/* Counts a request that was given up. */
void push_queue__count_drop(struct push_queue *queue, enum push_drop drop);

/* Frees all requests; the counters stay. */
void push_queue__clear(struct push_queue *queue);

void push_request__free(struct push_request *request);

#endif
