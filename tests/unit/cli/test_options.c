// SPDX-License-Identifier: BSD-2-Clause
/* The tables of options and their parsing. Every option has its texts and accepts the words of its
 * completion. --help lists all options but the rare ones. No --help is longer than two screens. */
#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h" /* before cmocka, which makes a macro of fail() */
#include "cli/options.h"
#include "cli/record_internal.h"

#include <cmocka.h>

#define LINES	    50
#define COLUMNS	    80
#define CONFIG_SIZE (1 << 16) /* more than any command's configuration */

static void each(int (*check)(void *command, const struct option_group *group,
			      const struct option_row *row))
{
	for (const struct command *const *c = commands; *c; c++)
		assert_int_equal(command__each_option(*c, check, (void *)*c), 0);
}

/* --- texts --- */

static int check_texts(void *command, const struct option_group *group,
		       const struct option_row *row)
{
	print_message("%s --%s\n", ((const struct command *)command)->name, row->name);
	assert_true(*row->name && !row->name[strspn(row->name, "abcdefghijklmnopqrstuvwxyz-")]);
	assert_true(group->title && *group->title);
	assert_true(row->help && *row->help && row->help[strlen(row->help) - 1] != '.');
	assert_true(row->man && *row->man && row->man[strlen(row->man) - 1] == '.');
	assert_true(row->arg || (!row->arg_optional && !row->by_default && !row->values));
	assert_true(row->take || !row->arg);
	assert_int_equal(group->kind == OPTIONS_DEBUG, !strncmp(row->name, "debug-", 6));
	return 0;
}

static void every_option_is_told(void **state)
{
	(void)state;
	each(check_texts);
}

struct seen {
	const char *names[100];
	char letters[100];
	size_t flags[100]; /* offsets of the options' bools; SIZE_MAX: none */
	size_t n;
};

static int check_new(void *ctx, const struct option_group *group, const struct option_row *row)
{
	struct seen *seen = ctx;
	size_t flag = row->take ? SIZE_MAX : group->offset + row->flag;

	for (size_t i = 0; i < seen->n; i++) {
		assert_string_not_equal(seen->names[i], row->name);
		assert_true(!row->letter || seen->letters[i] != row->letter);
		assert_true(row->take || seen->flags[i] != flag);
	}
	assert_true(seen->n < 100);
	seen->names[seen->n] = row->name;
	seen->flags[seen->n] = flag;
	seen->letters[seen->n++] = row->letter;
	return 0;
}

static void nothing_is_there_twice(void **state)
{
	(void)state;
	for (const struct command *const *c = commands; *c; c++) {
		struct seen seen = {};

		assert_int_equal(command__each_option(*c, check_new, &seen), 0);
		assert_true(seen.n > 2); /* --help, --version */
	}
}

static int check_name(void *name, const struct option_group *group, const struct option_row *row)
{
	(void)group;
	return !strcmp(name, row->name);
}

/* A command's texts name only options that the command has. */
static void a_command_has_the_options_that_it_tells_of(void **state)
{
	(void)state;
	for (const struct command *const *c = commands; *c; c++) {
		const char *at = (*c)->about;

		while ((at = strstr(at, "--"))) {
			char name[32];
			size_t n = strspn(at += 2, "abcdefghijklmnopqrstuvwxyz-");

			assert_in_range(n, 1, sizeof(name) - 1);
			memcpy(name, at, n);
			name[n] = '\0';
			print_message("%s --%s\n", (*c)->name, name);
			assert_int_equal(command__each_option(*c, check_name, name), 1);
		}
	}
}

/* --- parsing --- */

static char rules[] = "/tmp/memtrace-test-options-XXXXXX";

