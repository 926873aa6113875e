// SPDX-License-Identifier: BSD-2-Clause
/* The options of memtrace record. */
#include "cli/record_internal.h"

#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cli/cli.h"

static bool shows_views(const struct record_config *c)
{
	for (size_t i = 0; i < N_FORMATS; i++)
		if (c->trace.format[i] && formats[i].views)
			return true;
	return false;
}

TAKE_OPTION(json)
{
	struct record_config *c = config;

	(void)row;
	c->json = true;
	if (value && !*value)
		return usage_error(command, "--json= needs a file's name");
	c->json_path = value;
	if (value && !strcmp(value, "-")) {
		c->trace.to_stdout = true;
		c->json_path = NULL;
	}
	return 0;
}

TAKE_OPTION(verbose)
{
	struct record_config *c = config;

	(void)command, (void)row, (void)value;
	c->verbose = c->trace.capture.verbose = true;
	return 0;
}

TAKE_OPTION(sort)
{
	struct record_config *c = config;

	(void)row;
	c->sort_given = true;
	for (c->sort = 0; c->sort < PROCESS_SORTS; c->sort++)
		if (!strcmp(value, process_sort__name(c->sort)))
			return 0;
	return usage_error(command, "processes are sorted by growth, live or rss, not by '%s'",
			   value);
}

TAKE_OPTION(modules)
{
	struct record_config *c = config;

	(void)command, (void)row;
	return load_modules(value, &c->modules);
}

TAKE_OPTION(parts)
{
	struct record_config *c = config;

	(void)row;
	if (!*value)
		return usage_error(command, "--debug-parts needs a directory");
	c->parts_dir = value;
	return 0;
}

/* stores the value of --weight or --by */
TAKE_OPTION(view)
{
	struct record_config *c = config;

	c->weight_given |= !strcmp(row->name, "weight");
	return take_view_option(&c->view, command, row->name, value);
}

TAKE_OPTION(every)
{
	struct record_config *c = config;

	(void)row;
	if (snapshots__parse_every(&c->snapshots, value))
		return usage_error(
			command,
			"'%s' is neither seconds (0.1 or more) nor bytes (4K or more, as in 32M)",
			value);
	return 0;
}

/* clang-format off: laid out by hand, each row reads like a sentence */
static const struct option_row output_rows[] = {
	{"every", .arg = "TIME|BYTES", .take = take_every,
	 .help = "write a snapshot every TIME, or every BYTES allocated",
	 .man = "TIME is in seconds. BYTES have a unit: 32M. The files are PREFIX.PID.0001.heap "
		"and so on. SIGUSR1 writes one at once."},
	{"peak", .flag = offsetof(struct record_config, snapshots.at_peaks),
	 .help = "a snapshot when live memory exceeds its peak by 5 %",
	 .man = "May be given with --every. Where making snapshots would take more than a tenth "
		"of the time, some "
		"are left out."},
	{"json", .arg = "FILE", .arg_optional = true, .take = take_json,
	 .help = "a JSON object per process and kind, no table",
	 .man = "A line for each process and kind of memory (--what). Into FILE, or where the "
		"table would go. -: standard output."},
	{.name = "top",
	 .letter = 'n',
	 .arg = "N",
	 .by_default = "20",
	 .take = take_rows,
	 .to = offsetof(struct record_config, top),
	 .help = "rows of the table",
	 .man = "A last line counts the rows that are left out."},
	{"sort", .arg = "KEY", .by_default = "growth", .values = "growth live rss",
	 .take = take_sort, .help = "processes by growth, live or rss",
	 .man = "This is the order of the table of processes, which comes with -a, --comm, -F and "
		"the like. Processes that have ended come last."},
	{.name = "quiet",
	 .letter = 'q',
	 .flag = offsetof(struct record_config, quiet),
	 .help = "no table, no status line",
	 .man = "Errors are still reported, and files are written."},
	{.name = "verbose",
	 .letter = 'v',
	 .take = take_verbose,
	 .help = "say what is done",
	 .man = "Where each probe sits, the kind of probe, and each snapshot. On standard error."},
	{},
};

