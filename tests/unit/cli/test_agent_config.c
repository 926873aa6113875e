// SPDX-License-Identifier: BSD-2-Clause
/* The agent's configuration file: the options that its lines become, and the messages about
 * errors. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/agent_config.h" /* before cmocka, which makes a macro of fail() */
#include "cli/cli.h"

#include <cmocka.h>

static char path[] = "/tmp/memtrace-config-XXXXXX";
static char said[4096]; /* all complaints, a line each */

static void hear(const char *text)
{
	size_t len = strlen(said);

	snprintf(said + len, sizeof(said) - len, "%s\n", text);
}

static int begin(void **state)
{
	(void)state;
	int fd = mkstemp(path);

	close(fd);
	complain_to(hear);
	return fd < 0;
}

static int end(void **state)
{
	(void)state;
	complain_to(NULL);
	return unlink(path);
}

static void write_bytes(const void *bytes, size_t len)
{
	FILE *to = fopen(path, "w");

	assert_non_null(to);
	assert_int_equal(fwrite(bytes, 1, len, to), len);
	assert_int_equal(fclose(to), 0);
}

/* Refuses the value "bad", and options that it does not know. */
static int check(int n, char **argv)
{
	assert_int_equal(n, 2);
	assert_string_equal(argv[0], "agent");
	assert_null(argv[2]);
	if (!strcmp(argv[1], "--every=bad") || !strncmp(argv[1], "--unknown", 9)) {
		complain("not %s", argv[1]);
		return EXIT_USAGE;
	}
	return 0;
}

/* Expands the arguments "agent ARGUMENTS..." into ret, joined by '|'. Returns the status. */
static int expand(char *ret, size_t size, char **argv)
{
	struct arguments a;
	int argc = 0, status;

	*said = '\0';
	*ret = '\0';
	while (argv[argc])
		argc++;
	status = arguments__expand("agent", argc, argv, check, &a);
	for (int i = 0; i < a.argc; i++) {
		size_t len = strlen(ret);

		snprintf(ret + len, size - len, "%s%s", i ? "|" : "", a.argv[i]);
	}
	assert_null(a.argv[a.argc]);
	arguments__free(&a);
	return status;
}

#define ARGV(...) ((char *[]){(char *)"agent", __VA_ARGS__, NULL})
#define FILE_ARGV ARGV((char *)"--config", path)

static void assert_becomes(const char *text, const char *wanted)
{
	char got[1024];

	write_bytes(text, strlen(text));
	if (expand(got, sizeof(got), FILE_ARGV))
		fail_msg("refused: %s", said);
	assert_string_equal(got, wanted);
	assert_string_equal(said, "");
}

/* Asserts that the file is refused with this status and a message with these words. */
static void assert_refused(const void *bytes, size_t len, int status, const char *words)
{
	char got[64 << 10];

	write_bytes(bytes, len);
	assert_int_equal(expand(got, sizeof(got), FILE_ARGV), status);
	if (!strstr(said, words) || !strstr(said, path))
		fail_msg("'%s' and the path are not in: %s", words, said);
}

static void a_line_is_an_option(void **state)
{
	(void)state;
	assert_becomes("", "agent");
	assert_becomes("# nothing = 1\n\n  \t \n", "agent");
	assert_becomes("listen = 127.0.0.1:9178\nleaks\n  every=15 ",
		       "agent|--listen=127.0.0.1:9178|--leaks|--every=15");
	assert_becomes("comm = a b=c # d\n", "agent|--comm=a b=c # d");
	assert_becomes("comm =\n", "agent|--comm=");
}

static void ends_of_lines_of_other_systems(void **state)
{
	(void)state;
	assert_becomes("every = 15\r\nleaks\r\n\r\n", "agent|--every=15|--leaks");
}

static void the_file_stands_where_it_is_named(void **state)
{
	char got[256], together[64];

	(void)state;
	write_bytes("every = 5\n", 10);
	snprintf(together, sizeof(together), "--config=%s", path);
	assert_int_equal(expand(got, sizeof(got), ARGV((char *)"-a", together, (char *)"-x")), 0);
	assert_string_equal(got, "agent|-a|--every=5|-x");
	assert_int_equal(expand(got, sizeof(got), ARGV(together, together)), EXIT_USAGE);
	assert_non_null(strstr(said, "once"));
	/* a shortened name is the same option; --con could be --container */
	snprintf(together, sizeof(together), "--confi=%s", path);
	assert_int_equal(expand(got, sizeof(got), ARGV(together, (char *)"-x")), 0);
	assert_string_equal(got, "agent|--every=5|-x");
	assert_int_equal(expand(got, sizeof(got), ARGV((char *)"--conf", path, together)),
			 EXIT_USAGE);
	assert_non_null(strstr(said, "--config may be given once"));
	assert_int_equal(expand(got, sizeof(got), ARGV((char *)"--con", (char *)"x")), 0);
	assert_string_equal(got, "agent|--con|x");
	assert_int_equal(expand(got, sizeof(got), ARGV((char *)"--configs", (char *)"x")), 0);
	assert_string_equal(got, "agent|--configs|x");
	/* --config without a value stays in place, and the parser of options refuses it */
	assert_int_equal(expand(got, sizeof(got), ARGV((char *)"--config")), 0);
	assert_string_equal(got, "agent|--config");
}

