// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "fixture.h"

static char *leaks(const struct profile *profile)
{
	struct table_options options = {};
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};

	assert_int_equal(encode_leaks(profile, &options, &sink), 0);
	return text.bytes;
}

static int encode(const struct profile *profile, struct sink *sink)
{
	struct table_options options = {};

	return encode_leaks(profile, &options, sink);
}

/* Sets the growth in KiB per second, and the shares of blocks that are held at three ages: `young`
 * at 2 s, `old` at 8 s, and the mean of the two at 4 s. */
static void grow(struct profile *profile, size_t site, double rate, double error, double young,
		 double old)
{
	struct growth_sum sum = {};

	growth_sum__add(&sum, &profile->growth.attributed);
	profile->growth.stacks_known = true;
	profile->sites[site].growth =
		(struct growth){rate * 1024, (rate - error) * 1024, (rate + error) * 1024};
	if (!isnan(error))
		growth_sum__add(&sum, &profile->sites[site].growth);
	profile->growth.attributed = sum.total;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		profile->sites[site].survival[i] = i < 3 ? young + (old - young) * i / 2 : NAN;
}

static struct profile *run_of_a_minute(void)
{
	struct profile *profile = new_profile(64 << 10);

	profile->duration_s = 60;
	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		profile->survival_age_s[i] = 2 << i;
	return profile;
}

/* The stacks that grow may be those that a filter has left out. */
static void a_selection_does_not_speak_for_the_process(void **state)
{
	static const char expected[] =
		"memtrace: pid 4711 (leaky), 60.0 s continuous: no stack of this selection surely "
		"grows\n"
		"note: filters have left something out: what is missing looks like memory that "
		"shrank or never grew\n"
		"Its anonymous memory grows by 400.0 KiB/s.\n"
		"1. perhaps < main\n";
	struct profile *profile = run_of_a_minute();
	char *text;

	(void)state;
	grow(profile, STACK(profile, 1, 1 << 20, 1, "malloc", "perhaps", "main"), 10, 20, 0, 0);
	profile->growth.bytes_per_s = optional__of(400 * 1024);
	end_profile(profile);
	text = leaks(profile);
	assert_has(text, ": no stack surely grows, but the process does; most of its growth is in "
			 "none of the stacks that were seen");
	assert_has(text, "grows by 400.0 KiB/s, of which the stacks explain 10.0 KiB/s.\n");
	free(text);
	assert_int_equal(profile__add_lost(profile, LOST_FILTERED, 3), 0);
	text = leaks(profile);
	if (strncmp(text, expected, strlen(expected)))
		fail_msg("%s\nis not how this begins:\n%s", expected, text);
	free(text);
	assert_reports_failures(encode, profile);
	profile__free(profile);
}

