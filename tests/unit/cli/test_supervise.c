// SPDX-License-Identifier: BSD-2-Clause
/* Tests the supervisor in a process of its own, with made-up work: what it starts and when, and
 * what it tells the service manager. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h" /* before cmocka, which makes a macro of fail() */
#include "cli/supervise.h"

#include <cmocka.h>

#define SECONDS 30 /* a test that takes longer is ended, because it hangs */

enum deed { LAST, FAIL_AT_ONCE, FAIL, TERMINATED, DONE };

/* Memory that the test shares with all processes that it starts. */
static struct shared {
	_Atomic int n_work, n_check;
	_Atomic pid_t worker;
	enum deed deeds[8]; /* what each child does, in the order of their starts */
	int checks[8];	    /* the results of the checks, one after the other */
	int check_ms;	    /* how long each check takes */
	/* Numbers of configurations, in this order: the last accepted one; the one in force; the
	 * last one that worked before that; the one of the last child. */
	int accepted, in_force, before, used;
} * shared;

static pid_t supervisor;
static int manager = -1;
static int complaints = -1; /* the supervisor's standard error */
static int reader = -1;	    /* the other end of `complaints`, if this is a pipe */

static int check(void *ctx)
{
	struct shared *s = ctx;

	usleep(1000 * (useconds_t)s->check_ms);
	return s->checks[s->n_check++];
}

static int work(void *ctx, int alive)
{
	struct shared *s = ctx;
	enum deed deed = s->deeds[s->n_work++];

	s->worker = getpid();
	s->used = s->in_force;
	if (deed == FAIL_AT_ONCE)
		return 7;
	(void)!write(alive, "", 1);
	if (deed != LAST)
		return deed == FAIL ? 9 : deed == TERMINATED ? SERVICE_TERMINATED : 0;
	for (;;) {
		usleep(50000);
		(void)!write(alive, "", 1);
	}
}

static void adopt(void *ctx, bool worked)
{
	struct shared *s = ctx;

	if (worked)
		s->before = s->in_force;
	s->in_force = ++s->accepted;
}

static bool revert(void *ctx)
{
	struct shared *s = ctx;

	s->in_force = s->before;
	return true;
}

static int begin(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char name[64];
	int len = snprintf(name, sizeof(name), "@memtrace-supervise-%d", getpid());

	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memcpy(address.sun_path + 1, name + 1, (size_t)len - 1);
	setenv("NOTIFY_SOCKET", name, 1);
	complaints = open("/dev/null", O_WRONLY | O_CLOEXEC);
	/* orphans become children of the test, so that it sees them */
	return shared == MAP_FAILED || complaints < 0 ||
	       prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) ||
	       bind(manager, (const struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)len));
}

static int end(void **state)
{
	(void)state;
	if (supervisor > 0) {
		kill(supervisor, SIGKILL);
		kill(shared->worker, SIGKILL); /* the worker may be stopped */
	}
	while (waitpid(-1, NULL, 0) > 0)
		;
	supervisor = 0;
	close(manager);
	close(complaints);
	if (reader >= 0)
		close(reader);
	reader = -1;
	munmap(shared, sizeof(*shared));
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	alarm(0);
	return 0;
}

static void start(void)
{
	alarm(SECONDS);
	supervisor = fork();
	assert_true(supervisor >= 0);
	if (supervisor)
		return;
	/* if the test ends early, the supervisor must not go on waiting for a reader */
	if (reader >= 0)
		close(reader);
	dup2(complaints, STDERR_FILENO);
	_exit(supervise(&(struct service){check, work, shared, adopt, revert}));
}

/* Asserts the next message to the manager. Messages for the watchdog are skipped. */
static void assert_told(const char *wanted)
{
	char text[128];
	ssize_t n;

	do {
		struct pollfd news = {.fd = manager, .events = POLLIN};

		if (poll(&news, 1, 1000 * SECONDS / 2) <= 0)
			fail_msg("the manager is not told %s", wanted);
		n = recv(manager, text, sizeof(text) - 1, 0);
		assert_true(n > 0);
		text[n] = '\0';
	} while (!strcmp(text, "WATCHDOG=1"));
	assert_int_equal(strncmp(text, wanted, strlen(wanted)), 0);
}

static void assert_not_told(int ms)
{
	struct pollfd news = {.fd = manager, .events = POLLIN};

	assert_int_equal(poll(&news, 1, ms), 0);
}

