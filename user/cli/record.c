// SPDX-License-Identifier: BSD-2-Clause
/* memtrace record: trace, then show and write what was found. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/outfile.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/selection.h"
#include "cli/snapshots.h"
#include "encode/encode.h"
#include "session/session.h"

#define MAX_PIDS  256
#define LEAKS_INTERVAL (64 << 10) /* half a minute of a slow leak is not much */

/* A snapshot's file. */
struct written {
	pid_t pid;
	unsigned what; /* of enum session_what */
	char *path;
};

struct record_config {
	pid_t pids[MAX_PIDS];
	size_t n_pids;
	struct selection_config selection;
	char *const *command;
	double duration_s; /* 0: until told or the targets end */
	unsigned what; /* of enum session_what */
	enum session_region_place region_place;
	double max_overhead; /* share; 0: no limit */
	double max_host_overhead;
	bool overhead_given;
	unsigned evidence;
	uint64_t window_period_ms;
	bool leaks, what_given, interval_given;
	bool threads, each_thread, sites, lifetimes; /* tables besides */
	bool resident;
	const char *output;
	bool output_given, format_given, jeprof_names;
	struct snapshots snapshots;
	struct written *written;
	size_t n_written;
	struct modules *modules; /* NULL: none were given */
	struct view_options view;
	enum process_sort sort;
	bool format[N_FORMATS];
	unsigned top;
	bool json;
	const char *json_path; /* NULL: stdout */
	bool quiet, verbose;
	struct alloc_options extra;
	struct capture_options capture;
	struct symbolize_options symbolize;
};

const char record_options[] =
	"  -p, --pid PID[,PID...]     processes to profile\n"
	"  -a, --all                  every process there is and every one to come\n"
	"      --comm NAME, --exe GLOB, --user USER, --cgroup PATH, --container ID\n"
	"                             those of that name, program, user or cgroup, also new ones\n"
	"  -F, --follow               children of traced processes, too\n"
	"      --sort KEY             processes by growth (default), live or rss\n"
	"      --what LIST            heap (default), regions: what is taken by mmap and brk,\n"
	"                             growth: what becomes resident, by page faults\n"
	"      --regions-at PLACE     libc or syscalls (default: libc where that sees all)\n"
	"      --max-overhead PCT     share of its CPU time that tracing may cost a process: where it\n"
	"                             is more, in random short windows (default 5; off: no limit,\n"
	"                             which is also the default with -i 1)\n"
	"      --max-host-overhead PCT\n"
	"                             with -a, --comm ...: share of the machine's CPU time that tracing\n"
	"                             may cost all of them together (default 2, off: no limit)\n"
	"      --leaks                the table by growth; regions are looked at, too, and samples are\n"
	"                             closer (-i 64K), unless told otherwise\n"
	"      --rss                  what the resident set is made of, at the end of the run: heap, mappings\n"
	"                             by owner, stacks, files; regions are looked at, too, unless --what\n"
	"                             says otherwise\n"
	"  -d, --duration SECONDS     how long, fractions allowed (default: until Ctrl-C)\n"
	"  -i, --interval BYTES       mean bytes between samples, K M G allowed (default 512K;\n"
	"                             1 = every allocation, exact)\n"
	"  -o, --output PREFIX        where to write (default memtrace)\n"
	"  -f, --format LIST          heap, collapsed, pprof, svg (a flame graph), symbolized (heap\n"
	"                             with its names, for jeprof without the program), none\n"
	"                             (default heap,collapsed)\n"
	"      --every SECONDS|BYTES  also snapshots, PREFIX.PID.0001.heap ...: so often, or each time\n"
	"                             that much has been allocated (32M); SIGUSR1 writes one now\n"
	"      --peak                 the same whenever live memory is higher than ever by 5 %\n"
	"      --jeprof-names         files are named as jemalloc names its own: PREFIX.PID.3.i3.heap\n"
	"      --weight WHAT          stacks of collapsed and svg by live (bytes, default), objects,\n"
	"                             allocated, freed (bytes of the run) or growth (bytes per second)\n"
	"      --by WHOSE             their first frame tells the thread, process or module (file,\n"
	"                             or component of --modules)\n"
	"      --modules FILE         live memory by component, too, by that file's rules\n"
	"      --threads[=each]       who allocated, who freed whose memory, who owns it: by pools of\n"
	"                             threads, or each\n"
	"      --sites                by stack: allocated, freed, lowest, current and highest\n"
	"      --lifetimes            by stack: how old objects were when they were freed\n"
	"                             (these three: of what is traced continuously)\n"
	"  -n, --top N                rows of the table (default 20)\n"
	"      --json[=FILE]          one JSON object per process instead of the table\n"
	"  -q, --quiet                no table, no status line\n"
	"  -v, --verbose              say what is done\n"
	"      --probe-kind KIND      session, multi or perf instead of the best that works\n"
	"      --alloc FILE:FUNCTION(size=N[*M])->ret\n"
	"                             a function that allocates, too: a pool's, in the mapped file "
	"FILE\n"
	"                             or the program (exe); its size is argument N; ->*N: the "
	"block is\n"
	"                             stored where argument N points; ptr=N: it is a realloc of "
	"that;\n"
	"                             throws: an exception may leave it\n"
	"      --free FILE:FUNCTION(ptr=N)\n"
	"                             a function that frees\n"
	"      --max-live N           samples of living blocks to hold (default 1048576)\n"
	"      --max-stacks N         distinct stacks to hold (default 65536)\n"
	"      --max-frames N         addresses per stack, at most 127 (default 127)\n"
	"      --max-unwind BYTES     kernel memory for unwind tables (default 96M)\n"
	"      --max-symbols BYTES    memory for symbol tables (default 256M)\n"
	"      --no-demangle          linkers' names instead of C++ and Rust ones\n"
	"      --no-inline            no inlined functions, files and lines from debug "
	"information\n"
	"      --help, --version\n";

