// SPDX-License-Identifier: BSD-2-Clause
/* memtrace leaks: does the program leak, and where? Answers in sentences. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/several.h"
#include "encode/encode.h"

struct leaks_config {
	const char *output;
	struct table_options table;
	bool json;
	const struct profile *profile; /* either `profile` or `diff` is set */
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

TAKE_OPTION(top)
{
	struct leaks_config *c = config;
	uint64_t n;

	(void)row;
	if (parse_count(value, 1, 1000000, &n))
		return usage_error(command, "'%s' is not a number of stacks", value);
	c->table.top = (unsigned)n;
	return 0;
}

/* clang-format off: laid out by hand, each row reads like a sentence */
static const struct option_row rows[] = {
	{.name = "top",
	 .letter = 'n',
	 .arg = "N",
	 .by_default = "10",
	 .take = take_top,
	 .help = "stacks at most",
	 .man = "A line below says how many more surely grow."},
	{"hide-runtime", HIDE_RUNTIME(struct leaks_config, table.show_runtime)},
	{"json", .flag = offsetof(struct leaks_config, json),
	 .help = "an object for programs, with all stacks that grow",
	 .man = "On one line. Stacks that surely grow come first."},
	{.name = "output",
	 .letter = 'o',
	 .arg = "FILE",
	 .take = take_text,
	 .to = offsetof(struct leaks_config, output),
	 .help = "into this file (default: standard output)",
	 .man = "Holds the text, or --json's object."},
	{},
};
/* clang-format on */

static const struct option_group groups[] = {{"Output", rows, 0, OPTIONS_USUAL}, {}};

const struct command command_leaks = {
	.name = "leaks",
	.run = cmd_leaks,
	.summary = "which code leaks, in sentences, by one profile or several",
	.usage = "leaks [OPTIONS] FILE\n"
		 "leaks [OPTIONS] OLDEST ... NEWEST",
	.about =
		"Says which code leaks: the stacks with the strongest evidence come first, each in "
		"a sentence with its numbers and with what would confirm the leak. Also says how "
		"fast a leak could be without being seen. One profile must store growth: "
		".pb.gz files of runs of half a minute or more do. Several profiles are judged by "
		"what has grown from the first to the last.",
	.groups = groups,
};

static int parse_options(int argc, char **argv, struct leaks_config *c)
{
	int rc = command__parse(&command_leaks, c, argc, argv);

	if (rc)
		return rc;
	return optind < argc ? 0
			     : usage_error("leaks", "which file? Give one or "
						    "more profiles of one process");
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
	status = profiles__read(&profiles, "leaks", argv + optind, (size_t)(argc - optind), NULL);
	if (!status)
		status = tell(&config, &profiles);
	profiles__free(&profiles);
	return status;
}
