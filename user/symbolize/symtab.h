/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of one ELF file, sorted for lookup by virtual address. The file comes from the
 * target and we are root, so a sandboxed child reads it (sandbox.h) and nothing that the child says
 * is trusted. */
#ifndef MEMTRACE_SYMBOLIZE_SYMTAB_H
#define MEMTRACE_SYMBOLIZE_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolize/stream.h"

struct symtab; /* opaque */

/* Reads the symbols of the ELF file behind fd: .symtab, else that of its separate debug file behind
 * *debug_fd (-1: none), .gnu_debugdata, and .dynsym. When there is no debug file and
 * DEBUGINFOD_URLS is set, a server is asked for it, and *debug_fd becomes what it had. Both
 * descriptors are the caller's. patience_s: how long reading may take, the server not counted.
 * waiting: NULL for none.
 *
 * 0; -ENOEXEC: no sound ELF of this machine; -ETIMEDOUT; -ECHILD: the child died or talked
 * nonsense, so the file is broken or hostile, or needs more than a few GiB of memory; -EPERM: no
 * sandbox here, and nothing was read without one; -ENOMEM, or what fork and pipe say. The caller's
 * SIGCHLD must not be ignored. */
int symtab__open(int fd, int *debug_fd, double patience_s, const struct stream_waiting *waiting,
		 struct symtab **ret_symtab);
void symtab__free(struct symtab *symtab);

/* The mangled name of the function that covers vaddr, or NULL. A symbol without a size covers up to
 * the next symbol, within its section. Of several at one address the preference is: a sized one,
 * no local one, without leading underscores, global over weak, then the shortest, then the first
 * in strcmp order. 1 to NAME_MAX_BYTES bytes, printable; owned by the symtab. *ret_start (may be
 * NULL): where the function begins, not behind vaddr. */
const char *symtab__find(const struct symtab *symtab, uint64_t vaddr, uint64_t *ret_start);

/* True when the file has no function symbols at all. */
bool symtab__empty(const struct symtab *symtab);

/* Memory that it takes. */
size_t symtab__bytes(const struct symtab *symtab);

/* A name for people from a linker's name: C++ (Itanium) and Rust (legacy and v0) demangled, without
 * parameter lists, template arguments kept; Rust's hash suffix dropped; anything else as it is. A
 * fresh string or NULL (out of memory). */
char *demangle(const char *name);

/* For tests. in_child is called in the child, sealed, before it reads anything. */
extern struct symtab_test_hooks {
	void (*in_child)(void);
} symtab__test_hooks;

#endif
