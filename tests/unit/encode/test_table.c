// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/encode/fixture.h"

static void exact_tables_show_no_intervals(void **state)
{
	static const char expected[] =
		"memtrace: pid 4711 (leaky), 10.0 s continuous, exact: 1,234 of 1,234 allocations "
		"recorded\n"
		"live heap: 1.5 MiB in 1,234 objects, exact\n"
		"cost to the target: 2.1 % of its CPU "
		"time\n"
		"\n"
		"      LIVE  OBJECTS  SHARE  WHERE (leaf first)\n"
		"   1.2 MiB    1,230  80.1%  cache_insert < handle_request < worker\n"
		" 300.0 KiB        3  19.5%  parse x3 < main\n"
		"   5.0 KiB            0.3%  (1 more stack)\n"
		"written: a.heap b?c\n"
		"lost: live_full 12,000, stacks_truncated 3\n";
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	/* 1,230 KiB + 300 KiB + 5 KiB = 1,535 KiB = 1.499 MiB; 1,230 / 1,535 = 80.13 % */
	STACK(profile, 1, 1024, 1230, "malloc", "operator new", "cache_insert", "handle_request",
	      "worker");
	STACK(profile, 1, 102400, 3, "realloc", "parse", "parse", "xmalloc", "parse", "main");
	STACK(profile, 1, 5120, 1, "malloc", "tiny", "main");
	STACK(profile, 1, 5120, 0, "malloc", "freed", "main");
	profile->overhead_pct = optional__of(2.1);
	assert_int_equal(profile__add_file(profile, "a.heap"), 0);
	assert_int_equal(profile__add_file(profile, "b\nc"), 0);
	assert_int_equal(profile__add_lost(profile, "live_full", 12000), 0);
	assert_int_equal(profile__add_lost(profile, "sites_full", 0), 0);
	assert_int_equal(profile__add_lost(profile, "stacks_truncated", 3), 0);
	end_profile(profile);
	text = table_of(profile, (struct table_options){.top = 2});
	assert_string_equal(text, expected);
	free(text);
	table_options = (struct table_options){.color = true};
	assert_reports_failures(encode_with_options, profile);
	profile__free(profile);
}

/* There may be thousands of snapshots. Only the first and the last are named. */
static void snapshots_are_told(void **state)
{
	static const char *const lines[] = {"snapshots: a.1\nwritten: a\n",
					    "snapshots: a.1 a.2\nwritten: a\n",
					    "snapshots: a.1 ... a.3 (3 files)\nwritten: a\n"};

	(void)state;
	for (size_t n = 1; n <= 3; n++) {
		struct profile *profile = new_profile(1);
		char name[8], *text;

		for (profile->n_snapshots = 0; profile->n_snapshots < n; profile->n_snapshots++) {
			snprintf(name, sizeof(name), "a.%zu", profile->n_snapshots + 1);
			assert_int_equal(profile__add_file(profile, name), 0);
		}
		assert_int_equal(profile__add_file(profile, "a"), 0);
		text = table_of(profile, (struct table_options){});
		assert_non_null(strstr(text, lines[n - 1]));
		free(text);
		profile__free(profile);
	}
}

/* Four samples of small blocks, at one sample per MiB, stand for 4.0 MiB. Garwood's interval for 4
 * events is [1.0899, 10.2416]. */
