// SPDX-License-Identifier: BSD-2-Clause
/* Finds sections by their names, and .eh_frame also in files without section headers. */
#include "elf/image_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"

#define MAX_EH_FRAME   (128u << 20)
#define MAX_COPY_BYTES (256u << 20) /* limit of the bytes of any section but .eh_frame */

/* Finds the first section called name that has bytes in the file and is loaded. 0 or -ENOENT. */
static int find_section(const struct elf_image *image, const char *name, Elf64_Shdr *ret_shdr)
{
	struct elf_headers headers;

	if (elf_headers__read(image->fd, "", &headers, NULL) ||
	    !elf_headers__find_section(&headers, name, SHF_ALLOC, ret_shdr))
		return -ENOENT;
	return 0;
}

/* Finds .eh_frame by .eh_frame_hdr, which begins with a version, three encodings and a pointer to
 * .eh_frame. All linkers write this pointer pc-relative in 4 bytes. The header does not give the
 * size of .eh_frame. So ret_shdr gets an upper limit, up to the end of the segment, and the caller
 * searches for the final zero. */
static int eh_frame_by_header(const struct elf_image *image, Elf64_Shdr *ret_shdr)
{
	static const unsigned char expected[2] = {1, 0x1b};
	const struct segment *segment;
	unsigned char start[8];
	int32_t rel;
	uint64_t off;

	if (!image->eh_frame_hdr || elf_image__vaddr_to_off(image, image->eh_frame_hdr, &off) ||
	    io__pread(image->fd, start, sizeof(start), off) != sizeof(start) ||
	    memcmp(start, expected, sizeof(expected)) != 0)
		return -ENOENT;
	memcpy(&rel, start + 4, sizeof(rel));
	ret_shdr->sh_addr = image->eh_frame_hdr + 4 + rel;
	segment = elf_image__segment_at(image, ret_shdr->sh_addr, false);
	if (!segment)
		return -ENOENT;
	off = ret_shdr->sh_addr - segment->vaddr;
	ret_shdr->sh_offset = segment->off + off;
	ret_shdr->sh_size = segment->size - off;
	if (ret_shdr->sh_size > MAX_EH_FRAME)
		ret_shdr->sh_size = MAX_EH_FRAME;
	return 0;
}

static size_t up_to_terminator(const unsigned char *bytes, size_t size)
{
	size_t pos = 0;
	uint32_t len;

	while (size - pos >= sizeof(len)) {
		memcpy(&len, bytes + pos, sizeof(len));
		if (len == 0 || len > size - pos - sizeof(len))
			return pos;
		pos += sizeof(len) + len;
	}
	return pos;
}

int elf_image__read_eh_frame(const struct elf_image *image, unsigned char **ret_bytes,
			     size_t *ret_size, uint64_t *ret_vaddr)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	bool by_section = true;
	Elf64_Shdr shdr;
	ssize_t n;

	if (find_section(image, ".eh_frame", &shdr) != 0) {
		by_section = false;
		if (eh_frame_by_header(image, &shdr) != 0)
			return -ENOENT;
	}
	if (shdr.sh_size > MAX_EH_FRAME || !elf_image__in_file(image, shdr.sh_offset, shdr.sh_size))
		return -ENOEXEC;

	/* The buffer has exactly the section's size, so that a sanitizer sees each access beyond
	 * the end. */
	bytes = malloc(shdr.sh_size);
	if (!bytes)
		return -ENOMEM;
	n = io__pread(image->fd, bytes, shdr.sh_size, shdr.sh_offset);
	if (n < 0)
		return -EIO;
	*ret_size = by_section ? (size_t)n : up_to_terminator(bytes, n);
	*ret_vaddr = shdr.sh_addr;
	*ret_bytes = bytes;
	bytes = NULL;
	return 0;
}

/* Copies a section. 0, -ENOEXEC, -ENOMEM or -EIO. */
static int copy_section(const struct elf_image *image, const Elf64_Shdr *shdr, uint64_t max,
			unsigned char **ret_bytes, size_t *ret_size)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	ssize_t n;

	if (shdr->sh_size > max || !elf_image__in_file(image, shdr->sh_offset, shdr->sh_size))
		return -ENOEXEC;
	bytes = malloc(shdr->sh_size); /* the buffer has exactly the section's size, as in the
					* function above */
	if (!bytes)
		return -ENOMEM;
	n = io__pread(image->fd, bytes, shdr->sh_size, shdr->sh_offset);
	if (n != (ssize_t)shdr->sh_size)
		return -EIO;
	*ret_bytes = bytes;
	*ret_size = shdr->sh_size;
	bytes = NULL;
	return 0;
}

int elf_image__read_section(const struct elf_image *image, const char *name,
			    unsigned char **ret_bytes, size_t *ret_size, uint64_t *ret_vaddr)
{
	Elf64_Shdr shdr;
	int rc;

	if (find_section(image, name, &shdr) != 0)
		return -ENOENT;
	rc = copy_section(image, &shdr, MAX_COPY_BYTES, ret_bytes, ret_size);
	if (!rc)
		*ret_vaddr = shdr.sh_addr;
	return rc;
}

int elf_image__read_notes(const struct elf_image *image, const char *name, uint64_t max,
			  unsigned char **ret_bytes, size_t *ret_size)
{
	struct elf_headers headers;
	Elf64_Shdr shdr;

	if (elf_headers__read(image->fd, "", &headers, NULL) ||
	    !elf_headers__find_section(&headers, name, 0, &shdr))
		return -ENOENT;
	return copy_section(image, &shdr, max, ret_bytes, ret_size);
}

int elf_image__section_vaddr(const struct elf_image *image, const char *name, uint64_t *ret_vaddr)
{
	Elf64_Shdr shdr;

	if (find_section(image, name, &shdr) != 0)
		return -ENOENT;
	*ret_vaddr = shdr.sh_addr;
	return 0;
}

bool elf_image__is_go(const struct elf_image *image)
{
	Elf64_Shdr shdr;

	return find_section(image, ".go.buildinfo", &shdr) == 0;
}
