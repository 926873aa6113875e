/* SPDX-License-Identifier: BSD-2-Clause */
/* Places probes and takes them out. A SIGKILL for memtrace in the middle of this work leaves
 * nothing behind. */
#ifndef MEMTRACE_CAPTURE_SHIELD_H
#define MEMTRACE_CAPTURE_SHIELD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Runs fn(arg) in a helper process that a SIGKILL for memtrace does not hit. Returns the result of
 * fn; -EINTR: the helper was killed half-way. The helper shares memtrace's memory and descriptors,
 * but has another pid. memtrace waits for the helper's end. */
int shield__run(int (*fn)(void *arg), void *arg);

/* A place holds the number of a descriptor + 1; 0: none. Whoever takes the descriptor out of its
 * place, by an atomic exchange with 0, closes it. A helper takes each descriptor out of its place
 * only just before the close. Until then the keeper can still close the descriptor, for example if
 * memtrace is stopped.
 *
 * This function closes the descriptors in n places, many at a time, in a helper like that of
 * shield__run(). Closing one link takes some 45 ms, in which the kernel waits until all CPUs have
 * left the probe's program. The kernel can wait for many links at the same time, but not for perf
 * events, which are closed under one lock. */
void shield__close(atomic_int *const *places, size_t n);

/* Begins to close the descriptors in n places in a helper, one after the other in this order, and
 * does not wait. The places must stay until the closer has ended. NULL: the helper could not be
 * started, and the descriptors are closed already. */
struct shield_closer *shield__begin_close(atomic_int *const *places, size_t n);

/* Are the descriptors closed? `wait`: waits until they are, and then returns true. When they are
 * closed, frees the closer. */
bool shield__end_close(struct shield_closer *closer, bool wait);

#endif
