// SPDX-License-Identifier: BSD-2-Clause
/* The expected results come from other sources: the linker's view of this program (dladdr, dlsym,
 * addresses of functions) and binaries that gcc, as and objcopy make here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sys/stat.h>
#include <time.h>

#include "elf/debug_file.h"
#include "symbolize/symtab.h"
#include "symbolize/symtab_child.h"

#include "fixture.h"

#define PATIENCE_S 60

__attribute__((noinline)) int known_function(int x);
__attribute__((noinline)) int known_function(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

static int open_with_debug(const char *path, int *ret_debug_fd)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), root;

	assert_true(fd >= 0);
	root = open("/", O_PATH | O_CLOEXEC);
	*ret_debug_fd = debug_file__open(root, fd, path);
	close(root);
	if (*ret_debug_fd < 0)
		*ret_debug_fd = -1;
	return fd;
}

static int open_path(const char *path, struct symtab **ret_tab)
{
	int debug_fd, fd = open_with_debug(path, &debug_fd), err;

	err = symtab__open(fd, &debug_fd, SYMTAB_FUNCTIONS, PATIENCE_S, NULL, ret_tab);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC); /* the caller still owns fd */
	close(fd);
	if (debug_fd >= 0)
		assert_int_equal(close(debug_fd), 0);
	return err;
}

static struct symtab *open_fixture(const char *name)
{
	struct symtab *tab;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", fixture_dir, name);
	assert_int_equal(open_path(path, &tab), 0);
	return tab;
}

/* The value of a symbol, as nm prints it. */
static uint64_t nm(const char *file, const char *symbol)
{
	char command[1024], line[64] = "";
	FILE *pipe;

	snprintf(command, sizeof(command), "nm %s/%s | awk '$3 == \"%s\" { print $1 }'",
		 fixture_dir, file, symbol);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_non_null(fgets(line, sizeof(line), pipe));
	pclose(pipe);
	return strtoull(line, NULL, 16);
}

static void assert_found(const struct symtab *tab, uint64_t vaddr, const char *expected)
{
	const char *name = symtab__find(tab, vaddr, NULL);

	if (!expected) {
		assert_null(name);
		return;
	}
	assert_non_null(name);
	assert_string_equal(name, expected);
}

/* The name at vaddr in the table of a fixture must be the expected one (NULL: none). */
static void assert_found_in(const char *file, uint64_t vaddr, const char *expected)
{
	struct symtab *tab = open_fixture(file);

	assert_found(tab, vaddr, expected);
	symtab__free(tab);
}

static char *read_fixture(const char *name, size_t *ret_len)
{
	char path[512], *data;
	struct stat st;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", fixture_dir, name);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	data = malloc((size_t)st.st_size);
	assert_int_equal(fread(data, 1, (size_t)st.st_size, f), st.st_size);
	fclose(f);
	*ret_len = (size_t)st.st_size;
	return data;
}

/* --- this very program --- */

static void test_own_functions(void **state)
{
	struct symtab *tab;
	Dl_info info;
	uint64_t vaddr, start;

	(void)state;
	assert_int_equal(open_path("/proc/self/exe", &tab), 0);
	assert_false(symtab__empty(tab));
	assert_true(dladdr((void *)(uintptr_t)known_function, &info));
	vaddr = (uintptr_t)known_function - (uintptr_t)info.dli_fbase;
	assert_string_equal(symtab__find(tab, vaddr, &start), "known_function");
	assert_int_equal(start, vaddr);
	assert_string_equal(symtab__find(tab, vaddr + 4, &start), "known_function");
	assert_int_equal(start, vaddr);
	assert_found(tab, (uintptr_t)test_own_functions - (uintptr_t)info.dli_fbase,
		     "test_own_functions"); /* local */
	assert_null(symtab__find(tab, 0, NULL));
	assert_null(symtab__find(tab, UINT64_MAX, NULL));
	symtab__free(tab);
}

