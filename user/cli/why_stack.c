// SPDX-License-Identifier: BSD-2-Clause
/* memtrace why --stack: traces the process for a while, to find live blocks of the stacks that the
 * user asks for. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "cli/cli.h"
#include "cli/sampled.h"
#include "cli/why.h"

DEFINE_CLEANUP(struct session *, cleanup_session, session__free)

/* For each location: does the expression match one of its functions? NULL: out of memory. */
static bool *match_locations(const struct profile *profile, const regex_t *pattern)
{
	bool *matched = calloc(profile->n_locations + 1, sizeof(*matched));

	for (size_t i = 0; matched && i < profile->n_locations; i++) {
		const struct profile_location *location = &profile->locations[i];

		for (size_t k = 0; k < location->n_frames && !matched[i]; k++)
			matched[i] = !regexec(pattern, location->frames[k].name, 0, NULL, 0);
	}
	return matched;
}

static int compare_blocks(const void *a, const void *b)
{
	const struct profile_block *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Chooses blocks evenly, and puts them into *ret, ascending by address. */
static void choose_blocks(struct profile_block *blocks, size_t n, struct why_stack *ret)
{
	size_t distinct = 0;

	if (n)
		qsort(blocks, n, sizeof(*blocks), compare_blocks);
	/* Windows may have sampled a block and also a later block at the same address. */
	for (size_t i = 0; i < n; i++)
		if (!distinct || blocks[i].addr != blocks[distinct - 1].addr)
			blocks[distinct++] = blocks[i];
	ret->n_live = distinct;
	ret->n = distinct < WHY_MAX_ADDRS ? distinct : WHY_MAX_ADDRS;
	for (size_t i = 0; i < ret->n; i++) {
		const struct profile_block *block = &blocks[i * distinct / ret->n];

		ret->addrs[i] = block->addr;
		ret->sizes[i] = block->size;
	}
}

/* Finds the sampled blocks of the stacks that match, and chooses from them. 0 or -ENOMEM. */
static int take_blocks(const struct profile *profile, const regex_t *pattern, struct why_stack *ret)
{
	_cleanup_free_ bool *matched = match_locations(profile, pattern);
	_cleanup_free_ struct profile_block *blocks = NULL;
	size_t n = 0;

	if (!matched)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];
		bool wanted = false;

		for (uint32_t k = 0; k < site->n_locations && !wanted; k++)
			wanted = matched[site->locations[k]];
		ret->any |= wanted;
		for (size_t k = 0; wanted && k < site->n_blocks; k++) {
			if (VECTOR_ADD_ROOM(blocks, n))
				return -ENOMEM;
			blocks[n++] = site->blocks[k];
		}
	}
	choose_blocks(blocks, n, ret);
	return 0;
}

static int find_blocks(pid_t pid, double duration_s, const regex_t *pattern, struct why_stack *ret)
{
	_cleanup_(cleanup_session) struct session *session = NULL;
	const struct profile *profile;
	int rc = sampled__trace(pid, duration_s, "why", &session, &profile);

	if (rc || !profile)
		return rc;
	if (take_blocks(profile, pattern, ret) || why_makers__new(profile, &ret->makers))
		return no_memory();
	return 0;
}

void why_stack__free(struct why_stack *stack)
{
	if (!stack)
		return;
	why_makers__free(stack->makers);
	free(stack);
}

int why_stack__find(pid_t pid, double duration_s, const char *pattern, const regex_t *regex,
		    struct why_stack *ret)
{
	int rc = find_blocks(pid, duration_s, regex, ret);

	if (rc)
		return rc;
	if (!ret->any)
		complain("in %.0f s of tracing pid %d, no sample had a function that matches '%s'",
			 duration_s, (int)pid, pattern);
	else if (!ret->n)
		complain("stacks of pid %d match '%s', but no block of theirs that was sampled in "
			 "%.0f s is known to live",
			 (int)pid, pattern, duration_s);
	else
		complain("sampled blocks that live, of stacks that match '%s': %zu", pattern,
			 ret->n_live);
	return ret->n ? 0 : EXIT_FAILED;
}
