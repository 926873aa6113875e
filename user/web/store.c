// SPDX-License-Identifier: BSD-2-Clause
#include "web/store.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/intern.h"
#include "base/search.h"
#include "base/vector.h"
#include "decode/decode.h"
#include "encode/text.h"
#include "encode/where.h"
#include "profile/diff.h"

/* Returns the index at which the process is, or would be, in s->processes. */
static size_t place_of(const struct store *s, pid_t pid)
{
	return SEARCH_FIRST(i, s->n, s->processes[i]->pid >= pid);
}

struct process *store__find(const struct store *s, pid_t pid)
{
	size_t at = place_of(s, pid);

	return at < s->n && s->processes[at]->pid == pid ? s->processes[at] : NULL;
}

const struct snapshot *process__snapshot(const struct process *p, unsigned id)
{
	if (!id)
		return p->n_kept ? &p->kept[p->n_kept - 1] : NULL;
	for (size_t i = 0; i < p->n_pinned; i++)
		if (p->pinned[i].id == id)
			return &p->pinned[i];
	for (size_t i = 0; i < p->n_kept; i++)
		if (p->kept[i].id == id)
			return &p->kept[i];
	return NULL;
}

static void free_snapshot(struct store *s, struct snapshot *snapshot)
{
	s->bytes -= snapshot->size;
	free(snapshot->file);
}

static void drop_oldest_moment(struct process *p)
{
	free(p->moments[0].held);
	memmove(p->moments, p->moments + 1, --p->n_moments * sizeof(*p->moments));
}

static void drop_pinned(struct store *s, struct process *p)
{
	while (p->n_pinned)
		free_snapshot(s, &p->pinned[--p->n_pinned]);
}

static void drop_oldest(struct store *s, struct process *p)
{
	unsigned id = p->kept[0].id;

	if ((id == p->rise.before || id == p->rise.at || id == p->rise.detailed) &&
	    p->n_pinned < sizeof(p->pinned) / sizeof(*p->pinned))
		p->pinned[p->n_pinned++] = p->kept[0];
	else
		free_snapshot(s, &p->kept[0]);
	memmove(p->kept, p->kept + 1, --p->n_kept * sizeof(*p->kept));
}

static void free_process(struct store *s, struct process *p)
{
	p->rise = (struct rise){};
	while (p->n_kept)
		drop_oldest(s, p);
	drop_pinned(s, p);
	while (p->n_moments)
		drop_oldest_moment(p);
	profile__free(p->latest);
	gains_sent__clear(&p->sent);
	free(p);
}

static void remove_at(struct store *s, size_t at)
{
	free_process(s, s->processes[at]);
	memmove(s->processes + at, s->processes + at + 1, (--s->n - at) * sizeof(*s->processes));
}

/* Returns the process with the oldest snapshot, among the processes that have several snapshots.
 * NULL: none has several. */
static struct process *with_oldest(const struct store *s)
{
	struct process *found = NULL;

	for (size_t i = 0; i < s->n; i++) {
		struct process *p = s->processes[i];

		if (p->n_kept > 1 && (!found || p->kept[0].taken_ns < found->kept[0].taken_ns))
			found = p;
	}
	return found;
}

/* Returns the process that ended first; NULL: none has ended. */
static struct process *first_ended(const struct store *s)
{
	struct process *found = NULL;

	for (size_t i = 0; i < s->n; i++) {
		struct process *p = s->processes[i];

		if (p->ended && (!found || p->round < found->round))
			found = p;
	}
	return found;
}

/* Makes room for a snapshot of the process p, or of a new process (p is NULL). As a last resort,
 * deletes p's newest snapshot, too. */
static int make_room(struct store *s, struct process *p, size_t size)
{
	struct process *other;
	size_t own;

	while (s->bytes + size > STORE_BYTES && (other = with_oldest(s))) {
		drop_oldest(s, other);
		s->n_evicted++;
	}
	for (size_t i = 0; s->bytes + size > STORE_BYTES && i < s->n; i++) {
		s->n_evicted += s->processes[i]->n_pinned;
		drop_pinned(s, s->processes[i]);
	}
	while (s->bytes + size > STORE_BYTES && (other = first_ended(s))) {
		s->n_evicted += other->n_kept;
		remove_at(s, place_of(s, other->pid));
	}
	own = p && p->n_kept ? p->kept[p->n_kept - 1].size : 0;
	if (s->bytes - own + size > STORE_BYTES)
		return -ENOSPC;
	while (s->bytes + size > STORE_BYTES) {
		drop_oldest(s, p);
		drop_pinned(s, p); /* the snapshot may have been pinned */
		s->n_evicted++;
	}
	return 0;
}

