// SPDX-License-Identifier: BSD-2-Clause
#include "session/large_trend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/heap.h"
#include "session/trend.h"

/* the one location of the stack LARGE_UNSEEN */
#define UNSEEN_ADDR PROFILE_NO_ADDR

/* Sums over one stack's blocks. Each block counts for as many bytes or blocks as it stands for. */
struct sums {
	struct part {
		double bytes, blocks; /* of all blocks */
		double large_bytes, large_blocks;
	} live, born; /* of blocks that may live; of all blocks that were born */
	/* bytes and number of the large blocks that live. Each block counts once, with the bytes
	 * that the program asked for */
	double seen, n_seen;
	/* Bytes of blocks that were not sampled, and that were born in a stretch of continuous
	 * tracing before the first list was made. These bytes and their variance are estimated from
	 * the sampled blocks. */
	double alike, alike_variance;
};

/* A stack's live bytes are corrected if at least this share of them is in large blocks, or if the
 * live bytes are below the bytes that the list shows. */
#define MOSTLY_LARGE 0.9

/* Is the block in memory that only brk() enlarges? Then glibc does not map large blocks
 * (M_MMAP_MAX in mallopt(3)), and the lists lack them. */
static bool is_in_brk(const struct target *t, uint64_t addr)
{
	const struct map_entry *e = maps__find(&t->maps, addr);

	return e && !strcmp(e->path, "[heap]");
}

/* Has realloc made the block in a window? Then the block counts among its stack's vectors
 * (realloc_trend.h), not among the stack's other blocks. */
static bool is_regrown(const struct survivors *s, const struct survivors_block *block)
{
	return block->live.birth == BIRTH_GROWN && !s->windows[block->window].continuous;
}

static void part__add(struct part *part, double bytes, double blocks, bool large)
{
	part->bytes += bytes;
	part->blocks += blocks;
	part->large_bytes += large ? bytes : 0;
	part->large_blocks += large ? blocks : 0;
}

/* May the block still live? Uses the same evidence as the estimate of its stack's live bytes. */
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

		if (large && is_in_brk(b->target, block->addr))
			return false;
		if (site < 0 || is_regrown(s, block))
			continue;
		part__add(&sums[site].born, weight, blocks, large);
		if (counts_as_live(block, &results[site]))
			part__add(&sums[site].live, weight, blocks, large);
	}
	return true;
}

/* Adds a block to its stack's site. A window saw this block. */
static void add_seen(const struct build *b, const struct survivors_block *known, struct sums *to)
{
	double size = (double)known->live.size, weight;

	to->seen += size;
	to->n_seen++;
	if (known->live.birth_ns >= b->target->large.since_ns)
		return;
	/* the sampling of a stretch has missed blocks like this one. Like older blocks, the missed
	 * blocks are in both lists, so `unseen` does not include them */
	weight = ldexp(trend__weight(&known->live), known->halved);
	to->alike += fmax(weight - size, 0);
	to->alike_variance += weight * fmax(weight - size, 0);
}

/* For each block of the second list: if a window saw a stack allocate the block, adds it to this
 * stack's site, otherwise to ret->unseen. If a window saw the end of a block at this address, the
 * listed block is a newer one. */
static void divide(const struct build *b, const struct process_sites *sites, struct sums *sums,
		   struct large_trend *ret)
{
	const struct survivors *s = &b->target->budget.survivors;
	const struct large_blocks *after = &b->target->large.after;

	for (size_t i = 0; i < after->n; i++) {
		const struct large_block *block = &after->at[i], *old;
		const struct survivors_block *known = survivors__at(s, block->addr);
		bool seen = known && !known->ended && heap__may_hold(block->size, known->live.size);
		long site = seen ? process_sites__find(sites, &known->live.stack) : -1;
		uint64_t old_size;

		if (site >= 0 && is_regrown(s, known)) {
			ret->grown += (double)known->live.size;
			continue;
		}
		if (site >= 0) {
			ret->all += (double)known->live.size;
			add_seen(b, known, &sums[site]);
			continue;
		}
		old = known && known->ended
			      ? NULL
			      : large_blocks__find(&b->target->large.before, block->addr);
		old_size = old ? old->size : 0; /* realloc may have enlarged it in place */
		if (old_size < block->size) {
			ret->unseen += (double)(block->size - old_size);
			ret->blocks++;
		}
		ret->old += (double)(old_size < block->size ? old_size : block->size);
	}
	ret->all += ret->unseen;
}

/* Scales the stacks' `alike` so that the sum over all stacks is at most ret->old, the bytes in both
 * lists that no window saw. Adds to ret->all how large this sum may be. */
