// SPDX-License-Identifier: BSD-2-Clause
#include "session/trend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "profile/balance.h"
#include "session/allocators_own.h"
#include "session/large_trend.h"
#include "session/realloc_trend.h"

_Static_assert(PROFILE_AGES == WINDOWED_AGES, "the same classes");
/* If continuous tracing has missed at most this share of a run, it still tells growth better than
 * windows do. (The share is measured by the wall clock and by the net clock.) */
#define MOST_UNSEEN 0.2

/* Returns the net seconds from begin_ns to ns. Nothing is known of the time between the last
 * reading of the clock and the process's end. For this time, the process is assumed to have
 * continued as before. Without this assumption, the traced part would seem to be all that the
 * process did. */
static double net_until(const struct net_clock *clock, uint64_t begin_ns, uint64_t ns)
{
	uint64_t last_ns = clock->n ? clock->at[clock->n - 1].wall_ns : ns;
	double net = net_clock__at(clock, ns) - net_clock__at(clock, begin_ns);

	if (ns > last_ns && last_ns > begin_ns)
		net *= (double)(ns - begin_ns) / (double)(last_ns - begin_ns);
	return net;
}

/* Returns the size of anonymous memory when it was last read. Even if this was before an exec, the
 * size is taken as the upper limit of what the present program holds. */
static double resident_bytes(const struct sizes *anon)
{
	return anon->n ? (double)anon->at[anon->n - 1].bytes : 0;
}

/* Describes the run in the terms of profile/windowed.h. The caller frees *ret_windows. 0 or
 * -ENOMEM. */
static int describe_run(const struct build *b, struct windowed_window **ret_windows,
			struct windowed_run *ret)
{
	const struct survivors *s = &b->target->budget.survivors;
	const struct net_clock *clock = &b->target->budget.clock;
	struct windowed_window *windows = calloc(s->n_windows + 1, sizeof(*windows));
	uint64_t begin_ns = trend__begin_ns(b);
	size_t n_before = 0;
	double net = 0, cost = 0, origin = net_clock__at(clock, begin_ns);

	if (!windows)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_windows; i++) {
		const struct survivors_window *w = &s->windows[i];

		windows[i] = (struct windowed_window){
			.number = w->number,
			.stands = w->stands,
			.begin_s = fmax(net_clock__at(clock, w->start_ns) - origin, 0),
			.end_s = fmax(net_clock__at(clock, w->end_ns) - origin, 0),
			.wall_s = survivors_window__seconds(w, begin_ns, b->end_ns),
			.interval_bytes = (double)w->interval,
			.continuous = w->continuous,
		};
		if (w->end_ns <= begin_ns) {
			n_before++;
			continue;
		}
		windows[i].allocs = (double)w->allocs;
		windows[i].net_blocks = w->bulk ? NAN : (double)w->net_blocks;
		if (w->continuous)
			continue;
		net += windows[i].end_s - windows[i].begin_s;
		cost += net_clock__cost_at(clock, w->end_ns) -
			net_clock__cost_at(clock, w->start_ns);
	}
	*ret_windows = windows;
	*ret = (struct windowed_run){
		.windows = windows,
		.n_windows = s->n_windows,
		.n_before = n_before,
		.quarter_s = net_until(clock, begin_ns, begin_ns + (b->end_ns - begin_ns) / 4),
		.end_s = net_until(clock, begin_ns, b->end_ns),
		.wall_s = (double)(b->end_ns - begin_ns) * NS,
		.clock_error = net_clock__error(clock, net, cost),
		.bound_bytes = (double)b->target->heap_bound_bytes,
		.resident_bytes = resident_bytes(&b->target->anon),
		.without = b->without,
	};
	/* the last stretch was counted with an earlier reading of the clock, so it may seem to end
	 * after the run */
	if (s->n_windows)
		ret->end_s = fmax(ret->end_s, windows[s->n_windows - 1].end_s);
	ret->rough = ret->clock_error > CLOCK_ROUGH && windowed_has(b->without, PART_ROUGH);
	ret->hidden = survivors__hidden(s, clock, begin_ns, ret->end_s, ret->wall_s);
	return 0;
}

/* Returns for how many bytes a block counts when live memory is divided among threads. some_live:
 * some blocks of its stack may live. Then a block that cannot live counts for nothing. */
static double share_of(const struct survivors_block *block, bool some_live)
{
	return some_live && !survivors_block__may_live(block)
		       ? 0
		       : ldexp(trend__weight(&block->live), block->halved);
}

/* Divides a stack's live memory among threads, by the blocks that each thread allocated. Only
 * blocks that may live count. If none of the seen blocks may live, all seen blocks count. */
