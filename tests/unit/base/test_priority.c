// SPDX-License-Identifier: BSD-2-Clause
/* The priority is raised for a while, and no child inherits it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fork.h"
#include "base/priority.h"

static int own(void)
{
	return getpriority(PRIO_PROCESS, 0);
}

/* Returns the nice value of a child that is forked now. */
static int of_child(void)
{
	int status = 0;
	pid_t pid = fork__blocked();

	if (!pid)
		_exit(own() + 20);
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status) - 20;
}

/* Without the privilege nothing changes. */
static void it_is_raised_for_a_while(void **state)
{
	int usual = own(), can = !setpriority(PRIO_PROCESS, 0, -1);

	(void)state;
	setpriority(PRIO_PROCESS, 0, usual);
	if (usual > 0)
		can = 0;
	priority__raise(-10);
	assert_int_equal(own(), can ? -10 : usual);
	priority__raise(-10);
	assert_int_equal(of_child(), usual);
	assert_int_equal(own(), can ? -10 : usual);
	priority__restore();
	assert_int_equal(own(), usual);
	priority__restore();
	assert_int_equal(own(), usual);
}

/* The scheduling policy of a child that is forked now. */
static int policy_of_child(void)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(sched_getscheduler(0) & ~SCHED_RESET_ON_FORK);
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static bool may_have_real_time(void)
{
	const struct sched_param one = {.sched_priority = 1}, none = {};

	if (sched_setscheduler(0, SCHED_RR, &one))
		return false;
	sched_setscheduler(0, SCHED_OTHER, &none);
	return true;
}

static void it_hurries_for_a_while(void **state)
{
	bool can = may_have_real_time() && own() <= 0;
	int hurried = can ? SCHED_RR | SCHED_RESET_ON_FORK : SCHED_OTHER;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(priority__hurry(), can);
		assert_int_equal(sched_getscheduler(0), hurried);
		assert_int_equal(policy_of_child(), SCHED_OTHER);
	}
	priority__lend();
	assert_int_equal(policy_of_child(), can ? SCHED_RR : SCHED_OTHER);
	priority__take_back();
	assert_int_equal(sched_getscheduler(0), hurried);
	assert_int_equal(policy_of_child(), SCHED_OTHER);
	priority__calm();
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
	priority__lend();
	assert_int_equal(policy_of_child(), can ? SCHED_RR : SCHED_OTHER);
	priority__take_back();
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

static int policy_after_giving_back(void)
{
	int status = 0;
	pid_t pid;

	priority__lend();
	pid = fork();
	if (!pid) {
		priority__give_back();
		_exit(sched_getscheduler(0));
	}
	priority__take_back();
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void a_child_gives_it_back(void **state)
{
	bool hurried = priority__hurry();

	(void)state;
	assert_int_equal(policy_after_giving_back(), SCHED_OTHER);
	assert_int_equal(priority__hurry(), hurried);
	priority__calm();
	assert_int_equal(policy_after_giving_back(), SCHED_OTHER);
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

/* Somebody has started memtrace with a scheduling policy. */
static void a_policy_stays(void **state)
{
	const struct sched_param param = {};

	(void)state;
	assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &param), 0);
	assert_false(priority__hurry());
	priority__lend();
	assert_int_equal(sched_getscheduler(0), SCHED_BATCH);
	priority__take_back();
	priority__calm();
	assert_int_equal(sched_getscheduler(0), SCHED_BATCH);
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &param), 0);
}

static void a_low_priority_stays(void **state)
{
	(void)state;
	setpriority(PRIO_PROCESS, 0, 19);
	priority__raise(-10);
	assert_int_equal(own(), 19);
	assert_false(priority__hurry());
	priority__restore();
	assert_int_equal(own(), 19);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_raised_for_a_while),
		cmocka_unit_test(it_hurries_for_a_while),
		cmocka_unit_test(a_child_gives_it_back),
		cmocka_unit_test(a_policy_stays),
		cmocka_unit_test(a_low_priority_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
