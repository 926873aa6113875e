// SPDX-License-Identifier: BSD-2-Clause
#include "elf/headers.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"

#define MAX_SECTIONS   (1u << 16)  /* real files have some 40 */
#define MAX_NAME       32	   /* bytes of a section's name, with its NUL */
#define MAX_NOTES      64	   /* sections or segments of notes; real files have three */
#define MAX_NOTE_BYTES (64u << 10) /* limit of the bytes of one section or segment of notes */

static bool read_section(int fd, const Elf64_Ehdr *file, size_t index, Elf64_Shdr *ret)
{
	uint64_t off;

	return !__builtin_add_overflow(file->e_shoff, index * sizeof(*ret), &off) &&
	       io__pread(fd, ret, sizeof(*ret), off) == sizeof(*ret);
}

/* Reads the number of sections and the place of their names. The file header may have no room for
 * the number of sections, or for the index of the section with the names. Then the value is in the
 * section header at index 0. */
static int read_sections(struct elf_headers *headers, const char *name, struct error *err)
{
	const Elf64_Ehdr *file = &headers->file;
	size_t names_at = file->e_shstrndx;
	Elf64_Shdr first, names;

	if (!file->e_shoff || file->e_shentsize != sizeof(first) ||
	    !read_section(headers->fd, file, 0, &first))
		return 0;
	headers->n_sections = file->e_shnum ? file->e_shnum : first.sh_size;
	if (headers->n_sections > MAX_SECTIONS)
		return error__set(err, -ENOEXEC, "%s claims to have %zu sections", name,
				  headers->n_sections);
	if (names_at == SHN_XINDEX)
		names_at = first.sh_link;
	if (names_at != SHN_UNDEF && elf_headers__section(headers, names_at, &names)) {
		headers->names_off = names.sh_offset;
		headers->names_bytes = names.sh_size;
	}
	return 0;
}

int elf_headers__read(int fd, const char *name, struct elf_headers *ret, struct error *err)
{
	struct elf_headers headers = {.fd = fd};
	const Elf64_Ehdr *file = &headers.file;
	ssize_t n = io__pread(fd, &headers.file, sizeof(headers.file), 0);
	int rc;

	if (n < 0)
		return error__set(err, (int)n, "cannot read %s: %s", name, strerror((int)-n));
	if (n < SELFMAG || memcmp(file->e_ident, ELFMAG, SELFMAG) != 0)
		return error__set(err, -ENOEXEC, "%s is not an ELF file", name);
	if (n < (ssize_t)sizeof(*file))
		return error__set(err, -ENOEXEC, "%s is cut short inside its ELF header", name);
	if (file->e_ident[EI_CLASS] != ELFCLASS64 || file->e_ident[EI_DATA] != ELFDATA2LSB ||
	    file->e_machine != EM_X86_64)
		return error__set(err, -ENOEXEC, "%s is not a 64-bit x86-64 ELF file", name);
	if (file->e_type != ET_EXEC && file->e_type != ET_DYN)
		return error__set(err, -ENOEXEC,
				  "%s is an ELF file of type %u, neither program nor library", name,
				  file->e_type);
	/* PN_XNUM means more segments than the field can hold: no linker makes so many. */
	if (file->e_phnum == PN_XNUM)
		return error__set(err, -ENOEXEC, "%s has no sound program headers", name);
	if (file->e_phoff && file->e_phentsize == sizeof(Elf64_Phdr))
		headers.n_segments = file->e_phnum;
	rc = read_sections(&headers, name, err);
	if (!rc)
		*ret = headers;
	return rc;
}

/* --- headers --- */

static void walk(int fd, uint64_t off, size_t header_bytes, size_t n, struct elf_walk *ret)
{
	ret->fd = fd;
	ret->header_bytes = header_bytes;
	ret->n_left = n;
	ret->off = off;
	ret->at = ret->end = 0;
}

void elf_headers__walk_sections(const struct elf_headers *headers, struct elf_walk *ret)
{
	uint64_t off;

	if (__builtin_add_overflow(headers->file.e_shoff, sizeof(Elf64_Shdr), &off))
		off = UINT64_MAX;
	walk(headers->fd, off, sizeof(Elf64_Shdr),
	     headers->n_sections ? headers->n_sections - 1 : 0, ret);
}

void elf_headers__walk_segments(const struct elf_headers *headers, struct elf_walk *ret)
{
	walk(headers->fd, headers->file.e_phoff, sizeof(Elf64_Phdr), headers->n_segments, ret);
}

