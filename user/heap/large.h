/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists a process's large blocks in use (profile/large.h), read from outside. Finds only blocks
 * that have a mapping of their own (glibc) or an extent of their own (jemalloc). This takes much
 * less time than counting all blocks of the heap (census.h). */
#ifndef MEMTRACE_HEAP_LARGE_H
#define MEMTRACE_HEAP_LARGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "heap/blocks.h"
#include "heap/find.h"
#include "heap/scan.h"
#include "proc/maps.h"
#include "profile/large.h"

#define LARGE_MAX	 2048 /* at most this many blocks: such a list fits into a pipe */
#define LARGE_PATIENCE_S 5.0

/* Chooses the large blocks among `blocks`. ret->at has room for LARGE_MAX. False: there are more
 * than LARGE_MAX, or no allocator was found, or the bytes found differ from those that glibc itself
 * counts. For tests, and for the child of large__start(). */
bool large__choose(const struct blocks *blocks, const struct heap_found *found,
		   struct large_blocks *ret);

/* Starts a scan of pid. maps: the maps of pid, which the caller has just read. 0, or negative errno
 * with err: an error of scan__start(). The caller ends it with large__end(). */
int large__start(pid_t pid, const struct maps *maps, struct scan **ret, struct error *err);

/* Is the list there? Then large__end() does not wait for it. Also true after a failure. */
bool large__ready(struct scan *scan);

/* Receives the list, waits for it if need be, and frees scan. 0: the caller releases ret with
 * large_blocks__clear(). Negative errno: no list. -ENODATA: the allocator's structures do not add
 * up, or there are too many blocks; -EPROTO: the child sent invalid data; other errors: those of
 * census__take(). */
int large__end(struct scan *scan, struct large_blocks *ret);

#endif
