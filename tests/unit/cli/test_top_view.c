// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "cli/top_view.h"
#include "encode/text.h"
#include "tests/unit/encode/fixture.h"

/* Escape sequences, C1 characters, invalid UTF-8, right-to-left and wide characters. */
#define HOSTILE "ev\033[2Jil\r\n\x9b\xff\xe2\x80\xae\xe4\xb8\xad\xcc\x81"

static void update(struct top_view *view, double elapsed_s, size_t n,
		   struct profile *const *profiles)
{
	struct profile **list = calloc(n + 1, sizeof(*list));

	assert_non_null(list);
	for (size_t i = 0; i < n; i++) {
		profiles[i]->duration_s =
			profiles[i]->duration_s < elapsed_s ? profiles[i]->duration_s : elapsed_s;
		list[i] = profiles[i];
	}
	assert_int_equal(top_view__update(view, list, n, elapsed_s), 0);
}

static void update_one(struct top_view *view, double elapsed_s, struct profile *profile)
{
	update(view, elapsed_s, 1, &profile);
}

static void press(struct top_view *view, const char *keys)
{
	for (; *keys; keys++)
		assert_int_equal(top_view__press(view, (unsigned char)*keys), TOP_NOTHING);
}

/* Draws a screen, and makes the checks that every screen must pass. */
static struct top_screen drawn(struct top_view *view, size_t width, size_t height)
{
	struct top_screen screen;

	assert_int_equal(top_view__draw(view, width, height, &screen), 0);
	assert_int_equal(screen.n, height);
	for (size_t i = 0; i < screen.n; i++) {
		const char *at = screen.lines[i].text;
		uint32_t code;

		assert_in_range(text_columns(at), 0, width);
		while (*at) {
			size_t len = utf8_next(at, &code);

			assert_true(len > 0 && !is_control(code));
			at += len;
		}
	}
	return screen;
}

/* The number of the first line with the text, or -1. */
static int line_of(const struct top_screen *screen, const char *text)
{
	for (size_t i = 0; i < screen->n; i++)
		if (strstr(screen->lines[i].text, text))
			return (int)i;
	return -1;
}

/* Is the text on a screen of 100 by 30? */
static bool shows(struct top_view *view, const char *text)
{
	struct top_screen screen = drawn(view, 100, 30);
	bool found = line_of(&screen, text) >= 0;

	top_screen__clear(&screen);
	return found;
}

static void assert_selected(struct top_view *view, const char *text)
{
	struct top_screen screen = drawn(view, 100, 30);
	const char *selected = NULL;

	for (size_t i = 0; i < screen.n; i++)
		if (screen.lines[i].style == TOP_SELECTED) {
			assert_null(selected);
			selected = screen.lines[i].text;
		}
	assert_non_null(selected);
	if (!strstr(selected, text))
		fail_msg("'%s' is selected, not %s", selected, text);
	top_screen__clear(&screen);
}

/* Checks that each text is in a line below the text before it. */
static void assert_order(struct top_view *view, const char *first, const char *second,
			 const char *third)
{
	struct top_screen screen = drawn(view, 100, 30);
	int a = line_of(&screen, first), b = line_of(&screen, second), c = line_of(&screen, third);

	if (!(a >= 0 && a < b && b < c))
		fail_msg("%s, %s, %s are in lines %d, %d, %d", first, second, third, a, b, c);
	top_screen__clear(&screen);
}

/* Three stacks: one holds most, one grows most, one allocates most and holds nothing. */
static struct profile *three(void)
{
	struct profile *p = new_profile(1);
	size_t holds = STACK(p, 1, 1 << 20, 30, "malloc", "holder", "main");
	size_t grows = STACK(p, 1, 1 << 20, 20, "malloc", "grower", "main");
	size_t noise = STACK(p, 1, 1 << 20, 0, "malloc", "spender", "main");
	size_t maybe = STACK(p, 1, 1 << 20, 10, "malloc", "maybe", "main");

	STACK(p, 1, 100, 0, "malloc", "nothing", "main");

