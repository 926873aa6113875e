// SPDX-License-Identifier: BSD-2-Clause
/* memtrace why: is memory lost for good, or who still holds it? The memory is read from outside.
 * Only --stack places probes, and only --freeze stops the process. */
#include "cli/why.h"

#include <errno.h>
#include <getopt.h>
#include <regex.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "capture/registers.h"
#include "cli/cli.h"
#include "cli/heap_look.h"
#include "cli/nowait.h"
#include "cli/options.h"
#include "cli/output.h"
#include "encode/encode.h"
#include "session/privileges.h"
#include "session/session.h"

#define STATUS_LOST	  3 /* exit status with --exit-code */
#define DEFAULT_FREEZE_MS 500
#define DEFAULT_TRACE_S	  15.0 /* duration of tracing for --stack */

struct why_config {
	pid_t pid;
	uint64_t addrs[WHY_MAX_ADDRS];
	const char *stack, *type; /* --stack, --type; NULL: not given */
	regex_t regex;		  /* the expression of --stack or --type */
	double duration_s;	  /* duration of tracing, for --stack; 0: not given */
	struct why_options options;
	const char *output;
	const struct format *format; /* format of paths; NULL: tables, or JSON */
	unsigned int top;
	bool json;
	bool exit_code;
	struct why_report report;
};

static int encode(const void *what, struct sink *sink)
{
	const struct why_config *c = what;

	return c->json ? encode_why_json(&c->report, sink) : encode_why(&c->report, c->top, sink);
}

TAKE_OPTION(addr)
{
	struct why_config *c = config;
	uint64_t addr;
	char *end;

	(void)row;
	errno = 0;
	addr = strtoull(value, &end, 16);
	if (errno || *end || end == value || *value == '-')
		return usage_error(command, "'%s' is not an address in hexadecimal", value);
	if (c->options.choice.n_addrs == WHY_MAX_ADDRS)
		return usage_error(command, "more than %d addresses", WHY_MAX_ADDRS);
	c->addrs[c->options.choice.n_addrs++] = addr;
	return 0;
}

TAKE_OPTION(size)
{
	struct why_config *c = config;

	(void)row;
	if (parse_bytes(value, 1, 1ULL << 40, &c->options.choice.size))
		return usage_error(command, "'%s' is not a size in bytes", value);
	return 0;
}

static int take_regex(struct why_config *c, const char *command, const char *option,
		      const char *value, const char **ret)
{
	char why[128];
	int rc;

	if (c->stack || c->type)
		return usage_error(command, "give either --stack or --type, and only once: 'a|b' "
					    "matches a or b");
	if (!*value)
		return usage_error(command, "--%s is empty and would match everything", option);
	rc = regcomp(&c->regex, value, REG_EXTENDED | REG_NOSUB);
	if (rc) {
		regerror(rc, NULL, why, sizeof(why));
		return usage_error(command, "--%s '%s': %s", option, value, why);
	}
	*ret = value;
	return 0;
}

TAKE_OPTION(stack)
{
	struct why_config *c = config;

	return take_regex(c, command, row->name, value, &c->stack);
}

TAKE_OPTION(type)
{
	struct why_config *c = config;

	return take_regex(c, command, row->name, value, &c->type);
}

TAKE_OPTION(scans)
{
	struct why_config *c = config;
	uint64_t n;

	(void)row;
	if (parse_count(value, 1, 100, &n))
		return usage_error(command, "'%s' is not a number of scans (1 to 100)", value);
	c->options.scans = (unsigned int)n;
	return 0;
}

TAKE_OPTION(freeze)
{
	struct why_config *c = config;
	uint64_t ms = DEFAULT_FREEZE_MS;

	(void)row;
	if (value && parse_count(value, 1, 60000, &ms))
		return usage_error(command, "'%s' is not a time in milliseconds (1 to 60000)",
				   value);
	c->options.freeze_ms = (unsigned int)ms;
	return 0;
}

TAKE_OPTION(max_memory)
{
	struct why_config *c = config;

	(void)row;
	if (parse_bytes(value, 1, 1ULL << 40, &c->options.max_memory))
		return usage_error(command, "'%s' is not a size in bytes", value);
	return 0;
}

TAKE_OPTION(format)
{
	struct why_config *c = config;

	(void)row;
	return take_drawn_format(command, "paths", value, &c->format);
}

