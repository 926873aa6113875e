// SPDX-License-Identifier: BSD-2-Clause
#include "heap/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/search.h"

#define PRESENT	    (1ULL << 63)
#define OF_FILE	    (1ULL << 61) /* the page belongs to a file, or is shared */
#define SWAPPED	    (1ULL << 62)
#define GUARD	    (1ULL << 58) /* MADV_GUARD_INSTALL, from Linux 6.15 on: SWAPPED is set, too */
#define BATCH	    4096	 /* entries of pagemap in one call */
#define CACHE_PAGES 256		 /* a power of two */

struct cached_page {
	uint64_t addr; /* 0: this entry is not used */
	unsigned char bytes[HEAP_PAGE];
};

struct image {
	struct image_region *regions;
	size_t n_regions;
	size_t last; /* index of the region that is_resident() found last */
	struct image_source source;
	struct image_limits limits;
	uint64_t read_bytes, looked_pages;
	int spent;
	int missed;		   /* the first error of image__look() */
	struct cached_page *cache; /* CACHE_PAGES elements */
};

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static bool is_of_file(const struct map_entry *entry)
{
	return entry->file.inode || entry->file.dev_major || entry->file.dev_minor;
}

bool image__is_plain(const struct map_entry *entry)
{
	const char *path = entry->path;
	bool writable = entry->perms[1] == 'w', shared = entry->perms[3] == 's';

	if (entry->perms[0] != 'r')
		return false;
	if (starts_with(path, "/dev/zero") || starts_with(path, "/dev/shm/") ||
	    starts_with(path, "/dev/hugepages/"))
		return writable;
	if (shared)
		return writable && (starts_with(path, "/memfd:") || starts_with(path, "/SYSV") ||
				    starts_with(path, "/anon_hugepage"));
	return !writable && !is_of_file(entry) && (!*path || starts_with(path, "[anon"));
}

static enum image_kind kind_of(const struct maps *maps, size_t i)
{
	const struct map_entry *entry = &maps->entries[i];
	bool of_file = is_of_file(entry);

	if (image__is_plain(entry))
		return IMAGE_PLAIN;
	if (entry->perms[3] != 'p')
		return IMAGE_SHARED;
	if (entry->perms[0] != 'r' || !strncmp(entry->path, "/dev/", 5) ||
	    !strcmp(entry->path, "[vvar]") || !strcmp(entry->path, "[vvar_vclock]") ||
	    !strcmp(entry->path, "[vdso]") || !strcmp(entry->path, "[vsyscall]"))
		return IMAGE_OTHER;
	if (entry->perms[1] != 'w')
		return of_file ? IMAGE_CONST : IMAGE_OTHER;
	if (of_file)
		return IMAGE_DATA;
	if (!strcmp(entry->path, "[heap]"))
		return IMAGE_BRK;
	if (!strcmp(entry->path, "[stack]"))
		return IMAGE_STACK;
	if (i && maps->entries[i - 1].end == entry->start && maps->entries[i - 1].file.inode)
		return IMAGE_BSS;
	return IMAGE_ANON;
}

int image__new(const struct maps *maps, const struct image_source *source,
	       const struct image_limits *limits, struct image **ret)
{
	struct image *image = calloc(1, sizeof(*image));

	if (!image)
		return -ENOMEM;
	image->regions = calloc(maps->n + 1, sizeof(*image->regions));
	image->cache = calloc(CACHE_PAGES, sizeof(*image->cache));
	if (!image->regions || !image->cache) {
		image__free(image);
		return -ENOMEM;
	}
	for (size_t i = 0; i < maps->n; i++)
		image->regions[i] = (struct image_region){.start = maps->entries[i].start,
							  .end = maps->entries[i].end,
							  .kind = kind_of(maps, i),
							  .entry = &maps->entries[i]};
	image->n_regions = maps->n;
	image->source = *source;
	image->limits = *limits;
	*ret = image;
	return 0;
}

void image__free(struct image *image)
{
	if (!image)
		return;
	for (size_t i = 0; i < image->n_regions; i++)
		free(image->regions[i].resident);
	free(image->regions);
	free(image->cache);
	free(image);
}

