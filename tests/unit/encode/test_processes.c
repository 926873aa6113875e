// SPDX-License-Identifier: BSD-2-Clause
/* Sampled at R = 1 MiB, n blocks of 64 bytes stand for n MiB. The interval of this estimate is that
 * of a Poisson count of n. Tables have it (Garwood, Biometrika 28, 1936):
 *
 *	 0	0	 3.689
 *	 1	0.0253	 5.572
 *	 4	1.090	10.242
 *	 9	4.115	17.085
 *	13	6.922	22.230
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/encode/fixture.h"

#define MIB (1024 * 1024)

static struct process_table_options options;
static const struct profile *all[8];
static size_t n_all;

static int encode(const struct profile *profile, struct sink *sink)
{
	(void)profile;
	return encode_processes(all, n_all, &options, sink);
}

static char *table(struct process_table_options with)
{
	options = with;
	return encoded(encode, NULL);
}

/* Adds a process with one thread and 1 MiB. */
static struct profile *add(pid_t pid, const char *comm, uint64_t interval)
{
	struct profile *profile = new_profile(interval);

	profile->pid = pid;
	snprintf(profile->comm, sizeof(profile->comm), "%s", comm);
	profile->rss_start_bytes = profile->rss_end_bytes = MIB;
	profile->n_live_threads = 1;
	assert_true(n_all < sizeof(all) / sizeof(all[0]));
	all[n_all++] = profile;
	return profile;
}

static int clear(void **state)
{
	(void)state;
	while (n_all)
		profile__free((struct profile *)all[--n_all]);
	return 0;
}

static void exact_runs_show_no_intervals(void **state)
{
	static const char expected[] =
		"memtrace: 3 processes, 10.0 s continuous, exact: 32 of 32 allocations recorded\n"
		"LIVE was allocated during the run and not freed; GROWTH/s is LIVE / 10.0 s\n"
		"\n"
		" PID  COMMAND      LIVE  GROWTH/s       RSS      CHANGE  THREADS  COST  TOP SITE\n"
		"4711  leaky    10.0 MiB   1.0 MiB  32.0 MiB   +12.0 MiB        4  2.1%  "
		"cache_insert\n"
		"  12  db        3.0 KiB     307 B   1.5 MiB  -512.0 KiB        1     -  parse\n"
		"  99  gone     20.0 MiB   2.0 MiB     ended           -        -  0.5%  grow\n"
		"total: 2 processes, live 10.0 MiB, growth 1.0 MiB/s, RSS 33.5 MiB (+11.5 MiB), "
		"5 threads\n"
		"ended: 1 process, which held 20.0 MiB\n"
		"lost: live_full 12,000, stacks_truncated 3\n";
	struct profile *profile;
	char *text;

	(void)state;
	profile = add(99, "gone", 1);
	STACK(profile, 1, MIB, 20, "malloc", "grow", "main");
	profile->rss_end_bytes = 0;
	profile->n_live_threads = 0;
	profile->ended = true;
	profile->overhead_pct = optional__of(0.5);
	assert_int_equal(profile__add_lost(profile, "live_full", 2000), 0);
	assert_int_equal(profile__add_lost(profile, "sites_full", 0), 0);
	end_profile(profile);

	profile = add(12, "db", 1);
	STACK(profile, 1, 1536, 2, "realloc", "parse", "main"); /* 3,072 B in 10 s: 307 B/s */
	STACK(profile, 1, 5000, 0, "malloc", "freed", "main");
	profile->rss_start_bytes = 2 * MIB;
	profile->rss_end_bytes = 3 * MIB / 2;
	end_profile(profile);

	profile = add(4711, "leaky", 1);
	STACK(profile, 1, MIB, 4, "malloc", "operator new", "cache_insert", "a", "main");
	STACK(profile, 1, MIB, 6, "calloc", "cache_insert", "b", "main");
	profile->rss_start_bytes = 20 * MIB;
	profile->rss_end_bytes = 32 * MIB;
	profile->n_live_threads = 4;
	profile->overhead_pct = optional__of(2.1);
	assert_int_equal(profile__add_lost(profile, "stacks_truncated", 3), 0);
	assert_int_equal(profile__add_lost(profile, "live_full", 10000), 0);
	end_profile(profile);

	text = table((struct process_table_options){.width = 120});
	assert_string_equal(text, expected);
	free(text);
	options.color = true;
	assert_reports_failures(encode, NULL);
	text = table((struct process_table_options){.width = 120, .color = true});
	assert_has(text, "\n\033[1m PID  COMMAND");
	assert_has(text, "TOP SITE\033[0m\n4711");
	assert_has(text, "\n\033[33mlost:\033[0m live_full");
	free(text);
}

