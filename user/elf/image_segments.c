// SPDX-License-Identifier: BSD-2-Clause
/* Where bytes of the file are: its ranges and its segments. */
#include "elf/image_internal.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/io.h"

#define MAX_RANGE_BYTES (512ull << 20) /* limit of the bytes that are read at once */
#define PAGE		4096ull	       /* bytes of a page on x86-64 */

bool elf_image__in_file(const struct elf_image *image, uint64_t off, uint64_t size)
{
	return off <= image->file_size && size <= image->file_size - off;
}

void *elf_image__read_range(const struct elf_image *image, uint64_t off, uint64_t size)
{
	_cleanup_free_ char *buf = NULL;

	if (size == 0 || size > MAX_RANGE_BYTES || !elf_image__in_file(image, off, size))
		return NULL;
	buf = malloc(size + 1);
	if (!buf || io__pread(image->fd, buf, size, off) != (ssize_t)size)
		return NULL;
	buf[size] = '\0';
	return_ptr(buf);
}

const struct segment *elf_image__segment_at(const struct elf_image *image, uint64_t vaddr,
					    bool executable)
{
	for (size_t i = 0; i < image->n_segments; i++) {
		const struct segment *segment = &image->segments[i];

		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->size &&
		    (segment->executable || !executable))
			return segment;
	}
	return NULL;
}

int elf_image__off_to_vaddr(const struct elf_image *image, uint64_t off, uint64_t *ret_vaddr)
{
	for (size_t i = 0; i < image->n_segments; i++) {
		const struct segment *segment = &image->segments[i];

		if (off >= segment->off && off - segment->off < segment->size) {
			*ret_vaddr = segment->vaddr + (off - segment->off);
			return 0;
		}
	}
	return -ERANGE;
}

int elf_image__mapping_to_vaddr(const struct elf_image *image, uint64_t off, uint64_t *ret_vaddr)
{
	const struct segment *found = NULL;

	for (size_t i = 0; i < image->n_segments; i++) {
		const struct segment *segment = &image->segments[i];
		uint64_t first = segment->off & ~(PAGE - 1);

		if (!segment->executable || off < first ||
		    off - first >= segment->size + (segment->off - first))
			continue;
		/* If two segments share the page, the one whose own mapping begins at off is
		 * taken. */
		if (!found || off == first)
			found = segment;
	}
	/* Under personality READ_IMPLIES_EXEC every mapping is executable, so off may lie in a
	 * segment that is not marked executable. */
	if (!found)
		return elf_image__off_to_vaddr(image, off, ret_vaddr);
	*ret_vaddr = found->vaddr + (off - found->off);
	return 0;
}

int elf_image__vaddr_to_off(const struct elf_image *image, uint64_t vaddr, uint64_t *ret_off)
{
	const struct segment *segment = elf_image__segment_at(image, vaddr, false);

	if (!segment)
		return -ERANGE;
	*ret_off = segment->off + (vaddr - segment->vaddr);
	return 0;
}

long elf_image__read_code(const struct elf_image *image, uint64_t vaddr, void *buf, size_t len)
{
	const struct segment *segment = elf_image__segment_at(image, vaddr, true);
	uint64_t skip;

	if (!segment)
		return -ERANGE;
	skip = vaddr - segment->vaddr;
	if (len > segment->size - skip)
		len = segment->size - skip;
	return io__pread(image->fd, buf, len, segment->off + skip);
}

int elf_image__tls(const struct elf_image *image, struct elf_tls *ret)
{
	*ret = image->tls;
	return image->tls.size ? 0 : -ENOENT;
}

int elf_image__code_span(const struct elf_image *image, uint64_t *ret_start, uint64_t *ret_end)
{
	bool found = false;

	for (size_t i = 0; i < image->n_segments; i++) {
		const struct segment *segment = &image->segments[i];

		if (!segment->executable)
			continue;
		if (!found || segment->vaddr < *ret_start)
			*ret_start = segment->vaddr;
		if (!found || segment->vaddr + segment->size > *ret_end)
			*ret_end = segment->vaddr + segment->size;
		found = true;
	}
	return found ? 0 : -ENOENT;
}
