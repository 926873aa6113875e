/* SPDX-License-Identifier: BSD-2-Clause */
/* Estimates from windows how many bytes realloc adds to memory when it grows vectors.
 *
 * A realloc from s0 to s1 bytes adds s1 - s0 bytes, whether the address changes or not. The kernel
 * side sums up these bytes over sampled reallocs of which both sizes are known (bpf/heap.bpf.c),
 * with the weight 1/p(s1). The sum over windows is divided by the share d of time that windows
 * take. The result estimates the bytes that all reallocs of the stack have added
 * (Horvitz-Thompson), however often they grew the same vector.
 *
 * How many of these bytes are still held? Each realloc makes a link of a chain of blocks. The bytes
 * that a link added are gone only when the last link of the chain is freed. If a block left its
 * address, or changed there, this does not prove that the chain was freed: in most cases realloc
 * has moved the block. So the estimate is for a stack as a whole.
 *
 * Of the links that were sampled in the middle half of the run, s stay, and l leave their address,
 * by realloc or by free. A link stays if it is at its address at the end, unchanged in the sense of
 * survivors.h. Blocks that end in the window of their birth show how they end: R of them by
 * realloc, F of them by free. So a share q = (F + 1) / (F + R + 1) of the l links is freed. (The 1
 * adds one free to those seen. So q is 1 if no end was seen, because all blocks may have been
 * freed.) Suppose that every link has the same chances: s / (s + l) to stay, q l / (s + l) to be
 * freed, and (1 - q) l / (s + l) to be followed by another link. Then a chain is held with the
 * probability S that solves
 *
 *	S = s / (s + l) + (1 - q) l / (s + l) S,	S = s / (s + q l).
 *
 * The formula assumes a population in balance, in which the mean size stays the same. A vector that
 * grows all the time breaks this assumption. None of its links stays: s = 0 and S = 0, though the
 * vector is never freed. So S is set to 1 under two conditions. First, no block was seen to be
 * freed (F = 0). Second, the mean size of the blocks that reallocs make rises during the run. It
 * rises if a line fitted to the mean sizes in slices of the run has a slope above zero, with 95 %
 * confidence.
 *
 * Two things are not included. One is the first block of a vector, which counts like any other
 * block: it is not followed after realloc has moved it. The other is reallocs of blocks whose old
 * size is not known (survivors_counts.grown_unknown). */
#ifndef MEMTRACE_LEDGER_REALLOCS_H
#define MEMTRACE_LEDGER_REALLOCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/snapshot.h"
#include "ledger/series.h"

/* What the reallocs of one stack added in one window: sums over samples. In a stack's first record,
 * `mean_size`, `moved` and `ended` include what came before this window. */
struct realloc_record {
	struct abi_stack_key stack;
	uint64_t start_ns, end_ns; /* of the window */
	double samples;		   /* sampled reallocs of which both sizes are known */
	double grown;		   /* bytes that these reallocs added, weighted by 1/p */
	double mean_size;	   /* of the stack's new blocks; 0: there were none */
	double moved, ended;	   /* blocks of this window that were seen to end: by realloc, and
				    * by free */
};

struct reallocs {
	struct abi_site_key *keys; /* of stacks whose blocks realloc has grown, ascending */
	struct abi_site *last;	   /* their counts when sites were last read */
	size_t n;
	struct realloc_record *records;
	size_t n_records, room;
	uint64_t left_out; /* records lost for want of room */
};

void reallocs__free(struct reallocs *reallocs);

/* Adds the records of a window that is over. sites: the kernel side's counts of the process so far.
 * 0 or -ENOMEM. */
int reallocs__harvest(struct reallocs *reallocs, uint64_t start_ns, uint64_t end_ns,
		      const struct snapshot_sites *sites);

/* Skips the counts since the last harvest, which belong to no window. 0 or -ENOMEM. */
int reallocs__pass_over(struct reallocs *reallocs, const struct snapshot_sites *sites);

/* Forgets all records, because the process has replaced its program (exec): the memory that its
 * reallocs added is gone. */
void reallocs__exec(struct reallocs *reallocs);

/* What is known of one stack, by slices of time. */
struct realloc_slices {
	struct {
		double samples, grown; /* as in a record */
	} at[SERIES_SEGMENTS];
	struct {
		double sum, n;	      /* sum and number of the windows' mean sizes */
	} sizes[2 * SERIES_SEGMENTS]; /* slices of step_ns, as in `at`, but over the whole run */
	double moved, ended;	      /* of the whole run */
	bool known;		      /* the stack has a record */
};

/* Adds a record to its stack's slices. The slices cover the middle half of the run: each is step_ns
 * long, and the first begins at from_ns. A window that spans several slices is divided among them
 * in proportion. */
void realloc_slices__add(struct realloc_slices *slices, const struct realloc_record *record,
			 uint64_t from_ns, uint64_t step_ns);

/* Returns S (above): which share of the bytes that reallocs added is held for good. stay: how many
 * of the sampled blocks in the slices stay. */
double realloc_slices__held(const struct realloc_slices *slices, double stay);

#endif
