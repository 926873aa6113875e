// SPDX-License-Identifier: BSD-2-Clause
/* Compares the output byte by byte. tests/golden/check.sh checks with a parser that the output is
 * JSON. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/encode/fixture.h"

static void the_keys_are_as_promised(void **state)
{
	static const char expected[] =
		"{\"version\":1,\"what\":\"heap\",\"pid\":4711,\"comm\":\"leaky\","
		"\"duration_s\":10.000,"
		"\"mode\":\"continuous\","
		"\"interval_bytes\":1,\"alloc_calls\":9,\"free_calls\":4,\"samples\":3,"
		"\"live_bytes\":30,\"live_bytes_low\":30,\"live_bytes_high\":30,"
		"\"live_objects\":3,\"contradictions\":[],"
		"\"overhead_pct\":2.500,\"stacks_complete_pct\":null,\"stacks\":["
		"{\"live_bytes\":30,\"live_bytes_low\":30,\"live_bytes_high\":30,\"live_objects\":"
		"2,"
		"\"alloc_bytes\":40,\"alloc_objects\":5,\"frames\":[\"malloc\",\"f\"]},"
		"{\"live_bytes\":0,\"live_bytes_low\":0,\"live_bytes_high\":0,\"live_objects\":1,"
		"\"alloc_bytes\":0,\"alloc_objects\":0,\"frames\":[\"malloc\",\"empty\"]}],"
		"\"lost\":{\"live_full\":0,\"unwind_failed\":7},"
		"\"probes\":[{\"function\":\"malloc\",\"object\":\"/lib/"
		"libc.so.6\",\"offset\":4096,"
		"\"instruction\":\"push %r12\",\"emulated\":true,\"kind\":\"session\"}],"
		"\"files\":[\"a.heap\",\"b\"]}\n";
	struct profile *profile = new_profile(1);
	struct profile_probe probe = {.function = (char *)"malloc",
				      .object = (char *)"/lib/libc.so.6",
				      .offset = 4096,
				      .instruction = (char *)"push %r12",
				      .emulated = true,
				      .kind = "session"};
	size_t site;
	char *text;

	(void)state;
	site = STACK(profile, 1, 15, 2, "malloc", "f");
	profile->sites[site].alloc_bytes = 40;
	profile->sites[site].alloc_objects = 5;
	STACK(profile, 1, 0, 1, "malloc", "empty");
	STACK(profile, 1, 8, 0, "malloc", "freed");
	profile->alloc_calls = 9;
	profile->free_calls = 4;
	profile->overhead_pct = optional__of(2.5);
	assert_int_equal(profile__add_probe(profile, &probe), 0);
	assert_int_equal(profile__add_lost(profile, "live_full", 0), 0);
	assert_int_equal(profile__add_lost(profile, "unwind_failed", 7), 0);
	assert_int_equal(profile__add_file(profile, "a.heap"), 0);
	assert_int_equal(profile__add_file(profile, "b"), 0);
	end_profile(profile);
	text = encoded(encode_json, profile);
	assert_string_equal(text, expected);
	free(text);
	profile->sampled_by_target = true;
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "\"interval_bytes\":1,\"sampled_by_target\":true,"
				     "\"alloc_calls\":9,"));
	free(text);
	assert_reports_failures(encode_json, profile);
	profile->interval_bytes = 4096;
	profile->asked_interval_bytes = 1024;
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "\"interval_bytes\":4096,\"asked_interval_bytes\":1024,"));
	free(text);
	profile->finest_interval_bytes = 512;
	text = encoded(encode_json, profile);
	assert_non_null(
		strstr(text, ",\"asked_interval_bytes\":1024,\"finest_interval_bytes\":512,"));
	free(text);
	profile->not_traced = "why";
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "\"comm\":\"leaky\",\"not_traced\":\"why\","));
	free(text);
	profile__free(profile);
}

/* Inlined functions are frames. Frames have source lines if these are known. */
static void inlined_functions_have_lines(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 10, 1, "malloc", "f", "main");
	STACK(profile, 1, 5, 1, "malloc", "g", "main");
	end_profile(profile);
	add_inlined(profile, "f", "inner");
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "\"frames\":[\"malloc\",\"inner\",\"f\",\"main\"],"
				     "\"lines\":[null,\"b.h:3\",\"dir \\\"1\\\"/a.c:7\",null]}"));
	assert_non_null(strstr(text, "\"frames\":[\"malloc\",\"g\",\"main\"]}"));
	free(text);
	profile__free(profile);
}

