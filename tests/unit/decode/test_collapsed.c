// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/decode/fixture.h"

static void lines_are_stacks(void **state)
{
	struct profile *profile = decoded("main;cache insert;new node 500\r\n"
					  "\n"
					  "main;parse 7.25\n"
					  "main;cache insert;new node 20\n"
					  "alone 3\n");

	(void)state;
	assert_int_equal(profile->n_sites, 3);
	assert_site(profile, 0, 520, 0, "new node < cache insert < main");
	assert_site(profile, 1, 7.25, 0, "parse < main");
	assert_site(profile, 2, 3, 0, "alone");
	/* the file does not have these figures */
	assert_int_equal(profile->interval_bytes, 0);
	assert_true(profile->no_objects && profile->leaf_holds && !profile->mode);
	assert_int_equal(profile->sites[0].live.variance, 0);
	assert_near(profile->sites[0].alloc_bytes, 520, 0);
	for (size_t i = 0; i < profile->n_locations; i++) {
		assert_true(profile->locations[i].addr >= PROFILE_NO_ADDR);
		assert_int_equal(profile->locations[i].mapping, -1);
	}
	assert_int_equal(profile->n_locations, 5); /* main is one location */
	profile__free(profile);
}

/* The encoder writes the same text that was read. */
static void it_comes_out_as_it_went_in(void **state)
{
	static const char text[] = "alone 3\nmain;cache insert;new node 520\nmain;main 7\n";
	struct profile *profile = decoded(text);
	char *again = encoded(encode_collapsed, profile);

	(void)state;
	assert_string_equal(again, text);
	free(again);
	profile__free(profile);
}

static void what_is_wrong_is_told(void **state)
{
	static const char no_line[] =
		"no line of collapsed stacks (\"caller;function NUMBER\"); and the file is neither "
		"pprof nor heap_v2";
	char text[300];

	(void)state;
	assert_refused("", "FILE: is empty");
	assert_refused("\n\n", "FILE: is empty");
	snprintf(text, sizeof(text), "FILE: line 2: %s", no_line);
	assert_refused("a;b 7\nno number\n", text);
	assert_refused("a;b 7\n 7\n", text);
	assert_refused("a;b 7\na;b -7\n", text);
	assert_refused("a;b 7\na;b 7x\n", text);
	assert_refused("a;b 7\na;b 99999999999999999999\n", text);
	assert_refused("\n\na;;b 7\n", "FILE: line 3: a frame without a name");
	assert_refused(";b 7\n", "FILE: line 1: a frame without a name");
	assert_refused("a;b 7\na;c 7",
		       /* the number may have been 7000 */
		       "FILE: line 2: the last line has no end: the file is cut short");
}

static void it_has_limits(void **state)
{
	size_t len = 2 * 16385 + 8;
	char *text = malloc(len + 1), *at = text;

	(void)state;
	for (int i = 0; i < 16385; i++)
		at = stpcpy(at, i ? ";f" : "f");
	strcpy(at, " 1\n");
	assert_refused(text, "FILE: line 1: a stack of more than 16384 frames");
	survives_damage((const uint8_t *)"main;f 12\nmain;g;h 30\n", 22, 300);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_stacks),
		cmocka_unit_test(it_comes_out_as_it_went_in),
		cmocka_unit_test(what_is_wrong_is_told),
		cmocka_unit_test(it_has_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
