/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash for tables whose names and addresses may come from an attacker, who cannot choose keys
 * that collide. */
#ifndef MEMTRACE_BASE_HASH_H
#define MEMTRACE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Keyed with a secret of the process: the hash of the same data differs from run to run. */
uint64_t hash__keyed(const void *data, size_t len);

#endif