static void strings_are_escaped(void **state)
{
	static const struct {
		const char *raw, *json;
	} cases[] = {
		{"plain", "\"plain\""},
		{"q\" b\\ n\n t\t \x01\x1f\x7f",
		 "\"q\\\" b\\\\ n\\u000a t\\u0009 \\u0001\\u001f\\u007f\""},
		/* the start of a terminal's control sequence, and characters that reverse the
		 * direction of text */
		{"\xc2\x9b"
		 "31m \xe2\x80\xae \xd8\x9c",
		 "\"\\u009b31m \\u202e \\u061c\""},
		{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
		 "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
		/* invalid UTF-8: stray, cut short, overlong, a surrogate, above U+10FFFF, never
		 * used */
		{"\x80", "\"\xef\xbf\xbd\""},
		{"a\xc3", "\"a\xef\xbf\xbd\""},
		{"\xe2\x82x", "\"\xef\xbf\xbd\xef\xbf\xbdx\""},
		{"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xff\xfe", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile *profile = new_profile(1);
		char expected[256], *text;

		assert_int_equal(profile__add_file(profile, cases[i].raw), 0);
		text = encoded(encode_json, profile);
		snprintf(expected, sizeof(expected), "\"files\":[%s]}\n", cases[i].json);
		assert_non_null(strstr(text, expected));
		free(text);
		profile__free(profile);
	}
}

/* JSON has no NaN, so an unknown number is null. */
static void unknown_numbers_are_null(void **state)
{
	static const double unknown[] = {-1, NAN, -INFINITY, INFINITY};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct profile *profile = new_profile(524288);
		char *text;

		profile->duration_s = unknown[i];
		profile->mode = MODE_UNKNOWN;
		text = encoded(encode_json, profile);
		assert_non_null(strstr(text, "\"overhead_pct\":null,"));
		assert_non_null(strstr(text, "\"mode\":\"\","));
		assert_null(strstr(text, "nan"));
		assert_null(strstr(text, "inf"));
		free(text);
		profile__free(profile);
	}
}

/* Keys that only profiles of regions have, and keys that only profiles of faults have. */
static void other_profiles_have_their_own(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	profile->what = PROFILE_REGIONS;
	profile->regions.kind_bytes[REGION_OF_STACK] = 8192;
	profile->regions.earlier_gone_bytes = optional__of(4096);
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "{\"version\":1,\"what\":\"regions\","));
	assert_non_null(strstr(text, "\"kinds\":{\"anonymous\":0,\"file\":0,\"stack\":8192,"
				     "\"hugetlb\":0,\"brk\":0,\"other\":0},"
				     "\"earlier_gone_bytes\":4096,"));
	free(text);
	profile->regions.earlier_gone_bytes = (struct optional){};
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "\"earlier_gone_bytes\":null,"));
	assert_null(strstr(text, "regions_followed_s"));
	free(text);
	profile->regions.stopped_s = optional__of(0.25);
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "\"regions_followed_s\":0.250,"));
	free(text);

	profile->what = PROFILE_FAULTS;
	profile->resident_change_bytes = optional__of(-123);
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "\"resident_change_bytes\":-123,"));
	assert_null(strstr(text, "kinds"));
	free(text);
	profile->resident_change_bytes = (struct optional){};
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "\"resident_change_bytes\":null,"));
	free(text);
	profile__free(profile);
}

/* The CPU time and memory of memtrace itself are in the output, if they are known. */
static void own_cost_is_told(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	profile->run->cost = (struct run_cost){
		.known = true, .cpu_pct = 1.25, .user_bytes = 1000, .kernel_bytes = 2000};
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "],\"memtrace\":{\"cpu_pct\":1.250,\"user_bytes\":1000,"
				     "\"kernel_bytes\":2000},\"files\":["));
	free(text);
	profile->run->cost.at_most = profile->run->cost.host_known = true;
	profile->run->cost.host_pct = 0.5;
	text = encoded(encode_json, profile);
	assert_non_null(strstr(
		text,
		"\"overhead_host_pct\":0.500,\"user_bytes\":1000,\"kernel_bytes_at_most\":2000}"));
	free(text);
	profile->run->cost.known = false;
	text = encoded(encode_json, profile);
	assert_null(strstr(text, "\"memtrace\""));
	free(text);
	profile__free(profile);
}

static void windows_and_growth_are_told(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 1024, 10, "malloc", "leaks", "main");
	profile->sites[0].growth = (struct growth){1.5, -2, 5};
	end_profile(profile);
	text = encoded(encode_json, profile);
	assert_null(strstr(text, "growth_"));
	assert_null(strstr(text, "windows"));
	assert_null(strstr(text, "evidence"));
	free(text);
	profile->growth.stacks_known = true;
	profile->windows.n = 3;
	profile->windows.seconds = 0.25;
	profile->windows.continuous_s = 0.5;
	profile->mode = MODE_WINDOWED;
	profile->windows.evidence = (struct profile_evidence){10, 1, 2, 3, 4, 5};
	text = encoded(encode_json, profile);
	assert_non_null(strstr(text, "\"mode\":\"windowed\",\"windows\":{\"n\":3,\"seconds\":0.250,"
				     "\"continuous_seconds\":0.500},"
				     "\"evidence\":{\"born\":10,\"freed\":1,\"replaced\":2,"
				     "\"unmapped\":3,\"changed\":4,\"unchanged\":5}"));
	assert_non_null(strstr(text, "\"growth_bytes_per_s\":1.500,\"growth_low\":-2.000,"
				     "\"growth_high\":5.000,\"frames\":["));
	free(text);
	profile__free(profile);
}

