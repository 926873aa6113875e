/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes all stacks of a windowed run agree with what is known of the whole process.
 *
 * THE CLOCK'S FACTOR. All stacks of a run share the error of its clock (profile/windowed.h).
 * Suppose that the true net time of windows is 1/k of the measured net time. Then what windows saw
 * stands for k times as much. log k is nearly normal, with mean 0 and standard deviation e. e
 * combines struct windowed_run.clock_error with the spread of windows' net times. The growth A of
 * anonymous memory is known without windows. So A narrows k down: Bayes' rule is applied to
 * BALANCE_GRID values of k. This is done only if the process's number of blocks surely grows. Let
 * G(k) be the growth of all stacks together, computed with the factor k. G(k) includes the
 * allocator's overhead of each block. A should equal G(k), so log(A / G(k)) is nearly normal with
 * mean 0. Its variance has two parts: the relative variance of G, and ANON_ERROR^2 for the memory
 * that allocators keep for themselves. There are two other cases, each with a prior chance.
 * BY_CLOCK: the growing memory follows the wall clock, and log(A / G) may be anything from 0 down
 * to -log(windowed_run.hidden). WALL CLOCK below explains this. OTHER_THINGS: A is the growth of
 * memory that is in no stack. The model takes the k with the largest weight. The remaining error of
 * k is the weighted root mean square of the deviations from the chosen k.
 *
 * DOUBTS. For some stacks, contents show shorter lives than frees do, and too few frees were seen
 * to tell which of the two is right (struct survival.doubtful). If anonymous memory surely grows,
 * this growth can decide which is right. If the process's memory grows by more than all other
 * stacks explain, the blocks of a stack in doubt have not ended: the program has only written to
 * them. The ONE_BY_ONE stacks whose doubts matter most are decided together. Each combination of
 * decisions gives one G, the growth of all stacks together. The weight of the combination is the
 * density of log(A / G), as above. For each stack, contents and frees have the same prior chance to
 * be right. If Bayes' rule gives one of the two a chance of SETTLED or more, the model believes it.
 * Otherwise the doubt remains, and intervals hold both answers.
 *
 * RESIDENT. A block is small if it is no larger than a page. Each page that small blocks fill holds
 * the beginning of at least one of them. The allocator or the owner has written to that beginning,
 * so these pages are in memory or swap. So the small blocks of all stacks fit into the anonymous
 * memory that is resident or swapped out. The size of the heap's mappings is a limit, too, for
 * blocks of all sizes. But with many threads an allocator maps much more than it uses, so the limit
 * from resident memory is often lower. For example, 64 threads that together hold 16 MB map 556 MB.
 * Only 20 MB of these are resident.
 *
 * WALL CLOCK. Windows do not slow events that follow the wall clock (a timer, clients that do not
 * wait for answers). Per second of net time, windows see up to windowed_run.hidden times as many of
 * these events as really come. Suppose that anonymous memory surely grows, but all stacks together
 * seem to grow by more than that memory. Then memtrace assumes that all stacks follow the wall
 * clock, as far as this explains the difference. The growth of each stack is divided by the same
 * factor. The live bytes of stacks whose blocks stay are divided by this factor, too. Stacks whose
 * live memory is known from continuous stretches (struct windowed_result.held) stay as they are. No
 * figure is divided if, by the estimates, the stacks whose blocks stay add more blocks than the
 * process gains. Then their blocks replace older ones (a table that turns over slowly).
 *
 * ENDS BY THE WALL CLOCK (profile/windowed.h). If blocks end because of the process's own work, the
 * number of blocks changes in windows as it does between them. If blocks end by the wall clock,
 * each window loses blocks: the slowed process allocates fewer blocks, but as many blocks end as
 * without probes. The counts of calls in windows show this loss for all blocks together; stacks are
 * not needed. Do the blocks of a stack end by the wall clock, or because of the process's own work?
 * Each of the ONE_BY_ONE stacks that would lose most is judged by itself, and all other stacks are
 * judged as one. For each of these, the prior chance that its blocks end by the wall clock is
 * BY_CLOCK. Let W be the set of stacks whose blocks end by the wall clock. Let d_g be the number of
 * blocks that the windows of group g lost, and e_ig the number that stack i would lose in these
 * windows. Then
 *
 *	P(d | W) = product over g of Cauchy's density of (d_g - sum over i in W of e_ig).
 *
 * The scale of the density is a small share of the expected losses. Cauchy's density is used for
 * its long tails. Blocks that are freed all at once are lost in one window. The residual of that
 * window's group is large for every W, so it decides nothing. Bayes' rule gives for each stack the
 * chance that its blocks end by the wall clock. The stack's figures are a mixture of the figures in
 * the two cases, weighted by that chance. The difference between the cases is part of the figures'
 * error.
 *
 * LIMITS. The sum of live bytes may be above the size of the mappings, or the live bytes in small
 * blocks may be above the resident memory. Let x_i be the live bytes of stack i, with an error d_i
 * of its own and an error c_i in common with all others. The x_i are moved to the nearest values
 * that fit, by least squares. Let w_i be the share of x_i to which the limit applies (1, or the
 * share in small blocks). Let e be the bytes by which the sum of w_i x_i is too high. Then
 *
 *	x_i' = x_i - e (d_i^2 w_i + c_i sum of c_j w_j) / (sum of d_j^2 w_j^2 + (sum of c_j w_j)^2).
 *
 * So the least certain figures change most. The errors stay as they were, because the limit is on
 * one side only.
 *
 * The growth of all stacks together has a limit, too: the upper end of the interval of the
 * process's growth, plus ANON_ERROR times that growth. Each stack loses a part of the excess. This
 * part depends on the stack's own error alone. No stack's growth is lowered below the lower end of
 * its interval, nor below 0. The lower end of a stack's interval may be above the upper end of the
 * process's interval. Then the lower end is moved down to this upper end. The upper ends of stacks'
 * intervals stay as they are, because in a heap with free room stacks may grow while the process
 * does not.
 *
 * WHAT SURELY GROWS makes the process grow, too. Some programs free all their memory at once, every
 * few seconds. Windows and their counts of calls may miss these frees. So if the survival of blocks
 * is known from frees, growth is sure only if anonymous memory surely grows. If survival is known
 * from contents, anonymous memory or the process's number of blocks must surely grow. And no stack
 * surely grows by much more than anonymous memory. If a stack seems to grow by more, its blocks may
 * be gone, or may have replaced blocks from before the run. So the error of its live bytes is made
 * as large as the live bytes themselves. */
#ifndef MEMTRACE_PROFILE_BALANCE_H
#define MEMTRACE_PROFILE_BALANCE_H

#include "profile/windowed.h"

#define BALANCE_GRID 13

/* Bytes of memory that a block of `size` bytes takes. header: bytes that its allocator keeps in
 * front of each block (glibc: 8, and a block takes 32 bytes at least). Without a header, a block
 * takes a multiple of 16 bytes, as in pymalloc. (Large blocks of jemalloc, tcmalloc and mimalloc
 * may take a fifth more.) */
double balance__footprint(double size, double header);

/* Estimates n stacks by the method above. run: gets the estimated scale and clock_error. anon:
 * growth of the process's anonymous memory per wall second, minus the growth of regions that no
 * allocator mapped; NaN: not known. stacks: a NULL pointer is skipped, and its result is 0. If a
 * stack's doubt is decided, the stack's member `believed` is set. 0 or -ENOMEM. */
int balance__estimate(struct windowed_run *run, struct windowed_stack *const *stacks, size_t n,
		      const struct growth *anon, struct windowed_process *ret_process,
		      struct windowed_result *results);

#endif
