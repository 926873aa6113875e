// SPDX-License-Identifier: BSD-2-Clause
/* Reads headers of files made by hand in memory: valid headers, and invalid ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/headers.h"

#define N_SECTIONS 200 /* more than are read at once */

/* The notes of section 1: another note, then the build-id, padded as the gABI demands. */
struct notes {
	Elf64_Nhdr other;
	char other_name[8]; /* "LONGER", padded */
	char other_desc[4]; /* 3 bytes, padded */
	Elf64_Nhdr id;
	char id_name[4];
	unsigned char id_desc[20];
};

struct file {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdrs[2];
	Elf64_Shdr shdrs[N_SECTIONS];
	char names[64];
	struct notes notes;
};

static struct file file;
static int fd = -1;

static void make(void)
{
	file = (struct file){
		.ehdr = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				     EV_CURRENT},
			 .e_type = ET_DYN,
			 .e_machine = EM_X86_64,
			 .e_phoff = offsetof(struct file, phdrs),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 2,
			 .e_shoff = offsetof(struct file, shdrs),
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = N_SECTIONS,
			 .e_shstrndx = 2},
		.phdrs = {{.p_type = PT_LOAD},
			  {.p_type = PT_NOTE,
			   .p_offset = offsetof(struct file, notes),
			   .p_filesz = sizeof(struct notes),
			   .p_align = 4}},
		.names = "\0.note\0.names\0.last\0.last\0.none",
		.notes = {{7, 3, 1}, "LONGER", "xyz", {4, 20, NT_GNU_BUILD_ID}, "GNU", {1, 2, 3}},
	};
	for (size_t i = 1; i < N_SECTIONS; i++)
		file.shdrs[i] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_size = i};
	file.shdrs[1] = (Elf64_Shdr){.sh_name = 1,
				     .sh_type = SHT_NOTE,
				     .sh_offset = offsetof(struct file, notes),
				     .sh_size = sizeof(struct notes)};
	file.shdrs[2] = (Elf64_Shdr){.sh_name = 7,
				     .sh_type = SHT_STRTAB,
				     .sh_offset = offsetof(struct file, names),
				     .sh_size = sizeof(file.names)};
	file.shdrs[N_SECTIONS - 2].sh_name = 14;
	file.shdrs[N_SECTIONS - 1].sh_name = 20;
	file.shdrs[N_SECTIONS - 1].sh_flags = SHF_ALLOC;
}

/* Reads the headers from the first len bytes of file. */
static int read_cut(size_t len, struct elf_headers *ret)
{
	if (fd >= 0)
		close(fd);
	fd = memfd_create("elf", MFD_CLOEXEC);
	assert_int_equal(write(fd, &file, len), len);
	return elf_headers__read(fd, "test", ret, NULL);
}

static struct elf_headers read_all(void)
{
	struct elf_headers headers;

	assert_int_equal(read_cut(sizeof(file), &headers), 0);
	return headers;
}

static size_t count_sections(const struct elf_headers *headers)
{
	struct elf_walk walk;
	Elf64_Shdr section;
	size_t n = 0;

	elf_headers__walk_sections(headers, &walk);
	while (elf_walk__next(&walk, &section)) {
		n++;
		if (n > 2)
			assert_int_equal(section.sh_size, n);
	}
	assert_false(elf_walk__next(&walk, &section));
	return n;
}

static void test_walks(void **state)
{
	struct elf_headers headers;
	struct elf_walk walk;
	Elf64_Phdr segment;

	(void)state;
	make();
	headers = read_all();
	assert_int_equal(headers.n_sections, N_SECTIONS);
	assert_int_equal(count_sections(&headers), N_SECTIONS - 1);
	elf_headers__walk_segments(&headers, &walk);
	assert_true(elf_walk__next(&walk, &segment) && segment.p_type == PT_LOAD);
	assert_true(elf_walk__next(&walk, &segment) && segment.p_type == PT_NOTE);
	assert_false(elf_walk__next(&walk, &segment));

	/* A table that the file's end cuts off, maybe inside a header, ends with the last whole
	 * header. */
	assert_int_equal(read_cut(offsetof(struct file, shdrs[150]) + 10, &headers), 0);
	assert_int_equal(count_sections(&headers), 149);
	assert_int_equal(read_cut(offsetof(struct file, phdrs[1]) + 1, &headers), 0);
	assert_int_equal(count_sections(&headers), 0);
	elf_headers__walk_segments(&headers, &walk);
	assert_true(elf_walk__next(&walk, &segment));
	assert_false(elf_walk__next(&walk, &segment));

	/* Tables beyond the end of the file. */
	for (uint64_t off = sizeof(file); off; off <<= 1) {
		make();
		file.ehdr.e_shoff = file.ehdr.e_phoff = off;
		headers = read_all();
		assert_int_equal(count_sections(&headers), 0);
		elf_headers__walk_segments(&headers, &walk);
		assert_false(elf_walk__next(&walk, &segment));
	}
	make();
	file.ehdr.e_shoff = file.ehdr.e_phoff = UINT64_MAX - 10;
	headers = read_all();
	assert_int_equal(count_sections(&headers), 0);
}

