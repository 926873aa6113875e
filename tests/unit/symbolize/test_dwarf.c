// SPDX-License-Identifier: BSD-2-Clause
/* The expected results come from other readers: binutils and LLVM read the same files, which gcc
 * and clang make here. Marks in the sources record their own lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dwarf_fixture.h"

#define MAX_ORACLE_FRAME 64

/* --- compared with other readers --- */

struct oracle_frame {
	char function[2048], file[2048];
	uint32_t line;
};

/* "FILE:LINE" or "FILE:LINE (discriminator 3)". */
static void parse_place(char *text, struct oracle_frame *frame)
{
	char *at = strstr(text, " (discriminator");

	if (at)
		*at = '\0';
	at = strrchr(text, ':');
	assert_non_null(at);
	*at = '\0';
	frame->line = (uint32_t)strtoul(at + 1, NULL, 10);
	snprintf(frame->file, sizeof(frame->file), "%s", text);
}

/* binutils and LLVM get a file without symbols, because they prefer symbols to DWARF's names. */
static void assert_agrees(const char *oracle, const uint64_t *vaddrs, size_t n,
			  const struct dwarf_frames *ours, size_t *ret_nested)
{
	FILE *pipe = open_pipe("%s <addresses", oracle);
	char line[2048]; /* a longer line fails the comparison */
	size_t nested = 0, compared = 0;
	bool more = fgets(line, sizeof(line), pipe);

	for (size_t i = 0; i < n; i++) {
		struct oracle_frame frames[MAX_ORACLE_FRAME];
		size_t k = 0;

		assert_true(more && !strncmp(line, "0x", 2));
		assert_int_equal(strtoull(line, NULL, 16), vaddrs[i]);
		while ((more = fgets(line, sizeof(line), pipe)) && strncmp(line, "0x", 2) != 0) {
			line[strcspn(line, "\n")] = '\0';
			if (!*line) /* LLVM prints empty lines */
				continue;
			assert_true(k < MAX_ORACLE_FRAME);
			snprintf(frames[k].function, sizeof(frames[k].function), "%s", line);
			assert_non_null(fgets(line, sizeof(line), pipe));
			line[strcspn(line, "\n")] = '\0';
			parse_place(line, &frames[k++]);
		}
		if (!strcmp(frames[0].function, "??")) {
			/* Between functions there may be a line, but never a function. */
			assert_true(!ours[i].n || !ours[i].frames[0].function);
			continue;
		}
		if (ours[i].n != k)
			fail_msg("%s: 0x%lx: %zu frames, not %zu", oracle, vaddrs[i], ours[i].n, k);
		for (size_t f = 0; f < k; f++) {
			const struct dwarf_frame *our = &ours[i].frames[f];

			if (!our->function || strcmp(our->function, frames[f].function) != 0 ||
			    (strcmp(frames[f].file, "??") != 0 &&
			     (!our->file || strcmp(our->file, frames[f].file) != 0)) ||
			    our->line != frames[f].line)
				fail_msg("%s: 0x%lx frame %zu: %s %s:%u, not %s %s:%u", oracle,
					 vaddrs[i], f, our->function, our->file, our->line,
					 frames[f].function, frames[f].file, frames[f].line);
		}
		compared++;
		nested += k >= 3;
	}
	assert_false(more);
	assert_int_equal(pclose(pipe), 0);
	assert_true(compared > n / 2);
	*ret_nested = nested;
}

static void write_addresses(const uint64_t *vaddrs, size_t n)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/addresses", fixture_dir);
	f = fopen(path, "w");
	assert_non_null(f);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "0x%lx\n", vaddrs[i]);
	assert_int_equal(fclose(f), 0);
}

/* name: the ELF file with code and DWARF. debug_name: the file that memtrace reads. binutils:
 * addr2line must agree, too. For clang's files addr2line does not agree: clang writes line 0, and
 * addr2line then leaves inlined functions out. */
static void check_against(const char *name, const char *debug_name, uint64_t step, bool binutils)
{
	uint64_t *vaddrs = calloc(MAX_ADDRESSES, sizeof(*vaddrs));
	struct dwarf_frames *ours = calloc(MAX_ADDRESSES, sizeof(*ours));
	size_t n = text_addresses(name, step, vaddrs), nested;
	char oracle[512];

	write_addresses(vaddrs, n);
	assert_true(fixture_run("strip --strip-all --keep-section='.debug*' "
				"--keep-section='.zdebug*' -o nosym %s",
				name));
	assert_int_equal(resolve(debug_name, vaddrs, n, ours), 0);
	snprintf(oracle, sizeof(oracle),
		 "llvm-symbolizer --obj=nosym --inlines --functions=linkage --no-demangle "
		 "--output-style=GNU --addresses");
	assert_agrees(oracle, vaddrs, n, ours, &nested);
	assert_true(nested > 0);
	if (binutils) {
		assert_agrees("addr2line -afi -e nosym", vaddrs, n, ours, &nested);
		assert_true(nested > 0);
	}
	dwarf_frames__free(ours, n);
	free(ours);
	free(vaddrs);
}