static int add_live_estimate(const struct build *b, struct profile *p,
			     const struct process_sites *sites, long site,
			     const struct estimate *live,
			     const struct survivors_block *const *blocks, size_t n)
{
	bool some_live = false;
	double sum = 0;
	size_t thread;
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		if (!survivors_block__may_live(blocks[i]))
			continue;
		some_live = true;
		if (b->blocks)
			rc = profile__add_block(p, sites->site_of[site], blocks[i]->addr,
						blocks[i]->live.size);
	}
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		sum += share_of(blocks[i], some_live);
	if (!(sum > 0)) {
		rc = profile__add_thread(p, (uint32_t)b->target->info.pid, "", &thread);
		return rc ? rc : profile__add_live_estimate(p, sites->site_of[site], thread, live);
	}
	for (size_t i = 0; i < n && !rc;) {
		uint32_t tid = blocks[i]->live.tid;
		struct estimate part;
		double weight = 0;

		for (; i < n && blocks[i]->live.tid == tid; i++)
			weight += share_of(blocks[i], some_live);
		if (!(weight > 0))
			continue;
		part = estimate__part(live, live->objects * weight / sum,
				      live->bytes * weight / sum);
		rc = profile__add_thread(p, tid, "", &thread);
		if (!rc)
			rc = profile__add_live_estimate(p, sites->site_of[site], thread, &part);
	}
	return rc;
}

/* Order: by stack, then thread. */
static int compare_by_stack(const void *x, const void *y)
{
	const struct survivors_block *a = *(const struct survivors_block *const *)x;
	const struct survivors_block *b = *(const struct survivors_block *const *)y;

	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	return (a->live.tid > b->live.tid) - (a->live.tid < b->live.tid);
}

static const struct survivors_block **blocks_by_stack(const struct survivors *s)
{
	const struct survivors_block **blocks = calloc(s->n_blocks + 1, sizeof(*blocks));

	for (size_t i = 0; blocks && i < s->n_blocks; i++)
		blocks[i] = &s->blocks[i];
	if (blocks)
		qsort(blocks, s->n_blocks, sizeof(*blocks), compare_by_stack);
	return blocks;
}

/* Returns the index at which a stack's blocks begin among all blocks, or would begin. */
static size_t first_of(const struct survivors_block *const *blocks, size_t n, size_t stack)
{
	return SEARCH_FIRST(i, n, blocks[i]->stack >= stack);
}

/* Puts what is known of one stack into its site. */
static int add_stack(const struct build *b, struct profile *p, const struct process_sites *sites,
		     long site, const struct windowed_result *r, double most,
		     const struct survivors_block *const *blocks, size_t n_blocks)
{
	struct profile_site *to = &p->sites[sites->site_of[site]];
	struct estimate live = {
		.samples = r->samples,
		.objects = r->live_objects,
		.bytes = r->live_bytes,
		.variance = r->live_variance,
		.squares = r->live_variance,
		.common = r->live_common,
		.most = r->most > 0 && (r->most < most || !most) ? r->most : most,
		.least = r->least,
	};
	int rc;

	to->alloc_bytes = r->alloc_bytes;
	to->alloc_objects = r->alloc_objects;
	to->alloc_variance = r->alloc_variance;
	to->alloc_common = r->alloc_common;
	to->growth = r->growth;
	to->replaces = r->replaces;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++) {
		to->survival[i] = r->survival[i];
		to->older[i] = r->older[i];
	}
	memcpy(to->life.ended, r->ended, sizeof(to->life.ended));
	memcpy(to->life.living, r->living, sizeof(to->life.living));
	to->life.half_life = r->half_life;
	if (r->live_objects < 0.5)
		return 0;
	rc = add_live_estimate(b, p, sites, site, &live, blocks, n_blocks);
	to->live.least = fmax(to->live.least, r->least); /* each part may be less */
	return rc;
}

/* Subtracts the growth of vectors from anon: what is left is the growth of all other blocks. 0 or
 * -ENOMEM. */
static int take_off_vectors(const struct build *b, const struct process_sites *sites,
			    const struct windowed_run *run, struct growth *anon)
{
	struct realloc_trend vectors;
	const struct growth *all = &vectors.all.total;
	struct growth_sum rest = {};
	struct growth taken;
	int rc = realloc_trend__new(b, sites, run, anon, &vectors);

	if (rc)
		return rc;
	taken = (struct growth){-all->bytes_per_s, -all->high, -all->low};
	if (all->bytes_per_s > 0) {
		growth_sum__add(&rest, anon);
		growth_sum__add(&rest, &taken);
		*anon = rest.total;
	}
	realloc_trend__clear(&vectors);
	return 0;
}

/* Returns the share of the run that was not traced continuously. This is the larger one of the
 * shares by the wall clock and by net time. */
