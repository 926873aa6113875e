// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image_fixture.h"

#define INT3 0xcc /* a breakpoint */

static int stop_at_third(const struct elf_symbol *symbol, void *ctx)
{
	(void)symbol;
	return ++*(size_t *)ctx == 3 ? 42 : 0;
}

/* Does memory hold this code? Other tracers may have breakpoints in it. */
static bool is_loaded_at(uintptr_t addr, const unsigned char *code, size_t n)
{
	const unsigned char *memory = (const unsigned char *)addr;
	size_t same = 0;

	for (size_t i = 0; i < n; i++) {
		if (memory[i] != code[i] && memory[i] != INT3)
			return false;
		same += memory[i] == code[i];
	}
	return same > n / 2;
}

static void test_libc(void **state)
{
	static const char *const names[] = {"malloc", "free", "calloc", "posix_memalign", "qsort"};
	struct loaded libc = find_loaded("/libc.so.6");
	struct elf_image *image = open_path(libc.path);
	void *handle = dlopen(libc.path, RTLD_NOLOAD | RTLD_NOW);
	size_t n = 0, third = 0;
	struct elf_symbol symbol;

	(void)state;
	assert_non_null(handle);
	assert_string_equal(elf_image__soname(image), "libc.so.6");
	assert_string_equal(elf_image__build_id(image), libc.build_id);
	assert_int_equal(elf_image__each_function(image, count_functions, &n), 0);
	assert_true(n > 1000);
	assert_int_equal(elf_image__each_function(image, stop_at_third, &third), 42);

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		unsigned char code[64];
		uint64_t off, vaddr;

		assert_int_equal(elf_image__find_function(image, names[i], &symbol), 0);
		assert_string_equal(symbol.name, names[i]);
		assert_true(symbol.dynamic);
		assert_true(symbol.size > 0);
		assert_ptr_equal((void *)(libc.base + symbol.vaddr), dlsym(handle, names[i]));
		assert_int_equal(elf_image__read_code(image, symbol.vaddr, code, sizeof(code)),
				 sizeof(code));
		assert_true(is_loaded_at(libc.base + symbol.vaddr, code, sizeof(code)));
		assert_int_equal(elf_image__vaddr_to_off(image, symbol.vaddr, &off), 0);
		assert_int_equal(elf_image__off_to_vaddr(image, off, &vaddr), 0);
		assert_int_equal(vaddr, symbol.vaddr);
	}
	assert_int_equal(elf_image__find_function(image, "no such function", &symbol), -ENOENT);
	assert_int_equal(elf_image__find_function(image, "", &symbol), -ENOENT);
	assert_int_equal(elf_image__find_function(image, "environ", &symbol), -ENOENT);

	/* Of two versions at two addresses, the default one is found. */
	if (dlvsym(handle, "pthread_cond_signal", "GLIBC_2.2.5")) {
		void *now = dlvsym(handle, "pthread_cond_signal", "GLIBC_2.3.2");

		assert_ptr_not_equal(now, dlvsym(handle, "pthread_cond_signal", "GLIBC_2.2.5"));
		assert_int_equal(elf_image__find_function(image, "pthread_cond_signal", &symbol),
				 0);
		assert_ptr_equal((void *)(libc.base + symbol.vaddr), now);
	}
	/* A function with only a hidden version is found, too. */
	if (dlvsym(handle, "cfree", "GLIBC_2.2.5"))
		assert_int_equal(elf_image__find_function(image, "cfree", &symbol), 0);
	dlclose(handle);
	elf_image__free(image);
}

/* Writes an ELF file of size bytes that has only these n program headers. */
static void write_loads(const char *path, const Elf64_Phdr *phdrs, size_t n, size_t size)
{
	Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_phentsize = sizeof(*phdrs),
		.e_phnum = (Elf64_Half)n,
	};
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(&header, sizeof(header), 1, file), 1);
	assert_int_equal(fwrite(phdrs, sizeof(*phdrs), n, file), n);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(truncate(path, (off_t)size), 0);
}

/* LLD's segments share pages of the file: a mapping of code begins with bytes of the previous
 * segment. */
static void test_mappings_of_shared_pages(void **state)
{
	const Elf64_Phdr phdrs[] = {
		{.p_type = PT_LOAD,
		 .p_flags = PF_R,
		 .p_filesz = 0x6ac,
		 .p_memsz = 0x6ac,
		 .p_align = 4096},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_X,
		 .p_offset = 0x6b0,
		 .p_vaddr = 0x16b0,
		 .p_filesz = 0x4000,
		 .p_memsz = 0x4000,
		 .p_align = 4096},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_W,
		 .p_offset = 0x46b0,
		 .p_vaddr = 0x66b0,
		 .p_filesz = 0x100,
		 .p_memsz = 0x100,
		 .p_align = 4096},
		/* code that shares its first page with other code */
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_X,
		 .p_offset = 0x47b0,
		 .p_vaddr = 0x87b0,
		 .p_filesz = 0x2000,
		 .p_memsz = 0x2000,
		 .p_align = 4096},
	};
	char path[] = "/tmp/memtrace-image-XXXXXX";
	struct elf_image *image;
	int fd = mkstemp(path);
	uint64_t vaddr;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	write_loads(path, phdrs, 4, 0x7000);
	image = open_path(path);
	assert_int_equal(elf_image__mapping_to_vaddr(image, 0, &vaddr), 0);
	assert_int_equal(vaddr, 0x1000);
	/* a mapping that was split */
	assert_int_equal(elf_image__mapping_to_vaddr(image, 0x2000, &vaddr), 0);
	assert_int_equal(vaddr, 0x3000);
	assert_int_equal(elf_image__mapping_to_vaddr(image, 0x4000, &vaddr), 0);
	assert_int_equal(vaddr, 0x8000);
	assert_int_equal(elf_image__mapping_to_vaddr(image, 0x6000, &vaddr), 0);
	assert_int_equal(vaddr, 0xa000);
	assert_int_equal(elf_image__mapping_to_vaddr(image, 0x7000, &vaddr), -ERANGE);
	assert_int_equal(elf_image__mapping_to_vaddr(image, ~0xfffull, &vaddr), -ERANGE);
	elf_image__free(image);
	unlink(path);
}

