/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a running process, read from outside. Only pages that are resident are read:
 * nothing is faulted in or swapped in. The process changes its memory meanwhile, and the process
 * may be hostile. So two reads of one address may differ, and no value can be trusted. */
#ifndef MEMTRACE_HEAP_IMAGE_H
#define MEMTRACE_HEAP_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/maps.h"
#include "profile/heap.h"

#define HEAP_PAGE 4096ULL

struct image_region {
	uint64_t start, end;
	enum image_kind kind;
	const struct map_entry *entry; /* the region's mapping, in the image's maps */

	/* From pagemap; set by image__look(). */
	bool looked;
	uint64_t *resident;		/* one bit per page; NULL: no page is resident */
	uint64_t n_resident, n_swapped; /* pages */
};

/* Where the bytes come from: /proc/PID (scan.h), or a test. */
struct image_source {
	/* Copies up to len bytes from addr on. Returns the number of bytes copied, or negative
	 * errno. */
	long (*read)(void *ctx, uint64_t addr, void *to, size_t len);
	/* Reads the entries of n pages, from page number `page` on, in the format of
	 * /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst). 0 or negative errno. */
	int (*pagemap)(void *ctx, uint64_t page, uint64_t *entries, size_t n);
	void *ctx;
};

struct image_limits {
	uint64_t deadline_ns; /* no read after this time (CLOCK_MONOTONIC); 0: no limit */
	uint64_t read_bytes;  /* most bytes to read in all; 0: no limit */
	uint64_t pages;	      /* most pages whose entries are read; 0: no limit */
};

struct image; /* opaque */

/* Makes an image. It refers to maps and to source->ctx, which the caller keeps and which must
 * outlive the image. 0 or -ENOMEM. */
int image__new(const struct maps *maps, const struct image_source *source,
	       const struct image_limits *limits, struct image **ret);
void image__free(struct image *image);

/* Regions, ascending by address, one per mapping. */
size_t image__n_regions(const struct image *image);
struct image_region *image__region(const struct image *image, size_t i);
/* The region that holds addr, or NULL. */
struct image_region *image__find(const struct image *image, uint64_t addr);

/* Is the mapping an IMAGE_PLAIN? Such mappings are: writable memory of /dev/zero, /dev/shm, memfd,
 * System V or /dev/hugepages; shared anonymous huge pages; read-only anonymous memory. Other shared
 * mappings are never read: a file could be larger than memory, and take hours to read. */
bool image__is_plain(const struct map_entry *entry);

/* Searches from region number *i on for the next group of IMAGE_DATA and IMAGE_BSS regions that
 * touch each other. Sets *i to the number of the region behind the group. False: there is no such
 * group. */
bool image__data(const struct image *image, size_t *i, uint64_t *ret_start, uint64_t *ret_end);

/* Is the region of a kind that can be read? */
bool image_region__readable(const struct image_region *region);

/* Reads once from pagemap which pages of the region are resident. 0; -ENOMEM; -EFBIG: limits.pages
 * is exceeded; -ETIMEDOUT; or the source's error. After an error the region has no resident
 * pages. */
int image__look(struct image *image, struct image_region *region);

/* Finds the first run of resident pages in [addr, end). The run may span several regions that touch
 * each other. Calls image__look() for regions whose resident pages are not known yet. False: there
 * is none, or a limit of the image is exceeded. */
bool image__run(struct image *image, uint64_t addr, uint64_t end, uint64_t *ret_start,
		uint64_t *ret_end);

/* Copies len bytes. 0; -EFAULT: not all of them are in resident pages of readable regions;
 * -ETIMEDOUT: the deadline is over; -EFBIG: limits.read_bytes is exceeded. */
int image__read(struct image *image, uint64_t addr, void *to, size_t len);

/* Like image__read(), for many short reads close to each other. Pages that were read before may
 * come from a cache. image__forget() empties the cache. */
int image__peek(struct image *image, uint64_t addr, void *to, size_t len);
void image__forget(struct image *image);

/* Like image__read(), for memory that may have been mapped after the image was made. Reads pagemap
 * again. The bytes may lie on two pages at most. Pages of files and shared pages are not read. */
int image__read_now(struct image *image, uint64_t addr, void *to, size_t len);

/* 0, or the reason why nothing more is read: -ETIMEDOUT, -EFBIG. */
int image__spent(const struct image *image);
/* 0, or the reason why some memory was not read: image__spent(), or the first error of
 * image__look(). */
int image__stopped(const struct image *image);
/* Bytes that were read so far. */
uint64_t image__bytes_read(const struct image *image);

#endif
