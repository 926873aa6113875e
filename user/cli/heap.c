// SPDX-License-Identifier: BSD-2-Clause
/* memtrace heap: the contents of a running process's heap, read from outside. */
#include <getopt.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/heap_look.h"
#include "cli/nowait.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sampled.h"
#include "decode/decode.h"
#include "encode/encode.h"
#include "heap/census.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "profile/origins.h"
#include "session/privileges.h"
#include "session/session.h"

#define DEFAULT_TOP	10
#define DEFAULT_TRACE_S 30.0 /* duration of tracing for --stacks */

struct heap_config {
	pid_t pid;
	const char *output;
	unsigned top; /* 0: not given */
	bool json;
	bool blocks; /* --debug-blocks */
	bool stacks;
	const char *file;	     /* --profile; NULL: not given */
	const struct format *format; /* format of stacks; NULL: tables, or JSON */
	double duration_s;	     /* duration of tracing, for --stacks; 0: not given */
	struct scan_pace pace;

	struct session *session; /* with --stacks: owns `profile`; else NULL */
	struct profile *read;	 /* with --profile: the profile in the file; else NULL */
	/* with --stacks or --profile: the heap's profile, with sampled blocks */
	const struct profile *profile;

	struct heap_look look;
};

TAKE_OPTION(format)
{
	struct heap_config *c = config;

	(void)row;
	return take_drawn_format(command, "stacks", value, &c->format);
}

/* clang-format off: laid out by hand, each row reads like a sentence */
static const struct option_row what_rows[] = {
	{.name = "pid",
	 .letter = 'p',
	 .arg = "PID",
	 .take = take_pid,
	 .to = offsetof(struct heap_config, pid),
	 .help = "the process whose heap is read",
	 .man = "It goes on running. Only resident pages are read. Only --stacks places probes."},
	{"stacks", .flag = offsetof(struct heap_config, stacks),
	 .help = "estimate which functions made the blocks: traces for 30 s first",
	 .man = "Traces the process with the default limits of record, then takes the probes out. "
		"Blocks that look like sampled ones are then listed under the "
		"functions that made the sampled ones, even blocks from before the tracing."},
	{.name = "profile",
	 .arg = "FILE",
	 .take = take_text,
	 .to = offsetof(struct heap_config, file),
	 .help = "the same without tracing: by the samples in this .pb.gz of record --heap",
	 .man = "The profile has to be of this process. Of its sampled blocks, only those that are "
		"still in the heap are used."},
	{.name = "duration",
	 .letter = 'd',
	 .arg = "SECONDS",
	 .by_default = "30",
	 .take = take_seconds,
	 .to = offsetof(struct heap_config, duration_s),
	 .help = "of tracing, for --stacks",
	 .man = "A signal (Ctrl-C) ends tracing sooner."},
	{"max-overhead", SCAN_PACE(struct heap_config, pace)},
	{},
};

static const struct option_row output_rows[] = {
	{.name = "top",
	 .letter = 'n',
	 .arg = "N",
	 .by_default = "10",
	 .take = take_rows,
	 .to = offsetof(struct heap_config, top),
	 .help = "rows at most, in each table",
	 .man = "The others are added up in a last row."},
	{"json", .flag = offsetof(struct heap_config, json),
	 .help = "an object for programs, with all rows",
	 .man = "On one line. docs/json.md has its keys."},
	{.name = "format",
	 .letter = 'f',
	 .arg = "FORMAT",
	 .values = "collapsed pprof svg",
	 .take = take_format,
	 .help = "the blocks as stacks: collapsed, pprof or svg",
	 .man = "All blocks, by place (in use or free), C++ class and size. With --stacks or "
		"--profile: only blocks in use, each under the functions that probably made it, or "
		"under unknown."},
	{.name = "output",
	 .letter = 'o',
	 .arg = "FILE",
	 .take = take_text,
	 .to = offsetof(struct heap_config, output),
	 .help = "into this file (default: standard output)",
	 .man = "Writes the tables, with --json the object, with -f the stacks in that format."},
	{},
};

static const struct option_row debug_rows[] = {
	{"debug-blocks", .flag = offsetof(struct heap_config, blocks),
	 .help = "print only the address and usable size of each block in use",
	 .man = "A line each, sorted by address."},
	{},
};
/* clang-format on */

static const struct option_group groups[] = {
	{"What to read", what_rows, 0, OPTIONS_USUAL},
	{"Output", output_rows, 0, OPTIONS_USUAL},
	{"Output", debug_rows, 0, OPTIONS_DEBUG},
	{},
};

const struct command command_heap = {
	.name = "heap",
	.run = cmd_heap,
	.summary = "what lies in the heap of a process, also from before memtrace came",
	.usage = "heap [OPTIONS] -p PID",
	.about = "A census of the heap: blocks in use and free memory by arena, place and size, "
		 "page by page, objects by C++ class, and which blocks keep pages from going back "
		 "to the system. Reads the structures of glibc's malloc and of jemalloc from "
		 "outside: no probe, no stop. With --stacks or --profile, it also estimates which "
		 "functions made the blocks.",
	.groups = groups,
};

