/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures what of a process's memory is resident, and whose it is by address
 * (profile/resident.h). */
#ifndef MEMTRACE_LEDGER_RESIDENT_H
#define MEMTRACE_LEDGER_RESIDENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "profile/resident.h"
#include "ledger/regions.h"

/* Reads smaps of pid and, where one mapping has several owners (the kernel joins neighbours),
 * pagemap. book: who has mapped what, settled; without anything in it when that was not followed.
 * glibc: it uses glibc's malloc, whose arenas then show. 0; -ESRCH: the process has ended; other
 * negative errno: nothing was measured. */
int resident__read(pid_t pid, const struct region_book *book, bool glibc,
		   struct resident_pieces *ret);

#endif