static void sampled_tables_show_intervals(void **state)
{
	struct profile *profile = new_profile(1 << 20);
	char *text;

	(void)state;
	STACK(profile, 1, 64, 4, "malloc", "f", "main");
	profile->alloc_calls = 70000;
	end_profile(profile);
	text = table_of(profile, (struct table_options){});
	assert_has(text, "one sample per 1 MiB: 4 samples of 70,000 allocations\n");
	/* 4 (2^20/64 + 1/2) = 65,538 */
	assert_has(text,
		   "live heap: 4.0 MiB (95 %: 1.1 - 10.2 MiB) in 65,538 objects, estimated\n");
	assert_has(text, "\n      LIVE   95 % INTERVAL  OBJECTS   SHARE  WHERE (leaf first)\n"
			 "   4.0 MiB  1.1 - 10.2 MiB   65,538  100.0%  f < main\n");
	free(text);
	profile->asked_interval_bytes = 64 << 10;
	text = table_of(profile, (struct table_options){});
	assert_has(text, "one sample per 64 KiB to 1 MiB (to keep the limit): 4 samples of ");
	free(text);
	profile->finest_interval_bytes = 32 << 10; /* the interval was finer before */
	text = table_of(profile, (struct table_options){});
	assert_has(text, "one sample per 32 KiB to 1 MiB (to keep the limit): 4 samples of ");
	free(text);
	profile->asked_interval_bytes = 0;
	text = table_of(profile, (struct table_options){});
	assert_has(text, "one sample per 32 KiB to 1 MiB: 4 samples of ");
	free(text);
	profile__free(profile);
}

/* If the target itself took the samples, the number of its allocations is not known. */
static void tables_say_who_took_the_samples(void **state)
{
	struct profile *profile = new_profile(1 << 20);
	char *text;

	(void)state;
	STACK(profile, 1, 64, 4, "malloc", "f", "main");
	profile->sampled_by_target = true;
	profile->alloc_calls = 9;
	end_profile(profile);
	text = table_of(profile, (struct table_options){});
	assert_has(text, "one sample per 1 MiB: 4 samples of 9 that the program took itself\n");
	free(text);
	profile->mode = MODE_WINDOWED;
	text = table_of(profile, (struct table_options){});
	assert_has(text, "4 samples of the 9 that the program took itself in that time\n");
	free(text);
	profile__free(profile);
}

static void frames_fill_the_width_and_no_more(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 300, 1, "malloc", "aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc", "dddddddddd");
	STACK(profile, 1, 200, 1, "malloc", "std::map<std::string, std::vector<int> >::insert_or",
	      "main");
	STACK(profile, 1, 100, 1, "malloc",
	      "an_extraordinarily_long_name_that_no_terminal_can_hold_in_one_line");
	end_profile(profile);
	profile->sites[2].truncated = true;
	text = table_of(profile, (struct table_options){.width = 28 + 41});
	/* There are 10 + 2 + 7 + 2 + 5 + 2 = 28 columns before the frames. Three frames and
	 * " < ..." would take 3 * 10 + 2 * 3 + 6 = 42. */
	assert_has(text, "  aaaaaaaaaa < bbbbbbbbbb < ...\n");
	assert_has(text, "  main (via std::map<..>::insert_or)\n");
	assert_has(text, "  an_extraordinarily_..can_hold_in_one_line\n");
	free(text);
	/* exactly as wide as needed: 4 * 10 + 3 * 3 = 49 */
	text = table_of(profile, (struct table_options){.width = 28 + 49});
	assert_has(text, "  aaaaaaaaaa < bbbbbbbbbb < cccccccccc < dddddddddd\n");
	free(text);
	text = table_of(profile, (struct table_options){.width = 28 + 48});
	assert_has(text, "  aaaaaaaaaa < bbbbbbbbbb < cccccccccc < ...\n");
	free(text);
	/* if frames have less than 24 columns, OBJECTS (9 columns) is left out, then SHARE
	 * (7) */
	text = table_of(profile, (struct table_options){.width = 28 + 24});
	assert_null(strstr(text, "left out"));
	free(text);
	text = table_of(profile, (struct table_options){.width = 28 + 23});
	assert_has(text,
		   "left out for want of room: OBJECTS\n\n      LIVE  SHARE  WHERE (leaf first)\n");
	assert_has(text, " 300 B  50.0%  aaaaaaaaaa < bbbbbbbbbb < ...\n");
	free(text);
	text = table_of(profile, (struct table_options){.width = 28 + 24 - 9 - 1});
	assert_has(text,
		   "left out for want of room: OBJECTS, SHARE\n\n      LIVE  WHERE (leaf first)\n");
	free(text);
	/* the first frame is printed even if there is no room for it */
	text = table_of(profile, (struct table_options){.width = 1});
	assert_has(text, "  aaaaaaaaaa < ...\n");
	free(text);
	profile__free(profile);
}

