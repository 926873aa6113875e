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
#include <sys/types.h>

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

/* How the child ends, unless it is killed. */
enum { DWARF_EXIT_DONE, DWARF_EXIT_FAILED, DWARF_EXIT_NO_DWARF, DWARF_EXIT_NO_SANDBOX };

struct dwarf_child {
	pid_t parent;		/* who forked */
	int file_fd;		/* holds the DWARF */
	int out_fd;		/* for the stream */
	unsigned int cpu_s;	/* at most */
	const uint64_t *vaddrs; /* n, as dwarf__resolve() has them */
	size_t n;
	const struct dwarf_test_hooks *hooks;
};

/* In the forked child, all signals blocked: enters the sandbox, reads the DWARF and writes the
 * stream. */
_Noreturn void dwarf_child__run(const struct dwarf_child *child);

#endif
