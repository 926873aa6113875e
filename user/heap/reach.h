/* SPDX-License-Identifier: BSD-2-Clause */
/* Which blocks can be reached from the roots, by conservative marking: every aligned word that
 * points to a block, or into one, counts as a pointer. So pointers with tags in their low bits
 * count, too; pointers that are stored in another form (XOR, compressed) do not.
 *
 * The heap is read once, in the order of addresses. Two ways:
 * - Marking alone. Roots are read first. While the heap is read, the targets of a marked block
 * are marked at once. Only the pointers of unmarked blocks to unmarked blocks are kept, because
 * such a block may be marked later. Afterwards the pointers among unreachable blocks are all
 * there.
 * - With parents. All pointers are kept. Then the blocks are visited breadth-first, from roots of
 * the best kind (roots.h) first. A block that can be reached from a root of one kind is never
 * explained by a root of a worse kind, however short that path may be. */
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
	uint64_t addr; /* of the word; ROOT_REGISTER: 0 */
	enum root_kind kind;
	pid_t tid; /* of ROOT_STACK and ROOT_REGISTER; else 0 */
};

#define PARENT_NONE 0
#define PARENT_ROOT 0x80000000u /* the rest is an index into root_words */

/* Free with reach__clear(). */
struct reach {
	struct numbers numbers;
	uint64_t *marked; /* a bit per number: reachable */
	uint32_t n_marked;
	struct edges edges;

	/* With parents only. By number: 1 + the number of the block that leads to it; or
	 * PARENT_ROOT. */
	uint32_t *parents;
	struct root_word *root_words;
	size_t n_root_words, root_words_room;

	uint64_t root_bytes;   /* of roots that were read */
	uint64_t unread_bytes; /* that were there, but could not be read */
};

/* The image, its blocks (finished), the roots and late (NULL: the process is stopped) stay the
 * caller's; blocks must outlive ret. Late blocks are left out of paths. 0;
 * -ENOMEM; -EFBIG or -ETIMEDOUT: the image's limits, so nothing is known. */
int reach__scan(struct image *image, const struct blocks *blocks, const struct roots *roots,
		struct late *late, bool parents, struct reach *ret);
void reach__clear(struct reach *reach);

/* Memory that the tables take. */
size_t reach__bytes(const struct reach *reach);

static inline bool reach__has(const struct reach *reach, uint32_t number)
{
	return bits__test(reach->marked, number);
}

#endif
