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
	const char *arg;  /* name of the option's value, such as BYTES, which tells the unit; NULL:
			   * the option has no value */
	bool arg_optional;
	const char *by_default; /* the default, for people; NULL: there is none, or `help` tells
				 * it */
	/* the words that the option accepts, separated by blanks; NULL: no fixed words */
	const char *values;
	const char *help; /* a sentence or two, without a full stop */
	const char *man;  /* more text for the manual; NULL: none */
	/* Stores the value, which is NULL if none was given. Returns 0, or the exit status after a
	 * complaint. If `take` is NULL, the option sets the bool at offset `flag` in the group's
	 * part of the configuration. */
	int (*take)(void *config, const char *command, const struct option_row *row,
		    const char *value);
	size_t flag;
	size_t to; /* offset in the same part, for take_text() and the like */
};

/* The head of a function take_...() for a row. */
#define TAKE_OPTION_HEAD(what)                                                                     \
	int take_##what(void *config, const char *command, const struct option_row *row,           \
			const char *value)
#define TAKE_OPTION(what) static TAKE_OPTION_HEAD(what)

/* For rows whose value is stored at offset `to`. take_text() stores a const char *. take_rows()
 * stores an unsigned: a number of rows of a table. take_pid() stores a pid_t, and take_seconds() a
 * double above 0. */
TAKE_OPTION_HEAD(text);
TAKE_OPTION_HEAD(rows);
TAKE_OPTION_HEAD(pid);
TAKE_OPTION_HEAD(seconds);

/* For a row {"hide-runtime", HIDE_RUNTIME(struct config, member)}: "no" sets the bool `member`,
 * which is show_runtime of struct table_options. */
TAKE_OPTION_HEAD(hide_runtime);
#define HIDE_RUNTIME(config, member)                                                               \
	.arg = "no", .arg_optional = true, .by_default = "yes", .values = "yes no",                \
	.take = take_hide_runtime, .to = offsetof(config, member),                                 \
	.help = "stacks of tables begin with the program's own code",                              \
	.man = "Frames of a language's runtime and standard library before that code are left "    \
	       "out. With no, stacks begin where memory is allocated, and all frames but the "     \
	       "allocator's are named. Files and JSON have all frames in either case."

/* Where an option is described. Usual options are described everywhere. */
enum option_group_kind {
	OPTIONS_USUAL,
	OPTIONS_RARE, /* not in --help, which has to fit on two screens */
	/* For work on memtrace itself. The names of these options begin with --debug-. They have a
	 * section at the end of the manual, and are neither in --help nor in completions. */
	OPTIONS_DEBUG,
};

/* Rows under one title. If a group has the title of the group before, the title is printed once. */
struct option_group {
	const char *title;
	const struct option_row *rows; /* the last row has no name */
	/* offset of the part of the command's configuration that the rows fill in */
	size_t offset;
	enum option_group_kind kind;
};

/* A command, its options, and all texts about it. */
struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;		   /* a line */
	const char *usage;		   /* lines, each the text that follows "memtrace " */
	const char *about;		   /* sentences */
	const char *man;		   /* more text for the manual; NULL: none */
	const struct option_group *groups; /* the last group has no rows */
	/* the manual's text on the exit status; NULL: the usual one */
	const char *status;
	bool stops; /* parsing stops at the first word that is not an option */
};

/* All commands, ended by NULL. */
extern const struct command *const commands[];

/* Sets config from argv; optind is then the index of the first argument after the options. 0, or
 * the exit status after a complaint. Ends memtrace after --help and --version. */
int command__parse(const struct command *command, void *config, int argc, char **argv);

/* Prints the text of --help, at most 80 columns wide and two screens of 25 lines long. */
void command__print_help(const struct command *command, FILE *to);

/* Calls each() for every option of the command, then for the options that all commands have. If
 * each() returns a value other than 0, the calls end and this value is returned. */
int command__each_option(const struct command *command,
			 int (*each)(void *ctx, const struct option_group *group,
				     const struct option_row *row),
			 void *ctx);

/* Does the command have options of this kind? */
bool command__has_options(const struct command *command, enum option_group_kind kind);

/* Returns the name of the manual page: "memtrace" for the first of commands[], else
 * "memtrace-NAME". buf: >= 32 bytes; returns buf. */
const char *command__page(const struct command *command, char *buf);

/* Prints the option's names and value, such as "-n, --top N". In --help they stand left of the
 * option's text. */
void option_row__print_name(const struct option_row *row, FILE *to);

#endif
