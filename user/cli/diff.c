// SPDX-License-Identifier: BSD-2-Clause
/* memtrace diff: which stacks have grown from one profile to another, and how surely. */
#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/guard.h"
#include "agent/loopback.h"
#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/secret.h"
#include "cli/several.h"
#include "encode/encode.h"

enum diff_format { FORMAT_TABLE, FORMAT_JSON, FORMAT_COLLAPSED, FORMAT_SVG, DIFF_FORMATS };

static const char *const format_names[DIFF_FORMATS] = {"table", "json", "collapsed", "svg"};

struct diff_config {
	bool per_process;
	enum diff_measure measure;
	enum diff_format format;
	const char *output;
	const char *token_file;
	struct fetch_options fetching;
	struct table_options table;
	const struct diff *diff; /* either `diff` or `replicas` is set */
	const struct replicas *replicas;
};

static int encode(const void *what, struct sink *sink)
{
	const struct diff_config *c = what;

	if (c->replicas)
		return c->format == FORMAT_JSON ? encode_replicas_json(c->replicas, sink)
						: encode_replicas(c->replicas, &c->table, sink);
	switch (c->format) {
	case FORMAT_JSON:
		return encode_diff_json(c->diff, sink);
	case FORMAT_COLLAPSED:
		return encode_diff_collapsed(c->diff, sink);
	case FORMAT_SVG:
		return encode_svg(c->diff->profiles[c->diff->n_profiles - 1],
				  &(struct svg_options){.base = c->diff->profiles[0]}, sink);
	default:
		return encode_diff(c->diff, &c->table, sink);
	}
}

TAKE_OPTION(format)
{
	struct diff_config *c = config;

	(void)row;
	for (int i = 0; i < DIFF_FORMATS; i++)
		if (!strcmp(value, format_names[i])) {
			c->format = (enum diff_format)i;
			return 0;
		}
	return usage_error(command, "there is no format '%s': table, json, collapsed or svg",
			   value);
}

TAKE_OPTION(json)
{
	struct diff_config *c = config;

	(void)command, (void)row, (void)value;
	c->format = FORMAT_JSON;
	return 0;
}

TAKE_OPTION(measure)
{
	struct diff_config *c = config;

	(void)row;
	if (!strcmp(value, "live"))
		c->measure = DIFF_LIVE;
	else if (!strcmp(value, "growth"))
		c->measure = DIFF_GROWTH;
	else
		return usage_error(command, "profiles are compared by live or growth, not by '%s'",
				   value);
	return 0;
}

/* clang-format off: laid out by hand, each row reads like a sentence */
static const struct option_row compare_rows[] = {
	{"per-process", .flag = offsetof(struct diff_config, per_process),
	 .help = "the files are of replicas, one of each: which replica has more, and where",
	 .man = "Needs three files or more. Says which process has more than the others, and in "
		"which stack."},
	{"by", .arg = "MEASURE", .values = "live growth", .take = take_measure,
	 .help = "live or growth (default: what the profiles allow)",
	 .man = "live compares bytes. growth compares the bytes per second by which each profile "
		"has grown in its own run."},
	{},
};

static const struct option_row fetch_rows[] = {
	{"token-file", .arg = "FILE", .take = take_text,
	 .to = offsetof(struct diff_config, token_file),
	 .help = "the bearer token for URLs is in this file",
	 .man = "Only its owner and its group may have the right to read it. All URLs get the "
		"token. It is sent over https only, or within the host."},
	{"cacert", .arg = "FILE", .take = take_text,
	 .to = offsetof(struct diff_config, fetching.cacert),
	 .help = "certificates of the authorities for https URLs, PEM",
	 .man = "By default those of the system are used."},
	{},
};

static const struct option_row output_rows[] = {
	{.name = "top",
	 .letter = 'n',
	 .arg = "N",
	 .by_default = "20",
	 .take = take_rows,
	 .to = offsetof(struct diff_config, table.top),
	 .help = "rows of the table",
	 .man = "A line below says how many stacks are left out, and what they add."},
	{"hide-runtime", HIDE_RUNTIME(struct diff_config, table.show_runtime)},
	{.name = "format",
	 .letter = 'f',
	 .arg = "NAME",
	 .by_default = "table",
	 .values = "table json collapsed svg",
	 .take = take_format,
	 .help = "table, json, collapsed or svg",
	 .man = "collapsed is lines of root;caller;leaf OLD NEW, for flamegraph.pl. svg is a "
		"flame graph of the last "
		"file in the colours of growth. These two cannot be combined with --per-process."},
	{"json", .take = take_json, .help = "the same as -f json",
	 .man = "One object on one line, with all stacks."},
	{.name = "output",
	 .letter = 'o',
	 .arg = "FILE",
	 .take = take_text,
	 .to = offsetof(struct diff_config, output),
	 .help = "into this file (default: standard output)",
	 .man = "In any format; a table is as wide there as its names are."},
	{},
};
/* clang-format on */

