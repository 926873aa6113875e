// SPDX-License-Identifier: BSD-2-Clause
/* memtrace report: shows a profile that was written earlier, in other ways. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <regex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/names.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/render.h"
#include "decode/decode.h"
#include "encode/encode.h"
#include "profile/large.h"
#include "profile/filter.h"
#include "profile/match.h"

#define MAX_REGEX   32
#define MORE_TABLES "--threads, --sites, --lifetimes and --rss" /* in messages */

struct report_config {
	const char *path, *output, *thread;
	const struct format *format;
	struct modules *modules; /* NULL: none were given */
	struct view_options view;
	struct table_options table;
	struct more_tables more;
	const struct profile *profile; /* the profile that was read */
	regex_t focus[MAX_REGEX], ignore[MAX_REGEX];
	size_t n_focus, n_ignore;
	uint64_t min_bytes;
	double age_s; /* 0: any age */
	bool younger;
};

/* Writes JSON that includes stacks without live memory, because the file has the amounts that these
 * stacks allocated. */
static int encode_all_json(const struct profile *profile, struct sink *sink)
{
	return encode_json_with(profile, &(struct json_options){.all_stacks = true}, sink);
}

static const struct format json_format = {"json", encode_all_json, .extension = "json"};

/* --- filters --- */

/* Says which locations match an expression. Each location is compared with the expressions once. */
struct filter {
	const struct report_config *config;
	bool *focused, *ignored; /* for each location: does it match? */
	/* for each site: the live bytes of all sites with the same printed stack */
	double *bytes;
};

static bool matches(const regex_t *list, size_t n, const struct profile_location *location)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < location->n_frames; k++)
			if (!regexec(&list[i], location->frames[k].name, 0, NULL, 0))
				return true;
	return false;
}

static bool keep(void *ctx, const struct profile *profile, const struct profile_site *site)
{
	const struct filter *filter = ctx;
	const struct report_config *c = filter->config;
	bool focused = !c->n_focus;

	if (c->min_bytes && filter->bytes[site - profile->sites] < (double)c->min_bytes)
		return false;
	for (uint32_t i = 0; i < site->n_locations; i++) {
		if (filter->ignored[site->locations[i]])
			return false;
		focused = focused || filter->focused[site->locations[i]];
	}
	return focused;
}

/* Finds the threads of exactly that name. If there are none, finds the threads whose names match it
 * as a regular expression. *ret has an element for each thread; the caller frees it. 0; -ENOENT: no
 * thread matches; -EINVAL: it is neither the name of a thread nor a valid expression; -ENOMEM. */
static int find_threads(const struct profile *profile, const char *name, bool **ret)
{
	bool *found = calloc(profile->n_threads + 1, sizeof(*found)), any = false;
	regex_t regex;
	int rc = 0;

	if (!found)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_threads; i++)
		any |= found[i] = !strcmp(profile->threads[i].name, name);
	if (!any && regcomp(&regex, name, REG_EXTENDED | REG_NOSUB)) {
		rc = -EINVAL;
	} else if (!any) {
		for (size_t i = 0; i < profile->n_threads; i++)
			any |= found[i] = !regexec(&regex, profile->threads[i].name, 0, NULL, 0);
		regfree(&regex);
		rc = any ? 0 : -ENOENT;
	}
	*ret = found;
	return rc;
}

static int age_decimals(double age_s)
{
	return age_s < 10 ? 2 : age_s < 100 ? 1 : 0;
}

/* Keeps only memory of the age that was asked for, and describes it in ret_said (128 bytes). 0, or
 * EXIT_FAILED after a message. */
static int keep_age(const struct report_config *c, struct profile *profile, char *ret_said)
{
	int age = profile__find_age(profile, c->age_s), n;
	char known[160] = "", bytes[16];
	double unknown;

	for (int i = 0; i < PROFILE_SURVIVAL_AGES; i++)
		if (profile__find_age(profile, profile->survival_age_s[i]) >= 0)
			snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%.*f",
				 *known ? ", " : "", age_decimals(profile->survival_age_s[i]),
				 profile->survival_age_s[i]);
	if (age < 0 && *known)
		complain("%s: it does not store how much is older than %g s: choose one of the "
			 "ages that it stores, %s s",
			 c->path, c->age_s, known);
	else if (age < 0)
		complain("%s: it does not store the age of live memory: record some seconds of the "
			 "process, and give its .pb.gz file",
			 c->path);
	if (age < 0)
		return EXIT_FAILED;
	n = snprintf(ret_said, 128, ", %s than %.*f s (estimated)",
		     c->younger ? "younger" : "older", age_decimals(profile->survival_age_s[age]),
		     profile->survival_age_s[age]);
	if (profile__keep_age(profile, age, c->younger, &unknown)) {
		complain("%s: out of memory", c->path);
		return EXIT_FAILED;
	}
	if (unknown > 0)
		snprintf(ret_said + n, 128 - (size_t)n, "; the age of %s is not known",
			 format_bytes(unknown, bytes));
	return 0;
}