static const char help_head[] =
	"memtrace [record] -p PID[,PID...] [OPTIONS]\n"
	"memtrace [record] -a|--comm NAME|... [OPTIONS]\n"
	"memtrace [record] [OPTIONS] -- COMMAND ARGS...\n"
	"\n"
	"Profiles the heap of running processes, or of a command from its first allocation, and\n"
	"writes PREFIX.PID.heap (jemalloc's heap_v2, for jeprof) and PREFIX.PID.collapsed (for\n"
	"flame graphs), or with -f pprof PREFIX.PID.pb.gz (for pprof and `memtrace report`).\n"
	"Ends on Ctrl-C, SIGTERM, after the duration or with the target.\n"
	"\n";

static const char help_tail[] =
	"\n"
	"Exit status: 0, 1 (failed), 2 (usage); with a COMMAND that of the command, 128+N when\n"
	"signal N ended it.\n";

static int parse_pids(const char *text, struct record_config *c)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *item;
	uint64_t pid;

	if (!copy)
		return -ENOMEM;
	while ((item = strsep(&rest, ","))) {
		bool known = false;

		if (parse_count(item, 1, INT32_MAX, &pid))
			return usage_error("record", "'%s' is not a pid", item);
		for (size_t i = 0; i < c->n_pids; i++)
			known = known || c->pids[i] == (pid_t)pid;
		if (known)
			continue;
		if (c->n_pids == MAX_PIDS)
			return usage_error("record", "at most %d pids", MAX_PIDS);
		c->pids[c->n_pids++] = (pid_t)pid;
	}
	return 0;
}

/* A list of names, separated by commas: bit i of *ret is set when the i-th is in it. 0; -ENOMEM; the status for
 * a wrong use, having said complaint of the name that is not known. */
static int parse_names(const char *text, const char *const *names, size_t n, const char *complaint,
		       unsigned *ret)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *item;

	if (!copy)
		return -ENOMEM;
	*ret = 0;
	while ((item = strsep(&rest, ","))) {
		size_t i = 0;

		while (i < n && strcmp(item, names[i]))
			i++;
		if (i == n)
			return usage_error("record", complaint, item);
		*ret |= 1U << i;
	}
	return 0;
}

static int parse_formats(const char *text, struct record_config *c)
{
	const char *names[N_FORMATS + 1];
	unsigned found;
	int rc;

	for (size_t i = 0; i < N_FORMATS; i++)
		names[i] = formats[i].name;
	names[N_FORMATS] = "none";
	rc = parse_names(text, names, N_FORMATS + 1,
			 "there is no format '%s': " FORMAT_NAMES ", none", &found);
	for (size_t i = 0; i < N_FORMATS && !rc; i++)
		c->format[i] = found >> i & 1;
	return rc;
}

static int parse_what(const char *text, struct record_config *c)
{
	static const char *const names[] = {"heap", "regions", "growth"}; /* enum session_what */
	int rc = parse_names(text, names, 3,
			     "there is no '%s' to profile: heap, regions, growth", &c->what);

	if (!rc && (c->what & WHAT_HEAP) && (c->what & WHAT_GROWTH))
		return usage_error("record", "growth is what does without the heap's probes: one "
					     "or the other");
	return rc;
}

/* Per cent, of a process's CPU time. */
static int parse_overhead(const char *text, double *ret)
{
	char *end;

	*ret = 0;
	if (!strcmp(text, "off"))
		return 0;
	*ret = strtod(text, &end) / 100;
	if (end == text || *end || !(*ret >= 0.001 && *ret <= 1))
		return usage_error("record",
				   "'%s' is not a share of CPU time: 0.1 to 100 per cent, or off",
				   text);
	return 0;
}

/* For experiments: what each kind adds. */
static int parse_evidence(const char *text, struct record_config *c)
{
	static const char *const names[] = {"events", "content", "mapping",
					    "marks"}; /* enum evidence_kind */

	return parse_names(text, names, 4, "there is no evidence '%s': events, content, mapping, marks",
			   &c->evidence);
}

static bool writes_files(const struct record_config *c)
{
	for (size_t i = 0; i < N_FORMATS; i++)
		if (c->format[i])
			return true;
	return false;
}

static bool shows_views(const struct record_config *c)
{
	for (size_t i = 0; i < N_FORMATS; i++)
		if (c->format[i] && formats[i].views)
			return true;
	return false;
}

