/* SPDX-License-Identifier: BSD-2-Clause */
/* The child of symtab__open(), and its messages to the parent. Private to user/symbolize.
 *
 * The stream holds a struct symtab_wire, its ranges and its names. Both ends run the same program
 * on the same machine, so the stream has no fixed byte order and no version. The child's exit
 * status tells success or failure. */
#ifndef MEMTRACE_SYMBOLIZE_SYMTAB_CHILD_H
#define MEMTRACE_SYMBOLIZE_SYMTAB_CHILD_H

#include <stdint.h>
#include <stdio.h>

#include "sandbox/child.h"
#include "symbolize/symtab.h"

/* symbols per file, each with at most two ranges; chromium has 3 million symbols */
#define SYMTAB_MAX_SYMBOLS 10000000
/* bytes of unpacked .gnu_debugdata; unpacking this many takes 1 s */
#define SYMTAB_MAX_UNPACKED (128u << 20)

struct symtab_wire {
	uint64_t n_ranges;
	uint64_t names_bytes;
};

/* A range of addresses of one function or variable. Ranges are ascending and disjoint. */
struct symtab_range {
	uint64_t start, end; /* virtual addresses, end exclusive */
	uint64_t function;   /* where the function or variable starts, at or before `start` */
	/* offset of its name in the sent names, each of which ends with a NUL */
	uint64_t name;
};

/* Callback for struct child_task; ctx: an enum symtab_kind. debug_fd: the separate debug file,
 * -1: none. Closes both descriptors. CHILD_NO_DATA: the file is not a sound ELF file. */
enum child_exit symtab_child__read(FILE *out, int file_fd, int debug_fd, void *ctx);

#endif
