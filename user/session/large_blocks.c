// SPDX-License-Identifier: BSD-2-Clause
#include "session/large_blocks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "heap/large.h"
#include "profile/windowed.h"
#include "session/internal.h"
#include "session/trend.h"

/* the one location of the stack LARGE_UNSEEN */
#define UNSEEN_ADDR PROFILE_NO_ADDR

/* --- the lists --- */

/* Can memtrace read all blocks of the target's allocators? Not if it probes a pool: the blocks that
 * a pool takes from malloc are then in no stack, and would seem unseen. */
static bool is_readable(const struct target *t)
{
	for (size_t i = 0; t->allocators && i < t->allocators->n; i++)
		if (strcmp(t->allocators->list[i]->family, "glibc") &&
		    strcmp(t->allocators->list[i]->family, "jemalloc"))
			return false;
	return t->allocators && t->allocators->n;
}

static bool uses_jemalloc(const struct target *t)
{
	for (size_t i = 0; i < t->allocators->n; i++)
		if (!strcmp(t->allocators->list[i]->family, "jemalloc"))
			return true;
	return false;
}

static void start(struct target *t)
{
	struct error none = {};
	struct maps maps;

	if (maps__read(t->info.pid, &maps))
		return;
	if (large__start(t->info.pid, &maps, &t->large.scan, &none))
		t->large.scan = NULL;
	maps__free(&maps);
}

/* Takes in the list that was asked for. False: there is none. */
static bool take(struct target *t, struct large_blocks *ret)
{
	int rc = t->large.scan ? large__end(t->large.scan, ret) : -ENODATA;

	t->large.scan = NULL;
	if (!rc && uses_jemalloc(t) && !ret->jemalloc) {
		large_blocks__clear(ret);
		rc = -ENODATA;
	}
	return !rc;
}

/* Forgets what was read of the program before an exec. */
static void forget(struct target *t)
{
	struct large_blocks none;

	if (t->large.scan && large__ready(t->large.scan) && take(t, &none))
		large_blocks__clear(&none);
	if (t->large.scan)
		return; /* later: nothing may wait for it now */
	large_blocks__clear(&t->large.before);
	t->large.known = false;
	t->large.since_ns = 0;
}

/* Perf uprobes stay in place after the stop, so that a target would feel them while memtrace waits for
 * the second list. */
static bool can_list(const struct session *s)
{
	return s->large && !s->scheduler.limits.shared &&
	       (capture__kind(s->capture) != PROBE_PERF || s->blocks);
}

static bool needs_list(const struct target *t)
{
	return !t->ended && !t->large.since_ns && t->budget.survivors.n_windows &&
	       !t->budget.pace.windows.open && is_readable(t);
}

void large_blocks__tend(struct session *s)
{
	for (size_t i = 0; can_list(s) && i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (t->large.since_ns && t->exec_ns > t->large.since_ns)
			forget(t);
		else if (t->large.scan && large__ready(t->large.scan))
			t->large.known = take(t, &t->large.before);
		if (!needs_list(t))
			continue;
		t->large.since_ns = clock__now_ns(CLOCK_MONOTONIC);
		start(t);
	}
}

void large_blocks__look(struct session *s)
{
	for (size_t i = 0; s->large && i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (t->large.scan && large__ready(t->large.scan))
			t->large.known = take(t, &t->large.before);
		if (t->large.known && !t->ended && t->exec_ns <= t->large.since_ns)
			start(t);
	}
}

void large_blocks__finish(struct session *s)
{
	for (size_t i = 0; s->large && i < s->n_targets; i++) {
		struct target *t = s->targets[i];

		if (t->large.scan && t->large.known)
			t->large.complete = take(t, &t->large.after);
	}
}

void large_blocks__free(struct target *t)
{
	if (t->large.scan)
		scan__end(t->large.scan); /* without waiting for the list */
	large_blocks__clear(&t->large.before);
	large_blocks__clear(&t->large.after);
}

/* --- what they say --- */

/* Sums over one stack's blocks. Each block counts for as many bytes, or blocks, as it stands for. */
struct sums {
	double bytes, blocks;		  /* of all blocks that may live */
	double large_bytes, large_blocks; /* of those that are large */
	double seen, n_seen;		  /* of large blocks that live, each counted once */
};

/* Is the block in memory that only brk() enlarges? Then glibc does not map large blocks
 * (M_MMAP_MAX in mallopt(3)), and the lists lack them. */
static bool is_in_brk(const struct target *t, uint64_t addr)
{
	const struct map_entry *e = maps__find(&t->maps, addr);

	return e && !strcmp(e->path, "[heap]");
}

/* Adds up the blocks of each site that may live. False: the lists lack large blocks. */
static bool add_up(const struct build *b, const struct process_sites *sites, struct sums *sums,
		   bool *ret_vectors)
{
	const struct survivors *s = &b->target->budget.survivors;
	uint64_t from = large_blocks__from(&b->target->large.after);

	for (size_t i = 0; i < s->n_blocks; i++) {
		const struct survivors_block *block = &s->blocks[i];
		bool large = block->live.size >= from;
		long site = process_sites__find(sites, &block->live.stack);
		double weight = ldexp(trend__weight(&block->live), block->halved);
		double size = fmax((double)block->live.size, 1);

		if (!survivors_block__may_live(block))
			continue;
		if (large && is_in_brk(b->target, block->addr))
			return false;
		*ret_vectors |= large && block->live.birth == BIRTH_GROWN;
		if (site < 0 || block->live.birth == BIRTH_GROWN)
			continue;
		sums[site].bytes += weight;
		sums[site].blocks += weight / size;
		sums[site].large_bytes += large ? weight : 0;
		sums[site].large_blocks += large ? weight / size : 0;
	}
	return true;
}