static int parse_options(int argc, char **argv, struct record_config *c)
{
	enum {
		OPT_JSON = 256,
		OPT_PROBE_KIND,
		OPT_ALLOC,
		OPT_FREE,
		OPT_MAX_LIVE,
		OPT_MAX_STACKS,
		OPT_MAX_FRAMES,
		OPT_MAX_UNWIND,
		OPT_MAX_SYMBOLS,
		OPT_NO_DEMANGLE,
		OPT_NO_INLINE,
		OPT_COMM,
		OPT_EXE,
		OPT_USER,
		OPT_CGROUP,
		OPT_CONTAINER,
		OPT_SORT,
		OPT_WHAT,
		OPT_REGIONS_AT,
		OPT_MAX_OVERHEAD,
		OPT_MAX_HOST_OVERHEAD,
		OPT_LEAKS,
		OPT_THREADS,
		OPT_SITES,
		OPT_LIFETIMES,
		OPT_RSS,
		OPT_MODULES,
		OPT_WEIGHT,
		OPT_BY,
		OPT_EVERY,
		OPT_PEAK,
		OPT_JEPROF_NAMES,
		OPT_EVIDENCE,
		OPT_WINDOW_PERIOD,
		OPT_HELP,
		OPT_VERSION,
	};
	static const struct option options[] = {
		{"pid", required_argument, NULL, 'p'},
		{"duration", required_argument, NULL, 'd'},
		{"interval", required_argument, NULL, 'i'},
		{"output", required_argument, NULL, 'o'},
		{"format", required_argument, NULL, 'f'},
		{"top", required_argument, NULL, 'n'},
		{"json", optional_argument, NULL, OPT_JSON},
		{"quiet", no_argument, NULL, 'q'},
		{"verbose", no_argument, NULL, 'v'},
		{"probe-kind", required_argument, NULL, OPT_PROBE_KIND},
		{"alloc", required_argument, NULL, OPT_ALLOC},
		{"free", required_argument, NULL, OPT_FREE},
		{"max-live", required_argument, NULL, OPT_MAX_LIVE},
		{"max-stacks", required_argument, NULL, OPT_MAX_STACKS},
		{"max-frames", required_argument, NULL, OPT_MAX_FRAMES},
		{"max-unwind", required_argument, NULL, OPT_MAX_UNWIND},
		{"max-symbols", required_argument, NULL, OPT_MAX_SYMBOLS},
		{"no-demangle", no_argument, NULL, OPT_NO_DEMANGLE},
		{"no-inline", no_argument, NULL, OPT_NO_INLINE},
		{"all", no_argument, NULL, 'a'},
		{"follow", no_argument, NULL, 'F'},
		{"comm", required_argument, NULL, OPT_COMM},
		{"exe", required_argument, NULL, OPT_EXE},
		{"user", required_argument, NULL, OPT_USER},
		{"cgroup", required_argument, NULL, OPT_CGROUP},
		{"container", required_argument, NULL, OPT_CONTAINER},
		{"sort", required_argument, NULL, OPT_SORT},
		{"what", required_argument, NULL, OPT_WHAT},
		{"regions-at", required_argument, NULL, OPT_REGIONS_AT},
		{"max-overhead", required_argument, NULL, OPT_MAX_OVERHEAD},
		{"max-host-overhead", required_argument, NULL, OPT_MAX_HOST_OVERHEAD},
		{"leaks", no_argument, NULL, OPT_LEAKS},
		{"threads", optional_argument, NULL, OPT_THREADS},
		{"sites", no_argument, NULL, OPT_SITES},
		{"lifetimes", no_argument, NULL, OPT_LIFETIMES},
		{"rss", no_argument, NULL, OPT_RSS},
		{"modules", required_argument, NULL, OPT_MODULES},
		{"weight", required_argument, NULL, OPT_WEIGHT},
		{"by", required_argument, NULL, OPT_BY},
		{"every", required_argument, NULL, OPT_EVERY},
		{"peak", no_argument, NULL, OPT_PEAK},
		{"jeprof-names", no_argument, NULL, OPT_JEPROF_NAMES},
		{"evidence", required_argument, NULL, OPT_EVIDENCE},
		{"window-period", required_argument, NULL, OPT_WINDOW_PERIOD},
		{"help", no_argument, NULL, OPT_HELP},
		{"version", no_argument, NULL, OPT_VERSION},
		{},
	};
	uint64_t n;
	char *end;
	int opt, rc, index = 0;

	opterr = 0;
	/* '+': what follows the command's name is the command's; ':' tells a missing argument. */
	while ((opt = getopt_long(argc, argv, "+:p:d:i:o:f:n:aFqvh", options, &index)) != -1) {
		switch (opt) {
		case 'p':
			rc = parse_pids(optarg, c);
			if (rc)
				return rc;
			break;
		case 'd':
			c->duration_s = strtod(optarg, &end);
			if (end == optarg || *end || !(c->duration_s > 0) || c->duration_s > 1e9)
				return usage_error("record",
						   "'%s' is not a duration: seconds, more than 0",
						   optarg);
			break;
		case 'i':
			if (parse_bytes(optarg, 1, ABI_MAX_INTERVAL, &c->capture.interval))
				return usage_error(
					"record",
					"'%s' is not a sampling interval: 1 to 4G bytes, "
					"as in 512K",
					optarg);
			c->interval_given = true;
			break;
		case 'o':
			if (!*optarg)
				return usage_error("record", "the output prefix is empty");
			c->output = optarg;
			c->output_given = true;
			break;
		case 'f':
			rc = parse_formats(optarg, c);
			if (rc)
				return rc;
			c->format_given = true;
			break;
		case 'n':
			if (parse_count(optarg, 1, 1000000, &n))
				return usage_error("record", "'%s' is not a number of rows",
						   optarg);
			c->top = (unsigned)n;
			break;
		case OPT_JSON:
			c->json = true;
			if (optarg && !*optarg)
				return usage_error("record", "--json= needs a file's name");
			c->json_path = optarg;
			break;
		case 'q':
			c->quiet = true;
			break;
		case 'v':
			c->verbose = c->capture.verbose = true;
			break;
		case OPT_PROBE_KIND:
			for (c->capture.kind = 0; c->capture.kind < PROBE_KINDS; c->capture.kind++)
				if (!strcmp(optarg,
					    probe_kind__name((enum probe_kind)c->capture.kind)))
					break;
			if (c->capture.kind == PROBE_KINDS)
				return usage_error(
					"record",
					"there is no kind of probe '%s': session, multi, perf",
					optarg);
			break;
		case OPT_ALLOC:
		case OPT_FREE:
			rc = add_alloc_option(&c->extra, "record", optarg, opt == OPT_FREE);
			if (rc)
				return rc;
			c->capture.extra = c->extra.list;
			c->capture.n_extra = c->extra.n;
			break;
		case OPT_MAX_LIVE:
			if (parse_count(optarg, 1, 1U << 30, &n))
				return usage_error("record", "'%s' is not a number of samples",
						   optarg);
			c->capture.max_live = (uint32_t)n;
			break;
		case OPT_MAX_STACKS:
			if (parse_count(optarg, 1, 1U << 24, &n))
				return usage_error("record", "'%s' is not a number of stacks",
						   optarg);
			c->capture.max_stacks = (uint32_t)n;
			c->capture.max_sites = (uint32_t)n * 2;
			break;
		case OPT_MAX_FRAMES:
			if (parse_count(optarg, 2, ABI_STACK_FRAMES, &n))
				return usage_error("record",
						   "'%s' is not a number of frames from 2 to "
						   "127",
						   optarg);
			c->capture.max_frames = (uint32_t)n;
			break;
		case OPT_MAX_UNWIND:
			if (parse_bytes(optarg, 64 << 10, 1ULL << 36, &c->capture.max_unwind))
				return usage_error("record",
						   "'%s' is not a size for unwind tables: 64K to "
						   "64G bytes",
						   optarg);
			break;
		case OPT_MAX_SYMBOLS:
			if (parse_bytes(optarg, 1, 1ULL << 40, &c->symbolize.max_bytes))
				return usage_error("record",
						   "'%s' is not a size for symbol tables: 1 to "
						   "1024G bytes",
						   optarg);
			break;
		case OPT_NO_DEMANGLE:
			c->symbolize.raw_names = true;
			break;
		case OPT_NO_INLINE:
			c->symbolize.no_lines = true;
			break;
		case 'a':
		case 'F':
		case OPT_COMM:
		case OPT_EXE:
		case OPT_USER:
		case OPT_CGROUP:
		case OPT_CONTAINER:
			rc = selection_config__take(&c->selection, "record",
						    opt == 'a'	 ? "all"
						    : opt == 'F' ? "follow"
								 : options[index].name,
						    optarg);
			if (rc)
				return rc;
			break;
		case OPT_SORT:
			for (c->sort = 0; c->sort < PROCESS_SORTS; c->sort++)
				if (!strcmp(optarg, process_sort__name(c->sort)))
					break;
			if (c->sort == PROCESS_SORTS)
				return usage_error("record",
						   "processes are sorted by growth, live or rss, "
						   "not by '%s'",
						   optarg);
			break;
		case OPT_WHAT:
			c->what_given = true;
			rc = parse_what(optarg, c);
			if (rc)
				return rc;
			break;
		case OPT_REGIONS_AT:
			if (!strcmp(optarg, "libc"))
				c->region_place = REGIONS_LIBC;
			else if (!strcmp(optarg, "syscalls"))
				c->region_place = REGIONS_SYSCALLS;
			else
				return usage_error("record",
						   "regions are seen at libc or at syscalls, not "
						   "at '%s'",
						   optarg);
			break;
		case OPT_MAX_OVERHEAD:
			rc = parse_overhead(optarg, &c->max_overhead);
			if (rc)
				return rc;
			c->overhead_given = true;
			break;
		case OPT_MAX_HOST_OVERHEAD:
			rc = parse_overhead(optarg, &c->max_host_overhead);
			if (rc)
				return rc;
			break;
		case OPT_THREADS:
			if (optarg && strcmp(optarg, "each"))
				return usage_error("record", "--threads or --threads=each, not '%s'", optarg);
			c->threads = true;
			c->each_thread = optarg != NULL;
			break;
		case OPT_SITES:
			c->sites = true;
			break;
		case OPT_LIFETIMES:
			c->lifetimes = true;
			break;
		case OPT_LEAKS:
			c->leaks = true;
			break;
		case OPT_RSS:
			c->resident = true;
			break;
		case OPT_MODULES:
			rc = load_modules(optarg, &c->modules);
			if (rc)
				return rc;
			break;
		case OPT_WEIGHT:
		case OPT_BY:
			rc = take_view_option(&c->view, "record", opt == OPT_BY ? "by" : "weight", optarg);
			if (rc)
				return rc;
			break;
		case OPT_EVERY:
			if (snapshots__parse_every(&c->snapshots, optarg))
				return usage_error("record",
						   "'%s' is neither seconds (0.1 or more) nor bytes (4K or more, as in 32M)",
						   optarg);
			break;
		case OPT_PEAK:
			c->snapshots.at_peaks = true;
			break;
		case OPT_JEPROF_NAMES:
			c->jeprof_names = true;
			break;
		case OPT_EVIDENCE:
			rc = parse_evidence(optarg, c);
			if (rc)
				return rc;
			break;
		case OPT_WINDOW_PERIOD: /* for tests, in ms: a thousand windows in a minute */
			if (parse_count(optarg, 10, 10000, &c->window_period_ms))
				return usage_error("record", "'%s' is not 10 to 10000 ms", optarg);
			break;
		case 'h':
		case OPT_HELP:
			fputs(help_head, stdout);
			fputs(record_options, stdout);
			fputs(help_tail, stdout);
			exit(0);
		case OPT_VERSION:
			puts("memtrace " MEMTRACE_VERSION);
			exit(0);
		case ':':
			return usage_error("record", "%s needs a value", argv[optind - 1]);
		default:
			return usage_error("record", "there is no option %s", argv[optind - 1]);
		}
	}
	if (optind < argc) {
		/* A command must follow "--", so that a forgotten -p does not start one. */
		if (strcmp(argv[optind - 1], "--"))
			return usage_error("record",
					   "'%s' is no option; a command to run goes after --",
					   argv[optind]);
		c->command = argv + optind;
	}
	if (!c->command && !c->n_pids && !c->selection.selection.dynamic)
		return usage_error("record", "which process? -p PID, -a, or -- COMMAND");
	if (c->leaks && !c->interval_given)
		c->capture.interval = LEAKS_INTERVAL;
	/* Who asks for every allocation wants no windows. */
	if (!c->overhead_given && c->capture.interval == 1)
		c->max_overhead = 0;
	/* Hundreds of processes leave files only when they are asked for. */
	if (c->selection.selection.dynamic && !c->output_given && !c->format_given)
		memset(c->format, 0, sizeof(c->format));
	if (isfinite(snapshots__look_every_s(&c->snapshots)) && !writes_files(c))
		return usage_error("record", "snapshots in which format? -f LIST");
	c->view.modules = c->modules;
	if (view_options__contradiction(&c->view))
		return usage_error("record", "%s", view_options__contradiction(&c->view));
	if (view_options__any(&c->view) && !shows_views(c))
		return usage_error("record", "--weight and --by are for -f collapsed and svg");
	if (c->modules && c->selection.given)
		return usage_error("record", "--modules shows what is in one process: name it by -p, or run a command");
	if (c->resident && c->selection.given)
		return usage_error("record", "--rss shows what is in one process: name it by -p, or run a command");
	if (c->command && c->n_pids)
		return usage_error("record", "either -p or a command, not both");
	return 0;
}

