// SPDX-License-Identifier: BSD-2-Clause
#include "cli/trace_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "base/vector.h"
#include "capture/alloc_table.h"

/* finer than the default, because a slow leak grows little in half a minute */
#define LEAKS_INTERVAL (64 << 10)
/* Chosen for the worst case: a process does little but allocate on a slow machine, so windows cover
 * half a percent of its time. Of a leak of 64 MiB they see 320 KiB, which is 20 samples at this
 * interval. If a coarser interval avoids windows, the process is traced continuously with that
 * interval. */
#define VICTIMS_INTERVAL (16 << 10)
/* --heap needs many known blocks, also small ones. If these samples cost too much, the session
 * makes the interval coarser. If they still cost too much, the process is traced in windows, and
 * fewer blocks are known to live. A command that memtrace starts has no limit of cost. */
#define HEAP_INTERVAL	      512
#define HEAP_COMMAND_INTERVAL (16 << 10)

void trace_config__init(struct trace_config *c)
{
	*c = (struct trace_config){
		.what = WHAT_HEAP,
		/* docs/overhead.md: windows at 1 % hardly change the 99th percentile of a server's
		 * request times. At 5 % this percentile rises by about a third. */
		.max_overhead = 0.01,
		.max_steady_overhead = 0.05,
		.max_host_overhead = 0.02,
		.output = "memtrace",
		.capture = {.interval = DEFAULT_INTERVAL, .kind = -1},
	};
	for (size_t i = 0; i < N_FORMATS; i++)
		c->format[i] = formats[i].by_default;
}

static int parse_pids(const char *command, const char *text, struct trace_config *c)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *item;
	uint64_t pid;

	if (!copy)
		return no_memory();
	while ((item = strsep(&rest, ","))) {
		bool known = false;

		if (parse_count(item, 1, INT32_MAX, &pid))
			return usage_error(
				command,
				"'%s' is not a pid; of a name: -p $(pgrep -d, -x NAME). (--comm "
				"NAME also traces processes that begin later, with probes for the "
				"whole machine)",
				item);
		for (size_t i = 0; i < c->n_pids; i++)
			known = known || c->pids[i] == (pid_t)pid;
		if (known)
			continue;
		if (c->n_pids == MAX_PIDS)
			return usage_error(command, "at most %d pids", MAX_PIDS);
		c->pids[c->n_pids++] = (pid_t)pid;
	}
	return 0;
}

bool is_another_pid(const struct trace_config *c, const char *word)
{
	return c->n_pids && *word && !word[strspn(word, "0123456789")];
}

/* Parses names separated by commas: bit i of *ret is set when names[i] is among them. 0, or the
 * exit status after a message about an unknown name. `complaint` is the message's format. */
static int parse_names(const char *command, const char *text, const char *const *names, size_t n,
		       const char *complaint, unsigned *ret)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *item;

	if (!copy)
		return no_memory();
	*ret = 0;
	while ((item = strsep(&rest, ","))) {
		size_t i = 0;

		while (i < n && strcmp(item, names[i]))
			i++;
		if (i == n)
			return usage_error(command, complaint, item);
		*ret |= 1U << i;
	}
	return 0;
}

static int parse_formats(const char *command, const char *text, struct trace_config *c)
{
	const char *names[N_FORMATS + 1];
	unsigned found;
	int rc;

	for (size_t i = 0; i < N_FORMATS; i++)
		names[i] = formats[i].name;
	names[N_FORMATS] = "none";
	rc = parse_names(command, text, names, N_FORMATS + 1,
			 "there is no format '%s': " FORMAT_NAMES ", none", &found);
	for (size_t i = 0; i < N_FORMATS && !rc; i++)
		c->format[i] = found >> i & 1;
	return rc;
}

static int parse_what(const char *command, const char *text, struct trace_config *c)
{
	/* in the order of enum session_what */
	static const char *const names[] = {"heap", "regions", "faults"};
	int rc = parse_names(command, text, names, 3, "--what has no '%s': heap, regions, faults",
			     &c->what);

	if (!rc && (c->what & WHAT_HEAP) && (c->what & WHAT_FAULTS))
		return usage_error(command,
				   "--what heap and --what faults cannot be combined: trace the "
				   "process twice");
	return rc;
}

