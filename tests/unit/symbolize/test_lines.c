// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "symbolize/lines.h"

/* An answer with one frame at this line; line 0: an answer without frames. */
static struct dwarf_frames answer(uint32_t line)
{
	struct dwarf_frames frames = {};

	if (!line)
		return frames;
	frames.frames = calloc(1, sizeof(*frames.frames));
	assert_non_null(frames.frames);
	frames.n = 1;
	frames.frames[0] = (struct dwarf_frame){strdup("function"), strdup("file.c"), line};
	return frames;
}

/* Adds a few answers per round. Compares the answers that are kept with an array that has the
 * answer for each address. */
static void test_answers_are_kept(void **state)
{
	enum { ADDRESSES = 500, NOT_ASKED = -1 };
	int said[ADDRESSES];
	struct lines lines = {};

	(void)state;
	srand(1);
	for (int i = 0; i < ADDRESSES; i++)
		said[i] = NOT_ASKED;
	for (int round = 0; round < 40; round++) {
		struct dwarf_frames frames[ADDRESSES];
		uint64_t vaddrs[ADDRESSES];
		bool only_found = rand() % 2;
		size_t n = 0;

		for (int i = 0; i < ADDRESSES; i++) {
			int line = rand() % 3;

			if (said[i] != NOT_ASKED || rand() % 20)
				continue;
			vaddrs[n] = (uint64_t)i * 16;
			frames[n++] = answer((uint32_t)line);
			if (line || !only_found)
				said[i] = line;
		}
		assert_int_equal(lines__add(&lines, vaddrs, frames, n, only_found), 0);
		for (size_t i = 0; i < n; i++)
			assert_true(!frames[i].n && !frames[i].frames);
		for (int i = 0; i < ADDRESSES; i++) {
			const struct dwarf_frames *found = lines__find(&lines, (uint64_t)i * 16);

			assert_int_equal(found != NULL, said[i] != NOT_ASKED);
			assert_null(lines__find(&lines, (uint64_t)i * 16 + 1));
			if (!found)
				continue;
			assert_int_equal(found->n, said[i] > 0);
			if (found->n)
				assert_int_equal(found->frames[0].line, said[i]);
		}
	}
	assert_true(lines.bytes > lines.n * sizeof(struct dwarf_frames));
	lines__clear(&lines);
	assert_int_equal(lines.n, 0);
	assert_int_equal(lines.bytes, 0);
	assert_null(lines__find(&lines, 16));
	lines__clear(&lines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