/* --- output --- */

/* number: of a snapshot, "" for none. what: enum session_what. */
static char *output_path(const struct record_config *c, pid_t pid, const char *number, unsigned what,
			 const char *extension)
{
	char *path;

	const char *part = what == WHAT_REGIONS ? "regions."
			   : what == WHAT_GROWTH ? "growth."
						 : "";

	return asprintf(&path, "%s.%d.%s%s%s%s", c->output, pid, number, *number ? "." : "", part, extension) < 0
		       ? NULL
		       : path;
}

/* Better to hear it now than after an hour of tracing. */
static int check_outputs(const struct record_config *c, struct error *err)
{
	/* a pid that is not known yet: the longest there is will do */
	const pid_t longest = 4194304;
	bool named = !c->command && !c->selection.given;
	const pid_t *pids = named ? c->pids : &longest;
	size_t n = named ? c->n_pids : 1;

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < 3 * N_FORMATS; j++) {
			_cleanup_free_ char *path = NULL;
			unsigned what = WHAT_HEAP << (j / N_FORMATS);
			int rc;

			if (!c->format[j % N_FORMATS] || !(c->what & what))
				continue;
			path = output_path(c, pids[i], "", what,
					   formats[j % N_FORMATS].extension);
			rc = path ? outfile__check(path, err) : -ENOMEM;
			if (rc)
				return rc;
		}
	return c->json_path && !is_stream(c->json_path) ? outfile__check(c->json_path, err) : 0;
}