/* For each site, adds up the live bytes of all sites with the same printed stack. 0 or -ENOMEM. */
static int add_up_stacks(const struct profile *profile, double **ret_bytes)
{
	_cleanup_(match__clear) struct match match = {};
	double *bytes = *ret_bytes = calloc(profile->n_sites + 1, sizeof(*bytes));
	int rc = bytes ? match__stacks(&profile, 1, &match_limits, &match, NULL) : -ENOMEM;

	for (size_t i = 0; i < match.n_stacks && !rc; i++) {
		double sum = 0;

		for (size_t k = match.first[i]; k < match.first[i + 1]; k++)
			sum += profile->sites[match.sites[k].site].live.bytes;
		for (size_t k = match.first[i]; k < match.first[i + 1]; k++)
			bytes[match.sites[k].site] = sum;
	}
	return rc;
}

/* Applies all filters. 0, or EXIT_FAILED after a message. */
static int reduce(const struct report_config *c, struct profile *profile)
{
	_cleanup_free_ bool *focused = NULL, *ignored = NULL, *threads = NULL;
	_cleanup_free_ double *bytes = NULL;
	struct filter filter = {.config = c};
	struct estimate before = profile__live(profile), after;
	size_t n_before = profile->n_sites;
	char a[16], b[16], said[128] = "";
	int rc = 0;

	if (!c->thread && !c->n_focus && !c->n_ignore && !c->min_bytes && !(c->age_s > 0))
		return 0;
	if (c->age_s > 0 && keep_age(c, profile, said))
		return EXIT_FAILED;
	if (c->thread)
		rc = find_threads(profile, c->thread, &threads);
	if (rc == -ENOENT || rc == -EINVAL) {
		complain("%s: there is no thread called '%s' in it%s", c->path, c->thread,
			 rc == -EINVAL ? ", and the name is not a valid regular expression"
				       : "; --tree --by thread shows its threads");
		return EXIT_FAILED;
	}
	if (c->thread && !rc)
		rc = profile__keep_threads(profile, threads);
	filter.focused = focused = calloc(profile->n_locations + 1, sizeof(*focused));
	filter.ignored = ignored = calloc(profile->n_locations + 1, sizeof(*ignored));
	if (!focused || !ignored)
		rc = -ENOMEM;
	for (size_t i = 0; i < profile->n_locations && !rc; i++) {
		focused[i] = matches(c->focus, c->n_focus, &profile->locations[i]);
		ignored[i] = matches(c->ignore, c->n_ignore, &profile->locations[i]);
	}
	if (!rc && c->min_bytes)
		rc = add_up_stacks(profile, &bytes);
	filter.bytes = bytes;
	if (!rc)
		rc = profile__keep_sites(profile, keep, &filter);
	if (rc) {
		complain("%s: out of memory", c->path);
		return EXIT_FAILED;
	}
	/* a filtered profile says so, because its figures are not those of the whole profile */
	after = profile__live(profile);
	if (profile__add_lost(profile, LOST_FILTERED, n_before - profile->n_sites) ||
	    profile__add_lost(profile, LOST_FILTERED_BYTES,
			      (uint64_t)fmax(0, before.bytes - after.bytes))) {
		complain("%s: out of memory", c->path);
		return EXIT_FAILED;
	}
	complain("filtered: %zu of %zu stacks, %s of %s%s", profile->n_sites, n_before,
		 format_bytes(after.bytes, a), format_bytes(before.bytes, b), said);
	return 0;
}

/* --- output --- */

static int encode(const void *what, struct sink *sink)
{
	const struct report_config *c = what;
	const struct render_options options = {.table = c->table, .more = c->more};

	return c->modules && !c->view.root ? encode_modules(c->profile, c->modules, true, sink)
					   : render_tables(c->profile, &options, sink);
}

static int encode_with_modules(const void *what, struct sink *sink)
{
	const struct report_config *c = what;

	return encode_json_with(c->profile,
				&(struct json_options){.modules = c->modules, .all_stacks = true},
				sink);
}