static void stacks_are_ranked_by_evidence(void **state)
{
	static const char expected[] =
		"memtrace: pid 4711 (leaky), 60.0 s continuous: 3 stacks surely grow\n"
		"Its anonymous memory grows by 400.0 KiB/s, of which the stacks explain 350.0 "
		"KiB/s.\n"
		"1. forget < request < main\n"
		"   surely grows, by 100.0 KiB/s (95 %: 80.0 - 120.0 KiB), 25 % of what the "
		"process grows by, "
		"and holds 6.0 MiB, and hardly any of it is freed as it gets older (held of what "
		"is older "
		"than 2 s: 98 %, than 8 s: 97 %); its oldest is older than 4 s.\n"
		"   To confirm: look at forget: who is to free what is allocated there, and when?\n"
		"2. unknown_age < main\n"
		"   surely grows, by 50.0 KiB/s (95 %: 40.0 - 60.0 KiB), 12 % of what the process "
		"grows by, "
		"and holds 3.0 MiB.\n"
		"   To confirm: a run three times as long tells whether it levels off, as what "
		"fills up does; "
		"if it does not, look at unknown_age.\n"
		"3. cache < main\n"
		"   surely grows, by 200.0 KiB/s (95 %: 150.0 - 250.0 KiB), 50 % of what the "
		"process grows "
		"by, and holds 12.0 MiB, though most of it is freed as it gets older, as a cache's "
		"is (held "
		"of what is older than 2 s: 60 %, than 8 s: 10 %).\n"
		"   To confirm: a run three times as long tells whether it levels off, as what "
		"fills up does; "
		"if it does not, look at cache.\n"
		"What could have been missed: a stack that grows by 32.0 KiB/s or more is found in "
		"95 of 100 "
		"such runs, a slower one may not be. A longer run or a smaller interval (-i) sees "
		"slower "
		"ones.\n";
	struct profile *profile = run_of_a_minute();
	struct text json = {};
	struct sink json_sink = {.write = text_write, .ctx = &json};
	size_t forget;
	char *text;

	(void)state;
	grow(profile, STACK(profile, 1, 1 << 20, 12, "malloc", "cache", "main"), 200, 50, 0.6, 0.1);
	forget = STACK(profile, 1, 1 << 20, 6, "malloc", "forget", "request", "main");
	grow(profile, forget, 100, 20, 0.98, 0.97);
	profile->sites[forget].older[0] = 0.5;	/* share of live memory older than 2 s */
	profile->sites[forget].older[1] = 0.01; /* share of live memory older than 4 s */
	grow(profile, STACK(profile, 1, 1 << 20, 3, "malloc", "unknown_age", "main"), 50, 10, NAN,
	     NAN);
	grow(profile, STACK(profile, 1, 1 << 20, 1, "malloc", "perhaps", "main"), 10, 20, 0, 0);
	grow(profile, STACK(profile, 1, 1 << 20, 1, "malloc", "shrinks", "main"), -10, 5, 1, 1);
	profile->growth.bytes_per_s = optional__of(400 * 1024);
	end_profile(profile);
	text = leaks(profile);
	assert_string_equal(text, expected);
	free(text);
	assert_reports_failures(encode, profile);
	assert_int_equal(encode_leaks_json(profile, &json_sink), 0);
	assert_has(json.bytes,
		   "{\"version\":1,\"what\":\"heap\",\"pid\":4711,\"comm\":\"leaky\","
		   "\"seconds\":60.000,\"lost\":{},\"contradictions\":[],"
		   "\"judged\":true,\"surely_grow\":3,\"growth_of\":\"process\","
		   "\"growth_bytes_per_s\":409600.000,"
		   "\"least_growth_bytes_per_s\":32768.000,\"stacks\":[{\"surely_grows\":true,"
		   "\"growth_bytes_per_s\":102400.000,\"growth_low\":81920.000,"
		   "\"growth_high\":122880.000,");
	assert_has(json.bytes,
		   ",\"freed_with_age\":\"hardly any\",\"young_s\":2.000,\"young_held\":0.980,"
		   "\"old_s\":8.000,\"old_held\":0.970,\"oldest_s\":4.000,"
		   "\"frames\":[\"malloc\",\"forget\",\"request\",\"main\"]}");
	assert_has(json.bytes, "{\"surely_grows\":false,\"growth_bytes_per_s\":10240.000,"
			       "\"growth_low\":-10240.000,");
	/* after two seconds, all of them were freed */
	assert_has(json.bytes,
		   "\"freed_with_age\":\"most\",\"young_s\":2.000,\"young_held\":0.000,");
	assert_has(json.bytes, "\"perhaps\",\"main\"]}]}\n"); /* without the stack "shrinks" */
	free(json.bytes);
	assert_reports_failures(encode_leaks_json, profile);
	profile__free(profile);
}

static struct site_why *held_and_lost(uint64_t held, uint64_t lost, uint64_t in_doubt,
				      uint64_t gone)
{
	struct site_why *why = calloc(1, sizeof(*why));

	*why = (struct site_why){.asked = held + lost + in_doubt + gone,
				 .held = held,
				 .lost = lost,
				 .in_doubt = in_doubt,
				 .gone = gone,
				 .followed = held ? held - 1 : 0};
	why->holders = calloc(SITE_HOLDERS, sizeof(*why->holders));
	for (uint64_t i = 0; i < 3 && i < held; i++)
		why->holders[why->n_holders++] =
			(struct site_holder){strdup(i ? "register of thread \033 (7)"
						      : "global cache (leaky) -> [88-byte block]"),
					     i ? 1 : held - 3};
	return why;
}

