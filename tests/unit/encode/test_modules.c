// SPDX-License-Identifier: BSD-2-Clause
/* Components: their rules and sums (profile/modules.h), and their table. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/encode/fixture.h"

static struct modules *modules;

static struct modules *rules(const char *text)
{
	struct error err = {};
	struct modules *m = NULL;

	if (modules__parse("rules", text, strlen(text), &m, &err))
		fail_msg("%s", err.text);
	return m;
}

static const struct module_sum *sum_of(const struct module_sums *all, const char *path)
{
	for (size_t i = 0; i < all->n; i++)
		if (path ? all->sums[i].path && !strcmp(all->sums[i].path, path)
			 : !all->sums[i].path)
			return &all->sums[i];
	fail_msg("no component %s", path ? path : "(remainder)");
	return NULL;
}

/* Four stacks, one for each outcome of the rules in `tree`: 1 MiB of keys; 40 KiB of network
 * buffers; 500 bytes of commands; 7,000 bytes that no rule matches. */
static struct profile *server(void)
{
	struct profile *profile = new_profile(1);

	STACK(profile, 1, 1024, 1024, "malloc", "zmalloc", "dictAdd", "setCommand", "readQuery",
	      "main");
	STACK(profile, 1, 4096, 10, "malloc", "zmalloc", "sdsnew", "readQuery", "main");
	STACK(profile, 1, 100, 5, "malloc", "setCommand", "readQuery", "main");
	STACK(profile, 1, 7000, 1, "malloc", "loadConfig", "main");
	end_profile(profile);
	return profile;
}

static const char tree[] = "# who asks for it\n"
			   "\n"
			   "network        function ^readQuery$\n"
			   "data/commands  function Command$\r\n"
			   "data/keys      function ^dict\n"
			   "\tdata/keys\tfunction\t^zset  \n";

static void a_stack_is_its_innermost_rules(void **state)
{
	struct profile *profile = server();
	struct module_sums all = {};
	double whole = 0;

	(void)state;
	modules = rules(tree);
	assert_int_equal(modules__sum(modules, profile, &all), 0);
	assert_int_equal(all.n, 5); /* network, data, commands, keys, the remainder */
	assert_true(sum_of(&all, "data/keys")->live.bytes == 1024 * 1024);
	assert_true(sum_of(&all, "data/commands")->live.bytes == 500);
	assert_true(sum_of(&all, "data")->live.bytes == 1024 * 1024 + 500);
	assert_true(sum_of(&all, "network")->live.bytes == 40960);
	assert_true(sum_of(&all, NULL)->live.bytes == 7000);
	assert_int_equal(sum_of(&all, "data")->stacks, 2);
	for (size_t i = 0; i < all.n; i++)
		whole += all.sums[i].depth ? 0 : all.sums[i].live.bytes;
	assert_true(whole == profile__live(profile).bytes);
	/* in the order of the tree, where a component's parts follow the component */
	assert_string_equal(all.sums[1].path, "data");
	assert_string_equal(all.sums[2].part, "commands");
	assert_int_equal(all.sums[2].depth, 1);
	assert_null(all.sums[4].path);
	module_sums__clear(&all);
	modules__free(modules);
	profile__free(profile);
}

/* Of two rules for one frame, the first matches. An inlined function comes before its caller. Rules
 * match files and source files. Frames of the allocator match no rule at the leaf, but match rules
 * elsewhere. */
static void what_rules_match(void **state)
{
	struct profile *profile = new_profile(1);
	const struct profile_mapping lib = {
		.start = 0, .end = UINT64_MAX, .perms = "r-xp", .path = "/usr/lib/libpool.so.1"};
	struct module_sums all = {};

	(void)state;
	STACK(profile, 1, 10, 1, "malloc", "both", "main");
	STACK(profile, 1, 20, 1, "malloc", "outer", "main");
	STACK(profile, 1, 30, 1, "malloc", "x", "malloc", "y");
	end_profile(profile);
	add_inlined(profile, "outer", "inner");
	assert_int_equal(profile__add_mapping(profile, &lib), 0);
	assert_int_equal(profile__sort(profile), 0);

	modules = rules(
		"a function both\nb function bo\nc function outer\nd function inner\ne function "
		"malloc\n");
	assert_int_equal(modules__sum(modules, profile, &all), 0);
	assert_true(sum_of(&all, "a")->live.bytes == 10 && sum_of(&all, "b")->live.bytes == 0);
	assert_true(sum_of(&all, "d")->live.bytes == 20 && sum_of(&all, "c")->live.bytes == 0);
	assert_true(sum_of(&all, "e")->live.bytes == 30);
	module_sums__clear(&all);
	modules__free(modules);

	modules = rules("inlined file ^b\\.h$\npool module ^libpool\\.so\n");
	assert_int_equal(modules__sum(modules, profile, &all), 0);
	assert_true(sum_of(&all, "inlined")->live.bytes == 20);
	assert_true(sum_of(&all, "pool")->live.bytes == 40); /* here any frame matches */
	module_sums__clear(&all);
	modules__free(modules);
	profile__free(profile);
}

