// SPDX-License-Identifier: BSD-2-Clause
/* Small profiles whose comparison takes much work. Hostile files may have such profiles.
 * test_diff.c tests that equal stacks are found. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "profile/match.h"

#include "drawn.h"

/* Three stacks whose code is in a file that both profiles have. */
static struct profile *of_one_file(size_t inlined)
{
	struct profile *profile = new_profile(1);
	const struct profile_mapping file = {.start = 0x400000,
					     .end = 0x7fffffffffff,
					     .perms = "r-xp",
					     .path = (char *)"/bin/program",
					     .build_id = (char *)"ab"};
	static const char *const names[] = {"a", "b", "c"};

	assert_int_equal(profile__add_mapping(profile, &file), 0);
	for (int i = 0; i < 3; i++)
		add_stack(profile, names[i], 0, 100, 1);
	end_profile(profile);
	for (size_t i = 0; i < profile->n_locations && inlined; i++) {
		struct profile_frame *frames = calloc(inlined, sizeof(*frames));

		for (size_t k = 0; k < inlined; k++)
			frames[k].name = strdup("f");
		profile_location__set_frames(&profile->locations[i], frames, inlined);
	}
	return profile;
}

static void frames_of_others_are_bounded(void **state)
{
	struct profile *small = of_one_file(0), *large = of_one_file(100);
	const struct profile *both[] = {small, large};
	/* 3 locations of 100 frames each, in the stacks of both profiles */
	struct match_limits enough = {.frames = 2 * 3 * 300, .figures = 100};
	struct match_limits less = {.frames = 2 * 3 * 300 - 1, .figures = 100};
	struct match match = {};
	struct error err = {};

	(void)state;
	assert_int_equal(match__stacks(both, 2, &enough, &match, &err), 0);
	assert_int_equal(match.n_stacks, 1);
	match__clear(&match);
	assert_int_equal(match__stacks(both, 2, &less, &match, &err), -EFBIG);
	assert_string_equal(
		err.text,
		"the stacks of the profiles up to number 2 have more than 1799 frames, inlined "
		"ones included: too many to compare");
	/* without the large profile, the frames of the small one are few */
	assert_int_equal(match__stacks(both, 1, &(struct match_limits){9, 100}, &match, &err), 0);
	match__clear(&match);
	profile__free(small);
	profile__free(large);
}

static void figures_are_bounded(void **state)
{
	struct profile *one = of_one_file(0), *other = of_one_file(0);
	const struct profile *both[] = {one, other};
	struct match match = {};
	struct error err = {};

	(void)state;
	assert_int_equal(match__stacks(both, 2, &(struct match_limits){100, 6}, &match, &err), 0);
	assert_int_equal(match.n_stacks, 3);
	match__clear(&match);
	assert_int_equal(match__stacks(both, 2, &(struct match_limits){100, 5}, &match, &err),
			 -EFBIG);
	assert_string_equal(err.text, "3 different stacks in 2 profiles are too many to compare");
	profile__free(one);
	profile__free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_of_others_are_bounded),
		cmocka_unit_test(figures_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
