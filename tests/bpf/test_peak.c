// SPDX-License-Identifier: BSD-2-Clause
/* The kernel side's code that stores how much each site held at the peak, compiled for the host.
 * The result must equal a copy of all sites that is made at each new peak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "peak.bpf.h"

#define SITES 7
#define STEPS 4000

static struct abi_site sites[SITES];
static struct abi_peak peak;
static uint64_t random_state = 88172645463325252ULL;

/* The truth, computed in the expensive way. */
static int64_t held[SITES], held_at_peak[SITES], live, highest;
static uint64_t peak_time;

static uint64_t random_u64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void change(size_t i, int64_t bytes, uint64_t now)
{
	peak_before(&peak, &sites[i]);
	if (bytes > 0) {
		sites[i].alloc_bytes += (uint64_t)bytes;
		sites[i].alloc_objects_q16 += 65536;
	} else {
		sites[i].freed_bytes += (uint64_t)-bytes; /* a part of a block */
	}
	peak_after(&peak, bytes, now);
	held[i] += bytes;
	live += bytes;
	if (live > highest) {
		highest = live;
		peak_time = now;
		memcpy(held_at_peak, held, sizeof(held));
	}
}

static void assert_truth(void)
{
	assert_int_equal(peak.bytes, highest);
	assert_int_equal(peak.time_ns, peak_time);
	for (size_t i = 0; i < SITES; i++) {
		__u64 objects, bytes;

		abi_site__at_peak(&sites[i], &peak, &objects, &bytes);
		assert_int_equal(bytes, held_at_peak[i]);
		assert_int_equal(objects % 65536, 0);
	}
}

static int nothing(void **state)
{
	(void)state;
	memset(sites, 0, sizeof(sites));
	memset(&peak, 0, sizeof(peak));
	memset(held, 0, sizeof(held));
	memset(held_at_peak, 0, sizeof(held_at_peak));
	live = highest = 0;
	peak_time = 0;
	return 0;
}

static void sites_are_as_at_the_highest_moment(void **state)
{
	(void)state;
	assert_truth();
	for (uint64_t step = 1; step <= STEPS; step++) {
		size_t i = random_u64() % SITES;
		/* the total rises, falls, rises ... */
		bool grows = held[i] == 0 || random_u64() % 100 < (step / 500 % 2 ? 30 : 60);

		change(i, grows ? (int64_t)(random_u64() % 1000) + 1 : -held[i] / 2 - 1, step);
		assert_truth();
	}
}

/* The old program held more than the new one. An exec frees the old program's memory, which must
 * not count for the new program. */
static void an_exec_begins_anew(void **state)
{
	__u64 objects, bytes;

	(void)state;
	change(0, 5000, 1);
	change(1, 3000, 2);
	change(1, -3000, 3);
	peak_exec(&peak);
	memset(held, 0, sizeof(held));
	memset(held_at_peak, 0, sizeof(held_at_peak));
	live = highest = 0;
	peak_time = 0;
	assert_int_equal(peak.bytes, 0);
	for (size_t i = 0; i < 2; i++) {
		abi_site__at_peak(&sites[i], &peak, &objects, &bytes);
		assert_int_equal(bytes, 0);
	}
	change(2, 700, 4);
	change(3, 100, 5);
	change(2, -700, 6);
	assert_truth();
}

/* A program without address randomization executes itself: its new blocks come from the stacks of
 * its old blocks. */
static void what_an_exec_took_is_not_held_at_the_peak(void **state)
{
	static const int64_t gone[SITES] = {5000, 0, 200};
	__u64 objects, bytes;

	(void)state;
	change(0, 5000, 1);
	change(2, 200, 2);
	peak_exec(&peak);
	memset(held, 0, sizeof(held));
	memset(held_at_peak, 0, sizeof(held_at_peak));
	live = highest = 0;
	change(0, 300, 3);
	assert_truth(); /* the site has not changed since the peak */
	change(1, 100, 4);
	change(0, -300, 5);
	assert_truth(); /* the site has noted what it held at the peak */
	for (size_t i = 0; i < SITES; i++) {
		abi_site__gone(&sites[i], &peak, &objects, &bytes);
		assert_int_equal(bytes, gone[i]);
		assert_int_equal(objects, gone[i] ? 65536 : 0);
	}
	peak_exec(&peak); /* once more: also what the second program held is gone */
	abi_site__gone(&sites[1], &peak, &objects, &bytes);
	assert_int_equal(bytes, 100);
	change(1, 50, 6);
	abi_site__gone(&sites[1], &peak, &objects, &bytes);
	assert_int_equal(bytes, 100);
}

/* One CPU has added 100 bytes, and has not noted the new peak yet. Meanwhile another CPU frees 50
 * bytes. */
static void a_free_is_no_peak(void **state)
{
	(void)state;
	change(0, 100, 1);
	peak.live_bytes += 100;
	peak_after(&peak, -50, 0);
	assert_int_equal(peak.live_bytes, 150);
	assert_int_equal(peak.bytes, 100);
	assert_int_equal(peak.time_ns, 1);
	assert_int_equal(peak.n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(sites_are_as_at_the_highest_moment, nothing),
		cmocka_unit_test_setup(an_exec_begins_anew, nothing),
		cmocka_unit_test_setup(what_an_exec_took_is_not_held_at_the_peak, nothing),
		cmocka_unit_test_setup(a_free_is_no_peak, nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
