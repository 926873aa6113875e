// SPDX-License-Identifier: BSD-2-Clause
/* The limit of descriptors is raised, or found to be too low, before a run begins. The linker
 * replaces the system calls by those below. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "session/internal.h"

#define PIDS 1000 /* 4 descriptors are needed for each */

static struct {
	struct rlimit limit;
	bool fixed; /* the kernel refuses to change it */
} fake;

int __wrap_getrlimit(int resource, struct rlimit *ret);
int __wrap_getrlimit(int resource, struct rlimit *ret)
{
	assert_int_equal(resource, RLIMIT_NOFILE);
	*ret = fake.limit;
	return 0;
}

int __wrap_setrlimit(int resource, const struct rlimit *limit);
int __wrap_setrlimit(int resource, const struct rlimit *limit)
{
	assert_int_equal(resource, RLIMIT_NOFILE);
	if (fake.fixed) {
		errno = EPERM;
		return -1;
	}
	fake.limit = *limit;
	return 0;
}

static void the_limit_is_raised(void **state)
{
	struct error err = {};

	(void)state;
	fake.limit = (struct rlimit){1024, 1 << 20};
	fake.fixed = false;
	assert_int_equal(open__raise_descriptors(PIDS, &err), 0);
	assert_int_equal(fake.limit.rlim_cur, 1 << 20);
}

static void too_low_a_limit_is_refused(void **state)
{
	struct error err = {};

	(void)state;
	fake.limit = (struct rlimit){1024, 1024};
	fake.fixed = false;
	assert_int_equal(open__raise_descriptors(PIDS, &err), -EMFILE);
	assert_non_null(strstr(err.text, "may have 1024 files open (ulimit -Hn)"));
}

/* The kernel refuses a limit above fs.nr_open, even if the process has this limit already. */
static void a_limit_that_cannot_be_raised_counts_as_it_is(void **state)
{
	struct error err = {};

	(void)state;
	fake.limit = (struct rlimit){1024, 1 << 20};
	fake.fixed = true;
	assert_int_equal(open__raise_descriptors(PIDS, &err), -EMFILE);
	assert_non_null(strstr(err.text, "1024"));
	assert_non_null(strstr(err.text, "Operation not permitted"));
	fake.limit.rlim_cur = 8192;
	assert_int_equal(open__raise_descriptors(PIDS, &err), 0);
	assert_int_equal(fake.limit.rlim_cur, 8192);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_limit_is_raised),
		cmocka_unit_test(too_low_a_limit_is_refused),
		cmocka_unit_test(a_limit_that_cannot_be_raised_counts_as_it_is),
	};

	return cmocka_run_group_tests_name("open", tests, NULL, NULL);
}
