/* SPDX-License-Identifier: BSD-2-Clause */
/* The capabilities of the calling thread (capabilities(7)): sets of bits, one for each CAP_... of
 * linux/capability.h. A thread or process that this thread starts gets the sets that this thread
 * has at that time. */
#ifndef MEMTRACE_BASE_CAPABILITIES_H
#define MEMTRACE_BASE_CAPABILITIES_H

#include <stdint.h>

#define CAPABILITY(cap) (1ULL << (cap))

struct capabilities {
	uint64_t effective, permitted, inheritable;
};

/* 0 or negative errno. */
int capabilities__read(struct capabilities *ret);

/* Keeps only the capabilities in `permitted`. Of these, the ones in `effective` are in use. Both
 * sets may contain capabilities that the thread does not have: these are ignored. A program that is
 * executed later gets no capabilities, because the inheritable and the ambient set become empty. If
 * the thread had CAP_SETPCAP, the bounding set becomes empty, too. 0 or negative errno. */
int capabilities__limit(uint64_t effective, uint64_t permitted);

#endif
