/* SPDX-License-Identifier: BSD-2-Clause */
/* The keeper is a small process that takes the probes out when memtrace hangs, for whatever reason,
 * and does nothing else. The header of keeper.c tells how. Only one thread may use these
 * functions. */
#ifndef MEMTRACE_CAPTURE_KEEPER_H
#define MEMTRACE_CAPTURE_KEEPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct keeper;

/* Starts the keeper. `in_turn`: the keeper closes descriptors one after the other, those of lower
 * rank first, instead of many at a time. 0, or negative errno. */
int keeper__new(bool in_turn, struct keeper **ret);
/* Closes all descriptors that are still held, ends the keeper and waits for its end. */
void keeper__free(struct keeper *keeper);

/* Gives the descriptor of a probe to the keeper, which closes it unless somebody takes it back
 * before that. Returns its slot; or -ENOSPC, and the caller still owns the descriptor. */
int keeper__hold(struct keeper *keeper, int fd, uint32_t rank);
/* Takes the descriptor in the slot back and returns it: the caller closes it. -1: the keeper has
 * already taken the descriptor, and closes it. The slot is free afterwards. */
int keeper__take(struct keeper *keeper, int slot);
/* Gives the slot up, and returns the place where its descriptor stands, for shield__close(). As
 * long as the descriptor stands there, the keeper watches over it, and the slot is not used again.
 * The place stays until keeper__free(). */
atomic_int *keeper__give_up(struct keeper *keeper, int slot);

/* Sends a beat, which says that memtrace works. The time between beats must be shorter than the
 * keeper's patience. A beat costs one store. */
void keeper__beat(struct keeper *keeper);
/* Sets how long the keeper waits for a beat before it withdraws all probes, in steps of 50 ms. With
 * less than 50 it waits for ever. At first, the time is 0. */
void keeper__set_patience(struct keeper *keeper, unsigned patience_ms);

/* Returns the time when the keeper withdrew the probes, CLOCK_MONOTONIC; 0: it did not withdraw
 * them. After that it withdraws new probes as well, until keeper__resume(). */
uint64_t keeper__withdrawn_ns(const struct keeper *keeper);
/* Waits until all withdrawn probes are closed (perf events: 100 ms each). New probes stay in place
 * from now on. */
void keeper__resume(struct keeper *keeper);

/* Does the keeper run? */
bool keeper__lives(struct keeper *keeper);

#endif