/* For libc, each name that is chosen must resolve to the same function in the dynamic linker. */
static void test_libc(void **state)
{
	static const char *const names[] = {"malloc", "free",	       "calloc", "realloc",
					    "qsort",  "printf",	       "strtol", "getenv",
					    "fopen",  "pthread_create"};
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	struct symtab *tab = NULL;
	int exported = 0;

	(void)state;
	assert_non_null(libc);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char *function = dlsym(libc, names[i]);
		uint64_t vaddr, start;
		const char *found;
		Dl_info info;
		void *again;

		assert_true(dladdr(function, &info));
		if (!tab)
			assert_int_equal(open_path(info.dli_fname, &tab), 0);
		vaddr = (uint64_t)(function - (char *)info.dli_fbase);
		found = symtab__find(tab, vaddr + 1, &start);
		assert_non_null(found);
		assert_int_equal(start, vaddr);
		again = dlsym(libc, found);
		if (again)
			assert_ptr_equal(again, function);
		exported += !strcmp(found, names[i]);
	}
	assert_int_equal(exported, 10); /* the short names without underscores, which people know */
	symtab__free(tab);
	dlclose(libc);
}

/* --- rules of choice and cover, in assembly --- */

static const char rules_source[] = ".text\n"
				   ".skip 16\n"
				   ".macro fn name, bind, size\n"
				   ".\\bind \\name\n"
				   ".type \\name, @function\n"
				   ".size \\name, \\size\n"
				   "\\name:\n"
				   ".endm\n"
				   ".macro data name\n"
				   ".globl \\name\n"
				   ".type \\name, @object\n"
				   ".size \\name, 8\n"
				   "\\name:\n"
				   ".endm\n"
				   /* 0x10: aliases */
				   "fn aa_local, local, 16\n"
				   "fn b_weak, weak, 16\n"
				   "fn __c_underscored, globl, 16\n"
				   "fn longer_global, globl, 16\n"
				   "fn xglobal, globl, 16\n"
				   "fn wglobal, globl, 16\n"
				   "fn u, globl, 0\n" /* no size: not preferred */
				   ".skip 16\n"
				   /* 0x20: a gap of 16 */
				   ".skip 16\n"
				   /* 0x30: nested, 64 bytes; inside at 0x40 for 16 */
				   "fn outer, globl, 64\n"
				   ".skip 16\n"
				   "fn inner, local, 16\n"
				   "data not_a_function\n"
				   ".skip 48\n"
				   /* 0x70: no size, up to the next symbol, 0x80 */
				   "fn unsized, globl, 0\n"
				   ".skip 16\n"
				   /* 0x80: overlapping: 0x80..0xa0 and 0x90..0xb0 */
				   "fn first, globl, 32\n"
				   ".skip 16\n"
				   "fn second, globl, 32\n"
				   ".skip 32\n"
				   /* 0xb0: no size, up to the end of the section, 0xc0 */
				   "fn last, globl, 0\n"
				   ".skip 16\n"
				   ".section .text.other, \"ax\"\n"
				   ".skip 64\n"
				   ".section .note.GNU-stack, \"\"\n";

static void test_rules(void **state)
{
	struct symtab *tab;
	uint64_t text, start;

	(void)state;
	assert_true(fixture_write("rules.s", rules_source, strlen(rules_source)));
	assert_true(fixture_run("gcc -nostdlib -shared -Wl,-z,norelro -Wl,--unique=.text.other "
				"-o rules.so rules.s"));
	text = nm("rules.so", "xglobal") - 0x10;
	tab = open_fixture("rules.so");
	assert_found(tab, text + 0x0f, NULL);
	assert_found(tab, text + 0x10, "wglobal");
	assert_found(tab, text + 0x1f, "wglobal");
	assert_found(tab, text + 0x20, NULL);
	assert_found(tab, text + 0x2f, NULL);
	assert_found(tab, text + 0x30, "outer");
	assert_found(tab, text + 0x3f, "outer");
	assert_found(tab, text + 0x40, "inner");
	assert_found(tab, text + 0x4f, "inner");
	assert_string_equal(symtab__find(tab, text + 0x50, &start), "outer");
	assert_int_equal(start, text + 0x30);
	assert_found(tab, text + 0x6f, "outer");
	assert_found(tab, text + 0x70, "unsized");
	assert_found(tab, text + 0x7f, "unsized");
	assert_found(tab, text + 0x80, "first");
	assert_found(tab, text + 0x8f, "first");
	assert_found(tab, text + 0x90, "second");
	assert_found(tab, text + 0x9f, "second");
	assert_found(tab, text + 0xaf, "second");
	assert_found(tab, text + 0xb0, "last");
	assert_found(tab, text + 0xbf, "last");
	assert_found(tab, text + 0xc0, NULL); /* the next section */
	symtab__free(tab);
}

/* In a file with very many sections, the index of a symbol's section may be in a table of its own.
 * Here the symbol "last" gets such an index. */
