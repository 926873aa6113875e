// SPDX-License-Identifier: BSD-2-Clause
#include "profile/large.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"

bool large_blocks__are_unseen(const struct profile_location *location)
{
	return location->addr >= PROFILE_NO_ADDR && location->n_frames == 1 &&
	       !strcmp(location->frames[0].name, LARGE_UNSEEN);
}

void large_blocks__clear(struct large_blocks *blocks)
{
	free(blocks->at);
	*blocks = (struct large_blocks){};
}

const struct large_block *large_blocks__find(const struct large_blocks *blocks, uint64_t addr)
{
	size_t at = SEARCH_FIRST(i, blocks->n, blocks->at[i].addr >= addr);

	return at < blocks->n && blocks->at[at].addr == addr ? &blocks->at[at] : NULL;
}

double large__share(struct large_stack *stacks, size_t n, double unseen)
{
	double more = 0, k;

	for (size_t i = 0; i < n; i++)
		more += fmax(stacks[i].estimate - stacks[i].seen, 0);
	k = more > unseen ? unseen / more : 1;
	for (size_t i = 0; i < n; i++)
		stacks[i].live = stacks[i].seen + k * fmax(stacks[i].estimate - stacks[i].seen, 0);
	return unseen - k * more;
}
