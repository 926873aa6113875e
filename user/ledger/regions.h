/* SPDX-License-Identifier: BSD-2-Clause */
/* Keeps account of the memory that one process takes from the kernel. From the process's calls, it
 * computes regions, and sums by stack. */
#ifndef MEMTRACE_LEDGER_REGIONS_H
#define MEMTRACE_LEDGER_REGIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "bpf/abi.h"
#include "proc/maps.h"
#include "profile/regions.h"

#define REGIONS_MAX  (1U << 17) /* regions per process: twice what the kernel allows by default */
#define EARLIER_SITE UINT32_MAX /* the site of memory that was mapped before the run */

/* A stack that has taken memory. */
struct region_site {
	struct abi_stack_key stack;
	uint64_t objects, bytes; /* all that this stack has taken, whether it is still held or
				  * not */
};

struct region_op;

/* All zero: nothing happened yet.
 *
 * The kernel side does not report calls of several threads in the order in which they took effect.
 * A call that takes an address may return before the call that gave the address back has returned.
 * So here a call that gives memory back takes effect at its entry, and a call that takes memory
 * takes effect at its return. Calls are applied in the order of these times, a second later. */
struct region_book {
	struct regions map;
	struct region_site *sites;
	size_t n_sites, sites_room;
	struct table by_stack; /* sites */
	struct region_op *ops; /* not applied yet */
	size_t n_ops, ops_room;
	uint64_t serial;
	uint64_t calls, taken;	  /* reported calls; those that took memory */
	bool earlier_known;	  /* region_book__begin() was called, and no exec since */
	uint64_t earlier_bytes;	  /* bytes mapped at region_book__begin() */
	uint64_t too_many;	  /* calls left out for want of room */
	uint64_t dropped_by_exec; /* regions of programs that exec has replaced */
};

void region_book__free(struct region_book *book);

/* Notes the mappings from before the run. Unmapping these is then not mistaken for unmapping memory
 * that was taken during the run. 0 or -ENOMEM. */
int region_book__begin(struct region_book *book, const struct maps *maps);

/* Adds a call that has returned. A call that does not fit is counted in too_many. */
void region_book__call(struct region_book *book, const struct abi_region_call *call);

/* Notes that the process has replaced its program (exec): its mappings and their accounts are
 * gone. */
void region_book__exec(struct region_book *book, uint64_t time_ns);

/* Applies all calls before until_ns (UINT64_MAX: all calls). */
void region_book__settle(struct region_book *book, uint64_t until_ns);

/* Returns the bytes that were taken during the run and are still held. *ret_earlier_gone (may be
 * NULL): the bytes that were mapped before the run and given back since. Both as of the last
 * region_book__settle(). */
uint64_t region_book__live(const struct region_book *book, uint64_t *ret_earlier_gone);

#endif
