// SPDX-License-Identifier: BSD-2-Clause
/* How much kernel memory memtrace takes, also on machines with more CPUs than this one. A live test
 * compares the figure for this machine with the kernel's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "capture/capture.h"
#include "capture/watch.h"

#define MIB (1ULL << 20)

static struct capture_footprint footprint(uint32_t processes, int cpus)
{
	struct capture_options options = {.windows = true, .max_processes = processes};
	struct capture_footprint ret;

	assert_int_equal(capture__footprint(&options, cpus, &ret), 0);
	assert_true(ret.for_cpus < ret.at_once);
	assert_true(ret.at_once < ret.at_most);
	return ret;
}

/* Counters take 64 MiB, records of mappings take 32 MiB, and stack walks take about 30 KiB per
 * CPU. */
static void test_bounded(void **state)
{
	uint64_t last = 0;

	(void)state;
	for (int cpus = 1; cpus <= 512; cpus *= 2) {
		uint32_t processes = capture__processes_for(2048, cpus);
		struct capture_footprint all = footprint(processes, cpus);

		assert_true(all.for_cpus <= 96 * MIB + (uint64_t)cpus * 30 * 1024);
		assert_true(watch__bytes_for(cpus) <= 33 * MIB);
		assert_true(all.at_once - all.for_cpus < 48 * MIB);
		assert_true(processes >= 64 && processes <= 2048);
		assert_true(all.for_cpus > last || cpus > 32);
		last = all.for_cpus;
	}
}

/* The memory for CPUs is proportional to their number. */
static void test_by_cpu(void **state)
{
	struct capture_footprint one = footprint(64, 1), two = footprint(64, 2),
				 four = footprint(64, 4);

	(void)state;
	assert_int_equal(two.for_cpus, 2 * one.for_cpus);
	assert_int_equal(four.for_cpus, 4 * one.for_cpus);
	assert_int_equal(two.at_once - two.for_cpus, one.at_once - one.for_cpus);
	assert_int_equal(four.at_most - two.at_most, two.for_cpus);
}

/* If each call is sampled, tasks preempt each other in the middle of their stack walks. So each CPU
 * takes at most 100 KiB more. */
static void test_exact(void **state)
{
	struct capture_options options = {.interval = 1, .windows = true, .max_processes = 64};
	struct capture_footprint exact, sampled = footprint(64, 16);

	(void)state;
	assert_int_equal(capture__footprint(&options, 16, &exact), 0);
	assert_in_range(exact.for_cpus - sampled.for_cpus, 16 * 12 * 1024, 16 * 100 * 1024);
}

static void test_processes(void **state)
{
	(void)state;
	assert_int_equal(capture__processes_for(2048, 1), 2048);
	assert_int_equal(capture__processes_for(2048, 64), 2048);
	assert_int_equal(capture__processes_for(16, 256), 16);
	assert_in_range(capture__processes_for(2048, 256), 500, 1024);
	/* a lower limit, so that memtrace works at all */
	assert_int_equal(capture__processes_for(2048, 8192), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_by_cpu),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