/* Returns a text about data that the format needs and the profile lacks; NULL: nothing is
 * missing. */
static const char *lacking_for(const struct format *format, const struct profile *profile)
{
	if (format->needs_objects && profile->no_objects)
		return "it does not count objects, which a heap profile needs";
	if (format->needs_objects && !profile->interval_bytes)
		return "it does not say how it was sampled, without which a heap profile's "
		       "numbers mean nothing";
	for (size_t i = 0; i < profile->n_locations && format->needs_addresses; i++)
		if (profile->locations[i].addr >= PROFILE_NO_ADDR &&
		    !large_blocks__are_unseen(&profile->locations[i]))
			return "it has names but no addresses, which a heap profile needs: use -f "
			       "symbolized";
	return NULL;
}

static int write_out(struct report_config *c, const struct profile *profile)
{
	_cleanup_(profile_view__clear) struct profile_view view = {};
	const char *lacking = c->format ? lacking_for(c->format, profile) : NULL;

	if (lacking) {
		complain("%s: %s", c->path, lacking);
		return EXIT_FAILED;
	}
	if (c->format && !c->output && isatty(STDOUT_FILENO) && c->format->binary) {
		complain("%s is binary, not for a terminal: give -o FILE", c->format->name);
		return EXIT_FAILED;
	}
	if (c->format == &json_format && c->modules) {
		c->profile = profile;
		return write_text(c->output, encode_with_modules, c);
	}
	if (c->format)
		return write_file(c->output, c->format, profile, &c->view, c->path);
	c->profile = profile;
	fit_output(&c->table, c->output);
	/* The table shows another weight in a column beside live bytes, so the table needs no
	 * view. */
	if (c->view.weight != WEIGHT_LIVE) {
		const char *refusal = view_options__refusal(&c->view, profile);

		c->table.weight = c->view.weight;
		if (refusal)
			complain("%s: %s", c->path, refusal);
		return refusal ? EXIT_FAILED : write_text(NULL, encode, c);
	}
	if (view_options__any(&c->view)) {
		int status = open_view(&view, profile, &c->view, c->path);

		if (status)
			return status;
		c->profile = &view.profile;
	}
	return write_text(NULL, encode, c);
}

/* Complains that the file lacks the data that `what` names. how: the option of record that stores
 * these data in files. Returns EXIT_FAILED. */
static int say_lacking(const struct report_config *c, const struct profile *profile,
		       const char *what, const char *how)
{
	if (profile__is_regions(profile) || profile__is_faults(profile))
		complain("%s: it does not store %s: it is a profile of %s", c->path, what,
			 profile_what__name(profile->what));
	else if (profile->part)
		complain("%s: it does not store %s: it is of a part of a run", c->path, what);
	else if (!profile->mode)
		complain("%s: it does not store %s: memtrace's own .pb.gz files do", c->path, what);
	else if (!profile->own_version)
		complain("%s: it does not store %s: an older memtrace wrote it, or another program "
			 "has rewritten it; record writes a .pb.gz file that does",
			 c->path, what);
	else
		complain("%s: it does not store %s: the .pb.gz file of record%s does", c->path,
			 what, how);
	return EXIT_FAILED;
}

/* Can the further tables be made from the profile? 0, or EXIT_FAILED after a message. */
static int check_more(const struct report_config *c, const struct profile *profile)
{
	const struct more_tables *more = &c->more;
	bool owners = profile__is_windowed(profile) && profile->n_threads;

	if (more->threads && !profile->n_transfers && !owners)
		return say_lacking(c, profile, "who freed whose memory", " --max-overhead off");
	if (more->sites && !profile->life.heights_known)
		return say_lacking(c, profile, "what stacks held at least and at most",
				   " --max-overhead off");
	if (more->lifetimes && !profile->life.ages_known)
		return say_lacking(c, profile, "how old objects were when they were freed", "");
	if (more->resident && !profile->resident)
		return say_lacking(c, profile, "what the resident set is made of",
				   profile->ended ? " --rss of a process that outlives the run"
						  : " --rss");
	return 0;
}

