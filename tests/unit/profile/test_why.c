// SPDX-License-Identifier: BSD-2-Clause
#include "profile/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct why_step step(uint64_t size, uint64_t off, bool chain, const char *type)
{
	return (struct why_step){.size = size, .off = off, .chain = chain, .type = type};
}

static struct why_row row(const char *root, uint64_t root_off, struct why_step first, bool cut,
			  uint64_t example)
{
	struct why_row made = {.root_kind = "global",
			       .root = strdup(root),
			       .root_off = root_off,
			       .steps = calloc(2, sizeof(*made.steps)),
			       .n_steps = 2,
			       .cut = cut,
			       .blocks = 1,
			       .bytes = 24,
			       .example = example};

	made.steps[0] = first;
	made.steps[1] = (struct why_step){.size = 24, .off = WHY_UNKNOWN};
	return made;
}

static void test_rows_that_differ_in_offsets_are_one(void **state)
{
	struct why_report report = {.n_rows = 6, .rows = calloc(6, sizeof(*report.rows))};

	(void)state;
	report.rows[0] = row("cache", 8, step(100, 0, false, NULL), false, 70);
	report.rows[1] = row("index", 8, step(100, 0, false, NULL), false, 60);
	report.rows[2] = row("cache", 16, step(100, 0, false, NULL), false, 50);
	report.rows[3] = row("cache", 8, step(100, 8, false, NULL), false, 40);
	report.rows[4] = row("cache", 8, step(100, 0, true, NULL), false, 30);
	report.rows[5] = row("cache", 8, step(100, 0, false, NULL), true, 20);
	why_report__merge(&report);
	assert_int_equal(report.n_rows, 4);
	assert_string_equal(report.rows[0].root, "cache");
	assert_int_equal(report.rows[0].blocks, 3);
	assert_int_equal(report.rows[0].bytes, 72);
	assert_int_equal(report.rows[0].example, 40);
	assert_int_equal(report.rows[0].root_off, WHY_UNKNOWN);
	assert_int_equal(report.rows[0].steps[0].off, WHY_UNKNOWN);
	for (size_t i = 1; i < 4; i++) {
		assert_int_equal(report.rows[i].blocks, 1);
		assert_int_equal(report.rows[i].root_off, 8);
		assert_int_equal(report.rows[i].steps[0].off, 0);
	}
	why_report__clear(&report);
	why_report__merge(&report);
}

static void test_text_of_a_way(void **state)
{
	struct why_row way = row("cache (leaky)", 0, step(100, 16, true, NULL), true, 70);
	char *text = why_row__text(&way);

	(void)state;
	assert_string_equal(text, "global cache (leaky) -> chain of [100-byte block] +0x10 -> "
				  "... -> [24-byte block]");
	free(text);
	way.root_off = 8;
	way.cut = false;
	text = why_row__text(&way);
	assert_string_equal(text, "global cache (leaky) +0x8 -> chain of [100-byte block] +0x10 "
				  "-> [24-byte block]");
	free(text);
	way.steps[1].type = "shop::Item";
	text = why_row__text(&way);
	assert_string_equal(text, "global cache (leaky) +0x8 -> chain of [100-byte block] +0x10 "
				  "-> [shop::Item, 24 bytes]");
	free(text);
	way.steps[0].maker = "table_grow";
	way.steps[1].maker = "add";
	text = why_row__text(&way);
	assert_string_equal(text, "global cache (leaky) +0x8 -> chain of [100-byte block from "
				  "table_grow] +0x10 -> [shop::Item, 24 bytes from add]");
	free(text);
	free(way.root);
	free(way.steps);
}

static void test_rows_that_differ_in_classes_are_two(void **state)
{
	struct why_report report = {.n_rows = 3, .rows = calloc(3, sizeof(*report.rows))};

	(void)state;
	for (int i = 0; i < 3; i++)
		report.rows[i] = row("cache", 8, step(100, 0, false, "A"), false, 70);
	report.rows[1].steps[0].type = NULL;
	why_report__merge(&report);
	assert_int_equal(report.n_rows, 2);
	assert_string_equal(report.rows[0].steps[0].type, "A");
	assert_int_equal(report.rows[0].blocks, 2);
	assert_null(report.rows[1].steps[0].type);
	why_report__clear(&report);
}

