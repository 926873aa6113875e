// SPDX-License-Identifier: BSD-2-Clause
#include "ledger/resident.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/vector.h"
#include "proc/memory.h"
#include "proc/process.h"
#include "proc/smaps.h"

#define PAGE	    4096ULL
#define MAX_HEAPS   4096 /* at most this many heaps of arenas are read: a few for each CPU */
#define MAX_THREADS 4096 /* at most this many threads' stack pointers are read */
/* at most this many pages are counted one by one: 64 GiB, 128 MiB of pagemap */
#define MAX_PAGES      (1U << 24)
#define CHUNK_PAGES    8192
#define ARENA_HEAP_MAX (64ULL << 20) /* glibc's HEAP_MAX_SIZE, and its heaps' alignment */

struct reading {
	pid_t pid;
	const struct region_book *book;
	bool glibc;
	size_t heaps_left; /* heaps of glibc's arenas that may still be read */
	struct resident_pieces *pieces;
	uint64_t sps[MAX_THREADS];
	size_t n_sps;
	int pagemap_fd;
	uint64_t pages_left, zero_pfn;
	uint64_t *chunk; /* of pagemap */
	/* The mapping before the current one. */
	uint64_t last_end;
	bool last_is_guard; /* its memory must not be accessed */
	char *last_data;    /* owned; if the mapping is writable data of a program or library, the
			     * file's path; else NULL */
	struct file_id last_code; /* file of the last mapping of code; its data follow its code */
	/* A mapping's parts by owner. */
	struct resident_piece *parts;
	size_t n_parts, parts_room;
};

/* --- what is certain of a mapping from before the run --- */

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool is_shared_memory(const struct map_entry *map)
{
	return begins(map->path, "/memfd:") || begins(map->path, "/dev/shm/") ||
	       begins(map->path, "/SYSV") || !strcmp(map->path, "/dev/zero") ||
	       begins(map->path, "[anon_shmem:");
}

/* Does the mapping consist of heaps of glibc's arenas and nothing else? Each heap begins with a
 * header of glibc: the arena, the heap before it, the bytes in use, and the writable bytes. The
 * mapping covers the writable bytes. */
static bool is_arenas(struct reading *r, const struct map_entry *map)
{
	uint64_t at = map->start;

	while (r->glibc && r->heaps_left && at < map->end && !(at & (ARENA_HEAP_MAX - 1))) {
		struct {
			uint64_t arena, before, size, writable;
		} heap;

		r->heaps_left--;
		if (memory__read(r->pid, at, &heap, sizeof(heap)) || !heap.arena ||
		    heap.arena % 8 || heap.before % ARENA_HEAP_MAX || heap.size > heap.writable ||
		    !heap.writable || heap.writable % PAGE || heap.writable > ARENA_HEAP_MAX)
			return false;
		/* the first heap of an arena holds the arena itself */
		if (!heap.before && heap.arena - at > PAGE)
			return false;
		if (at + heap.writable == map->end)
			return true;
		at += heap.writable;
	}
	return false;
}

static bool has_stack_pointer(const struct reading *r, const struct map_entry *map)
{
	for (size_t i = 0; i < r->n_sps; i++)
		if (r->sps[i] >= map->start && r->sps[i] < map->end)
			return true;
	return false;
}

/* Does the mapping itself begin with pages that must not be accessed? Stacks of glibc 2.42 and
 * newer begin with such pages (MADV_GUARD_INSTALL). Since Linux 6.15, bit 58 of /proc/PID/pagemap
 * marks such pages (Documentation/admin-guide/mm/pagemap.rst). */
static bool begins_with_guard(const struct reading *r, const struct map_entry *map)
{
	uint64_t word;

	return r->pagemap_fd >= 0 &&
	       io__pread(r->pagemap_fd, &word, sizeof(word), map->start / PAGE * sizeof(word)) ==
		       sizeof(word) &&
	       word >> 58 & 1;
}

/* Returns the kind of an anonymous mapping from before the run. *ret_name is its name, if it has
 * one. */
static enum resident_kind kind_of_earlier(struct reading *r, const struct map_entry *map,
					  const char **ret_name)
{
	*ret_name = NULL;
	if (is_arenas(r, map))
		return RESIDENT_HEAP;
	if (has_stack_pointer(r, map) &&
	    ((r->last_is_guard && r->last_end == map->start) || begins_with_guard(r, map)))
		return RESIDENT_STACK;
	*ret_name = map->path;
	if (r->last_data && r->last_end == map->start && !*map->path) {
		*ret_name = r->last_data;
		return RESIDENT_BSS;
	}
	return RESIDENT_EARLIER;
}

/* --- a mapping of several owners --- */

/* Returns the number of the zero page. The kernel maps the zero page for all pages that were read
 * and never written to, so the zero page is not counted. A kernel without a zero page gives each
 * such page memory of its own, which bit 56 marks as mapped nowhere else. Then 0 is returned. */
