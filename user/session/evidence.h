/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes of blocks that are sampled in windows: most of their frees happen while no probe is in
 * place. Four kinds of evidence are held together for each block.
 *
 *   events    its free, or a sampled block at its address, was seen in a later window: it is dead.
 *   content   a keyed hash of its first bytes, taken a moment after its window (whoever asked for it has
 *	       filled it in by then) and again later: changed, it is in use, or replaced; unchanged, it is
 *	       forgotten, or data that nobody writes to.
 *   mapping   its memory is not mapped any more: it is dead.
 *   marks     what the allocator notes beside it says that it is free: it is dead (see below).
 *
 * What is left, the survivors, is what a leak leaves behind; what stays and is only read looks the same, but
 * is not added to for ever, which is what growth is computed from (profile/growth.h). The content itself
 * is never kept.
 *
 * Marks are glibc's alone, whose notes stand beside each block: the word before it holds its chunk's size and
 * three flags, and the lowest bit (PREV_INUSE) of the same word of the next chunk says whether it is in use. (musl,
 * jemalloc, tcmalloc and mimalloc keep theirs elsewhere, in forms that differ by version and build: no marks.) Of
 * a block in use this holds at every moment, whatever other threads do:
 *
 *  1. The size is one that chunks have: 32 bytes or more, in steps of 16. It is written before malloc returns; from
 *     then on nothing but that bit of the word changes until the block is freed, or resized by realloc where it is.
 *     (What is there then is rule 5's and the content's to tell: the same block, or another at its place.)
 *  2. The next chunk's bit is set. It is cleared by the free of the block, and by that of no other, under the
 *     arena's lock; who allocates, splits, merges or trims the next chunk writes its word with the bit set.
 *  3. It lies in no free chunk. One of these has its size twice: in the word at its beginning, whose bit is
 *     set, and just before the chunk behind it, whose bit is cleared; where free space is split or joined both
 *     are written anew. This tells of a block that was joined with free chunks on both sides, which leaves 1 and
 *     2 as they were. Looked at are the ends of the next chunks.
 *
 * So none has to be read at the same moment as the other, and one look that finds one broken has read after the
 * block's end: free, merged into a larger free chunk, or its place taken by another's data. What is read is the
 * target's and may be anything: it decides about the block, and where a few more words are read.
 *
 * Beyond a proof are program and library versions where a block is not where its chunk is (mcheck() and hooks in
 * front of malloc): a size class counts when EVIDENCE_WHOLE looks have found blocks of it, or of small ones near it, as above, and
 * of the size that their requests were rounded up to, or up to 32 bytes more (a remainder too small for a chunk of its own; of
 * page-aligned blocks, pvalloc's, up to a page more).
 *
 * A free leaves a few blocks of each size in the thread's cache, and small ones in fast bins, marked as in use. Into
 * these it writes the address of the next of its list, exclusive-ored with the block's own shifted by a page (glibc
 * 2.32 on): 0 or one nearby.
 *
 *  4. The first word of a block in use is no such thing, unless its second is zero. A pointer is none: the shifted
 *     address changes bits of it that tell where the heap is. A block that was just taken from a list has it, as long as
 *     nothing is written there; from a thread's cache it comes with its second word cleared. Those that come out of
 *     a fast bin, and not by way of the cache (one in eight), and whose first word is never written to, are taken for
 *     dead.
 *
 * A block may be gone, and its place another's, before it is looked at first; if that one is the leak's, it never
 * changes.
 *
 *  5. A block that malloc gave, and no realloc that was seen, has the chunk that its size asks for. If it has another, it is
 *     another, or a realloc has resized it where it is, unseen: in use, as if its content had changed.
 *
 * Not seen are those joined on both sides with top, or with what ends further away than the chunks that are looked at. Chunks
 * of their own mapping are the mapping's to tell of. */
#ifndef MEMTRACE_SESSION_EVIDENCE_H
#define MEMTRACE_SESSION_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

#define EVIDENCE_BYTES 64 /* of a block's content that are looked at, at most */

enum evidence_kind {
	EVIDENCE_EVENTS = 1,
	EVIDENCE_CONTENT = 2,
	EVIDENCE_MAPPING = 4,
	EVIDENCE_MARKS = 8,
	EVIDENCE_ALL = 15,
};

#define EVIDENCE_CLASSES 64 /* of sizes, 16 bytes apart; the last has all larger ones */
#define EVIDENCE_WHOLE	 8
#define EVIDENCE_NEAR	 8 /* classes to either side, but for the last */

