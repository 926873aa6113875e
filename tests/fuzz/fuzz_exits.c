// SPDX-License-Identifier: BSD-2-Clause
/* Finds where functions end. If the input begins like an ELF file, it is a whole ELF file, and its
 * functions are followed. Else the input is code and an unwind table for it, and the code is put
 * into an ELF file.
 *
 * The first byte of such an input is the number of rows. Each row takes two bytes: its distance
 * from the row before, minus 1, and its rule. The next byte is the function's entry, as an offset
 * in the code. The rest is code. */
#include "fuzz.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>

#include "elf/exits.h"

#define BASE	      0x400000
#define MAX_FUNCTIONS 16

/* The image of a file that consists of this head and the code. */
static struct elf_image *wrap(const uint8_t *code, size_t size)
{
	struct {
		Elf64_Ehdr ehdr;
		Elf64_Phdr code;
	} head = {
		.ehdr = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				     EV_CURRENT},
			 .e_type = ET_EXEC,
			 .e_machine = EM_X86_64,
			 .e_version = EV_CURRENT,
			 .e_phoff = offsetof(typeof(head), code),
			 .e_ehsize = sizeof(Elf64_Ehdr),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 1},
		.code = {.p_type = PT_LOAD,
			 .p_flags = PF_R | PF_X,
			 .p_offset = sizeof(head),
			 .p_vaddr = BASE,
			 .p_filesz = size,
			 .p_memsz = size},
	};
	int fd = fuzz_file((uint8_t *)&head, sizeof(head));
	struct elf_image *image;

	require(write(fd, code, size) == (ssize_t)size);
	require(!elf_image__open(fd, "input", NULL, &image, NULL));
	close(fd);
	return image;
}

/* Is there a ret at vaddr, with any prefixes? Decoded by hand, because the code under test uses
 * Capstone. */
static bool is_ret(const struct elf_image *image, uint64_t vaddr)
{
	uint8_t code[15] = {0};
	long len = elf_image__read_code(image, vaddr, code, sizeof(code));

	for (long i = 0; i < len; i++) {
		if (code[i] == 0xc2 || code[i] == 0xc3)
			return true;
		if (!strchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3", code[i]) &&
		    (code[i] & 0xf0) != 0x40)
			return false;
	}
	return false;
}

static void check(struct elf_image *image, const struct unwind_table *table, uint64_t vaddr)
{
	uint64_t stages[EXITS_MAX_STAGES], more[EXITS_MAX_STAGES + 4];
	struct exits exits, again;
	int rc = exits__find(image, table, vaddr, &exits);
	size_t n;

	require(rc == 0 || rc == -ENOTSUP);
	require(!rc == !!exits.n && !rc == !exits.why[0]);
	require(exits.n <= EXITS_MAX && memchr(exits.why, '\0', sizeof(exits.why)));
	for (size_t i = 0; i < exits.n; i++) {
		uint32_t rule = unwind_table__find(table, exits.vaddrs[i]);

		require(is_ret(image, exits.vaddrs[i]));
		require(UNWIND_RULE_KIND(rule) == UNWIND_SP && UNWIND_RULE_CFA_OFF(rule) == 8);
		for (size_t j = 0; j < i; j++)
			require(exits.vaddrs[j] != exits.vaddrs[i]);
	}
	require(exits__find(image, table, vaddr, &again) == rc && again.n == exits.n);
	n = exits__hand_over(image, vaddr, stages, EXITS_MAX_STAGES);
	require(n <= EXITS_MAX_STAGES);
	/* more room must not change the stages that were found with less room */
	require(exits__hand_over(image, vaddr, more, EXITS_MAX_STAGES + 4) >= n);
	for (size_t i = 0; i < n; i++)
		require(stages[i] == more[i] && stages[i]);
	require(exits__hand_over(image, vaddr, NULL, 0) == 0);
}

struct functions {
	struct elf_image *image;
	const struct unwind_table *table;
	size_t n;
};

static int check_function(const struct elf_symbol *symbol, void *ctx)
{
	struct functions *functions = ctx;

	check(functions->image, functions->table, symbol->vaddr);
	return ++functions->n == MAX_FUNCTIONS;
}

static void check_file(const uint8_t *data, size_t size)
{
	int fd = fuzz_file(data, size);
	struct unwind_table *table = NULL;
	struct functions functions = {0};

	if (!elf_image__open(fd, "input", NULL, &functions.image, NULL) &&
	    !unwind_table__build(functions.image, 0, &table, NULL)) {
		functions.table = table;
		elf_image__each_function(functions.image, check_function, &functions);
		check(functions.image, table, elf_image__entry(functions.image));
	}
	unwind_table__free(table);
	elf_image__free(functions.image);
	close(fd);
}

static void check_code(const uint8_t *data, size_t size)
{
	static const uint32_t rules[] = {
		UNWIND_RULE(UNWIND_SP, 8, 0, 0),  UNWIND_RULE(UNWIND_NONE, 0, 0, 0),
		UNWIND_RULE(UNWIND_SP, 16, 0, 0), UNWIND_RULE(UNWIND_BP, 16, 1, 2),
		UNWIND_RULE(UNWIND_END, 0, 0, 0), UNWIND_RULE(UNWIND_BAD, 0, 0, 0),
	};
	struct fuzz_input in = {data, data + size};
	struct unwind_row rows[256] = {{.pc = 0, .rule = rules[0]}};
	struct unwind_table table = {.base = BASE, .rows = rows, .n = 1};
	size_t n = fuzz_take(&in, 1);
	uint64_t entry;
	struct elf_image *image;

	for (size_t i = 1; i <= n && i < 256; i++, table.n++) {
		rows[i].pc = rows[i - 1].pc + 1 + (uint32_t)fuzz_take(&in, 1);
		rows[i].rule = rules[fuzz_take(&in, 1) % (sizeof(rules) / sizeof(rules[0]))];
	}
	entry = BASE + fuzz_take(&in, 1);
	if (in.pos == in.end)
		return;
	image = wrap(in.pos, (size_t)(in.end - in.pos));
	check(image, &table, entry);
	elf_image__free(image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= SELFMAG && !memcmp(data, ELFMAG, SELFMAG))
		check_file(data, size);
	else
		check_code(data, size);
	return 0;
}
