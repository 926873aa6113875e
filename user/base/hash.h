/* SPDX-License-Identifier: BSD-2-Clause */
/* For tables of what strangers choose, names and addresses: nobody can choose them to collide. */
#ifndef MEMTRACE_BASE_HASH_H
#define MEMTRACE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Keyed with a secret of the process: the same in one run, not in another. */
uint64_t hash__keyed(const void *data, size_t len);

#endif
