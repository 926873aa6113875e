// SPDX-License-Identifier: BSD-2-Clause
/* Which capabilities are kept and which are missing, for made-up sets of capabilities. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/capability.h>
#include <string.h>
#include <cmocka.h>

#include "base/capabilities.h"
#include "session/privileges.h"

#define ALL	  (~0ULL >> 23) /* all 41 capabilities */
#define BPF	  CAPABILITY(39)
#define PERFMON	  CAPABILITY(38)
#define RESTORE	  CAPABILITY(40)
#define ADMIN	  CAPABILITY(CAP_SYS_ADMIN)
#define TRACE	  CAPABILITY(CAP_SYS_PTRACE)
#define READ	  CAPABILITY(CAP_DAC_READ_SEARCH)
#define WRITE	  CAPABILITY(CAP_DAC_OVERRIDE)
#define NICE	  CAPABILITY(CAP_SYS_NICE)
#define LOCK	  CAPABILITY(CAP_IPC_LOCK)
#define KILL	  CAPABILITY(CAP_KILL)
#define BECOME	  (CAPABILITY(CAP_SETUID) | CAPABILITY(CAP_SETGID))
#define WHOLE_RUN (BPF | PERFMON | TRACE | RESTORE | READ | NICE | WRITE)

static void of_root_some_are_kept(void **state)
{
	const struct privileges_use root = {.as_root = true};

	(void)state;
	assert_int_equal(privileges__kept(ALL, PRIVILEGES_OPENING, &root),
			 WHOLE_RUN | ADMIN | LOCK | KILL | BECOME);
	assert_int_equal(privileges__kept(ALL, PRIVILEGES_TRACING, &root),
			 WHOLE_RUN | KILL | BECOME);
	assert_int_equal(privileges__kept(ALL, PRIVILEGES_STOPPED, &root),
			 (WHOLE_RUN & ~PERFMON) | KILL | BECOME);
	assert_int_equal(privileges__kept(ALL, PRIVILEGES_DETACHED, &root), WRITE);
}

static void others_become_nobody_else(void **state)
{
	const struct privileges_use use = {};

	(void)state;
	assert_int_equal(privileges__kept(ALL, PRIVILEGES_TRACING, &use), WHOLE_RUN);
	assert_int_equal(privileges__kept(BPF | KILL, PRIVILEGES_TRACING, &use), BPF);
}

static void signals_are_passed_on_to_the_end(void **state)
{
	const struct privileges_use use = {.as_root = true, .command = true};

	(void)state;
	assert_int_equal(privileges__kept(ALL, PRIVILEGES_DETACHED, &use), KILL | WRITE);
}

static void perf_uprobes_take_the_administrator(void **state)
{
	const struct privileges_use use = {.admin = true};

	(void)state;
	assert_int_equal(privileges__kept(ALL, PRIVILEGES_TRACING, &use), WHOLE_RUN | ADMIN);
	assert_int_equal(privileges__kept(ALL, PRIVILEGES_STOPPED, &use), WHOLE_RUN & ~PERFMON);
}

/* Some container engines do not know all of the newer capabilities. */
static void the_administrator_stands_for_others(void **state)
{
	const struct privileges_use use = {};
	char text[256];

	(void)state;
	assert_true(privileges__suffice(ADMIN | TRACE, text, sizeof(text)));
	for (int phase = PRIVILEGES_OPENING; phase <= PRIVILEGES_STOPPED; phase++)
		assert_int_equal(
			privileges__kept(ADMIN | TRACE, (enum privileges_phase)phase, &use),
			ADMIN | TRACE);
	assert_int_equal(privileges__kept(ADMIN | TRACE, PRIVILEGES_DETACHED, &use), 0);
	/* without CAP_PERFMON, CAP_SYS_ADMIN is kept, but only while tracing */
	assert_int_equal(privileges__kept(ALL & ~PERFMON, PRIVILEGES_TRACING, &use) & ADMIN, ADMIN);
	assert_int_equal(privileges__kept(ALL & ~PERFMON, PRIVILEGES_STOPPED, &use) & ADMIN, 0);
}

static void what_is_missing_is_named(void **state)
{
	char text[256], little[8];

	(void)state;
	assert_true(privileges__suffice(BPF | PERFMON | TRACE | RESTORE, text, sizeof(text)));
	assert_string_equal(text, "");
	assert_false(privileges__suffice(BPF | TRACE, text, sizeof(text)));
	assert_string_equal(text, "CAP_PERFMON, CAP_CHECKPOINT_RESTORE");
	assert_false(privileges__suffice(ADMIN, text, sizeof(text)));
	assert_string_equal(text, "CAP_SYS_PTRACE");
	assert_false(privileges__suffice(0, little, sizeof(little)));
	assert_string_equal(little, "CAP_BPF");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_root_some_are_kept),
		cmocka_unit_test(others_become_nobody_else),
		cmocka_unit_test(signals_are_passed_on_to_the_end),
		cmocka_unit_test(perf_uprobes_take_the_administrator),
		cmocka_unit_test(the_administrator_stands_for_others),
		cmocka_unit_test(what_is_missing_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