	p->growth.stacks_known = true;
	p->sites[holds].growth = (struct growth){100, 50, 150};
	p->sites[grows].growth = (struct growth){2048, 1024, 3072};
	p->sites[noise].growth = (struct growth){-10, -20, 5};
	/* the largest growth, but its interval contains 0 */
	p->sites[maybe].growth = (struct growth){1 << 20, -1e6, 3e6};
	p->sites[noise].alloc_bytes = 900 << 20;
	p->sites[noise].alloc_objects = 900;
	end_profile(p);
	return p;
}

static void test_order(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, false);

	(void)state;
	update_one(view, 10, three());
	assert_order(view, "holder", "grower", "maybe");
	assert_true(shows(view, "30.0 MiB"));
	assert_order(view, "grower", "maybe", "spender");
	assert_false(shows(view, "nothing"));
	press(view, "g");
	assert_order(view, "grower", "holder", "maybe");
	assert_true(shows(view, "2.0 KiB"));
	assert_true(shows(view, "may be 0"));
	press(view, "a");
	assert_order(view, "spender", "holder", "grower");
	assert_true(shows(view, "90.0 MiB")); /* per second, over ten seconds */
	press(view, "l");
	assert_order(view, "holder", "grower", "maybe");
	top_view__free(view);
}

static void test_runtime(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, false);
	struct profile *profile = new_profile(1);

	(void)state;
	STACK(profile, 1, 100, 1, "malloc", "std::vector<int>::push_back", "holder", "main");
	end_profile(profile);
	update_one(view, 10, profile);
	assert_true(shows(view, "  holder (via std::vector<..>::push_back) < main"));
	top_view__show_runtime(view, true);
	assert_true(shows(view, "  std::vector<..>::push_back < holder < main"));
	top_view__free(view);
}

/* A rate must cover the last ten seconds or a little more, but not the hour before. */
static void test_rates(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_RATE, false);
	static const struct {
		double at_s, mib;
		const char *shown;
	} steps[] = {{10, 100, "10.0 MiB"},
		     {20, 100, "0 B"},
		     {30, 130, "3.0 MiB"},
		     {35, 130, "2.0 MiB"},
		     {40, 130, "0 B"}};

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		struct profile *p = new_profile(1);
		size_t site = STACK(p, 1, 100, 1, "malloc", "user", "main");
		struct top_screen screen;
		char *rate;

		p->duration_s = steps[i].at_s;
		p->sites[site].alloc_bytes = steps[i].mib * (1 << 20);
		end_profile(p);
		update_one(view, steps[i].at_s, p);
		screen = drawn(view, 100, 5);
		assert_non_null(strstr(screen.lines[1].text, "ALLOC/s"));
		/* cells end in the same column as their titles */
		rate = strndup(screen.lines[2].text,
			       (size_t)(strstr(screen.lines[1].text, "ALLOC/s") + 7 -
					screen.lines[1].text));
		if (strlen(rate) < strlen(steps[i].shown) ||
		    strcmp(rate + strlen(rate) - strlen(steps[i].shown), steps[i].shown))
			fail_msg("after %.0f s: %s, not %s", steps[i].at_s, rate, steps[i].shown);
		free(rate);
		top_screen__clear(&screen);
	}
	top_view__free(view);
}

/* The interval of a rate contains the estimate, and allows for allocations without a sample. */
static void test_rate_interval(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_RATE, false);
	struct profile *p = new_profile(64 << 10);
	size_t site = STACK(p, 1, 100, 50, "malloc", "user", "main");

	(void)state;
	/* a hundred samples in ten seconds: +- 20 % */
	p->sites[site].alloc_bytes = 100 * (64 << 10);
	end_profile(p);
	update_one(view, 10, p);
	assert_true(shows(view, "640.0 KiB"));
	assert_true(
		shows(view, "520.7 - 778.4 KiB")); /* Poisson's interval of 100: 81.36 to 121.63 */
	top_view__free(view);
}

