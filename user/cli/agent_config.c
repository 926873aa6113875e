// SPDX-License-Identifier: BSD-2-Clause
#include "cli/agent_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "cli/cli.h"

#define OPTION "--config"
/* The shortest form of OPTION. No shorter form is allowed, because --con could also mean
 * --container. */
#define SHORTEST "--conf"
#define SPACES	 " \t\r"

/* Returns the file of --config at argv[i]; NULL: argv[i] is another argument. The option's name may
 * be shortened. *ret_n: 1 for --config=FILE, 2 for --config FILE. */
static const char *config_of(int argc, char **argv, int i, int *ret_n)
{
	size_t len = strcspn(argv[i], "=");

	if (len < strlen(SHORTEST) || strncmp(argv[i], OPTION, len))
		return NULL;
	*ret_n = argv[i][len] ? 1 : 2;
	if (*ret_n == 1)
		return argv[i] + len + 1;
	return i + 1 < argc ? argv[i + 1] : NULL;
}

/* Reads the file into *ret, which the caller frees. 0; -ENOMEM; EXIT_FAILED after a complaint. */
static int read_text(const char *command, const char *path, char **ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_free_ char *text = NULL;
	struct stat st;
	ssize_t got;
	size_t n;

	if (fd < 0 || fstat(fd, &st)) {
		complain("%s: cannot open %s: %s", command, path, strerror(errno));
		return EXIT_FAILED;
	}
	if (!S_ISREG(st.st_mode)) {
		complain("%s: %s is not a file", command, path);
		return EXIT_FAILED;
	}
	text = malloc(AGENT_CONFIG_BYTES + 1);
	if (!text)
		return -ENOMEM;
	got = io__read(fd, text, AGENT_CONFIG_BYTES + 1);
	if (got < 0) {
		complain("%s: cannot read %s: %s", command, path, strerror((int)-got));
		return EXIT_FAILED;
	}
	n = (size_t)got;
	if (n > AGENT_CONFIG_BYTES) {
		complain("%s: %s has more than %d bytes", command, path, AGENT_CONFIG_BYTES);
		return EXIT_FAILED;
	}
	text[n] = '\0';
	if (strlen(text) != n) {
		complain("%s: %s is not text: it has a zero byte in it", command, path);
		return EXIT_FAILED;
	}
	*ret = text;
	text = NULL;
	return 0;
}

static char *trim(char *text)
{
	size_t len;

	text += strspn(text, SPACES);
	len = strlen(text);
	while (len && strchr(SPACES, text[len - 1]))
		text[--len] = '\0';
	return text;
}

/* Is the name this word, or a shortened form of it? */
static bool begins(const char *name, const char *word)
{
	return !strncmp(word, name, strlen(name));
}

/* Turns "name = value" or "name" into --name=value or --name. The caller frees *ret; NULL: the line
 * is empty or a comment. -EINVAL: the line has another form, or its option is not allowed in a
 * file. --config is not allowed. Neither are --help and --version: with them, the process that
 * checks the file would end with status 0, as if the file were good. */
static int read_line(char *line, char **ret)
{
	char *value = strchr(line, '='), *name;
	int len;

	*ret = NULL;
	line = trim(line);
	if (!*line || *line == '#')
		return 0;
	if (value)
		*value++ = '\0';
	name = trim(line);
	if (!*name || *name == '-' ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name) ||
	    !strcmp(name, &OPTION[2]) || begins(name, "help") || begins(name, "version"))
		return -EINVAL;
	len = value ? asprintf(ret, "--%s=%s", name, trim(value)) : asprintf(ret, "--%s", name);
	return len < 0 ? -ENOMEM : 0;
}

static int add_file(const char *command, const char *path, int (*check)(int n, char **argv),
		    struct arguments *a)
{
	_cleanup_free_ char *text = NULL;
	int rc = read_text(command, path, &text);
	char *line = text, *next;

	for (int number = 1; line && *line && !rc; line = next, number++) {
		char *option, *argv[3] = {(char *)command, NULL, NULL};

		/* arguments__expand() has room for this many lines, comments included */
		if (number > AGENT_CONFIG_LINES) {
			complain("%s: %s has more than %d lines", command, path,
				 AGENT_CONFIG_LINES);
			return EXIT_FAILED;
		}
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		rc = read_line(line, &option);
		if (rc == -EINVAL) {
			complain("%s:%d: this line must be OPTION = VALUE or OPTION, such as "
				 "'listen = 127.0.0.1:9178' or 'leaks'; config, help and version "
				 "are not allowed",
				 path, number);
			return EXIT_USAGE;
		}
		if (rc || !option)
			continue;
		a->argv[a->argc++] = argv[1] = option;
		if (check && check(2, argv)) {
			complain("%s:%d: this line is refused", path, number);
			return EXIT_USAGE;
		}
	}
	return rc;
}

int arguments__expand(const char *command, int argc, char **argv, int (*check)(int n, char **argv),
		      struct arguments *ret)
{
	bool had = false;
	int rc = 0, n;

	*ret = (struct arguments){
		.argv = calloc((size_t)argc + AGENT_CONFIG_LINES + 1, sizeof(char *))};
	if (!ret->argv)
		return -ENOMEM;
	for (int i = 0; i < argc && !rc; i += n) {
		const char *path = i ? config_of(argc, argv, i, &n) : NULL;

		if (!path) {
			n = 1;
			ret->argv[ret->argc] = strdup(argv[i]);
			rc = ret->argv[ret->argc++] ? 0 : -ENOMEM;
		} else if (had) {
			return usage_error(command, "%s may be given once", OPTION);
		} else {
			had = true;
			rc = add_file(command, path, check, ret);
		}
	}
	return rc;
}

void arguments__free(struct arguments *a)
{
	for (int i = 0; i < a->argc; i++)
		free(a->argv[i]);
	free(a->argv);
	*a = (struct arguments){};
}