/* Does the file have all the data that the options ask for? */
static int check_content(const struct report_config *c, const struct profile *profile)
{
	/* figures of allocation are not stored by thread or age */
	if (c->table.churn && (profile->no_allocated || c->thread || c->age_s > 0)) {
		complain("%s: %s", c->path,
			 profile->no_allocated
				 ? "--churn shows what was allocated, and this file stores only "
				   "what is live: give a .heap or .pb.gz file of memtrace"
				 : "--churn cannot be combined with --thread or --age: a profile "
				   "stores threads and ages for live memory only");
		return EXIT_FAILED;
	}
	if (c->table.churn && !(profile->duration_s > 0)) {
		complain("%s: --churn shows what is allocated per second, and this file does not "
			 "say how long its run was",
			 c->path);
		return EXIT_FAILED;
	}
	if (check_more(c, profile))
		return EXIT_FAILED;
	if (!c->table.leaks || profile->growth.stacks_known)
		return 0;
	complain("%s: it stores no growth: %s", c->path,
		 profile->own_version ? "its run was too short to tell"
				      : "only memtrace's own .pb.gz files do");
	return EXIT_FAILED;
}

/* --- options --- */

static int add_regex(const char *option, regex_t *list, size_t *n, const char *text)
{
	char why[128];
	int rc;

	if (*n == MAX_REGEX)
		return usage_error("report", "at most %d %s", MAX_REGEX, option);
	if (!*text)
		return usage_error("report", "%s is empty and would match every function", option);
	rc = regcomp(&list[*n], text, REG_EXTENDED | REG_NOSUB);
	if (rc) {
		regerror(rc, NULL, why, sizeof(why));
		return usage_error("report", "%s '%s': %s", option, text, why);
	}
	++*n;
	return 0;
}

/* Can the options be combined? */
static int check_together(struct report_config *c)
{
	/* the table shows modules instead of stacks */
	bool of_modules = c->modules && c->view.root != ROOT_MODULE && c->format != &json_format;
	bool views = c->format && c->format->views;

	c->view.modules = c->modules;
	if (of_modules + c->table.tree + c->table.leaks + c->table.churn > 1)
		return usage_error("report", "--tree, --leaks, --churn and --modules are "
					     "different tables: give one of them");
	if (c->table.min_share_pct > 0 && !c->table.tree)
		return usage_error("report", "--min-share shortens a tree: it needs --tree");
	if (c->table.top && (c->table.tree || c->format))
		return usage_error("report",
				   "-n is the number of a table's rows: it cannot be combined with "
				   "%s",
				   c->format ? "-f" : "--tree");
	if (c->format && (c->table.tree || c->table.leaks || c->table.churn || of_modules))
		return usage_error("report", "-f writes a file instead of a table: it cannot be "
					     "combined with --tree, --leaks, --churn or "
					     "--modules");
	if (more_tables__any(&c->more) && (c->format || of_modules))
		return usage_error("report", MORE_TABLES " add to the table of stacks: they cannot "
							 "be combined with -f or --modules");
	if (c->more.threads &&
	    (c->thread || c->age_s > 0 || c->n_focus || c->n_ignore || c->min_bytes))
		return usage_error(
			"report",
			"--threads shows the whole process: it cannot be combined with --thread, "
			"--age, --focus, --ignore or --min-bytes");
	if ((c->more.sites || c->more.lifetimes) && (c->thread || c->age_s > 0))
		return usage_error("report",
				   "--sites and --lifetimes cannot be combined with --thread or "
				   "--age: a profile stores threads and ages for live memory "
				   "only");
	if (c->view.weight != WEIGHT_LIVE && !views &&
	    (c->format || c->table.tree || c->table.leaks || c->table.churn || of_modules))
		return usage_error("report", "--weight works for the table of stacks, -f collapsed "
					     "and -f svg only");
	if (c->view.root != ROOT_NONE && !views && !c->table.tree)
		return usage_error(
			"report",
			"--by works for --tree, -f collapsed and -f svg: add one of them");
	if (c->table.leaks && (c->thread || c->age_s > 0))
		return usage_error(
			"report",
			"--leaks cannot be combined with --thread or --age: a profile does not "
			"store growth by thread or age");
	if ((c->thread || c->age_s > 0) && c->view.weight != WEIGHT_LIVE &&
	    c->view.weight != WEIGHT_OBJECTS)
		return usage_error(
			"report",
			"--weight %s cannot be combined with --thread or --age: a profile stores "
			"threads and ages for live memory only",
			profile_weight__name(c->view.weight));
	if (c->age_s > 0 && (c->thread || c->view.root == ROOT_THREAD))
		return usage_error(
			"report",
			"--age cannot be combined with --thread or --by thread: a profile does "
			"not store ages by thread");
	if (view_options__contradiction(&c->view))
		return usage_error("report", "%s", view_options__contradiction(&c->view));
	return 0;
}