/* Inlined functions are printed like called ones: allocators are left out, repeated functions are
 * counted. */
static void inlined_functions_are_told(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "f", "loop", "main");
	STACK(profile, 1, 50, 1, "malloc", "g", "main");
	end_profile(profile);
	add_inlined(profile, "f", "xmalloc");
	add_inlined(profile, "loop", "loop");
	add_inlined(profile, "g", "push");
	text = table_of(profile, (struct table_options){.top = 5});
	assert_has(text, "f < loop x2 < main\n");
	assert_has(text, "push < g < main\n");
	free(text);
	profile__free(profile);
}

static void odd_stacks_have_a_place(void **state)
{
	struct profile *profile = new_profile(1);
	size_t site;
	char *text;

	(void)state;
	STACK(profile, 1, 500, 1, "malloc", "xmalloc");
	STACK(profile, 1, 400, 1, "malloc", "libfoo.so.1+0x1234", "main");
	site = STACK(profile, 1, 300, 1, "malloc", "deep");
	profile->sites[site].truncated = true;
	STACK(profile, 1, 200, 1, "malloc", "evil\x1b[2J\xff\xc2\x9b\xe2\x80\xae", "m\xc3\xa4in");
	assert_int_equal(profile__add_site(profile, NULL, 0, false, &site), 0);
	assert_int_equal(profile__add_live(profile, site, 0, 100), 0);
	strcpy(profile->comm, "a\x1b]0;b");
	end_profile(profile);
	text = table_of(profile, (struct table_options){});
	assert_has(text, "  xmalloc\n");
	assert_has(text, "  libfoo.so.1+0x1234 < main\n");
	assert_has(text, "  deep < ...\n");
	assert_has(text, "  evil?[2J\?\?\? < m\xc3\xa4in\n");
	assert_has(text, "  [no stack]\n");
	assert_has(text, "(a?]0;b)");
	free(text);
	text = table_of(profile, (struct table_options){.color = true});
	assert_has(text, "\033[1m");
	free(text);
	profile__free(profile);
}

/* A table of stacks without callers looks like any other. So its first line must say that callers
 * are missing. */
static void broken_stacks_are_said_first(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 1024, 10, "malloc", "cache_insert");
	profile->stacks_walked = 10;
	profile->stacks_complete = 4;
	assert_int_equal(profile__add_lost(profile, "stacks_end_no_table", 1), 0);
	assert_int_equal(profile__add_lost(profile, "stacks_end_no_rule", 5), 0);
	text = table_of(profile, (struct table_options){});
	assert_ptr_equal(
		strstr(text,
		       "CALLERS ARE MISSING: only 40.0 % of the stacks are complete, and rows of "
		       "different callers "
		       "may be one; most end in code without unwind information (.eh_frame)\n"),
		text);
	free(text);
	profile->stacks_complete = 5;
	text = table_of(profile, (struct table_options){});
	assert_null(strstr(text, "MISSING"));
	free(text);
	profile__free(profile);
}

static void cost_is_told_as_it_is_felt(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 1024, 10, "malloc", "cache_insert");
	profile->overhead_pct = optional__of(62.1);
	profile->cpu_time_ns = 85000000; /* in ten seconds: 0.85 % of a core */
	text = table_of(profile, (struct table_options){});
	assert_has(text,
		   "cost to the target: 0.53 % of a core, which is 62.1 % of the CPU time that it "
		   "uses\n");
	free(text);
	profile->cpu_time_ns = 9000000000;
	text = table_of(profile, (struct table_options){});
	assert_has(text, "cost to the target: 62.1 % of its CPU time\n");
	free(text);
	profile__free(profile);
}