/* --- stacks and pools of threads --- */

#define FNV_BASIS 0xcbf29ce484222325
/* the hash of a pool begins differently, so that pools and stacks have different ids */
#define POOL_BASIS 0x6c62272e07bb0142

const struct stack *process__stack(const struct process *p, uint64_t id)
{
	for (size_t i = 0; i < p->n_stacks; i++)
		if (p->stacks[i].id == id)
			return &p->stacks[i];
	return NULL;
}

/* FNV-1a (Fowler, Noll, Vo) */
static uint64_t id_of(const char *text, size_t len, uint64_t id)
{
	for (size_t i = 0; i < len; i++)
		id = (id ^ (unsigned char)text[i]) * 0x100000001b3;
	return id;
}

/* A stack's id is the hash of the names of its frames. growths: the growth of each of p's stacks so
 * far. */
static int add_stack(struct process *p, struct growth_sum growths[STORE_STACKS],
		     const struct profile *profile, size_t i)
{
	const struct profile_site *site = &profile->sites[i];
	_cleanup_free_ char *names = collapsed_names(profile, site);
	struct stack *stack;
	uint64_t id;

	if (!names)
		return -ENOMEM;
	id = id_of(names, strlen(names), FNV_BASIS);
	stack = (struct stack *)process__stack(p, id);
	if (!stack) {
		stack = &p->stacks[p->n_stacks++];
		*stack = (struct stack){.id = id, .site = i};
	}
	stack->live_bytes += site->live.bytes;
	growth_sum__add(&growths[stack - p->stacks], &site->growth);
	stack->growth = growths[stack - p->stacks].total;
	return 0;
}

static int by_growth(const void *a, const void *b)
{
	const struct profile_site *x = *(const struct profile_site *const *)a,
				  *y = *(const struct profile_site *const *)b;
	int order = growth__compare(&x->growth, &y->growth);

	return order ?: x < y ? -1 : x > y;
}

static int by_live(const void *a, const void *b)
{
	const struct pool *x = a, *y = b;

	return x->live_bytes < y->live_bytes ? 1 : x->live_bytes > y->live_bytes ? -1 : 0;
}

/* Makes a pool for each name without its last digits. Of these pools, the largest stay. All other
 * threads are in the pool "". 0 or -ENOMEM. */
static int add_pools(struct process *ret, const struct profile *profile)
{
	_cleanup_free_ double *held = calloc(profile->n_threads + 1, sizeof(*held));
	_cleanup_free_ struct pool *pools = calloc(profile->n_threads + 1, sizeof(*pools));
	_cleanup_(intern__clear) struct intern names = {};
	uint32_t at;
	size_t n;

	/* a name's number in `names` is the index of its pool */
	if (!held || !pools || intern__add(&names, "", 0, &at) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_sites; i++)
		for (size_t k = 0; k < profile->sites[i].n_threads; k++)
			held[profile->sites[i].threads[k].thread] +=
				profile->sites[i].threads[k].bytes;
	for (size_t i = 0; i < profile->n_threads; i++) {
		const char *name = profile->threads[i].name;
		size_t len = strnlen(name, sizeof(profile->threads[i].name));
		int rc;

		while (len && name[len - 1] >= '0' && name[len - 1] <= '9')
			len--;
		rc = intern__add(&names, name, len, &at);
		if (rc < 0)
			return rc;
		if (rc) {
			memcpy(pools[at].name, name, len < sizeof(pools->name) ? len : 15);
			pools[at].id = id_of(name, len, POOL_BASIS);
		}
		pools[at].live_bytes += held[i];
	}
	n = names.n;
	qsort(pools + 1, n - 1, sizeof(*pools), by_live);
	for (; n > STORE_POOLS; n--)
		pools[0].live_bytes += pools[n - 1].live_bytes;
	pools[0].id = POOL_BASIS;
	if (!pools[0].live_bytes) {
		memmove(pools, pools + 1, (n - 1) * sizeof(*pools));
		n--;
	}
	qsort(pools, n, sizeof(*pools), by_live);
	memcpy(ret->pools, pools, n * sizeof(*pools));
	ret->n_pools = n;
	return 0;
}

/* Is there a pool "" with the sum of all other threads? Pools are sorted by size, so it may stand
 * anywhere. */
static bool has_others(const struct process *facts)
{
	for (size_t i = 0; i < facts->n_pools; i++)
		if (facts->pools[i].id == POOL_BASIS)
			return true;
	return false;
}

