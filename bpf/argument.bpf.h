/* SPDX-License-Identifier: GPL-2.0-only */
/* The arguments of a call at its entry. */
#ifndef MEMTRACE_BPF_ARGUMENT_BPF_H
#define MEMTRACE_BPF_ARGUMENT_BPF_H

#include "maps.bpf.h"

/* Returns the call's argument with this number (enum abi_role in abi.h), or 0 for the number 0. The
 * verifier accepts only constant offsets into the context. So barriers keep clang from computing
 * one address for all cases. */
static __always_inline __u64 argument(struct pt_regs *ctx, __u8 number)
{
	__u64 value = 0;

	if (number == 1) {
		value = PT_REGS_PARM1(ctx);
		barrier_var(value);
	} else if (number == 2) {
		value = PT_REGS_PARM2(ctx);
		barrier_var(value);
	} else if (number == 3) {
		value = PT_REGS_PARM3(ctx);
		barrier_var(value);
	} else if (number == 4) {
		value = PT_REGS_PARM4(ctx);
		barrier_var(value);
	} else if (number == 5) {
		value = PT_REGS_PARM5(ctx);
		barrier_var(value);
	} else if (number == 6) {
		value = ctx->r9;
		barrier_var(value);
	} else if (number == 7) {
		value = ctx->ax;
		barrier_var(value);
	} else if (number == 8) {
		value = ctx->r10;
		barrier_var(value);
	} else if (number == 9) {
		value = ctx->r11;
		barrier_var(value);
	} else if (number == 10) {
		value = ctx->bx;
		barrier_var(value);
	} else if (number == 11) {
		value = ctx->r12;
		barrier_var(value);
	} else if (number == 12) {
		value = ctx->r13;
		barrier_var(value);
	} else if (number == 13) {
		value = ctx->r14;
		barrier_var(value);
	} else if (number == 14) {
		value = ctx->r15;
		barrier_var(value);
	} else if (number == 15) {
		value = ctx->bp;
		barrier_var(value);
	}
	return value;
}

#endif