/* A process that was not traced may still hold memory. */
static void what_is_not_traced_says_so(void **state)
{
	static const char expected[] =
		"PID  COMMAND  LIVE  GROWTH/s      RSS  CHANGE  THREADS  COST  TOP SITE\n"
		"  8  traced   30 B       3 B  1.0 MiB     0 B        1     -  f\n"
		"  7  strange     -         -  1.0 MiB     0 B        1     -  (not traced: of "
		"stone)\n"
		"total: 2 processes, 1 of them not traced, which are in no figure but RSS and "
		"threads, live 30 B, growth 3 B/s";
	struct profile *profile;
	char *text;

	(void)state;
	profile = add(7, "strange", 1);
	profile->not_traced = "of stone";
	end_profile(profile);
	profile = add(8, "traced", 1);
	STACK(profile, 1, 30, 1, "malloc", "f", "main");
	end_profile(profile);
	text = table((struct process_table_options){.width = 120});
	assert_non_null(strstr(text, expected));
	free(text);
}

/* Nothing is known of one process. The total is then the estimate of the other process, with its
 * error. It is not called a lower bound. */
static void a_total_beside_what_is_not_traced_is_an_estimate(void **state)
{
	struct profile *profile = add(7, "strange", MIB);
	char *text;

	(void)state;
	profile->not_traced = "of stone";
	assert_int_equal(profile__add_lost(profile, "not_traced", 1), 0);
	end_profile(profile);
	profile = add(8, "traced", MIB);
	STACK(profile, 1, 64, 4, "malloc", "f", "main");
	end_profile(profile);
	text = table((struct process_table_options){.width = 140});
	assert_has(text, ", live 4.0 MiB (95 %: 1.1 - 10.2 MiB), growth ");
	free(text);
}

/* The heap of a process limits the estimate of this process. It does not limit the total. */
static void a_total_may_be_more_than_one_heap(void **state)
{
	char *text;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct profile *profile = add(i + 1, "one", MIB);
		size_t site = STACK(profile, 1, 64, 4, "malloc", "f", "main");

		end_profile(profile);
		profile->sites[site].live.most = 6 * MIB;
	}
	text = table((struct process_table_options){.width = 140});
	assert_has(text, "  1.1 - 6.0 MiB  ");
	assert_has(text,
		   /* 8 samples in all: the interval of a count of 8 is 3.454 to 15.763. The high
		    * end is cut at twice 6 MiB. */
		   "live 8.0 MiB (95 %: 3.5 - 12.0 MiB)");
	free(text);
}