/* Fills in what the history keeps of a profile. 0 or -ENOMEM. */
static int note_moment(const struct process *facts, const struct profile *profile,
		       uint64_t taken_ns, struct moment *ret)
{
	size_t most = profile->growth.stacks_known ? STORE_STACKS : STORE_STACKS / 2;
	bool others = has_others(facts);
	struct moment m = {.taken_ns = taken_ns,
			   .held = calloc(1 + facts->n_stacks + facts->n_pools, sizeof(*m.held)),
			   .complete = profile->n_sites <= most && !others};

	if (!m.held)
		return -ENOMEM;
	m.held[m.n++] = (struct held){HISTORY_ALL, facts->live.bytes};
	for (size_t i = 0; i < facts->n_stacks; i++)
		m.held[m.n++] = (struct held){facts->stacks[i].id, facts->stacks[i].live_bytes};
	for (size_t i = 0; i < facts->n_pools; i++)
		m.held[m.n++] = (struct held){facts->pools[i].id, facts->pools[i].live_bytes};
	moment__sort(&m);
	*ret = m;
	return 0;
}

/* --- growth --- */

/* Fills in pointers to all moments. Returns their number. */
static size_t moments_of(const struct process *p, const struct moment *ret[STORE_KEPT])
{
	for (size_t i = 0; i < p->n_moments; i++)
		ret[i] = &p->moments[i];
	return p->n_moments;
}

/* Replaces the growth over the whole run by recent growth, if the low end of recent growth is
 * higher, and above 0. */
static bool prefer_recent(struct growth *growth, const struct growth *recent)
{
	if (!(recent->low > 0) || growth->low >= recent->low)
		return false;
	*growth = *recent;
	return true;
}

/* Returns the stack whose growth has the highest low end above 0; NULL: no stack surely grows. */
static const struct stack *leader_of(const struct process *p)
{
	const struct stack *found = NULL;

	for (size_t i = 0; i < p->n_stacks; i++)
		if (p->stacks[i].growth.low > 0 &&
		    (!found || p->stacks[i].growth.low > found->growth.low))
			found = &p->stacks[i];
	return found;
}

static void end_rise(struct process *p)
{
	if (p->rise.goes_on)
		p->rise.ended_ns = p->taken_ns;
	p->rise.goes_on = false;
}

static void begin_rise(struct store *s, struct process *p, const struct stack *leader)
{
	_cleanup_free_ char *function =
		where_holder(p->latest, &p->latest->sites[leader->site], 99, false);
	const struct moment *moments[STORE_KEPT];
	struct rise *rise = &p->rise;

	drop_pinned(s, p);
	*rise = (struct rise){.known = true,
			      .goes_on = true,
			      .noticed_ns = p->taken_ns,
			      .stack = leader->id,
			      .growth = leader->growth,
			      .at = p->kept[p->n_kept - 1].id};
	snprintf(rise->function, sizeof(rise->function), "%s", function ?: "?");
	history__onset(moments, moments_of(p, moments), leader->id, &rise->onset);
	for (size_t i = 0; rise->onset.ns && i < p->n_kept; i++)
		if (p->kept[i].taken_ns <= rise->onset.ns)
			rise->before = p->kept[i].id;
}

const char *more_windows__name(enum more_windows state)
{
	static const char *const names[MORE_STATES] = {"none", "waiting", "now", "over"};

	return names[state];
}

/* While the process has more windows, each profile tells more than the profile before. So the last
 * profile that was taken with more windows is kept as `detailed`. */
bool process__note_windows(struct process *p, bool has, uint64_t from_ns, uint64_t until_ns,
			   bool off)
{
	struct rise *rise = &p->rise;
	const struct snapshot *newest = process__snapshot(p, 0);

	if (has) {
		rise->more = MORE_NOW;
		rise->more_ns = from_ns;
		rise->more_until_ns = until_ns;
	}
	if (rise->more == MORE_NOW && newest->taken_ns > rise->more_ns)
		rise->detailed = newest->id;
	if (!has && rise->more == MORE_NOW) {
		rise->more = MORE_OVER;
		if (p->taken_ns < rise->more_until_ns) /* the process has ended */
			rise->more_until_ns = p->taken_ns;
	}
	if (has || rise->more == MORE_OVER)
		return false;
	rise->more =
		!off && rise->goes_on && profile__is_windowed(p->latest) ? MORE_WAITING : MORE_NONE;
	return rise->more == MORE_WAITING;
}

/* Judges recent growth, and notes when it begins and ends. Call it when the process has a new
 * snapshot, or when the newest snapshot is still right at a later time. */
