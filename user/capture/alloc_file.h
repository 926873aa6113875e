/* SPDX-License-Identifier: BSD-2-Clause */
/* What a file has to offer of allocators' functions: read out of it once, however many processes
 * run its code. Which of it a process uses is allocator.h's affair. */
#ifndef MEMTRACE_CAPTURE_ALLOC_FILE_H
#define MEMTRACE_CAPTURE_ALLOC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "bpf/abi.h"
#include "capture/alloc_table.h"
#include "capture/patch.h"
#include "elf/binary.h"
#include "elf/probe_site.h"
#include "proc/maps.h"

/* A function that the user named: an allocator on top of others, such as a memory pool. */
struct alloc_extra {
	const char *file; /* a path or, without a slash, the last part of one; "exe": the program */
	const char *symbol;
	struct abi_func func; /* as in the table */
};

#define ALLOC_NOWHERE SIZE_MAX

/* A function, and where its probe would be. */
struct alloc_offer {
	const char *name;     /* static, of the table of functions, or the user's */
	struct abi_func func; /* how the kernel side reads the call; object is not set */
	uint64_t bytes;	      /* of its code; 0: unknown */
	struct probe_site site;
	struct code_place insn;	    /* the probed one */
	size_t first_exit, n_exits; /* of alloc_part.exits: where it returns if it may throw */
	/* It does nothing but hand its calls over to this one of the part, which is probed in its
	 * stead; or ALLOC_NOWHERE. */
	size_t leads_to;
	int rc; /* negative errno: it cannot be probed, */
	char why[96];
};

/* A name of it. */
struct alloc_alias {
	uint16_t name;	/* number in the table; of no meaning for the user's */
	uint16_t offer; /* index */
	bool exported;	/* for others; else the file's own copy */
};

/* One allocator in the file. */
struct alloc_part {
	const char *family; /* "glibc"; static. "named": the user's */
	struct alloc_offer *offers;
	struct alloc_alias *aliases;
	struct code_place *exits;
	size_t n_offers, n_aliases, n_exits;
	struct abi_object object; /* how its calls to itself are told apart */
};

struct alloc_file {
	bool shared;				     /* as in alloc_files__look() */
	struct alloc_part parts[ALLOC_FAMILIES + 1]; /* the user's first */
	size_t n_parts;
	bool known; /* one of the parts is a family's */
	/* By number of the name: the file defines it, at all and for others. */
	bool defines[ALLOC_MAX_NAMES], exports[ALLOC_MAX_NAMES];
};

/* Files that were looked at. */
struct alloc_files;

/* binaries: the files that are known, for which is kept what they offer, as long as they are not
 * written to, up to some MB; the caller's, who keeps them until after this one's end. NULL: nothing
 * is kept. no_returns: no function is to get a return probe; the results of all are seen at their
 * ret instructions, as of those that may throw. 0 or -ENOMEM. */
int alloc_files__new(const struct binaries *binaries, bool no_returns, struct alloc_files **ret);
void alloc_files__free(struct alloc_files *files);

const struct alloc_names *alloc_files__names(const struct alloc_files *files);

/* Opens the very file behind a mapping of process pid: the one that the binaries hold, also when
 * the process is gone, else as maps__open_file(). A descriptor or negative errno. */
int alloc_files__open(const struct alloc_files *files, pid_t pid, const struct map_entry *entry);

/* Does one of the mapped files ask for a dynamic linker? Only files that the binaries hold are
 * asked. */
bool alloc_files__have_interp(const struct alloc_files *files, const struct maps *maps);

/* What the file behind a mapping of process pid offers. extra: the functions that the user named in
 * it. shared: a dynamic linker is at work in the process, so that others reach a C library's malloc
 * through the PLT and a direct call of it is the library's own. A file that is gone or no ELF file
 * offers nothing. *ret holds until the next call. 0; -ENOENT when a function that the user named is
 * not there; other negative errno. */
int alloc_files__look(struct alloc_files *files, pid_t pid, const struct map_entry *entry,
		      bool shared, const struct alloc_extra *const *extra, size_t n_extra,
		      const struct alloc_file **ret, struct error *err);

#endif