static void who_holds_the_blocks_is_told(void **state)
{
	struct profile *profile = run_of_a_minute();
	struct text json = {};
	struct sink json_sink = {.write = text_write, .ctx = &json};
	size_t forget, keep;
	char *text;

	(void)state;
	forget = STACK(profile, 1, 1 << 20, 6, "malloc", "forget", "main");
	grow(profile, forget, 100, 20, 0.98, 0.97);
	profile->sites[forget].why = held_and_lost(0, 97, 2, 1);
	keep = STACK(profile, 1, 1 << 20, 3, "malloc", "keep", "main");
	grow(profile, keep, 50, 10, 0.98, 0.97);
	profile->sites[keep].why = held_and_lost(10, 0, 0, 0);
	profile->why = calloc(1, sizeof(*profile->why));
	end_profile(profile);
	text = leaks(profile);
	assert_has(text, "   Lost: 97 of 100 sampled blocks (97 %). No pointer to them is left.\n"
			 "   In doubt: 2 of 100 sampled blocks (2 %): not reached in the last "
			 "full scan, but not surely lost.\n"
			 "   Not found: 1 of 100 sampled blocks (1 %), freed meanwhile or in "
			 "memory of a pool.\n"
			 "   To confirm: look at forget: who drops the last pointer to what is "
			 "allocated there, and does not free it?\n");
	assert_has(text,
		   "   Held: 7 of 10 sampled blocks (70 %) by global cache (leaky) -> "
		   "[88-byte block]: see what removes from it.\n"
		   "   Held: 1 of 10 sampled blocks (10 %) by register of thread ? (7).\n"
		   "   Held in other ways: 1 of 10 sampled blocks (10 %).\n"
		   "   Held by chains too long to be followed: 1 of 10 sampled blocks (10 %).\n"
		   "   To confirm: look at keep: who is to free");
	free(text);
	assert_reports_failures(encode, profile);
	profile->why->doubt = strdup("12.0 KiB are swapped out");
	profile->why->no_registers = true;
	text = leaks(profile);
	assert_has(text, "No block is called lost: 12.0 KiB are swapped out.\n"
			 "Threads' registers could not be read: ");
	free(text);
	profile->why->failed = strdup("the process had ended");
	text = leaks(profile);
	assert_has(text, "Who holds the blocks is not known: the process had ended.\n");
	free(text);
	assert_int_equal(encode_leaks_json(profile, &json_sink), 0);
	assert_has(json.bytes, "\"why_search\":{\"failed\":\"the process had ended\",\"doubt\":"
			       "\"12.0 KiB are swapped out\",\"scans\":0,\"seconds\":0.000,"
			       "\"registers\":false},\"judged\":true,");
	assert_has(json.bytes, "\"why\":{\"asked_blocks\":100,\"held_blocks\":0,\"lost_blocks\":97,"
			       "\"doubtful_blocks\":2,\"missing\":1,\"followed_blocks\":0,"
			       "\"holders\":[]},\"frames\":[\"malloc\",\"forget\",\"main\"]}");
	assert_has(json.bytes, "\"holders\":[{\"blocks\":7,\"path\":\"global cache (leaky) -> "
			       "[88-byte block]\"},{\"blocks\":1,\"path\":\"register of thread "
			       "\\u001b (7)\"},");
	free(json.bytes);
	profile__free(profile);
}

