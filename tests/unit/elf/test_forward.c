// SPDX-License-Identifier: BSD-2-Clause
/* Functions of this program, with the instructions into which GCC compiles PyObject_Free. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "elf/forward.h"

#define FUNCTION(name, body)                                                                       \
	".globl " name "\n.type " name ", @function\n" name ":\n" body ".size " name ", . - " name \
	"\n"

#define JUMPS(name, table)                                                                         \
	FUNCTION(name, "mov %rdi, %rsi\nmov " table "(%rip), %rdi\njmp *" table "+32(%rip)\n")

__asm__(".data\n.balign 8\n"
	"table: .zero 40\ncopied_table: .zero 40\nusual_table: .zero 40\n.text\n" JUMPS("alone",
											"table")
		JUMPS("copied", "copied_table") JUMPS("copy1", "copied_table")
			JUMPS("copy2", "copied_table") JUMPS("copy3", "copied_table")
				JUMPS("copy4", "copied_table")
	/* as with -fPIC, if the table is an exported symbol */
	FUNCTION("through_got", "mov table(%rip), %rax\nmov %rdi, %rsi\nmov 176(%rax), %rdi\n"
				"jmp *208(%rax)\n")
	/* without optimization */
	FUNCTION("calls", "push %rbp\nsub $16, %rsp\nmov table+32(%rip), %rdx\nmov %rdi, %rsi\n"
			  "call *%rdx\nleave\nret\n")
	/* with -fprofile-use: the address is an immediate, or relative to rip in a library */
	FUNCTION("guided", "mov usual_table+32(%rip), %rax\nmov usual_table(%rip), %rdx\n"
			   "cmp $0x500fe0, %rax\njne 1f\nret\n1: jmp *%rax\n")
		FUNCTION("guided_pic", "mov usual_table+32(%rip), %rax\nlea alone(%rip), %rcx\n"
				       "cmp %rcx, %rax\njne 1f\nret\n1: jmp *%rax\n")
			FUNCTION("guided_pic2",
				 "mov usual_table+32(%rip), %rax\nlea alone(%rip), %rcx\n"
				 "cmp %rax, %rcx\njne 1f\nret\n1: jmp *%rax\n")
				FUNCTION("direct", "mov %rdi, %rsi\njmp alone\n") FUNCTION(
					"tests",
					"test %rdi, %rdi\nje 1f\njmp *table(%rip)\n1: ret\n")
					FUNCTION("endless",
						 ".rept 32\nnop\n.endr\njmp *table(%rip)\n")
						FUNCTION("broken", ".byte 0x06\n"));

extern const char alone[], copied[], through_got[], calls[], guided[], guided_pic[], guided_pic2[],
	direct[], tests[], endless[], broken[];
extern const char table[], copied_table[], usual_table[];

static struct elf_image *image;
static uint64_t bias;

static int open_self(void **state)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_symbol symbol;

	(void)state;
	if (elf_image__open(fd, "self", NULL, &image, NULL) ||
	    elf_image__find_function(image, "alone", &symbol))
		return -1;
	bias = (uintptr_t)alone - symbol.vaddr;
	return 0;
}

static int close_self(void **state)
{
	(void)state;
	elf_image__free(image);
	return 0;
}

static void check(const char *function, const char *slot, uint64_t usual, bool is_copied)
{
	struct forward forward;

	assert_int_equal(forward__read(image, (uintptr_t)function - bias, &forward), 0);
	assert_int_equal(forward.slot, slot ? (uintptr_t)slot - bias : 0);
	assert_int_equal(forward.usual, usual);
	assert_int_equal(forward.copied, is_copied);
}

static void each_call_arrives(void **state)
{
	(void)state;
	check(alone, table + 32, 0, false);
	check(through_got, NULL, 0, false);
	check(calls, table + 32, 0, false);
}

static void copies_are_noticed(void **state)
{
	(void)state;
	check(copied, copied_table + 32, 0, true);
	check(guided, usual_table + 32, 0x500fe0, true);
	check(guided_pic, usual_table + 32, (uintptr_t)alone - bias, true);
	check(guided_pic2, usual_table + 32, (uintptr_t)alone - bias, true);
}

static void other_functions_are_not_taken(void **state)
{
	const char *const functions[] = {direct, tests, endless, broken, table};
	struct forward forward;

	(void)state;
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		assert_int_equal(forward__read(image, (uintptr_t)functions[i] - bias, &forward),
				 -ENOENT);
}

/* Function A passes its calls on to function B. If A was compiled with a profile, A may hold a copy
 * of B. Then A contains the address of B, or jumps to B. */
static void addresses_in_code_are_found(void **state)
{
	const uint64_t target = (uintptr_t)alone - bias;

	(void)state;
	assert_true(forward__mentions(image, (uintptr_t)guided_pic - bias, 25, target));
	assert_true(forward__mentions(image, (uintptr_t)guided - bias, 25, 0x500fe0));
	assert_true(forward__mentions(image, (uintptr_t)direct - bias, 5, target));
	assert_false(forward__mentions(image, (uintptr_t)copied - bias, 16, target));
	assert_false(forward__mentions(image, (uintptr_t)guided - bias, 25, target));
	/* code that cannot be read may contain the address */
	assert_true(forward__mentions(image, (uintptr_t)broken - bias, 1, target));
	assert_true(forward__mentions(image, (uintptr_t)table - bias, 8, target));
}

int main(void)
{
	const struct CMUnitTest list[] = {
		cmocka_unit_test(each_call_arrives),
		cmocka_unit_test(copies_are_noticed),
		cmocka_unit_test(other_functions_are_not_taken),
		cmocka_unit_test(addresses_in_code_are_found),
	};

	return cmocka_run_group_tests(list, open_self, close_self);
}
