// SPDX-License-Identifier: BSD-2-Clause
/* Made-up stacks. A stack consists of words, and each function has an unwind rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "elf/stack_walk.h"
#include "elf/unwind.h"

#define BASE 0x7000ull /* address of words[0] */

/* Function i has the addresses from 0x100 * i on. */
struct made {
	uint32_t rules[8];
	uint64_t words[16];
};

static bool rule(void *ctx, uint64_t pc, uint32_t *ret)
{
	const struct made *made = ctx;

	if (pc / 0x100 >= 8)
		return false;
	*ret = made->rules[pc / 0x100];
	return true;
}

static bool word(void *ctx, uint64_t addr, uint64_t *ret)
{
	const struct made *made = ctx;

	if (addr < BASE || addr >= BASE + sizeof(made->words) || addr % 8)
		return false;
	*ret = made->words[(addr - BASE) / 8];
	return true;
}

static size_t walk(struct made *made, uint64_t pc, uint64_t sp, uint64_t bp,
		   struct stack_frame *frames, size_t max)
{
	return stack_walk(&(struct stack_source){rule, word, made}, pc, sp, bp, frames, max);
}

static void test_a_stack(void **state)
{
	struct made made = {
		.rules = {[1] = UNWIND_RULE(UNWIND_SP, 24, 0, 0),
			  /* saves rbp at CFA - 16 */
			  [2] = UNWIND_RULE(UNWIND_SP, 16, 1, 2),
			  [3] = UNWIND_RULE(UNWIND_BP, 16, 1, 2),
			  [4] = UNWIND_RULE(UNWIND_END, 0, 0, 0)},
		/* frames of 2, 1 and 4 words, each followed by its return address */
		.words = {0, 0, 0x200, BASE + 64, 0x301, 0, 0, 0, 0xb, 0x410},
	};
	struct stack_frame frames[8];

	(void)state;
	/* function 1 ends with its call, so the return address is 0x200, where function 2 begins;
	 * only 0x200 - 1 is in function 1 */
	assert_int_equal(walk(&made, 0x250, BASE + 24, 0, frames, 8), 2);
	made.words[2] = 0x201;
	assert_int_equal(walk(&made, 0x150, BASE, 0, frames, 8), 3);
	assert_int_equal(frames[0].pc, 0x150);
	assert_int_equal(frames[0].end, BASE + 24);
	assert_int_equal(frames[1].pc, 0x200);
	assert_int_equal(frames[1].end, BASE + 40);
	assert_int_equal(frames[2].pc, 0x300);
	assert_int_equal(frames[2].end, BASE + 80);
	assert_int_equal(walk(&made, 0x150, BASE, 0, frames, 2), 2);
}

static void test_a_call_at_the_end_of_a_function(void **state)
{
	struct made made = {.rules = {[1] = UNWIND_RULE(UNWIND_SP, 16, 0, 0),
				      [2] = UNWIND_RULE(UNWIND_SP, 24, 0, 0)},
			    .words = {0, 0x300, 0, 0, 0x800}};
	struct stack_frame frames[8];

	(void)state;
	assert_int_equal(walk(&made, 0x100, BASE, 0, frames, 8), 2);
	assert_int_equal(frames[1].pc, 0x2ff);
	assert_int_equal(frames[1].end, BASE + 40);
}

static void test_plt(void **state)
{
	struct made made = {.rules = {[1] = UNWIND_RULE(UNWIND_PLT, 0, 0, 0)}, .words = {0, 0x800}};
	struct stack_frame frames[8];

	(void)state;
	assert_int_equal(walk(&made, 0x10b, BASE, 0, frames, 8), 1);
	assert_int_equal(frames[0].end, BASE + 16);
	assert_int_equal(walk(&made, 0x10a, BASE, 0, frames, 8), 1);
	assert_int_equal(frames[0].end, BASE + 8);
}

static void test_a_realigned_frame(void **state)
{
	/* rbp is at word 4. The CFA stands two words below. */
	struct made made = {.rules = {[1] = UNWIND_REALIGNED(16),
				      [2] = UNWIND_RULE(UNWIND_BP, 16, 1, 2),
				      [3] = UNWIND_RULE(UNWIND_END, 0, 0, 0)},
			    .words = {[2] = BASE + 72,
				      [4] = BASE + 96,
				      [8] = 0x201,
				      [12] = 0x1234,
				      [13] = 0x301}};
	struct stack_frame frames[8];

	(void)state;
	assert_int_equal(walk(&made, 0x100, BASE, BASE + 32, frames, 8), 2);
	assert_int_equal(frames[0].end, BASE + 72);
	assert_int_equal(frames[1].pc, 0x200);
	assert_int_equal(frames[1].end, BASE + 112);
	made.words[2] = 0; /* no progress */
	assert_int_equal(walk(&made, 0x100, BASE, BASE + 32, frames, 8), 0);
	assert_int_equal(walk(&made, 0x100, BASE, 8, frames, 8), 0); /* unreadable */
}

/* Rules and words that make no sense end the walk. */
static void test_nonsense(void **state)
{
	struct made made = {.rules = {[1] = UNWIND_RULE(UNWIND_SP, 0, 0, 0),
				      [2] = UNWIND_RULE(UNWIND_BP, 16, 0, 0),
				      [3] = UNWIND_RULE(UNWIND_SP, 8000, 0, 0),
				      [4] = UNWIND_RULE(UNWIND_BAD, 0, 0, 0),
				      [5] = UNWIND_RULE(UNWIND_SP, 8, 1, 4000),
				      [6] = UNWIND_RULE(UNWIND_SP, 8, 0, 0)},
			    .words = {0x601, 0x601, 0x601}};
	struct stack_frame frames[32];

	(void)state;
	assert_int_equal(walk(&made, 0x100, BASE, 0, frames, 8), 0);
	assert_int_equal(walk(&made, 0x200, BASE + 32, BASE, frames, 8), 0); /* a lower address */
	assert_int_equal(walk(&made, 0x200, BASE, UINT64_MAX - 15, frames, 8), 0);
	assert_int_equal(walk(&made, 0x300, BASE, 0, frames, 8), 0); /* outside of the copy */
	assert_int_equal(walk(&made, 0x400, BASE, 0, frames, 8), 0);
	assert_int_equal(walk(&made, 0x500, BASE, 0, frames, 8), 1); /* rbp cannot be read */
	assert_int_equal(walk(&made, 0x900, BASE, 0, frames, 8), 0);
	made.words[3] = 0x601;
	for (int i = 0; i < 16; i++)
		made.words[i] = 0x601;
	assert_int_equal(walk(&made, 0x600, BASE, 0, frames, 32), 16); /* up to the words' end */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_stack),
		cmocka_unit_test(test_a_call_at_the_end_of_a_function),
		cmocka_unit_test(test_plt),
		cmocka_unit_test(test_a_realigned_frame),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
