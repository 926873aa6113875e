/* SPDX-License-Identifier: BSD-2-Clause */
/* Placing and taking out probes so that SIGKILL in the middle of it leaves nothing behind. */
#ifndef MEMTRACE_CAPTURE_SHIELD_H
#define MEMTRACE_CAPTURE_SHIELD_H

#include <stdbool.h>
#include <stddef.h>

/* fn(arg), out of the reach of a SIGKILL for memtrace; what it returns. It runs in our memory and
 * with our descriptors, while we wait; its pid is another. */
int shield__run(int (*fn)(void *arg), void *arg);

/* Closes n descriptors so, many at a time: to close a link takes some 45 ms, in which the kernel
 * waits for all CPUs to have left the probe's program, and such waits run side by side. (Not those
 * for perf events: they are under one lock.) */
void shield__close(const int *fds, size_t n);

/* The same of n descriptors, one after the other in this order, while we go on: they are not ours
 * any more. NULL: it could not be begun, and they are closed already. */
struct shield_closer *shield__begin_close(const int *fds, size_t n);

/* Are they closed? wait: waits until it is. Then the closer is freed. */
bool shield__end_close(struct shield_closer *closer, bool wait);

#endif
