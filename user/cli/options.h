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
	const char *by_default; /* for people; NULL: there is none, or the text tells it */
	/* the words that it accepts, separated by blanks; NULL: no fixed words */
	const char *values;
	const char *help; /* a sentence or two, without a full stop */
	const char *man;  /* what the manual says besides; NULL: nothing */
	/* Takes the value, NULL where none was given. Returns 0, or the exit status after a
	 * complaint. If take is NULL, the option sets the bool at offset flag in the group's part
	 * of the configuration. */
	int (*take)(void *config, const char *command, const struct option_row *row,
		    const char *value);
	size_t flag;
	size_t to; /* offset there, for take_text() and its like below */
};

/* The head of a function take_WHAT() for a row. */
#define TAKE_OPTION_HEAD(what)                                                                     \
	int take_##what(void *config, const char *command, const struct option_row *row,           \
			const char *value)
#define TAKE_OPTION(what) static TAKE_OPTION_HEAD(what)

/* For rows whose value is stored as it is, at offset to: take_text() in a const char *, take_rows()
 * in an unsigned, as a number of rows of a table, take_pid() in a pid_t, and take_seconds(), more
 * than 0, in a double. */
TAKE_OPTION_HEAD(text);
TAKE_OPTION_HEAD(rows);
TAKE_OPTION_HEAD(pid);
TAKE_OPTION_HEAD(seconds);

/* For rows of --hide-runtime[=no], into a bool at offset to, which is set for "no": show_runtime of
 * struct table_options. Their texts are the same in all commands. */
TAKE_OPTION_HEAD(hide_runtime);
#define HIDE_RUNTIME_ARG  "no"
#define HIDE_RUNTIME_HELP "stacks of tables begin with the program's own code"
#define HIDE_RUNTIME_MAN                                                                           \
	"Frames of a language's runtime and its standard library before that are left out. no: "   \
	"stacks begin where memory is allocated, and all frames but the allocator's are named. "   \
	"Files and JSON have all frames in either case."

/* Where an option is described. Usual options are described everywhere. */
enum option_group_kind {
	OPTIONS_USUAL,
	OPTIONS_RARE, /* not in --help, which has to fit on two screens */
	/* For work on memtrace itself: named --debug-..., in a section of their own at the end of
	 * the manual, and neither in --help nor in completions. */
	OPTIONS_DEBUG,
};

/* Rows under one title. If a group has the same title as the one before, the title is printed
 * once. */
struct option_group {
	const char *title;
	const struct option_row *rows; /* ended by one without a name */
	/* where the part that the rows fill in begins in the command's configuration */
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
	const char *man;		   /* what the manual says besides; NULL: nothing */
	const struct option_group *groups; /* ended by one without rows */
	/* the manual's text on the exit status; NULL: the usual one */
	const char *status;
	bool stops; /* parsing stops at the first word that is no option */
};

/* All commands, ended by NULL. */
extern const struct command *const commands[];

/* Sets config from argv; optind is then the index of the first argument that is left. 0, or the
 * exit status after a complaint. Ends memtrace after --help and --version. */
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

/* Name of the manual page: "memtrace" for the first of commands[], else "memtrace-NAME". buf: >= 32
 * bytes; returns buf. */
const char *command__page(const struct command *command, char *buf);

/* Prints "-n, --top N", which stands left of the option's text. */
void option_row__print_name(const struct option_row *row, FILE *to);

#endif
