// SPDX-License-Identifier: BSD-2-Clause
/* Reads copies of libc that are cut short or changed, while the sanitizers watch. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image_fixture.h"

/* touch() and exercise() use an image as its readers do, while the sanitizers watch. */
static int touch(const struct elf_symbol *symbol, void *ctx)
{
	const struct elf_image *image = ctx;
	unsigned char code[32];
	uint64_t off;

	assert_true(strlen(symbol->name) > 0);
	elf_image__read_code(image, symbol->vaddr, code, sizeof(code));
	elf_image__vaddr_to_off(image, symbol->vaddr, &off);
	return 0;
}

static bool exercise(int fd, bool scan)
{
	struct elf_image *image = NULL;
	struct elf_symbol symbol;
	struct error err = {0};
	uint64_t vaddrs[4];
	int ret;

	ret = elf_image__open(fd, "test", NULL, &image, &err);
	if (ret) {
		assert_true(ret == -ENOEXEC);
		assert_true(err.text[0] != '\0');
		return false;
	}
	elf_image__each_function(image, touch, image);
	if (elf_image__soname(image))
		assert_true(strlen(elf_image__soname(image)) < 256);
	if (elf_image__build_id(image))
		assert_true(strlen(elf_image__build_id(image)) <= 128);
	if (elf_image__find_function(image, "malloc", &symbol) == 0 && scan)
		elf_image__direct_callers(image, symbol.vaddr, vaddrs, 4);
	elf_image__free(image);
	return true;
}

/* Copies libc into memory. It is the smallest real library that has all kinds of sections. */
static unsigned char *load_libc(size_t *ret_size)
{
	struct loaded libc = find_loaded("/libc.so.6");
	_cleanup_close_ int fd = open(libc.path, O_RDONLY | O_CLOEXEC);
	unsigned char *data;
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	data = malloc(st.st_size);
	assert_non_null(data);
	assert_int_equal(pread(fd, data, st.st_size, 0), st.st_size);
	*ret_size = st.st_size;
	return data;
}

static void assert_seconds_since(const struct timespec *start, time_t most)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	assert_true(now.tv_sec - start->tv_sec <= most);
}

static void test_truncated(void **state)
{
	_cleanup_free_ unsigned char *data = NULL;
	_cleanup_close_ int fd = -1;
	struct timespec start;
	size_t size;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &start);
	data = load_libc(&size);
	fd = store(data, size);
	assert_true(exercise(fd, true));
	for (size_t len = size - size % 997; len > 0; len -= 997) {
		assert_int_equal(ftruncate(fd, len), 0);
		exercise(fd, len % (997 * 64) == 0);
	}
	/* Cut the headers byte by byte. */
	assert_int_equal(pwrite(fd, data, 4096, 0), 4096);
	for (int len = 1200; len >= 0; len--) {
		assert_int_equal(ftruncate(fd, len), 0);
		exercise(fd, true);
	}
	assert_seconds_since(&start, 60);
}

/* The file is cut short after it was opened. Then reads are short, and there is no SIGBUS. */
static void test_truncated_after_open(void **state)
{
	_cleanup_free_ unsigned char *data = NULL;
	_cleanup_close_ int fd = -1;
	struct elf_image *image;
	struct elf_symbol symbol;
	unsigned char code[64];
	size_t size, n = 0;

	(void)state;
	data = load_libc(&size);
	fd = store(data, size);
	image = open_image(fd);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(elf_image__find_function(image, "malloc", &symbol), 0);
	assert_int_equal(elf_image__read_code(image, symbol.vaddr, code, sizeof(code)), 0);
	assert_int_equal(elf_image__direct_callers(image, symbol.vaddr, NULL, 0), 0);
	assert_int_equal(elf_image__each_function(image, count_functions, &n), 0);
	assert_true(n > 1000);
	elf_image__free(image);
}

/* Changes bytes of the headers, the section headers, and the tables to which the headers point. */
static void test_mutated(void **state)
{
	enum { MUTATIONS = 2000, MAX_REGIONS = 128 };
	struct {
		uint64_t off, size;
	} regions[MAX_REGIONS];
	_cleanup_free_ unsigned char *data = NULL;
	_cleanup_close_ int fd = -1;
	size_t size, n = 0, opened = 0;
	struct timespec start;
	Elf64_Ehdr ehdr;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &start);
	data = load_libc(&size);
	fd = store(data, size);
	memcpy(&ehdr, data, sizeof(ehdr));
	regions[n].off = 0;
	regions[n++].size = sizeof(ehdr);
	regions[n].off = ehdr.e_phoff;
	regions[n++].size = ehdr.e_phnum * sizeof(Elf64_Phdr);
	regions[n].off = ehdr.e_shoff;
	regions[n++].size = ehdr.e_shnum * sizeof(Elf64_Shdr);
	for (unsigned int i = 0; i < ehdr.e_shnum && n < MAX_REGIONS; i++) {
		Elf64_Shdr shdr;

		memcpy(&shdr, data + ehdr.e_shoff + i * sizeof(shdr), sizeof(shdr));
		if (shdr.sh_type != SHT_NOBITS && shdr.sh_type != SHT_PROGBITS && shdr.sh_size) {
			regions[n].off = shdr.sh_offset;
			regions[n++].size = shdr.sh_size;
		}
	}
	srand(3);
	for (int round = 0; round < MUTATIONS; round++) {
		static const unsigned char extremes[] = {0, 1, 0x7f, 0x80, 0xff};
		size_t off[8], flips = 1 + rand() % 8;

		for (size_t i = 0; i < flips; i++) {
			size_t r = rand() % (rand() % 2 ? 3 : n);
			unsigned char byte;

			off[i] = regions[r].off + rand() % regions[r].size;
			byte = rand() % 2 ? extremes[rand() % sizeof(extremes)]
					  : data[off[i]] ^ (1 << rand() % 8);
			assert_int_equal(pwrite(fd, &byte, 1, off[i]), 1);
		}
		opened += exercise(fd, round % 64 == 0);
		for (size_t i = 0; i < flips; i++)
			assert_int_equal(pwrite(fd, data + off[i], 1, off[i]), 1);
	}
	assert_true(opened > MUTATIONS / 10); /* otherwise the test has tried too little */
	assert_true(exercise(fd, true));
	assert_seconds_since(&start, 60);
}

