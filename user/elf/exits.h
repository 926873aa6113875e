/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the calls of a function end: its ret instructions. Probes on these instructions see a
 * call's result without a return probe.
 *
 * A return probe writes an address of the kernel over the return address. An exception that is
 * thrown through the function's frame then cannot be unwound, and the program ends. A plain probe
 * on a ret changes nothing: there rax holds the result, and rsp points to the return address, as at
 * the function's entry.
 *
 * The search starts at the function's entry and follows every direct branch. Branches may leave the
 * symbol's bytes. They may lead into the function's cold part. Tail jumps (direct or through the
 * PLT) lead into another function of the same file, and the ret instruction of this other function
 * ends the call. At a call, the path goes on behind the call. If no code follows there, the call
 * does not return, and the path ends. The search either is certain of its result or refuses to give
 * one. Reasons to refuse: an instruction that the decoder does not know, code without unwind
 * information, a jump to a computed address or into another file. At each ret, the file's unwind
 * table must agree that the return address stands at [rsp]. This shows that the decoder has not
 * lost the boundaries of instructions. */
#ifndef MEMTRACE_ELF_EXITS_H
#define MEMTRACE_ELF_EXITS_H

#include <stddef.h>
#include <stdint.h>

#include "elf/image.h"
#include "elf/unwind.h"

#define EXITS_MAX 32

struct exits {
	uint64_t vaddrs[EXITS_MAX]; /* vaddrs of the ret instructions, in no order */
	size_t n;
	char why[96]; /* why the exits could not be found, or "" */
};

/* Finds the exits of the function at vaddr; table is its file's unwind table. Returns 0; -ENOTSUP,
 * with ret->why set and ret->n 0; -ENOMEM. */
int exits__find(struct elf_image *image, const struct unwind_table *table, uint64_t vaddr,
		struct exits *ret);

#define EXITS_MAX_STAGES 8

/* Some functions only pass their call on: their code is a few register moves and a jump into the
 * same file. The jump is direct or leads through the PLT. Follows the chain of such functions that
 * begins at vaddr. Stores the targets of their jumps in ret_vaddrs, at most max targets. Returns
 * how many targets it stored; 0: the function at vaddr does not pass its call on. */
size_t exits__hand_over(struct elf_image *image, uint64_t vaddr, uint64_t *ret_vaddrs, size_t max);

#endif