static const struct option_row view_rows[] = {
	{"churn", .flag = offsetof(struct record_config, churn),
	 .help = "stacks by what they allocate per second",
	 .man = "Memory that is freed again counts, too. The table says how much of it was freed, "
		"and how long it lived."},
	{"weight", .arg = "WHAT", .values = "live objects allocated freed growth peak",
	 .take = take_view, .help = "by live, objects, allocated, freed, growth or peak",
	 .man = "The figure by which the table, collapsed and svg weigh stacks: live (bytes, the "
		"default), objects, allocated and freed (bytes of the run), growth (bytes per "
		"second), or peak (bytes at the highest moment: the default of a COMMAND's "
		"table)."},
	{"by", .arg = "WHOSE", .values = "thread process module", .take = take_view,
	 .help = "begin each stack with its thread, process or module",
	 .man = "As its first frame, in collapsed and svg. A module is a file, or a component of "
		"--modules."},
	{"modules", .arg = "FILE", .take = take_modules,
	 .help = "also: live memory by component, by that file's rules",
	 .man = "Each line is a rule: a component, which may be a path; function, module (the "
		"mapped file) or file (the source file); and a POSIX extended regular expression "
		"that matches the name. If rules match several frames of a stack, the frame "
		"nearest to the allocation decides."},
	{"threads", .flag = offsetof(struct record_config, more.threads),
	 .help = "who allocated, who freed whose memory, who owns it",
	 .man = "Threads whose names differ only in numbers count as one pool. Only calls that "
		"are traced continuously are counted. --json has each thread by itself."},
	{"sites", .flag = offsetof(struct record_config, more.sites),
	 .help = "by stack: allocated, freed, lowest, current, highest",
	 .man = "Only calls that are traced continuously are counted."},
	{"lifetimes", .flag = offsetof(struct record_config, more.lifetimes),
	 .help = "by stack: how old objects were when they were freed",
	 .man = "In powers of ten from 10 us on. In windows, lifetimes are estimated."},
	{"rss", .flag = offsetof(struct record_config, more.resident),
	 .help = "what the resident set is made of",
	 .man = "At the end of the run: heap, mappings by owner, stacks, files. Regions are "
		"traced, too, unless --what says otherwise. When the probes are out, a census of "
		"the heap divides the allocator's own memory into free pages, free blocks between "
		"blocks in use, and headers."},
	{},
};

static const struct option_row rare_rows[] = {
	{"why", .flag = offsetof(struct record_config, why),
	 .help = "with --leaks: who holds what grows, or whether it is lost",
	 .man = "After the run, when the probes are out, the process's memory is searched for "
		"pointers to sampled blocks of the stacks that grow, as memtrace why does. That "
		"takes some seconds. Needs the heap of glibc or jemalloc 5."},
	{"heap", .flag = offsetof(struct record_config, trace.heap),
	 .help = "what lies in the heap at the end, and which functions made it",
	 .man = "After the run, when the probes are out, a census is made of the process's heap, "
		"as memtrace heap --stacks does. Each block, even one from before the run, is "
		"listed under the functions whose sampled blocks it looks like, or else as "
		"unknown. Without -i the sampling interval is 512 bytes, or more to keep the limit "
		"of cost; for a COMMAND it is 16 KiB. Needs the heap of glibc or jemalloc 5."},
	{"on-oom", .flag = offsetof(struct record_config, trace.on_oom),
	 .help = "write profiles only of processes killed because memory is short",
	 .man = "When the kernel kills a process because memory is short, in its cgroup or in the "
		"whole machine, the process's profile is written at once: without -f as "
		"PREFIX.PID.pb.gz. Other processes leave no profile, so --every and "
		"--peak cannot be given. Without -i the sampling interval is 16 KiB."},
	{},
};

static const struct option_row debug_rows[] = {
	{"debug-parts", .arg = "DIR", .take = take_parts,
	 .help = "for each part of the model of windows, write the estimates without that part",
	 .man = "As JSON: DIR/PART.json has the estimates without PART. For tests, which judge how "
		"much each part improves the estimates."},
	{},
};
/* clang-format on */

#define OF_TRACE offsetof(struct record_config, trace)
static const struct option_group groups[] = {
	{"What to trace", trace_target_rows, OF_TRACE, OPTIONS_USUAL},
	{"How", trace_how_rows, OF_TRACE, OPTIONS_USUAL},
	{"Output", trace_output_rows, OF_TRACE, OPTIONS_USUAL},
	{"Output", output_rows, 0, OPTIONS_USUAL},
	{"Views", trace_view_rows, OF_TRACE, OPTIONS_USUAL},
	{"Views", view_rows, 0, OPTIONS_USUAL},
	{"Rarely needed", trace_rare_rows, OF_TRACE, OPTIONS_RARE},
	{"Rarely needed", trace_where_rows, OF_TRACE, OPTIONS_RARE},
	{"Rarely needed", rare_rows, 0, OPTIONS_RARE},
	{"Debugging", trace_debug_rows, OF_TRACE, OPTIONS_DEBUG},
	{"Debugging", debug_rows, 0, OPTIONS_DEBUG},
	{},
};

const struct command command_record = {
	.name = "record",
	.run = cmd_record,
	.summary = "profile running processes or a command (the default)",
	.usage = "[record] -p PID[,PID...] [OPTIONS]\n"
		 "[record] -a|--comm NAME|... [OPTIONS]\n"
		 "[record] [OPTIONS] -- COMMAND ARGS...",
	.about = "Profiles the heap of running processes, or of a command from its first "
		 "allocation. Ends at Ctrl-C, after the time of -d, or when the processes end.",
	.man = "Writes PREFIX.PID.pb.gz (for memtrace report and pprof), PREFIX.PID.heap "
	       "(jemalloc's heap_v2, for jeprof) and PREFIX.PID.collapsed (for flame graphs), "
	       "unless -f says otherwise. SIGTERM ends the run as Ctrl-C does. So does a lost "
	       "connection, unless -d is given: when nobody can read standard output and standard "
	       "error any more.",
	.groups = groups,
	.status =
		"Exit status: 0, 1 (failed, or no process matched the selection), 2 (usage); with "
		"a COMMAND that of the command, 128+N when signal N ended it.",
	.stops = true,
};

