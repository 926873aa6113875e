// SPDX-License-Identifier: BSD-2-Clause
/* Writes the manual pages and the shells' completions, from the tables by which memtrace parses its
 * options.
 * usage: manual DIRECTORY
 *   man1/memtrace.1 (record and the list of commands), man1/memtrace-COMMAND.1, in man(7)'s macros;
 *   bash/memtrace, zsh/_memtrace, fish/memtrace.fish */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/options.h"

#define LINE 78 /* mandoc complains of longer lines than 80 */

static char date[32];

static FILE *create(const char *directory, const char *part, const char *name, const char *end)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, part);
	if (mkdir(path, 0777) && errno != EEXIST) {
		perror(path);
		exit(1);
	}
	snprintf(path, sizeof(path), "%s/%s/%s%s", directory, part, name, end);
	file = fopen(path, "w");
	if (!file) {
		perror(path);
		exit(1);
	}
	return file;
}

static void finish(FILE *file)
{
	if (ferror(file) || fclose(file)) {
		perror("manual");
		exit(1);
	}
}

/* --- manual pages --- */

static void put_word(const char *word, size_t len, FILE *to)
{
	for (size_t i = 0; i < len; i++)
		if (word[i] == '\\')
			fputs("\\e", to);
		else if (word[i] == '-')
			fputs("\\-", to);
		else if (!i && (word[i] == '.' || word[i] == '\''))
			fprintf(to, "\\&%c", word[i]);
		else
			fputc(word[i], to);
}

/* Begins a new line for each sentence. */
static void put_text(const char *text, FILE *to)
{
	size_t column = 0, len;

	for (text += strspn(text, " \n"); *text; text += len, text += strspn(text, " \n")) {
		len = strcspn(text, " \n");
		if (column && column + 1 + 2 * len > LINE) {
			fputc('\n', to);
			column = 0;
		}
		if (column)
			fputc(' ', to);
		put_word(text, len, to);
		column += 1 + len;
		if (text[len - 1] == '.' && column) {
			fputc('\n', to);
			column = 0;
		}
	}
	if (column)
		fputc('\n', to);
}

static void put_sentence(const char *text, FILE *to)
{
	char sentence[4096];
	size_t len = strlen(text);

	snprintf(sentence, sizeof(sentence), "%s%s", text, len && text[len - 1] == '.' ? "" : ".");
	if (sentence[0] >= 'a' && sentence[0] <= 'z' && sentence[1] != '.')
		sentence[0] = (char)(sentence[0] - 'a' + 'A');
	put_text(sentence, to);
}

struct page {
	FILE *to;
	const char *title;
	bool debug; /* true: writes only the options for debugging; false: only all others */
};

static int put_option(void *ctx, const struct option_group *group, const struct option_row *row)
{
	struct page *page = ctx;
	char by_default[256];

	if ((group->kind == OPTIONS_DEBUG) != page->debug)
		return 0;
	if (!page->debug && (!page->title || strcmp(page->title, group->title)))
		fprintf(page->to, ".SS \"%s\"\n", group->title);
	page->title = group->title;
	fputs(".TP\n", page->to);
	if (row->letter)
		fprintf(page->to, "\\fB\\-%c\\fR, ", row->letter);
	fputs("\\fB\\-\\-", page->to);
	put_word(row->name, strlen(row->name), page->to);
	fputs("\\fR", page->to);
	if (row->arg) {
		fputs(row->arg_optional ? "[=\\fI" : " \\fI", page->to);
		put_word(row->arg, strlen(row->arg), page->to);
		fputs(row->arg_optional ? "\\fR]" : "\\fR", page->to);
	}
	fputc('\n', page->to);
	put_sentence(row->help, page->to);
	if (row->by_default) {
		snprintf(by_default, sizeof(by_default), "Default: %s.", row->by_default);
		put_text(by_default, page->to);
	}
	if (row->man)
		put_sentence(row->man, page->to);
	return 0;
}

static void put_upper(const char *text, FILE *to)
{
	for (; *text; text++)
		fputc(*text >= 'a' && *text <= 'z' ? *text - 'a' + 'A' : *text, to);
}

static void put_page(const char *directory, const struct command *command)
{
	bool first = command == commands[0];
	char name[32];
	struct page page = {};

	command__page(command, name);
	page.to = create(directory, "man1", name, ".1");
	fputs(".TH ", page.to);
	put_upper(name, page.to);
	fprintf(page.to, " 1 %s \"memtrace %s\"\n.SH NAME\n", date, MEMTRACE_VERSION);
	put_word(name, strlen(name), page.to);
	fputs(" \\- ", page.to);
	put_text(command->summary, page.to);
	fputs(".SH SYNOPSIS\n.nf\n", page.to);
	for (const char *line = command->usage; *line;) {
		size_t len = strcspn(line, "\n");

		fputs("memtrace ", page.to);
		put_word(line, len, page.to);
		fputc('\n', page.to);
		line += len + (line[len] == '\n');
	}
	fputs(".fi\n.SH DESCRIPTION\n", page.to);
	put_text(command->about, page.to);
	if (command->man)
		put_text(command->man, page.to);
	if (first) {
		fputs(".SH COMMANDS\n", page.to);
		for (const struct command *const *c = commands + 1; *c; c++) {
			fprintf(page.to, ".TP\n\\fBmemtrace %s\\fR\n", (*c)->name);
			put_sentence((*c)->summary, page.to);
		}
	}
	fputs(".SH OPTIONS\n", page.to);
	command__each_option(command, put_option, &page);
	fputs(".SH EXIT STATUS\n", page.to);
	put_text(command->status
			 ? command->status
			 : "0: all is well. 1: the command failed, and standard error says why. 2: "
			   "wrong usage.",
		 page.to);
	if (command__has_options(command, OPTIONS_DEBUG)) {
		fputs(".SH DEBUGGING\n"
		      "Options for work on memtrace itself, which may change or be removed without "
		      "notice.\n",
		      page.to);
		page.debug = true;
		command__each_option(command, put_option, &page);
	}
	fputs(".SH SEE ALSO\n", page.to);
	for (const struct command *const *c = commands; *c; c++)
		if (*c != command)
			fprintf(page.to, ".BR memtrace%s%s (1)%s\n", c == commands ? "" : "\\-",
				c == commands ? "" : (*c)->name,
				c[1] && (c[1] != command || c[2]) ? "," : "");
	finish(page.to);
}

