// SPDX-License-Identifier: BSD-2-Clause
/* A search in this process, which makes several scans. The scans are fakes: each test says what
 * their children write. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_scan.h"

#include "heap/scan.h"
#include "heap/why.h"
#include "heap/why_internal.h"

#define MAX_SCANS 16
#define MAX_LOST  8

/* What the child of one scan writes, and how it ends. */
struct answer {
	unsigned int mask; /* bit i: block i is on the list of lost blocks */
	uint64_t beyond, unread_bytes;
	int stopped;
	int end; /* what scan__end() returns */
	/* Falsifies the answer before the child writes it. NULL: the answer is right. */
	void (*lie)(struct why_sums *sums, struct lost_block *lost);
};

static struct {
	struct answer answers[MAX_SCANS];
	/* what was asked of each scan: 'f' full, 'p' full with paths, 'r' recheck */
	char asked[MAX_SCANS + 1];
	unsigned int n;
	FILE *out;
	unsigned int asked_mask; /* blocks that the user asked for */
} fake;

static void put(const void *array, size_t size, size_t n)
{
	assert_int_equal(n ? fwrite(array, size, n, fake.out) : 0, n);
}

static void write_answer(const struct why_work *work, const struct answer *a)
{
	struct why_sums sums = {.lost_beyond = a->beyond,
				.unread_bytes = a->unread_bytes,
				.stopped = a->stopped,
				.blocks = 100};
	struct lost_block lost[MAX_LOST] = {};
	struct why_block verdicts[MAX_LOST] = {};
	struct why_counts counts = {};

	for (unsigned int i = 0; i < MAX_LOST; i++) {
		bool asked = fake.asked_mask >> i & 1, is_lost = a->mask >> i & 1;

		if (is_lost) {
			lost[counts.lost++] =
				(struct lost_block){.addr = 16 * i, .size = 8, .asked = asked};
			sums.lost_bytes += 8;
		}
		if (!work->paths || !asked)
			continue;
		sums.chosen[is_lost ? WHY_LOST : WHY_HELD]++;
		sums.chosen_bytes[is_lost ? WHY_LOST : WHY_HELD] += 8;
		verdicts[counts.blocks++] = (struct why_block){
			.addr = 16 * i, .size = 8, .verdict = is_lost ? WHY_LOST : WHY_HELD};
	}
	sums.lost = counts.lost;
	if (a->lie)
		a->lie(&sums, lost);
	put(&sums, sizeof(sums), 1);
	put(&counts, sizeof(counts), 1);
	put(lost, sizeof(*lost), counts.lost);
	put(verdicts, sizeof(*verdicts), counts.blocks);
}

int __wrap_scan__start(pid_t pid, const struct maps *maps, const struct scan_task *task,
		       struct scan **ret, struct error *err)
{
	const struct why_work *work = task->ctx;

	(void)err;
	assert_true(pid == getpid() && maps->n);
	assert_true(fake.n < MAX_SCANS);
	fake.asked[fake.n] = work->recheck ? 'r' : work->paths ? 'p' : 'f';
	fake.out = tmpfile();
	assert_non_null(fake.out);
	if (!fake.answers[fake.n].end)
		write_answer(work, &fake.answers[fake.n]);
	rewind(fake.out);
	assert_int_equal(stream__new(fileno(fake.out), 10, NULL, 1 << 20, &scan_stream), 0);
	*ret = (struct scan *)&fake;
	return 0;
}

int __wrap_scan__end(struct scan *scan)
{
	(void)scan;
	stream__free(scan_stream);
	fclose(fake.out);
	return fake.answers[fake.n++].end;
}

/* Searches for the blocks of asked_mask. Returns what why__run() does. */
static int search(const struct answer *answers, size_t n, unsigned int asked_mask, struct why *ret)
{
	uint64_t addrs[MAX_LOST];
	struct why_options options = {.choice = {.addrs = addrs}, .apart_s = 1e-6};
	struct error err = {};

	memset(&fake, 0, sizeof(fake));
	memcpy(fake.answers, answers, n * sizeof(*answers));
	fake.asked_mask = asked_mask;
	for (unsigned int i = 0; i < MAX_LOST; i++)
		if (asked_mask >> i & 1)
			addrs[options.choice.n_addrs++] = 16 * i;
	return why__run(getpid(), &options, ret, &err);
}

#define SEARCH(asked_mask, ret, ...)                                                               \
	search((struct answer[]){__VA_ARGS__},                                                     \
	       sizeof((struct answer[]){__VA_ARGS__}) / sizeof(struct answer), asked_mask, ret)

#define LIST(bits)                                                                                 \
	{                                                                                          \
		.mask = (bits)                                                                     \
	}

static void test_until_the_list_is_calm(void **state)
{
	struct why why;

	(void)state;
	assert_int_equal(SEARCH(0, &why, LIST(0xf), LIST(0x7), LIST(0x7), LIST(0x7)), 0);
	assert_string_equal(fake.asked, "prrr");
	assert_int_equal(why.scans, 4);
	assert_int_equal(why.sums.lost, 3);
	assert_int_equal(why.sums.unsettled, 0);
	why__clear(&why);
}

/* A full scan tells who holds blocks that were asked for and seemed lost. If this scan takes blocks
 * off the list, the search goes on. */