/* In windows a stack may have samples, but no estimate of live memory. Any amount may live. */
static void test_interval_of_nothing(void **state)
{
	(void)state;
	for (int windowed = 0; windowed < 2; windowed++) {
		struct top_view *view = top_view__new(TOP_BY_LIVE, false);
		struct profile *p = new_profile(64 << 10);
		size_t site = STACK(p, 1, 100, 50, "malloc", "user", "main");

		p->mode = windowed ? MODE_WINDOWED : MODE_CONTINUOUS;
		p->sites[site].alloc_bytes = 100 * (64 << 10);
		p->sites[site].live = (struct estimate){.samples = 3};
		end_profile(p);
		update_one(view, 10, p);
		/* 3.689 samples of 64 KiB */
		assert_true(shows(view, "0.0 - 236.1 KiB") == !windowed);
		top_view__free(view);
	}
}

/* A figure that is only a lower bound is shown without an interval. Growth that may be 0 is marked
 * so in any case. */
static void test_bounds(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, false);

	(void)state;
	for (int missed = 0; missed < 2; missed++) {
		struct profile *p = new_profile(64 << 10);
		struct top_screen screen;
		size_t sure = STACK(p, 1, 100, 50, "malloc", "sure", "main"),
		       doubtful = STACK(p, 1, 100, 50, "malloc", "doubtful", "main");

		p->growth.stacks_known = true;
		p->sites[sure].growth = (struct growth){3000, 2000, 4000};
		p->sites[doubtful].growth = (struct growth){3000, -1, 6001};
		end_profile(p);
		if (missed)
			assert_int_equal(profile__add_lost(p, "result_unknown", 5), 0);
		update_one(view, 10, p);
		screen = drawn(view, 160, 30);
		assert_true(line_of(&screen, missed ? ">= 2.9 KiB" : "2.0 - 3.9 KiB") >= 0);
		assert_true((line_of(&screen, " - ") < 0) == missed);
		assert_true(line_of(&screen, "may be 0") >= 0);
		top_screen__clear(&screen);
	}
	top_view__free(view);
}

static void test_all_sizes(void **state)
{
	static const char *const keys[] = {"", "g", "a", "\r", "?", "?", "q"};

	(void)state;
	for (int many = 0; many < 2; many++) {
		struct top_view *view = top_view__new(TOP_BY_LIVE, many);
		struct profile *list[2] = {new_profile(512 << 10), new_profile(512 << 10)};

		STACK(list[0], 1, 4000, 900, "malloc", HOSTILE,
		      "a::b<c<d, e<f> >, std::vector<int> >::g", HOSTILE "2");
		STACK(list[0], 1, 40, 9, "malloc", "", "x");
		STACK(list[1], 1, 1ull << 60, 9, "malloc", "huge");
		strcpy(list[0]->comm, HOSTILE);
		list[1]->pid++;
		list[1]->dropped = 3;
		for (size_t i = 0; i < 2; i++) {
			assert_int_equal(profile__add_lost(list[i], "stacks_truncated", 1000), 0);
			assert_int_equal(
				profile__add_mapping(
					list[i],
					&(struct profile_mapping){1, 1ull << 62, 0, .perms = "r-xp",
								  .path = (char *)"/x/" HOSTILE}),
				0);
			end_profile(list[i]);
			add_inlined(list[i], i ? "huge" : HOSTILE, HOSTILE "inner");
		}
		update(view, 10, many ? 2 : 1, list);
		if (!many)
			profile__free(list[1]);
		top_view__say(view, true, "%s", HOSTILE);
		for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++) {
			for (size_t width = 1; width <= 200; width += width < 30 ? 1 : 7)
				for (size_t height = 1; height <= 60;
				     height += height < 20 ? 1 : 13) {
					struct top_screen screen = drawn(view, width, height);

					top_screen__clear(&screen);
				}
			if (*keys[k])
				top_view__press(view, *keys[k] == '\r' ? TOP_KEY_ENTER
								       : (unsigned char)*keys[k]);
			if (*keys[k] == '\r' && many)
				top_view__press(view, TOP_KEY_ENTER);
		}
		top_view__free(view);
	}
}