static double unseen_share(const struct build *b, const struct windowed_run *run)
{
	const struct survivors *s = &b->target->budget.survivors;
	uint64_t begin_ns = trend__begin_ns(b);
	double net = 0, wall = 0;

	for (size_t i = 0; i < s->n_windows; i++) {
		if (!s->windows[i].continuous)
			continue;
		net += run->windows[i].end_s - run->windows[i].begin_s;
		wall += survivors_window__seconds(&s->windows[i], begin_ns, b->end_ns);
	}
	return run->end_s > 0 && run->wall_s > 0
		       ? fmax(fmax(1 - net / run->end_s, 1 - wall / run->wall_s), 0)
		       : 1;
}

/* Can growth be found as in a continuous run? It cannot if the ledger has let blocks go, because
 * the kernel's tables lack these blocks. */
static bool is_nearly_continuous(const struct build *b, double unseen)
{
	return unseen <= MOST_UNSEEN && !b->target->budget.survivors.counts.let_go;
}

/* Puts into the profile what windows say of the process, and of each stack in sites. anon: by how
 * much the process's anonymous memory grows, bytes per second, without the growth of the regions
 * that the program maps by itself. */
static int add_stacks(const struct build *b, struct profile *p, const struct process_sites *sites,
		      struct windowed_run *run, const struct growth *anon,
		      struct large_trend *large)
{
	const struct survivors *s = &b->target->budget.survivors;
	_cleanup_free_ struct windowed_result *results = calloc(sites->n + 1, sizeof(*results));
	_cleanup_free_ const struct survivors_block **blocks = blocks_by_stack(s);
	_cleanup_free_ struct windowed_stack **stacks = calloc(sites->n + 1, sizeof(*stacks));
	_cleanup_free_ struct windowed_stack *room = calloc(sites->n + 1, sizeof(*room));
	struct windowed_process process;
	struct growth others = *anon;
	int rc;

	if (!blocks || !results || !stacks || !room)
		return -ENOMEM;
	for (size_t i = 0; i < sites->n; i++) {
		const struct survivors_stack *stack = survivors__find(s, &sites->keys[i].stack);

		if (!stack || sites->site_of[i] == NO_SITE)
			continue;
		room[i] = (struct windowed_stack){
			.born = stack->born,
			.n_born = stack->n_born,
			.groups = stack->groups,
			.cohort = stack->cohort,
			.alike = stack->alike,
			.missed = stack->witness ? stack->witness->missed : NULL,
			.small = stack->sized > 0 ? stack->small / stack->sized : 0,
			.header = allocators_own__header(b, p, &sites->keys[i].stack),
		};
		stacks[i] = &room[i];
	}
	rc = take_off_vectors(b, sites, run, &others);
	if (!rc)
		rc = balance__estimate(run, stacks, sites->n, &others, &process, results);
	if (!rc)
		rc = large_trend__correct(b, sites, results, large);
	if (rc)
		return rc;
	p->growth.blocks_per_s = optional__of(process.blocks_per_s);
	p->growth.blocks_low = optional__of(process.blocks_low);
	p->growth.blocks_high = optional__of(process.blocks_high);
	for (size_t i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		p->survival_age_s[i] =
			(double)((b->end_ns - trend__begin_ns(b)) >> (PROFILE_SURVIVAL_AGES - i)) *
			NS;
	for (size_t i = 0; i < sites->n && !rc; i++) {
		const struct survivors_stack *stack = survivors__find(s, &sites->keys[i].stack);
		size_t number, first, n;

		if (!stack || sites->site_of[i] == NO_SITE)
			continue;
		number = (size_t)(stack - s->stacks);
		first = first_of(blocks, s->n_blocks, number);
		n = first_of(blocks, s->n_blocks, number + 1) - first;
		rc = add_stack(b, p, sites, (long)i, &results[i], windowed__most(run, &room[i]),
			       blocks + first, n);
	}
	return rc;
}

/* Returns by how much all sites grow together. */
static struct growth all_growth(const struct profile *p)
{
	struct growth_sum all = {};

