// SPDX-License-Identifier: BSD-2-Clause
#include "encode/encode.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct why_leak leaks[] = {
	{.size = 72, .leaks = 26, .circles = 1, .blocks = 66, .bytes = 4752, .example = 0xabc},
	{.size = 24, .leaks = 1, .circles = 1, .blocks = 2, .bytes = 48, .example = 0xdef},
};
static struct why_step steps[] = {
	{.size = 168, .off = 0x10, .maker = "table_grow", .made = 2},
	{.size = 72, .off = WHY_UNKNOWN, .chain = true, .type = "a::B"},
};
static char root[] = "cache\n (leaky)", stack[] = "of thread worker (7)";

static struct why_report report(void)
{
	static struct why_row rows[2];

	rows[0] = (struct why_row){.root_kind = "global",
				   .root = root,
				   .root_off = 8,
				   .steps = steps,
				   .n_steps = 2,
				   .blocks = 3,
				   .bytes = 216,
				   .example = 0x123};
	rows[1] = (struct why_row){.root_kind = "stack",
				   .root = stack,
				   .root_off = WHY_UNKNOWN,
				   .steps = steps,
				   .n_steps = 2,
				   .cut = true,
				   .blocks = 1,
				   .bytes = 72,
				   .example = 0x124};
	return (struct why_report){
		.pid = 42,
		.comm = "leaky",
		.allocators = "glibc, 1 arena",
		.blocks = 1234,
		.bytes = 123456,
		.scans = 3,
		.seconds = 1.25,
		.scan_s = 0.02,
		.pause_s = NAN,
		.registers = true,
		.losses = {[WHY_LOSS_RESYNCS] = 7, [WHY_LOSS_ONCE] = 1200},
		.lost_blocks = 68,
		.lost_bytes = 4800,
		.leaks = leaks,
		.n_leaks = 2,
		.asked = true,
		.asked_size = 72,
		.held_blocks = 2000,
		.held_bytes = 144000,
		.asked_lost_blocks = 66,
		.asked_lost_bytes = 4752,
		.in_doubt_blocks = 1,
		.followed = 4,
		.rows = rows,
		.n_rows = 2,
	};
}

static char *text_of(const struct why_report *r, unsigned int top)
{
	char *text;
	size_t len;
	FILE *stream = open_memstream(&text, &len);
	struct sink sink = sink__to_stream(stream);

	assert_int_equal(top ? encode_why(r, top, &sink) : encode_why_json(r, &sink), 0);
	fclose(stream);
	return text;
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no \"%s\" in:\n%s", part, text);
}

static void test_text(void **state)
{
	struct why_report r = report();
	char *text = text_of(&r, 10);

	(void)state;
	assert_has(text, "leaky (pid 42): 1,234 blocks in use, 120.6 KiB (glibc, 1 arena)\n");
	assert_has(text, "3 scans in 1.2 s, the longest 0.02 s\nlost: heap_resyncs 7, "
			 "unreached_once 1,200\n");
	assert_has(text,
		   "ASKED FOR: 2,067 blocks of 72 bytes, 145.3 KiB: 2,000 held, 66 lost, 1 in "
		   "doubt (not reached in the last full scan, but not surely lost)");
	assert_has(text, "Shares are those of 4 blocks");
	assert_has(text, "\n75.0%       3  global cache? (leaky) +0x8 -> [168-byte block from "
			 "table_grow] +0x10 -> chain of [a::B, 72 bytes]\n");
	assert_has(text, "\n25.0%       1  stack of thread worker (7) -> [168-byte block from "
			 "table_grow] +0x10 -> ... -> chain of [a::B, 72 bytes]\n");
	assert_has(text, "LOST: 4.7 KiB in 68 blocks, 27 leaks.");
	assert_has(text, "blocks of 72 bytes, some in circles, such as 0xabc");
	assert_has(text, "block of 24 bytes in a circle, such as 0xdef");
	assert_null(strstr(text, "may be held"));
	free(text);

	r.losses[WHY_LOSS_UNSETTLED] = 1;
	text = text_of(&r, 10);
	assert_has(text,
		   "\nThe last scan that changed the list of lost blocks took 1 block off it, "
		   "so about as many of these may be held.\n");
	free(text);

	text = text_of(&r, 1);
	assert_has(text, "and 1 more ways\n");
	assert_has(text, "and 1 more sizes\n");
	free(text);
}

static void test_what_is_not_known_is_said(void **state)
{
	struct why_report r = report();
	char *text;

	(void)state;
	r.asked = r.registers = false;
	r.pause_s = 0.012;
	strcpy(r.doubt, "4 MiB are swapped out");
	text = text_of(&r, 10);
	assert_has(text, "; the process was stopped for 12 ms\n");
	assert_has(text, "The registers of threads could not be read");
	assert_has(text, "Nothing is called lost: 4 MiB are swapped out.\n");
	assert_null(strstr(text, "ASKED"));
	assert_null(strstr(text, "LOST"));
	free(text);
	r.doubt[0] = '\0';
	r.lost_blocks = 0;
	text = text_of(&r, 10);
	assert_has(text, "Nothing is lost: a pointer leads to each block, in one of the scans");
	free(text);
}

static void test_json(void **state)
{
	struct why_report r = report();
	char *text = text_of(&r, 0);

	(void)state;
	assert_has(text, "{\"version\":1,\"pid\":42,\"comm\":\"leaky\",");
	assert_has(text, "\"pause_seconds\":null");
	assert_has(text, "\"heap_resyncs\":7");
	assert_has(text, "\"leaks\":[{\"size\":72,\"heads\":26,\"circles\":1,\"blocks\":66,"
			 "\"bytes\":4752,\"example\":2748},");
	assert_has(text, "\"root\":\"cache\\u000a (leaky)\",\"offset\":8,\"cut\":false,\"steps\":"
			 "[{\"size\":168,\"chain\":false,\"offset\":16,"
			 "\"maker\":\"table_grow\",\"made_blocks\":2},"
			 "{\"size\":72,\"chain\":true,\"class\":\"a::B\"}]}");
	assert_int_equal(text[strlen(text) - 1], '\n');
	free(text);
	r.asked = false;
	text = text_of(&r, 0);
	assert_null(strstr(text, "asked"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_what_is_not_known_is_said),
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