static void test_section_index_elsewhere(void **state)
{
	static const char spare[] = ".section .spare, \"\"\n.long 0\n"
				    ".section .note.GNU-stack, \"\"\n";
	Elf64_Shdr symtab, strings, *sections;
	size_t len, i_symtab = 0, i_spare = 0;
	Elf64_Word *indexes;
	Elf64_Ehdr *header;
	Elf64_Sym *symbols;
	uint64_t text;
	char *data;

	(void)state;
	assert_true(fixture_write("rules.s", rules_source, strlen(rules_source)));
	assert_true(fixture_write("spare.s", spare, strlen(spare)));
	assert_true(fixture_run("gcc -nostdlib -shared -Wl,-z,norelro -Wl,--unique=.text.other "
				"-o many rules.s spare.s"));
	text = nm("many", "xglobal") - 0x10;
	data = read_fixture("many", &len);
	len = (len + 7) / 8 * 8;
	data = realloc(data, 2 * len);
	header = (Elf64_Ehdr *)data;
	sections = (Elf64_Shdr *)(data + header->e_shoff);
	for (size_t i = 1; i < header->e_shnum; i++) {
		if (sections[i].sh_type == SHT_SYMTAB)
			i_symtab = i;
		if (!strcmp(data + sections[header->e_shstrndx].sh_offset + sections[i].sh_name,
			    ".spare"))
			i_spare = i;
	}
	assert_true(i_symtab && i_spare);
	symtab = sections[i_symtab];
	strings = sections[symtab.sh_link];
	symbols = (Elf64_Sym *)(data + symtab.sh_offset);
	indexes = (Elf64_Word *)(data + len);
	sections[i_spare].sh_type = SHT_SYMTAB_SHNDX;
	sections[i_spare].sh_link = (Elf64_Word)i_symtab;
	sections[i_spare].sh_offset = len;
	sections[i_spare].sh_size = symtab.sh_size / sizeof(*symbols) * sizeof(*indexes);
	memset(indexes, 0, sections[i_spare].sh_size);
	for (size_t i = 1; i < symtab.sh_size / sizeof(*symbols); i++)
		if (!strcmp(data + strings.sh_offset + symbols[i].st_name, "last")) {
			indexes[i] = symbols[i].st_shndx;
			symbols[i].st_shndx = SHN_XINDEX;
		}
	assert_true(fixture_write("many", data, len + sections[i_spare].sh_size));
	free(data);
	assert_found_in("many", text + 0xb0, "last");
	assert_found_in("many", text + 0xbf, "last");
	assert_found_in("many", text + 0xc0, NULL); /* the next section */
	assert_found_in("many", text + 0x70, "unsized");
}

/* The linker writes symbol versions into the names in .symtab. A version is not part of the
 * function's name. */
static void test_versions(void **state)
{
	static const char source[] = "int old_one(void) { return 1; }\n"
				     "int new_one(void) { return 2; }\n"
				     "__asm__(\".symver old_one, versioned@V1\");\n"
				     "__asm__(\".symver new_one, versioned@@V2\");\n";
	static const char script[] = "V1 { local: *; }; V2 { } V1;\n";
	struct symtab *tab;

	(void)state;
	assert_true(fixture_write("v.c", source, strlen(source)));
	assert_true(fixture_write("v.map", script, strlen(script)));
	assert_true(fixture_run("gcc -O1 -fPIC -shared -Wl,--version-script=v.map -o v.so v.c"));
	tab = open_fixture("v.so");
	assert_found(tab, nm("v.so", "versioned@@V2"), "versioned");
	symtab__free(tab);
}

/* One name is the tail of another, and begins inside a UTF-8 character. The first byte of this tail
 * is a control character on 8-bit terminals. */
