// SPDX-License-Identifier: BSD-2-Clause
#include "web/delta.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "decode/decode.h"
#include "encode/encode.h"
#include "web/gains.h"
#include "web/store.h"

/* A request for S seconds waits up to this many seconds longer, because rounds are costly and may
 * be rare. */
#define PATIENCE_S 60

struct delta *delta__new(struct deltas *deltas, pid_t pid, double seconds, uint64_t now_ns,
			 double now_s)
{
	struct delta *d = deltas->n < DELTA_WAITS ? calloc(1, sizeof(*d)) : NULL;

	if (!d)
		return NULL;
	*d = (struct delta){.next = deltas->first,
			    .link = &deltas->first,
			    .pid = pid,
			    .seconds = seconds,
			    .asked_ns = now_ns,
			    .due_s = INFINITY,
			    .give_up_s = now_s + seconds + PATIENCE_S};
	if (d->next)
		d->next->link = &d->next;
	deltas->first = d;
	deltas->n++;
	return d;
}

static void drop_file(struct deltas *deltas, struct delta *d)
{
	deltas->bytes -= d->size;
	free(d->file);
	d->file = NULL;
	d->size = 0;
}

/* Gives the request this answer, so that it no longer waits. */
static void end(struct deltas *deltas, struct delta *d, unsigned status, const char *why)
{
	drop_file(deltas, d);
	*d->link = d->next;
	if (d->next)
		d->next->link = d->link;
	d->link = NULL;
	deltas->n--;
	d->status = status;
	d->why = why;
}

void delta__free(struct deltas *deltas, struct delta *d)
{
	if (d->link)
		end(deltas, d, 0, NULL);
	free(d->body);
	free(d);
}

static void take_first(struct deltas *deltas, struct delta *d, const struct process *process,
		       double now_s)
{
	const struct snapshot *snapshot = process__snapshot(process, 0);

	if (deltas->bytes + snapshot->size > DELTA_BYTES) {
		end(deltas, d, 429, "too many requests of this kind wait\n");
		return;
	}
	d->file = malloc(snapshot->size);
	if (!d->file) {
		end(deltas, d, 500, "out of memory\n");
		return;
	}
	memcpy(d->file, snapshot->file, snapshot->size);
	d->size = snapshot->size;
	deltas->bytes += d->size;
	d->from_ns = process->taken_ns;
	d->due_s = now_s + d->seconds;
}

/* Writes the body of the answer. 0 or negative errno. */
static int write_gains(struct delta *d, const struct profile *first, const struct process *process)
{
	_cleanup_(gains__clear) struct gains gains = {};
	struct encode_interval interval = {
		.from_ns = d->from_ns, .until_ns = process->taken_ns, .most_sites = SIZE_MAX};
	FILE *stream;
	struct sink sink;
	int rc = gains__between(first, process->latest, &gains);

	if (rc)
		return rc;
	interval.allocated = (const double(*)[2])gains.allocated;
	interval.live = (const double(*)[2])gains.live;
	stream = open_memstream(&d->body, &d->body_size);
	if (!stream)
		return -ENOMEM;
	sink = sink__to_stream(stream);
	rc = encode_pprof_interval(process->latest, &interval, &sink);
	return fclose(stream) && !rc ? -ENOMEM : rc;
}

static void take_last(struct deltas *deltas, struct delta *d, const struct process *process)
{
	_cleanup_(cleanup_profile) struct profile *first = NULL;
	struct error err = {};
	int rc = decode_bytes("the first profile", d->file, d->size, &first, &err);

	if (!rc && !profile__same_run(first, process->latest)) {
		end(deltas, d, 409, "this pid now belongs to another program\n");
		return;
	}
	rc = rc ?: write_gains(d, first, process);
	if (rc)
		end(deltas, d, 500, "the two profiles cannot be compared\n");
	else
		end(deltas, d, 200, NULL);
}

void deltas__take(struct deltas *deltas, const struct process *process, double now_s)
{
	for (struct delta *d = deltas->first, *next; d; d = next) {
		uint64_t ns = (uint64_t)(d->seconds * 1e9);

		next = d->next;
		if (d->pid != process->pid || process->taken_ns < d->asked_ns)
			continue;
		if (!d->from_ns)
			take_first(deltas, d, process, now_s);
		else if (process->taken_ns >= d->from_ns + ns || process->latest->ended)
			take_last(deltas, d, process);
	}
}

bool deltas__tick(struct deltas *deltas, const struct store *store, double now_s)
{
	bool ask = false;

	for (struct delta *d = deltas->first, *next; d; d = next) {
		const struct process *process = store__find(store, d->pid);

		next = d->next;
		if (!process || process->ended) {
			end(deltas, d, 404, "the process has ended\n");
		} else if (process->inactive) {
			end(deltas, d, 409, "the process is not traced any more\n");
		} else if (now_s > d->give_up_s) {
			end(deltas, d, 503, "no profile of this process came in time\n");
		} else if (now_s >= d->due_s && !d->asked) {
			d->asked = true;
			ask = true;
		}
	}
	return ask;
}
