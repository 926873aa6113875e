/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel types that the programs touch, and no others: written by hand so that memtrace builds
 * on a machine whose kernel has no BTF. Fields are relocated at load time (CO-RE); only their names
 * and types matter here, not their places. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include <linux/types.h>
#include <linux/bpf.h>

typedef _Bool bool;
enum { false = 0, true = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r8;
	unsigned long r9;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long bp;
	unsigned long ip;
	unsigned long sp;
};

struct task_struct {
	int pid;
	int tgid;
};

#pragma clang attribute pop

#endif
