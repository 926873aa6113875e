/* SPDX-License-Identifier: BSD-2-Clause */
/* Looks again for pointers to the blocks that a scan could not reach (lost.h).
 *
 * A full scan marks all reachable blocks, which takes long. In a large heap, the full scan finds
 * few unreachable blocks: the candidates. Only lost blocks point to a lost block, so the candidates
 * can be confirmed without marking any block. A recheck reads all memory in the order of addresses,
 * and compares each word with the candidates. A pointer outside of the candidates takes its target
 * off the list, together with all candidates to which the target leads. Such a pointer takes its
 * target off even if the pointer is in an unreachable block. So a recheck is stricter than a full
 * scan.
 *
 * Free memory is full of stale pointers, because the content of a freed block stays. But memory
 * that was free when the blocks were listed may have been allocated since, for example for the new
 * head of a linked list. A stale word does not change from one recheck to the next. So a word in
 * free memory counts only if the preceding recheck has not seen it. The first recheck has nothing
 * to compare with, so no such word counts there.
 *
 * glibc's links between free chunks look like pointers to the last word of a block. They are in
 * free memory, and in new blocks where the program has not written yet. While blocks come and go,
 * each recheck finds such links in new places. So in free memory, a pointer to the last word of a
 * block never counts. In a block in use, such a pointer counts only if the preceding recheck has
 * seen such a pointer at the same place. There is one exception: a pointer that is itself the last
 * word of its block counts like any other pointer. In some lists, each block's last word points to
 * the last word of the next block. (So a block is called lost by mistake if three things are true
 * of the only pointer to it. The pointer leads to the block's last word. The pointer is not itself
 * the last word of a block. In each recheck, the pointer is in another place.) */
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

/* at most this many stale words are listed; further stale words count as pointers */
#define RECHECK_STALE (1u << 20)

#define STALE_LINK 1 /* a bit of stale_word.at */

/* A word that perhaps points to a candidate. */
struct stale_word {
	/* Address of the word, a multiple of 8. With STALE_LINK: the word is in a block in use, and
	 * looks like a link of glibc. Without STALE_LINK, it is in free memory. */
	uint64_t at;
	uint64_t value;
};

struct stale_words {
	struct stale_word *list; /* ascending by `at` */
	size_t n;
};

/* Free with recheck__clear(). */
struct recheck {
	struct lost lost; /* the candidates that are left: no pointer leads to them */
	struct stale_words stale;
	/* if leaks are wanted: a number for each block of `lost`, and the pointers between these
	 * blocks */
	struct numbers numbers;
	struct edges edges;
	uint64_t root_bytes, unread_bytes; /* these members are as in struct reach */
	size_t table_bytes;   /* memory of all tables, with those that are already freed */
	uint64_t late_beyond; /* pointers to newly mapped memory that were not followed */
};

/* Lists each block of `before` if its size and content are unchanged, and no pointer leads to it.
 * stale: from the preceding recheck; NULL: this is the first one. leaks: numbers and edges are
 * wanted. The caller keeps all arguments. blocks must be finished, and outlive ret. 0; -ENOMEM;
 * -EFBIG or -ETIMEDOUT: a limit of the image was exceeded, and nothing is known. */
int recheck__scan(struct image *image, const struct blocks *blocks, const struct roots *roots,
		  const struct lost *before, const struct stale_words *stale, bool leaks,
		  struct recheck *ret);
void recheck__clear(struct recheck *recheck);

#endif
