// SPDX-License-Identifier: BSD-2-Clause
/* What the store makes of profiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/unit/encode/fixture.h"
#include "web/store.h"

#define START_NS 1700000000000000000u

static struct store store;

static int begin(void **state)
{
	(void)state;
	memset(&store, 0, sizeof(store));
	return 0;
}

static int end(void **state)
{
	(void)state;
	store__clear(&store);
	return 0;
}

/* The profile comes from the tracer, `seconds` after its run began. */
static void come(struct profile *profile, int seconds)
{
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct error err = {};

	profile->start_unix_ns = START_NS;
	profile->duration_s = seconds;
	end_profile(profile);
	assert_int_equal(encode_pprof(profile, &sink), 0);
	if (store__add(&store, profile->pid, START_NS + (uint64_t)seconds * 1000000000, text.bytes,
		       text.len, &err))
		fail_msg("%s", err.text);
	profile__free(profile);
}

/* A program chooses the names of its threads, so their number must not count twice. */
static void many_pools_take_linear_time(void **state)
{
	struct profile *profile = new_profile(1);
	const struct process *p;
	clock_t begin;
	size_t thread;

	(void)state;
	STACK(profile, 1, 100, 5, "malloc", "keep", "main");
	for (uint32_t i = 0; i < 60000; i++) {
		char name[16];

		snprintf(name, sizeof(name), "t%xt", i);
		assert_int_equal(profile__add_thread(profile, i + 1, name, &thread), 0);
	}
	begin = clock();
	come(profile, 1);
	assert_true(clock() - begin < 3 * CLOCKS_PER_SEC);
	p = store__find(&store, 4711);
	assert_string_equal(p->pools[0].name, "t0t");
	assert_true(p->pools[0].live_bytes == 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(many_pools_take_linear_time),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
