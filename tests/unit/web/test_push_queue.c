// SPDX-License-Identifier: BSD-2-Clause
/* The queue of one receiver, by a clock that the test sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "web/push_queue.h"

static struct push_queue queue;

static int begin(void **state)
{
	(void)state;
	memset(&queue, 0, sizeof(queue));
	return 0;
}

static int end(void **state)
{
	(void)state;
	push_queue__clear(&queue);
	assert_int_equal(queue.n, 0);
	assert_int_equal(queue.bytes, 0);
	assert_int_equal(queue.n_under_way, 0);
	return 0;
}

/* Adds a request of size bytes, which is named by a number. */
static void add(size_t size, unsigned number)
{
	struct push_request *r = calloc(1, sizeof(*r));

	r->target = strdup("/");
	r->body = malloc(1);
	r->size = size;
	snprintf(r->id, sizeof(r->id), "%u", number);
	push_queue__add(&queue, r);
}

static void assert_is(const struct push_request *r, unsigned number)
{
	assert_non_null(r);
	assert_int_equal(strtoul(r->id, NULL, 10), number);
}

static void oldest_go_first_and_few_at_once(void **state)
{
	struct push_request *r[PUSH_AT_ONCE];

	(void)state;
	assert_null(push_queue__take(&queue, 0));
	assert_true(push_queue__wait_s(&queue, 0) < 0);
	for (unsigned i = 0; i < PUSH_AT_ONCE + 2; i++)
		add(10, i);
	assert_true(push_queue__wait_s(&queue, 0) == 0);
	for (unsigned i = 0; i < PUSH_AT_ONCE; i++) {
		r[i] = push_queue__take(&queue, 0);
		assert_is(r[i], i);
	}
	assert_null(push_queue__take(&queue, 0));
	assert_true(push_queue__wait_s(&queue, 0) < 0);
	push_queue__end(&queue, r[1], PUSH_RESULT_SENT, 0, 0);
	assert_is(push_queue__take(&queue, 0), PUSH_AT_ONCE);
	assert_int_equal(queue.n, PUSH_AT_ONCE + 1);
	assert_int_equal(queue.results[PUSH_RESULT_SENT], 1);
}

static void number_is_bounded(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PUSH_REQUESTS + 500; i++)
		add(1, i);
	assert_int_equal(queue.n, PUSH_REQUESTS);
	assert_int_equal(queue.bytes, PUSH_REQUESTS);
	assert_int_equal(queue.drops[PUSH_DROP_QUEUE_FULL], 500);
	assert_is(push_queue__take(&queue, 0), 500); /* the oldest requests were dropped */
}

static void bytes_are_bounded(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 6; i++)
		add(PUSH_BYTES / 4, i);
	assert_int_equal(queue.n, 4);
	assert_int_equal(queue.bytes, PUSH_BYTES);
	assert_int_equal(queue.drops[PUSH_DROP_QUEUE_FULL], 2);
	add(PUSH_BYTES + 1, 6);
	assert_int_equal(queue.n, 4);
	assert_int_equal(queue.drops[PUSH_DROP_TOO_LARGE], 1);
}

/* A request that is being sent is not dropped, because its bytes are in use. */
static void what_is_under_way_is_not_dropped(void **state)
{
	struct push_request *r;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		add(PUSH_BYTES / 4, i);
	r = push_queue__take(&queue, 0);
	assert_is(r, 0);
	add(PUSH_BYTES / 4, 4);
	assert_is(queue.first, 0);
	assert_is(queue.first->next, 2);
	for (unsigned i = 2; i < 5; i++)
		assert_is(push_queue__take(&queue, 0), i);
	add(PUSH_BYTES / 4, 5);
	assert_int_equal(queue.n, 4);
	assert_int_equal(queue.drops[PUSH_DROP_QUEUE_FULL], 2);
	assert_is(queue.last, 4);
	push_queue__end(&queue, r, PUSH_RESULT_SENT, 0, 0);
	add(PUSH_BYTES / 4, 6);
	assert_is(queue.last, 6);
}

/* Reports a failure at `now`. Returns how long it is until the next attempt. */
static double fail_once(double now, enum push_result result, double asked_s)
{
	struct push_request *r = push_queue__take(&queue, now);

	assert_non_null(r);
	push_queue__end(&queue, r, result, asked_s, now);
	return push_queue__wait_s(&queue, now);
}

