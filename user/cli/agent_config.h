/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's configuration file: the command's options, one per line.
 *
 *	# a comment
 *	listen = 127.0.0.1:9178
 *	comm = redis-server
 *	leaks
 *
 * Each line stands for the long option of that name. */
#ifndef MEMTRACE_CLI_AGENT_CONFIG_H
#define MEMTRACE_CLI_AGENT_CONFIG_H

#include <stddef.h>

#include "base/error.h"
#include "cli/options.h"

#define AGENT_CONFIG_BYTES (64 << 10) /* largest size of a file */
#define AGENT_CONFIG_LINES 512

/* Arguments of a command. */
struct arguments {
	char **argv; /* each one is owned; NULL after the last one */
	int argc;
};

/* Copies argv. The lines of FILE replace the option --config FILE. This option may be given once,
 * and may be shortened to --conf. check() gets the n arguments of one line (argv[0] is the
 * command's name), and complains if they are wrong; it may be NULL. 0; -ENOMEM; EXIT_USAGE or
 * EXIT_FAILED after a complaint that names file and line. Free with arguments__free() in any
 * case. */
int arguments__expand(const char *command, int argc, char **argv, int (*check)(int n, char **argv),
		      struct arguments *ret);

void arguments__free(struct arguments *arguments);

#endif
