// SPDX-License-Identifier: BSD-2-Clause
/* Builds an unwind table. If the input begins like an ELF file, it is a whole ELF file. Else it is
 * an .eh_frame that is put into an ELF file with 256 MiB of code (a hole). .eh_frame's address is
 * in the middle of the code, so that pointers of any real .eh_frame lead into the code. The first 4
 * bytes of the input give e_entry, as an offset in the code. */
#include "fuzz.h"

#include <elf.h>

#include "elf/unwind.h"

#define BASE	  0x400000
#define CODE_SIZE (256u << 20)
#define EH_VADDR  (BASE + CODE_SIZE / 2)

static int wrap(const uint8_t *data, size_t size)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	struct fuzz_input in = {data, data + size};
	uint64_t entry = BASE + fuzz_take(&in, 4);
	size_t len = (size_t)(in.end - in.pos);
	struct {
		Elf64_Ehdr ehdr;
		Elf64_Phdr code;
		Elf64_Shdr none, eh_frame, shstrtab;
		char names[sizeof(names)];
	} head = {
		.ehdr = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				     EV_CURRENT},
			 .e_type = ET_EXEC,
			 .e_machine = EM_X86_64,
			 .e_version = EV_CURRENT,
			 .e_entry = entry,
			 .e_phoff = offsetof(typeof(head), code),
			 .e_shoff = offsetof(typeof(head), none),
			 .e_ehsize = sizeof(Elf64_Ehdr),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 1,
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = 3,
			 .e_shstrndx = 2},
		.code = {.p_type = PT_LOAD,
			 .p_flags = PF_R | PF_X,
			 .p_vaddr = BASE,
			 .p_filesz = CODE_SIZE,
			 .p_memsz = CODE_SIZE},
		.eh_frame = {.sh_name = 1,
			     .sh_type = SHT_PROGBITS,
			     .sh_flags = SHF_ALLOC,
			     .sh_addr = EH_VADDR,
			     .sh_offset = sizeof(head),
			     .sh_size = len},
		.shstrtab = {.sh_name = 11,
			     .sh_type = SHT_STRTAB,
			     .sh_offset = offsetof(typeof(head), names),
			     .sh_size = sizeof(names)},
	};
	int fd = fuzz_file((uint8_t *)&head, sizeof(head));

	memcpy(head.names, names, sizeof(names));
	require(pwrite(fd, &head, sizeof(head), 0) == sizeof(head));
	require(write(fd, in.pos, len) == (ssize_t)len);
	require(!ftruncate(fd, CODE_SIZE));
	return fd;
}

/* Checks what elf/unwind.h promises. */
static void check(const struct unwind_table *table, size_t input_size)
{
	size_t bad = 0;

	/* "work and memory stay proportional": a row for each byte, and two more for a function */
	require(table->n <= 3 * input_size);
	for (size_t i = 0; i < table->n; i++) {
		const struct unwind_row *row = &table->rows[i];
		enum unwind_kind kind = UNWIND_RULE_KIND(row->rule);

		require(!i || row[-1].pc < row->pc);
		require(!i || row[-1].rule != row->rule);
		require(kind <= UNWIND_BAD);
		if (UNWIND_RULE_IS_REALIGNED(row->rule))
			require(UNWIND_RULE_CFA_OFF(row->rule) >= 8);
		else
			require(UNWIND_RULE_RBP_SAVED(row->rule)
					? UNWIND_RULE_RBP_SLOT(row->rule) >= 1
					: !UNWIND_RULE_RBP_SLOT(row->rule));
		require(kind == UNWIND_SP || kind == UNWIND_BP || row->rule >> 16 == 0);
		require(unwind_table__find(table, table->base + row->pc) == row->rule);
		require(!i || unwind_table__find(table, table->base + row->pc - 1) == row[-1].rule);
		bad += kind == UNWIND_BAD;
	}
	require(bad == table->bad_rows);
	require(!table->n || table->rows[table->n - 1].rule == UNWIND_NONE);
	require(!table->n || table->fdes);
	require(unwind_table__find(table, table->base - 1) == UNWIND_NONE || !table->base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool whole = size >= SELFMAG && !memcmp(data, ELFMAG, SELFMAG);
	int fd = whole ? fuzz_file(data, size) : wrap(data, size);
	struct unwind_table *table = NULL, *bounded = NULL;
	struct elf_image *image = NULL;
	struct error err = {0};
	int ret = elf_image__open_code(fd, "input", &image, &err);

	require(whole || !ret);
	if (!ret) {
		ret = unwind_table__build(image, 0, &table, &err);
		require(err.code == ret && !table == !!ret);
	}
	if (table) {
		check(table, size);
		ret = unwind_table__build(image, 3, &bounded, NULL);
		require(ret == -E2BIG ? !bounded : !ret && bounded->n == table->n);
		require(ret == -E2BIG || table->n <= 3);
	}
	unwind_table__free(bounded);
	unwind_table__free(table);
	elf_image__free(image);
	close(fd);
	return 0;
}