static void test_ranges(void **state)
{
	struct loaded libc = find_loaded("/libc.so.6");
	struct elf_image *image = open_path(libc.path);
	unsigned char code[64];
	uint64_t number;

	(void)state;
	assert_int_equal(elf_image__vaddr_to_off(image, UINT64_MAX, &number), -ERANGE);
	assert_int_equal(elf_image__off_to_vaddr(image, UINT64_MAX, &number), -ERANGE);
	assert_int_equal(elf_image__vaddr_to_off(image, 1ull << 40, &number), -ERANGE);
	/* The ELF header is in a segment that is not executable. */
	assert_int_equal(elf_image__vaddr_to_off(image, 0, &number), 0);
	assert_int_equal(elf_image__read_code(image, 0, code, sizeof(code)), -ERANGE);
	assert_int_equal(elf_image__read_code(image, UINT64_MAX, code, sizeof(code)), -ERANGE);
	elf_image__free(image);
}

static void assert_refused(int fd, const char *why)
{
	struct elf_image *image = NULL;
	struct error err = {0};

	assert_int_equal(elf_image__open(fd, "test", NULL, &image, &err), -ENOEXEC);
	assert_null(image);
	assert_int_equal(err.code, -ENOEXEC);
	assert_non_null(strstr(err.text, why));
}

static void assert_crafted_refused(const struct crafted *file, const char *why)
{
	_cleanup_close_ int fd = store(file, sizeof(*file));

	assert_refused(fd, why);
}

static void test_refused(void **state)
{
	struct crafted file;
	int pipe_fds[2], fd;

	(void)state;
	fd = store("", 0);
	assert_refused(fd, "not an ELF file");
	close(fd);
	fd = store("#!/bin/sh\n", 10);
	assert_refused(fd, "not an ELF file");
	close(fd);
	fd = store(ELFMAG, SELFMAG);
	assert_refused(fd, "cut short");
	close(fd);

	assert_int_equal(pipe(pipe_fds), 0);
	assert_refused(pipe_fds[0], "not a regular file");
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	fd = open("/", O_RDONLY | O_DIRECTORY);
	assert_refused(fd, "not a regular file");
	close(fd);

	file = craft();
	file.ehdr.e_ident[EI_CLASS] = ELFCLASS32;
	assert_crafted_refused(&file, "not a 64-bit");
	file = craft();
	file.ehdr.e_ident[EI_DATA] = ELFDATA2MSB;
	assert_crafted_refused(&file, "not a 64-bit");
	file = craft();
	file.ehdr.e_machine = EM_AARCH64;
	assert_crafted_refused(&file, "x86-64");
	file = craft();
	file.ehdr.e_type = ET_REL;
	assert_crafted_refused(&file, "type 1");
	file = craft();
	file.ehdr.e_type = ET_CORE;
	assert_crafted_refused(&file, "type 4");

	/* The size of section 0 claims 2^31 sections. A reader that believes this would need
	 * gigabytes. */
	file = craft();
	file.ehdr.e_shnum = 0;
	file.sections[0].sh_size = 1u << 31;
	assert_crafted_refused(&file, "sections");

	file = craft();
	file.ehdr.e_phnum = 0;
	assert_crafted_refused(&file, "program headers");
	file = craft();
	file.phdr.p_offset = 1ull << 50;
	assert_crafted_refused(&file, "program headers");
	file = craft();
	file.phdr.p_vaddr = UINT64_MAX - 10;
	assert_crafted_refused(&file, "program headers");
}

/* If a segment claims more bytes than the file has, it ends where the file ends. */
static void test_segment_beyond_file(void **state)
{
	struct crafted file = craft();
	struct elf_image *image;
	unsigned char buf[64];
	uint64_t number;

	(void)state;
	file.phdr.p_filesz = 1ull << 60;
	image = open_crafted(&file);
	assert_int_equal(elf_image__read_code(image, VADDR, buf, sizeof(buf)), sizeof(buf));
	assert_memory_equal(buf, &file, sizeof(buf));
	assert_int_equal(elf_image__read_code(image, VADDR + sizeof(file) - 3, buf, sizeof(buf)),
			 3);
	assert_int_equal(elf_image__read_code(image, VADDR + sizeof(file), buf, sizeof(buf)),
			 -ERANGE);
	assert_int_equal(elf_image__vaddr_to_off(image, VADDR + sizeof(file), &number), -ERANGE);
	assert_int_equal(elf_image__direct_callers(image, 0, NULL, 0), 0);
	elf_image__free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libc),
		cmocka_unit_test(test_mappings_of_shared_pages),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_segment_beyond_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