static void judge_growth(struct store *s, struct process *p)
{
	const struct moment *moments[STORE_KEPT];
	size_t n = moments_of(p, moments);
	double quantum = profile__is_exact(p->latest) ? 0 : (double)p->latest->interval_bytes;
	double recent_s;
	struct growth recent = history__growth(moments, n, HISTORY_ALL, quantum, &recent_s);
	const struct stack *leader;

	p->growth_s = p->latest->duration_s;
	p->of_late = prefer_recent(&p->growth, &recent);
	if (p->of_late)
		p->growth_s = recent_s;
	for (size_t i = 0; i < p->n_stacks; i++) {
		recent = history__growth(moments, n, p->stacks[i].id, quantum, NULL);
		p->of_late |= prefer_recent(&p->stacks[i].growth, &recent);
	}
	for (size_t i = 0; i < p->n_pools; i++)
		p->pools[i].growth = history__growth(moments, n, p->pools[i].id, quantum, NULL);
	leader = leader_of(p);
	p->leaks = p->leaks || (leader && p->growth.low > 0);
	if (p->leaks && leader) {
		if (!p->rise.goes_on)
			begin_rise(s, p, leader);
		p->rise.calm = 0;
	} else if (p->rise.goes_on && ++p->rise.calm >= STORE_KEPT) {
		end_rise(p);
	}
}

/* Computes the facts that pages and scrapes need again and again, into *ret. take_facts() copies
 * *ret into the process. 0 or -ENOMEM. */
static int summarize(const struct profile *profile, struct process *ret)
{
	size_t n = profile->n_sites < STORE_STACKS / 2 ? profile->n_sites : STORE_STACKS / 2;
	_cleanup_free_ const struct profile_site **sites = NULL;
	struct growth_sum growths[STORE_STACKS] = {};
	int rc = 0;

	ret->live = profile__live(profile);
	ret->leaks = profile__leaks(profile);
	ret->growth = profile->growth.stacks_known ? profile->growth.attributed
						   : (struct growth){NAN, NAN, NAN};
	if (add_pools(ret, profile))
		return -ENOMEM;
	for (size_t i = 0; i < n && !rc; i++) /* sites are ordered by live bytes */
		rc = add_stack(ret, growths, profile, i);
	if (rc || n == profile->n_sites || !profile->growth.stacks_known)
		return rc;
	sites = malloc((profile->n_sites - n) * sizeof(*sites));
	if (!sites)
		return -ENOMEM;
	for (size_t i = n; i < profile->n_sites; i++)
		sites[i - n] = &profile->sites[i];
	qsort(sites, profile->n_sites - n, sizeof(*sites), by_growth);
	for (size_t i = 0; i < profile->n_sites - n && i < STORE_STACKS / 2 && !rc; i++)
		rc = add_stack(ret, growths, profile, (size_t)(sites[i] - profile->sites));
	return rc;
}

static void take_facts(struct process *p, const struct process *facts)
{
	p->live = facts->live;
	p->leaks = facts->leaks;
	p->growth = facts->growth;
	memcpy(p->stacks, facts->stacks, sizeof(p->stacks));
	p->n_stacks = facts->n_stacks;
	memcpy(p->pools, facts->pools, sizeof(p->pools));
	p->n_pools = facts->n_pools;
}

/* --- what comes and goes --- */

static struct process *add_process(struct store *s, pid_t pid)
{
	size_t at = place_of(s, pid);
	struct process *p;

	if (s->n >= STORE_PROCESSES || VECTOR_ADD_ROOM(s->processes, s->n))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->next_id = 1;
	memmove(s->processes + at + 1, s->processes + at, (s->n++ - at) * sizeof(*s->processes));
	s->processes[at] = p;
	return p;
}

int store__add(struct store *s, pid_t pid, uint64_t taken_ns, char *file, size_t len,
	       struct error *err)
{
	struct process *p = store__find(s, pid), *other;
	struct profile *profile = NULL, *before;
	struct process facts = {};
	struct moment moment = {};
	char name[32];
	int rc;

