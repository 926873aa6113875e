// SPDX-License-Identifier: BSD-2-Clause
/* The expected rows are independent of the code under test: elfutils reads the same .eh_frame.
 * For invalid entries and for memtrace's own limits, the rows follow from the bytes written here.
 * test_cfi.c tests the programs of single functions. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <dwarf.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "eh_frame_draft.h"

/* --- real files ---------------------------------------------------------------------------------
 */

static const char *const files[] = {
	"/lib64/ld-linux-x86-64.so.2",
	"/lib/x86_64-linux-gnu/libc.so.6",
	"/proc/self/exe",
	"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
	"/usr/bin/python3.11",
	"/usr/bin/redis-server",
	"/bin/bash",
	"/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
	"/usr/bin/node",
};

/* The number of FDEs that .eh_frame_hdr lists, or 0. */
static size_t listed_fdes(int fd)
{
	uint32_t header[3] = {0};
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;

	assert_int_equal(io__pread(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	for (unsigned int i = 0; i < ehdr.e_phnum; i++) {
		io__pread(fd, &phdr, sizeof(phdr), ehdr.e_phoff + i * sizeof(phdr));
		if (phdr.p_type == PT_GNU_EH_FRAME)
			io__pread(fd, header, sizeof(header), phdr.p_offset);
	}
	return header[2];
}

static void compare_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct unwind_table *table;
	struct elf_image *image;
	struct oracle oracle;
	uint64_t start, end;
	size_t stride;
	double before;

	if (fd < 0) {
		print_message("%s: not on this machine\n", path);
		return;
	}
	image = open_image(fd);
	before = now();
	table = build(image);
	print_message("%s: %zu rows, %zu functions, %zu bad, %.3f s\n", path, table->n, table->fdes,
		      table->bad_rows, now() - before);
	check_shape(table);
	assert_true(table->n > 100);
	assert_int_equal(table->skipped, 0);
	assert_int_equal(table->fdes, listed_fdes(fd));
	assert_int_equal(elf_image__code_span(image, &start, &end), 0);
	assert_true(table->base == start);
	assert_true(table->rows[table->n - 1].pc <= end - start);

	oracle = open_oracle(fd);
	stride = table->n / 20000 + 1;
	for (size_t i = 0; i < table->n; i += stride) {
		compare_at(table, &oracle, path, table->base + table->rows[i].pc);
		compare_at(table, &oracle, path, table->base + table->rows[i].pc - 1);
	}
	for (int i = 0; i < 20000; i++)
		compare_at(table, &oracle, path, start + next_random() % (end - start));
	close_oracle(&oracle);
	unwind_table__free(table);
	elf_image__free(image);
}

static void test_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		compare_file(files[i]);
}

/* The kernel says where signal handlers return to. The table must have UNWIND_SIGNAL there. */
static void test_restorer(void **state)
{
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} action = {0};
	_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
	_cleanup_close_ int fd = -1;
	uint64_t vaddr;
	Dl_info info;

	(void)state;
	/* glibc's sigaction() adds its trampoline to every action, also to SIG_IGN. */
	assert_int_equal(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = SIG_IGN}, NULL), 0);
	assert_int_equal(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, sizeof(action.mask)), 0);
	assert_non_null(action.restorer);
	assert_true(dladdr(action.restorer, &info));
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	table = build_fd(fd);
	vaddr = (uintptr_t)action.restorer - (uintptr_t)info.dli_fbase;
	assert_int_equal(unwind_table__find(table, vaddr), UNWIND_SIGNAL);
	/* The unwinder looks up return addresses less 1. This lookup must find the rule, too. */
	assert_int_equal(unwind_table__find(table, vaddr - 1), UNWIND_SIGNAL);
	assert_int_not_equal(unwind_table__find(table, vaddr - 2), UNWIND_SIGNAL);
}

/* --- sections written by hand -------------------------------------------------------------------
 */

