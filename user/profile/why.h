/* SPDX-License-Identifier: BSD-2-Clause */
/* Why memory of a process is still there, as reported to people: which blocks are lost for good,
 * and who holds the blocks that the user asked about. Plain data: heap/why.h finds these facts,
 * encode/why.c prints them. */
#ifndef MEMTRACE_PROFILE_WHY_H
#define MEMTRACE_PROFILE_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/heap.h"

#define WHY_UNKNOWN UINT64_MAX

/* Losses: X(member, name). numbers.md says what each loss counts. */
#define WHY_LOSSES(X)                                                                              \
	X(RESYNCS, "heap_resyncs")                                                                 \
	X(UNKNOWN, "heap_unknown_bytes")                                                           \
	X(ABSENT, "heap_absent_bytes")                                                             \
	X(DOUBTFUL, "heap_doubtful_blocks")                                                        \
	X(BROKEN_SLABS, "heap_broken_slabs")                                                       \
	X(DROPPED_SPANS, "heap_dropped_spans")                                                     \
	X(SWAPPED, "heap_swapped_bytes")                                                           \
	X(UNREAD, "heap_unread_bytes")                                                             \
	X(EPOLLS, "epolls_unread")                                                                 \
	X(ONCE, "unreached_once")                                                                  \
	X(UNSETTLED, "not_settled")                                                                \
	X(LATE, "late_pointers_left_out")                                                          \
	X(BEYOND, "unreached_beyond")                                                              \
	X(NO_PATH, "paths_too_long")                                                               \
	X(SYMBOLS, "symbols_unread")

enum why_loss {
#define WHY_MEMBER(member, name) WHY_LOSS_##member,
	WHY_LOSSES(WHY_MEMBER)
#undef WHY_MEMBER
		WHY_N_LOSSES
};

/* Leaks whose heads have the same size. The head of a leak is the block that leads to the others.
 * Sizes are usable bytes. */
struct why_leak {
	uint64_t size;		/* of each head */
	uint64_t leaks;		/* number of heads */
	uint64_t circles;	/* number of heads that are in a circle of blocks */
	uint64_t blocks, bytes; /* of the heads, and of the blocks that they lead to */
	uint64_t example;	/* address of one head */
};

/* A step of a path from a root to the blocks that were asked for. These blocks are the last
 * step. */
struct why_step {
	uint64_t size; /* of the block */
	/* offset of the pointer to the next step, within the block; WHY_UNKNOWN: it differs, or
	 * there is no next step */
	uint64_t off;
	bool chain; /* several blocks of this size, one after the other */
	/* C++ class of the block, demangled; for a chain, the class of its first and last block.
	 * Owned by the report. NULL: no class is known */
	const char *type;
	/* Function that allocated the block, or the first block of the chain. In a merged row, some
	 * blocks at this step may have no known maker. All others were allocated by this function.
	 * Owned by the struct why_makers (cli/why.h) that the report was made with. NULL: not
	 * known, or makers_differ. */
	const char *maker;
	/* of the row's blocks, the number whose path has a known maker at this step */
	uint64_t made;
	bool makers_differ;
};

/* Blocks that are held in the same way. */
struct why_row {
	const char *root_kind;	/* "global", "memory", "thread-local", "stack", "register",
				* "kernel"; static */
	char *root;		/* "cache (leaky)"; owned */
	uint64_t root_off;	/* offset within the root; WHY_UNKNOWN: it differs, or is useless */
	struct why_step *steps; /* owned */
	size_t n_steps;
	bool cut;		/* steps in the middle are missing */
	uint64_t blocks, bytes; /* of blocks whose path was followed */
	uint64_t example;	/* address of one block */
};

/* Free with why_report__clear(). */
struct why_report {
	int pid;
	char comm[64];
	char allocators[64];	/* "glibc, 3 arenas" */
	uint64_t blocks, bytes; /* in use */

	unsigned int scans;
	double seconds;		  /* from the start of the first scan to the end of the last */
	double scan_s;		  /* of the longest scan */
	double pause_s;		  /* time for which the process was stopped; NaN: it was not
				   * stopped */
	bool registers;		  /* the registers of threads were known */
	uint64_t running_threads; /* threads whose stack pointers were not known */
	uint64_t table_bytes;	  /* memory for the tables of the scan that needed most */
	uint64_t losses[WHY_N_LOSSES];
	char doubt[160]; /* why no block can be called lost; "": blocks can be called lost */