static void test_name_within_a_character(void **state)
{
	static const char source[] = "start:\n"
				     ".skip 16\n"
				     ".type whole, @function\n"
				     ".size whole, 16\n"
				     "whole: .skip 16\n"
				     ".type tail, @function\n"
				     ".size tail, 16\n"
				     "tail: .skip 16\n"
				     ".section .note.GNU-stack, \"\"\n";
	Elf64_Word name_of_whole = 0;
	uint64_t vaddr;
	size_t len;
	char *data;

	(void)state;
	assert_true(fixture_write("t.s", source, strlen(source)));
	assert_true(
		fixture_run("gcc -c -o t.o t.s && "
			    "objcopy --redefine-sym whole=\"$(printf 'a\\305\\233[2Jb')\" t.o && "
			    "gcc -nostdlib -shared -o t.so t.o"));
	vaddr = nm("t.so", "tail");
	data = read_fixture("t.so", &len);
	for (int round = 0; round < 2; round++) {
		const Elf64_Ehdr *header = (Elf64_Ehdr *)data;
		const Elf64_Shdr *sections = (Elf64_Shdr *)(data + header->e_shoff);

		for (size_t i = 1; i < header->e_shnum; i++) {
			Elf64_Sym *symbols = (Elf64_Sym *)(data + sections[i].sh_offset);
			const char *names = data + sections[sections[i].sh_link].sh_offset;

			if (sections[i].sh_type != SHT_SYMTAB)
				continue;
			for (size_t k = 0; k < sections[i].sh_size / sizeof(*symbols); k++) {
				if (!strncmp(names + symbols[k].st_name, "a\305", 2))
					name_of_whole = symbols[k].st_name;
				if (round && symbols[k].st_value == vaddr)
					symbols[k].st_name = name_of_whole + 2;
			}
		}
	}
	assert_true(name_of_whole);
	assert_true(fixture_write("t.so", data, len));
	free(data);
	assert_found_in("t.so", vaddr - 16, "a\305\233[2Jb");
	assert_found_in("t.so", vaddr, NULL);
}

/* --- kinds of files --- */

static const char program_source[] = "#include <stdlib.h>\n"
				     "__attribute__((noinline)) static int hidden(int x)\n"
				     "{ __asm__ volatile(\"\" : \"+r\"(x)); return x + 7; }\n"
				     "__attribute__((noinline)) int shown(int x)\n"
				     "{ return hidden(x) * 2; }\n"
				     "int main(int argc, char **argv)\n"
				     "{ (void)argv; return shown(argc) == 0; }\n";

static void make_program(const char *name, const char *flags)
{
	assert_true(fixture_write("p.c", program_source, strlen(program_source)));
	assert_true(fixture_run("gcc -O1 -g %s -o %s p.c", flags, name));
}

/* Strips name into its parts: name.full, name (without symbols), name.debug. */
static void split_program(const char *name, const char *flags)
{
	make_program(name, flags);
	assert_true(fixture_run("cp %s %s.full && objcopy --only-keep-debug %s %s.debug && "
				"strip %s",
				name, name, name, name, name));
}

static void test_stripped(void **state)
{
	uint64_t hidden;
	struct symtab *tab;
	FILE *maps;
	char line[4096];

	(void)state;
	split_program("stripped", "-Wl,--build-id");
	hidden = nm("stripped.full", "hidden");
	tab = open_fixture("stripped.full");
	assert_found(tab, hidden, "hidden");
	symtab__free(tab);

	unsetenv("DEBUGINFOD_URLS");
	tab = open_fixture("stripped");
	assert_found(tab, hidden, NULL);
	assert_true(symtab__empty(tab));
	symtab__free(tab);

	/* No server was asked over the network. */
	maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof(line), maps))
		assert_null(strstr(line, "libdebuginfod"));
	fclose(maps);
}

static void test_debuglink(void **state)
{
	uint64_t hidden;
	struct symtab *tab;

	(void)state;
	split_program("linked", "-Wl,--build-id");
	assert_true(fixture_run("objcopy --add-gnu-debuglink=linked.debug linked"));
	hidden = nm("linked.full", "hidden");
	tab = open_fixture("linked");
	assert_found(tab, hidden, "hidden");
	assert_found(tab, hidden + 1, "hidden");
	symtab__free(tab);

	assert_true(fixture_run("mkdir .debug && mv linked.debug .debug/"));
	tab = open_fixture("linked");
	assert_found(tab, hidden, "hidden");
	symtab__free(tab);

	/* A debug file of another build under the same name is not used. */
	assert_true(fixture_run("gcc -O2 -DOTHER -x c -g -Wl,--build-id=0x1234 -o other p.c && "
				"objcopy --only-keep-debug other .debug/linked.debug"));
	tab = open_fixture("linked");
	assert_found(tab, hidden, NULL);
	symtab__free(tab);
}

