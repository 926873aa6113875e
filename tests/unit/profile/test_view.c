// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "profile/view.h"

#define MALLOC 0x701001

/* Three stacks. In the first one, main calls f, a function of the program. Two threads of a pool
 * and one other thread allocate there. The second stack is of g, a function of a library. The third
 * one has no known frame. */
static struct profile *program(void)
{
	static const uint64_t stacks[2][3] = {{MALLOC, 0x401001, 0x402001},
					      {MALLOC, 0x501001, 0x402001}};
	static const struct profile_mapping mappings[] = {
		{.start = 0x400000,
		 .end = 0x500000,
		 .perms = "r-xp",
		 .path = (char *)"/usr/bin/prog"},
		{.start = 0x500000,
		 .end = 0x600000,
		 .perms = "r-xp",
		 .path = (char *)"/usr/lib/libg.so.1"},
		{.start = 0x700000,
		 .end = 0x800000,
		 .perms = "r-xp",
		 .path = (char *)"/usr/lib/libc.so.6"},
	};
	static const char *const names[] = {"pool-7", "pool-12", "h2o"};
	struct profile *p = profile__new();
	size_t sites[3], threads[3];

	assert_non_null(p);
	p->interval_bytes = 1;
	p->pid = 4711;
	strcpy(p->comm, "prog");
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(profile__add_mapping(p, &mappings[i]), 0);
		assert_int_equal(profile__add_thread(p, 10 + (uint32_t)i, names[i], &threads[i]),
				 0);
		assert_int_equal(
			profile__add_site(p, stacks[i % 2], i < 2 ? 3 : 0, false, &sites[i]), 0);
	}
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(profile__add_live(p, sites[0], threads[i], 100 << i), 0);
	assert_int_equal(profile__add_live(p, sites[1], threads[0], 50), 0);
	assert_int_equal(profile__add_live(p, sites[2], threads[1], 7), 0);
	for (size_t i = 0; i < 3; i++) {
		p->sites[sites[i]].freed_objects = 2;
		p->sites[sites[i]].freed_bytes = 1000 * (double)(i + 1);
		p->sites[sites[i]].alloc_objects = p->sites[sites[i]].live.objects + 2;
		p->sites[sites[i]].alloc_bytes =
			p->sites[sites[i]].live.bytes + p->sites[sites[i]].freed_bytes;
		p->sites[sites[i]].growth.bytes_per_s = 10.0 - 10 * (double)i; /* 10, 0, -10 */
	}
	assert_int_equal(profile__sort(p), 0);
	for (size_t i = 0; i < p->n_locations; i++) {
		struct profile_location *l = &p->locations[i];
		const char *name = l->addr == MALLOC	 ? "malloc"
				   : l->addr == 0x401001 ? "f"
				   : l->addr == 0x501001 ? "g"
							 : "main";

		assert_int_equal(profile_location__set_name(l, name), 0);
		l->reason = UNRESOLVED_NAMED;
	}
	return p;
}

/* "root;caller;leaf BYTES" of each stack, in the view's order. */
static char *text_of(const struct profile *profile)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	for (size_t i = 0; i < profile->n_sites; i++) {
		const struct profile_site *site = &profile->sites[i];

		for (uint32_t k = site->n_locations; k--;)
			fprintf(out, "%s%s", profile__location(profile, site, k)->frames[0].name,
				k ? ";" : "");
		fprintf(out, " %.0f\n", site->live.bytes);
	}
	fclose(out);
	return text;
}

static void assert_view(const struct profile *profile, struct view_options options,
			const char *expected)
{
	struct profile_view view;
	char *text;

	assert_null(view_options__refusal(&options, profile));
	assert_int_equal(profile_view__init(&view, profile, &options), 0);
	assert_int_equal(view.profile.weight, options.weight);
	text = text_of(&view.profile);
	assert_string_equal(text, expected);
	free(text);
	profile_view__clear(&view);
}

