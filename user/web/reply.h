/* SPDX-License-Identifier: BSD-2-Clause */
/* A request and its answer, independent of the HTTP library. */
#ifndef MEMTRACE_WEB_REPLY_H
#define MEMTRACE_WEB_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "agent/feed.h"
#include "base/sink.h"
#include "web/delta.h"
#include "web/push.h"
#include "web/store.h"

#define TYPE_HTML  "text/html; charset=utf-8"
#define TYPE_TEXT  "text/plain; charset=utf-8"
#define TYPE_JSON  "application/json"
#define TYPE_SVG   "image/svg+xml"
#define TYPE_BYTES "application/octet-stream"
/* types of metrics: OpenMetrics for clients that ask for it; for others, the older text format */
#define TYPE_OPEN_METRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define TYPE_METRICS	  "text/plain; version=0.0.4; charset=utf-8"

#define REQUEST_BODY (64 << 10) /* bytes, at most */
#define REPLY_BODY   (64 << 20) /* bytes, at most */
/* Limit for the bytes of all bodies that clients have not taken yet. One body may take half of the
 * bytes that are left. So many small answers find room beside a few large ones. */
#define SITE_UNSENT (2u * REPLY_BODY)

struct request {
	bool post;
	const char *path; /* decoded; begins with '/' */
	/* returns the value of a query's argument; NULL: the query lacks it */
	const char *(*argument)(void *ctx, const char *name);
	void *ctx;
	const char *host;   /* the name by which the client calls this server; NULL: it gives
			     * none */
	bool tls;	    /* over TLS */
	const char *accept; /* the types that the client takes; NULL: any */
	const char *body;   /* the body of a POST, followed by a NUL */
	size_t body_size;
	struct delta *delta; /* what this request has waited for; NULL: it is new */
};

struct reply {
	unsigned status; /* HTTP's status */
	const char *type;
	const char *file;     /* a browser saves the body under this name; NULL: it shows the
			       * body */
	const char *location; /* target of a redirect, relative; points to `where` */
	/* the answer has the header X-Go-Pprof: 1, like errors of Go's handlers */
	bool pprof_error;
	char *body; /* owned; NULL: it is empty */
	size_t size;
	FILE *stream; /* writes the body; NULL after that */
	size_t room;  /* allocated bytes of the body, while it is written */
	int error;    /* negative errno if the body could not be written */
	char where[64];
	/* NULL: the answer is complete. Otherwise the request waits for these profiles, which the
	 * caller owns. When delta->status is set, call site__answer() again. */
	struct delta *delta;
};

#define SITE_WISHES 64 /* at most this many requests to the tracer wait until it takes them */

/* The state of the server. */
struct site {
	struct store store;
	struct feed_message round; /* the message that ended the last round */
	double begin_s;		   /* monotonic: when the server began */
	/* monotonic: when the tracer last reported on a process, or ended a complete round; 0:
	 * never */
	double news_at_s;
	struct push *push;    /* where profiles are sent; owned; NULL: nowhere */
	struct deltas deltas; /* requests that wait for a new profile */
	/* a request waits for a new profile, so the tracer is to make a round now */
	bool ask;
	/* Requests to the tracer about processes, oldest first. kind: FEED_ACTIVATE,
	 * FEED_DEACTIVATE or FEED_FAVOUR. */
	struct wish {
		pid_t pid;
		enum feed_kind kind;
	} wishes[SITE_WISHES];
	size_t n_wishes;
	size_t unsent;		/* bytes of the bodies that clients have not taken yet */
	uint64_t n_requests[6]; /* numbers of answers, by the first digit of their status */
};

/* Writes into the reply's body from now on; NULL: no memory. */
FILE *reply__open(struct reply *reply, const char *type);

/* Ends the writing of the body. 0; -ENOMEM; -EFBIG: the body is larger than REPLY_BODY. */
int reply__close(struct reply *reply);

/* Replaces the whole answer by a sentence, as plain text. */
void reply__say(struct reply *reply, unsigned status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Replaces the whole answer by one that says that the body could not be written, and why. */
void reply__fail(struct reply *reply, int error);

/* Writes text, escaped for elements and attributes of HTML. */
void put_html(FILE *to, const char *text);

/* Returns a sink that writes text escaped as put_html() does. */
struct sink sink__to_html(FILE *to);

/* Counts an answer that did not come from site__answer(). That function counts its own answers. */
void site__count(struct site *site, const struct reply *reply);

/* Answers a request. A failure is an answer, too. */
void site__answer(struct site *site, const struct request *request, struct reply *reply);

/* --- write the bodies of answers with status 200; 0 or negative errno --- */

int page_index(const struct site *site, FILE *to);
int page_process(const struct site *site, const struct process *process, FILE *to);
int page_deaths(const struct site *site, FILE *to);
int list_deaths(const struct site *site, FILE *to);  /* JSON */
int list_targets(const struct site *site, FILE *to); /* JSON */
/* for http_sd of Prometheus, JSON */
int list_discovery(const struct site *site, const struct request *request, FILE *to);
/* open: OpenMetrics; else the text format of Prometheus. only: puts the metrics of this process
 * alone; NULL: puts the metrics of all processes and of the agent. */
int put_metrics(const struct site *site, const struct process *only, bool open, FILE *to);

#endif