static void growth_adds_up_with_its_error(void **state)
{
	struct profile *profile = server();
	struct module_sums all = {};

	(void)state;
	profile->growth.stacks_known = true;
	profile->sites[0].growth = (struct growth){100, 97, 104};
	profile->sites[1].growth = (struct growth){10, 6, 13};
	modules = rules("all function main\n");
	assert_int_equal(modules__sum(modules, profile, &all), 0);
	assert_true(all.sums[0].growth.total.bytes_per_s == 110);
	assert_true(fabs(all.sums[0].growth.total.low - 105) <
		    1e-9); /* error: sqrt(3^2 + 4^2) = 5 */
	assert_true(fabs(all.sums[0].growth.total.high - 115) <
		    1e-9); /* error: sqrt(4^2 + 3^2) = 5 */
	module_sums__clear(&all);
	modules__free(modules);
	profile__free(profile);
}

static void wrong_rules_are_told_with_their_line(void **state)
{
	static const struct {
		const char *text, *why;
	} wrong[] = {
		{"", "rules: there is no rule in it"},
		{"# nothing\n\n", "rules: there is no rule in it"},
		{"a function f\nb\n",
		 "rules, line 2: a rule is COMPONENT function|module|file REGEX"},
		{"a function", "rules, line 1: a rule is COMPONENT function|module|file REGEX"},
		{"a symbol f",
		 "rules, line 1: rules match a function, module or file, not a 'symbol'"},
		{"a//b function f",
		 "rules, line 1: 'a//b' is not a component: names divided by single '/', "
		 "at most 16"},
		{"/a function f",
		 "rules, line 1: '/a' is not a component: names divided by single '/', at most 16"},
		{"\n\na/ function f",
		 "rules, line 3: 'a/' is not a component: names divided by single '/', at most 16"},
		{"1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/h function f",
		 "rules, line 1: '1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/h' is not a component: names "
		 "divided by single '/', "
		 "at most 16"},
	};
	struct error err = {};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		err = (struct error){};
		assert_int_equal(modules__parse("rules", wrong[i].text, strlen(wrong[i].text),
						&modules, &err),
				 -EINVAL);
		assert_string_equal(err.text, wrong[i].why);
	}
	err = (struct error){};
	assert_int_equal(modules__parse("rules", "a function (", 12, &modules, &err), -EINVAL);
	assert_non_null(strstr(err.text, "rules, line 1: '(' is not a regular expression: "));
	err = (struct error){};
	assert_int_equal(modules__parse("rules", "a\0b function x", 14, &modules, &err), -EINVAL);
	assert_non_null(strstr(err.text, "NUL"));
}

static int encode(const struct profile *profile, struct sink *sink)
{
	return encode_modules(profile, modules, true, sink);
}

/* 1,048,576 + 500 + 40,960 + 7,000 = 1,097,036 bytes. */
static void a_table_is_a_tree(void **state)
{
	static const char expected[] =
		"memtrace: pid 4711 (leaky), 10.0 s continuous, exact: 1,040 of 1,040 allocations"
		" recorded\n"
		"live heap: 1.0 MiB in 1,040 objects, exact\n"
		"\n"
		"COMPONENT       LIVE  95 % INTERVAL  OBJECTS   SHARE  STACKS\n"
		"network     40.0 KiB          exact       10   3.7 %       1\n"
		"data         1.0 MiB          exact    1,029  95.6 %       2\n"
		"  commands     500 B          exact        5   0.0 %       1\n"
		"  keys       1.0 MiB          exact    1,024  95.6 %       1\n"
		"(no rule)    6.8 KiB          exact        1   0.6 %       1\n";
	struct profile *profile = server();
	char *text;

	(void)state;
	modules = rules(tree);
	text = encoded(encode, profile);
	assert_string_equal(text, expected);
	assert_reports_failures(encode, profile);
	free(text);
	modules__free(modules);
	profile__free(profile);
}

