// SPDX-License-Identifier: BSD-2-Clause
/* When a report calls blocks lost, and when it says why it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/why.h"

/* A search that found 7 lost blocks. The user asked for 3 of them. */
static struct why scanned(void)
{
	static struct leak_group group = {.head_size = 24, .leaks = 7, .blocks = 7, .bytes = 168};

	return (struct why){
		.sums = {.blocks = 1000,
			 .bytes = 1 << 20,
			 .lost = 7,
			 .lost_bytes = 168,
			 .chosen = {[WHY_HELD] = 2, [WHY_LOST] = 3, [WHY_IN_DOUBT] = 1},
			 .chosen_bytes = {[WHY_HELD] = 48, [WHY_LOST] = 72, [WHY_IN_DOUBT] = 24}},
		.scans = 12,
		.registers = true,
		.groups = &group,
		.n_groups = 1};
}

static void assert_doubt(const struct why *why, const char *words)
{
	struct why_report report;

	assert_int_equal(why_report__make(getpid(), why, true, NULL, &report), 0);
	if (!strstr(report.doubt, words))
		fail_msg("'%s' is not in '%s'", words, report.doubt);
	assert_int_equal(report.lost_blocks, 0);
	assert_int_equal(report.n_leaks, 0);
	assert_int_equal(report.asked_lost_blocks, 0);
	assert_int_equal(report.held_blocks, 2);
	assert_int_equal(report.in_doubt_blocks, why->sums.chosen[WHY_LOST] + 1);
	why_report__clear(&report);
}

static void test_lost(void **state)
{
	struct why why = scanned();
	struct why_report report;

	(void)state;
	why.sums.lost_beyond = 5; /* 5 more blocks found no room on the list */
	assert_int_equal(why_report__make(getpid(), &why, true, NULL, &report), 0);
	assert_string_equal(report.doubt, "");
	assert_int_equal(report.lost_blocks, 7);
	assert_int_equal(report.n_leaks, 1);
	assert_int_equal(report.asked_lost_blocks, 3);
	assert_int_equal(report.in_doubt_blocks, 1);
	why_report__clear(&report);
}

/* The last scan still took blocks off the list. So other blocks on this list may be held, too. */
static void test_a_list_that_is_not_settled(void **state)
{
	struct why why = scanned();

	(void)state;
	why.sums.unsettled = 40;
	assert_doubt(&why, "7 blocks seem lost, but this list was not final when the search "
			   "ended: the last scan that changed it took 40 blocks off");
}

/* The last scan took only few blocks off the list. So blocks are called lost, and the report tells
 * how many the last scan took off. */
static void test_a_list_that_is_nearly_settled(void **state)
{
	struct why why = scanned();
	struct why_report report;

	(void)state;
	for (uint64_t unsettled = 50; unsettled <= 51; unsettled++) {
		why.sums.lost = 1000;
		why.sums.unsettled = unsettled;
		assert_int_equal(why_report__make(getpid(), &why, true, NULL, &report), 0);
		assert_int_equal(*report.doubt != '\0', unsettled > 50);
		assert_int_equal(report.lost_blocks, unsettled > 50 ? 0 : 1000);
		assert_int_equal(report.losses[WHY_LOSS_UNSETTLED], unsettled);
		why_report__clear(&report);
	}
}

/* All blocks on the list are held, but other blocks were never on the list. */
static void test_blocks_that_were_not_judged(void **state)
{
	struct why why = scanned();

	(void)state;
	why.sums.lost = why.sums.lost_bytes = 0;
	why.sums.chosen[WHY_LOST] = 0;
	why.n_groups = 0;
	why.sums.lost_beyond = 123;
	assert_doubt(&why, "123 blocks that seem lost were not judged");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_a_list_that_is_not_settled),
		cmocka_unit_test(test_a_list_that_is_nearly_settled),
		cmocka_unit_test(test_blocks_that_were_not_judged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