/* Commands free everything at their end, so their peak is printed. */
static void peaks_are_told(void **state)
{
	char *text;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct profile *profile = add(i + 1, "cc1", 1);
		size_t site = STACK(profile, 1, 1024, 1, "malloc", "f", "main");

		end_profile(profile);
		profile->ended = true;
		profile->peak.known = i < 2;
		profile->sites[site].peak_bytes = i < 2 ? (4 + 60.0 * i) * MIB : 0;
	}
	((struct profile *)all[2])->mode = MODE_WINDOWED;
	text = table((struct process_table_options){.width = 160});
	assert_has(text, "PID  COMMAND     LIVE  95 % INTERVAL      PEAK  95 % INTERVAL  GROWTH/s");
	assert_has(text, "\n  2  cc1      1.0 KiB  1.0 - 1.0 KiB  64.0 MiB                 ");
	assert_has(text, "\n  1  cc1      1.0 KiB  1.0 - 1.0 KiB   4.0 MiB                 ");
	/* Either the process has grown by its live bytes, or new blocks have only replaced blocks
	 * that were freed unseen. So the growth is printed as an upper bound. */
	assert_has(text, "\n  3  cc1      1.0 KiB  1.0 - 1.0 KiB         -                 <= ");
	assert_true(strstr(text, "\n  2  ") < strstr(text, "\n  1  "));
	free(text);
	clear(state);
	for (int i = 0; i < 1; i++) {
		struct profile *profile = add(i + 1, "cc1", MIB);
		size_t site = STACK(profile, 1, 64, 1, "malloc", "f", "main");

		end_profile(profile);
		profile->peak.known = true;
		profile->sites[site].peak_bytes = 9 * MIB;
	}
	text = table((struct process_table_options){.width = 160});
	assert_has(text, "  9.0 MiB  4.1 - 17.1 MiB  "); /* the interval of a count of 9 */
	free(text);
}

/* Calls were missed, so the peak is a lower bound, and so is live memory. If the probes were out
 * for a time, neither the peak nor live memory is a bound. */
static void a_peak_is_as_sure_as_live_memory(void **state)
{
	struct profile *profile = add(1, "cc1", MIB);
	size_t site = STACK(profile, 1, 64, 1, "malloc", "f", "main");
	char *text;

	(void)state;
	end_profile(profile);
	profile->peak.known = true;
	profile->sites[site].peak_bytes = 9 * MIB;
	assert_int_equal(profile__add_lost(profile, "result_unknown", 1), 0);
	text = table((struct process_table_options){.width = 160});
	assert_has(text, "  >= 1.0 MiB  ");
	assert_has(text, "  >= 9.0 MiB  ");
	assert_null(strstr(text, "17.1 MiB"));
	free(text);
	profile->withdrawals = 1;
	text = table((struct process_table_options){.width = 160});
	assert_has(text, "  ~ 9.0 MiB  ");
	assert_null(strstr(text, "17.1 MiB"));
	free(text);
}

/* Losses of the whole run are in each profile, but count once. */
static void losses_of_the_run_count_once(void **state)
{
	/* the first profile was made earlier, when the count was smaller */
	static const uint64_t counts[] = {7, 9, 9};
	char *text;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct profile *profile = add(i + 1, "one", 1);

		assert_int_equal(
			profile_run__note_lost(profile->run, "map_records_lost", counts[i]), 0);
		assert_int_equal(profile__add_lost(profile, "live_full", counts[i]), 0);
		end_profile(profile);
	}
	text = table((struct process_table_options){.width = 120});
	assert_has(text, "lost: live_full 25, map_records_lost 9\n");
	free(text);
}

static void top_sites_are_own_code_or_the_runtimes(void **state)
{
	struct profile *profile = add(100, "large", 1);
	char *text;

	(void)state;
	STACK(profile, 1, 64, 9, "malloc", "std::map<int, std::string>::insert", "store", "main");
	end_profile(profile);
	text = table((struct process_table_options){.width = 140});
	assert_has(text, "  store\n");
	free(text);
	text = table((struct process_table_options){.width = 140, .show_runtime = true});
	assert_has(text, "  std::map<..>::insert\n");
	free(text);
}

static void sampled_processes(void)
{
	struct profile *profile;

	profile = add(1234567, "idle", MIB);
	profile->alloc_calls = 0;
	end_profile(profile);
	profile = add(300, "small", MIB);
	profile->alloc_calls = 5000;
	end_profile(profile);
	profile = add(200, "middle", MIB);
	STACK(profile, 1, 64, 4, "malloc", "operator new", "read_request", "main");
	profile->rss_end_bytes = 8 * MIB;
	end_profile(profile);
	profile = add(100, "large", MIB);
	STACK(profile, 1, 64, 9, "malloc", "std::map<int, std::string>::insert", "main");
	profile->rss_start_bytes = profile->rss_end_bytes = 7 * MIB;
	profile->n_live_threads = 1200;
	profile->overhead_pct = optional__of(12.5);
	end_profile(profile);
	for (size_t i = 0; i < n_all; i++)
		((struct profile *)all[i])->duration_s = 16;
}

