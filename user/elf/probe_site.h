/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the place in a function where a uprobe costs least.
 *
 * The kernel emulates nop (0x90), push r64, relative jmp/call and relative jcc when they stand
 * under a probe (arch/x86/kernel/uprobes.c: branch_setup_ops(), push_setup_ops()). It single-steps
 * every other instruction out of line, which costs 3 to 18 times more. So a probe is moved from a
 * function's first instruction forward to the first emulated instruction, but only where this
 * provably changes nothing:
 *
 *   1. Straight path: none of the skipped instructions is a branch, call, return, trap or system
 *      instruction. So each entry into the function arrives at the probe exactly once.
 *   2. No way in from the side: no direct branch of the function leads to an address behind the
 *      entry and before the end of the probed instruction. If a loop jumped there, the probe would
 *      count one call twice.
 *   3. Arguments at hand: each argument that the probe reads is still whole in some register: its
 *      own register, or a register to which a mov has copied it. Other arguments do not matter.
 *   4. Frame intact: none of the skipped instructions writes rsp or rbp. So the return address is
 *      still at [rsp] (where the kernel takes it for a return probe) and rbp is still the caller's.
 *      None of them stores to memory either: a store could hit the return address or the red zone.
 *   5. In step: the function decodes from its entry to exactly its end (entry + size). A decoder
 *      out of step would put the breakpoint inside an instruction and crash the target. Behind
 *      the probe, one instruction may be unknown to the decoder. This does no harm: the straight
 *      path from the entry to the probe is in step, whatever follows. From the unknown instruction
 *      on, rule 2 takes every byte for the possible start of a branch.
 *
 * Where one of these rules cannot be shown to hold, the probe stays on the first instruction, which
 * the kernel itself verifies. Capstone does the decoding. */
#ifndef MEMTRACE_ELF_PROBE_SITE_H
#define MEMTRACE_ELF_PROBE_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROBE_SITE_ALL_ARGS 6

struct probe_site {
	/* The register that holds each argument at the probe. 1 to 6: the ABI's (rdi, rsi, rdx,
	 * rcx, r8, r9); 7 to 14: rax, r10, r11, rbx, r12 to r15; 0: the probe does not read this
	 * argument. */
	uint8_t args[PROBE_SITE_ALL_ARGS];
	uint32_t delta;	      /* bytes from the function's entry to the probed instruction */
	bool emulated;	      /* the kernel emulates this instruction (on every version) */
	bool nop;	      /* a multi-byte nop: emulated from Linux 6.18 on, single-stepped
			       * before. False with a segment prefix ("cs nopw"): no kernel takes
			       * a probe there */
	char instruction[64]; /* text of the probed instruction in AT&T syntax, such as "push
			       * %r12" */
	char why[96];	      /* why the probe was not moved to an emulated instruction, or "" */
};

/* Chooses the site in a function with len bytes of code, the first of them at vaddr. size is the
 * symbol's size. 0: unknown, so rule 5 cannot be shown and the probe stays at the entry. If the
 * file ends early, len is smaller than size, and size counts as unknown. The probe reads the first
 * n_args arguments of the function, 6 at most. Returns 0; -EINVAL when nothing may be probed: len
 * is 0, the first instruction does not decode, or it is a breakpoint (why says which); -ENOMEM. */
int probe_site__choose(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t size,
		       unsigned int n_args, struct probe_site *ret_site);

/* Does every kernel version emulate the single instruction at code? */
bool probe_site__is_emulated(const uint8_t *code, size_t len);

#endif
