/* SPDX-License-Identifier: BSD-2-Clause */
/* The allocators' functions that a file offers. A file is read once, however many processes run its
 * code. allocator.h decides which of the functions a process uses. */
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
#include "elf/forward.h"
#include "elf/probe_site.h"
#include "elf/pymalloc.h"
#include "proc/maps.h"

/* A function that the user named. It belongs to an allocator on top of others (such as a memory
 * pool), or to an allocator that memtrace does not know. */
struct alloc_extra {
	const char *file; /* a path, or (without a slash) its last part; "exe": the program */
	const char *symbol;
	struct abi_func func; /* how the kernel side reads the function's calls, as in the table of
			       * functions */
};

/* The markers by which a program reports its own samples, as in the OpenTelemetry profiler's design
 * for memory. There are two markers for each sampled block. The program fires
 * otel_memory:alloc(address, size, weighted bytes) when the block exists. It fires
 * otel_memory:free(address) before it frees the block. A file's markers make up one struct
 * alloc_part, whose family has this name. */
#define ALLOC_MARKERS "otel_memory"

#define ALLOC_NOWHERE SIZE_MAX
#define ALLOC_TAKERS  PYMALLOC_ARENA_CODE

/* A function of an allocator, and the place for its probe. */
struct alloc_offer {
	const char *name;     /* the function's name: from the table of functions (static), or as
			       * the user gave it */
	struct abi_func func; /* how the kernel side reads the call; object is not set */
	uint64_t bytes;	      /* size of the function's code; 0: unknown */
	struct probe_site site;
	struct code_place insn;	    /* the probed instruction */
	size_t first_exit, n_exits; /* the function's ret instructions in alloc_part.exits, if
				     * func.exits is set */
	/* If this function only hands its calls over to another function of the part: the index of
	 * that function, which is probed instead. Else ALLOC_NOWHERE. */
	size_t leads_to;
	struct abi_marker marker; /* where a marker's arguments are */
	uint64_t semaphore;	  /* file offset of a marker's semaphore; 0: it has none */
	int rc;			  /* negative errno: the function cannot be probed */
	char why[96];
};

/* A name of an offered function. */
struct alloc_alias {
	uint16_t name;	/* number in the table of names; no meaning for the user's functions */
	uint16_t offer; /* index of the offer */
	bool exported;	/* other files can use this name; else only the file itself can */
};

/* One allocator in the file. */
struct alloc_part {
	const char *family; /* a static text, such as "glibc"; "named": the functions that the user
			     * named; or ALLOC_MARKERS */
	struct alloc_offer *offers;
	struct alloc_alias *aliases;
	struct code_place *exits;
	size_t n_offers, n_aliases, n_exits;
	struct abi_object object; /* how to recognize the allocator's calls to itself */
	/* code that takes memory from the kernel for the allocator, but is outside of the
	 * allocator's functions */
	struct code_range takers[ALLOC_TAKERS];
	size_t n_takers;
	/* the functions that end all blocks of the pool at once get no probes, because windows
	 * cannot follow such ends */
	bool endless;
	bool slow; /* the pool cannot be traced in windows: with this run's kind of probe, removing
		    * the pool's many probes takes too long; only if `endless` is true */
};

struct alloc_file {
	bool shared; /* `shared` of alloc_files__look() */
	/* the user's part or (if the user named nothing) the markers' part first, then the
	 * others */
	struct alloc_part parts[ALLOC_FAMILIES + 2];
	size_t n_parts;
	/* at least one part belongs to a family of alloc_families that is no pool (its home comes
	 * before HOME_POOL) */
	bool known;
	/* The family (static) of a pool in the file. The calls of this pool cannot be seen: the
	 * compiler has copied the pool's functions into their callers, and not all copies are
	 * known. NULL: there is no such pool. */
	const char *copied;
	char why[96];	     /* why not all copies are known */
	struct forward copy; /* how the freeing function of a language's pool passes its calls on */
	/* vaddr of `sapi_module`, PHP's description of its server, which begins with a pointer to
	 * the server's name; 0: there is none */
	uint64_t sapi;
	uint64_t code_shift;  /* vaddr - file offset of the code, if copy or sapi is set */
	char markers_why[96]; /* why the markers in the file cannot be used, or "" */
	/* Both are indexed by the name's number. defines: the file defines the name. exports: the
	 * file exports the name to other files. */
	bool defines[ALLOC_MAX_NAMES], exports[ALLOC_MAX_NAMES];
};

/* The files that were read. */
struct alloc_files;

/* What the probes of a run can do. */
struct alloc_how {
	/* no function gets a return probe; the results of all functions are seen at their ret
	 * instructions, like those of functions that may throw */
	bool no_returns;
	/* even many probes can be placed and removed quickly. So the search also looks for the
	 * copies of a pool's functions that the compiler has put into callers. There may be
	 * hundreds of copies */
	bool copies;
	/* stacks follow unwind tables. If false, stacks are too short to show that a call was made
	 * inside a pool's call. So memtrace also awaits the return of each call of a pool's
	 * function */
	bool tables;
	/* the ends of pools are followed. If false, pools that can end all their blocks at once are
	 * not searched for, except PHP's (alloc_part.endless) */
	bool pools;
	/* processes may report samples of their own by markers. If false, the search ignores
	 * markers */
	bool markers;
	/* called after each slice of a long search */
	struct elf_meanwhile meanwhile;
};

/* Makes an empty store for what is read from files. `binaries`: the known files. The offers of
 * these files are kept, up to some MB, as long as the files do not change. The caller owns
 * `binaries` and keeps them until alloc_files__free(). NULL: nothing is kept. 0 or -ENOMEM. */
int alloc_files__new(const struct binaries *binaries, const struct alloc_how *how,
		     struct alloc_files **ret);
void alloc_files__free(struct alloc_files *files);

/* Forgets what is kept of the file whose binary has, or had, this index. */
void alloc_files__forget(struct alloc_files *files, size_t index);

/* The names that are searched for in every file; owned by `files`. */
const struct alloc_names *alloc_files__names(const struct alloc_files *files);

/* Opens the very file behind a mapping of process pid. If the binaries hold the file, the call
 * works even when the process is gone. Otherwise it works like maps__open_file(). A descriptor or
 * negative errno. */
int alloc_files__open(const struct alloc_files *files, pid_t pid, const struct map_entry *entry);

/* Does one of the mapped files ask for a dynamic linker? Checks only files that the binaries
 * hold. */
bool alloc_files__have_interp(const struct alloc_files *files, const struct maps *maps);

/* Reads what the file behind a mapping of process pid offers. `extra`: the functions in this file
 * that the user named. `shared`: the process has a dynamic linker. Then other files reach a C
 * library's malloc through the PLT, and a direct call of malloc comes from the library itself. If
 * the file is gone or is no ELF file, *ret has no parts. *ret is valid until the next call. 0; a
 * positive errno: the file could not be opened, and *ret has no parts; -ENOENT: the file lacks a
 * function that the user named; other negative errno. */
int alloc_files__look(struct alloc_files *files, pid_t pid, const struct map_entry *entry,
		      bool shared, const struct alloc_extra *const *extra, size_t n_extra,
		      const struct alloc_file **ret, struct error *err);

#endif
