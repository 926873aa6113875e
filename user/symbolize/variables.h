/* SPDX-License-Identifier: BSD-2-Clause */
/* Names for addresses in the data of a process: the variables of its files. */
#ifndef MEMTRACE_SYMBOLIZE_VARIABLES_H
#define MEMTRACE_SYMBOLIZE_VARIABLES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc/maps.h"
#include "sandbox/stream.h"

struct variables; /* opaque; a cache of the symbol tables that were needed */

struct variable {
	/* demangled, for example "cache"; NULL: no symbol covers the address, or the file could not
	 * be read */
	const char *name; /* owned by struct variables; valid until the next call */
	/* with a name: the address's offset in the variable. Without a name: the address's vaddr
	 * or, if the file could not be read, its offset in the file */
	uint64_t off;
	const char *path; /* path of the file; owned by `maps` */
};

/* The caller keeps maps, which must outlive ret and be those of pid. waiting: NULL for none. 0 or
 * negative errno. */
int variables__new(pid_t pid, const struct maps *maps, const struct stream_waiting *waiting,
		   struct variables **ret);
void variables__free(struct variables *variables);

/* Of the files that were needed so far, counts each file that could not be read, or whose symbols
 * could not be read in time or at all. Variables and functions of such a file have no names. A file
 * that is no ELF file of this machine does not count. Only 64 files are read: each look-up in a
 * further file adds 1. */
size_t variables__unread(const struct variables *variables);

/* Names an address in the data or bss of a file. 0; -ENOENT: addr is in no file's data; -ENOMEM. */
int variables__name(struct variables *variables, uint64_t addr, struct variable *ret);

#endif
