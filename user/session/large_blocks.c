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
	if (!rc && (!is_readable(t) || (uses_jemalloc(t) && !ret->jemalloc))) {
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

/* Perf uprobes stay in place after the stop, so that a target would feel them while memtrace waits
 * for the second list. */
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
	for (size_t i = 0; can_list(s) && !s->stop_ns && i < s->n_targets; i++) {
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

		if (!t->large.scan || !t->large.known)
			continue;
		t->large.complete = take(t, &t->large.after) &&
				    t->large.after.glibc == t->large.before.glibc &&
				    t->large.after.jemalloc == t->large.before.jemalloc;
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

/* Sums over one stack's blocks. Each block counts for as many bytes or blocks as it stands for. */
struct sums {
	struct part {
		double bytes, blocks; /* of all blocks */
		double large_bytes, large_blocks;
	} live, born; /* of blocks that may live; of all blocks that were born */
	/* of large blocks that live, each counted once: what the program asked for */
	double seen, n_seen;
};

/* If so much of a stack is in large blocks, the rest is known well enough to be told apart. */
#define MOSTLY_LARGE 0.9

/* Is the block in memory that only brk() enlarges? Then glibc does not map large blocks
 * (M_MMAP_MAX in mallopt(3)), and the lists lack them. */
static bool is_in_brk(const struct target *t, uint64_t addr)
{
	const struct map_entry *e = maps__find(&t->maps, addr);

	return e && !strcmp(e->path, "[heap]");
}

static void part__add(struct part *part, double bytes, double blocks, bool large)
{
	part->bytes += bytes;
	part->blocks += blocks;
	part->large_bytes += large ? bytes : 0;
	part->large_blocks += large ? blocks : 0;
}

/* May the block live, by the evidence from which its stack's live bytes were estimated? */
static bool counts_as_live(const struct survivors_block *block, const struct windowed_result *r)
{
	return r->by == SURVIVAL_CONTENTS ? survivors_block__may_live(block) : !block->ended;
}

/* Adds up the blocks of each site. False: the lists lack large blocks. */
static bool add_up(const struct build *b, const struct process_sites *sites,
		   const struct windowed_result *results, struct sums *sums)
{
	const struct survivors *s = &b->target->budget.survivors;
	uint64_t above = large_blocks__above(&b->target->large.after);

	for (size_t i = 0; i < s->n_blocks; i++) {
		const struct survivors_block *block = &s->blocks[i];
		bool large = block->live.size > above;
		long site = process_sites__find(sites, &block->live.stack);
		double weight = ldexp(trend__weight(&block->live), block->halved);
		double blocks = weight / fmax((double)block->live.size, 1);

		if (large && !block->ended && is_in_brk(b->target, block->addr))
			return false;
		if (site < 0 || block->live.birth == BIRTH_GROWN)
			continue;
		part__add(&sums[site].born, weight, blocks, large);
		if (counts_as_live(block, &results[site]))
			part__add(&sums[site].live, weight, blocks, large);
	}
	return true;
}

/* Adds each block of the second list to the site of which windows saw it, or to what they did not
 * see. If the block's own end was seen, another one has its address now. */
static void divide(const struct build *b, const struct process_sites *sites, struct sums *sums,
		   struct large_trend *ret)
{
	const struct large_blocks *after = &b->target->large.after;

	for (size_t i = 0; i < after->n; i++) {
		const struct large_block *block = &after->at[i], *old;
		const struct survivors_block *known =
			survivors__at(&b->target->budget.survivors, block->addr);
		uint64_t old_size;
		long site;

		if (known && !known->ended && large_block__fits(block, known->live.size)) {
			ret->all += (double)known->live.size;
			site = process_sites__find(sites, &known->live.stack);
			if (site >= 0 && known->live.birth != BIRTH_GROWN) {
				sums[site].seen += (double)known->live.size;
				sums[site].n_seen++;
			}
			continue;
		}
		old = known && known->ended
			      ? NULL
			      : large_blocks__find(&b->target->large.before, block->addr);
		old_size = old ? old->size : 0; /* realloc may have enlarged it where it is */
		if (old_size < block->size) {
			ret->unseen += (double)(block->size - old_size);
			ret->blocks++;
		}
	}
	ret->all += ret->unseen;
}

/* Returns the sums that tell which part of a stack's estimated live bytes is in large blocks. If
 * none of its blocks may live, the estimate follows from those that were born. */
static const struct part *parts_of(const struct sums *sums)
{
	return sums->live.bytes > 0 ? &sums->live : &sums->born;
}

static double large_part(const struct sums *sums)
{
	const struct part *part = parts_of(sums);

	return part->bytes > 0 ? part->large_bytes / part->bytes : 0;
}

/* Replaces the large part of a stack's live bytes by what is known of large blocks. What the stack
 * freed stays, and growth follows live bytes. error: standard error of the new part, bytes.
 * seconds: length of the run. */
static void correct(struct windowed_result *r, const struct sums *sums,
		    const struct large_stack *large, double error, double seconds)
{
	const struct part *of = parts_of(sums);
	double part = large_part(sums), before = r->live_bytes, objects = r->live_objects, more;
	double blocks = of->blocks > 0 ? of->large_blocks / of->blocks : 0;
	double size =
		sums->n_seen > 0 ? sums->seen / sums->n_seen : of->large_bytes / of->large_blocks;

	r->live_bytes = before * (1 - part) + large->live;
	r->live_objects = objects * (1 - blocks) + large->live / size;
	r->live_variance = r->live_variance * (1 - part) * (1 - part) + error * error;
	r->live_common *= 1 - part;
	more = r->live_bytes - before;
	r->alloc_bytes = fmax(r->alloc_bytes + more, r->live_bytes);
	r->alloc_objects = fmax(r->alloc_objects + r->live_objects - objects, r->live_objects);
	for (int i = 0; i < WINDOWED_AGES && objects > 0; i++)
		r->living[i] *= r->live_objects / objects;
	if (more > 0) {
		r->growth.bytes_per_s += more / seconds;
		r->growth.high += more / seconds;
	} else if (before > 0) {
		r->growth.bytes_per_s *= r->live_bytes / before;
		r->growth.low *= r->live_bytes / before;
		r->growth.high *= r->live_bytes / before;
	}
}

/* Do the allocator's structures claim more than there is memory for? They are the target's, so
 * anything may be in them. */
static bool is_too_much(const struct target *t)
{
	double sum = 0;

	for (size_t i = 0; i < t->large.after.n; i++)
		sum += (double)t->large.after.at[i].size;
	return sum > (double)t->heap_bound_bytes;
}

static double seconds_of(const struct build *b)
{
	return (double)(b->end_ns - trend__begin_ns(b)) * NS;
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
	    is_too_much(b->target) || !add_up(b, sites, results, sums))
		return 0;
	divide(b, sites, sums, ret);
	for (size_t i = 0; i < sites->n; i++)
		stacks[i] = (struct large_stack){
			.estimate = results[i].live_bytes * large_part(&sums[i]),
			.seen = sums[i].seen,
		};
	ret->rest = large__share(stacks, sites->n, ret->unseen);
	for (size_t i = 0; i < sites->n; i++) {
		double part = large_part(&sums[i]);
		double error =
			fmin(part * hypot(sqrt(results[i].live_variance), results[i].live_common),
			     ret->unseen / 2);

		if (part > 0)
			ret->error = hypot(ret->error, error);
		results[i].least = stacks[i].seen;
		if (part < MOSTLY_LARGE && results[i].live_bytes >= stacks[i].seen)
			continue;
		correct(&results[i], &sums[i], &stacks[i], error, seconds_of(b));
		/* the limit of all large blocks, because limits of stacks that are added up are
		 * not */
		if (part > 0.999)
			results[i].most = ret->all;
	}
	ret->error = fmin(ret->error, ret->unseen / 2);
	ret->known = true;
	return 0;
}

double large_blocks__vectors(const struct build *b, const struct profile *p,
			     const struct process_sites *sites)
{
	const struct survivors *s = &b->target->budget.survivors;
	uint64_t above = large_blocks__above(&b->target->large.after);
	_cleanup_free_ bool *counted = calloc(sites->n + 1, sizeof(*counted));
	double sum = 0;

	for (size_t i = 0; counted && i < s->n_blocks; i++) {
		const struct abi_live *live = &s->blocks[i].live;
		long site = process_sites__find(sites, &live->stack);

		if (site < 0 || live->birth != BIRTH_GROWN || live->size <= above || counted[site])
			continue;
		counted[site] = true;
		sum += p->sites[sites->site_of[site]].live.bytes;
	}
	return sum;
}

int large_blocks__add(const struct build *b, struct profile *p, const struct large_trend *trend,
		      double vectors)
{
	const uint64_t addr = UNSEEN_ADDR;
	double off = fmin(fmax(vectors, 0), trend->rest), seconds = seconds_of(b);
	struct estimate live = {
		.bytes = trend->rest - off,
		.most = trend->unseen,
		.least = trend->error > 0 || off > 0 ? 0 : trend->rest,
	};
	struct profile_site *to;
	size_t site;
	int rc;

	if (!trend->known || live.bytes <= (double)large_blocks__above(&b->target->large.after))
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
	/* They may have taken the place of older blocks, so it is not certain that they are growth.
	 * They may have come in the last three quarters of the run, over which growth is
	 * measured. */
	to->growth = (struct growth){live.bytes / seconds, 0,
				     trend->unseen / seconds / WINDOWED_GROWTH_PART};
	return 0;
}

int large_blocks__name(struct profile *p)
{
	for (size_t i = 0; i < p->n_locations && profile__is_windowed(p); i++) {
		if (p->locations[i].addr != UNSEEN_ADDR)
			continue;
		p->locations[i].reason = UNRESOLVED_NAMED;
		return profile_location__set_name(&p->locations[i], LARGE_UNSEEN);
	}
	return 0;
}
