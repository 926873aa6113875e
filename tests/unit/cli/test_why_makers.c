// SPDX-License-Identifier: BSD-2-Clause
/* Who allocated a block, as far as tracing sampled it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/why.h"
#include "profile/drawing.h"

static size_t add_stack(struct drawing *d, const char *const *frames, size_t n)
{
	size_t site;

	for (size_t i = 0; i < n; i++)
		assert_int_equal(drawing__add_frame(d, frames[i]), 0);
	assert_int_equal(drawing__add_stack(d, &site), 0);
	return site;
}

static struct profile *make_profile(void)
{
	struct drawing d;
	struct profile *p;
	size_t grow, put, put_again;

	assert_int_equal(drawing__begin(&d, DRAWN_PATHS, 1, "made"), 0);
	grow = add_stack(&d, (const char *const[]){"main", "table_grow", "calloc"}, 3);
	put = add_stack(&d, (const char *const[]){"main", "put", "std::string::append"}, 3);
	put_again = add_stack(&d, (const char *const[]){"main", "serve", "put", "malloc"}, 4);
	assert_int_equal(profile__add_block(d.profile, put, 0x3000, 100), 0);
	assert_int_equal(profile__add_block(d.profile, grow, 0x1000, 4096), 0);
	assert_int_equal(profile__add_block(d.profile, put, 0x2000, 100), 0);
	assert_int_equal(profile__add_block(d.profile, grow, 0x3000, 48), 0);
	assert_int_equal(profile__add_block(d.profile, put_again, 0x2000, 90), 0);
	assert_int_equal(drawing__finish(&d, &p), 0);
	drawing__end(&d);
	return p;
}

static void test_makers(void **state)
{
	struct profile *p = make_profile();
	struct why_makers *makers;

	(void)state;
	assert_int_equal(why_makers__new(p, &makers), 0);
	profile__free(p);
	assert_string_equal(why_makers__find(makers, 0x1000, 4104), "table_grow");
	/* the block is smaller or much larger than the sampled block at its address: it is another
	 * block */
	assert_null(why_makers__find(makers, 0x1000, 4095));
	assert_null(why_makers__find(makers, 0x1000, 8192));
	assert_null(why_makers__find(makers, 0x1008, 4096));
	assert_null(why_makers__find(makers, 0xfff, 4096));
	assert_null(why_makers__find(makers, 0x4000, 1));
	/* with two samples at one address, it is not known which one lives */
	assert_string_equal(why_makers__find(makers, 0x2000, 104), "put");
	assert_null(why_makers__find(makers, 0x3000, 104));
	assert_string_equal(why_makers__find(makers, 0x3000, 56), "table_grow");
	why_makers__free(makers);
	why_makers__free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_makers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
