// SPDX-License-Identifier: BSD-2-Clause
/* Tests of encode_svg(). tests/golden/read_svg.py reads each file with an independent parser of XML
 * and prints its content. It also makes the checks that every flame graph must pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

#include "profile/view.h"
#include "tests/unit/encode/fixture.h"
#include "tests/unit/encode/huge.h"

static char *flame_graph(const struct profile *profile, const struct profile *base)
{
	struct svg_options options = {.base = base};
	char *text;
	size_t len;
	FILE *stream = open_memstream(&text, &len);
	struct sink sink = sink__to_stream(stream);

	assert_non_null(stream);
	assert_int_equal(encode_svg(profile, &options, &sink), 0);
	assert_int_equal(fclose(stream), 0);
	return text;
}

/* Returns the output of tests/golden/read_svg.py for the flame graph. The caller calls free(). */
static char *contents(const char *svg)
{
	char path[] = "/tmp/memtrace-svg-XXXXXX", command[256], buf[4096];
	int fd = mkstemp(path);
	FILE *file, *reader;
	struct text text = {};
	size_t n;

	assert_true(fd >= 0);
	file = fdopen(fd, "w");
	assert_non_null(file);
	fputs(svg, file);
	assert_int_equal(fclose(file), 0);
	snprintf(command, sizeof(command), "python3 tests/golden/read_svg.py %s", path);
	reader = popen(command, "r");
	assert_non_null(reader);
	while ((n = fread(buf, 1, sizeof(buf), reader)))
		text_write(&text, buf, n);
	n = (size_t)pclose(reader);
	unlink(path);
	assert_int_equal(n, 0);
	assert_non_null(text.bytes);
	return text.bytes;
}

static char *read_back(const struct profile *profile, const struct profile *base)
{
	char *svg = flame_graph(profile, base), *text = contents(svg);

	free(svg);
	return text;
}

static void assert_says(const char *text, const char *what)
{
	if (!strstr(text, what))
		fail_msg("no '%s' in:\n%.3000s", what, text);
}

/* Both files are equal from the script's opening tag to the end. */
static void assert_same_script(const char *a, const char *b)
{
	const char *x = strstr(a, "<script"), *y = strstr(b, "<script");

	assert_non_null(x);
	assert_non_null(y);
	assert_string_equal(x, y);
}

static void boxes_are_as_wide_as_what_is_live(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 100, 6, "malloc", "zeta", "main");
	STACK(profile, 1, 100, 1, "calloc", "zeta", "main");
	STACK(profile, 1, 50, 4, "malloc", "alpha", "main");
	STACK(profile, 1, 100, 1, "malloc", "thread");
	end_profile(profile);
	text = read_back(profile, NULL);
	assert_string_equal(text,
			    "leaky (pid 4711): live heap: 1000 B in 12 objects\n"
			    "10.0 s continuous, exact: 12 of 12 allocations recorded\n"
			    "\u25a0 allocator\u25a0 no file (JIT)\n"
			    "Width: bytes live; callers above. Click: zoom; Esc: out; 0: all; "
			    "/: search; arrows and Enter: by keyboard\n"
			    "all 1000 12 @0.00+100.00\n"
			    "  main 900 11 @0.00+90.00\n"
			    "    zeta 700 7 @0.00+70.00\n"
			    "      malloc 600 6 @0.00+60.00\n"
			    "      calloc 100 1 @60.00+10.00\n"
			    "    alpha 200 4 @70.00+20.00\n"
			    "      malloc 200 4 @70.00+20.00\n"
			    "  thread 100 1 @90.00+10.00\n"
			    "    malloc 100 1 @90.00+10.00\n");
	free(text);
	profile__free(profile);
}

/* 4 samples at R = 65536 stand for 4 (R + 32) bytes. Garwood's interval for 4 events is 1.0899 to
 * 10.2416. */