/* Regions that were looked at for leaks or the resident set, too, and nobody asked for. */
static bool is_aside(const struct record_config *c, const struct profile *p)
{
	return profile__is_regions(p) && !c->what_given;
}

static unsigned what_of(const struct profile *p)
{
	return profile__is_regions(p) ? WHAT_REGIONS : profile__is_growth(p) ? WHAT_GROWTH : WHAT_HEAP;
}

/* The summary, which comes at the end, tells it. */
static int remember(struct record_config *c, const struct profile *p, const char *path)
{
	struct written *grown = reallocarray(c->written, c->n_written + 1, sizeof(*grown));
	char *copy = strdup(path);

	if (grown)
		c->written = grown;
	if (!grown || !copy) {
		free(copy);
		return -ENOMEM;
	}
	grown[c->n_written++] = (struct written){p->pid, what_of(p), copy};
	return 0;
}

static int tell_snapshots(const struct record_config *c, struct profile *p)
{
	for (size_t i = 0; i < c->n_written; i++) {
		if (c->written[i].pid != p->pid || c->written[i].what != what_of(p))
			continue;
		if (profile__add_file(p, c->written[i].path))
			return -ENOMEM;
		p->n_snapshots++;
	}
	return 0;
}

/* told: the profile itself, of the last ones, which learns of them. */
static int write_files(struct record_config *c, const struct profile *p, enum snapshot_cause cause,
		       struct profile *told)
{
	char number[32] = "";
	int status = 0;

	if (cause != SNAPSHOT_FINAL || c->jeprof_names)
		snapshots__name(&c->snapshots, cause, c->jeprof_names, number);
	if (told && tell_snapshots(c, told))
		status = EXIT_FAILED;
	for (size_t i = 0; i < N_FORMATS; i++) {
		_cleanup_free_ char *path = NULL;

		if (!c->format[i] || is_aside(c, p))
			continue;
		path = output_path(c, p->pid, number, what_of(p), formats[i].extension);
		if (!path || write_file(path, &formats[i], p, &c->view, path))
			status = EXIT_FAILED;
		else if (told ? profile__add_file(told, path) : remember(c, p, path))
			status = EXIT_FAILED;
	}
	return status;
}

