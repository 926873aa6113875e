/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of the commands, as tables. Parsing, --help, the manual pages and the completions of
 * shells are made of them: an option is told in one place. */
#ifndef MEMTRACE_CLI_OPTIONS_H
#define MEMTRACE_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct option_row {
	const char *name; /* without the dashes */
	char letter;	  /* 0: none */
	const char *arg;  /* what its value is called, with its unit: BYTES; NULL: it has none */
	bool arg_optional;
	const char *by_default; /* for people; NULL: told in the text, or none */
	const char *values;	/* the words that it takes, separated by blanks; NULL: others */
	const char *help;	/* a sentence or two, without a full stop */
	const char *man;	/* what the manual says besides; NULL: nothing */
	/* Takes in the value, NULL where none was given. 0, or the exit status, said. NULL: sets
	 * the bool at offset flag of the group's part of the configuration. */
	int (*take)(void *config, const char *command, const struct option_row *row,
		    const char *value);
	size_t flag;
};

/* The head of take_WHAT(), for a row. */
#define TAKE_OPTION(what)                                                                          \
	static int take_##what(void *config, const char *command, const struct option_row *row,    \
			       const char *value)

/* Where options are told: usual ones everywhere. */
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
	const struct option_row *rows; /* up to one without a name */
	size_t offset; /* of what its rows fill in, in the command's configuration */
	enum option_group_kind kind;
};

/* What a command is asked for, and all that people are told of that. */
struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;		   /* a line */
	const char *usage;		   /* lines, each what follows "memtrace " */
	const char *about;		   /* sentences */
	const char *man;		   /* what the manual says besides; NULL: nothing */
	const struct option_group *groups; /* up to one without rows */
	const char *status;		   /* of its exit, in the manual; NULL: as every command */
	bool stops;			   /* at the first word that is no option */
};

/* All commands, up to one without a name. */
extern const struct command *const commands[];

/* Sets config by argv, from which optind then tells what is left. 0, or the exit status, said. Ends
 * memtrace after --help and --version. */
int command__parse(const struct command *command, void *config, int argc, char **argv);

/* What --help says, at most 80 columns wide and two screens of 25 lines long. */
void command__print_help(const struct command *command, FILE *to);

/* Calls each() for every option, those that all commands have at the end, until it returns other
 * than 0, which is returned. */
int command__each_option(const struct command *command,
			 int (*each)(void *ctx, const struct option_group *group,
				     const struct option_row *row),
			 void *ctx);

/* Has the command options of the kind? */
bool command__has_options(const struct command *command, enum option_group_kind kind);

/* What its manual page is called: "memtrace" of the first of commands[], else "memtrace-NAME".
 * buf: >= 32 bytes; returns buf. */
const char *command__page(const struct command *command, char *buf);

/* "-n, --top N": left of its text. */
void option_row__print_name(const struct option_row *row, FILE *to);

#endif
