/* SPDX-License-Identifier: BSD-2-Clause */
/* A census of a heap: what is in use and what is free, page by page, and which blocks keep pages
 * from going back to the kernel. The child of scan.h counts and sends; the parent receives, and
 * trusts no number that it uses as a length or an index. */
#ifndef MEMTRACE_HEAP_CENSUS_H
#define MEMTRACE_HEAP_CENSUS_H

#include <stdint.h>
#include <stdio.h>

#include "base/sink.h"
#include "heap/find.h"
#include "heap/scan.h"

/* The resident pages of an allocator's memory, in bytes. pages = live + whole_free + between. */
struct census_pages {
	uint64_t mapped;     /* its address space */
	uint64_t pages;	     /* resident */
	uint64_t live;	     /* usable bytes of blocks in use */
	uint64_t whole_free; /* pages without a byte of a block in use */
	uint64_t trimmable; /* of whole_free: within one free block, behind its header. This is what
			      * malloc_trim(0) can give back; of the tops, only the main one's */
	uint64_t between;   /* the rest: free bytes and headers on pages with blocks in use */
	uint64_t sparse;    /* pages with blocks in use, less than half of the page */
	uint64_t pinned;    /* free bytes on these: part of between */
};

/* Blocks in use of one group of sizes. A sparse page's free bytes are shared among its blocks by
 * their bytes on the page. */
struct census_size {
	struct heap_count in_use, cached, free; /* cached: thread caches and fast bins */
	uint64_t holders;			/* blocks in use that lie on sparse pages */
	uint64_t pinned;			/* free bytes on sparse pages that they hold */
};

struct census_arena {
	uint32_t allocator;
	uint64_t addr;
	struct heap_count places[HEAP_PLACES];
};

struct census {
	struct {
		uint64_t resident, swapped; /* bytes */
		uint64_t mapped;
	} memory[IMAGE_KINDS];
	uint64_t unknown_anon; /* resident bytes of BRK and ANON in no allocator's memory */
	struct census_pages pages[HEAP_ALLOCATORS];
	struct census_size sizes[HEAP_ALLOCATORS][HEAP_SIZES];
	struct heap_quality quality[HEAP_ALLOCATORS];
	int64_t stopped;     /* why the scan ended early: negative errno; 0: it did not */
	uint64_t bytes_read; /* of the process's memory */
	uint64_t cpu_ns;     /* of the child */
	uint64_t table_bytes;
	uint64_t n_arenas;
	struct census_arena *arenas; /* own part of the message */
};

#define CENSUS_MAX_ARENAS (1 << 16)

/* Counts; for tests, and for the child. 0 or -ENOMEM. The caller frees ret->arenas. */
int census__count(const struct scan_view *view, struct census *ret);

/* A census of pid, whose maps the caller has just read. patience_s: as in struct scan_task. 0, or
 * negative errno with err: of scan__start() and scan__end(), or -EPROTO. The caller frees
 * ret->arenas. */
int census__take(pid_t pid, const struct maps *maps, double patience_s, struct census *ret,
		 struct error *err);

/* Writes a line "ADDRESS SIZE" (hexadecimal, usable bytes in decimal) for each block in use, from a
 * scan of its own. Errors as above, and those of the sink. */
int census__list(pid_t pid, const struct maps *maps, struct sink *sink, struct error *err);

/* The share of the allocator's memory that the scan could not make sense of, 0 to 1: what was
 * skipped, and by how much its own count exceeds what was found. */
double census__doubt(const struct census *census, enum heap_allocator allocator);
/* Above this share the figures are not worth printing. */
#define CENSUS_MAX_DOUBT 0.05

#endif