int parse_overhead(const char *command, const char *text, double *ret)
{
	char *end;

	*ret = 0;
	if (!strcmp(text, "off"))
		return 0;
	*ret = strtod(text, &end) / 100;
	if (end != text && *end == '%')
		end++;
	if (end == text || *end || !(*ret >= 0.001 && *ret <= 1))
		return usage_error(command,
				   "'%s' is not a share of CPU time: 0.1 to 100 per cent, or off",
				   text);
	return 0;
}

static int parse_probe_kind(const char *command, const char *text, int *ret)
{
	for (*ret = 0; *ret < PROBE_KINDS; ++*ret)
		if (!strcmp(text, probe_kind__name((enum probe_kind) * ret)))
			return 0;
	return usage_error(command, "there is no kind of probe '%s': session, multi, perf", text);
}

static int parse_place(const char *command, const char *text, enum session_region_place *ret)
{
	if (!strcmp(text, "libc"))
		*ret = REGIONS_LIBC;
	else if (!strcmp(text, "syscalls"))
		*ret = REGIONS_SYSCALLS;
	else
		return usage_error(command,
				   "regions are probed at libc or at syscalls, not at '%s'", text);
	return 0;
}

/* Parses a number from min to max, or complains with the format `complaint`. */
static int parse_limit(const char *command, const char *text, uint64_t min, uint64_t max,
		       const char *complaint, uint32_t *ret)
{
	uint64_t n;

	if (parse_count(text, min, max, &n))
		return usage_error(command, complaint, text);
	*ret = (uint32_t)n;
	return 0;
}

/* Parses a number of bytes like parse_limit(). */
static int parse_size(const char *command, const char *text, uint64_t min, uint64_t max,
		      const char *complaint, uint64_t *ret)
{
	return parse_bytes(text, min, max, ret) ? usage_error(command, complaint, text) : 0;
}

/* --- the options: each take_...() is for one row, or for the rows that its comment names --- */

TAKE_OPTION(pids)
{
	(void)row;
	return parse_pids(command, value, config);
}

/* stores the value of --all, --follow, --comm, --exe, --user, --cgroup or --container */
TAKE_OPTION(selection)
{
	struct trace_config *c = config;

	return selection_config__take(&c->selection, command, row->name, value);
}

TAKE_OPTION(what)
{
	struct trace_config *c = config;

	(void)row;
	c->what_given = true;
	return parse_what(command, value, c);
}

TAKE_OPTION(interval)
{
	struct trace_config *c = config;

	(void)row;
	c->interval_given = true;
	return parse_size(command, value, 1, ABI_MAX_INTERVAL,
			  "'%s' is not a sampling interval: 1 to 4G bytes, as in 512K",
			  &c->capture.interval);
}

/* A limit that the user sets holds for windows and for continuous tracing, so it replaces both
 * limits. */
TAKE_OPTION(max_overhead)
{
	struct trace_config *c = config;
	int rc = parse_overhead(command, value, &c->max_overhead);

	(void)row;
	c->overhead_given = true;
	c->max_steady_overhead = c->max_overhead;
	return rc;
}

TAKE_OPTION(max_host_overhead)
{
	struct trace_config *c = config;

	(void)row;
	c->host_overhead_given = true;
	return parse_overhead(command, value, &c->max_host_overhead);
}

TAKE_OPTION(probe_kind)
{
	struct trace_config *c = config;

	(void)row;
	return parse_probe_kind(command, value, &c->capture.kind);
}

/* stores the value of --alloc, --free or --end */
TAKE_OPTION(function)
{
	struct trace_config *c = config;
	int rc = add_alloc_option(&c->extra, command, row->name, value);

	c->capture.extra = c->extra.list;
	c->capture.n_extra = c->extra.n;
	return rc;
}

