/* SPDX-License-Identifier: BSD-2-Clause */
/* The files of a process, which variables.c and thread_names.c share. */
#ifndef MEMTRACE_SYMBOLIZE_VARIABLES_INTERNAL_H
#define MEMTRACE_SYMBOLIZE_VARIABLES_INTERNAL_H

#include <stdbool.h>

#include "elf/binary.h"
#include "elf/unwind.h"
#include "symbolize/symtab.h"
#include "symbolize/variables.h"

/* A file that the process has mapped. */
struct variables_file {
	struct file_id id;
	struct binary *binary; /* NULL: could not be read, or no ELF file of this machine */
	const char *path;      /* owned by `maps` */
	uint64_t bias;	       /* run-time address of each byte of the file, minus the byte's
				* vaddr */
	bool known;	       /* bias is known */
	bool failed;	       /* the file, or symbols of it that were needed, could not be read */
	/* The tables that were needed so far. If reading a table was tried and failed, or was not
	 * tried yet, the table is NULL. */
	struct symtab *symtabs[SYMTAB_KINDS];
	struct unwind_table *table;
	bool tried[SYMTAB_KINDS], tried_table;
};

/* Returns the file that `entry` maps; NULL if too many files were needed before. */
struct variables_file *variables__find_file(struct variables *variables,
					    const struct map_entry *entry);

/* Finds the function or variable at vaddr. *ret_name, which the caller frees, is demangled; NULL:
 * no symbol covers vaddr. *ret_start: where it begins. 0 or -ENOMEM. */
int variables__find_symbol(struct variables *variables, struct variables_file *file,
			   enum symtab_kind kind, uint64_t vaddr, char **ret_name,
			   uint64_t *ret_start);

/* Returns the file's rows for unwinding; NULL: there are none, or no room for them. */
const struct unwind_table *variables__find_table(struct variables *variables,
						 struct variables_file *file);

#endif