struct profile_list {
	const struct record_config *config;
	struct profile *const *profiles;
	size_t n;
};

static int encode_objects(const void *what, struct sink *sink)
{
	const struct profile_list *list = what;
	int rc = 0;

	for (size_t i = 0; i < list->n && !rc; i++) {
		bool aside = is_aside(list->config, list->profiles[i]);

		rc = encode_json_modules(list->profiles[i], aside ? NULL : list->config->modules, sink);
	}
	return rc;
}

/* The tables that were asked for besides. */
static int put_views(const struct record_config *c, const struct profile *profile, const struct table_options *options,
		     struct sink *sink)
{
	int rc = 0;

	if (profile__is_regions(profile) || profile__is_growth(profile))
		return 0;
	if (c->threads)
		rc = sink__puts(sink, "\n") ?: encode_threads(profile, options, c->each_thread, sink);
	if (!rc && c->sites)
		rc = sink__puts(sink, "\n") ?: encode_sites(profile, options, sink);
	if (!rc && c->lifetimes)
		rc = sink__puts(sink, "\n") ?: encode_lifetimes(profile, options, sink);
	return rc;
}

static int write_tables(const struct record_config *c, struct profile *const *profiles, size_t n)
{
	struct process_table_options processes = {.sort = c->sort, .top = c->top, .width = 120};
	struct sink sink = sink__to_stream(stdout);
	struct table_options options = {.top = c->top, .leaks = c->leaks};
	int rc = 0;

	fit_terminal(&options);
	if (c->selection.given) {
		processes.width = options.width;
		processes.color = options.color;
		_cleanup_free_ const struct profile **rows = calloc(n + 1, sizeof(*rows));
		size_t n_rows = 0;

		/* a row per process: of its heap, if that was profiled */
		for (size_t i = 0; rows && i < n; i++)
			if (profile__is_regions(profiles[i]) == (c->what == WHAT_REGIONS))
				rows[n_rows++] = profiles[i];
		rc = rows ? encode_processes(rows, n_rows, &processes, &sink) : -ENOMEM;
	}
	for (size_t i = 0; i < n && !rc && !c->selection.given; i++) {
		if (is_aside(c, profiles[i]) && !(c->leaks && profile__leaks(profiles[i])))
			continue;
		if (i)
			sink__puts(&sink, "\n");
		rc = encode_table(profiles[i], &options, &sink);
		if (!rc && c->leaks && profiles[i]->has_growth)
			rc = sink__puts(&sink, "\n") ?: encode_leaks(profiles[i], &options, &sink);
		if (!rc)
			rc = put_views(c, profiles[i], &options, &sink);
		if (!rc && c->modules && !is_aside(c, profiles[i]))
			rc = sink__puts(&sink, "\n") ?: encode_modules(profiles[i], c->modules, false, &sink);
		if (!rc && c->resident && (!i || profiles[i - 1]->pid != profiles[i]->pid))
			rc = sink__puts(&sink, "\n") ?: encode_resident(profiles[i], &options, &sink);
	}
	if (rc || fflush(stdout)) {
		complain("cannot write to standard output: %s", strerror(rc ? -rc : errno));
		return EXIT_FAILED;
	}
	return 0;
}

/* --- while it goes on --- */

struct snapshot_run {
	struct record_config *config;
	enum snapshot_cause cause;
	int status;
};

static int write_snapshot(void *ctx, const struct profile *profile)
{
	struct snapshot_run *run = ctx;

	if (write_files(run->config, profile, run->cause, NULL))
		run->status = EXIT_FAILED;
	return 0;
}

/* A failure is told at once, and in the end: the tracing goes on. */
static int take_snapshot(struct record_config *c, struct session *s, enum snapshot_cause cause)
{
	struct snapshot_run run = {c, cause, 0};
	int rc;

	if (!writes_files(c)) {
		complain("no snapshot: no format was asked for (-f)");
		return 0;
	}
	rc = session__peek(s, write_snapshot, &run);
	if (rc)
		complain("no snapshot: %s", strerror(-rc));
	else if (c->verbose)
		complain("snapshot %u", c->snapshots.n + 1);
	snapshots__written(&c->snapshots, cause);
	return rc ? EXIT_FAILED : run.status;
}

#define LEADER_EVERY_S 10.0

struct status_line {
	bool shown;
	double last_s, last_live;
	uint64_t last_alloc, last_free;
};

static void clear_status(struct status_line *line)
{
	if (line->shown)
		fputs("\r\033[K", stderr);
	line->shown = false;
}

/* Calls that turn out to be the allocator's own are taken off again: a count can step back a
 * little. */
static double calls_per_s(uint64_t now, uint64_t before, double seconds)
{
	return now > before ? (double)(now - before) / seconds : 0;
}

