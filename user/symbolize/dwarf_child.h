/* SPDX-License-Identifier: BSD-2-Clause */
/* The child of dwarf__resolve(), and its messages to the parent. Private to user/symbolize.
 *
 * The stream holds, for each address that the DWARF knows, a struct dwarf_record and then the
 * frames. Each frame is a struct dwarf_wire_frame followed by the bytes of its two strings. Both
 * ends run the same program on the same machine, so the stream has no fixed byte order and no
 * version. The child's exit status tells success or failure. */
#ifndef MEMTRACE_SYMBOLIZE_DWARF_CHILD_H
#define MEMTRACE_SYMBOLIZE_DWARF_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sandbox/child.h"
#include "symbolize/dwarf.h"

#define DWARF_NO_STRING UINT32_MAX

struct dwarf_record {
	uint32_t at; /* index of the address; each occurs at most once */
	uint32_t n;  /* frames, 1 to DWARF_MAX_FRAMES */
};

struct dwarf_wire_frame {
	uint32_t line;
	/* bytes of the strings without a NUL, at most NAME_MAX_BYTES; DWARF_NO_STRING: the string
	 * is NULL */
	uint32_t function_len, file_len;
};

/* What the parent passes to the child. */
struct dwarf_child {
	const uint64_t *vaddrs; /* n of them, as in dwarf__resolve() */
	size_t n;
	const char *debug_root; /* the directory to search instead of /usr/lib/debug; NULL: none */
};

/* Callbacks for struct child_task; ctx is a struct dwarf_child. */
int dwarf_child__open_other(int file_fd, void *ctx);
enum child_exit dwarf_child__read(FILE *out, int file_fd, int alternate_fd, void *ctx);

#endif
