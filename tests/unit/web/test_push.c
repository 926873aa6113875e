// SPDX-License-Identifier: BSD-2-Clause
/* The requests in the queues: names, intervals, and bytes allocated in them. Nothing is sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "decode/decode.h"
#include "tests/unit/encode/fixture.h"
#include "web/push.h"

#define START_NS 1700000000000000000u

static struct store store;
static struct push *push;

static struct push *new_push(const char *text, uint64_t now_ns)
{
	return push__new(strdup(text), strlen(text), now_ns);
}

static void came(void *ctx, struct process *process, const struct profile *before)
{
	(void)ctx;
	push__add(push, process, before);
}

static int begin(void **state)
{
	(void)state;
	push = new_push("pyroscope http://127.0.0.1:4040\nlabel env=test\n", START_NS);
	assert_non_null(push);
	strcpy(push->host, "host-1");
	store = (struct store){.came = came};
	return 0;
}

static int end(void **state)
{
	(void)state;
	store__clear(&store);
	push__free(push);
	return 0;
}

/* A profile of pid comes, taken after_s seconds after its start. Of n blocks of 100 bytes that were
 * allocated, one is live. */
static void come(pid_t pid, const char *comm, unsigned after_s, int n)
{
	struct profile *profile = new_profile(1);
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct error err = {};
	size_t site;

	profile->pid = pid;
	snprintf(profile->comm, sizeof(profile->comm), "%s", comm);
	profile->start_unix_ns = START_NS;
	site = STACK(profile, 1, 100, 1, "malloc", "keep", "main");
	profile->sites[site].alloc_objects = n;
	profile->sites[site].alloc_bytes = 100 * n;
	profile->sites[site].freed_objects = n - 1;
	profile->sites[site].freed_bytes = 100 * (n - 1);
	end_profile(profile);
	assert_int_equal(encode_pprof(profile, &sink), 0);
	profile__free(profile);
	if (store__add(&store, pid, START_NS + after_s * 1000000000ull, text.bytes, text.len, &err))
		fail_msg("%s", err.text);
}

static struct push_queue *queue(size_t i)
{
	return &push->receivers[i].queue;
}

/* Asserts the interval of the receiver's last request, and keep()'s allocated bytes in it. */
static void assert_last(size_t i, uint64_t from_s, uint64_t until_s, double allocated)
{
	char part[96];
	struct profile *profile;
	struct error err = {};

	snprintf(part, sizeof(part), "&from=%llu&until=%llu&format=pprof&spyName=memtrace",
		 (unsigned long long)(START_NS + from_s * 1000000000),
		 (unsigned long long)(START_NS + until_s * 1000000000));
	assert_has(queue(i)->last->target, part);
	assert_int_equal(
		decode_bytes("pushed", queue(i)->last->body, queue(i)->last->size, &profile, &err),
		0);
	assert_int_equal(profile->n_sites, 1);
	assert_true(profile->sites[0].live.bytes == 100);
	/* if there are no allocated bytes, readers use the live bytes */
	if (allocated > 0)
		assert_true(profile->sites[0].alloc_bytes == allocated);
	assert_int_equal(profile->start_unix_ns, START_NS + from_s * 1000000000);
	profile__free(profile);
}

static void intervals_follow_each_other(void **state)
{
	(void)state;
	come(7, "leaky", 1, 3);
	assert_last(0, 0, 1, 300);
	come(7, "leaky", 16, 10);
	assert_last(0, 1, 16, 700);
	come(7, "leaky", 31, 15);
	assert_last(0, 16, 31, 500);
	assert_int_equal(queue(0)->n, 3);
	assert_string_not_equal(queue(0)->first->id, queue(0)->last->id);
}

/* An earlier server may already have sent the time before this server's start. */
static void what_was_before_us_is_not_sent_again(void **state)
{
	struct profile *profile;
	struct error err = {};

	(void)state;
	push->began_ns = START_NS + 1;
	come(7, "leaky", 1, 3);
	assert_int_equal(
		decode_bytes("pushed", queue(0)->last->body, queue(0)->last->size, &profile, &err),
		0);
	assert_true(profile->no_allocated);
	profile__free(profile);
	come(7, "leaky", 16, 10);
	assert_last(0, 1, 16, 700);
}

