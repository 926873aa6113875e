/* SPDX-License-Identifier: BSD-2-Clause */
/* The books of what one process takes from the kernel: calls in, regions and accounts out. */
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
#define EARLIER_SITE UINT32_MAX /* the site of what was mapped before the run */

/* A stack that has taken memory. */
struct region_site {
	struct abi_stack_key stack;
	uint64_t objects, bytes; /* taken by it, whatever became of it */
};

struct region_op;

/* All zero: nothing happened yet.
 *
 * Calls of several threads are not told in the order in which they took effect: one that takes an
 * address may return before the one that gave it back. What gives back counts from its entry, what
 * takes from its return, and what happened is applied in that order, a second late. */
struct region_book {
	struct regions map;
	struct region_site *sites;
	size_t n_sites, sites_room;
	struct table by_stack; /* sites */
	struct region_op *ops; /* not applied yet */
	size_t n_ops, ops_room;
	uint64_t serial;
	uint64_t calls, taken;	  /* calls heard of; those of them that took memory */
	bool earlier_known;	  /* region_book__begin() told, and no exec has come since */
	uint64_t earlier_bytes;	  /* what was mapped then */
	uint64_t too_many;	  /* calls left out for want of room */
	uint64_t dropped_by_exec; /* regions of programs that exec has replaced */
};

void region_book__free(struct region_book *book);

/* What is mapped when the run begins: unmapping it will be told from unmapping what the run has
 * seen. 0 or -ENOMEM. */
int region_book__begin(struct region_book *book, const struct maps *maps);

/* A call has returned. What cannot be taken in is counted in too_many. */
void region_book__call(struct region_book *book, const struct abi_region_call *call);

/* The program was replaced by another: all it had mapped is gone, and so are its accounts. */
void region_book__exec(struct region_book *book, uint64_t time_ns);

/* Applies what happened before until_ns (UINT64_MAX: all). */
void region_book__settle(struct region_book *book, uint64_t until_ns);

/* Bytes held of what the run has seen taken; *ret_earlier (may be NULL): bytes gone of what was
 * mapped before. As settled. */
uint64_t region_book__live(const struct region_book *book, uint64_t *ret_earlier_gone);

#endif