/* Checks that each mark resolves to its own function and line, wherever it was inlined. */
static void check_marks(const char *name, const char *debug_name, size_t expected)
{
	struct {
		uint64_t vaddr, line;
		char function[48];
	} mark;
	uint64_t vaddrs[256], lines[256];
	char functions[256][48], path[512];
	struct dwarf_frames ours[256];
	size_t n = 0;
	FILE *f;

	assert_true(fixture_run("objcopy -O binary -j marks %s marks", name));
	snprintf(path, sizeof(path), "%s/marks", fixture_dir);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fread(&mark, sizeof(mark), 1, f) == 1 && n < 256) {
		size_t at = n++;

		for (; at > 0 && vaddrs[at - 1] > mark.vaddr; at--) {
			vaddrs[at] = vaddrs[at - 1];
			lines[at] = lines[at - 1];
			memcpy(functions[at], functions[at - 1], sizeof(*functions));
		}
		vaddrs[at] = mark.vaddr;
		lines[at] = mark.line;
		memcpy(functions[at], mark.function, sizeof(*functions));
	}
	fclose(f);
	assert_true(n >= expected);
	assert_int_equal(resolve(debug_name, vaddrs, n, ours), 0);
	for (size_t i = 0; i < n; i++) {
		const char *function = ours[i].n ? ours[i].frames[0].function : NULL;

		/* A plain name, or a longer linkage name, which has clE for operator(). */
		if (!function || !strstr(function, functions[i]))
			if (!function || strcmp(functions[i], "operator()") != 0 ||
			    !strstr(function, "clE"))
				fail_msg("%s: 0x%lx is in %s, not %s", name, vaddrs[i],
					 function ? function : "nothing", functions[i]);
		assert_int_equal(ours[i].frames[0].line, lines[i]);
		assert_non_null(ours[i].frames[0].file);
		assert_ptr_equal(strstr(ours[i].frames[0].file, fixture_dir),
				 ours[i].frames[0].file); /* absolute */
	}
	dwarf_frames__free(ours, n);
}

static void check_build(const char *compiler, const char *flags, uint64_t step, bool binutils)
{
	compile(compiler, flags, "built");
	check_against("built", "built", step, binutils);
	check_marks("built", "built", 5);
}

static void test_c(void **state)
{
	(void)state;
	check_build("gcc", "-gdwarf-5", 1, true);
	check_build("gcc", "-gdwarf-4", 1, true);
	check_build("clang", "-gdwarf-5", 1, false);
	check_build("clang", "-gdwarf-4", 1, false);
}

static void test_cxx(void **state)
{
	(void)state;
	check_build("g++", "-gdwarf-5", 1, true);
	check_build("g++", "-gdwarf-4", 1, true);
	check_build("clang++", "-gdwarf-5", 1, false);
	check_build("clang++", "-gdwarf-4", 1, false);
}

static void test_link_time(void **state)
{
	(void)state;
	/* binutils takes <artificial>, LTO's name of the compilation unit, for a file. */
	check_build("gcc", "-gdwarf-5 -flto", 1, false);
	check_build("g++", "-gdwarf-4 -flto", 3, false);
	/* Functions that the linker discards leave ranges at 0 behind. The marks are discarded,
	 * too. */
	compile("g++", "-gdwarf-5 -ffunction-sections -Wl,--gc-sections", "sparse");
	check_against("sparse", "sparse", 3, true);
	compile("clang++", "-gdwarf-4 -ffunction-sections -Wl,--gc-sections", "sparse");
	check_against("sparse", "sparse", 3, false);
}

static void test_compressed(void **state)
{
	(void)state;
	check_build("gcc", "-g -gz=zlib", 1, true);
	check_build("g++", "-g -gz=zlib", 5, true);
	check_build("clang++", "-g -gz=zlib", 5, false);
	compile("gcc", "-g", "plain");
	assert_true(fixture_run("objcopy --compress-debug-sections=zlib-gnu plain zdebug && "
				"readelf -SW zdebug | grep -q zdebug_info"));
	check_against("plain", "zdebug", 1, true);
}

