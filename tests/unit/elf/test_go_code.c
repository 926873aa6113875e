// SPDX-License-Identifier: BSD-2-Clause
/* Small files like those of Go's linker. The table follows the definition in Go's runtime. The
 * instructions come from programs of Go 1.19 and 1.23. tests/live checks that rows like these lead
 * through real stacks. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/go_code.h"
#include "elf/image.h"
#include "elf/unwind.h"

#define CODE	  0x1000 /* vaddrs are offsets */
#define TABLE	  0x2000
#define TABLE_LEN 0x400
#define RELA	  0x3000
#define EH_FRAME  0x4000
#define FILE_LEN  0x5000
#define NAMES	  72 /* offsets in the table */
#define PCTAB	  200
#define FUNCTAB	  240
#define N	  7
#define TEXT	  (CODE + 0x80) /* C code comes first */

#define SP(off)	      UNWIND_RULE(UNWIND_SP, off, 0, 0)
#define SP_SAVED(off) UNWIND_RULE(UNWIND_SP, off, 1, 2)

static const char *const names[N] = {"main.plain", "runtime.asmcgocall", "runtime.cgocall",
				     "crosscall2", "runtime.goexit",	 "x_cgo_init",
				     "main.after"};

/* For the first 4 bytes of code, rsp points to the return address. For the next 0x90 bytes it
 * points 0x30 bytes below, and for the last 0x6c bytes to the return address again. These are 256
 * bytes of code. */
static const unsigned char pctab[] = {0, 2, 4, 96, 0x90, 1, 95, 0x6c, 0};

/* The code of asmcgocall from its call of C on, by version of Go. */
static const unsigned char go_119[] = {0xff, 0xd0, 0x48, 0x8b, 0x7c, 0x24, 0x30, 0x48,
				       0x8b, 0x77, 0x08, 0x48, 0x2b, 0x74, 0x24, 0x28};
static const unsigned char go_119_pie[] = {0xff, 0xd0, 0x48, 0x8b, 0x0d, 1,    2,    3,
					   0,	 0x48, 0x8b, 0x7c, 0x24, 0x30, 0x48, 0x8b,
					   0x77, 0x08, 0x48, 0x2b, 0x74, 0x24, 0x28};
static const unsigned char go_123[] = {0x55, 0x48, 0x89, 0xe5, 0xe8, 0x7c, 0xff, 0xff,
				       0xff, 0x48, 0x8b, 0x7c, 0x24, 0x08, 0x48, 0x8b,
				       0x77, 0x08, 0x48, 0x2b, 0x34, 0x24};

struct draft {
	unsigned char bytes[FILE_LEN];
	bool is_pie; /* the table has no section of its own, and is relocated */
	bool is_go;
};

static void put(struct draft *draft, size_t off, uint64_t value, size_t n)
{
	memcpy(draft->bytes + off, &value, n);
}

static void put_table(struct draft *draft, uint32_t magic)
{
	size_t description = 8 * N + 8, name = 0;

	put(draft, TABLE, magic, 4);
	put(draft, TABLE + 4, 0x08010000, 4);
	put(draft, TABLE + 8, N, 8);
	put(draft, TABLE + 24, draft->is_pie ? 0 : TEXT, 8);
	put(draft, TABLE + 32, NAMES, 8);
	put(draft, TABLE + 56, PCTAB, 8);
	put(draft, TABLE + 64, FUNCTAB, 8);
	memcpy(draft->bytes + TABLE + PCTAB, pctab, sizeof(pctab));
	for (size_t i = 0; i < N; i++) {
		size_t off = TABLE + FUNCTAB + description;

		put(draft, TABLE + FUNCTAB + 8 * i, 0x100 * i, 4);
		put(draft, TABLE + FUNCTAB + 8 * i + 4, description, 4);
		strcpy((char *)draft->bytes + TABLE + NAMES + name, names[i]);
		put(draft, off, 0x100 * i, 4);
		put(draft, off + 4, name, 4);
		put(draft, off + 16, i == 5 ? 0 : 1, 4);
		put(draft, off + (magic == 0xfffffff0 ? 37 : 41), i == 4, 1);
		name += strlen(names[i]) + 1;
		description += 44;
	}
	put(draft, TABLE + FUNCTAB + 8 * N, 0x100 * N, 4);
	put(draft, RELA, 0x2008, 8); /* another relocation comes first */
	put(draft, RELA + 8, R_X86_64_RELATIVE, 8);
	put(draft, RELA + 24, TABLE + 24, 8);
	put(draft, RELA + 32, R_X86_64_RELATIVE, 8);
	put(draft, RELA + 40, TEXT, 8);
}

/* Writes a CIE and two functions of C: one before Go's code, and one inside Go's code, where no
 * linker puts a function of C. */