struct evidence_window {
	uint64_t start_ns, end_ns; /* monotonic: probes were in place all that time */
	double interval;	   /* at which it sampled, bytes, mean over its time: the caller's to say */
	bool apart;		   /* it stands for no time but its own (trend.c: shares): the caller's to say */
};

struct evidence_block {
	uint64_t addr;
	struct abi_live live;
	uint32_t window; /* index of the one in which it was born */
	uint32_t n_same; /* later looks that found its content unchanged */
	enum evidence_fate {
		FATE_OPEN,
		FATE_UNMAPPED,
		FATE_CHANGED, /* in use, or replaced */
		FATE_MARKED,  /* by the allocator, as free */
	} fate;		  /* by looks; what is not open is on its way out of the book */
	uint64_t hash, hashed_ns; /* of its content when first looked at; hashed_ns 0: not yet */
	uint64_t next_ns;	  /* when to look at it again */
	uint64_t seen;		  /* number of the harvest that saw it last */
};

/* How many blocks ended how. */
struct evidence_counts {
	uint64_t born, freed, replaced, unmapped, changed, marked;
	uint64_t grown_unknown; /* born by realloc, and how much of them is new is not known */
};

struct evidence {
	unsigned kinds; /* enum evidence_kind, ORed: what counts */
	uint64_t seed[2];
	struct evidence_window *windows;
	size_t n_windows;
	struct evidence_block *blocks; /* alive and unchanged, as far as is known; in no order */
	size_t n_blocks, room;
	uint32_t *slots; /* by address; index + 1 */
	size_t n_slots;
	uint64_t harvest;
	struct evidence_counts counts;
	bool glibc; /* every block is of glibc's malloc: the caller's to say, before each look */
	uint8_t whole[EVIDENCE_CLASSES]; /* looks that have found a chunk as it should be, up to 255 */
	/* Told of a block that a look has settled, or that was born while probes came or went: nobody need
	 * follow it any more. NULL: nobody. */
	void (*settled)(void *ctx, uint64_t addr);
	void *ctx;
};

void evidence__init(struct evidence *evidence, unsigned kinds, const uint64_t seed[2]);
void evidence__free(struct evidence *evidence);

/* A window is over, or a piece of one that goes on: what begins where the last one ended is part of it. live: all n
 * blocks that the kernel side tracks of the process at end_ns or later; those born before start_ns or after end_ns
 * and not known yet are passed over. first_look_ns: how old a block is when its content is looked at first, if the
 * window is over then: by then it is filled in, and the later the look, the more blocks are another's, perhaps the
 * leak's, which would then seem to be this one's. 0 or -ENOMEM. */
int evidence__harvest(struct evidence *evidence, uint64_t start_ns, uint64_t end_ns,
		      const uint64_t *addrs, const struct abi_live *live, size_t n,
		      uint64_t first_look_ns);

#define EVIDENCE_MAX_READ (8 + EVIDENCE_BYTES) /* with the chunk's word before it */

/* A piece of the process's memory. */
struct evidence_read {
	uint64_t addr;
	void *to;
	size_t len; /* at most EVIDENCE_MAX_READ */
	bool ok; /* set by the reader; false: not mapped */
};
/* Reads n pieces. 0, or negative errno when the process cannot be read at all. */
typedef int (*evidence_reader)(void *ctx, struct evidence_read *reads, size_t n);

/* Looks at blocks whose time has come, at most max of them. The number looked at, or negative errno. */
int evidence__look(struct evidence *evidence, uint64_t now_ns, size_t max, evidence_reader reader,
		   void *ctx);

/* Looks at all, for a picture of the moment: it tells which have come to an end since they were last looked at. Those that have
 * not are no surer to stay for it. As evidence__look(). */
int evidence__look_early(struct evidence *evidence, uint64_t now_ns, evidence_reader reader, void *ctx);

/* When the next look is due; UINT64_MAX: never. */
uint64_t evidence__next_look(const struct evidence *evidence);

/* Is the block forgotten: looked at twice or more, and the same? Or alive for long_ns under our eyes, in a window that
 * went on for so long, which is as good? (Without EVIDENCE_CONTENT: alive.) */
bool evidence__is_forgotten(const struct evidence *evidence, const struct evidence_block *block,
			    uint64_t long_ns);

/* How many blocks of those that are left are forgotten. */
uint64_t evidence__n_forgotten(const struct evidence *evidence, uint64_t long_ns);

/* The process runs another program since: what is known of its memory is void. */
void evidence__exec(struct evidence *evidence, uint64_t exec_ns);

#endif