/* 72.8 % of a hundredth of a core does not exceed a limit of 5 %. */
static void cost_is_what_is_felt(void **state)
{
	struct profile *profile = add(100, "idle", 1);
	char *text;

	(void)state;
	STACK(profile, 1, MIB, 4, "malloc", "keep", "main");
	profile->overhead_pct = optional__of(72.8);
	profile->cpu_time_ns = (uint64_t)(profile->duration_s * 1e9 / 100);
	end_profile(profile);
	text = table((struct process_table_options){.width = 140});
	assert_has(text, "  0.73% core  keep");
	assert_null(strstr(text, "72.8%"));
	free(text);
	profile->cpu_time_ns *= 90;
	text = table((struct process_table_options){.width = 140});
	assert_has(text, "  72.8%  keep");
	free(text);
}

static void sampled_runs_show_intervals(void **state)
{
	/* A process without samples may hold up to 3.689 MiB and grow by up to 3.689 * 64 KiB/s. A
	 * process that did not allocate holds 0. Growth is the live bytes divided by 16 s. 4 MiB
	 * give 256 KiB/s (1.090 * 64 = 69.8 to 10.242 * 64 = 655.5). 9 MiB give 576 KiB/s (4.115 /
	 * 16 = 0.26 MiB/s to 17.085 / 16 = 1.07 MiB/s). 13 MiB give 832 KiB/s (6.922 / 16 = 0.43
	 * MiB/s to 22.230 / 16 = 1.39 MiB/s). */
	static const char expected[] =
		"memtrace: 4 processes, 16.0 s continuous, one sample per 1 MiB: 13 samples of "
		"5,013 allocations\n"
		"LIVE was allocated during the run and not freed; GROWTH/s is LIVE / 16.0 s\n"
		"\n"
		"    PID  COMMAND     LIVE   95 % INTERVAL   GROWTH/s     95 % INTERVAL      RSS   "
		" "
		"CHANGE  THREADS   COST  TOP SITE\n"
		"    100  large    9.0 MiB  4.1 - 17.1 MiB  576.0 KiB     0.3 - 1.1 MiB  7.0 MiB   "
		" "
		"   0 B    1,200  12.5%  main\n"
		"    200  middle   4.0 MiB  1.1 - 10.2 MiB  256.0 KiB  69.8 - 655.5 KiB  8.0 MiB  "
		"+7"
		".0 MiB        1      -  read_request\n"
		"    300  small        0 B   0.0 - 3.7 MiB        0 B   0.0 - 236.1 KiB  1.0 MiB   "
		" "
		"   0 B        1      -\n"
		"1234567  idle         0 B                        0 B                    1.0 MiB   "
		" "
		"   0 B        1      -\n"
		"total: 4 processes, live 13.0 MiB (95 %: 6.9 - 22.2 MiB), growth 832.0 KiB/s "
		"(95 %: 0.4 - 1.4 MiB), RSS 17.0 MiB (+7.0 MiB), 1,203 threads\n";
	char *text;

	(void)state;
	sampled_processes();
	/* The columns before the function take 7 + 7 + 7 + 14 + 9 + 16 + 7 + 8 + 7 + 5, and 2 after
	 * each of them: 107. The function takes 20. */
	text = table((struct process_table_options){.width = 127});
	assert_string_equal(text, expected);
	free(text);
	text = table((struct process_table_options){.sort = SORT_LIVE, .width = 127});
	assert_string_equal(text, expected);
	free(text);
	assert_reports_failures(encode, NULL);
}