static void test_numbers(void **state)
{
	struct elf_headers headers;

	(void)state;
	/* Numbers that do not fit in the header are in the first section header. */
	make();
	file.ehdr.e_shnum = 0;
	file.ehdr.e_shstrndx = SHN_XINDEX;
	file.shdrs[0].sh_size = N_SECTIONS;
	file.shdrs[0].sh_link = 2;
	headers = read_all();
	assert_int_equal(count_sections(&headers), N_SECTIONS - 1);
	assert_int_equal(headers.names_bytes, sizeof(file.names));
	file.shdrs[0].sh_size = 1 << 16;
	headers = read_all();
	file.shdrs[0].sh_size++;
	assert_int_equal(read_cut(sizeof(file), &headers), -ENOEXEC);

	make();
	file.ehdr.e_shentsize = 1;
	file.ehdr.e_phentsize = 0;
	headers = read_all();
	assert_int_equal(headers.n_sections, 0);
	assert_int_equal(headers.n_segments, 0);
	make();
	file.ehdr.e_phnum = PN_XNUM;
	assert_int_equal(read_cut(sizeof(file), &headers), -ENOEXEC);
	make();
	file.ehdr.e_shstrndx = N_SECTIONS; /* one too many */
	headers = read_all();
	assert_int_equal(headers.names_bytes, 0);
	assert_int_equal(elf_headers__read(-1, "test", &headers, NULL), -EBADF);
	for (size_t len = 0; len < sizeof(Elf64_Ehdr); len += 7)
		assert_int_equal(read_cut(len, &headers), -ENOEXEC);
}

static void test_find_section(void **state)
{
	struct elf_headers headers;
	Elf64_Shdr section;

	(void)state;
	make();
	headers = read_all();
	assert_true(elf_headers__find_section(&headers, ".last", 0, &section));
	assert_int_equal(section.sh_size, N_SECTIONS - 2);
	assert_true(elf_headers__find_section(&headers, ".last", SHF_ALLOC, &section));
	assert_int_equal(section.sh_size, N_SECTIONS - 1);
	assert_false(elf_headers__find_section(&headers, ".las", 0, &section));
	assert_false(elf_headers__find_section(&headers, ".none", 0, &section));
	file.shdrs[N_SECTIONS - 2].sh_type = SHT_NOBITS;
	file.shdrs[N_SECTIONS - 1].sh_size = 0;
	headers = read_all();
	assert_false(elf_headers__find_section(&headers, ".last", 0, &section));

	/* A name outside of the table of names, then this table outside of the file. */
	make();
	file.shdrs[2].sh_size = 25;
	headers = read_all();
	assert_false(elf_headers__find_section(&headers, ".last", SHF_ALLOC, &section));
	make();
	for (uint64_t off = 1ull << 20; off; off <<= 1) {
		file.shdrs[2].sh_offset = off;
		file.shdrs[2].sh_size = UINT64_MAX;
		headers = read_all();
		assert_false(elf_headers__find_section(&headers, ".last", 0, &section));
	}
}

static void assert_id(size_t len)
{
	struct elf_headers headers = read_all();
	struct elf_build_id id;

	elf_headers__build_id(&headers, &id);
	assert_int_equal(id.len, len);
	assert_memory_equal(id.bytes, file.notes.id_desc, len);
}

static void test_build_id(void **state)
{
	(void)state;
	make();
	assert_id(20);
	file.shdrs[1].sh_type = SHT_PROGBITS;
	assert_id(20); /* found through the segment */
	file.phdrs[1].p_filesz--;
	assert_id(0);
	make();
	file.ehdr.e_shnum = 0;
	file.ehdr.e_shoff = 0;
	assert_id(20);

	make();
	file.phdrs[1].p_type = PT_NULL;
	assert_id(20);
	file.notes.id.n_descsz = 1;
	assert_id(1);
	file.notes.id.n_descsz = 0;
	assert_id(0);
	file.notes.id.n_descsz = 21;
	assert_id(0);
	file.notes.id.n_descsz = UINT32_MAX;
	assert_id(0);
	file.notes.id.n_descsz = 20;
	file.notes.id.n_namesz = UINT32_MAX;
	assert_id(0);
	file.notes.id.n_namesz = 3;
	assert_id(0);
	file.notes.id.n_namesz = 4;
	file.notes.id_name[3] = 'x';
	assert_id(0);
	file.notes.id_name[3] = '\0';
	file.notes.id.n_type = 1;
	assert_id(0);
	file.notes.id.n_type = NT_GNU_BUILD_ID;
	file.notes.other.n_descsz = UINT32_MAX;
	assert_id(0);
	file.notes.other.n_descsz = 3;
	file.shdrs[1].sh_size = 1ull << 40;
	assert_id(0);
	file.shdrs[1].sh_size = sizeof(file.notes);
	file.shdrs[1].sh_offset = UINT64_MAX - 20;
	assert_id(0);
}

static int close_file(void **state)
{
	(void)state;
	return close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walks),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_find_section),
		cmocka_unit_test(test_build_id),
	};

	return cmocka_run_group_tests(tests, NULL, close_file);
}
