// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/image.h"

static struct elf_image *open_image(int fd)
{
	struct elf_image *image = NULL;
	struct error err = {0};

	if (elf_image__open(fd, "test", &image, &err) != 0)
		fail_msg("%s", err.text);
	return image;
}

static struct elf_image *open_path(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return open_image(fd);
}

static void assert_refused(int fd, const char *why)
{
	struct elf_image *image = NULL;
	struct error err = {0};

	assert_int_equal(elf_image__open(fd, "test", &image, &err), -ENOEXEC);
	assert_null(image);
	assert_int_equal(err.code, -ENOEXEC);
	assert_non_null(strstr(err.text, why));
}

/* A loaded object of this process. */
struct loaded {
	const char *suffix; /* of its path; "" is the program itself */
	char path[4096];
	uintptr_t base;
	char build_id[129];
};

static int match_object(struct dl_phdr_info *info, size_t size, void *ctx)
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

static struct loaded find_loaded(const char *suffix)
{
	struct loaded loaded = {.suffix = suffix};

	assert_int_equal(dl_iterate_phdr(match_object, &loaded), 1);
	return loaded;
}

static int count_functions(const struct elf_symbol *symbol, void *ctx)
{
	assert_true(symbol->name[0] != '\0');
	assert_null(strchr(symbol->name, '@'));
	(*(size_t *)ctx)++;
	return 0;
}

static int stop_at_third(const struct elf_symbol *symbol, void *ctx)
{
	(void)symbol;
	return ++*(size_t *)ctx == 3 ? 42 : 0;
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
	assert_true(elf_image__is_dynamic(image));
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
		assert_memory_equal(code, (void *)(libc.base + symbol.vaddr), sizeof(code));
		assert_int_equal(elf_image__vaddr_to_off(image, symbol.vaddr, &off), 0);
		assert_int_equal(elf_image__off_to_vaddr(image, off, &vaddr), 0);
		assert_int_equal(vaddr, symbol.vaddr);
	}
	assert_int_equal(elf_image__find_function(image, "no such function", &symbol), -ENOENT);
	assert_int_equal(elf_image__find_function(image, "", &symbol), -ENOENT);
	assert_int_equal(elf_image__find_function(image, "environ", &symbol), -ENOENT);

	/* Two versions at two places: the default one. */
	if (dlvsym(handle, "pthread_cond_signal", "GLIBC_2.2.5")) {
		void *now = dlvsym(handle, "pthread_cond_signal", "GLIBC_2.3.2");

		assert_ptr_not_equal(now, dlvsym(handle, "pthread_cond_signal", "GLIBC_2.2.5"));
		assert_int_equal(elf_image__find_function(image, "pthread_cond_signal", &symbol),
				 0);
		assert_ptr_equal((void *)(libc.base + symbol.vaddr), now);
	}
	/* Only a hidden version. */
	if (dlvsym(handle, "cfree", "GLIBC_2.2.5"))
		assert_int_equal(elf_image__find_function(image, "cfree", &symbol), 0);
	dlclose(handle);
	elf_image__free(image);
}

/* Writes an ELF file with nothing but such program headers and so many bytes. */
static void write_loads(const char *path, const Elf64_Phdr *phdrs, size_t n, size_t size)
{
	Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
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

/* LLD's segments share pages of the file: a mapping of code begins with bytes of the segment before. */
static void test_mappings_of_shared_pages(void **state)
{
	const Elf64_Phdr phdrs[] = {
		{.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x6ac, .p_memsz = 0x6ac, .p_align = 4096},
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = 0x6b0, .p_vaddr = 0x16b0, .p_filesz = 0x4000,
		 .p_memsz = 0x4000, .p_align = 4096},
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_offset = 0x46b0, .p_vaddr = 0x66b0, .p_filesz = 0x100,
		 .p_memsz = 0x100, .p_align = 4096},
		/* code that shares its first page with other code */
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = 0x47b0, .p_vaddr = 0x87b0, .p_filesz = 0x2000,
		 .p_memsz = 0x2000, .p_align = 4096},
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
	assert_int_equal(elf_image__mapping_to_vaddr(image, 0x2000, &vaddr), 0); /* a mapping that was split */
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
	/* The ELF header is in a segment, but no code. */
	assert_int_equal(elf_image__vaddr_to_off(image, 0, &number), 0);
	assert_int_equal(elf_image__read_code(image, 0, code, sizeof(code)), -ERANGE);
	assert_int_equal(elf_image__read_code(image, UINT64_MAX, code, sizeof(code)), -ERANGE);
	elf_image__free(image);
}