static void nothing_is_said_to_leak_by_chance(void **state)
{
	struct profile *profile = run_of_a_minute();
	char *text;

	(void)state;
	grow(profile, STACK(profile, 1, 1 << 20, 1, "malloc", "perhaps", "main"), 10, 20, NAN, NAN);
	grow(profile, STACK(profile, 1, 1 << 20, 1, "malloc", "hardly", "main"), 0.01, 20, NAN,
	     NAN);
	grow(profile, STACK(profile, 1, 1 << 20, 1, "malloc", "untold", "main"), 5, NAN, NAN, NAN);
	profile->growth.bytes_per_s = (struct optional){};
	end_profile(profile);
	text = leaks(profile);
	assert_has(text,
		   "60.0 s continuous: no stack surely grows, nothing is seen to leak\n1. perhaps");
	/* The error of 20 KiB/s must become smaller than the growth of 10 KiB/s. For that, a run
	 * must be (20 / 10)^2 = 4 times as long. The text says 6 times, half as much again, as a
	 * reserve. */
	assert_has(text, "may grow, by 10.0 KiB/s (95 %: up to 30.0 KiB), 100 % of what all "
			 "growing stacks grow by");
	assert_has(text, "this may be chance; a run about 6 times as long, or");
	assert_has(text, "2. hardly");
	assert_has(text, "this may well be chance; a longer run would tell.");
	assert_null(strstr(text, "untold"));
	assert_has(text, "What could have been missed: ");
	free(text);
	/* if the process gains memory, some stack grows, so the text does not say "nothing is seen
	 * to leak" */
	profile->growth.bytes_per_s = optional__of(46 * 1024);
	text = leaks(profile);
	assert_has(
		text,
		"60.0 s continuous: no stack surely grows, but the process does; its growth may be "
		"in these stacks\n"
		"Its anonymous memory grows by 46.0 KiB/s");
	assert_has(text, "\n1. ");
	free(text);
	/* if the process gains much more than all stacks together can, the stacks are not
	 * suspects */
	profile->growth.bytes_per_s = optional__of(50 << 20);
	text = leaks(profile);
	assert_has(text, "no stack surely grows, but the process does; most of its growth is in "
			 "none of the stacks that were seen, so it is not malloc's memory");
	assert_null(strstr(text, "\n1. "));
	free(text);
	/* the resident set grows, but most of the growth is anonymous memory */
	profile->rss_start_bytes = 1 << 30;
	profile->rss_end_bytes = (1 << 30) + (600 << 20);
	profile->file_growth_bytes = 250 << 20;
	text = leaks(profile);
	assert_null(strstr(text, "resident set"));
	free(text);
	/* most of the growth is other memory */
	profile->growth.bytes_per_s = optional__of(46 * 1024);
	profile->file_growth_bytes = 550 << 20;
	text = leaks(profile);
	assert_has(text,
		   "\nIts resident set has grown by 600.0 MiB in the run. What it has of shared "
		   "memory and mapped files has grown by 550.0 MiB (--rss tells which).\n");
	free(text);
	profile->rss_end_bytes = 0; /* the process has ended */
	text = leaks(profile);
	assert_null(strstr(text, "resident set"));
	free(text);
	profile->growth.bytes_per_s = (struct optional){};
	assert_null(leaks__refusal(profile));
	profile->growth.stacks_known = false;
	profile->start_unix_ns = 1700000000000000000;
	assert_has(leaks__refusal(profile), "does not tell growth, for its run was too short");
	profile->windows.n = 2;
	assert_has(leaks__refusal(profile), "fewer than three windows: a longer run has more");
	profile->windows.n = 0;
	profile->start_unix_ns = 0;
	assert_has(leaks__refusal(profile), "files of its kind keep neither growth nor time");
	profile__free(profile);
	profile = run_of_a_minute();
	profile->growth.stacks_known = true;
	profile->interval_bytes = 1;
	end_profile(profile);
	text = leaks(profile);
	assert_string_equal(text,
			    "memtrace: pid 4711 (leaky), 60.0 s continuous: no stack surely grows, "
			    "nothing is seen to leak\n");
	free(text);
	profile__free(profile);
}

/* An estimate from very few samples is often the largest, but the least reliable. An estimate of 0
 * with a wide interval is not printed as "0 B/s". */