/* The growth of a process whose samples were dropped is only a lower bound. */
static void growth_that_is_a_bound_has_no_interval(void **state)
{
	struct profile *profile = add(100, "grows", MIB);
	char *text;

	(void)state;
	STACK(profile, 1, 64, 4, "malloc", "f", "main");
	profile->mode = MODE_WINDOWED;
	profile->growth.stacks_known = true;
	profile->growth.attributed = (struct growth){2 * MIB, MIB, 3 * MIB};
	end_profile(profile);
	text = table((struct process_table_options){.width = 140});
	assert_has(text, "  2.0 MiB  1.0 - 3.0 MiB  ");
	free(text);
	profile->dropped = 1;
	text = table((struct process_table_options){.width = 140});
	assert_has(text, "  >= 2.0 MiB  ");
	assert_null(strstr(text, "1.0 - 3.0"));
	free(text);
	profile->growth.attributed.low = -1;
	text = table((struct process_table_options){.width = 140});
	assert_has(text, "  >= 2.0 MiB       may be 0  ");
	free(text);
}

/* Each process has its own sampling interval, so the unseen memory of each has its own limit. If
 * windows saw nothing of a process, any amount of its memory may be live. */
static void what_was_not_seen_depends_on_the_process(void **state)
{
	struct profile *profile;
	char *text;

	(void)state;
	profile = add(100, "fine", MIB / 4);
	profile->alloc_calls = 5000;
	end_profile(profile);
	profile = add(200, "coarse", MIB);
	profile->alloc_calls = 5000;
	end_profile(profile);
	text = table((struct process_table_options){.width = 140});
	/* 3.6889 / 4 MiB are 944.4 KiB */
	assert_has(text, "\n100  fine      0 B  0.0 - 944.4 KiB ");
	assert_has(text, "\n200  coarse    0 B    0.0 - 3.7 MiB ");
	assert_has(text, "total: 2 processes, live 0 B (95 %: 0.0 - 3.7 MiB), growth");
	free(text);
	profile->mode = MODE_WINDOWED;
	text = table((struct process_table_options){.width = 140});
	assert_has(text, "\n100  fine      0 B  0.0 - 944.4 KiB ");
	assert_has(text, "\n200  coarse    0 B                   ");
	assert_has(text, "total: 2 processes, live 0 B, growth");
	free(text);
}

static void narrow_terminals_get_fewer_columns(void **state)
{
	/* The columns before the function take 9 + 9 + 9 + 16 + 11 + 18 + 9 + 10 + 9 + 7 = 107.
	 * Columns are left out one after the other: without THREADS the others take 98, then
	 * without COST 91, without LIVE and its interval 66, without CHANGE 56. So of 80, 24 are
	 * left for the function. */
	static const char expected[] =
		"memtrace: 4 processes, 16.0 s continuous, one sample per 1 MiB: 13 samples of "
		"5,013 allocations\n"
		"LIVE was allocated during the run and not freed; GROWTH/s is LIVE / 16.0 s\n"
		"left out for want of room: THREADS, COST, LIVE, CHANGE\n"
		"\n"
		"    PID  COMMAND   GROWTH/s     95 % INTERVAL      RSS  TOP SITE\n"
		"    100  large    576.0 KiB     0.3 - 1.1 MiB  7.0 MiB  main\n"
		"    200  middle   256.0 KiB  69.8 - 655.5 KiB  8.0 MiB  read_request\n"
		"    300  small          0 B   0.0 - 236.1 KiB  1.0 MiB\n"
		"1234567  idle           0 B                    1.0 MiB\n"
		"total: 4 processes, live 13.0 MiB (95 %: 6.9 - 22.2 MiB), growth 832.0 KiB/s "
		"(95 %: 0.4 - 1.4 MiB), RSS 17.0 MiB (+7.0 MiB), 1,203 threads\n";
	char *text;

	(void)state;
	sampled_processes();
	text = table((struct process_table_options){.width = 80});
	assert_string_equal(text, expected);
	free(text);
	/* one column too few for all */
	text = table((struct process_table_options){.width = 126});
	assert_has(text, "\nleft out for want of room: THREADS\n");
	free(text);
	/* without THREADS and COST (16), and without GROWTH/s and its interval (29): 107 - 16 - 29
	 * = 62 */
	text = table((struct process_table_options){.width = 82, .sort = SORT_LIVE});
	assert_has(text,
		   "room: THREADS, COST, GROWTH/s\n\n"
		   "    PID  COMMAND     LIVE   95 % INTERVAL      RSS    CHANGE  TOP SITE\n");
	free(text);
	/* the column that rows are sorted by stays in any width, and so does a part of the
	 * function */
	text = table((struct process_table_options){.width = 1, .sort = SORT_RSS});
	assert_has(text, "room: THREADS, COST, LIVE, CHANGE\n");
	assert_has(text, "\n    200  middle   256.0 KiB  69.8 - 655.5 KiB  8.0 MiB  read_request\n"
			 "    100  large    576.0 KiB     0.3 - 1.1 MiB  7.0 MiB  main\n");
	free(text);
	text = table((struct process_table_options){.width = 1});
	assert_has(text, "room: THREADS, COST, LIVE, CHANGE, RSS\n");
	free(text);
	/* the default width is 100 */
	text = table((struct process_table_options){});
	assert_has(text, "room: THREADS, COST, LIVE\n");
	free(text);
}

