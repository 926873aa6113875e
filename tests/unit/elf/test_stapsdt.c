// SPDX-License-Identifier: BSD-2-Clause
/* Markers as <sys/sdt.h> writes them, in files that are made here, and broken notes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "assembled.h"
#include "base/cleanup.h"
#include "elf/stapsdt.h"

/* NOTE(place, base, semaphore, provider, name, arguments); "here_1" and so on are functions, so
 * that the tests can find the places. */
static const char source[] =
	"#define NOTE(at, from, counter, provider, name, arguments) \\\n"
	" .pushsection .note.stapsdt,\"?\",\"note\"; .balign 4; \\\n"
	" .4byte 992f-991f, 994f-993f, 3; \\\n"
	" 991: .asciz \"stapsdt\"; 992: .balign 4; \\\n"
	" 993: .8byte at, from, counter; .asciz provider, name, arguments; 994: .balign 4; \\\n"
	" .popsection\n"
	"#define MARK(n) .globl here_##n; .type here_##n, @function; here_##n: nop\n"
	"#ifndef MOVED\n#define MOVED 0\n#endif\n"
	"#define BASE _.stapsdt.base - MOVED\n"
	".text\n.globl _start\n_start:\n"
	"MARK(1); NOTE(here_1 - MOVED, BASE, counter - MOVED, \"mine\", \"alloc\", \"8@%rdi\")\n"
	"MARK(2); NOTE(here_2 - MOVED, BASE, 0, \"other\", \"alloc\", \"4@$1\")\n"
	"MARK(3); NOTE(here_3 - MOVED, BASE, 0, \"mine\", \"free\", \"\")\n"
	"#ifdef EXTRA\n"
	".pushsection .note.stapsdt,\"?\",\"note\"\n EXTRA\n .popsection\n"
	"MARK(4); NOTE(here_4 - MOVED, BASE, 0, \"mine\", \"last\", \"\")\n"
	"#endif\n"
	" ret\n"
	".section .stapsdt.base,\"a\",\"progbits\"\n_.stapsdt.base: .space 1\n"
	".section .probes,\"aw\",\"progbits\"\n.balign 2\ncounter: .2byte 0\n"
	".globl here_counter; .type here_counter, @function; here_counter = counter\n";

static int make_dir(void **state)
{
	(void)state;
	return assemble_from(source);
}

static struct elf_image *make(const char *options)
{
	return assemble("-static", options);
}

struct found {
	const char *provider;
	size_t n, stop_at;
	char names[8][32], arguments[8][32];
	uint64_t vaddr[8], semaphore[8];
};

static int note(const struct stapsdt_marker *marker, void *ctx)
{
	struct found *f = ctx;

	assert_true(f->n < 8);
	snprintf(f->names[f->n], 32, "%s", marker->name);
	snprintf(f->arguments[f->n], 32, "%s", marker->arguments);
	f->vaddr[f->n] = marker->vaddr;
	f->semaphore[f->n] = marker->semaphore;
	return ++f->n == f->stop_at ? 7 : 0;
}

static void check_two(const char *options)
{
	struct elf_image *image = make(options);
	struct found f = {};

	assert_int_equal(stapsdt__each(image, "mine", note, &f), 0);
	assert_int_equal(f.n, 2);
	assert_string_equal(f.names[0], "alloc");
	assert_string_equal(f.arguments[0], "8@%rdi");
	assert_int_equal(f.vaddr[0], symbol(image, "here_1"));
	assert_int_equal(f.semaphore[0], symbol(image, "here_counter"));
	assert_string_equal(f.names[1], "free");
	assert_string_equal(f.arguments[1], "");
	assert_int_equal(f.vaddr[1], symbol(image, "here_3"));
	assert_int_equal(f.semaphore[1], 0);
	elf_image__free(image);
}

static void finds_a_providers_markers(void **state)
{
	(void)state;
	check_two("");
}

/* The notes keep the old addresses. Only the section of the base tells by how much all addresses
 * have moved. */
static void follows_a_moved_base(void **state)
{
	(void)state;
	check_two("-DMOVED=0x7000");
	check_two("-DMOVED=-0x7000");
}

static void finds_none_of_another_provider(void **state)
{
	struct elf_image *image = make("");
	struct found f = {};

	(void)state;
	assert_int_equal(stapsdt__each(image, "min", note, &f), 0);
	assert_int_equal(f.n, 0);
	elf_image__free(image);
}

