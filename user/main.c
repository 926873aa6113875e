// SPDX-License-Identifier: BSD-2-Clause
/* Finds the command by its name, and runs it. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options.h"

static void print_help(FILE *to)
{
	fputs("memtrace " MEMTRACE_VERSION
	      ": which code in a running process holds or leaks memory\n"
	      "\n"
	      "  memtrace -p PID[,PID...] [OPTIONS]     profile running processes\n"
	      "  memtrace [OPTIONS] -- COMMAND ARGS...  profile a command from its start\n"
	      "  memtrace top -p PID|-a [OPTIONS]       the same, live on the screen\n"
	      "  memtrace report FILE                   read a profile again\n"
	      "  memtrace diff OLD NEW [...]            what has grown between them\n"
	      "  memtrace leaks FILE...                 which code leaks\n"
	      "  memtrace why -p PID                    who holds it, or is it lost\n"
	      "  memtrace check [PID]                   what would work here\n"
	      "\n"
	      "Commands:\n",
	      to);
	for (const struct command *const *c = commands; *c; c++)
		fprintf(to, "  %-8s %s\n", (*c)->name, (*c)->summary);
	fputs("\n`memtrace COMMAND --help` lists the options of a command. Without COMMAND it\n"
	      "is record.\n",
	      to);
}

/* Opens /dev/null in place of each closed standard stream. Otherwise the next file that is opened
 * would take the stream's place, and what is written to the stream would go into that file. */
static void open_standard_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY); /* so that writing to it fails */
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* Prints a hint. A word that is no command may stand for a process, by pid or by name, or for a
 * program. */
static void hint(const char *word)
{
	if (!*word || word[strcspn(word, " \t\r\n\033'\"$`\\")])
		fputs("Try 'memtrace --help'.\n", stderr);
	else if (!word[strspn(word, "0123456789")])
		fprintf(stderr, "Try 'memtrace -p %s' for that process, or 'memtrace --help'.\n",
			word);
	else if (strchr(word, '/'))
		fprintf(stderr,
			"Try 'memtrace -- %s' to start that program, or 'memtrace --help'.\n",
			word);
	else
		fprintf(stderr,
			"Try 'memtrace -p $(pgrep -d, -x %s)' for what runs by that name, or "
			"'memtrace --help'.\n",
			word);
}

int main(int argc, char **argv)
{
	open_standard_streams();
	/* If memtrace's parent ignores SIGCHLD, memtrace inherits this. Then memtrace could not
	 * wait for its children: a command, or a child that reads a file. */
	signal(SIGCHLD, SIG_DFL);
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help(stdout);
		return end_output(0);
	}
	if (!strcmp(argv[1], "--version")) {
		puts("memtrace " MEMTRACE_VERSION);
		return end_output(0);
	}
	for (const struct command *const *c = commands; *c; c++)
		if (!strcmp(argv[1], (*c)->name))
			return (*c)->run(argc - 1, argv + 1);
	if (argv[1][0] != '-') {
		complain("there is no command '%s'", argv[1]);
		hint(argv[1]);
		return EXIT_USAGE;
	}
	return cmd_record(argc, argv);
}
