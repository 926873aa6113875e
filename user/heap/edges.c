// SPDX-License-Identifier: BSD-2-Clause
/* `bytes` of struct edges holds records. A record holds the targets of one block: the blocks to
 * which this block points. The record begins with the LEB128 of (number of targets << 4 | block %
 * EDGES_STRIDE). A number for each target follows. It is the difference between the target and the
 * target before it. For the first target, it is the difference between the target and the block
 * itself. The difference is in zigzag form, like protobuf's sint64. A block that was added twice
 * has two records. */
#include "heap/edges.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/vector.h"

#define MAX_LEB 10 /* bytes of the longest number in LEB128 */

int edges__init(struct edges *edges, uint32_t n_blocks)
{
	*edges = (struct edges){
		.has = calloc(bits__words(n_blocks), sizeof(*edges->has)),
		.starts = calloc((size_t)n_blocks / EDGES_STRIDE + 1, sizeof(*edges->starts)),
	};
	if (edges->has && edges->starts)
		return 0;
	edges__clear(edges);
	return -ENOMEM;
}

void edges__clear(struct edges *edges)
{
	free(edges->bytes);
	free(edges->starts);
	free(edges->has);
	*edges = (struct edges){};
}

static unsigned char *put(unsigned char *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (unsigned char)(value | 0x80);
	*at++ = (unsigned char)value;
	return at;
}

/* Reads a number. put() wrote the number, so its last byte is there, and no limit needs to be
 * checked. */
static const unsigned char *get(const unsigned char *at, uint64_t *ret)
{
	uint64_t value = *at & 0x7f;

	for (unsigned int shift = 7; *at++ & 0x80; shift += 7)
		value |= (uint64_t)(*at & 0x7f) << shift;
	*ret = value;
	return at;
}

/* Sets the element of `starts` for this group, and for each earlier group whose element is not set
 * yet. */
static void fill_starts(struct edges *edges, uint32_t group)
{
	while (edges->filled <= group)
		edges->starts[edges->filled++] = edges->n_bytes;
}

int edges__add(struct edges *edges, uint32_t from, const uint32_t *to, size_t n)
{
	unsigned char *at;
	uint32_t last = from;

	if (!n)
		return 0;
	if (VECTOR_RESERVE(edges->bytes, edges->room, edges->n_bytes + (n + 1) * MAX_LEB))
		return -ENOMEM;
	bits__set(edges->has, from);
	fill_starts(edges, from / EDGES_STRIDE);
	at = put(edges->bytes + edges->n_bytes, (uint64_t)n * EDGES_STRIDE + from % EDGES_STRIDE);
	for (size_t i = 0; i < n; i++) {
		int64_t step = (int64_t)to[i] - last;

		at = put(at, (uint64_t)step << 1 ^ (step < 0 ? UINT64_MAX : 0));
		last = to[i];
	}
	edges->n_bytes = (size_t)(at - edges->bytes);
	edges->n += n;
	return 0;
}

struct edge_walk edges__from(const struct edges *edges, uint32_t from)
{
	uint32_t group = from / EDGES_STRIDE;
	const uint64_t *start = &edges->starts[group];

	if (!bits__test(edges->has, from))
		return (struct edge_walk){.from = from};
	return (struct edge_walk){
		.at = edges->bytes + start[0],
		.end = edges->bytes + (group + 1 < edges->filled ? start[1] : edges->n_bytes),
		.from = from,
	};
}

bool edge_walk__next(struct edge_walk *walk, uint32_t *ret_to)
{
	uint32_t base = walk->from / EDGES_STRIDE * EDGES_STRIDE;
	uint64_t value;

	for (;;) {
		while (!walk->left) {
			if (walk->at == walk->end)
				return false;
			walk->at = get(walk->at, &value);
			walk->current = walk->last = base + (uint32_t)(value % EDGES_STRIDE);
			walk->left = (uint32_t)(value / EDGES_STRIDE);
			if (walk->current > walk->from)
				walk->at = walk->end, walk->left = 0;
		}
		walk->at = get(walk->at, &value);
		walk->left--;
		walk->last += (uint32_t)((value >> 1) ^ -(value & 1));
		if (walk->current == walk->from) {
			*ret_to = walk->last;
			return true;
		}
	}
}