/* A thousand symbol tables of 64 MiB, all at the same place of a sparse file, and all without
 * names. */
static void test_many_symbol_tables(void **state)
{
	enum { N = 1000, SIZE = 64 << 20 };
	_cleanup_close_ int fd = memfd_create("tables", MFD_CLOEXEC);
	_cleanup_free_ Elf64_Shdr *sections = calloc(N, sizeof(*sections));
	Elf64_Ehdr file = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				       EV_CURRENT},
			   .e_type = ET_DYN,
			   .e_machine = EM_X86_64,
			   .e_version = EV_CURRENT,
			   .e_phoff = sizeof(file),
			   .e_shoff = SIZE,
			   .e_ehsize = sizeof(file),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 1,
			   .e_shentsize = sizeof(Elf64_Shdr),
			   .e_shnum = N};
	const Elf64_Phdr load = {.p_type = PT_LOAD,
				 .p_flags = PF_R | PF_X,
				 .p_filesz = SIZE,
				 .p_memsz = SIZE,
				 .p_align = 0x1000};
	struct timespec start;

	(void)state;
	assert_true(fd >= 0 && sections);
	sections[1].sh_type = SHT_STRTAB;
	for (size_t i = 2; i < N; i++)
		sections[i] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
					   .sh_size = SIZE,
					   .sh_link = 1,
					   .sh_entsize = sizeof(Elf64_Sym)};
	assert_int_equal(ftruncate(fd, SIZE), 0);
	assert_int_equal(pwrite(fd, &file, sizeof(file), 0), sizeof(file));
	assert_int_equal(pwrite(fd, &load, sizeof(load), sizeof(file)), sizeof(load));
	assert_int_equal(pwrite(fd, sections, N * sizeof(*sections), SIZE), N * sizeof(*sections));
	clock_gettime(CLOCK_MONOTONIC, &start);
	assert_true(exercise(fd, false));
	assert_seconds_since(&start, 10);
}

static long peak_kib(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_maxrss;
}

/* A symbol table of 100 MiB, with a string table of 400 MiB. All symbols are functions with a name
 * at the end of the strings. */
static void test_huge_tables(void **state)
{
	enum { N = (100 << 20) / sizeof(Elf64_Sym), STRINGS = 400 << 20, AT_ONCE = 1 << 16 };
	static const char *const names[] = {"wanted", NULL};
	const struct elf_wanted wanted = {.fn = elf_wanted__is_listed, .ctx = names};
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_free_ Elf64_Sym *symbols = calloc(AT_ONCE, sizeof(*symbols));
	_cleanup_close_ int fd = -1;
	struct crafted file = craft();
	uint64_t off = 4096, strings_off = off + N * sizeof(*symbols);
	struct elf_symbol symbol;
	struct timespec start;
	size_t n = 0;
	long before_kib;

	(void)state;
	file.sections[1].sh_offset = off;
	file.sections[1].sh_size = N * sizeof(*symbols);
	file.sections[2].sh_offset = strings_off;
	file.sections[2].sh_size = STRINGS;
	fd = store(&file, sizeof(file));
	assert_non_null(symbols);
	for (size_t i = 0; i < AT_ONCE; i++)
		symbols[i] = make_symbol(STRINGS - 7, 0x1000 + i, STB_GLOBAL, STT_FUNC, 1);
	for (size_t i = 0; i < N; i += AT_ONCE) {
		size_t bytes = (N - i < AT_ONCE ? N - i : AT_ONCE) * sizeof(*symbols);

		assert_int_equal(pwrite(fd, symbols, bytes, off + i * sizeof(*symbols)), bytes);
	}
	assert_int_equal(pwrite(fd, "wanted", 7, strings_off + STRINGS - 7), 7);
	before_kib = peak_kib();
	clock_gettime(CLOCK_MONOTONIC, &start);
	assert_int_equal(elf_image__open(fd, "huge", &wanted, &image, NULL), 0);
	assert_int_equal(elf_image__find_function(image, "wanted", &symbol), 0);
	assert_int_equal(symbol.vaddr, 0x1000);
	assert_int_equal(elf_image__each_function(image, count_functions, &n), 0);
	assert_true(n >= 1);
	assert_seconds_since(&start, 20);
	assert_true(peak_kib() - before_kib < 96 << 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_truncated),   cmocka_unit_test(test_truncated_after_open),
		cmocka_unit_test(test_mutated),	    cmocka_unit_test(test_many_symbol_tables),
		cmocka_unit_test(test_huge_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
