// SPDX-License-Identifier: BSD-2-Clause
#include "symbolize/elf_section.h"

#include <string.h>

#include "base/io.h"

#define MAX_SECTIONS 65536 /* headers looked at; real files have some 40 */
#define MAX_NAME     32	   /* bytes, with its NUL */

static bool read_section(int fd, const Elf64_Ehdr *elf, size_t i, Elf64_Shdr *ret)
{
	uint64_t off;

	return !__builtin_add_overflow(elf->e_shoff, i * sizeof(*ret), &off) &&
	       io__pread(fd, ret, sizeof(*ret), off) == sizeof(*ret);
}

bool elf_section__find(int fd, const char *wanted, Elf64_Shdr *ret)
{
	char name[MAX_NAME];
	size_t n, names_at, len = strlen(wanted) + 1;
	Elf64_Shdr first, names, section;
	Elf64_Ehdr elf;

	if (io__pread(fd, &elf, sizeof(elf), 0) != sizeof(elf) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf.e_ident[EI_DATA] != ELFDATA2LSB || elf.e_shentsize != sizeof(section) ||
	    !elf.e_shoff || !read_section(fd, &elf, 0, &first))
		return false;
	n = elf.e_shnum ? elf.e_shnum : first.sh_size;
	names_at = elf.e_shstrndx == SHN_XINDEX ? first.sh_link : elf.e_shstrndx;
	if (!read_section(fd, &elf, names_at, &names))
		return false;
	for (size_t i = 1; i < n && i < MAX_SECTIONS; i++) {
		uint64_t off;

		if (!read_section(fd, &elf, i, &section))
			return false;
		if (section.sh_type == SHT_NOBITS || !section.sh_size ||
		    __builtin_add_overflow(names.sh_offset, section.sh_name, &off) ||
		    io__pread(fd, name, len, off) != (ssize_t)len || memcmp(name, wanted, len) != 0)
			continue;
		*ret = section;
		return true;
	}
	return false;
}
