// SPDX-License-Identifier: BSD-2-Clause
/* Processes whose news was lost because the ring of events was full. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_capture.h"

static const struct session_selection everything = {.dynamic = true};

/* The kernel side traces the process under this number. */
static void trace(pid_t pid, uint32_t process)
{
	fake.traced[fake.n_traced].pid = pid;
	fake.traced[fake.n_traced++].process = process;
	fake.rows[fake.n_rows++] = process;
}

static void untrace(pid_t pid)
{
	for (size_t i = 0; i < fake.n_traced; i++)
		if (fake.traced[i].pid == pid)
			fake.traced[i] = fake.traced[--fake.n_traced];
}

static bool has_row(uint32_t process)
{
	for (size_t i = 0; i < fake.n_rows; i++)
		if (fake.rows[i] == process)
			return true;
	return false;
}

static pid_t begin_child(void)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves no child behind */
		pause();
		_exit(0);
	}
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void lose_news(struct session *s)
{
	fake.events_lost++;
	usleep(50000); /* a search costs less than a twentieth of the time */
	targets__take_news(s);
	usleep(50000);
	targets__take_news(s);
}

/* The test itself and a child are targets. */
static struct session *begin_with(pid_t child)
{
	struct session *s = begin();

	s->selection = &everything;
	trace(getpid(), 1);
	meet(s, 1);
	trace(child, 2);
	say(EVENT_NEW, 2, 0, 400);
	fake.events[0].tgid = (uint32_t)child;
	targets__take_news(s);
	assert_int_equal(s->n_targets, 2);
	return s;
}

static void a_lost_beginning_gives_the_number_back(void **state)
{
	struct session *s = begin();

	(void)state;
	trace(0, 7);
	say(EVENT_EXIT, 7, 0, 300);
	targets__take_news(s);
	assert_false(has_row(7));
	end(s);
}

static void a_lost_end_is_found(void **state)
{
	pid_t child = begin_child();
	struct session *s = begin_with(child);

	(void)state;
	lose_news(s); /* the child still runs */
	assert_int_equal(s->n_targets, 2);
	end_child(child);
	untrace(child);
	targets__take_news(s);
	assert_int_equal(s->n_targets, 2); /* the news of the child's end was lost */
	lose_news(s);
	assert_int_equal(s->n_targets, 1);
	assert_non_null(targets__find_process(s, 1));
	assert_false(has_row(2));
	end(s);
}

/* The child has executed a program that is not selected, and the kernel side has ended tracing
 * it. */
static void a_lost_exec_ends_a_target(void **state)
{
	pid_t child = begin_child();
	struct session *s = begin_with(child);

	(void)state;
	untrace(child);
	lose_news(s);
	assert_int_equal(s->n_targets, 1);
	assert_false(has_row(2));
	trace(child, 3); /* another exec, of a selected program */
	lose_news(s);
	assert_int_equal(s->n_targets, 2);
	assert_int_equal(targets__find_process(s, 3)->info.pid, child);
	end_child(child);
	end(s);
}

/* A target has executed another program, which is also selected. What the old program held is
 * gone. */
static void a_lost_exec_of_a_target_that_stays_is_found(void **state)
{
	pid_t child = begin_child();
	struct session *s = begin_with(child);
	const struct target *t = targets__find_process(s, 2);

	(void)state;
	fake.traced[1].exec_ns = 700;
	fake.held_bytes = 5000;
	targets__take_news(s);
	assert_int_equal(t->exec_ns, 0); /* no event has told of the exec */
	lose_news(s);
	assert_ptr_equal(targets__find_process(s, 2), t);
	assert_int_equal(t->exec_ns, 700);
	assert_true(t->gone_bytes == 5000);
	assert_int_equal(targets__find_process(s, 1)->exec_ns, 0);
	/* the news was not lost, but only late */
	fake.held_bytes = 6000;
	say(EVENT_EXEC, 2, 0, 700);
	targets__take_news(s);
	assert_true(t->gone_bytes == 5000);
	say(EVENT_EXEC, 2, 0, 800);
	targets__take_news(s);
	assert_int_equal(t->exec_ns, 800);
	assert_true(t->gone_bytes == 6000);
	end_child(child);
	end(s);
}

/* The news of a process's beginning was lost. While the process lives, it becomes a target. */
static void a_stranger_is_adopted(void **state)
{
	pid_t child = begin_child();
	struct session *s = begin();
	struct target *t;

	(void)state;
	s->selection = &everything;
	trace(child, 5);
	fake.traced[0].exec_ns = 700;
	targets__take_news(s);
	assert_int_equal(s->n_targets, 0);
	lose_news(s);
	assert_int_equal(s->n_targets, 1);
	t = targets__find_process(s, 5);
	assert_non_null(t);
	assert_int_equal(t->info.pid, child);
	assert_true(t->uninvited && t->maps.n > 0 && t->start_ns > 0);
	assert_int_equal(t->exec_ns, 700);
	end_child(child);
	end(s);
}

/* A search cannot always tell whether a process is traced. Until a search can tell, the process
 * keeps its row. */
static void a_search_that_fails_takes_no_row(void **state)
{
	pid_t child = begin_child();
	struct session *s = begin();

	(void)state;
	s->selection = &everything;
	trace(child, 5);
	targets__take_news(s);
	fake.process_of_fails = -EMFILE;
	lose_news(s);
	assert_true(has_row(5));
	assert_null(targets__find_process(s, 5));
	fake.process_of_fails = 0;
	s->lost_next_ns = 0;
	targets__take_news(s); /* searches again, although no more news was lost */
	assert_true(has_row(5));
	assert_non_null(targets__find_process(s, 5));
	end_child(child);
	end(s);
}

/* The news of a process's beginning and end were lost. Another process begins while memtrace
 * searches. It has a row already, and the news of its beginning is still to be read. */
static void rows_of_unnoticed_processes_are_given_back(void **state)
{
	struct session *s = begin();

	(void)state;
	s->selection = &everything;
	fake.rows[fake.n_rows++] = 5;
	fake.rows[fake.n_rows++] = 6;
	fake.late = (struct abi_event){
		.kind = EVENT_NEW, .process = 6, .tgid = (uint32_t)getpid(), .time_ns = 100};
	targets__take_news(s);
	assert_true(has_row(5));
	lose_news(s);
	assert_false(has_row(5));
	assert_true(has_row(6));
	assert_non_null(targets__find_process(s, 6));
	end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_beginning_gives_the_number_back),
		cmocka_unit_test(a_lost_end_is_found),
		cmocka_unit_test(a_lost_exec_ends_a_target),
		cmocka_unit_test(a_lost_exec_of_a_target_that_stays_is_found),
		cmocka_unit_test(a_stranger_is_adopted),
		cmocka_unit_test(a_search_that_fails_takes_no_row),
		cmocka_unit_test(rows_of_unnoticed_processes_are_given_back),
	};

	return cmocka_run_group_tests_name("sweep", tests, NULL, NULL);
}