/* Encodings of pointers and forms of CIEs. Each describes the function at 0x10 .. 0x20. */
static void test_cies(void **state)
{
	static const struct unwind_row good[] = {{0x10, SP(8)}, {0x20, NONE}};
	static const struct {
		unsigned char head[24];
		size_t head_len;
		bool pcrel;
		size_t width;  /* of pointers */
		bool has_size; /* augmentation data in FDEs */
		size_t extra;  /* bytes of these data */
		bool sound;
	} cies[] = {
		{{1, 0, 1, 0x78, 16}, 5, false, 8, false, 0, true},
		{{3, 0, 1, 0x78, 0x90, 0}, 6, false, 8, false, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x00}, 9, false, 8, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x10}, 9, true, 8, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x03}, 9, false, 4, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x0b}, 9, false, 4, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b}, 9, true, 4, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1c}, 9, true, 8, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x04}, 9, false, 8, true, 0, true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x02}, 9, false, 2, true, 0, true},
		{{1, 'z', 'P', 'L', 'R', 0, 1, 0x78, 16, 7, 0x9b, 1, 2, 3, 4, 0x1b, 0x1b},
		 17,
		 true,
		 4,
		 true,
		 4,
		 true},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x3b}, 9, true, 4, true, 0, false}, /* datarel */
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x05}, 9, false, 8, true, 0, false},
		{{2, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b}, 9, true, 4, true, 0, false}, /* version */
		{{1, 'z', 'Q', 0, 1, 0x78, 16, 1, 0x1b}, 9, true, 4, true, 0, false},
		{{1, 'e', 'h', 0, 1, 0x78, 16, 1, 0x1b}, 9, true, 4, true, 0, false},
		{{1, 'z', 'R', 0, 1, 0x78, 15, 1, 0x1b}, 9, true, 4, true, 0, false}, /* RA */
		{{1, 'z', 'R', 'Q', 0, 1, 0x78, 16, 1, 0x1b}, 10, true, 4, true, 0, false},
		{{1, 'z', 'P', 'R', 0, 1, 0x78, 16, 10, 0x50, 1, 2, 3, 4, 5, 6, 7, 8, 0x1b},
		 19,
		 true,
		 4,
		 true,
		 0,
		 false}, /* aligned */
		/* an invalid program, one that advances, too long augmentation data */
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x3e}, 10, true, 4, true, 0, false},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, ADVANCE(1)}, 10, true, 4, true, 0, false},
		{{1, 'z', 'R', 0, 1, 0x78, 16, 0x7f, 0x1b}, 9, true, 4, true, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cies) / sizeof(*cies); i++) {
		_cleanup_(unwind_table__cleanup) struct unwind_table *table = NULL;
		struct draft draft = {0};
		int ret;

		put_cie(&draft, cies[i].head, cies[i].head_len, BYTES(USUAL));
		open_fde(&draft);
		put_number(&draft, CODE + 0x10 - (cies[i].pcrel ? FRAMES + draft.n : 0),
			   cies[i].width);
		put_number(&draft, 0x10, cies[i].width);
		if (cies[i].has_size)
			put_number(&draft, cies[i].extra, 1);
		put_number(&draft, 0, cies[i].extra);
		close_entry(&draft);
		ret = build_draft(&draft, 0, &table, cies[i].sound);
		if (cies[i].sound) {
			assert_int_equal(ret, 0);
			assert_rows("CIE", table, good, 2);
			assert_int_equal(table->skipped, 0);
		} else if (ret != -ENOEXEC) {
			fail_msg("CIE %zu was taken", i);
		}
	}
}

static void put_set_loc_fde(struct draft *draft, uint32_t pc, uint64_t vaddr)
{
	open_fde(draft);
	put_number(draft, (uint32_t)(CODE + pc - (FRAMES + draft->n)), 4);
	put_number(draft, 0x40, 5);
	put_number(draft, DW_CFA_set_loc, 1);
	put_number(draft, (uint32_t)(vaddr - (FRAMES + draft->n)), 4);
	put(draft, BYTES(DW_CFA_def_cfa_offset, 16));
	close_entry(draft);
}

