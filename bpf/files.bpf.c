// SPDX-License-Identifier: GPL-2.0-only
/* Tells which file the pages of a mapping come from. On overlayfs this is a file of a layer below,
 * and the kernel puts uprobes into that file. Containers that are made of the same image layer
 * share that file, although each container sees it on another device. memtrace maps a file itself
 * and asks about its own mapping. This program has a source file of its own, because memtrace can
 * do without this program. Needs Linux 5.17 (bpf_find_vma()). */
#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

char LICENSE[] SEC("license") = "GPL";

static long note_file(struct task_struct *task, struct vm_area_struct *vma, struct abi_file *found)
{
	struct inode *inode = BPF_CORE_READ(vma, vm_file, f_inode);

	found->inode = BPF_CORE_READ(inode, i_ino);
	found->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	return 0;
}

SEC("syscall")
int real_file(struct abi_real_file *of)
{
	struct abi_file found = {};

	bpf_find_vma(bpf_get_current_task_btf(), of->addr, note_file, &found, 0);
	of->file = found;
	return 0;
}