#define REFUSED(text, status, words) assert_refused(text, strlen(text), status, words)

static void what_is_wrong_is_told_with_its_line(void **state)
{
	static const char *const endings[] = {"help", "version", "hel", "h", "vers = 1"};

	(void)state;
	REFUSED("every = 15\n\nunknown = 1\n", EXIT_USAGE, ":3: this line is refused");
	assert_non_null(strstr(said, "not --unknown=1\n"));
	REFUSED("every = bad", EXIT_USAGE, ":1: this line is refused");
	REFUSED("# x\nevery 15\n", EXIT_USAGE, ":2: this line must be OPTION");
	REFUSED("leaks\n--every=15\n", EXIT_USAGE, ":2: this line must be OPTION");
	REFUSED("= 15\n", EXIT_USAGE, ":1: this line must be OPTION");
	REFUSED("-p = 15\n", EXIT_USAGE, ":1: this line must be OPTION");
	REFUSED("every\x1b[2J = 15\n", EXIT_USAGE, ":1: this line must be OPTION");
	/* a configuration file cannot name another one */
	REFUSED("config = /etc/passwd\n", EXIT_USAGE, ":1: this line must be OPTION");
	/* these options would end the process that parses them, with status 0 */
	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++)
		REFUSED(endings[i], EXIT_USAGE, ":1: this line must be OPTION");
	assert_becomes("hello\nversions\n", "agent|--hello|--versions");
}

static void what_is_no_configuration_is_refused(void **state)
{
	static char large[AGENT_CONFIG_BYTES + 1];
	char got[256];

	(void)state;
	assert_refused("every = 15\n\0leaks\n", 18, EXIT_FAILED, "zero byte");
	memset(large, '#', sizeof(large));
	assert_refused(large, sizeof(large), EXIT_FAILED, "more than 65536 bytes");
	write_bytes(large, sizeof(large) - 1); /* a file that is one comment */
	assert_int_equal(expand(got, sizeof(got), FILE_ARGV), 0);
	assert_int_equal(expand(got, sizeof(got), ARGV((char *)"--config", (char *)"/nowhere/x")),
			 EXIT_FAILED);
	assert_non_null(strstr(said, "cannot open /nowhere/x: No such file"));
	assert_int_equal(expand(got, sizeof(got), ARGV((char *)"--config", (char *)"/tmp")),
			 EXIT_FAILED);
	assert_non_null(strstr(said, "/tmp is not a file"));
}

/* A pipe to which nobody writes is refused without a wait. */
static void a_pipe_is_no_file(void **state)
{
	char got[256];

	(void)state;
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(expand(got, sizeof(got), FILE_ARGV), EXIT_FAILED);
	assert_non_null(strstr(said, "is not a file"));
}

/* The number of lines is limited, including empty lines and comments. The array of arguments has
 * room for AGENT_CONFIG_LINES lines. */
static void lines_are_bounded(void **state)
{
	static char text[AGENT_CONFIG_BYTES], got[AGENT_CONFIG_BYTES];
	size_t len = 0;
	int n = 0;

	(void)state;
	while (n < AGENT_CONFIG_LINES - 1)
		len += (size_t)sprintf(text + len, "leaks%d\n", n++);
	len += (size_t)sprintf(text + len, "# a comment\n");
	write_bytes(text, len);
	assert_int_equal(expand(got, sizeof(got), FILE_ARGV), 0);
	for (const char *c = got; *c; c++)
		n -= *c == '|';
	assert_int_equal(n, 0);
	for (int i = 0; i < 4000; i++)
		len += (size_t)sprintf(text + len, "leaks\n");
	assert_refused(text, len, EXIT_FAILED, "more than 512 lines");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_an_option),
		cmocka_unit_test(ends_of_lines_of_other_systems),
		cmocka_unit_test(the_file_stands_where_it_is_named),
		cmocka_unit_test(what_is_wrong_is_told_with_its_line),
		cmocka_unit_test(what_is_no_configuration_is_refused),
		cmocka_unit_test(lines_are_bounded),
		cmocka_unit_test(a_pipe_is_no_file),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