static void estimates_have_their_interval(void **state)
{
	struct profile *profile = new_profile(65536);
	unsigned long long bytes, objects, low, high;
	char *text;
	const char *found;

	(void)state;
	STACK(profile, 1, 64, 4, "malloc", "f", "main");
	end_profile(profile);
	text = read_back(profile, NULL);
	assert_says(text, "live heap: 256.1 KiB (95 %: 69.8 - 655.6 KiB) in 4,098 objects\n");
	assert_says(text, "one sample per 64 KiB: 4 samples of 4 allocations");
	found = strstr(text, "    f ");
	assert_non_null(found);
	assert_int_equal(sscanf(found, " f %llu %llu %llu %llu", &bytes, &objects, &low, &high), 4);
	assert_int_equal(bytes, 4 * (65536 + 32));
	assert_int_equal(objects, 4098);
	/* each block has a size, so the variance is 0.1 % less than for a count of events */
	assert_in_range(low, 1.0889 * 65536, 1.0919 * 65536);
	assert_in_range(high, 10.2406 * 65536, 10.2476 * 65536);
	free(text);
	profile__free(profile);
}

static void the_head_says_how_it_was_made(void **state)
{
	struct profile *profile = new_profile(65536);
	char *text;

	(void)state;
	STACK(profile, 1, 64, 4, "malloc", "f", "main");
	end_profile(profile);
	profile->mode = MODE_WINDOWED;
	profile->windows.n = 52;
	profile->windows.seconds = 5.2;
	profile->windows.continuous_s = 1.5;
	profile->start_unix_ns = 1000000000ULL * 1000000000;
	profile->stacks_walked = 4;
	profile->stacks_complete = 3;
	assert_int_equal(profile__add_lost(profile, "nothing_lost", 0), 0);
	assert_int_equal(profile__add_lost(profile, "live_full", 12000), 0);
	assert_int_equal(profile__add_lost(profile, "stacks_truncated", 3), 0);
	text = read_back(profile, NULL);
	assert_says(text, "leaky (pid 4711): live heap, from windows: 256.1 KiB (95 %: ");
	assert_says(text,
		    "\n10.0 s windowed (52 windows of 100 ms, 1.5 s continuous), one sample per 64 "
		    "KiB");
	assert_says(text, "; 75.0 % of stacks complete; 2001-09-09 01:46:40 UTC\n");
	assert_says(text, "\nlost: live_full 12,000, stacks_truncated 3\n");
	assert_says(text, "\nWidth: bytes live, from windows; ");
	free(text);

	profile->dropped = 7;
	text = read_back(profile, NULL);
	assert_says(text, ": AT LEAST 256.1 KiB in 4,098 objects\n");
	assert_says(text, "\nINCOMPLETE: 7 samples had no room and are missing\n");
	assert_says(text, "    f 262272 4098 @"); /* no interval */
	free(text);

	/* calls were missed, but no sample was dropped */
	profile->dropped = 0;
	assert_int_equal(profile__add_lost(profile, "result_unknown", 1), 0);
	text = read_back(profile, NULL);
	assert_says(text, ": AT LEAST 256.1 KiB in 4,098 objects\n");
	assert_says(text, "    f 262272 4098 @");
	free(text);
	profile__free(profile);
}

static void other_memory_has_its_own_words(void **state)
{
	struct profile *profile = new_profile(1);
	char *text;

	(void)state;
	STACK(profile, 1, 4096, 1, "mmap", "f", "main");
	end_profile(profile);
	profile->what = PROFILE_REGIONS;
	text = read_back(profile, NULL);
	assert_says(text, ": live regions: 4.0 KiB in 1 piece\n");
	assert_says(text, "exact: 1 calls that took memory");
	free(text);
	profile->what = PROFILE_FAULTS;
	text = read_back(profile, NULL);
	assert_says(text, ": memory first touched and still there: 4.0 KiB in 1 page\n");
	assert_says(text, "1 of 1 page fault recorded");
	free(text);
	profile__free(profile);
}