TAKE_OPTION(max_live)
{
	struct trace_config *c = config;

	(void)row;
	return parse_limit(command, value, 1, 1U << 30, "'%s' is not a number of samples",
			   &c->capture.max_live);
}

TAKE_OPTION(max_stacks)
{
	struct trace_config *c = config;
	int rc = parse_limit(command, value, 1, 1U << 24, "'%s' is not a number of stacks",
			     &c->capture.max_stacks);

	(void)row;
	c->capture.max_sites = c->capture.max_stacks * 2;
	return rc;
}

TAKE_OPTION(max_frames)
{
	struct trace_config *c = config;

	(void)row;
	return parse_limit(command, value, 2, ABI_STACK_FRAMES,
			   "'%s' is not a number of frames from 2 to 127", &c->capture.max_frames);
}

TAKE_OPTION(max_unwind)
{
	struct trace_config *c = config;

	(void)row;
	return parse_size(command, value, 64 << 10, 1ULL << 36,
			  "'%s' is not a size for unwind tables: 64K to 64G bytes",
			  &c->capture.max_unwind);
}

TAKE_OPTION(max_symbols)
{
	struct trace_config *c = config;

	(void)row;
	return parse_size(command, value, 1, 1ULL << 40,
			  "'%s' is not a size for symbol tables: 1 to 1024G bytes",
			  &c->symbolize.max_bytes);
}

TAKE_OPTION(output)
{
	struct trace_config *c = config;
	char *path;

	(void)row;
	if (!*value)
		return usage_error(command, "the output prefix is empty");
	if (!strcmp(value, "-")) {
		c->to_stdout = true;
		return 0;
	}
	c->output = value;
	/* For a directory, the name "memtrace" is added. Otherwise file names would begin with the
	 * dot that follows the prefix. */
	if (value[strlen(value) - 1] == '/') {
		if (asprintf(&path, "%smemtrace", value) < 0)
			return no_memory();
		c->output = path; /* never freed */
	}
	c->output_given = true;
	return 0;
}

TAKE_OPTION(formats)
{
	struct trace_config *c = config;

	(void)row;
	c->format_given = true;
	return parse_formats(command, value, c);
}

TAKE_OPTION(region_place)
{
	struct trace_config *c = config;

	(void)row;
	return parse_place(command, value, &c->region_place);
}

TAKE_OPTION(window_period)
{
	struct trace_config *c = config;

	(void)row;
	if (parse_count(value, 10, 10000, &c->window_period_ms))
		return usage_error(command, "'%s' is not 10 to 10000 ms", value);
	return 0;
}

/* clang-format off: laid out by hand, each row reads like a sentence */
const struct option_row trace_target_rows[] = {
	{.name = "pid",
	 .letter = 'p',
	 .arg = "PID[,PID...]",
	 .take = take_pids,
	 .help = "these processes",
	 .man = "Numbers, separated by commas, at most 256. Each has a table and files of its "
		"own."},
	{.name = "all",
	 .letter = 'a',
	 .take = take_selection,
	 .help = "every process, also new ones",
	 .man = "A table of processes is shown. record writes files of each process only if -o or "
		"-f asks for them. The same holds for --comm, --exe, --user, --cgroup and "
		"--container. If several of these are given, a process has to fit all of them."},
	{"comm", .arg = "NAME", .take = take_selection,
	 .help = "processes of that name, also new ones", .man = "May be given several times."},
	{"exe", .arg = "GLOB", .take = take_selection,
	 .help = "processes of that program, also new ones",
	 .man = "The program's whole path has to match, as in '/usr/sbin/nginx*'. * stands for any "
		"characters, ? for one, [...] for one of those in the brackets."},
	{"user", .arg = "USER", .take = take_selection,
	 .help = "processes of that user, also new ones",
	 .man = "A name or a number. May be given several times."},
	{"cgroup", .arg = "PATH", .take = take_selection,
	 .help = "processes in that cgroup, also new ones",
	 .man = "The cgroup of version 2, with all cgroups below it. PATH is its path in "
		"/proc/PID/cgroup, such as /system.slice/x.service, or its directory in "
		"/sys/fs/cgroup."},
	{"container", .arg = "ID", .take = take_selection,
	 .help = "processes in that container, also new ones",
	 .man = "A container of Docker, podman, Kubernetes or LXC. ID is at least 8 characters of "
		"the id in the name of the container's cgroup."},
	{.name = "follow",
	 .letter = 'F',
	 .take = take_selection,
	 .help = "children of traced processes, too",
	 .man = "Present and future children, whatever they run. A table of processes is shown."},
	{"what", .arg = "LIST", .by_default = "heap", .values = "heap regions faults",
	 .take = take_what, .help = "heap, regions (mmap, brk) or faults",
	 .man = "Names, separated by commas. regions is memory that is taken by mmap and brk. "
		"faults is memory "
		"that becomes resident, by page faults: it needs no allocator, and cannot be "
		"combined with heap."},
	{},
};