/* --- completions --- */

struct completion {
	FILE *to;
	const struct command *command;
};

static int put_word_of_option(void *ctx, const struct option_group *group,
			      const struct option_row *row)
{
	struct completion *c = ctx;

	if (group->kind != OPTIONS_DEBUG)
		fprintf(c->to, " --%s", row->name);
	return 0;
}

static int put_bash_values(void *ctx, const struct option_group *group,
			   const struct option_row *row)
{
	struct completion *c = ctx;

	(void)group;
	if (!row->values || row->arg_optional)
		return 0;
	fprintf(c->to, "\t%s:--%s", c->command->name, row->name);
	if (row->letter)
		fprintf(c->to, " | %s:-%c", c->command->name, row->letter);
	fprintf(c->to, ") words='%s' ;;\n", row->values);
	return 0;
}

/* Writes the completions of bash. The file for zsh has them, too. */
static void put_bash(FILE *to)
{
	fputs("_memtrace() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
	      "command=record words=\n"
	      "\tcase ${COMP_WORDS[1]} in\n\t",
	      to);
	for (const struct command *const *c = commands + 1; *c; c++)
		fprintf(to, "%s%s", c == commands + 1 ? "" : " | ", (*c)->name);
	fputs(") command=${COMP_WORDS[1]} ;;\n\tesac\n\tcase $command:$prev in\n", to);
	for (const struct command *const *c = commands; *c; c++) {
		struct completion of = {to, *c};

		command__each_option(*c, put_bash_values, &of);
	}
	fputs("\tesac\n\tif [[ -z $words && $cur == -* ]]; then\n\t\tcase $command in\n", to);
	for (const struct command *const *c = commands; *c; c++) {
		struct completion of = {to, *c};

		fprintf(to, "\t\t%s) words='", (*c)->name);
		command__each_option(*c, put_word_of_option, &of);
		fputs("' ;;\n", to);
	}
	fputs("\t\tesac\n\telif [[ -z $words && $COMP_CWORD == 1 ]]; then\n\t\twords='", to);
	for (const struct command *const *c = commands; *c; c++)
		fprintf(to, " %s", (*c)->name);
	fputs("'\n\tfi\n\t# shellcheck disable=SC2207 # words without blanks\n"
	      "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"
	      "complete -o default -F _memtrace memtrace\n",
	      to);
}

static int put_fish_option(void *ctx, const struct option_group *group,
			   const struct option_row *row)
{
	struct completion *c = ctx;

	if (group->kind == OPTIONS_DEBUG)
		return 0;
	fputs("complete -c memtrace -n '", c->to);
	if (c->command == commands[0]) {
		fputs("not __fish_seen_subcommand_from", c->to);
		for (const struct command *const *other = commands + 1; *other; other++)
			fprintf(c->to, " %s", (*other)->name);
	} else {
		fprintf(c->to, "__fish_seen_subcommand_from %s", c->command->name);
	}
	fprintf(c->to, "' -l %s", row->name);
	if (row->letter)
		fprintf(c->to, " -s %c", row->letter);
	if (row->arg && !row->arg_optional)
		fputs(" -r", c->to);
	if (row->values)
		fprintf(c->to, " -f -a '%s'", row->values);
	fputs(" -d '", c->to);
	for (const char *p = row->help; *p; p++)
		fprintf(c->to, *p == '\'' || *p == '\\' ? "\\%c" : "%c", *p);
	fputs("'\n", c->to);
	return 0;
}

int main(int argc, char **argv)
{
	const char *epoch = getenv("SOURCE_DATE_EPOCH");
	time_t now = epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
	FILE *to;

	if (argc != 2) {
		fputs("usage: manual DIRECTORY\n", stderr);
		return 2;
	}
	strftime(date, sizeof(date), "%Y-%m-%d", gmtime(&now));
	for (const struct command *const *c = commands; *c; c++)
		put_page(argv[1], *c);
	to = create(argv[1], "bash", "memtrace", "");
	fputs("# Completion of memtrace's options for bash.\n", to);
	put_bash(to);
	finish(to);
	to = create(argv[1], "zsh", "_memtrace", "");
	fputs("#compdef memtrace\nautoload -U +X bashcompinit && bashcompinit\n", to);
	put_bash(to);
	finish(to);
	to = create(argv[1], "fish", "memtrace", ".fish");
	for (const struct command *const *c = commands; *c; c++) {
		struct completion of = {to, *c};

		if (c != commands)
			fprintf(to,
				"complete -c memtrace -n '__fish_use_subcommand' -a %s -d '%s'\n",
				(*c)->name, (*c)->summary);
		command__each_option(*c, put_fish_option, &of);
	}
	finish(to);
	return 0;
}