static void add_alike(struct sums *sums, size_t n, struct large_trend *ret)
{
	double alike = 0, variance = 0, k;

	for (size_t i = 0; i < n; i++) {
		alike += sums[i].alike;
		variance += sums[i].alike_variance;
	}
	k = alike > ret->old ? ret->old / alike : 1;
	for (size_t i = 0; i < n; i++) {
		sums[i].alike *= k;
		sums[i].alike_variance *= k * k;
	}
	ret->all += fmin(ret->old, alike + 2 * sqrt(variance));
}

/* Returns the sums that tell which part of a stack's estimated live bytes is in large blocks. If
 * none of its blocks may live, the estimate follows from all blocks that were born. */
static const struct part *parts_of(const struct sums *sums)
{
	return sums->live.bytes > 0 ? &sums->live : &sums->born;
}

static double large_part(const struct sums *sums)
{
	const struct part *part = parts_of(sums);

	return part->bytes > 0 ? part->large_bytes / part->bytes : 0;
}

/* Replaces the large part of a stack's live bytes by what is known of large blocks. The bytes that
 * the stack freed stay the same, and its growth changes with its live bytes. error: standard error
 * of the new part, bytes. seconds: length of the run. */
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
		r->growth.high += more / seconds / WINDOWED_GROWTH_PART;
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

int large_trend__correct(const struct build *b, const struct process_sites *sites,
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
	add_alike(sums, sites->n, ret);
	for (size_t i = 0; i < sites->n; i++)
		stacks[i] = (struct large_stack){
			.estimate = results[i].live_bytes * large_part(&sums[i]),
			.seen = sums[i].seen + sums[i].alike,
		};
	ret->rest = large__share(stacks, sites->n, ret->unseen);
	for (size_t i = 0; i < sites->n; i++) {
		double part = large_part(&sums[i]);
		double error =
			fmin(part * hypot(sqrt(results[i].live_variance), results[i].live_common),
			     ret->unseen / 2);

		if (part > 0)
			ret->error = hypot(ret->error, error);
		results[i].least = sums[i].seen;
		if (part < MOSTLY_LARGE && results[i].live_bytes >= stacks[i].seen)
			continue;
		error = hypot(error, sqrt(sums[i].alike_variance));
		correct(&results[i], &sums[i], &stacks[i], error, seconds_of(b));
		if (results[i].live_objects < 0.5) { /* then the output shows that the stack holds
						      * nothing */
			ret->rest += stacks[i].live;
			ret->error = hypot(ret->error, error);
		}
		/* the bytes of all large blocks: if stacks are merged, the larger `most` is
		 * kept, not the sum (estimate.h) */
		if (part > 0.999)
			results[i].most = ret->all;
	}
	ret->error = fmin(ret->error, ret->unseen / 2);
	ret->known = true;
	return 0;
}

double large_trend__vectors(const struct build *b, const struct profile *p,
			    const struct process_sites *sites)
{
	const struct survivors *s = &b->target->budget.survivors;
	uint64_t above = large_blocks__above(&b->target->large.after);
	_cleanup_free_ bool *counted = calloc(sites->n + 1, sizeof(*counted));
	double sum = 0;

	for (size_t i = 0; counted && i < s->n_blocks; i++) {
		const struct abi_live *live = &s->blocks[i].live;
		long site = process_sites__find(sites, &live->stack);

		if (site < 0 || !is_regrown(s, &s->blocks[i]) || live->size <= above ||
		    counted[site])
			continue;
		counted[site] = true;
		sum += p->sites[sites->site_of[site]].live.bytes;
	}
	return sum;
}

int large_trend__add(const struct build *b, struct profile *p, const struct large_trend *trend,
		     double vectors)
{
	const uint64_t addr = UNSEEN_ADDR;
	double off = fmin(fmax(vectors - trend->grown, 0), trend->rest), seconds = seconds_of(b);
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
	/* The blocks may have replaced older ones, so the low end is 0. All of them may have come
	 * in the last three quarters of the run, over which growth is measured. The high end
	 * assumes this. */
	to->growth = (struct growth){live.bytes / seconds, 0,
				     trend->unseen / seconds / WINDOWED_GROWTH_PART};
	return 0;
}

int large_trend__name(struct profile *p)
{
	for (size_t i = 0; i < p->n_locations && profile__is_windowed(p); i++) {
		if (p->locations[i].addr != UNSEEN_ADDR)
			continue;
		p->locations[i].reason = UNRESOLVED_NAMED;
		return profile_location__set_name(&p->locations[i], LARGE_UNSEEN);
	}
	return 0;
}