/* A profile from a collapsed file has bytes, and no other figures. */
static void what_a_file_does_not_say_is_not_said(void **state)
{
	struct profile *profile = new_profile(0);
	char *svg, *text;

	(void)state;
	STACK(profile, 1, 1000, 3, "malloc", "f", "main");
	end_profile(profile);
	for (size_t i = 0; i < profile->n_sites; i++)
		profile->sites[i].live = (struct estimate){.bytes = 3000};
	profile->mode = MODE_UNKNOWN;
	profile->pid = 0;
	profile->comm[0] = '\0';
	profile->duration_s = 0;
	profile->samples = profile->alloc_calls = 0;
	profile->no_objects = true;
	svg = flame_graph(profile, NULL);
	text = contents(svg);
	assert_says(text, "?: live heap: 2.9 KiB\nthe file does not say how it was sampled\n");
	assert_null(strstr(text, "exact"));
	free(svg);
	free(text);

	/* a file of another tool, with more figures */
	profile->interval_bytes = 524288;
	profile->duration_s = 7;
	profile->file = "/tmp/<db>\n.heap";
	text = read_back(profile, NULL);
	assert_says(text, "<db>?.heap: live heap: 2.9 KiB\n7.0 s, one sample per 512 KiB\n");
	free(text);
	profile->interval_bytes = 1;
	text = read_back(profile, NULL);
	assert_says(text, "\n7.0 s, every allocation recorded\n");
	free(text);
	profile__free(profile);
}

/* Names of a hostile target: some look like markup or a script, others have characters that must
 * not be printed. */
static void names_stay_text(void **state)
{
	struct profile *profile = new_profile(1), *tame = new_profile(1);
	char *svg, *text, *other;

	(void)state;
	STACK(profile, 1, 10, 1, "malloc", "</metadata><script>alert(1)</script>", "main");
	STACK(profile, 1, 9, 1, "malloc", "]]></script><script>\"'&amp;&#0;", "main");
	STACK(profile, 1, 8, 1, "malloc", "a\x01\x02\n\t\xff\xc0\x80z\xef\xbf\xbe\xed\xa0\x80",
	      "main");
	STACK(profile, 1, 7, 1, "malloc", "\u202egnp.exe", "main");
	STACK(profile, 1, 6, 1, "malloc", "operator<< <x>&", "main");
	STACK(profile, 1, 5, 1, "malloc", "\u6f22\u5b57\U0001f600", "main");
	end_profile(profile);
	strcpy(profile->comm, "<b>&\"\n\xfe");
	svg = flame_graph(profile, NULL);
	text = contents(svg);
	assert_says(text, "\n    </metadata><script>alert(1)</script> 10 1 @");
	assert_says(text, "\n    ]]></script><script>\"'&amp;&#0; 9 1 @");
	assert_says(text, "\n    a???????z???? 8 1 @");
	assert_says(text, "\n    ?gnp.exe 7 1 @");
	assert_says(text, "\n    operator<< <x>& 6 1 @");
	assert_says(text, "\n    \u6f22\u5b57\U0001f600 5 1 @");
	assert_says(text, "<b>&\"?? (pid 4711): ");

	STACK(tame, 1, 10, 1, "malloc", "f", "main");
	end_profile(tame);
	other = flame_graph(tame, NULL);
	assert_same_script(svg, other);
	free(svg);
	free(text);
	free(other);
	profile__free(profile);
	profile__free(tame);
}

/* A label is cut to its box. The chart is 1,180 px wide, 8 px of each box stay free, and a letter
 * takes 7.23 px. Names are also cut, to 400 columns. */
