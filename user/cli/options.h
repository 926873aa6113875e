/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of the commands, as tables. Parsing, --help, the manual pages and the completions of
 * shells are made from these tables, so each option is described in one place. */
#ifndef MEMTRACE_CLI_OPTIONS_H
#define MEMTRACE_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct option_row {
	const char *name; /* without the dashes */
	char letter;	  /* 0: none */
	const char *arg;  /* name of its value, with the unit: BYTES; NULL: it has none */
	bool arg_optional;
	const char *by_default; /* for people; NULL: told in the text, or none */
	const char *values;	/* the words that it takes, separated by blanks; NULL: others */
	const char *help;	/* a sentence or two, without a full stop */
	const char *man;	/* what the manual says besides; NULL: nothing */
	/* Takes the value, NULL where none was given. Returns 0, or the exit status after a
	 * complaint. NULL: sets the bool at offset flag in the group's part of the
	 * configuration. */
	int (*take)(void *config, const char *command, const struct option_row *row,
		    const char *value);
	size_t flag;
};

/* The head of a function take_WHAT() for a row. */
#define TAKE_OPTION(what)                                                                          \
	static int take_##what(void *config, const char *command, const struct option_row *row,    \
			       const char *value)

/* Where options are described; usual ones everywhere. */
enum option_group_kind {
	OPTIONS_USUAL,
	OPTIONS_RARE, /* not in --help, which has to fit on two screens */
	/* For work on memtrace itself: named --debug-..., in a section of their own at the end of
	 * the manual, and neither in --help nor in completions. */
	OPTIONS_DEBUG,
};

/* Rows under one title; the title of the group before is not repeated. */
struct option_group {
	const char *title;
	const struct option_row *rows; /* ended by one without a name */
	size_t offset; /* of the part that its rows fill in, in the command's configuration */
	enum option_group_kind kind;
};

/* A command, its options, and all texts about it. */
struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;		   /* a line */
	const char *usage;		   /* lines, each the text that follows "memtrace " */
	const char *about;		   /* sentences */
	const char *man;		   /* what the manual says besides; NULL: nothing */
	const struct option_group *groups; /* ended by one without rows */
	const char *status;		   /* of its exit, in the manual; NULL: as every command */
	bool stops;			   /* at the first word that is no option */
};

/* All commands, ended by NULL. */
extern const struct command *const commands[];

/* Sets config from argv; optind is then the index of the first argument that is left. 0, or the
 * exit status after a complaint. Ends memtrace after --help and --version. */
int command__parse(const struct command *command, void *config, int argc, char **argv);

/* Prints the text of --help, at most 80 columns wide and two screens of 25 lines long. */
void command__print_help(const struct command *command, FILE *to);

/* Calls each() for every option, at the end for those that all commands have, until it returns a
 * value other than 0, which is then returned. */
int command__each_option(const struct command *command,
			 int (*each)(void *ctx, const struct option_group *group,
				     const struct option_row *row),
			 void *ctx);

/* Does the command have options of this kind? */
bool command__has_options(const struct command *command, enum option_group_kind kind);

/* Name of the manual page: "memtrace" for the first of commands[], else "memtrace-NAME". buf: >= 32
 * bytes; returns buf. */
const char *command__page(const struct command *command, char *buf);

/* Prints "-n, --top N", which stands left of the option's text. */
void option_row__print_name(const struct option_row *row, FILE *to);

#endif
