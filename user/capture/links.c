// SPDX-License-Identifier: BSD-2-Clause
/* Links hold probes in place. This file keeps each link until it is closed. memtrace either waits
 * until a link is closed, or continues with other work. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/vector.h"
#include "capture/internal.h"
#include "capture/shield.h"

int links__keep(struct capture *c, int fd, pid_t pid, uint32_t rank)
{
	/* also reserves room for the link's place in c->closing, because closing the link later
	 * must not fail */
	int slot = VECTOR_ADD_ROOM(c->links, c->n_links) || VECTOR_ADD_ROOM(c->closing, c->n_links)
			   ? -ENOMEM
			   : keeper__hold(c->keeper, fd, rank);

	if (slot < 0) {
		close(fd);
		return slot;
	}
	c->links[c->n_links++] =
		(struct capture_link){.slot = slot, .pid = pid, .object = NO_OBJECT, .rank = rank};
	return 0;
}

/* Appends the place of the link's descriptor to the n places in c->closing. Returns the new number
 * of places there. */
static size_t give_up(struct capture *c, const struct capture_link *link, size_t n)
{
	c->closing[n] = keeper__give_up(c->keeper, link->slot);
	return n + 1;
}

void links__roll_back(struct capture *c, size_t n_links)
{
	while (c->n_links > n_links) {
		int fd = keeper__take(c->keeper, c->links[--c->n_links].slot);

		if (fd >= 0)
			close(fd);
	}
}

static bool is_to_go(const struct capture_link *link, const struct link_choice *choice)
{
	return choice->pid < 0 ||
	       (link->pid == choice->pid && link->on == choice->on &&
		(choice->object == ANY_OBJECT || link->object == choice->object));
}

void links__close(struct capture *c, const struct link_choice *choice)
{
	size_t kept = 0, n = 0;

	for (size_t i = 0; i < c->n_links; i++)
		if (is_to_go(&c->links[i], choice))
			n = give_up(c, &c->links[i], n);
		else
			c->links[kept++] = c->links[i];
	c->n_links = kept;
	shield__close(c->closing, n);
}

/* Closes the chosen links one after the other. Perf events cannot be closed side by side, even by
 * several processes. For each event the kernel waits some 100 ms for all CPUs, and meanwhile holds
 * a lock that all events share. When a link is closed, its breakpoint loses the program at once.
 * But the breakpoint stays until its event is closed, and meanwhile calls are trapped and not
 * counted. (When links were closed side by side, malloc's breakpoint stood for 1.7 s after its
 * program had gone.) So one helper closes each event together with its link, beginning with the
 * functions that are called most. */
static void pause_in_turn(struct capture *c, const struct link_choice *choice)
{
	size_t kept = 0, n = 0; /* n: number of entries in `going`, at most some dozens */
	struct capture_link *going = calloc(c->n_links + 1, sizeof(*going));
	struct shield_closer *closer;

	if (!going) {
		links__close(c, choice);
		return;
	}
	/* Within one rank the links that were made last come first: an event before its link, an
	 * entry before its return. */
	for (size_t i = c->n_links; i-- > 0;) {
		size_t at = n;

		if (!is_to_go(&c->links[i], choice))
			continue;
		for (; at && going[at - 1].rank > c->links[i].rank; at--)
			going[at] = going[at - 1];
		going[at] = c->links[i];
		n++;
	}
	for (size_t i = 0; i < c->n_links; i++)
		if (!is_to_go(&c->links[i], choice))
			c->links[kept++] = c->links[i];
	c->n_links = kept;
	for (size_t i = 0; i < n; i++)
		give_up(c, &going[i], i);
	free(going);
	closer = n ? shield__begin_close(c->closing, n) : NULL;
	if (closer)
		c->closings[c->n_closings++] =
			(struct capture_closing){closer, choice->pid, choice->object};
}

void links__pause(struct capture *c, const struct link_choice *choice)
{
	size_t kept = 0;

	if (VECTOR_RESERVE(c->closings, c->closings_room, c->n_closings + c->n_links)) {
		links__close(c, choice); /* the same order, but memtrace waits until the links are
					  * closed */
		return;
	}
	/* If one object is chosen, one helper closes its links in turn, too. Nobody waits until
	 * these links are closed, and many objects may be released at once. */
	if (c->kind == PROBE_PERF || choice->object != ANY_OBJECT) {
		pause_in_turn(c, choice);
		return;
	}
	for (size_t i = 0; i < c->n_links; i++) {
		struct shield_closer *closer;

		if (!is_to_go(&c->links[i], choice)) {
			c->links[kept++] = c->links[i];
			continue;
		}
		give_up(c, &c->links[i], 0);
		if (!atomic_load(c->closing[0])) /* the keeper has closed the descriptor */
			continue;
		closer = shield__begin_close(c->closing, 1);
		if (closer)
			c->closings[c->n_closings++] = (struct capture_closing){
				closer, c->links[i].pid, c->links[i].object};
	}
	c->n_links = kept;
}

bool links__any_of(const struct capture *c, int object)
{
	for (size_t i = 0; i < c->n_links; i++)
		if (c->links[i].object == object)
			return true;
	for (size_t i = 0; i < c->n_closings; i++)
		if (c->closings[i].object == object || c->closings[i].object == ANY_OBJECT)
			return true;
	return false;
}

size_t capture__pausing(struct capture *c, pid_t pid)
{
	size_t kept = 0, n = 0;

	for (size_t i = 0; i < c->n_closings; i++) {
		if (shield__end_close(c->closings[i].closer, false))
			continue;
		n += pid < 0 || c->closings[i].pid == pid;
		c->closings[kept++] = c->closings[i];
	}
	c->n_closings = kept;
	return n;
}

static void await_closings(struct capture *c)
{
	for (size_t i = 0; i < c->n_closings; i++)
		shield__end_close(c->closings[i].closer, true);
	c->n_closings = 0;
}

void capture__detach(struct capture *c)
{
	links__close(c, &(struct link_choice){-1, ON_ALLOCATORS, ANY_OBJECT});
	await_closings(c);
}

/* --- the keeper --- */

void capture__beat(struct capture *c)
{
	keeper__beat(c->keeper);
}

void capture__set_patience(struct capture *c, unsigned patience_ms)
{
	c->patience_ms = patience_ms;
	keeper__set_patience(c->keeper, patience_ms);
}

bool capture__is_kept(struct capture *c)
{
	return keeper__lives(c->keeper);
}

uint64_t capture__withdrawn_ns(const struct capture *c)
{
	return keeper__withdrawn_ns(c->keeper);
}

/* Also closes probes that were placed after the withdrawal. Such a probe may be one half of a pair,
 * and the keeper may have withdrawn the other half. */
void capture__accept_withdrawal(struct capture *c)
{
	links__close(c, &(struct link_choice){-1, ON_ALLOCATORS, ANY_OBJECT});
	capture__pause(c, 0); /* notes that the probes are out */
	/* A closer that works in turn may still have slots on its list that the keeper has emptied.
	 * The closer must not find a new probe in such a slot. */
	await_closings(c);
	keeper__resume(c->keeper);
}
