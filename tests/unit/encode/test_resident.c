// SPDX-License-Identifier: BSD-2-Clause
/* The table of the resident set, and its JSON. The printed rows of the table must add up to its
 * printed sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/encode/fixture.h"

#define KIB 1024

static void add(struct resident_pieces *pieces, enum resident_kind kind, uint64_t rss,
		uint64_t swap, const char *name)
{
	const struct resident_piece piece = {
		.start = (pieces->n + 1) << 20,
		.end = (pieces->n + 2) << 20,
		.bytes = {rss * KIB, kind == RESIDENT_FILE ? 0 : rss * KIB, swap * KIB, 1},
		.kind = kind,
		.site = RESIDENT_NO_SITE,
	};

	resident_pieces__add(pieces, &piece, name);
}

/* A process with 3,000 KiB of heap, of which 1,200,000 bytes are live. It maps a file for each
 * letter, and one file with control characters in its name. */
static struct profile *server(uint64_t interval)
{
	struct resident_pieces pieces = {
		.vmrss_bytes = 9000 * KIB, .huge_bytes = 2048 * KIB, .hugetlb_bytes = 4096 * KIB};
	struct profile *profile = new_profile(interval);

	STACK(profile, 1, 1000, 1200, "malloc", "zmalloc", "dictAdd", "main");
	end_profile(profile);
	add(&pieces, RESIDENT_HEAP, 3000, 7, NULL);
	for (char c = 'a'; c <= 'z'; c++)
		add(&pieces, RESIDENT_FILE, 30, 0, (char[]){'/', c, '\0'});
	add(&pieces, RESIDENT_FILE, 1234, 0, "/x\033[31m\ny");
	for (char c = 'a'; c <= 'c'; c++)
		add(&pieces, RESIDENT_BSS, 1, 0, (char[]){'/', c, '\0'});
	add(&pieces, RESIDENT_EARLIER, 497, 0, NULL);
	assert_int_equal(resident__make(&pieces, profile, NULL, NULL, 0, false, &profile->resident),
			 0);
	resident_pieces__free(&pieces);
	return profile;
}

static int in_table(const struct profile *profile, struct sink *sink)
{
	return encode_resident(profile, NULL, sink);
}

/* Reads a printed table. *ret_sum: the sum of the first column over all rows. sums: the three sums
 * that are printed below the rows. */
static void column(const char *text, long long *ret_sum, long long sums[3])
{
	const char *line = strstr(text, "WHAT\n");
	int below = 0;

	*ret_sum = 0;
	assert_non_null(line);
	for (line += 5; below < 3; line = strchr(line, '\n') + 1) {
		long long value = 0, sign = 1;
		const char *p = line;

		for (; *p == ' '; p++)
			;
		sign = *p == '-' ? -1 : 1;
		for (p += *p == '-'; *p == ',' || (*p >= '0' && *p <= '9'); p++)
			value = *p == ',' ? value : 10 * value + (*p - '0');
		if (below || strstr(p, "sum: Rss") == p + 2)
			sums[below++] = sign * value;
		else
			*ret_sum += sign * value;
	}
}