/* A value for an argument that has no list of words. */
static const char *sample(const char *arg)
{
	static const struct {
		const char *arg, *value;
	} samples[] = {
		{"PID[,PID...]", "1,2"},
		{"PID", "1"},
		{"HEX", "0x7f12"},
		{"NAME", "x"},
		{"GLOB", "/usr/bin/x*"},
		{"USER", "0"},
		{"PATH", "/x"},
		{"DIR", "/x"},
		{"ID", "0123456789ab"},
		{"SECONDS", "1"},
		{"[+|-]SECONDS", "-1"},
		{"TIME|BYTES", "32M"},
		{"MS", "100"},
		{"BYTES", "64K"},
		{"PCT", "5"},
		{"N", "2"},
		{"REGEX", "x|y"},
		{"PREFIX", "x"},
		{"FILE", rules},
		{"ADDRESS", "127.0.0.1:9178"},
		{"URL", "http://127.0.0.1:4040"},
		{"NAME=VALUE", "x=y"},
		{"FILE:FUNCTION(size=N[*M])->ret", "exe:f(size=1*2)->ret"},
		{"FILE:FUNCTION(size=N)->ret", "exe:f(size=1)->ret"},
		{"FILE:FUNCTION(ptr=N)", "exe:f(ptr=1)"},
		{"FILE:FUNCTION(pool=N)", "exe:f(pool=1)"},
	};

	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
		if (!strcmp(samples[i].arg, arg))
			return samples[i].value;
	fail_msg("no sample for a value called %s: add one", arg);
	return NULL;
}

/* Keeps the memory of options reachable, for LeakSanitizer. */
static void *configs[1000];
static size_t n_configs;

/* Parses the words and returns the status. The parser must read all words, or refuse. */
static int parse(const struct command *command, char **words, int n, uint8_t **ret_config)
{
	uint8_t *config = calloc(1, CONFIG_SIZE);
	char *argv[4] = {(char *)command->name};
	int status;

	assert_non_null(config);
	assert_true(n_configs < sizeof(configs) / sizeof(configs[0]));
	configs[n_configs++] = config;
	memcpy(argv + 1, words, (size_t)n * sizeof(*words));
	optind = 0; /* resets getopt */
	status = command__parse(command, config, n + 1, argv);
	assert_true(status || optind == n + 1);
	if (ret_config)
		*ret_config = config;
	return status;
}

static void check_value(const struct command *command, const struct option_row *row,
			const char *value)
{
	char name[64], joined[256], letter[128];

	snprintf(name, sizeof(name), "--%s", row->name);
	snprintf(joined, sizeof(joined), "--%s=%s", row->name, value);
	snprintf(letter, sizeof(letter), "-%c%s", row->letter, value);
	print_message("%s %s\n", command->name, joined);
	assert_int_equal(parse(command, (char *[]){joined}, 1, NULL), 0);
	if (!row->arg_optional)
		assert_int_equal(parse(command, (char *[]){name, (char *)value}, 2, NULL), 0);
	if (row->letter)
		assert_int_equal(parse(command, (char *[]){letter}, 1, NULL), 0);
}

/* A flag sets its own bool, and no other. */
static void check_flag(const struct command *command, const struct option_group *group,
		       const struct option_row *row)
{
	char name[64], letter[] = {'-', row->letter, '\0'};
	uint8_t *config;

	snprintf(name, sizeof(name), "--%s", row->name);
	for (int i = 0; i < (row->letter ? 2 : 1); i++) {
		assert_int_equal(parse(command, (char *[]){i ? letter : name}, 1, &config), 0);
		for (size_t at = 0; at < CONFIG_SIZE; at++)
			assert_int_equal(config[at], at == group->offset + row->flag);
	}
}

/* --help and --version end the program. */
static void check_end(const struct command *command, char *name)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(1);
		optind = 0;
		command__parse(command, NULL, 2, (char *[]){(char *)command->name, name, NULL});
		_exit(1); /* the parser returned */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int check_parsed(void *ctx, const struct option_group *group, const struct option_row *row)
{
	const struct command *command = ctx;
	char *words = row->values ? strdup(row->values) : NULL, *rest = words, *word, name[64];

	snprintf(name, sizeof(name), "--%s", row->name);
	if (!strcmp(row->name, "config")) {
		/* test_agent_config.c tests this option: the agent reads its file before other
		 * options */
		assert_int_equal(parse(command, (char *[]){name, rules}, 2, NULL), EXIT_USAGE);
		return 0;
	}
	if (!strcmp(row->name, "help") || !strcmp(row->name, "version"))
		check_end(command, name);
	else if (!row->take)
		check_flag(command, group, row);
	else if (!row->arg || row->arg_optional)
		assert_int_equal(parse(command, (char *[]){name}, 1, NULL), 0);
	while (words && (word = strsep(&rest, " ")))
		check_value(command, row, word);
	if (row->arg && !words)
		check_value(command, row, sample(row->arg));
	free(words);
	return 0;
}

