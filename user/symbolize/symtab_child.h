/* SPDX-License-Identifier: BSD-2-Clause */
/* The child of symtab__open(), and what it tells its parent. Private to this room.
 *
 * The stream: a struct symtab_wire, its ranges, its names. Same machine, same program: no byte
 * order, and no version. How it all went is the child's exit status. */
#ifndef MEMTRACE_SYMBOLIZE_SYMTAB_CHILD_H
#define MEMTRACE_SYMBOLIZE_SYMTAB_CHILD_H

#include <stdint.h>
#include <stdio.h>

#include "symbolize/child.h"

#define SYMTAB_MAX_SYMBOLS  10000000 /* per file, each at most two ranges; chromium has 3 million */
#define SYMTAB_MAX_UNPACKED (128u << 20) /* bytes of .gnu_debugdata, unpacked (1 s) */

struct symtab_wire {
	uint64_t n_ranges;
	uint64_t names_bytes;
};

/* A stretch of one function. They ascend and are disjoint. */
struct symtab_range {
	uint64_t start, end; /* virtual addresses, end exclusive */
	uint64_t function;   /* where its function starts, not behind start */
	uint64_t name;	     /* where its name starts in the names, each of which ends with a NUL */
};

/* The part of struct child_task. debug_fd: the separate debug file, -1: none. Both descriptors are
 * closed. No ctx. CHILD_NO_DATA: it is no sound ELF. */
enum child_exit symtab_child__read(FILE *out, int file_fd, int debug_fd, void *ctx);

#endif