/* clang-format off: laid out by hand, each row reads like a sentence */
static const struct option_row what_rows[] = {
	{.name = "pid",
	 .letter = 'p',
	 .arg = "PID",
	 .take = take_pid,
	 .to = offsetof(struct why_config, pid),
	 .help = "the process",
	 .man = "One process, which goes on running. Its heap has to be that of glibc or "
		"jemalloc 5."},
	{.name = "addr",
	 .arg = "HEX",
	 .take = take_addr,
	 .help = "who holds the block at this address; may be given several times",
	 .man = "With or without 0x. The address may be anywhere in the block."},
	{.name = "size",
	 .arg = "BYTES",
	 .take = take_size,
	 .help = "who holds the blocks of this size",
	 .man = "Blocks of the smallest usable size in the heap that is at least BYTES: what "
		"malloc(BYTES) gives. Paths are shown for up to 1,000 of them, evenly chosen."},
	{.name = "type",
	 .arg = "REGEX",
	 .take = take_type,
	 .help = "who holds the objects of the C++ classes whose names match",
	 .man = "A POSIX extended regular expression. memtrace heap lists the classes."},
	{.name = "stack",
	 .arg = "REGEX",
	 .take = take_stack,
	 .help = "who holds what these functions allocate: traces for 15 s first",
	 .man = "A POSIX extended regular expression, which any part of a function's name in a "
		"stack may match. The process is traced with the limits that record has by "
		"default, and the probes are taken out. Then memory is searched for pointers to "
		"the sampled blocks that are still live."},
	{.name = "duration",
	 .letter = 'd',
	 .arg = "SECONDS",
	 .by_default = "15",
	 .take = take_seconds,
	 .to = offsetof(struct why_config, duration_s),
	 .help = "of tracing, for --stack",
	 .man = "A signal (Ctrl-C) ends tracing sooner."},
	{},
};

static const struct option_row how_rows[] = {
	{.name = "scans",
	 .arg = "N",
	 .by_default = "3",
	 .take = take_scans,
	 .help = "scans that must agree before a block is called lost",
	 .man = "They begin half a second apart or more. With fewer than three scans, blocks of a "
		"busy process may be called lost because pointers to them move."},
	{.name = "freeze",
	 .arg = "MS",
	 .arg_optional = true,
	 .take = take_freeze,
	 .help = "stop the process for one exact scan, 500 ms at most or for MS",
	 .man = "Instead of several scans, so it cannot be combined with --scans. How long the "
		"process was stopped is printed. It goes on in any case, even if memtrace is "
		"killed. If the scan takes longer than MS, there is no result. Because of the "
		"stop, some system calls in which threads wait, such as epoll_wait(), fail with "
		"EINTR."},
	{"max-overhead", SCAN_PACE(struct why_config, options.pace)},
	{.name = "max-memory",
	 .arg = "BYTES",
	 .by_default = "2G",
	 .take = take_max_memory,
	 .help = "memory of the process that reads the heap",
	 .man = "About 80 MB for each GB of heap, 150 MB with --addr or --size."},
	{},
};

static const struct option_row output_rows[] = {
	{.name = "top",
	 .letter = 'n',
	 .arg = "N",
	 .by_default = "10",
	 .take = take_rows,
	 .to = offsetof(struct why_config, top),
	 .help = "rows of each table at most",
	 .man = "A line below each says how many more there are."},
	{"json", .flag = offsetof(struct why_config, json),
	 .help = "an object for programs, with all rows", .man = "On one line."},
	{.name = "format",
	 .letter = 'f',
	 .arg = "FORMAT",
	 .values = "collapsed pprof svg",
	 .take = take_format,
	 .help = "the paths as stacks: collapsed, pprof or svg",
	 .man = "The root is the outermost frame, and the block that is held is the leaf. Lost "
		"blocks have a root of their own."},
	{.name = "output",
	 .letter = 'o',
	 .arg = "FILE",
	 .take = take_text,
	 .to = offsetof(struct why_config, output),
	 .help = "into this file (default: standard output)",
	 .man = "Tables, the object of --json, or the paths in a format."},
	{"exit-code", .flag = offsetof(struct why_config, exit_code),
	 .help = "status 3 if something is lost",
	 .man = "For scripts and CI. The status is 1 if the search cannot tell."},
	{},
};
/* clang-format on */

static const struct option_group groups[] = {
	{"What", what_rows, 0, OPTIONS_USUAL},
	{"How", how_rows, 0, OPTIONS_USUAL},
	{"Output", output_rows, 0, OPTIONS_USUAL},
	{},
};

const struct command command_why = {
	.name = "why",
	.run = cmd_why,
	.summary = "is memory lost for good, or who still holds it",
	.usage = "why -p PID [OPTIONS]",
	.about = "Says which blocks of a running process are lost for good, because no pointer to "
		 "them is left. For the blocks that you ask for, it says who holds them: the path "
		 "of pointers from a global variable, a thread's stack or other memory. Without "
		 "--stack it only reads the process's memory.",
	.man = "Any aligned word that points to a block or into it counts as a pointer. So a block "
	       "is not called lost if a word only looks like a pointer to it. Blocks to which only "
	       "hidden pointers lead (XORed, compressed) are called lost.",
	.groups = groups,
	.status = "0; 1 after a failure; 2 after a wrong option; 3 with --exit-code if something "
		  "is lost, and 1 if the search cannot tell.",
};