/* A stack has samples, but none of the sampled blocks is live. It may still hold up to -ln(0.025) R
 * bytes: 3.688879 times 64 KiB are 241,754. Memory that no window saw may be any amount. */
static void what_was_not_seen_may_be_live(void **state)
{
	static const char sampled[] = "\"live_bytes\":0,\"live_bytes_low\":0,"
				      "\"live_bytes_high\":241754,\"live_objects\":0,";
	static const char unknown[] = "\"live_bytes\":0,\"live_bytes_low\":0,"
				      "\"live_bytes_high\":null,\"live_objects\":0,";
	static const char none[] = "\"live_bytes\":0,\"live_bytes_low\":0,"
				   "\"live_bytes_high\":0,\"live_objects\":0,";
	const struct json_options options = {.all_stacks = true};
	struct profile *profile = new_profile(64 << 10);
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	char *one;

	(void)state;
	one = encoded(encode_json, profile);
	assert_has(one, none); /* it has allocated nothing */
	free(one);
	STACK(profile, 1, 1000, 0, "malloc", "serve", "main");
	profile->sites[0].alloc_bytes = 640 << 10;
	profile->sites[0].alloc_objects = 655;
	end_profile(profile);
	profile->samples = profile->alloc_calls = 10;
	profile->peak.known = true;
	assert_int_equal(encode_json_with(profile, &options, &sink), 0);
	assert_has(text.bytes, sampled);
	assert_has(text.bytes, "\"peak_bytes\":0,\"peak_bytes_low\":0,\"peak_bytes_high\":241754,");
	assert_has(strstr(text.bytes, "\"stacks\":["), sampled);
	text.len = 0;
	profile->mode = MODE_WINDOWED;
	assert_int_equal(encode_json_with(profile, &options, &sink), 0);
	assert_has(strstr(text.bytes, "\"stacks\":["), unknown);
	text.len = 0;
	profile->mode = MODE_CONTINUOUS;
	profile->dropped = 1;
	assert_int_equal(encode_json_with(profile, &options, &sink), 0);
	assert_has(strstr(text.bytes, "\"stacks\":["), unknown);
	text.len = 0;
	profile->dropped = 0;
	profile->interval_bytes = 1;
	assert_int_equal(encode_json_with(profile, &options, &sink), 0);
	assert_has(strstr(text.bytes, "\"stacks\":["), none);
	free(text.bytes);
	profile__free(profile);
}

static void the_highest_moment_has_an_interval(void **state)
{
	struct profile *profile = new_profile(64 << 10);
	double bytes = 4 << 20, low, high;
	char *text;

	(void)state;
	STACK(profile, 1, 1000, 2, "malloc", "serve", "main");
	end_profile(profile);
	profile->peak.known = true;
	profile->sites[0].peak_bytes = bytes;
	profile->sites[0].peak_objects = 100;
	text = encoded(encode_json, profile);
	/* 1.96 times the standard error of the worst case, sqrt(R Y) */
	assert_int_equal(sscanf(strstr(text, "\"peak_bytes_low\":"),
				"\"peak_bytes_low\":%lf,\"peak_bytes_high\":%lf,", &low, &high),
			 2);
	assert_true(fabs((high - low) / 2 / (1.96 * sqrt((64 << 10) * bytes)) - 1) < 0.05);
	assert_true(low < bytes && high > bytes);
	free(text);
	profile->dropped = 1;
	text = encoded(encode_json, profile);
	assert_has(text, "\"peak_bytes_high\":null,");
	free(text);
	profile->dropped = 0;
	profile->interval_bytes = 1;
	text = encoded(encode_json, profile);
	assert_has(text,
		   "\"peak_bytes\":4194304,\"peak_bytes_low\":4194304,\"peak_bytes_high\":4194304,"
		   "\"peak_objects\":100");
	free(text);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_keys_are_as_promised),
		cmocka_unit_test(inlined_functions_have_lines),
		cmocka_unit_test(strings_are_escaped),
		cmocka_unit_test(unknown_numbers_are_null),
		cmocka_unit_test(other_profiles_have_their_own),
		cmocka_unit_test(own_cost_is_told),
		cmocka_unit_test(windows_and_growth_are_told),
		cmocka_unit_test(what_was_not_seen_may_be_live),
		cmocka_unit_test(the_highest_moment_has_an_interval),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