static void test_separate(void **state)
{
	(void)state;
	compile("g++", "-g", "whole");
	assert_true(fixture_run("objcopy --only-keep-debug whole whole.debug && "
				"strip -o whole.stripped whole"));
	check_against("whole", "whole.debug", 3, true);
	check_marks("whole", "whole.debug", 5);
}

/* The directories of the compilation and of the line table are both relative. */
static void test_directories(void **state)
{
	static const char *const flags[] = {
		"-gdwarf-5 -fdebug-prefix-map=$PWD=.",
		"-gdwarf-4 -fdebug-prefix-map=$PWD=/else/where",
		"-gdwarf-5 -fdebug-prefix-map=$PWD=/else/where",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		compile("gcc", flags[i], "moved");
		check_against("moved", "moved", 1, true);
		compile("clang", flags[i], "moved");
		check_against("moved", "moved", 1, false);
	}
}

/* DWARF that has only lines. */
static void test_assembly(void **state)
{
	static const char source[] = ".text\n.globl _start\n.type _start,@function\n"
				     "_start:\n nop\n nop\n ret\n";
	struct dwarf_frames ours[4];
	uint64_t vaddrs[4];
	FILE *pipe;

	(void)state;
	assert_true(fixture_write("a.s", source, strlen(source)));
	assert_true(fixture_run("as -gdwarf-4 -o a.o a.s && ld -o assembly a.o"));
	pipe = open_pipe("nm assembly | awk '$3 == \"_start\" { print $1 }'");
	assert_int_equal(fscanf(pipe, "%lx", &vaddrs[1]), 1);
	pclose(pipe);
	vaddrs[0] = 16;
	vaddrs[2] = vaddrs[1] + 2;
	vaddrs[3] = vaddrs[1] + 0x10000;
	assert_int_equal(resolve("assembly", vaddrs, 4, ours), 0);
	assert_int_equal(ours[0].n, 0);
	assert_int_equal(ours[1].n, 1);
	assert_int_equal(ours[1].frames[0].line, 5);
	assert_int_equal(ours[2].frames[0].line, 7);
	assert_non_null(strstr(ours[2].frames[0].file, "/a.s"));
	assert_int_equal(ours[3].n, 0);
	dwarf_frames__free(ours, 4);
}

/* If more functions are inlined than frames fit, the compiled function is still the last frame. */
static void test_deep(void **state)
{
	struct dwarf_frames *ours = calloc(MAX_ADDRESSES, sizeof(*ours));
	uint64_t *vaddrs = calloc(MAX_ADDRESSES, sizeof(*vaddrs));
	size_t n, longest = 0;
	char path[512];
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/deep.c", fixture_dir);
	f = fopen(path, "w");
	fprintf(f, "#include \"sub/mark.h\"\nvolatile int sink;\n"
		   "INLINE void f0(void) { sink++; }\n");
	for (int i = 1; i < 100; i++)
		fprintf(f, "INLINE void f%d(void) { f%d(); }\n", i, i - 1);
	fprintf(f, "int main(void) { f99(); }\n");
	fclose(f);
	assert_true(fixture_run("gcc -O2 -g -no-pie -o deep deep.c"));
	n = text_addresses("deep", 1, vaddrs);
	assert_int_equal(resolve("deep", vaddrs, n, ours), 0);
	for (size_t i = 0; i < n; i++) {
		if (ours[i].n <= 2)
			continue;
		longest = ours[i].n > longest ? ours[i].n : longest;
		assert_string_equal(ours[i].frames[0].function, "f0");
		assert_string_equal(ours[i].frames[ours[i].n - 1].function, "main");
		assert_int_equal(ours[i].frames[ours[i].n - 1].line, 103);
	}
	assert_int_equal(longest, DWARF_MAX_FRAMES);
	dwarf_frames__free(ours, n);
	free(ours);
	free(vaddrs);
}

/* --- dwz: the DWARF that two files share is in a third file --- */

/* Counts the frames whose function has this name. If function is NULL, counts the frames that have
 * a line number. */
static size_t count_named(const char *name, const char *function)
{
	struct dwarf_frames *ours = calloc(MAX_ADDRESSES, sizeof(*ours));
	uint64_t *vaddrs = calloc(MAX_ADDRESSES, sizeof(*vaddrs));
	size_t n = text_addresses(name, 1, vaddrs), found = 0;

	assert_int_equal(resolve(name, vaddrs, n, ours), 0);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < ours[i].n; k++)
			found += function ? ours[i].frames[k].function &&
						    !strcmp(ours[i].frames[k].function, function)
					  : ours[i].frames[k].line > 0;
	dwarf_frames__free(ours, n);
	free(ours);
	free(vaddrs);
	return found;
}

