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
	const char *name;	 /* static, of the table of functions, or the user's */
	struct abi_func func;	 /* how the kernel side reads the call; object is not set */
	struct code_place place; /* the probed instruction */
	uint64_t bytes;		 /* of its code; 0: unknown */
	struct probe_site site;	 /* what stands there */
};

#define ALLOC_MAX_EXITS 256

/* An allocator in a file. A file that is linked statically may hold several. */
struct allocator {
	const char *family; /* "glibc"; static */
	char *path;	    /* as the process names the file */
	int fd;		    /* the file itself */
	struct file_id file;
	struct alloc_point *points;
	size_t n_points;
	uint64_t exits[ALLOC_MAX_EXITS];     /* file offsets of the ret instructions at which the
					  * functions that may throw return */
	uint8_t exit_bytes[ALLOC_MAX_EXITS]; /* what the file has there */
	size_t n_exits;
	struct abi_object object; /* how its calls to itself are told apart */
};

/* Must the i-th of its functions be probed, if any is to be? What frees or moves blocks must: else
 * what it freed would look live. So must the first that allocates, which is the one that most call
 * (malloc). Without another that allocates, what it allocates is missing, and nothing else is
 * wrong. */
bool alloc_point__is_essential(const struct allocator *allocator, size_t i);

/* A function whose code process pid, whose address space is maps, has changed in its own memory: a
 * probe would put the file's code in its place. NULL: none, or the memory does not come. */
const char *allocator__patched_in(const struct allocator *allocator, pid_t pid,
				  const struct maps *maps);

/* What is known of one process: its allocators, and which files were looked at. */
struct allocators {
	struct allocator **list;
	size_t n;
	size_t n_attached; /* of them: capture__attach()'s to keep */
	size_t n_refused;  /* late ones without probes that capture__refusals() does not list */
	struct file_id *seen;
	size_t n_seen;
	char unknown[256]; /* the file whose malloc is of no known family, or "" */
};

/* Whose calls the functions of a process's files are wanted for. */
enum alloc_scope {
	ALLOC_OWN, /* the process's: those that its calls reach, by link order */
	/* the same while the dynamic linker still sets it up: what is mapped so far counts */
	ALLOC_LOADING,
	/* everybody's: all that the files offer, for others may use what this process does not */
	ALLOC_ALL,
};

/* The allocators in the files that pid maps, whose address space is maps. Of the functions that
 * several files define, calls reach the first one's in link order, as for the dynamic linker; a
 * copy that a file keeps to itself is an allocator of its own. extra are functions that the user
 * named. files remembers what the files offer, for other processes; NULL: nothing is remembered.
 *
 * With ALLOC_ALL a file that cannot be used is passed over and counted, be it the only one. A
 * malloc of no known allocator is no error: it is named in (*ret)->unknown. The process may have
 * ended if the binaries hold its files (-ESRCH if there is extra, too).
 *
 * 0; -ENOENT when nothing mapped defines an allocator; -ENOTSUP, but for ALLOC_ALL, when malloc
 * is that of an allocator that is not in the table; other negative errno. err says what was found
 * and where. */
int allocators__find(struct alloc_files *files, pid_t pid, const struct maps *maps,
		     enum alloc_scope scope, const struct alloc_extra *extra, size_t n_extra,
		     struct allocators **ret, struct error *err);

/* Is it a failure of the moment, which another attempt, or another process with the same files, may
 * not meet? */
static inline bool alloc_error__passes(int rc)
{
	return rc == -ESRCH || rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -ENOSPC ||
	       rc == -ETIMEDOUT;
}

/* Adds those in files that were mapped since, whole: a program that loads an allocator late calls
 * it by addresses that it asks for. A file that cannot be used is passed over and counted. The
 * number added. */
size_t allocators__find_more(struct allocators *allocators, struct alloc_files *files, pid_t pid,
			     const struct maps *maps, const struct alloc_extra *extra,
			     size_t n_extra);

/* Where a function that the user named is in process pid. 0 with the mapping of its file; -ENOENT
 * with err when the file has no such function; -ENXIO when no such file is mapped. */
int alloc_extra__locate(const struct alloc_extra *extra, pid_t pid, const struct maps *maps,
			const struct map_entry **ret, struct error *err);

/* Forgets those in one file. Returns the number of allocators that are left. */
size_t allocators__drop(struct allocators *allocators, const struct file_id *file);

void allocators__free(struct allocators *allocators);

#endif