static void test_nothing(void **state)
{
	static const uint32_t keys[] = {TOP_KEY_UP,	   TOP_KEY_DOWN, TOP_KEY_PAGE_UP,
					TOP_KEY_PAGE_DOWN, TOP_KEY_HOME, TOP_KEY_END,
					TOP_KEY_ENTER,	   TOP_KEY_LEFT, TOP_KEY_ESCAPE};

	(void)state;
	for (int many = 0; many < 2; many++) {
		struct top_view *view = top_view__new(TOP_BY_LIVE, many);

		assert_true(shows(view, "no state yet"));
		for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
			assert_int_equal(top_view__press(view, keys[i]), TOP_NOTHING);
			assert_true(shows(view, "no state yet"));
		}
		assert_null(top_view__profile(view, 0));
		update(view, 1, 0, NULL);
		assert_null(top_view__profile(view, 0));
		shows(view, "");
		assert_int_equal(top_view__press(view, 'q'), TOP_QUIT);
		top_view__free(view);
	}
}

/* A hundred stacks. f000 is the largest. */
static struct profile *hundred(int grown)
{
	struct profile *p = new_profile(1);

	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%03d", i);
		STACK(p, 1, i == grown ? 5000 : 2000 - (uint64_t)i, 1, "malloc", name, "main");
	}
	end_profile(p);
	return p;
}

static void test_scrolling(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, false);

	(void)state;
	update_one(view, 10, hundred(-1));
	assert_selected(view, "f000");
	top_view__press(view, TOP_KEY_UP);
	top_view__press(view, TOP_KEY_PAGE_UP);
	assert_selected(view, "f000");
	press(view, "jjk");
	assert_selected(view, "f001");
	top_view__press(view, TOP_KEY_END);
	assert_selected(view, "f099");
	press(view, "j");
	top_view__press(view, TOP_KEY_PAGE_DOWN);
	top_view__press(view, TOP_KEY_DOWN);
	assert_selected(view, "f099");
	assert_true(shows(view, "100 of 100"));
	assert_false(shows(view, "f000"));
	top_view__press(view, TOP_KEY_PAGE_UP);
	assert_selected(view, "f073"); /* head, path, titles and keys take 4 of 30 lines */
	top_view__press(view, TOP_KEY_HOME);
	assert_selected(view, "f000");
	for (int i = 0; i < 10; i++)
		top_view__press(view, TOP_KEY_PAGE_DOWN);
	assert_selected(view, "f099");
	/* a smaller screen still shows the selected row, a larger one has no gap below it */
	for (size_t height = 60; height; height--) {
		struct top_screen screen = drawn(view, 80, height);
		int row = line_of(&screen, "f099");

		assert_true(row >= 0 && screen.lines[row].style == TOP_SELECTED);
		assert_true(height < 10 || row == (int)height - 2);
		top_screen__clear(&screen);
	}
	top_view__free(view);
}

/* Rows change places, and the same stack stays selected. If the first row is selected, the first
 * row stays selected. */
static void test_selection(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, false);

	(void)state;
	update_one(view, 10, hundred(-1));
	update_one(view, 11, hundred(50));
	assert_selected(view, "f050");
	press(view, "jj");
	assert_selected(view, "f001");
	update_one(view, 12, hundred(1));
	assert_selected(view, "f001");
	assert_true(shows(view, " 1 of 100"));
	update_one(view, 13, hundred(2));
	assert_selected(view, "f001");
	assert_true(shows(view, " 3 of 100"));
	update_one(view, 14, three()); /* the stack no longer exists */
	assert_selected(view, "maybe");
	top_view__free(view);
}

