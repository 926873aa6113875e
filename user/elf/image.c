// SPDX-License-Identifier: BSD-2-Clause
/* Reads an ELF file that its owner may be rewriting to attack memtrace.
 *
 * Nothing is mapped: a mapped page raises SIGBUS after its file is cut short, and the target can
 * cut its file at any time. A read() of such a file only returns fewer bytes. elf/headers.h reads
 * the headers. Large parts (code, symbol tables) are read with pread into buffers. Their sizes are
 * first checked against the file's size and a limit.
 *
 * If a table has wrong contents, its sound part is used and the rest is left out. Examples: symbols
 * whose name begins outside the string table, string tables without a final NUL, segments that
 * reach beyond the file. */
#include "elf/image_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/vector.h"

#define MAX_DYNAMIC (64u << 10) /* bytes of PT_DYNAMIC */

static int add_segment(struct elf_image *image, const Elf64_Phdr *phdr)
{
	struct segment segment = {
		.vaddr = phdr->p_vaddr,
		.off = phdr->p_offset,
		.size = phdr->p_filesz,
		.executable = phdr->p_flags & PF_X,
	};

	if (segment.off >= image->file_size)
		return 0;
	if (segment.size > image->file_size - segment.off)
		segment.size = image->file_size - segment.off;
	if (segment.size == 0 || segment.vaddr + segment.size < segment.vaddr)
		return 0;
	if (VECTOR_ADD_ROOM(image->segments, image->n_segments))
		return -ENOMEM;
	image->segments[image->n_segments++] = segment;
	return 0;
}

/* 0 or -ENOMEM. */
static int read_build_id(struct elf_image *image, const struct elf_headers *headers)
{
	struct elf_build_id id;

	elf_headers__build_id_of_segments(headers, &id);
	if (!id.len)
		return 0;
	image->build_id = malloc(2 * id.len + 1);
	if (!image->build_id)
		return -ENOMEM;
	for (size_t i = 0; i < id.len; i++)
		sprintf(image->build_id + 2 * i, "%02x", id.bytes[i]);
	return 0;
}

/* 0 or -ENOMEM. */
static int read_soname(struct elf_image *image, const Elf64_Phdr *phdr)
{
	_cleanup_free_ Elf64_Dyn *dynamic = NULL;
	uint64_t strtab = 0, soname = 0, off;
	bool has_strtab = false, has_soname = false;
	char name[256];
	ssize_t n;

	if (phdr->p_filesz > MAX_DYNAMIC)
		return 0;
	dynamic = elf_image__read_range(image, phdr->p_offset, phdr->p_filesz);
	if (!dynamic)
		return 0;
	for (size_t i = 0; i < phdr->p_filesz / sizeof(*dynamic) && dynamic[i].d_tag != DT_NULL;
	     i++) {
		if (dynamic[i].d_tag == DT_STRTAB) {
			strtab = dynamic[i].d_un.d_ptr;
			has_strtab = true;
		} else if (dynamic[i].d_tag == DT_SONAME) {
			soname = dynamic[i].d_un.d_val;
			has_soname = true;
		}
	}
	if (!has_strtab || !has_soname || elf_image__vaddr_to_off(image, strtab + soname, &off))
		return 0;
	n = io__pread(image->fd, name, sizeof(name), off);
	if (n <= 1 || !name[0] || !memchr(name, '\0', (size_t)n))
		return 0;
	image->soname = strdup(name);
	return image->soname ? 0 : -ENOMEM;
}

static void read_tls(struct elf_image *image, const Elf64_Phdr *phdr)
{
	uint64_t align = phdr->p_align ? phdr->p_align : 1;

	if (align & (align - 1) || phdr->p_vaddr + phdr->p_memsz < phdr->p_vaddr)
		return;
	image->tls = (struct elf_tls){phdr->p_vaddr, phdr->p_memsz, align};
}

/* 0 or -ENOMEM. */
static int read_segments(struct elf_image *image, const struct elf_headers *headers)
{
	Elf64_Phdr phdr, dynamic = {0}; /* dynamic: the first PT_DYNAMIC; a sound file has no
					 * other */
	struct elf_walk walk;
	int err = 0;

	elf_headers__walk_segments(headers, &walk);
	while (!err && elf_walk__next(&walk, &phdr)) {
		switch (phdr.p_type) {
		case PT_LOAD:
			err = add_segment(image, &phdr);
			break;
		case PT_DYNAMIC:
			if (!image->has_dynamic)
				dynamic = phdr;
			image->has_dynamic = true;
			break;
		case PT_INTERP:
			image->has_interp = true;
			break;
		case PT_GNU_EH_FRAME:
			image->eh_frame_hdr = phdr.p_vaddr;
			break;
		case PT_TLS:
			read_tls(image, &phdr);
			break;
		}
	}
	if (!err)
		err = read_build_id(image, headers);
	if (!err && image->has_dynamic) /* this needs the PT_LOADs, so they are read first */
		err = read_soname(image, &dynamic);
	return err;
}

static int open_image(int fd, const char *name, bool with_symbols, const struct elf_wanted *wanted,
		      struct elf_image **ret_image, struct error *err)
{
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	struct elf_headers headers;
	struct stat st;
	int ret;

	if (fstat(fd, &st) < 0)
		return error__set(err, -EIO, "cannot stat %s: %s", name, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error__set(err, -ENOEXEC, "%s is not a regular file", name);

	image = calloc(1, sizeof(*image));
	if (!image)
		return error__set(err, -ENOMEM, "out of memory reading %s", name);
	image->file_size = st.st_size;
	image->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (image->fd < 0)
		return error__set(err, -EIO, "cannot duplicate the descriptor of %s: %s", name,
				  strerror(errno));
	ret = elf_headers__read(image->fd, name, &headers, err);
	if (ret)
		return ret;
	image->entry = headers.file.e_entry;

	ret = read_segments(image, &headers);
	if (!ret && image->n_segments == 0)
		return error__set(err, -ENOEXEC, "%s has no sound program headers", name);
	if (!ret && with_symbols)
		ret = elf_image__read_symbols(image, &headers, wanted);
	if (ret)
		return error__set(err, ret, "out of memory reading %s", name);

	*ret_image = image;
	image = NULL;
	return 0;
}

int elf_image__open(int fd, const char *name, const struct elf_wanted *wanted,
		    struct elf_image **ret_image, struct error *err)
{
	return open_image(fd, name, true, wanted, ret_image, err);
}

int elf_image__open_code(int fd, const char *name, struct elf_image **ret_image, struct error *err)
{
	return open_image(fd, name, false, NULL, ret_image, err);
}

void elf_image__close_file(struct elf_image *image)
{
	if (image->fd >= 0)
		close(image->fd);
	image->fd = -1;
}

void elf_image__free(struct elf_image *image)
{
	if (!image)
		return;
	if (image->fd >= 0)
		close(image->fd);
	elf_image__free_symbols(image);
	free(image->relocations[0].bytes);
	free(image->relocations[1].bytes);
	free(image->segments);
	free(image->soname);
	free(image->build_id);
	free(image);
}

bool elf_image__has_interp(const struct elf_image *image)
{
	return image->has_interp;
}

const char *elf_image__soname(const struct elf_image *image)
{
	return image->soname;
}

const char *elf_image__build_id(const struct elf_image *image)
{
	return image->build_id;
}

uint64_t elf_image__entry(const struct elf_image *image)
{
	return image->entry;
}