	snprintf(name, sizeof(name), "profile of %d", pid);
	rc = decode_bytes(name, file, len, &profile, err);
	if (!rc) {
		rc = summarize(profile, &facts) ?: note_moment(&facts, profile, taken_ns, &moment);
		if (rc)
			error__set(err, rc, "%s: %s", name, strerror(-rc));
	}
	if (rc) {
		*(rc == -ENOMEM ? &s->n_evicted : &s->n_unreadable) += 1;
		goto refused;
	}
	/* the pid belongs to another process now, or tracing of the process was resumed */
	if (p && p->latest && (p->inactive || !profile__same_run(p->latest, profile))) {
		remove_at(s, place_of(s, pid));
		p = NULL;
	}
	if (p)
		p->ended = false;
	if (p && p->n_kept == STORE_KEPT)
		drop_oldest(s, p);
	rc = make_room(s, p, len);
	if (rc) {
		s->n_evicted++;
		error__set(err, rc, "%s: no room for its %zu bytes", name, len);
		goto refused;
	}
	if (!p && s->n >= STORE_PROCESSES && (other = first_ended(s)))
		remove_at(s, place_of(s, other->pid));
	if (!p)
		p = add_process(s, pid);
	if (!p) {
		s->n_refused++;
		rc = error__set(err, -ENOMEM, "no room for one process more");
		goto refused;
	}
	before = p->latest;
	p->before_ns = p->taken_ns;
	p->taken_ns = taken_ns;
	take_facts(p, &facts);
	p->latest = profile;
	p->kept[p->n_kept++] = (struct snapshot){p->next_id++, taken_ns, file, len};
	if (p->n_moments == STORE_KEPT)
		drop_oldest_moment(p);
	p->moments[p->n_moments++] = moment;
	judge_growth(s, p);
	p->round = s->rounds;
	p->ended = profile->ended;
	if (p->ended)
		end_rise(p);
	p->outdated = p->inactive = p->asked = false;
	s->bytes += len;
	if (s->came)
		s->came(s->ctx, p, before);
	profile__free(before);
	return 0;
refused:
	store__miss(s, pid);
	profile__free(profile);
	free(moment.held);
	free(file);
	return rc;
}

void store__miss(struct store *s, pid_t pid)
{
	struct process *p = store__find(s, pid);

	if (!p)
		return;
	p->round = s->rounds;
	p->ended = false;
	p->outdated = true;
}

void store__hold(struct store *s, pid_t pid, uint64_t taken_ns)
{
	struct process *p = store__find(s, pid);
	struct process facts = {};

	if (!p)
		return;
	p->round = s->rounds;
	p->ended = p->inactive = p->asked = false;
	/* the profile that is still right is a newer one, which could not be kept */
	if (p->outdated)
		return;
	p->before_ns = p->taken_ns;
	p->taken_ns = taken_ns;
	/* Recent growth is over once the process has rested for a while, and so is its rise. */
	if ((p->of_late || p->rise.goes_on) && p->n_kept && !summarize(p->latest, &facts)) {
		take_facts(p, &facts);
		p->moments[p->n_moments - 1].taken_ns = taken_ns;
		judge_growth(s, p);
	}
	if (s->came)
		s->came(s->ctx, p, p->latest);
}

const struct inactive *store__inactive(const struct store *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_inactive; i++)
		if (s->inactive[i].pid == pid)
			return &s->inactive[i];
	return NULL;
}

void store__leave(struct store *s, pid_t pid, const char *why)
{
	struct inactive *known = (struct inactive *)store__inactive(s, pid);
	struct process *p = store__find(s, pid);

	if (!known && s->n_inactive < STORE_PROCESSES &&
	    !VECTOR_ADD_ROOM(s->inactive, s->n_inactive))
		known = &s->inactive[s->n_inactive++];
	if (known) {
		*known = (struct inactive){.pid = pid, .round = s->rounds};
		snprintf(known->why, sizeof(known->why), "%s", why);
	}
	if (!p)
		return;
	p->round = s->rounds;
	p->ended = p->asked = false;
	p->inactive = true;
	end_rise(p);
}

void store__end_round(struct store *s, bool complete)
{
	uint64_t round = s->rounds++;
	size_t n_ended = 0;

	if (!complete) { /* no process counts as ended, because one that was not named may live */
		s->rounds_incomplete++;
		return;
	}
	for (size_t i = 0; i < s->n_inactive;)
		if (s->inactive[i].round < round)
			s->inactive[i] = s->inactive[--s->n_inactive];
		else
			i++;

	for (size_t i = 0; i < s->n; i++) {
		struct process *p = s->processes[i];

		p->ended = p->latest->ended || p->round < round;
		if (p->ended)
			end_rise(p);
		n_ended += p->ended;
	}
	for (; n_ended > STORE_ENDED; n_ended--)
		remove_at(s, place_of(s, first_ended(s)->pid));
}

void store__clear(struct store *s)
{
	while (s->n)
		remove_at(s, s->n - 1);
	free(s->processes);
	free(s->inactive);
	*s = (struct store){.came = s->came, .ctx = s->ctx};
}
