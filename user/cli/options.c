// SPDX-License-Identifier: BSD-2-Clause
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

#define MAX_OPTIONS 64
#define LONG_OPTION 256 /* getopt_long() returns this plus the row's number */
#define TEXT_COLUMN 26
#define COLUMNS	    80
#define PAGE_NAME   32

static int take_help(void *config, const char *name, const struct option_row *row,
		     const char *value)
{
	(void)config, (void)row, (void)value;
	for (const struct command *const *command = commands; *command; command++)
		if (!strcmp((*command)->name, name))
			command__print_help(*command, stdout);
	exit(end_output(0));
}

static int take_version(void *config, const char *name, const struct option_row *row,
			const char *value)
{
	(void)config, (void)name, (void)row, (void)value;
	puts("memtrace " MEMTRACE_VERSION);
	exit(end_output(0));
}

static const struct option_row common_rows[] = {
	{"help", .letter = 'h', .take = take_help, .help = "this list",
	 .man = "The manual says more about each option."},
	{"version", .take = take_version, .help = "the version",
	 .man = "A line: memtrace and the number."},
	{},
};
static const struct option_group common = {.title = "Others", .rows = common_rows};

int command__each_option(const struct command *command,
			 int (*each)(void *ctx, const struct option_group *group,
				     const struct option_row *row),
			 void *ctx)
{
	const struct option_group *group = command->groups;
	int rc = 0;

	for (bool last = false; !last && !rc; group++) {
		last = !group->rows;
		for (const struct option_row *row = last ? common_rows : group->rows;
		     row->name && !rc; row++)
			rc = each(ctx, last ? &common : group, row);
	}
	return rc;
}

static int is_of_kind(void *kind, const struct option_group *group, const struct option_row *row)
{
	(void)row;
	return group->kind == *(const enum option_group_kind *)kind;
}

bool command__has_options(const struct command *command, enum option_group_kind kind)
{
	return command__each_option(command, is_of_kind, &kind);
}

const char *command__page(const struct command *command, char *buf)
{
	bool first = command == commands[0];

	snprintf(buf, PAGE_NAME, "memtrace%s%s", first ? "" : "-", first ? "" : command->name);
	return buf;
}

/* --- parsing --- */

struct parser {
	const struct option_group *groups[MAX_OPTIONS];
	const struct option_row *rows[MAX_OPTIONS];
	struct option options[MAX_OPTIONS + 1];
	char letters[3 * MAX_OPTIONS + 3];
	int n;
};

static int add_option(void *ctx, const struct option_group *group, const struct option_row *row)
{
	struct parser *p = ctx;
	char letter[] = {row->letter, row->arg ? ':' : '\0', '\0'};

	if (p->n == MAX_OPTIONS)
		abort();
	strcat(p->letters, letter);
	p->groups[p->n] = group;
	p->rows[p->n] = row;
	p->options[p->n] = (struct option){row->name,
					   !row->arg	       ? no_argument
					   : row->arg_optional ? optional_argument
							       : required_argument,
					   NULL, LONG_OPTION + p->n};
	p->n++;
	return 0;
}

/* Returns the number of the option's row, or -1. */
static int find_option(const struct parser *p, int opt)
{
	if (opt >= LONG_OPTION)
		return opt - LONG_OPTION;
	for (int i = 0; i < p->n; i++)
		if (p->rows[i]->letter == opt)
			return i;
	return -1;
}

TAKE_OPTION_HEAD(text)
{
	(void)command;
	*(const char **)((char *)config + row->to) = value;
	return 0;
}

TAKE_OPTION_HEAD(rows)
{
	uint64_t n;

	if (parse_count(value, 1, 1000000, &n))
		return usage_error(command, "'%s' is not a number of rows", value);
	*(unsigned *)((char *)config + row->to) = (unsigned)n;
	return 0;
}

TAKE_OPTION_HEAD(pid)
{
	uint64_t pid;

	if (parse_count(value, 1, INT32_MAX, &pid))
		return usage_error(command, "'%s' is not a pid", value);
	*(pid_t *)((char *)config + row->to) = (pid_t)pid;
	return 0;
}

TAKE_OPTION_HEAD(seconds)
{
	double seconds;

	if (parse_seconds(value, &seconds))
		return usage_error(command,
				   "'%s' is not a duration: seconds, more than 0, or as in 5m, 1h",
				   value);
	memcpy((char *)config + row->to, &seconds, sizeof(seconds));
	return 0;
}

TAKE_OPTION_HEAD(hide_runtime)
{
	bool no = value && !strcmp(value, "no");

	if (value && !no && strcmp(value, "yes"))
		return usage_error(command, "--%s is yes or no, not '%s'", row->name, value);
	*((bool *)config + row->to) = no;
	return 0;
}