static void what_is_nearly_sure_comes_before_what_may_be_anything(void **state)
{
	struct profile *profile = run_of_a_minute();
	char *text;

	(void)state;
	grow(profile, STACK(profile, 1, 1 << 20, 1, "malloc", "anything", "main"), 2700, 74000, NAN,
	     NAN);
	grow(profile, STACK(profile, 1, 1 << 20, 1, "malloc", "nearly", "main"), 20, 21, NAN, NAN);
	grow(profile, STACK(profile, 1, 1 << 20, 1, "malloc", "nothing", "main"), 0.4 / 1024, 5,
	     NAN, NAN);
	grow(profile, STACK(profile, 1, 1 << 20, 1, "malloc", "never", "main"), 0.2 / 1024,
	     0.3 / 1024, NAN, NAN);
	end_profile(profile);
	text = leaks(profile);
	assert_has(text, "1. nearly < main\n   may grow, by 20.0 KiB/s (95 %: up to 41.0 KiB)");
	assert_has(text, "2. anything < main\n   may grow, by 2.6 MiB/s");
	assert_has(text,
		   "3. nothing < main\n   may grow, by up to 5.0 KiB/s (95 %), if it does at all, "
		   "and holds 1.0 MiB");
	assert_null(strstr(text, "by 0 B/s"));
	assert_null(strstr(text, "never"));
	free(text);
	profile__free(profile);
}

/* The growth that could have been missed follows from the sampling in windows, not from the few
 * live blocks. */
static void what_windows_miss_is_by_how_they_sampled(void **state)
{
	struct profile *profile = run_of_a_minute();
	size_t busy = STACK(profile, 1, 10, 3, "malloc", "busy", "main");
	char *text;

	(void)state;
	profile->mode = MODE_WINDOWED;
	profile->windows.n = 20;
	profile->windows.seconds = 0.6;
	profile->growth.stacks_known = true;
	profile->sites[busy].alloc_bytes = 1e9;
	/* as if samples stood for 3 MiB each */
	profile->sites[busy].alloc_variance = 1e9 * (3 << 20);
	end_profile(profile);
	text = leaks(profile);
	assert_has(text,
		   "a stack that grows by 2.0 MiB/s or more is found"); /* 20 samples in 30 s */
	free(text);
	profile->windows.continuous_s = 59; /* at an interval of 64 KiB, 20 samples in 40 s */
	text = leaks(profile);
	assert_has(text, "a stack that grows by 32.0 KiB/s or more is found");
	free(text);
	profile__free(profile);
}

/* There are 98 samples, most of them from one second of thirty. From these samples alone it would
 * follow that every stack that grows by 74 KiB/s is found. But 926 KiB/s of the process's growth
 * are explained by no stack. So a stack may grow by more than 74 KiB/s and not be found. */
static void what_was_not_found_could_be_missed(void **state)
{
	struct profile *profile = run_of_a_minute();
	size_t busy = STACK(profile, 1, 10, 3, "malloc", "busy", "main");
	char *text;

	(void)state;
	profile->mode = MODE_WINDOWED;
	profile->windows.n = 5;
	grow(profile, busy, 41, 0, NAN, NAN);
	profile->sites[busy].growth.low = 1;
	profile->sites[busy].alloc_bytes = 1e9;
	profile->sites[busy].alloc_variance = 1e9 * (111 << 10);
	profile->growth.bytes_per_s = (struct optional){};
	end_profile(profile);
	text = leaks(profile);
	assert_has(text, "a stack that grows by 74.0 KiB/s or more is found");
	/* in windows a larger limit brings more samples */
	assert_has(text, "A longer run or a larger limit (--max-overhead) sees slower ones.");
	free(text);
	profile->growth.bytes_per_s = optional__of(967 << 10);
	text = leaks(profile);
	assert_has(text, "a stack that grows by 926.0 KiB/s or more is found");
	free(text);
	profile->sites[busy].growth.low = 0;
	profile->sites[busy].growth.high = 3 << 20;
	text = leaks(profile);
	assert_has(text, "(95 %: up to 3.0 MiB)");
	assert_has(text, "a stack that grows by 3.0 MiB/s or more is found");
	free(text);
	/* in continuous tracing all samples have one weight */
	profile->mode = MODE_CONTINUOUS;
	profile->windows.n = 0;
	text = leaks(profile);
	assert_has(text, "a stack that grows by 32.0 KiB/s or more is found");
	assert_has(text, "or a smaller interval (-i) sees slower ones.");
	free(text);
	profile__free(profile);
}

/* Two snapshots of a run with one window. Both contain only the blocks of this window. These blocks
 * do not show whether the stack grew later. */
