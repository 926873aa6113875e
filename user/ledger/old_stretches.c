// SPDX-License-Identifier: BSD-2-Clause
/* Merges old stretches of continuous tracing: see old_windows.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "ledger/internal.h"
#include "ledger/old_windows.h"

#define MOST_KEPT (OLD_WINDOWS_MAX / 4 * 3)
#define RECENT	  (OLD_WINDOWS_MAX / 2)

/* Is window i a stretch of the same program as the stretch just before it? Only such stretches can
 * be merged. The other stretches need no limit: there are at most as many of them as kept
 * windows. */
static bool follows(const struct survivors *s, size_t i)
{
	const struct survivors_window *w = &s->windows[i];

	return i && w->continuous && w[-1].continuous &&
	       (w[-1].start_ns >= s->exec_ns || w->end_ns <= s->exec_ns);
}

static size_t count_followers(const struct survivors *s)
{
	size_t n = 0;

	if (s->n_windows < OLD_WINDOWS_MAX)
		return 0;
	for (size_t i = 0; i < s->n_windows; i++)
		n += follows(s, i);
	return n;
}

/* Sets ret[i] to the new index of window i. Windows that are merged get the same index. Returns how
 * many stretches directly follow another stretch and are not merged with it. */
static size_t choose(const struct survivors *s, uint64_t most_parts, uint32_t *ret)
{
	uint64_t parts = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->n_windows; i++) {
		bool next = follows(s, i);

		parts += s->windows[i].parts;
		if (next && i + RECENT < s->n_windows && parts <= most_parts) {
			ret[i] = ret[i - 1];
			continue;
		}
		parts = s->windows[i].parts;
		ret[i] = i ? ret[i - 1] + 1 : 0;
		n += next;
	}
	return n;
}

/* Is window i the last one of the windows that get the same index? */
static bool is_last(const struct survivors *s, const uint32_t *index, size_t i)
{
	return i + 1 == s->n_windows || index[i + 1] != index[i];
}

/* Swaps each stretch that is merged with the gap behind it. 0 or -ENOMEM. */
static int swap_gaps(const struct survivors *s, const uint32_t *index, struct net_clock *clock)
{
	_cleanup_free_ struct net_clock_swap *swaps = calloc(s->n_windows, sizeof(*swaps));
	uint64_t open_ns = 0, begin_ns = 0;
	size_t n = 0;

	if (!swaps)
		return -ENOMEM;
	for (size_t i = 1; i < s->n_windows; i++) {
		const struct survivors_window *w = &s->windows[i];

		if (index[i] != index[i - 1])
			continue;
		if (i == 1 || index[i - 2] != index[i - 1]) {
			open_ns = old_windows__opened_ns(s, clock, i - 1);
			begin_ns = w[-1].start_ns;
		}
		swaps[n] = (struct net_clock_swap){open_ns, begin_ns, w[-1].end_ns, w->start_ns};
		open_ns = begin_ns = net_clock_swap__begin_ns(&swaps[n++]);
	}
	return net_clock__swap(clock, swaps, n);
}

/* Adds what a stack did in a stretch to what it did in the stretch before. before: bytes that were
 * held when the first of the two stretches began.
 *
 * Some of the blocks that were lost in the second stretch were born in the first one, the rest
 * before it. Of the bytes held between the two stretches, blocks from before the first stretch had
 * a share. It is assumed that these blocks have the same share of the bytes lost in the second
 * stretch. */
static void add_births(struct windowed_born *to, const struct windowed_born *born, double before)
{
	double kept = fmax(before - to->lost_bytes, 0);
	uint32_t n = (to->samples ? to->more + 1 : 0) + (born->samples ? born->more + 1 : 0);

	if (to->held_bytes > 0)
		to->lost_bytes += born->lost_bytes * fmin(kept / to->held_bytes, 1);
	to->more = n ? n - 1 : 0;
	to->samples += born->samples;
	to->bytes += born->bytes;
	to->objects += born->objects;
	to->squares += born->squares;
	to->earlier_bytes = to->left_bytes + born->earlier_bytes;
	to->left_bytes += born->left_bytes;
	to->held_bytes = born->held_bytes;
	to->held_objects = born->held_objects;
	to->held_squares = born->held_squares;
}

static void merge_births(struct survivors_stack *stack, const struct survivors *s,
			 const uint32_t *index)
{
	double held = 0, before = 0; /* held: bytes held now. before: bytes held when the present
				      * merged stretch began */
	size_t kept = 0;

	for (size_t i = 0; i < stack->n_born; i++) {
		struct windowed_born born = stack->born[i], *to = &stack->born[kept];
		bool last = is_last(s, index, born.window);
		bool continuous = s->windows[born.window].continuous;

		born.window = index[born.window];
		if (kept && to[-1].window == born.window) {
			add_births(--to, &born, before);
			stack->looked[kept - 1] += stack->looked[i];
		} else {
			before = held;
			*to = born;
			stack->looked[kept++] = stack->looked[i];
		}
		/* the last of the merged stretches may have no element: then it has left nothing of
		 * its own */
		if (!last)
			to->earlier_bytes = to->left_bytes;
		held = continuous ? to->held_bytes : fmax(held - born.lost_bytes, 0);
	}
	stack->n_born = kept;
}

static void merge_windows(struct survivors *s, const uint32_t *index)
{
	for (size_t i = 0; i < s->n_windows; i++) {
		struct survivors_window w = s->windows[i], *to = &s->windows[index[i]];

		if (i && index[i] == index[i - 1]) {
			w.start_ns -= to->end_ns - to->start_ns;
			w.allocs += to->allocs;
			w.net_blocks += to->net_blocks;
			w.bulk |= to->bulk;
			w.parts += to->parts;
		}
		*to = w;
	}
	s->n_windows = index[s->n_windows - 1] + 1;
}

int old_stretches__merge(struct survivors *s, struct net_clock *clock)
{
	_cleanup_free_ uint32_t *index = NULL;

	if (count_followers(s) < OLD_WINDOWS_MAX)
		return 0;
	index = calloc(s->n_windows, sizeof(*index));
	if (!index)
		return -ENOMEM;
	s->most_parts = s->most_parts ? s->most_parts : 1;
	while (choose(s, s->most_parts, index) > MOST_KEPT)
		s->most_parts *= 2;
	if (swap_gaps(s, index, clock))
		return -ENOMEM;
	for (size_t i = 0; i < s->n_blocks; i++)
		s->blocks[i].window = index[s->blocks[i].window];
	for (size_t i = 0; i < s->n_stacks; i++)
		merge_births(&s->stacks[i], s, index);
	merge_windows(s, index);
	return 0;
}
