// SPDX-License-Identifier: BSD-2-Clause
/* Finds the exits of functions written for this test, and of the real operators new of allocators.
 * For the operators new, objdump confirms each ret instruction. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "elf/exits.h"

#define FUNCTION(name, body)                                                                       \
	".globl " name "\n.type " name ", @function\n" name ":\n.cfi_startproc\n" body             \
	".cfi_endproc\n.size " name ", . - " name "\n"

/* Labels of the form NAME_ret are at the exits. */
__asm__(".text\n" FUNCTION(
	"plain",
	"test %edi, %edi\nje 1f\nplain_ret: ret\n1: nop\nplain_ret2: "
	"ret\n") FUNCTION("framed",
			  "push %rbx\n.cfi_adjust_cfa_offset 8\ncall plain\npop %rbx\n"
			  ".cfi_adjust_cfa_offset -8\nframed_ret: rep ret\n") FUNCTION("jumper",
										       "cmp $1, "
										       "%edi\nja "
										       "framed\njmp "
										       "plain\n")
		FUNCTION("loop", "1: dec %edi\njnz 1b\nloop_ret: ret $8\n") FUNCTION(
			"thrower",
			"test %edi, %edi\njne 1f\nthrower_ret: ret\n1: push %rbx\n"
			".cfi_adjust_cfa_offset 8\ncall abort@plt\n") "ud2\n" FUNCTION("mover",
										       "mov %rdi, "
										       "%rdx\nxor "
										       "%esi, "
										       "%esi\njmp "
										       "stage\n")
			FUNCTION("stage", "mov %rdx, %rdi\njmp plain\n") FUNCTION("computed",
										  "jmp *%rax\n")
				FUNCTION("unbalanced",
					 "push %rbx\n.cfi_adjust_cfa_offset "
					 "8\nret\n") FUNCTION("endless", "1: jmp 1b\n")
					FUNCTION("unknown",
						 "test %edi, %edi\nje 1f\nret\n1: .byte "
						 "0x06\n") ".globl bare\n.type bare, "
							   "@function\nbare: ret\n.size "
							   "bare, . - bare\n" FUNCTION(
								   "to_bare", "jmp bare\n"));

extern const char plain[], framed[], jumper[], loop[], thrower[], mover[], stage[], computed[],
	unbalanced[], endless[], unknown[], to_bare[];
extern const char plain_ret[], plain_ret2[], framed_ret[], loop_ret[], thrower_ret[];

static struct elf_image *image;
static struct unwind_table *table;
static uint64_t bias;

static int open_self(void **state)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_symbol symbol;

	(void)state;
	if (elf_image__open(fd, "self", NULL, &image, NULL) ||
	    unwind_table__build(image, 0, &table, NULL) ||
	    elf_image__find_function(image, "plain", &symbol))
		return -1;
	bias = (uintptr_t)plain - symbol.vaddr;
	return 0;
}

static int close_self(void **state)
{
	(void)state;
	unwind_table__free(table);
	elf_image__free(image);
	return 0;
}

static bool has(const struct exits *exits, const char *mark)
{
	for (size_t i = 0; i < exits->n; i++)
		if (exits->vaddrs[i] == (uintptr_t)mark - bias)
			return true;
	return false;
}

static void check(const char *function, size_t n, const char *const *marks)
{
	struct exits exits;

	if (exits__find(image, table, (uintptr_t)function - bias, &exits))
		fail_msg("%s", exits.why);
	assert_int_equal(exits.n, n);
	for (size_t i = 0; i < n; i++)
		assert_true(has(&exits, marks[i]));
}

static void exits_are_found(void **state)
{
	(void)state;
	check(plain, 2, (const char *const[]){plain_ret, plain_ret2});
	check(framed, 1, (const char *const[]){framed_ret});
	check(loop, 1, (const char *const[]){loop_ret});
	check(thrower, 1, (const char *const[]){thrower_ret});
}

