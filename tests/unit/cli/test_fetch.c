// SPDX-License-Identifier: BSD-2-Clause
/* The test's own curl is the first one in PATH. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/fetch.h"
#include "tests/unit/encode/fixture.h"

static char place[64], curl[128];

static int begin(void **state)
{
	(void)state;
	strcpy(place, "/tmp/memtrace-fetch-XXXXXX");
	if (!mkdtemp(place) || chmod(place, 0755))
		return -1;
	snprintf(curl, sizeof(curl), "%s/curl", place);
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(curl);
	return rmdir(place);
}

/* Makes a curl that is this script. NULL: there is no curl. */
static void have_curl(const char *script)
{
	char path[160];
	FILE *file;

	unlink(curl);
	snprintf(path, sizeof(path), "%s%s", place, script ? ":/usr/bin:/bin" : "");
	setenv("PATH", path, 1);
	if (!script)
		return;
	file = fopen(curl, "w");
	fprintf(file, "#!/bin/sh\n%s\n", script);
	fclose(file);
	assert_int_equal(chmod(curl, 0755), 0);
}

static void assert_fetched(const char *url, const struct fetch_options *options)
{
	struct profile *profile;
	struct error err = {};

	if (fetch__profile(url, options, &profile, &err))
		fail_msg("%s", err.text);
	assert_int_equal(profile->n_sites, 1);
	assert_true(profile->sites[0].live.bytes == 42);
	/* reports print this name, so they name the host */
	assert_string_equal(profile->file, url);
	profile__free(profile);
}

static void assert_fails(const char *url, int wanted, const char *part)
{
	const struct fetch_options options = {};
	struct profile *profile;
	struct error err = {};

	assert_int_equal(fetch__profile(url, &options, &profile, &err), wanted);
	assert_has(err.text, part);
}

static void names_of_files_and_urls(void **state)
{
	(void)state;
	assert_true(fetch__is_url("http://a/b") && fetch__is_url("https://a/b"));
	assert_true(fetch__is_url("unix:/run/socket:/pid/1"));
	assert_false(fetch__is_url("a.pb.gz") || fetch__is_url("-") || fetch__is_url("unix:a"));
	assert_false(fetch__is_url("ftp://a/b") || fetch__is_url("file:///a"));
}

static void curl_is_asked(void **state)
{
	const struct fetch_options none = {}, both = {(char *)"secret", curl};

	(void)state;
	have_curl("test \"$1\" = --disable && case \"$*\" in\n"
		  "*--unix-socket*|*--cacert*|*secret*) exit 1;;\n"
		  "*' --proto =http,https '*' --url http://a:1/b?c') echo 'main;keep 42';;\n"
		  "*) exit 1;; esac");
	assert_fetched("http://a:1/b?c", &none);
	have_curl("read line && test \"$line\" = 'oauth2-bearer = \"secret\"' && case \"$*\" in\n"
		  "*secret*) exit 1;;\n"
		  "*' --cacert /proc/self/fd/6 --url https://a/'*)\n"
		  "  grep -q cacert /proc/self/fd/6 && echo 'main;keep 42';;\n"
		  "*) exit 1;; esac");
	assert_fetched("https://a/", &both);
	have_curl("case \"$*\" in\n"
		  "*' --unix-socket /a/b --url http://localhost/pid/1') echo 'main;keep 42';;\n"
		  "*) exit 1;; esac");
	assert_fetched("unix:/a/b:/pid/1", &none);
}

static void failures_say_why(void **state)
{
	(void)state;
	have_curl(NULL);
	assert_fails("http://a/", -ENOENT, "curl, which fetches http://a/, is missing");
	have_curl("printf 'curl: (22) it said \\033[31m404\\n' >&2; exit 22");
	assert_fails("http://a/", -EIO, "cannot fetch http://a/: curl: (22) it said ?[31m404");
	have_curl("exit 22");
	assert_fails("http://a/", -EIO, "curl failed");
	have_curl("kill -9 $$");
	assert_fails("http://a/", -EIO, "curl failed");
	have_curl("echo no profile");
	assert_fails("http://a/", -EINVAL, "http://a/");
	assert_fails("unix:/a", -EINVAL, "unix:SOCKET:PATH");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(names_of_files_and_urls),
		TEST(curl_is_asked),
		TEST(failures_say_why),
	};

	return cmocka_run_group_tests_name("fetch", tests, NULL, NULL);
}
