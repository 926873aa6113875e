/* SPDX-License-Identifier: BSD-2-Clause */
/* The child of dwarf__resolve(), and what it tells its parent. Private to this room.
 *
 * The stream: per address a struct dwarf_record, then its frames, each a struct dwarf_wire_frame
 * and the bytes of its two strings. Same machine, same program: no byte order, and no version. How
 * it all went is the child's exit status. */
#ifndef MEMTRACE_SYMBOLIZE_DWARF_CHILD_H
#define MEMTRACE_SYMBOLIZE_DWARF_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "symbolize/child.h"
#include "symbolize/dwarf.h"

#define DWARF_NO_STRING UINT32_MAX

struct dwarf_record {
	uint32_t at; /* index of the address, each at most once */
	uint32_t n;  /* frames, 1 to DWARF_MAX_FRAMES */
};

struct dwarf_wire_frame {
	uint32_t line;
	/* bytes without a NUL, to NAME_MAX_BYTES; DWARF_NO_STRING: NULL */
	uint32_t function_len, file_len;
};

/* The parent's words to it. */
struct dwarf_child {
	const uint64_t *vaddrs; /* n, as dwarf__resolve() has them */
	size_t n;
	const char *debug_root; /* instead of /usr/lib/debug; NULL */
};

/* The two parts of struct child_task; ctx: a struct dwarf_child. */
int dwarf_child__open_other(int file_fd, void *ctx);
enum child_exit dwarf_child__read(FILE *out, int file_fd, int alternate_fd, void *ctx);

#endif
