// SPDX-License-Identifier: BSD-2-Clause
/* What becomes of targets when the probes that see their regions are taken away for good. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "session/internal.h"

void __wrap_capture__detach_region_syscalls(struct capture *capture);
void __wrap_capture__detach_region_syscalls(struct capture *capture)
{
	(void)capture;
}

/* To trace a process again fails with an error. Otherwise its profile would silently lack its
 * regions. */
static void what_cost_too_much_does_not_come_back(void **state)
{
	struct target first = {}, second = {}, again = {};
	struct target *targets[] = {&first, &second};
	struct session s = {.what = WHAT_REGIONS,
			    .region_place = REGIONS_SYSCALLS,
			    .targets = targets,
			    .n_targets = 2};
	struct error err = {};

	(void)state;
	assert_int_equal(region_calls__attach_again(&s, &again, &err), 0);
	second.ended = true;
	region_calls__stop(&s, &first);
	assert_true(first.regions_stopped_ns > 0);
	assert_int_equal(second.regions_stopped_ns, 0);
	assert_int_equal(region_calls__attach_again(&s, &again, &err), -ENOTSUP);
	assert_true(strlen(err.text) > 0);
	s.what = WHAT_HEAP;
	assert_int_equal(region_calls__attach_again(&s, &again, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cost_too_much_does_not_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
