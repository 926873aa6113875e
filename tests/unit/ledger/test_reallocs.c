// SPDX-License-Identifier: BSD-2-Clause
/* Made-up vectors. The test knows their bytes, and computes the counts that windows would have. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ledger/reallocs.h"

#define S	1000000000ULL
#define PROCESS 7
#define RUN_S	64
#define WINDOW	(S / 20)

/* The kernel's counters, which only grow. */
static struct abi_site_key keys[2];
static struct abi_site sites[2];

static void begin(void)
{
	memset(sites, 0, sizeof(sites));
	for (uint64_t i = 0; i < 2; i++)
		keys[i] = (struct abi_site_key){.stack = {.lo = 100 + i, .hi = i},
						.process = PROCESS};
}

/* Counts a realloc whose old and new size are known. */
static void grow(struct abi_site *site, uint64_t from, uint64_t to, double weight)
{
	site->alloc_samples++;
	site->alloc_objects_q16 += (uint64_t)(65536 * weight);
	site->alloc_bytes += (uint64_t)((double)to * weight);
	site->grown_samples++;
	site->grown_bytes += (uint64_t)(int64_t)(((double)to - (double)from) * weight);
}

static void harvest(struct reallocs *c, uint64_t start_ns)
{
	const struct snapshot_sites table = {keys, sites, 2};

	assert_int_equal(reallocs__harvest(c, start_ns, start_ns + WINDOW, &table), 0);
}

/* The slices of the run's middle half. */
static struct realloc_slices slices_of(const struct reallocs *c, size_t site)
{
	struct realloc_slices slices = {};

	for (size_t i = 0; i < c->n_records; i++)
		if (!stack_key__compare(&c->records[i].stack, &keys[site].stack))
			realloc_slices__add(&slices, &c->records[i], RUN_S * S / 4,
					    RUN_S * S / 2 / SERIES_SEGMENTS);
	return slices;
}

static double grown(const struct realloc_slices *slices)
{
	double sum = 0;

	for (size_t i = 0; i < SERIES_SEGMENTS; i++)
		sum += slices->at[i].grown;
	return sum;
}

static void what_windows_bring_adds_up(void **state)
{
	struct reallocs c = {};
	struct realloc_slices first, second;

	(void)state;
	begin();
	for (uint64_t t = 0; t < RUN_S; t++) {
		grow(&sites[0], 1000 * t, 1000 * t + 500, 1);
		if (t == 20 || t == 40)
			grow(&sites[1], 900, 300, 2); /* shrinks */
		harvest(&c, t * S);
	}
	assert_int_equal(c.n, 2);
	first = slices_of(&c, 0);
	second = slices_of(&c, 1);
	assert_true(grown(&first) == 32 * 500);
	assert_true(grown(&second) == -2 * 2 * 600);
	for (size_t i = 0; i < SERIES_SEGMENTS; i++)
		assert_true(first.at[i].samples == 4);
	reallocs__exec(&c);
	assert_int_equal(c.n_records, 0);
	/* the kernel's counters go on after the exec, and only the difference is counted */
	grow(&sites[0], 0, 70, 1);
	harvest(&c, 30 * S);
	first = slices_of(&c, 0);
	assert_true(grown(&first) == 70);
	/* a realloc outside windows does not count for the next window */
	grow(&sites[0], 0, 5000, 1);
	assert_int_equal(reallocs__pass_over(&c, &(struct snapshot_sites){keys, sites, 2}), 0);
	grow(&sites[0], 0, 30, 1);
	harvest(&c, 31 * S);
	first = slices_of(&c, 0);
	assert_true(grown(&first) == 100);
	reallocs__free(&c);
}

static void long_windows_are_shared_out(void **state)
{
	const struct realloc_record record = {
		.start_ns = 14 * S, .end_ns = 22 * S, .samples = 80, .grown = 800, .mean_size = 5};
	struct realloc_slices slices = {};

	(void)state;
	realloc_slices__add(&slices, &record, 16 * S, 4 * S);
	assert_true(slices.at[0].grown == 400 && slices.at[1].grown == 200);
	assert_true(slices.at[2].grown == 0 && slices.at[0].samples == 40);
}