static void nothing_live_is_one_sentence(void **state)
{
	struct profile *profile = new_profile(524288);
	char *text;

	(void)state;
	assert_int_equal(profile__add_lost(profile, "live_full", 1), 0);
	text = table_of(profile, (struct table_options){});
	assert_string_equal(text, "memtrace: pid 4711 (leaky), 10.0 s continuous, one sample per "
				  "512 KiB: 0 samples of 0 allocations\n"
				  "live heap: the process allocated nothing during the run\n"
				  "lost: live_full 1\n");
	free(text);
	profile->alloc_calls = 5000;
	text = table_of(profile, (struct table_options){});
	assert_has(text,
		   "live heap: none of the allocations was sampled; a smaller interval samples "
		   "more\n");
	free(text);
	profile->samples = 1;
	text = table_of(profile, (struct table_options){});
	assert_has(text, "1 sample of 5,000 allocations\n");
	/* blocks that were not sampled may be live */
	assert_has(text, "live heap: nothing is seen that is live, the 1 allocation that was "
			 "recorded is freed again\n");
	assert_null(strstr(text, "WHERE"));
	free(text);
	profile->samples = 2;
	assert_int_equal(profile__add_lost(profile, "dropped_by_exec", 1), 0);
	text = table_of(profile, (struct table_options){});
	assert_has(text, "live heap: after the exec, nothing is seen that is live; ");
	free(text);
	profile->alloc_calls = profile->samples = 0;
	assert_int_equal(profile__add_lost(profile, "functions_refused", 1), 0);
	text = table_of(profile, (struct table_options){});
	assert_has(text, "live heap: not known, calls were missed and none was seen\n");
	free(text);
	profile__free(profile);
}

static void a_death_is_told(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 1024, 10, "malloc", "cache_insert");
	end_profile(profile);
	profile->ended = true;
	text = table_of(profile, (struct table_options){});
	assert_null(strstr(text, "KILLED"));
	free(text);
	profile->killed_by_signal = 11;
	text = table_of(profile, (struct table_options){});
	assert_has(text, "\nKILLED: by signal 11 (SIGSEGV), after 10.0 s\n");
	free(text);
	profile->killed_by_signal = 99; /* from a hostile file */
	text = table_of(profile, (struct table_options){});
	assert_has(text, "\nKILLED: by signal 99, after 10.0 s\n");
	free(text);
	profile->killed_by_signal = 9;
	profile->out_of_memory = true;
	text = table_of(profile, (struct table_options){});
	assert_has(text, "\nKILLED: out of memory, after 10.0 s\n");
	assert_null(strstr(text, "signal"));
	free(text);
	profile__free(profile);
}

static void an_early_end_is_told(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 1024, 10, "malloc", "cache_insert");
	end_profile(profile);
	profile->planned_s = 30; /* the run lasts 10 s */
	text = table_of(profile, (struct table_options){});
	assert_null(strstr(text, "ended"));
	free(text);
	profile->ended = true;
	text = table_of(profile, (struct table_options){});
	assert_has(text, "\npid 4711 ended after 10.0 s of 30\n\n");
	free(text);
	profile->planned_s = 0; /* traced until a signal */
	text = table_of(profile, (struct table_options){});
	assert_null(strstr(text, "ended"));
	free(text);
	profile__free(profile);
}

/* The children were not traced. The table says so if they used most of the CPU time. */
static void children_that_do_the_work_are_told(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	profile->cpu_time_ns = 4000000;
	profile->children_cpu_ns = 3000000;
	text = table_of(profile, (struct table_options){});
	assert_null(strstr(text, "children"));
	free(text);
	profile->children_cpu_ns = 96000000;
	text = table_of(profile, (struct table_options){});
	assert_has(text,
		   "\nNOT TRACED: its children, which used 96 % of the CPU time (-F traces them, "
		   "too)\n");
	free(text);
	profile->children_cpu_ns = 0;
	profile->n_strays = 12;
	text = table_of(profile, (struct table_options){});
	assert_has(text, "\nNOT TRACED: 12 children of this process (-F traces children, too)\n");
	free(text);
	profile__free(profile);
}

