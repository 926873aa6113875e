/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures how much of a process's memory is resident, and who owns it, by address
 * (profile/resident.h). */
#ifndef MEMTRACE_LEDGER_RESIDENT_H
#define MEMTRACE_LEDGER_RESIDENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "profile/resident.h"
#include "ledger/regions.h"

/* Reads smaps of pid. Reads pagemap, too, if one mapping has several owners (the kernel joins
 * mappings that touch each other). book: who has mapped which range, after region_book__settle();
 * empty when regions were not followed. glibc: the process uses glibc's malloc, so its arenas are
 * recognised. *ret: all zero, or an earlier result, which is freed and replaced if the reading
 * succeeds. 0; -ESRCH: the process has ended; other negative errno: nothing was measured. */
int resident__read(pid_t pid, const struct region_book *book, bool glibc,
		   struct resident_pieces *ret);

#endif