static int write_paths(const struct why_config *c)
{
	_cleanup_(cleanup_profile) struct profile *profile = NULL;

	if (why_report__paths(&c->report, &profile))
		return no_memory();
	return write_file(c->output, c->format, profile, &(struct view_options){}, "paths");
}

static int read_registers(pid_t pid, struct root_threads *threads, void *ctx)
{
	(void)pid;
	return why_registers__add(ctx, threads);
}

DEFINE_CLEANUP(struct registers *, cleanup_registers, registers__free)
DEFINE_CLEANUP(struct why_stack *, cleanup_stack, why_stack__free)

/* The exit status of --exit-code. 0 must mean that nothing is lost, so it must not be the status of
 * a search that could not tell. */
static int exit_code(const struct why_report *report)
{
	if (!report->doubt[0])
		return report->lost_blocks ? STATUS_LOST : 0;
	complain("process %d: whether something is lost is not known: %s", report->pid,
		 report->doubt);
	return EXIT_FAILED;
}

static int run(struct why_config *c)
{
	_cleanup_(cleanup_registers) struct registers *registers = NULL;
	_cleanup_(cleanup_stack) struct why_stack *found = NULL;
	_cleanup_free_ uint64_t *vtables = NULL;
	bool asked = c->stack || c->type || c->options.choice.n_addrs || c->options.choice.size;
	struct error err = {};
	struct why why;
	int rc;

	nowait__begin();
	if (privileges__limit(PRIVILEGES_OPENING, &(struct privileges_use){}, &err) ||
	    privileges__begin_files(&err) || session__check_pid(c->pid, &err) ||
	    begin_output(c->output, &err))
		return fail(&err);
	if (registers__new(c->pid, &registers))
		registers = NULL;
	c->options.registers = read_registers;
	c->options.ctx = registers;
	if (c->stack) {
		found = calloc(1, sizeof(*found));
		if (!found)
			return no_memory();
		rc = why_stack__find(c->pid, c->duration_s ?: DEFAULT_TRACE_S, c->stack, &c->regex,
				     found);
		if (rc)
			return rc;
		c->options.choice.addrs = found->addrs;
		c->options.choice.sizes = found->sizes;
		c->options.choice.n_addrs = found->n;
	}
	if (privileges__limit(PRIVILEGES_STOPPED, &(struct privileges_use){}, &err))
		return fail(&err);
	if (c->type) {
		rc = why_type__find(c->pid, c->type, &c->regex, &c->options.pace, &vtables,
				    &c->options.choice.n_vtables);
		if (rc)
			return rc;
		c->options.choice.vtables = vtables;
	}
	rc = why__run(c->pid, &c->options, &why, &err);
	if (rc) {
		error__set(&err, rc, "cannot search the memory of process %d", (int)c->pid);
		return fail(&err);
	}
	rc = why_report__make(c->pid, &why, asked, found ? found->makers : NULL, &c->report);
	why__clear(&why);
	if (rc)
		return no_memory();
	why_report__merge(&c->report);
	rc = c->format ? write_paths(c) : write_text(c->output, encode, c);
	if (!rc && c->exit_code)
		rc = exit_code(&c->report);
	why_report__clear(&c->report);
	return rc;
}

int cmd_why(int argc, char **argv)
{
	static struct why_config config = {.top = 10};
	int status = command__parse(&command_why, &config, argc, argv);

	if (status)
		return status;
	if (optind < argc)
		return usage_error("why",
				   "'%s' is not an option; the process is given with -p PID, and "
				   "values as --json=FILE, --freeze=MS",
				   argv[optind]);
	if (!config.pid)
		return usage_error("why", "which process? -p PID");
	status = check_drawn_format("why", config.format, config.json, config.output);
	if (status)
		return status;
	if ((config.stack || config.type) &&
	    (config.options.choice.n_addrs || config.options.choice.size))
		return usage_error("why",
				   "--%s chooses the blocks: it cannot be combined with --addr or "
				   "--size",
				   config.stack ? "stack" : "type");
	if (config.options.freeze_ms && config.options.scans)
		return usage_error("why", "--freeze makes one scan of a process that stands still: "
					  "it cannot be combined with --scans");
	if (config.options.freeze_ms &&
	    (config.options.pace.hurry || config.options.pace.max_share))
		return usage_error("why", "--freeze reads as fast as it can: it cannot be combined "
					  "with --max-overhead");
	if (config.duration_s > 0 && !config.stack)
		return usage_error("why", "-d says how long --stack traces: it needs --stack");
	config.options.choice.addrs = config.addrs;
	return run(&config);
}