/* Most of the process's memory is in no row. The table tells how large the process is. */
static void a_large_resident_set_is_told(void **state)
{
	struct profile *profile = new_profile(1);
	struct estimate live = profile__live(profile);
	char *text;

	(void)state;
	profile->rss_end_bytes = (uint64_t)live.bytes + (60 << 20); /* a small process */
	text = table_of(profile, (struct table_options){});
	assert_null(strstr(text, "resident set"));
	free(text);
	profile->rss_end_bytes = (uint64_t)40 << 30;
	text = table_of(profile, (struct table_options){});
	assert_has(text,
		   "\nresident set: 40.0 GiB; most of it is in no row: older, freed, not seen "
		   "or not the heap's (-p PID --rss)\n");
	free(text);
	profile->dropped = 1; /* live bytes are a lower bound: most of the size may be live */
	text = table_of(profile, (struct table_options){});
	assert_null(strstr(text, "resident set"));
	free(text);
	profile__free(profile);
}

/* Other tracers' probes make each call cost more. The table says so where it matters. */
static void other_tracers_are_told(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	profile->others_pct = 7;
	text = table_of(profile, (struct table_options){});
	assert_null(strstr(text, "OTHER TRACERS"));
	free(text);
	profile->others_pct = 112;
	text = table_of(profile, (struct table_options){});
	assert_has(text,
		   "\nOTHER TRACERS have probes on the same functions: a call cost 2.1 times as "
		   "much as without them\n");
	free(text);
	profile__free(profile);
}

/* The file's name comes from the target, so its control characters are replaced. */
static void what_was_refused_is_told(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	profile->refused = strdup("free of a\033[m.so cannot be probed");
	text = table_of(profile, (struct table_options){});
	assert_has(text, "\nNOT PROBED: free of a?[m.so cannot be probed\n");
	free(text);
	text = encoded(encode_json, profile);
	assert_has(text, "\"refused\":\"free of a\\u001b[m.so cannot be probed\"");
	free(text);
	profile__free(profile);
}

static void one_is_no_plural(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	profile->alloc_calls = profile->samples = 1;
	text = table_of(profile, (struct table_options){});
	assert_has(text, "exact: 1 of 1 allocation recorded\n");
	assert_has(
		text,
		"live heap: nothing is live, the 1 allocation that was recorded is freed again\n");
	free(text);
	profile->interval_bytes = 524288;
	text = table_of(profile, (struct table_options){});
	assert_has(text, ": 1 sample of 1 allocation\n");
	free(text);
	profile->windows.n = 1;
	text = table_of(profile, (struct table_options){});
	assert_has(text, ", 1 sample of the 1 allocation in them\n");
	free(text);
	profile__free(profile);
}

static void bytes_have_units(void **state)
{
	static const struct {
		double bytes;
		const char *text;
	} cases[] = {
		{0, "0 B"},
		{1, "1 B"},
		{1023, "1023 B"},
		{1023.7, "1.0 KiB"},
		{1536, "1.5 KiB"},
		{1024.0 * 1024 - 1, "1.0 MiB"},
		{96.3 * 1048576, "96.3 MiB"},
		{0x1p60, "1.0 EiB"},
		{1e30, "8.67e+11 EiB"},
		{-1536, "-1.5 KiB"},
		{NAN, "?"},
		{INFINITY, "?"},
	};
	char buf[16];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(format_bytes(cases[i].bytes, buf), cases[i].text);
}

