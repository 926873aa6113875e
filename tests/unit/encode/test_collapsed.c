// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "profile/view.h"
#include "tests/unit/encode/fixture.h"

static void stacks_are_merged_and_sorted_by_name(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 100, 2, "malloc", "zeta", "main");
	STACK(profile, 1, 50, 1, "calloc", "zeta", "main");
	STACK(profile, 1, 7, 1, "malloc", "alpha", "main");
	STACK(profile, 1, 3, 1, "malloc"); /* the whole stack */
	STACK(profile, 1, 20, 1, "malloc", "operator new[]", "zeta", "main");
	STACK(profile, 1, 2, 1, "malloc", "operator new", "operator new[]");
	STACK(profile, 1, 1, 1, "malloc", "operator newt", "f");
	STACK(profile, 1, 0, 4, "malloc", "empty", "main");
	STACK(profile, 1, 9, 0, "malloc", "freed", "main");
	end_profile(profile);
	text = encoded(encode_collapsed, profile);
	assert_string_equal(text, "f;operator newt 1\n"
				  "main;alpha 7\n"
				  "main;zeta 270\n"
				  "malloc 3\n"
				  "operator new[] 2\n");
	free(text);
	profile__free(profile);
}

static void inlined_functions_are_frames(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 10, 1, "malloc", "f", "main");
	STACK(profile, 1, 4, 1, "malloc", "operator new", "g", "main");
	end_profile(profile);
	add_inlined(profile, "f", "inner");
	add_inlined(profile, "g", "operator new");
	text = encoded(encode_collapsed, profile);
	assert_string_equal(text, "main;f;inner 10\nmain;g;operator new 4\n");
	free(text);
	profile__free(profile);
}

/* Two stacks with the same names hold 0.3 bytes each. Their sum rounds to 1 byte; 0.3 alone would
 * round to 0. */
static void rounding_comes_after_merging(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 0, 0, "malloc", "a");
	STACK(profile, 1, 0, 0, "calloc", "a");
	STACK(profile, 1, 0, 0, "malloc", "b");
	for (size_t i = 0; i < 3; i++)
		profile->sites[i].live.bytes = 0.3;
	assert_int_equal(profile__sort(profile), 0);
	text = encoded(encode_collapsed, profile);
	assert_string_equal(text, "a 1\n");
	free(text);
	profile__free(profile);
}

static void names_cannot_break_the_line(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 5, 1, "malloc", "leaf\nx 99", "a;b", "operator new []\x7f");
	end_profile(profile);
	text = encoded(encode_collapsed, profile);
	assert_string_equal(text, "operator new []?;a:b;leaf?x 99 5\n");
	free(text);
	assert_reports_failures(encode_collapsed, profile);
	profile__free(profile);
}

static void frames_without_a_name_show_their_address(void **state)
{
	static const uint64_t stack[] = {0x1001, 0x2005};
	struct profile *profile = new_profile(1);
	size_t site, thread;
	char *text;

	(void)state;
	assert_int_equal(profile__add_site(profile, stack, 2, false, &site), 0);
	assert_int_equal(profile__add_thread(profile, 1, NULL, &thread), 0);
	assert_int_equal(profile__add_live(profile, site, thread, 8), 0);
	assert_int_equal(profile__add_site(profile, NULL, 0, false, &site), 0);
	assert_int_equal(profile__add_live(profile, site, thread, 2), 0);
	end_profile(profile);
	text = encoded(encode_collapsed, profile);
	assert_string_equal(text, "0x2004 8\n[no stack] 2\n");
	free(text);
	profile__free(profile);
}

/* The numbers are the weights of the view. If a stack has only the allocator's frame, this frame
 * stays. */
static void a_view_has_a_root(void **state)
{
	const struct view_options options = {.weight = WEIGHT_OBJECTS, .root = ROOT_PROCESS};
	struct profile *profile = new_profile(1);
	struct profile_view view;
	char *text;

	(void)state;
	STACK(profile, 1, 100, 2, "malloc", "f", "main");
	STACK(profile, 1, 50, 1, "malloc");
	end_profile(profile);
	strcpy(profile->comm, "a;b\n");
	assert_int_equal(profile_view__init(&view, profile, &options), 0);
	text = encoded(encode_collapsed, &view.profile);
	assert_string_equal(text, "a:b? (4711);main;f 2\na:b? (4711);malloc 1\n");
	free(text);
	profile_view__clear(&view);
	profile__free(profile);
}

static void nothing_live_is_an_empty_file(void **state)
{
	struct profile *profile = new_profile(1);
	char *text = encoded(encode_collapsed, profile);

	(void)state;
	assert_string_equal(text, "");
	free(text);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inlined_functions_are_frames),
		cmocka_unit_test(stacks_are_merged_and_sorted_by_name),
		cmocka_unit_test(rounding_comes_after_merging),
		cmocka_unit_test(names_cannot_break_the_line),
		cmocka_unit_test(frames_without_a_name_show_their_address),
		cmocka_unit_test(a_view_has_a_root),
		cmocka_unit_test(nothing_live_is_an_empty_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