int record_parse_options(int argc, char **argv, struct record_config *c)
{
	int rc = command__parse(&command_record, c, argc, argv);

	if (rc)
		return rc;
	if (optind < argc) {
		/* A command must follow "--", so that a forgotten -p does not start a command. */
		if (strcmp(argv[optind - 1], "--") && is_another_pid(&c->trace, argv[optind]))
			return usage_error("record", MORE_PIDS);
		if (strcmp(argv[optind - 1], "--"))
			return usage_error(
				"record",
				"'%s' is not an option; a command to run goes after --, and a "
				"file for JSON as --json=FILE",
				argv[optind]);
		c->command = argv + optind;
	}
	if (!c->command && !c->trace.n_pids && !c->trace.selection.selection.dynamic)
		return usage_error("record", "which process? -p PID, -a, or -- COMMAND");
	rc = trace_config__settle(&c->trace, "record", c->command);
	if (rc)
		return rc;
	if (c->trace.on_oom && (c->json || c->parts_dir))
		return usage_error("record",
				   "--on-oom writes files and tables: memtrace report -f json "
				   "makes JSON of such a file");
	if (c->trace.on_oom && isfinite(snapshots__look_every_s(&c->snapshots)))
		return usage_error("record",
				   "--on-oom writes profiles of killed processes only: --every and "
				   "--peak would write profiles of other processes, too");
	if (c->trace.on_oom && !c->trace.format_given) /* the format that stores how a process
						        * died */
		for (size_t i = 0; i < N_FORMATS; i++)
			c->trace.format[i] = !strcmp(formats[i].name, "pprof");
	/* There may be hundreds of processes, so files are written only if the user asks for
	 * files. */
	if (c->trace.selection.given && !c->trace.output_given && !c->trace.format_given &&
	    !c->trace.on_oom)
		memset(c->trace.format, 0, sizeof(c->trace.format));
	if (isfinite(snapshots__look_every_s(&c->snapshots)) &&
	    !trace_config__writes_files(&c->trace))
		return usage_error("record",
				   "--every and --peak write files, and no format is chosen: give "
				   "one, for example -f pprof");
	c->view.modules = c->modules;
	if (view_options__contradiction(&c->view))
		return usage_error("record", "%s", view_options__contradiction(&c->view));
	if (c->view.root != ROOT_NONE && !shows_views(c))
		return usage_error("record",
				   "--by works for -f collapsed and -f svg: add one of them");
	if (c->weight_given && c->trace.leaks)
		return usage_error("record",
				   "--leaks orders the table by growth: give --leaks or --weight");
	if (c->sort_given && !c->trace.selection.given)
		return usage_error("record",
				   "--sort orders the table of processes, which comes with -a, "
				   "--comm, -F and the like: a pid or a command has its own table");
	if (c->sort_given && (c->json || c->quiet))
		return usage_error("record",
				   "--sort orders the table of processes: give --sort or %s",
				   c->json ? "--json" : "--quiet");
	if (c->churn && (c->trace.leaks || c->weight_given))
		return usage_error("record", "--churn, --leaks and --weight are different tables: "
					     "give one of them");
	if (c->churn && !(c->trace.what & WHAT_HEAP))
		return usage_error("record", "--churn shows the heap: it needs --what heap");
	if (c->churn && c->trace.selection.given)
		return usage_error(
			"record",
			"--churn shows what is in one process: name it by -p, or run a command");
	if (c->modules && c->trace.selection.given)
		return usage_error(
			"record",
			"--modules shows what is in one process: name it by -p, or run a command");
	if (c->more.resident && c->trace.selection.given)
		return usage_error(
			"record",
			"--rss shows what is in one process: name it by -p, or run a command");
	if (c->why && (!c->trace.leaks || c->trace.selection.given || c->trace.on_oom ||
		       !(c->trace.what & WHAT_HEAP)))
		return usage_error("record",
				   "--why tells who holds the blocks of stacks that grow: it needs "
				   "--leaks, --what heap, and -p PID or a command; it cannot be "
				   "combined with --on-oom");
	if (c->trace.heap &&
	    (c->trace.selection.given || c->trace.on_oom || !(c->trace.what & WHAT_HEAP)))
		return usage_error("record",
				   "--heap tells what lies in the heap of one process: it needs "
				   "--what heap, and -p PID or a command; it cannot be combined "
				   "with --on-oom");
	if ((c->more.threads || c->more.sites || c->more.lifetimes) && !(c->trace.what & WHAT_HEAP))
		return usage_error(
			"record",
			"--threads, --sites and --lifetimes show the heap: they need --what heap");
	if (c->command && c->trace.n_pids)
		return usage_error("record",
				   "-p and a command cannot be combined: leave one of them out");
	return 0;
}