static void test_filter(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, false);

	(void)state;
	update_one(view, 10, hundred(-1));
	press(view, "/F03");
	assert_true(shows(view, "/F03_"));
	assert_true(shows(view, " 1 of 10"));
	assert_selected(view, "f030");
	press(view, "qj"); /* these keys are letters of the filter now */
	assert_true(shows(view, "nothing matches"));
	top_view__press(view, TOP_KEY_BACKSPACE);
	top_view__press(view, 0x4e2d);
	assert_true(shows(view, "/F03q\xe4\xb8\xad_"));
	for (uint32_t odd = 0; odd < 3; odd++) /* invalid or unprintable characters */
		top_view__press(view, (const uint32_t[]){0xd800, 0x1b, 0x202e}[odd]);
	assert_true(shows(view, "/F03q\xe4\xb8\xad_"));
	top_view__press(view, TOP_KEY_BACKSPACE);
	top_view__press(view, TOP_KEY_BACKSPACE);
	top_view__press(view, '9');
	top_view__press(view, TOP_KEY_ENTER);
	assert_selected(view, "f039");
	assert_true(shows(view, "with F039"));
	top_view__press(view, TOP_KEY_ESCAPE);
	assert_true(shows(view, " of 100"));
	press(view, "/");
	for (int i = 0; i < 1000; i++)
		top_view__press(view, 0x1f600);
	shows(view, "");
	for (int i = 0; i < 1001; i++)
		top_view__press(view, TOP_KEY_BACKSPACE);
	assert_true(shows(view, " of 100"));
	press(view, "x");
	top_view__press(view, TOP_KEY_ESCAPE);
	assert_true(shows(view, " of 100"));
	top_view__free(view);
}

static void test_one_stack(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, false);
	struct profile *p = new_profile(1);

	(void)state;
	STACK(p, 1, 1000, 3, "malloc", "make", "main");
	STACK(p, 1, 1000, 1, "malloc", "other", "main");
	assert_int_equal(profile__add_mapping(
				 p, &(struct profile_mapping){1, 1ull << 62, 0, .perms = "r-xp",
							      .path = (char *)"/opt/x/program"}),
			 0);
	end_profile(p);
	add_inlined(p, "make", "tiny");
	update_one(view, 10, p);
	top_view__press(view, TOP_KEY_ENTER);
	assert_true(shows(view, "2.9 KiB"));
	assert_true(shows(view, "in 3 objects"));
	assert_true(shows(view, "75.0 %"));
	assert_true(shows(view, "  tiny  inlined  b.h:3"));
	assert_true(shows(view, "  make  program  dir \"1\"/a.c:7"));
	assert_true(shows(view, "  main  program"));
	assert_order(view, "tiny", "make", "main");
	/* on this screen, no key sorts the frames, and no filter can be typed */
	press(view, "jjjjkg/");
	assert_true(shows(view, "  tiny  inlined  b.h:3"));
	top_view__press(view, TOP_KEY_LEFT);
	assert_selected(view, "make");
	top_view__press(view, TOP_KEY_LEFT); /* there is no list of processes */
	assert_selected(view, "make");
	top_view__press(view, TOP_KEY_RIGHT);
	update_one(view, 20, three());
	assert_true(shows(view, "nothing any more"));
	top_view__free(view);
}

/* On a small screen, frames can be scrolled until the last one is visible, and no further. */
static void test_scrolling_a_stack(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, false);
	struct profile *p = new_profile(1);
	const char *names[60];
	char texts[60][16];
	struct top_screen screen;

	(void)state;
	for (int i = 0; i < 60; i++) {
		snprintf(texts[i], sizeof(texts[i]), "g%03d", i);
		names[i] = texts[i];
	}
	add_stack(p, names, 60, 1, 100, 1);
	end_profile(p);
	update_one(view, 10, p);
	top_view__press(view, TOP_KEY_ENTER);
	screen = drawn(view, 40, 10);
	assert_int_equal(line_of(&screen, "g059"), -1);
	top_screen__clear(&screen);
	for (int i = 0; i < 5; i++) {
		top_view__press(view, i ? TOP_KEY_DOWN : TOP_KEY_END);
		screen = drawn(view, 40, 10);
		assert_int_equal(line_of(&screen, "g059"), 8);
		top_screen__clear(&screen);
	}
	press(view, "k");
	screen = drawn(view, 40, 10);
	assert_int_equal(line_of(&screen, "g058"), 8);
	top_screen__clear(&screen);
	top_view__press(view, TOP_KEY_HOME);
	screen = drawn(view, 40, 10);
	assert_true(line_of(&screen, "live:") >= 0);
	top_screen__clear(&screen);
	top_view__free(view);
}