/* Only exact figures are called "exact". */
static void a_table_tells_what_it_does_not_know(void **state)
{
	struct profile *profile = server();
	char *text;

	(void)state;
	modules = rules("network function readQuery\nidle function nobody\n");
	profile->dropped = 7;
	assert_int_equal(profile__add_lost(profile, "live_full", 7), 0);
	text = encoded(encode, profile);
	assert_null(strstr(strstr(text, "COMPONENT"), "exact"));
	assert_non_null(strstr(
		text, "AT LEAST 1.0 MiB in 1,040 objects; INCOMPLETE: 7 samples had no room"));
	assert_non_null(strstr(text, "\nidle           >= 0 B        0   0.0 %       0\n"));
	assert_non_null(strstr(text, "\nlost: live_full 7\n"));
	assert_reports_failures(encode, profile);
	free(text);

	/* the profile of a collapsed file */
	profile->dropped = 0;
	profile->interval_bytes = 0;
	profile->mode = MODE_UNKNOWN;
	profile->no_objects = true;
	for (size_t i = 0; i < profile->n_sites; i++)
		profile->sites[i].live = (struct estimate){.bytes = profile->sites[i].live.bytes};
	text = encoded(encode, profile);
	assert_null(strstr(text, "exact"));
	assert_null(strstr(text, "INCOMPLETE"));
	assert_non_null(strstr(text, "\n(no rule)  6.8 KiB        ?   0.6 %"));
	assert_non_null(strstr(text, "the file does not say how it was sampled\n"));
	free(text);
	modules__free(modules);
	profile__free(profile);

	/* a component without samples may still hold memory */
	profile = new_profile(65536);
	STACK(profile, 1, 64, 4, "malloc", "f", "main");
	end_profile(profile);
	modules = rules("f function ^f$\nidle function nobody\n");
	text = encoded(encode, profile);
	assert_null(strstr(text, "exact"));
	assert_non_null(strstr(text, " 69.8 - 655.6 KiB "));
	assert_null(strstr(text, "INCOMPLETE"));
	free(text);
	modules__free(modules);
	profile__free(profile);
}

static int encode_beside(const struct profile *profile, struct sink *sink)
{
	return encode_modules(profile, modules, false, sink);
}

static int encode_object(const struct profile *profile, struct sink *sink)
{
	return encode_json_with(profile, &(struct json_options){.modules = modules}, sink);
}

static void json_has_the_same(void **state)
{
	struct profile *profile = server();
	char *text;

	(void)state;
	modules = rules(tree);
	assert_int_equal(profile__add_lost(profile, "live_full", 7), 0);
	text = encoded(encode_beside, profile); /* losses are in the table above */
	assert_null(strstr(text, "lost"));
	free(text);
	text = encoded(encode_object, profile);
	assert_non_null(strstr(
		text, "\"modules\":[{\"component\":\"network\",\"live_bytes\":40960,"
		      "\"live_bytes_low\":40960,\"live_bytes_high\":40960,\"live_objects\":10,"
		      "\"stacks\":1},{\"component\":\"data\","));
	assert_non_null(strstr(text, "{\"component\":\"data/keys\",\"live_bytes\":1048576,"));
	assert_non_null(strstr(
		text,
		"{\"component\":null,\"live_bytes\":7000,\"live_bytes_low\":7000,"
		"\"live_bytes_high\":7000,\"live_objects\":1,\"stacks\":1}],\"files\":[]}\n"));
	free(text);
	profile->growth.stacks_known = true;
	profile->sites[1].growth = (struct growth){10, 6, 13};
	text = encoded(encode_object, profile);
	assert_non_null(strstr(text,
			       "\"stacks\":1,\"growth_bytes_per_s\":10.000,\"growth_low\":6.000,"
			       "\"growth_high\":13.000}"));
	free(text);
	modules__free(modules);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stack_is_its_innermost_rules),
		cmocka_unit_test(what_rules_match),
		cmocka_unit_test(growth_adds_up_with_its_error),
		cmocka_unit_test(wrong_rules_are_told_with_their_line),
		cmocka_unit_test(a_table_is_a_tree),
		cmocka_unit_test(a_table_tells_what_it_does_not_know),
		cmocka_unit_test(json_has_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
