// SPDX-License-Identifier: BSD-2-Clause
/* memtrace diff: what has grown from one profile to another, and how sure that is. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/several.h"
#include "encode/encode.h"

static const char help[] =
	"memtrace diff [OPTIONS] OLD NEW\n"
	"memtrace diff [OPTIONS] OLDEST ... NEWEST\n"
	"memtrace diff --per-process [OPTIONS] ONE ANOTHER THIRD...\n"
	"\n"
	"What has grown, by stack, with its 95 % interval, and whether it is more than chance: "
	"two\n"
	"sampled profiles differ in any case. FILEs are what `memtrace report` reads. Stacks are "
	"matched\n"
	"by build-id and offset, or else by their functions' names, so that profiles of other "
	"processes,\n"
	"hosts and versions are comparable. Of more than two the trend of each stack is told.\n"
	"\n"
	"      --per-process          the files are of replicas, one of each, three or more: which "
	"one\n"
	"                             has more than the others, and in which stack\n"
	"      --by MEASURE           live (bytes) or growth (bytes per second of each profile's "
	"own\n"
	"                             run); default: what the profiles allow\n"
	"  -n, --top N                rows of the table (default 20)\n"
	"  -f, --format NAME          table (default), json, or collapsed: `root;caller;leaf OLD "
	"NEW`,\n"
	"                             for flamegraph.pl, or svg: a flame graph of the last file in "
	"the\n"
	"                             colours of growth (these two not with --per-process)\n"
	"      --json                 the same as -f json\n"
	"  -o, --output FILE          into this file (default: standard output)\n";

enum diff_format { FORMAT_TABLE, FORMAT_JSON, FORMAT_COLLAPSED, FORMAT_SVG, DIFF_FORMATS };

static const char *const format_names[DIFF_FORMATS] = {"table", "json", "collapsed", "svg"};

struct diff_config {
	bool per_process;
	enum diff_measure measure;
	enum diff_format format;
	const char *output;
	struct table_options table;
	const struct diff *diff; /* one of these is there */
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

static int parse_format(const char *text, struct diff_config *c)
{
	for (int i = 0; i < DIFF_FORMATS; i++)
		if (!strcmp(text, format_names[i])) {
			c->format = (enum diff_format)i;
			return 0;
		}
	return usage_error("diff", "there is no format '%s': table, json, collapsed or svg", text);
}

static int parse_measure(const char *text, struct diff_config *c)
{
	if (!strcmp(text, "live"))
		c->measure = DIFF_LIVE;
	else if (!strcmp(text, "growth"))
		c->measure = DIFF_GROWTH;
	else
		return usage_error("diff", "profiles are compared by live or growth, not by '%s'",
				   text);
	return 0;
}

/* Does the format show the live bytes of two profiles, and nothing else? */
static bool is_pair(const struct diff_config *c)
{
	return c->format == FORMAT_COLLAPSED || c->format == FORMAT_SVG;
}

static int parse_options(int argc, char **argv, struct diff_config *c)
{
	enum { OPT_PER_PROCESS = 256, OPT_BY, OPT_JSON };
	static const struct option options[] = {
		{"per-process", no_argument, NULL, OPT_PER_PROCESS},
		{"by", required_argument, NULL, OPT_BY},
		{"top", required_argument, NULL, 'n'},
		{"format", required_argument, NULL, 'f'},
		{"json", no_argument, NULL, OPT_JSON},
		{"output", required_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'},
		{},
	};
	uint64_t n;
	int opt, rc = 0;

	opterr = 0;
	while (!rc && (opt = getopt_long(argc, argv, ":n:f:o:h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_PER_PROCESS:
			c->per_process = true;
			break;
		case OPT_BY:
			rc = parse_measure(optarg, c);
			break;
		case 'n':
			if (parse_count(optarg, 1, 1000000, &n))
				return usage_error("diff", "'%s' is not a number of rows", optarg);
			c->table.top = (unsigned)n;
			break;
		case 'f':
			rc = parse_format(optarg, c);
			break;
		case OPT_JSON:
			c->format = FORMAT_JSON;
			break;
		case 'o':
			c->output = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			exit(end_output(0));
		case ':':
			return usage_error("diff", "%s needs a value", argv[optind - 1]);
		default:
			return unknown_option("diff", argv);
		}
	}
	if (rc)
		return rc;
	if (argc - optind < 2)
		return usage_error("diff", "which files? two or more");
	if (is_pair(c) && c->measure == DIFF_GROWTH)
		return usage_error("diff", "%s shows live bytes, not growth, which may be below 0",
				   format_names[c->format]);
	if (is_pair(c))
		c->measure = DIFF_LIVE;
	if (is_pair(c) && argc - optind > 2)
		return usage_error("diff", "%s shows two profiles: give the first and the last",
				   format_names[c->format]);
	if (c->per_process && is_pair(c))
		return usage_error("diff", "%s shows two profiles, --per-process compares more",
				   format_names[c->format]);
	return 0;
}

DEFINE_CLEANUP(struct diff *, cleanup_diff, diff__free)
DEFINE_CLEANUP(struct replicas *, cleanup_replicas, replicas__free)

/* The table and JSON have the warnings in them, the other forms no place for them. That there are
 * no rates is none to forms that tell no rates. */
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
	status = profiles__read(&profiles, "diff", argv + optind, (size_t)(argc - optind));
	if (!status)
		status = compare(&config, &profiles);
	profiles__free(&profiles);
	return status;
}