static uint64_t find_zero_pfn(void)
{
	_cleanup_close_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	char *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t word = 0;

	if (page == MAP_FAILED)
		return 0;
	*(volatile char *)page;
	if (fd < 0 || io__pread(fd, &word, sizeof(word), (uintptr_t)page / PAGE * sizeof(word)) !=
			      sizeof(word))
		word = 0;
	munmap(page, PAGE);
	return word >> 56 & 1 ? 0 : word & ((1ULL << 55) - 1);
}

/* Counts the pages in memory and in swap. In /proc/PID/pagemap, bit 63 means in memory and bit 62
 * in swap. Bits 0 to 54 are the page's number, if memtrace has the right to read it. */
static bool count_pages(struct reading *r, struct resident_piece *part)
{
	for (uint64_t at = part->start; at < part->end;) {
		uint64_t n = (part->end - at) / PAGE;
		ssize_t got;

		n = n < CHUNK_PAGES ? n : CHUNK_PAGES;
		got = io__pread(r->pagemap_fd, r->chunk, n * sizeof(*r->chunk),
				at / PAGE * sizeof(*r->chunk));
		if (got != (ssize_t)(n * sizeof(*r->chunk)))
			return false;
		for (uint64_t i = 0; i < n; i++) {
			uint64_t word = r->chunk[i], pfn = word & ((1ULL << 55) - 1);

			part->bytes.rss += word >> 63 && !(pfn && pfn == r->zero_pfn) ? PAGE : 0;
			part->bytes.swap += word >> 62 & 1 ? PAGE : 0;
		}
		at += n * PAGE;
	}
	return true;
}

/* Scales one of the numbers of each part so that the parts add up to `whole`. (The process may have
 * run between the readings of smaps and of pagemap.) field: offset of the number in resident_bytes.
 * Returns false if the number is 0 in all parts but `whole` is not 0, and so cannot be divided
 * among them. */
static bool share_out(struct reading *r, uint64_t whole, size_t field)
{
	uint64_t counted = 0, given = 0, so_far = 0, pages;

	for (size_t i = 0; i < r->n_parts; i++)
		counted += *(uint64_t *)((char *)&r->parts[i].bytes + field);
	if (!counted)
		return !whole;
	pages = whole / PAGE;
	for (size_t i = 0; i < r->n_parts; i++) {
		uint64_t *part = (uint64_t *)((char *)&r->parts[i].bytes + field), upto;

		so_far += *part;
		upto = so_far == counted ? whole
		       : whole == counted
			       ? so_far
			       : (uint64_t)((double)pages * (double)so_far / (double)counted) *
					 PAGE;
		*part = upto - given;
		given = upto;
	}
	return true;
}

/* Adds a part, or extends the last one if it has the same owner. */
static int add_part(struct reading *r, uint64_t start, uint64_t end, uint32_t site,
		    enum resident_kind kind)
{
	struct resident_piece *last = r->n_parts ? &r->parts[r->n_parts - 1] : NULL;

	if (last && last->site == site && last->kind == kind) {
		last->end = end;
		return 0;
	}
	if (VECTOR_RESERVE(r->parts, r->parts_room, r->n_parts + 1))
		return -ENOMEM;
	r->parts[r->n_parts++] =
		(struct resident_piece){.start = start, .end = end, .site = site, .kind = kind};
	return 0;
}

/* Divides the mapping into parts by owner; earlier: the kind of the parts that no call of the run
 * has mapped. */
static int divide(struct reading *r, const struct map_entry *map, enum resident_kind earlier)
{
	const struct regions *regions = &r->book->map;
	uint64_t at = map->start;
	int rc = 0;

	r->n_parts = 0;
	for (size_t i = regions__first_above(regions, at);
	     i < regions->n && regions->at[i].start < map->end && !rc; i++) {
		const struct region *region = &regions->at[i];
		uint64_t start = region->start > at ? region->start : at;
		uint64_t end = region->end < map->end ? region->end : map->end;

		if (region->site == EARLIER_SITE)
			continue;
		if (start > at)
			rc = add_part(r, at, start, RESIDENT_NO_SITE, earlier);
		if (!rc && region->kind == REGION_OF_STACK)
			rc = add_part(r, start, end, RESIDENT_NO_SITE, RESIDENT_STACK);
		else if (!rc)
			rc = add_part(r, start, end, region->site, RESIDENT_MAPPED);
		at = end;
	}
	if (!rc && at < map->end)
		rc = add_part(r, at, map->end, RESIDENT_NO_SITE, earlier);
	return rc;
}

static bool measure_parts(struct reading *r, const struct smaps_entry *e)
{
	uint64_t pages = (e->map.end - e->map.start) / PAGE;

	if (r->pagemap_fd < 0 || pages > r->pages_left)
		return false;
	r->pages_left -= pages;
	for (size_t i = 0; i < r->n_parts; i++)
		if (!count_pages(r, &r->parts[i]))
			return false;
	return share_out(r, e->rss, offsetof(struct resident_bytes, rss)) &&
	       share_out(r, e->swap, offsetof(struct resident_bytes, swap));
}

