// SPDX-License-Identifier: BSD-2-Clause
/* memtrace leaks: does it leak, and where? In sentences. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/several.h"
#include "encode/encode.h"

static const char help[] =
	"memtrace leaks [OPTIONS] FILE\n"
	"memtrace leaks [OPTIONS] OLDEST ... NEWEST\n"
	"\n"
	"Which code leaks: stacks by evidence, each in a sentence with its numbers and what would "
	"confirm\n"
	"it, and how fast a leak could be without being seen. Of one profile by the growth that it "
	"tells\n"
	"(of a run of half a minute or more, by .pb.gz files), of several by what has grown from "
	"the first\n"
	"to the last.\n"
	"\n"
	"  -n, --top N                stacks at most (default 10)\n"
	"      --json                 an object for programs, with all stacks that grow\n"
	"  -o, --output FILE          into this file (default: standard output)\n";

struct leaks_config {
	const char *output;
	struct table_options table;
	bool json;
	const struct profile *profile; /* one of these is there */
	const struct diff *diff;
};

static int encode(const void *what, struct sink *sink)
{
	const struct leaks_config *c = what;

	if (c->json)
		return c->diff ? encode_diff_leaks_json(c->diff, sink)
			       : encode_leaks_json(c->profile, sink);
	return c->diff ? encode_diff_leaks(c->diff, &c->table, sink)
		       : encode_leaks(c->profile, &c->table, sink);
}

static int parse_options(int argc, char **argv, struct leaks_config *c)
{
	enum { OPT_JSON = 256 };
	static const struct option options[] = {
		{"top", required_argument, NULL, 'n'},
		{"json", no_argument, NULL, OPT_JSON},
		{"output", required_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'},
		{},
	};
	uint64_t n;
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":n:o:h", options, NULL)) != -1) {
		switch (opt) {
		case 'n':
			if (parse_count(optarg, 1, 1000000, &n))
				return usage_error("leaks", "'%s' is not a number of stacks",
						   optarg);
			c->table.top = (unsigned)n;
			break;
		case OPT_JSON:
			c->json = true;
			break;
		case 'o':
			c->output = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			exit(end_output(0));
		case ':':
			return usage_error("leaks", "%s needs a value", argv[optind - 1]);
		default:
			return unknown_option("leaks", argv);
		}
	}
	return optind < argc ? 0 : usage_error("leaks", "which file?");
}

DEFINE_CLEANUP(struct diff *, cleanup_diff, diff__free)

static int tell(struct leaks_config *c, const struct profiles *profiles)
{
	_cleanup_(cleanup_diff) struct diff *diff = NULL;
	struct error err = {};
	const char *refusal;
	int rc = 0;

	if (profiles->n > 1)
		rc = diff__new((const struct profile *const *)profiles->list, profiles->n,
			       DIFF_AUTO, &diff, &err);
	if (rc)
		return profiles__fail(profiles, rc, &err);
	c->diff = diff;
	c->profile = profiles->list[0];
	refusal = diff ? diff_leaks__refusal(diff) : leaks__refusal(c->profile);
	if (refusal)
		return profiles__fail(profiles, error__set(&err, -EINVAL, "%s", refusal), &err);
	return write_text(c->output, encode, c);
}

int cmd_leaks(int argc, char **argv)
{
	static struct profiles profiles;
	struct leaks_config config = {};
	int status = parse_options(argc, argv, &config);

	if (status)
		return status;
	fit_output(&config.table, config.output);
	status = profiles__read(&profiles, "leaks", argv + optind, (size_t)(argc - optind));
	if (!status)
		status = tell(&config, &profiles);
	profiles__free(&profiles);
	return status;
}