static void regions_and_faults_have_heads_of_their_own(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	profile->what = PROFILE_REGIONS;
	profile->alloc_calls = 1000;
	profile->free_calls = 2;
	profile->regions.kind_bytes[REGION_OF_ANONYMOUS] = 1 << 20;
	profile->regions.kind_bytes[REGION_OF_BRK] = 4096;
	profile->regions.earlier_gone_bytes = optional__of(8192);
	text = table_of(profile, (struct table_options){});
	assert_has(
		text,
		" regions, exact: 1,000 calls of mmap, mremap and brk that took memory, 2 others\n"
		"live regions: ");
	assert_has(text,
		   ": anonymous 1.0 MiB, brk 4.0 KiB; 8.0 KiB of what was mapped before the run "
		   "given back");
	free(text);
	/* the kinds are those of the whole process, so their sum is not that of a filtered part */
	assert_int_equal(profile__add_lost(profile, LOST_FILTERED_BYTES, 1), 0);
	text = table_of(profile, (struct table_options){});
	assert_has(text, "; 8.0 KiB of what was mapped before the run given back");
	assert_null(strstr(text, "anonymous 1.0 MiB"));
	free(text);
	profile->dropped = 3;
	text = table_of(profile, (struct table_options){});
	assert_has(text, "live regions: AT LEAST ");
	assert_has(text, "; INCOMPLETE: 3 calls found no room and are missing");
	free(text);
	/* some of the calls may have given regions back */
	assert_false(profile__is_upper_bound(profile));
	assert_int_equal(profile__add_lost(profile, "region_calls_lost", 3), 0);
	assert_true(profile__is_upper_bound(profile));

	profile->what = PROFILE_FAULTS;
	profile->resident_change_bytes = optional__of(-4096);
	text = table_of(profile, (struct table_options){});
	assert_has(text, "first touched and still there: AT LEAST ");
	assert_has(text, "; resident set -4.0 KiB");
	free(text);
	profile__free(profile);
}

/* Calls were missed, so each figure is a lower bound. No high end is known. */
static void missed_calls_leave_no_intervals(void **state)
{
	struct profile *profile = new_profile(1 << 20);
	char *text;

	(void)state;
	STACK(profile, 1, 64, 9, "malloc", "f", "main");
	end_profile(profile);
	text = table_of(profile, (struct table_options){});
	/* the interval of a Poisson count of 9, times 1 MiB */
	assert_has(text, "  9.0 MiB  4.1 - 17.1 MiB  ");
	free(text);
	assert_int_equal(profile__add_lost(profile, "result_unknown", 1), 0);
	text = table_of(profile, (struct table_options){});
	assert_has(text, "live heap: AT LEAST 9.0 MiB in ");
	assert_has(text, "  9.0 MiB  ");
	assert_null(strstr(text, "17.1 MiB"));
	free(text);
	profile->what = PROFILE_FAULTS;
	text = table_of(profile, (struct table_options){});
	assert_has(text, "first touched and still there: AT LEAST 9.0 MiB of anonymous memory\n");
	assert_null(strstr(text, "17.1 MiB"));
	free(text);
	profile__free(profile);
}

static void grow(struct profile *profile, size_t site, double rate, double low, double high)
{
	profile->sites[site].growth = (struct growth){rate, low, high};
	profile->growth.stacks_known = true;
}

static void leaks_are_sorted_by_growth(void **state)
{
	static const char expected[] =
		" GROWTH/s      95 % INTERVAL        LIVE  OBJECTS  WHERE (leaf first)\n"
		"200.0 KiB  150.0 - 250.0 KiB   100.0 KiB      100  leaks < main\n"
		"  1.0 KiB           may be 0     1.2 MiB    1,230  cached < main\n"
		"      0 B           may be 0     5.0 KiB        1  set_up < main\n";
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 1024, 1230, "malloc", "cached", "main");
	STACK(profile, 1, 1024, 60, "malloc", "leaks", "main");
	/* printed in the same row as the previous stack */
	STACK(profile, 1, 1024, 40, "calloc", "leaks", "main");
	STACK(profile, 1, 5120, 1, "malloc", "set_up", "main");
	grow(profile, 0, 1024, -4096, 6144);
	grow(profile, 1, 100 * 1024, 60 * 1024, 140 * 1024);
	grow(profile, 2, 100 * 1024, 70 * 1024, 130 * 1024); /* errors: sqrt(40^2 + 30^2) = 50 */
	grow(profile, 3, 0, -1, 1);
	end_profile(profile);
	text = table_of(profile, (struct table_options){.width = 100, .leaks = true});
	assert_has(text, expected);
	free(text);
	/* the run is too short to know growth */
	profile->growth.stacks_known = false;
	text = table_of(profile, (struct table_options){.width = 100, .leaks = true});
	assert_has(text, "SHARE");
	assert_null(strstr(text, "anonymous memory"));
	free(text);
	/* too few windows to know which stacks grow, but the kernel counts the process's memory */
	profile->mode = MODE_WINDOWED;
	profile->windows.n = 2;
	profile->growth.bytes_per_s = optional__of(186266);
	text = table_of(profile, (struct table_options){.width = 100, .leaks = true});
	assert_has(text, "\nanonymous memory grows by 181.9 KiB/s; in which stacks is not known\n");
	free(text);
	text = encoded(encode_json, profile);
	assert_has(text, "\"process_growth\":{\"bytes_per_s\":186266.000}");
	free(text);
	profile__free(profile);
}