const struct option_row trace_how_rows[] = {
	{.name = "duration",
	 .letter = 'd',
	 .arg = "SECONDS",
	 .take = take_seconds,
	 .to = offsetof(struct trace_config, duration_s),
	 .help = "how long (default: until told to end)",
	 .man = "Fractions are allowed, and minutes and hours: 5m, 1h."},
	{.name = "interval",
	 .letter = 'i',
	 .arg = "BYTES",
	 .by_default = "512K",
	 .take = take_interval,
	 .help = "bytes between samples; 1: every call",
	 .man = "The mean, in allocated bytes. K, M and G are allowed. With 1 the numbers are "
		"exact, and tracing may cost any amount unless --max-overhead is given."},
	{"max-overhead", .arg = "PCT", .take = take_max_overhead,
	 .help = "share of CPU time that tracing may cost, or off",
	 .man = "Per cent of the process's own CPU time, or of one core, if the machine has a core "
		"idle. off: no limit. If tracing all the time would cost more, the "
		"process is traced in short random windows. Without this option, tracing all the "
		"time may cost 5, and windows may cost 1; there is no limit with -i 1 and for a "
		"COMMAND. With 5 there are more windows, and answers come sooner."},
	{},
};

const struct option_row trace_output_rows[] = {
	{.name = "output",
	 .letter = 'o',
	 .arg = "PREFIX",
	 .by_default = "memtrace",
	 .take = take_output,
	 .help = "prefix of files; -: table to stdout",
	 .man = "The names of the files of -f begin with PREFIX. The name of a directory with a "
		"slash at its end puts the files into that directory. A COMMAND's table goes to "
		"standard error, or with - to standard output. - may be given besides a prefix."},
	{.name = "format",
	 .letter = 'f',
	 .arg = "LIST",
	 .values = "heap collapsed pprof svg symbolized none",
	 .take = take_formats,
	 .help = "heap,collapsed,pprof (default), svg, symbolized, none",
	 .man = "Names, separated by commas. svg is a flame graph. symbolized is heap with its "
		"names, for jeprof without the program."},
	{},
};

const struct option_row trace_view_rows[] = {
	{"leaks", .flag = offsetof(struct trace_config, leaks), .help = "stacks by growth",
	 .man = "Regions are traced, too, unless --what says otherwise, and samples are closer "
		"(64K), unless -i is given."},
	{},
};

