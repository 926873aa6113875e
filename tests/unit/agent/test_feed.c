// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/feed.h"

static int both[2];

static int begin(void **state)
{
	(void)state;
	return feed__pair(both);
}

static int end(void **state)
{
	(void)state;
	close(both[0]);
	close(both[1]);
	return 0;
}

static void a_message_and_its_memory_arrive(void **state)
{
	struct feed_message sent = {.kind = FEED_PROFILE, .pid = 7, .taken_ns = 11}, got;
	int memory = memfd_create("test", 0), received;
	char text[6] = "";

	(void)state;
	assert_int_equal(write(memory, "hello", 5), 5);
	assert_int_equal(feed__receive(both[1], &got, &received), 0);
	assert_int_equal(feed__send(both[0], &sent, memory), 0);
	close(memory);
	assert_int_equal(feed__receive(both[1], &got, &received), 1);
	assert_memory_equal(&got, &sent, sizeof(got));
	assert_int_equal(pread(received, text, 5, 0), 5);
	assert_string_equal(text, "hello");
	close(received);
	assert_int_equal(feed__send(both[1], &(struct feed_message){.kind = FEED_ASK}, -1), 0);
	assert_int_equal(feed__receive(both[0], &got, &received), 1);
	assert_int_equal(got.kind, FEED_ASK);
	assert_int_equal(received, -1);
}

/* A sender does not wait for a receiver that does not read. No message that was sent is lost. */
static void who_does_not_read_is_not_waited_for(void **state)
{
	struct feed_message message = {.kind = FEED_ASK}, got;
	int n = 0, read = 0, memory;

	(void)state;
	while (!feed__send(both[0], &message, -1))
		assert_true(++n < 1000000);
	assert_int_equal(feed__send(both[0], &message, -1), -EAGAIN);
	while (feed__receive(both[1], &got, &memory) == 1)
		read++;
	assert_int_equal(read, n);
}

static void an_end_that_is_gone_is_told(void **state)
{
	struct feed_message message = {.kind = FEED_ASK};
	int memory;

	(void)state;
	close(both[1]);
	assert_int_equal(feed__send(both[0], &message, -1), -EPIPE);
	assert_int_equal(feed__receive(both[0], &message, &memory), -EPIPE);
	both[1] = dup(both[0]);
}

static void what_is_no_message_is_refused(void **state)
{
	struct feed_message message;
	int memory;

	(void)state;
	assert_int_equal(send(both[0], "short", 5, 0), 5);
	assert_int_equal(feed__receive(both[1], &message, &memory), -EPROTO);
	assert_int_equal(memory, -1);
	assert_int_equal(feed__receive(both[1], &message, &memory), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_message_and_its_memory_arrive, begin, end),
		cmocka_unit_test_setup_teardown(who_does_not_read_is_not_waited_for, begin, end),
		cmocka_unit_test_setup_teardown(an_end_that_is_gone_is_told, begin, end),
		cmocka_unit_test_setup_teardown(what_is_no_message_is_refused, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
