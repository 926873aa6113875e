/* SPDX-License-Identifier: BSD-2-Clause */
/* Looks again for pointers to the blocks that a scan could not reach (lost.h).
 *
 * A scan that marks all that is reachable takes long, and in a large heap it leaves few blocks
 * over. To confirm these, nothing has to be marked. A block that is lost for good has no pointer
 * to it but from blocks that are lost, too. So all memory is read in the order of addresses, and
 * each word compared with the few blocks in question, the candidates. A pointer outside of the
 * candidates takes the block that it leads to off the list, with all that this block leads to. So
 * do pointers in blocks that nothing may lead to any more: that is a stricter test than to be
 * unreachable.
 *
 * Free memory is full of stale pointers: who frees an object, and forgets what it points to,
 * leaves one. But a word in memory that was free when blocks were listed may also be in a block
 * that was given out since, such as a list's new head. A stale word stays as it is from one look
 * to the next. So such words count if the preceding look has not seen them. The first look has
 * none to compare with: there they do not count yet. */
#ifndef MEMTRACE_HEAP_RECHECK_H
#define MEMTRACE_HEAP_RECHECK_H

#include <stddef.h>
#include <stdint.h>

#include "heap/blocks.h"
#include "heap/edges.h"
#include "heap/lost.h"
#include "heap/numbers.h"
#include "heap/roots.h"

struct image;

#define RECHECK_STALE (1u << 20) /* words; further ones count as pointers */

/* A word in free memory that points to a candidate. */
struct stale_word {
	uint64_t at, value;
};

struct stale_words {
	struct stale_word *list; /* ascending by at */
	size_t n;
};

/* Free with recheck__clear(). */
struct recheck {
	struct lost lost; /* the candidates that are left: no pointer leads to them */
	struct stale_words stale;
	/* with leaks: a number for each block of lost, and their pointers to each other */
	struct numbers numbers;
	struct edges edges;
	uint64_t root_bytes, unread_bytes; /* as in struct reach */
	uint64_t late_beyond; /* pointers to memory that was mapped meanwhile, not followed */
};

/* Which blocks of `before` are still there, with size and content, and without a pointer to them?
 * stale: of the preceding look; NULL: this is the first one. leaks: numbers and edges are wanted.
 * The image, its blocks (finished) and the rest stay the caller's; blocks must outlive ret. 0;
 * -ENOMEM; -EFBIG or -ETIMEDOUT: the image's limits, so nothing is known. */
int recheck__scan(struct image *image, const struct blocks *blocks, const struct roots *roots,
		  const struct lost *before, const struct stale_words *stale, bool leaks,
		  struct recheck *ret);
void recheck__clear(struct recheck *recheck);

/* Memory that the tables take. */
size_t recheck__bytes(const struct recheck *recheck);

#endif
