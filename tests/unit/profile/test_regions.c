/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares the map of regions with a reference that has an entry for each page. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profile/regions.h"

#define PAGE  4096
#define PAGES 200
#define STEPS 3000

static uint64_t random_state;

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (random_state * 0x2545f4914f6cdd1dULL >> 33) % n;
}

/* Checks that every page has the owner that the reference gives (0: none), and that regions are in
 * order, not empty, and do not overlap. */
static void check(const struct regions *r, const uint32_t *owner)
{
	size_t covered = 0, wanted = 0;

	for (size_t i = 0; i < r->n; i++) {
		assert_true(r->at[i].start < r->at[i].end);
		assert_true(!i || r->at[i - 1].end <= r->at[i].start);
		covered += (r->at[i].end - r->at[i].start) / PAGE;
	}
	for (size_t page = 0; page < PAGES; page++) {
		const struct region *found = regions__find(r, page * PAGE);

		wanted += owner[page] != 0;
		assert_int_equal(found ? found->site : 0, owner[page]);
		if (found) {
			assert_int_equal(found->tid, owner[page] + 1);
			assert_ptr_equal(regions__find(r, page * PAGE + PAGE - 1), found);
		}
	}
	assert_int_equal(covered, wanted);
}

static void one_sequence(uint64_t seed)
{
	uint32_t owner[PAGES] = {};
	struct regions r = {};

	random_state = seed * 0x9e3779b97f4a7c15ULL + 1;
	for (uint32_t step = 1; step <= STEPS; step++) {
		uint64_t from = random_below(PAGES),
			 n = 1 + random_below(random_below(8) ? 12 : 120);
		struct regions cut = {};

		n = from + n > PAGES ? PAGES - from : n;
		if (random_below(3)) {
			struct region region = {from * PAGE, (from + n) * PAGE, step, step + 1,
						REGION_OF_ANONYMOUS};

			assert_int_equal(regions__insert(&r, &region), 0);
			for (uint64_t page = from; page < from + n; page++)
				owner[page] = step;
		} else {
			uint64_t at = from;

			assert_int_equal(regions__remove(&r, from * PAGE, (from + n) * PAGE, &cut),
					 0);
			/* each page that was cut out has the owner that the reference gives */
			for (size_t i = 0; i < cut.n; i++) {
				for (; at < cut.at[i].start / PAGE; at++)
					assert_int_equal(owner[at], 0);
				for (; at < cut.at[i].end / PAGE; at++)
					assert_int_equal(owner[at], cut.at[i].site);
			}
			for (; at < from + n; at++)
				assert_int_equal(owner[at], 0);
			for (uint64_t page = from; page < from + n; page++)
				owner[page] = 0;
		}
		check(&r, owner);
		regions__free(&cut);
	}
	regions__free(&r);
}

static void random_sequences(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++)
		one_sequence(seed);
}

static void edges(void **state)
{
	struct region all = {0, UINT64_MAX, 1, 2, REGION_OF_FILE},
		      empty = {5, 5, 1, 2, REGION_OF_FILE};
	struct regions r = {}, cut = {};

	(void)state;
	assert_null(regions__find(&r, 0));
	assert_int_equal(regions__remove(&r, 0, UINT64_MAX, &cut), 0);
	assert_int_equal(cut.n, 0);
	assert_int_equal(regions__insert(&r, &empty), -EINVAL);
	assert_int_equal(regions__insert(&r, &all), 0);
	assert_int_equal(regions__remove(&r, 10, 10, &cut), 0);
	assert_int_equal(regions__remove(&r, 20, 10, &cut), 0);
	assert_int_equal(r.n, 1);
	/* a hole in the middle; the two parts keep their data */
	assert_int_equal(regions__remove(&r, 10, 20, &cut), 0);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.at[0].end, 10);
	assert_int_equal(r.at[1].start, 20);
	assert_int_equal(r.at[1].kind, REGION_OF_FILE);
	assert_int_equal(cut.n, 1);
	assert_int_equal(cut.at[0].start, 10);
	assert_int_equal(cut.at[0].end, 20);
	assert_null(regions__find(&r, 19));
	assert_non_null(regions__find(&r, 20));
	assert_string_equal(region_memory__name(REGION_OF_STACK), "stack");
	regions__free(&r);
	regions__free(&cut);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_sequences),
		cmocka_unit_test(edges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