static void labels_fit(void **state)
{
	struct profile *profile = new_profile(1);
	char name[2000], *svg, *text;

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	STACK(profile, 1, 50, 1, name);
	STACK(profile, 1, 49, 1,
	      "a_function_with_a_long_name_that_the_box_has_no_room_for_though_it_is_half_"
	      "the_width_of_the_chart");
	STACK(profile, 1, 1, 1, "tiny");
	end_profile(profile);
	svg = flame_graph(profile, NULL);
	assert_null(strstr(svg, "ti..")); /* a box of 11 px has no label */
	text = contents(svg);
	memset(name, 'x', 400);
	strcpy(name + 199, "..");
	memset(name + 201, 'x', 199);
	name[400] = '\0';
	assert_says(text, name); /* 400 columns */
	assert_null(strstr(text, "xxxx"
				 "..xx..")); /* cut once */
	assert_says(svg, ">a_function_with_a_long_name_that_the_b.."
			 "ough_it_is_half_the_width_of_the_chart</text>");
	free(svg);
	free(text);
	profile__free(profile);
}

/* A box of 9 % of 1,180 px has room for 13 letters. */
static void little_room_is_for_the_function(void **state)
{
	struct profile *profile = new_profile(1);
	char *svg;

	(void)state;
	STACK(profile, 1, 91, 1, "main");
	STACK(profile, 1, 9, 1, "malloc", "core::alloc::global::realloc<std::vector<int> >",
	      "clang::Sema<x::y>::CheckDeclaration", "a::b::operator<< <x::y>",
	      "shop::(anonymous namespace)::run",
	      "\u6f22\u5b57\u6f22\u5b57\u6f22\u5b57\u6f22\u5b57", "llvm::Pass<llvm::X>::run");
	end_profile(profile);
	svg = flame_graph(profile, NULL);
	assert_says(svg, ">run</text>");
	assert_says(svg, ">Pass&lt;..&gt;::run</text>");
	assert_says(svg, ">operator&lt;&lt; ..</text>");
	assert_says(svg, ">CheckDeclar..</text>");
	assert_says(svg, ">realloc&lt;..&gt;</text>");
	assert_says(svg, ">\u6f22\u5b57\u6f22\u5b57..</text>");
	assert_says(svg, ">malloc</text>");
	free(svg);
	profile__free(profile);
}

static void what_is_too_small_is_folded(void **state)
{
	struct profile *profile = new_profile(1);
	char name[24], *text;

	(void)state;
	STACK(profile, 1, 1000000, 1, "malloc", "big", "main");
	for (int i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "small%d", i);
		STACK(profile, 1, 10 + (uint64_t)i, 1, "malloc", name, "main");
	}
	end_profile(profile);
	text = read_back(profile, NULL);
	assert_says(text, "\n    (30 smaller) 735 30 @");
	assert_null(strstr(text, "small1"));
	free(text);
	profile__free(profile);
}

static void size_is_bounded(void **state)
{
	struct profile *profile = huge_profile();
	char *svg = flame_graph(profile, NULL), *diff = flame_graph(profile, profile), *text;

	(void)state;
	assert_in_range(strlen(svg), 500000, 5000000);
	assert_in_range(strlen(diff), 500000, 5000000);
	text = contents(svg); /* also checks that boxes add up */
	assert_says(text, "smaller)");
	free(text);
	free(svg);
	free(diff);
	profile__free(profile);
}

static void deep_stacks_are_drawn(void **state)
{
	struct profile *profile = new_profile(1);
	uint64_t addrs[1500];
	size_t site, thread, n = 0;
	char *text;

	(void)state;
	for (size_t i = 0; i < 1500; i++)
		addrs[i] = 0x1000 + i;
	assert_int_equal(profile__add_thread(profile, 1, NULL, &thread), 0);
	assert_int_equal(profile__add_site(profile, addrs, 1000, false, &site), 0);
	assert_int_equal(profile__add_live(profile, site, thread, 10), 0);
	end_profile(profile);
	text = read_back(profile, NULL);
	for (const char *p = text; (p = strstr(p, "0x")); p++)
		n++;
	assert_int_equal(n, 1000);
	free(text);
	profile__free(profile);

	/* Frames beyond the limit are not drawn. Their memory counts as their caller's own. */
	profile = new_profile(1);
	assert_int_equal(profile__add_thread(profile, 1, NULL, &thread), 0);
	assert_int_equal(profile__add_site(profile, addrs, 1500, false, &site), 0);
	assert_int_equal(profile__add_live(profile, site, thread, 10), 0);
	end_profile(profile);
	text = read_back(profile, NULL);
	n = 0;
	for (const char *p = text; (p = strstr(p, "0x")); p++)
		n++;
	assert_int_equal(n, 1024);
	free(text);
	profile__free(profile);
}