/* Adds each block of the second list to the site of which windows saw it, or to what they did not
 * see. If the block's own end was seen, another one has its address now. */
static void divide(const struct build *b, const struct process_sites *sites, struct sums *sums,
		   struct large_trend *ret)
{
	const struct large_blocks *before = &b->target->large.before;
	const struct large_blocks *after = &b->target->large.after;

	for (size_t i = 0; i < after->n; i++) {
		const struct large_block *block = &after->at[i];
		const struct large_block *old = large_blocks__find(before, block->addr);
		const struct survivors_block *known =
			survivors__at(&b->target->budget.survivors, block->addr);
		long site;

		if (known && !known->ended && large_block__fits(block, known->live.size)) {
			site = process_sites__find(sites, &known->live.stack);
			if (site >= 0 && known->live.birth != BIRTH_GROWN) {
				sums[site].seen += (double)block->size;
				sums[site].n_seen++;
			}
		} else if (!old || old->size < block->size) {
			/* realloc may have enlarged an old block where it is */
			ret->unseen += (double)(block->size - (old ? old->size : 0));
			ret->blocks++;
		}
	}
}

/* Replaces `part` of the live bytes, which `large` is an estimate of, by what is known of large
 * blocks. Growth follows live bytes. spare: standard error of the new part. */
static void correct(struct windowed_result *r, const struct sums *sums,
		    const struct large_stack *large, double spare)
{
	double part = sums->large_bytes / sums->bytes;
	double small = r->live_bytes * (1 - part), ratio;
	double blocks = r->live_objects * (1 - sums->large_blocks / sums->blocks);
	double size = sums->n_seen > 0 ? sums->seen / sums->n_seen
				       : sums->large_bytes / sums->large_blocks;

	ratio = r->live_bytes > 0 ? (small + large->live) / r->live_bytes : 1;
	r->live_bytes = small + large->live;
	r->live_objects = blocks + large->live / size;
	r->live_variance = r->live_variance * (1 - part) * (1 - part) + spare * spare;
	r->live_common *= 1 - part;
	r->growth.bytes_per_s *= ratio;
	r->growth.low *= ratio;
	r->growth.high *= ratio;
}

int large_blocks__correct(const struct build *b, const struct process_sites *sites,
			  struct windowed_result *results, struct large_trend *ret)
{
	_cleanup_free_ struct sums *sums = calloc(sites->n + 1, sizeof(*sums));
	_cleanup_free_ struct large_stack *stacks = calloc(sites->n + 1, sizeof(*stacks));

	*ret = (struct large_trend){};
	if (!sums || !stacks)
		return -ENOMEM;
	if (!b->target->large.complete || !windowed_has(b->without, PART_LARGE) ||
	    !add_up(b, sites, sums, &ret->vectors))
		return 0;
	divide(b, sites, sums, ret);
	for (size_t i = 0; i < sites->n; i++)
		stacks[i] = (struct large_stack){
			.estimate = sums[i].bytes > 0 ? results[i].live_bytes *
								sums[i].large_bytes / sums[i].bytes
						      : 0,
			.seen = sums[i].seen,
		};
	ret->rest = large__share(stacks, sites->n, ret->unseen);
	for (size_t i = 0; i < sites->n; i++) {
		double error = sums[i].bytes > 0 ? hypot(sqrt(results[i].live_variance),
							 results[i].live_common) *
							   sums[i].large_bytes / sums[i].bytes
						 : 0;

		error = fmin(error, ret->unseen / 2);
		if (!(sums[i].large_bytes > 0))
			continue;
		ret->error = hypot(ret->error, error);
		correct(&results[i], &sums[i], &stacks[i], error);
		results[i].least = stacks[i].seen;
		if (sums[i].large_bytes > 0.999 * sums[i].bytes)
			results[i].most = stacks[i].seen + ret->unseen;
	}
	ret->error = fmin(ret->error, ret->unseen / 2);
	ret->known = true;
	return 0;
}

int large_blocks__add(const struct build *b, struct profile *p, const struct large_trend *trend,
		      double vectors)
{
	const uint64_t addr = UNSEEN_ADDR;
	double off = trend->vectors ? fmin(vectors, trend->rest) : 0;
	double seconds = (double)(b->end_ns - b->target->large.since_ns) * NS;
	struct estimate live = {
		.bytes = trend->rest - off,
		.most = trend->unseen,
		.least = trend->error > 0 || off > 0 ? 0 : trend->rest - off,
	};
	struct profile_site *to;
	size_t site;
	int rc;

	if (!trend->known || live.bytes < (double)large_blocks__from(&b->target->large.after))
		return 0;
	live.objects = trend->blocks * live.bytes / trend->unseen;
	live.variance = trend->error * trend->error + off * off / 4;
	live.squares = live.variance;
	rc = profile__add_site(p, &addr, 1, false, &site);
	if (rc)
		return rc;
	to = &p->sites[site];
	to->complete = true;
	to->live = live; /* no thread is known */
	to->alloc_bytes = live.bytes;
	to->alloc_objects = live.objects;
	to->alloc_variance = live.variance;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		to->survival[i] = to->older[i] = NAN;
	/* They may have taken the place of older blocks, so it is not certain that they are
	 * growth. */
	to->growth = (struct growth){live.bytes / seconds, 0, trend->unseen / seconds};
	return 0;
}

int large_blocks__name(struct profile *p)
{
	for (size_t i = 0; i < p->n_locations; i++) {
		if (p->locations[i].addr != UNSEEN_ADDR)
			continue;
		p->locations[i].reason = UNRESOLVED_NAMED;
		return profile_location__set_name(&p->locations[i], LARGE_UNSEEN);
	}
	return 0;
}
