// SPDX-License-Identifier: BSD-2-Clause
/* Requests that wait for two profiles of a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "decode/decode.h"
#include "tests/unit/encode/fixture.h"
#include "web/delta.h"
#include "web/gains.h"
#include "web/store.h"

#define START_S 1700000000u

static struct store store;
static struct deltas deltas;
static double now_s; /* monotonic */

static uint64_t wall_ns(double after_s)
{
	return (uint64_t)((START_S + after_s) * 1e9);
}

static void came(void *ctx, struct process *process, const struct profile *before)
{
	(void)ctx;
	(void)before;
	deltas__take(&deltas, process, now_s);
}

static int begin(void **state)
{
	(void)state;
	memset(&store, 0, sizeof(store));
	memset(&deltas, 0, sizeof(deltas));
	store.came = came;
	return 0;
}

static int end(void **state)
{
	(void)state;
	store__clear(&store);
	assert_int_equal(deltas.n, 0);
	assert_int_equal(deltas.bytes, 0);
	return 0;
}

/* A profile of the process comes. It has `kept` live blocks that keep() allocated, and `cached`
 * live blocks that cache() allocated. */
static void come_of(pid_t pid, uint64_t start_ns, unsigned after_s, int kept, int cached)
{
	struct profile *profile = new_profile(1);
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct error err = {};

	now_s = after_s;
	profile->pid = pid;
	strcpy(profile->comm, "leaky");
	profile->start_unix_ns = start_ns;
	STACK(profile, 1, 100, kept, "malloc", "keep", "main");
	STACK(profile, 1, 100, cached, "malloc", "cache", "main");
	end_profile(profile);
	assert_int_equal(encode_pprof(profile, &sink), 0);
	profile__free(profile);
	if (store__add(&store, pid, wall_ns(after_s), text.bytes, text.len, &err))
		fail_msg("%s", err.text);
}

static void come(unsigned after_s, int kept, int cached)
{
	come_of(7, wall_ns(0), after_s, kept, cached);
}

static struct delta *ask(double seconds)
{
	return delta__new(&deltas, 7, seconds, wall_ns(now_s), now_s);
}

static bool tick(double s)
{
	now_s = s;
	return deltas__tick(&deltas, &store, s);
}

static void the_difference_of_two_profiles(void **state)
{
	struct profile *profile;
	struct error err = {};
	struct delta *delta;

	(void)state;
	come(1, 5, 50);
	now_s = 1.5;
	delta = ask(10);
	come(1, 5, 50); /* this profile was made before the request */
	assert_int_equal(delta->from_ns, 0);
	come(2, 10, 50);
	assert_int_equal(delta->from_ns, wall_ns(2));
	assert_false(tick(11.9));
	assert_true(tick(12));
	assert_false(tick(12.1)); /* the tracer was already asked for a round */
	come(11, 20, 50);	  /* too early */
	assert_int_equal(delta->status, 0);
	come(13, 30, 50);
	assert_int_equal(delta->status, 200);
	assert_int_equal(decode_bytes("delta", delta->body, delta->body_size, &profile, &err), 0);
	assert_int_equal(profile->start_unix_ns, wall_ns(2));
	assert_true(profile->duration_s == 11);
	assert_int_equal(profile->n_sites, 1); /* cache() has not grown */
	assert_true(profile->sites[0].live.bytes == 2000 && profile->sites[0].live.objects == 20);
	assert_true(profile->sites[0].alloc_bytes == 2000);
	profile__free(profile);
	delta__free(&deltas, delta);
}

static void what_shrinks_is_negative(void **state)
{
	struct profile *profile;
	struct error err = {};
	struct delta *delta;

	(void)state;
	come(1, 10, 50);
	delta = ask(1);
	come(1, 10, 50);
	come(3, 15, 20);
	assert_int_equal(delta->status, 200);
	/* memtrace itself does not accept the answer as a profile */
	assert_true(decode_bytes("delta", delta->body, delta->body_size, &profile, &err) < 0);
	assert_has(err.text, "negative");
	delta__free(&deltas, delta);
}

