/* SPDX-License-Identifier: BSD-2-Clause */
/* What the DWARF of one ELF file says of addresses: functions, also those that were inlined there,
 * files and lines. DWARF comes from the target and we are root, so a sandboxed child reads it
 * (sandbox.h) and nothing that the child says is trusted. */
#ifndef MEMTRACE_SYMBOLIZE_DWARF_H
#define MEMTRACE_SYMBOLIZE_DWARF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolize/stream.h"

#define DWARF_MAX_FRAMES 64 /* per address; beyond that the outermost inlined ones are left out */

/* The strings are at most NAME_MAX_BYTES long (longer ones are cut), printable UTF-8, owned. */
struct dwarf_frame {
	char *function; /* the linker's (mangled) name where DWARF has one, else DW_AT_name, which
			 * is unqualified; NULL: unknown */
	char *file; /* as compiled, after the compilation's directory when relative; NULL: unknown
		     */
	uint32_t line; /* in file; 0: unknown */
};

/* Innermost first: frames[0] is where the address is, frames[i] where frames[i - 1] was inlined,
 * the last one the function that was compiled. n 0: DWARF says nothing of the address. A lone frame
 * may have no function (assembly, for one, has lines only). */
struct dwarf_frames {
	struct dwarf_frame *frames;
	size_t n;
};

/* Has the file a .debug_info (or .zdebug_info) with content? Reads section headers only; safe on
 * hostile files. Only of what elf_headers__read() takes. */
bool dwarf__present(int fd);

/* Fills ret[i] for vaddrs[i]. fd: the file that holds the DWARF, which is the binary or its
 * separate debug file; the common part that dwz may have moved to a third file is looked for below
 * /usr/lib/debug, by build-id and by name, and done without when it is not there. vaddrs:
 * ascending, distinct, of code (a return address minus 1). patience_s: how long the whole may take;
 * the kernel ends what is left of the child then.
 *
 * 0; -ENODATA: no DWARF; -ETIMEDOUT; -ECHILD: the child died or talked nonsense, so the DWARF is
 * broken or hostile, or needs more than a few GiB of memory; -EPERM: no sandbox here, and nothing
 * was read without one; -ENOMEM, -EINVAL (too many addresses), or what fork and pipe say. ret is
 * valid in every case, and keeps what was found before a failure. The caller's SIGCHLD must not be
 * ignored. waiting: NULL for none. */
int dwarf__resolve(int fd, const uint64_t *vaddrs, size_t n, double patience_s,
		   const struct stream_waiting *waiting, struct dwarf_frames *ret);

/* Frees what ret[0..n) holds, not ret itself. */
void dwarf_frames__free(struct dwarf_frames *frames, size_t n);

/* For tests. in_child is called in the child, sealed, before it reads anything. */
extern struct dwarf_test_hooks {
	void (*in_child)(void);
	const char *debug_root; /* instead of /usr/lib/debug */
} dwarf__test_hooks;

#endif