static void fill_of(const char *svg, const char *before, char fill[8])
{
	const char *at = strstr(svg, before);

	assert_non_null(at);
	at = strstr(at, "fill=\"");
	assert_non_null(at);
	memcpy(fill, at + 6, 7);
	fill[7] = '\0';
}

static void colours_depend_on_names_only(void **state)
{
	struct profile *a = new_profile(1), *b = new_profile(1);
	char *x, *y, one[8], other[8];

	(void)state;
	STACK(a, 1, 60, 1, "f");
	STACK(a, 1, 40, 1, "g");
	STACK(b, 1, 30, 1, "f");
	STACK(b, 1, 70, 1, "h");
	end_profile(a);
	end_profile(b);
	x = flame_graph(a, NULL);
	y = flame_graph(b, NULL);
	fill_of(x, "width=\"60.0000%\"", one);
	fill_of(y, "width=\"30.0000%\"", other);
	assert_string_equal(one, other);
	fill_of(x, "width=\"40.0000%\"", other);
	assert_string_not_equal(one, other);
	free(x);
	free(y);
	profile__free(a);
	profile__free(b);
}

static bool is_red(const char *fill)
{
	unsigned r, g, b;

	assert_int_equal(sscanf(fill, "#%2x%2x%2x", &r, &g, &b), 3);
	return r > g + 20 && r > b + 20;
}

static bool is_blue(const char *fill)
{
	unsigned r, g, b;

	assert_int_equal(sscanf(fill, "#%2x%2x%2x", &r, &g, &b), 3);
	return b > r + 20;
}

static void a_diff_tells_who_grew(void **state)
{
	struct profile *profile = new_profile(65536), *base = new_profile(65536);
	char *svg, *text, fill[8];

	(void)state;
	strcpy(base->comm, "before");
	base->pid = 4000;
	STACK(profile, 1, 64, 50, "malloc", "grower", "main");
	STACK(profile, 1, 64, 30, "malloc", "same", "main");
	STACK(profile, 1, 64, 20, "malloc", "shrinker", "main");
	STACK(base, 1, 64, 10, "malloc", "grower", "main");
	STACK(base, 1, 64, 28, "malloc", "same", "main");
	STACK(base, 1, 64, 60, "malloc", "shrinker", "main");
	STACK(base, 1, 64, 15, "malloc", "gone", "main");
	end_profile(profile);
	end_profile(base);
	assert_int_equal(profile__add_lost(base, "live_full", 2), 0);
	svg = flame_graph(profile, base);
	text = contents(svg);
	/* The profile has 100 samples, and the base has 113. Each stands for R + 32 bytes. */
	assert_says(text, "leaky (pid 4711) against before (pid 4000): live heap: 6.3 MiB (95 %: ");
	assert_says(text, "\nchange -832.4 KiB (95 %: -");
	assert_says(text, ", within sampling error; only the base has 960.5 KiB in 1 stack,");
	assert_says(text,
		    "\na change beyond the sampling error may still be chance, because blocks come "
		    "and go: `memtrace diff` tells which stacks grow beyond chance\n");
	assert_says(
		text,
		"\u25a0 grown by more than sampling error\u25a0 shrunk by more than sampling error"
		"\u25a0 within sampling error\n");
	assert_null(strstr(text, "significant"));
	assert_null(strstr(text, "were missed"));
	assert_says(text, "\nbase: live heap: 7.1 MiB");
	assert_says(text, "\nbase: lost: live_full 2\n");
	assert_says(text, "\n    grower 3278400 51225 655680 ");
	assert_says(text, "\n    gone 0 0 983520 ");
	fill_of(svg, "width=\"50.0000%\"", fill);
	assert_true(is_red(fill));
	fill_of(svg, "width=\"30.0000%\"", fill);
	assert_false(is_red(fill) || is_blue(fill));
	fill_of(svg, "width=\"20.0000%\"", fill);
	assert_true(is_blue(fill));
	free(svg);
	free(text);
	/* What was missed is no sampling error. */
	base->dropped = 2;
	svg = flame_graph(profile, base);
	text = contents(svg);
	assert_says(text, "\nsamples or calls were missed: memory that the earlier profile lacks "
			  "looks like growth, and memory that the later one lacks like "
			  "shrinking\nnew: ");
	free(svg);
	free(text);
	base->dropped = 0;

	/* Profile and base change places. Then a profile is compared with itself. */
	svg = flame_graph(base, profile);
	assert_null(strstr(svg, "only the base has"));
	fill_of(svg, "width=\"53.0973%\"", fill); /* shrinker: 60 of 113 */
	assert_true(is_red(fill));
	free(svg);
	svg = flame_graph(profile, profile);
	text = contents(svg);
	assert_says(text, "\nchange 0 B");
	fill_of(svg, "width=\"50.0000%\"", fill);
	assert_false(is_red(fill) || is_blue(fill));
	free(svg);
	free(text);
	profile__free(profile);
	profile__free(base);
}

