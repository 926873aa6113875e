/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash for tables of names and addresses that strangers choose: nobody can choose keys that
 * collide. */
#ifndef MEMTRACE_BASE_HASH_H
#define MEMTRACE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Keyed with a secret of the process: the same data has one hash in a run, another in the next
 * run. */
uint64_t hash__keyed(const void *data, size_t len);

#endif
