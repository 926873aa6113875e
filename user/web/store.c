// SPDX-License-Identifier: BSD-2-Clause
#include "web/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "base/vector.h"
#include "decode/decode.h"
#include "encode/text.h"
#include "profile/diff.h"

/* Where the process stands, or would. */
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
	for (size_t i = 0; i < p->n_kept; i++)
		if (p->kept[i].id == id)
			return &p->kept[i];
	return NULL;
}

static void drop_oldest(struct store *s, struct process *p)
{
	s->bytes -= p->kept[0].size;
	free(p->kept[0].file);
	memmove(p->kept, p->kept + 1, --p->n_kept * sizeof(*p->kept));
}

static void free_process(struct store *s, struct process *p)
{
	while (p->n_kept)
		drop_oldest(s, p);
	profile__free(p->latest);
	free(p);
}

static void remove_at(struct store *s, size_t at)
{
	free_process(s, s->processes[at]);
	memmove(s->processes + at, s->processes + at + 1, (--s->n - at) * sizeof(*s->processes));
}

/* Of all snapshots that have a newer one of the same process the oldest; NULL: there is none. */
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

/* The process that ended first; NULL: none has ended. */
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

/* Makes room for a snapshot of p, which may be NULL. At last p's newest one goes for it. */
static int make_room(struct store *s, struct process *p, size_t size)
{
	struct process *other;
	size_t own;

	while (s->bytes + size > STORE_BYTES && (other = with_oldest(s))) {
		drop_oldest(s, other);
		s->n_evicted++;
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
		s->n_evicted++;
	}
	return 0;
}

/* --- stacks --- */

const struct stack *process__stack(const struct process *p, uint64_t id)
{
	for (size_t i = 0; i < p->n_stacks; i++)
		if (p->stacks[i].id == id)
			return &p->stacks[i];
	return NULL;
}

/* FNV-1a (Fowler, Noll, Vo) of the names of its frames. */
static int add_stack(struct process *p, const struct profile *profile, size_t i)
{
	const struct profile_site *site = &profile->sites[i];
	_cleanup_free_ char *names = collapsed_names(profile, site);
	uint64_t id = 0xcbf29ce484222325;
	struct stack *stack;

	if (!names)
		return -ENOMEM;
	for (const char *c = names; *c; c++)
		id = (id ^ (unsigned char)*c) * 0x100000001b3;
	stack = (struct stack *)process__stack(p, id);
	if (stack) {
		stack->live_bytes += site->live.bytes;
		growth__merge(&stack->growth, &site->growth);
	} else {
		p->stacks[p->n_stacks++] = (struct stack){id, i, site->live.bytes, site->growth};
	}
	return 0;
}

static int by_growth(const void *a, const void *b)
{
	const struct profile_site *x = *(const struct profile_site *const *)a,
				  *y = *(const struct profile_site *const *)b;
	int order = growth__compare(&x->growth, &y->growth);

	return order ?: x < y ? -1 : x > y;
}

/* Works out what is asked for again and again; in *ret, which replaces the same parts of the
 * process. 0 or -ENOMEM. */
static int summarize(const struct profile *profile, struct process *ret)
{
	size_t n = profile->n_sites < STORE_STACKS / 2 ? profile->n_sites : STORE_STACKS / 2;
	_cleanup_free_ const struct profile_site **sites = NULL;
	int rc = 0;

	ret->live = profile__live(profile);
	ret->leaks = profile__leaks(profile);
	for (size_t i = 0; i < n && !rc; i++) /* they are in that order */
		rc = add_stack(ret, profile, i);
	if (rc || n == profile->n_sites || !profile->has_growth)
		return rc;
	sites = malloc((profile->n_sites - n) * sizeof(*sites));
	if (!sites)
		return -ENOMEM;
	for (size_t i = n; i < profile->n_sites; i++)
		sites[i - n] = &profile->sites[i];
	qsort(sites, profile->n_sites - n, sizeof(*sites), by_growth);
	for (size_t i = 0; i < profile->n_sites - n && i < STORE_STACKS / 2 && !rc; i++)
		rc = add_stack(ret, profile, (size_t)(sites[i] - profile->sites));
	return rc;
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
	struct process *p = store__find(s, pid);
	struct profile *profile = NULL, *before;
	struct process facts = {};
	char name[32];
	int rc;

	snprintf(name, sizeof(name), "profile of %d", pid);
	rc = decode_bytes(name, file, len, &profile, err);
	if (!rc)
		rc = summarize(profile, &facts);
	if (rc) {
		*(rc == -ENOMEM ? &s->n_evicted : &s->n_unreadable) += 1;
		goto refused;
	}
	/* another process of that number, or the same one, traced anew */
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
	p->live = facts.live;
	p->leaks = facts.leaks;
	memcpy(p->stacks, facts.stacks, sizeof(p->stacks));
	p->n_stacks = facts.n_stacks;
	p->latest = profile;
	p->kept[p->n_kept++] = (struct snapshot){p->next_id++, taken_ns, file, len};
	p->round = s->rounds;
	p->ended = p->outdated = p->inactive = false;
	s->bytes += len;
	if (s->came)
		s->came(s->ctx, p, before);
	profile__free(before);
	return 0;
refused:
	if (p) { /* it is there: what was kept before stays, but holds no more */
		p->round = s->rounds;
		p->outdated = true;
	}
	profile__free(profile);
	free(file);
	return rc;
}

void store__hold(struct store *s, pid_t pid, uint64_t taken_ns)
{
	struct process *p = store__find(s, pid);

	if (!p)
		return;
	p->round = s->rounds;
	p->ended = p->inactive = false;
	if (p->outdated) /* what holds is the profile that could not be kept */
		return;
	p->before_ns = p->taken_ns;
	p->taken_ns = taken_ns;
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
	p->ended = false;
	p->inactive = true;
}

void store__end_round(struct store *s)
{
	size_t n_ended = 0;

	for (size_t i = 0; i < s->n_inactive;)
		if (s->inactive[i].round < s->rounds)
			s->inactive[i] = s->inactive[--s->n_inactive];
		else
			i++;

	for (size_t i = 0; i < s->n; i++) {
		s->processes[i]->ended = s->processes[i]->round < s->rounds;
		n_ended += s->processes[i]->ended;
	}
	s->rounds++;
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
