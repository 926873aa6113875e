// SPDX-License-Identifier: BSD-2-Clause
/* Finds targets. With probes for all processes, the list of targets is searched each time that any
 * process of the machine maps a file, and each time that a block ends. With 2,000 targets, going
 * through all of them took 5 us each time.
 *
 * When a target is removed, the targets behind it move up in the session's list. So the index
 * cannot hold places in the list: it has entries of its own. An entry stays when its target is
 * removed, because the search for another entry may lead through its slot in the hash table. When
 * most entries are of removed targets, the index is made anew. At first a target has no pid and no
 * number. It gets its entry in the first search after it has got a pid and a number. */
#include <stdlib.h>

#include "base/hash.h"
#include "base/vector.h"
#include "session/internal.h"

#define INDEX_FROM 32 /* with fewer targets, going through all of them is as fast */

struct target_entry {
	struct target *target; /* NULL: it has been removed */
	pid_t pid;
	uint32_t process;
};

static uint64_t hash_of(uint32_t key)
{
	return hash__keyed(&key, sizeof(key));
}

static uint32_t *slot_of_pid(const struct target_index *x, pid_t pid)
{
	return TABLE_SLOT(&x->by_pid, hash_of((uint32_t)pid), i, x->entries[i].pid == pid);
}

static uint32_t *slot_of_process(const struct target_index *x, uint32_t process)
{
	return TABLE_SLOT(&x->by_process, hash_of(process), i, x->entries[i].process == process);
}

/* Makes an entry findable. Of two targets with the same pid, the later one is then found. */
static void put(struct target_index *x, size_t at)
{
	*slot_of_pid(x, x->entries[at].pid) = (uint32_t)at + 1;
	*slot_of_process(x, x->entries[at].process) = (uint32_t)at + 1;
}

/* Removes the index, because there is no memory for it. */
static void drop(struct target_index *x)
{
	for (size_t i = 0; i < x->n; i++)
		if (x->entries[i].target)
			x->entries[i].target->entry = 0;
	target_index__clear(x);
}

/* Makes room for n entries in all. false: there was no memory, and the index was removed. */
static bool reserve(struct target_index *x, size_t n)
{
	int pids = table__reserve(&x->by_pid, n), processes = table__reserve(&x->by_process, n);

	if (pids < 0 || processes < 0 || VECTOR_RESERVE(x->entries, x->room, n)) {
		drop(x);
		return false;
	}
	for (size_t i = 0; (pids || processes) && i < x->n; i++)
		put(x, i);
	return true;
}

/* Leaves out entries of targets that have been removed, and puts all others into new tables. */
static void make_anew(struct target_index *x)
{
	size_t n = 0;

	for (size_t i = 0; i < x->n; i++) {
		if (!x->entries[i].target)
			continue;
		x->entries[n] = x->entries[i];
		x->entries[n].target->entry = n + 1;
		n++;
	}
	x->n = n;
	x->n_gone = 0;
	table__clear(&x->by_pid);
	table__clear(&x->by_process);
	reserve(x, n);
}

/* Gives entries to targets without one, as soon as they have a pid and a number. */
static void enter(struct session *s)
{
	struct target_index *x = &s->index;

	if (x->n_gone > INDEX_FROM && x->n_gone > x->n / 2)
		make_anew(x);
	for (; x->n_entered < s->n_targets; x->n_entered++) {
		struct target *t = s->targets[x->n_entered];

		if (!t->info.pid || !t->process || !reserve(x, x->n + 1))
			return;
		x->entries[x->n++] = (struct target_entry){t, t->info.pid, t->process};
		t->entry = x->n;
		put(x, x->n - 1);
	}
}

static struct target *target_at(const struct target_index *x, const uint32_t *slot)
{
	return *slot ? x->entries[*slot - 1].target : NULL;
}

struct target *targets__find(struct session *s, pid_t pid)
{
	struct target *t;
	size_t first = 0;

	if (s->n_targets > INDEX_FROM) {
		enter(s);
		first = s->index.n_entered;
	}
	for (size_t i = s->n_targets; i-- > first;) /* newest first, because pids are used again */
		if (s->targets[i]->info.pid == pid && !s->targets[i]->ended)
			return s->targets[i];
	if (!first || !s->index.by_pid.n_slots)
		return NULL;
	t = target_at(&s->index, slot_of_pid(&s->index, pid));
	return t && !t->ended ? t : NULL;
}

struct target *targets__find_process(struct session *s, uint32_t process)
{
	size_t first = 0;

	if (!process)
		return NULL;
	if (s->n_targets > INDEX_FROM) {
		enter(s);
		first = s->index.n_entered;
	}
	for (size_t i = s->n_targets; i-- > first;)
		if (s->targets[i]->process == process)
			return s->targets[i];
	if (!first || !s->index.by_process.n_slots)
		return NULL;
	return target_at(&s->index, slot_of_process(&s->index, process));
}

void targets__forget_entry(struct session *s, size_t at)
{
	struct target_index *x = &s->index;
	struct target *t = s->targets[at];

	if (!t->entry)
		return;
	x->entries[t->entry - 1].target = NULL;
	x->n_gone++;
	x->n_entered--;
	t->entry = 0;
}

void target_index__clear(struct target_index *x)
{
	table__clear(&x->by_pid);
	table__clear(&x->by_process);
	free(x->entries);
	*x = (struct target_index){};
}
