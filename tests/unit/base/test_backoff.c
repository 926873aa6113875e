// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/backoff.h"

static const struct backoff fresh = {.first_s = 1, .most_s = 60, .lasting_s = 30};

static void assert_waits(struct backoff *b, double lived_s, double wait_s)
{
	assert_float_equal(backoff__next(b, lived_s), wait_s, 1e-9);
}

static void who_fails_at_once_waits_longer_each_time(void **state)
{
	const double waits[] = {1, 2, 4, 8, 16, 32, 60, 60, 60};
	struct backoff b = fresh;

	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		assert_waits(&b, 0.1, waits[i]);
}

static void who_lived_long_waits_little(void **state)
{
	struct backoff b = fresh;

	(void)state;
	for (int i = 0; i < 20; i++)
		backoff__next(&b, 30);
	assert_waits(&b, 31, 1);
	assert_waits(&b, 30, 2);
}

static void a_reset_begins_anew(void **state)
{
	struct backoff b = fresh;

	(void)state;
	for (int i = 0; i < 5; i++)
		backoff__next(&b, 0);
	backoff__reset(&b);
	assert_waits(&b, 0, 1);
	assert_waits(&b, 0, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_fails_at_once_waits_longer_each_time),
		cmocka_unit_test(who_lived_long_waits_little),
		cmocka_unit_test(a_reset_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