static void test_debuglink_by_crc(void **state)
{
	uint64_t hidden;
	struct symtab *tab;

	(void)state;
	split_program("crc", "-Wl,--build-id=none");
	assert_true(fixture_run("objcopy --add-gnu-debuglink=crc.debug crc"));
	hidden = nm("crc.full", "hidden");
	tab = open_fixture("crc");
	assert_found(tab, hidden, "hidden");
	symtab__free(tab);

	assert_true(fixture_run("printf x >> crc.debug"));
	tab = open_fixture("crc");
	assert_found(tab, hidden, NULL);
	symtab__free(tab);
}

/* A file can name anything as its debug file. No such name may make the reader hang. */
static void test_hostile_debuglink(void **state)
{
	struct symtab *tab;

	(void)state;
	split_program("fifo", "-Wl,--build-id");
	assert_true(fixture_run("objcopy --add-gnu-debuglink=fifo.debug fifo && "
				"rm fifo.debug && mkfifo fifo.debug"));
	alarm(20);
	tab = open_fixture("fifo");
	assert_true(symtab__empty(tab));
	symtab__free(tab);
	assert_true(fixture_run("rm fifo.debug && mkdir fifo.debug"));
	tab = open_fixture("fifo");
	symtab__free(tab);
	assert_true(fixture_run("rmdir fifo.debug && ln -s /dev/zero fifo.debug"));
	tab = open_fixture("fifo");
	symtab__free(tab);
	/* a link to the file itself */
	assert_true(fixture_run("rm fifo.debug && ln -s fifo fifo.debug"));
	tab = open_fixture("fifo");
	symtab__free(tab);
	alarm(0);
}

/* As on Fedora, the stripped file has the compressed symbols in a section. */
static void test_debugdata(void **state)
{
	uint64_t hidden;
	struct symtab *tab;

	(void)state;
	split_program("mini", "-Wl,--build-id");
	hidden = nm("mini.full", "hidden");
	if (!fixture_run("objcopy -S --remove-section .gdb_index --remove-section .comment "
			 "--keep-symbol=hidden mini.full mini.syms && xz -k mini.syms && "
			 "objcopy --add-section .gnu_debugdata=mini.syms.xz mini"))
		skip();
	tab = open_fixture("mini");
	assert_found(tab, hidden, "hidden");
	symtab__free(tab);

	/* A decompression bomb: four times the limit, and all zeros. */
	if (!fixture_run("head -c %llu /dev/zero | xz -T1 -0 > bomb.xz && cp mini.full bomb && "
			 "strip bomb && objcopy --add-section .gnu_debugdata=bomb.xz bomb",
			 4ULL * SYMTAB_MAX_UNPACKED))
		skip();
	assert_true(fixture_run("test $(stat -c %%s bomb) -lt 10000000"));
	{
		char path[512];

		snprintf(path, sizeof(path), "%s/bomb", fixture_dir);
		assert_int_equal(open_path(path, &tab), -ENOEXEC);
	}
}

/* Each source of symbols has another name for the function "hidden", so that the name tells the
 * source. */
static void test_order_of_sources(void **state)
{
	uint64_t hidden, shown;

	(void)state;
	split_program("order", "-shared -fPIC -Wl,--build-id");
	hidden = nm("order.full", "hidden");
	shown = nm("order.full", "shown");
	assert_true(fixture_run(
		"objcopy --redefine-sym hidden=of_debug_file order.debug && "
		"objcopy -S --keep-symbol=of_debugdata --redefine-sym hidden=of_debugdata "
		"order.full order.syms && xz -k order.syms && "
		"for file in order order.full; do objcopy --add-gnu-debuglink=order.debug "
		"--add-section .gnu_debugdata=order.syms.xz $file || exit 1; done"));
	assert_found_in("order.full", hidden, "hidden");
	assert_found_in("order", hidden, "of_debug_file");

	/* A debug file with a .symtab that lacks the function: .dynsym is added, .gnu_debugdata is
	 * not. */
	assert_true(fixture_run("cp order.debug all.debug && "
				"objcopy -S --keep-symbol=_init order.debug"));
	assert_found_in("order", nm("order.debug", "_init"), "_init");
	assert_found_in("order", hidden, NULL);
	assert_found_in("order", shown, "shown");

	/* a debug file without .symtab */
	assert_true(fixture_run("strip -o order.debug all.debug"));
	assert_found_in("order", hidden, "of_debugdata");
	assert_true(fixture_run("rm order.debug"));
	assert_found_in("order", hidden, "of_debugdata");
	assert_found_in("order", shown, "shown");

	/* broken .gnu_debugdata */
	assert_true(fixture_run("truncate -s -20 order.syms.xz && "
				"objcopy --update-section .gnu_debugdata=order.syms.xz order"));
	assert_found_in("order", hidden, NULL);
	assert_found_in("order", shown, "shown");
}

