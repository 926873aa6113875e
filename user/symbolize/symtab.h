/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of one ELF file, sorted for lookup by virtual address. */
#ifndef MEMTRACE_SYMBOLIZE_SYMTAB_H
#define MEMTRACE_SYMBOLIZE_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symtab; /* opaque */

/* Reads the symbols of the ELF file behind fd: .symtab, else that of its separate debug file behind
 * *debug_fd (-1: none), .gnu_debugdata, and .dynsym. When there is no debug file and
 * DEBUGINFOD_URLS is set, a server is asked for it, and *debug_fd becomes what it had. Both
 * descriptors are the caller's. path is how the file is called. 0; -ENOEXEC for no sound ELF;
 * -ENOMEM. */
int symtab__open(int fd, int *debug_fd, const char *path, struct symtab **ret_symtab);
void symtab__free(struct symtab *symtab);

/* The mangled name of the function that covers vaddr, or NULL. A symbol without a size covers up to
 * the next symbol, within its section. Of several at one address the preference is: a sized one,
 * no local one, without leading underscores, global over weak, then the shortest, then the first
 * in strcmp order. Owned by the symtab. *ret_start (may be NULL): where the function begins. */
const char *symtab__find(const struct symtab *symtab, uint64_t vaddr, uint64_t *ret_start);

/* True when the file has no function symbols at all. */
bool symtab__empty(const struct symtab *symtab);

/* File offset -> virtual address by the file's own PT_LOAD segments. 0 or -ERANGE. */
int symtab__off_to_vaddr(const struct symtab *symtab, uint64_t off, uint64_t *ret_vaddr);

/* Hex build-id or NULL. Owned by the symtab. */
const char *symtab__build_id(const struct symtab *symtab);

/* Memory that it takes. */
size_t symtab__bytes(const struct symtab *symtab);

/* A name for people from a linker's name: C++ (Itanium) and Rust (legacy and v0) demangled, without
 * parameter lists, template arguments kept; Rust's hash suffix dropped; anything else as it is. A
 * fresh string or NULL (out of memory). */
char *demangle(const char *name);

#endif