/* Adds a field to the line where it fits whole. */
static void add_field(char *line, size_t columns, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void add_field(char *line, size_t columns, const char *fmt, ...)
{
	size_t len = strlen(line);
	char field[96];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(field, sizeof(field), fmt, ap);
	va_end(ap);
	if (len + strlen(field) < columns)
		strcpy(line + len, field);
}

static double monotonic_s(void)
{
	return (double)clock__now_ns(CLOCK_MONOTONIC) / 1e9;
}

static int show_leader(void *ctx, const struct profile *profile)
{
	struct sink sink = sink__to_stream(stderr);

	(void)ctx;
	if (profile__is_regions(profile) && !profile__leaks(profile))
		return 0;
	fputs("memtrace: ", stderr);
	encode_leader(profile, 0, &sink);
	fputc('\n', stderr);
	return 0;
}

/* Who waits for a leak need not wait for the end. When to say it again: so that it takes a hundredth of our
 * time. */
static double show_leaders(struct session *s)
{
	double start = monotonic_s(), took;

	session__peek(s, show_leader, NULL);
	took = monotonic_s() - start;
	return monotonic_s() + fmax(LEADER_EVERY_S, 100 * took);
}

static void show_status(struct session *s, struct status_line *line)
{
	char text[512] = "", live[16], growth[16];
	struct session_status st;
	struct winsize size;
	size_t columns = 80;
	double dt;

	session__status(s, &st);
	dt = st.elapsed_s - line->last_s;
	if (dt <= 0)
		return;
	/* A line that wraps cannot be written over. */
	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1)
		columns = size.ws_col < sizeof(text) ? size.ws_col : sizeof(text);
	format_bytes(fabs(st.live_bytes - line->last_live) / dt, growth);
	/* What matters most comes first: a narrow terminal loses the end. */
	add_field(text, columns, "%.0f s", st.elapsed_s);
	add_field(text, columns, "  live ~%s %c%s/s", format_bytes(st.live_bytes, live),
		  st.live_bytes < line->last_live ? '-' : '+', growth);
	if (st.overhead_pct >= 0)
		add_field(text, columns, "  cost ~%.*f %%", st.overhead_pct < 10 ? 1 : 0,
			  st.overhead_pct);
	if (st.windowed)
		add_field(text, columns, " (in windows)");
	add_field(text, columns, "  alloc %.0f/s",
		  calls_per_s(st.alloc_calls, line->last_alloc, dt));
	add_field(text, columns, "  free %.0f/s", calls_per_s(st.free_calls, line->last_free, dt));
	add_field(text, columns, "  samples %llu", (unsigned long long)st.samples);
	if (!session__command(s))
		add_field(text, columns, "  (Ctrl-C ends)");
	fprintf(stderr, "\r\033[K%s", text);
	line->shown = true;
	line->last_s = st.elapsed_s;
	line->last_live = st.live_bytes;
	line->last_alloc = st.alloc_calls;
	line->last_free = st.free_calls;
}

/* A command shares the terminal's Ctrl-C with memtrace and decides for itself what it means;
 * SIGTERM goes to memtrace alone and is passed on. Without a command either ends the tracing. A
 * second one always does. True: the tracing is over. */
static bool take_signal(int signal_fd, struct session *s, struct snapshots *snapshots, int *signals)
{
	struct signalfd_siginfo info;
	pid_t command = session__command(s);

	if (read(signal_fd, &info, sizeof(info)) != sizeof(info))
		return false;
	if (info.ssi_signo == SIGUSR1) {
		snapshots->asked = true;
		return false;
	}
	if (!command || ++*signals > 1)
		return true;
	if (info.ssi_signo != SIGINT || info.ssi_code != SI_KERNEL)
		kill(command, (int)info.ssi_signo);
	return false;
}

static int keep_snapshots(struct record_config *c, struct session *s, struct status_line *line)
{
	enum snapshot_cause cause;
	struct session_status st;

	session__status(s, &st);
	cause = snapshots__due(&c->snapshots, st.elapsed_s, st.alloc_bytes, st.live_bytes);
	if (cause == SNAPSHOT_NONE)
		return 0;
	clear_status(line);
	return take_snapshot(c, s, cause);
}

/* 0, or the status when a snapshot could not be written. */
static int run(struct record_config *c, struct session *s, int signal_fd)
{
	struct status_line line = {};
	/* A command that writes to the terminal has it for itself. */
	bool show = !c->quiet && isatty(STDERR_FILENO) && !(c->command && isatty(STDOUT_FILENO));
	double start = monotonic_s(), next = start + 1, leaders = start + LEADER_EVERY_S;
	struct pollfd fds[2] = {{.fd = session__fd(s), .events = POLLIN},
				{.fd = signal_fd, .events = POLLIN}};
	double every = snapshots__look_every_s(&c->snapshots), snapshots = start + every;
	int signals = 0, status = 0;

	for (;;) {
		double now = monotonic_s(), wait = fmin(next, snapshots) - now;

		if (c->duration_s > 0) {
			double left = start + c->duration_s - now;

			if (left <= 0)
				break;
			wait = left < wait ? left : wait;
		}
		/* rounded up, or the last millisecond is spent in a busy loop */
		poll(fds, 2, wait > 0 ? (int)ceil(wait * 1000) : 0);
		if ((fds[1].revents & POLLIN) && take_signal(signal_fd, s, &c->snapshots, &signals))
			break;
		if (session__dispatch(s))
			break;
		if (c->snapshots.asked || monotonic_s() >= snapshots) {
			double asked = monotonic_s();

			if (keep_snapshots(c, s, &line))
				status = EXIT_FAILED;
			/* a tenth of our time at most: what is due meanwhile is one snapshot */
			snapshots = monotonic_s() + fmax(every, 10 * (monotonic_s() - asked));
		}
		if (c->leaks && !c->quiet && !c->selection.given && monotonic_s() >= leaders) {
			clear_status(&line);
			leaders = show_leaders(s);
		}
		if (monotonic_s() >= next) {
			next = monotonic_s() + 1;
			if (show) {
				show_status(s, &line);
			} else {
				struct session_status ignored; /* keeps the CPU times fresh */

				session__status(s, &ignored);
			}
		}
	}
	clear_status(&line);
	return status;
}

