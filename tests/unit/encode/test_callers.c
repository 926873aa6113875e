// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/encode/fixture.h"

static struct table_options options;

static int encode(const struct profile *profile, struct sink *sink)
{
	return encode_table(profile, &options, sink);
}

/* The tree without the lines above it. */
static char *tree(const struct profile *profile)
{
	char *text = encoded(encode, profile), *at = strstr(text, "\n\n"), *copy;

	assert_non_null(at);
	at = strchr(at + 2, '\n');
	assert_non_null(at);
	copy = strdup(at + 1);
	free(text);
	return copy;
}

static void callers_part_below_who_holds(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	options = (struct table_options){.tree = true, .width = 100};
	STACK(profile, 1, 6000, 1, "malloc", "node", "insert", "left", "main");
	STACK(profile, 1, 3000, 1, "calloc", "node", "insert", "right", "main");
	STACK(profile, 1, 60, 1, "malloc", "node", "insert", "rare", "main");
	STACK(profile, 1, 20, 1, "malloc", "node", "insert", "rarer", "main");
	STACK(profile, 1, 910, 1, "malloc", "operator new", "text");
	STACK(profile, 1, 10, 1, "malloc");
	STACK(profile, 1, 50, 0, "malloc", "freed");
	end_profile(profile);
	text = tree(profile);
	assert_string_equal(text, "   8.9 KiB   90.8%  node < insert\n"
				  "   5.9 KiB   60.0%    < left < main\n"
				  "   2.9 KiB   30.0%    < right < main\n"
				  "      80 B    0.8%    (2 more callers)\n"
				  "     910 B    9.1%  text\n"
				  "      10 B    0.1%  (1 more)\n");
	free(text);
	options.min_share_pct = 50;
	text = tree(profile);
	assert_string_equal(text, "   8.9 KiB   90.8%  node < insert\n"
				  "   5.9 KiB   60.0%    < left < main\n"
				  "   3.0 KiB   30.8%    (3 more callers)\n"
				  "     920 B    9.2%  (2 more)\n");
	free(text);
	assert_reports_failures(encode, profile);
	profile__free(profile);
}

/* main calls one function both directly and through another function. */
static void what_nobody_called_stands_above(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	options = (struct table_options){.tree = true};
	STACK(profile, 1, 60, 1, "malloc", "f", "main");
	STACK(profile, 1, 40, 1, "malloc", "f");
	end_profile(profile);
	text = tree(profile);
	assert_string_equal(text, "     100 B  100.0%  f\n"
				  "      60 B   60.0%    < main\n");
	free(text);
	profile__free(profile);
}

static void long_chains_go_on_below(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	options = (struct table_options){.tree = true, .width = 64};
	STACK(profile, 1, 100, 1, "malloc", "a_function_of_some_length", "another_one\x1b[1m",
	      "yet_another_function", "main");
	end_profile(profile);
	text = tree(profile);
	assert_string_equal(text,
			    "     100 B  100.0%  a_function_of_some_length < another_one?[1m\n"
			    "                      < yet_another_function < main\n");
	free(text);
	profile__free(profile);
}

/* A profile from a file with fewer figures. */
static void unknown_things_are_not_told(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	options = (struct table_options){};
	STACK(profile, 1, 2048, 1, "f", "main");
	end_profile(profile);
	profile->sites[0].live.objects = 0;
	profile->interval_bytes = 0;
	profile->mode = MODE_UNKNOWN;
	profile->pid = 0;
	profile->duration_s = 0;
	text = encoded(encode, profile);
	assert_string_equal(text, "memtrace: the file does not say how it was sampled\n"
				  "live heap: 2.0 KiB\n"
				  "\n"
				  "      LIVE  OBJECTS   SHARE  WHERE (leaf first)\n"
				  "   2.0 KiB        ?  100.0%  f < main\n");
	free(text);
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "\"live_objects\":null"));
	free(text);
	profile->interval_bytes = 1000;
	profile->pid = 12;
	profile->sites[0].live.objects = 1;
	text = encoded(encode, profile);
	assert_non_null(
		strstr(text, "memtrace: pid 12 (leaky), one sample per 1000 B\n"
			     "live heap: 2.0 KiB (95 %: 2.0 - 2.0 KiB) in 1 objects, estimated\n"));
	free(text);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(callers_part_below_who_holds),
		cmocka_unit_test(what_nobody_called_stands_above),
		cmocka_unit_test(long_chains_go_on_below),
		cmocka_unit_test(unknown_things_are_not_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