static void *volatile returned_to[4];
static volatile size_t n_calls;

static __attribute__((noinline)) void callee(void)
{
	returned_to[n_calls++ % 4] = __builtin_return_address(0);
	__asm__ volatile("");
}

static __attribute__((noinline)) void caller(void)
{
	callee();
	__asm__ volatile("");
	callee();
	__asm__ volatile("");
}

static void test_own_program(void **state)
{
	struct loaded self = find_loaded("");
	struct elf_image *image = open_path(self.path);
	uint64_t vaddrs[64];
	struct elf_symbol symbol;
	unsigned int matched = 0;
	size_t n;

	(void)state;
	assert_true(elf_image__is_dynamic(image));
	assert_true(elf_image__has_interp(image));
	assert_null(elf_image__soname(image));
	assert_int_equal(elf_image__find_function(image, "callee", &symbol), 0);
	assert_false(symbol.dynamic);
	assert_int_equal(symbol.bind, STB_LOCAL);
	assert_int_equal(symbol.type, STT_FUNC);
	assert_ptr_equal((void *)(self.base + symbol.vaddr), (void *)callee);

	caller();
	assert_int_equal(n_calls, 2);
	n = elf_image__direct_callers(image, symbol.vaddr, vaddrs, 64);
	assert_true(n >= 2 && n <= 64);
	for (size_t i = 0; i < n; i++) {
		for (size_t call = 0; call < 2; call++)
			matched += self.base + vaddrs[i] == (uintptr_t)returned_to[call];
	}
	assert_int_equal(matched, 2);
	/* Room for fewer than there are. */
	vaddrs[1] = 0x5555;
	assert_int_equal(elf_image__direct_callers(image, symbol.vaddr, vaddrs, 1), n);
	assert_int_equal(vaddrs[1], 0x5555);
	assert_int_equal(elf_image__direct_callers(image, symbol.vaddr, NULL, 0), n);
	elf_image__free(image);
}

/* A file made by hand: one executable segment over all of it, .symtab and .strtab. */
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

static Elf64_Sym make_symbol(uint32_t name, uint64_t value, int bind, int type, uint16_t section)
{
	return (Elf64_Sym){
		.st_name = name,
		.st_info = ELF64_ST_INFO(bind, type),
		.st_shndx = section,
		.st_value = value,
		.st_size = 16,
	};
}

static struct crafted craft(void)
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

static int store(const void *data, size_t len)
{
	int fd = memfd_create("image", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, len, 0), len);
	return fd;
}

static struct elf_image *open_crafted(const struct crafted *file)
{
	_cleanup_close_ int fd = store(file, sizeof(*file));

	return open_image(fd);
}

static void test_versions_and_ranks(void **state)
{
	struct crafted file = craft();
	struct elf_image *image = open_crafted(&file);
	struct elf_symbol symbol;
	size_t n = 0;

	(void)state;
	assert_false(elf_image__is_dynamic(image));
	assert_null(elf_image__build_id(image));
	assert_int_equal(elf_image__each_function(image, count_functions, &n), 0);
	assert_int_equal(n, 5);
	/* The default version, although only local, before the hidden one. */
	assert_int_equal(elf_image__find_function(image, "dup", &symbol), 0);
	assert_string_equal(symbol.name, "dup");
	assert_int_equal(symbol.vaddr, 0x200);
	/* Weak before local. */
	assert_int_equal(elf_image__find_function(image, "weak", &symbol), 0);
	assert_int_equal(symbol.vaddr, 0x310);
	assert_int_equal(symbol.type, STT_GNU_IFUNC);
	assert_int_equal(elf_image__find_function(image, "only", &symbol), 0);
	assert_int_equal(symbol.vaddr, 0x400);
	assert_int_equal(symbol.size, 16);
	assert_int_equal(elf_image__find_function(image, "undefined", &symbol), -ENOENT);
	assert_int_equal(elf_image__find_function(image, "absolute", &symbol), -ENOENT);
	assert_int_equal(elf_image__find_function(image, "data", &symbol), -ENOENT);
	elf_image__free(image);
}

static size_t functions_of(const struct crafted *file)
{
	struct elf_image *image = open_crafted(file);
	size_t n = 0;

	elf_image__each_function(image, count_functions, &n);
	elf_image__free(image);
	return n;
}