	uint64_t lost_blocks, lost_bytes;
	struct why_leak *leaks; /* by bytes, descending; owned */
	size_t n_leaks;

	bool asked; /* the user asked who holds certain blocks */
	/* if the user asked about the blocks of one size: this size, in usable bytes; else 0 */
	uint64_t asked_size;
	uint64_t missing; /* number of addresses that were asked for, but at which no block is in
			   * use */
	uint64_t held_blocks, held_bytes;
	uint64_t asked_lost_blocks, asked_lost_bytes;
	/* blocks that the last full scan did not reach, and that are not called lost: either
	 * another scan found a pointer to them, or no block of this search can be called lost */
	uint64_t in_doubt_blocks, in_doubt_bytes;
	uint64_t followed;    /* blocks whose paths are in rows */
	struct why_row *rows; /* by blocks, descending; owned */
	size_t n_rows;
	struct heap_type *types; /* classes of blocks on the paths; owned */
	size_t n_types;
};

/* The name of the loss's counter; static. */
const char *why_loss__name(enum why_loss loss);

/* --- of a run: who holds the blocks of stacks that grow --- */

#define SITE_HOLDERS 5 /* at most this many holders are kept for a stack */

/* A way in which blocks of a stack are held. */
struct site_holder {
	char *path;	 /* a text of why_row__text(); owned */
	uint64_t blocks; /* followed blocks that are held in this way */
};

/* What became of a stack's live blocks. asked: the number of its sampled blocks that were searched
 * for; they are chosen evenly. Each of them is in one of the next four counts. */
struct site_why {
	uint64_t asked;
	uint64_t held;
	uint64_t lost; /* no pointer to them is left */
	/* blocks that the last full scan did not reach, and that are not called lost: either
	 * another scan found a pointer to them, or no block of this search can be called lost */
	uint64_t in_doubt;
	uint64_t gone;	   /* freed meanwhile, or not in the allocators' memory that was read */
	uint64_t followed; /* held blocks whose paths were followed: the most common paths are in
			    * holders */
	struct site_holder *holders; /* by blocks, descending; owned */
	size_t n_holders;
};

void site_why__free(struct site_why *why);

/* How the process was searched after the run. Free with profile_why__free(). */
struct profile_why {
	char *failed; /* why there is no answer, in words; NULL: there is an answer; owned */
	char *doubt;  /* why no block is called lost, in words; NULL: blocks can be called lost;
		       * owned */
	uint32_t scans;
	double seconds;
	bool no_registers; /* the registers of threads were not known */
};

void profile_why__free(struct profile_why *why);

/* Writes a step as text: "chain of [88-byte block] +0x10", "[Item, 88 bytes]", "[512-byte block
 * from table_grow]". Long names are cut. */
#define WHY_STEP_TEXT 240
void why_step__text(const struct why_step *step, char text[WHY_STEP_TEXT]);

/* Returns a row as text: "global cache (leaky) -> [88-byte block] +0x10 -> chain of [72-byte
 * block]". The root's name comes from the target process and is not made printable. NULL: out of
 * memory. */
char *why_row__text(const struct why_row *row);

/* Merges rows that differ only in offsets and in makers, and sorts them by blocks, descending.
 * Before the call, each row counts its own blocks only. Returns how many rows are left. */
size_t why_rows__merge(struct why_row *rows, size_t n);

/* why_rows__merge() for the rows of a report. */
void why_report__merge(struct why_report *report);

/* Frees the rows and what they own. */
void why_rows__free(struct why_row *rows, size_t n);

struct profile;

/* Makes a profile whose stacks are the paths: the root is the outermost frame, the block that is
 * held is the leaf. Lost blocks have a root of their own. Below it they are grouped by the size of
 * the head, the block that leads to the others. The stacks' weights are live bytes. These are
 * estimates if not all paths were followed. Free with profile__free(). 0 or -ENOMEM. */
int why_report__paths(const struct why_report *report, struct profile **ret);

void why_report__clear(struct why_report *report);

#endif
