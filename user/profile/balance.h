/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes all stacks of a windowed run agree with what is known of the whole process.
 *
 * THE CLOCK'S FACTOR. All stacks of a run share the error of its clock (profile/windowed.h):
 * windows stand for k times as much as their net time says. log k is about normal, with mean 0 and
 * deviation e (struct windowed_run.clock_error together with the spread of windows' net times). The
 * growth A of anonymous memory is known without windows. So it tells more about k, by Bayes' rule
 * over BALANCE_GRID values of k. This is done only if the process surely has more and more blocks.
 * Let G(k) be the growth that all stacks together have with the factor k. It includes what the
 * allocator adds to each block. A should equal G(k): log(A / G(k)) is about normal with mean 0. Its
 * error is that of G, and ANON_ERROR for what allocators keep for themselves. Two other cases have
 * a chance of their own. BY_CLOCK: the memory that grows goes by the wall clock (below), and log(A
 * / G) may be anything from 0 down to -log(hidden). OTHER_THINGS: A is the growth of memory that is
 * in no stack. The k with the largest weight is taken. The deviation from it, by the same weights,
 * is the error that is left.
 *
 * DOUBTS. Of some stacks contents show shorter lives than frees do, and too few frees were seen to
 * tell which is right (struct survival.doubtful). The process's growth can tell. If its memory
 * grows by more than all other stacks explain, the blocks of such a stack have not ended: the
 * program has only written to them. Each way to decide for the ONE_BY_ONE stacks that matter most
 * gives one G, the growth of all stacks together. Its weight is the density of log(A / G), as
 * above. Before A is looked at, both kinds of evidence have the same chance for each stack. If one
 * of them then has a chance of SETTLED or more, it is believed. Else the doubt remains, and
 * intervals hold both answers.
 *
 * RESIDENT. A block is small if it has no more than a page. Each page that small blocks fill holds
 * the beginning of at least one of them. The allocator or the owner has written to that beginning,
 * so these pages are in memory or swap. So the small blocks of all stacks fit into the anonymous
 * memory that is resident or swapped out. This limit is often lower than that of the mappings, into
 * which all blocks fit. The reason is that with many threads an allocator maps much more than it
 * uses. 64 threads that hold 16 MB together map 556 MB, of which 20 MB are resident.
 *
 * WALL CLOCK. Windows do not slow what goes by the wall clock (a timer, clients that wait for no
 * answer). Per second of net time, windows see up to windowed_run.hidden times as many such
 * events as there are. Anonymous memory may surely grow while all stacks together seem to grow by
 * more. Then all stacks are taken to go by the wall clock, as far as that explains the difference.
 * The growth of each is divided by the same factor, and so are the live bytes of stacks whose
 * blocks stay. This is not done if the process gains fewer blocks than the stacks whose blocks stay
 * would add. Then their blocks replace older ones (a table that turns over slowly).
 *
 * ENDS BY THE WALL CLOCK (profile/windowed.h). If blocks end by what the process does, its number
 * of blocks changes in windows as it does everywhere. If they end by the wall clock, each window
 * loses blocks: a slowed process allocates fewer, but as many end as ever. The counts of calls in
 * windows show this loss for all blocks together; stacks are not needed. Do the blocks of a stack
 * end by the wall clock, or by what the process does? Each of the ONE_BY_ONE stacks that would lose
 * most is judged by itself, and all other stacks are judged as one. Before the loss is looked at,
 * the chance that they end by the wall clock is BY_CLOCK for each. Let W be the set of stacks whose
 * blocks end by the wall clock. Let d_g be the blocks that the windows of group g lost, and e_ig
 * the blocks that stack i would lose in them. Then
 *
 *	P(d | W) = product over g of Cauchy's density of (d_g - sum over i in W of e_ig).
 *
 * The scale of the density is a small share of the expected losses. Cauchy's density is used for
 * its long tails. Blocks that are freed all at once are lost in one window. The residual there is
 * large for every W, so it decides nothing. Bayes' rule gives the chance of each stack. Its figures
 * are a mixture of the two cases by that chance, and the difference between the cases is part of
 * their error.
 *
 * LIMITS. All live bytes may come to more than the mappings, or those in small blocks to more than
 * what is resident. Then the figures x_i, with errors d_i of their own and c_i in common, are moved
 * to the nearest ones that fit, by least squares. Let w_i be the share of x_i to which the limit
 * applies (1, or the share in small blocks). Let e be the bytes by which the sum of w_i x_i is too
 * high. Then
 *
 *	x_i' = x_i - e (d_i^2 w_i + c_i sum of c_j w_j) / (sum of d_j^2 w_j^2 + (sum of c_j w_j)^2).
 *
 * So the least certain figures change most. Their errors stay as they were: the limit is on one
 * side.
 *
 * The growth of all stacks is limited in the same way to the upper end of the process's growth, by
 * each stack's own error alone. No stack is lowered below the lower end of its interval, nor below
 * 0. Intervals stay as they are: in a heap with free room stacks may grow while the process does
 * not.
 *
 * WHAT SURELY GROWS makes the process grow, too. When memory is freed all at once, every few
 * seconds, windows do not see that, nor do the counts of calls in them. So if the survival of
 * blocks is known from frees, no growth is sure unless anonymous memory surely grows. If survival
 * is known from contents, anonymous memory or the process's number of blocks must surely grow. And
 * no stack surely grows by much more than anonymous memory. If a stack seems to, its blocks may be
 * gone, or may have replaced blocks from before the run. So the error of its live bytes is made as
 * large as they are. */
#ifndef MEMTRACE_PROFILE_BALANCE_H
#define MEMTRACE_PROFILE_BALANCE_H

#include "profile/windowed.h"

#define BALANCE_GRID 13

/* Bytes of the process's memory that a block of size bytes takes, with glibc's header and rounding.
 * Other allocators come near to that. */
double balance__footprint(double size);

/* Estimates n stacks by the method above. run: its scale and clock_error are set to what is found.
 * anon: growth of the process's anonymous memory per wall second; NaN: not known. stacks: a NULL
 * pointer is passed over, and its result is 0; believed is set where a doubt is settled. 0 or
 * -ENOMEM. */
int balance__estimate(struct windowed_run *run, struct windowed_stack *const *stacks, size_t n,
		      const struct growth *anon, struct windowed_process *ret_process,
		      struct windowed_result *results);

#endif
