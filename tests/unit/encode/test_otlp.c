// SPDX-License-Identifier: BSD-2-Clause
/* protoc reads the encoder's output with the schema of tests/proto. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <ctype.h>
#include <unistd.h>

#include "tests/unit/encode/fixture.h"

#define DECODE                                                                                     \
	"protoc --proto_path=tests/proto --decode=otlp.ExportProfilesServiceRequest "              \
	"otlp_profiles.proto <%s"

static const struct otlp_attribute resource[] = {
	{"service.name", "a\n\xff", 0}, /* not fit for protobuf as it is */
	{"process.pid", NULL, 4711},
};

static struct otlp_options options;

static int encode(const struct profile *profile, struct sink *sink)
{
	return encode_otlp(profile, &options, sink);
}

/* Returns protoc's text, with one blank in place of each run of blanks. The caller calls free(). */
static char *decoded(const struct profile *profile)
{
	char path[] = "/tmp/test_otlp.XXXXXX", command[sizeof(DECODE) + sizeof(path)];
	struct text bytes = {}, text = {};
	struct sink sink = {.write = text_write, .ctx = &bytes};
	int fd = mkstemp(path), c, before = ' ';
	FILE *said;

	assert_true(fd >= 0);
	assert_int_equal(encode(profile, &sink), 0);
	assert_int_equal(write(fd, bytes.bytes, bytes.len), bytes.len);
	close(fd);
	free(bytes.bytes);
	snprintf(command, sizeof(command), DECODE, path);
	said = popen(command, "r");
	assert_non_null(said);
	while ((c = fgetc(said)) != EOF) {
		char blank = isspace(c) ? ' ' : (char)c;

		if (blank != ' ' || before != ' ')
			text_write(&text, &blank, 1);
		before = blank;
	}
	if (pclose(said))
		fail_msg("protoc (protobuf-compiler) cannot read it");
	unlink(path);
	return text.bytes;
}

static int begin(void **state)
{
	struct profile *p = new_profile(1);
	const struct profile_mapping mapping = {.start = 0x1000,
						.end = 0x2000,
						.off = 0x80,
						.perms = "r-xp",
						.path = (char *)"/lib/x.so",
						.build_id = (char *)"abcd"};
	size_t worker;

	options = (struct otlp_options){
		.interval = {.from_ns = 5, .until_ns = 12, .most_sites = 100},
		.resource = resource,
		.n_resource = 2,
		.id = {1, 2, 3},
	};
	STACK(p, 1, 3000, 2, "malloc", "leak", "main");
	STACK(p, 7, 100, 1, "malloc", "cache");
	assert_int_equal(profile__add_thread(p, 7, "worker", &worker), 0);
	add_inlined(p, "leak", "small");
	end_profile(p);
	assert_int_equal(profile__add_mapping(p, &mapping), 0);
	assert_int_equal(profile__sort(p), 0);
	for (size_t i = 0; i < p->n_locations; i++)
		if (!strcmp(profile_location__function(&p->locations[i]), "cache"))
			p->locations[i].mapping = 0;
	*state = p;
	return 0;
}

static int end(void **state)
{
	profile__free(*state);
	return 0;
}

static size_t count(const char *text, const char *part)
{
	size_t n = 0;

	while ((text = strstr(text, part))) {
		n++;
		text += strlen(part);
	}
	return n;
}

static void four_profiles_over_one_dictionary(void **state)
{
	static const char zeros[] = "\\000\\000\\000\\000\\000\\000"
				    "\\000\\000\\000\\000\\000\\000";
	char *text = decoded(*state);

	assert_int_equal(count(text, "profiles { sample_type {"), 4);
	assert_int_equal(count(text, "dictionary {"), 1);
	assert_int_equal(
		count(text, "scope { name: \"memory\" version: \"" MEMTRACE_VERSION "\" }"), 1);
	assert_int_equal(count(text, "time_unix_nano: 5 duration_nano: 7 "), 4);
	assert_int_equal(count(text, "period: 1 "), 4);
	/* the ids of the four profiles differ in their last byte */
	for (int i = 0; i < 4; i++) {
		char id[96];

		snprintf(id, sizeof(id), "profile_id: \"\\001\\002\\003%s\\00%d\"", zeros, i);
		assert_int_equal(count(text, id), 1);
	}
	assert_has(text, "attributes { key: \"service.name\" value { string_value: \"a??\" } }");
	assert_has(text, "attributes { key: \"process.pid\" value { int_value: 4711 } }");
	free(text);
}

