/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of one ELF file, or its variables, sorted for lookup by virtual address. The file
 * comes from the target, and memtrace is root. So a sandboxed child (sandbox/sandbox.h) reads it,
 * and the parent trusts nothing that the child says. */
#ifndef MEMTRACE_SYMBOLIZE_SYMTAB_H
#define MEMTRACE_SYMBOLIZE_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/stream.h"

struct symtab; /* opaque */

enum symtab_kind {
	SYMTAB_FUNCTIONS,
	SYMTAB_VARIABLES,
	/* thread-local variables. PT_TLS holds their first values, and each thread gets a copy of
	 * these values. The vaddr of such a variable is its place in PT_TLS */
	SYMTAB_THREAD_LOCAL,
	SYMTAB_KINDS
};

/* Reads the symbols of this kind from the ELF file behind fd. The symbols come from one .symtab and
 * from .dynsym. The .symtab is the file's own, or else the one in its separate debug file behind
 * *debug_fd (-1: none), or else the one in .gnu_debugdata. When the file has neither a .symtab nor
 * a debug file, and DEBUGINFOD_URLS is set, a server is asked for the debug file. *debug_fd then
 * becomes a descriptor of the file that the server sent. The caller owns both descriptors.
 * patience_s limits the time for reading; the server's time is not counted. waiting: NULL for none.
 *
 * 0; -ENOEXEC: no sound ELF of this machine; -ETIMEDOUT; -ECHILD: the child died or sent nonsense,
 * so the file is broken or hostile, or needs more than a few GiB of memory; -EPERM: no sandbox is
 * available, so nothing was read; -ENOMEM, or the error of fork or pipe. The caller must not ignore
 * SIGCHLD. */
int symtab__open(int fd, int *debug_fd, enum symtab_kind kind, double patience_s,
		 const struct stream_waiting *waiting, struct symtab **ret_symtab);
void symtab__free(struct symtab *symtab);

/* The mangled name of the function or variable that covers vaddr, or NULL. A symbol without a size
 * covers the addresses up to the next symbol, within its section (or its segment, if its section is
 * not known). Of several symbols at one address, one is chosen by these rules, in this order: with
 * a size, not local, without leading underscores, global over weak, the shortest name, the first
 * name in strcmp order, the symbol that ends first. The name has 1 to NAME_MAX_BYTES printable
 * bytes and is owned by the symtab. *ret_start (may be NULL): where the function or variable
 * begins, at or before vaddr. */
const char *symtab__find(const struct symtab *symtab, uint64_t vaddr, uint64_t *ret_start);

/* Does the file have no symbols of this kind at all? */
bool symtab__empty(const struct symtab *symtab);

/* Bytes of memory that the symtab needs. */
size_t symtab__bytes(const struct symtab *symtab);

/* Makes a readable name from a linker's name. C++ (Itanium) and Rust (legacy and v0) names are
 * demangled. The result has template arguments, but no parameter lists and not Rust's hash suffix.
 * Other names stay as they are. So do names that take too long: a hostile name may take years. Only
 * one thread may call this function. It uses SIGVTALRM. Returns a new string or NULL (out of
 * memory). */
char *demangle(const char *name);

/* Begins a group of names, such as those of one profile. Slow names of one group may use at most
 * half of the time that is left for slow names. So a target with hostile names leaves time for the
 * names of other targets. */
void demangle__begin(void);

/* Returns how many names demangle() has left mangled so far, because they, or names before them,
 * took too long. */
uint64_t demangle__left(void);

/* For tests. in_child is called in the sealed child before it reads anything. */
extern struct symtab_test_hooks {
	void (*in_child)(void);
} symtab__test_hooks;

#endif
