// SPDX-License-Identifier: BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "profile/threads.h"

static void add_thread(struct profile *p, uint32_t tid, const char *name)
{
	size_t index;

	assert_int_equal(profile__add_thread(p, tid, name, &index), 0);
}

static void add_transfer(struct profile *p, uint32_t owner, uint32_t freer, double bytes)
{
	const struct profile_transfer transfer = {owner, freer, 1, 1, bytes};

	assert_int_equal(profile__add_transfer(p, &transfer), 0);
}

/* Two threads of a pool, one thread that only frees, and one without a known name. */
static struct profile *example(void)
{
	struct profile *p = profile__new();
	size_t site, thread;

	assert_non_null(p);
	p->interval_bytes = 1;
	add_thread(p, 12, "io");
	add_thread(p, 11, "work-22");
	add_thread(p, 10, "work-1");
	add_transfer(p, 10, 0, 1000);
	add_transfer(p, 10, 10, 300);
	add_transfer(p, 10, 11, 200);
	add_transfer(p, 10, 12, 100);
	add_transfer(p, 11, 0, 50);
	add_transfer(p, 11, 99, 40); /* freed by an unknown thread */
	add_transfer(p, 98, 12, 7);  /* allocated by an unknown thread */
	assert_int_equal(profile__add_site(p, (const uint64_t[]){0x1000}, 1, false, &site), 0);
	assert_int_equal(profile__add_thread(p, 10, NULL, &thread), 0);
	assert_int_equal(profile__add_live(p, site, thread, 400), 0);
	assert_int_equal(profile__add_thread(p, 11, NULL, &thread), 0);
	assert_int_equal(profile__add_live(p, site, thread, 10), 0);
	assert_int_equal(profile__sort(p), 0);
	return p;
}

static void check(const struct pool *pool, const char *name, size_t n, double allocated,
		  double self, double by_others, double owned, double of_others)
{
	assert_string_equal(pool->name, name);
	assert_int_equal(pool->n_threads, n);
	assert_true(pool->allocated == allocated);
	assert_true(pool->freed_self == self);
	assert_true(pool->freed_by_others == by_others);
	assert_true(pool->owned == owned);
	assert_true(pool->freed_of_others == of_others);
}

static void threads_of_a_pool_are_one(void **state)
{
	struct profile *p = example();
	struct pools pools;

	(void)state;
	assert_int_equal(pools__make(p, &pools), 0);
	assert_int_equal(pools.n, 2);
	check(&pools.list[0], "work-#", 2, 1050, 300, 340, 410, 200);
	check(&pools.list[1], "io", 1, 0, 0, 0, 0, 107);
	assert_int_equal(pools.list[0].tid, 10);
	assert_true(pools.freed[0][0] == 500);
	assert_true(pools.freed[0][1] == 100);
	assert_true(pools.freed[0][POOLS_PAIRED] == 40);
	assert_true(pools.freed[POOLS_PAIRED][1] == 7);
	pools__clear(&pools);
	profile__free(p);
}

/* There are more pools than the table of pairs shows. The other pools are counted as one pool, and
 * no bytes are lost. */
static void many_pools(void **state)
{
	struct profile *p = profile__new();
	struct pools pools;
	double all = 0;

	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%c%c", 'a' + i / 10, 'a' + i % 10);
		add_thread(p, i + 1, name);
		add_transfer(p, i + 1, 0, 1000 + i);
		add_transfer(p, i + 1, (i * 7 + 3) % 100 + 1, 10);
	}
	assert_int_equal(profile__sort(p), 0);
	assert_int_equal(pools__make(p, &pools), 0);
	assert_int_equal(pools.n, 100);
	assert_string_equal(pools.list[0].name, "jj");
	for (size_t i = 0; i <= POOLS_PAIRED; i++)
		for (size_t k = 0; k <= POOLS_PAIRED; k++)
			all += pools.freed[i][k];
	assert_true(all == 1000);
	pools__clear(&pools);
	profile__free(p);
}

static void nobody(void **state)
{
	struct profile *p = profile__new();
	struct pools pools;

	(void)state;
	assert_int_equal(profile__sort(p), 0);
	assert_int_equal(pools__make(p, &pools), 0);
	assert_int_equal(pools.n, 0);
	pools__clear(&pools);
	profile__free(p);
}

static void ages_have_classes(void **state)
{
	static const struct {
		uint64_t ns;
		int class;
	} cases[] = {{0, 0},
		     {10000, 0},
		     {10001, 1},
		     {100000, 1},
		     {1000000, 2},
		     {999999999, 5},
		     {1000000001, 6},
		     {100000000000, 7},
		     {1000000000000, 8},
		     {1000000000001, 9},
		     {UINT64_MAX, 9}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(profile_age_class(cases[i].ns), cases[i].class);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_of_a_pool_are_one),
		cmocka_unit_test(many_pools),
		cmocka_unit_test(nobody),
		cmocka_unit_test(ages_have_classes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