/* A pool is named under three conditions. The process grows. The stacks do not explain this growth,
 * or none of them surely grows. And the pool took memory from malloc. */
static void a_pool_that_may_have_the_rest_is_told(void **state)
{
	static const char told[] = "\nmemory pools (MemoryContextAlloc) are not probed in this run";
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 8192, 10, "malloc", "postgres+0x5c785f", "MemoryContextAlloc", "main");
	STACK(profile, 1, 8192, 10, "malloc", "work", "palloc", "main"); /* work() calls malloc */
	grow(profile, 0, 1000, 0, 2000);
	profile->growth.bytes_per_s = optional__of(100000);
	profile->growth.attributed = (struct growth){1000, 0, 2000};
	end_profile(profile);
	text = table_of(profile, (struct table_options){.leaks = true});
	assert_has(text, told);
	free(text);
	text = table_of(profile, (struct table_options){});
	assert_has(text, told);
	free(text);

	profile->growth.attributed.bytes_per_s = 60000;
	text = table_of(profile, (struct table_options){.leaks = true});
	assert_has(text, told);
	free(text);
	grow(profile, 0, 60000, 50000, 70000); /* surely */
	text = table_of(profile, (struct table_options){.leaks = true});
	assert_null(strstr(text, "memory pools"));
	free(text);
	profile->growth.bytes_per_s = optional__of(10000);
	profile->growth.attributed = (struct growth){};
	text = table_of(profile, (struct table_options){.leaks = true});
	assert_null(strstr(text, "memory pools"));
	free(text);
	profile__free(profile);

	profile = new_profile(1);
	STACK(profile, 1, 8192, 10, "malloc", "work", "palloc", "main");
	STACK(profile, 1, 200, 10, "palloc", "palloc0", "main"); /* the pool is probed */
	grow(profile, 0, 1000, 0, 2000);
	profile->growth.bytes_per_s = optional__of(100000);
	end_profile(profile);
	text = table_of(profile, (struct table_options){.leaks = true});
	assert_null(strstr(text, "memory pools"));
	free(text);
	profile__free(profile);
}

/* A region that an allocator maps for the heap is no leak, even if it grows fast. */
static void what_is_the_allocators_own_comes_last(void **state)
{
	static const char expected[] =
		"200.0 KiB  150.0 - 250.0 KiB   100.0 KiB        1  leaks < main\n"
		"400.0 KiB  300.0 - 500.0 KiB   200.0 KiB        1  [allocator's own] sysmalloc2 "
		"< main\n";
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	profile->what = PROFILE_REGIONS;
	STACK(profile, 1, 200 * 1024, 1, "mmap", "sysmalloc2", "main");
	STACK(profile, 1, 100 * 1024, 1, "mmap", "leaks", "main");
	grow(profile, 0, 400 * 1024, 300 * 1024, 500 * 1024);
	grow(profile, 1, 200 * 1024, 150 * 1024, 250 * 1024);
	profile->sites[0].allocators_own = true;
	end_profile(profile);
	text = table_of(profile, (struct table_options){.width = 100, .leaks = true});
	assert_has(text, expected);
	assert_null(strstr(text, "AT LEAST"));
	free(text);
	profile->regions.stopped_s = optional__of(0.25);
	text = table_of(profile, (struct table_options){.width = 100});
	assert_has(text, "live regions: AT LEAST 300.0 KiB");
	assert_has(text, "followed for the first 0.2 s only");
	free(text);
	profile__free(profile);
}

