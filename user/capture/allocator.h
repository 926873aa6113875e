/* SPDX-License-Identifier: BSD-2-Clause */
/* Which allocators a process uses, and where their functions would be probed. */
#ifndef MEMTRACE_CAPTURE_ALLOCATOR_H
#define MEMTRACE_CAPTURE_ALLOCATOR_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "bpf/abi.h"
#include "capture/alloc_file.h"
#include "elf/probe_site.h"
#include "proc/maps.h"

/* A function of an allocator and the place of its probe. */
struct alloc_point {
	const char *name;	 /* the function's name: from the table of functions (static), or as
				  * the user gave it */
	struct abi_func func;	 /* how the kernel side reads the call; object is not set */
	struct code_place place; /* the probed instruction */
	uint64_t bytes;		 /* size of the function's code; 0: unknown */
	struct probe_site site;	 /* describes the probed instruction */
	/* the members below are set only for a marker (ROLE_MARK_...) */
	struct abi_marker marker;
	uint64_t semaphore; /* file offset of the marker's semaphore; 0: it has none */
};

#define ALLOC_MAX_EXITS 256

/* An allocator in a file. A file that is linked statically may hold several. */
struct allocator {
	const char *family; /* "glibc"; static */
	/* The process reports samples of its blocks by markers. So the allocator's functions get no
	 * probes; otherwise the blocks would count twice. */
	bool reported;
	char *path;		/* the file's path, as the process has it */
	int fd;			/* the open file */
	struct file_id file;	/* map_entry__real() */
	struct file_id through; /* the file of `fd` as the process sees it: map_entry.file */
	struct alloc_point *points;
	size_t n_points;
	uint64_t exits[ALLOC_MAX_EXITS];     /* file offsets of the ret instructions of functions
					      * that may throw */
	uint8_t exit_bytes[ALLOC_MAX_EXITS]; /* the file's byte at each of them */
	size_t n_exits;
	struct abi_object object; /* how to recognize the allocator's calls to itself */
	/* these two members are as in struct alloc_part */
	struct code_range takers[ALLOC_TAKERS];
	size_t n_takers;
};

/* Is the i-th function essential: must it be probed if any function of the allocator is? A function
 * that frees or moves blocks is essential: without it, freed blocks would look live. A function
 * that ends a pool is essential only if the allocator is a pool (alloc_family__is_pool()). The
 * first allocating function is essential, too, because it is called most (malloc). If any other
 * allocating function is not probed, only the blocks of that function are missing. Markers and
 * places of ROLE_TAKEN are all essential. */
bool alloc_point__is_essential(const struct allocator *allocator, size_t i);

/* Tells people what follows if a function that is not essential gets no probe. Static. */
const char *alloc_point__loss(const struct alloc_point *point);

/* Finds a function whose code process pid has changed in its own memory. A probe would overwrite
 * the change with the file's code. `maps`: the process's address space. Returns 1 with the
 * function's name; 0: no function was changed; -ETIMEDOUT: the memory could not be read now, so the
 * answer is unknown. */
int allocator__patched_in(const struct allocator *allocator, pid_t pid, const struct maps *maps,
			  const char **ret);

/* A pool that is in use but whose calls are not seen. */
struct alloc_unseen {
	const char *family; /* "pymalloc"; static. NULL: there is none */
	struct file_id file;
	char text[512]; /* for people: the pool, the reason and the consequence */
};

/* The allocators of one process, and the files that were read. */
struct allocators {
	struct allocator **list;
	size_t n;
	size_t n_attached; /* capture__attach() has tried to attach the first n_attached */
	/* how often a file or an allocator could not be used; cases with an entry in
	 * capture__refusals() are not counted */
	size_t n_refused;
	struct file_id *seen;
	size_t n_seen;
	struct alloc_unseen unseen;
	char unknown[256];     /* the file whose malloc is of no known family, or "" */
	char unopened[256];    /* the last file that could not be opened, and why, or "" */
	char markers_why[512]; /* for people: file whose markers cannot be used, and why; or "" */
};

/* Does one of the allocators belong to this family ("glibc")? False if `allocators` is NULL. */
bool allocators__have(const struct allocators *allocators, const char *family);

/* Does the process report samples of its own by markers? */
bool allocators__are_reported(const struct allocators *allocators);

/* Which functions of a process's files a search takes. */
enum alloc_scope {
	ALLOC_OWN, /* to trace this process: the functions that its calls reach, by link order */
	/* like ALLOC_OWN, for a process whose dynamic linker still loads files: only the files
	 * mapped so far */
	ALLOC_LOADING,
	/* to trace all processes: all functions that the files offer, because other processes may
	 * use other functions */
	ALLOC_ALL,
	/* like ALLOC_OWN, for a program that an exec has begun during the run: it has no markers,
	 * because its allocators may have probes already */
	ALLOC_AFTER_EXEC,
};

/* Finds the allocators in the files that process pid has mapped. `maps`: the process's address
 * space. When several files define a function, calls reach the first file in link order, as with
 * the dynamic linker. If a file defines a function and does not export it, the function belongs to
 * an allocator of the file's own. `extra`: functions that the user named. `files` keeps the offers
 * of files for other processes; NULL: nothing is kept.
 *
 * With ALLOC_ALL, a file that cannot be used is skipped and counted, even if it is the only one,
 * unless the failure is temporary (alloc_error__passes()). If malloc belongs to no known allocator,
 * this is no error either, and (*ret)->unknown names malloc's file. If the binaries hold the
 * process's files, the process may already have ended. (But with `extra`, a process that has ended
 * gives -ESRCH.)
 *
 * 0; -ENOENT when no mapped file defines an allocator; -ENOTSUP (never with ALLOC_ALL or `extra`)
 * when malloc belongs to an allocator that is not in the table; other negative errno. err says what
 * was found and where. */
int allocators__find(struct alloc_files *files, pid_t pid, const struct maps *maps,
		     enum alloc_scope scope, const struct alloc_extra *extra, size_t n_extra,
		     struct allocators **ret, struct error *err);

/* Is the failure temporary? If it is, a later attempt may succeed, or an attempt with another
 * process that has the same files. */
static inline bool alloc_error__passes(int rc)
{
	return rc == -ESRCH || rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -ENOSPC ||
	       rc == -ETIMEDOUT;
}

/* Call it when an exec has replaced the program: allocators__find_more() then searches all files
 * again. The new program may use allocators that the old one did not. NULL: does nothing. */
void allocators__new_program(struct allocators *allocators);

/* Adds the allocators in files that were mapped since the last search, with all functions of these
 * allocators. All functions are taken, because a program that loads an allocator late asks for the
 * functions' addresses. A file that cannot be used is skipped and counted. Returns the number of
 * added allocators. */
size_t allocators__find_more(struct allocators *allocators, struct alloc_files *files, pid_t pid,
			     const struct maps *maps, const struct alloc_extra *extra,
			     size_t n_extra);

/* Finds the file in process pid that holds a function that the user named. 0 with the mapping of
 * the file; -ENOENT with err when the file has no such function; -ENXIO when no such file is
 * mapped. */
int alloc_extra__locate(const struct alloc_extra *extra, pid_t pid, const struct maps *maps,
			const struct map_entry **ret, struct error *err);

/* Forgets the allocators for which is_to_go() returns true. Returns the number of allocators that
 * are left. */
size_t allocators__drop(struct allocators *allocators,
			bool (*is_to_go)(const void *ctx, const struct allocator *allocator),
			const void *ctx);

void allocators__free(struct allocators *allocators);

#endif