static void weights_take_the_place_of_live_bytes(void **state)
{
	struct profile *p = program();

	(void)state;
	assert_view(p, (struct view_options){}, "main;f;malloc 700\nmain;g;malloc 50\n 7\n");
	assert_view(p, (struct view_options){.weight = WEIGHT_OBJECTS},
		    "main;f;malloc 3\nmain;g;malloc 1\n 1\n");
	assert_view(p, (struct view_options){.weight = WEIGHT_ALLOCATED},
		    "main;f;malloc 1700\nmain;g;malloc 2050\n 3007\n");
	assert_view(p, (struct view_options){.weight = WEIGHT_FREED},
		    "main;f;malloc 1000\nmain;g;malloc 2000\n 3000\n");
	p->growth.stacks_known = true;
	assert_view(p, (struct view_options){.weight = WEIGHT_GROWTH},
		    "main;f;malloc 10\nmain;g;malloc 0\n 0\n");
	assert_true(profile__live(p).bytes == 757); /* the profile is unchanged */
	profile__free(p);
}

static void roots_tell_whose_it_is(void **state)
{
	static const char rules[] = "work/data function ^f$\n";
	struct profile *p = program();
	struct modules *modules = NULL;
	struct error err = {};

	(void)state;
	assert_int_equal(modules__parse("rules", rules, strlen(rules), &modules, &err), 0);
	assert_view(p, (struct view_options){.root = ROOT_THREAD},
		    "pool-#;main;f;malloc 100\npool-#;main;f;malloc 200\nh2o;main;f;malloc 400\n"
		    "pool-#;main;g;malloc 50\npool-#;[no stack] 7\n");
	assert_view(p, (struct view_options){WEIGHT_OBJECTS, ROOT_THREAD, NULL},
		    "pool-#;main;f;malloc 1\npool-#;main;f;malloc 1\nh2o;main;f;malloc 1\n"
		    "pool-#;main;g;malloc 1\npool-#;[no stack] 1\n");
	assert_view(p, (struct view_options){.root = ROOT_PROCESS},
		    "prog (4711);main;f;malloc 700\nprog (4711);main;g;malloc 50\nprog (4711);[no "
		    "stack] 7\n");
	assert_view(p, (struct view_options){.root = ROOT_MODULE},
		    "prog;main;f;malloc 700\nlibg.so.1;main;g;malloc 50\n(no file);[no stack] 7\n");
	assert_view(
		p, (struct view_options){WEIGHT_FREED, ROOT_MODULE, modules},
		"work/data;main;f;malloc 1000\n(no rule);main;g;malloc 2000\n(no rule);[no stack]"
		" 3000\n");
	modules__free(modules);
	profile__free(p);
}

/* The threads of a stack hold less than the stack, as in files without threads. */
static void what_is_nobodys_is_told(void **state)
{
	struct profile *p = program();

	(void)state;
	p->sites[0].threads[0].bytes = 40;
	p->sites[1].n_threads = 0;
	assert_view(p, (struct view_options){.root = ROOT_THREAD},
		    "pool-#;main;f;malloc 40\npool-#;main;f;malloc 200\nh2o;main;f;malloc 400\n"
		    "(thread not known);main;f;malloc 60\n(thread not known);main;g;malloc "
		    "50\npool-#;[no stack] 7\n");
	profile__free(p);
}

/* A number in a thread's name becomes #, unless there are letters on both sides of it. */
static void pools_are_folded(void **state)
{
	static const char *const names[][2] = {
		{"worker-1", "worker-#"},
		{"kworker/3:1H", "kworker/#:#H"},
		{"C2 Compiler", "C# Compiler"},
		{"h2o", "h2o"},
		{"123", "#"},
		{"", "(thread without a name)"},
		{"x86_64-7", "x#_#-#"},
		{"\xc3\xa4"
		 "1\xc3\xa4",
		 "\xc3\xa4"
		 "1\xc3\xa4"},
	};
	size_t n = sizeof(names) / sizeof(names[0]);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		struct profile *p = profile__new();
		const uint64_t stack[] = {MALLOC};
		size_t site, thread;
		char expected[64];

		p->interval_bytes = 1;
		assert_int_equal(profile__add_site(p, stack, 1, false, &site), 0);
		assert_int_equal(profile__add_thread(p, 1, names[i][0], &thread), 0);
		assert_int_equal(profile__add_live(p, site, thread, 5), 0);
		assert_int_equal(profile__sort(p), 0);
		assert_int_equal(profile_location__set_name(&p->locations[0], "malloc"), 0);
		snprintf(expected, sizeof(expected), "%s;malloc 5\n", names[i][1]);
		assert_view(p, (struct view_options){.root = ROOT_THREAD}, expected);
		profile__free(p);
	}
}

