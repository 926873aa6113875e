// SPDX-License-Identifier: BSD-2-Clause
/* Tests what is done with a run's profile if the profile lacks figures that the user wants to see.
 * Needs no root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h" /* before cmocka, which makes a macro of fail() */
#include "cli/output.h"
#include "cli/trace_options.h"

#include <cmocka.h>

#include "../encode/fixture.h"

static char heard[2048], directory[] = "/tmp/test_output.XXXXXX";
static unsigned n_told;

static void hear(const char *text)
{
	strncat(heard, text, sizeof(heard) - strlen(heard) - 1);
}

static int tell(void *ctx, const struct profile *profile, const char *path)
{
	(void)ctx;
	(void)profile;
	(void)path;
	n_told++;
	return 0;
}

/* Writes the profile as record does, in one format. The file's text is in ret. */
static int write_as(const char *format, const struct profile *profile,
		    const struct view_options *view, char *ret, size_t size)
{
	char prefix[64], path[128];
	struct trace_config config;
	size_t n = 0;
	FILE *file;
	int status;

	snprintf(prefix, sizeof(prefix), "%s/out", directory);
	trace_config__init(&config);
	config.output = prefix;
	for (size_t i = 0; i < N_FORMATS; i++)
		config.format[i] = !strcmp(formats[i].name, format);
	*heard = '\0';
	n_told = 0;
	status = trace_config__write_files(&config, profile, view, "", tell, NULL);
	free(config.owners);
	snprintf(path, sizeof(path), "%s.4711.%s", prefix, find_format(format)->extension);
	file = fopen(path, "r");
	if (file) {
		n = fread(ret, 1, size - 1, file);
		fclose(file);
		unlink(path);
	}
	ret[n] = '\0';
	return status;
}

/* Only the end of a run tells whether it was windowed. If the wanted figure is missing then, the
 * profile must be written all the same. */
static void no_capture_is_lost(void **state)
{
	const struct view_options peak = {.weight = WEIGHT_PEAK},
				  growth = {.weight = WEIGHT_GROWTH, .root = ROOT_PROCESS},
				  module = {.weight = WEIGHT_GROWTH, .root = ROOT_MODULE};
	struct profile *profile = new_profile(1);
	static char text[64 << 10];

	(void)state;
	assert_non_null(mkdtemp(directory));
	complain_to(hear);
	STACK(profile, 1, 100, 3, "malloc", "keep", "main");
	end_profile(profile);
	profile->mode = MODE_WINDOWED;
	assert_int_equal(write_as("collapsed", profile, &peak, text, sizeof(text)), EXIT_FAILED);
	assert_string_equal(text, "main;keep 300\n");
	assert_int_equal(n_told, 1);
	assert_has(heard,
		   ".4711.collapsed: its stacks are weighed by live bytes, not by peak: it was "
		   "traced in windows, and only continuous tracing (--max-overhead off) ");
	assert_int_equal(write_as("svg", profile, &peak, text, sizeof(text)), EXIT_FAILED);
	assert_has(text, "live heap, from windows");
	assert_int_equal(n_told, 1);
	/* what is known stays */
	assert_int_equal(write_as("collapsed", profile, &growth, text, sizeof(text)), EXIT_FAILED);
	assert_string_equal(text, "leaky (4711);main;keep 300\n");
	assert_has(heard, "not by growth: it stores no growth");
	assert_int_equal(write_as("collapsed", profile, &module, text, sizeof(text)), EXIT_FAILED);
	assert_has(text, "main;keep 300\n");
	/* formats without views contain all that is known */
	assert_int_equal(write_as("heap", profile, &peak, text, sizeof(text)), 0);
	assert_int_equal(n_told, 1);
	assert_string_equal(heard, "");
	profile->mode = MODE_CONTINUOUS;
	profile->peak.known = true;
	profile->sites[0].peak_bytes = 400;
	assert_int_equal(write_as("collapsed", profile, &peak, text, sizeof(text)), 0);
	assert_string_equal(text, "main;keep 400\n");
	assert_string_equal(heard, "");
	complain_to(NULL);
	rmdir(directory);
	profile__free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_capture_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
