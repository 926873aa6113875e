// SPDX-License-Identifier: BSD-2-Clause
/* What census__take() makes of its child's stream. The scan is a fake: each test says what the
 * child writes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_scan.h"

#include "heap/census.h"

static struct {
	size_t bytes; /* number of bytes that the child writes */
	bool hangs;   /* after them, the child neither writes nor ends */
	int pipe[2];
} fake;

int __wrap_scan__start(pid_t pid, const struct maps *maps, const struct scan_task *task,
		       struct scan **ret, struct error *err)
{
	/* a census of a process without a heap is all zeros, and has no lists */
	static const char written[2 * sizeof(struct census)];

	(void)pid, (void)maps, (void)task, (void)err;
	assert_true(fake.bytes <= sizeof(written));
	assert_int_equal(pipe(fake.pipe), 0);
	/* a pipe has room for 64 KiB, and nobody reads yet */
	assert_true(fake.bytes <= 65536);
	assert_int_equal(write(fake.pipe[1], written, fake.bytes), fake.bytes);
	if (!fake.hangs)
		close(fake.pipe[1]);
	assert_int_equal(stream__new(fake.pipe[0], 0.05, NULL, 1 << 20, &scan_stream), 0);
	*ret = (struct scan *)&fake;
	return 0;
}

int __wrap_scan__end(struct scan *scan)
{
	(void)scan;
	stream__free(scan_stream);
	close(fake.pipe[0]);
	if (fake.hangs)
		close(fake.pipe[1]);
	return 0;
}

/* Takes a census. Returns what census__take() does. */
static int take(size_t bytes, bool hangs, struct error *err)
{
	const struct census_options options = {};
	struct maps maps = {};
	struct census census = {};
	int rc;

	*err = (struct error){};
	fake.bytes = bytes;
	fake.hangs = hangs;
	rc = census__take(1, &maps, &options, &census, err);
	census__clear(&census);
	return rc;
}

static void test_how_the_stream_ends(void **state)
{
	const size_t whole = sizeof(struct census);
	struct error err;

	(void)state;
	assert_int_equal(take(whole, false, &err), 0);
	assert_int_equal(take(whole + 1, false, &err), -EPROTO);
	assert_int_equal(take(whole - 1, false, &err), -ECHILD);
	assert_int_equal(take(0, false, &err), -ECHILD);
}

/* Time may be up at any place of the stream, also behind its last byte. */
static void test_time_is_up(void **state)
{
	const size_t whole = sizeof(struct census);
	struct error err;

	(void)state;
	assert_int_equal(take(whole - 1, true, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "in time"));
	assert_int_equal(take(whole, true, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "in time"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_how_the_stream_ends),
		cmocka_unit_test(test_time_is_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