static void put_eh_frame(struct draft *draft)
{
	static const unsigned char cie[] = {
		18, 0, 0,    0,	 0, 0, 0,  0, 1, 'z',  'R',
		0,  1, 0x78, 16, 1, 0, 12, 7, 8, 0x90, 1}; /* CFA is rsp + 8, rip at CFA - 8 */
	size_t off = EH_FRAME;

	memcpy(draft->bytes + off, cie, sizeof(cie));
	off += sizeof(cie);
	for (size_t i = 0; i < 2; i++) {
		put(draft, off, 21, 4);
		put(draft, off + 4, off + 4 - EH_FRAME, 4);
		put(draft, off + 8, i ? TEXT + 0x680 : CODE, 8); /* absptr */
		put(draft, off + 16, 0x20, 8);
		off += 25;
	}
}

static void put_elf(struct draft *draft)
{
	static const char strings[] =
		"\0.go.buildinfo\0.gopclntab\0.data.rel.ro\0.rela.dyn\0.eh_frame\0.shstrtab";
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
		.e_shnum = 6,
		.e_shstrndx = 5,
	};
	const Elf64_Phdr phdrs[2] = {
		{PT_LOAD, PF_R | PF_X, CODE, CODE, CODE, 0x1000, 0x1000, 0x1000},
		{PT_LOAD, PF_R, TABLE, TABLE, TABLE, FILE_LEN - TABLE, FILE_LEN - TABLE, 0x1000},
	};
	/* a relocated table is among other constants of its section */
	const Elf64_Shdr shdrs[6] = {
		{0},
		{draft->is_go ? 1 : 0, SHT_PROGBITS, SHF_ALLOC, 0x800, 0x800, 16, 0, 0, 8, 0},
		{draft->is_pie ? 26 : 15, SHT_PROGBITS, SHF_ALLOC, TABLE - (draft->is_pie ? 64 : 0),
		 TABLE - (draft->is_pie ? 64 : 0), TABLE_LEN + (draft->is_pie ? 64 : 0), 0, 0, 8,
		 0},
		{39, SHT_RELA, SHF_ALLOC, RELA, RELA, 48, 0, 0, 8, 24},
		{49, SHT_PROGBITS, SHF_ALLOC, EH_FRAME, EH_FRAME, 72, 0, 0, 8, 0},
		{59, SHT_STRTAB, 0, 0, 0x300, sizeof(strings), 0, 0, 1, 0},
	};

	memcpy(draft->bytes, &ehdr, sizeof(ehdr));
	memcpy(draft->bytes + 0x40, phdrs, sizeof(phdrs));
	memcpy(draft->bytes + 0x100, shdrs, sizeof(shdrs));
	memcpy(draft->bytes + 0x300, strings, sizeof(strings));
}

static void make(struct draft *draft, uint32_t magic, const unsigned char *code, size_t len)
{
	memset(draft->bytes, 0, sizeof(draft->bytes));
	draft->is_go = true;
	put_table(draft, magic);
	memset(draft->bytes + TEXT + 0x100, 0x90, 0x100);
	memcpy(draft->bytes + TEXT + 0x100, code, len);
	put_eh_frame(draft);
	put_elf(draft);
}

static int build(const struct draft *draft, size_t max_rows, struct unwind_table **ret)
{
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_close_ int fd = memfd_create("go", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, draft->bytes, FILE_LEN), FILE_LEN);
	assert_int_equal(elf_image__open_code(fd, "go", &image, NULL), 0);
	assert_int_equal(elf_image__is_go(image), draft->is_go);
	return unwind_table__build(image, max_rows, ret, NULL);
}

static void assert_rules(const struct draft *draft, uint32_t switch_rule)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
	const struct {
		uint64_t off;
		uint32_t rule;
	} expected[] = {
		{0, UNWIND_GO_FRAME},
		{0x100, switch_rule},
		/* runtime.cgocall */
		{0x200, SP(8)},
		{0x204, SP_SAVED(0x38)},
		{0x294, SP(8)},
		/* crosscall2 */
		{0x300, SP(8)},
		{0x304, SP_SAVED(0x38)},
		{0x394, SP(8)},
		{0x400, UNWIND_END},
		{0x500, UNWIND_NONE},
		{0x600, UNWIND_GO_FRAME},
		/* a rule of .eh_frame is preferred */
		{0x680, SP(8)},
		{0x6a0, UNWIND_GO_FRAME},
		{0x700, UNWIND_NONE},
	};
	size_t n = sizeof(expected) / sizeof(expected[0]);

	assert_int_equal(build(draft, 0, &table), 0);
	assert_int_equal(table->skipped, 0);
	assert_int_equal(unwind_table__find(table, CODE), SP(8));
	assert_int_equal(unwind_table__find(table, CODE + 0x1f), SP(8));
	assert_int_equal(unwind_table__find(table, CODE + 0x20), UNWIND_NONE);
	assert_int_equal(unwind_table__find(table, TEXT - 1), UNWIND_NONE);
	for (size_t i = 0; i < n; i++) {
		uint64_t last = i + 1 < n ? expected[i + 1].off - 1 : 0x800;

		assert_int_equal(unwind_table__find(table, TEXT + expected[i].off),
				 expected[i].rule);
		assert_int_equal(unwind_table__find(table, TEXT + last), expected[i].rule);
	}
}

