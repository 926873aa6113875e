/* SPDX-License-Identifier: BSD-2-Clause */
/* The pointers between the blocks of a heap: which block points into which other block. The tables
 * need about 4 bytes per pointer.
 *
 * Blocks are numbered from 0 on, ascending by address. Most pointers lead to a block whose number
 * is close to the number of the pointing block. So each target is stored as a difference of two
 * numbers, and LEB128 stores a small difference in few bytes. */
#ifndef MEMTRACE_HEAP_EDGES_H
#define MEMTRACE_HEAP_EDGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: no blocks. Free with edges__clear(). */
struct edges {
	unsigned char *bytes;
	size_t n_bytes, room;
	uint64_t *has;	  /* a bit per block; set: the block has pointers to other blocks */
	uint64_t *starts; /* where in `bytes` each group of EDGES_STRIDE blocks begins */
	uint32_t filled;  /* how many elements of `starts` are set */
	uint64_t n;	  /* pointers that were added */
};

#define EDGES_STRIDE 16

/* Prepares edges for blocks 0 to n_blocks - 1, without pointers. 0 or -ENOMEM. */
int edges__init(struct edges *edges, uint32_t n_blocks);
void edges__clear(struct edges *edges);

/* Adds n pointers, from the block `from` to the blocks in `to`. Blocks must be added in ascending
 * order. The last block may be added again, with more pointers. 0 or -ENOMEM. */
int edges__add(struct edges *edges, uint32_t from, const uint32_t *to, size_t n);

/* A walk over the pointers of one block. It visits the pointers that were added so far.
 * edges__from() begins it. A call of edges__add() makes the walk invalid. */
struct edge_walk {
	const unsigned char *at, *end;
	uint32_t from;	  /* the block whose pointers are wanted */
	uint32_t current; /* the block of the current record */
	uint32_t last;	  /* the target that was returned last */
	uint32_t left;	  /* targets left in the record */
};

/* Begins a walk over the blocks to which block number `from` points. */
struct edge_walk edges__from(const struct edges *edges, uint32_t from);

/* Finds the next target. False: there is none. */
bool edge_walk__next(struct edge_walk *walk, uint32_t *ret_to);

#endif
