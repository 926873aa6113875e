/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a command in a child, because commands keep their options until memtrace ends. Include after
 * cmocka.h. */
#ifndef MEMTRACE_TESTS_CLI_COMMAND_FIXTURE_H
#define MEMTRACE_TESTS_CLI_COMMAND_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Output of the last command: standard error, and standard output. */
static char said[16 << 10], shown[64 << 10];

static inline void read_text_of(FILE *file, char *ret, size_t size)
{
	size_t n;

	rewind(file);
	n = fread(ret, 1, size - 1, file);
	ret[n] = '\0';
	fclose(file);
}

/* Returns the command's status. argv ends with NULL. */
static inline int run(int (*command)(int argc, char **argv), char **argv)
{
	FILE *err = tmpfile(), *out = tmpfile();
	int argc = 0, status;
	pid_t pid;

	assert_true(err && out);
	while (argv[argc])
		argc++;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		dup2(fileno(err), STDERR_FILENO);
		dup2(fileno(out), STDOUT_FILENO);
		exit(command(argc, argv));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	read_text_of(err, said, sizeof(said));
	read_text_of(out, shown, sizeof(shown));
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

#define RUN(name, ...) run(cmd_##name, (char *[]){(char *)#name, __VA_ARGS__, NULL})

static inline void assert_words(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("'%s' is not in:\n%s", words, text);
}

/* Asserts that the command is refused with this status and a message with these words. After wrong
 * usage, the message must also say where the options are listed. */
#define ASSERT_REFUSED(status, words, name, ...)                                                   \
	do {                                                                                       \
		assert_int_equal(RUN(name, __VA_ARGS__), status);                                  \
		assert_words(said, words);                                                         \
		if (status == EXIT_USAGE)                                                          \
			assert_words(said, "Try 'memtrace " #name " --help'.");                    \
		assert_string_equal(shown, "");                                                    \
	} while (0)

#endif