static void snapshots_of_few_windows_tell_no_leaks(void **state)
{
	struct table_options options = {};
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct diff *diff = NULL;
	struct profile *p[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		p[i] = run_of_a_minute();
		p[i]->start_unix_ns = 1700000000000000000;
		p[i]->duration_s = 20 + 20 * i;
		STACK(p[i], 1, 1024, 10, "malloc", "forget", "main");
		end_profile(p[i]);
	}
	assert_int_equal(diff__new((const struct profile *const *)p, 2, DIFF_AUTO, &diff, NULL), 0);
	assert_null(diff_leaks__refusal(diff));
	p[1]->growth.stacks_known = true;
	p[1]->growth.bytes_per_s = optional__of(1.5 * (1 << 20));
	assert_int_equal(encode_diff_leaks(diff, &options, &sink), 0);
	assert_has(text.bytes, "no stack surely grows, but the process does");
	free(text.bytes);
	p[1]->growth.stacks_known = false;
	diff->windowed = true;
	p[1]->mode = MODE_WINDOWED;
	p[1]->windows.n = 1;
	assert_has(diff_leaks__refusal(diff), "fewer than three windows");
	diff__free(diff);
	for (int i = 0; i < 2; i++)
		profile__free(p[i]);
}

/* Windows show that blocks stay. The output says what windows cannot show. */
static void what_windows_cannot_tell_is_said(void **state)
{
	static const char which[] = "windows do not tell which of these stacks grow";
	struct profile *profile = run_of_a_minute();
	size_t cache = STACK(profile, 1, 1 << 20, 1, "malloc", "cache", "main");
	struct text json = {};
	struct sink sink = {.write = text_write, .ctx = &json};
	char *text;

	(void)state;
	profile->mode = MODE_WINDOWED;
	grow(profile, cache, 10, 10, 1, 1);
	grow(profile, STACK(profile, 1, 1 << 20, 1, "malloc", "perhaps", "main"), 8, 20, NAN, NAN);
	profile->sites[cache].replaces = true;
	profile->growth.bytes_per_s = optional__of(9 * 1024);
	profile->growth.blocks_per_s = optional__of(9);
	profile->growth.blocks_low = optional__of(-1);
	profile->growth.blocks_high = optional__of(20);
	end_profile(profile);
	text = leaks(profile);
	assert_has(text, "may grow, by 10.0 KiB/s");
	assert_has(
		text,
		"The process does not grow by as much: these blocks take the place of older ones, "
		"or they are freed at moments "
		"that no window saw.\n");
	assert_null(strstr(strstr(text, "2. perhaps"), "take the place"));
	assert_null(strstr(text, which));
	free(text);
	assert_int_equal(encode_leaks_json(profile, &sink), 0);
	assert_has(json.bytes, ",\"growth_replaces\":true,");
	free(json.bytes);
	profile->growth.blocks_low = optional__of(3);
	text = leaks(profile);
	/* the sentence would contradict the text of stack 1 */
	assert_null(strstr(text, which));
	free(text);
	profile->sites[cache].replaces = false;
	text = leaks(profile);
	assert_has(text, which);
	free(text);
	profile__free(profile);
}

