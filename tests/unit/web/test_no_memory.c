// SPDX-License-Identifier: BSD-2-Clause
/* A profile comes to the store while each allocation fails in turn. Each failure must be told and
 * counted: a profile that is missing without a word would look like a quiet process. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/encode/fixture.h"
#include "tests/unit/failing.h"
#include "web/store.h"

#define PID	 7
#define START_NS 1700000000000000000u

static int add_profile(void *ctx, FILE *told)
{
	const struct text *file = ctx;
	struct store store = {};
	struct error err = {};
	long left = failing_in;
	char *bytes;
	int rc;

	failing_in = 0;
	bytes = malloc(file->len); /* the store frees it */
	assert_non_null(bytes);
	memcpy(bytes, file->bytes, file->len);
	failing_in = left;
	rc = store__add(&store, PID, START_NS, bytes, file->len, &err);
	failing_in = 0;
	if (rc && !*err.text)
		fail_msg("nothing says why: %s", strerror(-rc));
	assert_int_equal(store.n_evicted + store.n_unreadable + store.n_refused, !!rc);
	assert_true(!store__find(&store, PID) == !!rc);
	if (!rc)
		fprintf(told, "%g", store__find(&store, PID)->live.bytes);
	store__clear(&store);
	return rc;
}

static void each_failure_is_told(void **state)
{
	struct profile *profile = new_profile(1);
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};

	(void)state;
	STACK(profile, 1, 100, 5, "malloc", "hold", "main");
	STACK(profile, 2, 100, 7, "malloc", "leak", "main");
	profile->pid = PID;
	profile->start_unix_ns = START_NS;
	end_profile(profile);
	assert_int_equal(encode_pprof(profile, &sink), 0);
	profile__free(profile);
	fail_each_allocation("store__add()", add_profile, &text);
	free(text.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_failure_is_told)};

	return cmocka_run_group_tests_name("no_memory", tests, NULL, NULL);
}