size_t image__n_regions(const struct image *image)
{
	return image->n_regions;
}

struct image_region *image__region(const struct image *image, size_t i)
{
	return &image->regions[i];
}

struct image_region *image__find(const struct image *image, uint64_t addr)
{
	size_t i = SEARCH_FIRST(k, image->n_regions, image->regions[k].end > addr);

	return i < image->n_regions && image->regions[i].start <= addr ? &image->regions[i] : NULL;
}

bool image_region__readable(const struct image_region *region)
{
	return region->kind < IMAGE_SHARED;
}

int image__spent(const struct image *image)
{
	return image->spent;
}

uint64_t image__bytes_read(const struct image *image)
{
	return image->read_bytes;
}

int image__stopped(const struct image *image)
{
	return image->spent ? image->spent : image->missed;
}

static int spend(struct image *image, uint64_t bytes)
{
	if (image->spent)
		return image->spent;
	if (image->limits.deadline_ns && clock__now_ns(CLOCK_MONOTONIC) > image->limits.deadline_ns)
		return image->spent = -ETIMEDOUT;
	image->read_bytes += bytes;
	if (image->limits.read_bytes && image->read_bytes > image->limits.read_bytes)
		return image->spent = -EFBIG;
	return 0;
}

static bool is_data(const struct image_region *region)
{
	return region->kind == IMAGE_DATA || region->kind == IMAGE_BSS;
}

bool image__data(const struct image *image, size_t *i, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct image_region *regions = image->regions;
	size_t first, end;

	for (first = *i; first < image->n_regions && !is_data(&regions[first]); first++)
		;
	if (first >= image->n_regions)
		return false;
	for (end = first + 1; end < image->n_regions && is_data(&regions[end]) &&
			      regions[end].start == regions[end - 1].end;
	     end++)
		;
	*i = end;
	*ret_start = regions[first].start;
	*ret_end = regions[end - 1].end;
	return true;
}

/* --- resident pages --- */

static int look_at_pages(struct image *image, struct image_region *region, uint64_t *entries,
			 uint64_t *bits)
{
	uint64_t n = (region->end - region->start) / HEAP_PAGE;

	for (uint64_t done = 0; done < n;) {
		size_t batch = n - done < BATCH ? (size_t)(n - done) : BATCH;
		int err = spend(image, 0);

		if (!err)
			err = image->source.pagemap(image->source.ctx,
						    region->start / HEAP_PAGE + done, entries,
						    batch);
		if (err)
			return err;
		for (size_t i = 0; i < batch; i++, done++) {
			if (entries[i] & PRESENT) {
				bits__set(bits, done);
				region->n_resident++;
			} else if ((entries[i] & (SWAPPED | GUARD)) == SWAPPED) {
				region->n_swapped++;
			}
		}
	}
	return 0;
}

static int look(struct image *image, struct image_region *region)
{
	uint64_t pages = (region->end - region->start) / HEAP_PAGE;
	_cleanup_free_ uint64_t *entries = NULL;
	int err;

	if (image->limits.pages && pages > image->limits.pages - image->looked_pages)
		return -EFBIG;
	image->looked_pages += pages;
	entries = malloc(BATCH * sizeof(*entries));
	region->resident = calloc(bits__words(pages), sizeof(*region->resident));
	err = entries && region->resident ? look_at_pages(image, region, entries, region->resident)
					  : -ENOMEM;
	if (err || !region->n_resident) {
		free(region->resident);
		region->resident = NULL;
	}
	if (err)
		region->n_resident = region->n_swapped = 0;
	return err;
}

int image__look(struct image *image, struct image_region *region)
{
	int err;

	if (region->looked)
		return 0;
	region->looked = true;
	err = image_region__readable(region) ? look(image, region) : 0;
	if (err && !image->missed)
		image->missed = err;
	return err;
}

