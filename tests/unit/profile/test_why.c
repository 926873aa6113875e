// SPDX-License-Identifier: BSD-2-Clause
#include "profile/why.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct why_row row(const char *root, uint64_t root_off, struct why_step first, bool cut,
			  uint64_t example)
{
	struct why_row made = {.root_kind = "global",
			       .root = strdup(root),
			       .root_off = root_off,
			       .steps = calloc(2, sizeof(*made.steps)),
			       .n_steps = 2,
			       .cut = cut,
			       .blocks = 1,
			       .bytes = 24,
			       .example = example};

	made.steps[0] = first;
	made.steps[1] = (struct why_step){.size = 24, .off = WHY_UNKNOWN};
	return made;
}

static void test_rows_that_differ_in_offsets_are_one(void **state)
{
	struct why_report report = {.n_rows = 6, .rows = calloc(6, sizeof(*report.rows))};

	(void)state;
	report.rows[0] = row("cache", 8, (struct why_step){100, 0, false}, false, 70);
	report.rows[1] = row("index", 8, (struct why_step){100, 0, false}, false, 60);
	report.rows[2] = row("cache", 16, (struct why_step){100, 0, false}, false, 50);
	report.rows[3] = row("cache", 8, (struct why_step){100, 8, false}, false, 40);
	report.rows[4] = row("cache", 8, (struct why_step){100, 0, true}, false, 30);
	report.rows[5] = row("cache", 8, (struct why_step){100, 0, false}, true, 20);
	why_report__merge(&report);
	assert_int_equal(report.n_rows, 4);
	assert_string_equal(report.rows[0].root, "cache");
	assert_int_equal(report.rows[0].blocks, 3);
	assert_int_equal(report.rows[0].bytes, 72);
	assert_int_equal(report.rows[0].example, 40);
	assert_int_equal(report.rows[0].root_off, WHY_UNKNOWN);
	assert_int_equal(report.rows[0].steps[0].off, WHY_UNKNOWN);
	for (size_t i = 1; i < 4; i++) {
		assert_int_equal(report.rows[i].blocks, 1);
		assert_int_equal(report.rows[i].root_off, 8);
		assert_int_equal(report.rows[i].steps[0].off, 0);
	}
	why_report__clear(&report);
	why_report__merge(&report);
}

static void test_text_of_a_way(void **state)
{
	struct why_row way = row("cache (leaky)", 0, (struct why_step){100, 16, true}, true, 70);
	char *text = why_row__text(&way);

	(void)state;
	assert_string_equal(text, "global cache (leaky) -> chain of [100-byte block] +0x10 -> "
				  "... -> [24-byte block]");
	free(text);
	way.root_off = 8;
	way.cut = false;
	text = why_row__text(&way);
	assert_string_equal(text, "global cache (leaky) +0x8 -> chain of [100-byte block] +0x10 "
				  "-> [24-byte block]");
	free(text);
	free(way.root);
	free(way.steps);
}

static void test_names_of_losses(void **state)
{
	(void)state;
	for (int i = 0; i < WHY_N_LOSSES; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(why_loss__name(i), why_loss__name(k));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_that_differ_in_offsets_are_one),
		cmocka_unit_test(test_text_of_a_way),
		cmocka_unit_test(test_names_of_losses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
