/* SPDX-License-Identifier: GPL-2.0-only */
/* Only the kernel types that the programs use. They are written by hand, so that memtrace builds
 * even on a machine whose kernel has no BTF. Fields are relocated at load time (CO-RE); only their
 * names and types matter here, not their places. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include <linux/types.h>
#include <linux/bpf.h>

typedef _Bool bool;
enum { false = 0, true = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r15;
	unsigned long r14;
	unsigned long r13;
	unsigned long r12;
	unsigned long bx;
	unsigned long r11;
	unsigned long r10;
	unsigned long r8;
	unsigned long r9;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long bp;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long sp;
};

/* from kernel/events/uprobes.c; the area's first slot is the return probes' trampoline */
struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct super_block {
	unsigned int s_dev;
};

struct timespec64 {
	long long tv_sec;
	long tv_nsec;
};

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
	long long i_size;
	long long i_ctime_sec;
	unsigned int i_ctime_nsec;
};

struct dentry {
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
};

/* from fs/file_table.c: a file in a layer below, as in overlayfs; begins with its struct file */
struct backing_file {
	struct path user_path;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct mm_struct {
	struct file *exe_file;
	unsigned long brk;
	struct uprobes_state uprobes_state;
};

struct return_instance {
	unsigned long stack;
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct uprobe_task {
	struct return_instance *return_instances;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	unsigned int flags;
	unsigned long long sum_sched_runtime;
	struct mm_struct *oom_mm;
};

typedef struct {
	unsigned int val;
} kuid_t;

struct cred {
	kuid_t euid;
};

struct thread_info {
	unsigned int status;
};

struct thread_struct {
	unsigned long fsbase;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct task_struct {
	struct thread_info thread_info;
	struct sched_entity se;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	const struct cred *cred;
	char comm[16];
	struct mm_struct *mm;
	int exit_code;
	struct uprobe_task *utask;
	int pagefault_disabled;
	void *bpf_ctx; /* context of the program that runs: struct bpf_uprobe_multi_run_ctx, or
			* others */
	unsigned long nvcsw;
	unsigned long nivcsw;
	__u64 start_time;
	struct thread_struct thread;
};

struct list_head {
	struct list_head *next;
};

/* All probes on one instruction; from kernel/events/uprobes.c. */
struct uprobe {
	struct list_head consumers;
};

/* One of these probes. handler: what is called at the instruction; ret_handler: at the return. */
struct uprobe_consumer {
	void *handler;
	void *ret_handler;
	struct list_head cons_node; /* since Linux 6.12 */
};

/* Probes of a uprobe_multi link; from kernel/trace/bpf_trace.c. */
struct bpf_prog;
struct bpf_link {
	struct bpf_prog *prog;
};

struct bpf_uprobe_multi_link {
	struct bpf_link link;
	struct task_struct *task; /* the process that the link is for; NULL: all processes */
};

struct bpf_uprobe {
	struct bpf_uprobe_multi_link *link;
	struct uprobe *uprobe;
	struct uprobe_consumer consumer;
};

struct bpf_uprobe_multi_run_ctx {
	struct bpf_uprobe *uprobe;
};

struct seq_file {
	unsigned long size;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

/* The context of a program that is called for each thread. */
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#endif