static void rows_add_up(void **state)
{
	static const uint64_t intervals[] = {1, 4096, 1 << 20};

	(void)state;
	for (size_t i = 0; i < sizeof(intervals) / sizeof(*intervals); i++) {
		struct profile *profile = server(intervals[i]);
		char *text = encoded(in_table, profile);
		long long sum, sums[3];

		column(text, &sum, sums);
		assert_int_equal(sum, 3000 + 26 * 30 + 1234 + 500);
		assert_int_equal(sums[0], sum);
		assert_int_equal(sums[2], 9000);
		assert_int_equal(sums[0] + sums[1], sums[2]);
		assert_null(strchr(text, '\033'));
		assert_true(intervals[i] > 1 ||
			    (strstr(text, "   1,172  ") && strstr(text, "   1,828  ")));
		assert_non_null(strstr(text, "/x?[31m?y\n"));
		assert_non_null(strstr(text, "  /i\n"));
		assert_non_null(strstr(text, " 0        0  17 other files\n"));
		assert_non_null(strstr(
			text,
			" 3        0  .bss of 3 files, or next to it\n")); /* too small for rows */
		assert_non_null(strstr(text, "anonymous, not followed\n"));
		assert_non_null(strstr(text, "memtrace did not follow which stacks map memory"));
		assert_non_null(strstr(text, "huge pages: 2,048 KiB of it\n"));
		assert_non_null(strstr(text, "swapped out: 7 KiB, not in it\n"));
		assert_non_null(strstr(text, "(hugetlb): 4,096 KiB, not in it\n"));
		assert_true(!!strstr(text, "exact  ") == (intervals[i] == 1));
		assert_true((strstr(text, " to ") < strstr(text, "heap, allocated")) ==
			    (intervals[i] > 1));
		free(text);
		assert_reports_failures(in_table, profile);
		profile__free(profile);
	}
}

static void what_is_not_known(void **state)
{
	struct profile *profile = server(4096);
	char *text;

	(void)state;
	profile->resident->rows[0].interval.high = NAN;
	profile->resident->followed = true;
	profile->resident->stopped_s = optional__of(2.5);
	profile->resident->skipped = 3;
	text = encoded(in_table, profile);
	assert_non_null(strstr(text, "not known  "));
	assert_non_null(strstr(text, "anonymous, from before the run or late in it\n"));
	assert_non_null(strstr(text, "followed for the first 2.5 s only\n"));
	assert_non_null(strstr(text, "3 lines of smaps"));
	free(text);
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "\"low\":"));
	assert_non_null(strstr(text, "\"high\":null"));
	free(text);
	resident__free(profile->resident);
	profile->resident = NULL;
	profile->ended = true;
	text = encoded(in_table, profile);
	assert_string_equal(
		text,
		"resident set of pid 4711 (leaky): not known, it ended before it could be looked "
		"at\n");
	free(text);
	text = encoded(encode_json, profile);
	assert_null(strstr(text, "\"resident\""));
	free(text);
	profile__free(profile);
}

static void as_json(void **state)
{
	struct profile *profile = server(1);
	char *text = encoded(encode_json, profile);

	(void)state;
	assert_non_null(strstr(
		text,
		"\"resident\":{\"vmrss_bytes\":9216000,\"smaps_bytes\":5646336,"
		"\"heap_bytes\":3072000,"
		"\"swap_bytes\":7168,\"huge_bytes\":2097152,\"hugetlb_bytes\":4194304,"
		"\"lines_skipped\":0,\"from_start\":false,\"regions_followed\":false,\"rows\":["
		"{\"kind\":\"heap_live\",\"bytes\":1200000,\"low\":1200000,\"high\":1200000},"
		"{\"kind\":\"heap\",\"bytes\":1872000,\"low\":1872000,\"high\":1872000,"
		"\"anonymous_bytes\":3072000,\"swap_bytes\":7168,\"mappings\":1},"
		"{\"kind\":\"file\",\"name\":\"/x\\u001b[31m\\u000ay\",\"bytes\":1263616,"
		"\"anonymous_bytes\":0,\"swap_bytes\":0,\"mappings\":1},"));
	free(text);
	profile__free(profile);
}

/* If the estimate of live blocks exceeds the heap's resident bytes, the table does not call live
 * blocks a part of the heap. */
static void more_than_is_resident_is_said(void **state)
{
	struct resident_pieces pieces = {.vmrss_bytes = 3000 * KIB};
	struct profile *profile = new_profile(1 << 20);
	char *text;

	(void)state;
	STACK(profile, 1, 1000, 8, "malloc", "dictAdd", "main"); /* 8 MiB by the estimate */
	end_profile(profile);
	add(&pieces, RESIDENT_HEAP, 3000, 0, NULL);
	assert_int_equal(resident__make(&pieces, profile, NULL, NULL, 0, false, &profile->resident),
			 0);
	resident_pieces__free(&pieces);
	text = encoded(in_table, profile);
	assert_has(text,
		   "heap: 3,000 KiB are resident in its mappings; blocks of the run that are not "
		   "freed come to 8,19");
	assert_has(text,
		   " by the estimate, which is more:\nnot all of them are touched, or the truth is "
		   "in the lower part");
	assert_null(strstr(text, "of them are taken by"));
	free(text);
	profile__free(profile);
}

