/* SPDX-License-Identifier: BSD-2-Clause */
/* The capabilities of the calling thread (capabilities(7)): sets of bits, one for each CAP_... of
 * linux/capability.h. Threads and processes that begin later have what this one has by then. */
#ifndef MEMTRACE_BASE_CAPABILITIES_H
#define MEMTRACE_BASE_CAPABILITIES_H

#include <stdint.h>

#define CAPABILITY(cap) (1ULL << (cap))

struct capabilities {
	uint64_t effective, permitted, inheritable;
};

/* 0 or negative errno. */
int capabilities__read(struct capabilities *ret);

/* Gives up all but those that are permitted, and of these puts the effective ones to use; more than
 * there are is no error. Nothing is left to a program that is executed: the inheritable and the
 * ambient set become empty, and the bounding set, too, if CAP_SETPCAP was there. 0 or negative
 * errno. */
int capabilities__limit(uint64_t effective, uint64_t permitted);

#endif
