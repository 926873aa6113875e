/* SPDX-License-Identifier: BSD-2-Clause */
/* The allocators that memtrace knows: the symbols that identify each one, and what its functions
 * do. */
#ifndef MEMTRACE_CAPTURE_ALLOC_TABLE_H
#define MEMTRACE_CAPTURE_ALLOC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

#define ALLOC_MAX_MARKERS 4
#define ALLOC_MAX_LISTS	  5
#define ALLOC_FAMILIES	  15 /* rows of the table */

struct alloc_function {
	const char *name;
	struct abi_func func;
};

enum alloc_home {
	HOME_LIBC,     /* the C library's own malloc: other files reach it through the PLT */
	HOME_LIBRARY,  /* a library that holds only the allocator; or a part of a program */
	HOME_EMBEDDED, /* an allocator that is always a part of another library, or of a program */
	/* any file that replaces the C library's malloc: it exports a name of the C library (the
	 * family's marker), but is not the C library */
	HOME_PLACE,
	HOME_POOL, /* a pool that takes its memory from other allocators; in any kind of file */
	/* a pool like HOME_POOL, but callers reach its functions through pointers only. So the
	 * compiler cannot copy these functions into callers, and a direct call comes from the pool
	 * itself */
	HOME_METHODS,
	/* PHP's pool. It takes its memory from the kernel, so without probes its blocks are in no
	 * figure. Each thread has one such pool, and all blocks of the pool end with the request */
	HOME_REQUEST,
	/* a language's pool. Each function of its first list passes its calls on through a pointer
	 * (elf/forward.h), as a rule to a function of the second list. If the file names all
	 * functions of the second list, these are probed instead. In this case functions of further
	 * lists are probed, too, if the file names them */
	HOME_LANGUAGE,
};

struct alloc_family {
	const char *name;
	/* symbols that only this allocator defines: a file with any of them contains the
	 * allocator */
	const char *markers[ALLOC_MAX_MARKERS];
	/* lists of its functions, each ended by an empty row */
	const struct alloc_function *functions[ALLOC_MAX_LISTS];
	enum alloc_home home;
};

/* The table, ended by an empty row. If a file fits several rows and these rows share functions, the
 * first of the rows gets the shared functions. */
extern const struct alloc_family alloc_families[ALLOC_FAMILIES + 1];

/* Every name of the table once, sorted. A name's number is its index in `name`. ALLOC_MAX_NAMES
 * must be enough for the names of all rows together: a name in two rows counts twice. */
#define ALLOC_MAX_NAMES 640

struct alloc_names {
	const char *name[ALLOC_MAX_NAMES];
	size_t n;
	size_t malloc; /* number of "malloc" */
};

/* Collects the names of the functions of all allocators: sorted, each once. */
void alloc_names__collect(struct alloc_names *ret);

/* Returns the name's number, or SIZE_MAX when the name is not in the table. */
size_t alloc_names__find(const struct alloc_names *names, const char *name);

/* Is this one of the common names: malloc, free, ...? */
bool alloc_name__is_plain(const char *name);

/* Is the family with that name a pool? Its home is then HOME_POOL or one that stands after
 * HOME_POOL. */
bool alloc_family__is_pool(const char *name);

/* Is this family a pool whose blocks all end with a request (PHP's)? Its blocks are in no figure
 * unless the pool is probed. */
bool alloc_family__is_request(const char *name);

/* Is this family a language's pool, whose functions pass their calls on? */
bool alloc_family__is_language(const char *name);

#endif