static void finds_none_without_notes(void **state)
{
	_cleanup_close_ int fd = -1;
	struct elf_image *image;
	struct found f = {};
	char path[64];

	(void)state;
	elf_image__free(make(""));
	shell_run(dir, "objcopy -R .note.stapsdt x bare");
	snprintf(path, sizeof(path), "%s/bare", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(elf_image__open(fd, path, NULL, &image, NULL), 0);
	assert_int_equal(stapsdt__each(image, "mine", note, &f), 0);
	assert_int_equal(f.n, 0);
	elf_image__free(image);
}

/* strip keeps the notes, but removes all symbols. */
static void finds_them_in_a_stripped_file(void **state)
{
	struct elf_image *image = make("-s");
	struct found f = {};

	(void)state;
	assert_int_equal(stapsdt__each(image, "mine", note, &f), 0);
	assert_int_equal(f.n, 2);
	elf_image__free(image);
}

static void stops_when_told(void **state)
{
	struct elf_image *image = make("");
	struct found f = {.stop_at = 1};

	(void)state;
	assert_int_equal(stapsdt__each(image, "mine", note, &f), 7);
	assert_int_equal(f.n, 1);
	elf_image__free(image);
}

/* Notes after a broken one cannot be found. Notes of other kinds are skipped. */
static void reads_up_to_a_broken_note(void **state)
{
	static const struct {
		const char *extra;
		size_t n;
	} cases[] = {
		/* of another owner, of another type */
		{".4byte 4,4,3; .asciz \\\"abc\\\"; .4byte 0", 3},
		{".4byte 8,4,4; .asciz \\\"stapsdt\\\"; .4byte 0", 3},
		/* lengths beyond the end, and beyond 2^32 together */
		{".4byte 8,0x7fffffff,3; .asciz \\\"stapsdt\\\"", 2},
		{".4byte 0xffffffff,0xffffffff,3", 2},
		/* shorter than its three addresses; texts without an end; one text only */
		{".4byte 8,20,3; .asciz \\\"stapsdt\\\"; .zero 20", 2},
		{".4byte 8,28,3; .asciz \\\"stapsdt\\\"; .zero 24; .ascii \\\"mine\\\"", 2},
		{".4byte 8,32,3; .asciz \\\"stapsdt\\\"; .zero 24; .asciz \\\"mine\\\"; "
		 ".ascii \\\"abc\\\"",
		 2},
		{".4byte 8,24,3; .asciz \\\"stapsdt\\\"; .zero 24", 2},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct elf_image *image;
		struct found f = {};
		char options[256];

		snprintf(options, sizeof(options), "-DEXTRA=\"%s\"", cases[i].extra);
		image = make(options);
		assert_int_equal(stapsdt__each(image, "mine", note, &f), 0);
		if (f.n != cases[i].n)
			fail_msg("%s: %zu markers", cases[i].extra, f.n);
		elf_image__free(image);
	}
}

static void refuses_a_huge_section(void **state)
{
	struct found f = {};
	struct elf_image *image;

	(void)state;
	image = make("-DEXTRA='.zero 20000000'");
	assert_int_equal(stapsdt__each(image, "mine", note, &f), -ENOEXEC);
	assert_int_equal(f.n, 0);
	elf_image__free(image);
}

static struct stapsdt_argument one(const char *text)
{
	struct stapsdt_argument a = {};

	if (stapsdt__parse(text, &a, 1) != 1)
		fail_msg("not understood: %s", text);
	return a;
}

static void check_argument(const char *text, struct stapsdt_argument want)
{
	struct stapsdt_argument a = one(text);

	if (a.kind != want.kind || a.base != want.base || a.index != want.index ||
	    a.shift != want.shift || a.bytes != want.bytes || a.is_signed != want.is_signed ||
	    a.value != want.value)
		fail_msg("%s: kind %d, base %u, index %u, shift %u, %u bytes, signed %d, %" PRId64,
			 text, a.kind, a.base, a.index, a.shift, a.bytes, a.is_signed, a.value);
}

#define ARGUMENT(...) ((struct stapsdt_argument){__VA_ARGS__})

static void reads_operands(void **state)
{
	(void)state;
	check_argument("8@%rdi", ARGUMENT(STAPSDT_REGISTER, 1, .bytes = 8));
	check_argument("-4@%r9d", ARGUMENT(STAPSDT_REGISTER, 6, .bytes = 4, .is_signed = true));
	check_argument("1@%bpl", ARGUMENT(STAPSDT_REGISTER, 15, .bytes = 1));
	check_argument("2@%sp", ARGUMENT(STAPSDT_REGISTER, STAPSDT_RSP, .bytes = 2));
	check_argument("8@%r15", ARGUMENT(STAPSDT_REGISTER, 14, .bytes = 8));
	check_argument("8@$5", ARGUMENT(STAPSDT_CONSTANT, .bytes = 8, .value = 5));
	check_argument("-8@$-1",
		       ARGUMENT(STAPSDT_CONSTANT, .bytes = 8, .is_signed = true, .value = -1));
	check_argument("8@$0xfF", ARGUMENT(STAPSDT_CONSTANT, .bytes = 8, .value = 255));
	check_argument("-4@-20(%rbp)",
		       ARGUMENT(STAPSDT_MEMORY, 15, .bytes = 4, .is_signed = true, .value = -20));
	check_argument("8@(%rax)", ARGUMENT(STAPSDT_MEMORY, 7, .bytes = 8));
	check_argument("8@16(%rsp)",
		       ARGUMENT(STAPSDT_MEMORY, STAPSDT_RSP, .bytes = 8, .value = 16));
	check_argument("8@8(%rbx,%r12,4)",
		       ARGUMENT(STAPSDT_MEMORY, 10, 11, 2, .bytes = 8, .value = 8));
	check_argument("8@(%rax,%rdx)", ARGUMENT(STAPSDT_MEMORY, 7, 3, .bytes = 8));
	check_argument("8@0x10(,%rcx,8)",
		       ARGUMENT(STAPSDT_MEMORY, 0, 4, 3, .bytes = 8, .value = 16));
	check_argument("8@$18446744073709551615",
		       ARGUMENT(STAPSDT_CONSTANT, .bytes = 8, .value = -1));
}

static void reads_lists(void **state)
{
	struct stapsdt_argument a[3];

	(void)state;
	assert_int_equal(stapsdt__parse("", a, 3), 0);
	assert_int_equal(stapsdt__parse("   ", a, 3), 0);
	assert_int_equal(stapsdt__parse("8@%r12 8@%rbx  8@$7 ", a, 3), 3);
	assert_int_equal(a[0].base, 11);
	assert_int_equal(a[1].base, 10);
	assert_int_equal(a[2].value, 7);
	assert_int_equal(stapsdt__parse("8@%r12 8@%rbx", a, 1), -E2BIG);
}

static void refuses_what_it_does_not_understand(void **state)
{
	static const char *const texts[] = {
		"8",
		"8@",
		"@%rdi",
		"x@%rdi",
		"3@%rdi",
		"16@%xmm0",
		"0@%rdi",
		"8@%xmm0",
		"1@%ah",
		"8@%",
		"8@rdi",
		"8@%rdii",
		"8@%r16",
		"8@$",
		"8@$x",
		"8@counter(%rip)",
		"8@8(%rip)",
		"8@counter",
		"8@8",
		"8@(",
		"8@()",
		"8@(%rax",
		"8@(%eax)",
		"8@(%rax,)",
		"8@(%rax,%rsp)",
		"8@(%rax,%rbx,3)",
		"8@(%rax,%rbx,)",
		"8@(%rax)x",
		"8@%rdi,8@%rsi",
		"8@%fs:0",
		"8@$--1",
		"8@$0x",
		"8@%rdi 8@",
		"-9223372036854775808@%rdi",
		"8@$18446744073709551616",
		"8@99999999999999999999(%rax)",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct stapsdt_argument a[2] = {};

		if (stapsdt__parse(texts[i], a, 2) != -EINVAL)
			fail_msg("understood: %s", texts[i]);
		assert_int_equal(a[0].bytes, 0); /* nothing is written */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_a_providers_markers),
		cmocka_unit_test(follows_a_moved_base),
		cmocka_unit_test(finds_none_of_another_provider),
		cmocka_unit_test(finds_none_without_notes),
		cmocka_unit_test(finds_them_in_a_stripped_file),
		cmocka_unit_test(stops_when_told),
		cmocka_unit_test(reads_up_to_a_broken_note),
		cmocka_unit_test(refuses_a_huge_section),
		cmocka_unit_test(reads_operands),
		cmocka_unit_test(reads_lists),
		cmocka_unit_test(refuses_what_it_does_not_understand),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
