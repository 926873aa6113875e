/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends each new profile to receivers of profiles: Pyroscope's /ingest or its push API, and OTLP
 * over HTTP.
 *
 * A request covers an interval of one process. The interval begins at the process's previous
 * profile or, for its first profile, at the start of tracing. It ends at the new profile. The
 * request's figures of memory in use are those at the interval's end. Its figures of allocations
 * count only the interval, because receivers add intervals up. An attempt whose outcome is not
 * known is repeated with the same interval and the same id, and the repetition is counted. */
#ifndef MEMTRACE_WEB_PUSH_H
#define MEMTRACE_WEB_PUSH_H

#include <poll.h>
#include <stdio.h>

#include "agent/feed.h"
#include "web/push_queue.h"
#include "web/store.h"

/* at most this many stacks of one profile are sent, because Pyroscope takes 16,000 samples */
#define PUSH_STACKS 10000

enum push_kind { PUSH_PYROSCOPE, PUSH_OTLP, PUSH_PYROSCOPE_RPC, PUSH_KINDS };

struct push_label {
	const char *name, *value; /* within push.text */
};

struct push_receiver {
	enum push_kind kind;
	const char *url;	    /* within push.text, no '/' at its end */
	const char *tenant, *token; /* within push.text; NULL: none */
	struct push_queue queue;
	char said[160]; /* the reason of the last failure; "": no attempt has failed */
};

struct push {
	char *text; /* owned */
	struct push_receiver receivers[PUSH_RECEIVERS];
	size_t n_receivers;
	struct push_label labels[PUSH_LABELS];
	size_t n_labels;
	char host[65];
	uint64_t began_ns; /* wall clock */
	/* number of stacks that were not sent so far, because their profile had more than
	 * PUSH_STACKS */
	uint64_t n_stacks_left_out;
	struct push_http *http; /* owned; NULL: nothing is sent (unit tests) */
};

/* Reads the receivers and labels from the text, and takes over the text. The text's last byte is a
 * newline. now_ns: the wall clock. NULL: no memory, or the text does not have the form of
 * FEED_PUSH. */
struct push *push__new(char *text, size_t len, uint64_t now_ns);
void push__free(struct push *push);

/* "pyroscope", "otlp", "pyroscope-rpc" */
const char *push_kind__name(enum push_kind kind);

/* Puts the newest profile of a process into all queues. before: the previous profile, taken at
 * process->before_ns; NULL: there was none. A profile without stacks is not sent. */
void push__add(struct push *push, struct process *process, const struct profile *before);

/* Begins to send, if it has not begun yet. Call it before push__poll(). 0 or -ENOMEM. */
int push__start(struct push *push);

/* Is a queue more than half full, although its receiver takes the requests that are sent? */
bool push__is_behind(const struct push *push);

/* Waits for input at fds as poll() does, at most wait_ms, and sends meanwhile. Does not set
 * `revents`. 0, whether there is input or not, or negative errno. */
int push__poll(struct push *push, struct pollfd *fds, size_t n, int wait_ms);

/* Writes a text for people: the receivers, their state, and what waits for them. push may be NULL.
 * Always returns 0, as the functions that answer other paths do on success. */
int push__describe(const struct push *push, FILE *to);

/* --- private to push*.c --- */

struct push_http;

struct push_http *push_http__new(void); /* NULL: no memory */
void push_http__free(struct push_http *http);

#endif
