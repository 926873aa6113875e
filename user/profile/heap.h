/* SPDX-License-Identifier: BSD-2-Clause */
/* What lies in the heap of a process. Plain data: heap/census.h counts it, encode/heap_report.c
 * prints it. */
#ifndef MEMTRACE_PROFILE_HEAP_H
#define MEMTRACE_PROFILE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum heap_allocator { HEAP_GLIBC, HEAP_JEMALLOC, HEAP_ALLOCATORS };
const char *heap_allocator__name(enum heap_allocator allocator);

/* The kinds of a process's memory. */
enum image_kind {
	IMAGE_BRK,    /* [heap] */
	IMAGE_ANON,   /* anonymous, private and writable: arenas, thread stacks, TLS, ... */
	IMAGE_DATA,   /* private and writable, of a file */
	IMAGE_BSS,    /* anonymous, and begins where a file's data end */
	IMAGE_STACK,  /* [stack]; the stacks of other threads are IMAGE_ANON */
	IMAGE_CONST,  /* private and not writable, of a file: code, constants, .data.rel.ro */
	IMAGE_PLAIN,  /* other memory that is of no file in a file system: image__is_plain() */
	IMAGE_SHARED, /* not private; never read */
	IMAGE_OTHER,  /* all else, such as memory without access and devices; never read */
	IMAGE_KINDS
};

/* Where an allocator keeps memory. */
enum heap_place {
	PLACE_IN_USE,
	PLACE_LARGE,	    /* in use; in a mapping (glibc) or an extent (jemalloc) of its own */
	PLACE_THREAD_CACHE, /* free */
	PLACE_FAST_BIN,	    /* free */
	PLACE_BIN,	    /* free; jemalloc: in slabs */
	PLACE_TOP, /* free: the rest of an arena, not given out yet (glibc); extents (jemalloc) */
	HEAP_PLACES
};

/* Sizes are grouped. Up to 1 KiB, each group has a range of 16 bytes. Above, there are four groups
 * for each power of two. */
#define HEAP_SIZES (65 + 4 * 38)
size_t heap__size_group(uint64_t bytes);
/* The largest size of a group. */
uint64_t heap__group_max(size_t group);

/* May a block have `usable` bytes if the program asked for `asked` bytes? Allocators round sizes
 * up: jemalloc by at most a quarter, glibc by a few bytes, or to pages if it maps the block alone.
 * If the block at an address has more bytes, it is not the program's block: that one was freed, and
 * another one took its place. */
bool heap__may_hold(uint64_t usable, uint64_t asked);

struct heap_count {
	uint64_t blocks, bytes; /* usable bytes */
};

/* How far the blocks of an allocator can be trusted. */
struct heap_quality {
	uint64_t resyncs;	/* places where each of several reads found headers that make no
				 * sense */
	uint64_t unknown_bytes; /* bytes skipped at these places */
	uint64_t absent_bytes;	/* bytes skipped, because a header is on a page that is not
				 * resident */
	uint64_t doubtful;	/* blocks of 64 KiB and more whose size nothing proves */
	uint64_t own_bytes;	/* memory of the allocator by its own count */
	uint64_t found_bytes;	/* memory that was searched for blocks */
	uint64_t own_large, found_large; /* own_bytes and found_bytes of PLACE_LARGE alone;
					  * own_large 0: unknown */
	uint64_t slabs;			 /* slabs that were read */
	uint64_t broken_slabs;	/* of these: slabs whose count of free blocks differs from their
				 * bitmap */
	uint64_t thread_caches; /* jemalloc: caches whose blocks count as free */
	uint64_t dropped_spans; /* spans that were dropped, because they overlap others */
};

/* Do the slabs agree with their own counts? A slab may change while it is read, but this is rare.
 * If many slabs disagree, their blocks have other sizes than the reader believes. */
bool heap_quality__slabs_agree(const struct heap_quality *quality);

/* The resident pages of an allocator's memory, in bytes. pages = live + whole_free + between. */
struct census_pages {
	uint64_t mapped;     /* address space of this memory */
	uint64_t pages;	     /* resident */
	uint64_t live;	     /* usable bytes of blocks in use */
	uint64_t whole_free; /* pages that hold no byte of a block in use */
	uint64_t trimmable;  /* of whole_free: pages that lie within one free block, behind its
			      * header. malloc_trim(0) can give them back, except for the tops of
			      * arenas that are not the main one */
	uint64_t between;    /* the rest: free bytes and headers on pages with blocks in use */
	uint64_t sparse;     /* pages of which blocks in use take a part, but less than half */
	uint64_t pinned;     /* free bytes on sparse pages: part of between */
};

/* Addresses from start up to end. */
struct heap_range {
	uint64_t start, end; /* multiples of 4096 */
};

/* The resident pages of all allocators' memory in given ranges, in bytes. The remaining bytes
 * (pages minus live, whole_free and free) are headers, bytes that no block can use, and the
 * allocators' own structures among the blocks. */
struct heap_slack {
	uint64_t pages;
	uint64_t live;	     /* usable bytes of blocks in use */
	uint64_t whole_free; /* pages that hold no byte of a block in use */
	uint64_t trimmable;  /* of whole_free: what malloc_trim(0) of glibc can give back, as in
			      * census_pages */
	uint64_t free;	     /* free blocks, on pages with blocks in use */
	uint64_t cached;     /* free blocks in thread caches and fast bins, also those outside of
			      * the ranges */
};

