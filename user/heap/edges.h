/* SPDX-License-Identifier: BSD-2-Clause */
/* Which block points into which, for all blocks of a heap: about 4 bytes a pointer.
 *
 * Blocks are numbered from 0 on, ascending by address. Pointers mostly lead to neighbours, so a
 * target is stored as the difference of two numbers, in as few bytes as it needs (LEB128). */
#ifndef MEMTRACE_HEAP_EDGES_H
#define MEMTRACE_HEAP_EDGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: no blocks. Free with edges__clear(). */
struct edges {
	unsigned char *bytes;
	size_t n_bytes, room;
	uint64_t *has;	  /* a bit per block: it has pointers */
	uint64_t *starts; /* where the records of every EDGES_STRIDE-th block begin */
	uint32_t filled;  /* how many of starts are set */
	uint64_t n;	  /* pointers that were added */
};

#define EDGES_STRIDE 16

/* For blocks 0 to n_blocks - 1, without pointers yet. 0 or -ENOMEM. */
int edges__init(struct edges *edges, uint32_t n_blocks);
void edges__clear(struct edges *edges);

/* Adds n pointers from a block. A block may be added again with more of them, but never one below
 * the last. 0 or -ENOMEM. */
int edges__add(struct edges *edges, uint32_t from, const uint32_t *to, size_t n);

/* The pointers of one block, as far as they were added. Begin with edges__from(). Adding more ends
 * the walk. */
struct edge_walk {
	const unsigned char *at, *end;
	uint32_t from;	  /* the block that is asked for */
	uint32_t current; /* the block of the present record */
	uint32_t last;	  /* the target that was returned last */
	uint32_t left;	  /* targets left in the record */
};

struct edge_walk edges__from(const struct edges *edges, uint32_t from);

/* The next target. false: there is none. */
bool edge_walk__next(struct edge_walk *walk, uint32_t *ret_to);

#endif