/* Order, overlaps, gaps and ends of entries. */
static void test_layout(void **state)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *sorted = NULL, *cut = NULL,
							     *moved = NULL;
	struct draft draft = {0};

	(void)state;
	put_usual_cie(&draft);
	put_fde(&draft, 0x40, 0x10, BYTES(DW_CFA_def_cfa_offset, 16));
	put_fde(&draft, 0x10, 0x10, BYTES(ADVANCE(8), DW_CFA_def_cfa_offset, 16));
	/* begins with the rule at the end of the previous function */
	put_fde(&draft, 0x20, 0x10, BYTES(DW_CFA_def_cfa_offset, 16));
	put_fde(&draft, 0x38, 0x08, NULL, 0);
	put_number(&draft, 0, 4); /* a terminator in the middle */
	put_fde(&draft, 0x60, 0x10, NULL, 0);
	put_fde(&draft, 0x70, 0, BYTES(DW_CFA_def_cfa_offset, 16));
	put_number(&draft, 0, 4);
	assert_int_equal(build_draft(&draft, 0, &sorted, false), 0);
	assert_rows("sorted", sorted,
		    ROWS({0x10, SP(8)}, {0x18, SP(16)}, {0x30, NONE}, {0x38, SP(8)}, {0x40, SP(16)},
			 {0x50, NONE}, {0x60, SP(8)}, {0x70, NONE}));
	assert_int_equal(sorted->fdes, 5);
	assert_int_equal(sorted->skipped, 0);
	assert_int_equal(unwind_table__find(sorted, 0), NONE);
	assert_int_equal(unwind_table__find(sorted, CODE + 0xf), NONE);
	assert_int_equal(unwind_table__find(sorted, CODE + 0x10), SP(8));
	assert_int_equal(unwind_table__find(sorted, CODE + 0x2f), SP(16));
	assert_int_equal(unwind_table__find(sorted, CODE + 0x30), NONE);
	assert_int_equal(unwind_table__find(sorted, CODE + 0x6f), SP(8));
	assert_int_equal(unwind_table__find(sorted, CODE + 0x70), NONE);
	assert_int_equal(unwind_table__find(sorted, UINT64_MAX), NONE);
	assert_int_equal(unwind_table__find(sorted, CODE + (1ull << 32) + 0x10), NONE);

	draft = (struct draft){0};
	put_usual_cie(&draft);
	put_fde(&draft, 0x10, 0x20, NULL, 0);
	put_fde(&draft, 0x18, 0x08, BYTES(DW_CFA_def_cfa_offset, 16)); /* wholly inside: left out */
	put_fde(&draft, 0x20, 0x20,
		BYTES(DW_CFA_def_cfa_offset, 24, ADVANCE(8), DW_CFA_def_cfa_offset, 32, ADVANCE(16),
		      DW_CFA_def_cfa_offset, 40));
	put_fde(&draft, 0x3f, 0x11, BYTES(0x3e)); /* overlaps, and has an invalid program */
	put_fde(&draft, 0xff8, 0x08, NULL, 0);
	put_fde(&draft, 0xff8, 0x09, NULL, 0);	    /* beyond the segment */
	put_fde(&draft, -CODE, 0x10, NULL, 0);	    /* at 0: discarded by the linker */
	put_fde(&draft, 0x80, 0xffffffff, NULL, 0); /* a negative length */
	open_entry(&draft);			    /* its CIE is before the section */
	put_number(&draft, 0x7fffffff, 4);
	put_number(&draft, 0, 8);
	close_entry(&draft);
	put_number(&draft, 2, 4); /* shorter than its id */
	put_number(&draft, 0, 2);
	put_number(&draft, 0xffffffff, 4);
	put_number(&draft, 0, 8);
	assert_int_equal(build_draft(&draft, 0, &cut, false), 0);
	assert_rows("cut", cut,
		    ROWS({0x10, SP(8)}, {0x30, SP(32)}, {0x38, SP(40)}, {0x40, BAD}, {0x50, NONE},
			 {0xff8, SP(8)}, {0x1000, NONE}));
	assert_int_equal(cut->fdes, 4);
	assert_int_equal(cut->skipped, 8);

	draft = (struct draft){0};
	put_usual_cie(&draft);
	put_set_loc_fde(&draft, 0x10, CODE + 0x18);
	put_set_loc_fde(&draft, 0x50, CODE + 0x4f);
	put_set_loc_fde(&draft, 0x90, CODE - 1);
	put_set_loc_fde(&draft, 0xd0, CODE + 0x110);
	assert_int_equal(build_draft(&draft, 0, &moved, false), 0);
	assert_rows("moved", moved,
		    ROWS({0x10, SP(8)}, {0x18, SP(16)}, {0x50, BAD}, {0xd0, SP(8)}, {0x110, NONE}));
}

