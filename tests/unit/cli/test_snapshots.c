// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/snapshots.h"

static void test_what_every_may_be(void **state)
{
	struct snapshots s = {};

	(void)state;
	assert_int_equal(snapshots__parse_every(&s, "0.5"), 0);
	assert_true(s.every_s == 0.5 && !s.every_bytes);
	assert_int_equal(snapshots__parse_every(&s, "32M"), 0);
	assert_true(s.every_bytes == 32 << 20);
	assert_int_equal(snapshots__parse_every((s = (struct snapshots){}, &s), "10m"), 0);
	assert_true(s.every_s == 600 && !s.every_bytes);
	assert_int_equal(snapshots__parse_every((s = (struct snapshots){}, &s), "1.5h"), 0);
	assert_true(s.every_s == 5400);
	for (size_t i = 0; i < 10; i++) {
		static const char *const wrong[] = {"",	   "0",	  "-1",	 "0.01", "x",
						    "32Q", "nan", "inf", "1K",	 "10k"};
		struct snapshots t = {};

		assert_true(snapshots__parse_every(&t, wrong[i]) < 0);
		assert_true(!(t.every_s > 0) && !t.every_bytes);
	}
}

static void test_by_time(void **state)
{
	struct snapshots s = {.every_s = 10};
	unsigned n = 0;

	(void)state;
	assert_false(snapshots__due(&s, 9.9, 1e12, 1e12));
	assert_true(snapshots__due(&s, 10, 0, 0));
	assert_false(snapshots__due(&s, 10.1, 0, 0));
	/* after a late snapshot, the next ones come at their usual times, and none comes twice */
	assert_true(snapshots__due(&s, 47, 0, 0));
	assert_false(snapshots__due(&s, 49.9, 0, 0));
	assert_true(snapshots__due(&s, 50, 0, 0));

	s = (struct snapshots){.every_s = 0.3};
	for (int tenth = 0; tenth <= 600; tenth++)
		n += snapshots__due(&s, tenth / 10.0, 0, 0);
	assert_in_range(n, 195, 200); /* about 200: delays do not add up */
}

static void test_by_bytes(void **state)
{
	struct snapshots s = {.every_bytes = 1000};

	(void)state;
	assert_false(snapshots__due(&s, 1, 999, 0));
	assert_true(snapshots__due(&s, 2, 1000, 0));
	assert_false(snapshots__due(&s, 3, 1999, 0));
	assert_true(snapshots__due(&s, 4, 7300, 0));
	assert_false(snapshots__due(&s, 5, 7999, 0));
	assert_true(snapshots__due(&s, 6, 8000, 0));
}

static void test_at_peaks(void **state)
{
	struct snapshots s = {.at_peaks = true};

	(void)state;
	assert_false(snapshots__due(&s, 0, 0, 0));
	assert_true(snapshots__due(&s, 1, 0, 100));
	assert_false(snapshots__due(&s, 2, 0, 105)); /* only 5 % above the last peak */
	assert_false(snapshots__due(&s, 3, 0, 50));
	/* still below the last peak */
	assert_false(snapshots__due(&s, 4, 0, 104));
	assert_true(snapshots__due(&s, 5, 0, 106));
	assert_false(snapshots__due(&s, 6, 0, 110));
}

static void test_when_asked(void **state)
{
	struct snapshots s = {.asked = true, .every_s = 10};

	(void)state;
	assert_true(snapshots__due(&s, 1, 0, 0));
	assert_false(snapshots__due(&s, 2, 0, 0)); /* only once */
	s = (struct snapshots){.every_s = 10};
	assert_true(snapshots__look_every_s(&s) <= 1);
	s = (struct snapshots){};
	assert_true(isinf(snapshots__look_every_s(&s)));
}

static void test_names(void **state)
{
	struct snapshots s = {};
	char name[32];

	(void)state;
	assert_string_equal(snapshots__name(&s, name), "0001");
	snapshots__written(&s);
	assert_string_equal(snapshots__name(&s, name), "0002");
	s.n = 9999;
	assert_string_equal(snapshots__name(&s, name), "10000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_every_may_be), cmocka_unit_test(test_by_time),
		cmocka_unit_test(test_by_bytes),	  cmocka_unit_test(test_at_peaks),
		cmocka_unit_test(test_when_asked),	  cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
