// SPDX-License-Identifier: BSD-2-Clause
/* Each allocation for an option fails in turn. The command must report that memory is out, and not
 * a success or a wrong use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <string.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/trace_options.h"
#include "cli/why.h"
#include "profile/drawing.h"

#include <cmocka.h> /* after the headers above, because it defines another fail() */

#include "tests/unit/failing.h"

static char heard[1024];

static void hear(const char *text)
{
	snprintf(heard, sizeof(heard), "%s", text);
}

struct option_value {
	const char *name, *value;
};

static const struct option_row *row_of(const char *name)
{
	const struct option_row *const tables[] = {trace_target_rows, trace_how_rows,
						   trace_output_rows, trace_rare_rows};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct option_row *row = tables[i]; row->name; row++)
			if (!strcmp(row->name, name))
				return row;
	fail_msg("there is no --%s", name);
	return NULL;
}

static int take(void *ctx, FILE *told)
{
	const struct option_value *o = ctx;
	const struct option_row *row = row_of(o->name);
	struct trace_config config;
	int status;

	trace_config__init(&config);
	config.output = "before";
	heard[0] = '\0';
	status = row->take(&config, "record", row, o->value);
	failing_in = 0;
	if (status) {
		assert_int_equal(status, EXIT_FAILED);
		assert_string_equal(heard, "out of memory");
	} else {
		assert_string_equal(heard, "");
		fprintf(told, "%zu %u %d %s", config.n_pids, config.what, config.format[1],
			config.output);
	}
	if (!status && config.output != o->value && strcmp(config.output, "before") != 0)
		free((char *)config.output); /* the program never frees it */
	for (size_t i = 0; i < config.extra.n; i++) {
		fprintf(told, " %s %s", config.extra.list[i].file, config.extra.list[i].symbol);
		free((char *)config.extra.list[i].file);
		free((char *)config.extra.list[i].symbol);
	}
	return status ? -ENOMEM : 0;
}

static void options_say_that_memory_is_out(void **state)
{
	static struct option_value options[] = {
		{"pid", "1,2,3"},
		{"format", "heap,svg"},
		{"output", "directory/"},
		{"what", "heap,regions"},
		{"alloc", "lib.so:pool_alloc(size=1)->ret"},
		{"free", "lib.so:pool_free(ptr=1)"},
	};

	(void)state;
	complain_to(hear);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		fail_each_allocation(options[i].value, take, &options[i]);
	complain_to(NULL);
}

static int take_makers(void *ctx, FILE *told)
{
	struct why_makers *makers;
	int err = why_makers__new(ctx, &makers);

	failing_in = 0;
	if (err)
		return err;
	fprintf(told, "%s", why_makers__find(makers, 0x1000, 64));
	why_makers__free(makers);
	return 0;
}

static void makers_say_that_memory_is_out(void **state)
{
	struct drawing d;
	struct profile *p;
	size_t site;

	(void)state;
	assert_int_equal(drawing__begin(&d, DRAWN_PATHS, 1, "made"), 0);
	assert_int_equal(drawing__add_frame(&d, "main"), 0);
	assert_int_equal(drawing__add_frame(&d, "put"), 0);
	assert_int_equal(drawing__add_stack(&d, &site), 0);
	assert_int_equal(profile__add_block(d.profile, site, 0x1000, 64), 0);
	assert_int_equal(drawing__finish(&d, &p), 0);
	drawing__end(&d);
	fail_each_allocation("makers", take_makers, p);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_say_that_memory_is_out),
		cmocka_unit_test(makers_say_that_memory_is_out),
	};

	return cmocka_run_group_tests_name("no_memory", tests, NULL, NULL);
}
