// SPDX-License-Identifier: BSD-2-Clause
/* How many refusals memtrace keeps in a run of several days. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "capture/internal.h"

#define FILES 2000

static const struct capture_refusal *find(const struct capture *c, uint64_t inode)
{
	const struct capture_refusal *refusals;
	size_t n;

	refusals = capture__refusals(c, &n);
	for (size_t i = 0; i < n; i++)
		if (refusals[i].file.inode == inode)
			return &refusals[i];
	return NULL;
}

static void refuse(struct capture *c, uint64_t inode)
{
	const struct allocator a = {.family = "glibc", .file = {8, 1, inode}};

	assert_int_equal(capture__refuse(c, &a, 0, "text"), 0);
}

static void allow(struct capture *c, uint64_t inode)
{
	const struct file_id file = {8, 1, inode};
	const struct capture_refusal *r = find(c, inode);

	assert_non_null(r);
	capture__allow(c, &file, r->family);
	assert_true(r->gone_ns > 0);
}

/* One file after the other is refused, and then allowed or released. Only two refusals hold. */
static void only_the_latest_refusals_that_are_gone_are_kept(void **state)
{
	struct capture c = {};
	size_t n;

	(void)state;
	refuse(&c, FILES + 1);
	for (uint64_t i = 1; i <= FILES; i++) {
		refuse(&c, i);
		assert_int_equal(find(&c, i)->number, i + 1);
		allow(&c, i);
	}
	refuse(&c, FILES + 2);
	assert_int_equal(find(&c, FILES + 2)->number, FILES + 2);
	capture__refusals(&c, &n);
	assert_true(n <= CAPTURE_GONE_REFUSALS + 3);
	assert_int_equal(find(&c, FILES + 1)->gone_ns, 0);
	assert_int_equal(find(&c, FILES + 2)->gone_ns, 0);
	for (uint64_t i = FILES - CAPTURE_GONE_REFUSALS + 1; i <= FILES; i++)
		assert_non_null(find(&c, i));
	assert_null(find(&c, 1));
	free(c.refusals);
}

/* A refusal that holds again has been told before: it keeps its number. */
static void a_refusal_that_comes_back_is_the_same(void **state)
{
	struct capture c = {};
	size_t n;

	(void)state;
	refuse(&c, 1);
	refuse(&c, 2);
	allow(&c, 1);
	refuse(&c, 1);
	assert_int_equal(find(&c, 1)->gone_ns, 0);
	assert_int_equal(find(&c, 1)->number, 1);
	capture__refusals(&c, &n);
	assert_int_equal(n, 2);
	refuse(&c, 3);
	assert_int_equal(find(&c, 3)->number, 3);
	free(c.refusals);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_latest_refusals_that_are_gone_are_kept),
		cmocka_unit_test(a_refusal_that_comes_back_is_the_same),
	};

	return cmocka_run_group_tests_name("refusals", tests, NULL, NULL);
}