bool image__run(struct image *image, uint64_t addr, uint64_t end, uint64_t *ret_start,
		uint64_t *ret_end)
{
	size_t i = SEARCH_FIRST(k, image->n_regions, image->regions[k].end > addr);
	uint64_t run_start = 0, run_end = 0;

	for (; i < image->n_regions && image->regions[i].start < end; i++) {
		struct image_region *region = &image->regions[i];
		uint64_t pages = (region->end - region->start) / HEAP_PAGE, page, stop;

		if (run_end && region->start != run_end)
			break;
		if (image->spent)
			return false;
		image__look(image, region);
		if (!region->resident) {
			if (run_end)
				break;
			continue;
		}
		if (end < region->end)
			pages = (end - region->start + HEAP_PAGE - 1) / HEAP_PAGE;
		page = addr > region->start ? (addr - region->start) / HEAP_PAGE : 0;
		page = bits__next(region->resident, page, pages, true);
		if (page == pages || (run_end && page)) {
			if (run_end)
				break;
			continue;
		}
		stop = bits__next(region->resident, page, pages, false);
		if (!run_end)
			run_start = region->start + page * HEAP_PAGE;
		run_end = region->start + stop * HEAP_PAGE;
		if (stop < pages)
			break;
	}
	if (run_start < addr)
		run_start = addr;
	if (run_end > end)
		run_end = end;
	if (run_start >= run_end)
		return false;
	*ret_start = run_start;
	*ret_end = run_end;
	return true;
}

/* --- reading --- */

/* Are all pages of [addr, end) resident? */
static bool is_resident(struct image *image, uint64_t addr, uint64_t end)
{
	while (addr < end) {
		struct image_region *region = &image->regions[image->last];
		uint64_t page, stop;

		if (image->last >= image->n_regions || addr < region->start ||
		    addr >= region->end) {
			region = image__find(image, addr);
			if (!region)
				return false;
			image->last = (size_t)(region - image->regions);
		}
		image__look(image, region);
		if (!region->resident)
			return false;
		stop = end < region->end ? end : region->end;
		for (page = (addr - region->start) / HEAP_PAGE;
		     page <= (stop - 1 - region->start) / HEAP_PAGE; page++)
			if (!bits__test(region->resident, page))
				return false;
		addr = stop;
	}
	return true;
}

int image__read(struct image *image, uint64_t addr, void *to, size_t len)
{
	long got;
	int err = spend(image, len);

	if (err)
		return err;
	if (addr + len < addr || !is_resident(image, addr, addr + len))
		return -EFAULT;
	got = len ? image->source.read(image->source.ctx, addr, to, len) : 0;
	return got == (long)len ? 0 : -EFAULT;
}

int image__read_now(struct image *image, uint64_t addr, void *to, size_t len)
{
	uint64_t first = addr / HEAP_PAGE, entries[2];
	size_t pages = (size_t)((addr + len - 1) / HEAP_PAGE - first + 1);
	long got;
	int err = spend(image, len);

	if (err)
		return err;
	if (!len || addr + len < addr || pages > 2 ||
	    image->source.pagemap(image->source.ctx, first, entries, pages))
		return -EFAULT;
	for (size_t i = 0; i < pages; i++)
		if (!(entries[i] & PRESENT) || (entries[i] & OF_FILE))
			return -EFAULT;
	got = image->source.read(image->source.ctx, addr, to, len);
	return got == (long)len ? 0 : -EFAULT;
}

int image__peek(struct image *image, uint64_t addr, void *to, size_t len)
{
	uint64_t done = 0;

	while (done < len) {
		uint64_t at = addr + done, page = at & ~(HEAP_PAGE - 1), off = at - page;
		uint64_t part = HEAP_PAGE - off < len - done ? HEAP_PAGE - off : len - done;
		struct cached_page *cached = &image->cache[page / HEAP_PAGE % CACHE_PAGES];
		int err;

		if (!page)
			return -EFAULT;
		if (cached->addr != page) {
			cached->addr = 0;
			err = image__read(image, page, cached->bytes, HEAP_PAGE);
			if (err)
				return err;
			cached->addr = page;
		}
		memcpy((char *)to + done, cached->bytes + off, part);
		done += part;
	}
	return 0;
}

void image__forget(struct image *image)
{
	for (size_t i = 0; i < CACHE_PAGES; i++)
		image->cache[i].addr = 0;
}