/* Addresses in a debug file are the program's, whatever the debug file's program headers say. */
static void test_headers_of_debug_file(void **state)
{
	static const unsigned char zeros[8];
	char path[512];
	uint64_t hidden;
	int fd;

	(void)state;
	split_program("headless", "-Wl,--build-id");
	hidden = nm("headless.full", "hidden");
	assert_true(fixture_run("objcopy --add-gnu-debuglink=headless.debug headless"));
	snprintf(path, sizeof(path), "%s/headless.debug", fixture_dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, zeros, 8, offsetof(Elf64_Ehdr, e_phoff)), 8);
	assert_int_equal(pwrite(fd, zeros, 2, offsetof(Elf64_Ehdr, e_phnum)), 2);
	close(fd);
	assert_found_in("headless", hidden, "hidden");
}

/* The largest .gnu_debugdata that is read, and one with a byte more. */
static void test_debugdata_limit(void **state)
{
	char path[512];
	struct symtab *tab;

	(void)state;
	split_program("limit", "-Wl,--build-id");
	assert_true(fixture_run("strip --keep-symbol=hidden -o limit.syms limit.full && "
				"truncate -s %u limit.syms && xz -T1 -0 -k limit.syms && "
				"cp limit more && "
				"objcopy --add-section .gnu_debugdata=limit.syms.xz limit && "
				"printf x >> limit.syms && xz -T1 -0 -f limit.syms && "
				"objcopy --add-section .gnu_debugdata=limit.syms.xz more",
				SYMTAB_MAX_UNPACKED));
	assert_found_in("limit", nm("limit.full", "hidden"), "hidden");
	snprintf(path, sizeof(path), "%s/more", fixture_dir);
	assert_int_equal(open_path(path, &tab), -ENOEXEC);
}

static void test_static_and_dynamic(void **state)
{
	struct symtab *tab;

	(void)state;
	make_program("static", "-static");
	tab = open_fixture("static");
	assert_found(tab, nm("static", "shown"), "shown");
	assert_found(tab, nm("static", "hidden"), "hidden");
	symtab__free(tab);
	make_program("nopie", "-no-pie");
	tab = open_fixture("nopie");
	assert_found(tab, nm("nopie", "hidden"), "hidden");
	symtab__free(tab);

	/* A stripped library keeps its exported symbols. */
	make_program("lib.so", "-shared -fPIC");
	{
		uint64_t shown = nm("lib.so", "shown"), hidden = nm("lib.so", "hidden");

		assert_true(fixture_run("strip lib.so"));
		tab = open_fixture("lib.so");
		assert_found(tab, shown, "shown");
		assert_found(tab, hidden, NULL);
		symtab__free(tab);

		/* The same library without section headers. */
		assert_true(fixture_run("printf '\\0\\0\\0\\0\\0\\0\\0\\0' | "
					"dd of=lib.so bs=1 seek=40 conv=notrunc status=none && "
					"printf '\\0\\0\\0\\0' | "
					"dd of=lib.so bs=1 seek=60 conv=notrunc status=none"));
		tab = open_fixture("lib.so");
		assert_found(tab, shown, "shown");
		symtab__free(tab);
	}

	assert_true(fixture_run("strip static"));
	tab = open_fixture("static");
	assert_true(symtab__empty(tab));
	symtab__free(tab);
}

static void test_cxx(void **state)
{
	static const char source[] = "#include <vector>\n"
				     "namespace space { struct Thing { std::vector<int> v;\n"
				     "void method(int x); };\n"
				     "void Thing::method(int x) { v.push_back(x); } }\n"
				     "int main() { space::Thing t; t.method(1); }\n";
	struct symtab *tab;
	const char *mangled;
	char *name;

	(void)state;
	assert_true(fixture_write("c.cc", source, strlen(source)));
	assert_true(fixture_run("g++ -O1 -o cxx c.cc"));
	tab = open_fixture("cxx");
	mangled = symtab__find(tab, nm("cxx", "_ZN5space5Thing6methodEi"), NULL);
	assert_non_null(mangled);
	name = demangle(mangled);
	assert_string_equal(name, "space::Thing::method");
	free(name);
	symtab__free(tab);
}

