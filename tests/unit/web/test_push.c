// SPDX-License-Identifier: BSD-2-Clause
/* The requests in the queues: names, intervals, and the bytes that were allocated in these
 * intervals. Nothing is sent. */
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
 * allocated in the function, one is live. n 0: the profile is empty. */
static void come_from(pid_t pid, const char *comm, unsigned after_s, int n, const char *function)
{
	struct profile *profile = new_profile(1);
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct error err = {};
	size_t site;

	profile->pid = pid;
	snprintf(profile->comm, sizeof(profile->comm), "%s", comm);
	profile->start_unix_ns = START_NS;
	if (n) {
		site = STACK(profile, 1, 100, 1, "malloc", function, "main");
		profile->sites[site].alloc_objects = n;
		profile->sites[site].alloc_bytes = 100 * n;
		profile->sites[site].freed_objects = n - 1;
		profile->sites[site].freed_bytes = 100 * (n - 1);
	}
	end_profile(profile);
	assert_int_equal(encode_pprof(profile, &sink), 0);
	profile__free(profile);
	if (store__add(&store, pid, START_NS + after_s * 1000000000ull, text.bytes, text.len, &err))
		fail_msg("%s", err.text);
}

static void come(pid_t pid, const char *comm, unsigned after_s, int n)
{
	come_from(pid, comm, after_s, n, "keep");
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

/* An earlier server may already have sent what was allocated before this server's start. */
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
	store__end_round(&store, true);
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

/* Each profile scales all totals anew, as in windows, so totals may fall. A receiver adds up what
 * it gets. */
static void the_sum_is_never_above_the_estimate(void **state)
{
	static const int totals[] = {100, 80, 120, 90, 121, 60, 121};
	double sum = 0;

	(void)state;
	for (unsigned i = 0; i < sizeof(totals) / sizeof(*totals); i++) {
		struct profile *profile;
		struct error err = {};

		come(7, "leaky", i + 1, totals[i]);
		assert_int_equal(decode_bytes("pushed", queue(0)->last->body, queue(0)->last->size,
					      &profile, &err),
				 0);
		sum += profile->no_allocated ? 0 : profile->sites[0].alloc_bytes;
		profile__free(profile);
	}
	assert_true(sum == 12100);
}

/* A stack is missing in one profile, and in the next one it is there again. */
static void what_comes_back_is_not_sent_again(void **state)
{
	(void)state;
	come_from(7, "leaky", 1, 10, "keep");
	assert_last(0, 0, 1, 1000);
	come_from(7, "leaky", 2, 5, "cache");
	assert_last(0, 1, 2, 500);
	come_from(7, "leaky", 3, 12, "keep");
	assert_last(0, 2, 3, 200);
	come_from(7, "leaky", 4, 6, "cache");
	assert_last(0, 3, 4, 100);
	come_from(7, "leaky", 5, 0, NULL); /* is not sent */
	assert_int_equal(queue(0)->n, 4);
	come_from(7, "leaky", 6, 15, "keep");
	assert_last(0, 5, 6, 300);
	come_from(7, "leaky", 7, 9, "cache");
	assert_last(0, 6, 7, 300);
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
	push__free(push);
	push = new_push("pyroscope http://h\nlabel pid=none\n", 1);
	come(8, "leaky", 1, 3);
	assert_has(queue(0)->last->target, "pid%3Dnone%2C");
	assert_null(strstr(queue(0)->last->target, "pid%3D8"));
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

/* Pyroscope's push API: PushRequest.series = 1; RawProfileSeries.labels = 1, .samples = 2;
 * LabelPair.name = 1, .value = 2; RawSample.raw_profile = 1, .ID = 2. A field is its number times 8
 * plus 2, then the length of its bytes, then these bytes. */
static void requests_of_the_push_api(void **state)
{
	/* in the order of names */
	static const char labels[] = "\n\x12\n\x09__delta__\x12\x05"
				     "false"
				     "\n\x12\n\x08__name__\x12\x06memory"
				     "\n\x0d\n\x04"
				     "comm\x12\x05"
				     "leaky"
				     "\n\x0b\n\x03"
				     "env\x12\x04test"
				     "\n\x0e\n\x04node\x12\x06host-1"
				     "\n\x08\n\x03pid\x12\x01"
				     "7"
				     "\n\x14\n\x0cservice_name\x12\x04shop"
				     "\x12";
	const struct push_request *request;
	struct profile *profile;
	struct error err = {};
	const char *at, *file;
	char id[40];

	(void)state;
	push__free(push);
	push = new_push("pyroscope-rpc http://127.0.0.1:4040\nlabel service_name=shop\n"
			"label env=test\n",
			START_NS);
	assert_non_null(push);
	strcpy(push->host, "host-1");
	come(7, "leaky", 1, 3);
	request = queue(0)->last;
	assert_string_equal(request->target, "/push.v1.PusherService/Push");
	assert_int_equal(request->body[0], '\n');
	at = memmem(request->body, request->size, labels, sizeof(labels) - 1);
	assert_non_null(at);
	assert_true(at - request->body <= 4);
	snprintf(id, sizeof(id), "\x12$%.8s-%.4s-%.4s-%.4s-%.12s", request->id, request->id + 8,
		 request->id + 12, request->id + 16, request->id + 20);
	assert_int_equal(memcmp(request->body + request->size - 38, id, 38), 0);
	file = memmem(request->body, request->size, "\x1f\x8b", 2); /* of gzip */
	assert_non_null(file);
	assert_int_equal(decode_bytes("pushed", file,
				      (size_t)(request->body + request->size - 38 - file), &profile,
				      &err),
			 0);
	assert_true(profile->sites[0].alloc_bytes == 300);
	profile__free(profile);
}

/* If half of a queue is full, but its receiver has not failed, the feed must wait. If the receiver
 * fails, waiting does not help. */
static void a_queue_may_be_behind(void **state)
{
	struct push_queue *queue = &push->receivers[0].queue;
	unsigned n = 0;

	(void)state;
	while (queue->n <= PUSH_REQUESTS / 2) {
		assert_false(push__is_behind(push));
		come(7, "leaky", ++n, 1);
	}
	assert_true(push__is_behind(push));
	push_queue__end(queue, push_queue__take(queue, 1), PUSH_RESULT_BUSY, 0, 1);
	assert_false(push__is_behind(push));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(intervals_follow_each_other, begin, end),
		cmocka_unit_test_setup_teardown(what_was_before_us_is_not_sent_again, begin, end),
		cmocka_unit_test_setup_teardown(a_number_is_used_again, begin, end),
		cmocka_unit_test_setup_teardown(estimates_that_fall_allocate_nothing, begin, end),
		cmocka_unit_test_setup_teardown(the_sum_is_never_above_the_estimate, begin, end),
		cmocka_unit_test_setup_teardown(what_comes_back_is_not_sent_again, begin, end),
		cmocka_unit_test_setup_teardown(names_are_encoded, begin, end),
		cmocka_unit_test_setup_teardown(labels_of_the_user_come_first, begin, end),
		cmocka_unit_test_setup_teardown(requests_of_the_push_api, begin, end),
		cmocka_unit_test_setup_teardown(each_receiver_has_its_own, begin, end),
		cmocka_unit_test_setup_teardown(wrong_texts_are_refused, begin, end),
		cmocka_unit_test_setup_teardown(a_queue_may_be_behind, begin, end),
	};

	return cmocka_run_group_tests_name("push", tests, NULL, NULL);
}