static void versions(void **state)
{
	static struct draft draft;

	(void)state;
	for (int pie = 0; pie < 2; pie++) {
		draft.is_pie = pie;
		make(&draft, 0xfffffff0, go_119, sizeof(go_119));
		assert_rules(&draft, UNWIND_GO_SWITCH(0x30, 0x28, 0));
		make(&draft, 0xfffffff0, go_119_pie, sizeof(go_119_pie));
		assert_rules(&draft, UNWIND_GO_SWITCH(0x30, 0x28, 0));
		make(&draft, 0xfffffff1, go_123, sizeof(go_123));
		assert_rules(&draft, UNWIND_GO_SWITCH(8, 0, 1));
		make(&draft, 0xfffffff1, go_123, sizeof(go_123) - 4); /* instructions not known */
		assert_rules(&draft, UNWIND_GO_FRAME);
	}
}

/* Bytes that this process has read so far. */
static uint64_t bytes_read(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/io", "re");
	unsigned long long bytes;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "rchar: %llu", &bytes), 1);
	return bytes;
}

/* Words before the table look like headers of tables, and each has to be relocated. The relocations
 * are read only once. */
static void relocations_are_read_once(void **state)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_close_ int fd = memfd_create("go", MFD_CLOEXEC);
	static struct draft draft = {.is_pie = true};
	const uint64_t many = 24 << 20;
	uint64_t before;

	(void)state;
	make(&draft, 0xfffffff1, go_123, sizeof(go_123));
	for (size_t at = TABLE - 64; at < TABLE - 40; at += 8) {
		put(&draft, at, 0xfffffff1, 4);
		put(&draft, at + 4, 0x08010000, 4);
	}
	put(&draft, 0x100 + 3 * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size), many, 8);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, draft.bytes, FILE_LEN), FILE_LEN);
	assert_int_equal(ftruncate(fd, (off_t)(RELA + many)), 0);
	assert_int_equal(elf_image__open_code(fd, "go", &image, NULL), 0);
	before = bytes_read();
	assert_int_equal(unwind_table__build(image, 0, &table, NULL), 0);
	assert_true(bytes_read() - before < 2 * many);
	/* the table behind them was found */
	assert_int_equal(unwind_table__find(table, TEXT), UNWIND_GO_FRAME);
}

/* A file that is not Go's, or whose Go table is invalid, has only the rows of .eh_frame. Nothing is
 * guessed. */
static void not_go(void **state)
{
	struct draft draft = {0};

	(void)state;
	for (int i = 0; i < 5; i++) {
		_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;

		draft.is_pie = i == 4;
		make(&draft, i == 1 ? 0xfffffffb : 0xfffffff1, go_123, sizeof(go_123));
		if (i == 0) {
			draft.is_go = false;
			put_elf(&draft);
		} else if (i == 2) {
			put(&draft, TABLE + 8, 0xffffff, 8); /* more functions than fit */
		} else if (i == 3) {
			put(&draft, TABLE + FUNCTAB + 16, 0xffff, 4); /* not ascending */
		} else if (i == 4) {
			put(&draft, RELA + 24, TABLE + 32, 8); /* the code's address is unknown */
		}
		assert_int_equal(build(&draft, 0, &table), 0);
		assert_int_equal(table->skipped, i > 0);
		assert_int_equal(unwind_table__find(table, CODE), SP(8));
		assert_int_equal(unwind_table__find(table, TEXT), UNWIND_NONE);
		assert_int_equal(unwind_table__find(table, TEXT + 0x680), SP(8));
		assert_int_equal(table->n, 4); /* two functions, and a row after each */
	}
}

static void limits(void **state)
{
	struct unwind_table *table = NULL;
	struct draft draft = {0};

	(void)state;
	make(&draft, 0xfffffff1, go_123, sizeof(go_123));
	assert_int_equal(build(&draft, 8, &table), -E2BIG);
	assert_null(table);
}

static void anything_is_survived(void **state)
{
	static struct draft good, bad;

	(void)state;
	srand(5);
	for (int round = 0; round < 20000; round++) {
		_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;

		good.is_pie = round % 8 == 0;
		if (round < 2 || round % 8 < 2)
			make(&good, round % 3 ? 0xfffffff0 : 0xfffffff1, go_119, sizeof(go_119));
		bad = good;
		for (int i = rand() % 8; i >= 0; i--) {
			size_t pos = TABLE + (size_t)rand() % TABLE_LEN;

			bad.bytes[pos] = rand() % 3 ? rand() : rand() % 2 ? 0xff : 0;
		}
		if (build(&bad, 0, &table))
			continue;
		for (size_t i = 1; i < table->n; i++) {
			assert_true(table->rows[i - 1].pc < table->rows[i].pc);
			assert_int_not_equal(table->rows[i - 1].rule, table->rows[i].rule);
		}
		assert_int_equal(table->rows[table->n - 1].rule, UNWIND_NONE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions),
		cmocka_unit_test(relocations_are_read_once),
		cmocka_unit_test(not_go),
		cmocka_unit_test(limits),
		cmocka_unit_test(anything_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