static void assert_ends(int wanted)
{
	int status;

	assert_int_equal(waitpid(supervisor, &status, 0), supervisor);
	supervisor = 0;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), wanted);
	/* no child is left */
	assert_int_equal(waitpid(-1, NULL, 0), -1);
	assert_int_equal(errno, ECHILD);
}

static void a_signal_ends_both(void **state)
{
	const int signals[] = {SIGTERM, SIGINT, SIGQUIT};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		start();
		assert_told("READY=1");
		kill(supervisor, signals[i]);
		assert_told("STOPPING=1");
		assert_ends(EXIT_FAILED); /* the worker has no handler, so SIGTERM kills it */
	}
}

static void what_never_worked_is_not_tried_again(void **state)
{
	(void)state;
	shared->deeds[0] = FAIL_AT_ONCE;
	start();
	assert_ends(7);
	assert_int_equal(shared->n_work, 1);
	assert_not_told(0);
}

static void what_is_done_is_done(void **state)
{
	(void)state;
	shared->deeds[0] = DONE;
	start();
	assert_ends(0);
	assert_int_equal(shared->n_work, 1);
}

/* Complaints go to a full pipe that nobody reads. */
static void complaints_wait_for_nobody(void **state)
{
	static const char much[4096];
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	while (write(fds[1], much, sizeof(much)) > 0)
		;
	assert_int_equal(fcntl(fds[1], F_SETFL, 0), 0);
	assert_int_equal(dup2(fds[1], complaints), complaints);
	close(fds[1]);
	reader = fds[0];
	shared->deeds[1] = DONE;
	start();
	assert_told("READY=1");
	kill(shared->worker, SIGKILL);
	assert_ends(0);
	assert_int_equal(shared->n_work, 2);
}

/* Work that was killed or has failed is started again, after a wait that is longer each time. This
 * holds also for work that failed before it said that it was alive. */
static void what_had_worked_is_started_again(void **state)
{
	double start_s = clock__monotonic_s();

	(void)state;
	shared->deeds[1] = FAIL_AT_ONCE;
	shared->deeds[2] = DONE;
	start();
	assert_told("READY=1");
	kill(shared->worker, SIGKILL);
	assert_ends(0);
	assert_int_equal(shared->n_work, 3);
	assert_true(clock__monotonic_s() - start_s >= 3); /* waits of 1 s and 2 s */
}

/* A SIGTERM that the parent has not sent does not end the service. */
static void who_was_terminated_is_started_again(void **state)
{
	(void)state;
	shared->deeds[0] = TERMINATED;
	shared->deeds[1] = DONE;
	start();
	assert_ends(0);
	assert_int_equal(shared->n_work, 2);
}

static void a_good_configuration_begins_anew(void **state)
{
	pid_t first;

	(void)state;
	start();
	assert_told("READY=1");
	first = shared->worker;
	kill(supervisor, SIGHUP);
	assert_told("RELOADING=1\nMONOTONIC_USEC=");
	assert_told("READY=1");
	assert_int_equal(shared->n_work, 2);
	assert_int_not_equal(shared->worker, first);
	assert_int_equal(kill(first, 0), -1);
}

static void a_bad_configuration_changes_nothing(void **state)
{
	(void)state;
	shared->checks[0] = EXIT_USAGE;
	start();
	assert_told("READY=1");
	kill(supervisor, SIGHUP);
	assert_told("RELOADING=1");
	assert_told("READY=1");
	assert_not_told(300);
	assert_int_equal(shared->n_work, 1);
	assert_int_equal(kill(shared->worker, 0), 0);
}

/* A configuration may pass the check, and the child may still fail to start with it. Then the
 * supervisor goes back to the configuration that worked. */
static void a_configuration_that_does_not_work_is_left(void **state)
{
	(void)state;
	shared->deeds[1] = shared->deeds[3] = FAIL_AT_ONCE;
	start();
	assert_told("READY=1");
	for (int i = 1; i <= 2; i++) {
		kill(supervisor, SIGHUP);
		assert_told("RELOADING=1");
		assert_told("READY=1");
		assert_int_equal(shared->n_work, 1 + 2 * i);
		assert_int_equal(shared->used, 0);
		assert_int_equal(shared->accepted, i);
	}
	kill(supervisor, SIGHUP); /* the worker starts with this configuration */
	assert_told("RELOADING=1");
	assert_told("READY=1");
	assert_int_equal(shared->used, 3);
	/* the worker is started with the configuration that worked */
	kill(shared->worker, SIGKILL);
	assert_told("READY=1");
	assert_int_equal(shared->used, 3);
}

