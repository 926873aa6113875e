// SPDX-License-Identifier: BSD-2-Clause
/* memtrace heap: what lies in the heap of a process that runs, read from outside. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "encode/encode.h"
#include "heap/census.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "session/privileges.h"
#include "session/session.h"

#define DEFAULT_TOP 10

struct heap_config {
	pid_t pid;
	const char *output;
	unsigned top;
	bool json;
	bool blocks; /* --debug-blocks */
	struct heap_report report;
};

/* clang-format off: a row reads as a sentence */
static const struct option_row what_rows[] = {
	{.name = "pid",
	 .letter = 'p',
	 .arg = "PID",
	 .take = take_pid,
	 .to = offsetof(struct heap_config, pid),
	 .help = "the process whose heap is read",
	 .man = "It goes on running: no probe, no stop, only reads of resident pages."},
	{},
};

static const struct option_row output_rows[] = {
	{.name = "top",
	 .letter = 'n',
	 .arg = "N",
	 .by_default = "10",
	 .take = take_rows,
	 .to = offsetof(struct heap_config, top),
	 .help = "sizes at most, in each table",
	 .man = "The others are added up in a last row."},
	{"json", .flag = offsetof(struct heap_config, json),
	 .help = "an object for programs, with all sizes",
	 .man = "On one line. docs/json.md has its keys."},
	{.name = "output",
	 .letter = 'o',
	 .arg = "FILE",
	 .take = take_text,
	 .to = offsetof(struct heap_config, output),
	 .help = "into this file (default: standard output)",
	 .man = "Tables, or the object of --json."},
	{},
};

static const struct option_row debug_rows[] = {
	{"debug-blocks", .flag = offsetof(struct heap_config, blocks),
	 .help = "instead: address and usable size of each block in use",
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
		 "page by page, and which blocks keep pages from going back to the system. Reads "
		 "the structures of glibc's malloc and of jemalloc from outside: no probe, no "
		 "stop.",
	.groups = groups,
};

#define TRIES 3 /* a heap that changes too fast to be read once may be quieter the next time */

static int take_census(struct heap_config *c, struct census *census)
{
	double start = clock__monotonic_s();
	struct error err = {};
	struct maps maps;
	int rc = maps__read(c->pid, &maps);

	if (rc) {
		error__set(&err, rc, "cannot read /proc/%d/maps: %s", (int)c->pid, strerror(-rc));
		return fail(&err);
	}
	c->report.unread = heap__unread_allocator(&maps);
	rc = census__take(c->pid, &maps, 0, census, &err);
	maps__free(&maps);
	c->report.seconds = clock__monotonic_s() - start;
	return rc ? fail(&err) : 0;
}

/* Takes censuses until one is worth printing. 0, or EXIT_FAILED after a complaint. */
static int take_good_census(struct heap_config *c, struct census *census)
{
	char refusal[256];
	int status;

	for (int i = 1;; i++) {
		status = take_census(c, census);
		if (status || !heap_report__refusal(census, refusal, sizeof(refusal)))
			return status;
		free(census->arenas);
		if (i == TRIES)
			break;
	}
	complain("process %d: %s", (int)c->pid, refusal);
	return EXIT_FAILED;
}

static int encode(const void *what, struct sink *sink)
{
	const struct heap_config *c = what;

	return c->json ? encode_heap_report_json(&c->report, sink)
		       : encode_heap_report(&c->report, c->top, sink);
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

int cmd_heap(int argc, char **argv)
{
	struct heap_config config = {.top = DEFAULT_TOP};
	int status = command__parse(&command_heap, &config, argc, argv);
	struct process_info info = {};
	struct census census;
	struct error err = {};

	if (status)
		return status;
	if (optind < argc || !config.pid)
		return usage_error("heap", "which process? -p PID");
	if (privileges__limit(PRIVILEGES_OPENING, &(struct privileges_use){}, &err) ||
	    session__check_pid(config.pid, &err))
		return fail(&err);
	if (config.blocks) {
		status = write_text(config.output, encode_blocks,
				    &(struct listing){config.pid, &err});
		return err.code ? fail(&err) : status;
	}
	status = take_good_census(&config, &census);
	if (status)
		return status;
	process__read_stat(config.pid, &info);
	config.report.census = &census;
	config.report.pid = config.pid;
	config.report.comm = printable(info.comm);
	status = write_text(config.output, encode, &config);
	free(census.arenas);
	return status;
}