static void waits_double_up_to_a_limit(void **state)
{
	double now = 1000, most = PUSH_WAIT_S;

	(void)state;
	add(1, 0);
	add(1, 1);
	for (int i = 0; i < PUSH_ATTEMPTS - 1; i++) {
		double wait = fail_once(now, PUSH_RESULT_CONNECTION, 0);

		assert_true(wait >= most / 2 && wait <= most);
		assert_null(push_queue__take(&queue, now + 0.99 * wait));
		now += wait;
		most = 2 * most < PUSH_WAIT_MOST_S ? 2 * most : PUSH_WAIT_MOST_S;
	}
	assert_true(most == PUSH_WAIT_MOST_S);
	/* after a success the wait is as short as at first, and several requests go at once */
	push_queue__end(&queue, push_queue__take(&queue, now), PUSH_RESULT_SENT, 0, now);
	assert_true(fail_once(now, PUSH_RESULT_BUSY, 0) <= PUSH_WAIT_S);
}

static void one_at_a_time_after_a_failure(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		add(1, i);
	fail_once(0, PUSH_RESULT_BUSY, 0);
	assert_is(push_queue__take(&queue, 100), 0);
	assert_null(push_queue__take(&queue, 100));
	push_queue__end(&queue, queue.first, PUSH_RESULT_SENT, 0, 100);
	assert_is(push_queue__take(&queue, 100), 1);
	assert_is(push_queue__take(&queue, 100), 2);
}

static void retry_after_is_obeyed_within_reason(void **state)
{
	double wait;

	(void)state;
	add(1, 0);
	assert_true(fail_once(0, PUSH_RESULT_BUSY, 30) == 30);
	assert_null(push_queue__take(&queue, 29.9));
	wait = fail_once(30, PUSH_RESULT_BUSY, 1e9);
	assert_true(wait == PUSH_ASKED_MOST_S);
}

/* Agents have different random numbers, so they try again at different times. */
static void agents_do_not_come_back_together(void **state)
{
	double waits[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		push_queue__clear(&queue);
		memset(&queue, 0, sizeof(queue));
		queue.random = (uint64_t)i + 1;
		add(1, 0);
		waits[i] = fail_once(0, PUSH_RESULT_BUSY, 0);
	}
	assert_true(waits[0] - waits[1] > 0.001 || waits[1] - waits[0] > 0.001);
}

static void attempts_are_bounded(void **state)
{
	double now = 0;

	(void)state;
	add(1, 0);
	add(1, 1);
	for (int i = 0; i < PUSH_ATTEMPTS; i++)
		now += fail_once(now, PUSH_RESULT_CONNECTION, 0);
	assert_int_equal(queue.drops[PUSH_DROP_ATTEMPTS], 1);
	assert_int_equal(queue.results[PUSH_RESULT_CONNECTION], PUSH_ATTEMPTS);
	assert_is(push_queue__take(&queue, now), 1);
}

/* The next attempt is a repetition only if the receiver may have got the last attempt. */
static void repetitions_are_marked_and_counted(void **state)
{
	struct push_request *r;

	(void)state;
	add(1, 0);
	fail_once(0, PUSH_RESULT_BUSY, 0);
	fail_once(100, PUSH_RESULT_CONNECTION, 0);
	assert_false(queue.first->repeated);
	assert_int_equal(queue.n_repeated, 0);
	fail_once(200, PUSH_RESULT_UNKNOWN, 0);
	assert_true(queue.first->repeated);
	r = push_queue__take(&queue, 300);
	assert_int_equal(queue.n_repeated, 1);
	assert_int_equal(r->attempts, 4);
	push_queue__end(&queue, r, PUSH_RESULT_SENT, 0, 300);
	assert_int_equal(queue.n, 0);
}

static void refused_is_refused(void **state)
{
	(void)state;
	add(1, 0);
	add(1, 1);
	push_queue__end(&queue, push_queue__take(&queue, 0), PUSH_RESULT_REFUSED, 0, 0);
	assert_int_equal(queue.drops[PUSH_DROP_REFUSED], 1);
	assert_int_equal(queue.results[PUSH_RESULT_REFUSED], 1);
	assert_is(push_queue__take(&queue, 0), 1); /* at once, because the receiver answers */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(oldest_go_first_and_few_at_once, begin, end),
		cmocka_unit_test_setup_teardown(number_is_bounded, begin, end),
		cmocka_unit_test_setup_teardown(bytes_are_bounded, begin, end),
		cmocka_unit_test_setup_teardown(what_is_under_way_is_not_dropped, begin, end),
		cmocka_unit_test_setup_teardown(waits_double_up_to_a_limit, begin, end),
		cmocka_unit_test_setup_teardown(one_at_a_time_after_a_failure, begin, end),
		cmocka_unit_test_setup_teardown(retry_after_is_obeyed_within_reason, begin, end),
		cmocka_unit_test_setup_teardown(agents_do_not_come_back_together, begin, end),
		cmocka_unit_test_setup_teardown(attempts_are_bounded, begin, end),
		cmocka_unit_test_setup_teardown(repetitions_are_marked_and_counted, begin, end),
		cmocka_unit_test_setup_teardown(refused_is_refused, begin, end),
	};

	return cmocka_run_group_tests_name("push_queue", tests, NULL, NULL);
}
