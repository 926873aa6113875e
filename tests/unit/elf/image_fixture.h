/* SPDX-License-Identifier: BSD-2-Clause */
/* ELF files for tests: loaded in this process, or made by hand. Include after cmocka.h. */
#ifndef MEMTRACE_TESTS_UNIT_ELF_IMAGE_FIXTURE_H
#define MEMTRACE_TESTS_UNIT_ELF_IMAGE_FIXTURE_H

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/image.h"
#include "open_image.h"

static inline struct elf_image *open_path(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return open_image(fd);
}

/* A loaded object of this process. */
struct loaded {
	const char *suffix; /* end of its path; "" means the program itself */
	char path[4096];
	uintptr_t base;
	char build_id[129];
};

static inline int match_object(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct loaded *loaded = ctx;
	size_t len = strlen(info->dlpi_name), want = strlen(loaded->suffix);

	(void)size;
	if (want ? len < want || strcmp(info->dlpi_name + len - want, loaded->suffix) != 0 : len)
		return 0;
	snprintf(loaded->path, sizeof(loaded->path), "%s",
		 want ? info->dlpi_name : "/proc/self/exe");
	loaded->base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const char *pos = (const char *)loaded->base + phdr->p_vaddr;
		const char *end = pos + phdr->p_memsz;

		if (phdr->p_type != PT_NOTE || phdr->p_align != 4)
			continue;
		while (pos + sizeof(ElfW(Nhdr)) <= end) {
			const ElfW(Nhdr) *note = (const void *)pos;
			const unsigned char *desc = (const unsigned char *)pos + sizeof(*note) +
						    ((note->n_namesz + 3) & ~3u);

			if (note->n_type == NT_GNU_BUILD_ID) {
				for (unsigned int b = 0; b < note->n_descsz; b++)
					sprintf(loaded->build_id + 2 * b, "%02x", desc[b]);
			}
			pos = (const char *)desc + ((note->n_descsz + 3) & ~3u);
		}
	}
	return 1;
}

static inline struct loaded find_loaded(const char *suffix)
{
	struct loaded loaded = {.suffix = suffix};

	assert_int_equal(dl_iterate_phdr(match_object, &loaded), 1);
	return loaded;
}

/* Adds one to the size_t at ctx. */
static inline int count_functions(const struct elf_symbol *symbol, void *ctx)
{
	assert_true(symbol->name[0] != '\0');
	assert_null(strchr(symbol->name, '@'));
	(*(size_t *)ctx)++;
	return 0;
}

/* A file made by hand: one executable segment that covers the whole file, .symtab and .strtab. */
#define VADDR 0x400000ull

static const char strings[] = "\0dup@V1\0dup@@V2\0weak\0only@OLD\0undefined\0absolute\0data";
enum {
	DUP_HIDDEN = 1,
	DUP_DEFAULT = 8,
	WEAK = 16,
	ONLY = 21,
	UNDEFINED = 30,
	ABSOLUTE = 40,
	DATA = 49,
};

struct crafted {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;
	Elf64_Shdr sections[3];
	Elf64_Sym symbols[10];
	char strings[sizeof(strings)];
};

static inline Elf64_Sym make_symbol(uint32_t name, uint64_t value, int bind, int type,
				    uint16_t section)
{
	return (Elf64_Sym){
		.st_name = name,
		.st_info = ELF64_ST_INFO(bind, type),
		.st_shndx = section,
		.st_value = value,
		.st_size = 16,
	};
}

static inline struct crafted craft(void)
{
	struct crafted file = {
		.ehdr =
			{
				.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					    ELFDATA2LSB, EV_CURRENT},
				.e_type = ET_EXEC,
				.e_machine = EM_X86_64,
				.e_version = EV_CURRENT,
				.e_phoff = offsetof(struct crafted, phdr),
				.e_shoff = offsetof(struct crafted, sections),
				.e_ehsize = sizeof(Elf64_Ehdr),
				.e_phentsize = sizeof(Elf64_Phdr),
				.e_phnum = 1,
				.e_shentsize = sizeof(Elf64_Shdr),
				.e_shnum = 3,
			},
		.phdr =
			{
				.p_type = PT_LOAD,
				.p_flags = PF_R | PF_X,
				.p_vaddr = VADDR,
				.p_filesz = sizeof(struct crafted),
				.p_memsz = sizeof(struct crafted),
			},
		.sections =
			{
				{0},
				{
					.sh_type = SHT_SYMTAB,
					.sh_offset = offsetof(struct crafted, symbols),
					.sh_size = sizeof(file.symbols),
					.sh_link = 2,
					.sh_entsize = sizeof(Elf64_Sym),
				},
				{
					.sh_type = SHT_STRTAB,
					.sh_offset = offsetof(struct crafted, strings),
					.sh_size = sizeof(strings),
				},
			},
		.symbols =
			{
				{0},
				make_symbol(DUP_HIDDEN, 0x100, STB_GLOBAL, STT_FUNC, 1),
				make_symbol(DUP_DEFAULT, 0x200, STB_LOCAL, STT_FUNC, 1),
				make_symbol(WEAK, 0x300, STB_LOCAL, STT_FUNC, 1),
				make_symbol(WEAK, 0x310, STB_WEAK, STT_GNU_IFUNC, 1),
				make_symbol(ONLY, 0x400, STB_GLOBAL, STT_FUNC, 1),
				make_symbol(UNDEFINED, 0, STB_GLOBAL, STT_FUNC, SHN_UNDEF),
				make_symbol(ABSOLUTE, 5, STB_GLOBAL, STT_FUNC, SHN_ABS),
				make_symbol(DATA, 0x500, STB_GLOBAL, STT_OBJECT, 1),
				make_symbol(sizeof(strings), 0x600, STB_GLOBAL, STT_FUNC, 1),
			},
	};

	memcpy(file.strings, strings, sizeof(strings));
	return file;
}

static inline int store(const void *data, size_t len)
{
	int fd = memfd_create("image", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, len, 0), len);
	return fd;
}

static inline struct elf_image *open_crafted(const struct crafted *file)
{
	_cleanup_close_ int fd = store(file, sizeof(*file));

	return open_image(fd);
}

#endif
