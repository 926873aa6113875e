// SPDX-License-Identifier: BSD-2-Clause
/* Tests how the kernel side finds the context of a PostgreSQL chunk (chunk.bpf.h, compiled for the
 * host). The test makes chunk headers by the rules of PostgreSQL's memutils_memorychunk.h. From the
 * lowest bit on, a header holds the context's kind, one bit "external", 30 bits of value, and 30
 * bits of distance. The kind has 3 bits in version 16, and 4 bits from version 17 on. From version
 * 17 on, value and distance share one bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "chunk.bpf.h"
#include "host_stack.h"

enum kind { ALLOC_SET = 3, GENERATION = 4 };

#define CONTEXT 0x55d0c0ffee00ULL
#define BLOCK	512	      /* the block's first word */
#define MOST	0x3fffffffULL /* the largest value */
#define MAGIC	0xb1a8db858eb6efbaULL

static const int kind_bits[] = {3, 4}; /* in version 16; from version 17 on */

static int clear(void **state)
{
	(void)state;
	for (size_t i = 0; i < STACK_WORDS; i++)
		memory[i] = 0x1111111111111111ULL * (i % 15 + 1);
	return 0;
}

/* The word of the block's header that holds the context's address. */
static size_t context_word(enum kind kind)
{
	return BLOCK + (kind == GENERATION ? 2 : 0);
}

/* A chunk somewhere in its block. Its value, which is the chunk's size, is the smallest or the
 * largest one. */
static void a_chunk_leads_to_its_context(void **state)
{
	static const size_t words[] = {5, 7, 100, STACK_WORDS - BLOCK - 2};

	(void)state;
	for (size_t v = 0; v < 2; v++)
		for (enum kind kind = ALLOC_SET; kind <= GENERATION; kind++)
			for (size_t i = 0; i < 4; i++)
				for (uint64_t value = 0; value <= MOST; value += MOST) {
					uint64_t far = 8 * words[i], low = kind_bits[v] + 1;

					clear(NULL);
					memory[context_word(kind)] = CONTEXT;
					memory[BLOCK + words[i]] = far << 34 | value << low | kind;
					assert_int_equal(chunk_context(at(BLOCK + words[i] + 1)),
							 CONTEXT);
				}
}

/* A large chunk has a block of its own. Its header comes right after the block's header. */
static void a_large_chunk_leads_to_its_context(void **state)
{
	(void)state;
	for (size_t v = 0; v < 2; v++)
		for (enum kind kind = ALLOC_SET; kind <= GENERATION; kind++) {
			size_t header = BLOCK + (kind == GENERATION ? 7 : 5);
			int low = kind_bits[v] + 1;

			clear(NULL);
			memory[context_word(kind)] = CONTEXT;
			memory[header] = MAGIC >> low << low | 1ULL << kind_bits[v] | kind;
			assert_int_equal(chunk_context(at(header + 1)), CONTEXT);
		}
}

static void what_cannot_be_read_has_no_context(void **state)
{
	(void)state;
	assert_int_equal(chunk_context(at(0)), 0); /* its header is below the memory */
	memory[4] = 8ULL * 100 << 34 | ALLOC_SET;  /* the block is below the memory */
	assert_int_equal(chunk_context(at(5)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_chunk_leads_to_its_context, clear),
		cmocka_unit_test_setup(a_large_chunk_leads_to_its_context, clear),
		cmocka_unit_test_setup(what_cannot_be_read_has_no_context, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