/* A vector grows for ever. The bytes that are added to it are held, although none of its blocks
 * stays. */
static void a_vector_that_grows_is_held(void **state)
{
	struct realloc_slices slices;
	struct reallocs c = {};
	uint64_t size = 1000;

	(void)state;
	begin();
	for (uint64_t t = 0; t < RUN_S; t++) {
		for (int i = 0; i < 3; i++, size += 300)
			grow(&sites[0], size, size + 300, 1);
		sites[0].moved_samples += 2;
		size += 60 * 300; /* the vector grows outside windows, too */
		harvest(&c, t * S);
	}
	slices = slices_of(&c, 0);
	assert_true(realloc_slices__held(&slices, 0) == 1);
	assert_true(grown(&slices) == 32 * 900);
	/* frees were seen, so the bytes do not count as held */
	slices.ended = 5;
	assert_true(realloc_slices__held(&slices, 0) == 0);
	reallocs__free(&c);
}

/* Vectors that are grown ten times each and then freed. */
static void vectors_in_balance_are_not(void **state)
{
	struct realloc_slices slices;
	struct reallocs c = {};

	(void)state;
	begin();
	for (uint64_t t = 0; t < RUN_S; t++) {
		for (uint64_t i = 0; i < 20; i++) {
			uint64_t step = (t * 7 + i * 3) % 10;

			grow(&sites[0], 100 * step, 100 * step + 100, 1);
		}
		sites[0].moved_samples += 9;
		sites[0].ended_samples += 1;
		harvest(&c, t * S);
	}
	slices = slices_of(&c, 0);
	assert_true(realloc_slices__held(&slices, 0) == 0);
	reallocs__free(&c);
}

/* Vectors are grown ten times and never freed. realloc moved nine of the ten blocks of each. */
static void vectors_that_are_forgotten_are_held(void **state)
{
	struct realloc_slices slices;
	struct reallocs c = {};
	double held;

	(void)state;
	begin();
	for (uint64_t t = 0; t < RUN_S; t++) {
		for (uint64_t i = 0; i < 20; i++) {
			uint64_t step = (t * 7 + i * 3) % 10;

			grow(&sites[0], 100 * step, 100 * step + 100, 1);
		}
		sites[0].moved_samples += 9;
		harvest(&c, t * S);
	}
	slices = slices_of(&c, 0);
	held = realloc_slices__held(&slices, 64);
	assert_true(held > 0.95 && held <= 1);
	/* half of the vectors are leaked, half are freed, so half of the added bytes are held */
	slices.moved = 9 * 64;
	slices.ended = 32;
	held = realloc_slices__held(&slices, 32);
	assert_true(held > 0.4 && held < 0.6);
	/* no end was seen, so only the bytes in blocks that surely stay count as held */
	slices.moved = slices.ended = 0;
	assert_true(fabs(realloc_slices__held(&slices, 64) - 64.0 / 640) < 1e-9);
	reallocs__free(&c);
}

static void nothing_is_nothing(void **state)
{
	const struct snapshot_sites none = {};
	struct realloc_slices slices = {};
	struct reallocs c = {};

	(void)state;
	assert_int_equal(reallocs__harvest(&c, 0, S, &none), 0);
	assert_int_equal(c.n_records, 0);
	assert_true(realloc_slices__held(&slices, 0) == 0);
	assert_true(realloc_slices__held(&slices, 3) == 0);
	reallocs__free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_windows_bring_adds_up),
		cmocka_unit_test(long_windows_are_shared_out),
		cmocka_unit_test(a_vector_that_grows_is_held),
		cmocka_unit_test(vectors_in_balance_are_not),
		cmocka_unit_test(vectors_that_are_forgotten_are_held),
		cmocka_unit_test(nothing_is_nothing),
	};

	return cmocka_run_group_tests_name("reallocs", tests, NULL, NULL);
}