/* Of equal processes, the one with the lower pid is first. If the pids are equal, too (the pid was
 * used again), the process that was given first is first. Ended processes are last, even if they
 * held more. */
static void order_is_by_what_was_asked(void **state)
{
	static const struct {
		pid_t pid;
		int blocks;
		uint64_t rss_mib;
		bool ended;
	} cases[] = {
		{7, 3, 5, false}, {6, 9, 0, true},  {5, 3, 9, false},
		{4, 8, 5, false}, {4, 2, 40, true}, {4, 2, 40, true},
	};
	char *text;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char comm[8] = {(char)('a' + i)};
		struct profile *profile = add(cases[i].pid, comm, 1);

		STACK(profile, 1, MIB, cases[i].blocks, "malloc", "f");
		profile->rss_start_bytes = 0;
		profile->rss_end_bytes = cases[i].rss_mib * MIB;
		profile->ended = cases[i].ended;
		end_profile(profile);
	}
	text = table((struct process_table_options){.width = 60});
	assert_has(text, "COMMAND");
	assert_has(text, "\n  4  d        819.2 KiB  5.0 MiB  f\n"
			 "  5  c        307.2 KiB  9.0 MiB  f\n"
			 "  7  a        307.2 KiB  5.0 MiB  f\n"
			 "  6  b        921.6 KiB    ended  f\n"
			 "  4  e        204.8 KiB    ended  f\n"
			 "  4  f        204.8 KiB    ended  f\n");
	free(text);
	text = table((struct process_table_options){.width = 60, .sort = SORT_RSS});
	assert_has(text, "\n  5  c        307.2 KiB  9.0 MiB  f\n"
			 "  4  d        819.2 KiB  5.0 MiB  f\n"
			 "  7  a        307.2 KiB  5.0 MiB  f\n"
			 "  4  e ");
	free(text);
	/* The other processes share one line with their sums: live 3 + 3 MiB, all allocated in
	 * 10 s, and RSS 9 + 5 MiB. */
	text = table((struct process_table_options){.width = 100, .top = 1});
	assert_has(text,
		   "\n  4  d        8.0 MiB  819.2 KiB   5.0 MiB   +5.0 MiB        1     -  f\n"
		   "              6.0 MiB  614.4 KiB  14.0 MiB  +14.0 MiB        2        (5 more "
		   "processes)\n"
		   "total: 3 processes, live 14.0 MiB, growth 1.4 MiB/s, RSS 19.0 MiB (+19.0 "
		   "MiB), 3 threads\n"
		   "ended: 3 processes, which held 13.0 MiB\n");
	free(text);
	text = table((struct process_table_options){.width = 100, .top = 5});
	assert_has(text, "  (1 more process)\n");
	free(text);
	text = table((struct process_table_options){.width = 100, .top = 6});
	assert_null(strstr(text, "more process"));
	free(text);
}

