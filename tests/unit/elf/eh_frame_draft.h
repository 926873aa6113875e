/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes .eh_frame sections by hand and checks the unwind rows that are built from them. Include
 * after cmocka.h. */
#ifndef MEMTRACE_TESTS_UNIT_ELF_EH_FRAME_DRAFT_H
#define MEMTRACE_TESTS_UNIT_ELF_EH_FRAME_DRAFT_H

#include <dwarf.h>
#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "unwind_fixture.h"
#include "unwind_oracle.h"

#define CODE	 0x1000 /* vaddr and offset of the code */
#define CODE_LEN 0x1000
#define FRAMES	 0x2000 /* vaddr and offset of .eh_frame */
#define SHSTRTAB 0x300

struct draft {
	unsigned char *bytes;
	size_t n, room;
	size_t cie;   /* position of the last CIE */
	size_t entry; /* position of the entry being written */
};

static inline void put(struct draft *draft, const void *bytes, size_t n)
{
	if (n == 0)
		return;
	if (draft->n + n > draft->room) {
		draft->room = 2 * (draft->n + n);
		draft->bytes = realloc(draft->bytes, draft->room);
		assert_non_null(draft->bytes);
	}
	memcpy(draft->bytes + draft->n, bytes, n);
	draft->n += n;
}

static inline void put_number(struct draft *draft, uint64_t value, size_t n)
{
	put(draft, &value, n);
}

static inline void open_entry(struct draft *draft)
{
	draft->entry = draft->n;
	put_number(draft, 0, 4);
}

static inline void close_entry(struct draft *draft)
{
	uint32_t len = draft->n - draft->entry - 4;

	memcpy(draft->bytes + draft->entry, &len, 4);
}

#define BYTES(...)                                                                                 \
	(const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__})

/* All functions begin with CFA = rsp + 8 and the return address at CFA - 8. */
#define USUAL DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1

/* head: the fields from version to augmentation data, with code alignment 1, data alignment -8. */
static inline void put_cie(struct draft *draft, const void *head, size_t head_len,
			   const void *program, size_t program_len)
{
	open_entry(draft);
	draft->cie = draft->entry;
	put_number(draft, 0, 4);
	put(draft, head, head_len);
	put(draft, program, program_len);
	close_entry(draft);
}

static inline void put_usual_cie(struct draft *draft)
{
	put_cie(draft, BYTES(1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b), BYTES(USUAL));
}

static inline void open_fde(struct draft *draft)
{
	open_entry(draft);
	put_number(draft, draft->n - draft->cie, 4);
}

/* Writes an FDE whose addresses are pcrel sdata4, as the usual CIE says. */
static inline void put_fde(struct draft *draft, uint32_t pc, uint32_t len, const void *program,
			   size_t program_len)
{
	open_fde(draft);
	put_number(draft, (uint32_t)(CODE + pc - (FRAMES + draft->n)), 4);
	put_number(draft, len, 4);
	put_number(draft, 0, 1);
	put(draft, program, program_len);
	close_entry(draft);
}

/* Makes an ELF file whose .eh_frame is the draft. */
static inline int make_file(const struct draft *draft)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	const Elf64_Ehdr ehdr = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = 0x40,
		.e_shoff = 0x100,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 2,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 3,
		.e_shstrndx = 2,
	};
	const Elf64_Phdr phdrs[2] = {
		{PT_LOAD, PF_R | PF_X, CODE, CODE, CODE, CODE_LEN, CODE_LEN, 0x1000},
		{PT_LOAD, PF_R, FRAMES, FRAMES, FRAMES, draft->n, draft->n, 0x1000},
	};
	const Elf64_Shdr shdrs[3] = {
		{0},
		{1, SHT_PROGBITS, SHF_ALLOC, FRAMES, FRAMES, draft->n, 0, 0, 8, 0},
		{11, SHT_STRTAB, 0, 0, SHSTRTAB, sizeof(names), 0, 0, 1, 0},
	};
	int fd = memfd_create("unwind", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	assert_int_equal(pwrite(fd, phdrs, sizeof(phdrs), 0x40), sizeof(phdrs));
	assert_int_equal(pwrite(fd, shdrs, sizeof(shdrs), 0x100), sizeof(shdrs));
	assert_int_equal(pwrite(fd, names, sizeof(names), SHSTRTAB), sizeof(names));
	assert_int_equal(ftruncate(fd, FRAMES), 0);
	assert_int_equal(pwrite(fd, draft->bytes, draft->n, FRAMES), draft->n);
	return fd;
}

static inline int build_draft(struct draft *draft, size_t max_rows, struct unwind_table **ret_table,
			      bool ask_elfutils)
{
	_cleanup_close_ int fd = make_file(draft);
	_cleanup_(elf_image__cleanup) struct elf_image *image = open_image(fd);
	int ret = unwind_table__build(image, max_rows, ret_table, NULL);

	free(draft->bytes);
	draft->bytes = NULL;
	if (ret)
		return ret;
	check_shape(*ret_table);
	if (ask_elfutils) {
		struct oracle oracle = open_oracle(fd);

		for (uint64_t vaddr = CODE; vaddr < CODE + 0x200; vaddr++)
			compare_at(*ret_table, &oracle, "by hand", vaddr);
		close_oracle(&oracle);
	}
	return 0;
}

static inline void assert_rows(const char *name, const struct unwind_table *table,
			       const struct unwind_row *rows, size_t n)
{
	for (size_t i = 0; i < n || i < table->n; i++) {
		if (i >= n || i >= table->n || table->rows[i].pc != rows[i].pc ||
		    table->rows[i].rule != rows[i].rule)
			fail_msg("%s: row %zu of %zu is %#x %#x, expected %zu: %#x %#x", name, i,
				 table->n, i < table->n ? table->rows[i].pc : 0,
				 i < table->n ? table->rows[i].rule : 0, n, i < n ? rows[i].pc : 0,
				 i < n ? rows[i].rule : 0);
	}
}

#define ROWS(...)                                                                                  \
	(const struct unwind_row[]){__VA_ARGS__},                                                  \
		sizeof((const struct unwind_row[]){__VA_ARGS__}) / sizeof(struct unwind_row)

#define ADVANCE(n) (DW_CFA_advance_loc | (n))

#endif