const struct option_row trace_rare_rows[] = {
	{"max-host-overhead", .arg = "PCT", .by_default = "2", .take = take_max_host_overhead,
	 .help = "share of the machine's CPU time that tracing many processes may cost",
	 .man = "With -a, --comm and the like, or more than 16 PIDs. off: no limit."},
	{"alloc", .arg = "FILE:FUNCTION(size=N[*M])->ret", .take = take_function,
	 .help = "another function that allocates",
	 .man = "For a pool of your own. FILE is a mapped file, or exe for the program. size=N: "
		"argument N is the block's size. ->*N: the block's address is stored where "
		"argument N points. ptr=N: the function is a realloc of the block in argument N. "
		"pool=N: the block ends with the pool in argument N (--end). throws: an exception "
		"may leave the function."},
	{"free", .arg = "FILE:FUNCTION(ptr=N)", .take = take_function,
	 .help = "another function that frees",
	 .man = "Argument N is the block that it frees. --alloc and --free may be given several "
		"times."},
	{"end", .arg = "FILE:FUNCTION(pool=N)", .take = take_function,
	 .help = "another function that frees all blocks of a pool",
	 .man = "Argument N is the pool, the same value as the argument pool=N of --alloc. May "
		"be given several times."},
	{"probe-kind", .arg = "KIND", .values = "session multi perf", .take = take_probe_kind,
	 .help = "session, multi or perf instead of the best that works",
	 .man = "session needs Linux 6.13, multi 6.6, perf 5.15. memtrace check tells which work."},
	{"no-return-probes", .flag = offsetof(struct trace_config, no_returns),
	 .help = "read return values at ret instructions; costs more",
	 .man = "No call returns through a probe. This is the default on kernels whose return "
		"probes would kill the target."},
	{"max-live", .arg = "N", .by_default = "1048576", .take = take_max_live,
	 .help = "samples of live blocks to hold",
	 .man = "For all processes together. If that is not enough, samples are dropped, and "
		"figures say \"at "
		"least\"."},
	{"max-stacks", .arg = "N", .by_default = "65536", .take = take_max_stacks,
	 .help = "distinct stacks to hold",
	 .man = "For all processes together. If that is not enough, samples are dropped, and "
		"figures say \"at "
		"least\"."},
	{"max-frames", .arg = "N", .by_default = "127", .take = take_max_frames,
	 .help = "addresses per stack, at most 127",
	 .man = "From the allocating function on, at least 2. A longer stack lacks its outermost "
		"callers."},
	{"max-unwind", .arg = "BYTES", .by_default = "96M", .take = take_max_unwind,
	 .help = "kernel memory for unwind tables",
	 .man = "The unit may be K, M or G. The least is 64K. If there is no room for the table of "
		"a file, stacks end in that file. Such files are counted."},
	{"max-symbols", .arg = "BYTES", .by_default = "256M", .take = take_max_symbols,
	 .help = "memory for symbol tables",
	 .man = "K, M and G are allowed. The least recently used tables make room, and are read "
		"again when they are needed."},
	{"no-demangle", .flag = offsetof(struct trace_config, symbolize.raw_names),
	 .help = "linkers' names instead of C++ and Rust ones",
	 .man = "In the table and in all files: _ZN3foo3barEv for foo::bar()."},
	{"no-inline", .flag = offsetof(struct trace_config, symbolize.no_lines),
	 .help = "no inlined functions, files and lines",
	 .man = "Frames are the functions that the linker knows, without what debug information "
		"would add."},
	{},
};

const struct option_row trace_where_rows[] = {
	{"hide-runtime", HIDE_RUNTIME(struct trace_config, show_runtime)},
	{},
};

const struct option_row trace_debug_rows[] = {
	{"debug-regions-at", .arg = "PLACE", .values = "libc syscalls", .take = take_region_place,
	 .help = "where regions are probed (default: libc if all calls go through it)",
	 .man = "At the functions of libc, or at the system calls. The default is the system "
		"calls where not all calls "
		"go through libc."},
	{"debug-window-period", .arg = "MS", .take = take_window_period,
	 .help = "mean time between windows",
	 .man = "10 to 10000. For tests: a thousand windows in a minute."},
	{},
};
/* clang-format on */

static uint64_t default_interval(const struct trace_config *c, bool starts_program)
{
	if (c->on_oom)
		return VICTIMS_INTERVAL;
	if (c->heap)
		return starts_program ? HEAP_COMMAND_INTERVAL : HEAP_INTERVAL;
	return c->leaks ? LEAKS_INTERVAL : c->capture.interval;
}

