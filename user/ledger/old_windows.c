// SPDX-License-Identifier: BSD-2-Clause
#include "ledger/old_windows.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "ledger/internal.h"

#define DROPPED	  UINT32_MAX
#define MOST_KEPT (OLD_WINDOWS_MAX / 4 * 3)
#define RECENT	  (OLD_WINDOWS_MAX / 2)

/* Is the window kept if one in `stride` of the older windows is kept? When `stride` doubles, no
 * window that was dropped before is needed again. Each round of WINDOWED_GROUPS windows keeps other
 * groups than the round before, so all groups stay equally large. */
static bool is_kept(const struct survivors_window *w, uint64_t last, uint64_t stride)
{
	return w->continuous || w->number + RECENT > last ||
	       (w->number + w->number / WINDOWED_GROUPS) % stride == 0;
}

/* Sets ret[i] to the new index of window i, or to DROPPED. Returns how many windows are kept,
 * without stretches. */
static size_t choose(const struct survivors *s, uint64_t stride, uint32_t *ret)
{
	uint64_t last = s->windows[s->n_windows - 1].number;
	uint32_t kept = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->n_windows; i++) {
		ret[i] = is_kept(&s->windows[i], last, stride) ? kept++ : DROPPED;
		n += ret[i] != DROPPED && !s->windows[i].continuous;
	}
	return n;
}

static bool has_too_many(const struct survivors *s)
{
	size_t n = 0;

	if (s->n_windows < OLD_WINDOWS_MAX)
		return false;
	for (size_t i = 0; i < s->n_windows; i++)
		n += !s->windows[i].continuous;
	return n >= OLD_WINDOWS_MAX;
}

static uint64_t middle(uint64_t from, uint64_t to)
{
	return to > from ? from + (to - from) / 2 : from;
}

/* When had the probes of window i been taken out? */
static uint64_t closed_ns(const struct survivors *s, const struct net_clock *clock, size_t i)
{
	uint64_t end = s->windows[i].end_ns,
		 until = i + 1 < s->n_windows ? s->windows[i + 1].start_ns : UINT64_MAX,
		 edge = net_clock__edge_ns(clock, NET_CLOCK_ENDS, end, until);

	return edge ? edge : end;
}

uint64_t old_windows__opened_ns(const struct survivors *s, const struct net_clock *clock, size_t i)
{
	uint64_t start = s->windows[i].start_ns,
		 edge = net_clock__edge_ns(clock, NET_CLOCK_NONE,
					   i ? closed_ns(s, clock, i - 1) + 1 : 0, start + 1);

	return edge ? edge : start;
}

/* Returns the middle of the gap after window i. It is never before the window's last edge. */
static uint64_t middle_of_gap(const struct survivors *s, const struct net_clock *clock, size_t i)
{
	return middle(closed_ns(s, clock, i), old_windows__opened_ns(s, clock, i + 1));
}

/* Drops what the stack allocated in windows that are dropped. If such a window saw bytes of earlier
 * stretches end, these bytes are moved to the next window that is kept. */
static void drop_births(struct survivors_stack *stack, const uint32_t *index)
{
	double lost = 0;
	size_t kept = 0;

	for (size_t i = 0; i < stack->n_born; i++) {
		struct windowed_born *to = &stack->born[kept];

		lost += stack->born[i].lost_bytes;
		if (index[stack->born[i].window] == DROPPED)
			continue;
		*to = stack->born[i];
		to->window = index[to->window];
		to->lost_bytes = lost;
		lost = 0;
		stack->looked[kept++] = stack->looked[i];
	}
	if (kept)
		stack->born[kept - 1].lost_bytes += lost;
	stack->n_born = kept;
}

/* Lets go the blocks that were born in windows that are dropped. 0 or -ENOMEM. */
static int drop_blocks(struct survivors *s, const uint32_t *index)
{
	for (size_t i = 0; i < s->n_blocks; i++)
		s->blocks[i].let_go |= index[s->blocks[i].window] == DROPPED;
	return survivors__let_go_marked(s);
}

static void drop_records(struct reallocs *c, const struct survivors *s, const uint32_t *index)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n_records; i++) {
		size_t later = SEARCH_FIRST(k, s->n_windows,
					    s->windows[k].start_ns > c->records[i].start_ns);

		if (!later || index[later - 1] != DROPPED)
			c->records[kept++] = c->records[i];
	}
	c->n_records = kept;
}

/* Drops the edges of dropped windows from the clock, and all other points from the middle of the
 * gap before such a window to the middle of the gap after it. A gap lasts from one window's last
 * edge to the first edge of the next window. A window's last edge may be seconds after the window
 * was over, if memtrace was held up or the keeper took the probes out. The last window is never
 * dropped. 0 or -ENOMEM. */
static int drop_edges(struct survivors *s, const uint32_t *index, struct net_clock *clock)
{
	_cleanup_free_ struct net_clock_range *ranges = calloc(s->n_windows, sizeof(*ranges));
	size_t n = 0;

	if (!ranges)
		return -ENOMEM;
	for (size_t i = 0; i + 1 < s->n_windows; i++) {
		const struct survivors_window *w = &s->windows[i];

		if (index[i] != DROPPED)
			continue;
		s->dropped_s += net_clock__at(clock, w->end_ns) - net_clock__at(clock, w->start_ns);
		ranges[n++] = (struct net_clock_range){
			i ? middle_of_gap(s, clock, i - 1) + 1 : 0,
			middle_of_gap(s, clock, i),
		};
	}
	net_clock__forget(clock, ranges, n);
	return 0;
}

int old_windows__drop(struct survivors *s, struct net_clock *clock, struct reallocs *reallocs)
{
	_cleanup_free_ uint32_t *index = NULL;
	uint64_t last;
	size_t kept = 0;

	if (!has_too_many(s))
		return old_stretches__merge(s, clock);
	index = calloc(s->n_windows, sizeof(*index));
	if (!index)
		return -ENOMEM;
	s->stride = s->stride ? s->stride : 1;
	while (choose(s, s->stride, index) > MOST_KEPT)
		s->stride *= 2;
	if (drop_blocks(s, index) || drop_edges(s, index, clock))
		return -ENOMEM;
	for (size_t i = 0; i < s->n_blocks; i++)
		s->blocks[i].window = index[s->blocks[i].window];
	for (size_t i = 0; i < s->n_stacks; i++)
		drop_births(&s->stacks[i], index);
	drop_records(reallocs, s, index);
	last = s->windows[s->n_windows - 1].number;
	for (size_t i = 0; i < s->n_windows; i++) {
		struct survivors_window *w = &s->windows[kept];

		if (index[i] == DROPPED)
			continue;
		*w = s->windows[i];
		if (!w->continuous && w->number + RECENT <= last)
			w->stands = (double)s->stride;
		kept++;
	}
	s->n_windows = kept;
	return old_stretches__merge(s, clock);
}
