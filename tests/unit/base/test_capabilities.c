// SPDX-License-Identifier: BSD-2-Clause
/* Each test runs in a child process, because capabilities that were dropped cannot be regained. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/capabilities.h"

#define KILL   CAPABILITY(CAP_KILL)
#define SETUID CAPABILITY(CAP_SETUID)

/* A value in /proc/self/status. */
static uint64_t status(const char *key)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long value = ~0ULL;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			value = strtoull(line + strlen(key) + 1, NULL, 16);
	if (f)
		fclose(f);
	return value;
}

static void in_child(bool (*holds)(void))
{
	int result;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(!holds());
	assert_int_equal(waitpid(pid, &result, 0), pid);
	assert_int_equal(result, 0);
}

static bool is(uint64_t effective, uint64_t permitted)
{
	struct capabilities now;

	return !capabilities__read(&now) && now.effective == effective &&
	       now.permitted == permitted && !now.inheritable && status("CapEff") == effective &&
	       status("CapPrm") == permitted && !status("CapInh") && !status("CapAmb");
}

static bool only_what_is_asked_for_is_kept(void)
{
	return !capabilities__limit(KILL, KILL | SETUID) && is(KILL, KILL | SETUID) &&
	       !capabilities__limit(SETUID, ~0ULL) && is(SETUID, KILL | SETUID) &&
	       !capabilities__limit(~0ULL, KILL) && is(KILL, KILL) && !capabilities__limit(0, 0) &&
	       is(0, 0);
}

static bool nothing_comes_back(void)
{
	return !capabilities__limit(KILL, KILL) && !capabilities__limit(~0ULL, ~0ULL) &&
	       is(KILL, KILL) && !status("CapBnd");
}

/* Without CAP_SETPCAP the bounding set cannot be changed. All else is still dropped. */
static bool the_rest_goes_without_setpcap(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{.effective = KILL, .permitted = KILL}};
	uint64_t bounding = status("CapBnd");

	return !syscall(SYS_capset, &header, data) && !capabilities__limit(0, 0) && is(0, 0) &&
	       status("CapBnd") == bounding;
}

#define IN_CHILD(name)                                                                             \
	static void name##_(void **state)                                                          \
	{                                                                                          \
		struct capabilities now;                                                           \
                                                                                                   \
		(void)state;                                                                       \
		if (capabilities__read(&now) ||                                                    \
		    (now.effective & (KILL | SETUID)) != (KILL | SETUID) ||                        \
		    !(now.effective & CAPABILITY(CAP_SETPCAP)))                                    \
			skip();                                                                    \
		in_child(name);                                                                    \
	}

IN_CHILD(only_what_is_asked_for_is_kept)
IN_CHILD(nothing_comes_back)
IN_CHILD(the_rest_goes_without_setpcap)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_asked_for_is_kept_),
		cmocka_unit_test(nothing_comes_back_),
		cmocka_unit_test(the_rest_goes_without_setpcap_),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