TAKE_OPTION(min_share)
{
	struct report_config *c = config;
	char *end;

	(void)row;
	c->table.min_share_pct = strtod(value, &end);
	if (end == value || *end || !(c->table.min_share_pct > 0 && c->table.min_share_pct <= 100))
		return usage_error(command, "'%s' is not a share in per cent: above 0, at most 100",
				   value);
	return 0;
}

TAKE_OPTION(modules)
{
	struct report_config *c = config;

	(void)command, (void)row;
	return load_modules(value, &c->modules);
}

TAKE_OPTION(format)
{
	struct report_config *c = config;

	(void)row;
	c->format = strcmp(value, "json") ? find_format(value) : &json_format;
	return c->format ? 0
			 : usage_error(command, "there is no format '%s': " FORMAT_NAMES ", json",
				       value);
}

/* stores the value of --weight or --by */
TAKE_OPTION(view)
{
	struct report_config *c = config;

	return take_view_option(&c->view, command, row->name, value);
}

TAKE_OPTION(focus)
{
	struct report_config *c = config;

	(void)command, (void)row;
	return add_regex("--focus", c->focus, &c->n_focus, value);
}

TAKE_OPTION(ignore)
{
	struct report_config *c = config;

	(void)command, (void)row;
	return add_regex("--ignore", c->ignore, &c->n_ignore, value);
}

TAKE_OPTION(min_bytes)
{
	struct report_config *c = config;

	(void)row;
	if (parse_bytes(value, 0, UINT64_MAX, &c->min_bytes))
		return usage_error(command, "'%s' is not a number of bytes", value);
	return 0;
}

TAKE_OPTION(age)
{
	struct report_config *c = config;

	(void)row;
	c->younger = *value == '-';
	if (parse_seconds(value + c->younger, &c->age_s))
		return usage_error(command,
				   "'%s' is not an age: seconds, more than 0; with a - "
				   "before them: younger than that",
				   value);
	return 0;
}

/* clang-format off: laid out by hand, each row reads like a sentence */
static const struct option_row view_rows[] = {
	{"tree", .flag = offsetof(struct report_config, table.tree),
	 .help = "who holds memory and, below each, who called it",
	 .man = "Each function that holds memory is the root of a tree of its callers. The trees "
		"replace the table's "
		"rows."},
	{"min-share", .arg = "PCT", .by_default = "1", .take = take_min_share,
	 .help = "least share of a caller in the tree",
	 .man = "Per cent of the memory of all stacks. Callers with less share one line."},
	{"leaks", .flag = offsetof(struct report_config, table.leaks),
	 .help = "stacks by growth, if the file stores it",
	 .man = "memtrace's own .pb.gz files store it if the run was long enough: half a minute, "
		"or three windows."},
	{"churn", .flag = offsetof(struct report_config, table.churn),
	 .help = "stacks by the bytes that they allocate per second, and how long their blocks "
		 "lived",
	 .man = "Memory that is freed again counts, too. The file has to store what was "
		"allocated."},
	{"threads", .flag = offsetof(struct report_config, more.threads),
	 .help = "who allocated, who freed whose memory, who owns it",
	 .man = "Below the table. Threads whose names differ only in numbers count as one pool. "
		"Only calls that were traced continuously are counted; a run in windows shows only "
		"who owns what is live."},
	{"sites", .flag = offsetof(struct report_config, more.sites),
	 .help = "by stack: allocated, freed, lowest, current, highest",
	 .man = "Below the table. Only calls that were traced continuously are counted."},
	{"lifetimes", .flag = offsetof(struct report_config, more.lifetimes),
	 .help = "by stack: how old objects were when they were freed",
	 .man = "Below the table. In powers of ten from 10 us on. In windows, lifetimes are "
		"estimated."},
	{"rss", .flag = offsetof(struct report_config, more.resident),
	 .help = "what the resident set is made of",
	 .man = "Printed below the table, as it was at the end of the run. Only files of record "
		"--rss have it."},
	{"modules", .arg = "FILE", .take = take_modules,
	 .help = "live memory by component, by that file's rules; also -f json",
	 .man = "memtrace(1) explains the rules, at --modules."},
	{"weight", .arg = "WHAT", .by_default = "live",
	 .values = "live objects allocated freed growth peak", .take = take_view,
	 .help = "stacks by live, objects, allocated, freed, growth or peak",
	 .man = "The figure by which the table, collapsed and svg weigh stacks: live (bytes), "
		"objects, allocated and freed (bytes of the run), growth (bytes per second), or "
		"peak (bytes at the highest moment)."},
	{"by", .arg = "WHOSE", .values = "thread process module", .take = take_view,
	 .help = "begin each stack with its thread, process or module",
	 .man = "In collapsed and svg it is the first frame, with --tree the last one. A module is "
		"a file, or a component of --modules."},
	{},
};

