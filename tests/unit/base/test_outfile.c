// SPDX-License-Identifier: BSD-2-Clause
/* Files that appear whole or not at all. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/outfile.h"
#include "base/sink.h"

static char dir[] = "/tmp/memtrace-test-XXXXXX";
static char path[128];

static int setup(void **state)
{
	(void)state;
	strcpy(dir + sizeof(dir) - 7, "XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/out", dir);
	return 0;
}

static int count_files(void)
{
	DIR *d = opendir(dir);
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2; /* . and .. */
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir); /* fails if a test has left a file in it */
}

static void assert_content(const char *want)
{
	char got[64] = {};
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	(void)!fread(got, 1, sizeof(got) - 1, f);
	fclose(f);
	assert_string_equal(got, want);
}

static void write_old(void)
{
	FILE *f = fopen(path, "w");

	fputs("old", f);
	fclose(f);
}

static void commit_replaces(void **state)
{
	struct outfile out = {};
	struct error err = {};
	struct stat st;

	(void)state;
	write_old();
	assert_int_equal(outfile__open(&out, path, &err), 0);
	fputs("new", out.stream);
	assert_content("old"); /* nothing changes before the commit */
	assert_int_equal(outfile__commit(&out, &err), 0);
	assert_content("new");
	assert_int_equal(count_files(), 1);
	assert_null(out.stream);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0400, 0400);
}

static void discard_leaves_the_old(void **state)
{
	struct outfile out = {};

	(void)state;
	write_old();
	assert_int_equal(outfile__open(&out, path, NULL), 0);
	fputs("new", out.stream);
	outfile__discard(&out);
	outfile__discard(&out); /* a second call does no harm */
	assert_content("old");
	assert_int_equal(count_files(), 1);
}

static void failed_commit_leaves_the_old(void **state)
{
	struct outfile out = {};
	struct error err = {};
	FILE *full;

	(void)state;
	write_old();
	assert_int_equal(outfile__open(&out, path, &err), 0);
	/* Reopens the stream on /dev/full, which fails as a full disk does. */
	full = freopen("/dev/full", "w", out.stream);
	assert_non_null(full);
	out.stream = full;
	fputs("new", out.stream);
	assert_int_equal(outfile__commit(&out, &err), -ENOSPC);
	assert_non_null(strstr(err.text, path));
	assert_non_null(strstr(err.text, "No space left"));
	assert_content("old");
	assert_int_equal(count_files(), 1);
}

static void places_that_cannot_be_written(void **state)
{
	struct error err = {};
	char where[160];

	(void)state;
	snprintf(where, sizeof(where), "%s/missing/out", dir);
	assert_int_equal(outfile__check(where, &err), -ENOENT);
	assert_non_null(strstr(err.text, where));
	memset(&err, 0, sizeof(err));
	/* a directory in the file's place */
	assert_int_equal(outfile__check(dir, &err), -EEXIST);
	assert_non_null(strstr(err.text, dir));
	assert_int_equal(outfile__check("/dev/null", NULL), -EEXIST);
	assert_int_equal(outfile__check(path, NULL), 0);
	assert_int_equal(count_files(), 0); /* the check left no file */
}

static void first_error_is_kept(void **state)
{
	struct error err = {};

	(void)state;
	assert_int_equal(error__set(&err, -EIO, "inner %d", 1), -EIO);
	assert_int_equal(error__set(&err, -EPERM, "outer"), -EPERM);
	assert_int_equal(err.code, -EIO);
	assert_string_equal(err.text, "inner 1");
	assert_int_equal(error__set(NULL, -EPERM, "nobody asks"), -EPERM);
}

static int failing_write(void *ctx, const void *data, size_t len)
{
	(void)data;
	(void)len;
	++*(int *)ctx;
	return -EPIPE;
}

static void sink_stops_at_the_first_error(void **state)
{
	int calls = 0;
	struct sink sink = {.write = failing_write, .ctx = &calls};

	(void)state;
	assert_int_equal(sink__puts(&sink, ""), 0); /* an empty text causes no write */
	assert_int_equal(sink__puts(&sink, "a"), -EPIPE);
	assert_int_equal(sink__printf(&sink, "%d", 1), -EPIPE);
	assert_int_equal(sink__write(&sink, "b", 1), -EPIPE);
	assert_int_equal(calls, 1);
}

static void sink_takes_all(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	struct sink sink = sink__to_stream(f);

	(void)state;
	assert_int_equal(sink__printf(&sink, "%s-%d", "a", 7), 0);
	assert_int_equal(sink__write(&sink, "\0b", 2), 0);
	fclose(f);
	assert_int_equal(len, 5);
	assert_memory_equal(text, "a-7\0b", 5);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(commit_replaces, setup, teardown),
		cmocka_unit_test_setup_teardown(discard_leaves_the_old, setup, teardown),
		cmocka_unit_test_setup_teardown(failed_commit_leaves_the_old, setup, teardown),
		cmocka_unit_test_setup_teardown(places_that_cannot_be_written, setup, teardown),
		cmocka_unit_test(first_error_is_kept),
		cmocka_unit_test(sink_stops_at_the_first_error),
		cmocka_unit_test(sink_takes_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