static void every_option_takes_what_it_offers(void **state)
{
	int fd = mkstemp(rules);

	(void)state;
	assert_true(fd >= 0);
	assert_true(write(fd, "x function ^x\n", 14) == 14);
	close(fd);
	each(check_parsed);
	unlink(rules);
}

/* These are refused: a value for an option that has none, a missing value, and a word that is not
 * in the option's list. */
static int check_refused(void *ctx, const struct option_group *group, const struct option_row *row)
{
	char name[64], joined[80];

	(void)group;
	snprintf(name, sizeof(name), "--%s", row->name);
	snprintf(joined, sizeof(joined), "--%s=no-such-word", row->name);
	if (row->arg && !row->arg_optional)
		assert_int_equal(parse(ctx, (char *[]){name}, 1, NULL), EXIT_USAGE);
	if (!row->arg || row->values)
		assert_int_equal(parse(ctx, (char *[]){joined}, 1, NULL), EXIT_USAGE);
	return 0;
}

static void wrong_use_is_refused(void **state)
{
	(void)state;
	each(check_refused);
	for (const struct command *const *c = commands; *c; c++)
		assert_int_equal(parse(*c, (char *[]){"--no-such-option"}, 1, NULL), EXIT_USAGE);
}

static int parse_record(char **words, int n)
{
	static struct record_config config;
	char *argv[8] = {"record"};

	config = (struct record_config){};
	trace_config__init(&config.trace);
	memcpy(argv + 1, words, (size_t)n * sizeof(*words));
	optind = 0;
	return record_parse_options(n + 1, argv, &config);
}

#define RECORD(...)                                                                                \
	parse_record((char *[]){__VA_ARGS__},                                                      \
		     (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)))

static void an_order_needs_a_table_of_processes(void **state)
{
	(void)state;
	assert_int_equal(RECORD("--sort", "rss", "-a"), 0);
	assert_int_equal(RECORD("--sort", "rss", "-F", "-p", "1"), 0);
	assert_int_equal(RECORD("--sort", "rss", "-p", "1"), EXIT_USAGE);
	assert_int_equal(RECORD("--sort", "growth", "--", "true"), EXIT_USAGE);
	assert_int_equal(RECORD("-a", "--sort", "rss", "--json"), EXIT_USAGE);
	assert_int_equal(RECORD("-a", "--sort", "rss", "-q"), EXIT_USAGE);
}

/* --- help --- */

/* Does the text name the option itself, and not only a longer option that begins with its name? */
static bool names(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (; (text = strstr(text, name)); text += len)
		if (!strchr("abcdefghijklmnopqrstuvwxyz-", text[len]) || !text[len])
			return true;
	return false;
}

static int check_listed(void *text, const struct option_group *group, const struct option_row *row)
{
	char name[64];

	snprintf(name, sizeof(name), "--%s", row->name);
	assert_int_equal(names(text, name), group->kind == OPTIONS_USUAL);
	return 0;
}

static void help_fits_on_two_screens(void **state)
{
	(void)state;
	for (const struct command *const *c = commands; *c; c++) {
		char *text = NULL;
		size_t size, n = 0;
		FILE *stream = open_memstream(&text, &size);

		assert_non_null(stream);
		command__print_help(*c, stream);
		assert_int_equal(fclose(stream), 0);
		assert_int_equal(command__each_option(*c, check_listed, text), 0);
		for (const char *line = text; *line; n++) {
			size_t len = strcspn(line, "\n");

			assert_in_range(len, 0, COLUMNS);
			assert_int_equal(line[len], '\n');
			line += len + 1;
		}
		print_message("%s --help: %zu lines\n", (*c)->name, n);
		assert_in_range(n, 10, LINES);
		/* if options are left out, the text points to the manual */
		assert_int_equal(!!strstr(text, "in the manual: man "),
				 command__has_options(*c, OPTIONS_RARE));
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_option_is_told),
		cmocka_unit_test(nothing_is_there_twice),
		cmocka_unit_test(a_command_has_the_options_that_it_tells_of),
		cmocka_unit_test(every_option_takes_what_it_offers),
		cmocka_unit_test(wrong_use_is_refused),
		cmocka_unit_test(an_order_needs_a_table_of_processes),
		cmocka_unit_test(help_fits_on_two_screens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
