// SPDX-License-Identifier: BSD-2-Clause
#include "heap/large.h"

#include <errno.h>
#include <stdlib.h>

#include "sandbox/stream.h"

/* What the child sends: this, then n blocks. */
struct head {
	uint64_t n, glibc, jemalloc;
	uint64_t known; /* 0: no list can be given */
};

struct choice {
	struct large_block *at;
	size_t n;
	uint64_t above; /* bytes */
	bool too_many;
};

static int choose(const struct block *block, void *ctx)
{
	struct choice *c = ctx;

	if (!block->in_use || block->span->kind != SPAN_SINGLE || block->size <= c->above)
		return 0;
	if (c->n == LARGE_MAX) {
		c->too_many = true;
		return 1;
	}
	c->at[c->n++] = (struct large_block){block->start, block->size};
	return 0;
}

bool large__choose(const struct blocks *blocks, const struct heap_found *found,
		   struct large_blocks *ret)
{
	const struct heap_quality *glibc = &found->quality[HEAP_GLIBC];
	struct choice c = {.at = ret->at};

	/* Any two words may look like the header of a mapped block. So a list is given only if the
	 * bytes that were found equal those that glibc itself counts. */
	if (!found->n_arenas || found->stopped || glibc->own_large != glibc->found_large)
		return false;
	for (size_t i = 0; i < found->n_arenas; i++) {
		ret->glibc |= found->arenas[i]->allocator == HEAP_GLIBC;
		ret->jemalloc |= found->arenas[i]->allocator == HEAP_JEMALLOC;
	}
	c.above = large_blocks__above(ret);
	blocks__each(blocks, choose, &c);
	ret->n = c.n;
	return !c.too_many;
}

static enum child_exit send(const struct scan_view *view, FILE *out, void *ctx)
{
	static struct large_block room[LARGE_MAX];
	struct large_blocks list = {.at = room};
	struct head head = {};

	(void)ctx;
	head.known = large__choose(view->blocks, view->found, &list);
	head.n = head.known ? list.n : 0;
	head.glibc = list.glibc;
	head.jemalloc = list.jemalloc;
	fwrite(&head, sizeof(head), 1, out);
	fwrite(room, sizeof(*room), head.n, out);
	return ferror(out) ? CHILD_FAILED : CHILD_DONE;
}

int large__start(pid_t pid, const struct maps *maps, struct scan **ret, struct error *err)
{
	const struct scan_task task = {
		.fn = send,
		.alone = true,
		.patience_s = LARGE_PATIENCE_S,
		.max_out_bytes = sizeof(struct head) + LARGE_MAX * sizeof(struct large_block),
	};

	return scan__start(pid, maps, &task, ret, err);
}

bool large__ready(struct scan *scan)
{
	return stream__closed(scan__stream(scan));
}

/* Do the blocks ascend, does none overlap the next one, and is each one large? */
static bool is_sound(const struct large_blocks *blocks)
{
	for (size_t i = 0; i < blocks->n; i++)
		if (blocks->at[i].size <= large_blocks__above(blocks) ||
		    blocks->at[i].addr > UINT64_MAX - blocks->at[i].size ||
		    (i && blocks->at[i].addr < blocks->at[i - 1].addr + blocks->at[i - 1].size))
			return false;
	return true;
}

/* Reads up to the end of the stream: a child that has not ended is killed by scan__end(). */
static int receive(struct stream *stream, struct large_blocks *ret)
{
	struct head head;
	int rc = stream__read_all(stream, &head, sizeof(head)), got;
	char more;

	if (rc)
		return rc;
	if (head.n > LARGE_MAX)
		return -EPROTO;
	ret->at = calloc(head.n + 1, sizeof(*ret->at));
	if (!ret->at)
		return -ENOMEM;
	ret->n = head.n;
	ret->glibc = head.glibc;
	ret->jemalloc = head.jemalloc;
	rc = head.n ? stream__read_all(stream, ret->at, head.n * sizeof(*ret->at)) : 0;
	got = rc ?: stream__read(stream, &more, 1);
	if (got)
		return got < 0 ? got : -EPROTO;
	if (!head.known)
		return -ENODATA;
	return is_sound(ret) ? 0 : -EPROTO;
}

int large__end(struct scan *scan, struct large_blocks *ret)
{
	int rc, end;

	*ret = (struct large_blocks){};
	rc = receive(scan__stream(scan), ret);
	end = scan__end(scan);
	if (!rc || end == -EPERM)
		rc = end;
	if (rc)
		large_blocks__clear(ret);
	return rc;
}
