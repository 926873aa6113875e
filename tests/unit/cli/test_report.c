// SPDX-License-Identifier: BSD-2-Clause
/* report, diff and leaks read files, without any process. Tests what they refuse, with which words
 * and status, and what they print for stacks that are written by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "encode/encode.h"
#include "cli/cli.h" /* before cmocka, which makes a macro of fail() */
#include "cli/output.h"

#include <cmocka.h>

#include "command_fixture.h"

static char home[] = "/tmp/memtrace-report-XXXXXX";
static void write_text_to(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void read_file(const char *name, char *ret, size_t size)
{
	FILE *file = fopen(name, "r");

	assert_non_null(file);
	read_text_of(file, ret, size);
}

static void what_is_no_profile_is_named(void **state)
{
	(void)state;
	ASSERT_REFUSED(EXIT_FAILED, "cannot open none: No such file", report, "none");
	ASSERT_REFUSED(EXIT_FAILED, "cannot read .: Is a directory", report, ".");
	ASSERT_REFUSED(EXIT_FAILED, "empty: is empty", report, "empty");
	ASSERT_REFUSED(EXIT_FAILED, "text: line 1: no line of collapsed stacks", report, "text");
	ASSERT_REFUSED(EXIT_FAILED, "cannot open none", diff, "old", "none");
	ASSERT_REFUSED(EXIT_FAILED, "text: line 1", leaks, "text");
	ASSERT_REFUSED(EXIT_FAILED, "cannot open none", report, "--modules", "none", "old");
	ASSERT_REFUSED(EXIT_FAILED, "text, line 1: a rule is COMPONENT", report, "--modules",
		       "text", "old");
}

static void what_a_file_lacks_is_said(void **state)
{
	(void)state;
	ASSERT_REFUSED(EXIT_FAILED, "old: it stores no growth: only memtrace's own .pb.gz", report,
		       "--leaks", "old");
	ASSERT_REFUSED(EXIT_FAILED, "old: --churn shows what was allocated", report, "--churn",
		       "old");
	ASSERT_REFUSED(EXIT_FAILED, "old: it does not store the age of live memory", report,
		       "--age", "5", "old");
	ASSERT_REFUSED(EXIT_FAILED, "memtrace's own .pb.gz files do", report, "--rss", "old");
	ASSERT_REFUSED(EXIT_FAILED, "old: there is no thread called 'x' in it; --tree --by thread",
		       report, "--thread", "x", "old");
	ASSERT_REFUSED(EXIT_FAILED, "the name is not a valid regular expression", report,
		       "--thread", "(", "old");
	ASSERT_REFUSED(EXIT_FAILED, "it does not count objects", report, "-f", "heap", "old");
	ASSERT_REFUSED(EXIT_FAILED, "compare live bytes", diff, "--by", "growth", "old", "new");
	ASSERT_REFUSED(EXIT_FAILED, "old", leaks, "old");
}

static void which_files_are_asked_for(void **state)
{
	(void)state;
	ASSERT_REFUSED(EXIT_USAGE, "which file? Give one", report, "-n", "1");
	ASSERT_REFUSED(EXIT_USAGE, "which file? Give one", report, "old", "new");
	ASSERT_REFUSED(EXIT_USAGE, "Give two or more profiles, the oldest first", diff, "old");
	ASSERT_REFUSED(EXIT_USAGE, "which file? Give one or more", leaks, "-n", "1");
	ASSERT_REFUSED(EXIT_USAGE, "which process? -p PID", heap, "--json");
	ASSERT_REFUSED(EXIT_USAGE, "which process? -p PID", why, "--json");
	ASSERT_REFUSED(EXIT_USAGE, "which process? -p PID", top, "--delay", "1");
}

static void wrong_values_are_told_with_right_ones(void **state)
{
	(void)state;
	ASSERT_REFUSED(EXIT_USAGE, "no format 'x': heap, collapsed, pprof, svg, symbolized, json",
		       report, "-f", "x", "old");
	ASSERT_REFUSED(EXIT_USAGE, "no format 'x': table, json, collapsed or svg", diff, "-f", "x",
		       "old", "new");
	ASSERT_REFUSED(EXIT_USAGE, "not by 'x'", report, "--weight", "x", "old");
	ASSERT_REFUSED(EXIT_USAGE, "--by is thread, process or module, not 'x'", report, "--by",
		       "x", "old");
	ASSERT_REFUSED(EXIT_USAGE, "live or growth, not by 'x'", diff, "--by", "x", "old", "new");
	ASSERT_REFUSED(EXIT_USAGE, "'0' is not a number of rows", report, "-n", "0", "old");
	ASSERT_REFUSED(EXIT_USAGE, "'x' is not an age: seconds", report, "--age", "x", "old");
	ASSERT_REFUSED(EXIT_USAGE, "'101' is not a share", report, "--tree", "--min-share", "101",
		       "old");
	ASSERT_REFUSED(EXIT_USAGE, "'5X' is not a number of bytes", report, "--min-bytes", "5X",
		       "old");
	ASSERT_REFUSED(EXIT_USAGE, "--focus '(':", report, "--focus", "(", "old");
	ASSERT_REFUSED(EXIT_USAGE, "--focus is empty", report, "--focus", "", "old");
	ASSERT_REFUSED(EXIT_USAGE, "--ignore is empty", report, "--ignore", "", "old");
	ASSERT_REFUSED(EXIT_USAGE, "--type is empty", why, "--type", "", "-p", "1");
	ASSERT_REFUSED(EXIT_USAGE, "no option --foo; an option may be shortened only if", report,
		       "--foo", "old");
	ASSERT_REFUSED(EXIT_USAGE, "no option --m;", report, "--m", "old");
	ASSERT_REFUSED(EXIT_USAGE, "there is no option -Z", report, "-Z", "old");
	ASSERT_REFUSED(EXIT_USAGE, "-f needs a value", report, "-f");
	ASSERT_REFUSED(EXIT_USAGE, "--tree takes no value", report, "--tree=1", "old");
	ASSERT_REFUSED(EXIT_USAGE, "'x' is not a pid", why, "-p", "x");
}

/* Each message names the options that cannot be combined. */
static void what_does_not_fit_together_is_named(void **state)
{
	(void)state;
	ASSERT_REFUSED(EXIT_USAGE, "--tree, --leaks, --churn and --modules are", report, "--tree",
		       "--churn", "old");
	ASSERT_REFUSED(EXIT_USAGE, "combined with -f", report, "-n", "1", "-f", "svg", "old");
	ASSERT_REFUSED(EXIT_USAGE, "combined with --tree", report, "-n", "1", "--tree", "old");
	ASSERT_REFUSED(EXIT_USAGE, "-f writes a file instead of a table", report, "-f", "svg",
		       "--tree", "old");
	ASSERT_REFUSED(EXIT_USAGE, "add to the table of stacks", report, "-f", "svg", "--rss",
		       "old");
	ASSERT_REFUSED(EXIT_USAGE, "--threads shows the whole process", report, "--threads",
		       "--focus", "b", "old");
	ASSERT_REFUSED(EXIT_USAGE, "--leaks cannot be combined with --thread or --age", report,
		       "--leaks", "--thread", "x", "old");
	ASSERT_REFUSED(EXIT_USAGE, "--age cannot be combined with --thread or --by thread", report,
		       "--age", "5", "--by", "thread", "--tree", "old");
	ASSERT_REFUSED(EXIT_USAGE, "-o names the file that -f writes", report, "-o", "x", "old");
	ASSERT_REFUSED(EXIT_USAGE, "it needs --tree", report, "--min-share", "5", "old");
	ASSERT_REFUSED(EXIT_USAGE, "--by works for --tree", report, "--by", "thread", "old");
	ASSERT_REFUSED(EXIT_USAGE, "it needs --stack", why, "-p", "1", "-d", "3");
	ASSERT_REFUSED(EXIT_USAGE, "cannot be combined with --addr", why, "-p", "1", "--type", "a",
		       "--size", "8");
	ASSERT_REFUSED(EXIT_USAGE, "--debug-blocks cannot be combined with any of", heap, "-p",
		       "4194303", "--debug-blocks", "--json");
	ASSERT_REFUSED(EXIT_USAGE, "--debug-blocks cannot be combined with any of", heap, "-p",
		       "4194303", "--debug-blocks", "-n", "5");
	ASSERT_REFUSED(EXIT_USAGE, "'x' is not an option; the process is given with -p PID", why,
		       "x");
}

static void files_that_cannot_be_written(void **state)
{
	(void)state;
	ASSERT_REFUSED(EXIT_FAILED, "cannot write dir: a directory of that name exists", report,
		       "-f", "collapsed", "-o", "dir", "old");
	ASSERT_REFUSED(EXIT_FAILED, "create the directory first, or write to another place", report,
		       "-f", "collapsed", "-o", "none/x", "old");
	ASSERT_REFUSED(EXIT_FAILED, "cannot write to /dev/full: No space left", report, "-f",
		       "collapsed", "-o", "/dev/full", "old");
	ASSERT_REFUSED(EXIT_FAILED, "cannot write dir: a directory", diff, "-f", "json", "-o",
		       "dir", "old", "new");
}

/* Output to a descriptor's name, such as /dev/stdout, goes to the descriptor. rename() would
 * replace the link itself. */
static void descriptors_are_written_to(void **state)
{
	(void)state;
	assert_int_equal(RUN(report, "-f", "collapsed", "-o", "/dev/fd/1", "old"), 0);
	assert_words(shown, "main;b 3000\n");
	assert_words(shown, "main;c 1000\n");
	ASSERT_REFUSED(EXIT_FAILED, "cannot write to /dev/fd/987: Bad file descriptor", report,
		       "-f", "collapsed", "-o", "/dev/fd/987", "old");
	assert_true(is_stream("/dev/stdout"));
	assert_true(is_stream("/dev/stderr"));
	assert_false(is_stream("/dev/fd/x"));
	assert_false(is_stream("old"));
}

/* old has main;b 3000 and main;c 1000; new has main;b 5000 and main;c 1000. */
static void stacks_are_shown(void **state)
{
	char text[1024];

	(void)state;
	assert_int_equal(RUN(report, "old"), 0);
	assert_words(shown, "75.0%  b < main");
	assert_words(shown, "25.0%  c < main");
	assert_int_equal(RUN(report, "-n", "1", "old"), 0);
	assert_words(shown, "b < main");
	assert_null(strstr(shown, "c < main"));
	assert_int_equal(RUN(report, "-f", "collapsed", "--focus", "^b$", "old"), 0);
	assert_string_equal(shown, "main;b 3000\n");
	assert_words(said, "filtered: 1 of 2 stacks, 2.9 KiB of 3.9 KiB");
	assert_int_equal(RUN(report, "-f", "collapsed", "--ignore", "b", "old"), 0);
	assert_string_equal(shown, "main;c 1000\n");
	assert_int_equal(RUN(report, "-f", "collapsed", "--min-bytes", "2K", "old"), 0);
	assert_string_equal(shown, "main;b 3000\n");
	assert_int_equal(RUN(report, "-f", "collapsed", "-o", "copy", "new"), 0);
	assert_string_equal(shown, "");
	read_file("copy", text, sizeof(text));
	assert_words(text, "main;b 5000\n");
	assert_int_equal(RUN(report, "--modules", "rules", "old"), 0);
	assert_words(shown, "ours");
	assert_words(shown, "75.0 %");
	assert_int_equal(RUN(report, "--tree", "old"), 0);
	assert_words(shown, "main");
	assert_int_equal(RUN(report, "-f", "json", "old"), 0);
	assert_words(shown, "\"live_bytes\":4000");
}

/* Writes a profile of 200 regions of 1 MiB, all of one stack. Two threads hold half of them each.
 */
static void write_regions(const char *name)
{
	struct profile *p = profile__new();
	size_t site, threads[2];
	FILE *file = fopen(name, "w");
	struct sink sink;

	assert_true(p && file);
	p->what = PROFILE_REGIONS;
	p->mode = MODE_CONTINUOUS;
	p->interval_bytes = 1;
	p->duration_s = 100;
	assert_int_equal(profile__add_site(p, (uint64_t[]){0x10, 0x20}, 2, false, &site), 0);
	assert_int_equal(profile__add_thread(p, 7, "one", &threads[0]), 0);
	assert_int_equal(profile__add_thread(p, 8, "two", &threads[1]), 0);
	for (int i = 0; i < 200; i++)
		assert_int_equal(profile__add_live(p, site, threads[i % 2], 1 << 20), 0);
	p->regions.kind_bytes[0] = 200.0 * (1 << 20);
	assert_int_equal(profile__sort(p), 0);
	sink = sink__to_stream(file);
	assert_int_equal(encode_pprof(p, &sink), 0);
	assert_int_equal(fclose(file), 0);
	profile__free(p);
}

/* If a filter has removed one thread's part of a single stack, the profile is no longer whole. */
static void a_part_of_a_stack_is_no_whole(void **state)
{
	(void)state;
	assert_int_equal(RUN(report, "regions"), 0);
	assert_null(strstr(shown, "kinds of regions add up"));
	assert_int_equal(RUN(report, "--thread", "one", "regions"), 0);
	assert_words(said, "filtered: 1 of 1 stacks, 100.0 MiB of 200.0 MiB");
	assert_null(strstr(shown, "kinds of regions add up"));
	assert_int_equal(RUN(report, "--thread", "one", "-f", "pprof", "-o", "copy", "regions"), 0);
	assert_int_equal(RUN(report, "copy"), 0);
	assert_null(strstr(shown, "kinds of regions add up"));
	assert_int_equal(RUN(diff, "copy", "regions"), 0);
	assert_words(shown, "filters have left something out");
	ASSERT_REFUSED(EXIT_FAILED, "--thread and --age select live memory only: what was", report,
		       "--weight", "allocated", "copy");
	ASSERT_REFUSED(EXIT_USAGE, "--weight peak cannot be combined with --thread or --age",
		       report, "--weight", "peak", "--thread", "one", "regions");
}

static void files_are_compared(void **state)
{
	(void)state;
	assert_int_equal(RUN(diff, "-f", "collapsed", "old", "new"), 0);
	assert_words(shown, "main;b 3000 5000\n");
	assert_words(shown, "main;c 1000 1000\n");
	assert_int_equal(RUN(diff, "-f", "collapsed", "-o", "both", "old", "new"), 0);
	read_file("both", shown, sizeof(shown));
	assert_words(shown, "main;b 3000 5000\n");
	assert_int_equal(RUN(diff, "-f", "svg", "old", "new"), 0);
	assert_words(shown, "<svg");
}

static int begin(void **state)
{
	(void)state;
	if (!mkdtemp(home) || chdir(home) || mkdir("dir", 0700))
		return -1;
	setenv("DEBUGINFOD_URLS", "", 1);
	write_text_to("old", "main;b 3000\nmain;c 1000\n");
	write_text_to("new", "main;b 5000\nmain;c 1000\n");
	write_text_to("empty", "");
	write_text_to("text", "root:x:0:0:root:/root:/bin/bash\n");
	write_text_to("rules", "ours function ^b$\n");
	write_regions("regions");
	return 0;
}

static int end(void **state)
{
	static const char *const names[] = {"old",   "new",  "empty", "text", "regions",
					    "rules", "copy", "both",  "dir/"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		remove(names[i]);
	return chdir("/") || rmdir(home);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_profile_is_named),
		cmocka_unit_test(what_a_file_lacks_is_said),
		cmocka_unit_test(which_files_are_asked_for),
		cmocka_unit_test(wrong_values_are_told_with_right_ones),
		cmocka_unit_test(what_does_not_fit_together_is_named),
		cmocka_unit_test(files_that_cannot_be_written),
		cmocka_unit_test(descriptors_are_written_to),
		cmocka_unit_test(stacks_are_shown),
		cmocka_unit_test(a_part_of_a_stack_is_no_whole),
		cmocka_unit_test(files_are_compared),
	};

	return cmocka_run_group_tests_name("report", tests, begin, end);
}