static void tail_jumps_are_followed(void **state)
{
	uint64_t stages[EXITS_MAX_STAGES];

	(void)state;
	check(jumper, 3, (const char *const[]){framed_ret, plain_ret, plain_ret2});
	check(mover, 2, (const char *const[]){plain_ret, plain_ret2});
	assert_int_equal(exits__hand_over(image, (uintptr_t)mover - bias, stages, EXITS_MAX_STAGES),
			 2);
	assert_int_equal(stages[0], (uintptr_t)stage - bias);
	assert_int_equal(stages[1], (uintptr_t)plain - bias);
	assert_int_equal(
		exits__hand_over(image, (uintptr_t)jumper - bias, stages, EXITS_MAX_STAGES), 0);
	/* a circle of jumps is followed until the array is full */
	assert_int_equal(
		exits__hand_over(image, (uintptr_t)endless - bias, stages, EXITS_MAX_STAGES),
		EXITS_MAX_STAGES);
}

static void what_cannot_be_followed_is_refused(void **state)
{
	static const struct {
		const char *function, *why;
	} wanted[] = {
		{computed, "unknown place"},
		{unbalanced, "unwind table"},
		{endless, "no ret"},
		{unknown, "does not decode"},
		{to_bare, "no unwind information"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		struct exits exits;

		assert_int_equal(
			exits__find(image, table, (uintptr_t)wanted[i].function - bias, &exits),
			-ENOTSUP);
		assert_int_equal(exits.n, 0);
		if (!strstr(exits.why, wanted[i].why))
			fail_msg("'%s' instead of '%s'", exits.why, wanted[i].why);
	}
}

/* Does objdump see a ret at vaddr? */
static bool is_ret(const char *path, uint64_t vaddr)
{
	char command[512], line[512];
	bool found = false;
	FILE *out;

	snprintf(command, sizeof(command),
		 "objdump -d --no-show-raw-insn --start-address=%#llx --stop-address=%#llx %s",
		 (unsigned long long)vaddr - 64, (unsigned long long)vaddr + 1, path);
	out = popen(command, "r");
	assert_non_null(out);
	while (fgets(line, sizeof(line), out))
		if (strtoull(line, NULL, 16) == vaddr && strstr(line, "\tret"))
			found = true;
	pclose(out);
	return found;
}

static void real_operators_new(void **state)
{
	static const char *const files[] = {
		"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
		"/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4",
		"/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
		"/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0",
	};
	static const char *const names[] = {"_Znwm", "_Znam", "_ZnwmSt11align_val_t", "mi_new_n"};
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		_cleanup_(elf_image__cleanup) struct elf_image *file = NULL;
		_cleanup_(unwind_table__cleanup) struct unwind_table *rows = NULL;
		_cleanup_close_ int fd = open(files[i], O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			continue;
		assert_int_equal(elf_image__open(fd, files[i], NULL, &file, NULL), 0);
		assert_int_equal(unwind_table__build(file, 0, &rows, NULL), 0);
		for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++) {
			struct elf_symbol symbol;
			struct exits exits;

			if (elf_image__find_function(file, names[j], &symbol))
				continue;
			if (exits__find(file, rows, symbol.vaddr, &exits))
				fail_msg("%s of %s: %s", names[j], files[i], exits.why);
			assert_true(exits.n > 0);
			for (size_t k = 0; k < exits.n; k++, n++)
				if (!is_ret(files[i], exits.vaddrs[k]))
					fail_msg("%s of %s: no ret at %#llx", names[j], files[i],
						 (unsigned long long)exits.vaddrs[k]);
		}
	}
	if (!n)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exits_are_found),
		cmocka_unit_test(tail_jumps_are_followed),
		cmocka_unit_test(what_cannot_be_followed_is_refused),
		cmocka_unit_test(real_operators_new),
	};

	return cmocka_run_group_tests(tests, open_self, close_self);
}