static void windows_are_told(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	profile->mode = MODE_WINDOWED;
	profile->windows.n = 20;
	profile->windows.seconds = 0.5;
	profile->windows.continuous_s = 1.25;
	STACK(profile, 1, 1024, 10, "malloc", "leaks", "main");
	end_profile(profile);
	profile->samples = 20000;
	profile->alloc_calls = 1000000;
	text = table_of(profile, (struct table_options){.width = 100});
	assert_has(text,
		   "10.0 s windowed (20 windows of 25 ms, 1.2 s continuous), 20,000 samples of "
		   "the 1,000,000 allocations in them\n"
		   "live heap, from windows: 10.0 KiB ");
	assert_has(text, ", estimated"); /* windows estimate, even at an interval of 1 */
	assert_null(strstr(text, "\nonly "));
	free(text);
	profile->windows.n = 5;
	text = table_of(profile, (struct table_options){.width = 100});
	assert_has(text,
		   "\nonly 5 windows: the figures are rough; a longer run has more windows\n");
	free(text);
	profile->windows.continuous_s = 8; /* most of the run was traced continuously */
	text = table_of(profile, (struct table_options){.width = 100});
	assert_null(strstr(text, "\nonly "));
	free(text);
	profile__free(profile);
}

/* A process was traced continuously for a short time and never had a window. Its figures cover only
 * this time, and the table says so. */
static void a_stretch_without_windows_is_told(void **state)
{
	struct profile *profile = new_profile(524288);
	char *text;

	(void)state;
	profile->mode = MODE_WINDOWED;
	profile->windows.continuous_s = 0.0837;
	STACK(profile, 1, 1024, 10, "malloc", "leaks", "main");
	end_profile(profile);
	profile->samples = 10;
	profile->alloc_calls = 6558;
	text = table_of(profile, (struct table_options){.width = 100});
	assert_has(
		text,
		"10.0 s windowed (traced for 0.084 s of it), 10 samples of the 6,558 allocations "
		"in that time\n"
		"live heap, from that time: ");
	free(text);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_tables_show_no_intervals),
		cmocka_unit_test(snapshots_are_told),
		cmocka_unit_test(sampled_tables_show_intervals),
		cmocka_unit_test(tables_say_who_took_the_samples),
		cmocka_unit_test(frames_fill_the_width_and_no_more),
		cmocka_unit_test(inlined_functions_are_told),
		cmocka_unit_test(odd_stacks_have_a_place),
		cmocka_unit_test(broken_stacks_are_said_first),
		cmocka_unit_test(cost_is_told_as_it_is_felt),
		cmocka_unit_test(nothing_live_is_one_sentence),
		cmocka_unit_test(a_death_is_told),
		cmocka_unit_test(an_early_end_is_told),
		cmocka_unit_test(children_that_do_the_work_are_told),
		cmocka_unit_test(a_large_resident_set_is_told),
		cmocka_unit_test(other_tracers_are_told),
		cmocka_unit_test(what_was_refused_is_told),
		cmocka_unit_test(one_is_no_plural),
		cmocka_unit_test(bytes_have_units),
		cmocka_unit_test(leaks_are_sorted_by_growth),
		cmocka_unit_test(a_pool_that_may_have_the_rest_is_told),
		cmocka_unit_test(what_is_the_allocators_own_comes_last),
		cmocka_unit_test(windows_are_told),
		cmocka_unit_test(a_stretch_without_windows_is_told),
		cmocka_unit_test(regions_and_faults_have_heads_of_their_own),
		cmocka_unit_test(missed_calls_leave_no_intervals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
