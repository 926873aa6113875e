// SPDX-License-Identifier: BSD-2-Clause
#include "web/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"
#include "decode/decode.h"
#include "profile/diff.h"

/* Where the process stands, or would. */
static size_t place_of(const struct store *s, pid_t pid)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (s->processes[mid]->pid < pid)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
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

static void make_room(struct store *s, size_t size)
{
	struct process *p;

	while (s->bytes + size > STORE_BYTES && (p = with_oldest(s))) {
		drop_oldest(s, p);
		s->n_evicted++;
	}
}

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
	struct profile *profile;
	char name[32];
	int rc;

	snprintf(name, sizeof(name), "profile of %d", pid);
	rc = decode_bytes(name, file, len, &profile, err);
	if (rc) {
		s->n_unreadable++;
		goto refused;
	}
	/* another process of that number */
	if (p && p->latest && !profile__same_run(p->latest, profile)) {
		remove_at(s, place_of(s, pid));
		p = NULL;
	}
	if (!p)
		p = add_process(s, pid);
	if (!p) {
		s->n_refused++;
		profile__free(profile);
		rc = error__set(err, -ENOMEM, "no room for one process more");
		goto refused;
	}
	if (p->n_kept == STORE_KEPT)
		drop_oldest(s, p);
	make_room(s, len);
	profile__free(p->latest);
	p->latest = profile;
	p->kept[p->n_kept++] = (struct snapshot){p->next_id++, taken_ns, file, len};
	p->round = s->rounds;
	p->ended = false;
	s->bytes += len;
	return 0;
refused:
	free(file);
	return rc;
}

void store__end_round(struct store *s)
{
	size_t n_ended = 0;

	for (size_t i = 0; i < s->n; i++) {
		s->processes[i]->ended = s->processes[i]->round < s->rounds;
		n_ended += s->processes[i]->ended;
	}
	s->rounds++;
	while (n_ended > STORE_ENDED) { /* the one that ended first */
		size_t first = s->n;

		for (size_t i = 0; i < s->n; i++)
			if (s->processes[i]->ended &&
			    (first == s->n || s->processes[i]->round < s->processes[first]->round))
				first = i;
		remove_at(s, first);
		n_ended--;
	}
}

void store__clear(struct store *s)
{
	while (s->n)
		remove_at(s, s->n - 1);
	free(s->processes);
	*s = (struct store){};
}