/* An option that the profile refuses is dropped, and the other options stay. */
static void what_is_refused_is_dropped(void **state)
{
	struct view_options relaxed = {.weight = WEIGHT_GROWTH, .root = ROOT_PROCESS};
	struct profile *p = program(), *nothing = profile__new();

	(void)state;
	p->pid = 5;
	assert_non_null(strstr(view_options__relax(&relaxed, p), "no growth"));
	assert_true(relaxed.weight == WEIGHT_LIVE && relaxed.root == ROOT_PROCESS);
	assert_null(view_options__relax(&relaxed, p));
	relaxed = (struct view_options){.root = ROOT_THREAD};
	assert_string_equal(view_options__relax(&relaxed, nothing), "it does not record threads");
	assert_false(view_options__any(&relaxed));
	relaxed = (struct view_options){.weight = WEIGHT_PEAK, .root = ROOT_PROCESS};
	assert_non_null(strstr(view_options__relax(&relaxed, nothing), "at the peak"));
	assert_false(view_options__any(&relaxed));
	relaxed = (struct view_options){.weight = WEIGHT_ALLOCATED, .root = ROOT_PROCESS};
	assert_non_null(strstr(view_options__relax(&relaxed, nothing), "of which process"));
	assert_true(relaxed.weight == WEIGHT_ALLOCATED && relaxed.root == ROOT_NONE);
	profile__free(p);
	profile__free(nothing);
}

static void what_is_not_known_is_refused(void **state)
{
	const struct view_options freed_by_thread = {WEIGHT_FREED, ROOT_THREAD, NULL},
				  objects = {.weight = WEIGHT_OBJECTS},
				  freed = {.weight = WEIGHT_FREED},
				  growth = {.weight = WEIGHT_GROWTH},
				  thread = {.root = ROOT_THREAD}, process = {.root = ROOT_PROCESS};
	struct profile *p = program(), *nothing = profile__new();

	(void)state;
	assert_non_null(view_options__contradiction(&freed_by_thread));
	assert_null(view_options__contradiction(&thread));
	assert_string_equal(
		view_options__refusal(&freed_by_thread, p),
		"only what is live is known by thread: which thread's memory was freed is not "
		"known");
	assert_non_null(strstr(view_options__refusal(&growth, p), "no growth"));
	p->growth.stacks_known = true;
	assert_null(view_options__refusal(&growth, p));
	p->sites[0].growth.bytes_per_s = NAN;
	assert_string_equal(view_options__refusal(&growth, p), "none of its stacks grows");
	p->no_objects = p->no_allocated = true;
	assert_string_equal(view_options__refusal(&objects, p), "it does not record objects");
	assert_non_null(strstr(view_options__refusal(&freed, p), "only what is live"));
	assert_string_equal(view_options__refusal(&thread, nothing), "it does not record threads");
	assert_non_null(view_options__refusal(&process, nothing));
	profile__free(nothing);
	profile__free(p);
}

/* A short file can have one stack and many threads. A view that would be too long is refused. */
static void what_would_be_too_long_is_refused(void **state)
{
	const struct view_options thread = {.root = ROOT_THREAD}, none = {};
	struct profile *p = profile__new();
	struct profile_view view;
	uint64_t addrs[16384];
	size_t site, index;

	(void)state;
	p->interval_bytes = 1;
	for (size_t i = 0; i < 16384; i++)
		addrs[i] = i + 1;
	assert_int_equal(profile__add_site(p, addrs, 16384, false, &site), 0);
	for (uint32_t i = 1; i <= 4096; i++) {
		assert_int_equal(profile__add_thread(p, i, "t", &index), 0);
		assert_int_equal(profile__add_live(p, site, index, 1), 0);
	}
	assert_int_equal(profile__sort(p), 0);
	for (size_t i = 0; i < p->n_locations; i++)
		assert_int_equal(profile_location__set_name(&p->locations[i], "f"), 0);
	assert_int_equal(profile_view__init(&view, p, &thread), -EFBIG);
	profile_view__clear(&view);
	assert_int_equal(profile_view__init(&view, p, &none), 0);
	profile_view__clear(&view);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weights_take_the_place_of_live_bytes),
		cmocka_unit_test(roots_tell_whose_it_is),
		cmocka_unit_test(what_is_nobodys_is_told),
		cmocka_unit_test(pools_are_folded),
		cmocka_unit_test(what_is_refused_is_dropped),
		cmocka_unit_test(what_is_not_known_is_refused),
		cmocka_unit_test(what_would_be_too_long_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
