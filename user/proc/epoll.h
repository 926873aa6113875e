/* SPDX-License-Identifier: BSD-2-Clause */
/* The data of a process's epoll descriptors (epoll_event.data). Only the kernel keeps them, so they
 * are in no memory of the process. */
#ifndef MEMTRACE_PROC_EPOLL_H
#define MEMTRACE_PROC_EPOLL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* While the kernel writes the list of an epoll descriptor, the process cannot use this descriptor.
 * This takes about 1 us for each element. So if a process has more than EPOLL_MAX_FDS descriptors,
 * nothing is read. */
#define EPOLL_MAX_FDS	16384
#define EPOLL_MAX_DATA	(1 << 20) /* at most this many data are read */
#define EPOLL_MAX_LINES (1 << 22) /* likewise lines: lines whose data are no address count, too */

struct epoll_kept {
	uint64_t *list; /* owned */
	size_t n;
	uint64_t unread; /* epoll descriptors that were not read as a whole; at least 1 if the
			  * descriptors were not looked at */
};

/* Reads the data of all epoll descriptors of pid. Data that are no address (below 65536, such as
 * numbers of descriptors) are left out. mt-files does the work (base/far.h), because a process can
 * make a reader of these files wait in the kernel. Without the right to read the process's
 * descriptors, ret->unread is 1. 0 or -ENOMEM. The caller frees ret->list. */
int epoll_kept__read(pid_t pid, struct epoll_kept *ret);

#endif