static int take_option(const struct command *command, const struct option_group *group,
		       const struct option_row *row, void *config)
{
	char *part = (char *)config + group->offset;

	if (row->take)
		return row->take(part, command->name, row, optarg);
	*(bool *)(part + row->flag) = true;
	return 0;
}

int command__parse(const struct command *command, void *config, int argc, char **argv)
{
	struct parser p = {};
	int opt, row, rc = 0;

	/* '+': options after the traced command's name belong to that command; ':' reports a
	 * missing value. */
	strcpy(p.letters, command->stops ? "+:" : ":");
	command__each_option(command, add_option, &p);
	opterr = 0;
	while (!rc && (opt = getopt_long(argc, argv, p.letters, p.options, NULL)) != -1) {
		if (opt == ':')
			return usage_error(command->name, "%s needs a value", argv[optind - 1]);
		row = find_option(&p, opt);
		if (row < 0 && optopt >= LONG_OPTION)
			return usage_error(command->name, "--%s takes no value",
					   p.rows[optopt - LONG_OPTION]->name);
		if (row < 0)
			return unknown_option(command->name, argv);
		rc = take_option(command, p.groups[row], p.rows[row], config);
	}
	return rc;
}

/* --- help --- */

/* Prints words, the first one from `column` on. A further line begins at TEXT_COLUMN. Returns the
 * column where the last word ends. */
static size_t print_words(const char *text, size_t column, FILE *to)
{
	size_t len;

	for (text += strspn(text, " "); *text; text += len, text += strspn(text, " ")) {
		len = strcspn(text, " ");
		if (column + 1 + len > COLUMNS) {
			fprintf(to, "\n%*s", TEXT_COLUMN, "");
			column = TEXT_COLUMN;
		} else if (column > TEXT_COLUMN) {
			fputc(' ', to);
			column++;
		}
		fwrite(text, 1, len, to);
		column += len;
	}
	return column;
}

void option_row__print_name(const struct option_row *row, FILE *to)
{
	if (row->letter)
		fprintf(to, "-%c, ", row->letter);
	fprintf(to,
		row->arg_optional ? "--%s[=%s]"
		: row->arg	  ? "--%s %s"
				  : "--%s",
		row->name, row->arg);
}

struct lister {
	FILE *to;
	const char *title;
};

static int print_option(void *ctx, const struct option_group *group, const struct option_row *row)
{
	char name[64] = "", by_default[64];
	struct lister *lister = ctx;
	FILE *to = lister->to, *text;
	size_t column;

	if (group->kind != OPTIONS_USUAL)
		return 0;
	if (!lister->title || strcmp(lister->title, group->title))
		fprintf(to, "%s%s:\n", lister->title ? "\n" : "", group->title);
	lister->title = group->title;
	text = fmemopen(name, sizeof(name), "w");
	if (!text)
		return -ENOMEM;
	option_row__print_name(row, text);
	fclose(text);
	column = (size_t)fprintf(to, "  %s%s", row->letter ? "" : "    ", name);
	if (column + 2 > TEXT_COLUMN) {
		fputc('\n', to);
		column = 0;
	}
	fprintf(to, "%*s", (int)(TEXT_COLUMN - column), "");
	column = print_words(row->help, TEXT_COLUMN, to);
	if (row->by_default) {
		snprintf(by_default, sizeof(by_default), "(default %s)", row->by_default);
		print_words(by_default, column, to);
	}
	fputc('\n', to);
	return 0;
}

/* Prints sentences in lines as wide as the screen. */
static void print_text(const char *text, FILE *to)
{
	size_t column = 0, len;

	for (; *text; text += len, text += strspn(text, " ")) {
		len = strcspn(text, " ");
		if (column && column + 1 + len > COLUMNS) {
			fputc('\n', to);
			column = 0;
		}
		column += (size_t)fprintf(to, "%s%.*s", column ? " " : "", (int)len, text);
	}
	fputc('\n', to);
}

void command__print_help(const struct command *command, FILE *to)
{
	struct lister lister = {to, NULL};
	char page[PAGE_NAME];

	for (const char *line = command->usage; *line;) {
		size_t len = strcspn(line, "\n");

		fprintf(to, "memtrace %.*s\n", (int)len, line);
		line += len + (line[len] == '\n');
	}
	fputc('\n', to);
	print_text(command->about, to);
	fputc('\n', to);
	command__each_option(command, print_option, &lister);
	if (command__has_options(command, OPTIONS_RARE))
		fprintf(to, "\nRarely needed options are in the manual: man %s\n",
			command__page(command, page));
}
