// SPDX-License-Identifier: BSD-2-Clause
#include "ledger/reallocs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"

#define MAX_RECORDS 500000 /* 36 MB */
#define MIN_SLICES  4	   /* least number of slices for fitting a line to their sizes */

void reallocs__free(struct reallocs *c)
{
	free(c->keys);
	free(c->last);
	free(c->records);
	memset(c, 0, sizeof(*c));
}

void reallocs__exec(struct reallocs *c)
{
	c->n_records = 0;
}

static int add_record(struct reallocs *c, const struct realloc_record *record)
{
	if (c->n_records == MAX_RECORDS) {
		c->left_out++;
		return 0;
	}
	if (VECTOR_RESERVE(c->records, c->room, c->n_records + 1))
		return -ENOMEM;
	c->records[c->n_records++] = *record;
	return 0;
}

/* Returns the counts between two readings of a stack's counters. */
static struct realloc_record difference(const struct abi_site *old, const struct abi_site *now)
{
	double objects = (double)(now->alloc_objects_q16 - old->alloc_objects_q16) / 65536;

	return (struct realloc_record){
		.samples = (double)(now->grown_samples - old->grown_samples),
		.grown = (double)(int64_t)(now->grown_bytes - old->grown_bytes),
		.mean_size =
			objects > 0 ? (double)(now->alloc_bytes - old->alloc_bytes) / objects : 0,
		.moved = (double)(now->moved_samples - old->moved_samples),
		.ended = (double)(now->ended_samples - old->ended_samples),
	};
}

/* Takes over the present counts of all stacks. add: the counts since the last call belong to a
 * window, and become records. */
static int take_in(struct reallocs *c, uint64_t start_ns, uint64_t end_ns,
		   const struct snapshot_sites *sites, bool add)
{
	struct abi_site_key *new_keys = calloc(sites->n + 1, sizeof(*new_keys));
	struct abi_site *last = calloc(sites->n + 1, sizeof(*last));
	size_t n = 0, k = 0;
	int rc = new_keys && last ? 0 : -ENOMEM;

	for (size_t i = 0; i < sites->n && !rc; i++) {
		static const struct abi_site none;
		const struct abi_stack_key *stack = &sites->keys[i].stack;
		const struct abi_site *old = &none, *now = &sites->sites[i];
		struct realloc_record record;

		if (!now->grown_samples)
			continue;
		while (k < c->n && stack_key__compare(&c->keys[k].stack, stack) < 0)
			k++;
		if (k < c->n && !stack_key__compare(&c->keys[k].stack, stack))
			old = &c->last[k];
		new_keys[n] = sites->keys[i];
		last[n++] = *now;
		if (!add || (old->alloc_samples == now->alloc_samples &&
			     old->freed_samples == now->freed_samples))
			continue;
		record = difference(old, now);
		record.stack = *stack;
		record.start_ns = start_ns;
		record.end_ns = end_ns;
		rc = add_record(c, &record);
	}
	if (rc) {
		free(new_keys);
		free(last);
		return rc;
	}
	free(c->keys);
	free(c->last);
	c->keys = new_keys;
	c->last = last;
	c->n = n;
	return 0;
}

int reallocs__harvest(struct reallocs *c, uint64_t start_ns, uint64_t end_ns,
		      const struct snapshot_sites *sites)
{
	return take_in(c, start_ns, end_ns, sites, true);
}

int reallocs__pass_over(struct reallocs *c, const struct snapshot_sites *sites)
{
	return take_in(c, 0, 0, sites, false);
}

void realloc_slices__add(struct realloc_slices *s, const struct realloc_record *r, uint64_t from_ns,
			 uint64_t step_ns)
{
	double length = (double)(r->end_ns - r->start_ns);

	s->known = true;
	s->moved += r->moved;
	s->ended += r->ended;
	for (size_t i = 0; i < 2 * SERIES_SEGMENTS && length > 0; i++) {
		uint64_t start = from_ns + i * step_ns - SERIES_SEGMENTS / 2 * step_ns;
		uint64_t end = start + step_ns;
		size_t middle = i - SERIES_SEGMENTS / 2;
		double share;

		start = start > r->start_ns ? start : r->start_ns;
		end = end < r->end_ns ? end : r->end_ns;
		if (start >= end)
			continue;
		share = (double)(end - start) / length;
		if (r->mean_size > 0) {
			s->sizes[i].sum += share * r->mean_size;
			s->sizes[i].n += share;
		}
		if (middle >= SERIES_SEGMENTS)
			continue;
		s->at[middle].samples += share * r->samples;
		s->at[middle].grown += share * r->grown;
	}
}

/* Does a line fitted to the sizes rise more than chance explains? */
static bool sizes_rise(const struct realloc_slices *s)
{
	double at[2 * SERIES_SEGMENTS], size[2 * SERIES_SEGMENTS];
	double x = 0, y = 0, xx = 0, xy = 0, rest = 0, slope;
	size_t n = 0;

	for (size_t i = 0; i < 2 * SERIES_SEGMENTS; i++)
		if (s->sizes[i].n > 0) {
			at[n] = (double)i;
			size[n++] = s->sizes[i].sum / s->sizes[i].n;
		}
	if (n < MIN_SLICES)
		return false;
	for (size_t i = 0; i < n; i++) {
		x += at[i] / (double)n;
		y += size[i] / (double)n;
	}
	for (size_t i = 0; i < n; i++) {
		xx += (at[i] - x) * (at[i] - x);
		xy += (at[i] - x) * (size[i] - y);
	}
	slope = xy / xx;
	for (size_t i = 0; i < n; i++) {
		double miss = size[i] - y - slope * (at[i] - x);

		rest += miss * miss;
	}
	return slope > student_quantile(n - 2, true) * sqrt(rest / (double)(n - 2) / xx);
}

double realloc_slices__held(const struct realloc_slices *s, double stay)
{
	double samples = 0, q = (s->ended + 1) / (s->ended + s->moved + 1), left;

	for (size_t i = 0; i < SERIES_SEGMENTS; i++)
		samples += s->at[i].samples;
	if (!(samples > 0))
		return 0;
	if (!(s->ended > 0) && sizes_rise(s))
		return 1;
	left = samples > stay ? samples - stay : 0;
	return stay > 0 ? stay / (stay + q * left) : 0;
}