static const struct option_row filter_rows[] = {
	{"focus", .arg = "REGEX", .take = take_focus,
	 .help = "stacks with a function whose name matches",
	 .man = "A POSIX extended regular expression, which any part of a name may match. If "
		"given several times: "
		"stacks that match one of them."},
	{"ignore", .arg = "REGEX", .take = take_ignore,
	 .help = "stacks with no function whose name matches",
	 .man = "If given several times: stacks that match none of them."},
	{"min-bytes", .arg = "BYTES", .take = take_min_bytes,
	 .help = "stacks that hold at least that much", .man = "K, M and G are allowed."},
	{"age", .arg = "[+|-]SECONDS", .take = take_age,
	 .help = "memory that is older than that, or (-) younger",
	 .man = "Only the ages that the file stores can be given. The numbers are estimated."},
	{"thread", .arg = "NAME", .take = take_text, .to = offsetof(struct report_config, thread),
	 .help = "memory that threads of that name allocated",
	 .man = "If no thread has that name: threads whose names match it as a regular "
		"expression."},
	{},
};

static const struct option_row output_rows[] = {
	{.name = "top",
	 .letter = 'n',
	 .arg = "N",
	 .by_default = "20",
	 .take = take_rows,
	 .to = offsetof(struct report_config, table.top),
	 .help = "rows of the table",
	 .man = "A last line counts the rows that are left out."},
	{"hide-runtime", HIDE_RUNTIME(struct report_config, table.show_runtime)},
	{.name = "format",
	 .letter = 'f',
	 .arg = "NAME",
	 .values = "heap collapsed pprof svg symbolized json",
	 .take = take_format,
	 .help = "write heap, collapsed, pprof, svg, symbolized or json instead",
	 .man = "heap and symbolized are for jeprof, collapsed is for flame graphs, pprof for "
		"pprof and memtrace, svg a "
		"flame graph, and json one object with all stacks. What the filters leave out is "
		"in none of them."},
	{.name = "output",
	 .letter = 'o',
	 .arg = "FILE",
	 .take = take_text,
	 .to = offsetof(struct report_config, output),
	 .help = "into this file (default: standard output)",
	 .man = "In the format of -f, which must be given, too."},
	{},
};
/* clang-format on */

static const struct option_group groups[] = {
	{"Views", view_rows, 0, OPTIONS_USUAL},
	{"Filters, for all views", filter_rows, 0, OPTIONS_USUAL},
	{"Output", output_rows, 0, OPTIONS_USUAL},
	{},
};

const struct command command_report = {
	.name = "report",
	.run = cmd_report,
	.summary = "show a profile that memtrace or another tool has written",
	.usage = "report [OPTIONS] FILE",
	.about = "Shows a profile that was written earlier: memtrace's own .pb.gz, with all that "
		 "the run's table has, and its .heap and .collapsed files, which hold less; heap "
		 "profiles that others wrote for pprof (Go's, for one), jemalloc's and "
		 "gperftools'. FILE may be - for standard input. The kind of a file is recognized "
		 "by its content. A heap profile without names gets names from the files that its "
		 "process had mapped, if these are still the same.",
	.groups = groups,
};

static int parse_options(int argc, char **argv, struct report_config *c)
{
	int rc = command__parse(&command_report, c, argc, argv);

	if (rc)
		return rc;
	if (argc - optind != 1)
		return usage_error("report", "which file? Give one profile, as memtrace.PID.pb.gz");
	c->path = argv[optind];
	if (c->output && !c->format)
		return usage_error("report", "-o names the file that -f writes: give -f, too");
	return check_together(c);
}

int cmd_report(int argc, char **argv)
{
	_cleanup_(cleanup_profile) struct profile *profile = NULL;
	static struct report_config config;
	struct error err = {};
	int status = parse_options(argc, argv, &config);

	if (status)
		return status;
	if (decode_file(config.path, &profile, &err))
		return fail(&err);
	status = name_raw(config.path, profile);
	if (!status)
		status = check_content(&config, profile);
	if (!status)
		status = reduce(&config, profile);
	return status ? status : write_out(&config, profile);
}
