// SPDX-License-Identifier: BSD-2-Clause
/* Tests the messages that the service manager reads at its socket. Also tests invalid addresses of
 * sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/notify.h"

static int manager = -1;

/* Binds the manager's socket to the path, in which '@' stands for a NUL, and sets NOTIFY_SOCKET. */
static void manage(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));

	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(manager >= 0);
	memcpy(address.sun_path, path, strlen(path));
	if (*path == '@')
		address.sun_path[0] = '\0';
	else
		size++;
	assert_int_equal(bind(manager, (const struct sockaddr *)&address, size), 0);
	setenv("NOTIFY_SOCKET", path, 1);
}

static int forget(void **state)
{
	(void)state;
	if (manager >= 0)
		close(manager);
	manager = -1;
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return 0;
}

static void assert_told(const char *wanted)
{
	char text[256] = "";
	ssize_t n = recv(manager, text, sizeof(text) - 1, 0);

	assert_int_equal(n, strlen(wanted));
	assert_string_equal(text, wanted);
}

static void a_manager_is_told_in_a_file_and_in_the_abstract(void **state)
{
	char directory[] = "/tmp/memtrace-notify-XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/socket", directory);
	manage(path);
	assert_int_equal(notify__say("READY=1"), 0);
	assert_told("READY=1");
	assert_int_equal(notify__say("STOPPING=1"), 0);
	assert_told("STOPPING=1");
	unlink(path);
	rmdir(directory);
	close(manager);
	assert_int_equal(notify__say("READY=1"), -ENOENT);

	snprintf(path, sizeof(path), "@memtrace-notify-%d", getpid());
	manage(path);
	assert_int_equal(notify__say("WATCHDOG=1"), 0);
	assert_told("WATCHDOG=1");
}

/* RELOADING=1 must have a time of the manager's own clock. Otherwise the manager does not take
 * READY=1 for the end of the reload. */
static void a_reload_has_its_time(void **state)
{
	uint64_t before = clock__now_ns(CLOCK_MONOTONIC) / 1000, told = 0;
	char path[64], text[256] = "";

	(void)state;
	snprintf(path, sizeof(path), "@memtrace-notify-%d", getpid());
	manage(path);
	assert_int_equal(notify__say_reloading(), 0);
	assert_true(recv(manager, text, sizeof(text) - 1, 0) > 0);
	assert_int_equal(sscanf(text, "RELOADING=1\nMONOTONIC_USEC=%" SCNu64, &told), 1);
	assert_in_range(told, before, clock__now_ns(CLOCK_MONOTONIC) / 1000);
}

static void without_a_manager_nothing_happens(void **state)
{
	(void)state;
	assert_int_equal(notify__say("READY=1"), 1);
	setenv("NOTIFY_SOCKET", "", 1);
	assert_int_equal(notify__say("READY=1"), 1);
	setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
	assert_int_equal(notify__say("READY=1"), -ENOENT);
}

static void what_is_no_address_is_refused(void **state)
{
	char path[200] = "/";

	(void)state;
	setenv("NOTIFY_SOCKET", "relative", 1);
	assert_int_equal(notify__say("READY=1"), -EINVAL);
	memset(path + 1, 'a', sizeof(path) - 2);
	for (size_t len = sizeof(path) - 1; len >= sizeof(((struct sockaddr_un *)0)->sun_path);
	     len--) {
		path[len] = '\0';
		setenv("NOTIFY_SOCKET", path, 1);
		assert_int_equal(notify__say("READY=1"), -EINVAL);
	}
	path[sizeof(((struct sockaddr_un *)0)->sun_path) - 1] = '\0';
	setenv("NOTIFY_SOCKET", path, 1);
	assert_int_equal(notify__say("READY=1"), -ENOENT);
}

/* notify does not wait for a manager that does not read. */
static void a_manager_that_hangs_is_not_waited_for(void **state)
{
	char path[64];
	int rc = 0;

	(void)state;
	snprintf(path, sizeof(path), "@memtrace-notify-%d", getpid());
	manage(path);
	for (int i = 0; i < 100000 && !rc; i++)
		rc = notify__say("WATCHDOG=1");
	assert_int_equal(rc, -EAGAIN);
}

static void assert_watchdog(const char *microseconds, const char *pid, double wanted_s)
{
	setenv("WATCHDOG_USEC", microseconds, 1);
	if (pid)
		setenv("WATCHDOG_PID", pid, 1);
	else
		unsetenv("WATCHDOG_PID");
	assert_float_equal(notify__watchdog_s(), wanted_s, 1e-9);
}

static void the_watchdog_is_ours_alone(void **state)
{
	char own[16];

	(void)state;
	snprintf(own, sizeof(own), "%d", getpid());
	assert_float_equal(notify__watchdog_s(), 0, 0);
	assert_watchdog("60000000", NULL, 30);
	assert_watchdog("2000000", own, 1);
	assert_watchdog("2000000", "1", 0);
	for (const char *const *bad = (const char *const[]){"", "x", "1s", "-5", "0", "nan", NULL};
	     *bad; bad++)
		assert_watchdog(*bad, own, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_manager_is_told_in_a_file_and_in_the_abstract, forget),
		cmocka_unit_test_teardown(a_reload_has_its_time, forget),
		cmocka_unit_test_teardown(without_a_manager_nothing_happens, forget),
		cmocka_unit_test_teardown(what_is_no_address_is_refused, forget),
		cmocka_unit_test_teardown(a_manager_that_hangs_is_not_waited_for, forget),
		cmocka_unit_test_teardown(the_watchdog_is_ours_alone, forget),
	};

	forget(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
