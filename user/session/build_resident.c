// SPDX-License-Identifier: BSD-2-Clause
/* Finds what the resident set is made of, as far as profiles know it. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "capture/snapshot.h"
#include "session/build.h"

static int compare_addrs(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Lists the addresses of the sampled blocks of the heap, ascending. 0 or -ENOMEM. */
static int block_addrs(const struct build *b, uint64_t **ret, size_t *ret_n)
{
	const struct survivors *survivors = &b->target->budget.survivors;
	struct snapshot_live live = snapshot__live_of(&b->drain->live, b->target->process);
	size_t found = 0;
	uint64_t *addrs = calloc(live.n + survivors->n_blocks + 1, sizeof(*addrs));

	if (!addrs)
		return -ENOMEM;
	if (survivors->n_windows) {
		for (size_t i = 0; i < survivors->n_blocks; i++)
			if (survivors_block__may_live(&survivors->blocks[i]))
				addrs[found++] = survivors->blocks[i].addr;
	} else {
		for (size_t i = 0; i < live.n; i++)
			if (live.blocks[i].birth_ns >= b->target->exec_ns &&
			    live.blocks[i].birth != BIRTH_ENDED)
				addrs[found++] = live.keys[i].addr;
	}
	qsort(addrs, found, sizeof(*addrs), compare_addrs);
	*ret = addrs;
	*ret_n = found;
	return 0;
}

int build__resident(const struct build *b, const struct profile *heap,
		    const struct profile *regions, struct resident **ret)
{
	const struct target *t = b->target;
	_cleanup_free_ uint64_t *addrs = NULL;
	size_t n = 0;
	int rc;

	*ret = NULL;
	if (!t->resident.vmrss_bytes)
		return 0;
	if (heap && profile__unknown_why(heap))
		heap = NULL; /* all of the heap is in one row */
	rc = heap ? block_addrs(b, &addrs, &n) : 0;
	if (rc)
		return rc;
	return resident__make(&t->resident, heap, regions, addrs, n,
			      (t->begun_by_exec_ns || t->exec_ns) && !t->allocators_late &&
				      !build__exec_untraced(b),
			      ret);
}