/* Is each part, and the sum of the parts, no larger than the whole? */
bool heap_slack__adds_up(const struct heap_slack *slack);

/* Blocks of one group of sizes. The free bytes of a sparse page are shared out among the blocks in
 * use on it, in proportion to their bytes on the page. */
struct census_size {
	struct heap_count in_use, cached, free; /* cached: thread caches and fast bins */
	uint64_t holders;			/* blocks in use that lie on sparse pages */
	uint64_t pinned; /* these blocks' share of the free bytes on sparse pages */
};

struct census_arena {
	uint32_t allocator;
	uint64_t addr;
	struct heap_count places[HEAP_PLACES];
};

#define CENSUS_TYPE_NAME 256

/* Objects of one C++ class (heap/types.h): blocks in use, of one allocator and one group of
 * sizes. */
struct census_type {
	uint64_t vtable; /* address of the vtable, to which the objects point */
	uint32_t allocator;
	uint32_t size_group; /* heap__size_group() */
	struct heap_count count;
	uint64_t pinned;	     /* these blocks' share of the free bytes on sparse pages */
	char name[CENSUS_TYPE_NAME]; /* mangled, as in type_info; "": there is none */
};

/* Classes of shapes: how much a shape may tell about the function that made a block. */
enum shape_class {
	SHAPE_PARTICULAR, /* the block has a pointer to a file or into itself, or two pointers to
			   * other blocks */
	SHAPE_LARGE,	  /* 1 KiB or more: few functions make blocks of one such size */
	SHAPE_PLAIN,	  /* all else, such as text and numbers that another block points to */
	SHAPE_ALONE,	  /* as SHAPE_PLAIN, but no block is known to point to it: tells nothing */
	SHAPE_CLASSES
};

/* Blocks in use whose content has a certain shape (heap/shapes.h). Only shapes of labelled blocks
 * are counted. Labelled blocks are the known blocks of profile/origins.h. */
struct census_shape {
	uint32_t rough; /* index of the rough shape that it belongs to; of a rough shape: its own
			 * index */
	uint32_t shape_class;
	uint64_t mark; /* the first pointer to a file, such as a vtable or a type object; 0: none */
	/* in large heaps an estimate from every n-th page (heap/referrers.h), except for
	 * SHAPE_LARGE */
	struct heap_count count;
	uint64_t pinned; /* these blocks' share of the free bytes on sparse pages */
};

#define CENSUS_NO_SHAPE UINT32_MAX

struct census {
	struct {
		uint64_t resident, swapped; /* bytes */
		uint64_t mapped;
	} memory[IMAGE_KINDS];
	uint64_t unknown_anon; /* resident bytes of IMAGE_BRK and IMAGE_ANON that are in no
			        * allocator's memory */
	struct census_pages pages[HEAP_ALLOCATORS];
	struct census_size sizes[HEAP_ALLOCATORS][HEAP_SIZES];
	struct heap_quality quality[HEAP_ALLOCATORS];
	struct heap_slack slack; /* of the ranges that the caller asked for */
	int64_t stopped;	 /* why the scan ended early: negative errno; 0: it did not end
				  * early */
	uint64_t bytes_read;	 /* of the process's memory */
	uint64_t cpu_ns;	 /* CPU time of the child process that makes the census */
	uint64_t table_bytes;
	uint64_t n_arenas;
	struct census_arena *arenas;	/* sent as a message part of its own */
	uint64_t n_types, untold_types; /* untold_types: objects that are not in `types` */
	/* blocks that may be objects, but whose first word was not checked, because there are too
	 * many different first words */
	uint64_t unchecked_types;
	/* Ascending by vtable. Sent as a message part of its own. */
	struct census_type *types;
	/* Set only if blocks are labelled. Each block counts once: in its shape if a labelled block
	 * has the same shape, else in its rough shape. */
	uint64_t n_shapes, n_rough, n_labels;
	struct census_shape *shapes, *rough; /* each sent as a message part of its own */
	/* by label: the shape of the labelled block; CENSUS_NO_SHAPE: no such block is in use. Sent
	 * as a message part of its own. */
	uint32_t *shape_of;
};

/* The share of the allocator's memory that is in doubt, 0 to 1. Two kinds of memory are in doubt:
 * memory that was skipped, and memory that the allocator counts but the scan did not find. All is
 * in doubt if heap_quality__slabs_agree() is false. */
double census__doubt(const struct census *census, enum heap_allocator allocator);
/* Above this share the figures are not worth printing. */
#define CENSUS_MAX_DOUBT 0.05

/* Frees the lists. */
void census__clear(struct census *census);

/* A C++ class, for readers. */
struct heap_type {
	char *name;	 /* demangled */
	uint64_t vtable; /* as in struct census_type */
	struct heap_count count;
	uint64_t pinned; /* as in struct census_type */
	size_t first, n; /* its elements in the census's `types` */
};

struct origins; /* profile/origins.h */

/* A census, and facts that are reported with it. */
struct heap_report {
	const struct census *census;
	const struct heap_type *types; /* by bytes, descending */
	size_t n_types;
	const struct origins *origins; /* NULL: not asked for */
	bool by_file; /* the known blocks of `origins` come from a profile in a file */
	pid_t pid;
	const char *comm; /* printable */
	double seconds;	  /* duration of the census */
	/* name of an allocator that is mapped but cannot be read; NULL: none is known */
	const char *unread;
};

#endif