static void tables_begin_with_nothing(void **state)
{
	static const char *const tables[] = {"mapping_table", "location_table",	 "function_table",
					     "link_table",    "attribute_table", "stack_table"};
	char *text = decoded(*state), part[64];

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		const char *first = strstr(text, tables[i]);

		snprintf(part, sizeof(part), "%s { }", tables[i]);
		assert_non_null(first);
		assert_memory_equal(first, part, strlen(part));
	}
	assert_has(text,
		   "string_table: \"\" string_table: \"inuse_space\" string_table: \"bytes\"");
	free(text);
}

static void stacks_begin_with_the_leaf(void **state)
{
	const struct profile *p = *state;
	char *text = decoded(p), part[96];

	for (size_t i = 0; i < p->n_sites; i++) {
		const struct profile_site *site = &p->sites[i];
		size_t n = (size_t)snprintf(part, sizeof(part), "stack_table {");

		for (uint32_t k = 0; k < site->n_locations; k++)
			n += (size_t)snprintf(part + n, sizeof(part) - n, " location_indices: %u",
					      site->locations[k] + 1);
		assert_has(text, part);
	}
	assert_has(text, "mapping_table { memory_start: 4096 memory_limit: 8192 file_offset: 128 ");
	assert_has(text, "value { string_value: \"abcd\" }");
	assert_has(text, "string_table: \"process.executable.build_id.gnu\"");
	/* innermost function first, each with its line */
	assert_int_equal(count(text, "lines { function_index: "), 5);
	assert_has(text, "line: 3 } lines { function_index: ");
	free(text);
}

static void frames_of_python_say_so(void **state)
{
	struct profile *p = new_profile(1);
	char *text = decoded(*state);

	assert_has(text, "{ string_value: \"native\" }");
	assert_null(strstr(text, "cpython"));
	free(text);
	add_python(p, 0x7f0000005000, "app.load", 3);
	end_profile(p);
	text = decoded(p);
	assert_has(text, "{ string_value: \"native\" }"); /* main() */
	assert_has(text, "{ string_value: \"cpython\" }");
	assert_has(text, "location_table { lines { function_index: ");
	free(text);
	profile__free(p);
}

/* Memory in use is by stack and thread. Allocated memory is by stack only. */
static void threads_are_attributes(void **state)
{
	const double allocated[2][2] = {{5, 12000.6}, {1, 100.4}};
	char *text;

	options.interval.allocated = allocated;
	text = decoded(*state);
	assert_has(text, "samples { stack_index: 1 values: 6000 attribute_indices: ");
	assert_has(text, "samples { stack_index: 2 values: 100 attribute_indices: ");
	assert_has(text,
		   "samples { stack_index: 1 values: 12001 } samples { stack_index: 2 values: "
		   "100 }"); /* the sum is 12101 */
	assert_has(text, "value { int_value: 7 }");
	assert_has(text, "value { string_value: \"worker\" }");
	free(text);
}

static void stacks_are_bounded(void **state)
{
	char *text;

	options.interval.most_sites = 1;
	text = decoded(*state);
	assert_int_equal(count(text, "stack_table {"), 2);
	assert_null(strstr(text, "stack_index: 2"));
	free(text);
}

static void failures_are_reported(void **state)
{
	assert_reports_failures(encode, *state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(four_profiles_over_one_dictionary, begin, end),
		cmocka_unit_test_setup_teardown(tables_begin_with_nothing, begin, end),
		cmocka_unit_test_setup_teardown(stacks_begin_with_the_leaf, begin, end),
		cmocka_unit_test_setup_teardown(frames_of_python_say_so, begin, end),
		cmocka_unit_test_setup_teardown(threads_are_attributes, begin, end),
		cmocka_unit_test_setup_teardown(stacks_are_bounded, begin, end),
		cmocka_unit_test_setup_teardown(failures_are_reported, begin, end),
	};

	return cmocka_run_group_tests_name("otlp", tests, NULL, NULL);
}
