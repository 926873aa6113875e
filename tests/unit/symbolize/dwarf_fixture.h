/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs with marks that record their own lines, and functions that call the DWARF reader.
 * Include after cmocka.h. */
#ifndef TESTS_UNIT_SYMBOLIZE_DWARF_FIXTURE_H
#define TESTS_UNIT_SYMBOLIZE_DWARF_FIXTURE_H

#include "symbolize/dwarf.h"

#include "child_fixture.h"
#include "fixture.h"

#define PATIENCE_S    60.0
#define MAX_ADDRESSES 40000

static inline int resolve_for(const char *name, const uint64_t *vaddrs, size_t n, double patience_s,
			      struct dwarf_frames *ret)
{
	int fd = open_fixture(name), err;

	err = dwarf__resolve(fd, vaddrs, n, patience_s, NULL, ret);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC); /* the caller still owns fd */
	close(fd);
	return err;
}

static inline int resolve(const char *name, const uint64_t *vaddrs, size_t n,
			  struct dwarf_frames *ret)
{
	return resolve_for(name, vaddrs, n, PATIENCE_S, ret);
}

static inline FILE *open_pipe(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static inline FILE *open_pipe(const char *fmt, ...)
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

/* MARK records its line and function with the address of each copy that the compiler makes. */
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

/* Writes the sources and compiles the C source to "program". */
static inline int setup(void **state)
{
	if (fixture_setup(state) || !fixture_run("mkdir sub") ||
	    !fixture_write("sub/mark.h", mark_header, strlen(mark_header)) ||
	    !fixture_write("sub/inline.h", inline_header, strlen(inline_header)) ||
	    !fixture_write("p.c", c_source, strlen(c_source)) ||
	    !fixture_write("p.cc", cxx_source, strlen(cxx_source)))
		return -1;
	return fixture_run("gcc -O2 -g -no-pie -o program p.c") ? 0 : -1;
}

/* Compiles p.c or p.cc, by the language of the compiler. */
static inline void compile(const char *compiler, const char *flags, const char *name)
{
	bool cxx = strstr(compiler, "++");

	assert_true(fixture_run("%s -O2 -no-pie %s %s -o %s p.%s", compiler,
				cxx ? "-DINLINE_MEMBER='__attribute__((always_inline))'" : "",
				flags, name, cxx ? "cc" : "c"));
}

/* Fills in every step-th address of .text. */
static inline size_t text_addresses(const char *name, uint64_t step, uint64_t *vaddrs)
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

#endif
