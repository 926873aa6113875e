// SPDX-License-Identifier: BSD-2-Clause
/* After the run, finds what lies in the heaps of the processes. With --rss, record splits the
 * allocator's own memory into parts. With --heap, it tells who made the blocks. If the heap cannot
 * be read, the profile is still written, but without these results. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/vector.h"
#include "cli/record_internal.h"

#define PATIENCE_S 10.0 /* time limit for one process */
/* time limit for one process with --heap, which reads the content of each block */
#define HEAP_S 30.0
#define RUN_S  60.0 /* time limit for all processes of the run */

/* Takes a census of a process's heap. left_s: the rest of the time limit for all processes; 0 or
 * less: the time is over. */
static int look(const struct record_config *c, const struct profile *p, double left_s,
		bool cancelled, struct heap_look *ret, struct error *err)
{
	bool heap = c->trace.heap && p->what == PROFILE_HEAP;
	const struct heap_look_options options = {
		.origins = heap,
		.profile = heap ? p : NULL,
		.ranges = p->resident ? p->resident->ranges : NULL,
		.n_ranges = p->resident ? p->resident->n_ranges : 0,
		.patience_s = fmin(heap ? HEAP_S : PATIENCE_S, left_s),
	};

	if (p->ended)
		return error__set(err, -ESRCH, "the process had ended");
	if (!(left_s > 0))
		return error__set(err, -ETIMEDOUT, "other processes took too long");
	if (cancelled)
		return error__set(err, -EINTR, "a signal came");
	return heap_look__take(p->pid, &options, ret, err);
}

/* Is the census good enough to split the heap's memory into parts? If not, `why` gets the
 * reason. */
static bool explains(const struct heap_look *look, const struct resident *r, char *why, size_t size)
{
	const struct heap_slack *slack = &look->census.slack;

	if (look->report.unread)
		snprintf(why, size, "blocks of %s cannot be found from outside",
			 look->report.unread);
	else if (look->census.stopped)
		snprintf(why, size, "%s",
			 look->census.stopped == -ETIMEDOUT ? "the memory could not be read in time"
							    : "there is too much memory to read");
	else if ((double)slack->pages < (double)r->heap_bytes / 2)
		snprintf(why, size,
			 "only %" PRIu64 " of %" PRId64
			 " KiB belong to glibc's malloc or jemalloc, as far as is known from "
			 "outside",
			 slack->pages / 1024, r->heap_bytes / 1024);
	else
		return true;
	return false;
}

/* Stores in the profile what the heap's resident pages hold. failed: the reason why the census
 * failed; NULL: it succeeded. 0 or -ENOMEM. */
static int explain_resident(struct profile *p, const struct heap_look *look, const char *failed)
{
	char why[256];

	if (!failed && explains(look, p->resident, why, sizeof(why)))
		return resident__take_census(p->resident, &look->census.slack);
	return resident__fail_census(p->resident, failed ? failed : why);
}

/* Keeps *look for the output of --heap. failed: as in explain_resident(). 0 or -ENOMEM. */
static int keep(struct record_config *c, const struct profile *p, struct heap_look *look,
		const char *failed)
{
	struct record_heap heap = {.profile = p};

	if (VECTOR_ADD_ROOM(c->heaps, c->n_heaps))
		return -ENOMEM;
	if (failed) {
		heap.failed = strdup(failed);
		if (!heap.failed)
			return -ENOMEM;
	} else {
		heap.look = look;
	}
	c->heaps[c->n_heaps++] = heap;
	return 0;
}

static int look_and_tell(struct record_config *c, struct profile *p, double left_s, bool cancelled)
{
	bool resident = c->more.resident && p->resident && p->resident->n_ranges;
	bool heap = c->trace.heap && p->what == PROFILE_HEAP, kept = false;
	struct heap_look *found;
	struct error err = {};
	const char *failed;
	int rc = 0;

	if (!resident && !heap)
		return 0;
	found = calloc(1, sizeof(*found));
	if (!found)
		return -ENOMEM;
	failed = look(c, p, left_s, cancelled, found, &err) ? err.text : NULL;
	if (resident)
		rc = explain_resident(p, found, failed);
	if (!rc && heap) {
		rc = keep(c, p, found, failed);
		kept = !rc && !failed;
	}
	if (!kept) {
		heap_look__clear(found);
		free(found);
	}
	return rc;
}

int record_heap__look(struct record_config *c, struct profile *const *profiles, size_t n,
		      int signals)
{
	double until = clock__monotonic_s() + RUN_S;
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		struct pollfd fd = {.fd = signals, .events = POLLIN};

		rc = look_and_tell(c, profiles[i], until - clock__monotonic_s(),
				   poll(&fd, 1, 0) > 0);
	}
	return rc;
}

const struct record_heap *record_heap__of(const struct record_config *c, const struct profile *p)
{
	for (size_t i = 0; i < c->n_heaps; i++)
		if (c->heaps[i].profile == p)
			return &c->heaps[i];
	return NULL;
}

void record_heap__clear(struct record_config *c)
{
	for (size_t i = 0; i < c->n_heaps; i++) {
		if (c->heaps[i].look)
			heap_look__clear(c->heaps[i].look);
		free(c->heaps[i].look);
		free(c->heaps[i].failed);
	}
	free(c->heaps);
	c->heaps = NULL;
	c->n_heaps = 0;
}