int trace_config__settle(struct trace_config *c, const char *command, bool starts_program)
{
	if (c->host_overhead_given && !c->selection.given && c->n_pids <= SESSION_SEPARATE)
		return usage_error(
			command,
			"--max-host-overhead is for many processes together (-a, --comm ..., more"
			" than %d pids); to limit the cost in each process, use --max-overhead",
			SESSION_SEPARATE);
	if (!c->interval_given)
		c->capture.interval = default_interval(c, starts_program);
	/* If every allocation is asked for, there is no limit, and so there are no windows. The
	 * same holds for a program that memtrace starts, because tracing it slows no other process.
	 * With a selection there is a limit, because the probes are then in the code of all
	 * processes. */
	if (!c->overhead_given &&
	    (c->capture.interval == 1 || (starts_program && !c->selection.given)))
		c->max_overhead = 0;
	/* --max-host-overhead is kept by windows, which many processes get in turn (pace/host.h) */
	if (c->host_overhead_given && c->max_host_overhead > 0 &&
	    (!(c->max_overhead > 0) || c->what != WHAT_HEAP))
		return usage_error(
			command,
			"--max-host-overhead cannot be kept with --max-overhead off, -i 1, "
			"or --what other than heap");
	return 0;
}

struct session_options trace_config__session_options(const struct trace_config *c)
{
	return (struct session_options){
		.what = c->what,
		.regions_if_easy = c->leaks && !c->what_given,
		.region_place = c->region_place,
		.no_returns = c->no_returns,
		.victims = c->on_oom ? VICTIMS_OF_MEMORY : VICTIMS_NONE,
		.selection = c->selection.given ? &c->selection.selection : NULL,
		.pids = c->pids,
		.n_pids = c->n_pids,
		.planned_s = c->duration_s,
		.max_overhead = c->max_overhead,
		.max_steady_overhead = c->max_steady_overhead,
		.overhead_given = c->overhead_given,
		.max_host_overhead = c->max_host_overhead,
		.window_period_ns = c->window_period_ms * 1000000,
		.interval_given = c->interval_given,
		.capture = c->capture,
		.symbolize = c->symbolize,
	};
}

void trace_config__say_missing(const struct trace_config *c, const struct session *s)
{
	size_t n;
	const struct capture_probe *probes = session__probes(s, &n);

	if (session__no_returns(s) && !c->no_returns && c->what & WHAT_HEAP)
		complain("no return probes: %s. memtrace reads return values at the functions' ret "
			 "instructions, which costs more",
			 session__no_returns(s));
	if (session__has_lost_limit(s))
		complain("what probes cost on this machine could not be measured: no limit of cost "
			 "holds in this run");
	for (size_t i = 0; i < c->extra.n; i++) {
		bool found = false;

		for (size_t j = 0; j < n; j++)
			found = found || probes[j].point->name == c->extra.list[i].symbol;
		if (!found)
			complain("no traced process has mapped the file %s yet: %s will be probed "
				 "when a process maps it",
				 c->extra.list[i].file, c->extra.list[i].symbol);
	}
}

void say_refused(const struct session *s, uint64_t *told)
{
	size_t n;
	uint64_t last = *told;
	const struct capture_refusal *refusals = session__refusals(s, &n);

	/* With probes in all processes there is nearly always some Python process whose pool cannot
	 * be probed. Nobody asked for this process, and its profile says what is missing, so there
	 * is no complaint. */
	for (size_t i = 0; i < n; i++) {
		if (refusals[i].number <= *told)
			continue;
		last = refusals[i].number > last ? refusals[i].number : last;
		if (refusals[i].pid || !alloc_family__is_pool(refusals[i].family))
			complain("%s", refusals[i].text);
	}
	*told = last;
}

void say_withdrawn(const struct session *s, struct withdrawn_told *told)
{
	double seconds;
	size_t n = session__withdrawals(s, &seconds);

	if (n > told->n)
		complain("memtrace was held up, and nothing was recorded for %.1f s: all probes "
			 "were out, so that the processes keep their speed (probes_withdrawn)",
			 seconds - told->seconds);
	*told = (struct withdrawn_told){n, seconds};
}

int say_unguarded(void)
{
	complain("mt-keeper, which takes the probes out if memtrace hangs, was killed or ran out of"
		 " memory: tracing ends here");
	return EXIT_FAILED;
}