static struct profile *process(pid_t pid, const char *comm, const char *function, int n)
{
	struct profile *p = new_profile(1);

	p->pid = pid;
	strcpy(p->comm, comm);
	STACK(p, 1, 1000, n, "malloc", function, "main");
	assert_int_equal(profile__add_lost(p, "stacks_truncated", 2), 0);
	assert_int_equal(profile_run__note_lost(p->run, "map_records_lost", 7), 0);
	end_profile(p);
	return p;
}

/* If blocks were freed unseen, live memory is only an upper bound, and the screen says so. */
static void test_contradictions(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, true);
	struct profile *p = process(11, "small", "f", 1);

	(void)state;
	assert_int_equal(profile__add_lost(p, "freed_unobserved", 1234), 0);
	update(view, 10, 2, (struct profile *[]){p, process(12, "large", "g", 9)});
	assert_true(shows(view, "pid 11: note: 1,234 blocks were found dead"));
	assert_true(shows(view, "<= 1000 B"));
	assert_false(shows(view, "pid 12: "));
	top_view__free(view);
}

static void test_processes(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, true);

	(void)state;
	update(view, 10, 3,
	       (struct profile *[]){process(11, "small", "f", 1), process(12, "large", "g", 9),
				    process(13, "middle", "h", 5)});
	assert_order(view, "large", "middle", "small");
	assert_true(shows(view, "g < main"));
	/* a loss of the whole run counts once, even if several profiles have it */
	assert_true(shows(view, "stacks_truncated 6"));
	assert_true(shows(view, "map_records_lost 7"));
	assert_int_equal(top_view__profile(view, 2)->pid, 13);
	assert_null(top_view__profile(view, 3));
	assert_false(shows(view, "note: "));
	press(view, "j");
	assert_selected(view, "middle");
	top_view__press(view, TOP_KEY_ENTER);
	assert_true(shows(view, "pid 13 (middle)"));
	assert_selected(view, "h < main");
	assert_true(shows(view, "stacks_truncated 2"));
	assert_int_equal(top_view__profile(view, 0)->pid, 13);
	assert_null(top_view__profile(view, 1));
	/* a process that ends while it is shown stays on the screen */
	for (int i = 0; i < 3; i++) {
		update(view, 11 + i, 1, (struct profile *[]){process(12, "large", "g", 9)});
		assert_true(shows(view, "pid 13 (middle), ENDED"));
		assert_selected(view, "h < main");
	}
	top_view__press(view, TOP_KEY_LEFT);
	update(view, 15, 1, (struct profile *[]){process(12, "large", "g", 9)});
	assert_false(shows(view, "middle"));
	assert_selected(view, "large");
	/* filter by a function in a process's stacks, or by the process's name */
	update(view, 16, 2,
	       (struct profile *[]){process(11, "small", "f1", 1), process(12, "large", "g", 9)});
	press(view, "/f1");
	assert_false(shows(view, "large"));
	assert_selected(view, "small");
	top_view__press(view, TOP_KEY_ESCAPE);
	press(view, "/larg");
	assert_false(shows(view, "small"));
	top_view__free(view);
}