static const struct option_group groups[] = {
	{"What to compare", compare_rows, 0, OPTIONS_USUAL},
	{"URLs", fetch_rows, 0, OPTIONS_USUAL},
	{"Output", output_rows, 0, OPTIONS_USUAL},
	{},
};

const struct command command_diff = {
	.name = "diff",
	.run = cmd_diff,
	.summary = "what has grown from one profile to another, and how sure that is",
	.usage = "diff [OPTIONS] OLD NEW\n"
		 "diff [OPTIONS] OLDEST ... NEWEST\n"
		 "diff --per-process [OPTIONS] ONE ANOTHER THIRD...",
	.about = "Says what has grown, by stack, with its 95 % interval, and whether the growth is "
		 "more than chance: two sampled profiles always differ. The files are those that "
		 "memtrace report reads, or URLs of memtrace agent's profiles. Stacks are matched "
		 "by build-id and offset, or else by their functions' names, so that profiles of "
		 "other processes, hosts and versions are comparable. With more than two profiles, "
		 "the trend of each stack is shown.",
	.man = "A URL begins with http:// or https://, or is unix:SOCKET:PATH, such as "
	       "unix:/run/memtrace/socket:/pid/4711/debug/pprof/heap. curl fetches it, without "
	       "privileges, within 30 seconds.",
	.groups = groups,
};

/* Does the format show the live bytes of two profiles, and nothing else? */
static bool is_pair(const struct diff_config *c)
{
	return c->format == FORMAT_COLLAPSED || c->format == FORMAT_SVG;
}

static int parse_options(int argc, char **argv, struct diff_config *c)
{
	int rc = command__parse(&command_diff, c, argc, argv);

	if (rc)
		return rc;
	if (argc - optind < 2)
		return usage_error("diff",
				   "which files? Give two or more profiles, the oldest first");
	if (is_pair(c) && c->measure == DIFF_GROWTH)
		return usage_error("diff", "%s shows live bytes only: growth may be negative",
				   format_names[c->format]);
	if (is_pair(c))
		c->measure = DIFF_LIVE;
	if (is_pair(c) && argc - optind > 2)
		return usage_error("diff", "%s shows two profiles: give the first and the last",
				   format_names[c->format]);
	if (c->per_process && is_pair(c))
		return usage_error("diff", "%s shows two profiles, --per-process compares more",
				   format_names[c->format]);
	for (int i = optind; c->token_file && i < argc; i++)
		if (loopback__exposes(argv[i]))
			return usage_error(
				"diff",
				"the token would go to %s unencrypted: give an https:// URL",
				argv[i]);
	return 0;
}

DEFINE_CLEANUP(struct diff *, cleanup_diff, diff__free)
DEFINE_CLEANUP(struct replicas *, cleanup_replicas, replicas__free)

/* The table and JSON contain the warnings. The other formats have no place for them, so the
 * warnings go to stderr. These formats show no rates, so a warning that rates are missing is left
 * out. */
static void complain_of(const struct diff *diff)
{
	for (unsigned i = 0; i < DIFF_WARNINGS_MAX; i++)
		if (diff->warnings & 1u << i && i != DIFF_WARN_UNTIMED)
			complain("%s", diff_warning__text((enum diff_warning)i));
}

static int compare(struct diff_config *c, const struct profiles *profiles)
{
	const struct profile *const *list = (const struct profile *const *)profiles->list;
	_cleanup_(cleanup_replicas) struct replicas *replicas = NULL;
	_cleanup_(cleanup_diff) struct diff *diff = NULL;
	struct error err = {};
	int rc;

	if (c->per_process)
		rc = replicas__new(list, profiles->n, c->measure, &replicas, &err);
	else
		rc = diff__new(list, profiles->n, c->measure, &diff, &err);
	if (rc)
		return profiles__fail(profiles, rc, &err);
	c->diff = diff;
	c->replicas = replicas;
	if (diff && is_pair(c))
		complain_of(diff);
	return write_text(c->output, encode, c);
}

int cmd_diff(int argc, char **argv)
{
	static struct profiles profiles;
	struct diff_config config = {};
	int status = parse_options(argc, argv, &config);

	if (status)
		return status;
	fit_output(&config.table, config.output);
	status = config.token_file
			 ? secret__read_token("diff", config.token_file, true, GUARD_TOKEN_LEAST,
					      GUARD_TOKEN_MOST, &config.fetching.token)
			 : 0;
	if (!status)
		status = profiles__read(&profiles, "diff", argv + optind, (size_t)(argc - optind),
					&config.fetching);
	free(config.fetching.token);
	if (!status)
		status = compare(&config, &profiles);
	profiles__free(&profiles);
	return status;
}