/* The sum of the parts below the heap's row. */
static long long sum_of_parts(const char *text)
{
	long long sum = 0;

	for (const char *p = text; (p = strstr(p, "  of it "));) {
		long long value = 0, sign = 1;

		p += strlen("  of it ");
		sign = *p == '-' ? -1 : 1;
		for (p += *p == '-'; *p == ',' || (*p >= '0' && *p <= '9'); p++)
			value = *p == ',' ? value : 10 * value + (*p - '0');
		assert_int_equal(*p, ':');
		sum += sign * value;
	}
	return sum;
}

/* A census splits the heap's row into parts. The printed parts add up to the printed row, and the
 * rows still add up to their sum. */
static void heap_taken_apart(void **state)
{
	/* 3,000 KiB are resident in the heap's mappings. The census finds 700 pages, or 2,800 KiB.
	 * Of these, 1,500 KiB + 300 bytes are in use, 800 KiB are free pages, and 400 KiB are in
	 * free blocks. */
	const struct heap_slack found = {700 * 4096, 1500 * KIB + 300, 800 * KIB,
					 600 * KIB,  400 * KIB,	       7000};
	struct profile *profile = server(1);
	long long sum, sums[3];
	char *text;

	(void)state;
	assert_int_equal(resident__take_census(profile->resident, &found), 0);
	text = encoded(in_table, profile);
	column(text, &sum, sums);
	assert_int_equal(sum, sums[0]);
	assert_int_equal(sum_of_parts(text), 1828); /* the heap's row, which rows_add_up() checks */
	/* 328 = 1,828 less the four parts below: 800, 400, 100 for headers, and 200 that the census
	 * did not find */
	assert_has(text, "  of it 328: blocks in use from before the run, and rounding\n");
	assert_has(text, "  of it 800: free, whole pages; malloc_trim(0) returns up to 600\n");
	assert_has(text, "  of it 400: free, on pages that blocks in use keep\n");
	assert_has(text, "  of it 100: headers, and bytes that no block can use\n");
	assert_has(text,
		   "  of it 200: not found in the allocator's structures, or changed since\n");
	assert_has(text, "heap: 7 KiB of the free memory are blocks in thread caches and fast "
			 "bins\n");
	free(text);
	assert_reports_failures(in_table, profile);
	text = encoded(encode_json, profile);
	assert_has(text, "\"heap_census\":{\"in_use_bytes\":336300,\"whole_free_bytes\":819200,"
			 "\"free_bytes\":409600,\"header_bytes\":102100,\"other_bytes\":204800,"
			 "\"trimmable_bytes\":614400,\"cached_bytes\":7000},\"rows\":");
	free(text);
	profile->resident->from_start = true;
	text = encoded(in_table, profile);
	assert_has(text, ": blocks in use, beyond what was asked for\n");
	free(text);
	profile__free(profile);
	profile = server(1);
	assert_int_equal(resident__fail_census(profile->resident, "it is\033 hidden"), 0);
	text = encoded(in_table, profile);
	assert_null(strstr(text, "  of it "));
	assert_has(text, "heap: its free memory is not told apart: it is? hidden\n");
	free(text);
	text = encoded(encode_json, profile);
	assert_has(text, "\"heap_census_failed\":\"it is");
	assert_null(strstr(text, "\"heap_census\""));
	free(text);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_add_up),
		cmocka_unit_test(more_than_is_resident_is_said),
		cmocka_unit_test(what_is_not_known),
		cmocka_unit_test(as_json),
		cmocka_unit_test(heap_taken_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
