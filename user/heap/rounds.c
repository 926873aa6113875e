// SPDX-License-Identifier: BSD-2-Clause
#include "heap/rounds.h"

struct rounds rounds__begin(unsigned int least)
{
	return (struct rounds){.least = least,
			       .most = least < ROUNDS_LEAST ? least : least + ROUNDS_MORE};
}

void rounds__hurry(struct rounds *rounds)
{
	if (rounds->n + 1 >= rounds->least)
		rounds->most = rounds->n + 1;
}

bool rounds__is_full(const struct rounds *rounds)
{
	return !rounds->n || rounds->beyond;
}

bool rounds__may_end(const struct rounds *rounds)
{
	unsigned int n = rounds->n + 1;

	return n >= rounds->most || (n >= rounds->least && rounds->calm + 1 >= ROUNDS_CALM);
}

bool rounds__add(struct rounds *rounds, uint64_t left, uint64_t beyond, bool followed)
{
	if (rounds->n && left < rounds->left)
		rounds->taken_off = rounds->left - left;
	rounds->calm = followed && rounds->n && rounds->left == left ? rounds->calm + 1 : 0;
	rounds->left = left;
	rounds->beyond = beyond;
	rounds->n++;
	return rounds->n >= rounds->most || (followed && !left) ||
	       (rounds->n >= rounds->least && rounds->calm >= ROUNDS_CALM);
}

uint64_t rounds__unsettled(const struct rounds *rounds)
{
	return rounds->least >= ROUNDS_LEAST && rounds->left && rounds->calm < ROUNDS_CALM
		       ? rounds->taken_off
		       : 0;
}