/* As a shell tells how a command ended. */
static int exit_status(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* The tracing is over, a command may still run: as its caller expects, wait for it. */
static int wait_command(struct session *s, int signal_fd)
{
	struct pollfd fds[2] = {{.fd = session__fd(s), .events = POLLIN},
				{.fd = signal_fd, .events = POLLIN}};
	struct signalfd_siginfo info;
	int status;

	while (!session__command_ended(s, &status)) {
		poll(fds, 2, 1000);
		if ((fds[1].revents & POLLIN) &&
		    read(signal_fd, &info, sizeof(info)) == sizeof(info) &&
		    info.ssi_signo != SIGUSR1 && (info.ssi_signo != SIGINT || info.ssi_code != SI_KERNEL) && session__command(s))
			kill(session__command(s), (int)info.ssi_signo);
		session__dispatch(s);
	}
	return exit_status(status);
}

static void say_start(const struct record_config *c, struct session *s)
{
	size_t n;
	const struct capture_probe *probes;

	probes = session__probes(s, &n);
	for (size_t i = 0; i < c->capture.n_extra; i++) {
		bool found = false;

		for (size_t j = 0; j < n; j++)
			found = found || probes[j].point->name == c->extra.list[i].symbol;
		if (!found)
			complain("no file %s is mapped (yet): %s is awaited there",
				 c->extra.list[i].file, c->extra.list[i].symbol);
	}
	if (!c->verbose)
		return;
	for (size_t i = 0; i < n; i++) {
		char where[32] = "all processes";

		if (probes[i].pid)
			snprintf(where, sizeof(where), "pid %d", probes[i].pid);
		complain("probe on %s+%u (%s%s) of %s in %s", probes[i].point->name,
			 probes[i].point->site.delta, probes[i].point->site.instruction,
			 probes[i].point->site.emulated ? "" : ", single-stepped",
			 probes[i].allocator->path, where);
	}
	if (c->what & WHAT_REGIONS)
		complain("regions: %s", session__region_place(s));
	complain("kind of probe: %s; tracing", probe_kind__name(session__kind(s)));
}

DEFINE_CLEANUP(struct session *, cleanup_session, session__free)

static void do_nothing(int signal)
{
	(void)signal;
}

int cmd_record(int argc, char **argv)
{
	static struct record_config config = {
		.what = WHAT_HEAP,
		.max_host_overhead = 0.02,
		.output = "memtrace",
		.max_overhead = 0.05,
		.capture = {.interval = 512 * 1024, .kind = -1},
	};
	_cleanup_(cleanup_session) struct session *session = NULL;
	_cleanup_close_ int signal_fd = -1;
	struct session_options options = {};
	struct profile *const *profiles;
	struct error err = {};
	size_t n_profiles;
	struct sigaction hangup;
	int status, wait_status = EXIT_FAILED << 8;
	sigset_t signals;

	for (size_t i = 0; i < N_FORMATS; i++)
		config.format[i] = formats[i].by_default;
	status = parse_options(argc, argv, &config);
	if (status)
		return status;
	if (check_outputs(&config, &err))
		return fail(&err);
	if (selection_config__open(&config.selection, &err))
		return fail(&err);

	if (config.selection.given)
		options.selection = &config.selection.selection;
	options.pids = config.pids;
	options.n_pids = config.n_pids;
	options.command = config.command;
	options.what = config.what;
	options.regions_if_easy = (config.leaks || config.resident) && !config.what_given;
	options.resident = config.resident;
	options.region_place = config.region_place;
	options.max_overhead = config.max_overhead;
	options.max_host_overhead = config.max_host_overhead;
	options.overhead_given = config.overhead_given;
	options.evidence = config.evidence;
	options.window_period_ns = config.window_period_ms * 1000000;
	options.capture = config.capture;
	options.symbolize = config.symbolize;
	options.ret_command_status = &wait_status;
	/* One that comes before there are snapshots is no reason to end, and a command does not inherit a handler. */
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = do_nothing, .sa_flags = SA_RESTART}, NULL);
	/* Ignored, a command's end would not be told. */
	signal(SIGCHLD, SIG_DFL);
	switch (session__open(&options, &session, &err)) {
	case 0:
		break;
	case -ECHILD:
		fail(&err);
		return exit_status(wait_status);
	default:
		return fail(&err);
	}

	/* From here on a signal ends the tracing, not memtrace: nothing captured may be lost. Only
	 * now, because a command must not inherit the mask. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGUSR1);
	/* nohup's way to say that the terminal's end is no reason to stop */
	if (sigaction(SIGHUP, NULL, &hangup) || hangup.sa_handler != SIG_IGN)
		sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0) {
		complain("cannot take signals: %s", strerror(errno));
		return EXIT_FAILED;
	}
	if (session__start(session, &err))
		return fail(&err);
	say_start(&config, session); /* only now is it true */
	status = run(&config, session, signal_fd);
	session__stop(session);

	if (session__profiles(session, &profiles, &n_profiles, &err)) {
		status = fail(&err);
	} else {
		for (size_t i = 0; i < n_profiles; i++) {
			profiles[i]->all_stacks = config.sites || config.lifetimes;
			if (write_files(&config, profiles[i], SNAPSHOT_FINAL, profiles[i]))
				status = EXIT_FAILED;
		}
		if (config.json && write_text(config.json_path, encode_objects,
					   &(struct profile_list){&config, profiles, n_profiles}))
			status = EXIT_FAILED;
		if (!config.json && !config.quiet && write_tables(&config, profiles, n_profiles))
			status = EXIT_FAILED;
	}
	session__detach(session);
	if (config.command) {
		int command_status = wait_command(session, signal_fd);

		if (!status)
			status = command_status;
	}
	return status;
}