/* Growth per second covers the whole run, even for a process that began during the run. */
static void growth_is_over_the_whole_run(void **state)
{
	struct profile *profile;
	char *text;

	(void)state;
	profile = add(1, "old", 1);
	STACK(profile, 1, MIB, 10, "malloc", "leak");
	end_profile(profile);
	profile = add(2, "young", 1);
	STACK(profile, 1, MIB, 5, "malloc", "start");
	profile->duration_s = 0.1;
	end_profile(profile);
	text = table((struct process_table_options){.width = 120});
	assert_has(text, "2 processes, 10.0 s");
	assert_has(text, "\n  1  old      10.0 MiB    1.0 MiB ");
	assert_has(text, "\n  2  young     5.0 MiB  512.0 KiB ");
	free(text);

	/* A run with a duration of 0 has no growth. */
	((struct profile *)all[0])->duration_s = ((struct profile *)all[1])->duration_s = 0;
	text = table((struct process_table_options){.width = 120});
	assert_has(text, "\n  1  old      10.0 MiB         ?  ");
	assert_has(text, "growth ?/s, RSS");
	free(text);
}

static void incomplete_figures_say_so(void **state)
{
	struct profile *profile;
	char *text;

	(void)state;
	sampled_processes();
	profile = (struct profile *)all[2];
	profile->dropped = 1500;
	text = table((struct process_table_options){.width = 140});
	assert_has(text, "\nINCOMPLETE: 1,500 samples had no room and are missing (--max-live, "
			 "--max-stacks)\n");
	assert_has(text, "    200  middle   >= 4.0 MiB                  >= 256.0 KiB           ");
	free(text);
	/* more room would not help */
	assert_int_equal(profile__add_lost(profile, "scratch_busy", 3), 0);
	text = table((struct process_table_options){.width = 140});
	assert_has(text, "\nINCOMPLETE: 1,500 samples are missing\n");
	assert_has(text, "    100  large       9.0 MiB  4.1 - 17.1 MiB     576.0 KiB  ");
	assert_has(text, "total: 4 processes, live >= 13.0 MiB, growth >= 832.0 KiB/s, RSS");
	free(text);
	/* There is also an estimate for the ended process: 4 MiB. */
	profile->dropped = 0;
	profile->ended = true;
	text = table((struct process_table_options){.width = 140});
	assert_has(text, "total: 3 processes, live 9.0 MiB (95 %: 4.1 - 17.1 MiB), growth 576.0 "
			 "KiB/s (95 %: 0.3 - 1.1 MiB), RSS 9.0 MiB (0 B), 1,202 threads\n"
			 "ended: 1 process, which held 4.0 MiB (95 %: 1.1 - 10.2 MiB)\n");
	free(text);
}

static void names_are_made_harmless(void **state)
{
	struct profile *profile;
	size_t site;
	char *text;

	(void)state;
	profile = add(1, "a\x1b]0;b\n\xff", 1);
	STACK(profile, 1, 500, 1, "malloc", "evil\x1b[2J\xe2\x80\xae\nx", "main");
	end_profile(profile);
	/* 10 characters of 2 bytes, and a worker's long name */
	profile = add(
		2,
		"\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4",
		1);
	STACK(profile, 1, 400, 1, "malloc", "m\xc3\xa4in");
	end_profile(profile);
	profile = add(3, "kworker/u8:1-events_unbound", 1);
	STACK(profile, 1, 300, 1, "malloc", "xmalloc");
	end_profile(profile);
	profile = add(4, "", 1);
	assert_int_equal(profile__add_thread(profile, 1, NULL, &site), 0);
	assert_int_equal(profile__add_site(profile, NULL, 0, false, &site), 0);
	assert_int_equal(profile__add_live(profile, site, 0, 100), 0);
	end_profile(profile);
	text = table((struct process_table_options){.width = 120});
	assert_has(text, "\n  1  a?]0;b??         500 B  ");
	assert_has(text, "  evil?[2J\?\?x\n");
	assert_has(
		text,
		"\n  2  "
		"\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
		"       400 B  ");
	assert_has(text, "  m\xc3\xa4in\n");
	assert_has(text, "\n  3  kworke..unbound  300 B  ");
	assert_has(text, "  xmalloc\n");
	assert_has(text, "\n  4                   100 B  ");
	assert_has(text, "  [no stack]\n");
	free(text);
}