static void test_lying_tables(void **state)
{
	struct crafted file;

	(void)state;
	file = craft();
	file.sections[1].sh_size = 1ull << 62;
	assert_int_equal(functions_of(&file), 0);

	file = craft();
	file.sections[1].sh_offset = UINT64_MAX - 8;
	assert_int_equal(functions_of(&file), 0);

	file = craft();
	file.sections[1].sh_entsize = 1;
	assert_int_equal(functions_of(&file), 0);

	file = craft();
	file.sections[1].sh_link = 99;
	assert_int_equal(functions_of(&file), 0);
	file.sections[1].sh_link = 1;
	assert_int_equal(functions_of(&file), 0);

	/* A table cut inside a symbol: the whole ones. */
	file = craft();
	file.sections[1].sh_size = 3 * sizeof(Elf64_Sym) - 1;
	assert_int_equal(functions_of(&file), 1);

	/* No NUL at the end of the names: those before the last NUL are left. */
	file = craft();
	file.sections[2].sh_size = WEAK + 2;
	assert_int_equal(functions_of(&file), 2);
	file.sections[2].sh_size = 1;
	assert_int_equal(functions_of(&file), 0);
	file.sections[2].sh_size = 0;
	assert_int_equal(functions_of(&file), 0);
	file = craft();
	memset(file.strings, 'x', sizeof(file.strings));
	assert_int_equal(functions_of(&file), 0);
	memset(file.strings, '@', sizeof(file.strings));
	assert_int_equal(functions_of(&file), 0);

	/* Names that are nothing but a version. */
	file = craft();
	memset(file.strings, '@', sizeof(file.strings) - 1);
	assert_int_equal(functions_of(&file), 0);

	/* No section headers at all. */
	file = craft();
	file.ehdr.e_shoff = 0;
	file.ehdr.e_shnum = 0;
	assert_int_equal(functions_of(&file), 0);
	file = craft();
	file.ehdr.e_shoff = 1ull << 40;
	assert_int_equal(functions_of(&file), 0);
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

	/* 2^31 sections, by way of the first one's size: gigabytes, were libelf to believe it. */
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

/* A segment that claims more than the file has ends where the file does. */
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

/* Calls across the borders of the chunks that are scanned, and at the segment's very end. */
static void test_direct_callers_everywhere(void **state)
{
	enum { SIZE = 1 << 20 };
	static const uint32_t calls[] = {0x1000,  0x3fff7, 0x3fffe, 0x40003,
					 0x7ffff, 0x80004, 0xbfffd, SIZE - 5};
	const size_t n = sizeof(calls) / sizeof(*calls);
	_cleanup_free_ unsigned char *data = calloc(1, SIZE);
	_cleanup_close_ int fd = -1;
	struct crafted file = craft();
	struct elf_image *image;
	uint64_t found[16];

	(void)state;
	file.phdr.p_filesz = SIZE;
	memcpy(data, &file, sizeof(file));
	for (size_t i = 0; i < n; i++) {
		int32_t rel = 0x800 - (int32_t)(calls[i] + 5);

		data[calls[i]] = 0xe8;
		memcpy(data + calls[i] + 1, &rel, sizeof(rel));
	}
	data[0x2000] = 0xe9; /* a jump there is no call */
	memcpy(data + 0x2001, &(int32_t){0x800 - 0x2005}, 4);
	data[0x3000] = 0xe8; /* a call of something else */
	fd = store(data, SIZE);
	image = open_image(fd);
	assert_int_equal(elf_image__direct_callers(image, VADDR + 0x800, found, 16), n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(found[i], VADDR + calls[i] + 5);
	elf_image__free(image);
}

/* Everything that the room can do with an image, for the sanitizers to watch. */
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

	ret = elf_image__open(fd, "test", &image, &err);
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

/* A copy of libc in memory; the smallest of the real libraries with everything in it. */
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
	/* The headers byte by byte. */
	assert_int_equal(pwrite(fd, data, 4096, 0), 4096);
	for (int len = 1200; len >= 0; len--) {
		assert_int_equal(ftruncate(fd, len), 0);
		exercise(fd, true);
	}
	assert_seconds_since(&start, 60);
}

/* Cut short between opening and reading: short reads, no SIGBUS. */
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

/* Flips bytes where they hurt: the headers, the section headers, the tables that they point to. */
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
	assert_true(opened > MUTATIONS / 10); /* else nothing much was tested */
	assert_true(exercise(fd, true));
	assert_seconds_since(&start, 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libc),
		cmocka_unit_test(test_mappings_of_shared_pages),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_own_program),
		cmocka_unit_test(test_versions_and_ranks),
		cmocka_unit_test(test_lying_tables),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_segment_beyond_file),
		cmocka_unit_test(test_direct_callers_everywhere),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_truncated_after_open),
		cmocka_unit_test(test_mutated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
