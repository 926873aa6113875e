/* SPDX-License-Identifier: GPL-2.0-only */
/* A file's time of change (ctime), which its owner cannot set. It tells whether a file is
 * unchanged, and whether an inode number still belongs to the same file. */
#ifndef MEMTRACE_BPF_CTIME_BPF_H
#define MEMTRACE_BPF_CTIME_BPF_H

#include "compat.bpf.h"

/* Since Linux 6.13, file systems keep a flag of their own in the field of the nanoseconds. It says
 * that the time was queried. */
#define CTIME_QUERIED (1U << 31)

/* The field of struct inode that holds the ctime: before Linux 6.6, and from 6.6 to 6.10. */
struct inode___public_ctime {
	struct timespec64 i_ctime;
} __attribute__((preserve_access_index));

struct inode___private_ctime {
	struct timespec64 __i_ctime;
} __attribute__((preserve_access_index));

static __always_inline void read_changed(struct inode *inode, __u64 *ret_s, __u32 *ret_ns)
{
	struct inode___public_ctime *public = (void *)inode;
	struct inode___private_ctime *private = (void *)inode;

	if (bpf_core_field_exists(inode->i_ctime_sec)) {
		*ret_s = (__u64)BPF_CORE_READ(inode, i_ctime_sec);
		*ret_ns = BPF_CORE_READ(inode, i_ctime_nsec) & ~CTIME_QUERIED;
	} else if (bpf_core_field_exists(private->__i_ctime)) {
		*ret_s = (__u64)BPF_CORE_READ(private, __i_ctime.tv_sec);
		*ret_ns = (__u32)BPF_CORE_READ(private, __i_ctime.tv_nsec);
	} else {
		*ret_s = (__u64)BPF_CORE_READ(public, i_ctime.tv_sec);
		*ret_ns = (__u32)BPF_CORE_READ(public, i_ctime.tv_nsec);
	}
}

#endif