static int encode(const void *what, struct sink *sink)
{
	const struct heap_config *c = what;

	return c->json ? encode_heap_report_json(&c->look.report, sink)
		       : encode_heap_report(&c->look.report, c->top ?: DEFAULT_TOP, sink);
}

struct listing {
	pid_t pid;
	struct error *err;
};

static int encode_blocks(const void *what, struct sink *sink)
{
	const struct listing *listing = what;
	struct maps maps;
	int rc = maps__read(listing->pid, &maps);

	if (rc)
		return rc;
	rc = census__list(listing->pid, &maps, sink, listing->err);
	maps__free(&maps);
	return rc;
}

static int write_report(const struct heap_config *c)
{
	_cleanup_(cleanup_profile) struct profile *stacks = NULL;

	if (!c->format)
		return write_text(c->output, encode, c);
	if (heap_report__stacks(&c->look.report, &stacks))
		return no_memory();
	return write_file(c->output, c->format, stacks, &(struct view_options){}, "stacks");
}

/* Traces the process, to know the stacks of some blocks. */
static int find_known(struct heap_config *c)
{
	return sampled__trace(c->pid, c->duration_s ?: DEFAULT_TRACE_S, "heap", &c->session,
			      &c->profile);
}

static bool has_blocks(const struct profile *profile)
{
	for (size_t i = 0; i < profile->n_sites; i++)
		if (profile->sites[i].n_blocks)
			return true;
	return false;
}

/* Reads the file of --profile. 0, or the exit status after a complaint. */
static int read_known(struct heap_config *c)
{
	struct process_info info;
	struct error err = {};
	const struct profile *p;

	if (decode_file(c->file, &c->read, &err))
		return fail(&err);
	p = c->read;
	if (process__read_stat(c->pid, &info)) {
		complain("no process %d", (int)c->pid);
		return EXIT_FAILED;
	}
	if (p->what != PROFILE_HEAP || !has_blocks(p)) {
		complain("%s has no sampled blocks: the .pb.gz file of record --heap has them",
			 c->file);
		return EXIT_FAILED;
	}
	if (p->pid != (int)c->pid || p->process_start_ticks != info.start_ticks) {
		complain("%s is of another process than %d: of pid %d (%s), %s", c->file,
			 (int)c->pid, p->pid, p->comm,
			 p->pid == (int)c->pid ? "which has ended" : "whose blocks are elsewhere");
		return EXIT_FAILED;
	}
	c->profile = p;
	return 0;
}

static int report(struct heap_config *c)
{
	struct heap_look_options options = {.origins = c->stacks || c->file, .pace = c->pace};
	struct error err = {};
	int status = c->stacks ? find_known(c) : 0;

	if (status)
		return status;
	options.profile = c->profile;
	options.by_file = c->file != NULL;
	return heap_look__take(c->pid, &options, &c->look, &err) ? fail(&err) : write_report(c);
}

static void clear_config(struct heap_config *c)
{
	heap_look__clear(&c->look);
	session__free(c->session);
	profile__free(c->read);
}

int cmd_heap(int argc, char **argv)
{
	_cleanup_(clear_config) struct heap_config config = {};
	int status = command__parse(&command_heap, &config, argc, argv);
	struct error err = {};

	if (status)
		return status;
	if (optind < argc)
		return usage_error("heap",
				   "'%s' is not an option; the process is given with -p PID, the "
				   "file of --json as --json=FILE",
				   argv[optind]);
	if (!config.pid)
		return usage_error("heap", "which process? -p PID");
	if (config.duration_s > 0 && !config.stacks)
		return usage_error("heap", "-d is the time of tracing for --stacks");
	status = check_drawn_format("heap", config.format, config.json, config.output);
	if (status)
		return status;
	if (config.stacks && config.file)
		return usage_error("heap", "--profile replaces the tracing of --stacks");
	if (config.blocks && (config.json || config.stacks || config.file || config.format ||
			      config.top || config.pace.hurry || config.pace.max_share > 0))
		return usage_error("heap", "--debug-blocks cannot be combined with any of --json, "
					   "--stacks, --profile, --max-overhead, -f and -n");
	nowait__begin();
	/* Privileges are given up in two steps. The second step comes at the end of tracing with
	 * --stacks, and at once otherwise. */
	if (privileges__limit(PRIVILEGES_OPENING, &(struct privileges_use){}, &err) ||
	    (config.stacks
		     ? privileges__begin_files(&err)
		     : privileges__limit(PRIVILEGES_STOPPED, &(struct privileges_use){}, &err)) ||
	    session__check_pid(config.pid, &err) || begin_output(config.output, &err))
		return fail(&err);
	if (config.file) {
		status = read_known(&config);
		if (status)
			return status;
	}
	if (config.blocks) {
		status = write_text(config.output, encode_blocks,
				    &(struct listing){config.pid, &err});
		return err.code ? fail(&err) : status;
	}
	return report(&config);
}