/* memtrace's own memory is 20 + 60.5 MiB. Its line is between the sums and the losses. */
static void own_cost_is_told_once(void **state)
{
	char *text;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct profile *profile = add(i + 1, "one", 1);

		profile->run->cost = (struct run_cost){.known = true,
						       .cpu_pct = 1.06,
						       .user_bytes = 20 * MIB,
						       .kernel_bytes = 121 * MIB / 2};
		assert_int_equal(profile__add_lost(profile, "live_full", 1), 0);
		end_profile(profile);
	}
	text = table((struct process_table_options){.width = 120});
	assert_has(text, ", 2 threads\n"
			 "memtrace itself: 1.1 % of one core, 80.5 MiB, of which 60.5 MiB in the "
			 "kernel\n"
			 "lost: live_full 2\n");
	free(text);
	((struct profile *)all[0])->run->cost.at_most = true;
	((struct profile *)all[0])->run->cost.host_known = true;
	((struct profile *)all[0])->run->cost.host_pct = 1.234;
	((struct profile *)all[1])->mode = MODE_WINDOWED;
	text = table((struct process_table_options){.width = 120});
	assert_has(text, "memtrace: 2 processes, ");
	assert_has(text, " s, 1 of them windowed, ");
	assert_has(text, " s, at most that where windows were too few to tell\n");
	free(text);
	((struct profile *)all[1])->growth.stacks_known = true;
	text = table((struct process_table_options){.width = 120});
	assert_has(text, " s, and in windows that of its stacks\n");
	assert_null(strstr(text, "<="));
	assert_has(text, "\ncost to the machine: 1.23 % of its CPU time\nmemtrace itself: ");
	assert_has(text, " of one core, at most 80.5 MiB, of which 60.5 MiB in the kernel\n");
	free(text);
}

static void orders_have_names(void **state)
{
	(void)state;
	assert_string_equal(process_sort__name(SORT_GROWTH), "growth");
	assert_string_equal(process_sort__name(SORT_LIVE), "live");
	assert_string_equal(process_sort__name(SORT_RSS), "rss");
	assert_int_equal(PROCESS_SORTS, 3);
}

static void no_process_is_one_sentence(void **state)
{
	char *text = table((struct process_table_options){});

	(void)state;
	assert_string_equal(text, "memtrace: no process was traced\n");
	free(text);
	assert_reports_failures(encode, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(exact_runs_show_no_intervals, clear),
		cmocka_unit_test_teardown(what_is_not_traced_says_so, clear),
		cmocka_unit_test_teardown(a_total_beside_what_is_not_traced_is_an_estimate, clear),
		cmocka_unit_test_teardown(a_total_may_be_more_than_one_heap, clear),
		cmocka_unit_test_teardown(peaks_are_told, clear),
		cmocka_unit_test_teardown(a_peak_is_as_sure_as_live_memory, clear),
		cmocka_unit_test_teardown(losses_of_the_run_count_once, clear),
		cmocka_unit_test_teardown(top_sites_are_own_code_or_the_runtimes, clear),
		cmocka_unit_test_teardown(cost_is_what_is_felt, clear),
		cmocka_unit_test_teardown(sampled_runs_show_intervals, clear),
		cmocka_unit_test_teardown(growth_that_is_a_bound_has_no_interval, clear),
		cmocka_unit_test_teardown(what_was_not_seen_depends_on_the_process, clear),
		cmocka_unit_test_teardown(narrow_terminals_get_fewer_columns, clear),
		cmocka_unit_test_teardown(order_is_by_what_was_asked, clear),
		cmocka_unit_test_teardown(growth_is_over_the_whole_run, clear),
		cmocka_unit_test_teardown(incomplete_figures_say_so, clear),
		cmocka_unit_test_teardown(names_are_made_harmless, clear),
		cmocka_unit_test_teardown(own_cost_is_told_once, clear),
		cmocka_unit_test(orders_have_names),
		cmocka_unit_test_teardown(no_process_is_one_sentence, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
