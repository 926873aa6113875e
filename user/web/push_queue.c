// SPDX-License-Identifier: BSD-2-Clause
#include "web/push_queue.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"

const char *push_drop__name(enum push_drop drop)
{
	static const char *const names[] = {
#define X(id, name) name,
		PUSH_DROPS(X)
#undef X
	};

	return names[drop];
}

const char *push_result__name(enum push_result result)
{
	static const char *const names[] = {
#define X(id, name) name,
		PUSH_RESULTS(X)
#undef X
	};

	return names[result];
}

void push_request__free(struct push_request *r)
{
	if (!r)
		return;
	free(r->target);
	free(r->body);
	free(r);
}

void push_queue__count_drop(struct push_queue *q, enum push_drop drop)
{
	q->drops[drop]++;
}

static void remove_request(struct push_queue *q, struct push_request *request)
{
	struct push_request **at = &q->first, *before = NULL;

	while (*at != request) {
		before = *at;
		at = &before->next;
	}
	*at = request->next;
	if (q->last == request)
		q->last = before;
	q->n--;
	q->bytes -= request->size;
	q->n_under_way -= request->under_way;
	push_request__free(request);
}

static struct push_request *oldest_waiting(const struct push_queue *q)
{
	struct push_request *r = q->first;

	while (r && r->under_way)
		r = r->next;
	return r;
}

static bool has_room(const struct push_queue *q, size_t size)
{
	return q->n < PUSH_REQUESTS && q->bytes + size <= PUSH_BYTES;
}

void push_queue__add(struct push_queue *q, struct push_request *request)
{
	struct push_request *oldest;

	if (request->size > PUSH_BYTES) {
		push_queue__count_drop(q, PUSH_DROP_TOO_LARGE);
		push_request__free(request);
		return;
	}
	while (!has_room(q, request->size) && (oldest = oldest_waiting(q))) {
		push_queue__count_drop(q, PUSH_DROP_QUEUE_FULL);
		remove_request(q, oldest);
	}
	if (!has_room(q, request->size)) { /* all requests in the queue are under way */
		push_queue__count_drop(q, PUSH_DROP_QUEUE_FULL);
		push_request__free(request);
		return;
	}
	request->next = NULL;
	if (q->last)
		q->last->next = request;
	else
		q->first = request;
	q->last = request;
	q->n++;
	q->bytes += request->size;
}

/* May another request be sent? After a failure, one request at a time tests whether the receiver is
 * back. */
static bool may_send(const struct push_queue *q)
{
	return q->n_under_way < (q->backoff.wait_s > 0 ? 1 : PUSH_AT_ONCE) && oldest_waiting(q);
}

struct push_request *push_queue__take(struct push_queue *q, double now_s)
{
	struct push_request *r;

	if (!may_send(q) || now_s < q->not_before_s)
		return NULL;
	r = oldest_waiting(q);
	r->under_way = true;
	r->attempts++;
	q->n_under_way++;
	q->n_repeated += r->repeated;
	return r;
}

double push_queue__wait_s(const struct push_queue *q, double now_s)
{
	return may_send(q) ? fmax(q->not_before_s - now_s, 0) : -1;
}

/* Returns a random factor from 0.5 to 1. Many agents may lose one receiver at the same time. With
 * this factor, they try again at different times. */
static double jitter(struct push_queue *q)
{
	return 0.5 + 0.5 * random__unit(&q->random);
}

static void wait_after_failure(struct push_queue *q, double asked_s, double now_s)
{
	double wait;

	q->backoff.first_s = PUSH_WAIT_S;
	q->backoff.most_s = PUSH_WAIT_MOST_S;
	wait = backoff__next(&q->backoff, 0) * jitter(q);
	wait = fmax(wait, fmin(asked_s, PUSH_ASKED_MOST_S));
	/* several requests under way may fail at about the same time: the longest wait counts */
	q->not_before_s = fmax(q->not_before_s, now_s + wait);
}

void push_queue__end(struct push_queue *q, struct push_request *request, enum push_result result,
		     double asked_s, double now_s)
{
	q->results[result]++;
	if (result == PUSH_RESULT_SENT || result == PUSH_RESULT_REFUSED) {
		if (result == PUSH_RESULT_REFUSED)
			push_queue__count_drop(q, PUSH_DROP_REFUSED);
		backoff__reset(&q->backoff);
		remove_request(q, request);
		return;
	}
	request->repeated |= result == PUSH_RESULT_UNKNOWN;
	request->under_way = false;
	q->n_under_way--;
	wait_after_failure(q, asked_s, now_s);
	if (request->attempts >= PUSH_ATTEMPTS) {
		push_queue__count_drop(q, PUSH_DROP_ATTEMPTS);
		remove_request(q, request);
	}
}

void push_queue__clear(struct push_queue *q)
{
	while (q->first)
		remove_request(q, q->first);
}
