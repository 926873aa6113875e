/* SPDX-License-Identifier: BSD-2-Clause */
/* Where in a function a uprobe costs least.
 *
 * The kernel emulates nop (0x90), push r64, relative jmp/call and relative jcc when they stand
 * under a probe (arch/x86/kernel/uprobes.c: branch_setup_ops(), push_setup_ops()); everything else
 * is single-stepped out of line, 3 to 18 times dearer. So a probe is moved from a function's first
 * instruction forward to the first emulated one, but only where that provably changes nothing:
 *
 *   1. Straight path: every instruction passed over is no branch, call, return, trap or system
 *      instruction, so that whoever enters the function arrives at the probe, once.
 *   2. No way in from the side: no direct branch of the whole function has its target behind the
 *      entry and before the end of the probed instruction; a loop back to there would count twice.
 *   3. Arguments at hand: each one that the probe reads is still whole in some register, in its own
 *	or in one that a mov has copied it to; what the function does with the others is its own
 *affair.
 *   4. Frame intact: nothing passed over writes rsp or rbp: the return address is still at [rsp]
 *      (where the kernel takes it for a return probe) and rbp is still the caller's. Nothing
 *      passed over stores to memory, which could be that word, or the red zone.
 *   5. In step: the function decodes from its entry to exactly its end (entry + size); a decoder
 *      out of step would put the breakpoint inside an instruction and crash the target. One
 *      instruction behind the probe that the decoder does not know is no obstacle: the straight
 *      path from the entry is in step whatever follows, and from the unknown instruction on rule 2
 *      takes every byte for the possible start of a branch.
 *
 * Where any of it cannot be shown the probe stays on the first instruction, which the kernel itself
 * verifies. Decoding is Capstone's. */
#ifndef MEMTRACE_ELF_PROBE_SITE_H
#define MEMTRACE_ELF_PROBE_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROBE_SITE_ALL_ARGS 6

struct probe_site {
	/* In which register each argument that the probe reads is there: 1 to 6 as they come (rdi,
	 * rsi, rdx, rcx, r8, r9), or 7 to 14: rax, r10, r11, rbx, r12 to r15. 0: not read. */
	uint8_t args[PROBE_SITE_ALL_ARGS];
	uint32_t delta;	      /* bytes from the function's entry to the probed instruction */
	bool emulated;	      /* the kernel emulates this instruction (on every version) */
	bool nop;	      /* a multi-byte nop: emulated from Linux 6.18 on, stepped before.
			       * Not one with a segment prefix ("cs nopw"): no kernel takes a
			       * probe there */
	char instruction[64]; /* its text, "push %r12" (AT&T) */
	char why[96];	      /* why it was not moved to an emulated instruction, or "" */
};

/* Chooses the site in a function of len bytes of code whose first byte stands at vaddr; size is the
 * symbol's size (0: unknown: rule 5 cannot be shown, the probe stays at the entry). len may be
 * smaller than size when the file ends early: treated as unknown. Of the function's arguments the
 * probe reads the first n_args, 6 at most. 0; -EINVAL when len is 0, not
 * even the first instruction decodes, or it is a breakpoint (then nothing may be probed; why says
 * which); -ENOMEM. */
int probe_site__choose(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t size,
		       unsigned int n_args, struct probe_site *ret_site);

/* Does the kernel (any version) emulate the single instruction at code? *ret_nop as in struct
 * probe_site (may be NULL). False also for bytes that do not decode. */
bool probe_site__is_emulated(const uint8_t *code, size_t len, bool *ret_nop);

#endif