static void put_functions(struct draft *draft, size_t n)
{
	put_usual_cie(draft);
	for (size_t i = 0; i < n; i++)
		put_fde(draft, 2 * i, 1, NULL, 0);
}

static void test_limits(void **state)
{
	struct unwind_table *table = NULL;
	struct elf_image *image;
	struct draft draft = {0};
	struct error err = {0};
	Elf64_Phdr phdr;
	int fd;

	(void)state;
	put_functions(&draft, 3);
	assert_int_equal(build_draft(&draft, 5, &table, false), -E2BIG);
	draft = (struct draft){0};
	put_functions(&draft, 3);
	assert_int_equal(build_draft(&draft, 6, &table, false), 0);
	assert_int_equal(table->n, 6);
	unwind_table__free(table);

	/* With only a terminator, the table is empty, and there is no error. */
	draft = (struct draft){0};
	put_number(&draft, 0, 4);
	assert_int_equal(build_draft(&draft, 0, &table, false), 0);
	assert_int_equal(table->n, 0);
	assert_int_equal(unwind_table__find(table, CODE), NONE);
	unwind_table__free(table);

	draft = (struct draft){0};
	for (int i = 0; i < 512; i++)
		put_number(&draft, next_random() | 0x80000000, 8);
	fd = make_file(&draft);
	image = open_image(fd);
	assert_int_equal(unwind_table__build(image, 0, &table, &err), -ENOEXEC);
	assert_non_null(strstr(err.text, ".eh_frame"));
	elf_image__free(image);

	/* There is no .eh_frame, because the section gets another name. */
	assert_int_equal(pwrite(fd, "x", 1, SHSTRTAB + 2), 1);
	image = open_image(fd);
	table = build(image);
	assert_int_equal(table->n, 0);
	unwind_table__free(table);
	elf_image__free(image);
	assert_int_equal(pwrite(fd, "e", 1, SHSTRTAB + 2), 1);

	/* The second segment becomes executable and far away. */
	assert_int_equal(pread(fd, &phdr, sizeof(phdr), 0x40 + sizeof(phdr)), sizeof(phdr));
	phdr.p_flags = PF_R | PF_X;
	phdr.p_vaddr = CODE + (1ull << 32);
	assert_int_equal(pwrite(fd, &phdr, sizeof(phdr), 0x40 + sizeof(phdr)), sizeof(phdr));
	image = open_image(fd);
	assert_int_equal(unwind_table__build(image, 0, &table, NULL), -ERANGE);
	elf_image__free(image);
	close(fd);
	free(draft.bytes);
}

/* A file without section headers gives the same table, through PT_GNU_EH_FRAME. */
static void test_without_sections(void **state)
{
	_cleanup_(unwind_table__cleanup) struct unwind_table *with = NULL, *without = NULL;
	_cleanup_close_ int fd = copy_file(libc_path);
	Elf64_Ehdr ehdr;

	(void)state;
	with = build_fd(fd);
	assert_int_equal(pread(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	ehdr.e_shoff = 0;
	ehdr.e_shnum = 0;
	ehdr.e_shstrndx = 0;
	assert_int_equal(pwrite(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	without = build_fd(fd);
	assert_int_equal(with->n, without->n);
	assert_int_equal(with->fdes, without->fdes);
	assert_int_equal(without->skipped, 0);
	assert_memory_equal(with->rows, without->rows, with->n * sizeof(*with->rows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cies),	 cmocka_unit_test(test_layout),
		cmocka_unit_test(test_limits),	 cmocka_unit_test(test_without_sections),
		cmocka_unit_test(test_restorer), cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