static void a_difference_tells_leaks(void **state)
{
	struct table_options options = {};
	struct text text = {}, json = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct sink json_sink = {.write = text_write, .ctx = &json};
	struct diff *diff = NULL;
	struct profile *p[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		p[i] = run_of_a_minute();
		p[i]->interval_bytes = 1;
		p[i]->start_unix_ns = 1700000000000000000;
		p[i]->duration_s = 20 + 20 * i;
		STACK(p[i], 1, 1024, 10 + 40 * i, "malloc", "forget", "main");
		STACK(p[i], 1, 1024, 30 + i, "malloc", "perhaps", "main");
		/* a stack with the same functions and another call address: the age of most blocks
		 * is still known */
		STACK(p[i], 2, 1, 1, "malloc", "forget", "main");
		end_profile(p[i]);
		for (size_t k = 0; k < p[i]->n_sites; k++)
			for (int a = 0; a < PROFILE_SURVIVAL_AGES; a++)
				p[i]->sites[k].survival[a] =
					p[i]->sites[k].live.objects > 50 ? 1 : NAN;
	}
	assert_int_equal(diff__new((const struct profile *const *)p, 3, DIFF_AUTO, &diff, NULL), 0);
	assert_int_equal(encode_diff_leaks(diff, &options, &sink), 0);
	assert_string_equal(
		text.bytes,
		"memtrace: pid 4711 (leaky), 3 profiles over 40.0 s: 1 stack surely grows\n"
		"1. forget < main\n"
		"   surely grows, by 2.0 KiB/s, 98 % of what all stacks together grow by, and "
		"holds 90.0 KiB; it "
		"was more in 2 of 2 steps, and hardly any of it is freed as it gets older (held of "
		"what is "
		"older than 2 s: 100 %, than 32 s: 100 %).\n"
		"   To confirm: look at forget: who is to free what is allocated there, and "
		"when?\n");
	assert_int_equal(encode_diff_leaks_json(diff, &json_sink), 0);
	assert_has(
		json.bytes,
		"{\"version\":1,\"what\":\"heap\",\"seconds\":40.000,\"profiles\":[{\"pid\":4711,");
	assert_has(json.bytes, ",\"warnings\":[],\"judged\":true,\"surely_grow\":1,");
	assert_has(json.bytes, "\"live_bytes\":92161.000,\"freed_with_age\":\"hardly any\",");
	assert_has(json.bytes,
		   ",\"rises\":2,\"steps\":2,\"frames\":[\"malloc\",\"forget\",\"main\"]}");
	free(json.bytes);
	free(text.bytes);
	assert_null(diff_leaks__refusal(diff));
	diff->seconds = NAN;
	assert_has(diff_leaks__refusal(diff), "the oldest comes first");
	diff->one_run = false;
	assert_has(diff_leaks__refusal(diff),
		   "are of several runs, each of which has what was allocated during its own");
	diff->warnings |= 1u << DIFF_WARN_UNTIMED;
	assert_has(diff_leaks__refusal(diff), "do not say when they were taken");
	p[2]->pid++;
	assert_has(diff_leaks__refusal(diff), "are of several processes");
	diff->windowed = true;
	p[2]->growth.stacks_known = true;
	assert_has(diff_leaks__refusal(diff), "they are of windows, and each tells by itself");
	diff__free(diff);
	for (int i = 0; i < 3; i++)
		profile__free(p[i]);
}

/* One row has two stacks of the same functions. The larger stack stopped growing long ago, so all
 * growth is the other stack's. The row's growth may have ended only if the other stack has stopped,
 * too. Each stack's growth is then 0 with an error of 1 KiB/s. These errors are independent, so the
 * row's error is sqrt(2) KiB/s. */
static void growth_ends_in_all_stacks_of_a_row(void **state)
{
	static const char over[] =
		"   But the growth may have ended: by the last profile alone, "
		"at the end of the run, it was 0 B/s (95 %: -1.4 to +1.4 KiB).\n";
	struct table_options options = {};
	struct profile *p[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		p[i] = run_of_a_minute();
		p[i]->interval_bytes = 1;
		p[i]->start_unix_ns = 1700000000000000000;
		p[i]->duration_s = 20 + 20 * i;
		STACK(p[i], 1, 1024, 3000, "malloc", "forget", "main");
		STACK(p[i], 1, 1024, 10 + 1990 * i, "malloc", "forget", "main");
		end_profile(p[i]);
	}
	assert_int_equal(p[1]->n_sites, 2);
	p[1]->growth.stacks_known = true;
	for (int ended = 0; ended < 2; ended++) {
		struct text text = {};
		struct sink sink = {.write = text_write, .ctx = &text};
		struct diff *diff = NULL;

		for (size_t i = 0; i < 2; i++)
			p[1]->sites[i].growth =
				p[1]->sites[i].live.objects < 2500 && !ended
					? (struct growth){100 << 10, 90 << 10, 110 << 10}
					: (struct growth){0, -1024, 1024};
		assert_int_equal(
			diff__new((const struct profile *const *)p, 2, DIFF_LIVE, &diff, NULL), 0);
		assert_int_equal(encode_diff_leaks(diff, &options, &sink), 0);
		assert_has(text.bytes, ": 1 stack surely grows\n");
		if (ended)
			assert_has(text.bytes, over);
		else
			assert_null(strstr(text.bytes, "may have ended"));
		free(text.bytes);
		diff__free(diff);
	}
	for (int i = 0; i < 2; i++)
		profile__free(p[i]);
}

