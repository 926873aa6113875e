// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "profile/profile.h"

/* Whoever made the run may free it. The run then stays as long as a profile has it. (If not, ASan
 * reports it.) */
static void profiles_share_a_run(void **state)
{
	struct profile_run *run = profile_run__new();
	struct profile *a = profile__new(), *b = profile__new();

	(void)state;
	assert_non_null(run);
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(profile_run__note_lost(a->run, "forgotten", 1), 0);
	profile__join(a, run);
	profile__join(b, run);
	profile__join(b, run);
	assert_int_equal(profile_run__note_lost(run, "files_refused", 2), 0);
	profile_run__free(run);
	assert_ptr_equal(a->run, b->run);
	assert_int_equal(profile_counters__count(&a->run->lost, "forgotten"), 0);
	profile__free(a);
	assert_int_equal(profile_counters__count(&b->run->lost, "files_refused"), 2);
	profile__free(b);
	profile_run__free(NULL);
}

static void a_count_of_the_run_does_not_shrink(void **state)
{
	struct profile_run *run = profile_run__new();

	(void)state;
	assert_non_null(run);
	assert_int_equal(profile_run__note_lost(run, "files_refused", 2), 0);
	assert_int_equal(profile_run__note_lost(run, "files_refused", 5), 0);
	assert_int_equal(profile_run__note_lost(run, "files_refused", 3), 0);
	assert_int_equal(run->lost.n, 1);
	assert_int_equal(profile_counters__count(&run->lost, "files_refused"), 5);
	profile_run__free(run);
}

static void losses_are_added_up(void **state)
{
	struct profile *sum = profile__new(), *a = profile__new(), *b = profile__new();

	(void)state;
	assert_int_equal(profile__add_lost(a, "live_full", 1), 0);
	assert_int_equal(profile__add_lost(b, "live_full", 2), 0);
	assert_int_equal(profile__add_lost(b, "sites_full", 4), 0);
	/* Profiles of one run were read from files. Each has the count at the time when it was
	 * made. */
	assert_int_equal(profile_run__note_lost(a->run, "files_refused", 8), 0);
	assert_int_equal(profile_run__note_lost(b->run, "files_refused", 16), 0);
	assert_int_equal(profile__add_losses(sum, a), 0);
	assert_int_equal(profile__add_losses(sum, b), 0);
	assert_string_equal(profile__loss(sum, 0)->name, "live_full");
	assert_int_equal(profile__loss(sum, 0)->count, 3);
	assert_int_equal(profile__loss(sum, 1)->count, 4);
	assert_string_equal(profile__loss(sum, 2)->name, "files_refused");
	assert_int_equal(profile__loss(sum, 2)->count, 16);
	assert_null(profile__loss(sum, 3));
	profile__free(sum);
	profile__free(a);
	profile__free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(profiles_share_a_run),
		cmocka_unit_test(a_count_of_the_run_does_not_shrink),
		cmocka_unit_test(losses_are_added_up),
	};

	return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
