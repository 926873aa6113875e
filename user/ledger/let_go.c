// SPDX-License-Identifier: BSD-2-Clause
/* Bounds the number of blocks that are followed: see survivors.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/random.h"
#include "ledger/internal.h"

/* Stops following half of the blocks, chosen at random. 0 or -ENOMEM. */
static int halve(struct survivors *s)
{
	for (size_t i = 0; i < s->n_blocks; i++) {
		s->blocks[i].let_go = random__next(&s->random) & 1;
		s->blocks[i].halved += !s->blocks[i].let_go;
	}
	return survivors__let_go_marked(s);
}

/* Adds up the weights of blocks with known contents, by stack and window. NULL: out of memory. */
static double *weigh_hashed(const struct survivors *s, size_t *ret_n)
{
	size_t n = 0, *first = calloc(s->n_stacks + 1, sizeof(*first));
	double *sums;

	for (size_t i = 0; first && i < s->n_stacks; i++) {
		first[i] = n;
		n += s->stacks[i].n_born;
	}
	sums = first ? calloc(n + 1, sizeof(*sums)) : NULL;
	for (size_t i = 0; sums && i < s->n_blocks; i++) {
		const struct survivors_block *b = &s->blocks[i];
		struct windowed_born *born = survivors__born_in(&s->stacks[b->stack], b->window);

		if (born && b->hashed && !survivors__is_regrown(s, &b->live, b->window))
			sums[first[b->stack] + (size_t)(born - s->stacks[b->stack].born)] +=
				weight_bytes(&b->live);
	}
	free(first);
	*ret_n = n;
	return sums;
}

int let_go__half(struct survivors *s)
{
	_cleanup_free_ double *before = NULL, *after = NULL;
	size_t n, at = 0;

	before = weigh_hashed(s, &n);
	if (!before || halve(s))
		return -ENOMEM;
	after = weigh_hashed(s, &n);
	if (!after)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_stacks; i++)
		for (size_t k = 0; k < s->stacks[i].n_born; k++, at++)
			if (before[at] > 0)
				s->stacks[i].looked[k] *= after[at] / before[at];
	return 0;
}