/* Rows that differ only in their makers are merged into one row. The merged row has a maker if all
 * known makers of the rows are equal. */
static void test_makers_of_merged_rows(void **state)
{
	static const char *const makers[][3] = {{NULL, "grow", "grow"},
						{"grow", "other", NULL},
						{NULL, NULL, NULL},
						{"a", "b", "a"}};
	static const uint64_t known[] = {2, 2, 0, 3};
	static const char *const merged[] = {"grow", NULL, NULL, NULL};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct why_report report = {.n_rows = 3, .rows = calloc(3, sizeof(*report.rows))};

		for (int k = 0; k < 3; k++) {
			report.rows[k] = row("cache", 8, step(100, 0, false, NULL), false, 70);
			report.rows[k].steps[0].maker = makers[i][k];
			report.rows[k].steps[0].made = makers[i][k] ? 1 : 0;
		}
		why_report__merge(&report);
		assert_int_equal(report.n_rows, 1);
		if (merged[i])
			assert_string_equal(report.rows[0].steps[0].maker, merged[i]);
		else
			assert_null(report.rows[0].steps[0].maker);
		assert_int_equal(report.rows[0].steps[0].made, known[i]);
		why_report__clear(&report);
	}
}

/* "root;...;leaf" of a site. */
static void path_of(const struct profile *p, const struct profile_site *site, char *to, size_t size)
{
	*to = '\0';
	for (uint32_t i = site->n_locations; i; i--) {
		const struct profile_location *l = &p->locations[site->locations[i - 1]];

		assert_int_equal(l->n_frames, 1);
		snprintf(to + strlen(to), size - strlen(to), "%s%s", l->frames[0].name,
			 i > 1 ? ";" : "");
	}
}

static void test_paths_as_stacks(void **state)
{
	struct why_leak leak = {.size = 72, .leaks = 2, .blocks = 5, .bytes = 500};
	struct why_report report = {.pid = 7, .comm = "made", .n_rows = 2, .held_blocks = 8};
	struct profile *p;
	char path[256];

	(void)state;
	report.rows = calloc(2, sizeof(*report.rows));
	report.rows[0] = row("cache (made)", 0, step(100, 16, true, NULL), true, 70);
	report.rows[0].blocks = 3;
	report.rows[0].bytes = 72;
	report.rows[1] = row("index (made)", 8, step(100, 0, false, NULL), false, 60);
	report.followed = 4; /* every second block */
	report.leaks = &leak;
	report.n_leaks = 1;
	report.losses[WHY_LOSS_RESYNCS] = 3;
	assert_int_equal(why_report__paths(&report, &p), 0);
	assert_int_equal(p->n_sites, 3);
	path_of(p, &p->sites[0], path, sizeof(path));
	assert_string_equal(path, "lost: no pointer is left;[72-byte block]");
	assert_true(p->sites[0].live.bytes == 500 && p->sites[0].live.objects == 5);
	assert_true(p->sites[0].live.variance == 0);
	path_of(p, &p->sites[1], path, sizeof(path));
	assert_string_equal(path, "global cache (made);chain of [100-byte block] +0x10;...;"
				  "[24-byte block]");
	assert_true(p->sites[1].live.bytes == 144 && p->sites[1].live.objects == 6);
	assert_true(p->sites[1].live.variance > 0);
	path_of(p, &p->sites[2], path, sizeof(path));
	assert_string_equal(path, "global index (made);[100-byte block] +0x0;[24-byte block]");
	assert_true(p->drawn == DRAWN_PATHS && p->pid == 7);
	assert_int_equal(profile__lost_count(p, "heap_resyncs"), 3);
	profile__free(p);
	report.leaks = NULL;
	report.n_leaks = 0;
	why_report__clear(&report);
}

static void test_names_of_losses(void **state)
{
	(void)state;
	for (int i = 0; i < WHY_N_LOSSES; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(why_loss__name(i), why_loss__name(k));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_that_differ_in_offsets_are_one),
		cmocka_unit_test(test_text_of_a_way),
		cmocka_unit_test(test_rows_that_differ_in_classes_are_two),
		cmocka_unit_test(test_makers_of_merged_rows),
		cmocka_unit_test(test_paths_as_stacks),
		cmocka_unit_test(test_names_of_losses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