static void test_dwz(void **state)
{
	char root[512];
	size_t before, lines;

	(void)state;
	snprintf(root, sizeof(root), "%s/debug-root", fixture_dir);
	compile("g++", "-gdwarf-4 -Wl,--build-id", "one");
	assert_true(fixture_run("cp p.cc q.cc && echo 'int more() { return 1; }' >>q.cc && "
				"g++ -O2 -g -gdwarf-4 -no-pie -Wl,--build-id "
				"-DINLINE_MEMBER='__attribute__((always_inline))' -o two q.cc"));
	before = count_named("one", "h_leaf");
	lines = count_named("one", NULL);
	assert_true(before > 0);
	/* The child opens the files as user nobody. */
	assert_true(fixture_run("chmod 755 . && mkdir -p debug-root/.dwz && "
				"dwz -m common.debug -M %s/.dwz/common.debug one two && "
				"readelf -n common.debug | sed -n 's/.*Build ID: //p' >id",
				root));
	dwarf__test_hooks.debug_root = root;

	/* Without the common file, functions that only this file describes have lines, but no
	 * names. */
	assert_int_equal(count_named("one", "h_leaf"), 0);
	assert_int_equal(count_named("one", NULL), lines);

	/* The common file is found by name, by build-id and by a relative name. */
	assert_true(fixture_run("cp common.debug debug-root/.dwz/"));
	assert_int_equal(count_named("one", "h_leaf"), before);
	assert_true(fixture_run("rm debug-root/.dwz/* && d=debug-root/.build-id/$(cut -c1-2 id) && "
				"mkdir -p $d && cp common.debug $d/$(cut -c3- id).debug"));
	assert_int_equal(count_named("one", "h_leaf"), before);
	assert_true(fixture_run("rm -r debug-root/.build-id && cp common.debug debug-root/.dwz/ && "
				"(printf '../../.dwz/common.debug\\0'; xxd -r -p id) >link && "
				"objcopy --update-section .gnu_debugaltlink=link one"));
	assert_int_equal(count_named("one", "h_leaf"), before);

	/* The name leads to another file, to a FIFO, and outside of the root. */
	assert_true(fixture_run("cp program debug-root/.dwz/common.debug"));
	assert_int_equal(count_named("one", "h_leaf"), 0);
	assert_true(fixture_run("rm debug-root/.dwz/* && mkfifo debug-root/.dwz/common.debug"));
	assert_int_equal(count_named("one", "h_leaf"), 0);
	assert_true(fixture_run("(printf '%s/../common.debug\\0'; xxd -r -p id) >link && "
				"objcopy --update-section .gnu_debugaltlink=link one",
				root));
	assert_int_equal(count_named("one", "h_leaf"), 0);
	dwarf__test_hooks.debug_root = NULL;
}

/* --- present or not --- */

static bool present(const char *name)
{
	int fd = open_fixture(name);
	bool ret = dwarf__present(fd);

	close(fd);
	return ret;
}

static void test_present(void **state)
{
	static const char *const without[] = {"none", "empty", "text", "headers"};
	struct dwarf_frames ours;
	uint64_t vaddr = 0x401000;

	(void)state;
	assert_true(fixture_run("strip -o none program && : >empty && echo hello >text && "
				"head -c 64 program >headers && "
				"objcopy --compress-debug-sections=zlib program z1 && "
				"objcopy --compress-debug-sections=zlib-gnu program z2 && "
				"objcopy --only-keep-debug program kept"));
	assert_true(present("program"));
	assert_true(present("z1"));
	assert_true(present("z2"));
	assert_true(present("kept"));
	for (size_t i = 0; i < sizeof(without) / sizeof(*without); i++) {
		assert_false(present(without[i]));
		memset(&ours, 0xa5, sizeof(ours));
		assert_int_equal(resolve(without[i], &vaddr, 1, &ours), -ENODATA);
		assert_int_equal(ours.n, 0);
	}
	assert_false(dwarf__present(-1));
	assert_int_equal(resolve("program", NULL, 0, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_c),	  cmocka_unit_test(test_cxx),
		cmocka_unit_test(test_link_time), cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_separate),  cmocka_unit_test(test_directories),
		cmocka_unit_test(test_assembly),  cmocka_unit_test(test_deep),
		cmocka_unit_test(test_dwz),	  cmocka_unit_test(test_present),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