/* A check may miss a change of the configuration that is written while the check runs. So the check
 * is repeated. */
static void a_change_during_a_check_is_seen(void **state)
{
	(void)state;
	shared->check_ms = 300;
	shared->checks[1] = EXIT_USAGE; /* only the result of the second check counts */
	start();
	assert_told("READY=1");
	kill(supervisor, SIGHUP);
	assert_told("RELOADING=1");
	usleep(100000);
	kill(supervisor, SIGHUP);
	assert_told("RELOADING=1");
	assert_told("READY=1");
	assert_int_equal(shared->n_check, 2);
	assert_int_equal(shared->n_work, 1);
}

/* A reload ends the wait for the next start. If the work then fails, there is a wait again. */
static void a_reload_ends_the_wait(void **state)
{
	double asked_s;

	(void)state;
	shared->deeds[1] = shared->deeds[2] = FAIL;
	start();
	assert_told("READY=1");
	kill(shared->worker, SIGKILL);
	while (shared->n_work < 3) /* after the third start, the supervisor waits for 4 s */
		usleep(10000);
	usleep(200000);
	asked_s = clock__monotonic_s();
	kill(supervisor, SIGHUP);
	while (shared->n_work < 4)
		usleep(10000);
	assert_true(clock__monotonic_s() - asked_s < 2);
	kill(shared->worker, SIGKILL);
	usleep(500000);
	assert_int_equal(shared->n_work, 4); /* the work has failed by itself, so there is a wait */
}

/* If the supervisor is killed, its child ends, too. */
static void a_supervisor_that_is_killed_leaves_no_orphan(void **state)
{
	pid_t worker;

	(void)state;
	start();
	assert_told("READY=1");
	worker = shared->worker;
	kill(supervisor, SIGKILL);
	assert_int_equal(waitpid(supervisor, NULL, 0), supervisor);
	supervisor = 0;
	/* the supervisor's death has ended the worker */
	assert_int_equal(waitpid(worker, NULL, 0), worker);
}

/* The watchdog's timeout is shorter than the wait for the next start. */
static void the_watchdog_is_fed_while_nothing_is_due(void **state)
{
	int n = 0;

	(void)state;
	setenv("WATCHDOG_USEC", "400000", 1);
	shared->deeds[1] = FAIL_AT_ONCE;
	start();
	assert_told("READY=1");
	kill(shared->worker, SIGKILL);
	while (shared->n_work < 2)
		usleep(10000);
	for (double end_s = clock__monotonic_s() + 1.5; clock__monotonic_s() < end_s; n++) {
		struct pollfd news = {.fd = manager, .events = POLLIN};
		char text[64] = "";

		if (poll(&news, 1, 400) != 1)
			fail_msg("no word for 400 ms");
		assert_true(recv(manager, text, sizeof(text) - 1, 0) > 0);
		assert_string_equal(text, "WATCHDOG=1");
	}
	assert_true(n >= 5);
}

/* If the child hangs, the supervisor sends nothing to the watchdog. */
static void the_watchdog_is_not_fed_for_one_that_hangs(void **state)
{
	char text[64];

	(void)state;
	setenv("WATCHDOG_USEC", "400000", 1);
	start();
	assert_told("READY=1");
	kill(shared->worker, SIGSTOP);
	usleep(700000);
	while (recv(manager, text, sizeof(text), MSG_DONTWAIT) > 0)
		;
	assert_not_told(1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(a_signal_ends_both),
		TEST(what_never_worked_is_not_tried_again),
		TEST(what_is_done_is_done),
		TEST(complaints_wait_for_nobody),
		TEST(what_had_worked_is_started_again),
		TEST(who_was_terminated_is_started_again),
		TEST(a_good_configuration_begins_anew),
		TEST(a_bad_configuration_changes_nothing),
		TEST(a_configuration_that_does_not_work_is_left),
		TEST(a_change_during_a_check_is_seen),
		TEST(a_reload_ends_the_wait),
		TEST(a_supervisor_that_is_killed_leaves_no_orphan),
		TEST(the_watchdog_is_fed_while_nothing_is_due),
		TEST(the_watchdog_is_not_fed_for_one_that_hangs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