/* Returns the flame graph of a view. The caller calls free(). */
static char *viewed(const struct profile *profile, struct view_options options)
{
	struct profile_view view;
	char *svg;

	assert_null(view_options__refusal(&options, profile));
	assert_int_equal(profile_view__init(&view, profile, &options), 0);
	svg = flame_graph(&view.profile, NULL);
	profile_view__clear(&view);
	return svg;
}

/* The width of a box shows its weight in the view, and its figure has the unit of this weight. The
 * view's root, such as the thread of a stack, is above all frames. */
static void a_view_has_its_own_unit(void **state)
{
	static const struct {
		struct view_options options;
		const char *title, *foot, *attribute, *boxes;
	} cases[] = {
		{{.weight = WEIGHT_OBJECTS},
		 ": live heap: 3 objects\n",
		 "Width: objects live; ",
		 "data-counts=\"\"",
		 "\n  main 3 0 @"},
		{{.weight = WEIGHT_ALLOCATED},
		 ": allocated during the run: 3.9 KiB in 9 objects\n",
		 "Width: bytes allocated; ",
		 "data-what=\"allocated\"",
		 "\n  main 4000 9 @"},
		{{.weight = WEIGHT_FREED},
		 ": allocated during the run and freed again: 1000 B in 6 objects\n",
		 "Width: bytes freed; ",
		 "data-what=\"freed\"",
		 "\n  main 1000 6 @"},
		{{.weight = WEIGHT_GROWTH},
		 ": growth of all stacks that grow: 30 B/s\n",
		 "Width: bytes per second of growth; ",
		 "data-per=\"/s\"",
		 "\n  main 30 0 @"},
		{{.root = ROOT_THREAD},
		 ": live heap: 2.9 KiB in 3 objects\n",
		 "Width: bytes live; ",
		 "data-what=\"live\"",
		 "\n  pool-# 3000 3 @0.00+100.00\n    [truncated] 3000 3 @0.00+100.00\n      main"
		 " 3000 3 @"},
	};
	struct profile *profile = new_profile(1);
	size_t site, thread;

	(void)state;
	site = STACK(profile, 7, 1000, 3, "malloc", "f", "main");
	assert_int_equal(profile__add_thread(profile, 7, "pool-3", &thread), 0);
	profile->sites[site].alloc_bytes = 4000;
	profile->sites[site].alloc_objects = 9;
	profile->sites[site].freed_bytes = 1000;
	profile->sites[site].freed_objects = 6;
	profile->sites[site].growth.bytes_per_s = 30;
	site = STACK(profile, 7, 1000, 0, "malloc", "shrinks", "main");
	profile->sites[site].growth.bytes_per_s = -10;
	profile->growth.stacks_known = true;
	end_profile(profile);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *svg, *text;

		profile->sites[0].truncated = cases[i].options.root != ROOT_NONE;
		svg = viewed(profile, cases[i].options);
		text = contents(svg);
		assert_says(text, cases[i].title);
		assert_says(text, cases[i].foot);
		assert_says(text, cases[i].boxes);
		assert_non_null(strstr(svg, cases[i].attribute));
		free(svg);
		free(text);
	}
	profile__free(profile);
}

