/* SPDX-License-Identifier: BSD-2-Clause */
/* All stacks of a windowed run together, and what the process has: the two must agree.
 *
 * THE CLOCK'S FACTOR. What all stacks of a run share is the error of its clock
 * (profile/windowed.h): windows stand for k times as much as their net time says, with log k about
 * normal, mean 0, deviation e (struct windowed_run.clock_error, and how windows differ in it). A
 * fact that needs no window tells more of k, by Bayes' rule over BALANCE_GRID values of it: the
 * growth A of anonymous memory. Of a process that surely has more and more blocks it is that of
 * all stacks together G(k), with what the allocator adds to each block: log(A / G(k)) is about
 * normal, with the error of G and ANON_ERROR for what allocators keep for themselves. Or, with the
 * chance BY_CLOCK, what grows goes by the wall clock (below), and log(A / G) may be anything down
 * to -log(hidden); or, with the chance OTHER_THINGS, A is of other things. The likeliest k by
 * these weights is what windows are taken to stand for, the deviation from it the error that is
 * left.
 *
 * RESIDENT. Blocks of no more than a page are in pages of which each holds the beginning of one,
 * which its allocator, or its owner, has written to. So the small blocks of all stacks are within
 * the anonymous memory that is resident, or swapped out, as all blocks are within the mappings.
 * Allocators of many threads map much more than they use: 64 threads with 16 MB 556 MB, of which 20
 * are resident.
 *
 * WALL CLOCK. What goes by the wall clock (a timer, clients that wait for no answer) is not slowed
 * by windows: of it windows show by net time up to windowed_run.hidden times as much as there is.
 * When all stacks together grow by more than the process's anonymous memory, which surely grows,
 * they are taken to be such, as far as that explains it: each grows by the same factor less, and
 * of those whose blocks stay fewer live. Unless the process has not as many blocks more as those
 * would have: then they replace older ones (a table that turns over slowly).
 *
 * ENDS BY THE WALL CLOCK (profile/windowed.h). A process whose blocks end by what it does has in
 * windows as many blocks more or less as everywhere. One whose blocks end by the wall clock loses
 * blocks in each window: it has fewer births there, and as many ends. The calls of windows tell
 * that of all blocks, without any stack. Each of the ENDERS_MOST stacks that would lose most, and
 * all others together, are of the one kind or the other, of the latter with the chance BY_CLOCK. Of
 * each choice W of them the blocks d_g that the windows of group g lost leave residuals to those
 * expected,
 *
 *	P(d | W) = product over g of Cauchy's density of d_g - sum over W of e_ig,
 *
 * of a scale that is that of what is expected. (It has long tails: what is freed all at once is
 * lost in one window, leaves as large a residual whatever is chosen, and decides nothing.) By
 * Bayes' rule that gives each stack's chance, by which its figures are a mixture of the two, with
 * what they differ by as an error.
 *
 * LIMITS. Where all live bytes are more than the mappings, or those in small blocks more than what
 * is resident, the figures x_i with errors d_i of their own and c_i in common are moved to the
 * nearest ones that are not, by least squares: the sum of w_i x_i, w_i being the share that counts,
 * is too high by e, and
 *
 *	x_i' = x_i - e (d_i^2 w_i + c_i sum of c_j w_j) / (sum of d_j^2 w_j^2 + (sum of c_j w_j)^2).
 *
 * So what is known least gives most. Their errors stay as they were: it is a limit on one side.
 *
 * What stacks seem to grow by is held in the same way against the upper end of what the process
 * grows by, each by its own error alone. No stack gives more than brings it to the lower end of its
 * interval, or to nothing. Intervals stay as they are: of a heap with free room in it stacks may
 * grow while the process does not.
 *
 * WHAT SURELY GROWS makes the process grow, too. What is freed all at once, every few seconds, is
 * not seen to be freed by windows, nor is it by the counts of calls in them. So where frees tell
 * what survives, nothing is sure unless the anonymous memory surely grows; where contents tell it,
 * unless that or the number of the process's blocks does. And none grows by much more than that
 * memory does: what seems to may be gone, or have taken the place of what was there before the run,
 * so little of it is sure to live. */
#ifndef MEMTRACE_PROFILE_BALANCE_H
#define MEMTRACE_PROFILE_BALANCE_H

#include "profile/windowed.h"

#define BALANCE_GRID 13

/* What a block takes of the process's memory, bytes: glibc's header and rounding, which others come
 * near to. */
double balance__footprint(double size);

/* Estimates n stacks, by what is said above. run: its scale and clock_error become what they are
 * found to be. anon: by how much the process's anonymous memory grows, per wall second; NaN: not
 * known. stacks: NULL pointers are passed over, their results are 0. 0 or -ENOMEM. */
int balance__estimate(struct windowed_run *run, const struct windowed_stack *const *stacks,
		      size_t n, const struct growth *anon, struct windowed_process *ret_process,
		      struct windowed_result *results);

#endif
