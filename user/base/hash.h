/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash for tables whose keys (names and addresses) may come from an attacker. The attacker cannot
 * choose keys that collide. */
#ifndef MEMTRACE_BASE_HASH_H
#define MEMTRACE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Returns the hash of the data. It also depends on a secret of this process, so another process
 * gets another hash of the same data. */
uint64_t hash__keyed(const void *data, size_t len);

#endif