/* A collapsed file gives no sampling error. So the error of a difference from such a profile is not
 * known. */
static void a_diff_without_intervals_is_grey(void **state)
{
	struct profile *profile = new_profile(0), *base = new_profile(1);
	char *svg, *text, fill[8];

	(void)state;
	STACK(profile, 1, 1003, 1, "malloc", "f", "main");
	STACK(base, 1, 1000, 1, "malloc", "f", "main");
	end_profile(profile);
	end_profile(base);
	profile->sites[0].live = (struct estimate){.bytes = 1003};
	profile->mode = MODE_UNKNOWN;
	for (int i = 0; i < 2; i++) {
		/* the result is the same if only one of the two profiles is from a collapsed
		 * file */
		svg = i ? flame_graph(base, profile) : flame_graph(profile, base);
		text = contents(svg);
		assert_says(text, i ? "\nchange -3 B, with unknown error\n"
				    : "\nchange +3 B, with unknown error\n");
		assert_null(strstr(text, "sampling error"));
		assert_says(text, "\n\u25a0 how surely it has changed is not known\n");
		assert_says(text, i ? "\n    f 1000 1 1003 0 0 @" : "\n    f 1003 0 1000 0 0 @");
		fill_of(svg, "width=\"100.0000%\" height=\"17\"", fill);
		assert_string_equal(fill, "#d5d8dd");
		free(svg);
		free(text);
	}
	profile__free(profile);
	profile__free(base);
}

static void nothing_live_is_a_file(void **state)
{
	struct profile *profile = new_profile(1), *base = new_profile(1);
	char *text = read_back(profile, NULL);

	(void)state;
	assert_says(text, "leaky (pid 4711): live heap: nothing\n");
	assert_says(text, "\nall 0 0 @0.00+100.00\n");
	free(text);
	STACK(base, 1, 64, 15, "malloc", "gone", "main");
	end_profile(base);
	text = read_back(profile, base);
	assert_says(text, "\n  main 0 0 960 ");
	free(text);
	profile__free(profile);
	profile__free(base);
}

static int without_options(const struct profile *profile, struct sink *sink)
{
	return encode_svg(profile, NULL, sink);
}

static void failures_are_told(void **state)
{
	struct profile *profile = new_profile(65536);

	(void)state;
	STACK(profile, 1, 64, 4, "malloc", "f", "main");
	end_profile(profile);
	assert_reports_failures(without_options, profile);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(boxes_are_as_wide_as_what_is_live),
		cmocka_unit_test(estimates_have_their_interval),
		cmocka_unit_test(the_head_says_how_it_was_made),
		cmocka_unit_test(other_memory_has_its_own_words),
		cmocka_unit_test(what_a_file_does_not_say_is_not_said),
		cmocka_unit_test(names_stay_text),
		cmocka_unit_test(labels_fit),
		cmocka_unit_test(little_room_is_for_the_function),
		cmocka_unit_test(what_is_too_small_is_folded),
		cmocka_unit_test(size_is_bounded),
		cmocka_unit_test(deep_stacks_are_drawn),
		cmocka_unit_test(colours_depend_on_names_only),
		cmocka_unit_test(a_view_has_its_own_unit),
		cmocka_unit_test(a_diff_tells_who_grew),
		cmocka_unit_test(a_diff_without_intervals_is_grey),
		cmocka_unit_test(nothing_live_is_a_file),
		cmocka_unit_test(failures_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
