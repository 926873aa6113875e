// SPDX-License-Identifier: BSD-2-Clause
/* Which processes have worked since their last profile. The processes are children of the test,
 * which wait or run. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "session/internal.h"

#define S 1000000000ull

static struct session session;
static struct target targets[3];
static struct target *list[3] = {&targets[0], &targets[1], &targets[2]};

static pid_t child(bool runs)
{
	pid_t pid = fork();

	while (!pid)
		if (!runs)
			pause();
	assert_true(pid > 0);
	return pid;
}

/* Returns when the process waits. On a busy machine the process may begin to wait late, and it uses
 * CPU time until then. */
static void wait_until_it_waits(pid_t pid)
{
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	for (int i = 0; i < 1000; i++, usleep(10000)) {
		FILE *file = fopen(path, "r");
		const char *state;

		assert_non_null(file);
		state = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
		fclose(file);
		assert_non_null(state);
		if (state[2] == 'S')
			return;
	}
	fail_msg("a process that is to wait has run for 10 s");
}

static int begin(void **state)
{
	(void)state;
	session = (struct session){.targets = list, .n_targets = 3, .start_ns = 100 * S};
	memset(targets, 0, sizeof(targets));
	for (int i = 0; i < 3; i++)
		targets[i].info.pid = child(i == 2);
	wait_until_it_waits(targets[0].info.pid);
	wait_until_it_waits(targets[1].info.pid);
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		kill(targets[i].info.pid, SIGKILL);
		waitpid(targets[i].info.pid, NULL, 0);
	}
	return 0;
}

/* On a busy machine the third process may have to wait for its turn. */
static void wait_until_it_ran(void)
{
	uint64_t before, now;

	assert_int_equal(targets__cpu_ns(&targets[2], &before), 0);
	for (int i = 0; i < 1000; i++) {
		usleep(10000);
		assert_int_equal(targets__cpu_ns(&targets[2], &now), 0);
		if (now > before)
			return;
	}
	fail_msg("a process that runs has had no CPU time in 10 s");
}

static void only_a_clock_that_stands_still_for_long_tells_of_rest(void **state)
{
	struct rest rest = {}, other = {}, runs = {};

	(void)state;
	assert_false(targets__rests(&targets[0], &rest));
	/* too soon: the kernel's CPU times may lag */
	assert_false(targets__rests(&targets[0], &rest));
	rest.since_ns -= 2 * S;
	assert_true(targets__rests(&targets[0], &rest));
	assert_false(targets__rests(&targets[0], &other)); /* `other` is used for the first time */
	assert_false(targets__rests(&targets[2], &runs));
	runs.since_ns -= 2 * S;
	wait_until_it_ran();
	assert_false(targets__rests(&targets[2], &runs));
	/* the process waits while another process works in its memory */
	targets[0].lent_ns = 1;
	assert_false(targets__rests(&targets[0], &rest));
	rest.since_ns -= 2 * S;
	assert_true(targets__rests(&targets[0], &rest));
	targets[0].ended = true;
	assert_false(targets__rests(&targets[0], &rest));
	kill(targets[1].info.pid, SIGKILL);
	waitpid(targets[1].info.pid, NULL, 0);
	assert_false(targets__rests(&targets[1], &rest));
}

/* All profiles are reported at the time `now`. From then on, the first two processes rest. */
static void tell(uint64_t now)
{
	news__choose(&session, now, false);
	for (int i = 0; i < 3; i++) {
		assert_true(targets[i].is_due);
		targets[i].told_ns = now;
		targets[i].rest.news.since_ns -= 2 * S;
	}
	wait_until_it_ran();
}

static void who_rests_is_not_due_until_its_run_is_longer(void **state)
{
	(void)state;
	targets[1].start_ns = 150 * S;
	tell(200 * S);
	news__choose(&session, 210 * S, false);
	assert_false(targets[0].is_due);
	assert_false(targets[1].is_due);
	assert_true(targets[2].is_due);
	news__choose(&session, 213 * S, false);
	assert_false(targets[0].is_due);
	assert_true(targets[1].is_due); /* its last profile is 63 s old, more than 50 */
	news__choose(&session, 225 * S, false);
	assert_true(targets[0].is_due);
	news__choose(&session, 210 * S, true);
	assert_true(targets[0].is_due && targets[1].is_due && targets[2].is_due);
}

/* One lost profile does not make the profiles of all processes due. */
static void who_lost_a_profile_is_due_again(void **state)
{
	(void)state;
	tell(200 * S);
	news__choose(&session, 210 * S, true);
	news__lose(&session, targets[0].info.pid);
	news__note(&session, 210 * S);
	news__choose(&session, 212 * S, false);
	assert_true(targets[0].is_due);
	assert_false(targets[1].is_due);
	news__note(&session, 212 * S);
	assert_int_equal(targets[0].told_ns, 212 * S);
	assert_int_equal(targets[1].told_ns, 210 * S);
	news__choose(&session, 214 * S, false);
	assert_false(targets[0].is_due);
}

static void one_at_least_is_due_each_minute(void **state)
{
	(void)state;
	tell(2000 * S);
	targets[1].told_ns--;
	session.n_targets = 2;
	news__choose(&session, 2059 * S, false);
	assert_false(targets[0].is_due || targets[1].is_due);
	news__choose(&session, 2060 * S, false);
	assert_false(targets[0].is_due);
	assert_true(targets[1].is_due);
	targets[1].ended = true;
	news__choose(&session, 2001 * S, true);
	assert_true(targets[0].is_due);
	assert_false(targets[1].is_due);
	session.n_targets = 0;
	news__choose(&session, 2060 * S, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			only_a_clock_that_stands_still_for_long_tells_of_rest, begin, end),
		cmocka_unit_test_setup_teardown(who_rests_is_not_due_until_its_run_is_longer, begin,
						end),
		cmocka_unit_test_setup_teardown(who_lost_a_profile_is_due_again, begin, end),
		cmocka_unit_test_setup_teardown(one_at_least_is_due_each_minute, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
