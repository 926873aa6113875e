// SPDX-License-Identifier: BSD-2-Clause
/* The filter in front of the table of live blocks, compiled for the host. The filter must never
 * reject a key that has an entry. It must seldom pass a key that has none. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "filter.bpf.h"

static __u32 filter[ABI_FILTER_SLOTS];

/* splitmix64 */
static uint64_t random_u64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static int empty_filter(void **state)
{
	(void)state;
	memset(filter, 0, sizeof(filter));
	return 0;
}

static uint32_t slots_in_use(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ABI_FILTER_SLOTS; i++)
		n += filter[i] != 0;
	return n;
}

static void an_entry_may_be_there(void **state)
{
	struct abi_live_key key = {.addr = 0x7f0000001010, .process = 3};

	(void)state;
	assert_false(filter_may_hold(filter, &key));
	filter_add(filter, &key);
	assert_true(filter_may_hold(filter, &key));
	filter_remove(filter, &key);
	assert_false(filter_may_hold(filter, &key));
}

/* Two entries share one counter: deleting one must not hide the other. */
static void one_that_shares_its_counter_stays(void **state)
{
	struct abi_live_key one = {.addr = 0x55d000000010, .process = 1}, other = {.process = 1};

	(void)state;
	for (other.addr = one.addr + 16; abi_filter_slot(&other) != abi_filter_slot(&one);)
		other.addr += 16;
	filter_add(filter, &one);
	filter_add(filter, &other);
	filter_remove(filter, &one);
	assert_true(filter_may_hold(filter, &other));
	/* `one`, inserted a second time, must stay when `other` is deleted */
	filter_add(filter, &one);
	filter_remove(filter, &other);
	assert_true(filter_may_hold(filter, &one));
}

/* Of the keys without an entry, returns the share that the filter passes. The keys are like blocks
 * of a heap: near each other, at multiples of 16. */
static double passed(uint32_t n, uint32_t processes, uint64_t stride)
{
	uint32_t wrong = 0, asked = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct abi_live_key key = {.addr = 0x7f12a0000010 + (i / processes) * stride,
					   .process = 1 + i % processes};

		filter_add(filter, &key);
	}
	for (uint32_t i = 0; i < 100000; i++, asked++) {
		struct abi_live_key key = {.addr = 0x7f12a0000010 + (uint64_t)(n + i) * stride,
					   .process = 1 + i % processes};

		wrong += filter_may_hold(filter, &key);
	}
	return (double)wrong / asked;
}

static void others_seldom_may(void **state)
{
	static const uint64_t strides[] = {16, 32, 48, 80, 112, 1040, 4096, 65536, 1 << 20};

	for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
		for (uint32_t processes = 1; processes <= 64; processes *= 8) {
			empty_filter(state);
			/* 2,000 of 65,536 counters are in use: 3 % of random keys pass */
			assert_true(passed(2000, processes, strides[i]) < 0.09);
		}
	}
}

/* Without address randomization, processes of one program have blocks at the same addresses. */
static void processes_differ(void **state)
{
	(void)state;
	for (uint32_t process = 1; process <= 1000; process++) {
		struct abi_live_key key = {.addr = 0x5555555592a0, .process = process};

		filter_add(filter, &key);
	}
	assert_true(slots_in_use() > 900);
}

/* --- several CPUs at once --- */

#define THREADS 4
#define KEYS	64 /* keys per thread: few, so that threads meet at the same counters */
#define STEPS	400000

struct worker {
	pthread_t thread;
	uint64_t seed;
	uint32_t process, lost;
};

/* Inserts and deletes keys, and asks the filter for each key that this thread has inserted. All
 * threads use the same addresses, so keys of two threads differ only if their process numbers
 * differ. */
static void *work(void *arg)
{
	struct worker *w = arg;
	bool in[KEYS] = {};

	for (int i = 0; i < STEPS; i++) {
		uint64_t r = random_u64(&w->seed);
		uint32_t k = r % KEYS;
		struct abi_live_key key = {.addr = 0x1000 + 16 * k, .process = w->process};

		if (in[k])
			w->lost += !filter_may_hold(filter, &key);
		if (r >> 63) {
			if (in[k])
				filter_remove(filter, &key);
			else
				filter_add(filter, &key);
			in[k] = !in[k];
		}
	}
	for (uint32_t k = 0; k < KEYS; k++) {
		struct abi_live_key key = {.addr = 0x1000 + 16 * k, .process = w->process};

		if (in[k])
			filter_remove(filter, &key);
	}
	return NULL;
}

static void nothing_is_lost_between_cpus(void **state)
{
	struct worker workers[THREADS];

	(void)state;
	for (uint32_t i = 0; i < THREADS; i++) {
		/* the same process: threads share all counters */
		workers[i] = (struct worker){.seed = i + 1, .process = 7};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].lost, 0);
	}
	assert_int_equal(slots_in_use(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_entry_may_be_there, empty_filter),
		cmocka_unit_test_setup(one_that_shares_its_counter_stays, empty_filter),
		cmocka_unit_test_setup(others_seldom_may, empty_filter),
		cmocka_unit_test_setup(processes_differ, empty_filter),
		cmocka_unit_test_setup(nothing_is_lost_between_cpus, empty_filter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