/* --- the files --- */

bool trace_config__writes_files(const struct trace_config *c)
{
	for (size_t i = 0; i < N_FORMATS; i++)
		if (c->format[i])
			return true;
	return false;
}

/* A profile that has got files. */
struct file_owner {
	pid_t pid;
	unsigned what; /* one of enum session_what */
	uint64_t start_unix_ns;
};

/* Counts the profiles of this pid and kind that have got files in this run, up to this one. There
 * are several if the pid was used again, or if an exec has ended one target and made another. 0: no
 * memory. */
static unsigned count_owners(struct trace_config *c, const struct profile *p)
{
	const struct file_owner owner = {p->pid, trace_what(p), p->start_unix_ns};
	unsigned n = 1;

	for (size_t i = 0; i < c->n_owners; i++) {
		if (c->owners[i].pid != owner.pid || c->owners[i].what != owner.what)
			continue;
		if (c->owners[i].start_unix_ns == owner.start_unix_ns)
			return n;
		n++;
	}
	if (VECTOR_ADD_ROOM(c->owners, c->n_owners))
		return 0;
	c->owners[c->n_owners++] = owner;
	return n;
}

/* Returns the path of a file; NULL: no memory. nth: the number of this profile among those of the
 * pid, from 1. number: a snapshot's number, or "". what: one of enum session_what. */
static char *output_path(const struct trace_config *c, pid_t pid, unsigned nth, const char *number,
			 unsigned what, const char *extension)
{
	const char *part = what == WHAT_REGIONS ? "regions." : what == WHAT_FAULTS ? "faults." : "";
	char *path, again[16] = "";

	if (nth > 1)
		snprintf(again, sizeof(again), "-%u", nth);
	return asprintf(&path, "%s.%d%s.%s%s%s%s", c->output, pid, again, number,
			*number ? "." : "", part, extension) < 0
		       ? NULL
		       : path;
}

int trace_config__check_files(const struct trace_config *c, bool with_command, struct error *err)
{
	/* if the pid is not known yet, the check uses the longest pid */
	const pid_t longest = 4194304;
	bool named = !with_command && !c->selection.given;
	const pid_t *pids = named ? c->pids : &longest;
	size_t n = named ? c->n_pids : 1;

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < 3 * N_FORMATS; j++) {
			_cleanup_free_ char *path = NULL;
			unsigned what = WHAT_HEAP << (j / N_FORMATS);
			int rc;

			if (!c->format[j % N_FORMATS] || !(c->what & what))
				continue;
			path = output_path(c, pids[i], 1, "", what,
					   formats[j % N_FORMATS].extension);
			rc = path ? outfile__check(path, err)
				  : error__set(err, -ENOMEM, "out of memory");
			if (rc)
				return rc;
		}
	return 0;
}

bool trace_config__is_aside(const struct trace_config *c, const struct profile *p)
{
	return profile__is_regions(p) && !c->what_given;
}

unsigned trace_what(const struct profile *p)
{
	return profile__is_regions(p)  ? WHAT_REGIONS
	       : profile__is_faults(p) ? WHAT_FAULTS
				       : WHAT_HEAP;
}

int trace_config__write_files(struct trace_config *c, const struct profile *p,
			      const struct view_options *view, const char *number,
			      int (*written)(void *ctx, const struct profile *profile,
					     const char *path),
			      void *ctx)
{
	unsigned nth = count_owners(c, p);
	int status = 0;

	if (!nth)
		return no_memory();
	for (size_t i = 0; i < N_FORMATS; i++) {
		_cleanup_free_ char *path = NULL;
		bool is_written = false;

		if (!c->format[i] || trace_config__is_aside(c, p))
			continue;
		path = output_path(c, p->pid, nth, number, trace_what(p), formats[i].extension);
		if (!path)
			status = no_memory();
		else if (write_capture(path, &formats[i], p, view, &is_written))
			status = EXIT_FAILED;
		if (is_written && written(ctx, p, path))
			status = no_memory();
	}
	return status;
}
