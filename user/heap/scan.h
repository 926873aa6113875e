/* SPDX-License-Identifier: BSD-2-Clause */
/* A scan of the heap of a process that continues to run. A child without privileges makes the scan
 * (sandbox/child.h), because the memory may be hostile, and a read of it may hang. The child does
 * all the work on the memory. The parent gets bytes, and trusts none of them. struct scan_pace
 * tells when the child holds back (sandbox/gentle.h). */
#ifndef MEMTRACE_HEAP_SCAN_H
#define MEMTRACE_HEAP_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "heap/blocks.h"
#include "heap/find.h"
#include "heap/image.h"
#include "sandbox/child.h"

/* How much CPU time a scan takes. If all members are 0, the scan holds back whenever others need
 * the CPUs, but only in the first third of its time limit. */
struct scan_pace {
	bool hurry; /* the scan takes all CPU time that it can get */
	/* The most CPU time, as a share of one CPU; 0: no such limit. With such a limit, the
	 * default time limit is longer: with 0.1, it is ten times as long. Ignored with `hurry`. */
	double max_share;
};

/* What the child has found. */
struct scan_view {
	struct image *image;
	struct blocks *blocks; /* finished */
	const struct heap_found *found;
};

struct scan_task {
	/* Runs in the sandboxed child after the blocks were found. In this child, fn cannot open
	 * files or start processes. The parent reads from scan__stream() what fn writes to out. */
	enum child_exit (*fn)(const struct scan_view *view, FILE *out, void *ctx);
	void *ctx;

	bool alone; /* find only blocks that have a mapping or an extent of their own (find.h) */
	struct scan_pace pace;
	double patience_s;    /* time limit for the whole scan; 0: SCAN_PATIENCE_S */
	uint64_t max_memory;  /* memory of the child, bytes; 0: SCAN_MAX_MEMORY */
	size_t max_out_bytes; /* most bytes that fn may write; 0: SCAN_MAX_OUT */
	/* called while the parent waits; NULL: nothing is called */
	const struct stream_waiting *waiting;
};

#define SCAN_PATIENCE_S 90.0
#define SCAN_MAX_MEMORY (2ULL << 30)
#define SCAN_MAX_OUT	(256u << 20)

struct scan; /* opaque */

/* Starts a scan. maps: the maps of pid, which the caller has just read (maps__read()); not needed
 * after this call. 0, or negative errno with the reason in err. */
int scan__start(pid_t pid, const struct maps *maps, const struct scan_task *task, struct scan **ret,
		struct error *err);
/* The stream of what fn writes; owned by scan. Read it up to its end, because scan__end() kills a
 * child that has not ended. */
struct stream *scan__stream(struct scan *scan);
/* Ends the child if it has not ended, and frees scan. 0; -EPERM: no sandbox is available here, so
 * nothing was read; -ETIMEDOUT: the child hangs while it reads memory, and was abandoned; -ECHILD:
 * the child failed or was killed. */
int scan__end(struct scan *scan);

#endif