/* Two tables give one function two sizes. */
static void test_sizes_differ(void **state)
{
	Elf64_Shdr *sections;
	Elf64_Ehdr *header;
	uint64_t shown;
	size_t len;
	char *data;

	(void)state;
	make_program("sizes", "-shared -fPIC");
	shown = nm("sizes", "shown");
	for (unsigned int small = SHT_SYMTAB;; small = SHT_DYNSYM) {
		data = read_fixture("sizes", &len);
		header = (Elf64_Ehdr *)data;
		sections = (Elf64_Shdr *)(data + header->e_shoff);
		for (size_t i = 1; i < header->e_shnum; i++) {
			Elf64_Sym *symbols = (Elf64_Sym *)(data + sections[i].sh_offset);

			if (sections[i].sh_type != SHT_SYMTAB && sections[i].sh_type != SHT_DYNSYM)
				continue;
			for (size_t k = 1; k < sections[i].sh_size / sizeof(*symbols); k++)
				if (symbols[k].st_value == shown)
					symbols[k].st_size = sections[i].sh_type == small ? 2 : 4;
		}
		assert_true(fixture_write("sizes", data, len));
		free(data);
		assert_found_in("sizes", shown + 1, "shown");
		assert_found_in("sizes", shown + 2, NULL);
		if (small == SHT_DYNSYM)
			break;
	}
}

static void test_not_elf(void **state)
{
	static const char *const names[] = {"empty", "text", "gz", "object.o"};
	char path[512];
	struct symtab *tab;
	int none = -1;

	(void)state;
	make_program("good", "");
	assert_true(fixture_run(": > empty && echo hello > text && gzip -c good > gz && "
				"gcc -c -o object.o p.c"));
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "%s/%s", fixture_dir, names[i]);
		assert_int_equal(open_path(path, &tab), -ENOEXEC);
	}
	assert_int_equal(symtab__open(-1, &none, SYMTAB_FUNCTIONS, PATIENCE_S, NULL, &tab),
			 -ENOEXEC);
}

/* --- hostile files --- */

/* Reads the file through a child, as usual. */
static void use(const char *name)
{
	struct symtab *tab;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", fixture_dir, name);
	if (open_path(path, &tab))
		return;
	for (uint64_t off = 0; off < 0x5000; off += 61) {
		const char *found = symtab__find(tab, off, NULL);

		if (found)
			assert_true(strlen(found) <= 4096);
	}
	symtab__free(tab);
}

/* Does the child's work in this process, so that the sanitizers see it. */
static void use_here(const char *name)
{
	FILE *out = fopen("/dev/null", "w");
	enum child_exit end;
	char path[512];
	int fd, debug_fd;

	snprintf(path, sizeof(path), "%s/%s", fixture_dir, name);
	fd = open_with_debug(path, &debug_fd);
	end = symtab_child__read(out, fd, debug_fd, &(enum symtab_kind){SYMTAB_FUNCTIONS});
	assert_true(end == CHILD_DONE || end == CHILD_NO_DATA);
	fclose(out);
}

static void mutate(const char *victim, int rounds)
{
	uint64_t x = 0x9e3779b97f4a7c15ull;
	size_t len;
	char *good = read_fixture(victim, &len), *bad = malloc(len);
	uint64_t phoff, shoff;
	uint16_t shnum;
	char name[64];

	snprintf(name, sizeof(name), "%s", victim);
	memcpy(&phoff, good + 32, 8);
	memcpy(&shoff, good + 40, 8);
	memcpy(&shnum, good + 60, 2);
	for (int i = 0; i < rounds; i++) {
		memcpy(bad, good, len);
		for (int k = 0; k < 1 + i % 8; k++) {
			static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
			size_t at, n;

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			switch (x % 4) { /* mostly in headers, where changes do most harm */
			case 0:
				at = 4 + (x >> 8) % 60;
				break;
			case 1:
				at = phoff + (x >> 8) % (13 * 56);
				break;
			case 2:
				at = shoff + (x >> 8) % ((size_t)shnum * 64);
				break;
			default:
				at = (x >> 8) % len;
			}
			n = (x >> 40) % 3 ? 1 : 8;
			if (at + n <= len)
				memset(bad + at, values[(x >> 48) % sizeof(values)], n);
		}
		/* A new file each time, so that no mapping of this process sees the change. */
		assert_true(fixture_write(name, bad, i % 10 == 9 ? (x >> 20) % len : len));
		(i % 10 ? use_here : use)(strcmp(victim, "hostile.debug") ? name : "hostile");
	}
	assert_true(fixture_write(name, good, len));
	free(bad);
	free(good);
}