/* Another process with the same pid has nothing to do with the first one. */
static void a_number_is_used_again(void **state)
{
	(void)state;
	come(7, "leaky", 1, 300);
	store__end_round(&store);
	come(8, "leaky", 2, 4);
	assert_last(0, 0, 2, 400);
	assert_has(queue(0)->last->target, "pid%3D8");
}

static void estimates_that_fall_allocate_nothing(void **state)
{
	(void)state;
	come(7, "leaky", 1, 10);
	come(7, "leaky", 2, 8);
	assert_last(0, 1, 2, 0);
}

static void names_are_encoded(void **state)
{
	(void)state;
	come(7, "leaky", 1, 3);
	assert_has(queue(0)->last->target,
		   "/ingest?name=leaky%7Benv%3Dtest%2Cnode%3Dhost-1%2Ccomm%3Dleaky%2C");
	assert_has(queue(0)->last->target, "pid%3D7%7D&from=");
	/* each byte that would end the name is encoded twice: for the series, and for the URL */
	come(8, "a b{x=1},&%", 1, 3);
	assert_has(queue(0)->last->target, "/ingest?name=a_b_x_1____%7B");
	assert_has(queue(0)->last->target, "comm%3Da%2520b%257Bx%253D1%257D%252C%2526%2525%2Cpid");
	come(9, "", 1, 3);
	assert_has(queue(0)->last->target, "/ingest?name=_%7Benv%3Dtest%2Cnode%3Dhost-1%2Cpid");
}

static void labels_of_the_user_come_first(void **state)
{
	(void)state;
	push__free(push);
	push = new_push("pyroscope http://h\nlabel node=mine\nlabel service_name=shop 1\n", 1);
	come(7, "leaky", 1, 3);
	assert_has(queue(0)->last->target, "/ingest?name=shop_1%7Bnode%3Dmine%2Ccomm%3Dleaky%2C");
	assert_null(strstr(queue(0)->last->target, "service_name"));
}

static void each_receiver_has_its_own(void **state)
{
	(void)state;
	push__free(push);
	push = new_push("pyroscope http://a\ntenant t\notlp https://b/x\ntoken secret\n", START_NS);
	assert_int_equal(push->n_receivers, 2);
	assert_string_equal(push->receivers[0].tenant, "t");
	assert_null(push->receivers[0].token);
	assert_string_equal(push->receivers[1].url, "https://b/x");
	assert_string_equal(push->receivers[1].token, "secret");
	come(7, "leaky", 1, 3);
	assert_string_equal(queue(1)->last->target, "/v1development/profiles");
	assert_memory_equal(queue(1)->last->body, "\x1f\x8b", 2);
	assert_last(0, 0, 1, 300);
}

static void wrong_texts_are_refused(void **state)
{
	static const char *const texts[] = {
		"",	      "pyroscope", "pyroscope http://h",
		"tenant x\n", "token x\n", "other x\n",
		"label x\n",  "\n",	   "otlp a\notlp b\notlp c\notlp d\notlp e\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_null(new_push(texts[i], 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(intervals_follow_each_other, begin, end),
		cmocka_unit_test_setup_teardown(what_was_before_us_is_not_sent_again, begin, end),
		cmocka_unit_test_setup_teardown(a_number_is_used_again, begin, end),
		cmocka_unit_test_setup_teardown(estimates_that_fall_allocate_nothing, begin, end),
		cmocka_unit_test_setup_teardown(names_are_encoded, begin, end),
		cmocka_unit_test_setup_teardown(labels_of_the_user_come_first, begin, end),
		cmocka_unit_test_setup_teardown(each_receiver_has_its_own, begin, end),
		cmocka_unit_test_setup_teardown(wrong_texts_are_refused, begin, end),
	};

	return cmocka_run_group_tests_name("push", tests, NULL, NULL);
}