/* --- the mappings one by one --- */

static struct resident_bytes bytes_of(const struct smaps_entry *e)
{
	return (struct resident_bytes){
		.rss = e->rss, .anonymous = e->anonymous, .swap = e->swap, .mappings = 1};
}

static void add_whole(struct reading *r, const struct smaps_entry *e, enum resident_kind kind,
		      uint32_t site, const char *name)
{
	struct resident_piece piece = {.start = e->map.start,
				       .end = e->map.end,
				       .bytes = bytes_of(e),
				       .kind = kind,
				       .site = site};

	resident_pieces__add(r->pieces, &piece, name);
}

static int add_anonymous(struct reading *r, const struct smaps_entry *e)
{
	const char *name = NULL;
	enum resident_kind earlier =
		!strcmp(e->map.path, "[heap]") ? RESIDENT_HEAP : kind_of_earlier(r, &e->map, &name);
	int rc = divide(r, &e->map, earlier);

	if (rc)
		return rc;
	if (r->n_parts == 1) {
		add_whole(r, e, r->parts[0].kind, r->parts[0].site, name);
		return 0;
	}
	if (!measure_parts(r, e)) { /* almost only allocators call brk */
		add_whole(r, e, strcmp(e->map.path, "[heap]") ? RESIDENT_SEVERAL : RESIDENT_HEAP,
			  RESIDENT_NO_SITE, NULL);
		return 0;
	}
	for (size_t i = 0; i < r->n_parts; i++) {
		struct resident_piece *part = &r->parts[i];

		part->bytes.anonymous = part->bytes.rss;
		part->bytes.mappings = 1;
		if (part->bytes.rss || part->bytes.swap)
			resident_pieces__add(r->pieces, part, part->kind == earlier ? name : NULL);
	}
	return 0;
}

static int add_mapping(struct reading *r, const struct smaps_entry *e)
{
	const char *path = e->map.path;

	if (is_shared_memory(&e->map)) {
		add_whole(r, e, RESIDENT_SHARED, RESIDENT_NO_SITE, path);
	} else if (e->map.file.inode && !file_id__equal(&e->map.file, &FILE_ID_VDSO)) {
		add_whole(r, e, RESIDENT_FILE, RESIDENT_NO_SITE, path);
	} else if (!strcmp(path, "[stack]")) {
		add_whole(r, e, RESIDENT_STACK, RESIDENT_NO_SITE, NULL);
	} else if (!*path || !strcmp(path, "[heap]") || begins(path, "[anon:")) {
		return add_anonymous(r, e);
	} else {
		add_whole(r, e, RESIDENT_KERNEL, RESIDENT_NO_SITE, NULL);
	}
	return 0;
}

static int take_entry(void *ctx, const struct smaps_entry *e)
{
	struct reading *r = ctx;
	bool is_data = e->map.file.inode && file_id__equal(&e->map.file, &r->last_code) &&
		       e->map.perms[1] == 'w' && e->map.perms[3] == 'p' && !e->hugetlb &&
		       !is_shared_memory(&e->map);
	int rc = e->rss || e->swap ? add_mapping(r, e) : 0;

	if (rc)
		return rc;
	r->pieces->huge_bytes += e->huge;
	r->pieces->hugetlb_bytes += e->hugetlb;
	if (e->map.executable && e->map.file.inode)
		r->last_code = e->map.file;
	r->last_end = e->map.end;
	r->last_is_guard = begins(e->map.perms, "---");
	free(r->last_data);
	r->last_data = is_data ? strdup(e->map.path) : NULL;
	return 0;
}

int resident__read(pid_t pid, const struct region_book *book, bool glibc,
		   struct resident_pieces *ret)
{
	_cleanup_free_ struct reading *r = calloc(1, sizeof(*r));
	_cleanup_free_ uint64_t *chunk = calloc(CHUNK_PAGES, sizeof(*chunk));
	struct resident_pieces pieces = {};
	_cleanup_close_ int pagemap = -1;
	int rc;

	if (!r || !chunk)
		return -ENOMEM;
	pagemap = process__open(pid, "pagemap", O_RDONLY);
	r->pid = pid;
	r->book = book;
	r->glibc = glibc;
	r->heaps_left = MAX_HEAPS;
	r->pieces = &pieces;
	r->pagemap_fd = pagemap;
	r->chunk = chunk;
	r->pages_left = MAX_PAGES;
	r->zero_pfn = find_zero_pfn();
	r->n_sps = process__stack_pointers(pid, r->sps, MAX_THREADS);
	rc = smaps__read(pid, take_entry, r, &pieces.skipped);
	if (!rc) /* this fails if the process has ended meanwhile: then smaps may have been cut
		  * short */
		rc = process__rss_bytes(pid, &pieces.vmrss_bytes);
	free(r->last_data);
	free(r->parts);
	if (rc) {
		resident_pieces__free(&pieces);
		return rc;
	}
	resident_pieces__free(ret);
	*ret = pieces;
	return 0;
}