	for (size_t i = 0; i < p->n_sites; i++)
		if (!isnan(p->sites[i].growth.low))
			growth_sum__add(&all, &p->sites[i].growth);
	return all.total;
}

/* Adds the growth of a continuous run that was interrupted only briefly. Two amounts are not known:
 * the bytes that were allocated during the interruptions, and the bytes that were freed. Each of
 * them may be as large as the amount that the site allocates in a time as long as all interruptions
 * together. So this amount widens the interval at both ends. */
static int add_interrupted_growth(const struct build *b, struct profile *p,
				  const struct process_sites *sites, double unseen)
{
	bool enough = p->growth.stacks_known;
	int rc = trend__add_growth(b, p, sites);

	if (rc || !p->growth.stacks_known) {
		p->growth.stacks_known = enough; /* the growth that windows show stays */
		return rc;
	}
	for (size_t i = 0; i < p->n_sites; i++) {
		struct profile_site *site = &p->sites[i];
		double error = b->end_ns > b->begin_ns
				       ? unseen * site->alloc_bytes /
						 ((double)(b->end_ns - b->begin_ns) * NS)
				       : 0;

		site->growth.low -= error;
		site->growth.high += error;
		site->replaces = false;
	}
	return 0;
}

/* Returns how long the target was traced continuously, up to the profile's time. windows.c adds a
 * stretch when it is over, but a stretch may last for the rest of the run. */
static uint64_t continuous_ns(const struct build *b)
{
	const struct windows *w = &b->target->budget.pace.windows;

	return w->continuous_ns +
	       (w->open && w->continuous && b->end_ns > w->since_ns ? b->end_ns - w->since_ns : 0);
}

int trend__add_windowed(const struct build *b, struct profile *p, const struct process_sites *sites)
{
	const struct survivors *s = &b->target->budget.survivors;
	const struct survivors_counts *c = &s->counts;
	_cleanup_free_ struct windowed_window *windows = NULL;
	struct windowed_run run;
	struct realloc_trend vectors = {};
	struct large_trend large = {};
	struct growth anon;
	double unseen, without_vectors;
	uint64_t begin_ns = trend__begin_ns(b);
	bool nearly;
	int rc = describe_run(b, &windows, &run);

	if (rc)
		return rc;
	p->mode = MODE_WINDOWED;
	p->windows.heap_mapped_bytes = (double)b->target->heap_bound_bytes;
	p->windows.n = b->target->budget.pace.windows.n_windows;
	p->windows.seconds = (double)b->target->budget.pace.windows.windows_ns * NS;
	p->windows.continuous_s = (double)continuous_ns(b) * NS;
	p->windows.evidence = (struct profile_evidence){
		.born = c->born,
		.freed = c->freed,
		.replaced = c->replaced,
		.unmapped = c->unmapped,
		.changed = c->changed,
	};
	for (size_t i = 0; i < s->n_blocks; i++)
		p->windows.evidence.unchanged +=
			s->blocks[i].hashed && survivors_block__may_live(&s->blocks[i]);
	anon = sizes__trend(&b->target->anon, begin_ns + (b->end_ns - begin_ns) / 4, b->end_ns);
	p->growth.bytes_per_s = optional__of(anon.bytes_per_s);
	p->growth.regions = b->regions_growth;
	anon.bytes_per_s -= b->regions_growth;
	anon.low -= b->regions_growth;
	anon.high -= b->regions_growth;
	unseen = unseen_share(b, &run);
	rc = add_stacks(b, p, sites, &run, &anon, &large);
	p->growth.stacks_known = s->n_windows >= GROWTH_MIN_SEGMENTS;
	if (!rc)
		rc = realloc_trend__new(b, sites, &run, &anon, &vectors);
	without_vectors = rc ? 0 : large_trend__vectors(b, p, sites);
	if (!rc)
		rc = realloc_trend__add_live(b, p, sites, &vectors);
	if (!rc)
		rc = large_trend__add(b, p, &large,
				      large_trend__vectors(b, p, sites) - without_vectors);
	nearly = is_nearly_continuous(b, unseen);
	if (!rc && nearly)
		rc = add_interrupted_growth(b, p, sites, unseen);
	else if (!rc)
		realloc_trend__add_growth(p, sites, &vectors);
	realloc_trend__clear(&vectors);
	for (size_t i = 0; i < p->n_sites; i++) {
		struct profile_site *site = &p->sites[i];

		site->freed_objects = fmax(site->alloc_objects - site->live.objects, 0);
		site->freed_bytes = fmax(site->alloc_bytes - site->live.bytes, 0);
		/* even if the site replaces its blocks, the growth of its vectors may be certain */
		site->replaces = site->replaces && !(site->growth.low > 0);
	}
	if (!nearly || !p->growth.stacks_known || large.rest > 0)
		p->growth.attributed = all_growth(p);
	if (!rc)
		rc = profile__add_lost(p, "windows_failed", b->target->budget.pace.failed);
	if (!rc)
		rc = profile__add_lost(p, "blocks_changed", c->changed);
	if (!rc)
		rc = profile__add_lost(p, "realloc_old_size_unknown", c->grown_unknown);
	if (!rc)
		rc = profile__add_lost(p, "realloc_records_left_out",
				       b->target->budget.reallocs.left_out);
	return rc;
}