static void test_head(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, false);
	struct top_status status = {.elapsed_s = 61,
				    .overhead_pct = {true, 1.25},
				    .running = 1,
				    .alloc_per_s = 1000,
				    .free_per_s = 900};
	static const char *const words[] = {"61 s",	    "live ~60.0 MiB growth +2.0 KiB/s",
					    "cost ~1.2 %",  "continuous",
					    "alloc 1000/s", "free 900/s",
					    "samples 123"};

	struct profile *profile = three();

	(void)state;
	profile->growth.attributed.bytes_per_s = 2048;
	profile->samples = 123;
	update_one(view, 60, profile);
	top_view__set_status(view, &status);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		assert_true(shows(view, words[i]));
	assert_false(shows(view, "ago"));
	status.cpu_cores = 0.25;
	top_view__set_status(view, &status);
	assert_true(shows(view, "cost ~0.31 % of a core"));
	status.windowed = 1;
	status.elapsed_s = 65;
	top_view__set_status(view, &status);
	assert_true(shows(view, "in windows"));
	assert_true(shows(view, "shown: 5 s ago"));
	press(view, "p");
	assert_true(top_view__paused(view));
	assert_true(shows(view, "PAUSED"));
	assert_int_equal(top_view__press(view, 'p'), TOP_UNPAUSE);
	assert_false(shows(view, "PAUSED"));
	status.ended = true;
	top_view__set_status(view, &status);
	assert_true(shows(view, "ENDED"));
	top_view__say(view, false, "written: %s", "a.heap");
	assert_true(shows(view, "written: a.heap"));
	assert_int_equal(top_view__press(view, 'w'), TOP_WRITE);
	assert_false(shows(view, "written"));
	press(view, "?");
	assert_true(shows(view, "allocation rate"));
	assert_int_equal(top_view__press(view, 'x'), TOP_NOTHING);
	assert_false(shows(view, "Ctrl-C"));
	top_view__free(view);
}

/* The head shows the sum of the rows. Memory that an allocator maps for a heap must count only
 * once. */
static void test_head_of_many(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, true);
	struct profile *regions = process(1, "one", "mapper", 700);
	const struct top_status status = {.elapsed_s = 20, .running = 2};

	(void)state;
	regions->what = PROFILE_REGIONS;
	update(view, 20, 3,
	       (struct profile *[]){process(1, "one", "f", 1024), process(2, "two", "g", 2048),
				    regions});
	top_view__set_status(view, &status);
	assert_true(shows(view, "live ~2.9 MiB"));
	assert_false(shows(view, "cost"));
	top_view__free(view);
}

/* A process that could not be traced does not look as if it held nothing. */
static void test_not_traced(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_LIVE, true);
	struct profile *p = new_profile(1);

	(void)state;
	p->pid = 7;
	strcpy(p->comm, "strange");
	p->not_traced = "of stone";
	end_profile(p);
	update(view, 20, 2, (struct profile *[]){process(1, "one", "f", 1024), p});
	assert_true(shows(view, "(not traced: of stone)"));
	assert_false(shows(view, " 0 B"));
	top_view__free(view);
}

/* In a windowed run growth comes only from windows. Memory that is estimated to be live may be
 * older than the run. */
static void test_growth_that_is_not_known(void **state)
{
	struct top_view *view = top_view__new(TOP_BY_GROWTH, false);
	struct profile *p = process(1, "one", "holder", 1000);

	(void)state;
	p->duration_s = 10;
	update_one(view, 10, p);
	assert_true(shows(view, " 97.7 KiB ")); /* 1,000,000 bytes in 10 s */
	p = process(1, "one", "holder", 1000);
	p->duration_s = 10;
	p->windows.n = 3;
	update_one(view, 10, p);
	assert_true(shows(view, " ? "));
	top_view__press(view, TOP_KEY_ENTER);
	assert_true(shows(view, "growth:  not known yet"));
	top_view__free(view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_runtime),
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_rate_interval),
		cmocka_unit_test(test_interval_of_nothing),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_all_sizes),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_scrolling),
		cmocka_unit_test(test_selection),
		cmocka_unit_test(test_filter),
		cmocka_unit_test(test_one_stack),
		cmocka_unit_test(test_scrolling_a_stack),
		cmocka_unit_test(test_contradictions),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_head_of_many),
		cmocka_unit_test(test_growth_that_is_not_known),
		cmocka_unit_test(test_not_traced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