/* The files do not say how they were sampled. So no growth is called sure, none is called chance,
 * and the output does not say which growth would have been found. */
static void what_is_not_judged_is_no_all_clear(void **state)
{
	struct table_options options = {};
	struct text text = {};
	struct sink sink = {.write = text_write, .ctx = &text};
	struct diff *diff = NULL;
	struct profile *p[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		p[i] = new_profile(0);
		p[i]->start_unix_ns = 1700000000000000000;
		p[i]->duration_s = 20 + 20 * i;
		STACK(p[i], 1, 1024, 10 + 4000 * i, "malloc", "forget", "main");
		end_profile(p[i]);
	}
	assert_int_equal(profile__add_lost(p[1], "live_full", 3), 0);
	assert_int_equal(diff__new((const struct profile *const *)p, 2, DIFF_AUTO, &diff, NULL), 0);
	assert_true(isnan(diff__least_growth(diff)));
	assert_int_equal(encode_diff_leaks(diff, &options, &sink), 0);
	assert_has(text.bytes, "seen, but not whether it is more than chance");
	assert_has(text.bytes, "1. forget < main\n   may grow, by ");
	assert_has(text.bytes, "profile 2: lost: live_full 3\n");
	assert_null(strstr(text.bytes, "nothing is seen to leak"));
	assert_null(strstr(text.bytes, "95 of 100"));
	assert_null(strstr(text.bytes, "may well be chance"));
	free(text.bytes);
	diff__free(diff);
	for (int i = 0; i < 2; i++)
		profile__free(p[i]);
}

static uint64_t random_state = 5;

static double random_unit(void) /* splitmix64, in (0, 1) */
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return ((double)(z >> 11) + 0.5) * 0x1p-53;
}

/* The output names a rate of growth that would be found. A stack that leaks at this rate must be
 * found. Its samples come at random in the last two thirds of the run: 40 s, in eight slices. */
static void what_is_said_to_be_found_is_found(void **state)
{
	double rate = 32 * 1024, gap = (64 << 10) / rate;
	int runs = 1000, found = 0;

	(void)state;
	for (int run = 0; run < runs; run++) {
		struct growth_segment segments[8] = {};
		struct growth growth;

		for (double at = -log(random_unit()) * gap; at < 40; at -= log(random_unit()) * gap)
			segments[(int)(at / 5)].bytes += 64 << 10;
		for (int i = 0; i < 8; i++)
			segments[i].seconds = 5;
		growth = growth__estimate(segments, 8, 64 << 10, false);
		found += growth.low > 0;
	}
	print_message("found in %d of %d\n", found, runs);
	assert_true(found >= 0.95 * runs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_are_ranked_by_evidence),
		cmocka_unit_test(a_selection_does_not_speak_for_the_process),
		cmocka_unit_test(who_holds_the_blocks_is_told),
		cmocka_unit_test(nothing_is_said_to_leak_by_chance),
		cmocka_unit_test(what_is_nearly_sure_comes_before_what_may_be_anything),
		cmocka_unit_test(what_windows_miss_is_by_how_they_sampled),
		cmocka_unit_test(what_was_not_found_could_be_missed),
		cmocka_unit_test(snapshots_of_few_windows_tell_no_leaks),
		cmocka_unit_test(what_windows_cannot_tell_is_said),
		cmocka_unit_test(a_difference_tells_leaks),
		cmocka_unit_test(growth_ends_in_all_stacks_of_a_row),
		cmocka_unit_test(what_is_not_judged_is_no_all_clear),
		cmocka_unit_test(what_is_said_to_be_found_is_found),
	};

	return cmocka_run_group_tests_name("leaks", tests, NULL, NULL);
}
