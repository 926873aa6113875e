/* SPDX-License-Identifier: BSD-2-Clause */
/* What vectors that are grown by realloc add to memory, from what windows show of it.
 *
 * A realloc of a block of s0 bytes to s1 adds s1 - s0, whatever became of the address. The kernel
 * side counts this for every sampled realloc of which both sizes are known (bpf/heap.bpf.c), with
 * the weight 1/p(s1): over a window, and divided by the share of time d that windows take, it adds
 * up to what all reallocs of the stack have added (Horvitz-Thompson), however often one vector was
 * among them.
 *
 * How much of that is still held? Each realloc makes a link of a chain of blocks, and what was
 * added at any of them is gone only when the last one is freed. That a block is gone from its
 * address, or has changed there, is no evidence of this: more often than not realloc has moved it.
 * What can be said is said of a stack as a whole.
 *
 * Let a link that was sampled in the middle half of the run either stay (s of them: unchanged at
 * its address at the end, as survivors.h has it) or leave its address (l of them), by realloc or by
 * free. Blocks that end in the very window in which they were born are seen to end, and how: R by
 * realloc, F by free. So q = (F + 1) / (F + R + 1) of those that leave are freed (one more than
 * seen: where nothing was seen, all of them may have been). If every link has the same chances - to
 * stay, s / (s + l); to be freed, q l / (s + l); else to be followed by another one - then a chain
 * is held with the probability S that solves
 *
 *	S = s / (s + l) + (1 - q) l / (s + l) S,	S = s / (s + q l).
 *
 * A vector that is grown all the time never stays: s = 0 and S = 0, though it is never freed. What
 * it does, as no population in balance can, is become larger and larger. So where F = 0 and the
 * mean size of the blocks that reallocs make rises from slice to slice of the run - by a line whose
 * slope is above zero with 95 % confidence - S = 1.
 *
 * Not in this are the first piece of a vector, which is a block like others and lost from sight
 * when realloc moves it, and reallocs of blocks whose old size is not known
 * (survivors_counts.grown_unknown). */
#ifndef MEMTRACE_LEDGER_REALLOCS_H
#define MEMTRACE_LEDGER_REALLOCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/snapshot.h"
#include "ledger/series.h"

/* What reallocs at one stack brought in one window; sums over samples. */
struct realloc_record {
	struct abi_stack_key stack;
	uint64_t start_ns, end_ns; /* of the window */
	double samples;		   /* reallocs of which is known what they added */
	double grown;		   /* bytes that these added, weighted by 1/p */
	double mean_size;	   /* of the stack's new blocks; 0: there were none */
	double moved, ended;	   /* blocks of this window that were seen to end */
};

struct reallocs {
	struct abi_site_key *keys; /* of stacks that have grown blocks, ascending, and */
	struct abi_site *last;	   /* what was counted of them so far */
	size_t n;
	struct realloc_record *records;
	size_t n_records, room;
	uint64_t left_out; /* records that found no room */
};

void reallocs__free(struct reallocs *reallocs);

/* A window is over. sites: what the kernel side has counted of the process so far. 0 or -ENOMEM. */
int reallocs__harvest(struct reallocs *reallocs, uint64_t start_ns, uint64_t end_ns,
		      const struct snapshot_sites *sites);

/* What was counted since the last harvest belongs to no window. 0 or -ENOMEM. */
int reallocs__pass_over(struct reallocs *reallocs, const struct snapshot_sites *sites);

/* The process runs another program since: what it has grown is gone. */
void reallocs__exec(struct reallocs *reallocs);

/* What is known of one stack, by slices of time. */
struct realloc_slices {
	struct {
		double samples, grown; /* as above */
	} at[SERIES_SEGMENTS];
	struct {
		double sum, n;	      /* of mean sizes, by window */
	} sizes[2 * SERIES_SEGMENTS]; /* in slices of the same length, over the whole run */
	double moved, ended;	      /* of the whole run */
	bool known;		      /* there is a record of it */
};

/* Adds a record to its stack's slices of the middle half of the run: step_ns each from from_ns on.
 * A window that reaches over several belongs to each in proportion. */
void realloc_slices__add(struct realloc_slices *slices, const struct realloc_record *record,
			 uint64_t from_ns, uint64_t step_ns);

/* The share of what the chains have grown by that is held for good: S above. stay: samples among
 * the slices' that stay. */
double realloc_slices__held(const struct realloc_slices *slices, double stay);

#endif
