/* SPDX-License-Identifier: BSD-2-Clause */
/* What the DWARF of one ELF file says about addresses: functions (inlined ones too), files and
 * lines. DWARF comes from the target, and memtrace is root. So a sandboxed child
 * (sandbox/sandbox.h) reads it, and the parent trusts nothing that the child says. */
#ifndef MEMTRACE_SYMBOLIZE_DWARF_H
#define MEMTRACE_SYMBOLIZE_DWARF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/stream.h"

/* an address has at most this many frames; if there are more, the outermost inlined functions are
 * left out */
#define DWARF_MAX_FRAMES 64

/* The strings are at most NAME_MAX_BYTES long (longer ones are cut), printable UTF-8, owned. */
struct dwarf_frame {
	char *function; /* the linker's (mangled) name if DWARF has one, else DW_AT_name, the bare
			 * name without namespace or class; NULL: unknown */
	char *file;	/* the file's name as the compiler got it; if it is relative, the directory
		     * of the compilation stands in front of it; NULL: unknown */
	uint32_t line;	/* number of the line in `file`; 0: unknown */
};

/* Innermost first: frames[0] is the address itself, frames[i] is the place where frames[i - 1] was
 * inlined. The last frame is the function that is not inlined. `n` is 0 if DWARF has nothing about
 * the address. If there is only one frame, it may have no function (assembly, for example, has only
 * lines). */
struct dwarf_frames {
	struct dwarf_frame *frames;
	size_t n;
};

/* Does the file have a .debug_info (or .zdebug_info) with content? Reads only section headers, so
 * it is safe on hostile files. False for a file that elf_headers__read() does not accept. */
bool dwarf__present(int fd);

/* Writes to ret[i] what DWARF says about the address vaddrs[i]. fd is the file that holds the
 * DWARF: the binary or its separate debug file. dwz may have moved a common part of the DWARF to a
 * third file. That file is searched for below /usr/lib/debug, by build-id and by name; without it
 * the common part is missing. vaddrs: addresses of code (return addresses minus 1), ascending,
 * distinct. patience_s limits the whole call: when it is over, the child is killed.
 *
 * 0; -ENODATA: no DWARF; -ETIMEDOUT; -ECHILD: the child died or sent nonsense, so the DWARF is
 * broken or hostile, or needs more than a few GiB of memory; -EPERM: no sandbox is available, so
 * nothing was read; -ENOMEM, -EINVAL (too many addresses), or the error of fork or pipe. ret is
 * valid in every case, and keeps what was found before a failure. The caller must not ignore
 * SIGCHLD. waiting: NULL for none. */
int dwarf__resolve(int fd, const uint64_t *vaddrs, size_t n, double patience_s,
		   const struct stream_waiting *waiting, struct dwarf_frames *ret);

/* Frees what frames[0..n) hold, but not the array itself. */
void dwarf_frames__free(struct dwarf_frames *frames, size_t n);

/* For tests. in_child is called in the sealed child before it reads anything. */
extern struct dwarf_test_hooks {
	void (*in_child)(void);
	const char *debug_root; /* the directory to search instead of /usr/lib/debug */
} dwarf__test_hooks;

#endif