static void test_who_holds_what_seemed_lost(void **state)
{
	struct why why;

	(void)state;
	assert_int_equal(SEARCH(0x9, &why, LIST(0xf), LIST(0x7), LIST(0x7), LIST(0x7), LIST(0x7)),
			 0);
	assert_string_equal(fake.asked, "prrrp");
	assert_int_equal(why.sums.chosen[WHY_LOST], 1);
	assert_int_equal(why.sums.chosen[WHY_HELD], 1);
	assert_int_equal(why.sums.chosen[WHY_IN_DOUBT], 0);
	why__clear(&why);

	assert_int_equal(SEARCH(0x9, &why, LIST(0xf), LIST(0x7), LIST(0x7), LIST(0x7), LIST(0x3),
				LIST(0x3), LIST(0x3)),
			 0);
	assert_string_equal(fake.asked, "prrrprr");
	assert_int_equal(why.sums.lost, 2);
	assert_int_equal(why.sums.unsettled, 0);
	why__clear(&why);
}

/* The list, the verdicts and the maps stay if the full scan at the end fails. */
static void test_the_last_scan_fails(void **state)
{
	struct why why;

	(void)state;
	assert_int_equal(
		SEARCH(0x9, &why, LIST(0xf), LIST(0x7), LIST(0x7), LIST(0x7), {.end = -ECHILD}), 0);
	assert_int_equal(why.scans, 4);
	assert_int_equal(why.sums.lost, 3);
	assert_int_equal(why.sums.unsettled, 0);
	assert_int_equal(why.sums.chosen[WHY_LOST], 1);
	assert_int_equal(why.sums.chosen[WHY_IN_DOUBT], 1);
	assert_int_equal(why.n_blocks, 2);
	assert_int_equal(why.blocks[0].verdict, WHY_LOST);
	assert_int_equal(why.blocks[1].verdict, WHY_IN_DOUBT);
	assert_true(why.maps.n > 0);
	why__clear(&why);
}

static void test_a_recheck_fails(void **state)
{
	struct why why;

	(void)state;
	assert_int_equal(SEARCH(0, &why, LIST(0xf), LIST(0x7), {.end = -ECHILD}), -ECHILD);
	assert_int_equal(SEARCH(0, &why, LIST(0xf), LIST(0x7), LIST(0x1), {.end = -ETIMEDOUT}), 0);
	assert_int_equal(why.scans, 3);
	assert_int_equal(why.sums.lost, 1);
	assert_int_equal(why.sums.unsettled, 2);
	why__clear(&why);
}

/* While the list has no room for all blocks, each scan is a full one. Paths are followed in the
 * first scan and in those that may be the last. */
static void test_a_list_that_is_full(void **state)
{
	const struct answer full = {.mask = 0xf, .beyond = 5};
	struct why why;

	(void)state;
	assert_int_equal(SEARCH(0x1, &why, full, full, full), 0);
	assert_string_equal(fake.asked, "pfp");
	assert_int_equal(why.sums.lost_beyond, 5);
	assert_int_equal(why.sums.chosen[WHY_LOST], 1);
	assert_int_equal(why.n_blocks, 1);
	why__clear(&why);
}

/* Memory that one scan could not read does not matter if later scans could read it. But an exceeded
 * limit matters. */
static void test_what_one_scan_could_not_see(void **state)
{
	struct why why;

	(void)state;
	assert_int_equal(SEARCH(0, &why, {.mask = 0xf, .unread_bytes = 4096},
				{.mask = 0xf, .unread_bytes = 8192, .stopped = -EFBIG},
				{.mask = 0xf}),
			 0);
	assert_int_equal(why.sums.unread_bytes, 0);
	assert_int_equal(why.sums.stopped, -EFBIG);
	why__clear(&why);
}

static void lie_of_blocks(struct why_sums *sums, struct lost_block *lost)
{
	(void)lost;
	sums->lost++;
}

static void lie_of_bytes(struct why_sums *sums, struct lost_block *lost)
{
	(void)lost;
	sums->lost_bytes = 1ULL << 60;
}

static void lie_of_verdicts(struct why_sums *sums, struct lost_block *lost)
{
	(void)lost;
	sums->chosen[WHY_LOST] += 5;
}

static void lie_of_order(struct why_sums *sums, struct lost_block *lost)
{
	(void)sums;
	lost[1].addr = lost[0].addr;
}

static void lie_of_size(struct why_sums *sums, struct lost_block *lost)
{
	sums->lost_bytes += 8;
	lost[1].size += 8;
}

static void lie_of_content(struct why_sums *sums, struct lost_block *lost)
{
	(void)sums;
	lost[1].content++;
}

/* This false answer marks one more block as asked for. Then more such blocks would be on the final
 * list than the verdicts call lost. */
static void lie_of_choice(struct why_sums *sums, struct lost_block *lost)
{
	(void)sums;
	lost[1].asked = !lost[1].asked;
}

static void test_children_that_lie(void **state)
{
	void (*const first[])(struct why_sums *, struct lost_block *) = {
		lie_of_blocks, lie_of_bytes, lie_of_verdicts, lie_of_order};
	void (*const second[])(struct why_sums *, struct lost_block *) = {
		lie_of_blocks, lie_of_bytes,   lie_of_order,
		lie_of_size,   lie_of_content, lie_of_choice};
	struct why why;

	(void)state;
	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		assert_int_equal(SEARCH(1, &why, {.mask = 7, .lie = first[i]}), -ECHILD);
	for (size_t i = 0; i < sizeof(second) / sizeof(second[0]); i++)
		assert_int_equal(SEARCH(1, &why, {.mask = 7}, {.mask = 7, .lie = second[i]}),
				 -ECHILD);
	/* a block that was not on the list before */
	assert_int_equal(SEARCH(1, &why, {.mask = 7}, {.mask = 9}), -ECHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_until_the_list_is_calm),
		cmocka_unit_test(test_who_holds_what_seemed_lost),
		cmocka_unit_test(test_the_last_scan_fails),
		cmocka_unit_test(test_a_recheck_fails),
		cmocka_unit_test(test_a_list_that_is_full),
		cmocka_unit_test(test_what_one_scan_could_not_see),
		cmocka_unit_test(test_children_that_lie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