static void gains_of_stacks(void **state)
{
	struct profile *profiles[2];
	struct gains gains;

	(void)state;
	for (int i = 0; i < 2; i++) {
		profiles[i] = new_profile(1);
		/* sites are sorted by live bytes, so their order changes */
		STACK(profiles[i], 1, 100, i ? 15 : 40, "malloc", "keep", "main");
		STACK(profiles[i], 1, 100, i ? 20 : 10, "malloc", "cache", "main");
		if (i)
			STACK(profiles[i], 1, 8, 1, "malloc", "once", "main");
		end_profile(profiles[i]);
	}
	assert_int_equal(gains__between(profiles[0], profiles[1], &gains), 0);
	assert_true(gains.live[0][0] == 10 && gains.live[0][1] == 1000);
	assert_true(gains.allocated[0][0] == 10 && gains.allocated[0][1] == 1000);
	assert_true(gains.live[1][0] == -25 && gains.live[1][1] == -2500);
	assert_true(gains.allocated[1][0] == 0 && gains.allocated[1][1] == 0);
	assert_true(gains.live[2][0] == 1 && gains.live[2][1] == 8);
	gains__clear(&gains);
	profile__free(profiles[0]);
	profile__free(profiles[1]);
}

/* As the server gets a profile: written and read again. */
static struct profile *received(struct profile *profile)
{
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct error err = {};

	end_profile(profile);
	assert_int_equal(encode_pprof(profile, &sink), 0);
	profile__free(profile);
	assert_int_equal(decode_bytes("it", text.bytes, text.len, &profile, &err), 0);
	free(text.bytes);
	return profile;
}

static void a_new_frame_of_python_changes_no_other(void **state)
{
	struct profile *before = new_profile(1), *now = new_profile(1);
	struct gains gains;

	(void)state;
	add_python(before, 0x7f0000005000, "keep", 30);
	add_python(now, 0x7f0000005000, "keep", 40);
	add_python(now, 0x7f0000003000, "once", 20);
	before = received(before);
	now = received(now);
	assert_int_equal(gains__between(before, now, &gains), 0);
	assert_true(gains.allocated[0][0] == 10 && gains.live[0][1] == 1000);
	assert_true(gains.allocated[1][0] == 20 && gains.live[1][1] == 2000);
	gains__clear(&gains);
	profile__free(before);
	profile__free(now);
}

static void a_process_that_ends_or_says_nothing(void **state)
{
	struct delta *delta;

	(void)state;
	come(1, 10, 50);
	delta = ask(300);
	assert_false(tick(300));
	tick(400);
	assert_int_equal(delta->status, 503);
	delta__free(&deltas, delta);

	delta = ask(5);
	come(401, 10, 50);
	store__end_round(&store, true);
	tick(401.5);
	assert_int_equal(delta->status, 0);
	store__end_round(&store, true);
	tick(402);
	assert_int_equal(delta->status, 404);
	delta__free(&deltas, delta);

	come(403, 10, 50);
	delta = ask(5);
	come(404, 10, 50);
	come_of(7, wall_ns(400), 410, 10, 50);
	assert_int_equal(delta->status, 409);
	delta__free(&deltas, delta);
}

static void so_many_wait_and_one_that_leaves_makes_room(void **state)
{
	struct delta *waiting[DELTA_WAITS];

	(void)state;
	come(1, 10, 50);
	for (size_t i = 0; i < DELTA_WAITS; i++)
		assert_non_null(waiting[i] = ask(5));
	assert_null(ask(5));
	come(2, 10, 50);
	delta__free(&deltas, waiting[3]);
	assert_non_null(waiting[3] = ask(5));
	/* bytes are bounded, too */
	deltas.bytes += DELTA_BYTES;
	come(3, 10, 50);
	deltas.bytes -= DELTA_BYTES;
	assert_int_equal(waiting[3]->status, 429);
	for (size_t i = 0; i < DELTA_WAITS; i++)
		delta__free(&deltas, waiting[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(the_difference_of_two_profiles),
		TEST(what_shrinks_is_negative),
		TEST(gains_of_stacks),
		TEST(a_new_frame_of_python_changes_no_other),
		TEST(a_process_that_ends_or_says_nothing),
		TEST(so_many_wait_and_one_that_leaves_makes_room),
	};

	return cmocka_run_group_tests_name("delta", tests, NULL, NULL);
}
