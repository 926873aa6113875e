// SPDX-License-Identifier: BSD-2-Clause
/* Processes that run in a target's memory ("borrowers"), with a made-up kernel side. A borrower
 * that runs is a child that the test forks. A borrower that has ended is a pid that no process
 * has. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "proc/process.h"
#include "session/internal.h"

#define MS  1000000ull
#define NOT 0x3ffffff0 /* no process has this pid */

static struct session session;
static struct target target = {.process = 5}, other = {.process = 6};
static struct target *list[] = {&target, &other};

static struct {
	uint64_t changes;
	size_t n;
	struct {
		pid_t pid;
		struct abi_borrower borrower;
	} of[4];
	unsigned looks;
	enum probe_kind kind;
} fake;

uint64_t __wrap_capture__borrowers_changes(const struct capture *capture);
uint64_t __wrap_capture__borrowers_changes(const struct capture *capture)
{
	(void)capture;
	return fake.changes;
}

enum probe_kind __wrap_capture__kind(const struct capture *capture);
enum probe_kind __wrap_capture__kind(const struct capture *capture)
{
	(void)capture;
	return fake.kind;
}

void __wrap_capture__borrowers(struct capture *capture,
			       void (*fn)(void *, pid_t, const struct abi_borrower *), void *ctx);
void __wrap_capture__borrowers(struct capture *capture,
			       void (*fn)(void *, pid_t, const struct abi_borrower *), void *ctx)
{
	(void)capture;
	fake.looks++;
	for (size_t i = 0; i < fake.n; i++)
		fn(ctx, fake.of[i].pid, &fake.of[i].borrower);
	for (size_t i = 0; i < fake.n;)
		if (fake.of[i].borrower.ended)
			fake.of[i] = fake.of[--fake.n];
		else
			i++;
}

static void begin_one(pid_t pid, uint32_t process)
{
	fake.of[fake.n].pid = pid;
	fake.of[fake.n++].borrower = (struct abi_borrower){.process = process};
	fake.changes++;
}

static void end_one(uint64_t cpu_ns)
{
	fake.of[0].borrower.ended = 1;
	fake.of[0].borrower.cpu_ns = cpu_ns;
	fake.changes++;
}

static int begin(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.kind = PROBE_MULTI;
	session = (struct session){.targets = list, .n_targets = 2};
	target = (struct target){.process = 5, .info.pid = getpid()};
	other = (struct target){.process = 6};
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(session.borrowers);
	return 0;
}

static void without_any_nothing_is_read(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		borrowers__look(&session);
	assert_int_equal(fake.looks, 0);
}

static void what_it_used_is_its_targets(void **state)
{
	uint64_t own, all;
	uint64_t cpu = 0;
	pid_t pid = fork();

	(void)state;
	while (!pid)
		;
	assert_true(pid > 0);
	begin_one(pid, 5);
	borrowers__look(&session);
	assert_int_equal(target.n_borrowers, 1);
	assert_int_equal(other.n_borrowers, 0);
	for (int i = 0; i < 1000 && cpu < 20 * MS; i++) {
		usleep(10000);
		assert_int_equal(process__cpu_time_ns(pid, &cpu), 0);
	}
	borrowers__look(&session); /* no news came, and the borrower still runs */
	assert_true(target.lent_ns >= cpu && target.lent_ns < cpu + 10000 * MS);
	assert_int_equal(other.lent_ns, 0);
	assert_int_equal(process__cpu_time_ns(getpid(), &own), 0);
	assert_int_equal(targets__cpu_ns(&target, &all), 0);
	assert_true(all >= own + cpu);
	/* counted once: probes may not act for the borrower */
	assert_int_equal(target.borrowers_unseen, 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	/* the kernel side knows the borrower's exact CPU time when it ends */
	cpu = target.lent_ns + 3 * MS;
	end_one(cpu);
	borrowers__look(&session);
	assert_int_equal(target.lent_ns, cpu);
	assert_int_equal(target.n_borrowers, 0);
	assert_int_equal(target.borrowers_unseen, 1);
	assert_int_equal(session.n_borrowers, 0);
	fake.looks = 0;
	borrowers__look(&session);
	assert_int_equal(fake.looks, 0);
}

static void a_short_life_counts(void **state)
{
	(void)state;
	begin_one(NOT, 6);
	end_one(2 * MS);
	borrowers__look(&session);
	assert_int_equal(other.lent_ns, 2 * MS);
	/* does not count: a child between vfork and exec lives as short a time */
	assert_int_equal(other.borrowers_unseen, 0);
	begin_one(NOT, 6); /* another process with the same pid */
	end_one(8 * MS);
	borrowers__look(&session);
	assert_int_equal(other.lent_ns, 10 * MS);
	assert_int_equal(other.borrowers_unseen, 1);
	begin_one(NOT, 7); /* target 7 has been removed */
	end_one(8 * MS);
	borrowers__look(&session);
	assert_int_equal(other.lent_ns, 10 * MS);
}

static void where_probes_act_nothing_is_unseen(void **state)
{
	(void)state;
	session.everywhere = true;
	begin_one(NOT, 6);
	end_one(8 * MS);
	borrowers__look(&session);
	assert_int_equal(other.borrowers_unseen, 0);
	session.scheduler.begun = true; /* processes take turns, so each has probes of its own */
	begin_one(NOT, 6);
	end_one(8 * MS);
	borrowers__look(&session);
	assert_int_equal(other.borrowers_unseen, 1);
	fake.kind = PROBE_PERF; /* these probes act for all processes with this memory */
	begin_one(NOT, 6);
	end_one(8 * MS);
	borrowers__look(&session);
	assert_int_equal(other.borrowers_unseen, 1);
	assert_int_equal(other.lent_ns, 24 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(without_any_nothing_is_read),
		TEST(what_it_used_is_its_targets),
		TEST(a_short_life_counts),
		TEST(where_probes_act_nothing_is_unseen),
	};

	return cmocka_run_group_tests_name("borrowers", tests, NULL, NULL);
}
