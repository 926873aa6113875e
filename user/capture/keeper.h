/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes the probes out when memtrace hangs, whatever it hangs in: a small process that does nothing
 * else. The header of keeper.c tells how. One thread uses it. */
#ifndef MEMTRACE_CAPTURE_KEEPER_H
#define MEMTRACE_CAPTURE_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

struct keeper;

/* Starts the process. in_turn: descriptors are closed one after the other, those of lower rank
 * first, instead of many at a time. 0, or negative errno. */
int keeper__new(bool in_turn, struct keeper **ret);
/* Closes what is still held, ends the process and waits for its end. */
void keeper__free(struct keeper *keeper);

/* The descriptor of a probe becomes the keeper's to close. Its slot, or -ENOSPC, and it is the
 * caller's still. */
int keeper__hold(struct keeper *keeper, int fd, uint32_t rank);
/* The descriptor in the slot is the caller's to close again. -1: the keeper has closed it. The slot
 * is free. */
int keeper__take(struct keeper *keeper, int slot);

/* All is well. To be said more often than the patience lasts; costs one store. */
void keeper__beat(struct keeper *keeper);
/* How long it waits for a beat before it withdraws all probes, in steps of 50 ms; 0 (at first): for
 * ever. */
void keeper__set_patience(struct keeper *keeper, unsigned patience_ms);

/* When probes were withdrawn, CLOCK_MONOTONIC; 0: they were not. Until keeper__resume() those that
 * come are withdrawn as well. */
uint64_t keeper__withdrawn_ns(const struct keeper *keeper);
/* Waits until all that was withdrawn is closed (perf events: 100 ms each). What comes from now on
 * stays. */
void keeper__resume(struct keeper *keeper);

/* Is the process there? */
bool keeper__lives(struct keeper *keeper);

#endif
