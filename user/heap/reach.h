/* SPDX-License-Identifier: BSD-2-Clause */
/* Which blocks can be reached from the roots. The marking is conservative: every aligned word that
 * points to a block, or into a block, counts as a pointer. So pointers with tags in their low bits
 * count, too; pointers that are stored in another form (XOR, compressed) do not.
 *
 * The heap is read in the order of addresses. There are two ways to mark:
 * - Marking alone. Roots are read first. Large blocks to which the roots lead are read next, with
 *   some of the small blocks on the way to them. These small blocks are later read once more. While
 *   the heap is read, the targets of a marked block are marked at once. A pointer is stored only if
 *   it leads from an unmarked block to an unmarked block, because the block that holds the pointer
 *   may be marked later. So at the end, all pointers between unreachable blocks are stored.
 * - With parents. Each block is read once, and all pointers are stored. Then the blocks are visited
 *   breadth-first, from roots of the best kind (roots.h) first. So the path to a block begins at a
 *   root of the best possible kind, even if the path from a root of a worse kind is shorter. */
#ifndef MEMTRACE_HEAP_REACH_H
#define MEMTRACE_HEAP_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "heap/blocks.h"
#include "heap/edges.h"
#include "heap/late.h"
#include "heap/numbers.h"
#include "heap/roots.h"

struct image;

/* A root that leads to a block directly. */
struct root_word {
	uint64_t addr; /* address of the word; ROOT_REGISTER: 0 */
	enum root_kind kind;
	pid_t tid; /* thread of a ROOT_STACK or ROOT_REGISTER; else 0, also for data of epoll */
};

#define PARENT_NONE 0
#define PARENT_ROOT 0x80000000u /* a flag in `parents`: the other bits are an index in root_words */

/* Free with reach__clear(). */
struct reach {
	struct numbers numbers;
	uint64_t *marked; /* a bit for each block's number; set: the block is reachable */
	uint32_t n_marked;
	struct edges edges;

	/* With parents only. By number: 1 + the number of the block that leads to this block; or
	 * PARENT_ROOT with an index in `root_words`. */
	uint32_t *parents;
	struct root_word *root_words;
	size_t n_root_words, root_words_room;

	uint64_t root_bytes;   /* bytes of roots that were read */
	uint64_t unread_bytes; /* bytes of roots and blocks that could not be read */
};

/* Finds the reachable blocks. The caller keeps all arguments. `blocks` must be finished, and
 * outlive ret. late: NULL if the process is stopped. parents: also fills in ret->parents. Late
 * blocks have no element there. 0; -ENOMEM; -EFBIG or -ETIMEDOUT: a limit of the image was
 * exceeded, and nothing is known. */
int reach__scan(struct image *image, const struct blocks *blocks, const struct roots *roots,
		struct late *late, bool parents, struct reach *ret);
void reach__clear(struct reach *reach);

/* Returns how many bytes of memory the tables of `reach` need. */
size_t reach__bytes(const struct reach *reach);

static inline bool reach__has(const struct reach *reach, uint32_t number)
{
	return bits__test(reach->marked, number);
}

#endif
