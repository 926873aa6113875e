// SPDX-License-Identifier: BSD-2-Clause
/* The priority is raised for a while, and no child inherits it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

/* The nice value of a child that is forked now, above 0. */
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

static void a_low_priority_stays(void **state)
{
	(void)state;
	setpriority(PRIO_PROCESS, 0, 19);
	priority__raise(-10);
	assert_int_equal(own(), 19);
	priority__restore();
	assert_int_equal(own(), 19);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_raised_for_a_while),
		cmocka_unit_test(a_low_priority_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