static void test_mutated(void **state)
{
	clock_t begin = clock();

	(void)state;
	split_program("hostile", "-Wl,--build-id=none");
	mutate("hostile.full", 1500);
	mutate("hostile", 1000);
	split_program("hostile", "-Wl,--build-id");
	assert_true(fixture_run("objcopy --add-gnu-debuglink=hostile.debug hostile"));
	mutate("hostile.debug", 1000);
	assert_true(clock() - begin < 60 * CLOCKS_PER_SEC);
}

/* While the file is read, its owner cuts it short and restores it, again and again. */
static void test_cut_short_meanwhile(void **state)
{
	struct symtab *tab;
	size_t len;
	char path[512], *good;
	int n_died = 0;
	pid_t pid;

	(void)state;
	make_program("cut", "-Wl,--build-id");
	good = read_fixture("cut", &len);
	snprintf(path, sizeof(path), "%s/cut", fixture_dir);
	pid = fork();
	if (!pid) {
		int fd = open(path, O_RDWR | O_CLOEXEC);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(60);
		for (;;)
			if (ftruncate(fd, 128) || pwrite(fd, good, len, 0) != (ssize_t)len)
				_exit(1);
	}
	alarm(60);
	for (int i = 0; i < 300; i++) {
		int err = open_path(path, &tab);

		/* libelf maps files. A read of a part that was cut off raises SIGBUS, but only in
		 * the child. */
		assert_true(!err || err == -ENOEXEC || err == -ECHILD);
		n_died += err == -ECHILD;
		if (!err)
			symtab__free(tab);
	}
	alarm(0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	print_message("%d of 300 died of it\n", n_died);
	free(good);
}

/* A string table without a NUL at its end. The table ends where the file ends, and the file fills
 * its last page. */
static void test_unterminated_names(void **state)
{
	size_t len, page;
	char *data, *big;
	Elf64_Ehdr header;

	(void)state;
	make_program("open-ended", "");
	data = read_fixture("open-ended", &len);
	memcpy(&header, data, sizeof(header));
	for (int i = 0; i < header.e_shnum; i++) {
		Elf64_Shdr section;
		char *at = data + header.e_shoff + (size_t)i * sizeof(section);

		memcpy(&section, at, sizeof(section));
		if (section.sh_type != SHT_SYMTAB)
			continue;
		at = data + header.e_shoff + section.sh_link * sizeof(section);
		for (size_t k = 0; k < section.sh_size / sizeof(Elf64_Sym); k++) {
			Elf64_Sym sym;

			memcpy(&sym, data + section.sh_offset + k * sizeof(sym), sizeof(sym));
			sym.st_name = 100 + (Elf64_Word)k;
			memcpy(data + section.sh_offset + k * sizeof(sym), &sym, sizeof(sym));
		}
		page = (len + 4095) / 4096 * 4096;
		memcpy(&section, at, sizeof(section));
		section.sh_offset = page;
		section.sh_size = 8192;
		memcpy(at, &section, sizeof(section));
		big = malloc(page + 8192);
		memset(big, 'n', page + 8192);
		big[page] = '\0';
		memcpy(big, data, len);
		assert_true(fixture_write("open-ended", big, page + 8192));
		free(big);
		break;
	}
	free(data);
	use_here("open-ended");
	use("open-ended");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_functions),
		cmocka_unit_test(test_libc),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_section_index_elsewhere),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_name_within_a_character),
		cmocka_unit_test(test_stripped),
		cmocka_unit_test(test_debuglink),
		cmocka_unit_test(test_debuglink_by_crc),
		cmocka_unit_test(test_hostile_debuglink),
		cmocka_unit_test(test_debugdata),
		cmocka_unit_test(test_order_of_sources),
		cmocka_unit_test(test_headers_of_debug_file),
		cmocka_unit_test(test_debugdata_limit),
		cmocka_unit_test(test_static_and_dynamic),
		cmocka_unit_test(test_sizes_differ),
		cmocka_unit_test(test_cxx),
		cmocka_unit_test(test_not_elf),
		cmocka_unit_test(test_mutated),
		cmocka_unit_test(test_cut_short_meanwhile),
		cmocka_unit_test(test_unterminated_names),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
