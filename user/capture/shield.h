/* SPDX-License-Identifier: BSD-2-Clause */
/* Placing and taking out probes so that SIGKILL in the middle of it leaves nothing behind. */
#ifndef MEMTRACE_CAPTURE_SHIELD_H
#define MEMTRACE_CAPTURE_SHIELD_H

/* fn(arg), out of the reach of a SIGKILL for memtrace; what it returns. It runs in our memory and
 * with our descriptors, while we wait; its pid is another. */
int shield__run(int (*fn)(void *arg), void *arg);

#endif
