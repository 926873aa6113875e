/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the calls of a function end: its ret instructions, for probes that see a call's result
 * without a return probe.
 *
 * A return probe puts the kernel's address in the place of the return address; an exception that is
 * thrown through it finds no way on and ends the program. A plain probe on a ret changes nothing:
 * there rax holds the result and rsp points to the return address, as it did at the entry.
 *
 * The function is followed from its entry along every direct branch, also out of its symbol's
 * bytes: into its cold part, and by tail jumps, direct or through the PLT, into other functions of
 * its file, which then return in its stead. Calls are passed over; behind one that does not return
 * the path ends where the code does. What is found holds or nothing is given: an instruction that
 * the decoder does not know, code without unwind information, a jump to a computed address or into
 * another file are refused. At each ret the file's unwind table must agree that the return address
 * stands at [rsp]: two decoders in step. */
#ifndef MEMTRACE_ELF_EXITS_H
#define MEMTRACE_ELF_EXITS_H

#include <stddef.h>
#include <stdint.h>

#include "elf/image.h"
#include "elf/unwind.h"

#define EXITS_MAX 32

struct exits {
	uint64_t vaddrs[EXITS_MAX]; /* of the ret instructions, in no order */
	size_t n;
	char why[96]; /* why they could not be found, or "" */
};

/* The exits of the function at vaddr; table is its file's. 0; -ENOTSUP with why (then n is 0);
 * -ENOMEM. */
int exits__find(struct elf_image *image, const struct unwind_table *table, uint64_t vaddr,
		struct exits *ret);

#define EXITS_MAX_STAGES 8

/* Where a function that only hands its call over leads: code of a few register moves and a jump,
 * direct or through the PLT, into the same file. Stores each place that is reached so, up to max,
 * in ret_vaddrs; returns how many: 0 when it is no such function. */
size_t exits__hand_over(struct elf_image *image, uint64_t vaddr, uint64_t *ret_vaddrs, size_t max);

#endif