bool elf_walk__next(struct elf_walk *walk, void *ret_header)
{
	if (walk->at == walk->end) {
		size_t n = sizeof(walk->buf) / walk->header_bytes;
		ssize_t len;

		if (n > walk->n_left)
			n = walk->n_left;
		if (!n || walk->off > INT64_MAX)
			return false;
		len = io__pread(walk->fd, walk->buf, n * walk->header_bytes, walk->off);
		n = len < 0 ? 0 : (size_t)len / walk->header_bytes;
		walk->at = 0;
		walk->end = n * walk->header_bytes;
		walk->off += walk->end;
		walk->n_left = n ? walk->n_left - n : 0;
		if (!n)
			return false;
	}
	memcpy(ret_header, walk->buf + walk->at, walk->header_bytes);
	walk->at += walk->header_bytes;
	return true;
}

bool elf_headers__section(const struct elf_headers *headers, size_t index, Elf64_Shdr *ret)
{
	return index < headers->n_sections && read_section(headers->fd, &headers->file, index, ret);
}

bool elf_headers__find_section(const struct elf_headers *headers, const char *wanted,
			       uint64_t flags, Elf64_Shdr *ret)
{
	size_t len = strlen(wanted) + 1;
	struct elf_walk walk;
	char name[MAX_NAME];
	Elf64_Shdr section;

	elf_headers__walk_sections(headers, &walk);
	while (elf_walk__next(&walk, &section)) {
		uint64_t off;

		if (section.sh_type == SHT_NOBITS || !section.sh_size ||
		    (section.sh_flags & flags) != flags ||
		    section.sh_name >= headers->names_bytes ||
		    len > headers->names_bytes - section.sh_name ||
		    __builtin_add_overflow(headers->names_off, section.sh_name, &off) ||
		    io__pread(headers->fd, name, len, off) != (ssize_t)len ||
		    memcmp(name, wanted, len) != 0)
			continue;
		*ret = section;
		return true;
	}
	return false;
}

/* --- notes --- */

/* Finds the build-id among notes. A note is a header, a name and a description. The name and the
 * description are padded to a multiple of align. */
static void find_build_id(const unsigned char *bytes, uint64_t size, uint64_t align,
			  struct elf_build_id *ret)
{
	uint64_t pos = 0;
	Elf64_Nhdr note;

	while (pos < size && size - pos >= sizeof(note)) {
		uint64_t name = pos + sizeof(note), desc;

		memcpy(&note, bytes + pos, sizeof(note));
		desc = (name + note.n_namesz + align - 1) & ~(align - 1);
		if (desc > size || note.n_descsz > size - desc)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
		    !memcmp(bytes + name, "GNU", sizeof("GNU")) && note.n_descsz &&
		    note.n_descsz <= ELF_MAX_BUILD_ID) {
			ret->len = note.n_descsz;
			memcpy(ret->bytes, bytes + desc, ret->len);
			return;
		}
		pos = (desc + note.n_descsz + align - 1) & ~(align - 1);
	}
}

/* Reads the build-id from one section or segment of notes. */
static void read_notes(const struct elf_headers *headers, uint64_t off, uint64_t size,
		       uint64_t align, struct elf_build_id *ret)
{
	_cleanup_free_ unsigned char *bytes = NULL;

	if (!size || size > MAX_NOTE_BYTES)
		return;
	bytes = malloc(size);
	if (bytes && io__pread(headers->fd, bytes, size, off) == (ssize_t)size)
		find_build_id(bytes, size, align == 8 ? 8 : 4, ret);
}

void elf_headers__build_id_of_segments(const struct elf_headers *headers, struct elf_build_id *ret)
{
	struct elf_walk walk;
	Elf64_Phdr segment;
	size_t seen = 0;

	ret->len = 0;
	elf_headers__walk_segments(headers, &walk);
	while (!ret->len && seen < MAX_NOTES && elf_walk__next(&walk, &segment))
		if (segment.p_type == PT_NOTE && ++seen)
			read_notes(headers, segment.p_offset, segment.p_filesz, segment.p_align,
				   ret);
}

void elf_headers__build_id(const struct elf_headers *headers, struct elf_build_id *ret)
{
	struct elf_walk walk;
	Elf64_Shdr section;
	size_t seen = 0;

	ret->len = 0;
	elf_headers__walk_sections(headers, &walk);
	while (!ret->len && seen < MAX_NOTES && elf_walk__next(&walk, &section))
		if (section.sh_type == SHT_NOTE && ++seen)
			read_notes(headers, section.sh_offset, section.sh_size,
				   section.sh_addralign, ret);
	if (!ret->len)
		elf_headers__build_id_of_segments(headers, ret);
}
