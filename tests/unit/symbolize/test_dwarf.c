// SPDX-License-Identifier: BSD-2-Clause
/* The truth comes from outside: binutils and LLVM read the same files, made here by gcc and clang;
 * marks in the sources know their own lines; the kernel says what the child may still do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "symbolize/dwarf.h"

#include "fixture.h"

#define PATIENCE_S	 60.0
#define CHILD_OUT_FD	 4
#define MAX_ADDRESSES	 40000
#define MAX_ORACLE_FRAME 64

static double now_s(void)
{
	return (double)clock__now_ns(CLOCK_MONOTONIC) / 1e9;
}

static int open_fixture(const char *name)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", fixture_dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static int resolve_for(const char *name, const uint64_t *vaddrs, size_t n, double patience_s,
		       struct dwarf_frames *ret)
{
	int fd = open_fixture(name), err;

	err = dwarf__resolve(fd, vaddrs, n, patience_s, ret);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC); /* still the caller's */
	close(fd);
	return err;
}

static int resolve(const char *name, const uint64_t *vaddrs, size_t n, struct dwarf_frames *ret)
{
	return resolve_for(name, vaddrs, n, PATIENCE_S, ret);
}

static FILE *open_pipe(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static FILE *open_pipe(const char *fmt, ...)
{
	char command[4096];
	int n = snprintf(command, sizeof(command), "cd %s && ", fixture_dir);
	va_list ap;
	FILE *pipe;

	va_start(ap, fmt);
	vsnprintf(command + n, sizeof(command) - (size_t)n, fmt, ap);
	va_end(ap);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	return pipe;
}

/* --- sources --- */

/* MARK leaves an address with its line and function where the compiler has put this copy of it. */
static const char mark_header[] =
	"#define MARK_(line, name) __asm__ volatile(\"1: nop\\n\"\\\n"
	"	\".pushsection marks, \\\"a\\\", @progbits\\n\"\\\n"
	"	\".quad 1b, \" #line \"\\n.asciz \\\"\" name \"\\\"\\n.balign 64\\n\"\\\n"
	"	\".popsection\\n\")\n"
	"#define MARK__(line, name) MARK_(line, name)\n"
	"#define MARK(name) MARK__(__LINE__, name)\n"
	"#define INLINE static inline __attribute__((always_inline))\n"
	"#define OUT __attribute__((noinline))\n";

static const char inline_header[] = "#include \"mark.h\"\n"
				    "extern volatile int sink;\n"
				    "INLINE int h_leaf(int x)\n"
				    "{\n"
				    "	MARK(\"h_leaf\");\n"
				    "	sink += x;\n"
				    "	return sink * 3;\n"
				    "}\n"
				    "INLINE int h_middle(int x)\n"
				    "{\n"
				    "	int y = h_leaf(x) + 1;\n"
				    "	if (sink & 4) {\n"
				    "		int z = sink;\n"
				    "		MARK(\"h_middle\");\n"
				    "		y += h_leaf(z);\n"
				    "	}\n"
				    "	return y;\n"
				    "}\n";

static const char c_source[] = "#include <stdlib.h>\n"
			       "#include \"sub/inline.h\"\n"
			       "volatile int sink;\n"
			       "INLINE int top(int x)\n"
			       "{\n"
			       "	MARK(\"top\");\n"
			       "	return h_middle(x) ^ h_leaf(x + 1);\n"
			       "}\n"
			       "OUT static int compiled(int x)\n"
			       "{\n"
			       "	int y = top(x);\n"
			       "	if (y == 42)\n"
			       "		abort(); /* a cold part */\n"
			       "	MARK(\"compiled\");\n"
			       "	for (int i = 0; i < x; i++)\n"
			       "		y += top(i);\n"
			       "	return y;\n"
			       "}\n"
			       "OUT int other(int x) { MARK(\"other\"); return h_middle(x); }\n"
			       "int main(int argc, char **argv)\n"
			       "{\n"
			       "	(void)argv;\n"
			       "	MARK(\"main\");\n"
			       "	return compiled(argc) + other(argc);\n"
			       "}\n";

static const char cxx_source[] =
	"#include <algorithm>\n"
	"#include <map>\n"
	"#include <string>\n"
	"#include <vector>\n"
	"#include \"sub/inline.h\"\n"
	"volatile int sink;\n"
	"OUT int discarded(int x) { sink += x; return sink / 3; }\n"
	"namespace space {\n"
	"struct Thing {\n"
	"	std::vector<int> v;\n"
	"	std::map<std::string, int> m;\n"
	"	INLINE_MEMBER int small(int x) { MARK(\"_ZN5space5Thing5smallEi\"); return "
	"h_middle(x); }\n"
	"	void method(int x);\n"
	"};\n"
	"OUT void Thing::method(int x)\n"
	"{\n"
	"	v.push_back(small(x));\n"
	"	m[std::to_string(x)] = x;\n"
	"	std::sort(v.begin(), v.end(), [](int a, int b) { return a % 7 < b % 7; });\n"
	"}\n"
	"namespace { OUT int hidden(int x) { MARK(\"hidden\"); return h_leaf(x); } }\n"
	"template <typename T> OUT T twice(T x) { return x + x + hidden((int)x); }\n"
	"}\n"
	"OUT int local(int x)\n"
	"{\n"
	"	struct Local {\n"
	"		OUT static int inside(int y) { MARK(\"inside\"); return h_leaf(y); }\n"
	"	};\n"
	"	auto lambda = [x](int y) OUT { MARK(\"operator()\"); return h_leaf(x + y); };\n"
	"	return Local::inside(x) + lambda(x);\n"
	"}\n"
	"int main(int argc, char **)\n"
	"{\n"
	"	space::Thing t;\n"
	"	for (int i = 0; i < argc; i++)\n"
	"		t.method(i);\n"
	"	return space::twice<int>(argc) + (int)space::twice<long>(argc) + local(argc);\n"
	"}\n";

static int setup(void **state)
{
	if (fixture_setup(state) || !fixture_run("mkdir sub") ||
	    !fixture_write("sub/mark.h", mark_header, strlen(mark_header)) ||
	    !fixture_write("sub/inline.h", inline_header, strlen(inline_header)) ||
	    !fixture_write("p.c", c_source, strlen(c_source)) ||
	    !fixture_write("p.cc", cxx_source, strlen(cxx_source)))
		return -1;
	return fixture_run("gcc -O2 -g -no-pie -o program p.c") ? 0 : -1;
}

static void compile(const char *compiler, const char *flags, const char *name)
{
	bool cxx = strstr(compiler, "++");

	assert_true(fixture_run("%s -O2 -no-pie %s %s -o %s p.%s", compiler,
				cxx ? "-DINLINE_MEMBER='__attribute__((always_inline))'" : "",
				flags, name, cxx ? "cc" : "c"));
}

/* --- against other readers --- */

/* All addresses of .text, or every step-th. */
static size_t text_addresses(const char *name, uint64_t step, uint64_t *vaddrs)
{
	uint64_t start, size;
	size_t n = 0;
	FILE *pipe = open_pipe("readelf -SW %s | sed -n 's/.* \\.text *PROGBITS *//p'", name);

	assert_int_equal(fscanf(pipe, "%lx %*x %lx", &start, &size), 2);
	pclose(pipe);
	for (uint64_t at = 0; at < size && n < MAX_ADDRESSES; at += step)
		vaddrs[n++] = start + at;
	return n;
}

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

/* Both are asked about a file without symbols, for otherwise these win over DWARF's names. */
static void assert_agrees(const char *oracle, const uint64_t *vaddrs, size_t n,
			  const struct dwarf_frames *ours, size_t *ret_nested)
{
	FILE *pipe = open_pipe("%s <addresses", oracle);
	char line[2048]; /* longer ones fail the comparison */
	size_t nested = 0, compared = 0;
	bool more = fgets(line, sizeof(line), pipe);

	for (size_t i = 0; i < n; i++) {
		struct oracle_frame frames[MAX_ORACLE_FRAME];
		size_t k = 0;

		assert_true(more && !strncmp(line, "0x", 2));
		assert_int_equal(strtoull(line, NULL, 16), vaddrs[i]);
		while ((more = fgets(line, sizeof(line), pipe)) && strncmp(line, "0x", 2) != 0) {
			line[strcspn(line, "\n")] = '\0';
			if (!*line) /* LLVM's */
				continue;
			assert_true(k < MAX_ORACLE_FRAME);
			snprintf(frames[k].function, sizeof(frames[k].function), "%s", line);
			assert_non_null(fgets(line, sizeof(line), pipe));
			line[strcspn(line, "\n")] = '\0';
			parse_place(line, &frames[k++]);
		}
		if (!strcmp(frames[0].function, "??")) {
			/* Between functions: maybe a line, never a function. */
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

/* name: the ELF file with code and DWARF; debug_name: the one that we read. binutils is not asked
 * about clang's files: it leaves inlined functions out at line 0, which clang writes. */
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

/* What the marks say: their own function and line, wherever they were inlined. */
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

		/* Where the compiler gave no linker's name, or more of one than the mark knows. */
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
	/* binutils takes <artificial>, the name of the whole, for a file. */
	check_build("gcc", "-gdwarf-5 -flto", 1, false);
	check_build("g++", "-gdwarf-4 -flto", 3, false);
	/* What the linker throws away leaves ranges at 0 behind. The marks go with it. */
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

/* Directories: of the compilation, of the line table, both relative. */
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

/* Lines and nothing else. */
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

/* More inlined functions than frames: the compiled one is still the last. */
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

/* --- dwz: what two files have in common stands in a third one --- */

/* Frames of that function; NULL: with a line. */
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
	/* The child is nobody when it looks. */
	assert_true(fixture_run("chmod 755 . && mkdir -p debug-root/.dwz && "
				"dwz -m common.debug -M %s/.dwz/common.debug one two && "
				"readelf -n common.debug | sed -n 's/.*Build ID: //p' >id",
				root));
	dwarf__test_hooks.debug_root = root;

	/* Nowhere: what is only there has no name, but still its lines. */
	assert_int_equal(count_named("one", "h_leaf"), 0);
	assert_int_equal(count_named("one", NULL), lines);

	/* By name, by build-id, by the name relative to somewhere. */
	assert_true(fixture_run("cp common.debug debug-root/.dwz/"));
	assert_int_equal(count_named("one", "h_leaf"), before);
	assert_true(fixture_run("rm debug-root/.dwz/* && d=debug-root/.build-id/$(cut -c1-2 id) && "
				"mkdir -p $d && cp common.debug $d/$(cut -c3- id).debug"));
	assert_int_equal(count_named("one", "h_leaf"), before);
	assert_true(fixture_run("rm -r debug-root/.build-id && cp common.debug debug-root/.dwz/ && "
				"(printf '../../.dwz/common.debug\\0'; xxd -r -p id) >link && "
				"objcopy --update-section .gnu_debugaltlink=link one"));
	assert_int_equal(count_named("one", "h_leaf"), before);

	/* Another file under that name; no file; a way out of the root. */
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

/* --- the child: what it may --- */

static size_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void assert_no_child(void)
{
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* Runs one with this in the child. */
static int run_in_child(void (*in_child)(void), double patience_s, struct dwarf_frames *ret)
{
	uint64_t vaddr = 0x401000;
	size_t fds = count_fds();
	struct dwarf_frames frames;
	int err;

	dwarf__test_hooks.in_child = in_child;
	err = resolve_for("program", &vaddr, 1, patience_s, &frames);
	dwarf__test_hooks.in_child = NULL;
	assert_no_child();
	assert_int_equal(count_fds(), fds);
	if (ret)
		*ret = frames;
	else
		dwarf_frames__free(&frames, 1);
	return err;
}

/* Checks in the child end it with a status that can be told from all others' when they fail. */
#define CHILD_ASSERT(condition)                                                                    \
	do {                                                                                       \
		if (!(condition))                                                                  \
			_exit(100);                                                                \
	} while (0)

static bool refused(long ret)
{
	return ret == -1 && errno == EPERM;
}

static void child_tries_calls(void)
{
	struct sockaddr address = {.sa_family = AF_UNIX};
	char byte = 0;

	CHILD_ASSERT(refused(syscall(SYS_open, "/etc/passwd", O_RDONLY)));
	CHILD_ASSERT(refused(syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY)));
	CHILD_ASSERT(refused(syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", NULL, 0)));
	CHILD_ASSERT(refused(syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", NULL, 0)));
	CHILD_ASSERT(refused(syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0)));
	CHILD_ASSERT(refused(syscall(SYS_connect, 3, &address, sizeof(address))));
	CHILD_ASSERT(refused(syscall(SYS_kill, getppid(), 0)));
	CHILD_ASSERT(refused(syscall(SYS_ptrace, 0, 0, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_clone3, NULL, 0)));
	CHILD_ASSERT(refused(syscall(SYS_fork)));
	CHILD_ASSERT(refused(syscall(SYS_execve, "/bin/true", NULL, NULL)));
	CHILD_ASSERT(refused(syscall(SYS_bpf, 0, NULL, 0)));
	CHILD_ASSERT(refused(syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_setresuid, 0, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_ioctl, 3, 0, 0)));
	CHILD_ASSERT(refused(syscall(SYS_fcntl, 3, F_DUPFD, 0)));
	CHILD_ASSERT(refused(syscall(SYS_dup, 3)));
	CHILD_ASSERT(refused(syscall(SYS_ftruncate, 3, 0)));
	CHILD_ASSERT(refused(syscall(SYS_write, 1, &byte, 1)));
	CHILD_ASSERT(refused(syscall(SYS_write, 3, &byte, 1)));
	CHILD_ASSERT(refused(syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
	CHILD_ASSERT(refused(syscall(SYS_mprotect, (uintptr_t)&child_tries_calls & ~4095ul, 4096,
				     PROT_READ | PROT_WRITE | PROT_EXEC)));
	CHILD_ASSERT(refused(syscall(0x40000000 | SYS_openat, AT_FDCWD, "/etc/passwd", 0)));
	CHILD_ASSERT(syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
		     -1);
}

/* The numbers of i386 mean other things: none is looked at. */
static void child_calls_i386(void)
{
	long ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(20) : "memory");
	_exit(0);
}

static void child_looks_at_fds(void)
{
	struct stat st, null;

	CHILD_ASSERT(!fstat(0, &null) && S_ISCHR(null.st_mode));
	CHILD_ASSERT(!fstat(1, &st) && st.st_rdev == null.st_rdev);
	CHILD_ASSERT(!fstat(2, &st) && st.st_rdev == null.st_rdev);
	CHILD_ASSERT(!fstat(3, &st) && S_ISREG(st.st_mode));
	CHILD_ASSERT(!fstat(CHILD_OUT_FD, &st) && S_ISFIFO(st.st_mode));
	for (int fd = CHILD_OUT_FD + 1; fd < 4096; fd++)
		CHILD_ASSERT(fstat(fd, &st) && errno == EBADF);
}

static int *shared;

static void child_writes_shared(void)
{
	*shared = 1;
}

static void child_fails(void)
{
	_exit(100);
}

static void child_crashes(void)
{
	raise(SIGSEGV); /* refused */
	__builtin_trap();
}

static void test_child_is_confined(void **state)
{
	struct dwarf_frames frames;
	int fds[64];

	(void)state;
	assert_int_equal(run_in_child(child_tries_calls, PATIENCE_S, NULL), 0);
	assert_int_equal(run_in_child(child_calls_i386, PATIENCE_S, NULL), -ECHILD);
	assert_int_equal(run_in_child(child_fails, PATIENCE_S, NULL), -ECHILD); /* it can fail */
	assert_int_equal(run_in_child(child_crashes, PATIENCE_S, &frames), -ECHILD);
	assert_int_equal(frames.n, 0);

	for (int i = 0; i < 64; i++)
		fds[i] = open("/dev/zero", i % 2 ? O_RDWR : O_RDONLY | O_CLOEXEC);
	assert_true(fds[63] > 0);
	assert_int_equal(run_in_child(child_looks_at_fds, PATIENCE_S, NULL), 0);
	for (int i = 0; i < 64; i++)
		close(fds[i]);

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_int_equal(run_in_child(child_writes_shared, PATIENCE_S, NULL), -ECHILD);
	assert_int_equal(*shared, 0);
	munmap(shared, 4096);
}

/* The descriptors that the child gets may stand anywhere, also where its own will. */
static void test_low_descriptors(void **state)
{
	(void)state;
	for (int victim = 0; victim < 8; victim++) {
		int saved = fcntl(victim, F_DUPFD_CLOEXEC, 100), status = 0;
		pid_t pid = fork();

		if (!pid) {
			uint64_t vaddr = 0x401000;
			struct dwarf_frames frames;
			int fd;

			for (int low = 0; low < 8; low++)
				if (low <= victim)
					close(low);
			fd = open_fixture("program"); /* now the lowest, 0 */
			dwarf__test_hooks.in_child = child_looks_at_fds;
			_exit(dwarf__resolve(fd, &vaddr, 1, PATIENCE_S, &frames) != 0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		if (saved >= 0)
			close(saved);
	}
}

/* --- the child, held --- */

static void child_waits(void)
{
	static uint32_t word;
	struct timespec limit = {.tv_sec = 30};

	syscall(SYS_futex, &word, FUTEX_WAIT, 0, &limit, NULL, 0);
	_exit(100);
}

/* The child of pid, or 0. */
static pid_t child_of(pid_t pid)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;

	while (!found && (entry = readdir(dir))) {
		char path[300], line[256];
		pid_t candidate = atoi(entry->d_name);
		FILE *f;

		if (candidate <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/status", candidate);
		f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			if (!strncmp(line, "PPid:", 5) && atoi(line + 5) == pid)
				found = candidate;
		if (f)
			fclose(f);
	}
	closedir(dir);
	return found;
}

static bool status_says(const char *status, const char *wanted)
{
	return strstr(status, wanted);
}

/* /proc/PID/status of our child as soon as it is sealed, and its descriptors. */
struct watch {
	char status[8192];
	size_t n_fds;
	char oom[16];
};

static size_t slurp(pid_t pid, const char *name, char *buf, size_t room)
{
	char path[64];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	f = fopen(path, "r");
	if (f) {
		n = fread(buf, 1, room - 1, f);
		fclose(f);
	}
	buf[n] = '\0';
	return n;
}

static void *watch_child(void *arg)
{
	struct watch *watch = arg;
	double end_s = now_s() + 20;
	char path[64];
	pid_t pid = 0;
	DIR *dir;

	while (now_s() < end_s) {
		pid = child_of(getpid());
		if (pid && slurp(pid, "status", watch->status, sizeof(watch->status)) &&
		    strstr(watch->status, "Seccomp:\t2"))
			break;
		poll(NULL, 0, 10);
	}
	slurp(pid, "oom_score_adj", watch->oom, sizeof(watch->oom));
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && readdir(dir))
		watch->n_fds++;
	if (dir)
		closedir(dir);
	kill(pid, SIGKILL);
	return NULL;
}

static void test_child_is_nobody(void **state)
{
	static struct watch watch;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, watch_child, &watch), 0);
	assert_int_equal(run_in_child(child_waits, PATIENCE_S, NULL), -ECHILD);
	pthread_join(thread, NULL);
	assert_true(status_says(watch.status, "Seccomp:\t2\n"));
	assert_true(status_says(watch.status, "NoNewPrivs:\t1\n"));
	assert_true(status_says(watch.status, "CapInh:\t0000000000000000\n"));
	assert_true(status_says(watch.status, "CapPrm:\t0000000000000000\n"));
	assert_true(status_says(watch.status, "CapEff:\t0000000000000000\n"));
	assert_true(status_says(watch.status, "CapAmb:\t0000000000000000\n"));
	assert_true(status_says(watch.status, "Threads:\t1\n"));
	assert_true(status_says(watch.status, "SigBlk:\tfffffffe7ffbfeff\n") ||
		    status_says(watch.status, "SigBlk:\tfffffffc7ffbfeff\n") ||
		    status_says(watch.status, "SigBlk:\tfffffffe3ffbfeff\n"));
	assert_string_equal(watch.oom, "1000\n");
	if (geteuid() == 0) { /* else there is no other user to become */
		assert_true(status_says(watch.status, "Uid:\t65534\t65534\t65534\t65534\n"));
		assert_true(status_says(watch.status, "Gid:\t65534\t65534\t65534\t65534\n"));
		assert_true(status_says(watch.status, "Groups:\t \n"));
		assert_int_equal(watch.n_fds, 2 + 5);
	}
}

static void test_deadline(void **state)
{
	double begin_s = now_s();

	(void)state;
	assert_int_equal(run_in_child(child_waits, 0.3, NULL), -ETIMEDOUT);
	assert_true(now_s() - begin_s >= 0.3);
	assert_true(now_s() - begin_s < 10);
	assert_int_equal(run_in_child(NULL, 0, NULL), -ETIMEDOUT);
	assert_int_equal(run_in_child(NULL, -1, NULL), -ETIMEDOUT);
	assert_int_equal(run_in_child(NULL, 1e300, NULL), 0);
}

static void child_spins(void)
{
	for (;;)
		__asm__ volatile("");
}

static void test_cpu_limit(void **state)
{
	(void)state;
	/* One second of CPU and a bit more is what the child of a patience of 0.9 s gets. */
	assert_int_equal(run_in_child(child_spins, 0.9, NULL), -ETIMEDOUT);
}

/* When the parent is gone, so is the child. */
static void test_parent_dies(void **state)
{
	double end_s = now_s() + 20;
	pid_t parent, child = 0;

	(void)state;
	parent = fork();
	if (!parent) {
		uint64_t vaddr = 0x401000;
		struct dwarf_frames frames;

		dwarf__test_hooks.in_child = child_waits;
		dwarf__resolve(open_fixture("program"), &vaddr, 1, PATIENCE_S, &frames);
		_exit(0);
	}
	while (!child && now_s() < end_s) {
		char status[8192];

		child = child_of(parent);
		if (child && (!slurp(child, "status", status, sizeof(status)) ||
			      !strstr(status, "Seccomp:\t2")))
			child = 0;
		poll(NULL, 0, 10);
	}
	assert_true(child > 0);
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	while (now_s() < end_s) {
		char status[8192];

		if (!slurp(child, "status", status, sizeof(status)) || strstr(status, "State:\tZ"))
			return;
		poll(NULL, 0, 10);
	}
	kill(child, SIGKILL);
	fail_msg("the child outlives its parent");
}

/* Signals that wait for the parent wait for it alone; its mask is as before. */
static void test_signals(void **state)
{
	sigset_t before, after, pending;

	(void)state;
	sigemptyset(&before);
	sigaddset(&before, SIGUSR2);
	sigprocmask(SIG_BLOCK, &before, NULL);
	raise(SIGUSR2);
	assert_int_equal(run_in_child(NULL, PATIENCE_S, NULL), 0);
	sigprocmask(SIG_BLOCK, NULL, &after);
	assert_true(sigismember(&after, SIGUSR2));
	assert_false(sigismember(&after, SIGINT));
	sigpending(&pending);
	assert_true(sigismember(&pending, SIGUSR2));
	signal(SIGUSR2, SIG_IGN);
	sigprocmask(SIG_UNBLOCK, &before, NULL);
	signal(SIGUSR2, SIG_DFL);
}

/* --- the child, lying --- */

static const void *lie;
static size_t lie_len;

static void child_lies(void)
{
	CHILD_ASSERT(write(CHILD_OUT_FD, lie, lie_len) == (ssize_t)lie_len);
	_exit(0);
}

static int run_lie(const void *data, size_t len, struct dwarf_frames *ret)
{
	lie = data;
	lie_len = len;
	return run_in_child(child_lies, PATIENCE_S, ret);
}

static void child_talks_forever(void)
{
	/* One record whose frame never ends, then the same in sound pieces. */
	static uint32_t frame[65536];

	for (;;)
		CHILD_ASSERT(write(CHILD_OUT_FD, frame, sizeof(frame)) == sizeof(frame));
}

static void test_lies(void **state)
{
	static const struct {
		uint32_t words[8];
		size_t len;
	} lies[] = {
		{{1, 1, 7, UINT32_MAX, UINT32_MAX}, 20}, /* an address too many */
		{{UINT32_MAX, 1, 7, UINT32_MAX, UINT32_MAX}, 20},
		{{0, 0}, 8},  /* no frames */
		{{0, 65}, 8}, /* too many */
		{{0, UINT32_MAX}, 8},
		{{0, 1, 7, 4097, UINT32_MAX}, 20}, /* too long a name */
		{{0, 1, 7, UINT32_MAX - 1, UINT32_MAX}, 20},
		{{0, 1, 7, 4096, UINT32_MAX}, 20}, /* cut short */
		{{0, 2, 7, UINT32_MAX, UINT32_MAX}, 20},
		{{0, 1, 7}, 12},
		{{0}, 4},
	};
	static const uint32_t twice[] = {0, 1, 7, UINT32_MAX, UINT32_MAX,
					 0, 1, 8, UINT32_MAX, UINT32_MAX};
	struct {
		uint32_t words[5];
		char function[4], file[5];
	} __attribute__((packed)) dirty = {{0, 1, 9, 4, 5}, {'a', '\n', '\033', 'b'}, {0}};
	struct dwarf_frames frames;

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		assert_int_equal(run_lie(lies[i].words, lies[i].len, &frames), -ECHILD);
		assert_int_equal(frames.n, 0);
	}
	/* What was sound before is kept. */
	assert_int_equal(run_lie(twice, sizeof(twice), &frames), -ECHILD);
	assert_int_equal(frames.n, 1);
	assert_int_equal(frames.frames[0].line, 7);
	assert_null(frames.frames[0].function);
	dwarf_frames__free(&frames, 1);

	memcpy(dirty.file, "f\0g\xff", 5);
	assert_int_equal(run_lie(&dirty, sizeof(dirty), &frames), 0);
	assert_string_equal(frames.frames[0].function, "a??b");
	assert_string_equal(frames.frames[0].file, "f");
	dwarf_frames__free(&frames, 1);

	assert_int_equal(run_in_child(child_talks_forever, PATIENCE_S, NULL), -ECHILD);
}

/* --- hostile files --- */

static char *read_fixture(const char *name, size_t *ret_len)
{
	int fd = open_fixture(name);
	struct stat st;
	char *data;

	assert_int_equal(fstat(fd, &st), 0);
	data = malloc((size_t)st.st_size);
	assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
	close(fd);
	*ret_len = (size_t)st.st_size;
	return data;
}

static Elf64_Shdr *section_headers(char *data, size_t *ret_n)
{
	Elf64_Ehdr *elf = (Elf64_Ehdr *)data;

	*ret_n = elf->e_shnum;
	return (Elf64_Shdr *)(data + elf->e_shoff);
}

static Elf64_Shdr *find_header(char *data, const char *name)
{
	size_t n;
	Elf64_Shdr *headers = section_headers(data, &n);
	const char *names = data + headers[((Elf64_Ehdr *)data)->e_shstrndx].sh_offset;

	for (size_t i = 0; i < n; i++)
		if (!strcmp(names + headers[i].sh_name, name))
			return &headers[i];
	return NULL;
}

static uint64_t random_state = 0x9e3779b97f4a7c15ull;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Resolves what may be anything: any outcome is good that comes in time and leaves nothing behind.
 */
static int use(const char *name, const uint64_t *vaddrs, size_t n, struct dwarf_frames *frames)
{
	size_t fds = count_fds();
	double begin_s = now_s();
	int err = resolve_for(name, vaddrs, n, 2, frames);

	assert_true(err == 0 || err == -ENODATA || err == -ETIMEDOUT || err == -ECHILD);
	assert_true(now_s() - begin_s < 15);
	for (size_t i = 0; i < n; i++) {
		assert_true(frames[i].n <= DWARF_MAX_FRAMES);
		for (size_t k = 0; k < frames[i].n; k++) {
			const struct dwarf_frame *frame = &frames[i].frames[k];

			assert_true(!frame->function || strlen(frame->function) <= 4096);
			assert_true(!frame->file || strlen(frame->file) <= 4096);
		}
	}
	dwarf_frames__free(frames, n);
	assert_no_child();
	assert_int_equal(count_fds(), fds);
	return err;
}

static void mutate(const char *name, const char *const *sections, int rounds)
{
	struct dwarf_frames *frames = calloc(MAX_ADDRESSES, sizeof(*frames));
	uint64_t *vaddrs = calloc(MAX_ADDRESSES, sizeof(*vaddrs));
	size_t n = text_addresses(name, 3, vaddrs), len, outcomes[2] = {0};
	char *good = read_fixture(name, &len), *bad = malloc(len);

	for (int round = 0; round < rounds; round++) {
		memcpy(bad, good, len);
		for (size_t i = 0; sections[i]; i++) {
			const Elf64_Shdr *header = find_header(good, sections[i]);

			if (!header || !header->sh_size || next_random() % 2)
				continue;
			for (int k = 0; k < 1 + round % 8; k++) {
				static const char values[] = {0, 1, 0x7f, (char)0x80, (char)0xff};
				uint64_t x = next_random();
				size_t at = x % header->sh_size, width = (x >> 40) % 3 ? 1 : 4;

				if (at + width > header->sh_size)
					continue;
				if ((x >> 50) % 2)
					bad[header->sh_offset + at] ^= (char)(1 << (x >> 56) % 8);
				else
					memset(bad + header->sh_offset + at,
					       values[(x >> 56) % sizeof(values)], width);
			}
		}
		if (round % 10 == 0) { /* lies about sizes */
			Elf64_Shdr *header = find_header(bad, sections[0]);

			header->sh_size =
				round % 20 ? header->sh_size / 2 : UINT64_MAX >> round % 60;
		}
		assert_true(
			fixture_write("bad", bad, round % 15 == 14 ? next_random() % len : len));
		outcomes[use("bad", vaddrs, n, frames) == 0]++;
	}
	assert_true(outcomes[1] > 0); /* the mutations let something through to be read */
	free(bad);
	free(good);
	free(frames);
	free(vaddrs);
}

static const char *const dwarf_sections[] = {
	".debug_info",	   ".debug_abbrev",   ".debug_line",	    ".debug_str",  ".debug_ranges",
	".debug_rnglists", ".debug_line_str", ".debug_str_offsets", ".debug_addr", NULL};
static const char *const info_only[] = {".debug_info", NULL};
static const char *const abbrev_only[] = {".debug_abbrev", NULL};
static const char *const line_only[] = {".debug_line", NULL};

static void test_mutated(void **state)
{
	(void)state;
	compile("gcc", "-gdwarf-5", "victim");
	mutate("victim", dwarf_sections, 120);
	mutate("victim", info_only, 80);
	mutate("victim", abbrev_only, 60);
	mutate("victim", line_only, 80);
	compile("clang", "-gdwarf-4", "victim");
	mutate("victim", dwarf_sections, 80);
	compile("gcc", "-g -gz=zlib", "victim");
	mutate("victim", dwarf_sections, 60);
}

/* Section headers that lie to our own reader. */
static void test_mutated_headers(void **state)
{
	uint64_t vaddr = 0x401000;
	struct dwarf_frames frames;
	size_t len;
	char *good = read_fixture("program", &len), *bad = malloc(len);
	uint64_t shoff = ((Elf64_Ehdr *)good)->e_shoff;

	(void)state;
	for (int round = 0; round < 300; round++) {
		memcpy(bad, good, len);
		for (int k = 0; k < 1 + round % 4; k++) {
			uint64_t x = next_random();
			size_t at = x % 2 ? 16 + (x >> 8) % 48 : shoff + (x >> 8) % (len - shoff);

			bad[at] = (char)(x >> 32);
		}
		if (round % 30 == 0) { /* a count in section 0, as large as it can be */
			((Elf64_Ehdr *)bad)->e_shnum = 0;
			((Elf64_Shdr *)(bad + shoff))->sh_size = UINT64_MAX;
		}
		assert_true(fixture_write("bad", bad, len));
		use("bad", &vaddr, 1, &frames);
	}
	free(bad);
	free(good);
}

/* Ranges that hold all addresses, again and again: work that only the deadline ends. */
static void test_endless(void **state)
{
	static const char source[] = ".text\n.globl _start\n_start: .skip 40000\n"
				     ".section .debug_abbrev\n"
				     /* compile_unit: low_pc, addr; ranges, sec_offset */
				     ".byte 1, 0x11, 0, 0x11, 1, 0x55, 0x17, 0, 0, 0\n"
				     ".section .debug_info\n"
				     ".long 3f - 2f\n2: .short 4\n.long 0\n.byte 8\n"
				     ".byte 1\n.quad 0\n.long 0\n3:\n"
				     ".section .debug_ranges\n"
				     ".rept 1000000\n.quad 2, 0x7fffffffffff\n.endr\n"
				     ".quad 0, 0\n";
	struct dwarf_frames *frames = calloc(MAX_ADDRESSES, sizeof(*frames));
	uint64_t *vaddrs = calloc(MAX_ADDRESSES, sizeof(*vaddrs));
	double begin_s;
	size_t n;

	(void)state;
	assert_true(fixture_write("e.s", source, strlen(source)));
	assert_true(fixture_run("as -o e.o e.s && ld -o endless e.o"));
	n = text_addresses("endless", 1, vaddrs);
	assert_int_equal(n, MAX_ADDRESSES);
	begin_s = now_s();
	assert_int_equal(resolve_for("endless", vaddrs, n, 0.5, frames), -ETIMEDOUT);
	assert_true(now_s() - begin_s < 10);
	dwarf_frames__free(frames, n);
	free(frames);
	free(vaddrs);
	assert_no_child();
}

/* A compressed section that says it holds far more than there may be. */
static void test_bomb(void **state)
{
	uint64_t vaddr = 0x401000;
	struct dwarf_frames frames;
	Elf64_Shdr *header;
	size_t len;
	char *data;

	(void)state;
	assert_true(fixture_run("objcopy --compress-debug-sections=zlib program bomb"));
	data = read_fixture("bomb", &len);
	header = find_header(data, ".debug_info");
	assert_true(header->sh_flags & SHF_COMPRESSED);
	((Elf64_Chdr *)(data + header->sh_offset))->ch_size = 1ull << 45;
	assert_true(fixture_write("bomb", data, len));
	free(data);
	use("bomb", &vaddr, 1, &frames);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_c),
		cmocka_unit_test(test_cxx),
		cmocka_unit_test(test_link_time),
		cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_separate),
		cmocka_unit_test(test_directories),
		cmocka_unit_test(test_assembly),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_dwz),
		cmocka_unit_test(test_present),
		cmocka_unit_test(test_child_is_confined),
		cmocka_unit_test(test_low_descriptors),
		cmocka_unit_test(test_child_is_nobody),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_cpu_limit),
		cmocka_unit_test(test_parent_dies),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_mutated),
		cmocka_unit_test(test_mutated_headers),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_bomb),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
